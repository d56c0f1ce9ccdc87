//! What kubectl relies upon: tables, strategic merge patch, YAML, reviews of its rights.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{DEPLOYMENTS, everywhere, version};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[test]
fn tables_have_the_same_columns_and_cells() -> Result<()> {
    everywhere(|at| async move {
        let container = json!({"name": "c", "image": "x:1"});
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
        let table = [
            ("configmaps", json!({"data": {"k": "1", "l": "2"}}), "Name Data Age", json!(["t", 2])),
            ("secrets", json!({"stringData": {"k": "1"}}), "Name Type Data Age", json!(["t", "Opaque", 1])),
            (
                "services",
                json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}}),
                "Name Type Cluster-IP External-IP Port(s) Age Selector",
                json!(["t", "ClusterIP", "None", "<none>", "80/TCP"]),
            ),
            (
                DEPLOYMENTS,
                json!({"spec": {
                    "paused": true, "replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template,
                }}),
                "Name Ready Up-to-date Available Age Containers Images Selector",
                json!(["t", "0/2", 0, 0]),
            ),
            (
                "pods",
                json!({"spec": {"containers": [container]}}),
                "Name Ready Status Restarts Age IP Node Nominated Node Readiness Gates",
                json!(["t", "0/1", "Pending", "0"]),
            ),
        ];
        for (resource, mut body, columns, cells) in table {
            body["metadata"] = json!({"name": "t"});
            at.create(resource, &body).await?;
            let found = at.bed.accept(&at.path(resource, "t"), TABLE).await?;
            let names: Vec<_> = found["columnDefinitions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|column| column["name"].as_str())
                .collect();
            ensure!(names.join(" ") == columns, "{resource}: {names:?}");
            let row = found["rows"][0]["cells"].as_array().cloned().unwrap_or_default();
            let wanted = cells.as_array().map(Vec::as_slice).unwrap_or_default();
            ensure!(row.starts_with(wanted), "{resource}: {row:?}");
            ensure!(found["rows"][0]["object"]["kind"] == "PartialObjectMetadata", "{resource}");
        }
        Ok(())
    })
}

#[test]
fn strategic_merge_patches_merge_lists_by_key_and_obey_directives() -> Result<()> {
    everywhere(|at| async move {
        let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
        let container = json!({"name": "c", "image": "x:1", "env": env});
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
        let meta = json!({"name": "d", "finalizers": ["x.dev/f"]});
        at.create(DEPLOYMENTS, &json!({"metadata": meta, "spec": spec})).await?;
        let patch = |body: Value| {
            let path = format!("{}?fieldManager=m", at.path(DEPLOYMENTS, "d"));
            let kind = "application/strategic-merge-patch+json";
            let bed = &at.bed;
            async move { bed.call("PATCH", &path, kind, body.to_string()).await }
        };
        let of_container = |mut change: Value| {
            change["name"] = json!("c");
            json!({"spec": {"template": {"spec": {"containers": [change]}}}})
        };
        let order = json!([{"name": "D"}, {"name": "C"}, {"name": "B"}]);
        let table = [
            (json!({"env": [{"name": "B", "value": "3"}]}), "A=1 B=3"),
            (json!({"env": [{"name": "A", "$patch": "delete"}]}), "B=3"),
            (json!({"env": [{"name": "A", "value": "4"}]}), "A=4 B=3"),
            (json!({"$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": []}), "B=3 A=4"),
            (
                json!({"$setElementOrder/env": order, "env": [
                    {"name": "D", "value": "5"}, {"name": "C", "value": "6"}, {"name": "A", "$patch": "delete"},
                ]}),
                "D=5 C=6 B=3",
            ),
            (json!({"env": [{"$patch": "replace"}, {"name": "Z", "value": "0"}]}), "Z=0"),
        ];
        for (change, wanted) in table {
            let (code, live) = patch(of_container(change.clone())).await?;
            let env = live["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let env: Vec<_> = env
                .unwrap_or_default()
                .iter()
                .map(|one| format!("{}={}", text(&one["name"]), text(&one["value"])))
                .collect();
            ensure!(code == 200 && env.join(" ") == wanted, "{change}: {code} {env:?} {}", live["message"]);
        }
        let (code, live) = patch(json!({
            "metadata": {"finalizers": ["x.dev/g"], "$deleteFromPrimitiveList/finalizers": ["x.dev/f"]},
            "spec": {"replicas": null, "strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        }))
        .await?;
        ensure!(code == 200 && live["metadata"]["finalizers"] == json!(["x.dev/g"]), "{live}");
        ensure!(
            live["spec"]["strategy"] == json!({"type": "Recreate"}) && live["spec"]["replicas"] == 1,
            "{live}"
        );
        let (code, again) = patch(json!({"metadata": {"labels": {"l": "1"}, "finalizers": null}})).await?;
        ensure!(code == 200 && version(&again) != version(&live), "{again}");
        let (code, status) =
            patch(json!({"spec": {"template": {"spec": {"containers": [{"image": "y"}]}}}})).await?;
        ensure!(code >= 400, "the merge key is missing: {code} {status}");
        Ok(())
    })
}

#[test]
fn yaml_is_read_and_a_review_of_own_rights_is_allowed() -> Result<()> {
    everywhere(|at| async move {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: read}\ndata:\n  mode: '0644'\n  k: |\n    two\n    lines\n";
        let path = at.path("configmaps", "");
        let (code, made) =
            at.bed.call("POST", path.trim_end_matches('/'), "application/yaml", text.to_owned()).await?;
        ensure!(code == 201 && made["data"] == json!({"mode": "0644", "k": "two\nlines\n"}), "{made}");
        let path = format!("{}?fieldManager=m&force=true", at.path("configmaps", "read"));
        let (code, live) =
            at.bed.call("PATCH", &path, "application/apply-patch+yaml", text.replace("two", "three")).await?;
        ensure!(code == 200 && live["data"]["k"] == "three\nlines\n", "{live}");
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let (code, answer) = at.bed.call("POST", path, "application/json", review.to_string()).await?;
        ensure!(code == 201 && answer["status"]["allowed"] == true, "{answer}");
        Ok(())
    })
}

#[test]
fn a_collection_is_deleted_by_its_selector_and_namespaces_only_one_by_one() -> Result<()> {
    everywhere(|at| async move {
        for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
            let meta = json!({"name": name, "labels": {"app": label}});
            at.create("configmaps", &json!({"metadata": meta})).await?;
        }
        let path = at.path("configmaps", "");
        let path = format!("{}?labelSelector=app%3Dx", path.trim_end_matches('/'));
        let (code, gone) = at.bed.call("DELETE", &path, "application/json", String::new()).await?;
        let items = gone["items"].as_array().map(Vec::len);
        ensure!(code == 200 && gone["kind"] == "ConfigMapList" && items == Some(2), "{code} {gone}");
        for (name, wanted) in [("a", 404), ("b", 404), ("c", 200)] {
            ensure!(at.get("configmaps", name).await?.0 == wanted, "{name}");
        }
        for path in ["/api/v1/namespaces?labelSelector=none", "/api/v1/configmaps?labelSelector=none"] {
            let (code, _) = at.bed.call("DELETE", path, "application/json", String::new()).await?;
            ensure!(code == 405, "{path}: {code}");
        }
        Ok(())
    })
}

#[test]
fn an_event_is_shown_in_both_groups_under_their_own_names() -> Result<()> {
    everywhere(|at| async move {
        let newer = "apis/events.k8s.io/v1/events";
        let event = json!({
            "metadata": {"name": "one"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "test.io/hub", "reportingInstance": "one", "action": "Deliver",
            "reason": "Delivered", "note": "it is there", "type": "Normal",
            "regarding": {"kind": "ConfigMap", "apiVersion": "v1", "namespace": at.namespace, "name": "a"},
        });
        at.create(newer, &event).await?;
        let (_, seen) = at.get("events", "one").await?;
        ensure!(seen["message"] == "it is there" && seen["involvedObject"]["name"] == "a", "{seen}");
        ensure!(seen["reportingComponent"] == "test.io/hub" && seen["source"] == json!({}), "{seen}");
        let (code, answer) =
            at.patch(newer, "one", "alice", &json!({"metadata": {"labels": {"a": "b"}}})).await?;
        ensure!(code == 200, "{answer}");
        let selected = at.path("events", "");
        let selected = selected.trim_end_matches('/');
        let selected = format!("{selected}?fieldSelector=involvedObject.name%3Da,reason%3DDelivered");
        let (_, list) = at.bed.call("GET", &selected, "", String::new()).await?;
        ensure!(list["items"][0]["message"] == "it is there", "{list}");
        ensure!(list["items"][0]["metadata"]["labels"]["a"] == "b", "{list}");
        let (_, seen) = at.get(newer, "one").await?;
        ensure!(seen["note"] == "it is there" && seen["message"].is_null(), "{seen}");
        at.delete("events", "one").await?;
        ensure!(at.get(newer, "one").await?.0 == 404, "it is gone in both");
        Ok(())
    })
}

#[test]
fn a_writer_without_a_field_manager_is_named_after_its_program() -> Result<()> {
    everywhere(|at| async move {
        let headers = [("content-type", "application/json"), ("user-agent", "prog-1/v2 (x) y/z")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}}).to_string();
        let (code, _, made) =
            at.bed.send_with("POST", at.path("configmaps", "").trim_end_matches('/'), &headers, body).await?;
        let manager = &made["metadata"]["managedFields"][0]["manager"];
        ensure!(code == 201 && manager == "prog-1", "{code} {made}");
        Ok(())
    })
}

#[test]
fn metadata_alone_is_answered_where_that_is_asked_for() -> Result<()> {
    everywhere(|at| async move {
        let as_kind = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
        let made = at.create("configmaps", &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await?;
        let one = at.bed.accept(&at.path("configmaps", "a"), &as_kind("PartialObjectMetadata")).await?;
        let wanted = json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"],
        });
        ensure!(one == wanted, "{one}");
        let all = at.path("configmaps", "");
        let all = all.trim_end_matches('/');
        let path = format!("{all}?fieldSelector=metadata.name%3Da");
        let list = at.bed.accept(&path, &as_kind("PartialObjectMetadataList")).await?;
        ensure!(list["kind"] == "PartialObjectMetadataList" && list["items"] == json!([wanted]), "{list}");
        let path = format!("{path}&watch=1&timeoutSeconds=1");
        let event = at.bed.accept(&path, &as_kind("PartialObjectMetadata")).await?;
        ensure!(event == json!({"type": "ADDED", "object": wanted}), "{event}");
        Ok(())
    })
}
