//! Rate limit of Events, by joining them: Events of one kind about many objects, or many targets, at once are one Event, on
//! however many members: what comes within a moment is told together, with how many there are and the names of the first,
//! or what there is to say of the first.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::events::v1::Event;
use parking_lot::Mutex;
use vidra_api::clip;
use vidra_core::{first_of::more, status::Reason};

use super::Severity;

/// From the first of them until they are told.
pub(super) const MOMENT: Duration = Duration::from_secs(2);
/// So many are named.
const NAMED: usize = 3;
/// So many field managers are named.
const MANAGERS: usize = 3;
/// So many characters of what is said of one of several objects, so that all who are named find room in a note.
const EACH_MAX: usize = 290;

/// One kind of thing to say about objects of members, or about targets.
#[derive(Clone, Copy, Debug)]
pub struct Saying {
    /// Normal or Warning.
    pub severity: Severity,
    /// The Event's reason.
    pub reason: Reason,
    /// What there are many of.
    pub of: Of,
    /// What follows "OBJECT on CLUSTER ", or of a target "CLUSTER "; empty: of each there is something else to say.
    pub one: &'static str,
    /// What follows "N objects on CLUSTER ", or "N objects on M clusters ".
    pub many: &'static str,
}

/// What there are many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Objects, on members.
    Objects,
    /// Targets: one on each member.
    Targets,
}

impl Saying {
    /// A call for an object failed, or it was refused.
    pub const fn failure(reason: Reason) -> Self {
        Self { severity: Severity::Warning, reason, of: Of::Objects, one: "", many: "" }
    }

    /// Something is amiss with a target.
    pub const fn amiss(reason: Reason) -> Self {
        Self { of: Of::Targets, ..Self::failure(reason) }
    }
}

/// One object of which something is said.
#[derive(Clone, Copy, Debug)]
pub struct One<'a> {
    /// The member that it is on.
    pub cluster: &'a str,
    /// The object; of a target nothing.
    pub object: &'a str,
    /// The field managers who did it.
    pub by: &'a [String],
    /// What there is to say of this object, in a sentence that names it, where that is not the same of each.
    pub message: &'a str,
}

/// Drift was found.
pub const DETECTED: Saying = Saying {
    severity: Severity::Warning,
    reason: Reason::DriftDetected,
    of: Of::Objects,
    one: "is not as declared",
    many: "are not as declared",
};

/// Drift was undone.
pub const CORRECTED: Saying = Saying {
    severity: Severity::Normal,
    reason: Reason::DriftCorrected,
    of: Of::Objects,
    one: "was not as declared and was applied again",
    many: "were not as declared and were applied again",
};

/// Somebody undoes repairs.
pub const CONTENTION: Saying = Saying {
    severity: Severity::Warning,
    reason: Reason::Contention,
    of: Of::Objects,
    one: "is changed back again and again, and is repaired less often from now on",
    many: "are changed back again and again, and are repaired less often from now on",
};

/// What others made was taken over.
pub const ADOPTED: Saying = Saying {
    severity: Severity::Normal,
    reason: Reason::Adopted,
    of: Of::Objects,
    one: "was there before and was taken over",
    many: "were there before and were taken over",
};

/// A target has what it is to have.
pub const READY: Saying = Saying {
    severity: Severity::Normal,
    reason: Reason::TargetReady,
    of: Of::Targets,
    one: "is as declared",
    many: "are as declared",
};

/// What belongs together: the uid of what it is about, and the reason.
pub(super) type Group = (String, Reason);

/// What is gathered until its moment is over.
#[derive(Default)]
pub(super) struct Bursts(Mutex<BTreeMap<Group, Gathered>>);

struct Gathered {
    event: Event,
    saying: Saying,
    /// By member.
    objects: BTreeMap<String, BTreeSet<String>>,
    /// Of the first: the member, and their names or what is said of them.
    first: Vec<(String, String)>,
    by: Vec<String>,
}

impl Bursts {
    /// Adds one object. True: it is the first of its group, which has to be taken when its moment is over; `event`
    /// is what will be written then.
    pub(super) fn add(
        &self,
        group: &Group,
        saying: Saying,
        one: One<'_>,
        event: impl FnOnce() -> Event,
    ) -> bool {
        let mut groups = self.0.lock();
        let is_first = !groups.contains_key(group);
        let gathered = groups.entry(group.clone()).or_insert_with(|| Gathered {
            event: event(),
            saying,
            objects: BTreeMap::new(),
            first: Vec::new(),
            by: Vec::new(),
        });
        let there = gathered.objects.entry(one.cluster.to_owned()).or_default();
        if there.insert(one.object.to_owned()) && gathered.first.len() < NAMED {
            let said = if saying.one.is_empty() { one.message } else { one.object };
            gathered.first.push((one.cluster.to_owned(), said.to_owned()));
        }
        for manager in one.by {
            if gathered.by.len() < MANAGERS && !gathered.by.contains(manager) {
                gathered.by.push(manager.clone());
            }
        }
        is_first
    }

    /// Takes a group: the Event, and what it says.
    pub(super) fn take(&self, group: &Group) -> Option<(Event, String)> {
        let mut gathered = self.0.lock().remove(group)?;
        gathered.by.sort();
        let note = gathered.note();
        Some((gathered.event, note))
    }
}

impl Gathered {
    fn note(&self) -> String {
        let Self { saying, objects, first, by, .. } = self;
        let count = objects.values().map(BTreeSet::len).sum();
        let more = more(count - first.len(), |more| format!(" and {more} more"));
        let only = if objects.len() == 1 { objects.keys().next() } else { None };
        let place = only.cloned().unwrap_or_else(|| format!("{} clusters", objects.len()));
        let all = match saying.of {
            Of::Objects => format!("{count} objects on {place}"),
            Of::Targets => format!("{count} targets"),
        };
        if saying.one.is_empty() {
            return each(&all, only.is_some(), count, first, &more);
        }
        let by = match by.is_empty() {
            true => String::new(),
            false => {
                let quoted: Vec<String> = by.iter().map(|name| format!("\"{name}\"")).collect();
                format!("; by {}", quoted.join(", "))
            }
        };
        let named = |(cluster, object): &(String, String)| match (saying.of, only) {
            (Of::Targets, _) => cluster.clone(),
            (Of::Objects, Some(_)) => object.clone(),
            (Of::Objects, None) => format!("{object} on {cluster}"),
        };
        let listed = first.iter().map(named).collect::<Vec<_>>().join(", ");
        match (count, saying.of) {
            (1, Of::Objects) => format!("{listed} on {place} {}{by}", saying.one),
            (1, Of::Targets) => format!("{listed} {}{by}", saying.one),
            _ => format!("{all} {}: {listed}{more}{by}", saying.many),
        }
    }
}

/// What is said of the first of so many.
fn each(all: &str, is_one_cluster: bool, count: usize, first: &[(String, String)], more: &str) -> String {
    if let ([(cluster, one)], 1) = (first, count) {
        return format!("{cluster}: {one}");
    }
    let said = |(at, (cluster, message)): (usize, &(String, String))| {
        let message = clip(message, EACH_MAX);
        match is_one_cluster {
            true => format!("({}) {message}", at + 1),
            false => format!("({}) {cluster}: {message}", at + 1),
        }
    };
    let said: Vec<String> = first.iter().enumerate().map(said).collect();
    let more = if more.is_empty() { String::new() } else { format!(";{more}") };
    format!("{all}: {}{more}", said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(objects: usize, by: &[&str]) -> String {
        let bursts = Bursts::default();
        let group = ("uid".to_owned(), CORRECTED.reason);
        for number in 0..objects {
            let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
            let name = format!("ConfigMap shop/c{number}");
            let one = One { cluster: "berlin", object: &name, by: &by, message: "" };
            assert_eq!(bursts.add(&group, CORRECTED, one, Event::default), number == 0);
            assert!(!bursts.add(&group, CORRECTED, one, Event::default), "it is counted once");
        }
        let (_, note) = bursts.take(&group).unwrap();
        assert!(bursts.take(&group).is_none());
        note
    }

    #[test]
    fn one_is_told_as_one_and_many_with_their_count_and_the_first_names() {
        assert_eq!(
            told(1, &["bob"]),
            "ConfigMap shop/c0 on berlin was not as declared and was applied again; by \"bob\""
        );
        assert_eq!(
            told(3, &[]),
            "3 objects on berlin were not as declared and were applied again: ConfigMap shop/c0, ConfigMap shop/c1, \
             ConfigMap shop/c2"
        );
        assert!(
            told(100, &["bob", "alice"]).ends_with("ConfigMap shop/c2 and 97 more; by \"alice\", \"bob\"")
        );
    }

    /// What is said of one object, on each of so many clusters.
    fn everywhere(saying: Saying, clusters: usize, message: &str) -> String {
        let bursts = Bursts::default();
        let group = ("uid".to_owned(), saying.reason);
        for number in 0..clusters {
            let cluster = format!("edge-{number:02}");
            let one = One { cluster: &cluster, object: "ConfigMap shop/c", by: &["bob".to_owned()], message };
            bursts.add(&group, saying, one, Event::default);
        }
        bursts.take(&group).unwrap().1
    }

    #[test]
    fn what_is_so_on_many_clusters_is_told_once() {
        assert_eq!(
            everywhere(DETECTED, 50, ""),
            "50 objects on 50 clusters are not as declared: ConfigMap shop/c on edge-00, ConfigMap shop/c on edge-01, \
             ConfigMap shop/c on edge-02 and 47 more; by \"bob\""
        );
        assert_eq!(
            everywhere(Saying::failure(Reason::AlreadyExists), 2, "c exists; delete it"),
            "2 objects on 2 clusters: (1) edge-00: c exists; delete it; (2) edge-01: c exists; delete it"
        );
    }

    #[test]
    fn many_targets_are_one_event_and_one_is_told_by_its_cluster() {
        let of_targets = |saying: Saying, clusters: usize, message: &str| {
            let bursts = Bursts::default();
            let group = ("uid".to_owned(), saying.reason);
            for number in 0..clusters {
                let cluster = format!("edge-{number:02}");
                let one = One { cluster: &cluster, object: "", by: &[], message };
                bursts.add(&group, saying, one, Event::default);
            }
            bursts.take(&group).unwrap().1
        };
        assert_eq!(of_targets(READY, 1, ""), "edge-00 is as declared");
        assert_eq!(
            of_targets(READY, 50, ""),
            "50 targets are as declared: edge-00, edge-01, edge-02 and 47 more"
        );
        let unknown = Saying::amiss(Reason::TargetUnknown);
        assert_eq!(of_targets(unknown, 1, "out of reach"), "edge-00: out of reach");
        assert_eq!(
            of_targets(unknown, 50, "out of reach"),
            "50 targets: (1) edge-00: out of reach; (2) edge-01: out of reach; (3) edge-02: out of reach; and 47 more"
        );
    }

    fn failed(objects: usize, message: impl Fn(usize) -> String) -> String {
        let bursts = Bursts::default();
        let group = ("uid".to_owned(), Reason::AlreadyExists);
        for number in 0..objects {
            let (object, message) = (format!("ConfigMap shop/c{number}"), message(number));
            let one = One { cluster: "berlin", object: &object, by: &[], message: &message };
            bursts.add(&group, Saying::failure(Reason::AlreadyExists), one, Event::default);
        }
        bursts.take(&group).unwrap().1
    }

    #[test]
    fn of_one_failure_all_is_told_and_of_many_what_the_first_are() {
        let exists = |number: usize| format!("c{number} exists; delete it");
        assert_eq!(failed(1, exists), "berlin: c0 exists; delete it");
        assert_eq!(
            failed(2, exists),
            "2 objects on berlin: (1) c0 exists; delete it; (2) c1 exists; delete it"
        );
        assert_eq!(
            failed(50, exists),
            "50 objects on berlin: (1) c0 exists; delete it; (2) c1 exists; delete it; (3) c2 exists; delete it; and 47 more"
        );
        let long = |_| "x".repeat(800);
        assert!(failed(1, long).ends_with(&long(0)));
        let many = failed(50, long);
        assert!(many.chars().count() <= 1000 && many.ends_with("; and 47 more"), "{many}");
    }
}
