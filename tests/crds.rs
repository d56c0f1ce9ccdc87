//! What a real API server makes of the CRDs: it takes them, takes good objects, and refuses bad ones
//! with a sentence that says how to mend them. Only it can tell what a CEL rule costs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "crds/fields.rs"]
mod fields;
#[path = "crds/golden.rs"]
mod golden;

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

/// A VidraResource that takes fields from these managers.
fn take_from(managers: Value) -> Value {
    resource(json!({"targets": [], "conflicts": {"takeFrom": managers}}))
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

fn sources(from: Value) -> Value {
    resource(json!({"targets": [], "manifestsFrom": from}))
}

fn manifests(objects: Value) -> Value {
    resource(json!({"targets": [], "manifests": objects}))
}

/// Bad sources of manifests, each with the field and the sentence that the user reads.
fn bad_sources() -> Vec<(Value, [&'static str; 2])> {
    let one_of = "set exactly one of configMapRef and secretRef; for both, write two entries";
    let whole = "write a whole Kubernetes object: apiVersion, kind, metadata.name and the rest of it";
    let key = "use a key of the ConfigMap's or Secret's data: letters, digits, '-', '_' and '.'";
    let no_key = "write at least one key, or leave keys out to read all of them";
    let keys = |keys: Value| sources(json!([{"configMapRef": {"name": "a", "keys": keys}}]));
    vec![
        (sources(json!([{}])), ["spec.manifestsFrom[0]", one_of]),
        (
            sources(
                json!([{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]),
            ),
            ["spec.manifestsFrom[1]", one_of],
        ),
        (
            sources(json!([{"configMapRef": {}}])),
            ["spec.manifestsFrom[0].configMapRef.name", "Required value"],
        ),
        (
            sources(json!([{"configMapRef": {"name": "Shop"}}])),
            ["spec.manifestsFrom[0].configMapRef.name", "use the name of a ConfigMap: lower-case letters"],
        ),
        (
            sources(json!([{"secretRef": {"name": "a/b"}}])),
            ["spec.manifestsFrom[0].secretRef.name", "use the name of a Secret: lower-case letters"],
        ),
        (keys(json!([])), ["spec.manifestsFrom[0].configMapRef.keys", no_key]),
        (keys(json!(["ok", "a b"])), ["spec.manifestsFrom[0].configMapRef.keys[1]", key]),
        (
            keys(json!(vec!["a"; 129])),
            ["spec.manifestsFrom[0].configMapRef.keys", "must have at most 128 items"],
        ),
        (
            sources(Value::from(vec![json!({"secretRef": {"name": "a"}}); 33])),
            ["spec.manifestsFrom", "must have at most 32 items"],
        ),
        (manifests(json!([{"kind": "ConfigMap"}])), ["spec.manifests[0]", whole]),
        (manifests(json!([{"apiVersion": "v1", "kind": ""}])), ["spec.manifests[0]", whole]),
        (manifests(json!(["apiVersion: v1"])), ["spec.manifests[0]", "must be of type object"]),
        (
            manifests(json!([{"apiVersion": 1, "kind": "A"}])),
            ["spec.manifests[0].apiVersion", "must be of type string"],
        ),
    ]
}

fn ignoring(target: Value, paths: Value) -> Value {
    resource(json!({"targets": [], "drift": {"ignore": [{"target": target, "paths": paths}]}}))
}

/// Bad rules of what is left alone, each with the field and the sentence that the user reads.
fn bad_ignores() -> Vec<(Value, [&'static str; 2])> {
    let write =
        "write the path as the API server does in conflicts, beginning with '.', such as .spec.replicas";
    let choose = "choose a field below the root: what an object is called";
    let path = |path: &str| ignoring(json!({"kind": "A"}), json!([".ok", path]));
    let mut rows: Vec<_> = [
        "",
        "spec",
        ".",
        ".spec.",
        ".spec..a",
        ".data.a/b",
        ".a[name=app]",
        ".a[name=\"app\"",
        ".a[]",
        ".a[0",
        ".a b[",
    ]
    .into_iter()
    .map(|text| (path(text), ["spec.drift.ignore[0].paths[1]", write]))
    .collect();
    rows.extend(
        [".apiVersion", ".kind", ".metadata", ".metadata.name", ".metadata.managedFields[0]"]
            .into_iter()
            .map(|text| (path(text), ["spec.drift.ignore[0].paths[1]", choose])),
    );
    let (target, paths) = ("spec.drift.ignore[0].target", "spec.drift.ignore[0].paths");
    rows.extend([
        (
            ignoring(json!({}), json!([".a"])),
            [target, "give at least one of group, kind, namespace and name"],
        ),
        (ignoring(json!({"kind": "A"}), json!([])), [paths, "write at least one path"]),
        (ignoring(json!({"kind": "A"}), json!(vec![".a"; 17])), [paths, "must have at most 16 items"]),
        (
            resource(json!({"targets": [], "drift": {"ignore": [{"paths": [".a"]}]}})),
            [target, "Required value"],
        ),
        (
            resource(json!({"targets": [], "drift": {"yield": "All"}})),
            ["spec.drift.yield", "supported values: \"Standard\", \"None\""],
        ),
    ]);
    rows
}

fn member(spec: Value) -> Value {
    object("MemberCluster", "berlin", spec)
}

/// A VidraResource with one override of this change.
fn overriding(change: Value) -> Value {
    let mut entry = json!({"target": {"kind": "ConfigMap"}});
    entry.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    resource(json!({"targets": [], "overrides": [entry]}))
}

fn patching(operation: Value) -> Value {
    overriding(json!({"jsonPatch": [operation]}))
}

fn vidra_target(name: &str) -> Value {
    let spec = json!({"resource": "shop.eu", "cluster": "berlin", "revision": "00ff", "desired": "Present",
        "namespace": "shop", "generation": 1});
    object("VidraTarget", name, spec)
}

fn good() -> Vec<Value> {
    let mut objects = vec![
        resource(json!({"targets": []})),
        resource(json!({"targets": [], "reconcile": {"timeout": "90s"}})),
        resource(json!({"targets": [{"clusterSelector": {}}], "manifest": "kind: ConfigMap\n"})),
        target(json!({"clusterNames": ["berlin", "paris-2"], "namespace": "shop"})),
        target(json!({"clusterNames": []})),
        resource(json!({"targets": [], "conflicts": {"existing": "AdoptIfEqual", "fields": "Fail"},
            "namespaceAndCRDDeletion": "WhenEmpty", "allowEmpty": true})),
        resource(json!({"targets": [], "drift": {"policy": "Report"}})),
        resource(json!({"targets": [], "drift": {}})),
        target(json!({"clusterSelector": {"matchLabels": {"example.com/env": "prod", "empty": ""}}})),
        expression(json!({"key": "example.com/tier", "operator": "NotIn", "values": ["db", "v1.2_x"]})),
        expression(json!({"key": "tier", "operator": "Exists"})),
        expression(json!({"key": "tier", "operator": "DoesNotExist", "values": []})),
        object("VidraResource", &"r".repeat(180), json!({"targets": []})),
        sources(
            json!([{"configMapRef": {"name": "shop.crds", "keys": ["crds.yaml.gz", "_x-1"]}}, {"secretRef": {"name": "s"}}]),
        ),
        sources(Value::from(vec![json!({"configMapRef": {"name": "a", "keys": vec!["k"; 128]}}); 32])),
        manifests(
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"b": "c"}},
            "spec": {"replicas": 1, "deep": [{"any": [null, 1.5, "x", true]}]}}, {"apiVersion": "v1", "kind": "List", "items": []}]),
        ),
        ignoring(
            json!({"group": "", "kind": "ConfigMap", "namespace": "a", "name": "b"}),
            json!([
                ".spec.replicas",
                ".data[\"app.conf\"]",
                ".metadata.annotations.example.com/a[b]",
                ".a[0].b",
                ".a[=\"x]\"].b",
                ".spec.template.spec.containers[name=\"app\"].image",
                ".spec.ports[port=80,protocol=\"TCP\"].targetPort",
                ".spec.template.metadata.labels.app.kubernetes.io/name",
                ".a[b=true,c=-1.5e3].d",
                ".metadata.labels",
            ]),
        ),
        resource(json!({"targets": [], "drift": {"ignore": vec![json!({"target": {"name": "a"},
            "paths": vec![".a"; 16]}); 32], "yield": "None"}})),
        take_from(vec![json!({"manager": "m".repeat(128), "operation": "Update"}); 10].into()),
        member(json!({})),
        member(
            json!({"kubeconfigSecretRef": {"namespace": "vidra", "name": "berlin.eu"}, "allowedNamespaces": []}),
        ),
        object("MemberCluster", &"c".repeat(63), json!({})),
        member(json!({"values": {"registry.url": "https://eu.example:5000/?a=b c", "empty": ""}})),
        overriding(json!({"clusterNames": ["berlin"], "mergePatch": {"data": {"a": null, "b": {"c": [1]}}}})),
        overriding(
            json!({"clusterSelector": {}, "set": [{"path": ".data[\"a.b\"]", "expression": "cluster.name"}]}),
        ),
        patching(json!({"op": "add", "path": "/data/a~1b", "value": {"any": ["thing", 1, true]}})),
        patching(json!({"op": "replace", "path": "", "value": "text"})),
        patching(json!({"op": "remove", "path": "/data"})),
        patching(json!({"op": "copy", "from": "/data", "path": "/other"})),
        vidra_target("shop.eu.berlin"),
        object(
            "VidraInventory",
            "shop.berlin.0",
            json!({"resource": "shop", "cluster": "berlin", "chunk": 0}),
        ),
    ];
    objects.extend(["1s", "1000ms", "30s", "10m", "1h30m", "1.5h", "720h"].map(interval));
    objects
}

/// Bad objects, each with the field and the sentence that the user reads.
fn bad() -> Vec<(Value, [&'static str; 2])> {
    let one_of =
        "set exactly one of clusterNames and clusterSelector; clusterSelector: {} selects every cluster";
    let duration = "write a duration with its units, of one second or more and at most 720h (30 days), such as 30s, 10m or 1h30m";
    let cluster = "use the name of a MemberCluster: lower-case letters";
    let values = "give In and NotIn at least one entry in values, and Exists and DoesNotExist none";
    let namespace = "use the name of a namespace: lower-case letters";
    let member_name = "choose a metadata.name of at most 63 lower-case letters";
    let mut rows = vec![
        (resource(json!({})), ["spec.targets", "Required value"]),
        (
            resource(json!({"targets": [], "reconcile": {"timeout": "0s"}})),
            ["spec.reconcile.timeout", duration],
        ),
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
            take_from(json!([{"manager": "flux", "operation": "apply"}])),
            ["spec.conflicts.takeFrom[0].operation", "supported values: \"Apply\", \"Update\""],
        ),
        (take_from(json!([{"manager": "flux"}])), ["spec.conflicts.takeFrom[0].operation", "Required value"]),
        (
            take_from(json!([{"manager": "m".repeat(129), "operation": "Apply"}])),
            ["spec.conflicts.takeFrom[0].manager", "may not be more than 128 bytes"],
        ),
        (
            take_from(json!([{"manager": "vidra/h/team/shop", "operation": "Apply"}])),
            ["spec.conflicts.takeFrom[0].manager", "give the name of a field manager that is no Vidra hub's"],
        ),
        (
            take_from(vec![json!({"manager": "flux", "operation": "Apply"}); 11].into()),
            ["spec.conflicts.takeFrom", "must have at most 10 items"],
        ),
        (
            resource(json!({"targets": [], "drift": {"policy": "Repair"}})),
            ["spec.drift.policy", "supported values: \"Correct\", \"Report\", \"Ignore\""],
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
        (
            resource(json!({"targets": [], "overrides": [{"mergePatch": {}}]})),
            ["spec.overrides[0].target", "Required value"],
        ),
        (overriding(json!({})), ["spec.overrides[0]", "set exactly one of jsonPatch, mergePatch and set"]),
        (
            overriding(json!({"mergePatch": {}, "set": []})),
            ["spec.overrides[0]", "set exactly one of jsonPatch, mergePatch and set"],
        ),
        (
            overriding(json!({"clusterNames": [], "clusterSelector": {}, "mergePatch": {}})),
            ["spec.overrides[0]", "set at most one of clusterNames and clusterSelector"],
        ),
        (
            overriding(json!({"clusterNames": ["A"], "mergePatch": {}})),
            ["spec.overrides[0].clusterNames[0]", cluster],
        ),
        (overriding(json!({"mergePatch": [1]})), ["spec.overrides[0].mergePatch", "must be of type object"]),
        (patching(json!({"op": "move", "path": "/a"})), ["jsonPatch[0]", "give from to move and to copy"]),
        (
            patching(json!({"op": "add", "from": "/a", "path": "/a", "value": 1})),
            ["jsonPatch[0]", "give from to move and to copy"],
        ),
        (patching(json!({"op": "remove", "path": "data"})), ["jsonPatch[0].path", "write a JSON Pointer"]),
        (
            patching(json!({"op": "delete", "path": "/a"})),
            [
                "jsonPatch[0].op",
                "supported values: \"add\", \"remove\", \"replace\", \"move\", \"copy\", \"test\"",
            ],
        ),
        (
            overriding(json!({"set": [{"path": "data.a", "expression": "1"}]})),
            ["set[0].path", "write the path from the root of the object"],
        ),
        (
            overriding(json!({"set": [{"path": ".data.a", "expression": ""}]})),
            ["set[0].expression", "should be at least 1 chars long"],
        ),
        (member(json!({"values": {"a b": "c"}})), ["spec.values", "use keys of at most 63 letters"]),
    ];
    rows.extend(
        ["", "10", "0s", "999ms", "1d", "-1m", "ten minutes", "1m 30s", "721h", "87600h"]
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
    for (object, expected) in bad().into_iter().chain(bad_sources()).chain(bad_ignores()) {
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
    let entries = json!(["/v1/Node//n/intended/"]);
    let inventory = json!({"resource": "shop", "cluster": "berlin", "chunk": 0, "entries": entries});
    let taken = try_create(&object("VidraInventory", "shop.berlin.0", inventory.clone())).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&taken).unwrap()["spec"], inventory);
}

#[test]
fn an_api_server_keeps_what_patches_hold() {
    install_crds();
    for object in [
        overriding(json!({"mergePatch": {"data": {"gone": null, "deep": {"list": [{"a": null}, 1.5]}}}})),
        patching(json!({"op": "add", "path": "/data", "value": {"a": [1, "b", {"c": true}]}})),
    ] {
        let taken: Value = serde_json::from_str(&try_create(&object).unwrap()).unwrap();
        assert_eq!(taken["spec"]["overrides"], object["spec"]["overrides"]);
    }
}
