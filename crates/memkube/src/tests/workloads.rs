//! Workloads that become ready, stay stuck or fail, step by step on tokio's clock.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::{Outcome, run_workloads};

const JSON: &str = "application/json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Runs the controllers for as long as the set lives.
fn run(cluster: &Cluster, plan: impl Fn(&Value) -> Outcome + Send + Sync + 'static) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(run_workloads(cluster.clone(), plan));
    tasks
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn workload(replicas: u64) -> Value {
    let selector = json!({"matchLabels": {"a": "b"}});
    json!({"metadata": {"name": "w"}, "spec": {"replicas": replicas, "selector": selector, "template": template()}})
}

async fn post(cluster: &Cluster, path: &str, body: Value) -> Value {
    let (code, made) = raw(cluster, "POST", path, JSON, body).await;
    assert_eq!(code, 201, "{made}");
    made
}

async fn merge(cluster: &Cluster, path: &str, body: Value) {
    let (code, answer) = raw(cluster, "PATCH", path, "application/merge-patch+json", body).await;
    assert_eq!(code, 200, "{answer}");
}

fn deployment(cluster: &Cluster) -> Value {
    cluster.object("apps", "deployments", "default", "w").expect("a Deployment")
}

/// Of the status: observed generation, replicas, updated, ready, available and unavailable ones.
fn counts(object: &Value) -> [u64; 6] {
    let fields = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ];
    fields.map(|field| object["status"][field].as_u64().unwrap_or_default())
}

/// Status and reason of a condition.
fn condition(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = all.filter(|one| one["type"] == kind);
    let texts = found.map(|one| {
        format!(
            "{} {}",
            one["status"].as_str().unwrap_or_default(),
            one["reason"].as_str().unwrap_or_default()
        )
    });
    texts.collect::<Vec<_>>().join(", ")
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_ready_by_halves_and_a_new_generation_starts_it_again() {
    let cluster = cluster();
    let _running = run(&cluster, |_| Outcome::Ready(10 * SECOND));
    post(&cluster, DEPLOYMENTS, workload(4)).await;
    let calls = cluster.requests().len();
    sleep(SECOND).await;
    let now = deployment(&cluster);
    assert_eq!(counts(&now), [1, 4, 4, 0, 0, 4]);
    assert_eq!(condition(&now, "Available"), "False MinimumReplicasUnavailable");
    assert_eq!(condition(&now, "Progressing"), "True ReplicaSetUpdated");
    assert_eq!(now["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(now["metadata"]["generation"], 1);
    sleep(5 * SECOND).await;
    assert_eq!(counts(&deployment(&cluster)), [1, 4, 4, 2, 2, 2]);
    assert_eq!(condition(&deployment(&cluster), "Progressing"), "True ReplicaSetUpdated");
    sleep(5 * SECOND).await;
    let now = deployment(&cluster);
    assert_eq!(counts(&now), [1, 4, 4, 4, 4, 0]);
    assert_eq!(condition(&now, "Available"), "True MinimumReplicasAvailable");
    assert_eq!(condition(&now, "Progressing"), "True NewReplicaSetAvailable");
    let entries = now["metadata"]["managedFields"].as_array().expect("entries");
    let own = entries.iter().find(|entry| entry["manager"] == "kube-controller-manager").expect("an entry");
    assert_eq!(own["subresource"], "status");
    assert!(
        own["fieldsV1"]["f:metadata"]["f:annotations"]["f:deployment.kubernetes.io/revision"].is_object()
    );
    assert_eq!(cluster.requests().len(), calls, "no calls are made for it");

    let image = json!({"spec": {"template": {"metadata": {"labels": {"c": "d"}}}}});
    merge(&cluster, &format!("{DEPLOYMENTS}/w"), image).await;
    sleep(SECOND).await;
    let now = deployment(&cluster);
    assert_eq!(counts(&now), [2, 5, 2, 3, 3, 2]);
    assert_eq!(now["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    sleep(10 * SECOND).await;
    assert_eq!(counts(&deployment(&cluster)), [2, 4, 4, 4, 4, 0]);
    merge(&cluster, &format!("{DEPLOYMENTS}/w"), json!({"spec": {"replicas": 6}})).await;
    sleep(SECOND).await;
    let now = deployment(&cluster);
    assert_eq!(counts(&now), [3, 6, 6, 4, 4, 2]);
    assert_eq!(now["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(condition(&now, "Progressing"), "True NewReplicaSetAvailable", "no rollout");

    // A change of scale in the middle of a rollout does not end it.
    sleep(10 * SECOND).await;
    merge(
        &cluster,
        &format!("{DEPLOYMENTS}/w"),
        json!({"spec": {"template": {"metadata": {"labels": {"c": "e"}}}}}),
    )
    .await;
    sleep(SECOND).await;
    merge(&cluster, &format!("{DEPLOYMENTS}/w"), json!({"spec": {"replicas": 4}})).await;
    sleep(SECOND).await;
    assert_eq!(condition(&deployment(&cluster), "Progressing"), "True ReplicaSetUpdated");
    sleep(10 * SECOND).await;
    let now = deployment(&cluster);
    assert_eq!(condition(&now, "Progressing"), "True NewReplicaSetAvailable");
    assert_eq!(now["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_deployment_exceeds_its_deadline_and_a_failed_one_says_why() {
    let cluster = cluster();
    let _running = run(&cluster, |object| match object["metadata"]["labels"]["fails"].as_str() {
        Some(reason) => Outcome::Failed(SECOND, reason.to_owned()),
        None => Outcome::Stuck,
    });
    post(&cluster, DEPLOYMENTS, workload(1)).await;
    sleep(599 * SECOND).await;
    assert_eq!(condition(&deployment(&cluster), "Progressing"), "True ReplicaSetUpdated");
    sleep(2 * SECOND).await;
    assert_eq!(condition(&deployment(&cluster), "Progressing"), "False ProgressDeadlineExceeded");
    let mut other = workload(1);
    other["metadata"] = json!({"name": "x", "labels": {"fails": "FailedCreate"}});
    post(&cluster, DEPLOYMENTS, other).await;
    sleep(2 * SECOND).await;
    let failed = cluster.object("apps", "deployments", "default", "x").expect("it is there");
    assert_eq!(condition(&failed, "ReplicaFailure"), "True FailedCreate");
}

#[tokio::test(start_paused = true)]
async fn each_kind_ends_as_its_controller_leaves_it() {
    let cluster = cluster();
    let _running = run(&cluster, |object| match object["metadata"]["name"].as_str() {
        Some("bad") => Outcome::Failed(SECOND, "BackoffLimitExceeded".to_owned()),
        _ => Outcome::Ready(4 * SECOND),
    });
    let apps = "/apis/apps/v1/namespaces/default";
    let core = "/api/v1/namespaces/default";
    let mut daemon = workload(0);
    daemon["spec"].as_object_mut().expect("a spec").remove("replicas");
    let mut stateful = workload(3);
    stateful["spec"]["serviceName"] = json!("s");
    let mut job_template = template();
    job_template["spec"]["restartPolicy"] = json!("Never");
    let job = |name: &str| json!({"metadata": {"name": name}, "spec": {"completions": 2, "template": job_template}});
    let claim = json!({"metadata": {"name": "w"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let service = |kind: &str, name: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}});
    for (path, body) in [
        (format!("{apps}/daemonsets"), daemon),
        (format!("{apps}/statefulsets"), stateful),
        (format!("{apps}/replicasets"), workload(3)),
        ("/apis/batch/v1/namespaces/default/jobs".to_owned(), job("w")),
        ("/apis/batch/v1/namespaces/default/jobs".to_owned(), job("bad")),
        (format!("{core}/pods"), json!({"metadata": {"name": "w"}, "spec": template()["spec"]})),
        (format!("{core}/persistentvolumeclaims"), claim),
        (format!("{core}/services"), service("LoadBalancer", "w")),
        (format!("{core}/services"), service("ClusterIP", "inner")),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses".to_owned(),
            json!({"metadata": {"name": "w"}, "spec": {"defaultBackend": backend}}),
        ),
    ] {
        post(&cluster, &path, body).await;
    }
    let at = |group: &str, plural: &str| {
        cluster.object(group, plural, "default", "w").expect("an object")["status"].clone()
    };
    sleep(3 * SECOND).await;
    assert_eq!(at("apps", "statefulsets")["readyReplicas"], 2, "half of them first");
    assert_eq!(at("", "pods")["phase"], "Pending");
    assert_eq!(at("", "persistentvolumeclaims")["phase"], "Pending");
    sleep(2 * SECOND).await;
    for (plural, field, value) in [
        ("daemonsets", "numberReady", 1),
        ("statefulsets", "readyReplicas", 3),
        ("statefulsets", "currentReplicas", 3),
        ("replicasets", "availableReplicas", 3),
    ] {
        assert_eq!(at("apps", plural)[field], value, "{plural} {}", at("apps", plural));
        assert_eq!(at("apps", plural)["observedGeneration"], 1);
    }
    let done = json!({"status": at("batch", "jobs")});
    assert_eq!(condition(&done, "Complete"), "True CompletionsReached");
    assert_eq!((&done["status"]["succeeded"], &done["status"]["active"]), (&json!(2), &Value::Null));
    let bad = cluster.object("batch", "jobs", "default", "bad").expect("a Job");
    assert_eq!(condition(&bad, "Failed"), "True BackoffLimitExceeded");
    assert_eq!(at("", "pods")["phase"], "Running");
    assert_eq!(condition(&json!({"status": at("", "pods")}), "Ready"), "True ");
    assert_eq!(at("", "persistentvolumeclaims")["phase"], "Bound");
    assert_eq!(at("", "persistentvolumeclaims")["capacity"], json!({"storage": "1Gi"}));
    assert!(at("", "services")["loadBalancer"]["ingress"][0]["ip"].is_string());
    assert!(at("networking.k8s.io", "ingresses")["loadBalancer"]["ingress"][0]["ip"].is_string());
    let inner = cluster.object("", "services", "default", "inner").expect("a Service");
    assert_eq!(inner["status"], json!({"loadBalancer": {}}));
}

#[tokio::test(start_paused = true)]
async fn the_plan_is_asked_once_for_a_generation_and_what_is_settled_stays() {
    let cluster = cluster();
    let asked: Arc<Mutex<u32>> = Arc::default();
    let count = asked.clone();
    let plan = move |_: &Value| {
        *count.lock() += 1;
        Outcome::Ready(SECOND)
    };
    let running = run(&cluster, plan.clone());
    post(&cluster, DEPLOYMENTS, workload(2)).await;
    sleep(2 * SECOND).await;
    merge(&cluster, &format!("{DEPLOYMENTS}/w"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    sleep(2 * SECOND).await;
    assert_eq!(*asked.lock(), 1);
    let settled = cluster.revision();
    sleep(3600 * SECOND).await;
    drop(running);
    let _again = run(&cluster, plan);
    sleep(10 * SECOND).await;
    assert_eq!((cluster.revision(), *asked.lock()), (settled, 1));
    merge(&cluster, &format!("{DEPLOYMENTS}/w"), json!({"spec": {"replicas": 3}})).await;
    sleep(2 * SECOND).await;
    assert_eq!((counts(&deployment(&cluster)), *asked.lock()), ([2, 3, 3, 3, 3, 0], 2));
    raw(&cluster, "DELETE", &format!("{DEPLOYMENTS}/w"), JSON, json!({})).await;
    post(&cluster, DEPLOYMENTS, workload(1)).await;
    sleep(2 * SECOND).await;
    assert_eq!((counts(&deployment(&cluster)), *asked.lock()), ([1, 1, 1, 1, 1, 0], 3));
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_goes_through_the_states_that_the_real_controller_writes() {
    use futures::TryStreamExt;
    let cluster = cluster();
    let _running = run(&cluster, |_| Outcome::Stuck);
    let start = cluster.revision().to_string();
    post(&cluster, DEPLOYMENTS, workload(1)).await;
    sleep(SECOND).await;
    let api: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
        kube::Api::namespaced(cluster.client(), "default");
    let params = kube::api::WatchParams::default().timeout(5);
    let events = api.watch(&params, &start).await.expect("a watch");
    let seen: Vec<_> = events
        .try_filter_map(async |event| match event {
            kube::api::WatchEvent::Added(object) | kube::api::WatchEvent::Modified(object) => {
                let object = json!(object);
                Ok(Some((condition(&object, "Progressing"), counts(&object))))
            }
            _ => Ok(None),
        })
        .try_collect()
        .await
        .expect("events");
    let expected = [
        ("", [0, 0, 0, 0, 0, 0]),
        ("True NewReplicaSetCreated", [0, 0, 0, 0, 0, 0]),
        ("True NewReplicaSetCreated", [1, 0, 0, 0, 0, 1]),
        ("True ReplicaSetUpdated", [1, 1, 1, 0, 0, 1]),
    ];
    assert_eq!(seen, expected.map(|(reason, counts)| (reason.to_owned(), counts)));
}

#[tokio::test(start_paused = true)]
async fn a_restored_workload_is_brought_to_its_end_again() {
    let cluster = cluster();
    let _running = run(&cluster, |_| Outcome::Ready(10 * SECOND));
    post(&cluster, DEPLOYMENTS, workload(2)).await;
    sleep(SECOND).await;
    let backup = cluster.backup();
    sleep(20 * SECOND).await;
    assert_eq!(counts(&deployment(&cluster)), [1, 2, 2, 2, 2, 0]);
    cluster.restore(&backup);
    // More is written than was lost before the controllers look.
    let path = "/api/v1/namespaces/default/configmaps";
    for number in 0..50 {
        post(&cluster, path, json!({"metadata": {"name": format!("c-{number}")}})).await;
    }
    sleep(SECOND).await;
    assert_eq!(counts(&deployment(&cluster)), [1, 2, 2, 0, 0, 2]);
    sleep(10 * SECOND).await;
    assert_eq!(counts(&deployment(&cluster)), [1, 2, 2, 2, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_or_suspended_is_observed_and_waits_for_its_next_generation() {
    let cluster = cluster();
    let _running = run(&cluster, |_| Outcome::Ready(SECOND));
    let mut paused = workload(2);
    paused["spec"]["paused"] = json!(true);
    post(&cluster, DEPLOYMENTS, paused).await;
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    post(&cluster, jobs, json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": template}}))
        .await;
    sleep(3600 * SECOND).await;
    let held = deployment(&cluster);
    assert_eq!((counts(&held), &held["metadata"]["annotations"]), ([1, 0, 0, 0, 0, 0], &Value::Null));
    assert_eq!(condition(&held, "Progressing"), "Unknown DeploymentPaused");
    assert_eq!(condition(&held, "Available"), "False MinimumReplicasUnavailable");
    let job = cluster.object("batch", "jobs", "default", "j").expect("a Job");
    assert_eq!(condition(&job, "Suspended"), "True JobSuspended");
    assert_eq!((&job["status"]["ready"], &job["status"]["startTime"]), (&json!(0), &Value::Null));
    merge(&cluster, &format!("{DEPLOYMENTS}/w"), json!({"spec": {"paused": false}})).await;
    merge(&cluster, &format!("{jobs}/j"), json!({"spec": {"suspend": false}})).await;
    sleep(2 * SECOND).await;
    assert_eq!(counts(&deployment(&cluster)), [2, 2, 2, 2, 2, 0]);
    assert_eq!(condition(&deployment(&cluster), "Progressing"), "True NewReplicaSetAvailable");
    let job = cluster.object("batch", "jobs", "default", "j").expect("a Job");
    assert_eq!(condition(&job, "Complete"), "True CompletionsReached");
    assert_eq!(condition(&job, "Suspended"), "False JobResumed");
}
