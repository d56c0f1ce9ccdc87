//! Facts of time: what is served some time after it was asked for, and what waits.

use anyhow::{Context, Result, ensure};
use memkube::Lag;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

use crate::{At, bed, config, everywhere, everywhere_from, version};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A cluster in memory whose controllers take as long as those of the real server.
fn lagging() -> bed::Bed {
    let time = Duration::from_millis(400);
    bed::memkube_with_lag(Lag {
        garbage: time,
        namespaces: time,
        establishing: time,
        storage: time,
        crds: time,
        discovery: time,
    })
}

async fn thing_crd(at: &At, group: &str) -> Result<()> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}],
        },
    });
    let (code, made) = at.bed.call("POST", CRDS, "application/json", crd.to_string()).await?;
    ensure!(code == 201 && made["status"]["conditions"].is_null(), "{code} {made}");
    Ok(())
}

fn thing(group: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing",
        "metadata": {"name": name, "finalizers": ["example.dev/hold"]},
    })
}

#[test]
fn a_kind_is_404_and_then_429_before_it_is_served_and_takes_nothing_new_while_its_crd_ends() -> Result<()> {
    everywhere_from(lagging, |at| async move {
        let group = format!("{}.time.dev", at.namespace);
        thing_crd(&at, &group).await?;
        let things = format!("apis/{group}/v1/things");
        let list = at.path(&things, "");
        let list = list.trim_end_matches('/');
        let mut codes = Vec::new();
        while codes.last() != Some(&200) {
            ensure!(codes.len() < 6, "{codes:?}");
            let (code, answer) = at.bed.call("GET", list, "", String::new()).await?;
            match code {
                404 => ensure!(answer == json!("404 page not found\n"), "{answer}"),
                429 => ensure!(
                    answer["message"] == "storage is (re)initializing"
                        && answer["reason"] == "TooManyRequests",
                    "{answer}"
                ),
                _ => ensure!(code == 200, "{code} {answer}"),
            }
            if codes.last() != Some(&code) {
                codes.push(code);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        ensure!([&[404, 429, 200][..], &[404, 200], &[429, 200], &[200]].contains(&&codes[..]), "{codes:?}");
        at.create(&things, &thing(&group, "x")).await?;

        let crd = format!("{CRDS}/things.{group}");
        at.bed.call("DELETE", &crd, "application/json", String::new()).await?;
        let terminating = |answer: &(u16, Value)| answer.1["metadata"]["deletionTimestamp"].is_string();
        at.until(&crd, terminating).await?;
        // The server that serves custom resources hears of it by a watch.
        let refused = async || -> Result<(u16, Value)> {
            for number in 0..50 {
                let body = thing(&group, &format!("y{number}")).to_string();
                let answer = at.bed.call("POST", list, "application/json", body).await?;
                if answer.0 != 201 {
                    return Ok(answer);
                }
                at.patch(&things, &format!("y{number}"), "m", &json!({"metadata": {"finalizers": null}}))
                    .await?;
            }
            anyhow::bail!("it goes on taking new ones")
        };
        let (code, status) = refused().await?;
        let message = status["message"].as_str().unwrap_or_default();
        ensure!(
            code == 403
                && message.ends_with("create not allowed while custom resource definition is terminating"),
            "{code} {status}"
        );
        let (code, status) = at.apply(&things, "m", &thing(&group, "z")).await?;
        ensure!(code == 403, "{code} {status}");
        let (code, held) = at.get(&things, "x").await?;
        ensure!(code == 200, "what is there can be read: {held}");
        let (code, patched) = at.patch(&things, "x", "m", &json!({"metadata": {"finalizers": null}})).await?;
        ensure!(code == 200, "and changed: {patched}");
        at.until(&crd, |(code, _)| *code == 404).await?;
        at.until(list, |(code, answer)| *code == 404 && *answer == json!("404 page not found\n")).await?;
        Ok(())
    })
}

#[test]
fn a_read_waits_three_seconds_for_a_revision_and_then_gets_504() -> Result<()> {
    everywhere(|at| async move {
        let (_, made) = at.apply("configmaps", "m", &config(json!({"k": "1"}))).await?;
        let future = version(&made).parse::<u64>()? + 1_000_000;
        let path = at.path("configmaps", "");
        let list = path.trim_end_matches('/');
        for query in [
            format!("{list}?resourceVersion={future}"),
            format!("{list}?resourceVersion={future}&resourceVersionMatch=NotOlderThan&limit=1"),
            format!("{list}?resourceVersion={future}&resourceVersionMatch=Exact"),
            format!("{path}a?resourceVersion={future}"),
        ] {
            let began = Instant::now();
            let (code, status) = at.bed.call("GET", &query, "", String::new()).await?;
            let took = began.elapsed();
            ensure!((2800..5000).contains(&took.as_millis()), "{query}: {took:?}");
            ensure!(code == 504 && status["reason"] == "Timeout", "{query}: {status}");
            ensure!(status["details"]["retryAfterSeconds"] == 1, "{query}: {status}");
            ensure!(
                status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge",
                "{query}: {status}"
            );
        }
        let watch = format!(
            "{list}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
             &timeoutSeconds=5&resourceVersion={future}"
        );
        let events = at.bed.watch(&watch, 1).await?;
        ensure!(matches!(events.as_slice(), [("ERROR", _)]), "{events:?}");
        Ok(())
    })
}

#[test]
fn a_namespace_that_ends_shows_its_content_until_its_controller_comes() -> Result<()> {
    everywhere_from(lagging, |at| async move {
        if !at.bed.controllers {
            return Ok(());
        }
        let mut held = config(json!({}));
        held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
        at.create("configmaps", &held).await?;
        let namespace = format!("/api/v1/namespaces/{}", at.namespace);
        let (code, ending) = at.bed.call("DELETE", &namespace, "application/json", String::new()).await?;
        ensure!(code == 200 && ending["status"]["phase"] == "Terminating", "{ending}");
        let mut other = config(json!({}));
        other["metadata"]["name"] = json!("other");
        let (code, status) = at.apply("configmaps", "m", &other).await?;
        ensure!(code == 403, "{status}");
        let marked = |answer: &(u16, Value)| answer.1["metadata"]["deletionTimestamp"].is_string();
        at.until(&at.path("configmaps", "a"), marked).await?;
        ensure!(at.bed.call("GET", &namespace, "", String::new()).await?.0 == 200, "the finalizer holds it");
        at.patch("configmaps", "a", "m", &json!({"metadata": {"finalizers": null}})).await?;
        at.until(&namespace, |(code, _)| *code == 404).await.context("it goes in the end")?;
        Ok(())
    })
}
