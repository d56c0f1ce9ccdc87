//! What a target's status says of objects that are not healthy: the worst of them, and how many there are.
//!
//! A function of the objects and their health alone: whatever order they come in, equal ones give equal entries. Notes
//! are sentences of [`crate::health`], or what a health rule's `message` gives, which sees no value of a Secret; what is
//! told of a name or a note is one short line all the same.

use std::collections::BTreeSet;

use vidra_api::{
    ObjectHealth, TargetState, UnreadyObject, VidraTargetStatus,
    target::{LABEL_MAX, NOTE_MAX, SUBDOMAIN_MAX, UNREADY_MAX},
};

use super::reason::Reason;
use crate::{
    directives::WaitFor,
    health::HealthStatus,
    mutants::{self, Mutant},
    object::{KeyParts, ObjectKey},
    unseen::shown,
};

/// What is noted of an object that is gone and is left so.
const LEFT: &str = "It was delivered and is gone, and spec.drift.policy Report leaves it so";

/// Declared objects that are not healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unready {
    /// At most [`UNREADY_MAX`], the worst first, then by key.
    worst: Vec<One>,
    /// How many there are.
    all: usize,
    /// Of these, gone and left so.
    left: usize,
    /// Of these, such that nothing waits for.
    unawaited: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct One {
    key: ObjectKey,
    health: ObjectHealth,
    /// It is gone, and is left so.
    left: bool,
    /// Its target and later waves wait for it.
    awaited: bool,
    note: Option<String>,
}

impl One {
    fn missing(key: &ObjectKey, left: bool) -> Self {
        Self { key: key.clone(), health: ObjectHealth::NotFound, left, awaited: true, note: None }
    }

    /// What is not there yet comes late: most often it waits for what is there and not healthy. What nothing waits for is
    /// last.
    fn rank(&self) -> (u8, &ObjectKey) {
        let badness = match self.health {
            _ if !self.awaited => 4,
            ObjectHealth::Failed => 0,
            ObjectHealth::NotFound if self.left => 1,
            ObjectHealth::InProgress | ObjectHealth::Terminating | ObjectHealth::Unknown => 2,
            ObjectHealth::NotFound => 3,
        };
        (badness, &self.key)
    }
}

impl Unready {
    /// One more object that is there, and why it is not healthy. One that is healthy is none of them. `wait_for`: what of
    /// it is waited for.
    pub fn add(&mut self, key: &ObjectKey, health: HealthStatus, note: Option<&str>, wait_for: WaitFor) {
        let health = match health {
            HealthStatus::Current | HealthStatus::Suspended => return,
            HealthStatus::InProgress => ObjectHealth::InProgress,
            HealthStatus::Failed => ObjectHealth::Failed,
            HealthStatus::Terminating => ObjectHealth::Terminating,
            HealthStatus::Unknown => ObjectHealth::Unknown,
        };
        let awaited = wait_for != WaitFor::Nothing;
        self.unawaited += usize::from(!awaited);
        self.put(One { key: key.clone(), health, left: false, awaited, note: None }, note);
    }

    /// One more object that is not there yet.
    pub fn add_missing(&mut self, key: &ObjectKey) {
        self.put(One::missing(key, false), None);
    }

    /// One more object that was delivered, is gone, and is left so.
    pub fn add_left(&mut self, key: &ObjectKey) {
        if !mutants::is(Mutant::MissingIsWell) {
            self.left += 1;
            self.put(One::missing(key, true), Some(LEFT));
        }
    }

    fn put(&mut self, mut one: One, note: Option<&str>) {
        self.all += 1;
        let at = self.worst.partition_point(|other| other.rank() <= one.rank());
        // Of thousands that are not there only the first few are kept.
        if at < UNREADY_MAX {
            one.note = note.map(str::to_owned);
            self.worst.truncate(UNREADY_MAX - 1);
            self.worst.insert(at, one);
        }
    }

    /// All that is waited for is healthy.
    pub fn is_empty(&self) -> bool {
        self.all == self.unawaited
    }

    /// The object that is waited for cannot be judged: the gate, or else the first.
    pub(super) fn is_unjudged(&self, gate: Option<&ObjectKey>) -> bool {
        let is_gate = |one: &&One| gate.is_none_or(|gate| one.key == *gate);
        let one = self.worst.iter().find(is_gate);
        one.is_some_and(|one| one.awaited && one.health == ObjectHealth::Unknown)
    }

    /// Some may get healthy yet, as far as one can see.
    pub fn is_waited_for(&self) -> bool {
        self.all > self.left + self.unawaited
    }

    /// What the first makes of its target: state, reason, and a sentence.
    pub fn first(&self) -> Option<(TargetState, Reason, String)> {
        let One { key, health, left, note, .. } = self.worst.first().filter(|one| one.awaited)?;
        if *left {
            let more = match self.left - 1 {
                0 => String::new(),
                1 => ", and so is 1 more".to_owned(),
                more => format!(", and so are {more} more"),
            };
            let message = format!(
                "{key} was delivered and is gone{more}, and spec.drift.policy Report leaves that so; set it to Correct to have what is declared made again, or drop it from the manifest"
            );
            return Some((TargetState::Failed, Reason::ObjectsMissing, message));
        }
        let message = match (health, note) {
            (ObjectHealth::NotFound, _) => format!("{key} is not there yet"),
            (_, None) => format!("{key} is not ready"),
            (_, Some(note)) => format!("{key} is not ready: {note}"),
        };
        Some(match health {
            ObjectHealth::Failed => (TargetState::Failed, Reason::ObjectFailed, message),
            _ => (TargetState::Progressing, Reason::ObjectsProgressing, message),
        })
    }

    /// As a status lists them.
    pub fn entries(&self) -> Vec<UnreadyObject> {
        let entry = |One { key, health, note, .. }: &One| UnreadyObject {
            group: shown(&key.group, SUBDOMAIN_MAX),
            kind: shown(&key.kind, LABEL_MAX),
            namespace: shown(&key.namespace, LABEL_MAX),
            name: shown(&key.name, SUBDOMAIN_MAX),
            health: *health,
            note: note.as_deref().map(|note| shown(note, NOTE_MAX)),
        };
        self.worst.iter().map(entry).collect()
    }

    /// How many there are, where the list is cut.
    pub fn total(&self) -> Option<i64> {
        (self.all > self.worst.len()).then(|| i64::try_from(self.all).unwrap_or(i64::MAX))
    }
}

/// The objects that a status tells as Failed.
pub fn failed(status: &VidraTargetStatus) -> BTreeSet<ObjectKey> {
    let failed = status.unready.iter().filter(|one| one.health == ObjectHealth::Failed);
    let key = |UnreadyObject { group, kind, namespace, name, .. }: &UnreadyObject| {
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(|part| part.as_str().into());
        ObjectKey::from(KeyParts { group, kind, namespace, name })
    };
    failed.map(key).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::object::Gvk;
    use crate::status::target::{Delivery, TargetFacts, target_status, tests::facts};

    pub(in crate::status) fn key(name: &str) -> ObjectKey {
        ObjectKey::new(&Gvk::new("apps", "v1", "Deployment"), "shop", name)
    }

    /// A Deployment of the shop alone.
    pub(in crate::status) fn one(name: &str, health: HealthStatus) -> Unready {
        one_that_says(name, health, "for a reason")
    }

    pub(in crate::status) fn one_that_says(name: &str, health: HealthStatus, words: &str) -> Unready {
        let mut unready = Unready::default();
        unready.add(&key(name), health, Some(words), WaitFor::Health);
        unready
    }

    fn names(unready: &Unready) -> Vec<String> {
        unready.entries().into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn failed_ones_come_first_then_what_is_there_by_key_whatever_order_they_come_in() {
        let all: [(&str, Option<HealthStatus>); 6] = [
            ("a", None),
            ("b", Some(HealthStatus::InProgress)),
            ("c", Some(HealthStatus::Terminating)),
            ("d", Some(HealthStatus::Failed)),
            ("e", Some(HealthStatus::Current)),
            ("f", Some(HealthStatus::Unknown)),
        ];
        let of = |all: &mut dyn Iterator<Item = &(&str, Option<HealthStatus>)>| {
            let mut unready = Unready::default();
            for (name, health) in all {
                match health {
                    Some(health) => unready.add(&key(name), *health, Some("for a reason"), WaitFor::Health),
                    None => unready.add_missing(&key(name)),
                }
            }
            unready
        };
        let unready = of(&mut all.iter());
        assert_eq!(names(&unready), ["d", "b", "c", "f", "a"]);
        assert_eq!(unready, of(&mut all.iter().rev()));
        assert_eq!(unready.total(), None);
        let (failed, moves) = (TargetState::Failed, TargetState::Progressing);
        let first = |unready: &Unready| unready.first().unwrap();
        let told = "Deployment.apps shop/d is not ready: for a reason".to_owned();
        assert_eq!(first(&unready), (failed, Reason::ObjectFailed, told));
        let missing = of(&mut all[..1].iter());
        let told = "Deployment.apps shop/a is not there yet".to_owned();
        assert_eq!(first(&missing), (moves, Reason::ObjectsProgressing, told));
        let well = of(&mut all[4..5].iter());
        assert!(well.is_empty() && well.entries().is_empty() && well.first().is_none());
    }

    #[test]
    fn what_is_gone_and_left_so_fails_its_target_and_is_not_waited_for() {
        let mut unready = Unready::default();
        unready.add_left(&key("b"));
        assert!(!unready.is_waited_for());
        let (state, reason, message) = unready.first().unwrap();
        assert_eq!((state, reason), (TargetState::Failed, Reason::ObjectsMissing));
        assert!(message.starts_with("Deployment.apps shop/b was delivered and is gone, and spec.drift"));
        let entries = unready.entries();
        assert_eq!((entries[0].health, entries[0].note.as_deref()), (ObjectHealth::NotFound, Some(LEFT)));

        // What is only late comes behind it, what has failed before it.
        unready.add(&key("a"), HealthStatus::InProgress, None, WaitFor::Health);
        unready.add_left(&key("c"));
        unready.add_missing(&key("0"));
        assert!(unready.is_waited_for());
        assert_eq!(names(&unready), ["b", "c", "a", "0"]);
        assert!(unready.first().unwrap().2.contains(" is gone, and so is 1 more, and "));
        unready.add(&key("z"), HealthStatus::Failed, None, WaitFor::Health);
        assert_eq!(unready.first().unwrap().1, Reason::ObjectFailed);

        let facts = TargetFacts { awaited: Some(0.into()), ..facts(Delivery::Applied, 5) };
        let mut left = Unready::default();
        left.add_left(&key("b"));
        let status = target_status(&VidraTargetStatus::default(), &TargetFacts { unready: left, ..facts });
        assert_eq!((status.state, status.progress), (Some(TargetState::Failed), None));
        let stalled = vidra_api::find(&status.conditions, vidra_api::condition::STALLED).unwrap();
        assert_eq!(stalled.status, "False");
    }

    #[test]
    fn the_worst_ten_are_listed_and_all_are_counted() {
        let mut unready = Unready::default();
        for number in 0..40 {
            unready.add_missing(&key(&format!("m{number:02}")));
        }
        for number in (0..5).rev() {
            unready.add(&key(&format!("p{number}")), HealthStatus::InProgress, None, WaitFor::Health);
        }
        unready.add(&key("z"), HealthStatus::Failed, None, WaitFor::Health);
        assert_eq!(names(&unready), ["z", "p0", "p1", "p2", "p3", "p4", "m00", "m01", "m02", "m03"]);
        assert_eq!(unready.total(), Some(46));
        let status = VidraTargetStatus { unready: unready.entries(), ..VidraTargetStatus::default() };
        assert_eq!(failed(&status), BTreeSet::from([key("z")]));
    }

    #[test]
    fn the_list_stands_while_nobody_can_look_and_goes_when_all_is_well_or_is_to_go() {
        let with = |delivery, unready| TargetFacts { unready, ..facts(delivery, 5) };
        let late = with(Delivery::Applied, one("web", HealthStatus::InProgress));
        let first = target_status(&VidraTargetStatus::default(), &late);
        assert_eq!((first.unready.len(), first.unready_total), (1, None));
        assert_eq!(target_status(&first, &late), first, "nothing moves by itself");
        let silent = || Delivery::Unreachable { reason: Reason::NoAnswer, message: String::new() };
        for delivery in [silent(), Delivery::Suspended { message: String::new() }] {
            let after = target_status(&first, &with(delivery.clone(), Unready::default()));
            assert_eq!(after.unready, first.unready, "{delivery:?}");
        }
        let leaving = TargetFacts { leaving: true, ..facts(silent(), 5) };
        for facts in [leaving, facts(Delivery::Applied, 5)] {
            let after = target_status(&first, &facts);
            assert!(after.unready.is_empty() && after.unready_total.is_none(), "{facts:?}");
        }
    }

    #[test]
    fn what_nothing_waits_for_is_listed_last_and_keeps_nothing() {
        let mut unready = Unready::default();
        unready.add(&key("a"), HealthStatus::Failed, Some("for a reason"), WaitFor::Nothing);
        assert!(unready.is_empty() && !unready.is_waited_for() && unready.first().is_none());
        let status = target_status(
            &VidraTargetStatus::default(),
            &TargetFacts { unready: unready.clone(), awaited: Some(0.into()), ..facts(Delivery::Applied, 5) },
        );
        assert_eq!((status.state, status.progress), (Some(TargetState::Ready), None));
        assert_eq!((status.unready.len(), status.unready[0].health), (1, ObjectHealth::Failed));
        unready.add_missing(&key("z"));
        assert_eq!(names(&unready), ["z", "a"]);
        assert!(!unready.is_empty() && unready.is_waited_for());
        assert_eq!(unready.first().unwrap().1, Reason::ObjectsProgressing);
    }

    #[test]
    fn what_is_told_is_short_and_bears_nothing_that_is_not_seen() {
        let odd =
            ObjectKey::new(&Gvk::new("apps", "v1", "Deployment"), &"n".repeat(300), "x\u{1b}[2J\u{202e}");
        let mut unready = Unready::default();
        unready.add(&odd, HealthStatus::InProgress, Some(&"long\n".repeat(100)), WaitFor::Health);
        let entries = unready.entries();
        assert_eq!(entries[0].name, "x\u{fffd}[2J\u{fffd}");
        assert_eq!(entries[0].namespace.chars().count(), LABEL_MAX);
        let note = entries[0].note.as_deref().unwrap();
        assert!(note.chars().count() == NOTE_MAX && note.starts_with("long long "), "{note}");
    }
}
