//! A member, or the hub, that was restored from a backup of its own. In memory only: the real servers share one etcd,
//! which would have to be stopped for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Backup, Call, Cluster, Fault, Verb};
use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, World, wait_for};
use vidra_api::TargetState;

use super::{leading::deleted, memory, scenario};
use crate::{apply_modes::immutable_settings, config_map, marks, says, settings, uid};

#[test]
fn a_member_restored_from_an_older_backup_in_memory_is_brought_up_to_date_and_nothing_is_deleted() {
    restored(false);
}

#[test]
fn a_restore_in_memory_so_quick_that_the_member_never_seemed_away_is_found_by_the_next_verification() {
    restored(true);
}

fn restored(quick: bool) {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let before =
            config_map("changed", "one") + &config_map("same", "one") + &config_map("dropped", "one");
        world.deliver("shop", &["berlin"], &before).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let (dropped, same) = (alice.live(&at("dropped")).await, alice.live(&at("same")).await);
        let backup = memory(&world, "berlin").backup();
        let after = config_map("changed", "two") + &config_map("same", "one") + &config_map("made", "two");
        world.deliver("shop", &["berlin"], &after).await;
        alice.gone(&at("dropped")).await;
        world.ready("shop").await;
        let made = alice.live(&at("made")).await;

        let mark = world.mark();
        if quick {
            memory(&world, "berlin").restore(&backup);
            // Its watches go on from a version that is not there yet, and show nothing.
            tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        } else {
            let frozen = world.freeze("berlin");
            world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
            memory(&world, "berlin").restore(&backup);
            drop(frozen);
        }
        alice.when(&at("changed"), "repaired", says("two")).await;
        let again = alice.when(&at("made"), "made again", says("two")).await;
        assert_ne!(uid(&again), uid(&made));
        world.ready("shop").await;
        assert_eq!(alice.live(&at("same")).await, same, "it is as it was");
        assert_eq!(alice.live(&at("dropped")).await, dropped, "what came back is not deleted");
        let deletes = |since| {
            let all = world.requests("berlin", since).into_iter();
            all.filter(|request| request.verb.starts_with("delete")).collect::<Vec<_>>()
        };
        assert_eq!(deletes(&mark), []);
        let held = world.inventory("shop", "berlin").await;
        let known = held.iter().find(|entry| entry.name == "made").map(|entry| entry.uid.clone());
        assert_eq!((held.len(), known), (3, Some(uid(&again))), "{held:?}");

        // From then on it is as it ever was: quiet, and repaired when it has to be.
        let mark = world.mark();
        world.look("shop", "one", 1).await;
        tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
        world.look("shop", "two", 1).await;
        assert_eq!(world.writes("berlin", &mark), []);
        alice.merge(&at("made"), json!({"data": {"key": "evil"}})).await;
        alice.when(&at("made"), "repaired", says("two")).await;
        alice.delete(&at("dropped")).await;
        world.end().await;
    });
}

/// The bank goes, the shop changes what it has, the member goes back to the backup, and the shop changes it again.
async fn changed_around_a_restore(world: &World, alice: &Access, backup: &Backup) -> Value {
    let settings = At::config_map(&world.ns, "settings");
    world.remove("bank").await;
    world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
    alice.when(&settings, "changed", says("two")).await;
    world.ready("shop").await;
    let frozen = world.freeze("berlin");
    world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
    memory(world, "berlin").restore(backup);
    drop(frozen);
    alice.when(&settings, "changed again", says("two")).await
}

/// The backup has no marks of the one that keeps it now: that the inventory has the object is enough.
#[test]
fn a_resource_that_only_the_backup_of_a_member_knows_keeps_nothing_from_one_that_came_after_the_backup() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("bank", &["berlin"], &config_map("settings", "one")).await;
        world.ready("bank").await;
        let backup = memory(&world, "berlin").backup();
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let before = alice.live(&settings).await;
        let live = changed_around_a_restore(&world, &alice, &backup).await;
        assert_eq!(uid(&live), uid(&before), "it stayed the same object");
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_resource_that_only_the_backup_of_a_member_knows_keeps_no_other_from_changing_what_both_applied() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        for name in ["shop", "bank"] {
            world.deliver(name, &["berlin"], &config_map("settings", "one")).await;
            world.ready(name).await;
        }
        let backup = memory(&world, "berlin").backup();
        let live = changed_around_a_restore(&world, &alice, &backup).await;
        assert!(marks(&live).iter().any(|mark| mark.ends_with("/bank")), "the backup knows it: {live}");
        world.ready("shop").await;
        world.end().await;
    });
}

/// As many that later declarations of them alone hold the hub's writes.
const MANY: usize = 7;

/// `shop` was delivered and then deleted, and the hub's cluster is restored from a backup made before that. The hub does not
/// run yet. What else was delivered was declared otherwise since then, if it is said so.
async fn deleted_and_restored(world: &mut World, is_behind: bool) {
    let others =
        |value: &str| (0..MANY).map(|one| config_map(&format!("other-{one}"), value)).collect::<String>();
    world.register(&["berlin"]).await;
    world.deliver("other", &["berlin"], &others("one")).await;
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("other").await;
    world.ready("shop").await;
    let backup = memory(world, "hub").backup();
    if is_behind {
        world.deliver("other", &["berlin"], &others("two")).await;
        world.ready("other").await;
    }
    world.remove("shop").await;
    world.alice("berlin").await.gone(&At::config_map(&world.ns, "settings")).await;
    world.stop_hub().await;
    memory(world, "hub").restore(&backup);
}

#[test]
fn a_resource_deleted_after_the_backup_of_the_hub_is_delivered_again_once_it_is_restored() {
    scenario(async |mut world| {
        deleted_and_restored(&mut world, false).await;
        let mark = world.mark();
        world.start_hub().await;
        let settings = At::config_map(&world.ns, "settings");
        world.alice("berlin").await.when(&settings, "it is there again", says("one")).await;
        world.ready("shop").await;
        assert_eq!(deleted(&world, &mark), [""; 0]);
        world.end().await;
    });
}

#[test]
fn a_resource_deleted_after_the_backup_of_the_hub_writes_nothing_where_it_is_deleted_again_before_a_start() {
    scenario(async |mut world| {
        deleted_and_restored(&mut world, false).await;
        let mark = world.mark();
        world.hub.delete(&world.resource_at("shop")).await;
        world.start_hub().await;
        world.removed("shop").await;
        world.look("other", "1", 1).await;
        assert_eq!(world.writes("berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_resource_deleted_after_the_backup_of_the_hub_waits_with_all_else_where_the_member_is_held() {
    scenario(async |mut world| {
        deleted_and_restored(&mut world, true).await;
        let mark = world.mark();
        world.start_hub().await;
        for name in ["other", "shop"] {
            world.target_is(name, "berlin", TargetState::Failed, "HubRestored").await;
        }
        assert_eq!(world.writes("berlin", &mark), []);
        let confirm = json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}});
        world.hub.merge(&world.member_at("berlin"), confirm).await;
        let settings = At::config_map(&world.ns, "settings");
        world.alice("berlin").await.when(&settings, "it is there again", says("one")).await;
        world.ready("shop").await;
        world.ready("other").await;
        world.end().await;
    });
}

/// Its watches expire, and lists show older objects in a newer version.
#[test]
fn a_hub_that_runs_while_its_api_is_restored_with_raised_versions_ends_and_the_next_one_waits() {
    scenario(async |mut world| {
        let all =
            |value: &str| (0..MANY).map(|one| config_map(&format!("all-{one}"), value)).collect::<String>();
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &all("one")).await;
        world.ready("shop").await;
        let backup = memory(&world, "hub").backup();
        world.deliver("shop", &["berlin"], &all("two")).await;
        world.deliver("later", &["berlin"], &config_map("later", "one")).await;
        world.ready("shop").await;
        world.ready("later").await;
        let mark = world.mark();
        memory(&world, "hub").restore_bumped(&backup, Cluster::BUMP);
        let why = world.ends_by_itself().await;
        assert!(why.contains("restored from a backup"), "{why}");
        world.start_hub().await;
        world.target_is("shop", "berlin", TargetState::Failed, "HubRestored").await;
        assert_eq!(world.writes("berlin", &mark), []);
        let confirm = json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}});
        world.hub.merge(&world.member_at("berlin"), confirm).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        alice.when(&At::config_map(&world.ns, "all-0"), "as declared", says("one")).await;
        assert_eq!(deleted(&world, &mark), [""; 0]);
        // What the backup does not know of stays, for people.
        alice.delete(&At::config_map(&world.ns, "later")).await;
        world.end().await;
    });
}

/// Nothing that the hub keeps was written since the backup: only the watch of the settings finds that out.
#[test]
fn a_hub_that_runs_while_its_settings_alone_are_put_back_ends_and_goes_by_them() {
    scenario(async |mut world| {
        let backup = memory(&world, "hub").backup();
        settings::set(&world, json!({"pruneDelay": "7s"})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        memory(&world, "hub").restore(&backup);
        let why = world.ends_by_itself().await;
        assert!(why.contains("restored from a backup"), "{why}");
        world.start_hub().await;
        world.end().await;
    });
}

/// Since the backup of the hub each of these was declared otherwise: less than an accident each, more than one together.
const DECLARED_LATER: [&str; 3] = ["a", "b", "c"];

#[test]
fn a_member_that_joins_a_restored_hub_late_is_written_to_by_none_before_all_have_their_targets_there() {
    scenario(async |mut world| {
        let declared = |name: &str, value: &str| -> String {
            (0..4).map(|one| config_map(&format!("{name}-{one}"), value)).collect()
        };
        let backup = memory(&world, "hub").backup();
        world.register(&["tokyo"]).await;
        for (name, value) in
            ["one", "two"].into_iter().flat_map(|value| DECLARED_LATER.map(|name| (name, value)))
        {
            world.deliver(name, &["tokyo"], &declared(name, value)).await;
            world.ready(name).await;
        }
        world.stop_hub().await;
        memory(&world, "hub").restore(&backup);
        let mark = world.mark();
        for name in DECLARED_LATER {
            world.deliver(name, &["tokyo"], &declared(name, "one")).await;
        }
        world.start_hub().await;
        for name in DECLARED_LATER {
            world.resource_says(name, "Ready", "False", "ClusterNotFound").await;
        }
        // They are made one after the other, and the first of them has looked long before there is a second.
        let hub = memory(&world, "hub");
        let made = AtomicUsize::default();
        hub.set_fault(Arc::new(move |call: &Call| {
            match call.verb == Verb::Create && call.resource == "vidratargets" {
                true if made.fetch_add(1, Ordering::Relaxed) > 0 => Fault::Delay(Duration::from_secs(5)),
                _ => Fault::None,
            }
        }));
        world.register(&["tokyo"]).await;
        wait_for("one of them waits for the others", SOON, async || {
            let mut reasons = Vec::new();
            for name in DECLARED_LATER {
                let status = world.target(name, "tokyo").await.and_then(|target| target.status);
                reasons.extend(status.and_then(|status| status.reason));
            }
            if reasons.iter().any(|one| one == "LooksFirst") { Ok(()) } else { Err(format!("{reasons:?}")) }
        })
        .await;
        for name in DECLARED_LATER {
            world.target_is(name, "tokyo", TargetState::Failed, "HubRestored").await;
        }
        assert_eq!(world.writes("tokyo", &mark), []);
        hub.clear_fault();
        let confirm = json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}});
        world.hub.merge(&world.member_at("tokyo"), confirm).await;
        for name in DECLARED_LATER {
            world.ready(name).await;
        }
        world.end().await;
    });
}

/// A restored inventory has the uid of what was made again since then, until the hub has written the newer one.
#[test]
fn what_lost_its_entry_a_moment_ago_is_made_again_only_once_its_uid_is_written_down() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &immutable_settings("one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let backup = memory(&world, "hub").backup();
        world.deliver("shop", &["berlin"], &immutable_settings("two")).await;
        world.ready("shop").await;
        world.stop_hub().await;
        let newer = uid(&alice.live(&settings).await);
        memory(&world, "hub").restore(&backup);

        // By its entry it is the hub's; that is gone when it is read to be deleted.
        let [hub, berlin] = ["hub", "berlin"].map(|name| memory(&world, name));
        let is_written = move || {
            let inventories = hub.objects("vidra.dev", "vidrainventories");
            inventories.iter().any(|one| one["spec"]["entries"].to_string().contains(&newer))
        };
        assert!(!is_written(), "the restored inventory has the uid of before");
        let (reads, early) = (Arc::new(AtomicUsize::default()), Arc::new(AtomicUsize::default()));
        let (read, deleted_early) = (reads.clone(), early.clone());
        berlin.set_fault(Arc::new(move |call: &Call| match call.verb {
            _ if &*call.user != "vidra-hub" || call.name != "settings" => Fault::None,
            Verb::Get if read.fetch_add(1, Ordering::Relaxed) == 0 => Fault::Delay(Duration::from_secs(2)),
            Verb::Delete => {
                deleted_early.fetch_add(usize::from(!is_written()), Ordering::Relaxed);
                Fault::None
            }
            _ => Fault::None,
        }));
        world.start_hub().await;
        wait_for("the hub reads it", SOON, async || match reads.load(Ordering::Relaxed) {
            0 => Err("nobody has".into()),
            _ => Ok(()),
        })
        .await;
        alice.merge(&settings, json!({"metadata": {"managedFields": [{}]}})).await;
        alice.when(&settings, "made again", says("one")).await;
        assert_eq!(early.load(Ordering::Relaxed), 0, "it was deleted, and no inventory had its uid");
        world.ready("shop").await;
        berlin.clear_fault();
        world.end().await;
    });
}
