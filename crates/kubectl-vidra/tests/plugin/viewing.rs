//! A user with the rights that deploy/ gives to those who only look, and no others; and sources of manifests.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::bed::Bed;

fn resource(sources: Value) -> Value {
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"targets": [{"clusterSelector": {}, "namespace": "shop"}], "manifestsFrom": sources},
    })
}

fn text(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{k: '{value}'}}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_sees_the_fleet_and_what_a_file_would_change() -> Result<()> {
    let bed = Bed::start(&[]).await?;
    bed.admit_viewer().await?;
    let member = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "berlin"}, "spec": {}});
    bed.put(&member).await?;
    let object = |kind: &str, name: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team-a"}, kind_field(kind): data});
    bed.put(&object("ConfigMap", "texts", json!({"a.yaml": text("a", "1")}))).await?;
    let hidden = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {token: hunter2}\n";
    bed.put(&object("Secret", "keys", json!({"b.yaml": hidden}))).await?;
    bed.put(&resource(json!([]))).await?;

    bed.run("viewer", "clusters -n team-a")?.ended(0)?.says(&["berlin"])?;
    for command in ["drift -n team-a", "status -n team-a"] {
        bed.run("viewer", command)?.ended(0)?;
    }
    bed.run("viewer", "drift -n default")?.refused(&["is forbidden", "vidra-view"])?;
    bed.run("nobody", "clusters")?.refused(&["is forbidden", "vidra-members"])?;

    // Its rights do not cover ConfigMaps and Secrets: that is a line for each.
    let both = json!([{"configMapRef": {"name": "texts"}}, {"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "none"}}]);
    let file = bed.file("shop.yaml");
    std::fs::write(&file, resource(both).to_string())?;
    let diff = format!("diff -f {}", file.display());
    let unread = bed.run("viewer", &diff)?.ended(1)?;
    unread.says(&[
        "spec.manifestsFrom[0], ConfigMap texts, is not compared: cannot read ConfigMap texts",
        "spec.manifestsFrom[1], Secret keys, is not compared: cannot read Secret keys",
        "is forbidden",
    ])?;
    let read = bed.run("admin", &diff)?.ended(1)?;
    read.says(&[
        "+ ConfigMap shop/a on 1: berlin",
        "+ Secret shop/token on 1: berlin",
        "***",
        "spec.manifestsFrom[2], ConfigMap none, is not compared: it is not in the namespace team-a",
    ])?;
    ensure!(!read.out.contains("hunter2") && !read.out.contains("aHVudGVyMg"), "{read:?}");
    bed.server.stop().await;
    Ok(())
}

fn kind_field(kind: &str) -> &'static str {
    if kind == "Secret" { "stringData" } else { "data" }
}
