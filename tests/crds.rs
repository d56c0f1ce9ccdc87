//! What a real API server makes of the CRDs: it takes them, takes good objects, and refuses bad ones
//! with a sentence that says how to mend them. Only it can tell what a CEL rule costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use testkit::testbed::Testbed;

/// Runs kubectl with text on its input. Ok: what it printed; Err: what it complained of.
fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    let bed = bed();
    let mut child = Command::new(&bed.0)
        .arg("--kubeconfig")
        .arg(&bed.1.kubeconfig)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8(output.stderr).unwrap())
}

/// kubectl, and one API server for all tests here. It ends with this process.
fn bed() -> &'static (PathBuf, Testbed) {
    static BED: OnceLock<(PathBuf, Testbed)> = OnceLock::new();
    BED.get_or_init(|| {
        let kubectl = testkit::testbed::binary().unwrap().with_file_name("kubectl");
        (kubectl, Testbed::start(&["--members", "0", "--no-controllers"]).unwrap())
    })
}

fn install_crds() {
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let crds = crds.to_str().unwrap();
    kubectl(&["apply", "--server-side", "-f", crds], "").unwrap();
    kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "-f", crds], "").unwrap();
}

fn try_create(object: &Value) -> Result<String, String> {
    kubectl(&["create", "--dry-run=server", "-f", "-", "-o", "json"], &object.to_string())
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": kind,
        "metadata": if kind == "MemberCluster" { json!({"name": name}) } else { json!({"name": name, "namespace": "default"}) },
        "spec": spec,
    })
}

fn resource(spec: Value) -> Value {
    object("VidraResource", "shop", spec)
}

fn target(selector: Value) -> Value {
    resource(json!({"targets": [selector]}))
}

fn expression(expression: Value) -> Value {
    target(json!({"clusterSelector": {"matchExpressions": [expression]}}))
}

fn interval(text: &str) -> Value {
    resource(json!({"targets": [], "reconcile": {"interval": text}}))
}

fn member(spec: Value) -> Value {
    object("MemberCluster", "berlin", spec)
}

fn vidra_target(name: &str) -> Value {
    let spec = json!({"resource": "shop.eu", "cluster": "berlin", "revision": "00ff", "desired": "Present",
        "namespace": "shop", "generation": 1});
    object("VidraTarget", name, spec)
}

fn good() -> Vec<Value> {
    let mut objects = vec![
        resource(json!({"targets": []})),
        resource(json!({"targets": [{"clusterSelector": {}}], "manifest": "kind: ConfigMap\n"})),
        target(json!({"clusterNames": ["berlin", "paris-2"], "namespace": "shop"})),
        target(json!({"clusterNames": []})),
        resource(json!({"targets": [], "conflicts": {"existing": "AdoptIfEqual", "fields": "Fail"},
            "namespaceAndCRDDeletion": "WhenEmpty", "allowEmpty": true})),
        target(json!({"clusterSelector": {"matchLabels": {"example.com/env": "prod", "empty": ""}}})),
        expression(json!({"key": "example.com/tier", "operator": "NotIn", "values": ["db", "v1.2_x"]})),
        expression(json!({"key": "tier", "operator": "Exists"})),
        expression(json!({"key": "tier", "operator": "DoesNotExist", "values": []})),
        object("VidraResource", &"r".repeat(180), json!({"targets": []})),
        member(json!({})),
        member(
            json!({"kubeconfigSecretRef": {"namespace": "vidra", "name": "berlin.eu"}, "allowedNamespaces": []}),
        ),
        object("MemberCluster", &"c".repeat(63), json!({})),
        vidra_target("shop.eu.berlin"),
        object(
            "VidraInventory",
            "shop.berlin.0",
            json!({"resource": "shop", "cluster": "berlin", "chunk": 0}),
        ),
    ];
    objects.extend(["1s", "1000ms", "30s", "10m", "1h30m", "1.5h", "999999h999999h9h"].map(interval));
    objects
}

/// Bad objects, each with the field and the sentence that the user reads.
fn bad() -> Vec<(Value, [&'static str; 2])> {
    let one_of =
        "set exactly one of clusterNames and clusterSelector; clusterSelector: {} selects every cluster";
    let duration = "write a duration of one second or more with its units, such as 30s, 10m or 1h30m";
    let cluster = "use the name of a MemberCluster: lower-case letters";
    let values = "give In and NotIn at least one entry in values, and Exists and DoesNotExist none";
    let namespace = "use the name of a namespace: lower-case letters";
    let member_name = "choose a metadata.name of at most 63 lower-case letters";
    let mut rows = vec![
        (resource(json!({})), ["spec.targets", "Required value"]),
        (target(json!({})), ["spec.targets[0]", one_of]),
        (target(json!({"clusterNames": ["a"], "clusterSelector": {}})), ["spec.targets[0]", one_of]),
        (target(json!({"clusterNames": ["a", "Berlin"]})), ["spec.targets[0].clusterNames[1]", cluster]),
        (target(json!({"clusterNames": ["eu.berlin"]})), ["spec.targets[0].clusterNames[0]", cluster]),
        (target(json!({"clusterNames": [""]})), ["spec.targets[0].clusterNames[0]", cluster]),
        (
            target(json!({"clusterSelector": {}, "namespace": "Shop"})),
            ["spec.targets[0].namespace", namespace],
        ),
        (
            target(json!({"clusterSelector": {"matchLabels": {"env": "not a value"}}})),
            ["spec.targets[0].clusterSelector.matchLabels", "use a label value"],
        ),
        (
            target(json!({"clusterSelector": {"matchLabels": {"ok": "a", "not a key": "b"}}})),
            ["spec.targets[0].clusterSelector.matchLabels", "use a label key"],
        ),
        (expression(json!({"key": "a", "operator": "In"})), ["matchExpressions[0]", values]),
        (expression(json!({"key": "a", "operator": "NotIn", "values": []})), ["matchExpressions[0]", values]),
        (
            expression(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
            ["matchExpressions[0]", values],
        ),
        (
            expression(json!({"key": "a b", "operator": "Exists"})),
            ["matchExpressions[0].key", "use a label key"],
        ),
        (
            expression(json!({"key": "a", "operator": "in", "values": ["b"]})),
            ["operator", "supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\""],
        ),
        (resource(json!({"targets": [], "excludeClusters": ["-x"]})), ["spec.excludeClusters[0]", cluster]),
        (
            resource(json!({"targets": [], "deletionPolicy": "Keep"})),
            ["spec.deletionPolicy", "supported values: \"Delete\", \"Orphan\""],
        ),
        (
            resource(json!({"targets": [], "conflicts": {"existing": "adopt"}})),
            ["spec.conflicts.existing", "supported values: \"Fail\", \"AdoptIfEqual\", \"Adopt\""],
        ),
        (
            resource(json!({"targets": [], "conflicts": {"fields": "Take"}})),
            ["spec.conflicts.fields", "supported values: \"Fail\", \"Force\""],
        ),
        (
            resource(json!({"targets": [], "namespaceAndCRDDeletion": "Delete"})),
            ["spec.namespaceAndCRDDeletion", "supported values: \"Retain\", \"WhenEmpty\""],
        ),
        (resource(json!({"targets": [], "allowEmpty": "yes"})), ["spec.allowEmpty", "boolean"]),
        (
            object("VidraResource", &"r".repeat(181), json!({"targets": []})),
            ["metadata.name", "choose a metadata.name of at most 180 characters"],
        ),
        (object("MemberCluster", "eu.berlin", json!({})), ["metadata.name", member_name]),
        (object("MemberCluster", &"c".repeat(64), json!({})), ["metadata.name", member_name]),
        (member(json!({"allowedNamespaces": ["a/b"]})), ["spec.allowedNamespaces[0]", namespace]),
        (
            member(json!({"kubeconfigSecretRef": {"name": "a"}})),
            ["kubeconfigSecretRef.namespace", "Required value"],
        ),
        (
            member(json!({"kubeconfigSecretRef": {"namespace": "vidra", "name": "A"}})),
            ["spec.kubeconfigSecretRef.name", "use the name of a Secret"],
        ),
        (
            member(json!({"kubeconfigSecretRef": {"namespace": "vidra", "name": "a", "key": "a b"}})),
            ["spec.kubeconfigSecretRef.key", "use a key of the Secret's data"],
        ),
        (vidra_target("mine"), ["VidraTarget", "make a VidraResource instead"]),
    ];
    rows.extend(
        ["", "10", "0s", "999ms", "1d", "-1m", "ten minutes", "1m 30s"]
            .map(|text| (interval(text), ["spec.reconcile.interval", duration])),
    );
    rows
}

#[test]
fn an_api_server_takes_the_crds_and_good_objects_and_refuses_bad_ones_helpfully() {
    install_crds();
    let mut wrong = Vec::new();
    for object in good() {
        if let Err(refusal) = try_create(&object) {
            wrong.push(format!("refused: {object}\n  {refusal}"));
        }
    }
    for (object, expected) in bad() {
        match try_create(&object) {
            Ok(_) => wrong.push(format!("accepted: {object}")),
            Err(refusal) if expected.iter().all(|part| refusal.contains(part)) => {}
            Err(refusal) => wrong.push(format!("expected {expected:?} of {object}\n  {refusal}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_api_server_fills_in_the_defaults_and_nothing_else() {
    install_crds();
    let taken: Value = serde_json::from_str(&try_create(&resource(json!({"targets": []}))).unwrap()).unwrap();
    let defaults = serde_json::to_value(vidra_api::VidraResourceSpec::default()).unwrap();
    assert_eq!(taken["spec"], defaults);
    let entries = json!([{"version": "v1", "kind": "Node", "name": "n"}]);
    let inventory = json!({"resource": "shop", "cluster": "berlin", "chunk": 0, "entries": entries});
    let taken = try_create(&object("VidraInventory", "shop.berlin.0", inventory.clone())).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&taken).unwrap()["spec"], inventory);
}
