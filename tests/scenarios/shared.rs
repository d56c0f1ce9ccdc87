//! Several VidraResources of one hub, one object.

use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, Who, World, wait_for};
use vidra_api::{DriftPolicy, TargetState};

use crate::{config_map, config_map_in, marks, object, says, scenario, uid};

/// Two resources that declare the same ConfigMap alike, each beside one of its own.
async fn shared(world: &World) -> (Access, At) {
    world.register(&["berlin"]).await;
    for name in ["first", "second"] {
        world.deliver(name, &["berlin"], &(config_map("settings", "one") + &config_map(name, "one"))).await;
        world.ready(name).await;
    }
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

/// What both declared has lost its label and was deleted, which no watch shows, while the first is suspended; the second,
/// which has dropped it, has read it in between.
async fn gone_unseen(world: &World) -> (Access, At) {
    let (alice, settings) = shared(world).await;
    let label = |live: &Value| live["metadata"]["labels"]["vidra.dev/hub"].clone();
    world.hub.merge(&world.resource_at("first"), json!({"spec": {"suspend": true}})).await;
    world
        .target_when("first", "berlin", "suspended", |status| status.state == Some(TargetState::Suspended))
        .await;
    // Healed by the second only, which then takes its label with it.
    alice.merge(&settings, json!({"metadata": {"labels": {"vidra.dev/hub": "another"}}})).await;
    alice.when(&settings, "healed", |live| label(live) != "another").await;
    let own = config_map("second", "one");
    world.deliver("second", &["berlin"], &own).await;
    alice.when(&settings, "let go", |live| !marks(live).iter().any(|mark| mark.ends_with("/second"))).await;
    // Looked at once more, without the label.
    world.deliver("second", &["berlin"], &(config_map("settings", "two") + &own)).await;
    world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
    world.deliver("second", &["berlin"], &own).await;
    world.ready("second").await;
    alice.delete(&settings).await;
    (alice, settings)
}

#[test]
fn an_object_that_lost_its_label_and_went_unseen_is_made_again() {
    scenario(async |world| {
        let (alice, settings) = gone_unseen(&world).await;
        world.hub.merge(&world.resource_at("first"), json!({"spec": {"suspend": false}})).await;
        alice.when(&settings, "made again", says("one")).await;
        world.ready("first").await;
        world.end().await;
    });
}

/// Nothing looks at an object that is to change before it is applied to.
#[test]
fn an_object_that_lost_its_label_and_went_unseen_is_made_again_as_it_is_declared_by_then() {
    scenario(async |world| {
        let (alice, settings) = gone_unseen(&world).await;
        let manifest = config_map("settings", "three") + &config_map("first", "one");
        let change = json!({"spec": {"suspend": false, "manifest": manifest}});
        world.hub.merge(&world.resource_at("first"), change).await;
        alice.when(&settings, "made again", says("three")).await;
        world.ready("first").await;
        world.end().await;
    });
}

#[test]
fn an_object_that_is_not_to_be_pruned_is_left_to_the_other_resource_without_that_word() {
    scenario(async |world| {
        let (alice, settings) = shared(&world).await;
        let own = config_map("first", "one");
        let kept = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "one"},
            "metadata": {"name": "settings", "annotations": {"vidra.dev/prune": "disabled"}},
        });
        world.deliver("first", &["berlin"], &format!("{own}---\n{kept}\n")).await;
        let word = |live: &Value| live["metadata"]["annotations"]["vidra.dev/prune"].clone();
        alice.when(&settings, "marked", |live| word(live) == "disabled").await;
        let before = uid(&alice.live(&settings).await);
        world.deliver("first", &["berlin"], &own).await;
        let live = alice
            .when(&settings, "let go", |live| !marks(live).iter().any(|mark| mark.ends_with("/first")))
            .await;
        assert_eq!((uid(&live), word(&live)), (before, Value::Null));
        world.ready("first").await;
        world.ready("second").await;
        world.hub.delete(&world.resource_at("second")).await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn an_edit_on_the_member_opens_no_way_for_a_second_resource_that_declares_otherwise() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let policy =
            |drift: &str| json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": drift}});
        world.deliver_with("first", &config_map("settings", "one"), policy("Report")).await;
        world.ready("first").await;
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        world.resource_says("first", "Drifted", "True", "TargetsDrifted").await;
        // Nobody but alice holds the field now; what the first declares counts all the same.
        world.deliver("second", &["berlin"], &config_map("settings", "two")).await;
        let message = world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        assert!(message.contains("/first"), "{message}");
        assert!(says("evil")(&alice.live(&settings).await));
        world.deliver_with("first", &config_map("settings", "one"), policy("Correct")).await;
        alice.when(&settings, "repaired", says("one")).await;
        world.ready("first").await;
        world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        assert!(says("one")(&alice.live(&settings).await));
        world.end().await;
    });
}

#[test]
fn of_two_resources_that_apply_an_object_the_older_changes_it_and_the_other_is_told() {
    scenario(async |world| {
        let (alice, settings) = shared(&world).await;
        let uid_before = uid(&alice.live(&settings).await);
        // The second declares what the first did; that does not keep the first from its next revision.
        world.deliver("first", &["berlin"], &config_map("settings", "two")).await;
        alice.when(&settings, "as the first says", says("two")).await;
        world.ready("first").await;
        world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        world.reconcile_now("second", "1").await;
        world.look("second", "2", 1).await;
        assert!(says("two")(&alice.live(&settings).await), "it does not go to and fro");
        world.deliver("second", &["berlin"], &config_map("settings", "two")).await;
        world.ready("second").await;
        assert_eq!(uid(&alice.live(&settings).await), uid_before);
        world.end().await;
    });
}

#[test]
fn who_lost_a_field_to_another_resource_owns_it_again_once_they_agree_and_keeps_it_when_that_one_goes() {
    scenario(async |world| {
        let (alice, settings) = shared(&world).await;
        let first = |value: &str| config_map("settings", value) + &config_map("first", "one");
        world.deliver("first", &["berlin"], &first("two")).await;
        alice.when(&settings, "changed by the older one", says("two")).await;
        world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        world.deliver("first", &["berlin"], &first("one")).await;
        let owners = |live: &Value| {
            let entries = live["metadata"]["managedFields"].as_array().unwrap();
            entries.iter().filter(|entry| !entry["fieldsV1"]["f:data"]["f:key"].is_null()).count()
        };
        alice.when(&settings, "owned by both", |live| says("one")(live) && owners(live) == 2).await;
        world.ready("first").await;
        world.ready("second").await;

        world.remove("first").await;
        let let_go = |live: &Value| !marks(live).iter().any(|mark| mark.ends_with("/first"));
        let live = alice.when(&settings, "let go by the first", let_go).await;
        assert!(says("one")(&live), "{live}");
        world.ready("second").await;
        world.end().await;
    });
}

#[test]
fn what_another_resource_alone_has_put_back_is_owned_by_both_again_once_drift_is_not_only_reported() {
    scenario(async |world| {
        let (alice, settings) = shared(&world).await;
        let manifest = config_map("settings", "one") + &config_map("first", "one");
        let policy =
            |drift: &str| json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": drift}});
        world.deliver_with("first", &manifest, policy("Report")).await;
        wait_for("the first only reports", SOON, async || {
            let target = world.target("first", "berlin").await.ok_or("there is no such VidraTarget")?;
            let told = target.status.as_ref().and_then(|status| status.observed_generation);
            match target.spec.drift.policy == DriftPolicy::Report && told == target.metadata.generation {
                true => Ok(()),
                false => Err("another policy".to_owned()),
            }
        })
        .await;
        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        let owners = |live: &Value| {
            let entries = live["metadata"]["managedFields"].as_array().unwrap();
            entries.iter().filter(|entry| !entry["fieldsV1"]["f:data"]["f:key"].is_null()).count()
        };
        alice.when(&settings, "put back by the second", |live| says("one")(live) && owners(live) == 1).await;
        // The first looks, and writes nothing.
        wait_for("the first looks", SOON, async || {
            let requests = world.requests_for(&settings, "berlin", &mark);
            match requests.iter().any(|request| request.uri.contains("dryRun=")) {
                true => Ok(()),
                false => Err(format!("{requests:?}")),
            }
        })
        .await;
        assert_eq!(owners(&alice.live(&settings).await), 1);

        world.deliver_with("first", &manifest, policy("Correct")).await;
        alice.when(&settings, "owned by both", |live| says("one")(live) && owners(live) == 2).await;
        world.remove("second").await;
        let let_go = |live: &Value| !marks(live).iter().any(|mark| mark.ends_with("/second"));
        let live = alice.when(&settings, "let go by the second", let_go).await;
        assert!(says("one")(&live), "{live}");
        world.ready("first").await;
        world.end().await;
    });
}

#[test]
fn an_object_that_two_resources_declare_alike_stays_until_both_are_gone() {
    scenario(async |world| {
        let (alice, settings) = shared(&world).await;
        let made = alice.live(&settings).await;
        assert_eq!(marks(&made).iter().filter(|mark| mark.starts_with("vidra/")).count(), 2, "{made}");

        world.remove("first").await;
        alice.gone(&At::config_map(&world.ns, "first")).await;
        let left = alice.live(&settings).await;
        assert_eq!(uid(&left), uid(&made));
        assert!(says("one")(&left));
        let managers = marks(&left).into_iter().filter(|mark| mark.starts_with("vidra/"));
        assert_eq!(managers.collect::<Vec<_>>(), [format!("vidra/{0}/{0}/second", world.ns)]);
        // The one that is left tends it alone.
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "as declared", says("one")).await;

        world.remove("second").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn drift_of_a_shared_object_is_repaired() {
    scenario(async |world| {
        let (alice, settings) = shared(&world).await;
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "as declared", says("one")).await;
        alice.delete(&settings).await;
        alice.when(&settings, "made again", says("one")).await;
        for name in ["first", "second"] {
            world.ready(name).await;
        }
        let again = alice
            .when(&settings, "owned by both", |live| {
                marks(live).iter().filter(|mark| mark.starts_with("vidra/")).count() == 2
            })
            .await;
        assert!(again["metadata"]["deletionTimestamp"].is_null());
        let settled = world.mark();
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        assert_eq!(world.writes_to(&settings, "berlin", &settled), []);
        world.end().await;
    });
}

#[test]
fn a_second_resource_that_declares_an_object_otherwise_is_refused() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("first", &["berlin"], &config_map("settings", "one")).await;
        world.ready("first").await;
        world.deliver("second", &["berlin"], &config_map("settings", "two")).await;
        let message = world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        assert!(message.contains("settings") && message.contains("first"), "{message}");
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        assert!(says("one")(&alice.live(&settings).await));
        world.ready("first").await;

        // The one that was refused takes nothing with it.
        world.remove("second").await;
        assert!(says("one")(&alice.live(&settings).await));
        world.ready("first").await;
        world.end().await;
    });
}

#[test]
fn a_namespace_that_is_declared_is_made_first_and_stays_when_the_resource_goes() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let name = format!("{}-declared", world.ns);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": "a"}}});
        let inside = crate::config_map_in(&name, "settings", "one");
        world.deliver("shop", &["berlin"], &(object(&inside) + &object(&namespace))).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let (namespace, settings) =
            (At::new("v1", "Namespace", "", &name), At::config_map(&name, "settings"));
        assert_eq!(alice.live(&namespace).await["metadata"]["labels"]["team"], "a");
        let foreign = alice.create(crate::config_map_in(&name, "foreign", "alice's")).await;
        world.remove("shop").await;
        alice.gone(&settings).await;
        let left = alice.live(&namespace).await;
        assert!(marks(&left).is_empty() && left["metadata"]["deletionTimestamp"].is_null(), "{left}");
        assert_eq!(alice.live(&At::of(&foreign)).await, foreign);
        world.end().await;
    });
}

#[test]
fn an_entry_under_a_name_that_this_hub_does_not_know_keeps_no_object() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let objects = |names: &[&str]| names.iter().map(|name| config_map(name, "one")).collect::<String>();
        world.deliver("shop", &["berlin"], &objects(&["dropped", "deleted"])).await;
        world.ready("shop").await;
        let client = world.bed().client("berlin", Who::Alice).await.expect("a client");
        let forger = Access::new(client, &format!("vidra/{}/x/y", world.ns));
        for name in ["dropped", "deleted"] {
            forger.apply(&config_map_in(&world.ns, name, "one"), true).await.expect("it is her right");
        }
        world.deliver("shop", &["berlin"], &objects(&["deleted"])).await;
        forger.gone(&at("dropped")).await;
        world.ready("shop").await;
        world.remove("shop").await;
        assert!(forger.get(&at("deleted")).await.is_none());
        // Nor does it keep a value: a VidraResource of that name is nobody to agree with.
        world.deliver("shop", &["berlin"], &objects(&["held"])).await;
        world.ready("shop").await;
        forger.apply(&config_map_in(&world.ns, "held", "evil"), true).await.expect("it is her right");
        forger.when(&at("held"), "repaired", says("one")).await;
        world.ready("shop").await;

        // One that the hub knows keeps what both apply.
        world.deliver("shop", &["berlin"], &objects(&["both"])).await;
        world.ready("shop").await;
        world.deliver("bank", &["berlin"], &objects(&["both"])).await;
        world.ready("bank").await;
        let before = uid(&forger.live(&at("both")).await);
        world.remove("shop").await;
        assert_eq!(uid(&forger.live(&at("both")).await), before);
        world.end().await;
    });
}
