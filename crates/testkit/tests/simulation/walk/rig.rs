//! A rig: a VidraResource whose objects are of kinds that only conditions and health rules tell of, in waves. Somebody writes
//! their statuses, well or not; people change what it declares, its own health rules, the fleet's, and what they ask back.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::sim::{
    World,
    health::{BROKEN, FLEET, GROUP, OWN, RULES, RULES_LAG, Word, Words},
    judge::feedback::{BROKEN_VALUE, SEAL},
    observer::CLEARS_WITHIN,
    world::{HUB_NAMESPACE, TARGET_NAMESPACE, config_map, config_maps},
};
use tokio::time::{Instant, sleep};

use super::{
    Walk,
    model::{Docs, UNIQUE, VALUES, asking, declaring, manifest},
    pick,
};

/// The VidraResource.
pub(super) const RIG: &str = "rig";
/// What it may declare, in the order of its waves: 0, 0, 1, 1, 2, 2, 2, 3.
pub(super) const SLOTS: [&str; 8] = ["port", "seal", "gadget", "widget", "second", "third", "late", "last"];
/// Plural and kind of what somebody serves.
const KINDS: [(&str, &str); 2] = [("gadgets", "Gadget"), ("widgets", "Widget")];

/// What is declared is delivered, and what it says is heard, within this.
const DELIVERS_WITHIN: Duration = Duration::from_secs(45);
/// All is judged by changed rules within this.
const JUDGES_WITHIN: Duration = Duration::from_secs(60);
/// What waits for nothing is delivered within this.
const GOES_WITHIN: Duration = Duration::from_secs(20);

/// Is there a rig in the walk of this seed? In half of them.
pub(super) fn is_with_rig(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Makes its kinds in all members.
pub(super) async fn found(world: &World) {
    for &member in world.members() {
        for (plural, kind) in KINDS {
            let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let mut status = open.clone();
            status["properties"] = json!({"conditions": {"type": "array", "items": open}});
            let schema = json!({"type": "object", "properties": {"spec": open, "status": status}});
            let subresources = if kind == "Gadget" { json!({"status": {}}) } else { json!({}) };
            let crd = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{GROUP}")},
                "spec": {"group": GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                    "versions": [{"name": "v1", "served": true, "storage": true, "subresources": subresources,
                        "schema": {"openAPIV3Schema": schema}}]},
            });
            world.create(member, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
        }
    }
}

/// What it declares at first, and the VidraResource that does. What it declares has no status yet.
pub(super) fn made() -> (Docs, Value) {
    let docs =
        SLOTS.into_iter().filter(|slot| !matches!(*slot, "second" | "third")).map(|slot| (slot, "one"));
    let docs: Docs = docs.collect();
    let mut made = declaring(RIG, &docs);
    made["spec"]["statusFeedback"] = feedback();
    (docs, made)
}

/// The object of a slot of its own; `None`: it is none.
pub(super) fn object(slot: &str, value: &str) -> Option<Value> {
    let of = |kind: &str, name: &str, wave: &str| {
        Some(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind, "spec": {"title": value},
            "metadata": {"name": name, "annotations": {"vidra.dev/wave": wave}},
        }))
    };
    match slot {
        "port" => Some(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "rig-port"},
            "spec": {"selector": {"app": value}, "ports": [{"port": 80}]},
        })),
        "seal" => Some(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rig-seal"},
            "data": {"seal": k8s_openapi::ByteString(SEAL.into())},
        })),
        "gadget" => of("Gadget", "one", "1"),
        "widget" => of("Widget", "plain", "1"),
        "second" => of("Gadget", "two", "2"),
        "third" => of("Gadget", "three", "2"),
        "late" => Some(asking("rig-late", value, json!({"vidra.dev/wave": "2"}))),
        "last" => Some(asking("rig-last", value, json!({"vidra.dev/wave": "3"}))),
        _ => None,
    }
}

/// What people ask back.
fn feedback() -> Value {
    let value = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    let values = [value("mode", "status.mode"), value("load", "status.load"), value("title", "spec.title")];
    json!([
        {"apiVersion": "v1", "kind": "Service"},
        {"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "values": values},
    ])
}

/// A list with one rule: for the kind, its group, or its family.
fn rule(wide: u8, (current, failed): (&str, &str)) -> Value {
    let mut rule = json!({"apiVersion": format!("{GROUP}/v1"), "current": current, "failed": failed});
    match wide {
        0 => rule["kind"] = json!("Gadget"),
        1 => {}
        _ => rule["apiVersion"] = json!("*.test"),
    }
    json!([rule])
}

fn path_to(live: &Value) -> String {
    let kind = KINDS.iter().find(|(_, kind)| live["kind"] == *kind).map_or("", |(plural, _)| plural);
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    format!("/apis/{GROUP}/v1/namespaces/{TARGET_NAMESPACE}/{kind}/{name}")
}

/// Writes the status of each object of these kinds in a member, as `words` has it for it; `None`: it stays.
async fn write(world: &World, member: &str, mut words: impl FnMut(&Value) -> Option<(Words, bool)>) {
    for (plural, kind) in KINDS {
        for live in world.cluster(member).objects(GROUP, plural) {
            let Some((words, is_newest)) = words(&live) else { continue };
            let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
            // Only this one tells of a generation.
            let observed = (live["metadata"]["name"] == "one").then_some(generation - i64::from(!is_newest));
            let to = if kind == "Gadget" { "/status" } else { "" };
            let status = json!({"status": words.status(observed)});
            let same = testkit::sim::doc::holds(&status["status"], &live["status"]);
            if !same {
                world.try_patch(member, &format!("{}{to}", path_to(&live)), status).await;
            }
        }
    }
}

/// All of them are well from now on, whoever asks.
pub(super) async fn run_well(world: &World) {
    for &member in world.members() {
        write(world, member, |_| Some((Words::WELL, true))).await;
    }
}

fn draw(chance: &mut fastrand::Rng) -> Word {
    pick(chance, &[Word::Well, Word::Well, Word::Well, Word::Late, Word::Failed, Word::Silent])
}

impl Walk {
    /// Before a step something may happen to the rig, or to those who tell of it.
    pub(super) async fn work_rig(&mut self, mut chance: fastrand::Rng) {
        if !self.declared.contains_key(RIG) || chance.bool() {
            return;
        }
        let (what, member) = (chance.u8(..16), pick(&mut chance, self.world.members()));
        self.tell(&format!("rig {what}: {member}"));
        match what {
            0..=3 => self.run_rig(&mut chance).await,
            4..=6 => self.edit_rig(&mut chance).await,
            7 | 8 => self.rule_rig(&mut chance).await,
            9 => self.weigh(&mut chance).await,
            10 | 11 => self.rule_fleet(&mut chance).await,
            12 => self.ask_back(&mut chance).await,
            13 => self.load(member).await,
            14 => self.damage(member, &mut chance).await,
            _ => self.turn(member, &mut chance).await,
        }
    }

    /// Somebody tells how half of the objects are.
    async fn run_rig(&mut self, chance: &mut fastrand::Rng) {
        for &member in self.world.members() {
            let words = |live: &Value| {
                let words = Words { conditions: draw(chance), own: draw(chance), fleet: draw(chance) };
                let is_meant = chance.bool() && live["metadata"]["name"] != "three";
                is_meant.then_some((words, chance.u8(..6) > 0))
            };
            write(&self.world, member, words).await;
        }
    }

    /// It declares something else: mostly something that others wait for, and something that waits.
    async fn edit_rig(&mut self, chance: &mut fastrand::Rng) {
        if chance.bool() {
            run_well(&self.world).await;
        }
        let Some(docs) = self.declared.get_mut(RIG) else { return };
        for (slot, often) in
            [("gadget", 2), ("widget", 4), ("late", 2), ("last", 3), ("second", 4), ("port", 6)]
        {
            if chance.u8(..often) > 0 {
                continue;
            }
            let value =
                if chance.bool() { pick(chance, &VALUES) } else { &UNIQUE[chance.usize(..UNIQUE.len())] };
            if slot != "second" || docs.remove(slot).is_none() {
                docs.insert(slot, value);
            }
        }
        self.declare_rig().await;
        if chance.u8(..3) == 0 {
            self.restart(Duration::ZERO).await;
        }
    }

    async fn declare_rig(&self) {
        let Some(docs) = self.declared.get(RIG) else { return };
        self.tell(&format!("rig declares {docs:?}"));
        self.patch_resource(RIG, json!({"manifest": manifest(docs)})).await;
    }

    /// It has a health rule of its own, another one, one that cannot be read, or none.
    async fn rule_rig(&mut self, chance: &mut fastrand::Rng) {
        let form = chance.usize(..OWN.len());
        let rules = match chance.u8(..8) {
            0 | 1 => Value::Null,
            2 => rule(0, (BROKEN, OWN[0].1)),
            3 => rule(1, OWN[0]),
            // Of two alike the first counts.
            4 => json!([rule(0, OWN[form])[0], rule(0, OWN[0])[0]]),
            _ => rule(0, OWN[form]),
        };
        self.tell(&format!("rig's rules: {rules}"));
        self.patch_resource(RIG, json!({"healthCheckExprs": rules})).await;
    }

    /// The fleet has one.
    async fn rule_fleet(&mut self, chance: &mut fastrand::Rng) {
        let form = chance.usize(..FLEET.len());
        match chance.u8(..8) {
            0 | 1 => self.drop_fleet_rules().await,
            2 => self.put_fleet_rules(rule(0, (BROKEN, FLEET[0].1))).await,
            3 => self.put_fleet_rules(rule(1, FLEET[0])).await,
            4 => self.put_fleet_rules(rule(2, FLEET[0])).await,
            _ => self.put_fleet_rules(rule(0, FLEET[form])).await,
        }
    }

    async fn put_fleet_rules(&self, rules: Value) {
        self.tell(&format!("the fleet's rules: {rules}"));
        let made = json!({
            "metadata": {"name": RULES, "labels": {"vidra.dev/health-rules": "true"}},
            "data": {"rules": rules.to_string()},
        });
        if !self.world.try_create("hub", &config_maps(HUB_NAMESPACE), made.clone()).await {
            self.world.try_patch("hub", &format!("{}/{RULES}", config_maps(HUB_NAMESPACE)), made).await;
        }
    }

    async fn drop_fleet_rules(&self) {
        self.world.try_delete("hub", &format!("{}/{RULES}", config_maps(HUB_NAMESPACE))).await;
    }

    /// By its own rule alone an object does not work, whoever else would say that it does; perhaps nobody can read that rule any
    /// more. Something new waits for it.
    async fn weigh(&mut self, chance: &mut fastrand::Rng) {
        let own = pick(chance, &OWN);
        self.patch_resource(RIG, json!({"healthCheckExprs": rule(0, own)})).await;
        match chance.bool() {
            true => self.put_fleet_rules(rule(0, FLEET[0])).await,
            false => self.drop_fleet_rules().await,
        }
        run_well(&self.world).await;
        // From then on sight is clear, and no other rule counts.
        sleep(CLEARS_WITHIN + RULES_LAG).await;
        let says = Words {
            own: pick(chance, &[Word::Late, Word::Failed, Word::Silent, Word::Silent]),
            ..Words::WELL
        };
        let of = |live: &Value| if live["metadata"]["name"] == "one" { says } else { Words::WELL };
        for &member in self.world.members() {
            write(&self.world, member, |live| Some((of(live), true))).await;
        }
        sleep(Duration::from_secs(2)).await;
        if chance.u8(..3) == 0 {
            self.patch_resource(RIG, json!({"healthCheckExprs": rule(0, (BROKEN, own.1))})).await;
            sleep(Duration::from_secs(1)).await;
        }
        if let Some(docs) = self.declared.get_mut(RIG) {
            docs.insert("late", &UNIQUE[chance.usize(..UNIQUE.len())]);
        }
        self.declare_rig().await;
        sleep(Duration::from_secs(chance.u64(2..15))).await;
    }

    /// People ask back something else.
    async fn ask_back(&mut self, chance: &mut fastrand::Rng) {
        let mut rules = feedback();
        match chance.u8(..6) {
            0 => rules = Value::Null,
            1 => rules[1]["values"][0]["expression"] = json!(BROKEN_VALUE),
            2 => rules = json!([{"apiVersion": "v1", "kind": "Service", "name": "nobody"}]),
            3 => rules = json!([rules[1]]),
            _ => {}
        }
        self.patch_resource(RIG, json!({"statusFeedback": rules})).await;
    }

    /// Values of an object change faster than they are written.
    async fn load(&mut self, member: &str) {
        self.patch_resource(RIG, json!({"statusFeedback": feedback()})).await;
        sleep(Duration::from_secs(2)).await;
        let path = format!("/apis/{GROUP}/v1/namespaces/{TARGET_NAMESPACE}/gadgets/one/status");
        for load in 0..5 {
            self.world.try_patch(member, &path, json!({"status": {"load": load}})).await;
            sleep(Duration::from_millis(1500)).await;
        }
    }

    /// Somebody deletes or changes an object in a member.
    async fn damage(&mut self, member: &str, chance: &mut fastrand::Rng) {
        let (plural, name) = pick(chance, &[("gadgets", "one"), ("gadgets", "two"), ("widgets", "plain")]);
        let path = format!("/apis/{GROUP}/v1/namespaces/{TARGET_NAMESPACE}/{plural}/{name}");
        match chance.u8(..3) {
            0 => self.world.try_delete(member, &config_map("rig-late")).await,
            1 => self.world.try_delete(member, &path).await,
            _ => self.world.try_patch(member, &path, json!({"spec": {"title": "mine"}})).await,
        }
    }

    /// A change of rules alone turns the verdict about an object: what is in a later wave comes all the same.
    async fn turn(&mut self, member: &str, chance: &mut fastrand::Rng) {
        sleep(CLEARS_WITHIN).await;
        self.patch_resource(RIG, json!({"healthCheckExprs": null})).await;
        self.drop_fleet_rules().await;
        run_well(&self.world).await;
        if !self.rig_is(member, "Ready", DELIVERS_WITHIN).await {
            return;
        }
        let is_own = chance.bool();
        let words = match is_own {
            true => Words { own: Word::Late, ..Words::WELL },
            false => Words { fleet: Word::Late, ..Words::WELL },
        };
        write(&self.world, member, |_| Some((words, true))).await;
        sleep(Duration::from_secs(2)).await;
        match is_own {
            true => self.patch_resource(RIG, json!({"healthCheckExprs": rule(0, OWN[0])})).await,
            false => self.put_fleet_rules(rule(0, FLEET[0])).await,
        }
        if !self.rig_is(member, "Progressing", JUDGES_WITHIN).await {
            return;
        }
        let value = UNIQUE[chance.usize(..UNIQUE.len())].as_str();
        if let Some(docs) = self.declared.get_mut(RIG) {
            docs.insert("late", value);
        }
        self.declare_rig().await;
        sleep(GOES_WITHIN).await;
        // Behind its member after a restore it writes nothing there.
        let status = &self.world.target(RIG, member).unwrap_or_default()["status"];
        let is_behind = status["reason"] == "HubRestored";
        if !is_behind && self.world.data(member, "rig-late").is_none_or(|data| data["key"] != value) {
            let what = format!("{member}: rig-late waits for an object that works as before, by other rules");
            self.world.observer.breach_if_clear(member, GOES_WITHIN + DELIVERS_WITHIN, &what);
        }
    }

    /// Waits until its target says this; whether it does in time.
    async fn rig_is(&self, member: &str, state: &str, within: Duration) -> bool {
        let began = Instant::now();
        while self.world.target(RIG, member).unwrap_or_default()["status"]["state"] != state {
            if began.elapsed() > within {
                return false;
            }
            sleep(Duration::from_millis(500)).await;
        }
        true
    }

    /// At last the rig may declare something that never says anything, and something that waits for that: who is to tell how it
    /// is, is gone.
    pub(super) async fn abandon_rig(&mut self, mut chance: fastrand::Rng) {
        if !self.declared.contains_key(RIG) || chance.bool() {
            return;
        }
        self.tell("the rig is abandoned");
        self.patch_resource(RIG, json!({"healthCheckExprs": null})).await;
        self.drop_fleet_rules().await;
        if let Some(docs) = self.declared.get_mut(RIG) {
            docs.extend([("third", "one"), ("last", pick(&mut chance, &VALUES))]);
        }
        self.declare_rig().await;
        sleep(Duration::from_secs(1)).await;
        run_but_the_last(&self.world).await;
        if chance.bool() {
            self.restart(Duration::ZERO).await;
        }
    }

    /// What people put right of it.
    pub(super) async fn put_rig_right(&mut self) {
        if !self.declared.contains_key(RIG) {
            return;
        }
        self.patch_resource(RIG, json!({"statusFeedback": feedback()})).await;
        let resource = self.world.resource(RIG).unwrap_or_default();
        let rules = &resource["spec"]["healthCheckExprs"];
        // Two that are alike are told again at each interval.
        if rules.to_string().contains(BROKEN) || !rules[1].is_null() {
            self.patch_resource(RIG, json!({"healthCheckExprs": rule(0, OWN[0])})).await;
        }
        let fleet = self.world.object("hub", "", "configmaps", HUB_NAMESPACE, RULES).unwrap_or_default();
        if fleet.to_string().contains(BROKEN) {
            self.put_fleet_rules(rule(0, FLEET[0])).await;
        }
        self.declare_rig().await;
    }
}

/// All are well but the one that nobody runs.
async fn run_but_the_last(world: &World) {
    for &member in world.members() {
        let words = |live: &Value| (live["metadata"]["name"] != "three").then_some((Words::WELL, true));
        write(world, member, words).await;
    }
}
