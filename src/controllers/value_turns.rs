//! The turns of statuses of which only values are news: one after another, and of each namespace in turn. Members whose
//! values all change at once leave the hub's API to other work, and the namespaces of others to their values.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

/// Turns begin so long after one another, of all targets together.
const BETWEEN_TURNS: Duration = Duration::from_millis(100);

/// The order in which statuses with only new values are written.
#[derive(Debug, Default)]
pub(super) struct ValueTurns {
    /// When the next one comes.
    next: Option<Instant>,
    /// Those that wait, by namespace, in the order in which they were taken; none of them is empty.
    lines: BTreeMap<Arc<str>, VecDeque<u64>>,
    /// The namespaces of which some wait, the next first.
    order: VecDeque<Arc<str>>,
    /// How many were taken.
    taken: u64,
}

/// A place in the line of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn(u64);

impl ValueTurns {
    /// Takes a place behind all of its namespace.
    pub(super) fn take(&mut self, namespace: &Arc<str>, now: Instant) -> Turn {
        let namespace = if mutants::is(Mutant::ValuesCrowd) { &Arc::from("") } else { namespace };
        self.pass(now);
        self.taken += 1;
        if !self.lines.contains_key(namespace) {
            self.order.push_back(namespace.clone());
        }
        self.lines.entry(namespace.clone()).or_default().push_back(self.taken);
        self.next = Some(self.next.map_or(now, |next| next.max(now)));
        self.pass(now);
        Turn(self.taken)
    }

    /// How long it is until this turn if nobody else takes one; `None`: it has come.
    pub(super) fn rest(&mut self, namespace: &Arc<str>, turn: Turn, now: Instant) -> Option<Duration> {
        self.pass(now);
        let before = self.lines.get(namespace)?.binary_search(&turn.0).ok()?;
        Some(self.next?.saturating_duration_since(now) + self.rest_behind(namespace, before))
    }

    /// How long it would be until one's turn who took it now.
    pub(super) fn rest_of_next(&mut self, namespace: &Arc<str>, now: Instant) -> Duration {
        self.pass(now);
        let before = self.lines.get(namespace).map_or(0, VecDeque::len);
        let next = self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now));
        next + self.rest_behind(namespace, before)
    }

    /// How long the turns take that come before one that has so many of its namespace before it.
    fn rest_behind(&self, namespace: &Arc<str>, before: usize) -> Duration {
        let mut others = 0;
        let mut is_behind = false;
        for (other, line) in self.order.iter().filter_map(|other| Some((other, self.lines.get(other)?))) {
            is_behind |= other == namespace;
            // Those that come before its own namespace do so in its own round too.
            others += line.len().min(before + usize::from(!is_behind));
        }
        BETWEEN_TURNS * u32::try_from(others).unwrap_or(u32::MAX)
    }

    /// The turns that have come by now.
    fn pass(&mut self, now: Instant) {
        while let Some(next) = self.next.filter(|next| *next <= now) {
            let Some(namespace) = self.order.pop_front() else { return };
            let Some(line) = self.lines.get_mut(&namespace) else { continue };
            line.pop_front();
            if line.is_empty() {
                self.lines.remove(&namespace);
            } else {
                self.order.push_back(namespace);
            }
            self.next = Some(next + BETWEEN_TURNS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn turns_come_one_after_another_and_of_each_namespace_in_turn() {
        let (mut turns, start) = (ValueTurns::default(), Instant::now());
        let [noisy, quiet, third] = ["noisy", "quiet", "third"].map(Arc::<str>::from);
        let many: Vec<_> = (0..1000).map(|_| turns.take(&noisy, start)).collect();
        for (nth, turn) in (0..).zip(&many) {
            assert_eq!(turns.rest(&noisy, *turn, start), (nth > 0).then(|| ms(100 * nth)), "{nth}");
        }
        let at = start + ms(150);
        let [first, second] = [turns.take(&quiet, at), turns.take(&quiet, at)];
        let other = turns.take(&third, at);
        // noisy at 200, quiet at 300, third at 400, noisy at 500, quiet at 600.
        for (namespace, turn, rest) in [
            (&noisy, many[1], None),
            (&noisy, many[2], Some(50)),
            (&quiet, first, Some(150)),
            (&third, other, Some(250)),
            (&noisy, many[3], Some(350)),
            (&quiet, second, Some(450)),
            (&noisy, many[4], Some(550)),
            (&noisy, many[999], Some(100_050)),
        ] {
            assert_eq!(turns.rest(namespace, turn, at), rest.map(ms), "{namespace} {turn:?}");
        }
        assert_eq!(turns.rest_of_next(&noisy, at), ms(100_150), "behind all of its namespace");
        assert_eq!(turns.rest_of_next(&Arc::from("new"), at), ms(350), "behind one of each other namespace");
        // What was foretold comes true.
        assert_eq!(turns.rest(&quiet, second, start + ms(599)), Some(ms(1)));
        assert_eq!(turns.rest(&quiet, second, start + ms(600)), None);
        assert_eq!(turns.rest(&noisy, many[999], start + ms(100_199)), Some(ms(1)));
        assert_eq!(turns.rest(&noisy, many[999], start + ms(100_200)), None);
        assert!(turns.lines.is_empty() && turns.order.is_empty());
        // Time in which nobody waited is not made up for.
        let late = start + ms(500_000);
        let [first, second] = [turns.take(&noisy, late), turns.take(&noisy, late)];
        assert_eq!(
            (turns.rest(&noisy, first, late), turns.rest(&noisy, second, late)),
            (None, Some(ms(100)))
        );
    }
}
