//! How much of etcd the hub's own objects take.
//!
//! Custom resources are stored as the JSON that a list answers with, managedFields included; a Secret as
//! protobuf, of which its JSON is an upper bound.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use kube::Client;
use serde_json::Value;

use super::fleet::NAMESPACE;

/// An inventory chunk is 100 KB.
const PAGE: usize = 20;

/// Bytes of the newest version of all of the hub's objects, by resource.
pub async fn live_bytes(client: &Client) -> Result<BTreeMap<String, usize>> {
    let mut bytes = BTreeMap::new();
    for resource in ["vidraresources", "vidratargets", "vidrainventories"] {
        let path = format!("/apis/vidra.dev/v1alpha1/namespaces/{NAMESPACE}/{resource}?limit={PAGE}");
        bytes.insert(resource.to_owned(), list_bytes(client, &path).await?);
    }
    let revisions = format!(
        "/api/v1/namespaces/{NAMESPACE}/secrets?limit={PAGE}&fieldSelector=type%3Dvidra.dev%2Frevision"
    );
    bytes.insert("secrets".to_owned(), list_bytes(client, &revisions).await?);
    Ok(bytes)
}

async fn list_bytes(client: &Client, path: &str) -> Result<usize> {
    let (mut bytes, mut next) = (0, String::new());
    loop {
        let request = http::Request::get(format!("{path}&continue={next}")).body(Vec::new())?;
        let page: Value = client.request(request).await?;
        let items = page["items"].as_array().context("a list without items")?;
        bytes += items.iter().map(|item| item.to_string().len()).sum::<usize>();
        match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => next = form_urlencoded::byte_serialize(token.as_bytes()).collect(),
            None => return Ok(bytes),
        }
    }
}

/// Bytes of etcd's database under the testbed's directory; old versions count until they are compacted.
pub fn file_bytes(testbed: &Path) -> Result<u64> {
    let mut bytes = 0;
    // One directory for each attempt to start it; the last one serves.
    for attempt in fs::read_dir(testbed.join("etcd"))? {
        let database = attempt?.path().join("member/snap/db");
        if let Ok(found) = fs::metadata(database) {
            bytes = bytes.max(found.len());
        }
    }
    anyhow::ensure!(bytes > 0, "etcd's database is not under {}", testbed.display());
    Ok(bytes)
}
