//! `check`, and `health` with the hub's rules and objects of a member: against a hub that runs.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::bed::{Bed, apply};
use crate::tampering::register;

fn shop() -> Value {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "web"}});
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"k": "1"}});
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"targets": [{"clusterSelector": {}, "namespace": "shop"}], "manifests": [crd, gadget, settings]},
    })
}

/// A rule of the fleet by which a ConfigMap works that says this.
fn rules(says: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "rules", "namespace": "vidra-system", "labels": {"vidra.dev/health-rules": "true"}},
        "data": {"rules": format!("- {{apiVersion: v1, kind: ConfigMap, current: \"data.k == '{says}'\"}}")},
    })
}

async fn delivered() -> Result<(Bed, testkit::hub::RunningHub)> {
    let bed = Bed::start(&["berlin"]).await?;
    let hub = bed.run_hub().await?;
    register(&bed).await?;
    bed.put(&shop()).await?;
    bed.until("it is delivered", || {
        let target = bed.hub.object("vidra.dev", "vidratargets", "team-a", "shop.berlin").unwrap_or_default();
        target["status"]["state"] == "Ready"
    })
    .await?;
    Ok((bed, hub))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_rules_would_turn_is_told_by_digest_by_kind_and_by_object() -> Result<()> {
    let (bed, hub) = delivered().await?;
    // The plug-in ships what the hub ships.
    bed.run("admin", "check -A")?
        .ended(0)?
        .says(&["1 target: 1 judged alike, 0 would turn, 0 not known."])?;
    let file = bed.file("rules.yaml");
    let with = |more: &str| format!("check shop -n team-a --rules {} {more}", file.display());
    std::fs::write(&file, rules("2").to_string())?;
    bed.run("admin", &with(""))?.ended(1)?.says(&[
        "? ConfigMap: would be judged by health rule core/ConfigMap on 1: team-a/shop.berlin",
        "0 judged alike, 0 would turn, 1 not known",
    ])?;
    bed.run("admin", &with("--members"))?.ended(1)?.says(&[
        "~ ConfigMap shop/settings: Current -> InProgress (HealthCheckNotMet: No expression",
        "1 would turn, 0 not known",
    ])?;
    std::fs::write(&file, rules("1").to_string())?;
    bed.run("admin", &with("--members"))?.ended(0)?.says(&["1 judged alike"])?;
    // A context of the member's name that leads elsewhere, and none.
    let elsewhere = bed.file("elsewhere");
    let admin = std::fs::read_to_string(bed.file("admin"))?;
    let astray = admin.replace("cluster: berlin", "cluster: hub").replace("user: berlin", "user: hub");
    std::fs::write(&elsewhere, astray)?;
    let members = format!("--members --member-kubeconfig {}", elsewhere.display());
    bed.run("admin", &with(&members))?.ended(1)?.says(&["is not the cluster that joined as berlin"])?;
    std::fs::write(&elsewhere, bed.server.kubeconfig_of("hub", "admin")?)?;
    bed.run("admin", &with(&members))?.ended(1)?.says(&["? the member is not looked at: ", "1 not known"])?;

    std::fs::write(&file, "- {apiVersion: v1, kind: ConfigMap, current: 'true'}")?;
    bed.run("admin", &with(""))?.refused(&["rules.yaml"])?;
    std::fs::write(&file, "{apiVersion: v1, kind: Pod}")?;
    bed.run("admin", &with(""))?.refused(&["holds no ConfigMap"])?;
    let mut bare = rules("1");
    bare["metadata"]["labels"] = json!({});
    std::fs::write(&file, bare.to_string())?;
    let warned = bed.run("admin", &with(""))?;
    ensure!(warned.err.contains("only with the label vidra.dev/health-rules"), "{warned:?}");
    bed.run("admin", "check -A --cluster nope")?.refused(&["MemberCluster nope does not exist"])?;
    bed.run("plain", "check -A")?.refused(&["list ConfigMaps", "--hub-namespace"])?;
    bed.run("admin", "check -n nope")?.refused(&["the namespace nope on the hub does not exist"])?;
    hub.stop().await?;
    bed.server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_member_are_judged_by_the_hubs_rules_and_one_that_waits_gets_a_rule() -> Result<()> {
    let (bed, hub) = delivered().await?;
    let health = "health shop -n team-a --cluster berlin";
    let judged = bed.run("admin", &format!("{health} --hub"))?.ended(0)?;
    judged.says(&["Gadget", "settings", "CustomResourceDefinition"])?;
    ensure!(judged.err == "note: the hub judged 1 target by these rules\n", "{judged:?}");
    bed.put(&rules("2")).await?;
    let judged = bed.run("admin", &format!("{health} --hub --require Current"))?.ended(1)?;
    judged.says(&["core/ConfigMap (fleet)", "HealthCheckNotMet"])?;
    ensure!(
        judged
            .err
            .contains("note: the hub has rules beside the shipped ones: 1 of the fleet (core/ConfigMap)"),
        "{judged:?}"
    );

    let waits = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "web", "namespace": "shop"},
        "status": {"conditions": [{"type": "Synced", "status": "False"}]}});
    apply(&bed.members[0], &waits, "").await?;
    let suggested = bed.run("admin", &format!("{health} --suggest"))?.ended(0)?;
    suggested.says(&[
        "# Gadget shop/web is InProgress now (ConditionNotTrue: The condition Synced is not True).",
        "- apiVersion: example.com/v1\n  kind: Gadget\n  current: status.conditions.exists(c, c.type == 'Synced' && c.status == 'True')\n",
    ])?;
    ensure!(suggested.out.matches("\n- ").count() == 1, "{suggested:?}");
    bed.run("admin", "health shop -n team-a --cluster nope")?
        .refused(&["MemberCluster nope does not exist"])?;
    hub.stop().await?;
    bed.server.stop().await;
    Ok(())
}
