//! The order of applying: waves, and stages within a wave; and objects that are not applied each time.
//!
//! A wave starts when every object of the one before is applied and current. What it holds back is what is
//! new: an object that was applied as it is declared now is repaired all the same, or one object that does
//! not get healthy would stop the repair of everything behind it. A Namespace or CRD that is gone, or about to go,
//! stops the repair of what is in it, and of what requires it.

use std::collections::BTreeMap;

use vidra_api::DriftPolicy;

use super::{Action, Decision, Effect, Held, Live, Plan, PlanInput, Row, Wait, Want, Why, decide};
use crate::{
    directives::ApplyMode,
    merge_lookup::MergeLookup,
    mutants::{self, Mutant},
    object::ObjectKey,
    render::{DeclaredHash, Relation, Stage},
};

/// Whether nothing more is done for an object, whatever became of it: it was applied for this content and
/// wants to be applied once; or it is wanted only where there is none, and somebody else had made one.
pub fn is_settled(want: &Want, held: &Held) -> bool {
    match want.directives.apply {
        ApplyMode::Always => false,
        ApplyMode::IfAbsent => held.settled.is_some(),
        ApplyMode::Once => held.settled.as_deref().and_then(DeclaredHash::parse) == Some(want.hash),
    }
}

/// Where the walk through the wants stands.
#[derive(Default)]
struct Walk<'a> {
    wave: i32,
    /// The first Namespace or CRD that is not current, and its wave: of what is new only others of these go on.
    foundation: Option<(i32, &'a ObjectKey)>,
    /// Those that are not there, or are about to go.
    gone: Vec<(&'a ObjectKey, &'a Want)>,
    /// The first object of this wave that is not current.
    late: Option<&'a ObjectKey>,
    /// The first one that is suspended.
    suspended: Option<&'a ObjectKey>,
    /// This wave may not start.
    closed: bool,
    /// For which object, of which wave, and whether for nothing but suspended ones; none where that object cannot be planned.
    closed_by: Option<(i32, &'a ObjectKey, bool)>,
}

impl<'a> Walk<'a> {
    /// Comes to an object of this wave.
    fn enter(&mut self, wave: i32, input: &PlanInput<'_>) {
        if wave == self.wave {
            return;
        }
        if !self.closed {
            let late = self.late.or(self.suspended);
            self.closed_by = late.map(|key| (self.wave, key, self.late.is_none()));
            self.closed = late.is_some() || input.unplannable.is_some_and(|first| first < wave);
        }
        (self.wave, self.late, self.suspended) = (wave, None, None);
    }

    /// The Namespace or CRD for which an effect on this object waits.
    fn foundation_of(&self, row: &Row<'_>, is_repair: bool) -> Option<&'a ObjectKey> {
        if row.want.stage <= Stage::Foundations {
            return None;
        }
        match is_repair && !mutants::is(Mutant::FoundationStopsRepair) {
            true => {
                let mut gone = self.gone.iter();
                gone.find(|(key, want)| depends_on(row, key, want)).map(|(key, _)| *key)
            }
            false => self.foundation.map(|(_, key)| key),
        }
    }

    /// This object is not current; `stays`: nothing is applied to it.
    fn note_late(&mut self, row: &Row<'a>, stays: bool) {
        let Row { key, want, .. } = *row;
        match stays && row.live.is_some_and(|live| live.suspended) {
            true => self.suspended.get_or_insert(key),
            false => self.late.get_or_insert(key),
        };
        if want.stage == Stage::Foundations {
            self.foundation.get_or_insert((self.wave, key));
            if row.live.is_none_or(|live| live.terminating) {
                self.gone.push((key, want));
            }
        }
    }
}

/// It is in this Namespace or of the kind of this CRD, or requires it.
fn depends_on(Row { key, want, .. }: &Row<'_>, foundation: &ObjectKey, foundation_want: &Want) -> bool {
    match &foundation_want.relation {
        Relation::Defines(kind) => {
            foundation_want.relation.defines(&key.group, &key.kind) || want.relation.requires_kind(kind)
        }
        _ => key.namespace == foundation.name || want.relation.requires_namespace(&foundation.name),
    }
}

/// Plans what is applied.
pub(super) fn apply_stages(input: &PlanInput<'_>, plan: &mut Plan) {
    let mut stages: BTreeMap<(i32, Stage), Vec<Effect>> = BTreeMap::new();
    let rows = in_order(input);
    let first = rows.first().map_or(0, |row| row.want.directives.wave);
    let closed = input.unplannable.is_some_and(|unplannable| unplannable < first);
    let mut walk = Walk { wave: first, closed, ..Walk::default() };
    let (mut held_back, mut held_by) = (None, None);
    for row in &rows {
        let Row { key, want, .. } = *row;
        walk.enter(want.directives.wave, input);
        let decision = decide_by_mode(row, input);
        let is_repair = matches!(&decision, Decision::Act(action) if repairs(row, action, input));
        // Without its kind or Namespace it would only fail.
        let foundation = walk.foundation_of(row, is_repair);
        match decision {
            Decision::Act(_) if foundation.is_some() => held_by = held_by.or(foundation),
            Decision::Act(_) if walk.closed && !is_repair => {
                held_back.get_or_insert(want.directives.wave);
            }
            Decision::Act(action) => {
                // A look changes nothing: what is there is waited for, or not, as it is.
                let looks = matches!(action, Action::Look { .. }) || row.is_settled();
                if !looks || !is_current(row, input) {
                    walk.note_late(row, looks);
                }
                let effect = Effect { key: key.clone(), gvk: want.gvk.clone(), action };
                stages.entry((want.directives.wave, want.stage)).or_default().push(effect);
            }
            Decision::Wait => {
                plan.waits.push(Wait::Terminating(key.clone()));
                walk.note_late(row, false);
            }
            Decision::Refuse(refusal) => {
                plan.refusals.push(refusal);
                walk.late.get_or_insert(key);
            }
            Decision::Nothing if is_current(row, input) => {}
            Decision::Nothing => walk.note_late(row, true),
        }
    }
    // What cannot be planned, of a kind that is not served yet, waits for it too.
    let unplanned = walk.foundation.filter(|(wave, _)| input.unplannable.is_some_and(|first| *wave <= first));
    if let Some(key) = held_by.or(unplanned.map(|(_, key)| key)) {
        // That one ends is no matter of health.
        let ends = input.live.get(key).is_some_and(|live| live.terminating);
        let first = if ends { Wait::Terminating(key.clone()) } else { Wait::NotCurrent(key.clone()) };
        plan.waits.retain(|wait| *wait != first);
        plan.waits.insert(0, first);
    }
    if let (Some(wave), Some((before, key, is_suspended))) = (held_back, walk.closed_by) {
        let key = key.clone();
        plan.waits.push(match is_suspended {
            true => Wait::Suspended { wave, before, key },
            false => Wait::Wave { wave, before, key },
        });
    }
    plan.stages = stages.into_values().collect();
}

fn in_order<'a>(input: &PlanInput<'a>) -> Vec<Row<'a>> {
    let (mut held, mut live) = (MergeLookup::new(input.inventory), MergeLookup::new(input.live));
    let row = |(key, want)| Row { key, want, held: held.get(key), live: live.get(key) };
    let mut sorted: Vec<_> = input.wants.iter().map(row).collect();
    sorted.sort_by_key(|row| (row.want.directives.wave, row.want.stage));
    sorted
}

/// Whether this restores what was applied: a repair does not wait for its wave, as what is new or declared otherwise does.
fn repairs(row: &Row<'_>, action: &Action, input: &PlanInput<'_>) -> bool {
    match action {
        Action::Apply { why: Why::Drifted, .. } | Action::Verify { .. } | Action::Look { .. } => true,
        // What it was applied as went with it: only that all of the revision was applied shows that it was there.
        Action::Apply { why: Why::Missing, .. } => input.delivered,
        Action::Create => {
            input.delivered && (row.is_settled() || row.held.is_some_and(|held| !held.uid.is_empty()))
        }
        Action::Apply { why: Why::Changed | Why::Joined, .. } | Action::Remove { .. } => false,
    }
}

impl Row<'_> {
    /// Nothing more is done for it, see [`is_settled`].
    fn is_settled(&self) -> bool {
        self.held.is_some_and(|held| is_settled(self.want, held))
    }

    /// Somebody else's, where one is wanted only if there is none: that it is there is all that was asked for.
    fn is_anothers(&self) -> bool {
        let is_own = |live: &Live| live.proof || self.held.is_some_and(|held| held.uid == live.uid);
        let is_absent = self.want.directives.apply == ApplyMode::IfAbsent;
        is_absent && self.is_settled() && self.live.is_some_and(|live| !is_own(live))
    }
}

fn is_current(row: &Row<'_>, input: &PlanInput<'_>) -> bool {
    match row.live {
        // Nothing can be made in it, whatever is waited for.
        Some(live) if live.terminating && row.want.stage == Stage::Foundations => false,
        Some(live) => live.current || row.is_anothers(),
        // Drift that is left as it is holds nothing back.
        None if input.policy.drift != DriftPolicy::Correct => true,
        None => row.is_settled(),
    }
}

fn decide_by_mode(row: &Row<'_>, input: &PlanInput<'_>) -> Decision {
    let want = row.want;
    let mode = want.directives.apply;
    if mode == ApplyMode::Always {
        return decide(row, input);
    }
    if row.is_settled() {
        let gone_untold = mode == ApplyMode::IfAbsent && input.revisit && row.live.is_none();
        return match gone_untold && input.policy.drift != DriftPolicy::Ignore {
            true => Decision::Act(Action::Create),
            false => Decision::Nothing,
        };
    }
    let Some(live) = row.live else {
        return match decide(row, input) {
            Decision::Act(Action::Apply { .. }) => Decision::Act(Action::Create),
            decision => decision,
        };
    };
    match (mode, decide(row, input)) {
        // Another VidraResource's, which this one may join.
        (_, Decision::Act(Action::Create)) => Decision::Act(Action::Create),
        // It is there: that is all that was asked for.
        (ApplyMode::IfAbsent, Decision::Act(_) | Decision::Refuse(_)) => Decision::Nothing,
        // Applied; the inventory is about to say so.
        (ApplyMode::Once, Decision::Act(_)) if live.proof && live.applied == Some(want.hash) => {
            Decision::Nothing
        }
        (_, decision) => decision,
    }
}
