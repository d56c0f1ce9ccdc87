//! A run with workloads, rights, hooks and every fault is a function of its seed.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::*;
use crate::{Call, Fault, Outcome, WatchFault, run_workloads};

type Chance = Arc<Mutex<fastrand::Rng>>;

fn break_calls(cluster: &Cluster, chance: Chance) {
    let whole = cluster.clone();
    cluster.set_fault(Arc::new(move |_: &Call| {
        let older = whole.revision().saturating_sub(chance.lock().u64(..20));
        match chance.lock().u8(..24) {
            0 => Fault::DropBefore,
            1 => Fault::DropAfter,
            2 => Fault::Delay(Duration::from_millis(40)),
            3 => Fault::HalfBody,
            4 => Fault::Conflict,
            5 => Fault::Unauthorized,
            6 => Fault::Status(503, "ServiceUnavailable"),
            7 => Fault::Stale(older),
            8 => Fault::StaleReads(older),
            9 => Fault::Silent,
            _ => Fault::None,
        }
    }));
}

fn break_watches(cluster: &Cluster, chance: Chance) {
    cluster.set_watch_fault(Some(Arc::new(move |_: &Call, _: &str, _: &Value| {
        match chance.lock().u8(..24) {
            0 => WatchFault::Lose,
            1 => WatchFault::Half,
            2 => WatchFault::Expire,
            3 => WatchFault::Silence,
            _ => WatchFault::None,
        }
    })));
}

/// Writes Deployments for a while, whatever becomes of it.
async fn write(cluster: Cluster, number: u64) {
    let api: Api<Deployment> = Api::namespaced(cluster.client_as("writer"), "default");
    for round in 0..12u64 {
        let name = format!("w-{}", (number + round) % 3);
        let labels = json!({"app": name, "round": (round / 4).to_string()});
        let body = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": round % 5, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        });
        let params = PatchParams::apply(&format!("m{number}")).force();
        let _ = timeout(Duration::from_secs(5), api.patch(&name, &params, &Patch::Apply(body))).await;
        let _ = timeout(Duration::from_secs(5), api.list(&ListParams::default())).await;
        if round % 5 == number {
            let _ = timeout(Duration::from_secs(5), api.delete(&name, &DeleteParams::default())).await;
        }
        sleep(Duration::from_millis(700 + 90 * number)).await;
    }
}

/// The calls, what a watcher saw, and what is stored at the end.
fn run(seed: u64) -> (Vec<String>, Vec<String>, Vec<Value>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let start = "2026-01-01T00:00:00Z".parse().expect("a time");
        let cluster = Cluster::new("one", Options { clock: tokio_clock(start), uids: seed });
        cluster.authorize_with_rbac(["writer"]);
        cluster.put_in_groups("watcher", ["system:masters"]);
        cluster.set_mutating_admission(Some(Arc::new(|call: &Call, object: &mut Value| {
            object["metadata"]["annotations"]["call"] = json!((call.index % 2).to_string());
        })));
        let chance: Chance = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        fastrand::seed(seed);
        break_calls(&cluster, chance.clone());
        break_watches(&cluster, chance.clone());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tasks = tokio::task::JoinSet::new();
        let plan = move |_: &Value| match chance.lock().u8(..4) {
            0 => Outcome::Stuck,
            1 => Outcome::Failed(Duration::from_secs(1), "FailedCreate".to_owned()),
            _ => Outcome::Ready(Duration::from_secs(2)),
        };
        let controllers = run_workloads(cluster.clone(), plan);
        tasks.spawn(async move { drop(timeout(Duration::from_secs(60), controllers).await) });
        let api: Api<Deployment> = Api::namespaced(cluster.client_as("watcher"), "default");
        let notes = seen.clone();
        tasks.spawn(async move {
            let events = watcher::watcher(api, watcher::Config::default()).for_each(|event| {
                notes.lock().push(format!("{event:?}"));
                async {}
            });
            drop(timeout(Duration::from_secs(60), events).await);
        });
        for number in 0..3 {
            tasks.spawn(write(cluster.clone(), number));
        }
        sleep(Duration::from_secs(3)).await;
        let backup = cluster.backup();
        sleep(Duration::from_secs(2)).await;
        cluster.restore(&backup);
        sleep(Duration::from_secs(2)).await;
        cluster.expire_watches();
        while tasks.join_next().await.is_some() {}
        let trace = cluster.requests().iter().map(Call::to_string).collect();
        let seen = seen.lock().clone();
        (trace, seen, cluster.objects("apps", "deployments"))
    })
}

#[test]
fn two_runs_with_workloads_and_every_fault_are_the_same() {
    let first = run(1);
    assert!(
        first.0.len() > 70 && first.1.len() > 10 && !first.2.is_empty(),
        "{} {}",
        first.0.len(),
        first.1.len()
    );
    assert_eq!(first, run(1));
    assert_ne!(first.0, run(2).0);
}
