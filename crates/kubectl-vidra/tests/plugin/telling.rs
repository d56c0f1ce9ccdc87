//! What a user who may only read vidra.dev is told of targets that a hub has written.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bed::{Bed, Ran};

fn resource() -> Value {
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"targets": [{"clusterSelector": {}, "namespace": "shop"}], "manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '1'}\n"},
    })
}

/// A VidraResource on so many clusters; on every other one somebody has edited a ConfigMap.
async fn fleet(bed: &Bed, clusters: usize) -> Result<()> {
    bed.put(&resource()).await?;
    for number in 0..clusters {
        let cluster = format!("member-{number:02}");
        let member = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": cluster}, "spec": {}});
        bed.put(&member).await?;
        let mut target = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraTarget",
            "metadata": {"name": format!("shop.{cluster}"), "namespace": "team-a"},
            "spec": {"resource": "shop", "cluster": cluster, "revision": "aa", "desired": "Present", "namespace": "shop", "generation": 1},
        });
        bed.put(&target).await?;
        let change = json!({
            "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "a", "change": "Modified",
            "detectedAt": format!("2026-01-01T00:{number:02}:00Z"),
            "fields": [{"path": ".data.k", "expected": "\"1\"", "actual": "\"\u{1b}[31m2\"", "manager": "kubectl-edit", "operation": "Update"}],
        });
        let tampered = number % 2 == 0;
        target.as_object_mut().context("an object")?.remove("spec");
        target["status"] = json!({
            "observedGeneration": 1, "state": "Ready", "reason": "Ready", "revision": "aa", "objects": 1, "ready": 1, "since": "2026-01-01T00:00:00Z",
            "drift": if tampered { "Drifted" } else { "InSync" }, "drifted": i32::from(tampered),
            "changes": if tampered { json!([change]) } else { json!([]) },
        });
        bed.put_status(&target).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_read_is_told_all_and_writes_nothing() -> Result<()> {
    let bed = Bed::start(&[]).await?;
    fleet(&bed, 20).await?;
    let revision = bed.hub.revision();

    let drift = bed.run("plain", "drift -A")?.ended(0)?;
    ensure!(drift.err.is_empty() && drift.out.lines().count() == 2, "one line for one change: {drift:?}");
    drift.says(&[
        "ConfigMap shop/a .data.k \"1\" -> \"\\u{1b}[31m2\"",
        "10: member-00, member-02, +8",
        "kubectl-edit (Update)",
        "team-a/shop",
    ])?;
    bed.run("plain", "drift -n team-a --exit-code")?.ended(1)?;
    bed.run("plain", "drift -n default --exit-code")?.ended(0)?.says(&["No drift. 0 targets looked at."])?;
    let unsure = bed.run("plain", "drift -n nope --exit-code")?.ended(0)?;
    ensure!(
        unsure.err.contains("you may not see whether the namespace nope on the hub exists"),
        "{unsure:?}"
    );
    for (command, missing) in [
        ("drift -n nope --exit-code", "the namespace nope on the hub does not exist; choose another with -n"),
        ("status -n nope", "the namespace nope on the hub does not exist"),
        (
            "drift -A --cluster nope --exit-code",
            "MemberCluster nope does not exist; see `kubectl vidra clusters`",
        ),
        ("diff shop -n team-a --cluster nope", "MemberCluster nope does not exist"),
        ("status shop -n team-a --by colour", "no value is named colour; there are: none"),
    ] {
        bed.run("admin", command)?.refused(&[missing])?;
    }
    bed.run("plain", "drift -A --cluster member-02 --exit-code")?.ended(1)?.says(&["1: member-02"])?;
    bed.run("plain", "drift -A --cluster member-01 --exit-code")?.ended(0)?;
    bed.run("plain", "drift -A -o wide")?.ended(0)?.says(&["2026-01-01T00:00:00Z", "member-18"])?;
    let read: Value = serde_json::from_str(&bed.run("plain", "drift -A -o json")?.ended(0)?.out)?;
    ensure!(read["groups"][0]["clusterCount"] == 10 && read["targets"] == 20, "{read}");
    ensure!(read["groups"][0]["change"]["fields"][0]["actual"] == "\"\u{1b}[31m2\"", "{read}");
    bed.run("plain", "drift -A -o yaml")?.ended(0)?.says(&["clusterCount: 10"])?;

    bed.run("plain", "status -A")?.ended(0)?.says(&["VidraResource team-a/shop", "10 clusters: Ready"])?;
    bed.run("plain", "clusters")?.ended(0)?.says(&["member-19   Unknown"])?;
    bed.run("plain", "diff shop -n team-a")?
        .ended(1)?
        .says(&["10: member-00", "for only the hub has their credentials"])?;

    let mut changed = resource();
    changed["spec"]["manifest"] =
        json!("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '2'}\n");
    let file = bed.file("shop.yaml");
    std::fs::write(&file, changed.to_string())?;
    let diff = format!("diff -f {}", file.display());
    let differs = bed.run("plain", &diff)?.ended(1)?;
    differs.says(&[
        "~ ConfigMap shop/a on 20: member-00, member-01, +18",
        "-  k: \"1\"",
        "+  k: \"2\"",
        "you have no right to apply",
    ])?;
    let checked = bed.run("admin", &diff)?.ended(1)?;
    ensure!(!checked.out.contains("no right"), "{checked:?}");
    changed["spec"]["prunes"] = json!(true);
    std::fs::write(&file, changed.to_string())?;
    bed.run("admin", &diff)?.refused(&["check VidraResource shop by a dry run", "prunes"])?;
    let mut typed = bed
        .command("plain", "diff -f -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    typed.stdin.take().context("its input")?.write_all(resource().to_string().as_bytes())?;
    Ran::of(typed.wait_with_output()?)?.ended(0)?.says(&["No differences."])?;

    ensure!(bed.hub.revision() == revision, "nothing was written");
    bed.server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_targets_than_a_page_holds_are_all_counted() -> Result<()> {
    let bed = Bed::start(&[]).await?;
    for number in 0..520 {
        let cluster = format!("member-{number:03}");
        let target = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraTarget",
            "metadata": {"name": format!("shop.{cluster}"), "namespace": "team-a"},
            "spec": {"resource": "shop", "cluster": cluster, "revision": "aa", "desired": "Present", "namespace": "shop", "generation": 1},
        });
        bed.put(&target).await?;
    }
    let told = bed.run("plain", "drift -A --exit-code")?.ended(0)?;
    ensure!(!told.out.contains("No drift"), "{told:?}");
    told.says(&["Nobody knows of 520 targets whether there is drift: "])?;
    bed.server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_goes_and_a_person_that_interrupts_are_no_faults() -> Result<()> {
    let bed = Bed::start(&[]).await?;
    fleet(&bed, 2).await?;
    let mut gone = bed.command("plain", "drift -A").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    drop(gone.stdout.take());
    let ran = Ran::of(gone.wait_with_output()?)?.ended(0)?;
    ensure!(ran.err.is_empty(), "{ran:?}");

    // No hub runs that would look.
    let waiting = bed
        .command("admin", "reconcile shop -n team-a")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let asked = || {
        let shop = bed.hub.object("vidra.dev", "vidraresources", "team-a", "shop").unwrap_or_default();
        shop["metadata"]["annotations"]["vidra.dev/reconcile-requested-at"].is_string()
    };
    bed.until("it has asked", asked).await?;
    let killed = std::process::Command::new("kill").args(["-INT", &waiting.id().to_string()]).status()?;
    ensure!(killed.success());
    let ran = Ran::of(waiting.wait_with_output()?)?.ended(130)?;
    // Once, however long it waits; the interruption may come before.
    let waiting = "waiting for team-a/shop: the hub has not looked at all of it yet\n";
    ensure!(["", waiting].contains(&&*ran.err) && ran.out.is_empty(), "{ran:?}");

    let late = bed.run("admin", "reconcile shop -n team-a --timeout 100ms")?.ended(1)?;
    let words =
        "VidraResource team-a/shop: not settled within 100ms: the hub has not looked at all of it yet";
    ensure!(late.err == format!("{waiting}{words}\n"), "{late:?}");
    bed.server.stop().await;
    Ok(())
}
