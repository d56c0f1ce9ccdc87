//! Records by kind and namespace: what a list has shown of them, and what goes when nobody looks any more.

use std::collections::BTreeSet;

use vidra_api::names::OwnerHash;
use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
};

use super::{Inner, Records};
use crate::queue::TargetKey;

/// Is this an object of the kind, in the namespace (empty: in any)?
fn is_within(key: &ObjectKey, gvk: &Gvk, namespace: &str) -> bool {
    *key.group == *gvk.group
        && *key.kind == *gvk.kind
        && (namespace.is_empty() || *key.namespace == *namespace)
}

impl Inner {
    /// What a list of one kind that began at `mark` did not show, and nothing else has shown since in a version above `at`.
    fn unseen(
        &self,
        gvk: &Gvk,
        namespace: &str,
        seen: &BTreeSet<ObjectKey>,
        (mark, at): (u64, u64),
    ) -> Vec<ObjectKey> {
        let is_older = |version: u64| version != 0 && version <= at;
        let unseen = self.objects.iter().filter(|(key, record)| {
            is_within(key, gvk, namespace)
                && !seen.contains(*key)
                && (record.folded <= mark || is_older(record.resource_version))
        });
        unseen.map(|(key, _)| key.clone()).collect()
    }
}

impl Records {
    /// Ends a list of one kind (in one namespace, unless empty) that began at `mark` and has this resourceVersion (0: that
    /// is no number): what was not listed is gone, unless it was folded since in a newer version. That goes for the answers of
    /// calls too, whether they came while it was read or are still to come: no watch tells of what is older than the list.
    pub fn listed(
        &self,
        gvk: &Gvk,
        namespace: &str,
        seen: &BTreeSet<ObjectKey>,
        (mark, version): (u64, u64),
    ) -> Vec<TargetKey> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let version = if mutants::is(Mutant::AnswersOutlast) { 0 } else { version };
        inner.in_flight.note_unlisted(version, |key| is_within(key, gvk, namespace) && !seen.contains(key));
        let gone = inner.unseen(gvk, namespace, seen, (mark, version));
        let owners: BTreeSet<OwnerHash> = gone.iter().flat_map(|key| inner.vanish(key)).collect();
        inner.owners.targets_of(&owners)
    }

    /// What [`Records::listed`] would take for gone, had its list no version.
    pub fn unseen(
        &self,
        gvk: &Gvk,
        namespace: &str,
        seen: &BTreeSet<ObjectKey>,
        mark: u64,
    ) -> Vec<ObjectKey> {
        self.inner.lock().unseen(gvk, namespace, seen, (mark, 0))
    }

    /// The resourceVersion under which an object is recorded.
    pub fn version(&self, key: &ObjectKey) -> Option<u64> {
        self.inner.lock().objects.get(key).map(|record| record.resource_version)
    }

    /// It is recorded, and nothing was folded of it since `mark`.
    pub fn is_known_since(&self, key: &ObjectKey, mark: u64) -> bool {
        self.inner.lock().objects.get(key).is_some_and(|record| record.folded <= mark)
    }

    /// The targets that declare an object.
    pub fn wanting(&self, key: &ObjectKey) -> Vec<TargetKey> {
        let inner = self.inner.lock();
        inner.owners.declaring(key).map(|(_, owner)| owner.target.clone()).collect()
    }

    /// Drops the records of a kind in the namespaces that nobody follows any more; returns the targets that have told
    /// of a stray among them.
    pub fn drop_kind(&self, gvk: &Gvk, is_followed: impl Fn(&str) -> bool) -> Vec<TargetKey> {
        let goes = |key: &ObjectKey| is_within(key, gvk, "") && !is_followed(&key.namespace);
        let mut inner = self.inner.lock();
        inner.objects.retain(|key, _| !goes(key));
        inner.tombstones.retain(|key| !goes(key));
        let owners = inner.strays.retain(|key| !goes(key));
        inner.in_flight.forget_deferred(goes);
        inner.owners.targets_of(&owners)
    }
}
