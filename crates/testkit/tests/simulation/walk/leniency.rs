//! What people leave to others: drift that is only reported or ignored, fields that are ignored or yielded, and how
//! often the hub looks; and those who make use of it.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::sim::{judge::clouds::HUB, world::hub_path};
use tokio::time::sleep;

use super::{Walk, model::place};

const IMAGE: &str = r#".spec.template.spec.containers[name="app"].image"#;

/// What may be ignored.
fn rules() -> [Value; 8] {
    let of =
        |kind: &str, name: &str, path: &str| json!({"target": {"kind": kind, "name": name}, "paths": [path]});
    [
        of("ConfigMap", "a", ".data.key"),
        of("ConfigMap", "b", ".data"),
        of("Secret", "key", ".data.key"),
        of("Service", "web", ".spec.selector"),
        of("ClusterRole", "reader", ".rules"),
        of("StatefulSet", "db", ".spec.replicas"),
        of("Job", "job", ".spec.parallelism"),
        json!({"target": {"group": "apps", "kind": "Deployment"}, "paths": [".spec.replicas", IMAGE]}),
    ]
}

impl Walk {
    /// One of these, by its number from 0 to 9.
    pub(super) async fn leave_alone(&mut self, which: u8, member: &'static str, path: &str, some: Duration) {
        match which {
            0 | 1 => self.change_policy().await,
            2 => self.drift_for_a_while(some).await,
            3 => {
                self.change_policy().await;
                self.drift_for_a_while(some).await;
            }
            4 | 5 => {
                self.ignore_some().await;
                self.disturb().await;
            }
            6 => {
                let yields = self.pick(&["Standard", "None"]);
                self.change_resource(json!({"drift": {"yield": yields}})).await;
            }
            7 => self.scale(member).await,
            8 => self.look_in_their_own_time(member, path, some).await,
            _ => {
                let interval = self.pick(&[Some("10s"), Some("45s"), None]);
                self.change_resource(json!({"reconcile": {"interval": interval}})).await;
            }
        }
    }

    async fn change_policy(&mut self) {
        let policy = self.pick(&["Correct", "Report", "Report", "Ignore"]);
        self.tell(&format!("policy {policy}"));
        self.change_resource(json!({"drift": {"policy": policy}})).await;
    }

    /// Things are changed, and what would undo that happens.
    async fn drift_for_a_while(&mut self, some: Duration) {
        for _ in 0..3 {
            self.disturb().await;
        }
        sleep(some).await;
        match self.chance.u8(..4) {
            0 => {
                self.world.crash_hub().await;
                self.world.start_hub();
            }
            // The same is applied again.
            1 => {
                let again = json!({"metadata": {"annotations": {
                    "vidra.dev/reconcile-requested-at": format!("{some:?}"),
                }}});
                self.world.try_patch("hub", &format!("{}/shop", hub_path("vidraresources")), again).await;
            }
            2 => self.change_resource(json!({"reconcile": {"interval": "5s"}})).await,
            _ => {}
        }
        sleep(some).await;
        self.disturb().await;
    }

    /// Somebody changes something somewhere.
    pub(super) async fn disturb(&mut self) {
        let (member, slot) = (self.pick_member(), self.some_slot());
        let (path, tampered) = place(slot);
        let image =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "mine"}]}}}});
        match self.chance.u8(..8) {
            0 => self.world.try_delete(member, &path).await,
            1 => self.scale(member).await,
            2 => {
                let labels = self.of_labels();
                self.world.try_patch(member, &path, labels).await;
            }
            3 if slot == "app" => self.world.try_patch(member, &path, image).await,
            _ => self.world.try_patch(member, &path, tampered).await,
        }
    }

    /// As an autoscaler does it, or a person.
    async fn scale(&mut self, member: &str) {
        let (replicas, who) = self.pick(&[(1, "alice"), (4, "kube-controller-manager")]);
        let path = format!("{}/scale", place("app").0);
        self.world.try_patch_as(who, member, &path, json!({"spec": {"replicas": replicas}})).await;
    }

    async fn ignore_some(&mut self) {
        let mut some = rules().to_vec();
        some.retain(|_| self.chance.bool());
        self.tell(&format!("ignore {some:?}"));
        self.change_resource(json!({"drift": {"ignore": some}})).await;
    }

    /// For a while one VidraResource is looked at on its interval only.
    async fn look_in_their_own_time(&mut self, member: &'static str, path: &str, some: Duration) {
        self.world.observer.cloud(HUB, some * 2);
        self.patch_resource("shop", json!({"reconcile": {"onEvents": false, "interval": "10s"}})).await;
        sleep(some).await;
        self.world.try_delete(member, path).await;
        sleep(some).await;
        self.patch_resource("shop", json!({"reconcile": null})).await;
    }

    /// From now on all that differs is undone; what is ignored and yielded stays so.
    pub(super) async fn correct(&mut self) {
        for name in self.names() {
            self.patch_resource(name, json!({"drift": {"policy": "Correct"}})).await;
        }
    }
}
