//! What is known of an object without a call: from the cache, from the session and from the hub's inventory.

use std::{sync::Arc, time::Duration};

use vidra_core::{
    apply::{Facts, Other},
    ignore::Exemptions,
    plan,
    render::Declared,
    uid::Uid,
};

use super::Executor;

/// One declared object, as an executor knows it.
pub(super) struct ObjectFacts<'a> {
    pub(super) executor: &'a Executor<'a>,
    pub(super) declared: &'a Declared,
}

impl Facts for ObjectFacts<'_> {
    fn uid(&self) -> Option<Uid> {
        self.executor.session.records.uid(&self.declared.key)
    }

    fn view(&self) -> Option<plan::Live> {
        let Executor { session, owner, desired, .. } = self.executor;
        session.records.view(&owner.hash, &self.declared.key, desired)
    }

    fn has_lost_entry(&self) -> bool {
        self.executor.session.records.has_lost_entry(&self.declared.key, &self.executor.owner.hash)
    }

    fn is_outranked(&self) -> bool {
        let own = &self.executor.owner.hash;
        self.executor.session.records.is_outranked(&self.declared.key, own, self.declared)
    }

    fn is_disputed(&self) -> bool {
        let own = &self.executor.owner.hash;
        self.executor.session.records.is_disputed(&self.declared.key, own, self.declared)
    }

    fn exemptions(&self) -> Arc<Exemptions> {
        self.executor.session.records.exemptions(&self.executor.owner.hash)
    }

    fn unyielded(&self, uid: &Uid) -> Option<String> {
        let own = &self.executor.owner.hash;
        self.executor.session.records.unyielded(own, &self.declared.key, &uid.to_string())
    }

    fn is_in_inventory(&self, uid: &Uid) -> bool {
        (self.executor.is_recorded)(&self.declared.key, &uid.to_string())
    }

    fn other(&self, manager: &str) -> Other {
        let own = &self.executor.owner.hash;
        self.executor.session.records.other(&self.declared.key, manager, own, self.declared)
    }

    fn is_owner(&self, manager: &str) -> bool {
        self.executor.session.is_owner(manager)
    }

    fn late_writes(&self) -> Option<Duration> {
        self.executor.session.former_writes_left()
    }
}
