//! Facts of the order and the times of managedFields (`sortEncodedManagedFields` of apimachinery).

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{At, DEPLOYMENTS, config, deployment, everywhere};

/// The key that entries are in the order of.
fn key(entry: &Value) -> [String; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"]
        .map(|field| entry[field].as_str().unwrap_or_default().to_owned())
}

fn entries(object: &Value) -> Vec<Value> {
    object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default()
}

/// Manager and subresource of each entry, in the server's order, which is checked.
fn managers(object: &Value) -> Result<Vec<String>> {
    let entries = entries(object);
    let keys: Vec<_> = entries.iter().map(key).collect();
    ensure!(keys.is_sorted(), "{keys:?}");
    Ok(keys
        .iter()
        .map(|[operation, _, manager, _, subresource]| {
            let operation = operation.chars().next().unwrap_or_default();
            format!("{operation} {manager} {subresource}").trim().to_owned()
        })
        .collect())
}

fn time(object: &Value, manager: &str) -> String {
    let entry = entries(object).into_iter().find(|entry| entry["manager"] == manager);
    entry.map(|entry| key(&entry)[1].clone()).unwrap_or_default()
}

/// Waits until the server writes another second.
async fn another_second(at: &At) -> Result<()> {
    let now = || async {
        let path = format!("{}?dryRun=All", at.path("configmaps", "").trim_end_matches('/'));
        let body = json!({"metadata": {"name": "clock"}}).to_string();
        let (_, made) = at.bed.call("POST", &path, "application/json", body).await?;
        anyhow::Ok(made["metadata"]["creationTimestamp"].clone())
    };
    let began = now().await?;
    ensure!(began.is_string(), "{began}");
    while now().await? == began {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[test]
fn entries_are_in_the_order_of_operation_time_and_manager() -> Result<()> {
    everywhere(|at| async move {
        let (code, _) = at.apply("configmaps", "z", &config(json!({"z": "1", "both": "1"}))).await?;
        ensure!(code == 201);
        let data = |key: &str, value: &str| json!({"data": {key: value}});
        let (_, live) = at.patch("configmaps", "a", "b", &data("b", "1")).await?;
        ensure!(managers(&live)? == ["A z", "U b"], "{live}");
        another_second(&at).await?;
        let (_, live) = at.patch("configmaps", "a", "a", &data("a", "1")).await?;
        ensure!(managers(&live)? == ["A z", "U b", "U a"], "time goes before the name: {live}");
        another_second(&at).await?;
        let (_, live) = at.patch("configmaps", "a", "b", &data("b", "2")).await?;
        ensure!(managers(&live)? == ["A z", "U a", "U b"], "{live}");
        let (_, live) = at.apply("configmaps", "y", &config(json!({"both": "1"}))).await?;
        ensure!(managers(&live)? == ["A y", "A z", "U a", "U b"], "{live}");
        ensure!(time(&live, "y").is_empty(), "an apply that never changed a value has no time: {live}");
        let before = live;
        another_second(&at).await?;
        // What changes no value moves no time, though it may change who owns what.
        let (_, live) = at.apply("configmaps", "z", &config(json!({"z": "1"}))).await?;
        ensure!(managers(&live)? == ["A y", "A z", "U a", "U b"], "{live}");
        ensure!(time(&live, "z") == time(&before, "z"), "{live}");
        ensure!(live["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"], "{live}");
        let (_, live) = at.apply("configmaps", "z", &config(json!({"z": "2"}))).await?;
        ensure!(managers(&live)? == ["A y", "A z", "U a", "U b"], "{live}");
        ensure!(time(&live, "z") != time(&before, "z"), "{live}");
        // Who loses fields keeps the time.
        let (_, live) = at.patch("configmaps", "a", "c", &data("z", "3")).await?;
        ensure!(time(&live, "b") == time(&before, "b"), "{live}");
        ensure!(managers(&live)? == ["A y", "U a", "U b", "U c"], "{live}");
        Ok(())
    })
}

#[test]
fn entries_of_one_manager_are_apart_by_operation_and_subresource() -> Result<()> {
    everywhere(|at| async move {
        let (code, _) = at.apply(DEPLOYMENTS, "m", &deployment(json!({}))).await?;
        ensure!(code == 201);
        let (_, live) = at.patch(DEPLOYMENTS, "a/status", "m", &json!({"status": {"replicas": 1}})).await?;
        ensure!(managers(&live)? == ["A m", "U m status"], "{live}");
        let paused = json!({"spec": {"paused": true}});
        for manager in ["m", "l"] {
            at.patch(DEPLOYMENTS, "a", manager, &json!({"spec": {"minReadySeconds": manager.len()}})).await?;
            at.patch(DEPLOYMENTS, "a", manager, &paused).await?;
        }
        let (_, live) = at.get(DEPLOYMENTS, "a").await?;
        let mut found = managers(&live)?;
        found.sort();
        ensure!(found == ["A m", "U m", "U m status"], "{found:?}");
        Ok(())
    })
}
