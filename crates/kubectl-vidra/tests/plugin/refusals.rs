//! Without a hub, its kinds or rights: one line that says what to do, and 2.

use anyhow::{Result, ensure};
use memkube::Down;

use crate::bed::{Bed, Ran};

const READS: [&str; 5] = ["drift -A", "status -A", "status shop", "clusters", "diff shop"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_does_not_answer_is_one_line() -> Result<()> {
    let bed = Bed::start(&[]).await?;
    bed.hub.set_down(Some(Down::Refuse));
    for command in READS {
        bed.run("plain", command)?.refused(&[
            "does not answer",
            "the hub at https://127.0.0.1:",
            "--context",
        ])?;
    }
    bed.server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_no_hub_is_one_line() -> Result<()> {
    let bed = Bed::without_kinds(&[]).await?;
    for command in READS.into_iter().chain(["reconcile shop", "reconcile --all"]) {
        bed.run("admin", command)?
            .refused(&["does not serve vidra.dev/v1alpha1", "kubectl apply --server-side -f crds/"])?;
    }
    bed.server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_rights_credentials_and_objects_are_one_line() -> Result<()> {
    let bed = Bed::start(&[]).await?;
    for command in READS {
        bed.run("nobody", command)?.refused(&["is forbidden", "ask for the right"])?;
    }
    for command in ["status shop -n team-a", "diff shop -n team-a", "reconcile shop -n team-a"] {
        let user = if command.starts_with("reconcile") { "admin" } else { "plain" };
        bed.run(user, command)?
            .refused(&["VidraResource shop in namespace team-a does not exist", "kubectl get vr -A"])?;
    }
    bed.run("plain", "reconcile shop -n team-a")?.refused(&["is forbidden", "vidra-edit"])?;
    bed.run("plain", "--context paris drift")?.ended(2)?;
    bed.run("plain", "diff -f /nowhere.yaml")?.refused(&["cannot read /nowhere.yaml"])?;
    let file = bed.file("pod.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")?;
    bed.run("plain", &format!("diff -f {}", file.display()))?.refused(&["holds Pod a", "kubectl diff"])?;
    std::fs::write(&file, "kind: [\n")?;
    bed.run("plain", &format!("diff -f {}", file.display()))?.refused(&["pod.yaml: "])?;
    std::fs::write(bed.file("broken"), "kind: [")?;
    bed.run("broken", "drift")?.refused(&["the kubeconfig of the hub cannot be used", "--kubeconfig"])?;
    bed.run("missing", "drift")?.refused(&["the kubeconfig of the hub cannot be used"])?;
    let stranger = std::fs::read_to_string(bed.file("plain"))?;
    let token = bed.server.endpoint("hub").and_then(|hub| hub.token("plain")).unwrap_or_default();
    std::fs::write(bed.file("stranger"), stranger.replace(token, "no-token-of-anybody"))?;
    bed.run("stranger", "drift")?.refused(&["does not accept your credentials"])?;
    let mut proxied = bed.command("plain", "drift");
    let ran = Ran::of(proxied.env("HTTPS_PROXY", "http://me:secret@127.0.0.1:1").output()?)?;
    ensure!(!ran.err.contains("secret"), "{ran:?}");
    ran.refused(&["it goes through a proxy"])?;
    bed.server.stop().await;
    Ok(())
}
