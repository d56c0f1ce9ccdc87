//! Rules of `spec.drift.ignore` that cannot be read, and those that match nothing on any member.

use std::collections::BTreeSet;

use vidra_api::{
    VidraResourceStatus, condition::IGNORE_UNMATCHED, find, set_condition, target::Desired as Wish,
};
use vidra_core::{
    ignore::{self, Rules, Unused},
    status::Problem,
};

use super::Pass;
use crate::hub::events::Severity;

impl Pass<'_> {
    /// A path that cannot be read: nothing is delivered, for what is to be left alone is not known.
    pub(super) fn misread(&self) -> Option<Problem> {
        let error = Rules::compile(&self.resource.spec.drift).err()?;
        let (reason, message) = ("IgnoreInvalid", error.to_string());
        self.hub.events.say(self.resource, Severity::Warning, reason, &message);
        Some(Problem { reason, message, stalled: true })
    }

    /// Puts into the status what matches nothing on any member, or takes it out again. While no target has looked
    /// it stays as it was.
    pub(super) fn warn(&self, status: &mut VidraResourceStatus) {
        let Some(unused) = self.unused() else { return };
        let spec = &self.resource.spec.drift;
        let Some((reason, message)) = ignore::complaint(&unused, spec) else {
            status.conditions.retain(|condition| condition.type_ != IGNORE_UNMATCHED);
            return;
        };
        let known = find(&status.conditions, IGNORE_UNMATCHED);
        if known.is_none_or(|known| known.message != message) {
            self.hub.events.say(self.resource, Severity::Warning, IGNORE_UNMATCHED, &message);
        }
        let generation = self.resource.metadata.generation;
        let (conditions, now) = (&mut status.conditions, self.hub.clock.time());
        set_condition(conditions, IGNORE_UNMATCHED, true, reason, &message, generation, now);
    }

    /// What matches nothing in every target that has looked by the rules of now. `None`: nobody knows.
    fn unused(&self) -> Option<Vec<Unused>> {
        let spec = &self.resource.spec.drift;
        let targets = self.hub.catalog.targets_of(self.key);
        let mut present =
            targets.iter().filter(|(_, target)| target.spec.desired == Wish::Present).peekable();
        if spec.ignore.is_empty() || present.peek().is_none() {
            return Some(Vec::new());
        }
        let state = self.hub.state.lock();
        let told = present.filter_map(|(cluster, _)| {
            let (of, unused) = state.target(&self.target_key(cluster))?.unused.as_ref()?;
            (of == spec).then(|| unused.iter().copied().collect::<BTreeSet<_>>())
        });
        let common = told.reduce(|all, one| in_both(&all, &one))?;
        Some(common.into_iter().collect())
    }
}

/// What is unused in both: a rule whose target matches nothing here and only some path there, is unused for that path.
fn in_both(one: &BTreeSet<Unused>, other: &BTreeSet<Unused>) -> BTreeSet<Unused> {
    let covers = |all: &BTreeSet<Unused>, unused: &Unused| {
        all.contains(unused) || all.contains(&Unused { path: None, ..*unused })
    };
    let of_one = one.iter().filter(|unused| covers(other, unused));
    let of_other = other.iter().filter(|unused| covers(one, unused));
    of_one.chain(of_other).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matches_nothing_anywhere_is_told() {
        let (target, path) = (|rule| Unused { rule, path: None }, |rule, at| Unused { rule, path: Some(at) });
        for (one, other, both) in [
            (vec![target(0)], vec![target(0)], vec![target(0)]),
            (vec![target(0)], vec![path(0, 1)], vec![path(0, 1)]),
            (vec![path(0, 1), path(0, 2)], vec![target(0), path(1, 0)], vec![path(0, 1), path(0, 2)]),
            (vec![path(0, 1)], vec![path(0, 2)], vec![]),
            (vec![], vec![target(0)], vec![]),
        ] {
            let set = |all: &[Unused]| all.iter().copied().collect::<BTreeSet<_>>();
            assert_eq!(in_both(&set(&one), &set(&other)), set(&both), "{one:?} {other:?}");
        }
    }
}
