//! What a cluster and an object cost, counted by the allocator: the figures of the crate's documentation.
//! One test in this binary: what other tests allocate at the same time would be counted too.

use std::alloc::System;

use anyhow::{Result, ensure};
use memkube::{Cluster, Options, tokio_clock};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn cluster() -> Cluster {
    let cluster = Cluster::new("one", Options { clock: tokio_clock(jiff::Timestamp::UNIX_EPOCH), uids: 7 });
    cluster.set_recording(false);
    cluster
}

/// Applies a ConfigMap of 1 KB.
async fn apply(cluster: &Cluster, number: usize, letter: &str) -> Result<()> {
    let name = format!("config-{number:06}");
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"key": letter.repeat(1024)},
    });
    let path = format!("/api/v1/namespaces/default/configmaps/{name}?fieldManager=tester");
    let request = http::Request::patch(path).header("content-type", "application/apply-patch+yaml");
    let body = kube::client::Body::from(body.to_string().into_bytes());
    let answer = cluster.service().oneshot(request.body(body)?).await;
    let answer = answer.map_err(|error| anyhow::anyhow!("apply {name}: {error}"))?;
    ensure!(answer.status().is_success(), "apply {name}: {}", answer.status());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_empty_cluster_costs_8_kb_and_a_config_map_of_1_kb_less_than_4_kb_with_its_history() -> Result<()>
{
    // What all clusters share is there from now on.
    let warm = cluster();
    apply(&warm, 0, "a").await?;

    let before = allocated();
    let clusters: Vec<_> = (0..100).map(|_| cluster()).collect();
    let empty = (allocated() - before) / clusters.len();

    let count = 2000;
    let full = &clusters[0];
    let before = allocated();
    for number in 0..count {
        apply(full, number, "a").await?;
    }
    let object = (allocated() - before) / count;
    for number in 0..count {
        apply(full, number, "b").await?;
    }
    let changed = (allocated() - before) / count;

    let figures = format!("empty cluster {empty}, object {object}, object changed once {changed}");
    // Enough of each to know that something was counted.
    ensure!((1000..=8 * 1024).contains(&empty), "{figures}");
    ensure!((1024..=2048).contains(&object), "{figures}");
    ensure!((2048..=4096).contains(&changed), "{figures}");
    Ok(())
}
