//! What waits to be written, in turns by namespace: who causes many Events keeps those of others waiting for one of
//! theirs, and takes no place of theirs.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use vidra_core::mutants::{self, Mutant};

use super::burst::MOMENT;

/// So many wait in one namespace.
const EACH_MAX: usize = 256;
/// So many wait in all.
const ALL_MAX: usize = 4096;

/// Takes what is to be written and gives it out.
pub(super) struct Waiting<T> {
    lines: Mutex<Lines<T>>,
    changed: Notify,
    dropped: AtomicU64,
}

struct Lines<T> {
    /// What may be written, by namespace; a namespace is here as long as something of it waits.
    ready: BTreeMap<String, Line<T>>,
    /// Namespaces with something that may be written, the next first.
    turns: VecDeque<String>,
    /// What may be written when its moment is over, the first first.
    later: VecDeque<(Instant, String, T)>,
    count: usize,
    closed: bool,
}

struct Line<T> {
    items: VecDeque<T>,
    /// With those whose moment is not over.
    count: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        let lines = Lines {
            ready: BTreeMap::new(),
            turns: VecDeque::new(),
            later: VecDeque::new(),
            count: 0,
            closed: false,
        };
        Self { lines: Mutex::new(lines), changed: Notify::new(), dropped: AtomicU64::new(0) }
    }
}

impl<T> Waiting<T> {
    /// Takes one, to be written at once. False: too many wait.
    pub(super) fn put(&self, namespace: &str, item: T) -> bool {
        self.take_in(namespace, |lines| lines.ready(namespace, item))
    }

    /// Takes one, to be written when a moment is over. False: too many wait.
    pub(super) fn put_later(&self, namespace: &str, item: T) -> bool {
        let at = Instant::now() + MOMENT;
        self.take_in(namespace, |lines| lines.later.push_back((at, namespace.to_owned(), item)))
    }

    fn take_in(&self, namespace: &str, put: impl FnOnce(&mut Lines<T>)) -> bool {
        let mut lines = self.lines.lock();
        let has_many = lines.ready.get(namespace).is_some_and(|line| line.count >= EACH_MAX);
        if lines.count >= ALL_MAX || has_many && !mutants::is(Mutant::EventsCrowd) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let none = || Line { items: VecDeque::new(), count: 0 };
        lines.ready.entry(namespace.to_owned()).or_insert_with(none).count += 1;
        lines.count += 1;
        put(&mut lines);
        drop(lines);
        self.changed.notify_one();
        true
    }

    /// The next one; `None`: nobody puts any more in, and all is out.
    pub(super) async fn next(&self) -> Option<T> {
        loop {
            let (over, closed) = {
                let mut lines = self.lines.lock();
                lines.promote(Instant::now());
                if let Some(item) = lines.next() {
                    return Some(item);
                }
                (lines.later.front().map(|(at, ..)| *at), lines.closed)
            };
            if closed {
                return None;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(over.unwrap_or_else(Instant::now)), if over.is_some() => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Nobody puts any more in.
    pub(super) fn close(&self) {
        self.lines.lock().closed = true;
        self.changed.notify_one();
    }

    /// How many were not taken.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl<T> Lines<T> {
    fn ready(&mut self, namespace: &str, item: T) {
        let Some(line) = self.ready.get_mut(namespace) else { return };
        line.items.push_back(item);
        if line.items.len() == 1 {
            self.turns.push_back(namespace.to_owned());
        }
    }

    /// What has waited for its moment.
    fn promote(&mut self, now: Instant) {
        while self.later.front().is_some_and(|(at, ..)| self.closed || *at <= now) {
            let Some((_, namespace, item)) = self.later.pop_front() else { return };
            self.ready(&namespace, item);
        }
    }

    fn next(&mut self) -> Option<T> {
        let namespace = self.turns.pop_front()?;
        let line = self.ready.get_mut(&namespace)?;
        let item = line.items.pop_front()?;
        (line.count, self.count) = (line.count - 1, self.count - 1);
        if !line.items.is_empty() {
            self.turns.push_back(namespace);
        } else if line.count == 0 {
            self.ready.remove(&namespace);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_much_to_tell_lets_others_have_their_turns_and_takes_no_place_of_theirs() {
        let waiting = Waiting::default();
        let taken = (0..1000).filter(|number| waiting.put("noisy", ("noisy", *number))).count();
        assert_eq!((taken, waiting.dropped()), (EACH_MAX, 1000 - EACH_MAX as u64));
        assert!(waiting.put("team-a", ("team-a", 0)) && waiting.put_later("team-b", ("team-b", 0)));
        assert!(!waiting.put_later("noisy", ("noisy", 0)));
        for expected in [("noisy", 0), ("team-a", 0), ("noisy", 1)] {
            assert_eq!(waiting.next().await, Some(expected));
        }
        tokio::time::advance(MOMENT).await;
        assert_eq!(waiting.next().await, Some(("noisy", 2)));
        assert_eq!(waiting.next().await, Some(("team-b", 0)));
        assert!(waiting.put("noisy", ("noisy", 9)), "there is room again");
        waiting.close();
        let mut rest = 0;
        while waiting.next().await.is_some() {
            rest += 1;
        }
        assert_eq!(rest, EACH_MAX - 2);
        assert!(waiting.lines.lock().ready.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gathered_waits_for_its_moment_unless_all_ends() {
        let waiting = Waiting::default();
        let began = Instant::now();
        waiting.put_later("team-a", 1);
        waiting.put("team-a", 2);
        assert_eq!((waiting.next().await, began.elapsed()), (Some(2), std::time::Duration::ZERO));
        assert_eq!((waiting.next().await, began.elapsed()), (Some(1), MOMENT));
        waiting.put_later("team-a", 3);
        waiting.close();
        assert_eq!((waiting.next().await, began.elapsed()), (Some(3), MOMENT));
        assert_eq!(waiting.next().await, None);
    }

    #[test]
    fn all_namespaces_together_wait_up_to_a_bound() {
        let waiting = Waiting::default();
        let taken = (0..ALL_MAX + 9).filter(|number| waiting.put(&number.to_string(), ())).count();
        assert_eq!((taken, waiting.dropped()), (ALL_MAX, 9));
    }
}
