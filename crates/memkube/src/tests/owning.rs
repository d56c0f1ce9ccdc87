//! Owners beyond what both beds are asked: circles, and chains longer than any stack.

use serde_json::json;

use super::*;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    })
}

async fn make(cluster: &Cluster, name: &str, owner: Option<&Value>) -> Value {
    let owners: Vec<_> = owner.map(reference).into_iter().collect();
    let body = json!({"metadata": {"name": name, "ownerReferences": owners}});
    let (code, made) = raw(cluster, "POST", PATH, "application/json", body).await;
    assert_eq!(code, 201, "{made}");
    made
}

async fn delete(cluster: &Cluster, name: &str, policy: &str) {
    let options = json!({"propagationPolicy": policy});
    let (code, answer) = raw(cluster, "DELETE", &format!("{PATH}/{name}"), "application/json", options).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_a_thousand_owners_goes_with_the_first_under_either_policy() {
    for policy in ["Background", "Foreground"] {
        let cluster = cluster();
        let mut last = make(&cluster, "c-0", None).await;
        for number in 1..1000 {
            last = make(&cluster, &format!("c-{number}"), Some(&last)).await;
        }
        delete(&cluster, "c-0", policy).await;
        assert_eq!(cluster.objects("", "configmaps").len(), 0, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_circle_of_owners_goes_in_the_background_and_never_hangs() {
    for (policy, left) in [("Background", 0), ("Orphan", 1)] {
        let cluster = cluster();
        let first = make(&cluster, "first", None).await;
        let second = make(&cluster, "second", Some(&first)).await;
        let patch = json!({"metadata": {"ownerReferences": [reference(&second)]}});
        let path = format!("{PATH}/first");
        let (code, _) = raw(&cluster, "PATCH", &path, "application/merge-patch+json", patch).await;
        assert_eq!(code, 200);
        delete(&cluster, "first", policy).await;
        assert_eq!(cluster.objects("", "configmaps").len(), left, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_goes_when_what_blocks_it_lets_it_go() {
    let cluster = cluster();
    let owner = make(&cluster, "owner", None).await;
    make(&cluster, "held", Some(&owner)).await;
    let path = format!("{PATH}/held");
    let kind = "application/merge-patch+json";
    raw(&cluster, "PATCH", &path, kind, json!({"metadata": {"finalizers": ["x.dev/f"]}})).await;
    delete(&cluster, "owner", "Foreground").await;
    assert!(cluster.object("", "configmaps", "default", "owner").is_some(), "it waits");
    raw(&cluster, "PATCH", &path, kind, json!({"metadata": {"ownerReferences": null}})).await;
    assert_eq!(cluster.object("", "configmaps", "default", "owner"), None);
    assert!(cluster.object("", "configmaps", "default", "held").is_some(), "its finalizer holds it");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_none_or_said_twice_is_refused() {
    let cluster = cluster();
    make(&cluster, "a", None).await;
    let twice = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    for options in [json!({"propagationPolicy": "Sideways"}), twice] {
        let (code, _) = raw(&cluster, "DELETE", &format!("{PATH}/a"), "application/json", options).await;
        assert_eq!(code, 422);
    }
}
