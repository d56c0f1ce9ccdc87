//! Why a workload has failed, with the controllers of Kubernetes, which make its Pods; nobody runs these.

use serde_json::json;
use testkit::world::{At, SOON, wait_for};
use vidra_api::TargetState;

use super::scenario;
use crate::object;

#[test]
fn a_deployment_that_exceeds_its_deadline_is_told_with_what_its_pod_waits_for() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "shop:v9"}]}});
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 1, "progressDeadlineSeconds": 10, "selector": {"matchLabels": labels}, "template": template}});
        world.deliver("shop", &["berlin"], &object(&web)).await;
        let pods = At::new("v1", "Pod", &world.ns, "");
        let mut name = String::new();
        wait_for("its Pod", SOON, async || match alice.list(&pods).await.first() {
            Some(pod) => {
                name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                Ok(())
            }
            None => Err("none".to_owned()),
        })
        .await;
        let waits = json!({"name": "app", "image": "shop:v9", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}});
        let status = json!({"status": {"phase": "Pending", "containerStatuses": [waits]}});
        alice.merge_status(&At::new("v1", "Pod", &world.ns, &name), status).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        assert!(message.contains("ErrImagePull: container app, image shop:v9"), "{message}");
        world.end().await;
    });
}
