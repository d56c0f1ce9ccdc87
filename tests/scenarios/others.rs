//! Others write to the same objects; what is theirs stays theirs.

use serde_json::{Value, json};
use testkit::world::{Access, At};

use crate::{config_map_in, object, scenario};

fn deployment(image: &str) -> String {
    object(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    }))
}

fn image(object: &Value) -> &str {
    object["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap()
}

/// What alice and an autoscaler have put on the Deployment is all there.
fn theirs_is_there(live: &Value, owner: &Value) {
    let metadata = &live["metadata"];
    assert_eq!(metadata["finalizers"], json!(["example.com/backup"]), "{live}");
    assert_eq!(metadata["annotations"]["example.com/note"], "alice's", "{live}");
    assert_eq!(metadata["labels"]["team"], "alice", "{live}");
    assert_eq!(metadata["ownerReferences"][0]["uid"], owner["metadata"]["uid"], "{live}");
    assert_eq!(live["spec"]["replicas"], 3, "{live}");
    assert_eq!(live["spec"]["template"]["spec"]["nodeSelector"], json!({"disk": "ssd"}), "{live}");
}

#[test]
fn what_others_put_on_an_object_survives_a_repair_and_a_new_revision() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let web = At::new("apps/v1", "Deployment", &world.ns, "web");
        world.deliver("shop", &["berlin"], &deployment("web:1")).await;
        let alice = world.alice("berlin").await;
        alice.when(&web, "made", |_| true).await;
        let owner = alice.create(config_map_in(&world.ns, "owner", "alice's")).await;
        mark_as_alice(&alice, &web, &owner).await;
        alice.scale(&web, 3).await;
        theirs_is_there(&alice.live(&web).await, &owner);

        // A repair of a value of ours.
        tamper_image(&alice, &web).await;
        let repaired = alice.when(&web, "the image is ours", |live| image(live) == "web:1").await;
        theirs_is_there(&repaired, &owner);
        world.corrected("shop", "berlin", 1).await;

        // A new revision.
        world.deliver("shop", &["berlin"], &deployment("web:2")).await;
        let changed = alice.when(&web, "the new image", |live| image(live) == "web:2").await;
        theirs_is_there(&changed, &owner);

        // And the hub saw no drift in any of it.
        world.target_when("shop", "berlin", "the new revision", |status| status.drifted == 0).await;
        world.corrected("shop", "berlin", 1).await;
        alice.merge(&web, json!({"metadata": {"finalizers": null}})).await;
        world.end().await;
    });
}

async fn mark_as_alice(alice: &Access, web: &At, owner: &Value) {
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    });
    let patch = json!({
        "metadata": {
            "finalizers": ["example.com/backup"],
            "annotations": {"example.com/note": "alice's"},
            "labels": {"team": "alice"},
            "ownerReferences": [reference],
        },
        "spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
    });
    alice.merge(web, patch).await;
}

async fn tamper_image(alice: &Access, web: &At) {
    let path = "/spec/template/spec/containers/0/image";
    alice.json_patch(web, json!([{"op": "replace", "path": path, "value": "evil:1"}])).await;
}
