//! Members that will never answer: a person ends the wait, and what stays behind is written down.

use serde_json::json;
use testkit::world::{At, Who};
use vidra_api::TargetState;

use crate::{config_map, member_without_credentials, says, scenario, uid};

#[test]
fn a_deselected_member_that_is_silent_is_forgotten_on_a_persons_word_and_may_come_back() {
    scenario(async |world| {
        world.register(&["berlin", "austin"]).await;
        let manifest = config_map("settings", "one") + &config_map("old", "one");
        world.deliver("shop", &["berlin", "austin"], &manifest).await;
        world.ready("shop").await;
        let austin = world.alice("austin").await;
        let forget =
            |value: serde_json::Value| json!({"metadata": {"annotations": {"vidra.dev/forget": value}}});

        let frozen = world.freeze("austin");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.target_is("shop", "austin", TargetState::Terminating, "MemberUnreachable").await;
        // Another name lets nobody go.
        world.hub.merge(&world.resource_at("shop"), forget(json!("tokyo"))).await;
        world.reconcile_now("shop", "1").await;
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        assert!(world.target("shop", "austin").await.is_some());

        world.hub.merge(&world.resource_at("shop"), forget(json!("austin"))).await;
        world.hub.gone(&world.target_at("shop", "austin")).await;
        let status = world.ready("shop").await.status.unwrap();
        let left = &status.left_behind[0];
        assert_eq!((left.cluster.as_str(), left.objects), ("austin", 2));
        assert!(left.names.contains("settings") && left.names.contains("old"), "{left:?}");
        assert_eq!(world.inventory("shop", "austin").await, []);

        // It answers after all and is selected again: what was left behind is known again, also what is not declared.
        drop(frozen);
        world.hub.merge(&world.resource_at("shop"), forget(json!(null))).await;
        world.deliver("shop", &["berlin", "austin"], &config_map("settings", "two")).await;
        austin.when(&At::config_map(&world.ns, "settings"), "the change", says("two")).await;
        austin.gone(&At::config_map(&world.ns, "old")).await;
        let status = world.ready("shop").await.status.unwrap();
        assert_eq!(status.left_behind, []);
        world.end().await;
    });
}

#[test]
fn a_deleted_resource_and_a_deleted_member_do_not_wait_for_what_is_forgotten() {
    scenario(async |world| {
        world.register(&["berlin", "austin"]).await;
        let settings = At::config_map(&world.ns, "settings");
        for name in ["shop", "bank"] {
            world.deliver(name, &["berlin", "austin"], &config_map(name, "one")).await;
            world.ready(name).await;
        }
        let forget = |value: &str| json!({"metadata": {"annotations": {"vidra.dev/forget": value}}});
        let frozen = world.freeze("austin");
        world.hub.delete(&world.resource_at("shop")).await;
        world.target_is("shop", "austin", TargetState::Terminating, "MemberUnreachable").await;
        world.hub.merge(&world.resource_at("shop"), forget("austin")).await;
        world.removed("shop").await;

        world.hub.delete(&world.member_at("austin")).await;
        world.target_is("bank", "austin", TargetState::Terminating, "MemberUnreachable").await;
        world.hub.merge(&world.member_at("austin"), forget("true")).await;
        world.hub.gone(&world.member_at("austin")).await;
        assert_eq!(world.inventory("bank", "austin").await, []);
        let bank = world.resource_says("bank", "Ready", "False", "ClusterNotFound").await;
        assert_eq!(bank.status.unwrap().left_behind[0].cluster, "austin");

        drop(frozen);
        let austin = world.alice("austin").await;
        for name in ["shop", "bank"] {
            assert!(says("one")(&austin.live(&At::config_map(&world.ns, name)).await));
            austin.delete(&At::config_map(&world.ns, name)).await;
        }
        assert!(austin.get(&settings).await.is_none());
        world.end().await;
    });
}

#[test]
fn a_member_that_answers_is_cleaned_up_whatever_an_old_annotation_says() {
    scenario(async |world| {
        world.register(&["berlin", "austin"]).await;
        world.deliver("shop", &["berlin", "austin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let forget = json!({"metadata": {"annotations": {"vidra.dev/forget": "austin"}}});
        world.hub.merge(&world.resource_at("shop"), forget).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.alice("austin").await.gone(&At::config_map(&world.ns, "settings")).await;
        assert_eq!(world.ready("shop").await.status.unwrap().left_behind, []);
        world.end().await;
    });
}

#[test]
fn a_twin_that_lost_its_cluster_to_an_older_one_leaves_and_deletes_nothing_whatever_its_on_leave_says() {
    scenario(async |world| {
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        member_without_credentials(&world, "austin").await;
        world.register(&["berlin"]).await;
        world.hub.merge(&world.member_at("berlin"), json!({"spec": {"onLeave": "Delete"}})).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let live = alice.live(&settings).await;
        world.register_as("austin", &world.kubeconfig("berlin", Who::VidraHub), json!({})).await;
        world.member_says("austin", "Ready", "True").await;
        let message = world.member_says("berlin", "IdentityConfirmed", "False").await;
        assert!(message.contains("austin"), "{message}");

        let mark = world.mark();
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        assert_eq!(world.writes("berlin", &mark), []);
        assert_eq!(alice.live(&settings).await, live);
        let shop = world.resource_says("shop", "Ready", "False", "ClusterNotFound").await;
        let left = shop.status.unwrap().left_behind;
        assert_eq!((left[0].cluster.as_str(), left[0].objects), ("berlin", 1));

        // By the name that it has now, its objects are known again.
        world.deliver("shop", &["austin"], &config_map("settings", "two")).await;
        world.ready("shop").await;
        assert_eq!(uid(&alice.live(&settings).await), uid(&live));
        world.end().await;
    });
}
