//! Which VidraResource reads which source, and in which version each source was seen last. Mapping a change of
//! a source to keys is a lookup here, without I/O.
//!
//! ```text
//! Catalog --declare--> Index --wanted--> watch (one for each kind and namespace in use)
//!                        ^                  |
//!                        +----- noticed ----+--> keys of those whose last reading was of another version
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::RwLock;
use tokio::sync::watch;
use vidra_api::VidraResource;

use super::{SourceKind, reference};
use crate::workqueue::{Key, Priority, Queue, ResourceKey};

/// What one watch follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The kind.
    pub kind: SourceKind,
    /// The namespace.
    pub namespace: Arc<str>,
}

/// One ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    /// Its kind and namespace.
    pub scope: Scope,
    /// Its name.
    pub name: String,
}

/// An object at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    uid: String,
    resource_version: String,
}

impl Version {
    /// The version that an object's metadata tell.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self { uid: text(&metadata.uid), resource_version: text(&metadata.resource_version) }
    }
}

/// What came of reading the sources of a VidraResource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The VidraResource's uid.
    pub uid: Option<String>,
    /// Its generation then.
    pub generation: i64,
    /// The sources' versions, in the order of `spec.manifestsFrom`.
    pub versions: Vec<Version>,
    /// The revision that came of it.
    pub revision: String,
}

/// Who reads which source, and in which version it was seen last.
pub struct SourceIndex {
    queue: Arc<Queue>,
    inner: RwLock<Inner>,
    wanted: watch::Sender<BTreeSet<Scope>>,
}

#[derive(Default)]
struct Inner {
    /// The sources of each VidraResource that has some, as they are listed.
    of: BTreeMap<ResourceKey, Vec<SourceKey>>,
    users: BTreeMap<SourceKey, BTreeSet<ResourceKey>>,
    /// What watches and readings have told of sources in use; None: it is not there.
    seen: BTreeMap<SourceKey, Option<Version>>,
    /// What has been listed since its watch began.
    listed: BTreeSet<Scope>,
    readings: BTreeMap<ResourceKey, Reading>,
}

impl Inner {
    fn has_read(&self, user: &ResourceKey, source: &SourceKey, version: &Version) -> bool {
        let (Some(sources), Some(reading)) = (self.of.get(user), self.readings.get(user)) else {
            return false;
        };
        let of_source = sources.iter().zip(&reading.versions).filter(|(one, _)| *one == source);
        of_source.map(|(_, read)| read).all(|read| read == version)
    }

    /// The revision that came of the last reading of this very VidraResource. `fits`: of each source, whether it is as it
    /// was read; `None`: nobody follows it.
    fn revision(
        &self,
        user: &ResourceKey,
        resource: &VidraResource,
        fits: impl Fn(Option<bool>) -> bool,
    ) -> Option<String> {
        let (sources, reading) = (self.of.get(user)?, self.readings.get(user)?);
        let is_same = |source: &SourceKey, read: &Version| {
            let follows = self.listed.contains(&source.scope);
            follows.then(|| self.seen.get(source).is_some_and(|seen| seen.as_ref() == Some(read)))
        };
        let same = reading.uid == resource.metadata.uid
            && reading.generation == resource.metadata.generation.unwrap_or_default()
            && sources.len() == reading.versions.len()
            && sources.iter().zip(&reading.versions).all(|(source, read)| fits(is_same(source, read)));
        same.then(|| reading.revision.clone())
    }

    fn set(&mut self, user: &ResourceKey, sources: Vec<SourceKey>) {
        for gone in self.of.remove(user).unwrap_or_default() {
            let Some(users) = self.users.get_mut(&gone) else { continue };
            users.remove(user);
            if users.is_empty() {
                self.users.remove(&gone);
            }
        }
        self.readings.remove(user);
        for source in &sources {
            self.users.entry(source.clone()).or_default().insert(user.clone());
        }
        if !sources.is_empty() {
            self.of.insert(user.clone(), sources);
        }
        let users = &self.users;
        self.seen.retain(|source, _| users.contains_key(source));
    }
}

impl SourceIndex {
    /// Nothing is declared yet.
    pub fn new(queue: Arc<Queue>) -> Self {
        Self { queue, inner: RwLock::default(), wanted: watch::Sender::default() }
    }

    /// What must be watched, now and from now on.
    pub fn wanted(&self) -> watch::Receiver<BTreeSet<Scope>> {
        self.wanted.subscribe()
    }

    /// A VidraResource names these sources now.
    pub fn declare(&self, user: &ResourceKey, resource: &VidraResource) {
        let key = |kind, name: &str| SourceKey {
            scope: Scope { kind, namespace: user.namespace.clone() },
            name: name.to_owned(),
        };
        let references = resource.spec.manifests_from.iter().filter_map(reference);
        self.set(user, references.map(|(kind, name, _)| key(kind, name)).collect());
    }

    /// A VidraResource is gone.
    pub fn forget(&self, user: &ResourceKey) {
        self.set(user, Vec::new());
    }

    fn set(&self, user: &ResourceKey, sources: Vec<SourceKey>) {
        if self.inner.read().of.get(user).map_or(&[][..], Vec::as_slice) == sources {
            return;
        }
        let mut inner = self.inner.write();
        inner.set(user, sources);
        let scopes: BTreeSet<Scope> = inner.users.keys().map(|source| source.scope.clone()).collect();
        // Under the lock, so that the last change is told last.
        self.wanted.send_if_modified(|wanted| {
            let changed = *wanted != scopes;
            *wanted = scopes;
            changed
        });
    }

    /// A watch tells of an object; None: it is gone. Those who read another version of it look again.
    pub fn noticed(&self, source: &SourceKey, version: Option<Version>) {
        let mut inner = self.inner.write();
        let Some(users) = inner.users.get(source) else { return };
        if inner.seen.get(source) == Some(&version) {
            return;
        }
        let stale = |user: &&ResourceKey| {
            version.as_ref().is_none_or(|version| !inner.has_read(user, source, version))
        };
        let stale: Vec<_> = users.iter().filter(stale).cloned().collect();
        inner.seen.insert(source.clone(), version);
        for user in &stale {
            inner.readings.remove(user);
        }
        drop(inner);
        for user in stale {
            self.queue.add(Key::Resource(user), Priority::User);
        }
    }

    /// A list begins: until it ends nothing is known to be unchanged.
    pub fn listing(&self, scope: &Scope) {
        self.inner.write().listed.remove(scope);
    }

    /// A list has ended, and showed these names: the other sources are not there.
    pub fn end_list(&self, scope: &Scope, names: &BTreeSet<String>) {
        let mut inner = self.inner.write();
        inner.listed.insert(scope.clone());
        let first = SourceKey { scope: scope.clone(), name: String::new() };
        let in_scope = inner.users.range(first..).map(|(source, _)| source);
        let missing: Vec<_> = in_scope
            .take_while(|source| source.scope == *scope)
            .filter(|source| !names.contains(&source.name))
            .cloned()
            .collect();
        drop(inner);
        for source in missing {
            self.noticed(&source, None);
        }
    }

    /// Whether watches tell of every change of a VidraResource's sources.
    pub fn follows(&self, user: &ResourceKey) -> bool {
        let inner = self.inner.read();
        inner.of.get(user).into_iter().flatten().all(|source| inner.listed.contains(&source.scope))
    }

    /// The revision that came of the last reading, where nothing is known to have changed since, neither the
    /// VidraResource nor any source, and nobody reads it again.
    pub fn last(&self, user: &ResourceKey, resource: &VidraResource) -> Option<String> {
        self.inner.read().revision(user, resource, |same| same != Some(false))
    }

    /// The revision that came of the last reading, where nothing can have changed since.
    pub fn unchanged(&self, user: &ResourceKey, resource: &VidraResource) -> Option<String> {
        self.inner.read().revision(user, resource, |same| same == Some(true))
    }

    /// Its sources are read again: until they are, what it declares is not known.
    pub fn forget_reading(&self, user: &ResourceKey) {
        self.inner.write().readings.remove(user);
    }

    /// Remembers a reading, unless the VidraResource has gone meanwhile.
    pub fn remember(&self, user: &ResourceKey, reading: Reading) {
        let mut inner = self.inner.write();
        let Some(sources) = inner.of.get(user).cloned() else { return };
        for (source, version) in sources.into_iter().zip(&reading.versions) {
            // Of one that came into use after its namespace was listed, the watch tells changes only.
            inner.seen.entry(source).or_insert_with(|| Some(version.clone()));
        }
        inner.readings.insert(user.clone(), reading);
    }
}

#[cfg(test)]
mod tests;
