//! The values that owners of one live object ask of it: those of one namespace within one bound, for any number of
//! VidraResources may ask, and all wait meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use vidra_api::names::OwnerHash;
use vidra_core::{
    feedback::{Extract, Reading},
    mutants::{self, Mutant},
    object::ObjectKey,
};

use super::{
    owners::{Owner, Owners},
    record::Record,
    view::View,
};
use crate::member::live::Live;

/// Reads of a live object what its owners ask back of it, the oldest first; whose targets are to be told. Any number of
/// VidraResources may ask: those of one namespace share the bound of one, and equal rules are asked once. `held`: what was
/// recorded under its name.
pub(super) fn feed(
    owners: &mut Owners,
    key: &ObjectKey,
    live: &Live,
    (views, held): (&[View], Option<&Record>),
) -> BTreeSet<OwnerHash> {
    // What came back of another object went with that.
    if let Some(other) = held.filter(|held| held.uid != *live.uid()) {
        owners.forget_values_of(key, &other.owners());
    }
    let mut asking = Vec::new();
    for view in views {
        let Some(Owner { feedback: Some(own), .. }) = owners.get_mut(&view.owner) else { continue };
        if !view.proof {
            own.forget(key);
        } else if own.asks(key) {
            asking.push(view.owner.clone());
        }
    }
    asking.sort_by(|a, b| owners.rank(a).cmp(&owners.rank(b)));
    // One that does not reconcile has the room of an earlier setting.
    let rooms = asking.iter().filter_map(|hash| owners.get(hash)?.feedback.as_ref());
    let room = rooms.map(|own| own.room()).max().unwrap_or_default();
    let (mut news, mut readings) = (BTreeSet::new(), BTreeMap::new());
    for hash in asking {
        let Some(Owner { feedback: Some(own), target, .. }) = owners.get_mut(&hash) else { continue };
        let new = || (Reading::new(&live.json), BTreeMap::new());
        let (reading, known) = readings.entry(target.namespace.clone()).or_insert_with(new);
        if mutants::is(Mutant::EachReadsAlone) {
            (*reading, *known) = new();
        }
        let digest = own.rules().digest().cloned();
        let extract: Extract =
            known.entry(digest.clone()).or_insert_with(|| own.rules().extract(key, reading, room)).clone();
        let extract = extract.within(own.room());
        let asked = || asked_before(known.keys().flatten().map(String::as_str), digest.as_deref());
        if own.set(key, extract, asked) {
            news.insert(hash);
        }
    }
    owners.steps += readings.values().map(|(reading, _)| reading.steps()).sum::<usize>();
    news
}

/// Differs with the rules, by their digests, by which older owners ask of an object, beside those of one's own: equal ones
/// cost nothing.
pub(super) fn asked_before<'r>(older: impl Iterator<Item = &'r str>, own: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    older.filter(|digest| Some(*digest) != own).collect::<BTreeSet<_>>().hash(&mut hasher);
    hasher.finish()
}
