//! Webhooks that rewrite what the hub declares: what the server answered is what is expected, and not what was sent.
//! And webhooks that refuse it with a code that an API server has another meaning for: their word is not the server's.
//! In memory only: for a real server there would have to be one that serves them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Cluster, Denial, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::{DriftState, TargetState, VidraTargetStatus};

use super::{memory, scenario};
use crate::{apply_modes::immutable_settings, config_map, config_map_in, object, says, uid};

/// From now on berlin has a webhook that marks the value of every ConfigMap of this name, once.
fn rewrite(world: &World) {
    let hook = |call: &Call, object: &mut Value| {
        let name = object["metadata"]["name"] == "settings";
        let value = object["data"]["key"].as_str().unwrap_or_default().to_owned();
        if call.resource == "configmaps" && name && !value.ends_with(" (scanned)") {
            object["data"]["key"] = format!("{value} (scanned)").into();
        }
    };
    berlin(world).set_mutating_admission(Some(Arc::new(hook)));
}

fn berlin(world: &World) -> Cluster {
    memory(world, "berlin")
}

async fn delivered(world: &World, policy: &str) -> (Access, At) {
    world.register(&["berlin"]).await;
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "10s"},
        "drift": {"policy": policy}});
    world.deliver_with("shop", &config_map("settings", "one"), spec).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

/// As declared, as far as the hub is concerned, and ten intervals cost nothing on either side.
async fn is_quiet(world: &World, at: &At) {
    let in_sync = |status: &VidraTargetStatus| status.drift == Some(DriftState::InSync);
    world.target_when("shop", "berlin", "in sync", in_sync).await;
    world.recorded("shop", &["berlin"]).await;
    world.counted(&["berlin"]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let quiet = world.mark();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(world.requests_for(at, "berlin", &quiet), []);
    assert_eq!((world.writes("berlin", &quiet), world.writes("hub", &quiet)), (vec![], vec![]));
    let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
    assert_eq!((status.drift, status.drifted), (Some(DriftState::InSync), 0), "{:?}", status.changes);
}

#[test]
fn a_value_that_a_webhook_rewrites_is_neither_repaired_nor_reported_and_an_edit_of_it_is() {
    scenario(async |mut world| {
        rewrite(&world);
        let (alice, settings) = delivered(&world, "Correct").await;
        let rewritten = says("one (scanned)");
        assert!(rewritten(&alice.live(&settings).await));
        is_quiet(&world, &settings).await;

        // One repair, and what the webhook makes of it is as expected again.
        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "as it was", &rewritten).await;
        world.corrected("shop", "berlin", 1).await;
        is_quiet(&world, &settings).await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark).len(), 1);

        let mark = world.mark();
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        is_quiet(&world, &settings).await;
        assert_eq!(world.writes("berlin", &mark), [], "a restart");

        // Edited and put back while the hub is down: nobody owns it for the hub, and it is as the server would answer.
        world.stop_hub().await;
        let mark = world.mark();
        for value in ["evil", "one"] {
            alice.merge(&settings, json!({"data": {"key": value}})).await;
        }
        world.start_hub().await;
        world.look("shop", "started", 1).await;
        is_quiet(&world, &settings).await;
        assert_eq!(world.writes("berlin", &mark), [], "an edit that was undone");
        world.end().await;
    });
}

#[test]
fn a_webhook_that_comes_later_costs_one_repair_when_somebody_touches_the_object() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct").await;
        rewrite(&world);
        is_quiet(&world, &settings).await;
        let mark = world.mark();
        for turn in 0..3 {
            // The webhook's doing is somebody's edit, until an answer has shown what it makes of what is declared.
            alice.merge(&settings, json!({"metadata": {"annotations": {"turn": turn.to_string()}}})).await;
            is_quiet(&world, &settings).await;
        }
        assert!(says("one (scanned)")(&alice.live(&settings).await));
        assert_eq!(world.writes_to(&settings, "berlin", &mark).len(), 1);
        world.corrected("shop", "berlin", 1).await;
        world.end().await;
    });
}

#[test]
fn under_report_what_a_webhook_rewrites_is_no_drift_and_what_people_rewrite_is() {
    scenario(async |mut world| {
        rewrite(&world);
        let (alice, settings) = delivered(&world, "Report").await;
        is_quiet(&world, &settings).await;
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        is_quiet(&world, &settings).await;

        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        let drifted = |status: &VidraTargetStatus| status.drift == Some(DriftState::Drifted);
        let target = world.target_when("shop", "berlin", "drifted", drifted).await;
        let field = target.status.unwrap().changes[0].fields[0].clone();
        assert_eq!(
            (&*field.path, field.actual.as_deref()),
            (".data.key", Some("\"evil (scanned)\"")),
            "{field:?}"
        );
        alice.merge(&settings, json!({"data": {"key": "one"}})).await;
        is_quiet(&world, &settings).await;
        world.end().await;
    });
}

/// What the webhook of [`refuse`] says.
const WORDS: &str = "ledger \"main\" is not to be had";
/// So many refusals later it answers 403: what would go on without end ends, and the scenario can tell how far it came.
const ENOUGH: usize = 100;

/// From now on a webhook of berlin refuses what is done so to ConfigMap settings.
fn refuse(world: &World, verb: Verb, code: u16, reason: &'static str) {
    refuse_about(world, verb, (code, reason), &Value::Null);
}

/// The same with these details; an API server passes them on as they are.
fn refuse_about(world: &World, verb: Verb, (code, reason): (u16, &'static str), details: &Value) {
    let details = details.clone();
    let refused = AtomicUsize::new(0);
    let hook = move |call: &Call, object: &Value| {
        let is_meant = call.verb == verb && call.resource == "configmaps";
        if !is_meant || object["metadata"]["name"] != "settings" {
            return Ok(());
        }
        let so_far = refused.fetch_add(1, Ordering::Relaxed);
        let (code, reason) = if so_far < ENOUGH { (code, reason) } else { (403, "Forbidden") };
        let (webhook, message) = ("ledgers.example.com".to_owned(), WORDS.to_owned());
        let details = if so_far < ENOUGH { details.clone() } else { Value::Null };
        Err(Denial { webhook, code, reason: reason.to_owned(), message, details })
    };
    berlin(world).set_validating_admission(Some(Arc::new(hook)));
}

/// What the hub says of a target names the webhook and its words, and is no success.
async fn is_told(world: &World, name: &str) {
    let told = |status: &VidraTargetStatus| {
        let message = status.message.as_deref().unwrap_or_default();
        message.contains("ledgers.example.com") && message.contains(WORDS)
    };
    let target = world.target_when(name, "berlin", "the webhook's words", told).await;
    let state = target.status.and_then(|status| status.state);
    assert!(matches!(state, Some(TargetState::Failed | TargetState::Terminating)), "{state:?}");
}

/// Stands for the name of the namespace that the object is in.
const OWN: &str = "the object's own";

/// What of the object is done, and goes on being refused.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Creating,
    Updating,
    /// The object is not declared any more.
    Dropping,
    /// Its VidraResource is deleted.
    Removing,
}

/// In 25 s of refusals a few tries, with the webhook's words in the status; and all goes well once the webhook does not
/// refuse any more.
fn refused(doing: Doing, said: (u16, &'static str), details: &Value) {
    scenario(async |world| {
        let mut details = details.clone();
        if details["name"] == OWN {
            details["name"] = world.ns.as_str().into();
        }
        let details = &details;
        let (alice, settings) = match doing {
            Doing::Creating => {
                world.register(&["berlin"]).await;
                let alice = world.alice("berlin").await;
                let namespace =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
                alice.create(namespace).await;
                (alice, At::config_map(&world.ns, "settings"))
            }
            _ => delivered(&world, "Correct").await,
        };
        let (beside, both) = (config_map("beside", "one"), config_map("settings", "one"));
        if doing == Doing::Dropping {
            world.deliver("shop", &["berlin"], &(both + &beside)).await;
            world.ready("shop").await;
        }
        let removes = matches!(doing, Doing::Dropping | Doing::Removing);
        refuse_about(&world, if removes { Verb::Delete } else { Verb::Apply }, said, details);
        let mark = world.mark();
        match doing {
            Doing::Creating | Doing::Updating => {
                world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
            }
            Doing::Dropping => world.deliver("shop", &["berlin"], &beside).await,
            Doing::Removing => world.hub.delete(&world.resource_at("shop")).await,
        }
        tokio::time::sleep(Duration::from_secs(25)).await;
        let all = world.requests_for(&settings, "berlin", &mark);
        let (reads, writes): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.verb == "get");
        let what =
            format!("{doing:?}, {said:?}, {details}: {} writes and {} reads", writes.len(), reads.len());
        assert!((2..=7).contains(&writes.len()) && reads.len() <= 7, "{what} in 25 s");
        assert_eq!(alice.get(&settings).await.is_some(), doing != Doing::Creating, "{what}");
        assert!(
            world.target("shop", "berlin").await.is_some(),
            "{what}: the hub says that all of it is gone"
        );
        if doing == Doing::Dropping {
            let held = world.inventory("shop", "berlin").await;
            assert!(held.iter().any(|one| one.name == "settings"), "{what}: forgotten, and there: {held:?}");
        }
        is_told(&world, "shop").await;

        // The hub goes on working, for this member too.
        world.deliver("other", &["berlin"], &config_map("other", "one")).await;
        world.ready("other").await;
        berlin(&world).set_validating_admission(None);
        if doing == Doing::Removing {
            world.removed("shop").await;
        } else {
            world.reconcile_now("shop", "1").await;
            world.ready("shop").await;
        }
        match removes {
            true => alice.gone(&settings).await,
            false => assert!(says("two")(&alice.live(&settings).await), "{what}"),
        }
        world.end().await;
    });
}

#[test]
fn an_update_that_a_webhook_refuses_with_409_is_tried_again_after_pauses_and_told() {
    refused(Doing::Updating, (409, "Conflict"), &Value::Null);
}

#[test]
fn an_update_that_a_webhook_refuses_with_404_is_tried_again_after_pauses_and_told() {
    refused(Doing::Updating, (404, "NotFound"), &Value::Null);
}

#[test]
fn whatever_a_webhook_refuses_with_whichever_code_is_tried_again_after_pauses_and_told() {
    use Doing::{Creating, Dropping, Removing, Updating};
    for (doing, code, reason) in [
        (Creating, 404, "NotFound"),
        (Creating, 409, "Conflict"),
        (Creating, 410, "Gone"),
        (Creating, 500, "InternalError"),
        (Updating, 410, "Gone"),
        (Updating, 500, "InternalError"),
        (Dropping, 409, "Conflict"),
        (Dropping, 410, "Gone"),
        (Dropping, 500, "InternalError"),
        (Removing, 409, "Conflict"),
        (Removing, 500, "InternalError"),
    ] {
        refused(doing, (code, reason), &Value::Null);
    }
}

#[test]
fn what_a_webhook_does_not_find_is_not_the_object_that_it_was_asked_about() {
    use Doing::{Creating, Dropping, Removing, Updating};
    let named = |group: &str, kind: &str, name: &str| json!({"group": group, "kind": kind, "name": name});
    for missing in [
        named("apps", "deployments", "settings"),
        named("example.com", "configmaps", "settings"),
        named("", "configmaps", "main"),
        named("", "namespaces", "x"),
        named("", "namespaces", OWN),
    ] {
        for doing in [Creating, Updating, Dropping, Removing] {
            refused(doing, (404, "NotFound"), &missing);
        }
    }
}

/// A webhook whose cache does not have the object yet says so in the server's own words.
#[test]
fn a_dropped_object_of_which_a_webhook_says_that_it_is_not_there_stays_in_the_inventory() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct").await;
        let both = config_map("settings", "one") + &config_map("beside", "one");
        world.deliver("shop", &["berlin"], &both).await;
        world.ready("shop").await;
        let own = json!({"kind": "configmaps", "name": "settings"});
        refuse_about(&world, Verb::Delete, (404, "NotFound"), &own);
        world.deliver("shop", &["berlin"], &config_map("beside", "one")).await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        alice.live(&settings).await;
        let held = world.inventory("shop", "berlin").await;
        assert!(held.iter().any(|entry| entry.name == "settings"), "forgotten, and still there: {held:?}");
        is_told(&world, "shop").await;
        berlin(&world).set_validating_admission(None);
        world.reconcile_now("shop", "1").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

/// An API server says of a field that the kind does not have 500 without a reason, of others 400.
#[test]
fn what_a_server_says_of_a_wrong_field_is_told_as_that_and_tried_again_every_five_minutes() {
    for (code, reason) in [(500, ""), (400, "BadRequest")] {
        scenario(async |world| {
            let (alice, settings) = delivered(&world, "Correct").await;
            refuse(&world, Verb::Apply, code, reason);
            let mark = world.mark();
            world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
            let told = world.target_is("shop", "berlin", TargetState::Failed, "InvalidField").await;
            assert!(told.contains(WORDS), "{told}");
            world.resource_says("shop", "Stalled", "False", "Moving").await;
            tokio::time::sleep(Duration::from_secs(1200)).await;
            let tries = world.writes_to(&settings, "berlin", &mark).len();
            // A few soon, until that is told; then four.
            assert!((4..=10).contains(&tries), "{tries} tries in 20 min of {code}");

            berlin(&world).set_validating_admission(None);
            tokio::time::sleep(Duration::from_secs(310)).await;
            assert!(says("two")(&alice.live(&settings).await), "tried again after five minutes");
            world.ready("shop").await;
            world.end().await;
        });
    }
}

/// The first failure of its kind was tried again as rarely as what had failed before it.
#[test]
fn what_fails_otherwise_than_before_is_tried_again_soon_however_often_that_had_failed() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct").await;
        refuse(&world, Verb::Apply, 403, "Forbidden");
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        world.target_is("shop", "berlin", TargetState::Failed, "Forbidden").await;
        tokio::time::sleep(Duration::from_secs(1200)).await;

        refuse(&world, Verb::Apply, 503, "ServiceUnavailable");
        world.reconcile_now("shop", "1").await;
        world.target_is("shop", "berlin", TargetState::Failed, "ServerError").await;
        berlin(&world).set_validating_admission(None);
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(says("two")(&alice.live(&settings).await), "tried again within half a minute");
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_dropped_object_whose_deletion_a_webhook_refuses_with_404_stays_in_the_inventory() {
    refused(Doing::Dropping, (404, "NotFound"), &Value::Null);
}

#[test]
fn a_resource_whose_object_a_webhook_does_not_let_go_with_404_waits_for_it() {
    refused(Doing::Removing, (404, "NotFound"), &Value::Null);
}

#[test]
fn what_a_webhook_refuses_with_409_is_not_deleted_to_be_made_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &immutable_settings("one")).await;
        world.ready("shop").await;
        let made = uid(&alice.live(&settings).await);
        // As the hub asks whether it could be made, and as it would be made.
        for details in [Value::Null, json!({"group": "", "kind": "ledgers", "name": "main"})] {
            refuse_about(&world, Verb::Create, (409, "AlreadyExists"), &details);
            world.deliver("shop", &["berlin"], &immutable_settings("two")).await;
            is_told(&world, "shop").await;
            assert_eq!(uid(&alice.live(&settings).await), made, "it was deleted and cannot be made again");
        }
        berlin(&world).set_validating_admission(None);
        world.reconcile_now("shop", "1").await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&settings).await));
        world.end().await;
    });
}

/// From now on a webhook of berlin takes what the hub notes in annotations off the object of this name.
fn strip(world: &World, name: &str) {
    let name = name.to_owned();
    let hook = move |_: &Call, object: &mut Value| {
        if object["metadata"]["name"] == *name
            && let Some(annotations) = object["metadata"]["annotations"].as_object_mut()
        {
            annotations.retain(|key, _| !key.contains("vidra.dev"));
        }
    };
    berlin(world).set_mutating_admission(Some(Arc::new(hook)));
}

/// The reasons and messages of VidraTargets from now on.
fn messages(world: &World) -> Arc<Mutex<Vec<String>>> {
    let messages: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = messages.clone();
    let hook = move |call: &Call, object: &Value| {
        if call.resource == "vidratargets" && call.subresource == "status" {
            let of = |field: &str| object["status"][field].as_str().unwrap_or_default();
            kept.lock().push(format!("{}: {}", of("reason"), of("message")));
        }
        Ok(())
    };
    let hub = memory(world, "hub");
    hub.set_validating_admission(Some(Arc::new(hook)));
    messages
}

/// A Namespace or an object of an earlier wave that loses its annotations each time it is applied, and why the rest waits.
fn unmarked(first: &Value, rest: &Value, (name, reason): (&str, &str)) {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        strip(&world, name);
        let (told, mark) = (messages(&world), world.mark());
        world.deliver("shop", &["berlin"], &(object(first) + &object(rest))).await;
        let in_namespace = |object: &Value| {
            let mut object = object.clone();
            if object["kind"] == "ConfigMap" && object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = world.ns.as_str().into();
            }
            At::of(&object)
        };
        let (first, rest) = (in_namespace(first), in_namespace(rest));
        let message = world.target_is("shop", "berlin", TargetState::Failed, "Contention").await;
        assert!(message.contains(name), "{message}");
        tokio::time::sleep(Duration::from_secs(45)).await;
        let applies = world.writes_to(&first, "berlin", &mark).len();
        assert!((3..=10).contains(&applies), "{applies} applies in a minute");
        let words = "takes the hub's annotations off it each time it is applied";
        let is = |one: &String| one.starts_with(reason) && one.contains(words);
        assert!(told.lock().iter().any(is), "{:?}", told.lock());
        world.alice("berlin").await.when(&rest, "delivered all the same", |_| true).await;

        berlin(&world).set_mutating_admission(None);
        world.reconcile_now("shop", "1").await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_loses_the_hubs_annotations_each_time_is_applied_a_few_times_and_told_and_the_rest_is_delivered() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stripped"}});
    let rest = config_map_in("stripped", "settings", "one");
    unmarked(&namespace, &rest, ("stripped", "WaitingForObject"));
    let mut rest = config_map_in("", "settings", "one");
    rest["metadata"]["annotations"] = json!({"vidra.dev/wave": "1"});
    unmarked(&config_map_in("", "stripped", "one"), &rest, ("stripped", "WaitingForWave"));
}

#[test]
fn what_a_revision_dropped_and_is_wanted_again_is_no_drift_while_a_webhook_refuses_it() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = || json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"}});
        let plain = config_map("plain", "one");
        let both = plain.clone() + &config_map("settings", "one");
        world.deliver_with("shop", &both, spec()).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        alice.merge(&settings, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.deliver_with("shop", &plain, spec()).await;
        alice
            .when(&settings, "on its way out", |live| live["metadata"]["deletionTimestamp"].is_string())
            .await;
        world.deliver_with("shop", &both, spec()).await;
        world.look("shop", "wanted again", 1).await;
        refuse_about(&world, Verb::Apply, (403, "Forbidden"), &Value::Null);
        alice.merge(&settings, json!({"metadata": {"finalizers": null}})).await;
        is_told(&world, "shop").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((status.drift, status.changes), (Some(DriftState::InSync), vec![]));
        berlin(&world).set_validating_admission(None);
        world.reconcile_now("shop", "1").await;
        world.ready("shop").await;
        world.end().await;
    });
}
