//! What was not made by the hub is never overwritten and never deleted.

use serde_json::{Value, json};
use testkit::world::{Access, At, LONG, World, wait_for};
use vidra_api::{ChangeKind, DriftState, TargetState, VidraTargetStatus};

use crate::{config_map, config_map_in, events, says, scenario, uid};

#[test]
fn fifty_foreign_objects_are_told_in_few_events_and_a_single_one_in_all_words() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let berlin = world.alice("berlin").await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
        berlin.create(namespace).await;
        let name = |number: usize| format!("c{number:02}");
        for number in 0..50 {
            berlin.create(config_map_in(&world.ns, &name(number), "alice's")).await;
        }
        world.deliver("one", &["berlin"], &config_map(&name(7), "ours")).await;
        let message = world.target_is("one", "berlin", TargetState::Failed, "AlreadyExists").await;
        let whole = |notes: &[String]| notes.iter().any(|note| *note == format!("berlin: {message}"));
        told(&world, "the whole message", whole).await;

        let manifest: String = (0..50).map(|number| config_map(&name(number), "ours")).collect();
        world.deliver("many", &["berlin"], &manifest).await;
        world.target_is("many", "berlin", TargetState::Failed, "AlreadyExists").await;
        let first = format!("objects on berlin: (1) ConfigMap {}/c00 exists and was not made by", world.ns);
        let notes = told(&world, "the first", |notes| notes.iter().any(|note| note.contains(&first))).await;
        world.look("many", "again", 1).await;
        let notes = notes.max(told(&world, "no more", |_| true).await);
        assert!(notes <= 4, "{notes} Events of fifty objects and of one");
        world.end().await;
    });
}

#[test]
fn what_somebody_puts_in_the_place_of_an_object_of_the_hub_is_told_as_theirs_and_stays() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let berlin = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin"], &config_map("settings", "ours")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;

        let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
        world.hub.merge(&world.resource_at("shop"), suspend(true)).await;
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        berlin.delete(&settings).await;
        // Of another value in a field that is declared: the server speaks of that before it looks at the uid.
        let theirs = berlin.create(config_map_in(&world.ns, "settings", "alice's")).await;
        world.hub.merge(&world.resource_at("shop"), suspend(false)).await;

        let message = world.target_is("shop", "berlin", TargetState::Failed, "AlreadyExists").await;
        assert!(message.contains("settings"), "{message}");
        let live = berlin.live(&settings).await;
        assert_eq!((uid(&live), &live["data"]), (uid(&theirs), &theirs["data"]));
        world.end().await;
    });
}

/// Waits until the Events of foreign objects say so; how many there are.
async fn told(world: &testkit::world::World, what: &str, so: impl Fn(&[String]) -> bool) -> usize {
    wait_for(what, LONG, async || {
        let notes = events(world, "AlreadyExists").await;
        if so(&notes) { Ok(notes.len()) } else { Err(format!("{notes:?}")) }
    })
    .await
}

#[test]
fn a_foreign_object_is_not_overwritten_at_the_first_or_any_later_attempt() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let settings = At::config_map(&world.ns, "settings");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
        berlin.create(namespace).await;
        let foreign = berlin.create(config_map_in(&world.ns, "settings", "alice's")).await;

        let mark = world.mark();
        let manifest = config_map("settings", "ours") + &config_map("beside", "ours");
        world.deliver("shop", &["berlin", "tokyo"], &manifest).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "AlreadyExists").await;
        assert!(message.contains("settings") && message.contains("delete it"), "{message}");
        world.target_is("shop", "tokyo", TargetState::Ready, "Ready").await;
        world.resource_says("shop", "Stalled", "True", "TargetsFailed").await;
        assert!(says("ours")(&berlin.live(&At::config_map(&world.ns, "beside")).await));
        assert!(says("ours")(&tokyo.live(&settings).await));

        // Later attempts, by the back-off, by a person's wish, by a hub that remembers nothing, with another text.
        refused_attempts(&world, &settings, &mark, 3).await;
        let mark = world.mark();
        world.reconcile_now("shop", "1").await;
        refused_attempts(&world, &settings, &mark, 1).await;
        let mark = world.mark();
        world.restart_hub().await;
        refused_attempts(&world, &settings, &mark, 1).await;
        let mark = world.mark();
        let changed = config_map("settings", "ours again") + &config_map("beside", "ours");
        world.deliver("shop", &["berlin", "tokyo"], &changed).await;
        tokyo.when(&settings, "the new text", says("ours again")).await;
        refused_attempts(&world, &settings, &mark, 1).await;
        assert_eq!(berlin.live(&settings).await, foreign);

        berlin.delete(&settings).await;
        let made = berlin.when(&settings, "made by the hub", says("ours again")).await;
        assert_ne!(uid(&made), uid(&foreign));
        world.ready("shop").await;
        world.end().await;
    });
}

/// Waits until the hub was refused so often.
async fn refused_attempts(world: &testkit::world::World, at: &At, mark: &testkit::world::Mark, count: usize) {
    wait_for(&format!("{count} refused attempts"), LONG, async || {
        let all = world.requests_for(at, "berlin", mark);
        match all.iter().filter(|request| request.verb == "patch" && request.code == 409).count() {
            seen if seen >= count => Ok(()),
            _ => Err(format!("{all:?}")),
        }
    })
    .await;
}

#[test]
fn a_foreign_object_with_other_fields_is_neither_merged_with_nor_deleted_with_the_resource() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let berlin = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
        berlin.create(namespace).await;
        // It has none of our fields: an apply that did not insist on creating would merge with it, unopposed.
        let disjoint = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"other": "alice's"},
            "metadata": {"name": "settings", "namespace": world.ns}});
        let foreign = berlin.create(disjoint).await;
        let manifest = config_map("settings", "ours") + &config_map("beside", "ours");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.target_is("shop", "berlin", TargetState::Failed, "AlreadyExists").await;
        assert_eq!(berlin.live(&settings).await, foreign);
        world.remove("shop").await;
        berlin.gone(&At::config_map(&world.ns, "beside")).await;
        assert_eq!(berlin.live(&settings).await, foreign);
        world.end().await;
    });
}

#[test]
fn drift_beside_a_foreign_object_is_reported_though_the_target_was_never_applied_whole() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let berlin = world.alice("berlin").await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
        berlin.create(namespace).await;
        berlin.create(config_map_in(&world.ns, "settings", "alice's")).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"}});
        let manifest = config_map("settings", "ours") + &config_map("beside", "ours");
        world.deliver_with("shop", &manifest, spec).await;
        world.target_is("shop", "berlin", TargetState::Failed, "AlreadyExists").await;
        let beside = At::config_map(&world.ns, "beside");
        berlin.when(&beside, "delivered", says("ours")).await;
        let unknown = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((unknown.drift, unknown.revision), (Some(DriftState::Unknown), None));

        berlin.merge(&beside, json!({"data": {"key": "bob's"}})).await;
        let drifted = |status: &VidraTargetStatus| status.drift == Some(DriftState::Drifted);
        let target = world.target_when("shop", "berlin", "drifted", drifted).await;
        let status = target.status.unwrap();
        let told: Vec<_> = status.changes.iter().map(|one| (one.name.as_str(), one.change)).collect();
        assert_eq!((told, status.drifted), (vec![("beside", ChangeKind::Modified)], 1));
        assert_eq!(
            (status.state, status.reason.as_deref()),
            (Some(TargetState::Failed), Some("AlreadyExists"))
        );
        world.resource_says("shop", "Drifted", "True", "TargetsDrifted").await;
        assert!(says("bob's")(&berlin.live(&beside).await), "it is reported, not repaired");

        berlin.merge(&beside, json!({"data": {"key": "ours"}})).await;
        let over = |status: &VidraTargetStatus| status.drift == Some(DriftState::Unknown);
        world.target_when("shop", "berlin", "as delivered again, and not whole", over).await;
        world.end().await;
    });
}

/// Takes all marks but the hub's label off an object, and edits it.
async fn strip(alice: &Access, at: &At) {
    let live = alice.live(at).await;
    let marks = |field: &str| {
        let all = live["metadata"][field].as_object().cloned().unwrap_or_default();
        let marks = all.into_iter().map(|(key, _)| key);
        let marks = marks.filter(|key| key.contains("vidra.dev/") && key != "vidra.dev/hub");
        marks.map(|key| (key, Value::Null)).collect::<serde_json::Map<_, _>>()
    };
    let (labels, annotations) = (marks("labels"), marks("annotations"));
    let bare = json!({"labels": labels, "annotations": annotations, "managedFields": [{}]});
    alice.merge(at, json!({"metadata": bare, "data": {"key": "evil"}})).await;
}

/// Delivers under this policy, and stops the hub; where the object is.
async fn delivered(world: &mut World, policy: &str) -> (Access, At) {
    world.register(&["berlin"]).await;
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": policy}});
    world.deliver_with("shop", &(config_map("settings", "one") + &config_map("own", "one")), spec).await;
    world.ready("shop").await;
    world.recorded("shop", &["berlin"]).await;
    world.stop_hub().await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

#[test]
fn what_kept_the_hubs_label_alone_while_no_hub_ran_is_told_under_report_and_left_when_it_is_to_go() {
    scenario(async |mut world| {
        let (alice, at) = delivered(&mut world, "Report").await;
        strip(&alice, &at).await;
        world.start_hub().await;
        let lost = |status: &VidraTargetStatus| {
            status.changes.iter().any(|change| change.change == ChangeKind::OwnershipLost)
        };
        world.target_when("shop", "berlin", "told", lost).await;
        world.remove("shop").await;
        assert!(says("evil")(&alice.live(&at).await));
        alice.delete(&at).await;
        world.end().await;
    });
}

#[test]
fn what_kept_the_hubs_label_alone_while_no_hub_ran_is_the_object_of_the_inventory_and_repaired() {
    scenario(async |mut world| {
        let (alice, at) = delivered(&mut world, "Correct").await;
        let before = uid(&alice.live(&at).await);
        strip(&alice, &at).await;
        world.start_hub().await;
        let now = alice.when(&at, "repaired", says("one")).await;
        assert_eq!(uid(&now), before);
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_others_made_of_a_name_with_the_hubs_label_while_no_hub_ran_is_theirs() {
    for (policy, state) in [("Report", None), ("Correct", Some(TargetState::Failed))] {
        scenario(async |mut world| {
            let (alice, at) = delivered(&mut world, policy).await;
            let label = alice.live(&at).await["metadata"]["labels"]["vidra.dev/hub"].clone();
            alice.delete(&at).await;
            alice.gone(&at).await;
            let mut theirs = config_map_in(&world.ns, "settings", "theirs");
            theirs["metadata"]["labels"] = json!({"vidra.dev/hub": label});
            let made = alice.create(theirs).await;
            world.start_hub().await;
            let told = |status: &VidraTargetStatus| match state {
                Some(state) => status.state == Some(state),
                None => status.drift == Some(DriftState::Drifted),
            };
            world.target_when("shop", "berlin", "told", told).await;
            assert_eq!(alice.live(&at).await["data"], made["data"]);
            world.remove("shop").await;
            let left = alice.live(&at).await;
            assert_eq!((uid(&left), &left["data"]), (uid(&made), &made["data"]));
            alice.delete(&at).await;
            world.end().await;
        });
    }
}
