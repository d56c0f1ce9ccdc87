//! Watches that lie, fall silent, or follow a member that has gone back in time: what only clusters in memory can
//! be made to do, and hours that pass at once.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster, Fault, Verb, WatchFault};
use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::{ChangeKind, TargetState, VidraTargetStatus};

use super::{memory, scenario};
use crate::{config_map, object, says, settings::set};

fn berlin(world: &World) -> Cluster {
    memory(world, "berlin")
}

fn is_of_maps(call: &Call) -> bool {
    call.resource == "configmaps" && &*call.user == "vidra-hub"
}

/// Berlin's watches say nothing of these events of ConfigMaps.
fn lose(world: &World, kind: &'static str) {
    let hook = move |call: &Call, event: &str, _: &Value| match is_of_maps(call) && event == kind {
        true => WatchFault::Lose,
        false => WatchFault::None,
    };
    berlin(world).set_watch_fault(Some(Arc::new(hook)));
}

async fn hours(count: u64) {
    tokio::time::sleep(Duration::from_secs(count * 3600)).await;
}

fn faults(world: &World, fault: &str) -> f64 {
    world.metric(&format!(
        "vidra_watch_faults_total{{cluster=\"berlin\",kind=\"v1 ConfigMap\",fault=\"{fault}\"}}"
    ))
}

/// What Events with this reason say.
async fn said(world: &World, reason: &str) -> Vec<String> {
    let all = world.hub.list(&At::new("events.k8s.io/v1", "Event", "", "")).await;
    let of_reason = all.iter().filter(|event| event["reason"] == reason);
    of_reason.map(|event| event["note"].as_str().unwrap().to_owned()).collect()
}

/// How often the hub has listed ConfigMaps of berlin.
fn lists(world: &World, since: &testkit::world::Mark) -> usize {
    let requests = world.requests("berlin", since);
    requests.iter().filter(|one| one.verb == "list" && one.resource == "configmaps").count()
}

#[test]
fn a_watch_that_loses_events_is_found_out_by_the_next_verification() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let all = config_map("edited", "one") + &config_map("deleted", "one") + &config_map("quiet", "one");
        world.deliver("shop", &["berlin"], &all).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        // While nothing changes, it is the only thing that lists: once in an hour, a tenth more or less.
        let mark = world.mark();
        hours(10).await;
        let listed = lists(&world, &mark);
        assert!((9..=12).contains(&listed), "{listed}");
        assert_eq!(world.writes("berlin", &mark), []);
        assert_eq!(said(&world, "WatchEventsMissed").await, [""; 0]);

        for (name, kind) in [("edited", "MODIFIED"), ("deleted", "DELETED")] {
            let before = faults(&world, "lost");
            lose(&world, kind);
            match name {
                "edited" => drop(alice.merge(&at(name), json!({"data": {"key": "evil"}})).await),
                _ => alice.delete(&at(name)).await,
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            berlin(&world).set_watch_fault(None);
            assert!(!alice.get(&at(name)).await.is_some_and(|live| says("one")(&live)), "nobody knows of it");
            hours(2).await;
            assert!(says("one")(&alice.live(&at(name)).await), "{name} is as declared");
            assert_eq!(faults(&world, "lost"), before + 1.0, "{name}");
        }
        let notes = said(&world, "WatchEventsMissed").await;
        assert!(
            notes.iter().any(|note| note.contains("v1 ConfigMap") && note.contains("1 object,")),
            "{notes:?}"
        );
        world.ready("shop").await;

        // Switched off, nothing lists and nothing is found.
        set(&world, json!({"verifyInterval": "0s"})).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        let mark = world.mark();
        lose(&world, "MODIFIED");
        alice.merge(&at("edited"), json!({"data": {"key": "evil"}})).await;
        hours(10).await;
        assert_eq!(lists(&world, &mark), 0);
        assert!(says("evil")(&alice.live(&at("edited")).await));
        berlin(&world).set_watch_fault(None);
        set(&world, json!({"verifyInterval": "5m"})).await;
        hours(1).await;
        assert!(says("one")(&alice.live(&at("edited")).await));
        world.end().await;
    });
}

/// One ConfigMap is delivered, of which from then on no watch tells: somebody, and where it is.
async fn without_watches(world: &World, fault: Fault) -> (Access, At) {
    world.register(&["berlin"]).await;
    set(world, json!({"verifyInterval": "0s", "interval": "30s"})).await;
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
    berlin(world).set_fault(Arc::new(move |call: &Call| {
        match is_of_maps(call) && call.verb == Verb::Watch {
            true => fault.clone(),
            false => Fault::None,
        }
    }));
    berlin(world).cut_watches();
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

#[test]
fn a_watch_that_is_silent_and_does_not_end_counts_for_nothing() {
    scenario(async |world| {
        let (alice, settings) = without_watches(&world, Fault::Silent).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        for _ in 0..3 {
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            tokio::time::sleep(Duration::from_secs(300)).await;
            assert!(
                says("one")(&alice.live(&settings).await),
                "within its timeout, a grace, and an interval"
            );
        }
        assert!(faults(&world, "silent") >= 1.0);
        assert!(said(&world, "WatchStalled").await[0].contains("v1 ConfigMap"));

        // It speaks again: nothing is listed any more.
        berlin(&world).clear_fault();
        berlin(&world).cut_watches();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let mark = world.mark();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(lists(&world, &mark), 0);
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "as declared", says("one")).await;
        world.end().await;
    });
}

/// A server that has seen nothing of a kind since it started sends no bookmarks either.
#[test]
fn a_watch_that_is_silent_and_ends_in_order_is_followed_by_a_list() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        set(&world, json!({"verifyInterval": "0s"})).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let nothing = |call: &Call, _: &str, _: &Value| match is_of_maps(call) {
            true => WatchFault::Lose,
            false => WatchFault::None,
        };
        berlin(&world).set_watch_fault(Some(Arc::new(nothing)));
        berlin(&world).cut_watches();
        tokio::time::sleep(Duration::from_secs(30)).await;
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(says("one")(&alice.live(&settings).await), "within its timeout");
        world.end().await;
    });
}

#[test]
fn a_member_that_was_restored_from_a_backup_is_listed_again_and_loses_nothing() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        set(&world, json!({"verifyInterval": "0s"})).await;
        let both = |value: &str| config_map("settings", value) + &config_map("more", value);
        world.deliver("shop", &["berlin"], &both("one")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let backup = berlin(&world).backup();
        let before = alice.live(&at("settings")).await;

        world.deliver("shop", &["berlin"], &(both("two") + &config_map("new", "two"))).await;
        world.ready("shop").await;
        alice.when(&at("new"), "made", says("two")).await;
        let mark = world.mark();
        berlin(&world).restore(&backup);
        // No connection but the watches' has broken: only the versions tell.
        for name in ["settings", "more", "new"] {
            alice.when(&at(name), "as declared", says("two")).await;
        }
        world.ready("shop").await;
        assert_eq!(alice.live(&at("settings")).await["metadata"]["uid"], before["metadata"]["uid"]);
        assert!(said(&world, "MemberRestored").await[0].contains("restored from a backup"));
        let deletes: Vec<_> =
            world.writes("berlin", &mark).into_iter().filter(|one| one.verb == "delete").collect();
        assert_eq!(deletes, []);
        // And it is followed: what happens now is seen at once.
        alice.merge(&at("more"), json!({"data": {"key": "evil"}})).await;
        alice.when(&at("more"), "as declared", says("two")).await;
        world.end().await;
    });
}

#[test]
fn watches_whose_position_has_expired_are_begun_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        set(&world, json!({"verifyInterval": "0s"})).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        // In the stream; at the start, with a history that is gone; at the start, by its status.
        let compact: fn(&Cluster) = |cluster| {
            cluster.cut_watches();
            cluster.compact();
        };
        let status: fn(&Cluster) = |cluster| {
            let spent = std::sync::atomic::AtomicBool::new(false);
            cluster.set_fault(Arc::new(move |call: &Call| {
                let first = is_of_maps(call)
                    && call.verb == Verb::Watch
                    && !spent.swap(true, std::sync::atomic::Ordering::Relaxed);
                if first { Fault::Status(410, "Expired") } else { Fault::None }
            }));
            cluster.cut_watches();
        };
        for (turn, expire) in [Cluster::expire_watches, compact, status].into_iter().enumerate() {
            let mark = world.mark();
            alice.merge(&settings, json!({"metadata": {"annotations": {"turn": turn.to_string()}}})).await;
            expire(&berlin(&world));
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            alice.when(&settings, "as declared", says("one")).await;
            berlin(&world).clear_fault();
            assert!((1..=2).contains(&lists(&world, &mark)), "{turn}: {}", lists(&world, &mark));
        }
        assert_eq!(said(&world, "MemberRestored").await, [""; 0]);
        world.target_is("shop", "berlin", TargetState::Ready, "Ready").await;
        world.end().await;
    });
}

#[test]
fn a_right_to_watch_that_is_missing_is_told_for_as_long_as_it_is() {
    scenario(async |world| {
        let (_, settings) = without_watches(&world, Fault::Status(403, "Forbidden")).await;
        let mark = world.mark();
        for _ in 0..3 {
            world.target_is("shop", "berlin", TargetState::Failed, "CannotWatch").await;
            tokio::time::sleep(Duration::from_secs(120)).await;
        }
        let told = world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark);
        assert!(told.len() < 12, "{}", told.len());
        berlin(&world).clear_fault();
        world.ready("shop").await;
        world.alice("berlin").await.live(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_kind_that_cannot_be_listed_for_a_while_is_told_and_waited_for() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        berlin(&world).set_fault(Arc::new(|call: &Call| match is_of_maps(call) && call.verb == Verb::List {
            true => Fault::Status(500, "InternalError"),
            false => Fault::None,
        }));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "ListFailed").await;
        assert!(message.contains("could not be listed"), "{message}");
        berlin(&world).clear_fault();
        world.ready("shop").await;
        world.end().await;
    });
}

/// Delivers a Service with what comes back of it, and this beside it.
async fn deliver_with_feedback(world: &World, manifest: &str) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "type": "LoadBalancer", "loadBalancerClass": "example.com/alice", "ports": [{"port": 80}]}});
    let rules = json!([{"apiVersion": "v1", "kind": "Service", "name": "web"}]);
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "statusFeedback": rules});
    world.deliver_with("shop", &(manifest.to_owned() + &object(&service)), spec).await;
}

#[test]
fn what_was_told_stands_after_a_restart_while_a_kind_cannot_be_listed() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, old) = (world.alice("berlin").await, At::config_map(&world.ns, "old"));
        let settings = config_map("settings", "one");
        deliver_with_feedback(&world, &(settings.clone() + &config_map("old", "one"))).await;
        world.ready("shop").await;
        let balancer = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}});
        alice.merge_status(&At::new("v1", "Service", &world.ns, "web"), json!({"status": balancer})).await;
        alice.merge(&old, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        deliver_with_feedback(&world, &settings).await;
        let told = |status: &VidraTargetStatus| {
            let values = status.feedback.as_ref().map_or(0, |feedback| feedback.objects.len());
            (values, status.removing.as_ref().map_or(0, |removing| removing.objects))
        };
        let is_told = |status: &VidraTargetStatus| told(status) == (1, 1);
        world.target_when("shop", "berlin", "its address, and what goes", is_told).await;

        world.stop_hub().await;
        let is_list = |call: &Call| call.resource == "services" && call.verb == Verb::List;
        berlin(&world).set_fault(Arc::new(move |call: &Call| match is_list(call) {
            true => Fault::Status(500, "InternalError"),
            false => Fault::None,
        }));
        world.start_hub().await;
        world.target_is("shop", "berlin", TargetState::Waiting, "ListFailed").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!(told(&status), (1, 1), "{status:?}");

        berlin(&world).clear_fault();
        alice.merge(&old, json!({"metadata": {"finalizers": null}})).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_watch_that_cannot_be_opened_counts_for_nothing_until_it_can() {
    scenario(async |world| {
        // As behind a gateway that lets no answer last.
        let refused = Fault::Status(503, "ServiceUnavailable");
        let (alice, settings) = without_watches(&world, refused).await;
        tokio::time::sleep(Duration::from_secs(180)).await;
        for _ in 0..3 {
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(says("one")(&alice.live(&settings).await), "within an interval");
        }

        berlin(&world).clear_fault();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("one")).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(lists(&world, &mark), 0, "its watch tells");
        world.end().await;
    });
}

/// A ConfigMap is delivered under Report, and somebody has taken the hub's label off it.
async fn hidden(world: &World) -> (Access, At) {
    world.register(&["berlin"]).await;
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"},
        "reconcile": {"interval": "1m"}});
    world.deliver_with("shop", &config_map("settings", "one"), spec).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

async fn hide(alice: &Access, at: &At) {
    alice.merge(at, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
}

/// Waits until this alone is told of the ConfigMap.
async fn is_told(world: &World, change: ChangeKind) -> VidraTargetStatus {
    let is = |status: &VidraTargetStatus| status.changes.iter().map(|one| one.change).eq([change]);
    world.target_when("shop", "berlin", &format!("{change:?}"), is).await.status.unwrap()
}

#[test]
fn what_is_out_of_sight_is_not_told_to_be_gone_while_it_cannot_be_read() {
    scenario(async |world| {
        let (alice, settings) = hidden(&world).await;
        berlin(&world).set_fault(Arc::new(|call: &Call| match is_of_maps(call) && call.verb == Verb::Get {
            true => Fault::Status(500, "InternalError"),
            false => Fault::None,
        }));
        hide(&alice, &settings).await;
        let failed = |status: &VidraTargetStatus| status.state == Some(TargetState::Failed);
        let status = world.target_when("shop", "berlin", "a look fails", failed).await.status.unwrap();
        assert_eq!((&status.changes[..], &status.unready[..]), (&[][..], &[][..]), "nobody knows");
        berlin(&world).clear_fault();
        let status = is_told(&world, ChangeKind::OwnershipLost).await;
        assert_eq!(status.state, Some(TargetState::Ready));
        world.end().await;
    });
}

#[test]
fn what_is_deleted_out_of_sight_is_told_to_be_gone_by_the_next_verification() {
    scenario(async |world| {
        let (alice, settings) = hidden(&world).await;
        hide(&alice, &settings).await;
        is_told(&world, ChangeKind::OwnershipLost).await;
        alice.delete(&settings).await;
        hours(2).await;
        let status = is_told(&world, ChangeKind::Missing).await;
        assert_eq!(status.reason.as_deref(), Some("ObjectsMissing"), "no watch shows its end");
        let mark = world.mark();
        hours(10).await;
        assert_eq!(world.requests_for(&settings, "berlin", &mark), [], "what is gone stays so");
        world.end().await;
    });
}

/// A watch that was dead counts for nothing until it tells. A list beside it was answered after the end of an object, and brought
/// that back: what was declared again was taken for delivered.
#[test]
fn a_list_beside_a_watch_that_is_yet_to_tell_brings_nothing_back() {
    scenario(async |world| {
        let (alice, settings) = without_watches(&world, Fault::Silent).await;
        world.deliver("other", &["berlin"], &config_map("beside", "one")).await;
        // It is dead: targets list.
        tokio::time::sleep(Duration::from_secs(240)).await;
        assert!(faults(&world, "silent") >= 1.0);
        berlin(&world).clear_fault();
        // A good one, which has said nothing yet.
        berlin(&world).cut_watches();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let late = |call: &Call| match is_of_maps(call) && call.verb == Verb::List {
            true => Fault::Late(Duration::from_secs(3)),
            false => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(late));
        world.reconcile_now("other", "1").await;
        // Its list is read, and not answered.
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.hub.delete(&world.resource_at("shop")).await;
        world.removed("shop").await;
        alice.gone(&settings).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        berlin(&world).clear_fault();
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        assert!(says("one")(&alice.live(&settings).await), "Ready, and nothing is there");
        world.end().await;
    });
}
