//! Watches of the hub's own kinds that lag behind its writes, or writes that lag behind what they follow: what is old does
//! not undo what is new. Only a server in memory can be made to lag.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Cluster, Fault, Verb, WatchFault};
use serde_json::{Value, json};
use testkit::world::{At, SOON, World, wait_for};
use vidra_api::DriftState;

use super::{memory, scenario};
use crate::{
    config_map, gadgets,
    handing_over::{is_the_seconds, to_move},
    object, says, uid,
};

fn hub(world: &World) -> Cluster {
    memory(world, "hub")
}

/// Watches of the hub go on where they stood, for a while only as far as this lets them.
async fn go_on(world: &World, slow: impl Fn(&Call, &str, &Value) -> WatchFault + Send + Sync + 'static) {
    hub(world).set_watch_fault(Some(Arc::new(slow)));
    hub(world).cut_watches();
    tokio::time::sleep(Duration::from_secs(5)).await;
    hub(world).set_watch_fault(None);
    hub(world).cut_watches();
    tokio::time::sleep(Duration::from_secs(30)).await;
}

#[test]
fn an_event_of_a_target_that_is_gone_does_not_delete_what_its_successor_delivered() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let manifest = config_map("settings", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;

        let lag = |call: &Call, _: &str, _: &Value| match call.resource.as_str() {
            "vidratargets" => WatchFault::Silence,
            _ => WatchFault::None,
        };
        hub(&world).set_watch_fault(Some(Arc::new(lag)));
        world.remove("shop").await;
        alice.gone(&settings).await;
        world.deliver("shop", &["berlin"], &manifest).await;
        let made = alice.when(&settings, "made again", |_| true).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;

        // The watch goes on where it stood: it tells that the first target is to go, and a while later that it has gone.
        let mark = world.mark();
        let slow = |call: &Call, event: &str, _: &Value| match call.resource == "vidratargets"
            && event == "DELETED"
        {
            true => WatchFault::Silence,
            false => WatchFault::None,
        };
        go_on(&world, slow).await;
        let deletes = world.writes("berlin", &mark).into_iter().filter(|one| one.verb == "delete");
        assert_eq!(deletes.collect::<Vec<_>>(), []);
        assert_eq!(alice.get(&settings).await.map(|live| uid(&live)), Some(uid(&made)));
        world.ready("shop").await;
        world.end().await;
    });
}

/// VidraResources with a target on the member that is lost.
const MANY: usize = 50;

#[test]
fn a_member_that_is_registered_again_is_not_emptied_before_its_targets_are_wanted_again() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let name = |number: usize| format!("r{number:03}");
        for number in 0..MANY {
            world.deliver(&name(number), &["berlin", "tokyo"], &config_map(&name(number), "one")).await;
        }
        for number in 0..MANY {
            world.ready(&name(number)).await;
            world.recorded(&name(number), &["berlin", "tokyo"]).await;
        }
        world.stop_hub().await;
        let member = world.member_at("berlin");
        world.hub.merge(&member, json!({"metadata": {"finalizers": null}})).await;
        world.hub.delete(&member).await;
        world.hub.gone(&member).await;
        let slow = |call: &Call| match call.resource == "vidratargets" && call.verb == Verb::Update {
            true => Fault::Delay(Duration::from_millis(200)),
            false => Fault::None,
        };
        hub(&world).set_fault(Arc::new(slow));

        let mark = world.mark();
        world.start_hub().await;
        world.member_says("berlin", "Ready", "True").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let writes: Vec<_> =
            world.writes("berlin", &mark).into_iter().map(|one| (one.verb, one.name)).collect();
        assert_eq!(writes, [], "all that was delivered there is wanted there");
        hub(&world).clear_fault();
        for number in 0..MANY {
            world.ready(&name(number)).await;
        }
        assert_eq!(world.writes("berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_watch_of_the_hubs_that_hangs_after_it_spoke_is_begun_again_where_it_stood() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let hangs = |call: &Call, _: &str, _: &Value| match call.resource.as_str() {
            "vidraresources" => WatchFault::Silence,
            _ => WatchFault::None,
        };
        hub(&world).set_watch_fault(Some(Arc::new(hangs)));
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(says("one")(&alice.live(&settings).await), "the hub has not heard of it");
        hub(&world).set_watch_fault(None);
        let mark = world.mark();
        // A bookmark would have come within a minute; a watch may last longer than three.
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(says("two")(&alice.live(&settings).await));
        let lists = world.requests("hub", &mark).into_iter().filter(|one| one.verb == "list");
        // One page of one object: how far the server is.
        assert_eq!(lists.count(), 1, "what the watch has missed is told by the next");
        world.end().await;
    });
}

#[test]
fn a_hub_that_cannot_see_one_of_its_kinds_any_more_ends_and_says_which() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        for verb in ["watch", "list"] {
            world.take_right(vidra_api::GROUP, "vidraresources", verb, "shop").await;
        }
        hub(&world).cut_watches();
        // It goes on for as long as that may be over in a moment.
        tokio::time::sleep(Duration::from_secs(120)).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("one")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let ended = world.ends_by_itself().await;
        for words in ["VidraResource", "150 s", "right to list and watch"] {
            assert!(ended.contains(words), "{ended}");
        }
        world.give_rights().await;
        world.start_hub().await;
        world.ready("shop").await;
        world.end().await;
    });
}

/// What was kept of it last says nothing of what it declares since.
#[test]
fn what_a_broken_source_may_declare_stays_though_no_watch_tells_of_it() {
    scenario(async |world| {
        let (alice, _, before) = to_move(&world).await;
        let texts = async |text: String| {
            let texts = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": text},
                "metadata": {"name": "texts", "namespace": world.ns}});
            world.hub.apply(&texts, true).await.expect("the source is taken");
        };
        texts(config_map("second", "one")).await;
        let from = json!([{"configMapRef": {"name": "texts"}}]);
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "manifestsFrom": from});
        world.deliver_with("second", &config_map("own", "one"), spec).await;
        world.ready("second").await;
        let namespace = world.ns.clone();
        let blind = move |call: &Call| {
            let is_followed = matches!(call.verb, Verb::List | Verb::Watch) && call.resource == "configmaps";
            match is_followed && call.namespace == namespace {
                true => Fault::Status(403, "Forbidden"),
                false => Fault::None,
            }
        };
        hub(&world).set_fault(Arc::new(blind));
        hub(&world).cut_watches();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let moved = config_map("second", "one") + &config_map("moved", "two");
        texts(moved.clone() + "---\nkind: [\n").await;
        world.reconcile_now("second", "1").await;
        world.resource_says("second", "Stalled", "True", "ManifestInvalid").await;
        world.deliver("first", &["berlin"], &config_map("first", "one")).await;
        let waits = |status: &vidra_api::VidraTargetStatus| {
            status.removing.as_ref().is_some_and(|one| one.reason == "HandingOver" && one.objects == 2)
        };
        world.target_when("first", "berlin", "waits for the second", waits).await;
        texts(moved).await;
        hub(&world).clear_fault();
        let now = is_the_seconds(&world, &alice, &before).await;
        assert!(says("two")(&now), "{now}");
        world.ready("first").await;
        world.end().await;
    });
}

#[test]
fn an_event_of_a_registration_from_before_its_member_left_does_not_bring_the_member_back() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (secret, member) = (world.registration("berlin"), world.member_at("berlin"));
        let lag = |call: &Call, _: &str, _: &Value| match call.resource == "secrets" {
            true => WatchFault::Silence,
            false => WatchFault::None,
        };
        hub(&world).set_watch_fault(Some(Arc::new(lag)));
        world.hub.merge(&secret, json!({"metadata": {"labels": {"region": "eu"}}})).await;
        world.hub.delete(&member).await;
        world.hub.gone(&member).await;
        let left = world.hub.live(&secret).await["metadata"]["annotations"]["vidra.dev/left-at"].clone();
        assert!(left.is_string(), "{left}");

        // The watch goes on where it stood: it tells of the label, and a while later that the member has left.
        let slow = |call: &Call, _: &str, object: &Value| {
            let has_left = object["metadata"]["annotations"]["vidra.dev/left-at"].is_string();
            if call.resource == "secrets" && has_left { WatchFault::Silence } else { WatchFault::None }
        };
        go_on(&world, slow).await;
        assert!(world.member("berlin").await.is_none(), "the member has left");
        world.end().await;
    });
}

#[test]
fn what_is_of_a_kind_that_went_while_no_watch_told_keeps_no_resource_from_leaving() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let group = format!("{}.example.com", world.ns);
        alice.create(gadgets(&group)).await;
        let gadget =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "one"}});
        world.deliver("shop", &["berlin"], &object(&gadget)).await;
        world.ready("shop").await;
        let silent = |call: &Call, _: &str, _: &Value| match call.resource.as_str() {
            "gadgets" | "customresourcedefinitions" => WatchFault::Silence,
            _ => WatchFault::None,
        };
        let berlin = memory(&world, "berlin");
        berlin.set_watch_fault(Some(Arc::new(silent)));
        berlin.cut_watches();
        let crd = At::of(&gadgets(&group));
        alice.delete(&crd).await;
        alice.gone(&crd).await;
        world.end().await;
    });
}

/// Its writer went by what stood before, and what the watch showed later woke nobody.
#[test]
fn a_status_that_was_written_without_an_answer_does_not_stand_when_it_is_so_no_more() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"}});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let lag = |call: &Call, _: &str, _: &Value| match call.resource.as_str() {
            "vidratargets" => WatchFault::Silence,
            _ => WatchFault::None,
        };
        hub(&world).set_watch_fault(Some(Arc::new(lag)));
        let first = AtomicBool::new(true);
        hub(&world).set_fault(Arc::new(move |call: &Call| {
            let is_status = call.resource == "vidratargets" && call.subresource == "status";
            match is_status && call.verb == Verb::Update && first.swap(false, Ordering::Relaxed) {
                true => Fault::DropAfter,
                false => Fault::None,
            }
        }));
        let drift = async || world.target("shop", "berlin").await.and_then(|one| one.status?.drift);
        alice.merge(&settings, json!({"data": {"key": "mine"}})).await;
        wait_for("it is written, and not answered", SOON, async || match drift().await {
            Some(DriftState::Drifted) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        // Before the next status is due.
        alice.merge(&settings, json!({"data": {"key": "one"}})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        hub(&world).clear_fault();
        hub(&world).set_watch_fault(None);
        hub(&world).cut_watches();
        world
            .target_when("shop", "berlin", "the last word", |one| one.drift == Some(DriftState::InSync))
            .await;
        world.end().await;
    });
}
