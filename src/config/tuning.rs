//! The settings that hold now, and the watch of the ConfigMap that changes them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, api::ListParams};
use parking_lot::Mutex;
use tokio::sync::watch;
use vidra_core::mutants::{self, Mutant};

use super::{
    Settings,
    dynamic_settings::{self, DynamicSettings, Reading, Texts},
    refusal::Refusal,
};
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

/// The name of the ConfigMap, in the hub's namespace.
pub const SETTINGS_NAME: &str = "vidra-hub";

/// What holds now. Reading it is cheap.
#[derive(Debug)]
pub struct Tuning {
    now: watch::Sender<Arc<DynamicSettings>>,
    good: Mutex<Texts>,
    defaults: DynamicSettings,
}

impl Tuning {
    /// The flags' values, until a ConfigMap is read.
    pub fn new(settings: &Settings) -> Self {
        let defaults = DynamicSettings::defaults(settings);
        let now = watch::Sender::new(Arc::new(defaults.clone()));
        Self { now, good: Mutex::default(), defaults }
    }

    /// What holds now.
    pub fn now(&self) -> Arc<DynamicSettings> {
        self.now.borrow().clone()
    }

    /// What holds now, and what holds later.
    pub fn follow(&self) -> watch::Receiver<Arc<DynamicSettings>> {
        self.now.subscribe()
    }

    /// Takes what a ConfigMap says, or that there is none. Returns what held before, too.
    fn take(&self, data: Option<&BTreeMap<String, String>>) -> (Arc<DynamicSettings>, Reading) {
        let before = self.now();
        let mut good = self.good.lock();
        let reading = match data {
            Some(data) => dynamic_settings::read(data, &good, &self.defaults),
            None => dynamic_settings::missing(&before, &good, &self.defaults),
        };
        good.clone_from(&reading.good);
        self.now.send_replace(Arc::new(reading.settings.clone()));
        (before, reading)
    }
}

/// What a ConfigMap was read into, or that there is none.
pub struct Change<'a> {
    /// The ConfigMap.
    pub config_map: Option<&'a ConfigMap>,
    /// What held before.
    pub before: &'a DynamicSettings,
    /// What holds now, and what could not be used.
    pub reading: &'a Reading,
}

/// Follows the ConfigMap until cancelled, and tells what was read each time. `asked` turns true when it is known, or
/// known that the hub lacks the right to read it: such a hub works by its flags. Any other failure says nothing of what it
/// allows.
pub async fn follow(
    client: Client,
    namespace: &str,
    rng: &dyn Rng,
    tuning: &Tuning,
    asked: watch::Sender<bool>,
    stop: &Stop,
    changed: impl Fn(Change<'_>) + Send + Sync,
) {
    let params = ListParams::default().fields(&format!("metadata.name={SETTINGS_NAME}"));
    let wire = Wire::of::<ConfigMap>(client, Some(namespace), params);
    // One that cannot be read changes nothing.
    let read = |object: Object<'_>| serde_json::from_str::<ConfigMap>(object.text).ok();
    let take = |config_map: Option<&ConfigMap>| {
        let none = BTreeMap::new();
        let data = config_map.map(|one| one.data.as_ref().unwrap_or(&none));
        let (before, reading) = tuning.take(data);
        changed(Change { config_map, before: &before, reading: &reading });
    };
    let (mut seen, mut refusal) = (false, Refusal::default());
    let tell = |event: WatchEvent<'_>| match event {
        WatchEvent::Init => seen = false,
        WatchEvent::InitApply(object) => {
            seen = true;
            read(object).iter().for_each(|one| take(Some(one)));
        }
        WatchEvent::InitDone(_) => {
            if !seen {
                take(None);
            }
            asked.send_replace(true);
        }
        WatchEvent::Apply(object) => read(object).iter().for_each(|one| take(Some(one))),
        WatchEvent::Delete(_) => take(None),
        WatchEvent::Error(error) => {
            tracing::warn!(%error, "the hub cannot follow the ConfigMap of its settings; it goes on with those that it has");
            if refusal.lasts(error) || mutants::is(Mutant::UnknownSettingsAreNone) {
                asked.send_replace(true);
            }
        }
        WatchEvent::Bookmark(_) => {}
        // The hub's own kinds may be as they were.
        WatchEvent::Restored => stop.halt(Halt::Restored { kind: "ConfigMap".to_owned() }),
    };
    wire::follow::follow(&wire, 1, rng, tell).await;
}
