//! A tamper with a fleet: the same edit on half of a hundred members, as a hub that runs saw it, is one line.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::api::{Patch, PatchParams};
use memkube::{Call, Cluster, Verb};
use serde_json::{Value, json};

use crate::bed::{Bed, HUB_IN_MEMBERS};

const MEMBERS: usize = 100;
const MANAGER: &str = "night-shift";

fn shop(policy: &str) -> Value {
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {
            "targets": [{"clusterSelector": {}, "namespace": "shop"}],
            "drift": {"policy": policy},
            "manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {replicas: '3', greeting: Welcome}\n",
        },
    })
}

/// Registers all members, as they are served, and waits until they are ready.
pub async fn register(bed: &Bed) -> Result<()> {
    for member in &bed.members {
        let name = member.name();
        bed.put(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "vidra-system", "labels": {"vidra.dev/member-cluster": name}},
            "stringData": {"kubeconfig": bed.server.kubeconfig_of(name, HUB_IN_MEMBERS)?},
        }))
        .await?;
    }
    let is_ready = |member: &Value| {
        let mut conditions = member["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    bed.until("all members are ready", || {
        bed.hub.objects("vidra.dev", "memberclusters").iter().filter(|member| is_ready(member)).count()
            == bed.members.len()
    })
    .await
}

/// The statuses of all targets that were made for what is declared now.
fn statuses(bed: &Bed) -> Vec<Value> {
    let targets = bed.hub.objects("vidra.dev", "vidratargets").into_iter();
    let current = targets.filter(|one| one["status"]["observedGeneration"] == one["metadata"]["generation"]);
    current.map(|mut one| one["status"].take()).collect()
}

fn targets_with(bed: &Bed, field: &str, value: &str) -> usize {
    statuses(bed).iter().filter(|status| status[field] == value).count()
}

/// What somebody does by a script, on one member after the other.
async fn edit(member: &Cluster) -> Result<()> {
    let api: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(member.client_as("admin"), "shop");
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    api.patch("settings", &params, &Patch::Merge(json!({"data": {"replicas": "30"}}))).await?;
    Ok(())
}

fn replicas(member: &Cluster) -> Option<String> {
    let live = member.object("", "configmaps", "shop", "settings")?;
    live["data"]["replicas"].as_str().map(str::to_owned)
}

/// What the hub asked of a member, but for whether it is alive.
fn asked(member: &Cluster) -> Vec<Call> {
    let calls = member.requests().into_iter();
    calls
        .filter(|call| &*call.user == HUB_IN_MEMBERS && call.path != "/api/v1/namespaces/kube-system")
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_edit_on_fifty_of_a_hundred_members_is_one_line_and_costs_the_members_no_call() -> Result<()>
{
    let names: Vec<String> = (0..MEMBERS).map(|number| format!("member-{number:03}")).collect();
    let bed = Bed::start(&names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let hub = bed.run_hub().await?;
    register(&bed).await?;
    bed.put(&shop("Report")).await?;
    bed.until("all targets are ready", || targets_with(&bed, "state", "Ready") == MEMBERS).await?;
    bed.run("plain", "drift -A --exit-code")?.ended(0)?.says(&["No drift. 100 targets looked at.\n"])?;

    // Every other member, in two goes, so that the edits are not all of the same second.
    let tampered: Vec<_> = bed.members.iter().step_by(2).collect();
    bed.members.iter().for_each(Cluster::clear_requests);
    let (first, second) = tampered.split_at(tampered.len() / 2);
    for (some, told) in [(first, 25), (second, 50)] {
        for member in some {
            edit(member).await?;
        }
        bed.until("the edits are told", || targets_with(&bed, "drift", "Drifted") == told).await?;
        let shown = || bed.run("plain", "drift -A").map(|ran| ran.out).unwrap_or_default();
        bed.until("the times move on", || shown().contains("2s") || told == 50).await?;
    }
    let seen: BTreeSet<String> = statuses(&bed)
        .iter()
        .filter_map(|status| Some(status["changes"][0]["detectedAt"].as_str()?.to_owned()))
        .collect();
    ensure!(seen.len() > 1, "they were seen at different times: {seen:?}");

    let drift = bed.run("plain", "drift -A --exit-code")?.ended(1)?;
    ensure!(drift.err.is_empty() && drift.out.lines().count() == 2, "one line below the header: {drift:?}");
    let row = drift.out.lines().nth(1).context("a row")?;
    let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let [what, clusters, since, by, resource] = cells[..] else { anyhow::bail!("five cells: {row:?}") };
    ensure!(what == "ConfigMap shop/settings .data.replicas \"3\" -> \"30\"", "{row}");
    ensure!(clusters == "50: member-000, member-002, +48", "{row}");
    ensure!((by, resource) == ("night-shift (Update)", "team-a/shop"), "{row}");
    let seconds: u64 = since.strip_suffix('s').with_context(|| row.to_owned())?.parse()?;
    ensure!((1..60).contains(&seconds), "the age of the first of them: {row}");

    // In full: all fifty names, and the instants of the first and the last.
    let wide = bed.run("plain", "drift -A -o wide")?.ended(0)?;
    ensure!(wide.out.lines().count() == 2 && wide.out.contains(seen.first().context("a time")?), "{wide:?}");
    wide.says(&tampered.iter().map(|member| member.name()).collect::<Vec<_>>())?;
    ensure!(!wide.out.contains("member-001"), "{wide:?}");
    let read: Value = serde_json::from_str(&bed.run("plain", "drift -A -o json")?.ended(0)?.out)?;
    let groups = read["groups"].as_array().context("groups")?;
    ensure!(groups.len() == 1 && groups[0]["clusterCount"] == 50 && read["targets"] == 100, "{read}");
    ensure!(groups[0]["since"] == **seen.first().context("a time")?, "{read}");

    // It was told from the events alone, and everything was left as it is.
    for member in &bed.members {
        ensure!(asked(member).is_empty(), "{}: {:?}", member.name(), asked(member));
    }
    ensure!(tampered.iter().all(|member| replicas(member).as_deref() == Some("30")));

    // From then on it is to be as declared: one call for each that is not, none for the others.
    bed.put(&shop("Correct")).await?;
    let healed = || bed.members.iter().all(|member| replicas(member).as_deref() == Some("3"));
    bed.until("all are as declared", healed).await?;
    bed.until("nothing differs any more", || targets_with(&bed, "drift", "InSync") == MEMBERS).await?;
    bed.run("plain", "drift -A --exit-code")?.ended(0)?.says(&["No drift. 100 targets looked at.\n"])?;
    for (number, member) in bed.members.iter().enumerate() {
        let calls: Vec<_> = asked(member).iter().map(|call| call.verb).collect();
        let expected = if number % 2 == 0 { vec![Verb::Apply] } else { vec![] };
        ensure!(calls == expected, "{}: {:?}", member.name(), asked(member));
    }

    hub.stop().await?;
    bed.server.stop().await;
    Ok(())
}
