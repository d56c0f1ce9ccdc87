//! A member that was restored from a backup of its own. In memory only: the real servers share one etcd, which would
//! have to be stopped for it.

use std::time::Duration;

use serde_json::json;
use testkit::world::{At, in_memory_with_backups};
use vidra_api::TargetState;

use crate::{config_map, says, uid};

#[test]
fn a_member_restored_from_an_older_backup_in_memory_is_brought_up_to_date_and_nothing_is_deleted() {
    restored(false);
}

#[test]
fn a_restore_in_memory_so_quick_that_the_member_never_seemed_away_is_found_by_the_next_verification() {
    restored(true);
}

fn restored(quick: bool) {
    in_memory_with_backups(async |world, backups| {
        world.register(&["berlin"]).await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let before =
            config_map("changed", "one") + &config_map("same", "one") + &config_map("dropped", "one");
        world.deliver("shop", &["berlin"], &before).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let (dropped, same) = (alice.live(&at("dropped")).await, alice.live(&at("same")).await);
        let backup = backups.take("berlin");
        let after = config_map("changed", "two") + &config_map("same", "one") + &config_map("made", "two");
        world.deliver("shop", &["berlin"], &after).await;
        alice.gone(&at("dropped")).await;
        world.ready("shop").await;
        let made = alice.live(&at("made")).await;

        let mark = world.mark();
        if quick {
            backups.restore("berlin", &backup);
            // Its watches go on from a version that is not there yet, and show nothing.
            tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        } else {
            let frozen = world.freeze("berlin");
            world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
            backups.restore("berlin", &backup);
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
