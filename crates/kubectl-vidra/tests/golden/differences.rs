//! diff.

use insta::assert_snapshot;
use kubectl_vidra::report::declared::Sources;
use kubectl_vidra::report::diff::{Answer, Question, diff};
use kubectl_vidra::report::pending::pending;
use serde_json::{Value, json};
use vidra_api::{DesiredState, VidraResource, VidraTarget};

use crate::fleet::{drifted, member, now, resource, says, scaled, target, well};

const MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red, size: '1'}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: hunter2, other: same}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: old}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
";

fn spec(manifest: &str) -> Value {
    json!({"manifest": manifest, "targets": [{"clusterSelector": {"matchLabels": {"env": "prod"}}, "namespace": "shop"}]})
}

fn ask(
    now: Option<&VidraResource>,
    then: &VidraResource,
    targets: &[VidraTarget],
    cluster: Option<&str>,
) -> Result<Answer, String> {
    let none = Sources::default();
    ask_with(now, then, (&none, &none), targets, cluster)
}

fn ask_with(
    now: Option<&VidraResource>,
    then: &VidraResource,
    sources: (&Sources, &Sources),
    targets: &[VidraTarget],
    cluster: Option<&str>,
) -> Result<Answer, String> {
    let members = [member("austin", "prod"), member("berlin", "prod"), member("tokyo", "test")];
    let namespace = "team-a";
    let file = "shop.yaml";
    diff(&Question { now, then, sources, namespace, file, members: &members, targets, cluster })
}

fn shop(spec: Value) -> VidraResource {
    resource("shop", spec, says("True", "Ready", "", "2/2"))
}

fn delivered() -> [VidraTarget; 2] {
    [target("austin", well()), target("berlin", well())]
}

#[test]
fn nothing_differs_from_itself() {
    let shop = shop(spec(MANIFEST));
    let answer = ask(Some(&shop), &shop, &delivered(), None).unwrap();
    assert!(!answer.differs);
    assert_snapshot!("diff_of_nothing", answer.text);
}

#[test]
fn objects_that_come_go_and_change_are_told_once_for_all_clusters_and_secrets_are_not_shown() {
    let now = shop(spec(MANIFEST));
    let manifest = MANIFEST
        .replace("colour: red", "colour: blue")
        .replace("hunter2", "correct-horse")
        .replace("kind: ConfigMap\nmetadata: {name: old}", "kind: ConfigMap\nmetadata: {name: new}")
        .replace("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", "");
    let mut changed = spec(&manifest);
    changed["overrides"] = json!([
        {"clusterNames": ["berlin"], "target": {"kind": "ConfigMap", "name": "settings"}, "mergePatch": {"data": {"size": "9"}}},
        {"target": {"kind": "Deployment"}, "mergePatch": {"metadata": {"labels": {"a": "b"}}}},
    ]);
    changed["targets"][0]["clusterSelector"] = json!({});
    changed["excludeClusters"] = json!(["austin"]);
    changed["manifestsFrom"] = json!([{"configMapRef": {"name": "more"}}]);
    let answer = ask(Some(&now), &shop(changed), &delivered(), None).unwrap();
    assert!(answer.differs);
    for secret in ["hunter2", "correct-horse", "aHVudGVyMg", "Y29ycmVjdC1ob3JzZQ"] {
        assert!(!answer.text.contains(secret), "{}", answer.text);
    }
    assert_snapshot!("diff_of_much", answer.text);
}

#[test]
fn what_is_where_the_namespace_is_not_allowed_any_more_is_not_said_to_go() {
    let mut members = [member("austin", "prod"), member("berlin", "prod")];
    members[1].spec.allowed_namespaces = Some(vec!["team-b".to_owned()]);
    let (shop, none) = (shop(spec(MANIFEST)), Sources::default());
    let answer = diff(&Question {
        now: Some(&shop),
        then: &shop,
        sources: (&none, &none),
        namespace: "team-a",
        file: "shop.yaml",
        members: &members,
        targets: &delivered(),
        cluster: None,
    });
    let answer = answer.unwrap();
    assert!(!answer.differs && !answer.text.contains("berlin"), "{}", answer.text);
}

#[test]
fn a_new_one_shows_all_of_its_objects_and_one_cluster_can_be_asked_for() {
    let answer = ask(None, &shop(spec(MANIFEST)), &[], Some("berlin")).unwrap();
    assert!(answer.differs);
    assert_snapshot!("diff_of_new", answer.text);
}

#[test]
fn what_sources_hold_is_compared_and_one_that_was_not_read_is_told() {
    let now = shop(spec(MANIFEST));
    let mut changed = spec(MANIFEST);
    changed["manifestsFrom"] = json!([{"configMapRef": {"name": "more"}}, {"secretRef": {"name": "keys"}}]);
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {token: hunter2}\n";
    let has = Sources {
        texts: vec![("ConfigMap more, key a.yaml".to_owned(), text.to_owned())],
        unread: vec!["spec.manifestsFrom[1], Secret keys, is not compared: it is not there".to_owned()],
    };
    let none = Sources::default();
    let answer = ask_with(Some(&now), &shop(changed.clone()), (&none, &has), &delivered(), None).unwrap();
    assert!(answer.differs && !answer.text.contains("hunter2"), "{}", answer.text);
    assert_snapshot!("diff_of_sources", answer.text);
    let broken =
        Sources { texts: vec![("ConfigMap more, key a.yaml".to_owned(), "[".to_owned())], ..none.clone() };
    let wrong = ask_with(Some(&now), &shop(changed), (&none, &broken), &[], None).err().unwrap();
    assert!(wrong.starts_with("ConfigMap more, key a.yaml, document 1 (line 1): "), "{wrong}");
}

#[test]
fn instructions_to_the_hub_are_told_like_any_change() {
    let job = |annotations: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: migrate, annotations: {{{annotations}}}}}\n"
        )
    };
    let shop_of = |annotations: &str| shop(spec(&job(annotations)));
    let now = shop_of("vidra.dev/wave: '0', note: mine");
    let then = "vidra.dev/wave: '2', vidra.dev/wait-for: Complete, vidra.dev/apply: Once, vidra.dev/on-immutable: Recreate, note: mine";
    let mut then = shop_of(then);
    then.metadata.annotations = Some(
        [("vidra.dev/forget", "berlin\u{1b}"), ("vidra.dev/confrim", "1"), ("note", "mine")]
            .map(|(key, word)| (key.to_owned(), word.to_owned()))
            .into(),
    );
    let answer = ask(Some(&now), &then, &delivered(), None).unwrap();
    assert!(answer.differs);
    assert_snapshot!("diff_of_instructions", answer.text);
    // A default that is written out is none.
    let same = ask(Some(&now), &shop_of("note: mine, vidra.dev/apply: Always"), &delivered(), None).unwrap();
    assert!(!same.differs, "{}", same.text);
}

#[test]
fn losing_every_cluster_names_the_guard() {
    let now = shop(spec(MANIFEST));
    let mut changed = spec(MANIFEST);
    changed["targets"] = json!([{"clusterNames": ["paris"]}]);
    changed["deletionPolicy"] = json!("Orphan");
    assert_snapshot!("diff_of_all_gone", ask(Some(&now), &shop(changed), &delivered(), None).unwrap().text);
}

#[test]
fn what_cannot_be_read_is_said() {
    let wrong = |spec: Value| ask(None, &shop(spec), &[], None).err().unwrap();
    // As the hub would say it.
    assert!(wrong(spec("kind: [")).starts_with("spec.manifest, document 1 (line 1): "));
    let mut empty = spec("# nothing");
    assert!(wrong(empty.clone()).contains("set allowEmpty: true"));
    empty["allowEmpty"] = Value::from(true);
    assert!(ask(None, &shop(empty), &[], None).is_ok());
    let mut bad = spec(MANIFEST);
    bad["overrides"] = json!([{"target": {}, "set": [{"path": "x", "expression": "1"}]}]);
    assert!(wrong(bad).contains("spec.overrides[0]"));
    let mut bad = spec("");
    bad["manifests"] = json!([{"kind": "X"}]);
    assert!(wrong(bad).starts_with("spec.manifests, document 1: "));
    let annotated = |key: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, annotations: {{{key}: Nothing}}}}\n")
    };
    let unknown = wrong(spec(&annotated("vidra.dev/wait_for")));
    assert!(unknown.ends_with("knows: write vidra.dev/wait-for, or remove it"), "{unknown}");
    let mut made = spec(MANIFEST);
    made["overrides"] = json!([{"target": {},
        "set": [{"path": ".metadata.annotations", "expression": "{'vidra.dev/wait_for': 'Nothing'}"}]}]);
    let unknown = wrong(made);
    assert!(
        unknown.starts_with("spec.overrides: ") && unknown.contains("write vidra.dev/wait-for,"),
        "{unknown}"
    );
    // What it is now may have one of an earlier hub's.
    let answer =
        ask(Some(&shop(spec(&annotated("vidra.dev/wait_for")))), &shop(spec(MANIFEST)), &delivered(), None);
    assert!(answer.unwrap().text.contains("- ConfigMap shop/a on 2"));
}

#[test]
fn what_the_hub_is_about_to_do_is_told_by_cluster() {
    let members = [
        member("austin", "prod"),
        member("berlin", "prod"),
        member("cairo", "prod"),
        member("tokyo", "test"),
    ];
    let mut moves = well();
    moves["revision"] = json!("99");
    moves["state"] = json!("Waiting");
    moves["reason"] = json!("WaitingForWave");
    moves["message"] = json!("wave 1 waits for Deployment.apps shop/web");
    let mut leaving = target("tokyo", well());
    leaving.spec.desired = DesiredState::Absent;
    let targets = [
        target("austin", moves),
        target("berlin", drifted(json!([scaled("2026-03-01T11:50:00Z")]))),
        leaving,
    ];
    let mut shop = shop(spec(MANIFEST));
    let answer = pending(&shop, &targets, Some(&members), None, now());
    assert!(answer.differs);
    assert_snapshot!("pending", answer.text);
    let mut left = shop.clone();
    left.spec.drift.policy = vidra_api::DriftPolicy::Report;
    let answer = pending(&left, &targets[1..2], None, None, now());
    assert!(answer.text.contains("It is left as it is: spec.drift.policy is Report."), "{}", answer.text);
    let settled = [target("berlin", well())];
    let answer = pending(&shop, &settled, Some(&members[1..2]), None, now());
    assert!(!answer.differs);
    assert_snapshot!("pending_nothing", answer.text);
    let answer = pending(&shop, &settled, None, None, now());
    assert!(answer.text.contains("you may not list MemberClusters"), "{}", answer.text);
    let status = shop.status.as_mut().unwrap();
    let mut stalled = status.conditions[0].clone();
    stalled.type_ = "Stalled".to_owned();
    stalled.reason = "RemovalHeld".to_owned();
    stalled.message = crate::fleet::held("shop");
    status.conditions.push(stalled);
    assert_snapshot!("pending_held", pending(&shop, &settled, Some(&members), Some("berlin"), now()).text);
}

#[test]
fn a_suspended_target_says_just_that() {
    let mut rests = well();
    rests["state"] = json!("Suspended");
    rests["reason"] = json!("Suspended");
    let shop = shop(spec(MANIFEST));
    let answer = pending(&shop, &[target("berlin", rests)], None, Some("berlin"), now());
    assert!(answer.text.starts_with("! Suspended on 1: berlin\n"), "{}", answer.text);
}

#[test]
fn what_the_removal_guard_does_is_told_as_far_as_it_is_known() {
    let names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    let members: Vec<_> = names.iter().map(|name| member(name, "prod")).collect();
    let targets: Vec<_> = names.iter().map(|name| target(name, well())).collect();
    let config_maps = |count: usize| -> String {
        (0..count)
            .map(|n| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\n"))
            .collect()
    };
    let of = |stay: usize, manifest: &str, allow_empty: bool| {
        shop(
            json!({"manifest": manifest, "targets": [{"clusterNames": names[..stay]}], "allowEmpty": allow_empty}),
        )
    };
    let now = of(10, &config_maps(8), false);
    let said = |then: VidraResource, members: &[vidra_api::MemberCluster]| {
        let none = Sources::default();
        let question = Question {
            now: Some(&now),
            then: &then,
            sources: (&none, &none),
            namespace: "team-a",
            file: "shop.yaml",
            members,
            targets: &targets,
            cluster: None,
        };
        let text = diff(&question).unwrap().text;
        text.lines().filter(|line| line.contains("RemovalHeld")).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = config_maps(8);
    assert_eq!(said(of(9, &all, false), &members), Vec::<String>::new());
    let few = said(of(8, &all, false), &members);
    assert!(
        few.len() == 1 && few[0].contains("2 of 10 clusters: where the hub's removalGuard is"),
        "{few:?}"
    );
    let some = said(of(6, &all, false), &members);
    assert!(
        some.len() == 1 && some[0].contains("4 of 10 clusters: where the hub's removalGuard is"),
        "{some:?}"
    );
    let last = said(of(0, &all, false), &members);
    assert!(last.len() == 1 && last[0].contains("holds all of it"), "{last:?}");
    // A MemberCluster that is not there is no wish to leave: it counts as one that would be lost.
    assert_eq!(said(of(6, &all, false), &members[..9]), some);

    assert_eq!(said(of(10, &config_maps(5), false), &members), Vec::<String>::new());
    for (stay, words) in [(4, "! 4 of the 8 "), (3, "! 5 of the 8 ")] {
        let many = said(of(10, &config_maps(stay), false), &members);
        let words = format!("{words}objects declared now would be deleted on 10: ");
        let setting = "where the hub's objectRemovalGuard is less than that";
        assert!(many.len() == 1 && many[0].starts_with(&words) && many[0].contains(setting), "{many:?}");
    }
    assert_eq!(said(of(10, "", true), &members), Vec::<String>::new());
}
