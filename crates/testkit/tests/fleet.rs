//! Hundreds of members to which the same happens at once: what it makes the hub write, and how soon all is well again.
//! `VIDRA_FLEET=1000` takes so many.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use memkube::{Call, Cluster, Down, Fault};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use testkit::world::{Mark, World, in_memory_with_members};
use tokio::time::{advance, sleep};

const RESOURCES: usize = 4;
/// How many members there are.
fn members() -> usize {
    std::env::var("VIDRA_FLEET").ok().and_then(|many| many.parse().ok()).unwrap_or(250)
}

const SECOND: Duration = Duration::from_secs(1);

/// A world with members that are Ready.
fn scenario(scenario: impl AsyncFnOnce(World, &[&str])) {
    let names: Vec<String> = (0..members()).map(|number| format!("edge-{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    in_memory_with_members(&names, async |world| {
        world.register(&names).await;
        scenario(world, &names).await;
    });
}

fn cluster(world: &World, name: &str) -> Cluster {
    world.bed().memory(name).expect("this bed is in memory")
}

/// CPU time of this thread, on which all of the scenario happens.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn name(resource: usize) -> String {
    format!("r{resource}")
}

/// The manifest of a ConfigMap.
fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "one"}})
        .to_string()
}

/// How many VidraTargets are in each state, read beside the API.
fn states(world: &World) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for target in cluster(world, "hub").objects("vidra.dev", "vidratargets") {
        *states.entry(target["status"]["state"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    states
}

/// How many MemberClusters say so of their contact.
fn reachable(world: &World, status: &str) -> usize {
    let all = cluster(world, "hub").objects("vidra.dev", "memberclusters");
    let says = |member: &&Value| {
        let conditions = member["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(|one| one["type"] == "Reachable").all(|one| one["status"] == status)
    };
    all.iter().filter(says).count()
}

/// The hub's writes to its own API since then, by what they are of; Events among them.
fn writes(world: &World, since: &Mark) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for request in world.requests("hub", since) {
        if matches!(request.verb.as_str(), "create" | "update" | "patch" | "delete")
            && request.resource != "leases"
        {
            *all.entry(request.resource).or_default() += 1;
        }
    }
    all
}

/// What is written of so many targets whose state changes, in so many seconds: nothing but statuses, and few of them.
fn is_bounded(written: &BTreeMap<String, usize>, seconds: usize) {
    for (what, count) in written {
        let most = match what.as_str() {
            "vidratargets/status" => members() * RESOURCES,
            // Contact, and the counts that follow it.
            "memberclusters/status" => 3 * members(),
            // One a second.
            "vidraresources/status" => RESOURCES * seconds,
            // What comes within two seconds is one; of the VidraResource and of its targets.
            "events" => RESOURCES * seconds,
            _ => 0,
        };
        assert!(*count <= most, "{count} writes of {what}, {most} at most: {written:?}");
    }
}

#[test]
fn a_fleet_that_is_lost_at_once_is_told_in_a_few_events_and_ready_within_30_seconds_of_its_return() {
    scenario(async |world, names| {
        for resource in 0..RESOURCES {
            let name = name(resource);
            let spec = json!({"targets": [{"clusterSelector": {}}]});
            world.deliver_with(&name, &config_map(&name), spec).await;
        }
        for resource in 0..RESOURCES {
            world.ready(&name(resource)).await;
        }
        sleep(SECOND * 60).await;
        let all: Vec<Cluster> = names.iter().map(|name| cluster(&world, name)).collect();

        let (mark, before) = (world.mark(), cpu());
        // Some networks swallow what is sent, and others refuse it.
        for (nth, member) in all.iter().enumerate() {
            member.set_down(Some(if nth.is_multiple_of(2) { Down::Hang } else { Down::Refuse }));
        }
        sleep(SECOND * 300).await;
        let (lost, loss) = (writes(&world, &mark), cpu() - before);
        assert_eq!(states(&world), BTreeMap::from([("Unknown".to_owned(), members() * RESOURCES)]));
        assert_eq!(reachable(&world, "False"), members());
        is_bounded(&lost, 300);

        let (mark, before) = (world.mark(), cpu());
        all.iter().for_each(|member| member.set_down(None));
        sleep(SECOND * 30).await;
        assert_eq!(states(&world), BTreeMap::from([("Ready".to_owned(), members() * RESOURCES)]));
        assert_eq!(reachable(&world, "True"), members());
        for resource in 0..RESOURCES {
            let at = world.resource_at(&name(resource));
            let said = world.hub.live(&at).await["status"].clone();
            assert_eq!(said["targetsReady"], format!("{0}/{0}", members()), "{said}");
        }
        let (back, return_) = (writes(&world, &mark), cpu() - before);
        is_bounded(&back, 30);
        let of_members: usize = names.iter().map(|name| world.writes(name, &mark).len()).sum();
        assert_eq!(of_members, 0, "nothing had changed in the members");
        assert_eq!(world.metric("vidra_events_dropped_total"), 0.0);
        tracing::info!(target: "testkit", ?lost, ?loss, ?back, ?return_, members = members(), "lost and back");
        world.end().await;
    });
}

#[test]
fn a_process_that_is_starved_for_half_a_minute_at_a_time_takes_no_member_of_a_fleet_for_silent() {
    scenario(async |world, names| {
        sleep(SECOND * 60).await;
        let mark = world.mark();
        // The answers are there, and this process does not come to read them.
        let is_probe =
            |call: &Call| &*call.user == "vidra-hub" && call.path == "/api/v1/namespaces/kube-system";
        let unread = Arc::new(move |call: &Call| if is_probe(call) { Fault::Hang } else { Fault::None });
        let all: Vec<Cluster> = names.iter().map(|name| cluster(&world, name)).collect();
        all.iter().for_each(|member| member.set_fault(unread.clone()));
        for _ in 0..5 {
            // Some are asked now, some wait for their turn, some wait for an answer.
            sleep(SECOND * 4).await;
            advance(SECOND * 30).await;
        }
        all.iter().for_each(|member| member.clear_fault());
        sleep(SECOND * 60).await;
        let told = writes(&world, &mark);
        assert_eq!(told, BTreeMap::new(), "contact is as it was");
        world.end().await;
    });
}
