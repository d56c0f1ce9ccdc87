//! What the hub does when the fleet's health rules have changed: it says so, and by whom, what cannot be used, and what
//! objects are judged otherwise. Members list objects of the kinds concerned by themselves.

use std::collections::BTreeMap;

use vidra_core::{
    first_of::{self, first_of},
    health::fleet::Fault,
    status::Reason,
};

use crate::{
    config::health_rules::Change,
    controllers::Hub,
    hub::events::Severity,
    workqueue::{Key, Priority},
};

/// Most names in an Event.
const NAMED: usize = 10;
/// Most Events that are written at once about changed verdicts; the log has all.
const EVENTS: usize = 20;

/// Reports a change of the fleet's health rules.
pub(super) fn apply(hub: &Hub, change: Change<'_>) {
    complain(hub, &change);
    if change.changed.is_empty() {
        return;
    }
    let kinds: Vec<_> = change.changed.iter().map(ToString::to_string).collect();
    tracing::info!(rules = ?kinds, "health rules changed");
    if change.is_first {
        return;
    }
    for cause in &change.causes {
        let by = cause.writer.as_ref().map(|writer| format!(", and {writer} wrote this ConfigMap last"));
        let note = format!(
            "the fleet's health rules for {} have changed{}: objects of these kinds are judged again on all members",
            first_of(kinds.iter(), NAMED),
            by.unwrap_or_default()
        );
        hub.events.say_of(cause.about.clone(), Severity::Normal, Reason::HealthRulesChanged, &note);
    }
    // Which of their own rules count may be otherwise now.
    for (target, known) in hub.catalog.every_target() {
        if known.spec.health_rules.is_some() {
            hub.queue.add(Key::Target(target), Priority::Resync);
        }
    }
}

/// Says what cannot be used: one Event for each ConfigMap and reason.
fn complain(hub: &Hub, change: &Change<'_>) {
    let mut groups = BTreeMap::<(&str, bool), Vec<&Fault>>::new();
    for fault in &change.faults {
        tracing::warn!(place = %fault.place, why = %fault.why, "a health rule cannot be used");
        groups.entry((&fault.config_map, fault.is_duplicate)).or_default().push(fault);
    }
    for ((config_map, is_duplicate), faults) in groups {
        let (Some(about), [first, others @ ..]) = (change.config_maps.get(config_map), &*faults) else {
            continue;
        };
        let mut note = format!("{}: {}", first.place, first.why);
        if !others.is_empty() {
            let places = others.iter().map(|fault| &fault.place);
            note = format!("{note}. Nor can be used: {}", first_of(places, NAMED));
        }
        let reason = if is_duplicate { Reason::HealthRuleDuplicate } else { Reason::HealthRuleInvalid };
        hub.events.say_of(about.about.clone(), Severity::Warning, reason, &note);
    }
}

/// Tells of each rule how many objects are judged otherwise by it, until cancelled.
pub(super) async fn tell_turned(hub: &Hub) {
    loop {
        let (by_rule, cause) = hub.health.next_turned().await;
        for (nth, (rule, count)) in by_rule.into_iter().enumerate() {
            let note = format!(
                "{rule}: {} judged otherwise without a change; that closes no wave that is open",
                first_of::count(count, "object")
            );
            tracing::info!(%note, "health rules changed");
            if let Some(about) = cause.clone().filter(|_| nth < EVENTS) {
                hub.events.say_of(about, Severity::Normal, Reason::HealthRulesChanged, &note);
            }
        }
    }
}
