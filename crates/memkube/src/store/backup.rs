//! Backups of a cluster's state, and what restoring one does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Resource, Somewhere, Store, Table};
use crate::kinds::Kind;
use crate::{Cluster, Options};

/// All that a cluster stores, as of one revision: what a snapshot of etcd holds.
#[derive(Clone)]
pub struct Backup {
    kinds: Vec<Arc<Kind>>,
    tables: BTreeMap<Arc<Resource>, Table>,
    dependents: BTreeMap<String, BTreeSet<Somewhere>>,
    revision: u64,
    deep: bool,
}

impl Backup {
    /// The revision that it is of.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl Store {
    fn backup(&self) -> Backup {
        let (kinds, tables) = (self.kinds.clone(), self.tables.clone());
        let dependents = self.dependents.clone();
        Backup { kinds, tables, dependents, revision: self.revision, deep: self.deep }
    }

    fn take(&mut self, backup: &Backup) {
        self.kinds.clone_from(&backup.kinds);
        self.tables.clone_from(&backup.tables);
        self.dependents.clone_from(&backup.dependents);
        self.revision = backup.revision;
        self.deep |= backup.deep;
        self.history.clear();
        self.compacted = backup.revision;
        self.watchable = 0;
        self.rights = None;
    }

    fn restore(&mut self, backup: &Backup, bump: u64) {
        self.take(backup);
        self.revision += bump;
        self.compacted = self.revision;
        self.restores += 1;
        self.look_at_all();
    }
}

impl Cluster {
    /// By how much etcd's documentation has people raise the revision of what they restore.
    pub const BUMP: u64 = 1_000_000_000;

    /// A cluster that begins with a backup of another: its kinds and its objects, with their uids. The seed of
    /// `options` draws new ones.
    pub fn from_backup(name: &str, options: Options, backup: &Backup) -> Self {
        let mut store = Store::new(options.uids);
        store.take(backup);
        Self::with(name, options.clock, store)
    }

    /// The state as it is now.
    pub fn backup(&self) -> Backup {
        self.inner.store.lock().backup()
    }

    /// Puts objects, kinds and revision back to those of a backup, as etcd's restore with a restart of the
    /// API server does, under clients that live on: connections and open watches break; resourceVersions go
    /// back, and new writes take numbers that were given before; a watch from before the backup's revision
    /// gets 410, one from a revision after it is silent until the cluster is there again, and a list or a page
    /// from such a one waits three seconds for it, then gets 504. Objects have the uids that they had; new uids
    /// are not drawn again. With [`restart`](Cluster::restart) after it, the server does not know its CRDs at
    /// once.
    pub fn restore(&self, backup: &Backup) {
        self.restore_bumped(backup, 0);
    }

    /// The same, but raises the backup's revision by `bump` and compacts all before it, as etcd's
    /// `--bump-revision` with `--mark-compacted` does: objects have the resourceVersions of the backup, lists name the
    /// higher one, and a watch or a page from before it gets 410.
    pub fn restore_bumped(&self, backup: &Backup, bump: u64) {
        let mut store = self.inner.store.lock();
        store.restore(backup, bump);
        self.inner.schedule(&mut store);
        drop(store);
        self.inner.front.lock().refusals += 1;
        self.cut_watches();
    }

    /// Raises the revision as this many writes by others do; they change nothing else.
    pub fn pass(&self, writes: u64) {
        self.inner.store.lock().revision += writes;
    }
}
