//! What is left alone: ignored fields, and those that their controllers hold. Looked after by nobody is only that:
//! every other field of the same object is kept as declared.

use serde_json::{Value, json};
use testkit::world::{Access, At, Mark, World};
use vidra_api::{DriftState, TargetState, VidraTargetStatus, find};

use crate::{config_map, object, says, scenario, told, uid};

/// As the manual spells it.
const IGNORE_UNMATCHED: &str = "IgnoreUnmatched";

fn settings(world: &World) -> At {
    At::config_map(&world.ns, "settings")
}

/// A ConfigMap with two keys.
fn two_keys(key: &str, other: &str) -> String {
    let mut declared = crate::config_map_in("", "settings", key);
    declared["data"]["other"] = other.into();
    object(&declared)
}

fn ignoring(target: Value, paths: &[&str]) -> Value {
    json!({"ignore": [{"target": target, "paths": paths}]})
}

async fn deliver(world: &World, name: &str, manifest: &str, drift: Value) {
    let targets = json!([{"clusterNames": ["berlin"]}]);
    world.deliver_with(name, manifest, json!({"targets": targets, "drift": drift})).await;
}

/// Delivers it to berlin; somebody there, and its ConfigMap.
async fn delivered(world: &World, manifest: &str, drift: Value) -> (Access, At) {
    world.register(&["berlin"]).await;
    deliver(world, "shop", manifest, drift).await;
    world.ready("shop").await;
    (world.alice("berlin").await, settings(world))
}

/// A Deployment that starts no pod, so that it is ready where nothing runs them.
fn deployment(app: &str, side: &str) -> String {
    object(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": app}, {"name": "side", "image": side}]},
            },
        },
    }))
}

fn web(world: &World) -> At {
    At::new("apps/v1", "Deployment", &world.ns, "web")
}

const APP: &str = "/spec/template/spec/containers/0/image";
const SIDE: &str = "/spec/template/spec/containers/1/image";

async fn set(access: &Access, at: &At, pointer: &str, value: Value) {
    access.json_patch(at, json!([{"op": "replace", "path": pointer, "value": value}])).await;
}

fn is<'a>(pointer: &'a str, value: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |live| live.pointer(pointer).and_then(Value::as_str) == Some(value)
}

/// How many calls for an object went through: its namespace was missing at first.
fn made_by(world: &World, at: &At, since: &Mark) -> usize {
    world.requests_for(at, "berlin", since).iter().filter(|request| request.code < 300).count()
}

#[test]
fn an_ignored_field_is_delivered_and_an_edit_of_it_is_no_drift_and_costs_no_call() {
    scenario(async |mut world| {
        let mark = world.mark();
        let drift = ignoring(json!({"kind": "ConfigMap"}), &[".data.key"]);
        let (alice, at) = delivered(&world, &config_map("settings", "one"), drift).await;
        assert!(says("one")(&alice.live(&at).await));
        assert_eq!(made_by(&world, &at, &mark), 1, "it was made by one call");

        let mark = world.mark();
        alice.merge(&at, json!({"data": {"key": "alice's"}})).await;
        world.look("shop", "edited", 1).await;
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        let target = world.target_when("shop", "berlin", "InSync", |status| status.drifted == 0).await;
        assert_eq!(target.status.unwrap().corrections, None);
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);
        assert!(says("alice's")(&alice.live(&at).await));

        // What is made again is made as declared.
        alice.delete(&at).await;
        alice.when(&at, "made again", says("one")).await;
        world.end().await;
    });
}

#[test]
fn a_repair_of_another_field_and_a_new_revision_leave_the_ignored_one_as_it_is() {
    scenario(async |world| {
        let drift = || ignoring(json!({"name": "settings"}), &[".data.key"]);
        let (alice, at) = delivered(&world, &two_keys("one", "one"), drift()).await;
        let other = |value: &'static str| is("/data/other", value);

        // Nobody has changed it: it is the hub's, and stays so.
        alice.merge(&at, json!({"data": {"other": "evil"}})).await;
        alice.when(&at, "repaired", other("one")).await;
        assert!(says("one")(&alice.live(&at).await));

        let mark = world.mark();
        alice.merge(&at, json!({"data": {"key": "alice's", "other": "evil"}})).await;
        alice.when(&at, "repaired", other("one")).await;
        world.corrected("shop", "berlin", 2).await;
        assert!(says("alice's")(&alice.live(&at).await));
        assert_eq!(world.requests_for(&at, "berlin", &mark).len(), 2, "a read, and the repair");

        deliver(&world, "shop", &two_keys("two", "two"), drift()).await;
        alice.when(&at, "the new revision", other("two")).await;
        world.ready("shop").await;
        assert!(says("alice's")(&alice.live(&at).await));

        // Taken away, it stays away.
        alice.merge(&at, json!({"data": {"key": null}})).await;
        deliver(&world, "shop", &two_keys("three", "three"), drift()).await;
        alice.when(&at, "the new revision", other("three")).await;
        world.ready("shop").await;
        assert!(alice.live(&at).await["data"].get("key").is_none());
        world.end().await;
    });
}

/// Of what is out of sight nobody knows who holds its fields: they are taken back once an apply was refused for them.
#[test]
fn what_is_taken_back_from_others_in_an_object_out_of_sight_leaves_the_ignored_field_as_it_is() {
    scenario(async |world| {
        let drift = ignoring(json!({"kind": "ConfigMap"}), &[".data.key"]);
        let (alice, at) = delivered(&world, &two_keys("one", "one"), drift).await;
        world.recorded("shop", &["berlin"]).await;
        let (made, mark) = (alice.live(&at).await, world.mark());
        let hidden = json!({"metadata": {"labels": {"vidra.dev/hub": null}},
            "data": {"key": "alice's", "other": "evil"}});
        alice.merge(&at, hidden).await;
        let healed = alice.when(&at, "repaired", is("/data/other", "one")).await;
        assert!(says("alice's")(&healed), "{healed}");
        assert_eq!(uid(&healed), uid(&made));
        assert_eq!(healed["metadata"]["labels"], made["metadata"]["labels"]);
        world.corrected("shop", "berlin", 1).await;
        let taken = world.writes_to(&at, "berlin", &mark).into_iter().filter(|write| write.code < 300);
        assert_eq!(taken.count(), 1, "the repair alone");
        assert!(says("alice's")(&alice.live(&at).await));
        world.end().await;
    });
}

#[test]
fn what_is_no_longer_ignored_is_repaired_when_the_hub_was_down_too() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let drift = || ignoring(json!({"kind": "ConfigMap"}), &[".data.key"]);
        deliver(&world, "shop", &two_keys("one", "one"), drift()).await;
        world.ready("shop").await;
        deliver(&world, "shop", &two_keys("two", "two"), drift()).await;
        let (alice, at) = (world.alice("berlin").await, settings(&world));
        alice.when(&at, "the new revision", is("/data/other", "two")).await;
        world.ready("shop").await;
        assert!(says("one")(&alice.live(&at).await), "the hub's own, left as it was");
        let mark = world.mark();
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);

        world.stop_hub().await;
        deliver(&world, "shop", &two_keys("two", "two"), json!({})).await;
        world.start_hub().await;
        alice.when(&at, "as declared", says("two")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_is_no_longer_ignored_is_repaired_at_once_and_what_is_ignored_from_now_on_is_not() {
    scenario(async |world| {
        let drift = || ignoring(json!({"kind": "ConfigMap"}), &[".data.key"]);
        let (alice, at) = delivered(&world, &two_keys("one", "one"), drift()).await;
        alice.merge(&at, json!({"data": {"key": "alice's"}})).await;
        world.look("shop", "edited", 1).await;
        assert!(says("alice's")(&alice.live(&at).await));
        deliver(&world, "shop", &two_keys("one", "one"), json!({})).await;
        alice.when(&at, "as declared", says("one")).await;
        world.corrected("shop", "berlin", 1).await;
        world.ready("shop").await;

        // The hub's own value, which an ignored path kept through a change of what is declared, differs too.
        deliver(&world, "shop", &two_keys("one", "one"), drift()).await;
        world.ready("shop").await;
        deliver(&world, "shop", &two_keys("two", "two"), drift()).await;
        alice.when(&at, "the new revision", is("/data/other", "two")).await;
        world.ready("shop").await;
        assert!(says("one")(&alice.live(&at).await));
        deliver(&world, "shop", &two_keys("two", "two"), json!({})).await;
        alice.when(&at, "as declared", says("two")).await;

        deliver(&world, "shop", &two_keys("two", "two"), drift()).await;
        world.ready("shop").await;
        let mark = world.mark();
        alice.merge(&at, json!({"data": {"key": "alice's"}})).await;
        world.look("shop", "edited again", 1).await;
        assert_eq!(world.writes_to(&at, "berlin", &mark), []);
        world.end().await;
    });
}

/// The CRD refuses most of them, but takes an index of any length.
#[test]
fn under_a_path_that_cannot_be_read_nothing_is_delivered_until_it_is_mended() {
    scenario(async |world| {
        let rule = |path: &str| ignoring(json!({"kind": "ConfigMap"}), &[path]);
        let (alice, at) = delivered(&world, &two_keys("one", "one"), rule(".data.key")).await;
        deliver(&world, "shop", &two_keys("two", "two"), rule(".data.key[99999999999]")).await;
        let resource = world.resource_says("shop", "Stalled", "True", "IgnoreInvalid").await;
        let conditions = resource.status.unwrap().conditions;
        let ready = find(&conditions, "Ready").unwrap();
        assert_eq!((&*ready.status, &*ready.reason), ("False", "IgnoreInvalid"));
        let words = ["spec.drift.ignore[0].paths[0]", "the index is too large"];
        assert!(words.iter().all(|word| ready.message.contains(word)), "{}", ready.message);
        told(&world, "IgnoreInvalid", &words).await;
        alice.merge(&at, json!({"data": {"other": "evil"}})).await;
        alice.when(&at, "as it was delivered", is("/data/other", "one")).await;

        deliver(&world, "shop", &two_keys("two", "two"), rule(".data.key")).await;
        alice.when(&at, "the new revision", is("/data/other", "two")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_path_that_matches_nothing_is_told_until_it_is_mended() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let kind = || json!({"kind": "ConfigMap"});
        let manifest = config_map("settings", "one");
        let says_why = async |reason: &str, part: &str| {
            let resource = world.resource_says("shop", IGNORE_UNMATCHED, "True", reason).await;
            let status = resource.status.unwrap();
            let message = &find(&status.conditions, IGNORE_UNMATCHED).unwrap().message;
            assert!(message.contains(part), "{message}");
            told(&world, IGNORE_UNMATCHED, &[part]).await;
            world.ready("shop").await;
        };
        deliver(&world, "shop", &manifest, ignoring(kind(), &[".data.key", ".data.kye"])).await;
        says_why("PathMatchesNothing", "spec.drift.ignore[0].paths[1] (.data.kye)").await;
        deliver(&world, "shop", &manifest, ignoring(json!({"kind": "Secret"}), &[".data.key"])).await;
        says_why("TargetMatchesNothing", "the target of spec.drift.ignore[0]").await;
        deliver(&world, "shop", &manifest, ignoring(kind(), &[".data.key"])).await;
        world
            .hub
            .when(&world.resource_at("shop"), "no warning", |resource| {
                let conditions = resource["status"]["conditions"].as_array();
                conditions.is_some_and(|all| all.iter().all(|one| one["type"] != IGNORE_UNMATCHED))
            })
            .await;
        // The field comes with a new revision, or goes.
        let drift = || ignoring(kind(), &[".data.other"]);
        deliver(&world, "shop", &manifest, drift()).await;
        says_why("PathMatchesNothing", ".data.other").await;
        deliver(&world, "shop", &two_keys("one", "one"), drift()).await;
        world
            .hub
            .when(&world.resource_at("shop"), "no warning", |resource| {
                let conditions = resource["status"]["conditions"].as_array();
                conditions.is_some_and(|all| all.iter().all(|one| one["type"] != IGNORE_UNMATCHED))
            })
            .await;
        world.end().await;
    });
}

#[test]
fn replicas_that_were_scaled_are_left_alone_and_those_that_were_edited_are_not() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let mark = world.mark();
        deliver(&world, "shop", &deployment("app:1", "side:1"), json!({})).await;
        world.ready("shop").await;
        let (alice, at) = (world.alice("berlin").await, web(&world));
        assert_eq!(made_by(&world, &at, &mark), 1, "it was made by one call");
        let replicas = |count: i64| move |live: &Value| live["spec"]["replicas"] == count;

        // An edit of the object itself is drift.
        alice.merge(&at, json!({"spec": {"replicas": 5}})).await;
        alice.when(&at, "as declared", replicas(0)).await;
        world.corrected("shop", "berlin", 1).await;

        let mark = world.mark();
        alice.scale(&at, 2).await;
        world.look("shop", "scaled", 1).await;
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);

        // A person who scales is no autoscaler.
        alice.scale_by_hand(&at, 6).await;
        alice.when(&at, "as declared", replicas(0)).await;
        alice.scale(&at, 2).await;
        world.look("shop", "scaled once more", 1).await;

        // A repair beside it, and a new revision.
        set(&alice, &at, APP, "evil:1".into()).await;
        alice.when(&at, "repaired", is(APP, "app:1")).await;
        assert!(replicas(2)(&alice.live(&at).await));
        deliver(&world, "shop", &deployment("app:2", "side:1"), json!({})).await;
        alice.when(&at, "the new revision", is(APP, "app:2")).await;
        assert!(replicas(2)(&alice.live(&at).await));
        // At once, so that the hub may not know of it when it applies.
        alice.scale(&at, 3).await;
        set(&alice, &at, APP, "evil:2".into()).await;
        alice.when(&at, "repaired", is(APP, "app:2")).await;
        assert!(replicas(3)(&alice.live(&at).await));

        // Taken from who scaled, it is drift again.
        alice.merge(&at, json!({"spec": {"replicas": 5}})).await;
        alice.when(&at, "as declared", replicas(0)).await;
        alice.scale(&at, 4).await;
        world.look("shop", "scaled again", 1).await;
        assert!(replicas(4)(&alice.live(&at).await));

        // And so is scaling, where nothing yields.
        deliver(&world, "shop", &deployment("app:2", "side:1"), json!({"yield": "None"})).await;
        alice.when(&at, "as declared", replicas(0)).await;
        alice.scale(&at, 2).await;
        alice.when(&at, "as declared", replicas(0)).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn replicas_that_were_scaled_are_left_alone_by_the_revision_with_which_they_come_to_yield() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let drift = |yields: &str| json!({"policy": "Report", "yield": yields});
        deliver(&world, "shop", &deployment("app:1", "side:1"), drift("None")).await;
        world.ready("shop").await;
        let (alice, at) = (world.alice("berlin").await, web(&world));
        alice.scale(&at, 2).await;
        world.target_when("shop", "berlin", "it is drift", |status| status.drifted == 1).await;
        deliver(&world, "shop", &deployment("app:2", "side:1"), drift("Standard")).await;
        alice.when(&at, "the new revision", is(APP, "app:2")).await;
        assert_eq!(alice.live(&at).await["spec"]["replicas"], 2, "whose they are by now");
        world.end().await;
    });
}

/// What was seen of an object before anything was declared says nothing of who holds what is left to such.
#[test]
fn replicas_that_were_scaled_are_left_alone_where_another_resource_had_the_kind_listed_first() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let label = async |region: Value| {
            let labels = json!({"metadata": {"labels": {"region": region}}});
            world.hub.merge(&world.member_at("berlin"), labels).await;
        };
        label(json!("eu")).await;
        let region = json!([{"target": {"kind": "Deployment"},
            "set": [{"path": ".spec.template.metadata.labels.region", "expression": "cluster.labels['region']"}]}]);
        let targets = json!([{"clusterNames": ["berlin"]}]);
        let spec = json!({"targets": targets, "overrides": region});
        world.deliver_with("shop", &deployment("app:1", "side:1"), spec).await;
        let beside = deployment("app:1", "side:1").replace(r#""name":"web""#, r#""name":"beside""#);
        deliver(&world, "other", &beside, json!({})).await;
        world.ready("shop").await;
        world.ready("other").await;
        let (alice, at) = (world.alice("berlin").await, web(&world));
        alice.scale(&at, 2).await;

        // Nobody knows what it declares until its override finds its label again.
        label(Value::Null).await;
        world.target_is("shop", "berlin", TargetState::Failed, "OverrideFailed").await;
        world.restart_hub().await;
        let beside = At::new("apps/v1", "Deployment", &world.ns, "beside");
        set(&alice, &beside, APP, "evil:1".into()).await;
        alice.when(&beside, "repaired", is(APP, "app:1")).await;
        let labels = json!({"metadata": {"labels": {"region": "asia"}}});
        world.hub.merge(&world.member_at("berlin"), labels).await;
        alice.when(&at, "the new label's value", is("/spec/template/metadata/labels/region", "asia")).await;
        assert_eq!(alice.live(&at).await["spec"]["replicas"], 2, "they were scaled");
        world.end().await;
    });
}

#[test]
fn who_is_an_autoscaler_is_what_the_setting_says_also_of_what_was_scaled_already() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let web_alone = deployment("app:1", "side:1");
        deliver(&world, "shop", &web_alone, json!({})).await;
        world.ready("shop").await;
        let (alice, at) = (world.alice("berlin").await, web(&world));
        let replicas = |count: i64| move |live: &Value| live["spec"]["replicas"] == count;
        alice.scale_by_hand(&at, 2).await;
        alice.when(&at, "as declared", replicas(0)).await;

        world.ready("shop").await;
        let passes = world.passes();
        crate::settings::set(&world, json!({"autoscalerManagers": "keda, alice-edit"})).await;
        world.when_passes(passes + 1).await;
        alice.scale_by_hand(&at, 2).await;
        world.look("shop", "scaled", 1).await;
        assert!(replicas(2)(&alice.live(&at).await));
        // Who is named no more is an autoscaler no more, for what was scaled already, too.
        crate::settings::set(&world, json!({})).await;
        alice.when(&at, "as declared", replicas(0)).await;
        world.end().await;
    });
}

#[test]
fn a_list_item_is_ignored_by_its_key() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let drift =
            || ignoring(json!({"group": "apps"}), &[r#".spec.template.spec.containers[name="app"].image"#]);
        deliver(&world, "shop", &deployment("app:1", "side:1"), drift()).await;
        world.ready("shop").await;
        let (alice, at) = (world.alice("berlin").await, web(&world));
        let mark = world.mark();
        set(&alice, &at, APP, "app:canary".into()).await;
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);
        set(&alice, &at, SIDE, "evil:1".into()).await;
        alice.when(&at, "repaired", is(SIDE, "side:1")).await;
        deliver(&world, "shop", &deployment("app:2", "side:2"), drift()).await;
        alice.when(&at, "the new revision", is(SIDE, "side:2")).await;
        world.ready("shop").await;
        assert!(is(APP, "app:canary")(&alice.live(&at).await));
        world.end().await;
    });
}

#[test]
fn a_bundle_that_was_injected_is_left_alone() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let name = format!("{}-hooks", world.ns);
        let hooks = |bundle: &str, path: &str| {
            object(&json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": [{
                    "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "failurePolicy": "Ignore",
                    "clientConfig": {"url": format!("https://hooks.example.com/{path}"), "caBundle": bundle},
                    "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["nothings"]}],
                }],
            }))
        };
        deliver(&world, "shop", &hooks("Zmlyc3Q=", "one"), json!({})).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let at = At::new("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", &name);
        let (bundle, url) = ("/webhooks/0/clientConfig/caBundle", "/webhooks/0/clientConfig/url");
        let mark = world.mark();
        set(&alice, &at, bundle, "aW5qZWN0ZWQ=".into()).await;
        world.look("shop", "injected", 1).await;
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);
        set(&alice, &at, url, "https://evil.example.com/".into()).await;
        alice.when(&at, "repaired", is(url, "https://hooks.example.com/one")).await;
        deliver(&world, "shop", &hooks("c2Vjb25k", "two"), json!({})).await;
        alice.when(&at, "the new revision", is(url, "https://hooks.example.com/two")).await;
        world.ready("shop").await;
        assert!(is(bundle, "aW5qZWN0ZWQ=")(&alice.live(&at).await));
        deliver(&world, "shop", &hooks("c2Vjb25k", "two"), json!({"yield": "None"})).await;
        alice.when(&at, "as declared", is(bundle, "c2Vjb25k")).await;
        world.end().await;
    });
}

#[test]
fn what_is_ignored_is_not_reported_beside_what_is() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let mut drift = ignoring(json!({"kind": "ConfigMap"}), &[".data.key"]);
        drift["policy"] = "Report".into();
        deliver(&world, "shop", &two_keys("one", "one"), drift).await;
        world.ready("shop").await;
        let (alice, at) = (world.alice("berlin").await, settings(&world));
        let only_other = |status: &VidraTargetStatus| {
            let fields = status.changes.iter().flat_map(|change| &change.fields);
            status.drift == Some(DriftState::Drifted)
                && fields.map(|field| &*field.path).collect::<Vec<_>>() == [".data.other"]
        };
        let in_sync = |status: &VidraTargetStatus| status.drift == Some(DriftState::InSync);

        alice.merge(&at, json!({"data": {"key": "alice's"}})).await;
        world.look("shop", "edited", 1).await;
        world.target_when("shop", "berlin", "in sync", in_sync).await;
        alice.merge(&at, json!({"data": {"other": "alice's"}})).await;
        world.target_when("shop", "berlin", "the other is told", only_other).await;
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        world.target_when("shop", "berlin", "the other is told", only_other).await;
        alice.merge(&at, json!({"data": {"other": "one"}})).await;
        world.target_when("shop", "berlin", "in sync", in_sync).await;
        assert!(says("alice's")(&alice.live(&at).await));
        world.end().await;
    });
}

#[test]
fn what_one_owner_ignores_another_still_keeps() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let manifest = two_keys("one", "one");
        deliver(&world, "shop", &manifest, ignoring(json!({"kind": "ConfigMap"}), &[".data.key"])).await;
        world.ready("shop").await;
        deliver(&world, "beside", &manifest, json!({})).await;
        world.ready("beside").await;
        let (alice, at) = (world.alice("berlin").await, settings(&world));
        alice.merge(&at, json!({"data": {"key": "evil"}})).await;
        alice.when(&at, "as declared", says("one")).await;
        world.corrected("beside", "berlin", 1).await;
        assert_eq!(world.target("shop", "berlin").await.unwrap().status.unwrap().corrections, None);

        // Alone again, it leaves the field to whoever changes it.
        world.remove("beside").await;
        world.look("shop", "alone", 1).await;
        alice.merge(&at, json!({"data": {"key": "alice's", "other": "evil"}})).await;
        alice.when(&at, "repaired", is("/data/other", "one")).await;
        assert!(says("alice's")(&alice.live(&at).await));
        world.end().await;
    });
}
