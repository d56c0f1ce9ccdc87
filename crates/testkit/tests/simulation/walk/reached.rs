//! Which marks walks reach: counted over many seeds, and held against tests/marks.txt, which names each that there is.

use std::collections::{BTreeMap, BTreeSet};

use testkit::sim::marks::Mark;

/// One mark a line; one that no walk reaches says why, behind `|`.
const NAMED: &str = include_str!("../../../../../tests/marks.txt");

/// In so many seeds each mark is reached that names no reason.
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

    /// What is named and was not reached though it could be, and what was reached and is not named.
    pub fn wrong(&self) -> Vec<String> {
        let named = named();
        let missed = named.iter().filter(|(mark, why)| why.is_none() && !self.0.contains_key(**mark));
        let missed = missed.map(|(mark, _)| format!("no walk reaches {mark}"));
        let strange = self.0.keys().filter(|mark| !named.contains_key(&***mark));
        let strange = strange.map(|mark| format!("tests/marks.txt does not name {mark}"));
        let excused = named.iter().filter(|(mark, why)| why.is_some() && self.0.contains_key(**mark));
        let excused =
            excused.map(|(mark, _)| format!("{mark} is reached, and tests/marks.txt says that it is not"));
        missed.chain(strange).chain(excused).collect()
    }
}

/// Each mark, with the reason why no walk reaches it.
fn named() -> BTreeMap<&'static str, Option<&'static str>> {
    let lines = NAMED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(" | ").map_or((line, None), |(mark, why)| (mark, Some(why)))).collect()
}
