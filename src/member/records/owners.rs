//! The targets that have said what they declare: which of them want an object, and whether two declare it alike.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use vidra_api::names::{self, HubId, OwnerHash};
use vidra_core::{
    apply::Other,
    feedback::Rules as FeedbackRules,
    health::rules::{RuleSet, Rules},
    ignore::{Exemptions, FieldExemptions},
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    render::Declared,
};

use super::{
    assessment::Told,
    feedback::OwnFeedback,
    own_health::OwnHealth,
    value_bytes::{Share, ValueBytes},
};
use crate::{
    config::dynamic_settings::{DynamicSettings, FeedbackBounds},
    desired::Desired,
    workqueue::TargetKey,
};

/// Bound on labels of unknown owners that are looked at: whoever may edit an object may write thousands.
const UNKNOWN_OWNERS: usize = 16;

/// The targets that have said what they declare, by owner hash.
#[derive(Default)]
pub(super) struct Owners {
    known: BTreeMap<OwnerHash, Owner>,
    /// The steps that their own rules have taken of what is folded now.
    pub(super) steps: usize,
}

/// A target that has told what it declares.
pub(super) struct Owner {
    /// When the VidraResource was made, in seconds; 0 where nobody says.
    pub(super) since: i64,
    pub(super) target: TargetKey,
    pub(super) desired: Arc<Desired>,
    pub(super) exemptions: Arc<Exemptions>,
    /// Where it has health rules of its own.
    pub(super) health: Option<Box<OwnHealth>>,
    /// Where it asks for feedback.
    pub(super) feedback: Option<Box<OwnFeedback>>,
    /// It had told before.
    pub(super) is_known: bool,
    /// The target was Ready as it is declared now.
    pub(super) was_ready: bool,
    /// Objects that the target's status tells as Failed.
    pub(super) had_failed: BTreeSet<ObjectKey>,
}

impl Owner {
    pub(super) fn declared(&self, key: &ObjectKey) -> Option<&Declared> {
        self.desired.objects.get(key)
    }

    /// How one of its objects was told last.
    pub(super) fn told(&self, key: &ObjectKey) -> Told {
        Told { ready: self.was_ready, failed: self.had_failed.contains(key) }
    }

    /// Takes its own health rules; `all`: those that hold for all.
    /// `settings` say what they may not read.
    pub(super) fn set_health_rules(
        &mut self,
        rules: Arc<Rules>,
        all: &Arc<RuleSet>,
        settings: &Arc<DynamicSettings>,
    ) {
        if rules.is_empty() {
            self.health = None;
        } else if !self.health.as_ref().is_some_and(|own| own.is_of((&rules, settings), all, &self.desired)) {
            let before = (self.health.take().map(|own| *own), self.is_known);
            self.health = Some(Box::new(OwnHealth::new((rules, settings), all, &self.desired, before)));
        }
        // Whatever comes next, it was judged by these before.
        self.is_known = true;
    }

    /// The digest of its rules of feedback, where one is about the object.
    pub(super) fn asks_of(&self, key: &ObjectKey) -> Option<&str> {
        let own = self.feedback.as_ref().filter(|own| own.asks(key))?;
        own.rules().digest().map(String::as_str)
    }

    /// Takes its rules of feedback.
    pub(super) fn set_feedback_rules(
        &mut self,
        rules: Arc<FeedbackRules>,
        (bounds, all): (FeedbackBounds, &ValueBytes),
    ) {
        if rules.is_empty() {
            self.feedback = None;
        } else if !self.feedback.as_ref().is_some_and(|own| own.is_of(&rules, &self.desired, bounds)) {
            let before = self.feedback.take().map(|own| *own);
            let share = Share::of(all, &self.target.namespace);
            self.feedback = Some(Box::new(OwnFeedback::new(rules, &self.desired, before, bounds, share)));
        }
    }

    pub(super) fn exempt(&self, key: &ObjectKey) -> Option<&FieldExemptions> {
        self.exemptions.objects.get(key)
    }

    /// The field manager of its applies.
    pub(super) fn manager(&self, hub: &HubId) -> String {
        names::field_manager(hub, &self.target.namespace, &self.target.resource)
    }

    /// Of two VidraResources the one that was made first; of two made in one second, by name.
    fn is_older(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }

    /// In the order in which VidraResources were made.
    pub(super) fn rank(&self) -> (i64, &str, &str) {
        (self.since, &self.target.namespace, &self.target.resource)
    }

    /// It does not declare the object, and `own` is of the same namespace.
    fn dropped(&self, key: &ObjectKey, own: &Self) -> bool {
        self.target.namespace == own.target.namespace && !self.desired.declares(key)
    }
}

impl Owners {
    pub(super) fn get(&self, owner: &OwnerHash) -> Option<&Owner> {
        self.known.get(owner)
    }

    /// How objects are by the rules that an owner has of its own.
    pub(super) fn health(&self, owner: &OwnerHash) -> Option<&OwnHealth> {
        self.get(owner)?.health.as_deref()
    }

    /// The place of an owner in the order in which VidraResources were made.
    pub(super) fn rank(&self, owner: &OwnerHash) -> Option<(i64, &str, &str)> {
        self.get(owner).map(Owner::rank)
    }

    /// The owners of the same namespace that were made before this one, the oldest first.
    pub(super) fn older(&self, owner: &Owner) -> Vec<(&OwnerHash, &Owner)> {
        let is_near = |other: &Owner| other.target.namespace == owner.target.namespace;
        let mut older: Vec<_> =
            self.known.iter().filter(|(_, other)| is_near(other) && other.is_older(owner)).collect();
        older.sort_by_key(|(_, other)| other.rank());
        older
    }

    /// Takes what an owner says; returns what it said before.
    pub(super) fn set(&mut self, owner: OwnerHash, says: Owner) -> Option<Owner> {
        self.known.insert(owner, says)
    }

    pub(super) fn get_mut(&mut self, owner: &OwnerHash) -> Option<&mut Owner> {
        self.known.get_mut(owner)
    }

    /// What the CRD of these objects' kind declares is heard in verdicts.
    pub(super) fn set_read(&mut self, are: impl Fn(&ObjectKey) -> bool) {
        for own in self.known.values_mut().filter_map(|owner| owner.health.as_mut()) {
            own.set_read(&are);
        }
    }

    /// The target is gone.
    pub(super) fn forget(&mut self, owner: &OwnerHash) {
        self.known.remove(owner);
    }

    /// What came back of an object that is gone takes no room, and stands in the way of nothing.
    pub(super) fn forget_values_of(&mut self, key: &ObjectKey, owners: &BTreeSet<OwnerHash>) {
        for owner in owners {
            if let Some(Owner { feedback: Some(own), .. }) = self.known.get_mut(owner) {
                own.forget(key);
            }
        }
    }

    /// ... of all these objects.
    pub(super) fn forget_values(&mut self, gone: impl Fn(&ObjectKey) -> bool) {
        let asking = self.known.values_mut().filter_map(|owner| owner.feedback.as_mut());
        asking.for_each(|own| own.forget_all(&gone));
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn is_declared(&self, key: &ObjectKey) -> bool {
        self.declaring(key).next().is_some()
    }

    /// Those whose labels an object bears and that declare it do so in other versions of its kind than this: the informers
    /// of these tell of it. A server converts what it shows, and field sets are of the version that was applied.
    pub(super) fn are_of_other_version(&self, key: &ObjectKey, gvk: &Gvk, metadata: &Value) -> bool {
        let labelled = self.labelled(metadata);
        let declared = labelled.iter().filter_map(|owner| self.get(owner)?.declared(key));
        let mut versions = declared.map(|declared| &declared.gvk.version).peekable();
        versions.peek().is_some() && versions.all(|version| *version != gvk.version)
    }

    /// Those that declare an object.
    pub(super) fn declaring<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> impl Iterator<Item = (&'a OwnerHash, &'a Owner)> {
        self.known.iter().filter(|(_, owner)| owner.declared(key).is_some())
    }

    /// Does this owner declare the object?
    pub(super) fn declares(&self, owner: &OwnerHash, key: &ObjectKey) -> bool {
        self.get(owner).is_some_and(|owner| owner.declared(key).is_some())
    }

    pub(super) fn targets_of(&self, owners: &BTreeSet<OwnerHash>) -> Vec<TargetKey> {
        owners.iter().filter_map(|owner| self.get(owner)).map(|owner| owner.target.clone()).collect()
    }

    /// The owners that labels name: those that are known, and a few others.
    pub(super) fn labelled(&self, metadata: &Value) -> BTreeSet<OwnerHash> {
        let labels = metadata["labels"].as_object();
        let all = labels
            .into_iter()
            .flat_map(|labels| labels.keys())
            .filter_map(|key| OwnerHash::from_label_key(key));
        let mut unknown = 0;
        all.filter(|owner| {
            let is_known = self.known.contains_key(owner);
            unknown += usize::from(!is_known);
            is_known || unknown <= UNKNOWN_OWNERS
        })
        .collect()
    }

    /// What the VidraResource with this field manager declares of the object now.
    pub(super) fn other(
        &self,
        key: &ObjectKey,
        (hub, manager): (&HubId, &str),
        own: &OwnerHash,
        declared: &Declared,
    ) -> Other {
        let named = |owner: &&Owner| owner.manager(hub) == manager;
        let (Some(own), Some(other)) = (self.get(own), self.known.values().find(named)) else {
            return Other::Unknown;
        };
        let theirs = other.declared(key);
        match theirs.is_some_and(|theirs| theirs.hash == declared.hash) || other.dropped(key, own) {
            true => Other::Yields,
            false => Other::Differs {
                declared: theirs.map(|theirs| Arc::clone(&theirs.body)),
                is_near: other.target.namespace == own.target.namespace
                    || mutants::is(Mutant::AgeAcrossNamespaces),
                is_older: other.is_older(own),
            },
        }
    }

    /// Does another owner declare the object as it is declared here? One of the same namespace that has dropped it is going
    /// to released it.
    pub(super) fn agrees(
        &self,
        other: &OwnerHash,
        key: &ObjectKey,
        own: &OwnerHash,
        declared: &Declared,
    ) -> bool {
        self.get(other).is_some_and(|other| {
            other.declared(key).is_some_and(|theirs| theirs.hash == declared.hash)
                || self.get(own).is_some_and(|own| other.dropped(key, own))
        })
    }

    /// Does another target declare this object otherwise, whose word does not yield to this one's: one of another
    /// namespace, or an older one?
    pub(super) fn is_outranked(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        let Some(own) = self.get(own) else { return true };
        self.known.values().any(|other| {
            other.declared(key).is_some_and(|theirs| theirs.hash != declared.hash)
                && (other.target.namespace != own.target.namespace || other.is_older(own))
        })
    }
}
