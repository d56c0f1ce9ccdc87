//! What is news of an object of the hub. Its versions grow, through removals too, so one number tells: what a watch, a
//! list or the answer of a call shows counts only above the version that is held, above the version at which the hub
//! removed the object itself, and, of an answer, above what the watch has told already. An answer that comes late brings
//! nothing back, and an event of an object that is gone changes nothing in the one that was made after it.

use std::{collections::BTreeMap, sync::Arc};

use kube::Resource;
use vidra_core::mutants::{self, Mutant};

use super::{Listed, Place};
use crate::base::resource_version::version;

/// Where something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A watch, or the list that it began with: in the order of versions.
    Watch,
    /// The answer of a call of the hub's, which may come at any time.
    Answer,
}

/// Up to which versions an answer or event is old.
#[derive(Default)]
pub(super) struct Floors {
    /// Up to which version a watch has told all, by kind and the namespace that it is of.
    told: BTreeMap<(Listed, String), u64>,
    /// The version as removed, of what the hub removed itself; until the watch has told as much.
    removed: BTreeMap<Place, u64>,
}

impl Floors {
    /// Is this version of an object news, where that one is held (0: none)? One without a version always is.
    pub(super) fn is_news(
        &self,
        kind: Listed,
        (namespace, name): (&str, &str),
        (held, now): (u64, u64),
        via: Via,
    ) -> bool {
        if now == 0 || mutants::is(Mutant::NoFloors) {
            return true;
        }
        let removed = || {
            let place = (kind, namespace.to_owned(), name.to_owned());
            self.removed.get(&place).is_some_and(|removed| now <= *removed)
        };
        let told = || self.told.get(&watched(kind, namespace)).is_some_and(|told| now <= *told);
        now > held && (self.removed.is_empty() || !removed()) && (via == Via::Watch || !told())
    }

    /// Is this object news, where that version of it is held.
    pub(super) fn is_news_of<K: Resource>(
        &self,
        kind: Listed,
        held: Option<&Arc<K>>,
        now: &K,
        via: Via,
    ) -> bool {
        let place = (
            now.meta().namespace.as_deref().unwrap_or_default(),
            now.meta().name.as_deref().unwrap_or_default(),
        );
        let held = held.map_or(0, |held| version(held.as_ref()));
        self.is_news(kind, place, (held, version(now)), via)
    }

    pub(super) fn tell(&mut self, kind: Listed, within: Option<&str>, version: u64) {
        let watched = watched(kind, within.unwrap_or_default());
        let told = self.told.entry(watched).or_default();
        *told = (*told).max(version);
        self.removed.retain(|(of, namespace, _), removed| {
            *of != kind || within.is_some_and(|within| within != namespace) || *removed > version
        });
    }

    pub(super) fn remove(&mut self, place: Place, version: u64) {
        let told = self.told.get(&watched(place.0, &place.1)).copied().unwrap_or(0);
        if version > told {
            self.removed.insert(place, version);
        }
    }
}

/// Registration Secrets are watched in each namespace by itself.
fn watched(kind: Listed, namespace: &str) -> (Listed, String) {
    (kind, if kind == Listed::Registrations { namespace.to_owned() } else { String::new() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KIND: Listed = Listed::Targets;
    const PLACE: (&str, &str) = ("team", "shop.berlin");

    fn place() -> Place {
        (KIND, PLACE.0.to_owned(), PLACE.1.to_owned())
    }

    #[test]
    fn only_what_is_above_all_floors_is_news() {
        let mut floors = Floors::default();
        let news = |floors: &Floors, held, now, via| floors.is_news(KIND, PLACE, (held, now), via);
        assert!(news(&floors, 0, 5, Via::Answer) && news(&floors, 4, 5, Via::Watch));
        assert!(!news(&floors, 5, 5, Via::Watch) && !news(&floors, 6, 5, Via::Answer));
        assert!(news(&floors, 9, 0, Via::Answer), "nothing can be said of one without a version");

        floors.tell(KIND, None, 7);
        assert!(!news(&floors, 0, 7, Via::Answer), "the watch has told of its end");
        assert!(news(&floors, 0, 8, Via::Answer) && news(&floors, 0, 7, Via::Watch));

        floors.remove(place(), 10);
        assert!(!news(&floors, 0, 10, Via::Watch) && news(&floors, 0, 11, Via::Watch));
        assert!(floors.is_news(KIND, ("team", "other"), (0, 9), Via::Watch));
        floors.tell(KIND, None, 9);
        assert!(!news(&floors, 0, 10, Via::Watch));
        floors.tell(KIND, None, 10);
        assert!(floors.removed.is_empty(), "the watch goes on above it");
        floors.remove(place(), 10);
        assert!(floors.removed.is_empty(), "the watch was faster");
    }

    #[test]
    fn what_the_hub_removed_is_remembered_until_the_watch_has_told_as_much() {
        let mut floors = Floors::default();
        for version in 1..=10_000 {
            floors.remove((KIND, "team".into(), format!("shop.{version}")), version);
            if version % 100 == 0 {
                floors.tell(KIND, None, version);
            }
            assert!(floors.removed.len() < 100, "{version}");
        }
        assert_eq!((floors.removed.len(), floors.told.len()), (0, 1));
    }

    #[test]
    fn a_watch_of_one_namespace_tells_nothing_of_another() {
        let mut floors = Floors::default();
        let kind = Listed::Registrations;
        floors.remove((kind, "a".into(), "x".into()), 5);
        floors.remove((kind, "b".into(), "x".into()), 5);
        floors.tell(kind, Some("a"), 9);
        assert_eq!(floors.removed.len(), 1);
        assert!(!floors.is_news(kind, ("a", "x"), (0, 9), Via::Answer));
        assert!(floors.is_news(kind, ("b", "x"), (0, 9), Via::Answer));
    }

    proptest! {
        /// An object is made, changed, removed and made again, some of it by the hub. However late its answers are,
        /// what is held in the end is what is there.
        #[test]
        fn whatever_comes_late_what_is_held_in_the_end_is_what_is_there(
            history in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 1..24),
            order in prop::collection::vec(any::<u8>(), 80),
        ) {
            // Each version: is it there, and was the change the hub's own?
            let mut is_there = false;
            let mut events = Vec::new();
            for (at, (there, own, _)) in history.iter().enumerate() {
                if *there || is_there {
                    events.push((at as u64 + 2, *there, *own, is_there));
                }
                is_there = *there;
            }
            let (mut floors, mut held) = (Floors::default(), 0);
            let mut answers: Vec<_> = events.iter().filter(|event| event.2).copied().collect();
            let mut watch = events.iter().copied().peekable();
            let mut order = order.into_iter().cycle();
            loop {
                // The hub's calls are one after the other, and each begins from what was answered before; the watch
                // comes in between wherever it likes, and so does each answer.
                let prefers_watch = order.next().unwrap_or(0) % 2 == 0;
                if !answers.is_empty() && (!prefers_watch || watch.peek().is_none()) {
                    let at = usize::from(order.next().unwrap_or(0)) % answers.len();
                    let (version, there, ..) = answers.remove(at);
                    if there && floors.is_news(KIND, PLACE, (held, version), Via::Answer) {
                        held = version;
                    } else if !there {
                        // Removed as it was one version before.
                        floors.remove(place(), version - 1);
                        held = if held < version { 0 } else { held };
                    }
                    continue;
                }
                let Some((version, there, ..)) = watch.next() else { break };
                if there && floors.is_news(KIND, PLACE, (held, version), Via::Watch) {
                    held = version;
                } else if !there && held < version {
                    held = 0;
                }
                floors.tell(KIND, None, version);
            }
            let last = events.last().filter(|event| event.1).map_or(0, |event| event.0);
            prop_assert_eq!(held, last);
        }
    }
}
