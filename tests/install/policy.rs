//! Nobody but the hub writes what is its own: the policy that both installs bring, on a real API server, against
//! somebody who has every right that RBAC gives in a namespace.

use serde_json::{Value, json};

use crate::machine::{Machine, until};

/// Every right in one namespace, a wildcard for the hub's kinds among them, and the status of members.
const ORDINARY: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: limited, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: limited, namespace: vidra-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: vidra, namespace: team-a}
rules: [{apiGroups: [vidra.dev], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: vidra, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: vidra}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: member-statuses}
rules: [{apiGroups: [vidra.dev], resources: [memberclusters, memberclusters/status], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: member-statuses}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: member-statuses}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
"#;

/// The right to write what the hub writes, as docs/guides/rights-and-teams.md has it.
const MAINTAINS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: vidra-maintain}
rules: [{apiGroups: [vidra.dev], resources: [vidratargets], verbs: [maintain]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: vidra-maintain}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: vidra-maintain}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
"#;

/// One write that only the hub makes: the command, its input, and what is refused in words.
type Write = (String, String, &'static str);

/// An object of the hub's in team-a, by kind: its name, and a forged one of the same kind.
fn copied(machine: &Machine, kind: &str) -> (String, String) {
    let all = machine.kubectl("hub", &format!("get {kind} -n team-a -o json"), "").unwrap();
    let mut all: Value = serde_json::from_str(&all).unwrap();
    let of_the_hub = |item: &&mut Value| item["type"].is_null() || item["type"] == "vidra.dev/revision";
    let item = all["items"].as_array_mut().unwrap().iter_mut().find(of_the_hub).unwrap();
    let name = item["metadata"]["name"].as_str().unwrap().to_owned();
    item["metadata"] = json!({"name": name, "namespace": "team-a"});
    if kind == "secrets" {
        item["metadata"]["name"] = "hello.forged".into();
    }
    // For another member, as somebody would who wants the hub to act there.
    let copy = item.to_string().replace("berlin", "tokyo");
    (name, copy)
}

/// All that the policy matches.
fn writes(machine: &Machine) -> Vec<Write> {
    let mut all = Vec::new();
    for (kind, [create, update, delete]) in [
        ("vidratargets", ["create vidratargets:", "update vidratargets:", "delete vidratargets:"]),
        (
            "vidrainventories",
            ["create vidrainventories:", "update vidrainventories:", "delete vidrainventories:"],
        ),
        (
            "secrets",
            [
                "create Secrets of type vidra.dev/revision:",
                "update Secrets of type vidra.dev/revision:",
                "delete Secrets of type vidra.dev/revision:",
            ],
        ),
    ] {
        let (name, copy) = copied(machine, kind);
        all.push(("create -f -".to_owned(), copy, create));
        all.push((format!("label {kind} {name} -n team-a note=mine"), String::new(), update));
        all.push((format!("delete {kind} {name} -n team-a --wait=false"), String::new(), delete));
        if kind != "secrets" {
            all.push((format!("delete {kind} --all -n team-a --wait=false"), String::new(), delete));
        }
    }
    for (object, what) in [
        ("vidratargets hello.berlin -n team-a", "update vidratargets/status:"),
        ("vidraresources hello -n team-a", "update vidraresources/status:"),
        ("memberclusters berlin", "update memberclusters/status:"),
    ] {
        let patch = format!(
            "patch {object} --subresource=status --type=merge -p {{\"status\":{{\"conditions\":[]}}}}"
        );
        all.push((patch, String::new(), what));
    }
    all
}

/// Who does a write, for real or to see whether it is let through.
fn write(machine: &Machine, (command, input, _): &Write, user: &str, more: &str) -> Result<String, String> {
    machine.kubectl("hub", &format!("{command} --as={user}{more}"), input)
}

/// Waits until the server goes by what was changed: a right, or the policy.
fn until_it_is(machine: &Machine, wanted: &str, is: impl Fn(&Result<String, String>) -> bool) {
    let label = ("label vidratargets hello.berlin -n team-a note=mine".to_owned(), String::new(), "");
    until(wanted, || {
        let answer = write(machine, &label, "limited", " --dry-run=server");
        if is(&answer) { Ok(()) } else { Err(format!("{answer:?}")) }
    });
}

fn denied(answer: &Result<String, String>) -> bool {
    matches!(answer, Err(why) if why.contains("ValidatingAdmissionPolicy 'vidra-hub'"))
}

#[test]
fn nobody_but_the_hub_and_its_maintainers_writes_what_is_its_own_while_all_else_goes_on() {
    let machine = Machine::start();
    machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    let _hub = machine.run_hub();
    machine.register("clusters/member-full.yaml");
    machine.kubectl("hub", "apply --server-side -f clusters/examples/hello.yaml", "").unwrap();
    machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/hello", "").unwrap();
    machine.kubectl("hub", "apply -f -", ORDINARY).unwrap();
    until_it_is(&machine, "the policy speaks", denied);

    let writes = writes(&machine);
    for one in &writes {
        let Err(why) = write(&machine, one, "limited", "") else { panic!("{one:?} was let through") };
        let instead = if one.2.contains("memberclusters") { "MemberCluster" } else { "VidraResource" };
        for words in [
            &format!("limited may not {} only system:serviceaccount:vidra-system:vidra-hub does", one.2),
            "the verb maintain on vidratargets.vidra.dev in all namespaces",
            &format!("Change the {instead} instead: the hub does the rest"),
        ] {
            assert!(why.contains(words), "{one:?}: {why}");
        }
    }
    settings_and_health_rules_are_the_maintainers(&machine);
    people_deliver_and_remove(&machine);
    kubernetes_clears_up(&machine, &writes);

    machine.kubectl("hub", "apply -f -", MAINTAINS).unwrap();
    until_it_is(&machine, "a maintainer is let through", Result::is_ok);
    all_pass(&machine, &writes);
    machine.kubectl("hub", "delete -f -", MAINTAINS).unwrap();
    until_it_is(&machine, "the policy speaks again", denied);

    // The first step of uninstalling: nothing of it is left, and RBAC alone says who may.
    machine.kubectl("hub", "delete validatingadmissionpolicybinding vidra-hub", "").unwrap();
    until_it_is(&machine, "nothing speaks", Result::is_ok);
    all_pass(&machine, &writes);
}

/// What says how the hub works, and what Ready means on all members.
fn settings_and_health_rules_are_the_maintainers(machine: &Machine) {
    let labelled = |namespace: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: rules, namespace: {namespace}, \
             labels: {{vidra.dev/health-rules: \"true\"}}}}\n"
        )
    };
    let as_limited =
        |arguments: &str, input: &str| machine.kubectl("hub", &format!("{arguments} --as=limited"), input);
    let refused = |arguments: &str, input: &str| {
        let answer = as_limited(arguments, input);
        assert!(denied(&answer), "{arguments}: {answer:?}");
        let why = answer.unwrap_err();
        assert!(why.contains("ConfigMaps of settings or health rules in the namespace of the hub"), "{why}");
    };
    refused("create -f -", &labelled("vidra-system"));
    refused("create configmap vidra-hub -n vidra-system --from-literal=interval=1h", "");
    as_limited("create configmap plain -n vidra-system --from-literal=key=one", "").unwrap();
    refused("label configmap plain -n vidra-system vidra.dev/health-rules=true", "");
    as_limited("delete configmap plain -n vidra-system", "").unwrap();
    as_limited("create -f -", &labelled("team-a")).unwrap();
    as_limited("delete -f -", &labelled("team-a")).unwrap();

    machine.kubectl("hub", "create -f -", &labelled("vidra-system")).unwrap();
    refused("label configmap rules -n vidra-system vidra.dev/health-rules-", "");
    refused("delete configmap rules -n vidra-system", "");
    refused("delete configmap --all -n vidra-system", "");
    machine.kubectl("hub", "delete -f -", &labelled("vidra-system")).unwrap();
}

fn all_pass(machine: &Machine, writes: &[Write]) {
    for one in writes {
        write(machine, one, "limited", " --dry-run=server").unwrap_or_else(|why| panic!("{one:?}: {why}"));
    }
}

/// What somebody without any right to the hub's own objects does, and the hub for them.
fn people_deliver_and_remove(machine: &Machine) {
    let mine = |arguments: &str, input: &str| {
        machine.kubectl("hub", &format!("{arguments} --as=limited"), input).unwrap()
    };
    mine("create secret generic mine -n team-a --from-literal=key=one", "");
    mine("label secret mine -n team-a note=mine", "");
    mine("delete secret mine -n team-a", "");

    let greeting = || machine.field("berlin", "configmap/hello -n hello", "{.data.greeting}");
    let greets = |words: &str| until(words, || if greeting() == words { Ok(()) } else { Err(greeting()) });
    machine.kubectl("berlin", r#"patch configmap hello -n hello -p {"data":{"greeting":"Go"}}"#, "").unwrap();
    greets("Welcome");
    // Another revision, for which a Secret is made.
    let example =
        std::fs::read_to_string(crate::machine::root().join("clusters/examples/hello.yaml")).unwrap();
    let changed: Vec<_> = example.split("---\n").filter(|one| one.contains("VidraResource")).collect();
    mine("apply --server-side --force-conflicts -f -", &changed.concat().replace("Welcome", "Hail"));
    greets("Hail");

    for (name, cascade) in [("first", "background"), ("second", "foreground"), ("third", "orphan")] {
        mine("apply --server-side -f -", &brief(name, "team-a"));
        mine(&format!("wait --for=condition=Ready --timeout=120s -n team-a vr/{name}"), "");
        mine(&format!("delete vr {name} -n team-a --cascade={cascade} --timeout=120s"), "");
        // Orphaned by that word: the Secret of its revision is nobody's.
        let kinds = if cascade == "orphan" { "vt,vidrainventories" } else { KINDS };
        all_gone(machine, name, "team-a", kinds);
    }
}

/// A VidraResource with one ConfigMap of its name.
fn brief(name: &str, namespace: &str) -> String {
    format!(
        r#"
apiVersion: vidra.dev/v1alpha1
kind: VidraResource
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  targets: [{{clusterSelector: {{}}, namespace: hello}}]
  manifest: |
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: {name}}}
    data: {{greeting: Welcome}}
"#
    )
}

/// What the hub keeps beside a VidraResource.
const KINDS: &str = "vt,vidrainventories,secrets";

/// Nothing of a VidraResource is left, in the member and on the hub.
fn all_gone(machine: &Machine, name: &str, namespace: &str, kinds: &str) {
    let refused = machine.kubectl("berlin", &format!("get configmap {name} -n hello"), "").unwrap_err();
    assert!(refused.contains("NotFound"), "{refused}");
    let left = || machine.kubectl("hub", &format!("get {kinds} -n {namespace} -o name"), "").unwrap();
    until("what the hub had of it is gone", || {
        let left = left();
        if left.contains(&format!("/{name}.")) { Err(left) } else { Ok(()) }
    });
}

/// A namespace goes with all that the hub has in it; the controllers are let through whatever account they use.
fn kubernetes_clears_up(machine: &Machine, writes: &[Write]) {
    machine.kubectl("hub", "create namespace team-b", "").unwrap();
    machine.kubectl("hub", "apply --server-side -f -", &brief("fourth", "team-b")).unwrap();
    machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-b vr/fourth", "").unwrap();
    machine.kubectl("hub", "delete namespace team-b --timeout=120s", "").unwrap();
    all_gone(machine, "fourth", "team-b", KINDS);
    for (user, what) in [
        ("system:serviceaccount:kube-system:generic-garbage-collector", "delete"),
        ("system:serviceaccount:kube-system:namespace-controller", "delete"),
        // It has no right to custom resources by itself.
        ("system:kube-controller-manager", "delete Secrets"),
    ] {
        let deletions: Vec<_> = writes.iter().filter(|one| one.2.starts_with(what)).collect();
        assert!(!deletions.is_empty());
        for one in deletions {
            write(machine, one, user, " --dry-run=server").unwrap_or_else(|why| panic!("{one:?}: {why}"));
        }
    }
}
