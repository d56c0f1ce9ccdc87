//! What a process does whose threads hang: it ends, and does not give its Lease back, for what they hang in may go on.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a process that hangs is what is tested")]

use std::{convert::Infallible, process::Command, sync::Arc, time::Duration};

use memkube::{Cluster, Options};
use serde_json::json;
use testkit::world::Access;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_hub::{
    base::env::SystemClock,
    leader_election::{
        keeper::{Keeper, Pulse},
        lease::{Claim, NAME},
    },
    telemetry,
};

/// Set in the process that hangs.
const HANGS: &str = "VIDRA_TEST_HANGS";

#[test]
fn a_process_whose_threads_hang_ends_and_keeps_its_lease() {
    if std::env::var(HANGS).is_ok() {
        return hangs();
    }
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_whose_threads_hang_ends_and_keeps_its_lease", "--nocapture"])
        .env(HANGS, "1")
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(70), "{said}");
    assert!(said.contains("the threads of this process hang"), "{said}");
    assert!(said.contains("held by \"one\""), "{said}");
}

/// In a process of its own: the only thread that works never comes back.
fn hangs() {
    telemetry::start(false, "info");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let kept = runtime.spawn(async {
        let now = || "2026-01-01T00:00:00Z".parse().unwrap();
        let cluster = Cluster::new("hub", Options { clock: Arc::new(now), uids: 1 });
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vidra-system"}});
        Access::new(cluster.client(), "kubectl").create(namespace).await;
        let (client, held) = (cluster.client_as("keeper"), cluster.clone());
        let claim = async move {
            let clock = Arc::new(SystemClock);
            Ok::<_, Infallible>(Claim::new(client, "vidra-system", "one".to_owned(), clock))
        };
        let pulse = Pulse::new(Duration::from_millis(20));
        TaskTracker::new().spawn(pulse.clone().beat());
        let end = pulse.watch(move || {
            let lease = held.object("coordination.k8s.io", "leases", "vidra-system", NAME).unwrap();
            println!("held by {}", lease["spec"]["holderIdentity"]);
            std::process::exit(70);
        });
        let keeper = Keeper::acquire(claim, CancellationToken::new(), end).await.unwrap();
        (cluster, keeper)
    });
    let _kept = runtime.block_on(kept).unwrap();
    let hanging = runtime.spawn(async { std::thread::sleep(Duration::from_secs(3600)) });
    runtime.block_on(hanging).unwrap();
}
