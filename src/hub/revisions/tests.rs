//! What revisions are called, what they keep, and which members share what they render to.

use futures::FutureExt;
use serde_json::{Value, json};
use vidra_core::{object::Scope, status::Reason};

use super::*;

const MANIFEST: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: one}}\n---\n\
                        {apiVersion: v1, kind: ConfigMap, metadata: {name: beside}, data: {key: one}}\n";

fn revisions() -> Revisions {
    Revisions::new(HashKey::new([7; 32]), Arc::default(), 1_000_000)
}

fn resource(overrides: Value) -> VidraResource {
    serde_json::from_value(json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "shop", "namespace": "team", "uid": "u"},
        "spec": {"manifest": MANIFEST, "targets": [], "overrides": overrides},
    }))
    .unwrap()
}

fn by_label() -> Value {
    json!([{"target": {"name": "settings"}, "set": [{"path": ".data.key", "expression": "cluster.labels.region"}]}])
}

fn inputs(region: &str) -> OverrideInputs {
    let labels = BTreeMap::from([("region".to_owned(), region.to_owned())]);
    OverrideInputs { apply: vec![0], labels, values: BTreeMap::new() }
}

#[tokio::test]
async fn overrides_are_part_of_a_revision_and_without_them_its_name_is_of_the_manifest_alone() {
    let revisions = revisions();
    let (content, plain) = revisions.parse(&resource(json!([])), Vec::new()).await.unwrap();
    assert_eq!(plain.name, render::revision_of([MANIFEST, "createNamespaces"], &HashKey::new([7; 32])));
    assert!(serde_json::to_value(&content).unwrap().get("overrides").is_none());

    let (content, parsed) = revisions.parse(&resource(by_label()), Vec::new()).await.unwrap();
    assert_ne!(parsed.name, plain.name);
    let kept: Content = serde_json::from_value(serde_json::to_value(&content).unwrap()).unwrap();
    assert_eq!(kept, content);
    let again = self::revisions().parsed_from(&ResourceKey::new("team", "shop"), &kept).unwrap();
    assert_eq!(again.name, parsed.name);
}

#[tokio::test]
async fn members_with_equal_inputs_share_what_is_rendered_and_others_share_what_is_equal() {
    let revisions = revisions();
    let (_, parsed) = revisions.parse(&resource(by_label()), Vec::new()).await.unwrap();
    let key = ResourceKey::new("team", "shop");
    let render = async |cluster: &str, inputs: Option<&OverrideInputs>| {
        let scope_of = |_: &Gvk| Some(Scope::Namespaced);
        revisions.render(&key, &parsed, "shop", &scope_of, (cluster, inputs), Bounds::NONE).await.unwrap()
    };
    let (plain, berlin) = (render("austin", None).await, render("berlin", Some(&inputs("eu"))).await);
    assert!(Arc::ptr_eq(&plain, &render("lima", None).await));
    assert!(Arc::ptr_eq(&berlin, &render("paris", Some(&inputs("eu"))).await));
    let tokyo = render("tokyo", Some(&inputs("asia"))).await;
    assert!(!Arc::ptr_eq(&berlin, &tokyo));
    let body = |desired: &Desired, name: &str| {
        let found = desired.objects.values().find(|one| &*one.key.name == name).unwrap();
        found.body.clone()
    };
    assert!(Arc::ptr_eq(&body(&tokyo, "beside"), &body(&plain, "beside")));
    assert_eq!(body(&tokyo, "settings")["data"]["key"], "asia");

    // What no member has any more is let go of when the next one is rendered.
    drop(tokyo);
    let _lima = render("lima", Some(&inputs("south"))).await;
    let held = revisions.rendered.lock().values().map(|held| held.lock().len()).sum::<usize>();
    assert_eq!(held, 3, "the plain one, berlin's and lima's");
}

/// A member's users choose which kinds it serves.
#[tokio::test]
async fn what_a_revision_was_on_a_member_with_other_kinds_is_let_go_of() {
    let revisions = revisions();
    let object =
        |nth: usize| format!("{{apiVersion: example.com/v1, kind: Kind{nth}, metadata: {{name: a}}}}");
    let mut declared = resource(json!([]));
    declared.spec.manifest = Some((0..7).map(object).collect::<Vec<_>>().join("\n---\n"));
    let (_, parsed) = revisions.parse(&declared, Vec::new()).await.unwrap();
    let key = ResourceKey::new("team", "shop");
    for round in 0..100_usize {
        let scope_of = move |gvk: &Gvk| {
            let nth = gvk.kind.strip_prefix("Kind").and_then(|nth| nth.parse::<usize>().ok()).unwrap();
            ((round >> nth) & 1 == 1).then_some(Scope::Namespaced)
        };
        revisions.render(&key, &parsed, "shop", &scope_of, ("berlin", None), Bounds::NONE).await.unwrap();
    }
    let held = revisions.rendered.lock().values().map(|held| held.lock().len()).sum::<usize>();
    assert_eq!(held, 1, "berlin's");
}

#[tokio::test]
async fn what_all_members_together_make_of_a_revision_is_bounded() {
    let revisions = revisions();
    let (_, parsed) = revisions.parse(&resource(by_label()), Vec::new()).await.unwrap();
    let key = ResourceKey::new("team", "shop");
    let render = async |key: &ResourceKey, region: &str, most: usize| {
        let (inputs, scope_of) = (inputs(region), |_: &Gvk| Some(Scope::Namespaced));
        let bounds = Bounds { bytes: most, ..Bounds::NONE };
        revisions.render(key, &parsed, "shop", &scope_of, (region, Some(&inputs)), bounds).await
    };
    let first = render(&key, "region-0", usize::MAX).await.unwrap();
    let most = 20 * first.own_weight();
    let (mut held, mut refused) = (Vec::new(), None);
    for number in 1..100 {
        match render(&key, &format!("region-{number}"), most).await {
            Ok(one) => held.push(one),
            Err(error) => {
                refused = Some(error.to_string());
                break;
            }
        }
    }
    let told = refused.expect("all of them take more than there is");
    assert!(told.contains("on cluster region-") && told.contains("namespaceMaxBytes"), "{told}");
    assert!(held.len() > 10, "what is held once counts once: {}", held.len());
    // A second VidraResource has no room of its own, one of another namespace has.
    assert!(render(&ResourceKey::new("team", "more"), "region-0", most).await.is_err());
    assert!(render(&ResourceKey::new("others", "shop"), "region-0", most).await.is_ok());
    // What no member has any more makes room.
    held.clear();
    assert!(render(&key, "region-99", most).await.is_ok());
}

#[tokio::test]
async fn what_the_resources_of_a_namespace_declare_together_is_bounded_and_others_are_held() {
    let revisions = revisions();
    let (_, parsed) = revisions.parse(&resource(json!([])), Vec::new()).await.unwrap();
    let key = |namespace: &str, name: &str| ResourceKey::new(namespace, name);
    let hold = |namespace: &str, name: &str, bounds: Option<Bounds>| {
        revisions
            .hold(&key(namespace, name), &parsed, bounds)
            .map_err(|error| (error.invalid(), error.to_string()))
    };
    let objects = |objects| Some(Bounds { objects, ..Bounds::NONE });
    let bytes = |bytes| Some(Bounds { bytes, ..Bounds::NONE });
    assert!(hold("team", "shop", objects(2)).is_ok());
    // What is held of itself does not count beside it.
    assert!(hold("team", "shop", objects(2)).is_ok());
    let (reason, told) = hold("team", "more", objects(3)).unwrap_err();
    assert_eq!(reason, Reason::NamespaceFull);
    for words in
        ["namespace team", "4 objects", "of 3 ", "setting namespaceMaxObjects", "stays and is repaired"]
    {
        assert!(told.contains(words), "{told}");
    }
    let (_, told) = hold("team", "more", bytes(2 * parsed.weight - 1)).unwrap_err();
    assert!(told.contains("namespaceMaxBytes"), "{told}");
    assert!(hold("others", "shop", objects(2)).is_ok(), "another namespace has its own room");
    assert!(hold("team", "more", bytes(2 * parsed.weight)).is_ok(), "what was refused took none");
    // What was let in before is held whatever the bounds are now, and leaves room when it goes.
    assert!(hold("team", "kept", None).is_ok());
    assert!(hold("team", "new", objects(7)).is_err());
    revisions.keep(&key("team", "kept"), &std::collections::BTreeSet::new());
    assert!(hold("team", "new", objects(7)).is_ok());
}

#[tokio::test]
async fn what_all_namespaces_have_together_is_bounded_as_it_is_read_and_as_it_comes_out() {
    let revisions = revisions();
    let (_, parsed) = revisions.parse(&resource(json!([])), Vec::new()).await.unwrap();
    let key = |namespace: &str| ResourceKey::new(namespace, "shop");
    let within = |hub: usize| Bounds { hub, ..Bounds::NONE };
    let render = async |namespace: &str, bounds: Bounds| {
        let scope_of = |_: &Gvk| Some(Scope::Namespaced);
        revisions.render(&key(namespace), &parsed, "shop", &scope_of, ("berlin", None), bounds).await
    };
    let one = parsed.weight;
    assert!(revisions.hold(&key("team"), &parsed, Some(within(one))).is_ok());
    let desired = render("team", Bounds::NONE).await.unwrap();
    let both = revisions.taken(|_| true);
    assert!(both > one && both == one + revisions.rendered_bytes(|_| true));
    // What is held of itself does not count beside it; what others have does, however it is held.
    assert!(revisions.hold(&key("team"), &parsed, Some(within(one))).is_ok());
    let refused = revisions.hold(&key("others"), &parsed, Some(within(both + one - 1))).unwrap_err();
    assert_eq!(
        (refused.invalid(), refused.unavailable(), refused.is_full()),
        (Reason::HubFull, Reason::HubFull, true)
    );
    let told = refused.to_string();
    for words in [format!("take {} bytes", both + one), format!("of {} ", both + one - 1)] {
        assert!(told.contains(&words) && told.contains("setting hubMaxBytes"), "{told}");
    }
    assert!(revisions.hold(&key("others"), &parsed, Some(within(both + one))).is_ok());
    let most = within(revisions.taken(|_| true) + 1);
    let refused = render("others", most).await.err().map(|error| error.unavailable());
    assert_eq!(refused, Some(Reason::HubFull), "as it comes out there is no room for it");
    assert!(Arc::ptr_eq(&render("team", most).await.unwrap(), &desired), "what is there is had");
    assert!(render("others", most.wider()).await.is_ok(), "what is delivered has more room");
    assert!(revisions.hold(&key("third"), &parsed, None).is_ok(), "what was let in before is held");
}

#[test]
fn a_namespace_that_has_little_is_served_though_others_have_filled_the_rest() {
    let bounds = Bounds { hub: 1600, ..Bounds::NONE };
    for (own, all, has_room) in [
        (1600, 1600, true),
        (1601, 1601, false),
        (100, 1601, true),
        (100, 2000, true),
        (100, 2001, false),
        (101, 1601, false),
        (101, 1600, true),
    ] {
        assert_eq!(bounds.has_room(own, all), has_room, "{own} of {all}");
    }
    assert!(Bounds::NONE.has_room(usize::MAX, usize::MAX));
    let delivered = bounds.wider();
    for (own, all, has_room) in [(2400, 2400, true), (2401, 2401, false), (100, 2401, false)] {
        assert_eq!(delivered.has_room(own, all), has_room, "{own} of {all} of what is delivered");
    }
}

/// Set in the process that ends in the middle of large work: in which.
const ENDS: &str = "VIDRA_TEST_ENDS";

#[test]
fn the_last_line_of_the_log_of_a_process_that_ends_in_large_work_says_whose_that_was() {
    if let Ok(step) = std::env::var(ENDS) {
        return ends(&step);
    }
    let path = "hub::revisions::tests::the_last_line_of_the_log_of_a_process_that_ends_in_large_work_says_whose_that_was";
    for (step, words) in
        [("read", ["bytes=2097154", "overrides=false"]), ("render", ["bytes=162", "overrides=true"])]
    {
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", path, "--nocapture"])
            .env(ENDS, step)
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        assert!(!ran.status.success(), "{step}: it ends in the middle");
        let said = String::from_utf8_lossy(&ran.stderr);
        let last = said.lines().last().unwrap_or_default();
        for words in words.into_iter().chain(["team/shop", step, " INFO "]) {
            assert!(last.contains(words), "{step}: {said}");
        }
    }
}

/// In a process of its own.
fn ends(step: &str) {
    crate::telemetry::start(false, "info");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let revisions = revisions();
    let (mut declared, mut sources) = (resource(json!([])), Vec::new());
    match step {
        "read" => {
            declared.spec.manifest = None;
            sources.push(source("ConfigMap large, key a", &format!("#{}\n", "x".repeat(2 << 20))));
        }
        _ => declared = resource(by_label()),
    }
    let parsed = runtime.block_on(revisions.parse(&declared, sources));
    let Ok((_, parsed)) = parsed else { std::process::abort() };
    let looks = std::sync::atomic::AtomicUsize::new(0);
    let scope_of = |_: &Gvk| {
        // The first look is for what is rendered already.
        match looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Some(Scope::Namespaced),
            _ => std::process::abort(),
        }
    };
    let (key, inputs) = (ResourceKey::new("team", "shop"), inputs("eu"));
    let render = revisions.render(&key, &parsed, "shop", &scope_of, ("berlin", Some(&inputs)), Bounds::NONE);
    let _ = runtime.block_on(render);
}

/// In one thread: while one VidraResource is being rendered, those of other namespaces are parsed and rendered, and what
/// is rendered already is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_takes_long_to_render_holds_up_nobody_elses() {
    let revisions = Arc::new(revisions());
    let (_, parsed) = revisions.parse(&resource(json!([])), Vec::new()).await.unwrap();
    let (go, goes) = std::sync::mpsc::channel();
    let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let tasks = tokio_util::task::TaskTracker::new();
    let (of_slow, of_bomb) = (revisions.clone(), parsed.clone());
    let slow = tasks.spawn(async move {
        let (looks, goes) = (std::sync::atomic::AtomicUsize::new(0), Mutex::new(goes));
        let in_time = Mutex::new(None);
        let scope_of = |_: &Gvk| {
            // The first look is for what is rendered already.
            if looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
                begins.send(()).unwrap();
                *in_time.lock() = Some(goes.lock().recv_timeout(std::time::Duration::from_secs(20)).is_ok());
            }
            Some(Scope::Namespaced)
        };
        let key = ResourceKey::new("team", "bomb");
        of_slow.render(&key, &of_bomb, "shop", &scope_of, ("berlin", None), Bounds::NONE).await.unwrap();
        *in_time.lock()
    });
    let others = tasks.spawn(async move {
        begun.recv().await;
        let scope_of = |_: &Gvk| Some(Scope::Namespaced);
        let mut turns = 0;
        for number in 0..50 {
            let key = ResourceKey::new("others", &format!("shop-{number}"));
            let render =
                || revisions.render(&key, &parsed, "shop", &scope_of, ("berlin", None), Bounds::NONE);
            let declared = resource(json!([]));
            let own = revisions.parse(&declared, Vec::new());
            assert!(own.now_or_never().is_none(), "its own namespace waits for its turn");
            turns += usize::from(Arc::ptr_eq(&render().await.unwrap(), &render().await.unwrap()));
        }
        go.send(()).unwrap();
        turns
    });
    assert_eq!((others.await.unwrap(), slow.await.unwrap()), (50, Some(true)));
}

#[tokio::test]
async fn an_override_that_is_wrong_is_told_from_a_manifest_that_is() {
    let revisions = revisions();
    let broken = json!([{"target": {}, "set": [{"path": ".data.key", "expression": "1 +"}]}]);
    assert_eq!(
        revisions.parse(&resource(broken), Vec::new()).await.err().map(|error| error.invalid()),
        Some(Reason::OverridesInvalid)
    );
    let mut empty = resource(json!([]));
    empty.spec.manifest = None;
    assert_eq!(
        revisions.parse(&empty, Vec::new()).await.err().map(|error| error.invalid()),
        Some(Reason::ManifestInvalid)
    );
}

#[tokio::test]
async fn an_annotation_that_is_not_known_is_told_and_keeps_nothing_from_being_read() {
    let revisions = revisions();
    let told = async |manifest: &str, overrides: serde_json::Value| {
        let mut declared = resource(overrides);
        declared.spec.manifest = Some(manifest.to_owned());
        // A target that has it goes on: it is parsed.
        let (_, parsed) = revisions.parse(&declared, Vec::new()).await.unwrap();
        parsed.check_annotations().err().map(|error| (error.invalid(), error.to_string()))
    };
    let object =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {vidra.dev/waves: '1'}}}";
    let (reason, message) = told(object, json!([])).await.unwrap();
    assert_eq!(reason, Reason::ManifestInvalid);
    assert!(message.starts_with("spec.manifest, document 1 (line 1): metadata.annotations"), "{message}");
    let patch =
        json!([{"target": {}, "mergePatch": {"metadata": {"annotations": {"vidra.dev/waves": "1"}}}}]);
    let known = object.replace("waves", "wave");
    assert_eq!(told(&known, patch).await.map(|(reason, _)| reason), Some(Reason::OverridesInvalid));
    assert_eq!(told(&known, json!([])).await, None);
}

fn content(manifest: &str) -> Content {
    Content {
        manifest: manifest.into(),
        manifests: Vec::new(),
        sources: Vec::new(),
        create_namespaces: true,
        overrides: Vec::new(),
    }
}

fn source(name: &str, text: &str) -> Source {
    Source { name: name.into(), text: text.into() }
}

#[test]
fn what_has_only_a_manifest_keeps_the_name_of_its_revision_and_all_else_changes_it() {
    let key = HashKey::new([7; 32]);
    let plain = content("a: 1");
    let revision = |of: &Content| of.revision(&of.inline(&mut Reader::default()).unwrap(), &key);
    assert_eq!(revision(&plain), render::revision_of(["a: 1", "createNamespaces"], &key));
    let object = Raw::from(json!({"kind": "ConfigMap", "x": [1, null]}));
    let all = [
        plain.clone(),
        Content { create_namespaces: false, ..plain.clone() },
        Content { manifests: vec![object.clone()], ..plain.clone() },
        Content { manifests: vec![object.clone(), object.clone()], ..plain.clone() },
        Content { sources: vec![source("a", "b")], ..plain.clone() },
        Content { sources: vec![source("a", "c")], ..plain.clone() },
        Content { manifests: vec![object], sources: vec![source("a", "b")], ..plain.clone() },
        content("a: 2"),
    ];
    let names: std::collections::BTreeSet<_> = all.iter().map(revision).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn objects_come_in_the_order_of_the_fields_and_know_their_place() {
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let all = Content {
        manifest: object("one").to_string(),
        manifests: vec![object("two").into(), object("three").into()],
        sources: vec![source("Secret s, key k", &format!("---\n---\n{}", object("four")))],
        create_namespaces: true,
        overrides: Vec::new(),
    };
    let mut reader = Reader::default();
    let inline = all.inline(&mut reader).unwrap();
    let objects = all.objects(reader, inline).unwrap();
    let found: Vec<_> = objects.iter().map(|one| format!("{}: {}", one.name, one.place)).collect();
    assert_eq!(
        found,
        [
            "one: spec.manifest, document 1 (line 1)",
            "two: spec.manifests, document 1",
            "three: spec.manifests, document 2",
            "four: Secret s, key k, document 2 (line 3)",
        ]
    );
}
