//! What `deploy/` and `clusters/` promise, on real API servers: the manifests are taken, the hub works with the
//! rights that they give it, and a member with those of its manifest. No Pod runs here: the hub is started as
//! the Deployment would, outside of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on stops")]

mod chart;
mod earlier;
mod machine;
mod older_crds;
mod policy;
mod stopped;
mod upgrade;

use machine::{Machine, until};

#[test]
fn the_kustomization_installs_a_hub_that_delivers_anything_with_the_full_rights_in_a_member() {
    let machine = Machine::start();
    let said = machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    assert!(said.contains("deployment.apps/vidra-hub created"), "{said}");
    for (flow, level) in [("vidra-hub-lease", "leader-election"), ("vidra-hub", "workload-high")] {
        let of =
            "{.spec.priorityLevelConfiguration.name}/{.spec.rules[0].subjects[0].serviceAccount.namespace}";
        let installed = machine.field("hub", &format!("flowschema/{flow}"), of);
        assert_eq!(installed, format!("{level}/vidra-system"));
    }
    let hub = machine.run_hub();
    machine.register("clusters/member-full.yaml");

    machine.kubectl("hub", "apply --server-side -f clusters/examples/hello.yaml", "").unwrap();
    machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/hello", "").unwrap();
    assert_eq!(machine.field("berlin", "configmap/hello -n hello", "{.data.greeting}"), "Welcome");

    // A kind that only this manifest knows, and roles that give more than the hub has itself.
    machine.kubectl("hub", "apply --server-side -f -", ANYTHING).unwrap();
    machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/anything", "").unwrap();
    assert_eq!(machine.field("berlin", "toys/train", "{.spec.colour}"), "red");
    assert_eq!(machine.field("berlin", "clusterrole/toy-makers", "{.rules[0].verbs[0]}"), "deletecollection");
    machine.kubectl("hub", "delete --timeout=120s -n team-a vr/anything vr/hello", "").unwrap();
    for gone in ["clusterrole/toy-makers", "rolebinding/toy-makers -n toys", "configmap/hello -n hello"] {
        let refused = machine.kubectl("berlin", &format!("get {gone}"), "").unwrap_err();
        assert!(refused.contains("NotFound"), "{refused}");
    }

    users_have_what_their_roles_say(&machine);

    // Applied again, as for an upgrade: the settings that somebody made stay.
    machine
        .kubectl("hub", r#"patch cm vidra-hub -n vidra-system -p {"data":{"interval":"5m"}}"#, "")
        .unwrap();
    machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    assert_eq!(machine.field("hub", "cm/vidra-hub -n vidra-system", "{.data.interval}"), "5m");

    // Uninstalled as docs/guides/uninstall.md says, nothing waits for a hub that does not run any more.
    machine.kubectl("hub", "delete vr -A --all --timeout=120s", "").unwrap();
    machine.kubectl("hub", "delete mc --all --timeout=120s", "").unwrap();
    machine.kubectl("hub", "delete validatingadmissionpolicybinding vidra-hub", "").unwrap();
    drop(hub);
    machine.kubectl("hub", "delete -k deploy/kustomize --ignore-not-found --timeout=120s", "").unwrap();
    assert_eq!(machine.kubectl("hub", "get crd -o name", "").unwrap(), "");

    the_chart_comes_and_goes(&machine);
}

#[test]
fn a_second_process_is_ready_to_take_over_and_repairs_once_the_first_was_killed() {
    let machine = Machine::start();
    machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    let first = machine.run_hub();
    machine.register("clusters/member-full.yaml");
    machine.kubectl("hub", "apply --server-side -f clusters/examples/hello.yaml", "").unwrap();
    machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/hello", "").unwrap();
    let second = machine.run_hub();
    assert!(first.leads() && !second.leads(), "{}{}", first.metrics(), second.metrics());
    let greeting = || machine.field("berlin", "configmap/hello -n hello", "{.data.greeting}");

    first.kill();
    let edit = r#"patch configmap/hello -n hello --type merge -p {"data":{"greeting":"evil"}}"#;
    machine.kubectl("berlin", edit, "").unwrap();
    until("the second one repairs", || match greeting() {
        said if said == "Welcome" => Ok(()),
        said => Err(said),
    });
    assert!(second.leads(), "{}", second.metrics());
}

/// Installed, upgraded and uninstalled with helm itself.
fn the_chart_comes_and_goes(machine: &Machine) {
    let chart = "vidra-hub deploy/helm/vidra-hub -n vidra-system";
    let notes = machine.helm(&format!("install {chart} --create-namespace --set hubId=main")).unwrap();
    assert!(notes.contains("kubectl -n vidra-system rollout status deployment/vidra-hub"), "{notes}");
    assert!(notes.contains("--clusterrole vidra-edit") && !notes.contains("role edit or admin"), "{notes}");
    let labels = || machine.field("hub", "clusterrole/vidra-edit", "{.metadata.labels}");
    assert!(!labels().contains("aggregate-to"), "{}", labels());
    // As docs/guides/upgrade.md upgrades: what was set before is not forgotten.
    let upgrade = |set: &str| machine.helm(&format!("upgrade {chart} --reset-then-reuse-values --set {set}"));
    let notes = upgrade("userRoles.aggregate=true").unwrap();
    assert!(notes.contains("role edit or admin"), "{notes}");
    assert!(labels().contains("aggregate-to"), "{}", labels());
    let env = machine.field("hub", "deployment/vidra-hub -n vidra-system", "{..env}");
    assert!(env.contains(r#"{"name":"VIDRA_HUB_ID","value":"main"}"#), "{env}");
    // And as it goes back: to the chart without its CRDs, which stay, and can be the chart's again.
    let crds = || machine.kubectl("hub", "get crd -o name", "").unwrap().lines().count();
    for install in ["crds.install=false", "crds.install=true"] {
        upgrade(install).unwrap();
        assert_eq!(crds(), 4, "{install}");
    }
    let kept = machine.helm("uninstall vidra-hub -n vidra-system").unwrap();
    assert!(kept.contains("[CustomResourceDefinition] vidraresources.vidra.dev"), "{kept}");
    assert_eq!(crds(), 4);
    assert_eq!(machine.kubectl("hub", "get all -n vidra-system -o name", "").unwrap(), "");
}

/// The roles for people, bound to somebody who has nothing else.
fn users_have_what_their_roles_say(machine: &Machine) {
    let limited = "--user=limited";
    let bind = format!("create rolebinding edit -n team-a --clusterrole=vidra-edit {limited}");
    machine.kubectl("hub", &bind, "").unwrap();
    let bind = format!("create rolebinding view -n default --clusterrole=vidra-view {limited}");
    machine.kubectl("hub", &bind, "").unwrap();
    // A moment passes until the server goes by it.
    let seen = || machine.may("limited", "list vidratargets.vidra.dev -n default");
    until("view has it too", || seen().then_some(()).ok_or_else(|| "no".to_owned()));
    for (question, answer) in [
        ("create vidraresources.vidra.dev -n team-a", true),
        ("deletecollection vidraresources.vidra.dev -n team-a", true),
        ("get vidraresources.vidra.dev -n default", true),
        ("create vidraresources.vidra.dev -n default", false),
        ("watch vidratargets.vidra.dev -n team-a", true),
        ("patch vidratargets.vidra.dev -n team-a", false),
        ("update vidraresources.vidra.dev --subresource=status -n team-a", false),
        ("get secrets -n team-a", false),
    ] {
        assert_eq!(machine.may("limited", question), answer, "{question}");
    }
}

#[test]
fn the_chart_installs_a_hub_that_delivers_the_kinds_which_a_member_allows() {
    let machine = Machine::start();
    let rendered = chart::template(&[]).unwrap();
    machine.kubectl("hub", "create namespace vidra-system", "").unwrap();
    let said = machine.kubectl("hub", "apply -f -", &rendered).unwrap();
    assert!(said.contains("deployment.apps/vidra-hub created"), "{said}");
    let _hub = machine.run_hub();
    machine.register("clusters/member-kinds.yaml");

    machine.kubectl("hub", "apply --server-side -f clusters/examples/shop.yaml", "").unwrap();
    // No Pod runs: applied, and never available.
    machine.kubectl("hub", "wait --for=create --timeout=120s -n team-a vt/shop.berlin", "").unwrap();
    let state =
        "wait --for=jsonpath={.status.reason}=ObjectsProgressing --timeout=120s -n team-a vt/shop.berlin";
    machine.kubectl("hub", state, "").unwrap();
    for kind in ["serviceaccount", "configmap", "secret", "service", "deployment"] {
        assert_eq!(machine.field("berlin", &format!("{kind}/shop -n shop"), "{.metadata.name}"), "shop");
    }

    // What the manifest does not name is refused in words that name it.
    machine.kubectl("hub", "apply --server-side -f -", ANYTHING).unwrap();
    machine.kubectl("hub", "wait --for=create --timeout=120s -n team-a vt/anything.berlin", "").unwrap();
    let state =
        "wait --for=jsonpath={.status.reason}=CannotWatch --timeout=120s -n team-a vt/anything.berlin";
    machine.kubectl("hub", state, "").unwrap();
    let message = machine.field("hub", "vt/anything.berlin -n team-a", "{.status.message}");
    assert!(message.contains("forbidden"), "{message}");
}

/// Kinds and rights that the hub itself has never heard of.
const ANYTHING: &str = r#"
apiVersion: vidra.dev/v1alpha1
kind: VidraResource
metadata: {name: anything, namespace: team-a}
spec:
  targets: [{clusterSelector: {}, namespace: toys}]
  manifest: |
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: toys.example.com}
    spec:
      group: example.com
      names: {kind: Toy, plural: toys, singular: toy}
      scope: Cluster
      versions:
      - name: v1
        served: true
        storage: true
        schema:
          openAPIV3Schema:
            type: object
            properties: {spec: {type: object, properties: {colour: {type: string}}}}
    ---
    apiVersion: example.com/v1
    kind: Toy
    metadata: {name: train}
    spec: {colour: red}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: toy-makers}
    rules:
    - apiGroups: [example.com]
      resources: [toys]
      verbs: [deletecollection, update]
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: toy-makers}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: toy-makers}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: makers}]
"#;
