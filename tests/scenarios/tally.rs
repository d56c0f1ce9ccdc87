//! What a MemberCluster counts: targets, watches, objects.

use serde_json::json;
use testkit::world::{At, SOON, Who, World, wait_for};
use tokio::time::Instant;
use vidra_api::{MemberClusterStatus, MemberTargets, MemberWatches, TargetState};

use crate::{config_map, object, partial::allow_config_maps, scenario};

/// Waits until berlin counts so many: targets (total, ready, drifted, failed), watches (total, synced, denied), objects.
async fn counts(world: &World, targets: [i32; 4], watches: [i32; 3], objects: i64) {
    let [total, ready, drifted, failed] = targets;
    let targets = MemberTargets { total, ready, drifted, failed, terminating: 0 };
    let [watched, synced, denied] = watches;
    let watches = MemberWatches { total: watched, synced, denied };
    let wanted = MemberClusterStatus {
        targets: Some(targets),
        targets_ready: Some(format!("{ready}/{total}")),
        watches: Some(watches),
        objects: Some(objects),
        ..MemberClusterStatus::default()
    };
    let what = format!("{targets:?}, {watches:?}, {objects} objects");
    let are = async |status: &MemberClusterStatus| {
        let found = status.clone();
        let counts = MemberClusterStatus {
            targets: found.targets,
            targets_ready: found.targets_ready,
            watches: found.watches,
            objects: found.objects,
            ..MemberClusterStatus::default()
        };
        counts == wanted
    };
    world.counts_when("berlin", &what, are).await;
}

#[test]
fn a_member_counts_its_targets_what_drifted_what_is_forbidden_and_its_objects_up_and_down() {
    scenario(async |world| {
        let admin = world.cluster("berlin", Who::Admin).await;
        allow_config_maps(&world, &admin).await;
        world.register_as("berlin", &world.kubeconfig("berlin", Who::Limited), json!({})).await;
        counts(&world, [0, 0, 0, 0], [0, 0, 0], 0).await;

        let two = config_map("settings", "one") + &config_map("more", "one");
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"}});
        world.deliver_with("shop", &two, spec.clone()).await;
        counts(&world, [1, 1, 0, 0], [1, 1, 0], 2).await;

        // A kind that may not be seen.
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "unseen"},
            "spec": {"ports": [{"port": 80}]}});
        world.deliver("blind", &["berlin"], &object(&service)).await;
        world.target_is("blind", "berlin", TargetState::Failed, "CannotWatch").await;
        counts(&world, [2, 1, 0, 1], [2, 1, 1], 2).await;

        let settings = At::config_map(&world.ns, "settings");
        admin.merge(&settings, json!({"data": {"key": "evil"}})).await;
        counts(&world, [2, 1, 1, 1], [2, 1, 1], 2).await;
        admin.merge(&settings, json!({"data": {"key": "one"}})).await;
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        counts(&world, [2, 1, 0, 1], [2, 1, 1], 1).await;

        world.remove("blind").await;
        counts(&world, [1, 1, 0, 0], [1, 1, 0], 1).await;
        world.remove("shop").await;
        counts(&world, [0, 0, 0, 0], [0, 0, 0], 0).await;
        world.end().await;
    });
}

#[test]
fn twenty_changes_at_once_cost_a_member_a_write_of_its_status_in_ten_seconds() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.counted(&["berlin"]).await;
        let (mark, began) = (world.mark(), Instant::now());
        let names: Vec<_> = (0..20).map(|number| format!("r{number:02}")).collect();
        for name in &names {
            world.deliver(name, &["berlin"], &config_map(name, "one")).await;
        }
        for name in &names {
            world.ready(name).await;
        }
        counts(&world, [20, 20, 0, 0], [1, 1, 0], 20).await;
        for name in &names[1..] {
            world.hub.delete(&world.resource_at(name)).await;
        }
        counts(&world, [1, 1, 0, 0], [1, 1, 0], 1).await;
        // What is read may not be recorded yet.
        let writes = wait_for("a record of both", SOON, async || {
            let writes = world.writes_to(&world.member_at("berlin"), "hub", &mark).len() as u64;
            if writes < 2 { Err(format!("{writes}")) } else { Ok(writes) }
        })
        .await;
        let most = 1 + began.elapsed().as_secs() / 10;
        assert!(writes <= most, "{writes} writes in {:?}", began.elapsed());
        world.end().await;
    });
}
