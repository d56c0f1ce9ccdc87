//! A silent member that is deleted and whose objects would only be let go: the wait ends by itself. In memory only, where
//! ten minutes are no time.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::world::{At, Frozen, SOON, Who, World, wait_for};
use vidra_api::TargetState;

use super::scenario;
use crate::{config_map, marks, resource_missing::vanishes, says};

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(60 * count)).await;
}

/// Delivers to berlin and austin.
async fn delivered(world: &World) {
    world.register(&["berlin", "austin"]).await;
    world.deliver("shop", &["berlin", "austin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
}

/// The same, and austin is deleted an hour after it has fallen silent.
async fn deleted_while_silent(world: &World) -> Frozen {
    delivered(world).await;
    let frozen = world.freeze("austin");
    world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
    minutes(60).await;
    world.hub.delete(&world.member_at("austin")).await;
    world.target_is("shop", "austin", TargetState::Terminating, "MemberUnreachable").await;
    frozen
}

async fn is_there(world: &World) -> bool {
    world.member("austin").await.is_some()
}

/// Austin is let go by itself, and what stays behind there is written down.
async fn is_let_go(world: &World) {
    world.hub.gone(&world.member_at("austin")).await;
    let shop = world.resource_says("shop", "Ready", "False", "ClusterNotFound").await;
    let left = &shop.status.unwrap().left_behind[0];
    assert_eq!((left.cluster.as_str(), left.objects), ("austin", 1));
    assert!(left.names.contains("settings"), "{left:?}");
    assert_eq!(world.inventory("shop", "austin").await, []);
    let said = |event: &Value| {
        let note = event["note"].as_str().unwrap_or_default();
        event["reason"] == "LeftBehind" && note.contains("austin") && note.contains("10 minutes")
    };
    let events = At::new("events.k8s.io/v1", "Event", &world.ns, "");
    wait_for("an Event", SOON, async || {
        let all = world.hub.list(&events).await;
        let notes = all.iter().map(|event| event["note"].to_string()).collect::<Vec<_>>();
        all.iter().any(said).then_some(()).ok_or_else(|| notes.join(", "))
    })
    .await;
}

async fn clean_up(world: World) {
    let (alice, settings) = (world.alice("austin").await, At::config_map(&world.ns, "settings"));
    let left = alice.live(&settings).await;
    assert!(says("one")(&left) && !marks(&left).is_empty(), "as it was: {left}");
    alice.delete(&settings).await;
    world.end().await;
}

#[test]
fn a_silent_member_that_is_deleted_is_let_go_by_itself_ten_minutes_later() {
    scenario(async |mut world| {
        let frozen = deleted_while_silent(&world).await;
        minutes(5).await;
        // A new process does not count again.
        world.restart_hub().await;
        minutes(4).await;
        assert!(is_there(&world).await);
        minutes(2).await;
        is_let_go(&world).await;
        drop(frozen);
        clean_up(world).await;
    });
}

#[test]
fn a_deleted_member_without_credentials_is_let_go_by_itself_ten_minutes_later() {
    scenario(async |mut world| {
        delivered(&world).await;
        world.hub.delete(&world.registration("austin")).await;
        world.member_says("austin", "CredentialsValid", "False").await;
        world.hub.delete(&world.member_at("austin")).await;
        world.target_is("shop", "austin", TargetState::Terminating, "NoCredentials").await;
        minutes(9).await;
        assert!(is_there(&world).await);
        world.restart_hub().await;
        minutes(2).await;
        is_let_go(&world).await;
        clean_up(world).await;
    });
}

#[test]
fn a_deleted_member_for_which_another_cluster_answers_is_let_go_by_itself_ten_minutes_later() {
    scenario(async |world| {
        delivered(&world).await;
        world.register_as("austin", &world.kubeconfig("tokyo", Who::VidraHub), json!({})).await;
        world.member_says("austin", "IdentityConfirmed", "False").await;
        world.hub.delete(&world.member_at("austin")).await;
        world.target_is("shop", "austin", TargetState::Terminating, "IdentityNotConfirmed").await;
        minutes(9).await;
        assert!(is_there(&world).await);
        minutes(2).await;
        is_let_go(&world).await;
        clean_up(world).await;
    });
}

#[test]
fn a_silent_member_that_is_deleted_is_let_go_ten_minutes_later_though_a_resource_is_missing() {
    scenario(async |mut world| {
        delivered(&world).await;
        world.stop_hub().await;
        vanishes(&world, &world.resource_at("shop"), "Orphan").await;
        world.start_hub().await;
        world.target_is("shop", "austin", TargetState::Unknown, "ResourceMissing").await;
        let frozen = world.freeze("austin");
        world.member_says("austin", "Reachable", "False").await;
        world.hub.delete(&world.member_at("austin")).await;
        minutes(9).await;
        assert!(is_there(&world).await);
        minutes(2).await;
        world.hub.gone(&world.member_at("austin")).await;
        assert!(world.target("shop", "berlin").await.is_some(), "on a member that stays it waits");
        drop(frozen);
        // What that has is let go by a person.
        let word = json!({"metadata": {"annotations": {"vidra.dev/approve-removal": "orphan"}}});
        world.hub.merge(&world.target_at("shop", "berlin"), word).await;
        world.hub.gone(&world.target_at("shop", "berlin")).await;
        let berlin = world.alice("berlin").await;
        berlin.delete(&At::config_map(&world.ns, "settings")).await;
        clean_up(world).await;
    });
}

#[test]
fn a_deleted_member_that_answers_in_time_is_cleaned_up() {
    scenario(async |world| {
        let frozen = deleted_while_silent(&world).await;
        minutes(6).await;
        drop(frozen);
        // It is tried again every two minutes by now.
        minutes(3).await;
        world.hub.gone(&world.member_at("austin")).await;
        let (alice, settings) = (world.alice("austin").await, At::config_map(&world.ns, "settings"));
        assert_eq!(marks(&alice.live(&settings).await), [""; 0]);
        let shop = world.resource_says("shop", "Ready", "False", "ClusterNotFound").await;
        assert_eq!(shop.status.unwrap().left_behind, []);
        alice.delete(&settings).await;
        world.end().await;
    });
}

#[test]
fn what_is_to_be_deleted_in_a_silent_member_is_waited_for_until_a_person_forgets_it() {
    scenario(async |world| {
        delivered(&world).await;
        world.hub.merge(&world.member_at("austin"), json!({"spec": {"onLeave": "Delete"}})).await;
        let frozen = world.freeze("austin");
        world.hub.delete(&world.member_at("austin")).await;
        world.target_is("shop", "austin", TargetState::Terminating, "MemberUnreachable").await;
        minutes(24 * 60).await;
        assert!(is_there(&world).await);
        let forget = json!({"metadata": {"annotations": {"vidra.dev/forget": "true"}}});
        world.hub.merge(&world.member_at("austin"), forget).await;
        world.hub.gone(&world.member_at("austin")).await;
        drop(frozen);
        clean_up(world).await;
    });
}

/// What a member has under Report is compared with it when the member answers again.
#[test]
fn the_revision_that_a_silent_member_had_last_is_kept() {
    scenario(async |world| {
        delivered(&world).await;
        let secrets = At::new("v1", "Secret", &world.ns, "");
        let frozen = world.freeze("austin");
        world.member_says("austin", "Reachable", "False").await;
        for text in ["two", "three"] {
            world.deliver("shop", &["austin"], &config_map("settings", text)).await;
            minutes(20).await;
            assert_eq!(world.hub.list(&secrets).await.len(), 2, "the last one that it had, and the next");
        }
        drop(frozen);
        world.ready("shop").await;
        world.end().await;
    });
}
