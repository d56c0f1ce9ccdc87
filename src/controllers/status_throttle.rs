//! When a status of one object is written: at most once a second, the last one always. The one place that decides that, for
//! VidraResources and VidraTargets. The counts of MemberClusters have their own: member_cluster/counts.rs.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

use super::{
    value_pace::ValuePace,
    value_turns::{Turn, ValueTurns},
};

/// A status of one object is written at most once in this time, and once more when it ends what a passing one
/// announced; the last one always.
const BETWEEN_STATUSES: Duration = Duration::from_secs(1);
/// How long a status waits of which more may be told in a moment.
const SETTLE: Duration = Duration::from_secs(1);
/// What a status has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusChange {
    /// Nothing that was not told.
    Nothing,
    /// Nothing but what came back from a member.
    Values,
    /// Nothing but that what came back is as it was told, and not old.
    ValuesStable,
    /// Of work that is mostly done in a moment: of a change that goes well only the end is written.
    Transient,
    /// Something, and another reconcile of the object comes at once that may have more.
    Followed,
    /// Something that stands.
    Durable,
}

impl StatusChange {
    /// It is one of the target itself, not of its values alone.
    pub(super) fn is_of_target(self) -> bool {
        !matches!(self, Self::Nothing | Self::Values | Self::ValuesStable)
    }
}

/// When a status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Not this one.
    Never,
    Now,
    /// When the object is reconciled again after so long.
    In(Duration),
}

/// When the status of one object was written last, and since when another waits.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StatusThrottle {
    /// When one was sent last.
    sent: Option<Instant>,
    /// The newest that was due is passing: what ends it keeps no distance.
    passing: bool,
    /// Since when one waits of which more may be told in a moment.
    settling: Option<Instant>,
    /// One kept its distance since that was asked last.
    deferred: bool,
    /// The turn of values that wait for it.
    turn: Option<Turn>,
    /// Nobody has needed that turn since.
    turn_rests: bool,
    /// How often values alone are written.
    values: ValuePace,
}

impl StatusThrottle {
    /// When a status of an object in this namespace is written that has this to tell.
    pub(super) fn due(
        &mut self,
        change: StatusChange,
        now: Instant,
        namespace: &Arc<str>,
        turns: &mut ValueTurns,
    ) -> Due {
        self.turn = self.turn.filter(|turn| !self.turn_rests || turns.rest(namespace, *turn, now).is_some());
        let waits = match change {
            StatusChange::Nothing => {
                self.settling = None;
                self.values.note_nothing();
                self.rest_turn();
                Some(Due::Never)
            }
            StatusChange::Transient | StatusChange::Followed => self.settle(change, now),
            StatusChange::Values | StatusChange::ValuesStable => {
                self.settling = None;
                self.await_turn(change, now, (namespace, turns)).map(Due::In)
            }
            StatusChange::Durable => None,
        };
        if let Some(waits) = waits {
            return waits;
        }
        let is_end = self.passing
            && !matches!(change, StatusChange::Transient | StatusChange::Values | StatusChange::ValuesStable);
        if !is_end && let Some(rest) = self.sent.and_then(|sent| rest_of(BETWEEN_STATUSES, sent, now)) {
            self.deferred = true;
            return Due::In(rest);
        }
        self.passing = change == StatusChange::Transient;
        self.values.note_due(change == StatusChange::Values);
        Due::Now
    }

    /// What one waits for of which more may be told in a moment; `None`: nothing came.
    fn settle(&mut self, change: StatusChange, now: Instant) -> Option<Due> {
        let since = *self.settling.get_or_insert(now);
        let rest = rest_of(SETTLE, since, now)?;
        // The reconcile that follows needs no timer.
        Some(if change == StatusChange::Transient { Due::In(rest) } else { Due::Never })
    }

    /// How long values wait: for their distance from what was sent last, and for their turn. Where that comes later than the
    /// distance ends it is taken at once: the object is reconciled once less.
    fn await_turn(
        &mut self,
        change: StatusChange,
        now: Instant,
        (namespace, turns): (&Arc<str>, &mut ValueTurns),
    ) -> Option<Duration> {
        let is_stable = change == StatusChange::ValuesStable;
        let distance =
            if is_stable { self.values.note_rest() } else { self.values.note_change(self.sent, now) };
        let distance = self.sent.and_then(|sent| rest_of(distance, sent, now));
        let distance = distance.filter(|_| !mutants::is(Mutant::ValuesAtOnce));
        let takes = distance.is_none_or(|left| !is_stable && turns.rest_of_next(namespace, now) >= left);
        if distance.is_none() && is_stable {
            self.values.rest();
        }
        if takes {
            self.turn.get_or_insert_with(|| turns.take(namespace, now));
            self.turn_rests = false;
        }
        distance.max(self.turn.and_then(|turn| turns.rest(namespace, turn, now)))
    }

    /// Its values change all the time, and are written rarely; not those that have rested since, though nobody has asked.
    pub(super) fn has_busy_values(&self, now: Instant) -> bool {
        self.values.is_busy(self.sent, now)
    }

    /// One that was due was sent, and answered or given up. It may have waited for its turn among the calls to the hub's
    /// API, and its answer may have taken long: the next one keeps its distance from this moment. `taken`: it stands, or is
    /// not sent again.
    pub(super) fn sent(&mut self, taken: bool, now: Instant) {
        self.values.end_busy(self.sent, now);
        self.sent = Some(now);
        self.settling = None;
        self.values.note_sent(taken, now);
        self.rest_turn();
    }

    /// A turn that nobody needs now is kept until it has passed: whoever gave turns back and took others would take them
    /// from the rest.
    fn rest_turn(&mut self) {
        self.turn_rests = self.turn.is_some();
    }

    /// One was sent a moment ago.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.sent.is_some_and(|sent| rest_of(BETWEEN_STATUSES, sent, now).is_some())
    }

    /// Whether one kept its distance since this was asked last.
    pub(super) fn take_deferred(&mut self) -> bool {
        std::mem::take(&mut self.deferred)
    }
}

/// What is left of a time that began then.
fn rest_of(time: Duration, since: Instant, now: Instant) -> Option<Duration> {
    time.checked_sub(now.duration_since(since)).filter(|rest| !rest.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team() -> Arc<str> {
        "team".into()
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// What each status had to tell, when, and when it was to be written; what was due was sent at once.
    #[track_caller]
    fn decides(table: &[(u64, StatusChange, Due)]) {
        let (mut throttle, mut turns, start) =
            (StatusThrottle::default(), ValueTurns::default(), Instant::now());
        for (at, news, due) in table {
            let now = start + ms(*at);
            assert_eq!(throttle.due(*news, now, &team(), &mut turns), *due, "{news:?} at {at} ms");
            if *due == Due::Now {
                throttle.sent(true, now);
            }
        }
    }

    use Due::{In, Never, Now};
    use StatusChange::{Durable, Followed, Nothing, Transient, Values, ValuesStable};

    #[test]
    fn what_stands_is_written_at_once_and_then_once_a_second() {
        decides(&[
            (0, Durable, Now),
            (10, Durable, In(ms(990))),
            (400, Nothing, Never),
            (999, Durable, In(ms(1))),
            (1000, Durable, Now),
            (1001, Durable, In(ms(999))),
        ]);
    }

    #[test]
    fn what_passes_waits_a_second_for_its_end_which_waits_for_nothing() {
        decides(&[(0, Transient, In(ms(1000))), (300, Transient, In(ms(700))), (500, Durable, Now)]);
        decides(&[
            (0, Transient, In(ms(1000))),
            (1000, Transient, Now),
            (1010, Nothing, Never),
            (1020, Durable, Now),
            (1030, Durable, In(ms(990))),
        ]);
    }

    #[test]
    fn what_is_followed_waits_a_second_at_most_and_for_no_timer() {
        decides(&[
            (0, Followed, Never),
            (999, Followed, Never),
            (1000, Followed, Now),
            (1001, Followed, Never),
            (1500, Durable, In(ms(500))),
            (2000, Durable, Now),
        ]);
    }

    #[test]
    fn values_alone_are_written_every_ten_seconds_and_hold_up_nothing_else() {
        decides(&[
            (0, Values, Now),
            (10, Values, In(ms(9990))),
            (5000, Durable, Now),
            (5001, Values, In(ms(9999))),
            (15_000, Values, Now),
        ]);
        // What waited before is over, and values are no end of what passes.
        decides(&[(0, Durable, Now), (1000, Transient, In(ms(1000))), (1100, Values, In(ms(8900)))]);
        decides(&[(0, Transient, In(ms(1000))), (1000, Transient, Now), (1500, Values, In(ms(9500)))]);
    }

    #[test]
    fn values_that_change_all_the_time_are_written_every_ten_minutes_until_they_rest() {
        let (mut throttle, mut turns, start) =
            (StatusThrottle::default(), ValueTurns::default(), Instant::now());
        let mut written = Vec::new();
        let mut second = |throttle: &mut StatusThrottle, second: u64, news| {
            let now = start + Duration::from_secs(second);
            let due = throttle.due(news, now, &team(), &mut turns);
            if due == Now {
                throttle.sent(true, now);
                written.push(second);
            }
            due
        };
        for at in 0..2000 {
            second(&mut throttle, at, Values);
        }
        assert!(throttle.has_busy_values(start + Duration::from_secs(1999)));
        // What stands is written at once, and they go along.
        assert_eq!(second(&mut throttle, 2000, Durable), Now);
        assert_eq!(second(&mut throttle, 2001, Values), In(ms(599_000)));
        // They rest for longer than a hundred seconds behind the last.
        assert_eq!(second(&mut throttle, 2600, Values), Now);
        assert_eq!(second(&mut throttle, 2702, Values), Now);
        assert!(!throttle.has_busy_values(start + Duration::from_secs(2702)));
        assert_eq!(second(&mut throttle, 2703, Values), In(ms(9000)));
        assert_eq!(written, [0, 10, 20, 30, 40, 50, 650, 1250, 1850, 2000, 2600, 2702]);
    }

    #[test]
    fn busy_values_that_are_as_they_were_told_are_told_to_be_current_once_they_rested() {
        let (mut throttle, mut turns, start) =
            (StatusThrottle::default(), ValueTurns::default(), Instant::now());
        let mut at = |throttle: &mut StatusThrottle, second: u64, news| {
            let now = start + Duration::from_secs(second);
            let due = throttle.due(news, now, &team(), &mut turns);
            let busy = throttle.has_busy_values(now);
            if due == Now {
                throttle.sent(true, now);
            }
            (due, busy)
        };
        for second in [0, 10, 20, 30, 40] {
            assert_eq!(at(&mut throttle, second, Values), (Now, false));
        }
        assert_eq!(at(&mut throttle, 50, Values), (Now, true), "nothing newer is written for a while");
        assert_eq!(at(&mut throttle, 60, Values), (In(ms(590_000)), true));
        // Something else is to be told, and they go along with a time.
        assert_eq!(at(&mut throttle, 70, Durable), (Now, true));
        assert_eq!(at(&mut throttle, 71, ValuesStable), (In(ms(99_000)), true));
        assert_eq!(at(&mut throttle, 80, Values), (In(ms(590_000)), true), "another one, which goes back");
        assert_eq!(at(&mut throttle, 90, ValuesStable), (In(ms(80_000)), true));
        assert_eq!(at(&mut throttle, 170, ValuesStable), (Now, false));
        assert_eq!(at(&mut throttle, 171, Nothing), (Never, false));
        // Where they were old for another reason they are not kept.
        assert_eq!(at(&mut throttle, 200, Durable), (Now, false));
        assert_eq!(at(&mut throttle, 205, ValuesStable), (In(ms(5000)), false));
        assert_eq!(at(&mut throttle, 210, ValuesStable), (Now, false));
    }

    #[test]
    fn values_that_the_api_does_not_take_are_not_busy_and_busy_ones_that_rested_are_busy_no_more() {
        let (mut throttle, mut turns, start) =
            (StatusThrottle::default(), ValueTurns::default(), Instant::now());
        let mut send = |throttle: &mut StatusThrottle, second: u64, news, taken| {
            let now = start + Duration::from_secs(second);
            assert_eq!(throttle.due(news, now, &team(), &mut turns), Now, "at {second} s");
            let busy = throttle.has_busy_values(now);
            throttle.sent(taken, now);
            busy
        };
        assert!(!send(&mut throttle, 0, Values, true));
        for second in [10, 20, 30, 40, 50, 60] {
            assert!(!send(&mut throttle, second, Values, false));
        }
        for second in [70, 80, 90, 100, 110] {
            assert!(!send(&mut throttle, second, Values, true));
        }
        assert!(send(&mut throttle, 120, Values, true), "it is the last for a while");
        assert!(throttle.has_busy_values(start + ms(220_000)));
        for second in [221, 230] {
            assert!(!send(&mut throttle, second, Durable, true), "they are as they were for more than 100 s");
        }
    }

    #[test]
    fn values_of_many_are_written_one_after_another_and_keep_nothing_else() {
        let (mut turns, start) = (ValueTurns::default(), Instant::now());
        let mut all: Vec<_> = (0..1000).map(|_| StatusThrottle::default()).collect();
        for (nth, throttle) in (0_u64..).zip(&mut all) {
            let due = if nth == 0 { Now } else { In(ms(100 * nth)) };
            assert_eq!(throttle.due(Values, start, &team(), &mut turns), due, "{nth}");
            // Whoever asks again keeps its turn.
            assert_eq!(throttle.due(Values, start, &team(), &mut turns), due, "{nth}");
        }
        let last = &mut all[999];
        assert_eq!(last.due(Durable, start, &team(), &mut turns), Now);
        last.sent(true, start);
        // Its turn is kept, and takes no second one from the others.
        assert_eq!(last.due(Values, start + ms(10_000), &team(), &mut turns), In(ms(89_900)));
        for _ in 0..1000 {
            assert_eq!(last.due(Nothing, start + ms(10_000), &team(), &mut turns), Never);
            assert_eq!(last.due(Values, start + ms(10_000), &team(), &mut turns), In(ms(89_900)));
        }
        assert_eq!(
            StatusThrottle::default().due(Values, start + ms(10_000), &team(), &mut turns),
            In(ms(90_000))
        );
        assert_eq!(all[998].due(Values, start + ms(99_800), &team(), &mut turns), Now);
        assert_eq!(StatusThrottle::default().due(Values, start + ms(200_000), &team(), &mut turns), Now);
    }

    #[test]
    fn the_time_that_one_waited_is_not_taken_off_anothers() {
        for wait in [Transient, Followed] {
            let (mut throttle, mut turns) = (StatusThrottle::default(), ValueTurns::default());
            let start = Instant::now();
            assert_ne!(throttle.due(wait, start, &team(), &mut turns), Now);
            // What it announced is over, and needs no status.
            assert_eq!(throttle.due(Nothing, start + ms(10), &team(), &mut turns), Never);
            assert_eq!(throttle, StatusThrottle::default(), "{wait:?} leaves nothing behind");
            assert_ne!(throttle.due(wait, start + ms(60_000), &team(), &mut turns), Now, "{wait:?}");
        }
    }

    #[test]
    fn the_next_keeps_its_distance_from_the_answer_and_that_is_told_once() {
        let (mut throttle, mut turns, start) =
            (StatusThrottle::default(), ValueTurns::default(), Instant::now());
        let mut due =
            |throttle: &mut StatusThrottle, at| throttle.due(Durable, start + ms(at), &team(), &mut turns);
        assert_eq!(due(&mut throttle, 0), Now);
        throttle.sent(true, start + ms(700));
        assert!(throttle.is_fresh(start + ms(1699)) && !throttle.is_fresh(start + ms(1700)));
        assert!(!throttle.take_deferred());
        assert_eq!(due(&mut throttle, 1000), In(ms(700)));
        assert!(throttle.take_deferred() && !throttle.take_deferred());
        assert_eq!(due(&mut throttle, 1700), Now);
        assert!(!throttle.take_deferred());
    }

    #[test]
    fn values_take_a_turn_that_comes_after_their_distance_at_once_and_are_reconciled_once_less() {
        let (mut throttle, mut turns, start) =
            (StatusThrottle::default(), ValueTurns::default(), Instant::now());
        throttle.sent(true, start);
        let at = start + ms(1_000);
        assert_eq!(
            throttle.due(Values, at, &team(), &mut turns),
            In(ms(9_000)),
            "no turn is taken before its time"
        );
        let mut others: Vec<_> = (0..200).map(|_| StatusThrottle::default()).collect();
        for other in &mut others {
            assert_ne!(other.due(Values, at, &team(), &mut turns), Never);
        }
        let mut late = StatusThrottle::default();
        late.sent(true, start);
        assert_eq!(late.due(Values, at, &team(), &mut turns), In(ms(20_000)));
        // Whoever looks meanwhile finds it so still, and nobody comes in between.
        assert_eq!(late.due(Values, at + ms(5_000), &team(), &mut turns), In(ms(15_000)));
        assert_eq!(throttle.due(Values, at + ms(9_000), &team(), &mut turns), In(ms(11_100)));
        assert_eq!(late.due(Values, at + ms(20_000), &team(), &mut turns), Now);
    }
}
