//! What happens in a walk.

use std::time::Duration;

use memkube::Down;
use serde_json::{Value, json};
use testkit::sim::world::{
    HUB_NAMESPACE, TARGET_NAMESPACE, hub_path, member_path, path_named, registration, secrets,
};
use testkit::sim::{judge::clouds::HUB, marks, trouble::LANDS_WITHIN};
use tokio::time::sleep;
use vidra_api::labels::HUB_LABEL;

use super::{
    Walk, bank,
    fresh::applied,
    model::{SLOTS, declaring, manifest, place},
    teams::{OTHER, OTHER_SLOTS},
};

/// Kinds of steps, by number; what comes more often has more of them.
const STEP_KINDS: u8 = 106;
/// From this on they are those that there are with another team only, up to [`MISTAKES`].
const OF_TEAMS: u8 = 93;
/// From this on they are mistakes, of which each walk has some.
const MISTAKES: u8 = 97;

/// Kinds that came later, by number from [`STEP_KINDS`] on. They take the place of some steps, as a source of their own has it: so
/// nearly all other steps of a seed stay what they were when one is added.
const LATER_KINDS: u8 = 18;
/// From this on somebody names what is not there, or is another's.
const STRANGERS: u8 = STEP_KINDS + 6;
/// From this on something goes on for a while.
const LASTING: u8 = STRANGERS + 6;
/// The hub's API goes back under the hub.
const UNDER_THE_HUB: u8 = LASTING + 5;

/// All kinds that there are with another team, or without one.
pub(super) fn kinds(others: bool) -> impl Iterator<Item = u8> {
    (0..STEP_KINDS).filter(move |kind| others || !(OF_TEAMS..MISTAKES).contains(kind))
}

/// A quarter of these, and always the edit.
pub(super) fn mix(chance: &mut fastrand::Rng, others: bool) -> Vec<u8> {
    kinds(others).filter(|kind| *kind < 2 || chance.u8(..4) == 0).collect()
}

/// Of those that came later, all, or a quarter where the walk has `some` kinds.
pub(super) fn later(seed: u64, some: bool) -> Vec<u8> {
    let mut chance = fastrand::Rng::with_seed(!seed);
    (STEP_KINDS..STEP_KINDS + LATER_KINDS).filter(|_| !some || chance.u8(..4) == 0).collect()
}

/// A member that is well is as declared, or says why not, within this after something was changed there, however another is.
pub(super) const AWAKES_WITHIN: Duration = Duration::from_secs(30);

impl Walk {
    pub(super) async fn step(&mut self) {
        let later = self.later_kind();
        let (member, slot) = (self.pick_member(), self.some_slot());
        let (path, tampered) = place(slot);
        let some = Duration::from_millis(self.chance.u64(..20_000));
        let step = self.mix[self.chance.usize(..self.mix.len())];
        let step = later.unwrap_or(step);
        marks::note(format!("step:{step}"));
        self.tell(&format!("step {step}: {member} {slot} {some:?}"));
        match step {
            0..=4 => self.edit().await,
            5 | 6 => self.world.try_patch(member, &path, tampered).await,
            7 => self.world.try_delete(member, &path).await,
            8 => {
                let labels = self.of_labels();
                self.world.try_patch(member, &path, labels).await;
            }
            9 | 10 => self.select().await,
            11 | 12 => self.restart(some).await,
            13 => {
                let cluster = self.pick_cluster();
                self.outage(cluster, some).await;
            }
            14 | 15 => self.lose_watches(member, &path, tampered).await,
            16 => {
                let target = format!("{}.{member}", self.some_shop());
                self.world.try_delete("hub", &path_named("vidratargets", &target)).await;
            }
            17 => {
                let inventory = format!("{}.{member}.0", self.some_shop());
                self.world.try_delete("hub", &path_named("vidrainventories", &inventory)).await;
            }
            18 | 19 => self.come_or_go().await,
            20 => self.world.try_delete("tokyo", &format!("/api/v1/namespaces/{TARGET_NAMESPACE}")).await,
            21 => {
                self.world.try_patch(member, &path, json!({"metadata": {"managedFields": [{}]}})).await;
                self.note_unproved(member);
            }
            22 | 23 => {
                let suspend = self.chance.bool();
                self.change_resource(json!({"suspend": suspend})).await;
            }
            24 => self.squat(member).await,
            25 => {
                let policy = self.pick(&["Delete", "Orphan"]);
                self.change_resource(json!({"deletionPolicy": policy})).await;
            }
            26 => self.rotate(member).await,
            27 => self.lose_registration(member, some).await,
            28 => self.leave(member, some).await,
            29 => {
                let suspend = self.chance.bool();
                self.world
                    .try_patch("hub", &member_path(member), json!({"spec": {"suspend": suspend}}))
                    .await;
            }
            30 => self.two_hubs(some).await,
            38 | 39 => self.restore(member).await,
            36 | 37 => {
                self.world.observer.cloud(HUB, some);
                self.world.observer.lose_events(Some(self.chance.fork()));
                self.edit().await;
                self.world.try_patch(member, &path, tampered).await;
                sleep(some).await;
                self.world.observer.lose_events(None);
                self.world.observer.enlighten();
            }
            40..60 => self.wish(step - 40, member, &path, some).await,
            60..70 => self.leave_alone(step - 60, member, &path, some).await,
            70 | 71 => self.land_later(member, some).await,
            72..78 => self.hinder(step - 72, member, &path, some).await,
            78..84 => self.unsettle(step - 78, member, some).await,
            84..88 => self.remove_much(step - 84, member, some).await,
            88..91 => self.stand_between(step - 88, member, some).await,
            91..OF_TEAMS => self.go_back(step - 91, some).await,
            OF_TEAMS..MISTAKES => self.deal(step - OF_TEAMS, member, some).await,
            MISTAKES..STEP_KINDS => self.err(step - MISTAKES, member, some).await,
            STEP_KINDS..STRANGERS => self.refuse(step - STEP_KINDS, member, some).await,
            STRANGERS..LASTING => self.mistake(step - STRANGERS, member, some).await,
            UNDER_THE_HUB => self.hub_api_restored_while_running(some).await,
            LASTING.. => self.last(step - LASTING, member, some).await,
            31 | 32 => {
                self.world.observer.strikes(Some(self.chance.fork()));
                self.edit().await;
                sleep(some / 4).await;
                self.world.observer.strikes(None);
            }
            _ => {
                self.world.observer.cloud(HUB, some * 2);
                self.world.observer.noise(Some(self.chance.fork()));
                if self.chance.bool() {
                    self.world.crash_hub().await;
                    self.world.start_hub();
                }
                self.edit().await;
                sleep(some * 2).await;
                self.world.observer.noise(None);
            }
        }
    }

    /// Is this step one of those that came later? Drawn beside its own chance, as often as there are such among all.
    fn later_kind(&self) -> Option<u8> {
        let mut beside = fastrand::Rng::with_seed(!self.chance.get_seed());
        let at = beside.usize(..self.mix.len() + self.later.len());
        at.checked_sub(self.mix.len()).map(|at| self.later[at])
    }

    /// One that is declared, mostly.
    pub(super) fn some_slot(&mut self) -> &'static str {
        if self.others && self.chance.u8(..6) == 0 {
            return self.pick(&OTHER_SLOTS);
        }
        let shop: Vec<_> = self.declared["shop"].keys().copied().collect();
        match self.chance.u8(..8) {
            0 => self.pick(&["e", "g"]),
            1 | 2 => self.pick(&SLOTS),
            _ if shop.is_empty() => "a",
            _ => self.pick(&shop),
        }
    }

    fn pick_cluster(&mut self) -> &'static str {
        if self.chance.u8(..3) == 0 { "hub" } else { self.pick_member() }
    }

    pub(super) async fn edit(&mut self) {
        if self.others && self.chance.u8(..3) == 0 {
            return self.edit_other().await;
        }
        let (slot, value) = (self.pick(&SLOTS), self.value());
        let in_bank = self.chance.u8(..4) == 0 && self.declared.contains_key("bank");
        let name = if in_bank { "bank" } else { "shop" };
        // Of the bank, only what it has in common with the shop.
        let slot = if in_bank { "s" } else { slot };
        let removes = self.chance.u8(..3) == 0;
        let Some(docs) = self.declared.get_mut(name) else { return };
        if removes && docs.len() > 1 {
            docs.remove(slot);
        } else {
            docs.insert(slot, value);
        }
        if docs.is_empty() {
            docs.insert("a", value);
        }
        let text = manifest(docs);
        self.tell(&format!("{name} declares {:?}", self.declared[name]));
        self.patch_resource(name, json!({"manifest": text})).await;
    }

    pub(super) async fn change_resource(&mut self, spec: Value) {
        let name = match self.others {
            true => self.pick(&["shop", "shop", "bank", OTHER]),
            false => self.pick(&["shop", "shop", "bank"]),
        };
        self.patch_resource(name, spec).await;
    }

    pub(super) async fn patch_resource(&self, name: &str, spec: Value) {
        let path = path_named("vidraresources", name);
        self.world.try_patch("hub", &path, json!({"spec": spec})).await;
    }

    pub(super) fn of_labels(&mut self) -> Value {
        match self.chance.u8(..4) {
            0 | 1 => json!({"metadata": {"labels": {HUB_LABEL: null}}}),
            2 => json!({"metadata": {"labels": {HUB_LABEL: "another"}, "annotations": {"note": "mine"}}}),
            _ => json!({"metadata": {"labels": {"mine": "mine"}}}),
        }
    }

    /// Some writes land late: after the life that made them, or after what undoes them.
    async fn land_later(&mut self, member: &'static str, some: Duration) {
        self.world.observer.cloud(HUB, some + LANDS_WITHIN);
        self.world.observer.land_later(Some(self.chance.fork()));
        self.edit().await;
        match self.chance.u8(..4) {
            0 => self.come_or_go().await,
            1 => self.select().await,
            2 => self.world.try_delete(member, &place("a").0).await,
            _ => {
                sleep(some / 4).await;
                self.world.crash_hub().await;
                self.world.start_hub();
            }
        }
        sleep(some).await;
        self.world.observer.land_later(None);
    }

    /// Whom the shop is for: by exclusion, by name, by label; or a member's labels change.
    pub(super) async fn select(&mut self) {
        let entry = |selector: Value| {
            let mut entry = selector;
            entry["namespace"] = json!(TARGET_NAMESPACE);
            json!([entry])
        };
        let by_label = json!({"clusterSelector": {"matchLabels": {"pool": "on"}}});
        match self.chance.u8(..6) {
            0 => self.patch_resource("shop", json!({"excludeClusters": ["tokyo"]})).await,
            1 => self.patch_resource("shop", json!({"excludeClusters": null})).await,
            2 => self.patch_resource("shop", json!({"targets": entry(json!({"clusterSelector": {}}))})).await,
            3 => {
                let names = json!({"clusterNames": ["berlin"]});
                self.patch_resource("shop", json!({"targets": entry(names)})).await;
            }
            4 => self.patch_resource("shop", json!({"targets": entry(by_label)})).await,
            _ => {
                let member = self.pick_member();
                let pool = if self.chance.bool() { json!("on") } else { Value::Null };
                let labels = json!({"metadata": {"labels": {"pool": pool}}});
                self.world.try_patch("hub", &member_path(member), labels).await;
            }
        }
    }

    pub(super) async fn restart(&mut self, some: Duration) {
        if self.chance.bool() {
            self.world.end_hub().await;
        } else {
            self.world.crash_hub().await;
            sleep(some / 10).await;
        }
        self.world.start_hub();
    }

    async fn outage(&mut self, cluster: &'static str, some: Duration) {
        let how = self.pick(&[Down::Hang, Down::Refuse]);
        self.world.observer.cloud(cluster, some * 3);
        self.world.cluster(cluster).set_down(Some(how));
        let (other, (path, tampered)) = (self.pick_member(), place(self.some_slot()));
        if cluster != HUB && other != cluster {
            self.world.try_patch(other, &path, tampered).await;
        }
        sleep(some * 3).await;
        if cluster != HUB && other != cluster && some * 3 > AWAKES_WITHIN {
            self.world.observer.judge_core(other, AWAKES_WITHIN);
        }
        self.world.cluster(cluster).set_down(None);
    }

    /// Before they are begun again, something happens, and the history may be gone.
    async fn lose_watches(&mut self, member: &'static str, path: &str, tampered: Value) {
        let cluster = self.pick(&["hub", member]);
        self.world.observer.cloud(cluster, Duration::ZERO);
        self.world.cluster(cluster).cut_watches();
        sleep(Duration::from_millis(20)).await;
        self.world.try_patch(member, path, tampered).await;
        if self.chance.bool() {
            self.world.cluster(cluster).compact();
        }
    }

    /// A member is put back to what it was. The hub's watches go on from revisions that are not there yet, and
    /// show nothing: a list has to bring the truth.
    pub(super) async fn restore(&mut self, member: &'static str) {
        let now = self.world.cluster(member).backup();
        let Some(before) = self.backups.insert(member, now) else { return };
        self.tell("restored");
        self.restored = true;
        self.world.observer.excuse_unknown(member);
        self.world.observer.cloud(member, Duration::ZERO);
        let had = applied(&self.world, member);
        self.world.observer.restore(member, &before);
        self.note_returned(member, &had);
        sleep(Duration::from_secs(2)).await;
        self.world.observer.enlighten();
    }

    /// The bank is deleted, or made again; or what the other team has.
    pub(super) async fn come_or_go(&mut self) {
        if self.others && self.chance.bool() {
            return self.other_comes_or_goes().await;
        }
        if self.declared.remove("bank").is_some() {
            self.world.try_delete("hub", &format!("{}/bank", hub_path("vidraresources"))).await;
        } else if self.world.try_create("hub", &hub_path("vidraresources"), declaring("bank", &bank())).await
        {
            self.declared.insert("bank", bank());
        }
    }

    /// Other credentials, as good as the ones before.
    async fn rotate(&mut self, member: &'static str) {
        let context = self.pick(&["one", "another"]);
        let data = registration(member, context)["data"].clone();
        self.world.try_patch("hub", &secret(member), json!({"data": data})).await;
    }

    async fn lose_registration(&mut self, member: &'static str, some: Duration) {
        self.world.observer.cloud(member, some);
        self.world.try_delete("hub", &secret(member)).await;
        sleep(some).await;
        self.register(member).await;
    }

    pub(super) async fn register(&self, member: &str) {
        self.world.try_create("hub", &secrets(HUB_NAMESPACE), registration(member, "it")).await;
    }

    /// The member leaves the fleet, and comes back.
    async fn leave(&mut self, member: &'static str, some: Duration) {
        let policy = self.pick(&["Orphan", "Delete"]);
        self.world.observer.cloud(member, some);
        self.world.try_patch("hub", &member_path(member), json!({"spec": {"onLeave": policy}})).await;
        self.world.try_delete("hub", &member_path(member)).await;
        sleep(some).await;
        self.world.try_delete("hub", &secret(member)).await;
        self.register(member).await;
    }

    /// A second hub is started, and the first is cut off from the clusters or dies.
    async fn two_hubs(&mut self, some: Duration) {
        if !self.world.shape.lease {
            return;
        }
        self.world.observer.cloud(HUB, some * 2);
        self.world.start_rival();
        self.make_work().await;
        sleep(some / 2).await;
        if self.chance.bool() {
            self.world.observer.sever(self.world.hub_user());
            self.make_work().await;
            sleep(some * 2).await;
            self.world.observer.sever(None);
            self.make_work().await;
            sleep(some / 2).await;
        }
        self.make_work().await;
        self.world.crash_first_of_two().await;
    }

    /// Something to deliver, to prune or to repair.
    async fn make_work(&mut self) {
        let (member, slot) = (self.pick_member(), self.some_slot());
        let (path, tampered) = place(slot);
        match self.chance.u8(..3) {
            0 => self.world.try_patch(member, &path, tampered).await,
            1 => self.world.try_delete(member, &path).await,
            _ => self.edit().await,
        }
    }
}

pub(super) fn secret(member: &str) -> String {
    format!("{}/{member}", secrets(HUB_NAMESPACE))
}
