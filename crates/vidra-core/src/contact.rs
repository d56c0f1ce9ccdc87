//! When a member counts as out of contact: after so many probes in a row without an answer. A probe whose own timers were
//! late counts for nothing: a process that is starved of CPU is late for every answer, and all its members would seem silent.
//! Neither does one that the member's API server has asked not to be sent.

use std::time::Duration;

use crate::mutants::{self, Mutant};

/// A timer that wakes later than this says more of this process than of the member.
const LATE: Duration = Duration::from_millis(500);

/// How many probes in a row count as missed, after one more.
///
/// `is_excused`: the API server has too many requests, and had asked to be left alone for longer. `late`: by how much the
/// latest of the probe's own timers was.
pub fn misses(before: u32, answered: bool, is_excused: bool, late: Duration) -> u32 {
    match answered {
        true => 0,
        false if is_excused => before,
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
        for (before, answered, is_excused, late, after) in [
            (0, true, false, 0, 0),
            (1, true, false, 0, 0),
            (1, true, false, 30_000, 0),
            (1, true, true, 0, 0),
            (0, false, false, 0, 1),
            (1, false, false, 1, 2),
            (1, false, false, 500, 2),
            // What was missed before stays missed.
            (1, false, false, 501, 1),
            (0, false, false, 30_000, 0),
            (1, false, true, 0, 1),
            (0, false, true, 0, 0),
            (u32::MAX, false, false, 0, u32::MAX),
        ] {
            let missed = misses(before, answered, is_excused, milliseconds(late));
            assert_eq!(missed, after, "{before} {answered} {is_excused} {late}");
        }
    }
}
