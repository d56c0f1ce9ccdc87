//! How a walk ends: people put right what only they can, and the hub must do the rest and fall silent.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use testkit::sim::{
    observer::Seen,
    state::{State, differences},
    world::{TARGET_NAMESPACE, member_path, named, path_named},
};
use tokio::time::{Instant, sleep};
use vidra_api::{labels::APPROVE_REMOVAL, names::target_name};
use vidra_core::contention::WINDOW;

use super::{Walk, model::manifest, steps::secret, teams::OTHER, wishes::path_of};
use crate::scenarios::ready;

/// What a target says, and goes on to say, while somebody undoes its repairs.
const CONTENTION: &str = "Contention";

/// Values that changed all the time are written within this, though they rest.
const VALUES_REST_WITHIN: Duration = Duration::from_secs(610);
/// What a look at any moment brings has come to its end within this.
const STIRS_WITHIN: Duration = Duration::from_secs(7);

/// All must be as declared within this.
const MENDS_WITHIN: Duration = Duration::from_secs(450);

/// What was lost is found again within this.
const FINDS_WITHIN: Duration = Duration::from_secs(60);

impl Walk {
    /// Faults are over, and nobody has touched anything since: all is as declared, or told otherwise. Whoever comes
    /// after this touches everything, and wakes what sleeps.
    pub(super) async fn judge_before_the_nudge(&self) {
        if !self.world.observer.untold().is_empty() {
            // Something may be under way at any moment: a retry, a status that waits for its second.
            sleep(STIRS_WITHIN).await;
            self.world.observer.judge_untold();
        }
    }

    /// What people put right in the end.
    pub(super) async fn put_right(&mut self) {
        self.let_all_go().await;
        self.part_hubs().await;
        self.put_mistakes_right().await;
        self.put_wishes_right().await;
        self.describe_members().await;
        let told = self.declared["shop"].get("s").copied();
        if let (Some(value), Some(bank)) = (told, self.declared.get_mut("bank")) {
            bank.insert("s", value);
            let text = manifest(bank);
            self.patch_resource("bank", json!({"manifest": text})).await;
        }
        self.put_teams_right().await;
        self.put_rig_right().await;
        self.put_strangers_right().await;
        let everybody = json!([{"clusterSelector": {}, "namespace": TARGET_NAMESPACE}]);
        for name in self.names() {
            self.patch_resource(name, json!({"suspend": false})).await;
        }
        // By label nobody might be selected, and that is held until a person says so.
        let selected = json!({"targets": everybody, "excludeClusters": null});
        self.patch_resource("shop", selected).await;
        for &member in self.world.members() {
            self.register(member).await;
            let rests = json!({"spec": {"suspend": false}});
            self.world.try_patch("hub", &member_path(member), rests).await;
        }
    }

    /// A member that was still leaving when it was registered again asks once more.
    async fn come_back(&self) {
        for &member in self.world.members() {
            if self.world.object("hub", vidra_api::GROUP, "memberclusters", "", member).is_none() {
                self.world.try_delete("hub", &secret(member)).await;
                self.register(member).await;
            }
        }
    }

    /// Several edits may have come to one that drops most objects. All words that are told: what holds the VidraResource
    /// has another one than what holds its targets, and these stay as they are until the first is given.
    pub(super) async fn approve_what_is_held(&self) {
        let told = format!("{APPROVE_REMOVAL}=");
        for name in self.declared.keys() {
            let status = self.world.resource(name).unwrap_or_default()["status"].to_string();
            let hash = |rest: &str| rest.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
            let hashes: BTreeSet<_> = status.split(told.as_str()).skip(1).map(hash).collect();
            let words = hashes.into_iter().filter(|hash| !hash.is_empty()).collect::<Vec<_>>().join(",");
            if words.is_empty() {
                continue;
            }
            let word = json!({"metadata": {"annotations": {APPROVE_REMOVAL: words}}});
            self.world.try_patch("hub", &path_named("vidraresources", name), word).await;
        }
    }

    /// Targets that a backup has brought back and whose VidraResource nobody wants again go, as their status says how.
    async fn let_missing_go(&self) {
        for name in ["bank", OTHER].into_iter().filter(|name| !self.declared.contains_key(*name)) {
            for member in self.world.members() {
                let target = self.world.target(name, member).unwrap_or_default();
                if target["status"]["reason"] == "ResourceMissing" {
                    let path = path_named("vidratargets", &target_name(name, member));
                    let word = json!({"metadata": {"annotations": {APPROVE_REMOVAL: "orphan"}}});
                    self.world.try_patch("hub", &path, word).await;
                }
            }
        }
    }

    /// What the hub delivered before it noticed that its store was put back, for whom nobody knows now: people take the inventory
    /// away, and then what it had.
    async fn drop_what_was_written_behind(&self) {
        for inventory in self.world.clusters.hub.objects(vidra_api::GROUP, "vidrainventories") {
            let text = |field: &str| inventory["metadata"][field].as_str().unwrap_or_default();
            let name = named(text("namespace"), text("name"));
            let Some((target, _)) = name.rsplit_once('.') else { continue };
            if self.world.observer.is_written_behind(target) {
                let member = target.rsplit_once('.').map_or("", |(_, member)| member);
                self.world.observer.excuse_unknown(member);
                let path = path_named("vidrainventories", &name);
                self.world.try_patch("hub", &path, json!({"metadata": {"finalizers": null}})).await;
                self.world.try_delete("hub", &path).await;
            }
        }
    }

    /// What stands where the hub is to put something, and is not the hub's: people's own, and what it let go.
    async fn clear_the_way(&self, lasts: bool) {
        for key in self.world.observer.in_the_way(self.restored && lasts, lasts) {
            self.world.try_delete(&key[0], &path_of(&key)).await;
        }
    }

    /// What is wrong; empty when all is as declared.
    fn differs(&self) -> Vec<String> {
        let mut wrong = self.world.observer.differs();
        for name in self.declared.keys() {
            // Of a CRD that is gone and left so nothing can be made.
            let is_left = || {
                let says = |reason| self.says(name, reason);
                self.is_unproved(name)
                    || self.world.observer.waits_for_marks(name)
                    || says("ObjectsMissing")
                    || says("KindUnknown")
            };
            let is_well = ready(&self.world, name) || self.tells_a_fight_alone(name);
            if !is_well && (self.corrects || !is_left()) {
                let status = self.world.resource(name).unwrap_or_default()["status"].clone();
                wrong.push(format!("{name} is not ready: {status}"));
            }
        }
        for &member in self.world.members() {
            let object = self.world.object("hub", vidra_api::GROUP, "memberclusters", "", member);
            if object.is_none_or(|object| !object["metadata"]["deletionTimestamp"].is_null()) {
                wrong.push(format!("{member} has not joined again"));
            }
        }
        for name in ["bank", OTHER] {
            if self.world.resource(name).is_some() != self.declared.contains_key(name) {
                wrong.push(format!("{name} is there, or is not"));
            }
        }
        let inventories = if self.corrects { self.world.inventories() } else { State::new() };
        for (key, object) in &inventories {
            let entries = object["spec"]["entries"].as_array().into_iter().flatten();
            // What is settled may be gone, or another's.
            let kept = entries
                .filter(|entry| !entry["state"].as_str().is_some_and(|state| state.contains("settled")));
            // Of what is wanted only where there is none, another's may be there.
            let kept = kept.filter(|entry| {
                let is_absent = entry["object"].as_str().is_some_and(|object| object.ends_with("/absent"));
                !(is_absent && entry["state"] == "intended")
            });
            for entry in kept.filter(|entry| entry["identity"] != "the live object's") {
                wrong.push(format!("{key}: {entry}"));
            }
        }
        wrong
    }

    /// It may not join an object whose marks another has lost, and leaves so.
    fn is_unproved(&self, name: &str) -> bool {
        self.says(name, "NotOurs") || self.says(name, "OwnedByOtherHub")
    }

    /// One of its targets says this; ObjectsMissing: what is only reported is gone.
    fn says(&self, name: &str, said: &str) -> bool {
        let status = self.world.resource(name).unwrap_or_default()["status"].clone();
        let mut reasons =
            status["clusters"].as_array().into_iter().flatten().map(|cluster| &cluster["reason"]);
        reasons.any(|reason| reason == said)
    }

    /// Nobody is told when another VidraResource has put its marks on what they share; and a repair waits because of contention.
    pub(super) async fn ask_again(&self) {
        for name in self.declared.keys() {
            if self.is_unproved(name) || self.says(name, CONTENTION) {
                self.world.ask_for_a_look("hub", name).await;
            }
        }
    }

    /// Somebody asks for a look at all that is declared.
    pub(super) async fn ask_for_a_look(&self) {
        for name in self.declared.keys() {
            self.world.ask_for_a_look("hub", name).await;
        }
    }

    /// All is as declared, and what it still tells of is contention that is not over before that has lasted for a while.
    fn tells_a_fight_alone(&self, name: &str) -> bool {
        self.world.has_condition(name, "Ready", "True", "")
            && self.world.has_condition(name, "Stalled", "True", CONTENTION)
    }

    /// Contention is told until its object has been as declared for a while: that is written then, and not later. It may have been
    /// repaired only now, for the hub leaves it alone between two repairs.
    async fn sit_fights_out(&self) -> Result<(), String> {
        let told = || {
            let of = |plural| self.world.clusters.hub.objects(vidra_api::GROUP, plural);
            let mut objects = ["vidratargets", "vidraresources"].into_iter().flat_map(of);
            let tells = |one: &Value| {
                let mut all = one["status"]["conditions"].as_array().into_iter().flatten();
                all.any(|condition| condition["reason"] == CONTENTION)
            };
            objects.find(tells)
        };
        let began = Instant::now();
        while let Some(of) = told() {
            if began.elapsed() > WINDOW + STIRS_WITHIN {
                let (name, status) = (&of["metadata"]["name"], &of["status"]);
                return Err(format!(
                    "{name} still tells of contention, though all is as declared for {WINDOW:?}: {status}"
                ));
            }
            sleep(STIRS_WITHIN).await;
        }
        self.world.settle().await;
        Ok(())
    }

    /// Values that changed all the time are told to be old until they have rested for a while: that is written then, and
    /// not later.
    async fn sit_old_values_out(&self) -> Result<(), String> {
        let told = || {
            let mut targets = self.world.clusters.hub.objects(vidra_api::GROUP, "vidratargets").into_iter();
            targets.find(|one| one["status"]["state"] == "Ready" && one["status"]["feedbackAt"].is_string())
        };
        let began = Instant::now();
        while let Some(of) = told() {
            if began.elapsed() > VALUES_REST_WITHIN + STIRS_WITHIN {
                let (name, status) = (&of["metadata"]["name"], &of["status"]);
                return Err(format!("{name} still tells values as old that have rested: {status}"));
            }
            sleep(STIRS_WITHIN).await;
        }
        self.world.settle().await;
        Ok(())
    }

    /// Waits until all is as declared or is left as it is; then until all is as declared, and stays so without a
    /// write. The error says what is not.
    pub(super) async fn mend(&mut self) -> Result<(), String> {
        self.come_to_rest().await?;
        self.tell("at rest");
        self.correct().await;
        self.corrects = true;
        self.come_to_rest().await?;
        self.sit_fights_out().await?;
        self.sit_old_values_out().await?;
        self.tell("mended");
        self.world.arm(&[]);
        let before = self.world.state();
        sleep(self.world.shape.interval * 2).await;
        self.still("after two intervals in which nothing happened")?;
        // A retry that was due brings one look, and no write.
        let counts = |seen: &Seen| !seen.is_idle() && seen.is_write() && !seen.ends_a_revision();
        let writes: Vec<_> = self.world.observer.traced(counts).iter().map(ToString::to_string).collect();
        if writes.is_empty() {
            return self.differs_from_fresh().await;
        }
        let changes = differences(&before, &self.world.state());
        Err(format!("it goes on writing:\n{}\n{changes}", writes.join("\n")))
    }

    /// Waits until nothing is left to do, and targets tell what is so.
    async fn come_to_rest(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            self.roll_out(true).await;
            let differs = self.differs();
            if differs.is_empty() {
                self.world.settle().await;
                if self.differs().is_empty() {
                    break;
                }
            }
            if began.elapsed() > MENDS_WITHIN {
                return Err(format!("not mended after {MENDS_WITHIN:?}:\n{}", differs.join("\n")));
            }
            self.come_back().await;
            self.drop_what_was_written_behind().await;
            // The hub finds again what it can prove.
            self.clear_the_way(began.elapsed() > FINDS_WITHIN).await;
            self.describe_members().await;
            self.approve_what_is_held().await;
            self.let_missing_go().await;
            self.confirm_what_is_held().await;
            self.ask_again().await;
            sleep(Duration::from_secs(2)).await;
        }
        let misreports = self.world.observer.misreports();
        if misreports.is_empty() { Ok(()) } else { Err(misreports.join("\n")) }
    }

    fn still(&self, when: &str) -> Result<(), String> {
        let differs = self.differs();
        if differs.is_empty() { Ok(()) } else { Err(format!("{when}:\n{}", differs.join("\n"))) }
    }
}
