//! Objects go to the cluster that is meant, and to no other.

use serde_json::{Value, json};
use testkit::world::{At, SOON, Who, World, two_contexts, wait_for};
use vidra_api::TargetState;

use crate::{config_map, config_map_in, member_says_why, says, scenario};

#[test]
fn only_the_current_context_of_a_kubeconfig_counts() {
    scenario(async |world| {
        let mark = world.mark();
        let kubeconfig = two_contexts(
            &world.kubeconfig("tokyo", Who::VidraHub),
            &world.kubeconfig("berlin", Who::VidraHub),
        );
        world.register_as("berlin", &kubeconfig, json!({})).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        assert!(says("one")(&world.alice("berlin").await.live(&At::config_map(&world.ns, "settings")).await));
        assert_eq!(world.requests("tokyo", &mark), [], "the other context's cluster");
        world.end().await;
    });
}

/// From now on the credentials of MemberCluster berlin lead to this cluster.
async fn answers_as_berlin(world: &World, cluster: &str) {
    world.register_as("berlin", &world.kubeconfig(cluster, Who::VidraHub), json!({})).await;
}

/// Writes a person's word on MemberCluster berlin.
async fn confirm(world: &World, word: &str) {
    let annotations = json!({"metadata": {"annotations": {"vidra.dev/confirm": word}}});
    world.hub.merge(&world.member_at("berlin"), annotations).await;
}

#[test]
fn another_cluster_under_the_same_name_gets_nothing_until_a_person_confirms_it() {
    scenario(async |mut world| {
        let settings = At::config_map(&world.ns, "settings");
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;

        let mark = world.mark();
        answers_as_berlin(&world, "tokyo").await;
        let why = ("False", "AnotherCluster");
        let message = member_says_why(&world, "berlin", "IdentityConfirmed", why).await;
        assert!(message.contains("vidra.dev/confirm="), "{message}");
        world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
        said(&world, "IdentityNotConfirmed").await;
        // A change, a look now and a restart do not get round it.
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        world.reconcile_now("shop", "1").await;
        world.restart_hub().await;
        world.resource_says("shop", "Ready", "False", "MembersUnreachable").await;
        world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
        for name in ["berlin", "tokyo"] {
            assert_eq!(world.writes(name, &mark), [], "{name}");
        }

        let (_, uid) = message.rsplit_once("vidra.dev/confirm=").unwrap();
        confirm(&world, uid).await;
        world.member_says("berlin", "IdentityConfirmed", "True").await;
        world.ready("shop").await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        assert!(says("two")(&tokyo.live(&settings).await));
        assert!(says("one")(&berlin.live(&settings).await));
        assert_eq!(world.writes("berlin", &mark), []);
        // No hub knows it any more.
        berlin.delete(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_word_that_confirms_another_cluster_or_a_restore_admits_nobody_else() {
    scenario(async |mut world| {
        let settings = At::config_map(&world.ns, "settings");
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;

        // Written while the hub is away: where berlin answers it takes this word off at once.
        world.stop_hub().await;
        confirm(&world, "restore").await;
        answers_as_berlin(&world, "tokyo").await;
        let mark = world.mark();
        world.start_hub().await;
        let message = world.member_says("berlin", "IdentityConfirmed", "False").await;
        world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
        assert_eq!(world.writes("tokyo", &mark), []);

        let (_, uid) = message.rsplit_once("vidra.dev/confirm=").unwrap();
        confirm(&world, uid).await;
        world.member_says("berlin", "IdentityConfirmed", "True").await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        tokyo.when(&settings, "delivered", says("one")).await;
        world.target_is("shop", "berlin", TargetState::Ready, "Ready").await;

        answers_as_berlin(&world, "austin").await;
        world.member_says("berlin", "IdentityConfirmed", "False").await;
        world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
        assert_eq!(world.writes("austin", &mark), []);
        let member = world.hub.live(&world.member_at("berlin")).await;
        assert_eq!(member["metadata"]["annotations"]["vidra.dev/confirm"], uid, "the word is there still");

        answers_as_berlin(&world, "tokyo").await;
        world.member_says("berlin", "IdentityConfirmed", "True").await;
        world.ready("shop").await;
        // No hub knows it any more.
        berlin.delete(&settings).await;
        world.end().await;
    });
}

/// Waits for an Event about MemberCluster berlin.
async fn said(world: &World, reason: &str) {
    let events = At::new("events.k8s.io/v1", "Event", "", "");
    let uid = world.member("berlin").await.and_then(|member| member.metadata.uid).expect("it is registered");
    wait_for(&format!("an Event {reason}"), SOON, async || {
        let all = world.hub.list(&events).await;
        let is = |event: &&Value| event["reason"] == reason && event["regarding"]["uid"] == uid.as_str();
        all.iter().find(is).map(drop).ok_or_else(|| format!("{} others", all.len()))
    })
    .await;
}

#[test]
fn a_cluster_that_is_a_member_already_is_refused_under_a_second_name() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let mark = world.mark();
        world.register_as("twin", &world.kubeconfig("berlin", Who::VidraHub), json!({})).await;
        let message = world.member_says("twin", "IdentityConfirmed", "False").await;
        assert!(message.contains("berlin"), "{message}");
        world.deliver("shop", &["twin"], &config_map("settings", "one")).await;
        world.target_is("shop", "twin", TargetState::Unknown, "IdentityNotConfirmed").await;
        assert_eq!(world.writes("berlin", &mark), []);

        // The first of the two goes on as if nothing had happened.
        world.deliver("other", &["berlin"], &config_map("other", "one")).await;
        world.ready("other").await;
        world.member_says("berlin", "IdentityConfirmed", "True").await;
        world.end().await;
    });
}

/// Whether each of these members is confirmed, as soon as that is decided of all and one alone is. A name that answers
/// first is confirmed until an older one answers: it sends nothing more from then on and looks again, so for a moment
/// the statuses say it of both.
async fn confirmed(world: &World, names: &[&str]) -> Vec<bool> {
    wait_for("one alone is confirmed and all others are refused", SOON, async || {
        let mut decided = Vec::new();
        for name in names {
            let member = world.member(name).await.ok_or("not registered yet")?;
            let conditions = member.status.map(|status| status.conditions).unwrap_or_default();
            match vidra_api::find(&conditions, "IdentityConfirmed") {
                Some(found) if found.status != "Unknown" => decided.push(found.status == "True"),
                _ => return Err(format!("{name}: {conditions:?}")),
            }
        }
        match decided.iter().filter(|is| **is).count() {
            1 => Ok(decided),
            _ => Err(format!("{names:?}: {decided:?}")),
        }
    })
    .await
}

#[test]
fn of_two_names_that_register_one_cluster_at_the_same_time_one_is_admitted_for_good() {
    scenario(async |mut world| {
        // As a rebuilt hub finds its registrations: all at once.
        world.stop_hub().await;
        let names = ["berlin", "twin"];
        for name in names {
            world.register_as(name, &world.kubeconfig("berlin", Who::VidraHub), json!({})).await;
        }
        world.start_hub().await;
        let first = confirmed(&world, &names).await;
        world.restart_hub().await;
        let manifest = config_map("settings", "one");
        let (one, other) = if first[0] { ("berlin", "twin") } else { ("twin", "berlin") };
        world.deliver(one, &[one], &manifest).await;
        world.ready(one).await;
        world.deliver(other, &[other], &manifest).await;
        world.target_is(other, other, TargetState::Unknown, "IdentityNotConfirmed").await;
        assert_eq!(confirmed(&world, &names).await, first, "after a restart");

        // The one that was refused takes nothing with it.
        let (berlin, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let made = berlin.live(&settings).await;
        let delete = json!({"spec": {"onLeave": "Delete"}});
        world.hub.merge(&world.member_at(other), delete).await;
        world.hub.delete(&world.member_at(other)).await;
        world.hub.gone(&world.member_at(other)).await;
        assert_eq!(berlin.live(&settings).await, made);
        world.end().await;
    });
}

/// As a restore brings it back that drops statuses.
async fn lose_statuses(world: &World) {
    for at in [world.member_at("berlin"), world.target_at("shop", "berlin")] {
        world.hub.merge_status(&at, json!({"status": null})).await;
        assert_eq!(world.hub.live(&at).await.get("status"), None, "{at}");
    }
}

#[test]
fn a_member_whose_status_is_lost_is_still_the_cluster_that_its_objects_are_in() {
    scenario(async |mut world| {
        let settings = At::config_map(&world.ns, "settings");
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let made = berlin.live(&settings).await;

        // The address leads elsewhere by then, and what is there is named as what was delivered.
        world.stop_hub().await;
        lose_statuses(&world).await;
        answers_as_berlin(&world, "tokyo").await;
        tokyo.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        let foreign = tokyo.create(config_map_in(&world.ns, "settings", "alice's")).await;
        let mark = world.mark();
        world.start_hub().await;
        let message = world.member_says("berlin", "IdentityConfirmed", "False").await;
        assert!(message.contains("vidra.dev/confirm="), "{message}");
        world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
        // A restart does not get round it.
        world.restart_hub().await;
        world.member_says("berlin", "IdentityConfirmed", "False").await;
        world.resource_says("shop", "Ready", "False", "MembersUnreachable").await;
        assert_eq!(tokyo.live(&settings).await, foreign);
        for name in ["berlin", "tokyo"] {
            assert_eq!(world.writes(name, &mark), [], "{name}");
        }

        answers_as_berlin(&world, "berlin").await;
        world.member_says("berlin", "IdentityConfirmed", "True").await;
        world.ready("shop").await;
        assert_eq!(berlin.live(&settings).await, made);
        assert_eq!(world.writes("berlin", &mark), []);
        tokyo.delete(&settings).await;
        world.end().await;
    });
}
