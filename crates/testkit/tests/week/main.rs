//! A week of a fleet, in memory on the paused clock: members come and go, are busy, get other credentials; namespaces of
//! the hub come and go with what is declared in them; VidraResources change. At its end nothing is lost, and the process
//! holds and asks for what it did after the first day.
//!
//! `cargo xtask test` has time for two days of a small fleet; `VIDRA_WEEK=200` takes seven days of 200 members. One test in
//! this program: what others allocate beside it would be counted too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod judge;
mod plan;
mod rest;

use std::collections::BTreeMap;

use judge::Judge;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use memkube::Cluster;
use plan::{Act, DAY, MINUTE, Scale};
use rest::Rest;
use serde_json::{Value, json};
use testkit::world::{At, Who, World, in_memory_with_members};
use tokio::time::{Instant, sleep, sleep_until};

/// A fleet, and what happened to it.
struct Fleet {
    world: World,
    scale: Scale,
    judge: Judge,
    names: Vec<String>,
    began: Instant,
    /// How often each VidraResource was changed; the last one is that on all members.
    changes: Vec<usize>,
    rotations: usize,
    losses: usize,
    /// Calls to busy members.
    busy: usize,
    events: usize,
}

#[test]
fn a_week_in_which_members_come_and_go_loses_nothing_and_leaves_nothing_behind() {
    let words = tracing_subscriber::fmt().with_env_filter("testkit=info").with_test_writer();
    // What the hub says in a week would be kept by the test, and counted.
    let _ = words.try_init();
    let scale = Scale::chosen();
    let names: Vec<String> = (0..scale.members).map(|number| format!("edge-{number:03}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    in_memory_with_members(&members, async |world| {
        let mut fleet = Fleet::start(world, scale, names.clone()).await;
        let uids = fleet.uids();
        let first_day = (scale.days / 7).max(1);
        fleet.live(0, first_day).await;
        let first = fleet.rest().await;
        fleet.live(first_day, scale.days).await;
        let last = fleet.rest().await;
        fleet.tell(&first, &last);

        fleet.judge.judged();
        let now = fleet.uids();
        assert!(
            uids.iter().all(|(place, uid)| now.get(place) == Some(uid)),
            "what stayed declared is the same object"
        );
        is_alike(&first, &last);
        fleet.world.end().await;
    });
}

/// What is asked for once in an hour is asked for a tenth sooner or later, so that not all comes at once.
fn is_near(first: usize, last: usize) -> bool {
    first.abs_diff(last) * 5 <= first.max(5)
}

/// Nothing more is held and asked for than was at first.
fn is_alike(first: &Rest, last: &Rest) {
    assert_eq!((&first.writes, &last.writes), (&vec![], &vec![]), "nothing is written at rest");
    assert!(
        first.calls.keys().eq(last.calls.keys())
            && last.calls.iter().all(|(of, calls)| is_near(first.calls[of], *calls)),
        "calls in an hour: {:?}, and after the first day {:?}",
        last.calls,
        first.calls
    );
    assert_eq!(first.gauges, last.gauges);
    assert_eq!(first.entries, last.entries);
    assert_eq!(first.tasks, last.tasks);
    let grown = last.bytes as f64 / first.bytes as f64;
    assert!(grown < 1.05, "{} bytes are held, and {} were after the first day", last.bytes, first.bytes);
}

impl Fleet {
    async fn start(world: World, scale: Scale, names: Vec<String>) -> Self {
        let members: Vec<&str> = names.iter().map(String::as_str).collect();
        world.register(&members).await;
        let mut fleet = Self {
            world,
            scale,
            judge: Judge::default(),
            names,
            began: Instant::now(),
            changes: vec![0; scale.resources + 1],
            rotations: 0,
            losses: 0,
            busy: 0,
            events: 0,
        };
        for member in &fleet.names {
            let member = fleet.cluster(member);
            member.set_recording(false);
            fleet.judge.watch(&member);
        }
        for resource in 0..=scale.resources {
            fleet.deliver(resource).await;
        }
        fleet.all_is_true().await;
        sleep(MINUTE * 10).await;
        fleet.began = Instant::now();
        fleet
    }

    fn cluster(&self, name: &str) -> Cluster {
        self.world.bed().memory(name).expect("this bed is in memory")
    }

    fn member(&self, nth: usize) -> Cluster {
        self.cluster(&self.names[nth])
    }

    fn is_on_all(&self, resource: usize) -> bool {
        resource == self.scale.resources
    }

    fn members_of(&self, resource: usize) -> Vec<String> {
        match self.is_on_all(resource) {
            true => self.names.clone(),
            false => self.scale.places(resource).iter().map(|nth| self.names[*nth].clone()).collect(),
        }
    }

    /// Declares a VidraResource as it is after so many changes: one object of it stays, and one comes or goes.
    async fn deliver(&self, resource: usize) {
        let changes = self.changes[resource];
        let has_both = (resource + changes).is_multiple_of(2);
        let members = self.members_of(resource);
        let name = format!("r{resource:03}");
        let (stays, turns) = (format!("{name}-stays"), format!("{name}-turns"));
        if !has_both {
            members.iter().for_each(|member| self.judge.declare(member, &turns, false));
        }
        let value = format!("{changes:04}");
        let manifest = match has_both {
            true => config_map(&stays, &value) + &config_map(&turns, &value),
            false => config_map(&stays, &value),
        };
        let selected = match self.is_on_all(resource) {
            true => json!({"clusterSelector": {}}),
            false => json!({"clusterNames": members}),
        };
        self.world.deliver_with(&name, &manifest, json!({"targets": [selected]})).await;
        for member in &members {
            self.judge.declare(member, &stays, true);
            if has_both {
                self.judge.declare(member, &turns, true);
            }
        }
    }

    /// Lives through these days, and waits until all is as declared.
    async fn live(&mut self, from: u64, until: u64) {
        self.began = Instant::now() - DAY * from as u32;
        for (at, act) in plan::days(&self.scale, from, until) {
            sleep_until(self.began + at).await;
            self.act(act).await;
        }
        sleep_until(self.began + DAY * until as u32).await;
        // What members that were out of reach still have goes when they are met again.
        sleep(MINUTE * 20).await;
        self.all_is_true().await;
        self.forget_events().await;
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Away(nth, how) => {
                self.losses += 1;
                self.member(nth).set_down(Some(how));
            }
            Act::Back(nth) => self.member(nth).set_down(None),
            Act::Busy(nth) => self.judge.busy(&self.member(nth)),
            Act::Free(nth) => {
                self.busy += self.judge.free(&self.member(nth));
            }
            Act::Rotate(nth) => self.rotate(nth).await,
            Act::Change(resource) => self.change(resource).await,
            Act::ChangeAll => self.change(self.scale.resources).await,
            Act::Begin(nth) => self.begin(nth).await,
            Act::End(nth) => self.end(nth).await,
            Act::Hour => {
                self.cluster("hub").clear_requests();
                self.forget_events().await;
            }
        }
    }

    async fn change(&mut self, resource: usize) {
        self.changes[resource] += 1;
        self.deliver(resource).await;
    }

    async fn rotate(&mut self, nth: usize) {
        self.rotations += 1;
        // Each day another user than on the day before.
        let who = match (self.rotations / self.scale.members).is_multiple_of(2) {
            true => Who::Alice,
            false => Who::VidraHub,
        };
        let name = &self.names[nth];
        self.world.register_as(name, &self.world.kubeconfig(name, who), json!({})).await;
    }

    /// What a namespace of the hub declares: for two members that come and go, and two others.
    fn passing(&self, nth: u64) -> [(String, Vec<String>); 2] {
        let place = |step: usize| self.names[(nth as usize * 5 + step) % self.scale.members].clone();
        let flapping = |step: usize| self.names[(nth as usize + step) % self.scale.flapping].clone();
        let both = |one: String, other: String| if one == other { vec![one] } else { vec![one, other] };
        [
            (format!("passing-{nth}-a"), both(place(0), flapping(0))),
            (format!("passing-{nth}-b"), both(place(3), flapping(1))),
        ]
    }

    async fn begin(&self, nth: u64) {
        let namespace = format!("team-{nth}");
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.world.hub.create(object).await;
        for (name, members) in self.passing(nth) {
            let target = json!({"clusterNames": members, "namespace": self.world.ns});
            let resource = json!({
                "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"targets": [target], "manifest": config_map(&name, "passing")},
            });
            self.world.hub.apply(&resource, true).await.expect("the VidraResource is taken");
            members.iter().for_each(|member| self.judge.declare(member, &name, true));
        }
    }

    async fn end(&self, nth: u64) {
        for (name, members) in self.passing(nth) {
            members.iter().for_each(|member| self.judge.declare(member, &name, false));
        }
        self.world.hub.delete(&At::new("v1", "Namespace", "", &format!("team-{nth}"))).await;
    }

    /// The API server keeps Events for an hour.
    async fn forget_events(&mut self) {
        let hub = self.cluster("hub");
        let all = hub.objects("events.k8s.io", "events").len().max(hub.objects("", "events").len());
        self.events += all;
        for namespace in [self.world.ns.as_str(), self.world.settings.namespace.as_str(), "default"] {
            let events: Api<Event> = Api::namespaced(self.world.hub.client.clone(), namespace);
            let forgotten = events.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
            forgotten.expect("Events are forgotten");
        }
    }

    /// Each status says so of what is declared now, and it is so: on each member is what is declared, and nothing else.
    async fn all_is_true(&self) {
        for resource in 0..=self.scale.resources {
            self.world.ready(&format!("r{resource:03}")).await;
        }
        let hub = self.cluster("hub");
        let targets = hub.objects("vidra.dev", "vidratargets");
        let expected = self.scale.resources * 4 + self.scale.members;
        let unready: Vec<_> = targets.iter().filter(|target| target["status"]["state"] != "Ready").collect();
        assert!(
            unready.is_empty() && targets.len() == expected,
            "{} targets; not Ready: {unready:?}",
            targets.len()
        );
        for name in &self.names {
            self.world.member_says(name, "Ready", "True").await;
            self.world.member_says(name, "Reachable", "True").await;
        }
        let there = self.objects(|object| object["metadata"]["name"].clone());
        let wrong: Vec<_> = {
            let declared = self.judge.declared();
            let there = there.keys().cloned().collect();
            declared.symmetric_difference(&there).cloned().collect()
        };
        assert!(wrong.is_empty(), "declared and not there, or there and not declared: {wrong:?}");
        let values = self.objects(|object| object["data"]["key"].clone());
        for (resource, changes) in self.changes.iter().enumerate() {
            for member in self.members_of(resource) {
                let place = (member, format!("r{resource:03}-stays"));
                assert_eq!(values[&place], format!("{changes:04}"), "{place:?}");
            }
        }
    }

    /// The ConfigMaps that are delivered, by member and name.
    fn objects(&self, read: impl Fn(&Value) -> Value) -> BTreeMap<(String, String), Value> {
        let mut all = BTreeMap::new();
        for member in &self.names {
            for object in self.cluster(member).objects("", "configmaps") {
                let metadata = &object["metadata"];
                if metadata["namespace"] == self.world.ns.as_str() {
                    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
                    all.insert((member.clone(), name), read(&object));
                }
            }
        }
        all
    }

    /// The uids of what is declared all the week.
    fn uids(&self) -> BTreeMap<(String, String), Value> {
        let mut all = self.objects(|object| object["metadata"]["uid"].clone());
        all.retain(|(_, name), _| name.ends_with("-stays"));
        all
    }

    async fn rest(&self) -> Rest {
        let rest = Rest::of(&self.world).await;
        assert_eq!(rest.objects, self.judge.declared().len(), "what is recorded is what is declared");
        rest
    }

    fn tell(&self, first: &Rest, last: &Rest) {
        tracing::info!(
            target: "testkit", scale = ?self.scale, self.losses, self.rotations, changes = self.changes.iter().sum::<usize>(),
            deletions = self.judge.judged(), self.events, self.busy, "what happened"
        );
        tracing::info!(target: "testkit", ?first, "after the first day");
        tracing::info!(target: "testkit", ?last, "at the end");
    }
}

/// One document of a manifest.
fn config_map(name: &str, value: &str) -> String {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}});
    format!("---\n{object}\n")
}
