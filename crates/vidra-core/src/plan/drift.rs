//! Drift that is left as it is: what the policies Report and Ignore do instead of a repair.
//!
//! What is declared otherwise than it was applied is no drift: it is applied under every policy.

use vidra_api::DriftPolicy;

use super::{Action, Decision, Drift, Held, Live, PlanInput, Want, Why};
use crate::{directives::ApplyMode, object::ObjectKey, render::DeclaredHash};

/// What is known of an object that the inventory knows by its uid and the member does not show: it is gone, or
/// hidden by a lost label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vanished {
    /// The hash that was declared when it was applied last, where anybody has seen it.
    pub applied: Option<DeclaredHash>,
    /// A read has told what became of it, and nothing was seen since.
    pub told: bool,
    /// That it is there, and hidden: no watch tells when it goes.
    pub hidden: bool,
}

/// Whether an object stays as it is although it may have drifted. `applied` is the hash that it was applied as; where
/// nobody has seen it, the inventory tells of what is applied once, or the revision before tells, and one that was applied
/// whole declares it as it was applied.
pub(super) fn is_left(
    key: &ObjectKey,
    (applied, held): (Option<DeclaredHash>, Option<&Held>),
    want: &Want,
    input: &PlanInput<'_>,
) -> bool {
    let applied = applied.or_else(|| settled(want, held?));
    let known = applied.map(Some).or_else(|| input.before.get(key).copied());
    input.policy.drift != DriftPolicy::Correct
        && known.map_or(input.delivered, |known| known == Some(want.hash))
}

/// As what it was applied, of what is applied once for each content.
fn settled(want: &Want, held: &Held) -> Option<DeclaredHash> {
    let is_once = want.directives.apply == ApplyMode::Once;
    held.settled.as_deref().filter(|_| is_once).and_then(DeclaredHash::parse)
}

/// The inventory knows it, and the member does not show it.
pub(super) fn missing(key: &ObjectKey, want: &Want, held: &Held, input: &PlanInput<'_>) -> Decision {
    let vanished = input.vanished.get(key);
    // Where it was declared no more for a while it has gone by the hub's own hand, whatever it bore.
    let applied = vanished.and_then(|vanished| vanished.applied);
    let applied = applied.filter(|_| !input.before.contains_key(key));
    // It was applied, and nobody saying how is no reason to take it for declared otherwise.
    let is_told = settled(want, held).is_some() || input.before.contains_key(key);
    let applied = applied.or_else(|| (!is_told).then_some(want.hash));
    if !is_left(key, (applied, Some(held)), want, input) {
        // Unseen, so without evidence: whose fields they are is asked when they are refused.
        return Decision::Act(Action::Apply { uid: held.uid.clone(), why: Why::Missing, force: false });
    }
    let stands = |vanished: &Vanished| vanished.told && !(input.revisit && vanished.hidden);
    match input.policy.drift {
        DriftPolicy::Report if !vanished.is_some_and(stands) => {
            Decision::Act(Action::Look { uid: held.uid.clone() })
        }
        _ => Decision::Nothing,
    }
}

/// It is there and is left as it is: where nobody knows whether it is as it was left, a look tells.
pub(super) fn look(live: &Live, input: &PlanInput<'_>) -> Decision {
    let unsure = live.proof && live.drift == Drift::Unsure && !live.terminating;
    match unsure && input.policy.drift == DriftPolicy::Report {
        true => Decision::Act(Action::Look { uid: live.uid.clone() }),
        false => Decision::Nothing,
    }
}
