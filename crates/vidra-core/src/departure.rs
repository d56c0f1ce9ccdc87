//! How a target leaves its member: what is to become of its VidraTarget next, once nobody wants it there.

use vidra_api::target::DesiredState;

/// What is known of a target that is to leave.
#[derive(Clone, Copy, Debug)]
pub struct DepartureFacts {
    /// What its VidraTarget asks for now.
    pub desired: DesiredState,
    /// How it ends, by the policies that hold now.
    pub asked: DesiredState,
    /// Its MemberCluster is there.
    pub member_exists: bool,
    /// Its member leaves, and its cluster is a member under an older name: that one has the objects.
    pub is_twin: bool,
    /// It was to leave before, and its member was asked.
    pub is_tried: bool,
    /// A person says that nobody is to wait for its member.
    pub is_given_up: bool,
    /// Nothing of it is to be deleted, and its member has not answered for too long.
    pub is_overdue: bool,
}

/// What becomes of the VidraTarget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It stays as it is.
    Wait,
    /// Nobody waits for its member any more, once a status says what stays there.
    Forget,
    /// It asks for this.
    Turn(DesiredState),
}

/// Decides. A member is tried first: one that answers is cleaned up, whatever an old annotation says.
pub fn departure(facts: &DepartureFacts) -> Departure {
    let DepartureFacts { desired, asked, member_exists, is_twin, is_given_up, .. } = *facts;
    let is_over = is_twin || (facts.is_tried && (is_given_up || facts.is_overdue));
    match desired {
        DesiredState::Forgotten => Departure::Wait,
        DesiredState::Present if is_twin && member_exists => Departure::Forget,
        // A MemberCluster that is not there is no wish to leave.
        DesiredState::Present if !member_exists && is_given_up => Departure::Forget,
        DesiredState::Absent | DesiredState::Orphaned if is_over => Departure::Forget,
        _ if !member_exists => Departure::Wait,
        _ => Departure::Turn(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_leaves_by_its_policy_and_is_forgotten_where_nobody_waits_for_its_member() {
        let present = DepartureFacts {
            desired: DesiredState::Present,
            asked: DesiredState::Absent,
            member_exists: true,
            is_twin: false,
            is_tried: false,
            is_given_up: false,
            is_overdue: false,
        };
        let missing = DepartureFacts { member_exists: false, ..present };
        let absent = DepartureFacts { desired: DesiredState::Absent, ..present };
        let tried = DepartureFacts { is_tried: true, ..absent };
        let gone =
            DepartureFacts { desired: DesiredState::Forgotten, is_twin: true, is_given_up: true, ..tried };
        let turn = Departure::Turn(DesiredState::Absent);
        for (facts, expected) in [
            (present, turn),
            (DepartureFacts { is_given_up: true, ..present }, turn),
            (DepartureFacts { is_twin: true, ..present }, Departure::Forget),
            (missing, Departure::Wait),
            (DepartureFacts { is_given_up: true, ..missing }, Departure::Forget),
            (absent, turn),
            (
                DepartureFacts { asked: DesiredState::Orphaned, ..absent },
                Departure::Turn(DesiredState::Orphaned),
            ),
            (DepartureFacts { is_given_up: true, is_overdue: true, ..absent }, turn),
            (DepartureFacts { is_twin: true, ..absent }, Departure::Forget),
            (DepartureFacts { member_exists: false, ..absent }, Departure::Wait),
            (tried, turn),
            (DepartureFacts { is_given_up: true, ..tried }, Departure::Forget),
            (DepartureFacts { is_overdue: true, ..tried }, Departure::Forget),
            (DepartureFacts { member_exists: false, is_given_up: true, ..tried }, Departure::Forget),
            (gone, Departure::Wait),
            (DepartureFacts { member_exists: false, ..gone }, Departure::Wait),
        ] {
            assert_eq!(departure(&facts), expected, "{facts:?}");
        }
    }
}
