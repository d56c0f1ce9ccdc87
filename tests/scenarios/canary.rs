//! Values that are secret are written nowhere: planted in Secrets and in fields to redact, declared and tampered with,
//! they are looked for in all that the hub says.

use serde_json::{Value, json};
use testkit::world::{At, LONG, Logs, World, wait_for};
use vidra_api::{ChangeKind, TargetState, VidraTargetStatus};

use crate::{events, scenario};

/// What is planted, and the same as a Secret holds it.
const CANARIES: [(&str, &str); 4] = [
    ("canary-declared-5up3r", "Y2FuYXJ5LWRlY2xhcmVkLTV1cDNy"),
    ("canary-tampered-5up3r", "Y2FuYXJ5LXRhbXBlcmVkLTV1cDNy"),
    ("canary-redacted-5up3r", "Y2FuYXJ5LXJlZGFjdGVkLTV1cDNy"),
    ("canary-retracted-5up3r", "Y2FuYXJ5LXJldHJhY3RlZC01dXAzcg=="),
];

/// None of these texts is in what was said.
fn silent_of<'a>(all: &str, texts: impl IntoIterator<Item = &'a str>) {
    for text in texts {
        let at = all.find(text).map(|at| {
            let (from, to) = (at.saturating_sub(300), (at + 100).min(all.len()));
            String::from_utf8_lossy(&all.as_bytes()[from..to])
        });
        assert_eq!(at, None, "{text} was said");
    }
}

/// Has the hub keep back these fields from its start.
async fn redact(world: &mut World, rules: &str) {
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"redact": rules},
        "metadata": {"name": "vidra-hub", "namespace": world.settings.namespace},
    });
    world.hub.apply(&settings, true).await.expect("the ConfigMap is taken");
    world.restart_hub().await;
}

/// All that the hub has said, wherever people or programs read it.
async fn said(world: &World, logs: &Logs) -> String {
    let mut all = logs.text() + &world.metrics();
    let kinds = ["VidraResource", "VidraTarget", "VidraInventory", "MemberCluster"];
    for kind in kinds {
        all += &Value::from(world.hub.list(&At::new("vidra.dev/v1alpha1", kind, "", "")).await).to_string();
    }
    for (api_version, kind) in [("events.k8s.io/v1", "Event"), ("v1", "ConfigMap")] {
        all += &Value::from(world.hub.list(&At::new(api_version, kind, "", "")).await).to_string();
    }
    all
}

#[test]
fn no_secret_value_is_in_logs_events_metrics_or_statuses() {
    scenario(async |mut world| {
        let logs = Logs::capture();
        redact(&mut world, "# tokens\nConfigMap .data.token").await;
        world.register(&["berlin"]).await;
        let [declared, tampered, redacted, retracted] = CANARIES;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
            "stringData": {"key": declared.0, "other": declared.0}});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {"token": redacted.0, "plain": "not secret"}});
        let source = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"objects": format!("---\n{secret}\n---\n{config}\n")},
            "metadata": {"name": "source", "namespace": world.ns}});
        world.hub.apply(&source, true).await.expect("the Secret is taken");
        let spec = |policy: &str| {
            json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": policy},
                "manifestsFrom": [{"secretRef": {"name": "source"}}]})
        };
        world.deliver_with("shop", "", spec("Report")).await;
        world.ready("shop").await;

        let alice = world.alice("berlin").await;
        let password = At::new("v1", "Secret", &world.ns, "password");
        let config = At::config_map(&world.ns, "settings");
        let tamper = async || {
            alice.merge(&password, json!({"data": {"key": tampered.1, "other": null}})).await;
            let data = json!({"token": retracted.0, "plain": "alice's"});
            alice.merge(&config, json!({"data": data})).await;
        };
        tamper().await;
        let both = |status: &VidraTargetStatus| {
            status
                .changes
                .iter()
                .filter(|one| one.change == ChangeKind::Modified && one.corrected.is_none())
                .count()
                == 2
        };
        let status = world.target_when("shop", "berlin", "both are told", both).await.status.unwrap();
        let fields: Vec<_> = status.changes.iter().flat_map(|one| &one.fields).collect();
        for (path, plain) in [(".data.key", false), (".data.token", false), (".data.plain", true)] {
            let field = fields
                .iter()
                .find(|field| field.path == path)
                .unwrap_or_else(|| panic!("{path}: {fields:?}"));
            for value in [field.expected.as_deref().unwrap(), field.actual.as_deref().unwrap()] {
                assert_eq!(value.starts_with("hmac:"), !plain, "{path}: {value}");
            }
            assert_ne!(field.expected, field.actual, "{path}");
        }
        world.restart_hub().await;
        world.look("shop", "again", 1).await;
        world.deliver_with("shop", "", spec("Correct")).await;
        world.corrected("shop", "berlin", 2).await;
        tamper().await;
        world.corrected("shop", "berlin", 4).await;
        alice.delete(&password).await;
        world.corrected("shop", "berlin", 5).await;

        let all = said(&world, &logs).await;
        assert!(all.contains("not secret") && all.contains("shop.berlin"), "the right things are searched");
        silent_of(&all, CANARIES.iter().flat_map(|(plain, encoded)| [*plain, *encoded]));
        // What was told plainly before a rule came is covered at the next look.
        let more = json!({"data": {"redact": "ConfigMap .data"}});
        world.hub.merge(&At::config_map(&world.settings.namespace, "vidra-hub"), more).await;
        let covered = |status: &VidraTargetStatus| {
            let plain =
                |value: &Option<String>| value.as_deref().is_some_and(|value| value.contains("not secret"));
            !status.changes.iter().flat_map(|one| &one.fields).any(|field| plain(&field.expected))
        };
        world.target_when("shop", "berlin", "covered", covered).await;
        world.hub.delete(&At::config_map(&world.settings.namespace, "vidra-hub")).await;
        world.end().await;
    });
}

/// A number that no program has by chance.
const PIN: u64 = 918_273_645;

#[test]
fn what_a_member_says_of_what_it_refuses_is_told_without_the_values_that_it_quotes() {
    scenario(async |mut world| {
        let logs = Logs::capture();
        let group = format!("{}.example.com", world.ns);
        redact(&mut world, "Gadget .spec.pin").await;
        let alice = world.alice("berlin").await;
        let pin = json!({"type": "string", "minLength": 64});
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"pin": pin, "open": pin}}}});
        let definition = alice
            .create(json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("gadgets.{group}")},
                "spec": {
                    "group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
                },
            }))
            .await;
        let gadgets = At::of(&definition);
        let served = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        };
        alice.when(&gadgets, "established", served).await;
        world.register(&["berlin"]).await;

        let [declared, ..] = CANARIES;
        let secret = |field: &str, value: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, field: {"pin": value}});
        let gadget = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
            "metadata": {"name": "one"}, "spec": {"pin": declared.0}});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"type": "ExternalName", "externalName": 4711}});
        let texts = json!({
            "number": secret("data", json!(PIN)).to_string(), "gadget": gadget.to_string(),
            "text": secret("stringData", json!(PIN)).to_string(), "service": service.to_string(),
        });
        let source = json!({"apiVersion": "v1", "kind": "Secret", "stringData": texts,
            "metadata": {"name": "source", "namespace": world.ns}});
        world.hub.apply(&source, true).await.expect("the Secret is taken");
        for name in ["number", "gadget", "text", "service"] {
            let from = json!([{"secretRef": {"name": "source", "keys": [name]}}]);
            let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "manifestsFrom": from});
            world.deliver_with(name, "", spec).await;
        }
        let cases = [
            ("number", "InvalidField", format!("Secret {}/password", world.ns), ".data.pin;"),
            ("gadget", "Invalid", format!("{}/one", world.ns), "FieldValueInvalid at spec.pin;"),
        ];
        for (name, reason, object, field) in &cases {
            let told = world.target_is(name, "berlin", TargetState::Failed, reason).await;
            let hint = told.contains("--dry-run=server") && told.contains("words are withheld");
            assert!(told.contains(object) && told.contains(field) && hint, "{name}: {told}");
            wait_for("an Event", LONG, async || {
                let notes = events(&world, reason).await;
                if notes.iter().any(|note| note.contains(object)) {
                    Ok(())
                } else {
                    Err(format!("{notes:?}"))
                }
            })
            .await;
        }
        let plain = world.target_is("service", "berlin", TargetState::Failed, "InvalidField").await;
        assert!(plain.contains(".spec.externalName: expected string") && plain.contains("4711"), "{plain}");
        let own = |status: &VidraTargetStatus| {
            status.message.as_deref().is_some_and(|message| message.contains("stringData[\"pin\"] of Secret"))
        };
        world.target_when("text", "berlin", "the hub itself refuses", own).await;

        let all = said(&world, &logs).await;
        assert!(
            all.contains("vidra_target::execution") && all.contains("4711"),
            "the right things are searched"
        );
        silent_of(&all, [declared.0, declared.1, PIN.to_string().as_str()]);
        for name in ["number", "gadget", "text", "service"] {
            world.remove(name).await;
        }
        alice.delete(&gadgets).await;
        world.hub.delete(&At::config_map(&world.settings.namespace, "vidra-hub")).await;
        world.end().await;
    });
}
