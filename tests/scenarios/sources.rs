//! What is delivered comes from the manifest, from inline objects, and from ConfigMaps and Secrets beside them.

use std::io::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use testkit::world::{At, LONG, World, wait_for};
use vidra_api::{TargetState, condition::READY, find};

use crate::{config_map, config_map_in, removal::approval, says, scenario};

fn gzip(text: &str) -> String {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    BASE64_STANDARD.encode(packer.finish().unwrap())
}

fn zstd(text: &str) -> String {
    BASE64_STANDARD.encode(zstd::encode_all(text.as_bytes(), 3).unwrap())
}

/// Makes or replaces a ConfigMap or Secret on the hub.
async fn source(world: &World, kind: &str, name: &str, mut object: Value) {
    object["apiVersion"] = "v1".into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": name, "namespace": world.ns});
    world.hub.apply(&object, true).await.expect("the source is taken");
}

fn source_at(world: &World, name: &str) -> At {
    At::config_map(&world.ns, name)
}

/// Delivers what `spec` says to berlin.
async fn deliver(world: &World, mut spec: Value) {
    spec["targets"] = json!([{"clusterNames": ["berlin"]}]);
    let resource = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "shop", "namespace": world.ns}, "spec": spec});
    world.hub.apply(&resource, true).await.expect("the VidraResource is taken");
}

/// Waits until it is Stalled for this reason; what Ready says then.
async fn refused(world: &World, reason: &str, words: &str) -> String {
    wait_for(&format!("Stalled, {reason}: {words}"), LONG, async || {
        let resource = world.resource_says("shop", "Stalled", "True", reason).await;
        let conditions = resource.status.unwrap_or_default().conditions;
        let message = find(&conditions, READY).map(|ready| ready.message.clone()).unwrap_or_default();
        if message.contains(words) { Ok(message) } else { Err(message) }
    })
    .await
}

async fn settled(world: &World, token: &str) {
    world.reconcile_now("shop", token).await;
    wait_for("the request is handled", LONG, async || {
        let resource = world.ready("shop").await;
        let handled = resource.status.unwrap_or_default().last_handled_reconcile_at;
        if handled.as_deref() == Some(token) { Ok(()) } else { Err(format!("{handled:?}")) }
    })
    .await;
}

#[test]
fn objects_come_from_every_kind_of_source_plain_and_packed() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            config_map_in("", "listed", "1"),
            {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "typed"}, "data": {"key": "1"}}]},
        ]});
        let plain = json!({"data": {
            "b.json": list.to_string(),
            "a.yaml": format!("# only a comment\n---\n---\n{}", config_map("plain", "1")),
        }});
        source(&world, "ConfigMap", "plain", plain).await;
        let packed = json!({
            "binaryData": {"a.yaml.gz": gzip(&config_map("gzip", "1")), "b.zst": zstd(&config_map("zstd", "1"))},
            "data": {"README": "not a manifest: it is not read"},
        });
        source(&world, "ConfigMap", "packed", packed).await;
        source(&world, "Secret", "hidden", json!({"data": {
            "plain": BASE64_STANDARD.encode(config_map("secret", "1")), "packed": gzip(&config_map("secret-gzip", "1")),
        }}))
        .await;
        deliver(&world, json!({
            "manifest": config_map("manifest", "1"),
            "manifests": [config_map_in("", "inline", "1"), {"apiVersion": "v1", "kind": "List", "items": [config_map_in("", "inline-listed", "1")]}],
            "manifestsFrom": [
                {"configMapRef": {"name": "plain"}},
                {"configMapRef": {"name": "packed", "keys": ["b.zst", "a.yaml.gz"]}},
                {"secretRef": {"name": "hidden"}},
            ],
        }))
        .await;
        let resource = world.ready("shop").await;
        assert_eq!(resource.status.unwrap().summary.unwrap().objects, 10);
        let berlin = world.alice("berlin").await;
        for name in [
            "manifest",
            "inline",
            "inline-listed",
            "plain",
            "listed",
            "typed",
            "gzip",
            "zstd",
            "secret",
            "secret-gzip",
        ] {
            assert!(says("1")(&berlin.live(&At::config_map(&world.ns, name)).await), "{name}");
        }
        world.end().await;
    });
}

#[test]
fn a_changed_key_is_delivered_with_one_apply_and_other_changes_cost_nothing() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let texts = |two: &str| json!({"data": {"a": config_map("one", "1") + &config_map("two", two) + &config_map("three", "3")}});
        source(&world, "ConfigMap", "texts", texts("2")).await;
        deliver(&world, json!({"manifestsFrom": [{"configMapRef": {"name": "texts"}}]})).await;
        world.ready("shop").await;
        let revision = |resource: vidra_api::VidraResource| resource.status.unwrap().revision.unwrap();
        let first = revision(world.ready("shop").await);

        // Looked at again, nothing is read and nothing is written but the answer to the request.
        settled(&world, "one").await;
        let (at, mark) = (source_at(&world, "texts"), world.mark());
        settled(&world, "two").await;
        assert_eq!(world.requests_for(&at, "hub", &mark), []);
        assert_eq!(world.writes("berlin", &mark), []);

        let mark = world.mark();
        source(&world, "ConfigMap", "texts", texts("changed")).await;
        let berlin = world.alice("berlin").await;
        berlin.when(&At::config_map(&world.ns, "two"), "as the source says", says("changed")).await;
        let second = wait_for("another revision is ready", LONG, async || {
            let now = revision(world.ready("shop").await);
            if now == first { Err(now) } else { Ok(now) }
        })
        .await;
        let verbs: Vec<_> =
            world.writes("berlin", &mark).into_iter().map(|one| (one.verb, one.name)).collect();
        assert_eq!(verbs, [("patch".to_owned(), "two".to_owned())]);

        // A change that is none of the text is read once and goes no further.
        settled(&world, "three").await;
        world.counted(&["berlin"]).await;
        let mark = world.mark();
        world.hub.merge(&at, json!({"metadata": {"labels": {"team": "shop"}}})).await;
        wait_for("the source is read again", LONG, async || {
            let reads =
                world.requests_for(&at, "hub", &mark).into_iter().filter(|one| one.verb == "get").count();
            if reads > 0 { Ok(()) } else { Err(format!("{reads} reads")) }
        })
        .await;
        assert_eq!(revision(world.ready("shop").await), second);
        assert_eq!((world.writes("hub", &mark), world.writes("berlin", &mark)), (vec![], vec![]));

        let mark = world.mark();
        world.restart_hub().await;
        settled(&world, "four").await;
        assert_eq!(world.writes("berlin", &mark), [], "a restart");
        assert_eq!(revision(world.ready("shop").await), second);

        // And watches go on afterwards.
        source(&world, "ConfigMap", "texts", texts("again")).await;
        berlin.when(&At::config_map(&world.ns, "two"), "as the source says", says("again")).await;
        world.end().await;
    });
}

#[test]
fn a_source_that_cannot_be_read_changes_nothing_says_why_and_mends_itself() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let from = json!({"manifestsFrom": [
            {"configMapRef": {"name": "base"}}, {"configMapRef": {"name": "texts", "keys": ["a"]}},
        ]});
        deliver(&world, from.clone()).await;
        let message = refused(&world, "SourceNotFound", "\"base\"").await;
        assert!(message.contains("spec.manifestsFrom[0]") && message.contains(&world.ns), "{message}");
        source(&world, "ConfigMap", "base", json!({"data": {"b": config_map("base", "1")}})).await;
        let message = refused(&world, "SourceNotFound", "\"texts\"").await;
        assert!(message.contains("spec.manifestsFrom[1]"), "{message}");
        source(&world, "ConfigMap", "texts", json!({"data": {"a": config_map("settings", "1")}})).await;
        world.ready("shop").await;
        let berlin = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        assert!(says("1")(&berlin.live(&settings).await));

        let mark = world.mark();
        let broken = [
            (
                json!({"data": {"b": config_map("settings", "2")}}),
                "SourceNotFound",
                "has no key \"a\" (it has b)",
            ),
            (
                json!({"binaryData": {"a": BASE64_STANDARD.encode(b"\x1f\x8bhello")}}),
                "SourceInvalid",
                "key \"a\": it begins as gzip",
            ),
            (json!({"binaryData": {"a": BASE64_STANDARD.encode(b"\xff\xfe")}}), "SourceInvalid", "not UTF-8"),
            (
                json!({"data": {"a": format!("{}---\n\nkind: [\n", config_map("settings", "2"))}}),
                "ManifestInvalid",
                "ConfigMap texts, key a, document 2 (line ",
            ),
            (json!({"data": {"a": config_map("base", "2")}}), "", ""),
        ];
        for (object, reason, words) in broken {
            source(&world, "ConfigMap", "texts", object).await;
            if reason.is_empty() {
                // One object from two sources: both are named. Members tell it, for namespaces are filled in there.
                wait_for("both sources are named", LONG, async || {
                    let target = world
                        .target("shop", "berlin")
                        .await
                        .and_then(|target| target.status)
                        .unwrap_or_default();
                    let message = target.message.unwrap_or_default();
                    let both = ["ConfigMap base, key b, document 1", "ConfigMap texts, key a, document 1"];
                    if both.iter().all(|one| message.contains(one)) { Ok(()) } else { Err(message) }
                })
                .await;
            } else {
                refused(&world, reason, words).await;
            }
        }
        world.hub.delete(&source_at(&world, "texts")).await;
        refused(&world, "SourceNotFound", "the ConfigMap \"texts\" is not in the namespace").await;
        assert_eq!(world.writes("berlin", &mark), [], "nothing delivered is touched");
        assert!(says("1")(&berlin.live(&settings).await));

        source(&world, "ConfigMap", "texts", json!({"data": {"a": config_map("settings", "3")}})).await;
        berlin.when(&settings, "as the source says", says("3")).await;
        world.ready("shop").await;

        // What is broken does not keep it from being taken away.
        world.hub.delete(&source_at(&world, "base")).await;
        refused(&world, "SourceNotFound", "\"base\"").await;
        world.remove("shop").await;
        berlin.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn what_was_delivered_is_repaired_while_its_source_is_gone_even_after_a_restart() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        // Comments that do not pack: more than one Secret can hold.
        let mut seed = 7u64;
        for name in ["one", "two", "three"] {
            let mut text = config_map(name, "1");
            while text.len() < 900_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(&format!("# {seed:016x}\n"));
            }
            source(&world, "ConfigMap", name, json!({"data": {"a": text}})).await;
        }
        let from: Vec<_> = ["one", "two", "three"].map(|name| json!({"configMapRef": {"name": name}})).into();
        deliver(&world, json!({"manifestsFrom": from})).await;
        let revision = world.ready("shop").await.status.unwrap().revision.unwrap();
        let secrets = world.hub.list(&At::new("v1", "Secret", &world.ns, "")).await;
        let mut names: Vec<_> =
            secrets.iter().filter_map(|secret| secret["metadata"]["name"].as_str()).collect();
        names.retain(|name| name.contains(&revision));
        assert_eq!(names, [format!("shop.{revision}"), format!("shop.{revision}.1")]);

        world.stop_hub().await;
        world.hub.delete(&source_at(&world, "two")).await;
        let berlin = world.alice("berlin").await;
        let two = At::config_map(&world.ns, "two");
        berlin.merge(&two, json!({"data": {"key": "evil"}})).await;
        world.start_hub().await;
        berlin.when(&two, "as it was declared", says("1")).await;
        refused(&world, "SourceNotFound", "\"two\"").await;
        world.end().await;
    });
}

#[test]
fn a_bomb_is_refused_and_another_resource_is_delivered_meanwhile() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let bomb = format!("{}{}", config_map("bomb", "1"), "#".repeat(40 << 20));
        source(
            &world,
            "ConfigMap",
            "bombs",
            json!({"binaryData": {"gzip": gzip(&bomb), "zstd": zstd(&bomb)}}),
        )
        .await;
        for key in ["gzip", "zstd"] {
            deliver(&world, json!({"manifestsFrom": [{"configMapRef": {"name": "bombs", "keys": [key]}}]}))
                .await;
            refused(&world, "SourceInvalid", &format!("key {key:?}: it unpacks to more than")).await;
            world.deliver("other", &["berlin"], &config_map("other", key)).await;
            world.ready("other").await;
            assert!(says(key)(&alice.live(&At::config_map(&world.ns, "other")).await));
        }
        // Together they are as bad as one.
        let half = format!("{}{}", config_map("half", "1"), "#".repeat(9 << 20));
        source(&world, "ConfigMap", "bombs", json!({"binaryData": {"a": gzip(&half), "b": zstd(&half)}}))
            .await;
        deliver(&world, json!({"manifestsFrom": [{"configMapRef": {"name": "bombs"}}]})).await;
        refused(&world, "SourceInvalid", "key \"b\": it unpacks to more than").await;
        deliver(&world, json!({"manifestsFrom": [{"configMapRef": {"name": "bombs", "keys": ["a"]}}]})).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_source_that_the_hub_may_not_read_is_named_changes_nothing_and_is_read_when_it_may() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let text = |value: &str| json!({"data": {"a": config_map("settings", value)}});
        source(&world, "ConfigMap", "texts", text("one")).await;
        deliver(&world, json!({"manifestsFrom": [{"configMapRef": {"name": "texts"}}]})).await;
        world.ready("shop").await;
        world.take_right("", "configmaps", "get", "texts").await;
        let mark = world.mark();
        source(&world, "ConfigMap", "texts", text("two")).await;
        let message = refused(&world, "SourceForbidden", "texts").await;
        for word in ["spec.manifestsFrom[0]", "grant the hub get, list and watch"] {
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(world.writes("berlin", &mark), []);
        // What was delivered is kept as it was.
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("one")).await;
        assert_eq!(world.inventory("shop", "berlin").await.len(), 1);

        world.give_rights().await;
        alice.when(&settings, "as the source says", says("two")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

/// A source that has the content of before again is no new generation of its VidraResource.
#[test]
fn an_approval_of_what_a_source_drops_says_nothing_of_the_same_drop_later() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, b) = (world.alice("berlin").await, At::config_map(&world.ns, "b"));
        let texts = async |world: &World, names: &[&str]| {
            let all: String = names.iter().map(|name| config_map(name, "one")).collect();
            source(world, "ConfigMap", "texts", json!({"data": {"a": all}})).await;
        };
        let (all, few) = (["a", "b", "c", "d", "e"], ["a"]);
        texts(&world, &all).await;
        deliver(&world, json!({"manifestsFrom": [{"configMapRef": {"name": "texts"}}]})).await;
        world.ready("shop").await;
        let mut words = Vec::new();
        for round in 0..3 {
            texts(&world, &few).await;
            let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
            let word = approval(&message);
            assert!(!words.contains(&word), "round {round}: an earlier word would approve it");
            alice.live(&b).await;
            world.hub.merge(&world.resource_at("shop"), word.clone()).await;
            alice.gone(&b).await;
            world.ready("shop").await;
            texts(&world, &all).await;
            alice.when(&b, "there again", says("one")).await;
            world.ready("shop").await;
            // A GitOps tool puts it back, and a new process does not know that it was used.
            words.push(word.clone());
            world.restart_hub().await;
            world.hub.merge(&world.resource_at("shop"), word).await;
        }
        world.end().await;
    });
}
