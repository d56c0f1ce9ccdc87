//! The limits that the ConfigMap of settings draws, and that a bad value leaves the last good one.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::{TargetState, VidraTargetStatus, find};

use crate::{
    config_map, events, object, says, scenario,
    settings::{said, set, settings_at},
};

/// Sets these, and waits until the hub has read them: it complains of a key that it does not know.
pub async fn take(world: &World, mut data: Value) {
    data["nothing"] = "nothing".into();
    set(world, data).await;
    said(world, "SettingUnknown").await;
}

fn secret(name: &str) -> String {
    object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}))
}

fn service(name: &str) -> String {
    object(
        &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}),
    )
}

#[test]
fn a_call_to_a_member_has_to_end_within_the_apply_timeout() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        take(&world, json!({"apply.timeout": "1s"})).await;
        for name in ["good", "bad"] {
            if name == "bad" {
                set(&world, json!({"apply.timeout": "a moment"})).await;
                said(&world, "SettingInvalid").await;
            }
            let frozen = world.freeze("berlin");
            world.deliver(name, &["berlin"], &config_map(name, "one")).await;
            let ended = |status: &VidraTargetStatus| {
                status.message.as_deref().is_some_and(|message| message.contains("no answer within 1 s"))
            };
            world.target_when(name, "berlin", "the call has ended", ended).await;
            drop(frozen);
            world.ready(name).await;
        }
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn the_first_list_of_a_kind_has_to_end_within_the_cache_sync_timeout() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        take(&world, json!({"informer.cacheSyncTimeout": "1s", "informer.onStartupError": "Stop"})).await;
        for (name, manifest, kind) in
            [("good", secret("good"), "v1 Secret"), ("bad", service("bad"), "v1 Service")]
        {
            if name == "bad" {
                let bad = json!({"informer.cacheSyncTimeout": "never", "informer.onStartupError": "Stop"});
                set(&world, bad).await;
                said(&world, "SettingInvalid").await;
            }
            let frozen = world.freeze("berlin");
            world.deliver(name, &["berlin"], &manifest).await;
            let message = world.target_is(name, "berlin", TargetState::Unknown, "MemberUnreachable").await;
            for word in [kind, "could not start", "longer than 1s"] {
                assert!(message.contains(word), "{message}");
            }
            drop(frozen);
            world.ready(name).await;
        }
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn more_targets_than_the_removal_guard_says_are_not_lost_at_once() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let silent: Vec<String> = (1..6).map(|number| format!("silent-{number}")).collect();
        for name in &silent {
            let member = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "spec": {},
                "metadata": {"name": name}});
            world.hub.create(member).await;
            world.member_says(name, "CredentialsValid", "False").await;
        }
        let manifest = config_map("settings", "one");
        let deliver = async |count: usize| {
            let names = silent[..count].iter().map(String::as_str).chain(["berlin"]).collect::<Vec<_>>();
            world.deliver("shop", &names, &manifest).await;
        };
        let gone = async || {
            for name in &silent[1..] {
                world.hub.gone(&world.target_at("shop", name)).await;
            }
        };
        let there = async || {
            world.target_is("shop", "silent-5", TargetState::Unknown, "NoCredentials").await;
        };
        deliver(5).await;
        there().await;
        // Four of six.
        deliver(1).await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        there().await;
        set(&world, json!({"removalGuard": "70"})).await;
        gone().await;

        deliver(5).await;
        there().await;
        set(&world, json!({"removalGuard": "101"})).await;
        said(&world, "SettingInvalid").await;
        deliver(1).await;
        gone().await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

/// A ConfigMap that takes some ten times its text in memory: 1.2 MiB.
pub fn wide(name: &str) -> String {
    let data: serde_json::Map<String, Value> =
        (0..7_000).map(|number| (format!("k{number:05}"), "x".into())).collect();
    object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}))
}

#[test]
fn what_goes_beyond_the_bound_of_all_namespaces_is_told_and_everything_else_goes_on() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        take(&world, json!({"hubMaxBytes": "1Mi"})).await;
        let full = async |world: &World, name: &str| {
            let resource = world.resource_says(name, "Stalled", "True", "HubFull").await;
            let told = find(&resource.status.unwrap().conditions, "Ready").unwrap().message.clone();
            assert!(told.contains("of 1048576 ") && told.contains("hubMaxBytes"), "{told}");
        };
        world.deliver("more", &["berlin"], &wide("more")).await;
        full(&world, "more").await;
        // What was delivered stays, is repaired, and comes first after a restart; who is small is served.
        world.deliver("shop", &["berlin"], &(config_map("settings", "two") + &wide("wide"))).await;
        full(&world, "shop").await;
        for word in ["before", "after"] {
            if word == "after" {
                world.restart_hub().await;
                world.reconcile_now("more", "1").await;
                full(&world, "more").await;
            }
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            alice.when(&settings, "repaired", says("one")).await;
            world.deliver(word, &["berlin"], &config_map(word, "one")).await;
            world.ready(word).await;
        }
        assert!(world.target("more", "berlin").await.is_none());
        assert!(alice.get(&At::config_map(&world.ns, "wide")).await.is_none());
        assert!(!events(&world, "HubFull").await.is_empty());

        // Where there is room, it is delivered.
        set(&world, json!({"hubMaxBytes": "1Gi"})).await;
        world.ready("more").await;
        world.ready("shop").await;
        alice.when(&settings, "delivered", says("two")).await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn what_goes_beyond_the_bound_of_its_namespace_is_told_and_everything_else_goes_on() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let objects = |names: &[&str]| names.iter().map(|name| config_map(name, "one")).collect::<String>();
        let (ns, team) = (world.ns.clone(), format!("{}-others", world.ns));
        let at = |name: &str| At::config_map(&ns, name);
        world.deliver("shop", &["berlin"], &objects(&["a", "b"])).await;
        world.ready("shop").await;
        take(&world, json!({"namespaceMaxObjects": "3"})).await;
        let full = async |world: &World, name: &str| {
            let resource = world.resource_says(name, "Stalled", "True", "NamespaceFull").await;
            let told = find(&resource.status.unwrap().conditions, "Ready").unwrap().message.clone();
            assert!(told.contains("4 objects") && told.contains("namespaceMaxObjects"), "{told}");
        };
        world.deliver("more", &["berlin"], &objects(&["c", "d"])).await;
        full(&world, "more").await;
        // Another namespace has its own room.
        world.hub.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})).await;
        let mut theirs = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": "theirs", "namespace": team},
            "spec": {"targets": [{"clusterNames": ["berlin"]}]}});
        theirs["spec"]["manifest"] = objects(&["x", "y", "z"]).into();
        world.hub.apply(&theirs, true).await.expect("it is taken");
        alice.when(&At::config_map(&team, "z"), "delivered", says("one")).await;

        // What was delivered stays, is repaired, and comes first after a restart.
        world.deliver("shop", &["berlin"], &objects(&["b", "e", "f", "g"])).await;
        full(&world, "shop").await;
        for restarted in [false, true] {
            if restarted {
                world.restart_hub().await;
                world.reconcile_now("more", "1").await;
                full(&world, "more").await;
            }
            alice.merge(&at("a"), json!({"data": {"key": "evil"}})).await;
            alice.when(&at("a"), "repaired", says("one")).await;
        }
        assert!(world.target("more", "berlin").await.is_none());
        for name in ["c", "e"] {
            assert!(alice.get(&at(name)).await.is_none(), "{name}");
        }

        // Where there is room, it is delivered.
        world.deliver("shop", &["berlin"], &objects(&["b"])).await;
        world.ready("shop").await;
        alice.gone(&at("a")).await;
        world.reconcile_now("more", "2").await;
        world.ready("more").await;
        world.hub.delete(&At::of(&theirs)).await;
        world.hub.gone(&At::of(&theirs)).await;
        world.hub.delete(&At::new("v1", "Namespace", "", &team)).await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}
