//! Which marks walks reach: counted over many seeds, and held against tests/marks.txt, which names those that are not rare, and
//! against what the manual documents. What of that walks need not reach stands in tests/marks-exempt.txt.

use std::collections::{BTreeMap, BTreeSet};

use testkit::sim::marks::Mark;

use super::documented::{CALL, TELLERS, documented};

/// One mark a line.
const NAMED: &str = include_str!("../../../../../tests/marks.txt");
/// One exemption a line; the file says what its cells are.
const EXEMPT: &str = include_str!("../../../../../tests/marks-exempt.txt");

/// From this many seeds on each mark that is named is reached, and each that is documented.
pub const ENOUGH: u64 = 1000;
/// What one walk in so many reaches is not rare: over [`ENOUGH`] seeds it is not missed by chance, and needs no exemption.
const RARE: u64 = 200;
/// Exemptions of what walks could reach.
const MOST_RARE: usize = 10;

/// In how many seeds each was reached.
#[derive(Default)]
pub struct Reached(BTreeMap<Mark, u64>);

/// Why a mark that is documented need not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exemption {
    /// Walks could reach it, and do so rarely or never.
    Rare,
    /// It belongs to a part that no walk has.
    Apart,
}

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

    /// What so many seeds have not reached and are to; and exemptions of what they reach.
    pub fn wrong(&self, seeds: u64) -> Vec<String> {
        let (named, exempt): (BTreeSet<_>, BTreeMap<_, _>) = (named().collect(), exemptions().collect());
        let missed = named.iter().filter(|mark| self.seeds(mark) == 0);
        let mut wrong: Vec<String> = missed.map(|mark| format!("no walk reaches {mark}")).collect();
        for mark in documented() {
            let is_known = named.contains(&*mark) || exempt.contains_key(&*mark);
            if !is_known && self.seeds(&mark) == 0 {
                wrong.push(format!(
                    "no walk reaches {mark}, which docs/reference documents: let a step reach it, or say in \
                     tests/marks-exempt.txt why none does"
                ));
            }
        }
        for (mark, exemption) in exempt {
            let most = match exemption {
                Exemption::Rare => seeds / RARE,
                Exemption::Apart => 0,
            };
            let reach = self.seeds(mark);
            if reach > most {
                wrong.push(format!(
                    "{reach} of {seeds} walks reach {mark}: take its line out of tests/marks-exempt.txt"
                ));
            }
        }
        wrong
    }

    /// How many seeds have reached it; the reason of a call, with whatever tells it.
    fn seeds(&self, mark: &str) -> u64 {
        let of = |mark: &str| self.0.get(mark).copied().unwrap_or_default();
        match mark.split_once(':') {
            Some((CALL, reason)) => {
                let told = TELLERS.iter().map(|teller| of(&format!("{teller}:{reason}")));
                told.max().unwrap_or_default()
            }
            _ => of(mark),
        }
    }
}

fn rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Each mark that walks are to reach.
fn named() -> impl Iterator<Item = &'static str> {
    rows(NAMED)
}

/// Each mark that they need not reach. Rows of another form tests/house.rs refuses.
fn exemptions() -> impl Iterator<Item = (&'static str, Exemption)> {
    rows(EXEMPT).filter_map(|row| {
        let mut cells = row.split(" | ");
        let class = match cells.next()? {
            "rare" => Exemption::Rare,
            "apart" => Exemption::Apart,
            _ => return None,
        };
        Some((cells.next()?, class))
    })
}

#[test]
fn what_is_exempt_is_documented_is_asked_nowhere_else_and_is_little() {
    let (documented, named): (_, BTreeSet<_>) = (documented(), named().collect());
    let mut seen = BTreeSet::new();
    for (mark, _) in exemptions() {
        assert!(documented.contains(mark), "docs/reference does not document {mark}");
        assert!(!named.contains(mark), "tests/marks.txt asks for {mark}");
        assert!(seen.insert(mark), "{mark} is exempt twice");
    }
    let rare = exemptions().filter(|(_, exemption)| *exemption == Exemption::Rare).count();
    assert!(
        rare <= MOST_RARE,
        "walks could reach {rare} that are exempt, and no more than {MOST_RARE} may be"
    );
}

#[test]
fn what_is_documented_and_not_reached_is_told_and_so_is_an_exemption_of_what_is_reached() {
    let all = || {
        let exempt: BTreeSet<&str> = exemptions().map(|(mark, _)| mark).collect();
        let call = |mark: &String| match mark.split_once(':') {
            Some((CALL, reason)) => format!("event:{reason}"),
            _ => mark.clone(),
        };
        let asked: Vec<String> = documented().into_iter().filter(|mark| !exempt.contains(&**mark)).collect();
        let asked = asked.iter().map(call).chain(named().map(str::to_owned));
        asked.map(Mark::from).collect::<BTreeSet<Mark>>()
    };
    let mut reached = Reached::default();
    reached.add(all());
    assert_eq!(reached.wrong(ENOUGH), [""; 0]);

    let mut fewer = all();
    assert!(fewer.remove("event:DriftCorrected"), "it is documented, and no exemption");
    let mut missed = Reached::default();
    missed.add(fewer);
    let wrong = missed.wrong(ENOUGH);
    assert!(wrong.len() == 1 && wrong[0].starts_with("no walk reaches event:DriftCorrected"), "{wrong:?}");

    let (mark, _) =
        exemptions().find(|(_, exemption)| *exemption == Exemption::Apart).expect("some part no walk has");
    let teller = mark.replace("call:", "event:");
    reached.add(BTreeSet::from([Mark::from(teller)]));
    let wrong = reached.wrong(ENOUGH);
    assert!(wrong.len() == 1 && wrong[0].contains(&format!("walks reach {mark}:")), "{wrong:?}");
}
