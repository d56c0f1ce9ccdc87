//! How targets count: the one function that says what a VidraTarget is counted as, and what those on a member come to.

use vidra_api::{DesiredState, DriftState, MemberTargets, TargetState, VidraTarget};

/// What a target is counted as, wherever targets are counted: in a VidraResource, in a MemberCluster, in metrics and by
/// kubectl vidra.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedState {
    /// It has what it is to have, applied and healthy.
    Ready,
    /// It is on its way, or nobody has said yet how it is.
    Progressing,
    /// Something was refused or is broken.
    Failed,
    /// Its member cannot be reached.
    Unknown,
    /// A person has stopped it.
    Suspended,
    /// Something else has to happen first.
    Waiting,
    /// It is to go: it is none of the targets that are to be ready.
    Leaving,
}

impl CountedState {
    /// Of a target. `wanted` is the revision that its VidraResource asks for; `None`: the one that the target is to have.
    pub fn of(target: &VidraTarget, wanted: Option<&str>) -> Self {
        let status = target.status.as_ref();
        let current = status.and_then(|status| status.observed_generation) == target.metadata.generation;
        let state = status.and_then(|status| status.state).filter(|_| current);
        let has = status.and_then(|status| status.revision.as_deref());
        let wanted = wanted.unwrap_or(&target.spec.revision);
        Self::new(target.spec.desired != DesiredState::Present, state, has == Some(wanted))
    }

    /// Of its parts: a state counts only of the target's present spec, and Ready only of the revision that is wanted.
    pub(super) fn new(leaving: bool, state: Option<TargetState>, is_wanted: bool) -> Self {
        match state {
            _ if leaving => Self::Leaving,
            Some(TargetState::Ready) if is_wanted => Self::Ready,
            Some(TargetState::Ready | TargetState::Progressing) | None => Self::Progressing,
            Some(TargetState::Failed) => Self::Failed,
            Some(TargetState::Unknown) => Self::Unknown,
            Some(TargetState::Suspended) => Self::Suspended,
            Some(TargetState::Waiting) => Self::Waiting,
            Some(TargetState::Terminating) => Self::Leaving,
        }
    }
}

/// Counts the VidraTargets on a member, each with the revision that its VidraResource asks for, and the objects that they
/// have there as far as is known.
pub fn member_targets<'a>(
    targets: impl IntoIterator<Item = (&'a VidraTarget, Option<&'a str>)>,
) -> (MemberTargets, i64) {
    let (mut counts, mut objects) = (MemberTargets::default(), 0);
    for (target, wanted) in targets {
        let standing = CountedState::of(target, wanted);
        counts.total += i32::from(standing != CountedState::Leaving);
        counts.ready += i32::from(standing == CountedState::Ready);
        counts.failed += i32::from(standing == CountedState::Failed);
        counts.terminating += i32::from(standing == CountedState::Leaving);
        let (drift, own) = told(target);
        counts.drifted += i32::from(drift == Some(DriftState::Drifted));
        objects += own;
    }
    (counts, objects)
}

/// What of a VidraTarget is counted: while this stays, so do the counts.
pub fn counted(target: &VidraTarget) -> (CountedState, Option<DriftState>, i64) {
    let (drift, objects) = told(target);
    (CountedState::of(target, None), drift, objects)
}

fn told(target: &VidraTarget) -> (Option<DriftState>, i64) {
    target.status.as_ref().map_or((None, 0), |status| (status.drift, status.objects))
}

#[cfg(test)]
mod tests {
    use vidra_api::{VidraTargetSpec, VidraTargetStatus};

    use super::*;

    /// Of generation 1, that is to have and has the revision r.
    fn target(state: TargetState, drift: DriftState, objects: i64) -> VidraTarget {
        let spec = VidraTargetSpec { revision: "r".into(), ..VidraTargetSpec::default() };
        let mut target = VidraTarget::new("shop.berlin", spec);
        target.metadata.generation = Some(1);
        target.status = Some(VidraTargetStatus {
            observed_generation: Some(1),
            state: Some(state),
            drift: Some(drift),
            revision: Some("r".into()),
            objects,
            ..VidraTargetStatus::default()
        });
        target
    }

    #[test]
    fn a_member_without_targets_has_none_of_anything() {
        assert_eq!(member_targets([]), (MemberTargets::default(), 0));
    }

    #[test]
    fn a_target_counts_by_the_state_of_its_present_spec_and_as_ready_only_with_what_is_wanted() {
        use CountedState::{Failed, Leaving, Progressing, Ready, Suspended, Unknown, Waiting};
        let of = |change: fn(&mut VidraTarget), wanted| {
            let mut one = target(TargetState::Ready, DriftState::InSync, 1);
            change(&mut one);
            CountedState::of(&one, wanted)
        };
        fn says(target: &mut VidraTarget, state: Option<TargetState>) {
            if let Some(status) = &mut target.status {
                status.state = state;
            }
        }
        type Turn = fn(&mut VidraTarget);
        let cases: [(Turn, Option<&str>, CountedState); 14] = [
            (|_| {}, None, Ready),
            (|_| {}, Some("r"), Ready),
            (|_| {}, Some("newer"), Progressing),
            (|one| one.spec.revision = "newer".into(), None, Progressing),
            (|one| one.metadata.generation = Some(2), None, Progressing),
            (|one| one.status = None, None, Progressing),
            (|one| says(one, None), None, Progressing),
            (|one| says(one, Some(TargetState::Progressing)), None, Progressing),
            (|one| says(one, Some(TargetState::Failed)), Some("newer"), Failed),
            (|one| says(one, Some(TargetState::Unknown)), None, Unknown),
            (|one| says(one, Some(TargetState::Suspended)), None, Suspended),
            (|one| says(one, Some(TargetState::Waiting)), None, Waiting),
            (|one| one.spec.desired = DesiredState::Absent, None, Leaving),
            (|one| one.spec.desired = DesiredState::Orphaned, Some("r"), Leaving),
        ];
        for (number, (change, wanted, standing)) in cases.into_iter().enumerate() {
            assert_eq!(of(change, wanted), standing, "case {number}");
        }
    }

    #[test]
    fn targets_count_by_standing_drift_across_all_and_objects_add_up() {
        use {DriftState as Drift, TargetState as State};
        let mut leaves = target(State::Terminating, Drift::Drifted, 5);
        leaves.spec.desired = DesiredState::Absent;
        let mut fresh = target(State::Ready, Drift::Unknown, 0);
        fresh.status = None;
        let all = [
            target(State::Ready, Drift::InSync, 3),
            target(State::Ready, Drift::Drifted, 2),
            target(State::Failed, Drift::Drifted, 1),
            target(State::Suspended, Drift::Unknown, 4),
            target(State::Unknown, Drift::Unknown, 7),
            leaves,
            fresh,
        ];
        let counts = MemberTargets { total: 6, ready: 2, drifted: 3, failed: 1, terminating: 1 };
        assert_eq!(member_targets(all.iter().map(|one| (one, None))), (counts, 22));
        let behind = MemberTargets { ready: 0, ..counts };
        assert_eq!(member_targets(all.iter().map(|one| (one, Some("newer")))), (behind, 22));
    }
}
