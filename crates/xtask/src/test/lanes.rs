//! Parts side by side: each lane does its own one after the other, and helps another when it has none left. After a
//! failure no part begins; those under way end.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use super::part::{Done, Part};

/// Parts that are done one after the other.
pub struct Lane {
    /// The lane's parts that have not begun.
    parts: VecDeque<Part>,
    /// Another lane may do its parts.
    shared: bool,
}

impl Lane {
    /// A lane whose parts no other does.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts: parts.into(), shared: false }
    }

    /// A lane whose parts others do too when they have done theirs.
    pub fn shared(parts: Vec<Part>) -> Self {
        Self { parts: parts.into(), shared: true }
    }
}

/// Runs them to the end, or until a part fails; what has ended, in the order of ending.
pub fn run(lanes: Vec<Lane>) -> Vec<Done> {
    let count = lanes.len();
    let (lanes, done, stop) = (Mutex::new(lanes), Mutex::new(Vec::new()), AtomicBool::new(false));
    let next = |own: usize| {
        let mut lanes = lanes.lock();
        let own = lanes.get_mut(own).and_then(|lane| lane.parts.pop_front());
        own.or_else(|| lanes.iter_mut().filter(|lane| lane.shared).find_map(|lane| lane.parts.pop_front()))
    };
    std::thread::scope(|scope| {
        for own in 0..count {
            let (next, done, stop) = (&next, &done, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed)
                    && let Some(part) = next(own)
                {
                    let ended = part.perform();
                    stop.fetch_or(ended.error.is_some(), Ordering::Relaxed);
                    done.lock().push(ended);
                }
            });
        }
    });
    done.into_inner()
}
