//! What a target's status says of objects that count as healthy though nothing shows it: how many there are, and the first
//! of them. And of which kinds they are, for whoever looks for the health rule that is missing.

use std::{collections::BTreeMap, sync::Arc};

use vidra_api::{
    UnprovenObject, UnprovenObjects,
    target::{LABEL_MAX, SUBDOMAIN_MAX, UNPROVEN_MAX},
};

use crate::{object::ObjectKey, unseen::shown};

/// Most kinds that are told apart of one target.
const KINDS_MAX: usize = 20;
/// Most kinds that a metric tells apart.
const SERIES_MAX: usize = 50;
/// What those beyond are counted under; no kind is called so.
const OTHER: &str = "other";

/// How many objects are of a group and a kind; of no kind: of all that are not told apart.
pub type KindCount = ((Arc<str>, Arc<str>), i64);

/// Objects that count as healthy unproven, told in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unproven {
    first: Vec<ObjectKey>,
    kinds: Vec<KindCount>,
}

impl Unproven {
    /// One more of them.
    pub fn add(&mut self, key: &ObjectKey) {
        if self.first.len() < UNPROVEN_MAX {
            self.first.push(key.clone());
        }
        let count = self.kinds.len();
        match self.kinds.last_mut() {
            // They stand together, by the order of their keys.
            Some((kind, more)) if *kind == (key.group.clone(), key.kind.clone()) || count > KINDS_MAX => {
                *more += 1;
            }
            _ if count == KINDS_MAX => self.kinds.push((("".into(), "".into()), 1)),
            _ => self.kinds.push(((key.group.clone(), key.kind.clone()), 1)),
        }
    }

    /// As a status has them; `None`: there are none.
    pub fn entry(&self) -> Option<UnprovenObjects> {
        let one = |key: &ObjectKey| UnprovenObject {
            group: shown(&key.group, SUBDOMAIN_MAX),
            kind: shown(&key.kind, LABEL_MAX),
            namespace: shown(&key.namespace, LABEL_MAX),
            name: shown(&key.name, SUBDOMAIN_MAX),
        };
        let objects = self.kinds.iter().map(|(_, count)| count).sum();
        (objects > 0).then(|| UnprovenObjects { objects, first: self.first.iter().map(one).collect() })
    }

    /// Of which kinds they are.
    pub fn kinds(&self) -> &[KindCount] {
        &self.kinds
    }
}

/// How many there are of each kind, `Widget.example.com`, of all targets: of the fifty with the most, and of all others
/// together.
pub fn by_kind<'k>(all: impl IntoIterator<Item = &'k KindCount>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::<_, i64>::new();
    for (kind, count) in all {
        *counts.entry(kind).or_default() += count;
    }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by_key(|(kind, count)| (kind.1.is_empty(), -count));
    let mut told = BTreeMap::new();
    for (nth, ((group, kind), count)) in sorted.into_iter().enumerate() {
        let name = match kind.is_empty() || nth >= SERIES_MAX {
            true => OTHER.to_owned(),
            false => shown(&format!("{kind}.{group}"), LABEL_MAX + 1 + SUBDOMAIN_MAX),
        };
        *told.entry(name).or_default() += count;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Gvk;

    fn key(kind: &str, name: &str) -> ObjectKey {
        ObjectKey::new(&Gvk::new("example.com", "v1", kind), "shop", name)
    }

    #[test]
    fn they_are_counted_and_three_are_named() {
        let mut unproven = Unproven::default();
        assert_eq!((unproven.entry(), unproven.kinds()), (None, &[][..]));
        for name in ["a", "b", "c", "d"] {
            unproven.add(&key("Widget", name));
        }
        let entry = unproven.entry().unwrap();
        let names: Vec<_> = entry.first.iter().map(|one| &*one.name).collect();
        assert_eq!((entry.objects, names), (4, vec!["a", "b", "c"]));
        assert_eq!(by_kind(unproven.kinds()), BTreeMap::from([("Widget.example.com".to_owned(), 4)]));
    }

    #[test]
    fn kinds_beyond_a_bound_are_counted_together() {
        let mut many = Unproven::default();
        for nth in 0..30 {
            many.add(&key(&format!("K{nth:02}"), "a"));
            many.add(&key(&format!("K{nth:02}"), "b"));
        }
        assert_eq!((many.kinds().len(), many.entry().unwrap().objects), (KINDS_MAX + 1, 60));
        let told = by_kind(many.kinds());
        assert_eq!((told.len(), told[OTHER]), (KINDS_MAX + 1, 20));

        let kind = |nth: usize| ((Arc::from("example.com"), Arc::from(format!("K{nth:03}"))), nth as i64 + 1);
        let all: Vec<KindCount> = (0..80).map(kind).chain(many.kinds().to_vec()).collect();
        let told = by_kind(&all);
        assert_eq!(told.len(), SERIES_MAX + 1);
        assert_eq!(told["K079.example.com"], 80, "those with the most are told");
        assert_eq!(told.values().sum::<i64>(), 80 * 81 / 2 + 60, "none is lost");
    }
}
