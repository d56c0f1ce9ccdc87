//! VidraResources that are nearly as large as what etcd takes: what is wrong is told, and a status for which there is no
//! room is written without its lists.

use serde_json::{Value, json};
use testkit::world::{At, LONG, SOON, World, wait_for};
use vidra_api::{ClusterSummary, condition::READY, find};

use crate::{config_map, events, says, scenario};

/// Members that cannot be reached: a line of the status for each.
const SILENT: usize = 40;
/// What etcd takes of an object.
const STORED: usize = 1536 << 10;
/// What of that is left for the status: room for conditions, and not for so many lines.
const LEFT: usize = 7_000;

/// ConfigMaps of 330 KiB each.
fn bulk(count: usize) -> Vec<Value> {
    let one = |number: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("bulk-{number}")},
            "data": {"key": "x".repeat(330 << 10)}})
    };
    (0..count).map(one).collect()
}

#[test]
fn a_resource_that_is_too_large_itself_is_told_and_what_it_delivered_stays() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (targets, bulk) = (json!([{"clusterNames": ["berlin"]}]), bulk(4));
        let spec = json!({"targets": targets, "manifests": bulk});
        world.deliver_with("shop", &config_map("settings", "two"), spec).await;
        let told = world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        let message = find(&told.status.unwrap().conditions, READY).unwrap().message.clone();
        for words in ["bytes as JSON", "1310720", "ConfigMaps or Secrets", "spec.manifestsFrom"] {
            assert!(message.contains(words), "{message}");
        }
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("one")).await;
        assert!(alice.get(&At::config_map(&world.ns, "bulk-0")).await.is_none());
        assert_eq!(events(&world, "ManifestInvalid").await, [message]);

        // As it says.
        let mut sources = Vec::new();
        for object in &bulk {
            let name = object["metadata"]["name"].clone();
            let source = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"object": object.to_string()},
                "metadata": {"name": name, "namespace": world.ns}});
            world.hub.apply(&source, true).await.expect("the ConfigMap is taken");
            sources.push(json!({"configMapRef": {"name": name}}));
        }
        let spec = json!({"targets": targets, "manifestsFrom": sources});
        world.deliver_with("shop", &config_map("settings", "two"), spec).await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&settings).await));
        alice.live(&At::config_map(&world.ns, "bulk-3")).await;
        world.end().await;
    });
}

/// Waits until the status has so many lines.
async fn has_lines(world: &World, count: usize) {
    let at = world.resource_at("shop");
    wait_for(&format!("{count} clusters in the status"), LONG, async || {
        let live = world.hub.live(&at).await;
        let lines = live["status"]["clusters"].as_array().map_or(0, Vec::len);
        let told = live["status"]["clusters"][0]["reason"] == "NoCredentials";
        if lines == count && told { Ok(()) } else { Err(live["status"].to_string()) }
    })
    .await;
}

/// The hub looks at the VidraResource once more, and is not asked for it.
async fn touched(world: &World, word: &str) {
    let passes = || world.metric("workqueue_work_duration_seconds_count{name=\"resource\"}");
    let before = passes();
    let patch = json!({"metadata": {"annotations": {"example.com/word": word}}});
    world.hub.merge(&world.resource_at("shop"), patch).await;
    wait_for("a look", SOON, async || match passes() {
        now if now > before => Ok(()),
        now => Err(format!("{now}")),
    })
    .await;
}

#[test]
fn a_status_for_which_there_is_no_room_is_written_without_its_lists_and_told_once() {
    scenario(async |mut world| {
        let names: Vec<String> =
            (0..SILENT).map(|number| format!("silent-{number:02}-{}", "x".repeat(40))).collect();
        for name in &names {
            let member = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "spec": {},
                "metadata": {"name": name}});
            world.hub.create(member).await;
        }
        let clusters: Vec<&str> = names.iter().map(String::as_str).collect();
        world.deliver("shop", &clusters, &config_map("settings", "one")).await;
        has_lines(&world, SILENT).await;
        // Of one that has told nothing the next process does not know that it has delivered nothing.
        for name in &clusters {
            world.target_when("shop", name, "told", |status| status.observed_generation.is_some()).await;
        }

        world.stop_hub().await;
        let at = world.resource_at("shop");
        let small = world.hub.merge_status(&at, json!({"status": {"clusters": null}})).await;
        let room = STORED - LEFT - small.to_string().len();
        let bulk = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bulk"},
            "data": {"key": "x".repeat(room)}});
        world.hub.merge(&at, json!({"spec": {"manifests": [bulk]}})).await;
        let mark = world.mark();
        world.start_hub().await;
        let told = world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        let status = told.status.unwrap();
        assert_eq!(status.clusters, [] as [ClusterSummary; 0]);
        assert_eq!(status.targets_ready.as_deref(), Some("0/40"));
        wait_for("an Event", SOON, async || match events(&world, "StatusShortened").await {
            notes if notes.len() == 1 && notes[0].contains("make the VidraResource smaller") => Ok(()),
            notes => Err(format!("{notes:?}")),
        })
        .await;
        // It is sent a few times, and no more while it says the same.
        touched(&world, "first").await;
        let writes = || {
            let all = world.requests_for(&at, "hub", &mark).into_iter();
            all.filter(|one| one.verb == "update" && one.resource.ends_with("/status")).count()
        };
        let sent = writes();
        for word in ["one", "two", "three"] {
            touched(&world, word).await;
        }
        assert_eq!(writes(), sent);
        assert!((2..=12).contains(&sent), "{sent}");

        world.hub.merge(&at, json!({"spec": {"manifests": null}})).await;
        has_lines(&world, SILENT).await;
        assert_eq!(events(&world, "StatusShortened").await.len(), 1);
        world.end().await;
    });
}
