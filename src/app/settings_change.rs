//! What the hub does when its settings have changed: it says so, and whoever goes by them looks again.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use vidra_core::status::Reason;

use crate::{
    config::{
        dynamic_settings::{self, Reading},
        tuning::Change,
    },
    controllers::Hub,
    hub::events::Severity,
    workqueue::{Key, Priority},
};

/// Reports a change of the settings, and wakes who depends on it.
pub(super) fn apply(hub: &Hub, change: Change<'_>) {
    let Change { config_map, before, reading } = change;
    if let Some(config_map) = config_map {
        report_faults(hub, &config_map.object_ref(&()), reading);
    }
    let now = &reading.settings;
    if *now == *before {
        return;
    }
    tracing::info!(settings = ?now, "the hub applies changed settings");
    hub.queue.tune(now.cluster_concurrency, now.retry_base);
    let look_again = now.look_again(before);
    if look_again.targets {
        for target in hub.catalog.all_targets() {
            hub.queue.add(Key::Target(target), Priority::Resync);
        }
    }
    if look_again.members {
        for member in hub.catalog.members() {
            hub.queue.add(Key::Cluster(member.name_any().as_str().into()), Priority::User);
        }
    }
    if look_again.resources {
        hub.catalog.requeue_all_resources();
    }
}

fn report_faults(hub: &Hub, about: &ObjectReference, reading: &Reading) {
    let now = &reading.settings;
    for (key, why) in &reading.faults {
        let note = format!("{key}: {why}; until then {}", dynamic_settings::held_instead(key, now));
        tracing::warn!("the hub cannot use the setting {note}");
        hub.events.say_of(about.clone(), Severity::Warning, Reason::SettingInvalid, &note);
    }
    if !reading.unknown.is_empty() {
        let known: Vec<_> = dynamic_settings::keys().collect();
        let note = format!(
            "these keys mean nothing and the others are used: {}; the settings are {}",
            reading.unknown.join(", "),
            known.join(", ")
        );
        tracing::warn!("the hub ignores unknown settings: {note}");
        hub.events.say_of(about.clone(), Severity::Warning, Reason::SettingUnknown, &note);
    }
}
