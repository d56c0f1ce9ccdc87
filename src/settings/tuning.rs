//! The settings that hold now, and the watch of the ConfigMap that changes them.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Settings,
    live::{self, Live, Reading, Texts},
};
use crate::{
    hub::{
        events::Severity,
        watch::{brief, is_expired},
    },
    queue::{Key, Priority},
    reconcile::Hub,
    tasks::Pauses,
};

/// The name of the ConfigMap, in the hub's namespace.
pub const SETTINGS_NAME: &str = "vidra-hub";

/// What holds now. Reading it is cheap.
#[derive(Debug)]
pub struct Tuning {
    now: watch::Sender<Arc<Live>>,
    good: Mutex<Texts>,
    defaults: Live,
}

impl Tuning {
    /// The flags' values, until a ConfigMap is read.
    pub fn new(settings: &Settings) -> Self {
        let defaults = Live::defaults(settings);
        let now = watch::Sender::new(Arc::new(defaults.clone()));
        Self { now, good: Mutex::default(), defaults }
    }

    /// What holds now.
    pub fn now(&self) -> Arc<Live> {
        self.now.borrow().clone()
    }

    /// What holds now, and what holds later.
    pub fn follow(&self) -> watch::Receiver<Arc<Live>> {
        self.now.subscribe()
    }

    /// Takes what a ConfigMap says; without one the defaults hold. Returns what held before, too.
    fn take(&self, data: &BTreeMap<String, String>) -> (Arc<Live>, Reading) {
        let before = self.now();
        let mut good = self.good.lock();
        let reading = live::read(data, &good, &self.defaults);
        good.clone_from(&reading.good);
        self.now.send_replace(Arc::new(reading.live.clone()));
        (before, reading)
    }
}

/// Follows the ConfigMap until cancelled. `asked` turns true at its first answer, whatever that is: a hub that
/// may not read it works by its flags.
pub async fn follow(client: Client, hub: Arc<Hub>, asked: watch::Sender<bool>) {
    let api: Api<ConfigMap> = Api::namespaced(client, &hub.settings.namespace);
    let config = watcher::Config::default().timeout(200).fields(&format!("metadata.name={SETTINGS_NAME}"));
    let mut pauses = Pauses::default();
    loop {
        let mut events = std::pin::pin!(watcher::watcher(api.clone(), config.clone()));
        let mut seen = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => seen = false,
                Ok(Event::InitApply(one)) => {
                    seen = true;
                    take(&hub, Some(&one));
                }
                Ok(Event::InitDone) => {
                    if !seen {
                        take(&hub, None);
                    }
                    pauses.reset();
                    asked.send_replace(true);
                }
                Ok(Event::Apply(one)) => take(&hub, Some(&one)),
                Ok(Event::Delete(_)) => take(&hub, None),
                Err(error) => {
                    tracing::warn!(error = %brief(&error), "the ConfigMap of settings cannot be followed; what held goes on to hold");
                    asked.send_replace(true);
                    pauses.pause(hub.rng.as_ref()).await;
                    if is_expired(&error) {
                        break;
                    }
                }
            }
        }
    }
}

fn take(hub: &Hub, config_map: Option<&ConfigMap>) {
    let none = BTreeMap::new();
    let data = config_map.and_then(|one| one.data.as_ref()).unwrap_or(&none);
    let (before, reading) = hub.tuning.take(data);
    if let Some(config_map) = config_map {
        complain(hub, &config_map.object_ref(&()), &reading);
    }
    let now = &reading.live;
    if *now == *before {
        return;
    }
    tracing::info!(settings = ?now, "settings changed");
    hub.queue.tune(now.cluster_concurrency, now.retry_base);
    if (now.interval, now.on_events, &now.redact) != (before.interval, before.on_events, &before.redact) {
        for target in hub.catalog.all_targets() {
            hub.queue.add(Key::Target(target), Priority::Resync);
        }
    }
    if now.allow_proxy != before.allow_proxy {
        for member in hub.catalog.members() {
            hub.queue.add(Key::Cluster(member.name_any().as_str().into()), Priority::User);
        }
    }
    if now.removal_guard != before.removal_guard {
        hub.catalog.all_resources();
    }
}

fn complain(hub: &Hub, about: &ObjectReference, reading: &Reading) {
    for (key, why) in &reading.faults {
        let note = format!("{key}: {why}; until then what held before goes on to hold");
        tracing::warn!(%note, "a setting cannot be used");
        hub.events.say_of(about.clone(), Severity::Warning, "SettingInvalid", &note);
    }
    if !reading.unknown.is_empty() {
        let known: Vec<_> = live::keys().collect();
        let note = format!(
            "these keys mean nothing and the others are used: {}; the settings are {}",
            reading.unknown.join(", "),
            known.join(", ")
        );
        tracing::warn!(%note, "unknown settings");
        hub.events.say_of(about.clone(), Severity::Warning, "SettingUnknown", &note);
    }
}
