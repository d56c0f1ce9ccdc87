//! Facts of server-side apply.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{DEPLOYMENTS, config, deployment, everywhere, owned, version};

#[test]
fn fact_1_our_entry_outlives_what_others_do_elsewhere_and_shrinks_with_what_is_taken() -> Result<()> {
    everywhere(|at| async move {
        let ours = deployment(json!({"env": [{"name": "X", "value": "1"}]}));
        let (_, made) = at.apply(DEPLOYMENTS, "m", &ours).await?;
        let entry = owned(&made, "m");
        let (_, again) = at.apply(DEPLOYMENTS, "m", &ours).await?;
        ensure!(version(&made) == version(&again), "a no-op apply moves nothing");
        at.patch(DEPLOYMENTS, "a", "other", &json!({"metadata": {"annotations": {"x": "y"}}})).await?;
        at.patch(DEPLOYMENTS, "a/status", "dc", &json!({"status": {"replicas": 1}})).await?;
        let sidecar = json!({"name": "side", "image": "s:1"});
        let sidecar = json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value": sidecar}]);
        at.patch(DEPLOYMENTS, "a", "injector", &sidecar).await?;
        let (_, live) = at.get(DEPLOYMENTS, "a").await?;
        let path = format!("{}?fieldManager=put", at.path(DEPLOYMENTS, "a"));
        let (code, same) = at.bed.call("PUT", &path, "application/json", live.to_string()).await?;
        ensure!(code == 200 && version(&same) == version(&live), "an identical PUT moves nothing: {same}");
        at.apply(DEPLOYMENTS, "equal", &ours).await?;
        let (_, live) = at.get(DEPLOYMENTS, "a").await?;
        ensure!(owned(&live, "m") == entry, "unchanged: {}", owned(&live, "m"));
        let at_value = "/spec/template/spec/containers/0/env/0/value";
        for value in ["2", "1"] {
            let edit = json!([{"op": "replace", "path": at_value, "value": value}]);
            at.patch(DEPLOYMENTS, "a", "m", &edit).await?;
        }
        let (_, live) = at.get(DEPLOYMENTS, "a").await?;
        let left = owned(&live, "m").to_string();
        ensure!(!left.contains("f:value"), "edited back, the ownership is lost: {left}");
        Ok(())
    })
}

#[test]
fn fact_2_reset_entries_are_healed_by_an_apply_that_shares_with_before_first_apply() -> Result<()> {
    everywhere(|at| async move {
        at.apply("configmaps", "m", &config(json!({"k": "1", "l": "1"}))).await?;
        at.patch("configmaps", "a", "r", &json!({"metadata": {"managedFields": [{}]}})).await?;
        let (_, live) = at.get("configmaps", "a").await?;
        ensure!(live["metadata"]["managedFields"].is_null());
        at.apply("configmaps", "m", &config(json!({"k": "1", "l": "1"}))).await?;
        let (_, left) = at.apply("configmaps", "m", &config(json!({"k": "1"}))).await?;
        ensure!(left["data"]["l"] == "1", "what we drop later stays: {left}");
        let entry = json!({
            "manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}, "f:l": {}}},
        });
        let mend = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version(&left)},
            {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        ]);
        let (code, _) = at.patch("configmaps", "a", "m", &mend).await?;
        let (_, mended) = at.apply("configmaps", "m", &config(json!({"k": "1"}))).await?;
        ensure!(code == 200 && mended["data"] == json!({"k": "1"}), "{mended}");
        Ok(())
    })
}

#[test]
fn fact_3_canonical_values_conflict_with_the_same_text_and_orders_flip() -> Result<()> {
    everywhere(|at| async move {
        let text = deployment(json!({"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}));
        let (_, live) = at.apply(DEPLOYMENTS, "m", &text).await?;
        let limits = &live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"];
        ensure!(*limits == json!({"cpu": "1", "memory": "1Gi"}), "{limits}");
        ensure!(at.apply(DEPLOYMENTS, "n", &text).await?.0 == 409);
        ensure!(at.apply(DEPLOYMENTS, "n&force=true", &text).await?.0 == 200);
        ensure!(at.apply(DEPLOYMENTS, "m", &text).await?.0 == 409);
        let env = |names: [&str; 2]| {
            let env = names.map(|name| json!({"name": name, "value": "1"}));
            let mut body = deployment(json!({"env": env}));
            body["metadata"]["name"] = json!("order");
            body
        };
        let mut versions = Vec::new();
        for (manager, names) in [("m", ["X", "Y"]), ("n", ["Y", "X"]), ("m", ["X", "Y"])] {
            let (code, live) = at.apply(DEPLOYMENTS, manager, &env(names)).await?;
            ensure!(
                code < 300 && live["spec"]["template"]["spec"]["containers"][0]["env"][0]["name"] == names[0]
            );
            versions.push(version(&live).to_owned());
        }
        versions.dedup();
        ensure!(versions.len() == 3);
        Ok(())
    })
}

#[test]
fn fact_4_string_data_is_owned_apart_from_data_and_null_data_is_a_change_each_time() -> Result<()> {
    everywhere(|at| async move {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"p": "x"},
        });
        let (_, live) = at.apply("secrets", "m", &secret).await?;
        ensure!(owned(&live, "m") == json!({"f:stringData": {"f:p": {}}}) && live["data"]["p"] == "eA==");
        let (_, live) = at.patch("secrets", "a", "e", &json!({"data": {"p": "eQ=="}})).await?;
        ensure!(owned(&live, "m") == json!({"f:stringData": {"f:p": {}}}), "tampering is not seen there");
        let mut null = secret;
        null["metadata"]["name"] = json!("null");
        null["stringData"] = json!(null);
        null["data"] = json!({"p": null});
        let (_, first) = at.apply("secrets", "m", &null).await?;
        // Times of entries are whole seconds.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        let (_, second) = at.apply("secrets", "m", &null).await?;
        ensure!(first["data"] == json!({"p": ""}) && second["data"] == first["data"], "{first}");
        ensure!(version(&first) != version(&second), "every apply moves it");
        Ok(())
    })
}

#[test]
fn facts_5_and_21_declared_empties_are_owned_whole_but_an_empty_map_list_is_not() -> Result<()> {
    everywhere(|at| async move {
        let mut body = deployment(json!({"env": [], "resources": {}}));
        body["metadata"]["annotations"] = json!({});
        body["spec"]["strategy"] = json!(null);
        let (_, live) = at.apply(DEPLOYMENTS, "m", &body).await?;
        let fields = owned(&live, "m");
        let container = &fields["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
        ensure!(container["f:resources"] == json!({}) && container["f:env"].is_null(), "{fields}");
        ensure!(fields["f:metadata"]["f:annotations"] == json!({}), "{fields}");
        ensure!(fields["f:spec"]["f:strategy"] == json!({}), "{fields}");
        let identity = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bare"}});
        let (_, live) = at.apply("configmaps", "m", &identity).await?;
        ensure!(live["metadata"]["managedFields"].is_null(), "identity alone has no entry: {live}");
        Ok(())
    })
}

#[test]
fn fact_6_resource_version_1_creates_only_and_a_uid_never_creates() -> Result<()> {
    everywhere(|at| async move {
        let guarded = |field: &str, value: &str| {
            let mut body = config(json!({"k": "1"}));
            body["metadata"][field] = json!(value);
            body
        };
        ensure!(at.apply("configmaps", "m", &guarded("uid", "u")).await?.0 == 409);
        ensure!(at.apply("configmaps", "m", &guarded("resourceVersion", "1")).await?.0 == 201);
        for how in ["m", "n", "n&force=true"] {
            ensure!(at.apply("configmaps", how, &guarded("resourceVersion", "1")).await?.0 == 409);
        }
        ensure!(at.apply("configmaps", "m", &guarded("resourceVersion", "0")).await?.0 == 200);
        ensure!([409, 422].contains(&at.apply("configmaps", "m", &guarded("uid", "u")).await?.0));
        let mut foreign = config(json!({"other": "1"}));
        foreign["metadata"]["labels"] = json!({"l": "1"});
        ensure!(at.apply("configmaps", "n", &foreign).await?.0 == 200, "without it they merge silently");
        Ok(())
    })
}

#[test]
fn fact_7_releasing_deletes_what_nobody_else_owns_and_makes_ghosts() -> Result<()> {
    everywhere(|at| async move {
        let identity = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        at.apply("configmaps", "m", &config(json!({"k": "1"}))).await?;
        let (code, live) = at.apply("configmaps", "m", &identity).await?;
        ensure!(code == 200 && live["data"].is_null() && live["metadata"]["managedFields"].is_null());
        at.delete("configmaps", "a").await?;
        ensure!(at.apply("configmaps", "m", &identity).await?.0 == 201, "a ghost");
        at.apply(DEPLOYMENTS, "m", &deployment(json!({}))).await?;
        let identity = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
        ensure!(at.apply(DEPLOYMENTS, "m", &identity).await?.0 == 422);
        let mut both = config(json!({"k": "1"}));
        both["metadata"]["name"] = json!("both");
        at.apply("configmaps", "m", &both).await?;
        let (_, live) = at.apply("configmaps", "n", &both).await?;
        let mut released = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "both"}});
        released["metadata"]["resourceVersion"] = json!(version(&live));
        ensure!(at.apply("configmaps", "m", &released).await?.0 == 200);
        ensure!(at.apply("configmaps", "n", &released).await?.0 == 409, "the second is told");
        Ok(())
    })
}

#[test]
fn fact_8_a_conflict_names_fields_in_its_causes() -> Result<()> {
    everywhere(|at| async move {
        at.apply("configmaps", "m", &config(json!({"k": "1"}))).await?;
        let (code, status) = at.apply("configmaps", "n", &config(json!({"k": "2"}))).await?;
        let cause = &status["details"]["causes"][0];
        ensure!(code == 409 && status["reason"] == "Conflict");
        ensure!(cause["reason"] == "FieldManagerConflict" && cause["field"] == ".data.k", "{cause}");
        ensure!(cause["message"] == "conflict with \"m\"", "{cause}");
        Ok(())
    })
}

#[test]
fn fact_11_undeclared_fields_duplicates_and_wrong_types_are_500_without_a_reason() -> Result<()> {
    everywhere(|at| async move {
        let mut twice = deployment(json!({}));
        let container = twice["spec"]["template"]["spec"]["containers"][0].clone();
        twice["spec"]["template"]["spec"]["containers"] = json!([container, container]);
        let mut wrong = deployment(json!({}));
        wrong["spec"]["replicas"] = json!("3");
        for body in [deployment(json!({"foo": 1})), twice, wrong] {
            let (code, status) = at.apply(DEPLOYMENTS, "m", &body).await?;
            ensure!(code == 500 && status["reason"].is_null() && status["kind"] == "Status", "{status}");
        }
        Ok(())
    })
}

#[test]
fn fact_13_terminating_objects_take_applies_but_no_finalizers_and_namespaces_must_be_there() -> Result<()> {
    everywhere(|at| async move {
        let mut held = config(json!({"k": "1"}));
        held["metadata"]["finalizers"] = json!(["x.dev/f"]);
        at.apply("configmaps", "m", &held).await?;
        at.delete("configmaps", "a").await?;
        ensure!(at.apply("configmaps", "n", &config(json!({"l": "1"}))).await?.0 == 200);
        let mut more = config(json!({"l": "1"}));
        more["metadata"]["finalizers"] = json!(["x.dev/g"]);
        ensure!(at.apply("configmaps", "n", &more).await?.0 == 422);
        let namespace = format!("/api/v1/namespaces/{}", at.namespace);
        at.bed.call("DELETE", &namespace, "application/json", String::new()).await?;
        let mut new = config(json!({}));
        new["metadata"]["name"] = json!("new");
        let (code, status) = at.apply("configmaps", "m", &new).await?;
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        ensure!(
            code == 403 && causes.iter().any(|cause| cause["reason"] == "NamespaceTerminating"),
            "{status}"
        );
        for how in ["m", "m&dryRun=All"] {
            let path = format!("/api/v1/namespaces/nowhere/configmaps/a?fieldManager={how}");
            let body = config(json!({})).to_string();
            let (code, status) = at.bed.call("PATCH", &path, "application/apply-patch+yaml", body).await?;
            ensure!(code == 404 && status["details"]["kind"] == "namespaces", "{status}");
        }
        at.patch("configmaps", "a", "m", &json!({"metadata": {"finalizers": null}})).await?;
        Ok(())
    })
}

#[test]
fn fact_15_replicas_written_by_scale_bear_its_name_and_conflict() -> Result<()> {
    everywhere(|at| async move {
        let mut body = deployment(json!({}));
        body["spec"]["replicas"] = json!(2);
        at.apply(DEPLOYMENTS, "m", &body).await?;
        at.patch(DEPLOYMENTS, "a/scale", "hpa", &json!({"spec": {"replicas": 5}})).await?;
        let (_, live) = at.get(DEPLOYMENTS, "a").await?;
        let entries = live["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let scale = entries.iter().find(|entry| entry["subresource"] == "scale");
        ensure!(scale.is_some_and(|entry| entry["fieldsV1"] == json!({"f:spec": {"f:replicas": {}}})));
        ensure!(owned(&live, "m")["f:spec"]["f:replicas"].is_null());
        ensure!(at.apply(DEPLOYMENTS, "m", &body).await?.0 == 409);
        Ok(())
    })
}
