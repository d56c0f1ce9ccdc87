//! The chart, without a cluster: what it renders, and what it refuses.

use std::{collections::BTreeMap, path::PathBuf, process::Command, sync::OnceLock};

use serde_json::Value;
use testkit::testbed::binary;

use crate::machine::{root, run};

const CHART: &str = "deploy/helm/vidra-hub";

/// helm, built where it has not been.
pub fn helm() -> &'static PathBuf {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    HELM.get_or_init(|| run(Command::new("bash").arg("tests/helm/build.sh"), "").unwrap().trim().into())
}

/// What `helm template` renders with these values.
pub fn template(values: &[&str]) -> Result<String, String> {
    let mut command = Command::new(helm());
    command.args(["template", "vidra-hub", CHART, "--namespace", "vidra-system"]);
    run(command.args(values.iter().flat_map(|value| ["--set", value])), "")
}

/// Objects by kind and name, without what marks them as the chart's or the kustomization's.
fn objects(text: &str) -> BTreeMap<(String, String), Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let named = all.into_iter().filter(|object| !object.is_null()).map(|mut object| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("annotations");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|label, _| !label.contains("app.kubernetes.io/") && label != "helm.sh/chart");
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
        (key, object)
    });
    named.collect()
}

#[test]
fn the_chart_with_its_defaults_installs_what_the_kustomization_does() {
    let kubectl = binary().unwrap().with_file_name("kubectl");
    let kustomized = run(Command::new(kubectl).args(["kustomize", "deploy/kustomize"]), "").unwrap();
    let (mut kustomized, mut rendered) = (objects(&kustomized), objects(&template(&[]).unwrap()));
    // Helm makes the namespace itself.
    assert!(kustomized.remove(&("Namespace".to_owned(), "vidra-system".to_owned())).is_some());
    // The chart says aloud what is the default.
    let deployment = rendered.get_mut(&("Deployment".to_owned(), "vidra-hub".to_owned())).unwrap();
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"].as_array_mut().unwrap().pop().unwrap()["name"], "RUST_LOG");
    assert_eq!(container.as_object_mut().unwrap().remove("imagePullPolicy").unwrap(), "IfNotPresent");
    assert_eq!(kustomized.keys().collect::<Vec<_>>(), rendered.keys().collect::<Vec<_>>());
    for (key, object) in kustomized {
        assert_eq!(object, rendered[&key], "{key:?}");
    }
}

#[test]
fn values_reach_the_place_that_they_are_for() {
    for (values, expected) in [
        (
            &["image.repository=registry.example/hub", "image.tag=v2"][..],
            "image: \"registry.example/hub:v2\"",
        ),
        (&["replicas=1"], "replicas: 1\n"),
        (&["hubId=main"], "name: VIDRA_HUB_ID\n          value: \"main\""),
        (&["extraArgs={--interval=5m,--no-events}"], "- \"--interval=5m\"\n        - \"--no-events\""),
        (&["service.port=9090"], "port: 9090"),
        (&["log.level=debug"], "value: \"debug\""),
        (&["settings.interval=5m"], "data:\n  interval: 5m"),
        (&["nodeSelector.disk=ssd"], "nodeSelector:\n        disk: ssd"),
        (&["priorityClassName=high"], "priorityClassName: \"high\""),
        (&["imagePullSecrets[0].name=registry"], "imagePullSecrets:\n      - name: registry"),
    ] {
        let rendered = template(values).unwrap();
        assert!(rendered.contains(expected), "{values:?}: {rendered}");
    }
    let digest = format!("image.digest=sha256:{}", "a".repeat(64));
    assert!(template(&[&digest]).unwrap().contains("vidra-hub@sha256:aaaa"));
    for (value, absent) in [
        ("crds.install=false", "CustomResourceDefinition"),
        ("userRoles.create=false", "vidra-edit"),
        ("service.create=false", "kind: Service\n"),
        ("policy.create=false", "ValidatingAdmissionPolicy"),
        ("log.json=false", "--json-logs"),
    ] {
        assert!(template(&[]).unwrap().contains(absent), "{absent}");
        assert!(!template(&[value]).unwrap().contains(absent), "{value}");
    }
}

#[test]
fn who_may_edit_in_a_namespace_delivers_to_members_only_where_the_chart_is_told_so() {
    assert!(!template(&[]).unwrap().contains("aggregate-to"));
    assert!(template(&["userRoles.aggregate=true"]).unwrap().contains("aggregate-to-edit"));
}

/// The kustomization with something else said in an overlay.
fn overlaid(overlay: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let up = "../".repeat(directory.path().components().count() - 1);
    let base = root().strip_prefix("/").unwrap().display();
    let overlay = format!("resources: [{up}{base}/deploy/kustomize]\n{overlay}\n");
    std::fs::write(directory.path().join("kustomization.yaml"), overlay).unwrap();
    let mut kubectl = Command::new(binary().unwrap().with_file_name("kubectl"));
    run(kubectl.arg("kustomize").arg(directory.path()), "").unwrap()
}

#[test]
fn the_overlay_of_going_back_leaves_the_crds_out_and_nothing_else() {
    let docs = std::fs::read_to_string(root().join("docs/guides/upgrade.md")).unwrap();
    let (_, going_back) = docs.split_once("\n## Going back").unwrap();
    let (overlay, _) = going_back.split_once("```yaml\n").unwrap().1.split_once("```").unwrap();
    let kinds = |text: &str| objects(text).into_keys().collect::<Vec<_>>();
    let mut expected = kinds(&overlaid(""));
    expected.retain(|(kind, _)| kind != "CustomResourceDefinition");
    assert_eq!(kinds(&overlaid(overlay)), expected);
}

#[test]
fn in_another_namespace_the_policy_names_the_hub_there() {
    let mut helm = Command::new(helm());
    let rendered = run(helm.args(["template", "vidra-hub", CHART, "--namespace", "fleet"]), "").unwrap();
    // As the head of deploy/kustomize/kustomization.yaml says.
    let head = std::fs::read_to_string(root().join("deploy/kustomize/kustomization.yaml")).unwrap();
    let told = head
        .lines()
        .skip_while(|line| *line != "#   namespace: NAME")
        .map_while(|line| line.strip_prefix("#   "));
    let kustomized = overlaid(&told.collect::<Vec<_>>().join("\n").replace("NAME", "fleet"));
    for text in [rendered, kustomized] {
        let all = objects(&text);
        let policy = &all[&("ValidatingAdmissionPolicy".to_owned(), "vidra-hub".to_owned())];
        assert_eq!(policy["spec"]["variables"][0]["expression"], "'system:serviceaccount:fleet:vidra-hub'");
        let account = &all[&("ServiceAccount".to_owned(), "vidra-hub".to_owned())];
        assert_eq!(account["metadata"]["namespace"], "fleet");
    }
}

#[test]
fn crds_stay_when_the_release_goes() {
    let all: Vec<Value> = serde_saphyr::from_multiple(&template(&[]).unwrap()).unwrap();
    let crds: Vec<_> = all.iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
    assert_eq!(crds.len(), 4);
    for crd in crds {
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    }
}

#[test]
fn wrong_values_are_refused_in_words_that_name_them() {
    for (value, words) in [
        ("replica=2", ["replica", "not allowed"]),
        ("replicas=0", ["replicas", "minimum"]),
        ("image.pullPolicy=Sometimes", ["image/pullPolicy", "must be one of"]),
        ("hubId=Not_Valid", ["hubId", "does not match pattern"]),
        ("settings.interval=10", ["settings/interval", "want string"]),
        ("crds.install=perhaps", ["crds/install", "want boolean"]),
        ("policy.users={}", ["policy", "not allowed"]),
        ("service.port=0", ["service/port", "minimum"]),
        ("extraArgs={interval=5m}", ["extraArgs/0", "does not match pattern"]),
        ("image.digest=latest", ["image/digest", "does not match pattern"]),
        ("resources.requests.cpu=true", ["resources/requests/cpu", "want"]),
    ] {
        let refused = template(&[value]).unwrap_err();
        assert!(words.iter().all(|word| refused.contains(word)), "{value}: {refused}");
    }
}

#[test]
fn helm_finds_nothing_to_complain_of() {
    let said = run(Command::new(helm()).args(["lint", "--strict", CHART]), "").unwrap();
    assert!(said.contains("0 chart(s) failed"), "{said}");
}
