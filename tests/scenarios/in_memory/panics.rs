//! Panics in the middle of the hub's work: who is at fault alone has to wait, and where nobody else could go on, the
//! process ends. A cluster in memory can be told to panic under a call.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::Client;
use memkube::{Call, Cluster, Fault, Options, Verb};
use serde_json::{Value, json};
use testkit::{
    hub::settings,
    world::{Access, At, SOON, wait_for},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vidra_hub::{
    app::{Deps, RunError},
    base::{
        env::{SystemClock, SystemRng},
        supervise::Halt,
    },
    internal_limits::InternalLimits,
    leader_election::{
        keeper::Keeper,
        lease::{self, Claim},
    },
    member::connect::TlsConnect,
    metrics::Metrics,
    process::{self, ProcessError},
};

use super::{memory, scenario};
use crate::{config_map, says};

#[test]
fn a_reconcile_that_panics_keeps_no_other_from_its_work_and_is_tried_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, beside) = (world.alice("berlin").await, At::config_map(&world.ns, "beside"));
        let berlin = memory(&world, "berlin");
        let hook = |call: &Call| {
            assert!(call.verb != Verb::Apply || call.name != "poison", "on purpose");
            Fault::None
        };
        berlin.set_fault(Arc::new(hook));
        world.deliver("poison", &["berlin"], &config_map("poison", "one")).await;
        let mark = world.mark();
        for value in ["one", "two", "three"] {
            world.deliver("shop", &["berlin"], &config_map("beside", value)).await;
            world.ready("shop").await;
            assert!(says(value)(&alice.live(&beside).await));
        }
        assert_eq!(world.writes_to(&At::config_map(&world.ns, "poison"), "berlin", &mark), []);
        berlin.clear_fault();
        world.ready("poison").await;
        world.end().await;
    });
}

#[test]
fn an_informer_whose_task_panics_is_not_told_as_synced() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let synced = |count: i64| {
            move |member: &Value| {
                let watches = &member["status"]["watches"];
                watches["total"] == 1 && watches["synced"] == count
            }
        };
        let at = world.member_at("berlin");
        world.hub.when(&at, "followed", synced(1)).await;
        let berlin = memory(&world, "berlin");
        let hook = |call: &Call| {
            assert!(call.verb != Verb::Watch || call.resource != "configmaps", "on purpose");
            Fault::None
        };
        berlin.set_fault(Arc::new(hook));
        berlin.cut_watches();
        world.hub.when(&at, "not followed", synced(0)).await;
        berlin.clear_fault();
        world.hub.when(&at, "followed again", synced(1)).await;
        world.end().await;
    });
}

#[test]
fn a_watch_of_the_hub_that_panics_is_named_by_livez_until_it_is_begun_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        assert_eq!(world.fallen(), [""; 0], "all runs");
        let hub = memory(&world, "hub");
        let panics = AtomicBool::new(true);
        let hook = move |call: &Call| {
            let is_meant = call.verb == Verb::Watch && call.resource == "vidratargets";
            assert!(!is_meant || !panics.swap(false, Ordering::Relaxed), "on purpose");
            Fault::None
        };
        hub.set_fault(Arc::new(hook));
        hub.cut_watches();
        let fallen = async |names: &[&str]| {
            wait_for(&format!("{names:?} do not run"), SOON, async || match world.fallen() {
                seen if seen == names => Ok(()),
                seen => Err(format!("{seen:?}")),
            })
            .await;
        };
        fallen(&["hub watches"]).await;
        fallen(&[]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

/// A cluster with the hub's kinds, in real time: the Lease is kept on a thread of its own.
async fn hub_cluster(namespace: &str) -> Cluster {
    let now = || "2026-01-01T00:00:00Z".parse().expect("a time");
    let cluster = Cluster::new("hub", Options { clock: Arc::new(now), uids: 1 });
    let admin = Access::new(cluster.client(), "kubectl");
    for crd in vidra_api::crds::all() {
        admin.apply(&serde_json::to_value(crd).expect("JSON"), true).await.expect("the CRD is taken");
    }
    for kind in ["VidraResource", "VidraTarget", "VidraInventory", "MemberCluster"] {
        let of_kind = At::new("vidra.dev/v1alpha1", kind, "", "");
        wait_for(kind, SOON, async || admin.try_list(&of_kind).await.map_err(|refused| refused.to_string()))
            .await;
    }
    admin.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
    cluster
}

async fn claimed(client: Client, namespace: &'static str, stop: &CancellationToken) -> Keeper {
    let claim = async move {
        Ok::<_, Infallible>(Claim::new(client, namespace, "one".to_owned(), Arc::new(SystemClock)))
    };
    Keeper::acquire(claim, stop.clone(), pending()).await.expect("a thread").expect("nobody asks to stop")
}

fn holder(cluster: &Cluster, namespace: &str) -> Value {
    let lease = cluster.object("coordination.k8s.io", "leases", namespace, lease::NAME).expect("a Lease");
    lease["spec"]["holderIdentity"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vital_task_that_panics_ends_the_process_with_an_error_and_gives_the_lease_back() {
    let namespace = "vidra-system";
    let cluster = hub_cluster(namespace).await;
    let stop = CancellationToken::new();
    let keeper = claimed(cluster.client_as("keeper"), namespace, &stop).await;
    assert_eq!(holder(&cluster, namespace), "one");
    let hook = |call: &Call| {
        assert!(call.verb != Verb::Create || call.resource != "events", "on purpose");
        Fault::None
    };
    cluster.set_fault(Arc::new(hook));
    let settings = settings(namespace);
    let deps = Deps {
        client: cluster.client_as("vidra-hub"),
        connect: Arc::new(TlsConnect::new(settings.allow)),
        clock: Arc::new(SystemClock),
        rng: Arc::new(SystemRng::default()),
        metrics: Metrics::default(),
        limits: InternalLimits::default(),
        tenure: None,
    };
    // Of settings that it cannot use the hub says so in an Event.
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"interval": "wrong"},
        "metadata": {"name": "vidra-hub", "namespace": namespace}});
    Access::new(cluster.client(), "kubectl").create(wrong).await;
    let lead = process::lead(keeper, settings, deps, watch::Sender::new(false), &stop);
    let ended = tokio::time::timeout(Duration::from_secs(30), lead).await.expect("the process ends");
    match ended {
        Err(ProcessError::Run(RunError::Halted(Halt::Panicked { task }))) => assert_eq!(task, "event writer"),
        ended => panic!("{ended:?}"),
    }
    assert!(stop.is_cancelled(), "what else the process does ends too");
    assert!(holder(&cluster, namespace).as_str().unwrap_or_default().is_empty(), "the Lease is given back");
}
