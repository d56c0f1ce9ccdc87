//! Facts of watching, owning and deleting.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{At, config, everywhere, version};

#[test]
fn fact_9_an_object_that_loses_its_label_is_sent_as_deleted_as_it_was() -> Result<()> {
    everywhere(|at| async move {
        let mut labelled = config(json!({"k": "1"}));
        labelled["metadata"]["labels"] = json!({"app": "x"});
        let (_, made) = at.apply("configmaps", "m", &labelled).await?;
        let relabel = json!({"metadata": {"labels": {"app": "y"}}});
        let (_, moved) = at.patch("configmaps", "a", "other", &relabel).await?;
        let path = at.path("configmaps", "");
        let path = format!(
            "{}?watch=1&labelSelector=app%3Dx&timeoutSeconds=5&resourceVersion={}",
            path.trim_end_matches('/'),
            version(&made)
        );
        let events = at.bed.watch(&path, 1).await?;
        let [("DELETED", gone)] = events.as_slice() else { anyhow::bail!("{events:?}") };
        ensure!(gone["metadata"]["labels"] == json!({"app": "x"}), "{gone}");
        ensure!(gone["metadata"]["managedFields"] == made["metadata"]["managedFields"], "{gone}");
        ensure!(version(gone) == version(&moved), "{gone}");
        Ok(())
    })
}

#[test]
fn fact_14_a_watch_from_the_future_is_silent_and_a_list_is_504() -> Result<()> {
    everywhere(|at| async move {
        let (_, made) = at.apply("configmaps", "m", &config(json!({"k": "1"}))).await?;
        let future = version(&made).parse::<u64>()? + 1_000_000;
        let path = at.path("configmaps", "");
        let path = path.trim_end_matches('/');
        let watch =
            format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion={future}");
        let events = at.bed.watch(&watch, 1).await?;
        ensure!(events.is_empty(), "{events:?}");
        let list = format!("{path}?resourceVersion={future}");
        let (code, status) = at.bed.call("GET", &list, "", String::new()).await?;
        ensure!(
            code == 504 && status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge",
            "{status}"
        );
        Ok(())
    })
}

/// A ConfigMap that a ConfigMap owns.
fn owned_by(owner: &Value, kind: &str, name: &str) -> Value {
    let reference = json!({
        "apiVersion": owner["apiVersion"], "kind": kind, "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    });
    let mut body = config(json!({}));
    body["metadata"] = json!({"name": name, "ownerReferences": [reference]});
    body
}

async fn owner(at: &At, name: &str, finalizers: Value) -> Result<Value> {
    let mut body = config(json!({}));
    body["metadata"] = json!({"name": name, "finalizers": finalizers});
    at.create("configmaps", &body).await
}

#[test]
fn fact_12_a_job_deleted_without_a_policy_leaves_its_pods() -> Result<()> {
    everywhere(|at| async move {
        const JOBS: &str = "apis/batch/v1/jobs";
        let container = json!({"name": "c", "image": "x:1"});
        let template = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
        let job = json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": template}});
        let job = at.create(JOBS, &job).await?;
        let mut pod = owned_by(&job, "Job", "p");
        pod["kind"] = json!("Pod");
        pod["spec"] = json!({"containers": [container]});
        pod.as_object_mut().context("a map")?.remove("data");
        at.create("pods", &pod).await?;
        at.delete(JOBS, "j").await?;
        if at.bed.controllers {
            at.until(&at.path(JOBS, "j"), |(code, _)| *code == 404).await?;
            at.until(&at.path("pods", "p"), |(_, pod)| pod["metadata"]["ownerReferences"].is_null()).await?;
        }
        ensure!(at.get("pods", "p").await?.0 == 200, "the pod stays");
        at.delete("pods", "p").await?;
        Ok(())
    })
}

#[test]
fn fact_12_a_guarded_deletion_of_a_namespace_takes_what_came_since() -> Result<()> {
    everywhere(|at| async move {
        let path = format!("/api/v1/namespaces/{}", at.namespace);
        let (_, before) = at.bed.call("GET", &path, "", String::new()).await?;
        at.apply("configmaps", "foreign", &config(json!({}))).await?;
        let meta = &before["metadata"];
        let guard =
            json!({"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}});
        let (code, status) = at.bed.call("DELETE", &path, "application/json", guard.to_string()).await?;
        ensure!(code == 200, "content moves no resourceVersion: {status}");
        if at.bed.controllers {
            at.until(&path, |(code, _)| *code == 404).await?;
            ensure!(at.get("configmaps", "a").await?.0 == 404);
        }
        Ok(())
    })
}

#[test]
fn fact_18_foreground_takes_the_owned_first_background_after_and_orphan_not_at_all() -> Result<()> {
    everywhere(|at| async move {
        if !at.bed.controllers {
            return Ok(());
        }
        let held = |name| owner(&at, name, json!(["x.dev/f"]));
        let (front, back, orphan) = (held("front").await?, held("back").await?, held("orphan").await?);
        for (owner, name) in [(&front, "front-1"), (&back, "back-1"), (&orphan, "orphan-1")] {
            at.create("configmaps", &owned_by(owner, "ConfigMap", name)).await?;
        }
        for (name, policy) in [("front", "Foreground"), ("back", "Background"), ("orphan", "Orphan")] {
            let (code, left) =
                at.delete_with("configmaps", name, &json!({"propagationPolicy": policy})).await?;
            ensure!(code == 200 && left["metadata"]["deletionTimestamp"].is_string(), "{left}");
        }
        let gone = |(code, _): &(u16, Value)| *code == 404;
        at.until(&at.path("configmaps", "front-1"), gone).await?;
        let alone = |(_, live): &(u16, Value)| live["metadata"]["finalizers"] == json!(["x.dev/f"]);
        for name in ["front", "orphan"] {
            at.until(&at.path("configmaps", name), alone).await?;
        }
        at.until(&at.path("configmaps", "orphan-1"), |(_, live)| {
            live["kind"] == "ConfigMap" && live["metadata"]["ownerReferences"].is_null()
        })
        .await?;
        ensure!(at.get("configmaps", "back-1").await?.0 == 200, "its owner is still there");
        for name in ["front", "back", "orphan"] {
            at.patch("configmaps", name, "m", &json!({"metadata": {"finalizers": null}})).await?;
            at.until(&at.path("configmaps", name), gone).await?;
        }
        at.until(&at.path("configmaps", "back-1"), gone).await?;
        ensure!(at.get("configmaps", "orphan-1").await?.0 == 200);
        Ok(())
    })
}

#[test]
fn fact_18_an_object_with_one_owner_left_stays_and_one_with_an_absent_owner_goes() -> Result<()> {
    everywhere(|at| async move {
        if !at.bed.controllers {
            return Ok(());
        }
        let (one, two) = (owner(&at, "one", json!([])).await?, owner(&at, "two", json!([])).await?);
        let mut both = owned_by(&one, "ConfigMap", "both");
        let more = owned_by(&two, "ConfigMap", "both")["metadata"]["ownerReferences"][0].clone();
        both["metadata"]["ownerReferences"].as_array_mut().context("a list")?.push(more);
        at.create("configmaps", &both).await?;
        at.delete("configmaps", "one").await?;
        let left = at
            .until(&at.path("configmaps", "both"), |(code, live)| {
                *code == 404
                    || live["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.len() == 1)
            })
            .await?;
        ensure!(left["metadata"]["ownerReferences"][0]["name"] == "two", "{left}");
        at.delete("configmaps", "two").await?;
        at.until(&at.path("configmaps", "both"), |(code, _)| *code == 404).await?;
        at.create("configmaps", &owned_by(&one, "ConfigMap", "late")).await?;
        at.until(&at.path("configmaps", "late"), |(code, _)| *code == 404).await?;
        Ok(())
    })
}

#[test]
fn fact_18_a_terminating_namespace_refuses_new_objects_takes_status_and_frees_the_owned() -> Result<()> {
    everywhere(|at| async move {
        let held = owner(&at, "held", json!(["x.dev/f"])).await?;
        at.create("configmaps", &owned_by(&held, "ConfigMap", "owned")).await?;
        let service =
            json!({"metadata": {"name": "s", "finalizers": ["x.dev/f"]}, "spec": {"ports": [{"port": 1}]}});
        at.create("services", &service).await?;
        let namespace = format!("/api/v1/namespaces/{}", at.namespace);
        at.bed.call("DELETE", &namespace, "application/json", String::new()).await?;
        if at.bed.controllers {
            at.until(&at.path("configmaps", "owned"), |(code, _)| *code == 404).await?;
        }
        let (code, _) = at.get("configmaps", "held").await?;
        ensure!(code == 200, "its finalizer holds it");
        let (code, status) = at.apply("configmaps", "m", &config(json!({}))).await?;
        ensure!(code == 403 && status["reason"] == "Forbidden", "{status}");
        ensure!(status["details"]["causes"].to_string().contains("NamespaceTerminating"), "{status}");
        let ready = json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}]}}});
        let (code, answer) = at.patch("services", "s/status", "lb", &ready).await?;
        ensure!(code == 200 || code == 422, "a status is taken or refused for its content: {code} {answer}");
        for (resource, name) in [("services", "s"), ("configmaps", "held")] {
            at.patch(resource, name, "m", &json!({"metadata": {"finalizers": null}})).await?;
        }
        if at.bed.controllers {
            at.until(&namespace, |(code, _)| *code == 404).await?;
        }
        Ok(())
    })
}
