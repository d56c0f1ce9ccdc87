//! When a member counts as out of contact: after so many probes in a row without an answer. A probe whose own timers were
//! late counts for nothing: a process that is starved of CPU is late for every answer, and all its members would seem silent.

use std::time::Duration;

use crate::mutants::{self, Mutant};

/// A timer that wakes later than this says more of this process than of the member.
const LATE: Duration = Duration::from_millis(500);

/// How many probes in a row count as missed, after one more.
///
/// `late`: by how much the latest of the probe's own timers was.
pub fn misses(before: u32, answered: bool, late: Duration) -> u32 {
    match answered {
        true => 0,
        false if late > LATE && !mutants::is(Mutant::StarvedMisses) => before,
        false => before.saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_probes_that_were_asked_in_time_and_not_answered_are_misses() {
        let milliseconds = Duration::from_millis;
        for (before, answered, late, after) in [
            (0, true, 0, 0),
            (1, true, 0, 0),
            (1, true, 30_000, 0),
            (0, false, 0, 1),
            (1, false, 1, 2),
            (1, false, 500, 2),
            // What was missed before stays missed.
            (1, false, 501, 1),
            (0, false, 30_000, 0),
            (u32::MAX, false, 0, u32::MAX),
        ] {
            assert_eq!(misses(before, answered, milliseconds(late)), after, "{before} {answered} {late}");
        }
    }
}
