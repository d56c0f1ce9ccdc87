//! What shows only when something goes on for a while: somebody who undoes each repair, workloads that are late, objects that do
//! not go, watches that say nothing, and watches that leave something out.

use std::time::Duration;

use serde_json::json;
use testkit::sim::world::TARGET_NAMESPACE;
use tokio::time::sleep;

use super::{Walk, hindrances::FINALIZER, model::place};

/// What is declared is delivered within this, mostly.
const DELIVERS_WITHIN: Duration = Duration::from_secs(3);
/// More repairs than one by one are taken for no fight.
const REPAIRS: usize = 8;
/// An edit is undone within this, mostly.
const REPAIRS_WITHIN: Duration = Duration::from_millis(1500);
/// A workload that is not healthy is late after this.
const LATE_AFTER: Duration = Duration::from_secs(10);
/// A watch that says nothing and does not end is given up within this.
const SILENT_FOR: Duration = Duration::from_secs(225);
/// So long a watch leaves out what happens.
const LIES_FOR: Duration = Duration::from_secs(5);
/// With the shortest `verifyInterval` that is found out within this: an interval, and the time that an event may take.
const VERIFIES_WITHIN: Duration = Duration::from_secs(100);

impl Walk {
    /// One of these, by its number from 0 to 4.
    pub(super) async fn last(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 => self.fight(member, some).await,
            1 => self.run_late(some).await,
            2 => self.hold_what_goes(member, some).await,
            3 => self.hush_watches(member).await,
            _ => self.let_watches_lie(member, some).await,
        }
    }

    /// Somebody undoes each repair of an object, and is left alone; then he gives in, and somebody asks for a look.
    async fn fight(&mut self, member: &'static str, some: Duration) {
        self.patch_resource("shop", json!({"drift": {"policy": "Correct"}})).await;
        self.declare("a").await;
        sleep(DELIVERS_WITHIN).await;
        let (path, tampered) = place("a");
        for _ in 0..REPAIRS {
            self.world.try_patch(member, &path, tampered.clone()).await;
            sleep(REPAIRS_WITHIN).await;
        }
        sleep(some / 4).await;
        self.ask_for_a_look().await;
    }

    /// The shop does not wait long for its workloads, and nobody runs them.
    async fn run_late(&mut self, some: Duration) {
        let timeout = format!("{}s", LATE_AFTER.as_secs());
        self.patch_resource("shop", json!({"reconcile": {"timeout": timeout}})).await;
        self.declare("app").await;
        sleep(DELIVERS_WITHIN + LATE_AFTER + some / 2).await;
        if self.chance.bool() {
            self.patch_resource("shop", json!({"reconcile": {"timeout": null}})).await;
        }
    }

    /// A finalizer keeps for a while what somebody deletes, alone or with its namespace, or what is to go with its member.
    async fn hold_what_goes(&mut self, member: &'static str, some: Duration) {
        let slot = self.pick(&["a", "key", "web"]);
        self.declare(slot).await;
        sleep(DELIVERS_WITHIN).await;
        let (path, _) = place(slot);
        self.world.try_patch(member, &path, json!({"metadata": {"finalizers": [FINALIZER]}})).await;
        let form = self.chance.u8(..3);
        match form {
            0 => self.world.try_delete(member, &path).await,
            // In another one it would take what others have there.
            1 => {
                let namespace = format!("/api/v1/namespaces/{TARGET_NAMESPACE}");
                self.world.try_patch("tokyo", &path, json!({"metadata": {"finalizers": [FINALIZER]}})).await;
                self.world.try_delete("tokyo", &namespace).await;
            }
            _ => self.patch_resource("shop", json!({"excludeClusters": [member]})).await,
        }
        sleep(some / 2).await;
        self.edit().await;
        sleep(some / 2).await;
        self.let_all_go().await;
        if form > 1 {
            self.patch_resource("shop", json!({"excludeClusters": null})).await;
        }
    }

    /// The watches of a member say nothing and do not end, as those of a connection that a load balancer forgot.
    async fn hush_watches(&mut self, member: &'static str) {
        self.world.observer.cloud(member, SILENT_FOR);
        self.world.observer.hush(Some(member));
        self.world.cluster(member).cut_watches();
        sleep(DELIVERS_WITHIN).await;
        self.disturb().await;
        sleep(SILENT_FOR).await;
        self.world.observer.hush(None);
        self.world.cluster(member).cut_watches();
    }

    /// The watches of a member leave out what happens for a while, and the hub verifies them as often as it may.
    async fn let_watches_lie(&mut self, member: &'static str, some: Duration) {
        self.world.observer.cloud(member, DELIVERS_WITHIN + LIES_FOR + VERIFIES_WITHIN);
        self.put_settings(json!({"verifyInterval": "1m"})).await;
        // Those that are open go on as they began.
        sleep(some / 8).await;
        self.world.cluster(member).cut_watches();
        self.declare("a").await;
        sleep(DELIVERS_WITHIN).await;
        self.world.observer.lie(Some(member));
        let (path, tampered) = place("a");
        self.world.try_patch(member, &path, tampered).await;
        sleep(LIES_FOR).await;
        self.world.observer.lie(None);
        sleep(VERIFIES_WITHIN).await;
        self.drop_settings().await;
        self.world.observer.enlighten();
    }
}
