//! Why a workload has failed: told by the Pods that it owns, asked once. Here nobody makes those of a Deployment.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use tokio::time::sleep;
use vidra_api::{TargetState, VidraTargetStatus};

use super::scenario;
use crate::{object, settings};

fn labels() -> Value {
    json!({"app": "web"})
}

fn template() -> Value {
    json!({"metadata": {"labels": labels()}, "spec": {"containers": [{"name": "app", "image": "shop:v9"}]}})
}

/// Makes what a controller makes for its owner, with the same labels.
async fn made_for(world: &World, alice: &Access, owner: &Value, mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(world.ns);
    object["metadata"]["labels"] = labels();
    object["metadata"]["labels"]["pod-template-hash"] = json!("abc");
    object["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true}]);
    alice.create(object).await
}

/// A Pod that waits for this.
async fn pod(world: &World, alice: &Access, owner: &Value, name: &str, reason: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": template()["spec"]});
    made_for(world, alice, owner, object).await;
    let at = At::new("v1", "Pod", &world.ns, name);
    // Whoever runs it writes no more then.
    alice.when(&at, "it runs", |pod| pod["status"]["phase"] == "Running").await;
    let waits = json!({"name": "app", "image": "shop:v9", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": "as the kubelet says"}}});
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [waits]}});
    alice.merge_status(&at, status).await;
}

#[test]
fn of_a_deployment_that_has_failed_its_own_pods_tell_why_and_are_asked_once() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels()}, "template": template()}});
        world.deliver("shop", &["berlin"], &object(&web)).await;
        let at = At::new("apps/v1", "Deployment", &world.ns, "web");
        let well = json!({"type": "Available", "status": "True", "reason": "X", "message": "",
            "lastUpdateTime": null, "lastTransitionTime": null});
        let rolled_out = json!({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
            "message": "", "lastUpdateTime": null, "lastTransitionTime": null});
        let ready = json!({"status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
            "updatedReplicas": 1, "availableReplicas": 1, "conditions": [well, rolled_out]}});
        world.ready("shop").await;
        let mut owner = alice.live(&at).await;
        (owner["apiVersion"], owner["kind"]) = (json!("apps/v1"), json!("Deployment"));
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels()}, "template": template()}});
        let mut set = made_for(&world, &alice, &owner, set).await;
        (set["apiVersion"], set["kind"]) = (json!("apps/v1"), json!("ReplicaSet"));
        pod(&world, &alice, &set, "web-1-a", "ImagePullBackOff").await;
        // Another one's, with the same labels: what is wrong with it would be told first.
        let mut other = set.clone();
        other["metadata"] = json!({"name": "other", "namespace": world.ns, "labels": labels()});
        let mut other = alice.create(other).await;
        (other["apiVersion"], other["kind"]) = (json!("apps/v1"), json!("ReplicaSet"));
        pod(&world, &alice, &other, "other", "ErrImagePull").await;

        let mark = world.mark();
        let condition = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
            "message": "too long", "lastUpdateTime": null, "lastTransitionTime": null});
        let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "conditions": [condition]}});
        alice.merge_status(&at, status).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        assert!(message.contains("ImagePullBackOff: container app, image shop:v9"), "{message}");
        let asked = |mark| {
            let all = world.requests("berlin", mark).into_iter();
            all.filter(|one| matches!(&*one.resource, "pods" | "replicasets") && one.user == "vidra-hub")
                .count()
        };
        assert_eq!(asked(&mark), 2);
        world.look("shop", "once more", 2).await;
        assert_eq!(asked(&mark), 2, "it is asked once");

        // It has failed no more, and fails again, after a while, while nobody may be told what it has of Pods.
        settings::set(&world, json!({"redact": "Pod .spec"})).await;
        alice.merge_status(&at, ready).await;
        world.ready("shop").await;
        let rest = Duration::from_secs(300);
        sleep(rest).await;
        let failed = json!({"status": {"readyReplicas": 0, "conditions": [condition]}});
        alice.merge_status(&at, failed).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        assert!(!message.contains("ImagePullBackOff"), "{message}");
        world.look("shop", "nobody may be told", 1).await;
        assert_eq!(asked(&mark), 2);
        settings::set(&world, json!({"health.causes": "false"})).await;
        sleep(rest).await;
        world.look("shop", "and nobody may ask", 1).await;
        assert_eq!(asked(&mark), 2);

        // Once they may, its Pods are asked again.
        settings::set(&world, json!({})).await;
        let told = "ImagePullBackOff: container app, image shop:v9";
        world.reconcile_now("shop", "after a while").await;
        world
            .target_when("shop", "berlin", "why", |status| {
                status.message.as_ref().is_some_and(|message| message.contains(told))
            })
            .await;
        assert_eq!(asked(&mark), 4);

        // What they said goes where the settings hide Pods by now, though nobody looks any more.
        world.hub.merge(&world.resource_at("shop"), json!({"spec": {"suspend": true}})).await;
        let rests = |status: &VidraTargetStatus| status.state == Some(TargetState::Suspended);
        world.target_when("shop", "berlin", "suspended", rests).await;
        let is_told = |status: &VidraTargetStatus| json!(status).to_string().contains("ImagePullBackOff");
        world.target_when("shop", "berlin", "their words", is_told).await;
        settings::set(&world, json!({"redact": "Pod .spec"})).await;
        world.target_when("shop", "berlin", "none of their words", |status| !is_told(status)).await;
        world.end().await;
    });
}
