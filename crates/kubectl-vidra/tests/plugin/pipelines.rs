//! `kubectl vidra reconcile` as a pipeline runs it, while a member does not answer.

use anyhow::Result;
use memkube::Down;
use serde_json::json;

use crate::bed::Bed;
use crate::tampering::register;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_does_not_answer_fails_a_pipeline_unless_it_is_allowed_to() -> Result<()> {
    let bed = Bed::start(&["berlin", "tokyo"]).await?;
    let hub = bed.run_hub().await?;
    register(&bed).await?;
    let shop = |greeting: &str| {
        json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": "shop", "namespace": "team-a"},
            "spec": {
                "targets": [{"clusterSelector": {}, "namespace": "shop"}],
                "manifest": format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{greeting: {greeting}}}\n"),
            },
        })
    };
    bed.put(&shop("Welcome")).await?;
    let reconcile = "reconcile shop -n team-a --timeout 60s";
    bed.run("admin", reconcile)?.ended(0)?.says(&["VidraResource team-a/shop: Ready, 2/2 targets\n"])?;

    bed.members[1].set_down(Some(Down::Refuse));
    let says = |reason: &str| {
        let target = bed.hub.object("vidra.dev", "vidratargets", "team-a", "shop.tokyo");
        target.is_some_and(|target| target["status"]["reason"] == reason)
    };
    bed.until("it is known", || says("MemberUnreachable")).await?;
    bed.put(&shop("Hello")).await?;
    bed.run("admin", reconcile)?.ended(1)?.says(&["not Ready: MembersUnreachable, 1/2 targets"])?;
    let allowed = format!("{reconcile} --allow-unreachable 1");
    let words = "VidraResource team-a/shop: 1/2 targets Ready, 1 target cannot be reached\n";
    bed.run("admin", &allowed)?.ended(0)?.says(&[words])?;
    // No other may be amiss.
    let mut broken = shop("Hello");
    broken["spec"]["manifest"] = json!("apiVersion: v1\nkind: Nonsense\nmetadata: {name: settings}\n");
    bed.put(&broken).await?;
    bed.run("admin", &allowed)?.ended(1)?.says(&["not Ready: "])?;
    hub.stop().await
}
