//! Members that join, and what is delivered to them, with a hub that runs.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use memkube::Down;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use vidra_api::MemberCluster;

use crate::bed::{Bed, apply};

fn hello() -> serde_json::Value {
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "hello", "namespace": "team-a"},
        "spec": {
            "targets": [{"clusterSelector": {"matchLabels": {"env": "prod"}}, "namespace": "hello"}],
            "manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\ndata: {greeting: Welcome}\n",
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_joins_by_one_command_gets_what_is_delivered_and_keeps_it() -> Result<()> {
    let bed = Bed::start(&["berlin"]).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(bed.fill_tokens());
    let hub = bed.run_hub().await?;
    let member = bed.file("admin").display().to_string();
    let join = format!(
        "join berlin --member-kubeconfig {member} --member-context berlin --labels env=prod,region=eu --timeout 60s"
    );

    let (before_hub, before_member) =
        (bed.hub.object("", "secrets", "vidra-system", "berlin"), bed.members[0].revision());
    let would = bed.run("admin", &format!("{join} --dry-run"))?.ended(0)?;
    would.says(&[
        "member: ClusterRole vidra-hub-member would be applied",
        "hub: Secret vidra-system/berlin would be made",
    ])?;
    ensure!(before_hub.is_none() && bed.hub.object("", "secrets", "vidra-system", "berlin").is_none());
    ensure!(bed.members[0].revision() == before_member);

    let joined = bed.run("admin", &join)?.ended(0)?;
    joined.says(&[
        "member: Namespace vidra-member made\n",
        "member: Secret vidra-member/vidra-hub-token made\n",
        "hub: Secret vidra-system/berlin made\n",
        "hub: MemberCluster berlin is Ready\n",
    ])?;
    // Standard error is no terminal here: what it waits for is said all the same, each time once.
    let waits: Vec<_> = joined.err.lines().filter(|line| !line.starts_with("note: ")).collect();
    ensure!(waits.iter().all(|line| line.starts_with("waiting for ")), "{joined:?}");
    ensure!(
        waits.contains(&"waiting for the token") && waits.windows(2).all(|two| two[0] != two[1]),
        "{joined:?}"
    );
    ensure!(!joined.out.contains("token:"), "{joined:?}");

    // Again, without labels: what it has stays.
    let again = format!("join berlin --member-kubeconfig {member} --member-context berlin");
    let again = bed.run("admin", &again)?.ended(0)?;
    again.says(&[
        "member: ClusterRole vidra-hub-member is there\n",
        "hub: Secret vidra-system/berlin applied again\n",
    ])?;
    let labels = bed
        .hub
        .object("", "secrets", "vidra-system", "berlin")
        .map(|secret| secret["metadata"]["labels"].clone());
    ensure!(
        labels == Some(json!({"env": "prod", "region": "eu", "vidra.dev/member-cluster": "berlin"})),
        "{labels:?}"
    );

    bed.put(&hello()).await?;
    let ready = bed.run("admin", "reconcile hello -n team-a --timeout 60s")?.ended(0)?;
    ensure!(ready.out == "VidraResource team-a/hello: Ready, 1/1 targets\n", "{ready:?}");
    let greeting = || {
        bed.members[0].object("", "configmaps", "hello", "hello").map(|live| live["data"]["greeting"].clone())
    };
    ensure!(greeting() == Some(json!("Welcome")));

    let tamper = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "hello"}, "data": {"greeting": "no"}});
    apply(&bed.members[0], &tamper, "").await?;
    bed.until("the edit is undone", || greeting() == Some(json!("Welcome"))).await?;

    bed.run("admin", "reconcile --all -A --timeout 20s")?.ended(0)?.says(&["team-a/hello: Ready"])?;
    let asked = bed.run("admin", "reconcile hello -n team-a --wait=false")?.ended(0)?;
    ensure!(
        asked.out == "the hub is asked to look at 1 VidraResource\n" && asked.err.is_empty(),
        "{asked:?}"
    );
    let counts = || {
        let berlin = bed.hub.object("vidra.dev", "memberclusters", "", "berlin").unwrap_or_default();
        berlin["status"]["targets"].clone()
    };
    let counted =
        |drifted: i32| json!({"total": 1, "ready": 1, "drifted": drifted, "failed": 0, "terminating": 0});
    bed.until("it is counted", || counts() == counted(0)).await?;
    bed.run("plain", "clusters")?.ended(0)?.says(&["berlin   True", "1/1", "now"])?;
    bed.run("plain", "status hello -n team-a")?
        .ended(0)?
        .says(&["VidraResource team-a/hello: Ready for", "└── berlin: Ready for"])?;
    bed.run("plain", "diff hello -n team-a")?
        .ended(0)?
        .says(&["Nothing to do: every target is as declared."])?;
    bed.run("plain", "drift -A --exit-code")?.ended(0)?.says(&["No drift. 1 target looked at.\n"])?;

    // What was undone is kept, and what is only to be reported stays and is told.
    let undone = bed.run("plain", "drift -A --corrected --exit-code")?.ended(0)?;
    undone.says(&[
        "ConfigMap hello/hello .data.greeting \"Welcome\" -> \"no\"",
        "1: berlin",
        "kubectl (Apply)",
        "CORRECTED",
    ])?;
    let mut reported = hello();
    reported["spec"]["drift"] = json!({"policy": "Report"});
    bed.put(&reported).await?;
    bed.run("admin", "reconcile hello -n team-a --timeout 20s")?.ended(0)?;
    apply(&bed.members[0], &tamper, "").await?;
    let told = || bed.run("plain", "drift -A --exit-code").is_ok_and(|ran| ran.code == Some(1));
    bed.until("the edit is told", told).await?;
    let drift = bed.run("plain", "drift -A")?.ended(0)?;
    drift.says(&[
        "ConfigMap hello/hello .data.greeting \"Welcome\" -> \"no\"",
        "1: berlin",
        "kubectl (Apply)",
        "team-a/hello",
    ])?;
    ensure!(greeting() == Some(json!("no")));
    bed.run("plain", "status -A")?.ended(0)?.says(&[
        "1 drifted",
        "ConfigMap hello/hello .data.greeting \"Welcome\" -> \"no\", by kubectl (Apply)",
    ])?;
    bed.run("plain", "diff hello -n team-a")?
        .ended(1)?
        .says(&["It is left as it is: spec.drift.policy is Report."])?;
    bed.until("the drift is counted", || counts() == counted(1)).await?;
    bed.run("plain", "clusters")?
        .ended(0)?
        .says(&["berlin   True    Ready    v1.36.3   1/1       0        1"])?;

    // What is deleted and left so is no success for a pipeline; nor is what does not go.
    let config_maps: Api<ConfigMap> = Api::namespaced(bed.members[0].client_as("admin"), "hello");
    config_maps.delete("hello", &DeleteParams::default()).await?;
    let missing =
        || bed.run("plain", "status hello -n team-a").is_ok_and(|ran| ran.out.contains("ObjectsMissing"));
    bed.until("the deletion is told", missing).await?;
    let failed = bed.run("admin", "reconcile hello -n team-a --timeout 60s")?.ended(1)?;
    failed.says(&[
        "not Ready: TargetsFailed, 0/1 targets",
        "ConfigMap hello/hello was delivered and is gone",
    ])?;
    bed.run("plain", "status hello -n team-a")?.ended(0)?.says(&[
        "0/1 targets",
        "berlin: Failed (ObjectsMissing)",
        "ConfigMap hello/hello is not there: ",
    ])?;

    let mut two = hello();
    two["spec"]["manifest"] = json!(format!(
        "{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: old, finalizers: [example.com/hold]}}\n",
        hello()["spec"]["manifest"].as_str().unwrap_or_default()
    ));
    bed.put(&two).await?;
    bed.run("admin", "reconcile hello -n team-a --timeout 60s")?.ended(0)?;
    bed.put(&hello()).await?;
    let late = bed.run("admin", "reconcile hello -n team-a --timeout 10s")?.ended(1)?;
    ensure!(
        late.err.contains(
            "not settled within 10s: Ready, still to go: 1 object on 1 target; Finalizers on berlin: "
        ),
        "{late:?}"
    );
    let ready = bed.run("admin", "reconcile hello -n team-a --timeout 60s --ignore-removals")?.ended(0)?;
    ensure!(ready.out == "VidraResource team-a/hello: Ready, 1/1 targets\n", "{ready:?}");
    bed.run("plain", "status -A")?
        .ended(0)?
        .says(&["still to go: 1 object on 1 target; Finalizers on berlin: "])?;
    let free = json!({"metadata": {"finalizers": null}});
    config_maps.patch("old", &PatchParams::default(), &Patch::Merge(free)).await?;
    bed.run("admin", "reconcile hello -n team-a --timeout 60s")?.ended(0)?;

    // A member that has left joins again by a word of its own, and at once.
    let members: Api<MemberCluster> = Api::all(bed.hub.client_as("admin"));
    members.delete("berlin", &DeleteParams::default()).await?;
    let is_gone = || bed.hub.object("vidra.dev", "memberclusters", "", "berlin").is_none();
    bed.until("the member has left", is_gone).await?;
    let before = bed.members[0].revision();
    bed.run("admin", &join)?.refused(&["vidra-system/berlin bears vidra.dev/left-at", "--again"])?;
    ensure!(bed.members[0].revision() == before, "nothing was written into the member");
    let joined = bed.run("admin", &format!("{join} --again"))?.ended(0)?;
    joined.says(&[
        "hub: vidra.dev/left-at taken off Secret vidra-system/berlin\n",
        "hub: MemberCluster berlin is Ready\n",
    ])?;
    ensure!(!joined.err.contains("see that it runs"), "it guesses: {joined:?}");

    tasks.shutdown().await;
    hub.stop().await?;
    bed.server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_joins_with_the_namespaces_that_it_allows_from_the_first() -> Result<()> {
    let bed = Bed::start(&["berlin"]).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(bed.fill_tokens());
    let hub = bed.run_hub().await?;
    bed.put(&hello()).await?;
    let member = bed.file("admin").display().to_string();
    let join = format!("join berlin --member-kubeconfig {member} --member-context berlin --timeout 60s");
    let before = bed.members[0].revision();
    let refused = bed.run("admin", &format!("{join} --allowed-namespaces team-b,Team_A"))?.ended(2)?;
    ensure!(refused.err.contains("\"Team_A\" is not the name of a namespace"), "{refused:?}");
    ensure!(bed.members[0].revision() == before, "nothing was written into the member");

    let labelled = format!("{join} --labels env=prod");
    bed.run("admin", &format!("{labelled} --allowed-namespaces team-c,team-b"))?.ended(0)?;
    let allowed = || {
        let made = bed.hub.object("vidra.dev", "memberclusters", "", "berlin").unwrap_or_default();
        made["spec"]["allowedNamespaces"].clone()
    };
    ensure!(allowed() == json!(["team-b", "team-c"]), "{}", allowed());
    bed.run("admin", &format!("{join} --allowed-namespaces team-a"))?
        .refused(&["the member berlin is there already", "spec.allowedNamespaces"])?;
    // What it allows stays when it is registered again, also as another MemberCluster.
    bed.run("admin", &join)?.ended(0)?;
    let annotation = || {
        let secret = bed.hub.object("", "secrets", "vidra-system", "berlin").unwrap_or_default();
        secret["metadata"]["annotations"]["vidra.dev/allowed-namespaces"].clone()
    };
    ensure!(annotation() == "team-b,team-c" && allowed() == json!(["team-b", "team-c"]), "{}", annotation());
    let hellos = || bed.members[0].object("", "configmaps", "hello", "hello");
    ensure!(hellos().is_none(), "team-a delivered");

    tasks.shutdown().await;
    hub.stop().await?;
    bed.server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_overwrites_nothing_that_is_not_this_members_registration() -> Result<()> {
    let bed = Bed::start(&["berlin", "tokyo"]).await?;
    let file = bed.file("admin").display().to_string();
    let join = |name: &str, context: &str| {
        format!("join {name} --member-kubeconfig {file} --member-context {context} --timeout 1s")
    };
    let secret = |name: &str, labels| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "vidra-system", "labels": labels}});
    let before = bed.members[0].revision();

    bed.put(&secret("taken", json!({}))).await?;
    bed.run("admin", &join("taken", "berlin"))?
        .refused(&["vidra-system/taken is there and does not register taken"])?;
    bed.put(&secret("elsewhere", json!({"vidra.dev/member-cluster": "rome"}))).await?;
    bed.run("admin", &join("rome", "berlin"))?.refused(&["vidra-system/elsewhere registers rome already"])?;

    let uid = |cluster: &memkube::Cluster| {
        cluster.object("", "namespaces", "", "kube-system").map(|one| one["metadata"]["uid"].clone())
    };
    let mut known = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "tokyo"}, "spec": {}});
    bed.put(&known).await?;
    known["status"] = json!({"uid": uid(&bed.members[1])});
    known.as_object_mut().map(|object| object.remove("spec"));
    bed.put_status(&known).await?;
    bed.run("admin", &join("tokyo", "berlin"))?
        .refused(&["the member tokyo is another cluster", "--member-context"])?;
    bed.run("admin", &join("kyoto", "tokyo"))?.refused(&["this cluster is the member tokyo already"])?;

    bed.run("admin", &join("Berlin.1", "berlin"))?.refused(&["cannot be a member's name"])?;
    bed.run("admin", &join("berlin", "paris"))?
        .refused(&["the kubeconfig of the member cannot be used", "--member-context"])?;
    bed.run("admin", &format!("{} --rights {file}", join("berlin", "berlin")))?.refused(&["the rights"])?;
    bed.run("plain", &join("berlin", "berlin"))?.refused(&["cannot read Secret berlin", "forbidden"])?;
    let nobody = bed.file("nobody").display().to_string();
    let by_nobody = join("berlin", "berlin").replace(&file, &nobody);
    bed.run("admin", &by_nobody)?.refused(&["forbidden", "have somebody join the member who may do that"])?;
    bed.run("admin", &join("berlin", "berlin").replace(&file, "none.yaml"))?
        .refused(&["the kubeconfig of the member cannot be used", "--member-kubeconfig"])?;
    bed.members[0].set_down(Some(Down::Refuse));
    bed.run("admin", &join("berlin", "berlin"))?.refused(&[
        "the member at https://127.0.0.1:",
        "does not answer",
        "--member-context",
    ])?;
    bed.members[0].set_down(None);
    bed.run("admin", &format!("{} --server ftp://berlin", join("berlin", "berlin")))?
        .refused(&["the hub could not use this member"])?;
    ensure!(bed.members[0].revision() == before, "nothing was written into the member");

    // A server that nobody verified says of its CA what it likes.
    let mut blind: Value = serde_saphyr::from_str(&std::fs::read_to_string(&file)?)?;
    for one in blind["clusters"].as_array_mut().into_iter().flatten() {
        one["cluster"] = json!({"server": one["cluster"]["server"], "insecure-skip-tls-verify": true});
    }
    let unverified = bed.file("unverified");
    std::fs::write(&unverified, blind.to_string())?;
    let unverified = unverified.display().to_string();
    bed.run("admin", &join("berlin", "berlin").replace(&file, &unverified))?
        .refused(&["insecure-skip-tls-verify", "certificate-authority-data"])?;
    ensure!(bed.members[0].revision() == before, "nothing was written into the member");

    // Nobody puts a token into the Secret here.
    bed.run("admin", &join("berlin", "berlin"))?
        .ended(2)?
        .says(&["member: ServiceAccount vidra-member/vidra-hub made"])?;
    ensure!(bed.hub.object("", "secrets", "vidra-system", "berlin").is_none());
    bed.server.stop().await;
    Ok(())
}
