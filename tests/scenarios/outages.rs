//! Members that fall silent, and hubs that come back.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::world::{At, LONG, Who, wait_for};
use tokio::time::Instant;
use vidra_api::TargetState;

use crate::{config_map, inventoried, member_says_why, object, says, scenario, uid};

/// A call to a member has to end within this where no setting says otherwise.
const CALL: Duration = Duration::from_secs(15);

#[test]
fn the_first_answer_of_a_member_is_awaited_and_its_silence_is_told() {
    scenario(async |world| {
        let frozen = world.freeze("berlin");
        world.register_as("berlin", &world.kubeconfig("berlin", Who::VidraHub), json!({})).await;
        member_says_why(&world, "berlin", "Reachable", ("Unknown", "Connecting")).await;
        member_says_why(&world, "berlin", "Reachable", ("False", "NoAnswer")).await;
        drop(frozen);
        world.member_says("berlin", "Ready", "True").await;
        world.end().await;
    });
}

#[test]
fn a_silent_member_delays_nobody_and_catches_up() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo", "austin"]).await;
        let all = ["berlin", "tokyo", "austin"];
        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &all, &(config_map("settings", "one") + &config_map("old", "one"))).await;
        world.ready("shop").await;
        let austin = world.alice("austin").await;
        let mark = world.mark();

        let (frozen, began) = (world.freeze("austin"), Instant::now());
        world.deliver("shop", &all, &config_map("settings", "two")).await;
        for name in ["berlin", "tokyo"] {
            let member = world.alice(name).await;
            member.when(&settings, "the change", says("two")).await;
            member.gone(&At::config_map(&world.ns, "old")).await;
            world.target_is("shop", name, TargetState::Ready, "Ready").await;
        }
        // They did not wait for a single call to the third, let alone until the hub had given it up, which takes several.
        assert!(began.elapsed() < CALL, "{:?}", began.elapsed());
        let third = world.target("shop", "austin").await.unwrap().status.unwrap();
        assert_ne!(third.state, Some(TargetState::Unknown));
        world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
        let status =
            world.resource_says("shop", "Ready", "False", "MembersUnreachable").await.status.unwrap();
        assert_eq!(status.targets_ready.as_deref(), Some("2/3"));
        assert_eq!(vidra_api::find(&status.conditions, "Stalled").unwrap().status, "False");
        world.member_says("austin", "Reachable", "False").await;
        // A new resource for the others does not wait either.
        world.deliver("other", &["berlin", "tokyo"], &config_map("other", "one")).await;
        world.ready("other").await;

        drop(frozen);
        austin.when(&settings, "the change", says("two")).await;
        austin.gone(&At::config_map(&world.ns, "old")).await;
        world.ready("shop").await;
        world.member_says("austin", "Reachable", "True").await;
        let deletes = world
            .writes("austin", &mark)
            .into_iter()
            .filter(|write| write.verb == "delete" && write.code < 300);
        assert_eq!(deletes.count(), 1, "only what was dropped is deleted");
        world.end().await;
    });
}

#[test]
fn as_many_members_as_the_resource_says_may_be_unreachable_while_it_is_ready() {
    scenario(async |world| {
        let all = ["berlin", "tokyo", "austin"];
        world.register(&all).await;
        let spec =
            |most: Value| json!({"targets": [{"clusterNames": all}], "readiness": {"maxUnreachable": most}});
        world.deliver_with("shop", &config_map("settings", "one"), spec(json!("34%"))).await;
        world.ready("shop").await;
        let frozen = world.freeze("austin");
        world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
        let ready = async |words: &str| {
            wait_for(&format!("Ready: {words:?}"), LONG, async || {
                let resource = world.resource_says("shop", "Ready", "True", "Ready").await;
                let status = resource.status.unwrap_or_default();
                let message = vidra_api::find(&status.conditions, "Ready").unwrap().message.clone();
                if message.contains(words) { Ok(status.targets_ready) } else { Err(message) }
            })
            .await
        };
        let counted = ready("1 of 3 targets cannot be reached").await;
        assert_eq!(counted.as_deref(), Some("2/3"), "it counts as it is");

        // Of what is declared now it never had anything.
        world.deliver_with("shop", &config_map("settings", "two"), spec(json!(1))).await;
        for name in ["berlin", "tokyo"] {
            world.target_is("shop", name, TargetState::Ready, "Ready").await;
        }
        world.resource_says("shop", "Ready", "False", "MembersUnreachable").await;
        drop(frozen);
        ready("").await;
        world.end().await;
    });
}

/// The revision is the same in both namespaces.
#[test]
fn a_member_that_is_unreachable_and_had_it_in_another_namespace_is_not_excused() {
    scenario(async |world| {
        let all = ["berlin", "tokyo", "austin"];
        world.register(&all).await;
        let within = |namespace: &str| {
            json!({"targets": [{"clusterNames": all, "namespace": namespace}],
                "readiness": {"maxUnreachable": 1}})
        };
        let (manifest, second) = (config_map("settings", "one"), format!("{}-b", world.ns));
        world.deliver_with("shop", &manifest, within(&world.ns)).await;
        world.ready("shop").await;
        let frozen = world.freeze("austin");
        world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
        world.ready("shop").await;

        world.deliver_with("shop", &manifest, within(&second)).await;
        for name in ["berlin", "tokyo"] {
            let alice = world.alice(name).await;
            alice.when(&At::config_map(&second, "settings"), "there", says("one")).await;
            world.target_is("shop", name, TargetState::Ready, "Ready").await;
        }
        world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
        world.resource_says("shop", "Ready", "False", "MembersUnreachable").await;
        drop(frozen);
        world.ready("shop").await;
        world.end().await;
    });
}

fn shop(ns: &str) -> String {
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1",
                    "resources": {"requests": {"cpu": "1000m"}}}]},
            },
        },
    });
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
        "stringData": {"key": "one"}});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{ns}-reader")},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    [web, service, secret, role]
        .iter()
        .map(object)
        .chain([config_map("settings", "one"), config_map("more", "one")])
        .collect()
}

#[test]
fn a_restart_with_everything_in_place_writes_nothing_to_any_member() {
    scenario(async |mut world| {
        let all = ["berlin", "tokyo", "austin"];
        world.register(&all).await;
        let spec = json!({"targets": [{"clusterSelector": {}}], "reconcile": {"interval": "1s"}});
        world.deliver_with("shop", &shop(&world.ns), spec).await;
        world.ready("shop").await;
        world.recorded("shop", &all).await;
        world.counted(&all).await;
        world.stop_hub().await;
        let mark = world.mark();
        world.start_hub().await;
        for name in all {
            synced(&world, name, 5).await;
        }
        world.after_passes(6).await;
        for name in all {
            let writes = world.writes(name, &mark);
            assert_eq!(writes, [], "{name}");
            let dry_runs: Vec<_> =
                world.requests(name, &mark).into_iter().filter(|one| one.uri.contains("dryRun")).collect();
            assert_eq!(dry_runs, [], "{name}");
        }
        assert_eq!(world.writes("hub", &mark), [], "nor is anything written on the hub");

        // The hub sees: what changes now is repaired.
        let alice = world.alice("tokyo").await;
        let settings = At::config_map(&world.ns, "settings");
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "as declared", says("one")).await;
        world.end().await;
    });
}

/// Waits until so many informers of a member have listed.
async fn synced(world: &testkit::world::World, cluster: &str, informers: u32) {
    wait_for(&format!("{informers} informers of {cluster} are synced"), LONG, async || {
        let count = world.metric(&format!("vidra_informers_synced{{cluster=\"{cluster}\"}}"));
        if count >= f64::from(informers) { Ok(()) } else { Err(count.to_string()) }
    })
    .await;
}

#[test]
fn drift_made_while_the_hub_was_down_is_repaired_after_the_start() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}});
        let names = ["edited", "emptied", "deleted", "hidden", "unowned", "reset", "untouched"];
        let manifest: String = names.iter().map(|name| config_map(name, "one")).collect();
        world.deliver_with("shop", &manifest, spec).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let ns = world.ns.clone();
        let at = |name: &str| At::config_map(&ns, name);
        let untouched = alice.live(&at("untouched")).await;
        let reset = alice.live(&at("reset")).await;
        // By its uid alone one is known that loses its labels.
        inventoried(&world, "shop", "berlin", names.len()).await;
        world.stop_hub().await;
        alice.merge(&at("edited"), json!({"data": {"key": "evil"}})).await;
        alice.merge(&at("emptied"), json!({"data": null})).await;
        alice.delete(&at("deleted")).await;
        alice.merge(&at("hidden"), json!({"metadata": {"labels": null}, "data": {"key": "evil"}})).await;
        let labels = untouched["metadata"]["labels"].as_object().unwrap();
        let owner = labels.keys().find(|key| key.starts_with("owner.vidra.dev/")).unwrap();
        alice.merge(&at("unowned"), json!({"metadata": {"labels": {owner: null}}})).await;
        // As backup tools do.
        alice.merge(&at("reset"), json!({"metadata": {"managedFields": [{}]}})).await;
        let mark = world.mark();
        world.start_hub().await;
        for name in names {
            let live = alice.when(&at(name), "as declared", says("one")).await;
            assert!(live["metadata"]["labels"]["vidra.dev/hub"].is_string() || name == "hidden", "{live}");
        }
        for name in ["hidden", "unowned"] {
            let labelled = |live: &Value| live["metadata"]["labels"] == untouched["metadata"]["labels"];
            alice.when(&at(name), "labelled again", labelled).await;
        }
        let healed = alice
            .when(&at("reset"), "ours again", |live| {
                crate::marks(live).iter().any(|mark| mark.starts_with("vidra/"))
            })
            .await;
        assert_eq!(uid(&healed), uid(&reset));
        world.ready("shop").await;
        assert_eq!(alice.live(&at("untouched")).await, untouched);
        assert_eq!(world.writes_to(&at("untouched"), "berlin", &mark), []);
        let settled = world.mark();
        world.after_passes(3).await;
        assert_eq!(world.writes("berlin", &settled), []);
        world.end().await;
    });
}
