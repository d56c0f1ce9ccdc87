//! What the VidraTargets on one member come to.

use vidra_api::{DriftState, MemberTargets, TargetState, VidraTargetStatus};

/// Counts the VidraTargets on a member, and the objects that they have there. `None`: one says that nobody knows,
/// so there is nothing to count (with contact, that is so until it has been looked at).
///
/// Each item is one VidraTarget's status, `None` for one that has none yet.
pub fn member_targets<'a>(
    statuses: impl IntoIterator<Item = Option<&'a VidraTargetStatus>>,
) -> Option<(MemberTargets, i64)> {
    let (mut counts, mut objects) = (MemberTargets::default(), 0);
    for status in statuses {
        counts.total += 1;
        let (state, drift, own) = counted(status);
        match state {
            Some(TargetState::Unknown) => return None,
            Some(TargetState::Ready) => counts.ready += 1,
            Some(TargetState::Failed) => counts.failed += 1,
            _ => {}
        }
        counts.drifted += i32::from(drift == Some(DriftState::Drifted));
        objects += own;
    }
    Some((counts, objects))
}

/// What of a VidraTarget's status is counted: while this stays, so do the counts.
pub fn counted(status: Option<&VidraTargetStatus>) -> (Option<TargetState>, Option<DriftState>, i64) {
    status.map_or((None, None, 0), |status| (status.state, status.drift, status.objects))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: TargetState, drift: DriftState, objects: i64) -> VidraTargetStatus {
        VidraTargetStatus { state: Some(state), drift: Some(drift), objects, ..VidraTargetStatus::default() }
    }

    #[test]
    fn a_member_without_targets_has_none_of_anything() {
        assert_eq!(member_targets([]), Some((MemberTargets::default(), 0)));
    }

    #[test]
    fn targets_count_by_state_drift_across_states_and_objects_add_up() {
        use {DriftState as Drift, TargetState as State};
        let all = [
            status(State::Ready, Drift::InSync, 3),
            status(State::Ready, Drift::Drifted, 2),
            status(State::Failed, Drift::Drifted, 1),
            status(State::Suspended, Drift::Unknown, 4),
            status(State::Terminating, Drift::Unknown, 5),
        ];
        let statuses = all.iter().map(Some).chain([None]);
        let counts = MemberTargets { total: 6, ready: 2, drifted: 2, failed: 1 };
        assert_eq!(member_targets(statuses), Some((counts, 15)));
    }

    #[test]
    fn one_of_which_nobody_knows_leaves_nothing_to_count() {
        let all = [
            status(TargetState::Ready, DriftState::InSync, 3),
            status(TargetState::Unknown, DriftState::Unknown, 2),
        ];
        assert_eq!(member_targets(all.iter().map(Some)), None);
    }
}
