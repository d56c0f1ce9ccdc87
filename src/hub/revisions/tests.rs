//! What revisions are called, what they keep, and which members share what they render to.

use futures::FutureExt;
use serde_json::{Value, json};
use vidra_core::object::Scope;

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
        revisions.render(&key, &parsed, "shop", &scope_of, (cluster, inputs), usize::MAX).await.unwrap()
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

#[tokio::test]
async fn what_all_members_together_make_of_a_revision_is_bounded() {
    let revisions = revisions();
    let (_, parsed) = revisions.parse(&resource(by_label()), Vec::new()).await.unwrap();
    let key = ResourceKey::new("team", "shop");
    let render = async |key: &ResourceKey, region: &str, most: usize| {
        let (inputs, scope_of) = (inputs(region), |_: &Gvk| Some(Scope::Namespaced));
        revisions.render(key, &parsed, "shop", &scope_of, (region, Some(&inputs)), most).await
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
    let objects = |objects| Some(Bounds { objects, bytes: usize::MAX });
    let bytes = |bytes| Some(Bounds { objects: usize::MAX, bytes });
    assert!(hold("team", "shop", objects(2)).is_ok());
    // What is held of itself does not count beside it.
    assert!(hold("team", "shop", objects(2)).is_ok());
    let (reason, told) = hold("team", "more", objects(3)).unwrap_err();
    assert_eq!(reason, "NamespaceFull");
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
        of_slow.render(&key, &of_bomb, "shop", &scope_of, ("berlin", None), usize::MAX).await.unwrap();
        *in_time.lock()
    });
    let others = tasks.spawn(async move {
        begun.recv().await;
        let scope_of = |_: &Gvk| Some(Scope::Namespaced);
        let mut turns = 0;
        for number in 0..50 {
            let key = ResourceKey::new("others", &format!("shop-{number}"));
            let render = || revisions.render(&key, &parsed, "shop", &scope_of, ("berlin", None), usize::MAX);
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
        Some("OverridesInvalid")
    );
    let mut empty = resource(json!([]));
    empty.spec.manifest = None;
    assert_eq!(
        revisions.parse(&empty, Vec::new()).await.err().map(|error| error.invalid()),
        Some("ManifestInvalid")
    );
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
