//! Facts of fields that can be selected, of sizes, and of groups that another server would serve.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{At, DEPLOYMENTS, config, deployment, everywhere};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[test]
fn fact_17_selectable_fields_may_point_into_status() -> Result<()> {
    everywhere(|at| async move {
        let group = format!("{}.example.dev", at.namespace);
        let state = json!({"type": "object", "properties": {"state": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"status": state}});
        let crd = json!({
            "metadata": {"name": format!("things.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".status.state"}],
                }],
            },
        });
        at.bed.call("POST", CRDS, "application/json", crd.to_string()).await?;
        let things = format!("apis/{group}/v1/things");
        let list = at.path(&things, "");
        let list = list.trim_end_matches('/');
        at.bed.wait(list).await?;
        for (name, state) in [("x", "X"), ("y", "Y")] {
            let body = json!({
                "apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name},
                "status": {"state": state},
            });
            let made = at.create(&things, &body).await?;
            ensure!(made["status"].is_null(), "status is dropped on create (fact 18): {made}");
            let status = json!({"status": {"state": state}});
            at.patch(&things, &format!("{name}/status"), "m", &status).await?;
        }
        for (selector, wanted) in [("status.state%3DX", "x"), ("status.state%21%3DX", "y")] {
            let path = format!("{list}?fieldSelector={selector}");
            let (code, found) = at.bed.call("GET", &path, "", String::new()).await?;
            let items = found["items"].as_array().cloned().unwrap_or_default();
            ensure!(code == 200 && items.len() == 1 && items[0]["metadata"]["name"] == wanted, "{found}");
        }
        let (code, _) =
            at.bed.call("GET", &format!("{list}?fieldSelector=status.other%3DX"), "", String::new()).await?;
        ensure!(code == 400, "what is not declared cannot be selected: {code}");
        at.bed.call("DELETE", &format!("{CRDS}/things.{group}"), "application/json", String::new()).await?;
        Ok(())
    })
}

#[test]
fn fact_19_what_is_too_large_is_refused_by_its_limit() -> Result<()> {
    everywhere(|at| async move {
        let of = |bytes: usize| "x".repeat(bytes);
        let (code, status) = at.apply("configmaps", "m", &config(json!({"k": of(1024 * 1024 + 1)}))).await?;
        ensure!(code == 422 && status["details"]["causes"][0]["reason"] == "FieldValueTooLong", "{status}");
        let (code, _) = at.apply("configmaps", "m", &config(json!({"k": of(1024 * 1024)}))).await?;
        ensure!(code == 201);
        let mut noted = config(json!({}));
        noted["metadata"] = json!({"name": "noted", "annotations": {"a": of(256 * 1024)}});
        let (code, status) = at.apply("configmaps", "m", &noted).await?;
        ensure!(code == 422, "{status}");
        let env = json!([{"name": "X", "value": of(1600 * 1024)}]);
        let (code, status) = at.apply(DEPLOYMENTS, "m", &deployment(json!({"env": env}))).await?;
        ensure!(code == 500 && status["message"] == "etcdserver: request is too large", "{status}");
        let (code, status) = at.apply("configmaps", "m", &config(json!({"k": of(4 << 20)}))).await?;
        ensure!(code == 413 && status["reason"] == "RequestEntityTooLarge", "{status}");
        Ok(())
    })
}

/// The group's version in aggregated discovery.
async fn discovered(at: &At, group: &str) -> Result<Value> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let all = at.bed.accept("/apis", accept).await?;
    let mut groups = all["items"].as_array().into_iter().flatten();
    Ok(groups
        .find(|one| one["metadata"]["name"] == group)
        .map_or(Value::Null, |one| one["versions"][0].clone()))
}

#[test]
fn facts_20_and_22_a_broken_api_service_is_stale_and_namespaces_wait_on_it() -> Result<()> {
    everywhere(|at| async move {
        const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
        let group = format!("{}.broken.dev", at.namespace);
        let service = json!({
            "metadata": {"name": format!("v1.{group}")},
            "spec": {
                "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true, "service": {"name": "nobody", "namespace": at.namespace},
            },
        });
        let (code, made) = at.bed.call("POST", SERVICES, "application/json", service.to_string()).await?;
        ensure!(code == 201, "{made}");
        let mut seen = Value::Null;
        for _ in 0..200 {
            seen = discovered(&at, &group).await?;
            if !seen.is_null() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let none = seen["resources"].as_array().is_none_or(Vec::is_empty);
        ensure!(seen["freshness"] == "Stale" && none, "{seen}");
        let (code, _) = at.bed.call("GET", &format!("/apis/{group}/v1"), "", String::new()).await?;
        ensure!(code == 503, "{code}");
        let namespace = format!("/api/v1/namespaces/{}", at.namespace);
        at.bed.call("DELETE", &namespace, "application/json", String::new()).await?;
        if at.bed.controllers {
            let waiting = at
                .until(&namespace, |(code, live)| {
                    *code == 404 || live["status"]["conditions"].to_string().contains("DiscoveryFailed")
                })
                .await?;
            ensure!(waiting["status"]["phase"] == "Terminating", "{waiting}");
        }
        let path = format!("{SERVICES}/v1.{group}");
        at.bed.call("DELETE", &path, "application/json", String::new()).await?;
        if at.bed.controllers {
            at.until(&namespace, |(code, _)| *code == 404).await?;
        }
        Ok(())
    })
}

#[test]
fn a_port_that_no_port_can_be_is_refused() -> Result<()> {
    everywhere(|at| async move {
        let service = |port: i64| {
            json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": port}]}})
                .to_string()
        };
        let path = at.path("services", "");
        let path = path.trim_end_matches('/');
        for port in [0, -1, 65536, 99999] {
            let (code, answer) = at.bed.call("POST", path, "application/json", service(port)).await?;
            ensure!((code, &answer["reason"]) == (422, &json!("Invalid")), "{port}: {code} {answer}");
            let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
            let fields: Vec<_> = causes.iter().map(|cause| cause["field"].clone()).collect();
            ensure!(fields.contains(&json!("spec.ports[0].port")), "{port}: {fields:?}");
        }
        let (code, answer) = at.bed.call("POST", path, "application/json", service(65535)).await?;
        ensure!(code == 201, "{code} {answer}");
        Ok(())
    })
}
