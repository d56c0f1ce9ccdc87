//! The health rules that hold for all members: the fleet's, from ConfigMaps of the hub's namespace, and those that the hub
//! ships; and the watch of these ConfigMaps.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{Client, Resource, ResourceExt, api::ListParams};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, futures::Notified, watch};
use vidra_api::{
    labels::{HEALTH_RULES, HUB_LABEL},
    names::HubId,
};
use vidra_core::{
    health::{
        fleet::{Fault, Fleet},
        library,
        rule::Scope,
        rules::RuleSet,
    },
    mutants::{self, Mutant},
};

use super::refusal::Refusal;
use crate::{
    base::{
        env::Rng,
        supervise::{Halt, Stop},
    },
    wire::{
        self, Wire,
        follow::{Object, WatchEvent},
    },
};

/// Most reads at a time that wait behind all other work, of all members together: kinds whose rules have changed, Pods of
/// workloads that have failed.
const LISTS: usize = 2;
/// Objects in a page: each may be as large as an object of the API server.
const PAGE: u32 = 10;
/// What turns within this time of the first is told together.
const TOGETHER: Duration = Duration::from_secs(10);

/// What holds now. Reading it is cheap.
#[derive(Debug)]
pub struct HealthRules {
    now: Mutex<Arc<RuleSet>>,
    /// Wakes in the order in which they wait, which that of a channel is not.
    changes: Notify,
    read: Mutex<Read>,
    lists: Arc<Semaphore>,
    turned: AtomicU64,
    /// Counts that no Event has told yet, by group and kind.
    untold: Mutex<BTreeMap<(String, String), u64>>,
    news: Notify,
}

/// What was read last.
#[derive(Debug, Default)]
struct Read {
    fleet: Fleet,
    /// How much of it cannot be used.
    faults: usize,
    /// The ConfigMap that changed last.
    cause: Option<ObjectReference>,
}

/// A ConfigMap of rules.
#[derive(Debug, PartialEq)]
pub struct Source {
    /// It.
    pub about: ObjectReference,
    /// Who wrote it last, as its managedFields say.
    pub writer: Option<String>,
    /// Its keys.
    texts: BTreeMap<String, String>,
    /// This hub has delivered it: whoever writes VidraResources does not say what Ready means.
    is_delivered: bool,
}

/// What was read, and why.
pub struct Change<'a> {
    /// All ConfigMaps of rules, by name.
    pub config_maps: &'a BTreeMap<String, Arc<Source>>,
    /// Those that were made, changed or deleted.
    pub causes: Vec<Arc<Source>>,
    /// What rules are about that were added, changed or taken away.
    pub changed: BTreeSet<Scope>,
    /// What cannot be used.
    pub faults: Vec<Fault>,
    /// It is what holds from the start on.
    pub is_first: bool,
}

impl Default for HealthRules {
    /// Those that the hub ships.
    fn default() -> Self {
        Self {
            now: Mutex::new(Arc::new(library::rule_set())),
            changes: Notify::new(),
            read: Mutex::default(),
            lists: Arc::new(Semaphore::new(LISTS)),
            turned: AtomicU64::new(0),
            untold: Mutex::default(),
            news: Notify::new(),
        }
    }
}

impl HealthRules {
    /// What holds now.
    pub fn now(&self) -> Arc<RuleSet> {
        self.now.lock().clone()
    }

    /// Ends with the next change of what holds, from this call on.
    pub fn changed(&self) -> Notified<'_> {
        self.changes.notified()
    }

    /// Waits for a turn at listing objects again because rules have changed: there are few, so that this is behind all
    /// other work. `None`: never, nothing here is closed.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.lists.clone().acquire_owned().await.ok()
    }

    /// A turn at listing, if one is free.
    pub fn free_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.lists.clone().try_acquire_owned().ok()
    }

    /// An object of this kind is judged otherwise though it has not changed.
    pub fn note_turned(&self, group: &str, kind: &str) {
        self.turned.fetch_add(1, Ordering::Relaxed);
        *self.untold.lock().entry((group.to_owned(), kind.to_owned())).or_default() += 1;
        self.news.notify_one();
    }

    /// How many objects were judged otherwise though they had not changed.
    pub fn turned(&self) -> u64 {
        self.turned.load(Ordering::Relaxed)
    }

    /// Waits until objects were judged otherwise though they had not changed; how many, by the rule that judges them now,
    /// and the ConfigMap that changed last.
    pub async fn next_turned(&self) -> (BTreeMap<String, u64>, Option<ObjectReference>) {
        self.news.notified().await;
        tokio::time::sleep(TOGETHER).await;
        let (rules, untold) = (self.now(), mem::take(&mut *self.untold.lock()));
        let mut by_rule = BTreeMap::new();
        for ((group, kind), count) in untold {
            let rule = rules.scope(&group, &kind).map(|scope| format!("health rule {scope}"));
            let rule = rule.unwrap_or_else(|| format!("no health rule ({kind} of {group:?})"));
            *by_rule.entry(rule).or_default() += count;
        }
        (by_rule, self.read.lock().cause.clone())
    }

    /// The fleet's rules that there are, and how much of what is written cannot be used.
    pub fn counts(&self) -> (usize, usize) {
        let read = self.read.lock();
        (read.fleet.rules.scopes().count(), read.faults)
    }

    /// Takes what the ConfigMaps say.
    fn take(&self, all: &BTreeMap<String, Arc<Source>>) -> (BTreeSet<Scope>, Vec<Fault>) {
        let mut read = self.read.lock();
        let own = all.iter().filter(|(_, one)| !one.is_delivered || mutants::is(Mutant::DeliveredRulesCount));
        let (fleet, mut faults) = read.fleet.read(own.map(|(name, one)| (&**name, &one.texts)));
        faults.extend(all.iter().filter(|(_, one)| one.is_delivered).map(|(name, _)| Fault {
            config_map: name.clone(),
            is_duplicate: false,
            place: format!("ConfigMap {name}"),
            why: "its rules do not count, for this hub has delivered it, and a VidraResource does not say what Ready means \
                  for all members; write it by other means"
                .to_owned(),
        }));
        let changed: BTreeSet<Scope> =
            fleet.rules.changed_from(&read.fleet.rules).into_iter().cloned().collect();
        (read.fleet, read.faults) = (fleet, faults.len());
        if !changed.is_empty() {
            let set = RuleSet::new(Arc::default(), read.fleet.rules.clone(), library::rules());
            let set = set.after(&self.now(), &changed);
            *self.now.lock() = Arc::new(set);
            self.changes.notify_waiters();
        }
        (changed, faults)
    }
}

/// Where ConfigMaps of rules are.
pub struct ConfigMaps {
    wire: Wire,
    hub: HubId,
}

impl ConfigMaps {
    /// Those in this namespace, for this hub.
    pub fn new(client: Client, namespace: &str, hub: HubId) -> Self {
        let params = ListParams::default().labels(&format!("{HEALTH_RULES}=true"));
        Self { wire: Wire::of::<ConfigMap>(client, Some(namespace), params), hub }
    }

    /// One of them, with its name; `None`: it cannot be read.
    fn read(&self, object: Object<'_>) -> Option<(String, Arc<Source>)> {
        let one = serde_json::from_str::<ConfigMap>(object.text).ok().filter(|_| !object.is_cut)?;
        let is_delivered = one.labels().get(HUB_LABEL).is_some_and(|hub| *hub == *self.hub.as_ref());
        let last = one.managed_fields().iter().max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
        let writer = last.and_then(|entry| entry.manager.clone());
        let about = ObjectReference { resource_version: None, ..one.object_ref(&()) };
        let texts = one.data.clone().unwrap_or_default();
        Some((one.name_any(), Arc::new(Source { about, writer, texts, is_delivered })))
    }
}

/// Follows the ConfigMaps until cancelled, and tells what was read each time. `asked` turns true when they are known, or
/// known that the hub lacks the right to read them: such a hub works by what it ships.
pub async fn follow(
    config_maps: ConfigMaps,
    rng: &dyn Rng,
    rules: &HealthRules,
    asked: &watch::Sender<bool>,
    stop: &Stop,
    changed: impl Fn(Change<'_>) + Send + Sync,
) {
    let (mut all, mut listed, mut refusal) = (BTreeMap::new(), BTreeMap::new(), Refusal::default());
    let take = |before: &mut BTreeMap<String, Arc<Source>>, now: BTreeMap<String, Arc<Source>>| {
        let other = |these: &BTreeMap<String, Arc<Source>>, than: &BTreeMap<String, Arc<Source>>| {
            let news = these.iter().filter(|(name, one)| than.get(*name) != Some(one));
            news.map(|(_, one)| one.clone()).collect::<Vec<_>>()
        };
        let mut causes = other(&now, before);
        causes.extend(before.iter().filter(|(name, _)| !now.contains_key(*name)).map(|(_, one)| one.clone()));
        let (kinds, faults) = rules.take(&now);
        if let Some(cause) = causes.first().filter(|_| !kinds.is_empty()) {
            rules.read.lock().cause = Some(cause.about.clone());
        }
        let is_first = !*asked.borrow();
        changed(Change { config_maps: &now, causes, changed: kinds, faults, is_first });
        *before = now;
    };
    let tell = |event: WatchEvent<'_>| match event {
        WatchEvent::Init => listed.clear(),
        WatchEvent::InitApply(object) => listed.extend(config_maps.read(object)),
        WatchEvent::InitDone(_) => {
            take(&mut all, mem::take(&mut listed));
            asked.send_replace(true);
        }
        WatchEvent::Apply(object) => {
            // One that cannot be read changes nothing.
            let Some((name, one)) = config_maps.read(object) else { return };
            let mut now = all.clone();
            now.insert(name, one);
            take(&mut all, now);
        }
        WatchEvent::Delete(object) => {
            let Some((name, _)) = config_maps.read(object) else { return };
            let mut now = all.clone();
            now.remove(&name);
            take(&mut all, now);
        }
        WatchEvent::Error(error) => {
            tracing::warn!(%error, "the ConfigMaps of health rules cannot be followed; what held goes on to hold");
            if refusal.lasts(error) {
                asked.send_replace(true);
            }
        }
        WatchEvent::Bookmark(_) => {}
        WatchEvent::Restored => stop.halt(Halt::Restored { kind: "ConfigMap".to_owned() }),
    };
    wire::follow::follow(&config_maps.wire, PAGE, rng, tell).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "- {apiVersion: a.io, kind: One, current: 'true'}";

    fn source(text: &str, is_delivered: bool) -> BTreeMap<String, Arc<Source>> {
        let texts = BTreeMap::from([("key".to_owned(), text.to_owned())]);
        let one = Source { about: ObjectReference::default(), writer: None, texts, is_delivered };
        BTreeMap::from([("rules".to_owned(), Arc::new(one))])
    }

    #[test]
    fn what_changes_no_rule_changes_nothing_and_what_is_broken_is_counted() {
        let health = HealthRules::default();
        let shipped = health.now();
        let print = || health.now().fingerprint("a.io", "One");
        let (changed, faults) = health.take(&source(ONE, false));
        assert_eq!((changed.len(), faults.len(), health.counts()), (1, 0, (1, 0)));
        let (first, set) = (print(), health.now());
        assert_ne!(first, shipped.fingerprint("a.io", "One"));
        assert_ne!(set.digest(), shipped.digest());
        let (changed, faults) = health.take(&source("{", false));
        assert_eq!((changed.len(), faults.len(), health.counts()), (0, 1, (1, 1)));
        assert!(Arc::ptr_eq(&set, &health.now()));
        let (changed, _) = health.take(&BTreeMap::new());
        assert_eq!((changed.len(), health.now().digest()), (1, shipped.digest()));
        // What was judged by it meanwhile is to be judged again.
        assert_ne!(print(), shipped.fingerprint("a.io", "One"));
        health.take(&source(ONE, false));
        assert_ne!(print(), first);
        assert_eq!(health.now().fingerprint("b.io", "One"), shipped.fingerprint("b.io", "One"));
    }

    #[test]
    fn what_this_hub_has_delivered_gives_no_rules() {
        let health = HealthRules::default();
        let (changed, faults) = health.take(&source(ONE, true));
        assert!(changed.is_empty() && faults[0].why.contains("this hub has delivered it"), "{faults:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_and_each_lists_in_its_turn() {
        let health = HealthRules::default();
        let within = Duration::from_secs(60);
        let changed = health.changed();
        health.take(&source(ONE, false));
        assert!(tokio::time::timeout(within, changed).await.is_ok());
        let changed = health.changed();
        health.take(&source(ONE, false));
        assert!(tokio::time::timeout(within, changed).await.is_err(), "nothing has changed");
        let turns = futures::future::join_all((0..LISTS).map(|_| health.turn())).await;
        assert!(tokio::time::timeout(within, health.turn()).await.is_err(), "each lists in its turn");
        drop(turns);
        assert!(health.turn().await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_turns_is_counted_by_the_rule_that_judges_it_now() {
        let health = HealthRules::default();
        health.take(&source(ONE, false));
        for kind in ["One", "One", "Two"] {
            health.note_turned("a.io", kind);
        }
        let (by_rule, _) = health.next_turned().await;
        let expected = [("health rule a.io/One", 2), ("no health rule (Two of \"a.io\")", 1)];
        assert_eq!(by_rule, expected.map(|(rule, count)| (rule.to_owned(), count)).into());
        assert_eq!(health.turned(), 3);
    }
}
