//! What keeps a plan that was performed without failure from being everything, in words.

use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
    plan::{Plan, Refusal, Wait},
    render::Unresolved,
    status::{Awaited, Delivery, Reason},
};

use super::visibility::{Blind, Obstruction};
use crate::{desired::Desired, member::kinds::Kinds};

/// The first wave with an object that cannot be planned.
pub(super) fn unplannable(desired: &Desired, blind: &Blind) -> Option<i32> {
    let unseen = desired.wants.iter().filter(|(key, want)| blind.hides(key, &want.gvk)).map(|(_, want)| want);
    let unknown = desired.unresolved.iter().map(|unresolved| unresolved.wave);
    unseen.map(|want| want.directives.wave).chain(unknown).min()
}

/// The wave up to which everything is applied, and whose health is waited for if it is not healthy. While something cannot
/// be seen it is not health that is waited for.
pub(super) fn awaited(plan: &Plan, desired: &Desired, blind: &Blind) -> Option<Awaited> {
    let wave_of = |key: &ObjectKey| desired.wants.get(key).map(|want| want.directives.wave);
    match plan.waits.first() {
        _ if !blind.is_empty() => None,
        // Whoever suspended it takes his time.
        Some(Wait::Suspended { .. }) => None,
        Some(wait) => {
            let gate = wait.gate()?;
            Some(Awaited { wave: wave_of(gate)?, gate: Some(gate.clone()) })
        }
        None => desired.wants.values().map(|want| want.directives.wave).max().map(Awaited::from),
    }
}

/// What the status says of a plan that leaves something undone: what somebody has to correct before what comes by itself.
/// `note` tells why an object is not current.
pub(super) fn complaint(
    plan: &Plan,
    desired: &Desired,
    blind: &Blind,
    kinds: &Kinds,
    note: impl Fn(&ObjectKey) -> Option<String>,
) -> Option<Delivery> {
    if let Some(refusal) = plan.refusals.first() {
        let (reason, message) = match refusal {
            Refusal::NotOurs(key) => (
                Reason::NotOurs,
                format!(
                    "{key} bears the hub's label and cannot be proved to be the hub's; delete it in the member, drop it from the manifest, or set conflicts.existing to take it over"
                ),
            ),
            Refusal::Controlled(key) => (
                Reason::ControlledByOther,
                format!("{key} is owned by a controller in the member; drop it from the manifest"),
            ),
        };
        return Some(Delivery::Failed { reason, message, stalled: true });
    }
    // What a person must fix comes first.
    if let Some((place, Obstruction { why, .. })) = blind.places.iter().find(|(_, unseen)| !unseen.passes) {
        let cure = match place.namespace.is_empty() {
            true => "grant the hub list and watch on it",
            false => {
                "grant the hub list and watch on it there, or in all namespaces (clusters/member-namespaces.yaml has the \
                 rights; a namespace that is missing has none)"
            }
        };
        let message = format!("{place} cannot be listed and watched: {why}; {cure}");
        return Some(Delivery::Failed { reason: Reason::CannotWatch, message, stalled: true });
    }
    if let Some((key, why)) = blind.objects.first_key_value() {
        let message = format!(
            "{key} is there and the hub cannot read it: {why}. It is left as it is; fix it in the member, or delete it there"
        );
        return Some(Delivery::Failed { reason: Reason::ObjectUnreadable, message, stalled: true });
    }
    if let Some((place, Obstruction { why, .. })) = blind.places.first_key_value() {
        let message = format!("{place} could not be listed: {why}; it is tried again");
        return Some(Delivery::Waiting { reason: Reason::ListFailed, message });
    }
    if let Some(wait) = plan.waits.first() {
        return Some(waiting(wait, note));
    }
    desired.unresolved.first().map(|unresolved| kind_unknown(unresolved, desired, kinds))
}

/// Something else has to happen first. `note` tells why an object is not current.
fn waiting(wait: &Wait, note: impl Fn(&ObjectKey) -> Option<String>) -> Delivery {
    let note = |key: &ObjectKey| note(key).map_or_else(String::new, |note| format!(": {note}"));
    match wait {
        Wait::Terminating(key) => wait_for_end(key),
        Wait::NotCurrent(key) => Delivery::Waiting {
            reason: Reason::WaitingForObject,
            message: format!("the rest waits for {key}{}", note(key)),
        },
        Wait::Wave { wave, before, key } => Delivery::Waiting {
            reason: Reason::WaitingForWave,
            message: format!("wave {wave} waits for {key} of wave {before}{}", note(key)),
        },
        Wait::Suspended { wave, before, key } => Delivery::Waiting {
            reason: Reason::WaitingForSuspended,
            message: format!("wave {wave} waits for {key} of wave {before} to be resumed{}", note(key)),
        },
    }
}

/// What bears this name is being deleted.
pub(super) fn wait_for_end(key: &ObjectKey) -> Delivery {
    Delivery::Waiting {
        reason: Reason::ObjectTerminating,
        message: format!("{key} is being deleted in the member; the hub goes on when it is gone"),
    }
}

/// The member does not say that it serves a kind: where its discovery is whole, it does not.
fn kind_unknown(unresolved: &Unresolved, desired: &Desired, kinds: &Kinds) -> Delivery {
    let Unresolved { place, gvk, name, .. } = unresolved;
    let is_stale = kinds.is_stale(gvk) && !mutants::is(Mutant::StaleUnknown);
    let message = match is_stale {
        true => format!(
            "{place}: the member cannot tell whether it serves {gvk} (object {name:?}), for what serves the API group {} there does not answer; see kubectl get apiservices in the member",
            gvk.group
        ),
        false => unknown(unresolved, desired),
    };
    Delivery::Failed { reason: Reason::KindUnknown, message, stalled: !is_stale }
}

fn unknown(unresolved: &Unresolved, desired: &Desired) -> String {
    let Unresolved { place, gvk, name, wave, .. } = unresolved;
    let cure = match desired.wants.values().find(|want| want.relation.defines(&gvk.group, &gvk.kind)) {
        Some(crd) if crd.directives.wave > *wave => format!(
            "its CRD is in this manifest and comes in wave {}, behind wave {wave}: give the CRD that wave or an earlier one",
            crd.directives.wave
        ),
        Some(_) => "its CRD is in this manifest. Either it does not serve that version: correct the CRD or the object; or it is gone in the member and spec.drift.policy leaves it so: set the policy to Correct".to_owned(),
        None => "install its CRD there, or correct apiVersion and kind".to_owned(),
    };
    format!("{place}: the member does not know {gvk} (object {name:?}); {cure}")
}

#[cfg(test)]
mod tests {
    use vidra_core::{
        manifest::Place,
        object::Gvk,
        plan::Want,
        render::{DeclaredHash, HashKey, Stage},
    };

    use super::*;

    #[test]
    fn health_is_waited_for_only_where_all_can_be_seen() {
        let gvk = Gvk::new("apps", "v1", "Deployment");
        let (key, mut desired) = (ObjectKey::new(&gvk, "shop", "web"), Desired::default());
        let (scope, stage) = (vidra_core::object::Scope::Namespaced, Stage::of(&gvk));
        let hash = DeclaredHash::of(&"web".into(), &HashKey::new([7; 32]));
        let want =
            Want { gvk, scope, stage, directives: Default::default(), hash, relation: Default::default() };
        desired.wants.insert(key.clone(), want);
        let waits = |waits: &[Wait]| Plan { waits: waits.to_vec(), ..Plan::default() };
        let (all, gate) = (waits(&[]), waits(&[Wait::NotCurrent(key.clone())]));
        let seen = |plan| awaited(plan, &desired, &Blind::default());
        assert_eq!(seen(&all), Some(Awaited { wave: 0, gate: None }));
        assert_eq!(seen(&gate), Some(Awaited { wave: 0, gate: Some(key.clone()) }));
        assert_eq!(seen(&waits(&[Wait::Terminating(key.clone())])), None);
        let blind = Blind { objects: [(key, String::new())].into(), ..Blind::default() };
        assert_eq!([&all, &gate].map(|plan| awaited(plan, &desired, &blind)), [None, None]);
    }

    #[test]
    fn a_kind_whose_group_does_not_answer_is_not_told_as_one_to_install() {
        let unresolved = Unresolved {
            place: Place { source: None, document: 1, line: None },
            gvk: Gvk::new("test.io", "v1", "Book"),
            namespace: "shop".to_owned(),
            name: "one".to_owned(),
            wave: 0,
        };
        let told = |stale: &[&str]| {
            let mut kinds = Kinds::default();
            kinds.stale.extend(stale.iter().map(|one| (*one).to_owned()));
            match kind_unknown(&unresolved, &Desired::default(), &kinds) {
                Delivery::Failed { reason: Reason::KindUnknown, message, stalled } => (message, stalled),
                other => panic!("{other:?}"),
            }
        };
        let (message, stalled) = told(&["other.io/v1"]);
        assert!(stalled && message.contains("install its CRD"), "{message}");
        let (message, stalled) = told(&["other.io/v1", "test.io/v1"]);
        assert!(!stalled && message.contains("test.io there does not answer"), "{message}");
    }
}
