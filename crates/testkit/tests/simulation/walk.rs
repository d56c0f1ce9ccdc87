//! Random walks: a seed chooses what people do, what breaks and when the hub dies. What must hold at all
//! times is judged all the time; in the end everything mends, and the hub must bring all to what is declared
//! and then fall silent.
//!
//! `VIDRA_SIM_WALK=<seed>` runs one walk, with what happens in it and the hub's logs.

use std::{collections::BTreeMap, time::Duration};

use memkube::Down;
use serde_json::{Value, json};
use testkit::sim::{
    Shape, World,
    crash::caught,
    observer::HUB_ID,
    run,
    world::{MEMBERS, TARGET_NAMESPACE, config_map, config_maps, document, hub_path, resource},
};
use tokio::time::sleep;
use vidra_api::labels::HUB_LABEL;

use crate::scenarios::{ready, shop};

const STEPS: usize = 16;
const NAMES: [&str; 3] = ["a", "b", "d"];
const VALUES: [&str; 3] = ["one", "two", "three"];

/// What is to be in the members.
struct Declared {
    shop: BTreeMap<&'static str, &'static str>,
    in_tokyo: bool,
    bank: bool,
}

impl Declared {
    fn manifest(&self) -> String {
        self.shop.iter().map(|(name, value)| document(name, value)).collect()
    }

    /// By name; `c` belongs to the other VidraResource, which goes everywhere.
    fn objects(&self, member: &str) -> BTreeMap<String, Value> {
        let shop = self.shop.iter().filter(|_| member == "berlin" || self.in_tokyo);
        let bank = self.bank.then_some((&"c", &"one"));
        let all = shop.chain(bank);
        all.map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
    }
}

struct Walk {
    world: World,
    chance: fastrand::Rng,
    declared: Declared,
    /// Objects of names that the hub wants, made by somebody else: uid by member and name.
    squatters: BTreeMap<(&'static str, &'static str), Value>,
    told: bool,
}

impl Walk {
    async fn new(seed: u64, told: bool) -> Self {
        let world = World::new(Shape { latency: true, ..Shape::new(seed) }).await;
        let declared =
            Declared { shop: BTreeMap::from([("a", "one"), ("b", "one")]), in_tokyo: true, bank: true };
        world.create("hub", &hub_path("vidraresources"), resource("shop", &declared.manifest())).await;
        world.create("hub", &hub_path("vidraresources"), bank()).await;
        world.start_hub();
        let (chance, squatters) = (fastrand::Rng::with_seed(seed), BTreeMap::new());
        Self { world, chance, declared, squatters, told }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.chance.usize(..from.len())]
    }

    async fn step(&mut self) {
        let (member, name) = (self.pick(&MEMBERS), self.pick(&["a", "b", "c", "d"]));
        let (value, some) = (self.pick(&VALUES), Duration::from_millis(self.chance.u64(..20_000)));
        let path = config_map(name);
        let step = self.chance.u8(..26);
        self.tell(&format!("step {step}: {member} {name} {value} {some:?}"));
        match step {
            0..=3 => self.edit(value).await,
            4 | 5 => self.world.try_patch(member, &path, json!({"data": {"key": "mine"}})).await,
            6 | 7 => self.delete(member, name).await,
            8 => {
                let labels = json!({"metadata": {"labels": {HUB_LABEL: null}}});
                self.world.try_patch(member, &path, labels).await;
            }
            9 => self.deselect(!self.declared.in_tokyo).await,
            10 | 11 => {
                self.world.crash_hub().await;
                sleep(some / 10).await;
                self.world.start_hub();
            }
            12 => {
                self.world.end_hub().await;
                self.world.start_hub();
            }
            13 => {
                let how = self.pick(&[Down::Hang, Down::Refuse]);
                self.world.cluster(member).set_down(Some(how));
                sleep(some * 4).await;
                self.world.cluster(member).set_down(None);
            }
            14 => {
                let how = self.pick(&[Down::Hang, Down::Refuse]);
                self.world.clusters.hub.set_down(Some(how));
                sleep(some * 2).await;
                self.world.clusters.hub.set_down(None);
            }
            15 => {
                let cluster = self.pick_cluster();
                self.world.cluster(cluster).cut_watches();
            }
            16 => {
                let cluster = self.pick_cluster();
                self.world.cluster(cluster).compact();
                self.world.cluster(cluster).cut_watches();
            }
            17 => {
                let target = format!("{}/shop.{member}", hub_path("vidratargets"));
                self.world.try_delete("hub", &target).await;
            }
            18 => {
                let inventory = format!("{}/shop.{member}.0", hub_path("vidrainventories"));
                self.world.try_delete("hub", &inventory).await;
            }
            19 => {
                self.world.try_delete("hub", &format!("{}/bank", hub_path("vidraresources"))).await;
                self.declared.bank = false;
            }
            20 => {
                let made = self.world.try_create("hub", &hub_path("vidraresources"), bank()).await;
                self.declared.bank |= made;
            }
            21 => {
                self.squatters.retain(|(member, _), _| *member != "tokyo");
                self.world.try_delete("tokyo", &format!("/api/v1/namespaces/{TARGET_NAMESPACE}")).await;
            }
            22 => self.world.try_patch(member, &path, json!({"metadata": {"managedFields": [{}]}})).await,
            23 => {
                let suspend = self.chance.bool();
                self.world.patch("hub", &shop(), json!({"spec": {"suspend": suspend}})).await;
            }
            24 => {
                let body = json!({"metadata": {"name": name}, "data": {"whose": "theirs"}});
                // The hub would be faster.
                self.world.crash_hub().await;
                self.delete(member, name).await;
                if self.world.try_create(member, &config_maps(TARGET_NAMESPACE), body).await
                    && let Some(made) = self.live(member, name)
                {
                    self.squatters.insert((member, name), made["metadata"]["uid"].clone());
                }
                self.world.start_hub();
            }
            _ => {
                self.world.observer.noise(Some(self.chance.fork()));
                sleep(some * 2).await;
                self.world.observer.noise(None);
            }
        }
    }

    fn pick_cluster(&mut self) -> &'static str {
        self.pick(&["hub", "berlin", "tokyo"])
    }

    async fn edit(&mut self, value: &'static str) {
        let name = self.pick(&NAMES);
        if self.declared.shop.len() > 1 && self.chance.bool() {
            self.declared.shop.remove(name);
        } else {
            self.declared.shop.insert(name, value);
        }
        if self.declared.shop.is_empty() {
            self.declared.shop.insert("a", value);
        }
        self.world.patch("hub", &shop(), json!({"spec": {"manifest": self.declared.manifest()}})).await;
    }

    async fn deselect(&mut self, selected: bool) {
        self.declared.in_tokyo = selected;
        let excluded = if selected { Value::Null } else { json!(["tokyo"]) };
        self.world.patch("hub", &shop(), json!({"spec": {"excludeClusters": excluded}})).await;
    }

    #[allow(clippy::print_stdout, reason = "one walk is looked at")]
    fn tell(&self, what: &str) {
        if self.told {
            println!("=== {:?} {what}", self.world.observer.elapsed());
        }
    }

    #[allow(clippy::print_stdout, reason = "one walk is looked at")]
    fn tell_trace(&self) {
        if self.told {
            self.world.observer.whole_trace().iter().for_each(|seen| println!("{seen}"));
        }
    }

    /// What is wrong with what the members have; empty when it is as declared.
    fn differs(&self) -> String {
        let mut text = String::new();
        for member in MEMBERS {
            let objects = self.world.cluster(member).objects("", "configmaps");
            let ours = objects.iter().filter(|object| {
                let metadata = &object["metadata"];
                metadata["namespace"] == TARGET_NAMESPACE
                    && metadata["labels"][HUB_LABEL] == HUB_ID
                    && metadata["name"] != "copied"
            });
            let found: BTreeMap<String, Value> = ours
                .map(|object| {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    (name.to_owned(), object["data"]["key"].clone())
                })
                .collect();
            let wanted = self.declared.objects(member);
            if found != wanted {
                text.push_str(&format!("{member}: wanted {wanted:?}, found {found:?}\n"));
            }
        }
        if self.world.resource("bank").is_some() != self.declared.bank {
            text.push_str("the bank is there, or is not\n");
        }
        for name in ["shop", "bank"].into_iter().filter(|name| *name == "shop" || self.declared.bank) {
            if !ready(&self.world, name) {
                let status = self.world.resource(name).unwrap_or_default()["status"].clone();
                text.push_str(&format!("{name} is not ready: {status}\n"));
            }
        }
        for (key, object) in self.world.state().iter().filter(|(key, _)| key.contains("/vidrainventories/")) {
            let entries = object["spec"]["entries"].as_array().into_iter().flatten();
            for entry in entries.filter(|entry| entry["identity"] != "the live object's") {
                text.push_str(&format!("{key}: {entry}\n"));
            }
        }
        text
    }

    /// What people put right in the end. What they made themselves must be as they left it.
    async fn put_right(&mut self) {
        self.world.patch("hub", &shop(), json!({"spec": {"suspend": false}})).await;
        for ((member, name), uid) in std::mem::take(&mut self.squatters) {
            let object = self.live(member, name).unwrap_or_default();
            assert_eq!(object["metadata"]["uid"], uid, "{name} on {member} was deleted by the hub");
            assert!(!object.to_string().contains("vidra"), "a mark on what is another's: {object}");
            self.world.try_delete(member, &config_map(name)).await;
        }
    }

    fn live(&self, member: &str, name: &str) -> Option<Value> {
        self.world.object(member, "", "configmaps", TARGET_NAMESPACE, name)
    }

    async fn delete(&mut self, member: &'static str, name: &'static str) {
        self.squatters.remove(&(member, name));
        self.world.try_delete(member, &config_map(name)).await;
    }

    async fn mend(&self) {
        let began = tokio::time::Instant::now();
        while !self.differs().is_empty() {
            let passed = began.elapsed();
            assert!(passed <= Duration::from_secs(400), "not mended after {passed:?}:\n{}", self.differs());
            sleep(Duration::from_secs(1)).await;
        }
        self.tell("mended");
        self.world.settle().await;
        assert_eq!(self.differs(), "");
        self.world.arm(&[]);
        sleep(self.world.shape.interval * 2).await;
        let calls: Vec<_> = self.world.observer.trace().into_iter().filter(|seen| !seen.is_idle()).collect();
        // A retry that was due brings one look, and no write.
        let writes: Vec<_> = calls.iter().filter(|seen| seen.is_write()).map(ToString::to_string).collect();
        assert!(writes.is_empty(), "it goes on writing: {writes:#?}");
    }
}

fn bank() -> Value {
    resource("bank", &document("c", "one"))
}

/// What went wrong, if anything did.
fn walk(seed: u64, told: bool) -> Result<(), String> {
    run(seed, || async {
        let mut walk = Walk::new(seed, told).await;
        let walked = caught(async {
            for _ in 0..STEPS {
                let pause = walk.chance.u64(..4000);
                sleep(Duration::from_millis(pause)).await;
                walk.step().await;
            }
            // After an outage a watch is begun again after up to a minute; if it has expired, another.
            sleep(Duration::from_secs(150)).await;
            walk.tell("the end");
            walk.put_right().await;
            walk.mend().await;
        })
        .await;
        let mut wrong = walk.world.observer.breaches();
        wrong.extend(walked.err());
        walk.tell_trace();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    })
}

#[test]
fn random_walks_end_as_declared_and_in_silence() {
    let seeds = std::env::var("VIDRA_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20);
    let mut failures = Vec::new();
    for seed in 0..seeds {
        if let Err(wrong) = walk(seed, false) {
            failures.push(format!("VIDRA_SIM_WALK={seed}:\n{wrong}"));
        }
    }
    assert!(failures.is_empty(), "{} of {seeds} fail:\n{}", failures.len(), failures.join("\n"));
}

/// Does nothing unless `VIDRA_SIM_WALK` names a seed.
#[test]
fn one_walk() {
    let Some(seed) = std::env::var("VIDRA_SIM_WALK").ok().and_then(|seed| seed.parse().ok()) else { return };
    crate::replay::log();
    if let Err(wrong) = walk(seed, true) {
        panic!("{wrong}");
    }
}
