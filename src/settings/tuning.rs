//! The settings that hold now, and the watch of the ConfigMap that changes them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{Client, Resource, ResourceExt, api::ListParams};
use parking_lot::Mutex;
use tokio::sync::watch;
use vidra_core::mutants::{self, Mutant};

use super::{
    Settings,
    live::{self, Live, Reading, Texts},
};
use crate::{
    base::error::Class,
    hub::events::Severity,
    queue::{Key, Priority},
    reconcile::Hub,
    wire::{
        self, Wire,
        follow::{News, Object},
    },
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

    /// Takes what a ConfigMap says, or that there is none. Returns what held before, too.
    fn take(&self, data: Option<&BTreeMap<String, String>>) -> (Arc<Live>, Reading) {
        let before = self.now();
        let mut good = self.good.lock();
        let reading = match data {
            Some(data) => live::read(data, &good, &self.defaults),
            None => live::missing(&before, &good, &self.defaults),
        };
        good.clone_from(&reading.good);
        self.now.send_replace(Arc::new(reading.live.clone()));
        (before, reading)
    }
}

/// Follows the ConfigMap until cancelled. `asked` turns true when it is known, or known that it may not be read: such a hub
/// works by its flags. Any other failure says nothing of what it allows.
pub async fn follow(client: Client, hub: Arc<Hub>, asked: watch::Sender<bool>) {
    let params = ListParams::default().fields(&format!("metadata.name={SETTINGS_NAME}"));
    let wire = Wire::of::<ConfigMap>(client, Some(&hub.settings.namespace), params);
    // One that cannot be read changes nothing.
    let read = |object: Object<'_>| serde_json::from_str::<ConfigMap>(object.text).ok();
    let mut seen = false;
    let tell = |news: News<'_>| match news {
        News::Listing => seen = false,
        News::Listed(object) => {
            seen = true;
            read(object).iter().for_each(|one| take(&hub, Some(one)));
        }
        News::Complete(_) => {
            if !seen {
                take(&hub, None);
            }
            asked.send_replace(true);
        }
        News::Applied(object) => read(object).iter().for_each(|one| take(&hub, Some(one))),
        News::Deleted(_) => take(&hub, None),
        News::Failed(error) => {
            tracing::warn!(%error, "the ConfigMap of settings cannot be followed; what held goes on to hold");
            if error.class == Class::Forbidden || mutants::is(Mutant::UnknownSettingsAreNone) {
                asked.send_replace(true);
            }
        }
        // The hub's own watches see it, too, and end the process.
        News::Reached(_) | News::Restored => {}
    };
    wire::follow::follow(&wire, 1, hub.rng.as_ref(), tell).await;
}

fn take(hub: &Hub, config_map: Option<&ConfigMap>) {
    let none = BTreeMap::new();
    let data = config_map.map(|one| one.data.as_ref().unwrap_or(&none));
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
    let looks = |live: &Live| (live.interval, live.on_events, live.redact.clone(), live.autoscalers.clone());
    if looks(now) != looks(&before) {
        for target in hub.catalog.all_targets() {
            hub.queue.add(Key::Target(target), Priority::Resync);
        }
    }
    let wants = |live: &Live| {
        (
            live.allow_proxy,
            live.carried_labels.clone(),
            live.removal_guard,
            live.default_allowed_namespaces.clone(),
        )
    };
    if wants(now) != wants(&before) {
        for member in hub.catalog.members() {
            hub.queue.add(Key::Cluster(member.name_any().as_str().into()), Priority::User);
        }
    }
    let declares = |live: &Live| {
        let allowed = live.default_allowed_namespaces.clone();
        (live.removal_guard, live.allow_inline_secrets, allowed, live.bounds)
    };
    if declares(now) != declares(&before) {
        hub.catalog.all_resources();
    }
    let allows = |live: &Live| (live.object_removal_guard, live.default_allowed_namespaces.clone());
    if allows(now) != allows(&before) {
        for target in hub.catalog.all_targets() {
            hub.queue.add(Key::Target(target), Priority::Resync);
        }
    }
}

fn complain(hub: &Hub, about: &ObjectReference, reading: &Reading) {
    let now = &reading.live;
    for (key, why) in &reading.faults {
        let note = format!("{key}: {why}; until then {}", live::held_instead(key, now));
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
