//! What a target's status says of drift: which objects are otherwise, since when, and what was undone last.
//!
//! Equal facts give equal entries: first detections are kept, and the order depends on the objects only.

use std::collections::BTreeSet;

use vidra_api::{Change, ChangeKind, drift::FIELDS_MAX};

/// So many entries tell what was undone: the newest.
const CORRECTED_MAX: usize = 20;
/// All entries together, as JSON: with the rest of a status they stay under 256 KiB.
const BYTES_MAX: usize = 200 * 1024;

/// The part of a status that tells of drift.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// What is so first, the worst first; then what was undone, the newest first.
    pub entries: Vec<Change>,
    /// How many entries there are without the bound, where it cut any.
    pub total: Option<i64>,
    /// How many objects are otherwise now.
    pub drifted: i64,
}

/// What follows `before`, with at most so many entries. `found` is all that is otherwise now; `corrections` what was repaired since, with the time.
pub fn changes(before: &[Change], found: Vec<Change>, corrections: Vec<Change>, most: usize) -> Changes {
    let (corrected, open): (Vec<&Change>, Vec<&Change>) =
        before.iter().partition(|change| change.corrected.is_some());
    let first = |change: &Change| {
        let same = open.iter().find(|one| id(one) == id(change));
        same.map_or_else(|| change.detected_at.clone(), |one| one.detected_at.clone())
    };
    let dated = |mut change: Change| {
        change.detected_at = first(&change);
        change.fields.truncate(FIELDS_MAX);
        change
    };
    let mut now: Vec<Change> = found.into_iter().map(dated).collect();
    now.sort_by(|a, b| (badness(a.change), id(a)).cmp(&(badness(b.change), id(b))));
    now.dedup_by(|a, b| id(a) == id(b));
    let drifted = now.iter().map(object).collect::<BTreeSet<_>>().len();

    // Stable: of what was undone at one time, the later of two reports comes first.
    let mut past: Vec<Change> = corrections.into_iter().rev().map(dated).collect();
    past.extend(corrected.into_iter().cloned());
    past.sort_by(|a, b| time(b).cmp(&time(a)).then_with(|| id(a).cmp(&id(b))));
    let mut seen = BTreeSet::new();
    past.retain(|change| seen.insert(owned_id(change)));
    past.truncate(CORRECTED_MAX.min(most / 2));

    let total = now.len() + past.len();
    // What was undone keeps a part of the room.
    now.truncate(most.saturating_sub(past.len()));
    now.extend(past);
    fit(&mut now);
    let total = (total > now.len()).then_some(total as i64);
    Changes { entries: now, total, drifted: drifted as i64 }
}

/// Takes fields off, from the end, until all fits. Without fields an entry is below 1 KiB.
fn fit(entries: &mut [Change]) {
    let size = |change: &Change| serde_json::to_string(change).map_or(0, |json| json.len() + 1);
    let mut over = entries.iter().map(size).sum::<usize>().saturating_sub(BYTES_MAX);
    for entry in entries.iter_mut().rev() {
        if over == 0 {
            return;
        }
        let before = size(entry);
        entry.fields.clear();
        over = over.saturating_sub(before - size(entry));
    }
}

type Object<'a> = (&'a str, &'a str, &'a str, &'a str);

fn object(change: &Change) -> Object<'_> {
    (&change.group, &change.kind, &change.namespace, &change.name)
}

fn id(change: &Change) -> (Object<'_>, ChangeKind) {
    (object(change), change.change)
}

fn owned_id(change: &Change) -> ([String; 4], ChangeKind) {
    let (group, kind, namespace, name) = object(change);
    ([group, kind, namespace, name].map(str::to_owned), change.change)
}

fn time(change: &Change) -> Option<&k8s_openapi::jiff::Timestamp> {
    change.corrected.as_ref().map(|time| &time.0)
}

/// The worst first.
fn badness(change: ChangeKind) -> u8 {
    match change {
        ChangeKind::Missing => 0,
        ChangeKind::Modified => 1,
        ChangeKind::OwnershipLost => 2,
        ChangeKind::Extra => 3,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vidra_api::{ChangedField, drift::CHANGES_MAX};

    use super::{super::target::tests::at, *};

    fn changes(before: &[Change], found: Vec<Change>, corrections: Vec<Change>) -> Changes {
        super::changes(before, found, corrections, CHANGES_MAX)
    }

    fn change(name: &str, kind: ChangeKind, second: i64) -> Change {
        Change {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: "shop".into(),
            name: name.into(),
            change: kind,
            detected_at: at(second),
            corrected: None,
            fields: Vec::new(),
        }
    }

    fn undone(name: &str, second: i64) -> Change {
        Change { corrected: Some(at(second)), ..change(name, ChangeKind::Modified, second) }
    }

    #[test]
    fn the_first_detection_of_a_change_is_kept_until_it_is_over() {
        let first = changes(&[], vec![change("a", ChangeKind::Modified, 10)], vec![]);
        let again = changes(&first.entries, vec![change("a", ChangeKind::Modified, 99)], vec![]);
        assert_eq!(first, again);
        let gone = changes(&again.entries, vec![change("a", ChangeKind::Missing, 120)], vec![]);
        assert_eq!(gone.entries, [change("a", ChangeKind::Missing, 120)], "another change is another");
        assert_eq!(changes(&gone.entries, vec![], vec![]), Changes::default());
    }

    #[test]
    fn what_was_undone_tells_since_when_it_was_so_and_stays_until_newer_ones_come() {
        let open = changes(&[], vec![change("a", ChangeKind::Modified, 10)], vec![]);
        let after = changes(&open.entries, vec![], vec![undone("a", 30)]);
        assert_eq!(after.entries[0].detected_at, at(10));
        assert_eq!((after.drifted, after.entries[0].corrected.clone()), (0, Some(at(30))));
        assert_eq!(changes(&after.entries, vec![], vec![]), after, "and no write when nothing is new");
        let many = (0..25).map(|n| undone(&format!("o{n:02}"), 100 + n)).collect();
        let later = changes(&after.entries, vec![change("z", ChangeKind::Extra, 200)], many);
        assert_eq!(
            (later.entries.len(), later.entries[0].name.as_str()),
            (21, "z"),
            "what is so comes first"
        );
        assert_eq!((later.entries[1].name.as_str(), later.entries[20].name.as_str()), ("o24", "o05"));
        let twice = changes(&after.entries, vec![], vec![undone("a", 50), undone("a", 60)]);
        assert_eq!(twice.entries, [undone("a", 60)], "one entry for one object and kind of change");
    }

    #[test]
    fn a_burst_is_bounded_and_counted() {
        let found = (0..250).map(|n| change(&format!("o{n:03}"), ChangeKind::Modified, n)).collect();
        let burst = changes(&[undone("a", 1)], found, vec![]);
        assert_eq!((burst.entries.len(), burst.total, burst.drifted), (CHANGES_MAX, Some(251), 250));
        assert_eq!(burst.entries.last().unwrap().name, "a");
    }

    #[test]
    fn a_status_fits_whatever_the_entries_hold() {
        let field = ChangedField {
            path: "é".repeat(128),
            expected: Some("\"\\".repeat(128)),
            actual: Some("\\\"".repeat(128)),
            manager: "\"".repeat(256),
            operation: "o".repeat(63),
            not_after: Some(at(1)),
        };
        let full = |n: usize| Change {
            fields: vec![field.clone(); 30],
            name: format!("{n:03}{}", "n".repeat(250)),
            ..change("", ChangeKind::Modified, 1)
        };
        let all = changes(&[], (0..150).map(full).collect(), vec![]);
        let size = serde_json::to_string(&all.entries).unwrap().len();
        assert!(size < 210 * 1024 && all.entries.len() == 100, "{size}");
        assert_eq!(all.entries[0].fields.len(), FIELDS_MAX, "the first keep theirs");
        assert!(all.entries[99].fields.is_empty());
        assert_eq!(changes(&all.entries, (0..150).map(full).collect(), vec![]), all);
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let kind = prop_oneof![
            Just(ChangeKind::Missing),
            Just(ChangeKind::Modified),
            Just(ChangeKind::OwnershipLost),
            Just(ChangeKind::Extra)
        ];
        ("[a-d]", kind, 0..50i64).prop_map(|(name, kind, second)| change(&name, kind, second))
    }

    proptest! {
        #[test]
        fn equal_facts_give_equal_entries_in_whatever_order_they_come(
            before in prop::collection::vec(any_change(), 0..6),
            found in prop::collection::vec(any_change(), 0..8),
            undone in prop::collection::vec(any_change(), 0..4),
        ) {
            let fix = |mut change: Change| { change.corrected = Some(at(60)); change };
            let one = changes(&before, found.clone(), undone.into_iter().map(fix).collect());
            let mut other_way = found;
            other_way.reverse();
            // Of one object and kind there is one, and the first detection is settled now.
            prop_assert_eq!(&changes(&one.entries, other_way, vec![]), &one);
        }
    }
}
