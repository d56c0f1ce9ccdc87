//! Which marks walks reach: counted over many seeds, and held against tests/marks.txt, which names those that are not rare.

use std::collections::{BTreeMap, BTreeSet};

use testkit::sim::marks::Mark;

/// One mark a line.
const NAMED: &str = include_str!("../../../../../tests/marks.txt");

/// From this many seeds on each mark that is named is reached.
pub const ENOUGH: u64 = 1000;

/// In how many seeds each was reached.
#[derive(Default)]
pub struct Reached(BTreeMap<Mark, u64>);

impl Reached {
    /// Of one more seed.
    pub fn add(&mut self, marks: BTreeSet<Mark>) {
        for mark in marks {
            *self.0.entry(mark).or_default() += 1;
        }
    }

    /// Each with its seeds, rarest first.
    pub fn table(&self) -> String {
        let mut all: Vec<_> = self.0.iter().map(|(mark, seeds)| (seeds, mark)).collect();
        all.sort();
        all.iter().map(|(seeds, mark)| format!("{seeds:8} {mark}\n")).collect()
    }

    /// What is named and was not reached.
    pub fn wrong(&self) -> Vec<String> {
        let missed = named().filter(|mark| !self.0.contains_key(*mark));
        missed.map(|mark| format!("no walk reaches {mark}")).collect()
    }
}

/// Each mark that walks are to reach.
fn named() -> impl Iterator<Item = &'static str> {
    NAMED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}
