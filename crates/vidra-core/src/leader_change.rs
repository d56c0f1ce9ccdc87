//! How long a process that takes over leaves what is there: what the previous holder had sent may take effect after this
//! one has looked, and what it makes then would stand in no inventory any more.

use std::time::Duration;

use crate::mutants::{self, Mutant};

/// An API server ends a write that asks for no time of its own after this (k8s.io/apiserver, endpoints/handlers:
/// `requestTimeoutUpperBound`).
pub const WRITE_LANDS_WITHIN: Duration = Duration::from_secs(34);

/// How the previous holder has left the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// There was no Lease.
    None,
    /// It gave the Lease up.
    Released {
        /// Each write that it had sent was answered, or can take no effect any more.
        is_drained: bool,
    },
    /// It did not renew the Lease for at least this long.
    Silent(Duration),
}

/// How long from now on what the previous holder had sent may take effect.
///
/// `sends_for`: how long after a renewal it may go on to send.
pub fn lands_in(former: Former, sends_for: Duration) -> Duration {
    match former {
        _ if mutants::is(Mutant::LateWritesIgnored) => Duration::ZERO,
        Former::None | Former::Released { is_drained: true } => Duration::ZERO,
        Former::Released { is_drained: false } => WRITE_LANDS_WITHIN,
        Former::Silent(unrenewed) => (sends_for + WRITE_LANDS_WITHIN).saturating_sub(unrenewed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_holder_had_sent_is_waited_for_unless_it_said_that_all_was_answered() {
        let seconds = Duration::from_secs;
        for (former, waits) in [
            (Former::None, 0),
            (Former::Released { is_drained: true }, 0),
            (Former::Released { is_drained: false }, 34),
            (Former::Silent(Duration::ZERO), 44),
            (Former::Silent(seconds(16)), 28),
            (Former::Silent(seconds(44)), 0),
            (Former::Silent(Duration::MAX), 0),
        ] {
            assert_eq!(lands_in(former, seconds(10)), seconds(waits), "{former:?}");
        }
    }
}
