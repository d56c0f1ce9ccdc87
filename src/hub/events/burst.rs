//! Events of one kind about many objects at once are one Event: what comes within a moment is told together, with
//! how many there are and the names of the first.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::events::v1::Event;
use parking_lot::Mutex;

use super::Severity;

/// From the first of them until they are told.
pub(super) const MOMENT: Duration = Duration::from_secs(2);
/// So many are named.
const NAMED: usize = 3;
/// So many field managers are named.
const MANAGERS: usize = 3;

/// One kind of thing to say about objects of a member.
#[derive(Clone, Copy, Debug)]
pub struct Saying {
    /// Normal or Warning.
    pub severity: Severity,
    /// The Event's reason.
    pub reason: &'static str,
    /// What follows "OBJECT on CLUSTER ".
    pub one: &'static str,
    /// What follows "N objects on CLUSTER ".
    pub many: &'static str,
}

/// Drift was found.
pub const DETECTED: Saying = Saying {
    severity: Severity::Warning,
    reason: "DriftDetected",
    one: "is not as declared",
    many: "are not as declared",
};

/// Drift was undone.
pub const CORRECTED: Saying = Saying {
    severity: Severity::Normal,
    reason: "DriftCorrected",
    one: "was not as declared and was applied again",
    many: "were not as declared and were applied again",
};

/// Somebody undoes repairs.
pub const CONTENTION: Saying = Saying {
    severity: Severity::Warning,
    reason: "Contention",
    one: "is changed back again and again, and is repaired less often from now on",
    many: "are changed back again and again, and are repaired less often from now on",
};

/// What others made was taken over.
pub const ADOPTED: Saying = Saying {
    severity: Severity::Normal,
    reason: "Adopted",
    one: "was there before and was taken over",
    many: "were there before and were taken over",
};

/// What belongs together: the uid of what it is about, the reason, the member.
pub(super) type Group = (String, &'static str, String);

/// What is gathered until its moment is over.
#[derive(Default)]
pub(super) struct Bursts(Mutex<BTreeMap<Group, Gathered>>);

struct Gathered {
    event: Event,
    saying: Saying,
    cluster: String,
    names: Vec<String>,
    count: usize,
    by: Vec<String>,
}

impl Bursts {
    /// Adds one object. True: it is the first of its group, which has to be taken when its moment is over; `event`
    /// is what will be written then.
    pub(super) fn add(
        &self,
        group: &Group,
        saying: Saying,
        name: &str,
        by: &[String],
        event: impl FnOnce() -> Event,
    ) -> bool {
        let mut groups = self.0.lock();
        let is_first = !groups.contains_key(group);
        let gathered = groups.entry(group.clone()).or_insert_with(|| Gathered {
            event: event(),
            saying,
            cluster: group.2.clone(),
            names: Vec::new(),
            count: 0,
            by: Vec::new(),
        });
        gathered.count += 1;
        if gathered.names.len() < NAMED {
            gathered.names.push(name.to_owned());
        }
        for manager in by {
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
        let Self { saying, cluster, names, count, by, .. } = self;
        let by = match by.is_empty() {
            true => String::new(),
            false => {
                let quoted: Vec<String> = by.iter().map(|name| format!("\"{name}\"")).collect();
                format!("; by {}", quoted.join(", "))
            }
        };
        let listed = names.join(", ");
        match count - names.len() {
            0 if *count == 1 => format!("{listed} on {cluster} {}{by}", saying.one),
            0 => format!("{count} objects on {cluster} {}: {listed}{by}", saying.many),
            more => format!("{count} objects on {cluster} {}: {listed} and {more} more{by}", saying.many),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(objects: usize, by: &[&str]) -> String {
        let bursts = Bursts::default();
        let group = ("uid".to_owned(), CORRECTED.reason, "berlin".to_owned());
        for number in 0..objects {
            let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
            let name = format!("ConfigMap shop/c{number}");
            assert_eq!(bursts.add(&group, CORRECTED, &name, &by, Event::default), number == 0);
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
}
