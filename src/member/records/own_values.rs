//! The values that owners of one live object ask of it: those of one namespace within one bound, for any number of
//! VidraResources may ask, and all wait meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;
use vidra_api::names::OwnerHash;
use vidra_core::{
    feedback::{Extract, Reading},
    mutants::{self, Mutant},
    object::ObjectKey,
};

use super::{
    owners::{Owner, Owners},
    view::View,
};

/// Reads of a live object what its owners ask back of it, the oldest first; whose targets are to be told. Any number of
/// VidraResources may ask: those of one namespace share the bound of one, and equal rules are asked once.
pub(super) fn feed(
    owners: &mut Owners,
    key: &ObjectKey,
    live: &Value,
    views: &[View],
) -> BTreeSet<OwnerHash> {
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
    let (mut news, mut readings) = (BTreeSet::new(), BTreeMap::new());
    let mut before = BTreeMap::<_, Vec<String>>::new();
    for hash in asking {
        let Some(Owner { feedback: Some(own), target, .. }) = owners.get_mut(&hash) else { continue };
        let new = || (Reading::new(live), BTreeMap::new());
        let (reading, known) = readings.entry(target.namespace.clone()).or_insert_with(new);
        if mutants::is(Mutant::EachReadsAlone) {
            (*reading, *known) = new();
        }
        let extract = known.entry(own.rules().digest().cloned());
        let extract: &Extract = extract.or_insert_with(|| own.rules().extract(key, reading));
        let before = before.entry(target.namespace.clone()).or_default();
        if own.set(key, extract.clone(), asked_before(before.iter().map(String::as_str))) {
            news.insert(hash);
        }
        before.extend(own.rules().digest().cloned());
    }
    news
}

/// Differs with the rules by which older owners ask of an object.
pub(super) fn asked_before<'r>(digests: impl Iterator<Item = &'r str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Equal ones cost nothing.
    digests.collect::<BTreeSet<_>>().hash(&mut hasher);
    hasher.finish()
}
