//! What is kept of one live object.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use vidra_api::{ChangeKind, names::OwnerHash};
use vidra_core::{
    drift::Evidence,
    health::HealthStatus,
    ignore::FieldExemptions,
    mutants::{self, Mutant},
    plan::{self, Drift},
    render::Declared,
    uid::Uid,
};

use super::{
    Source,
    assessment::Assessment,
    facts::{BeforeChange, OwnChange},
    own_health::Standing,
    trace::bare,
    view::{View, Views},
};

/// What is kept of one live object.
pub(super) struct Record {
    pub(super) uid: Uid,
    pub(super) resource_version: u64,
    /// When it was folded last, in folds: tells whether a list that misses it began before.
    pub(super) folded: u64,
    pub(super) terminating: bool,
    pub(super) controlled: bool,
    /// `metadata.generation`, where that is no more than this can be.
    pub(super) generation: u32,
    /// By the rules that hold for all.
    pub(super) judged: Assessment,
    /// The last change of the hub's, while a status is waited for that follows it: by other rules than `judged` is by, too.
    pub(super) change: Option<Box<OwnChange>>,
    pub(super) views: Views,
}

/// How an object is.
pub struct Seen<'a> {
    /// Its health.
    pub health: HealthStatus,
    /// It is stopped.
    pub suspended: bool,
    /// It is healthy, and nothing shows it; `None`: it is not judged by all that there is to know yet.
    pub unproven: Option<bool>,
    /// Why it is not current; for people.
    pub note: Option<&'a str>,
    /// How long that holds, if nothing changes: it is only waited so long for what the object may come to say.
    pub ends: Option<Duration>,
    /// Its uid.
    pub uid: &'a Uid,
    /// It is proved to be the owner's by its marks.
    pub proof: bool,
    /// It is not as the owner left it, as far as is known without a call.
    pub has_drifted: bool,
}

impl Record {
    pub(super) fn view_of(&self, owner: &OwnerHash) -> Option<&View> {
        self.views.iter().find(|view| view.owner == *owner)
    }

    pub(super) fn view_of_mut(&mut self, owner: &OwnerHash) -> Option<&mut View> {
        self.views.iter_mut().find(|view| view.owner == *owner)
    }

    /// What tells whether the hub has changed it since; `views`: of the object that is folded now.
    pub(super) fn before_change(&self, views: &[View], source: Source<'_>) -> BeforeChange {
        let is_ours = |view: &View| self.view_of(&view.owner).is_some_and(|was| was.applied != view.applied);
        BeforeChange {
            generation: self.generation,
            is_answer: matches!(source, Source::Answer(_)),
            is_ours: views.iter().any(is_ours),
            change: self
                .change
                .as_deref()
                .copied()
                .filter(|_| self.judged.waits() || !mutants::is(Mutant::ChangeInWaitAlone)),
        }
    }

    /// An owner's view of exactly the object that was read.
    pub(super) fn read_view_mut(&mut self, owner: &OwnerHash, read: &Value) -> Option<&mut View> {
        let uid = read["metadata"]["uid"].as_str()?;
        if self.uid == *uid { self.view_of_mut(owner) } else { None }
    }

    /// As a plan of this owner sees it; `opens`: what waits for it goes on.
    pub(super) fn plan_view(
        &mut self,
        owner: &OwnerHash,
        declared: Option<&Declared>,
        exempt: Option<&FieldExemptions>,
        (opens, status): (bool, HealthStatus),
    ) -> plan::Live {
        let shared = self.is_applied_by_others(owner);
        let (mut proof, mut applied, mut drift) = (false, None, Drift::Unsure);
        if let Some(view) = self.view_of_mut(owner) {
            proof = view.proof;
            applied = view.applied().map(|(hash, _)| hash);
            if let Some(declared) = declared
                && view.applied().is_some_and(|(hash, _)| hash == declared.hash)
            {
                view.baseline.promote(&declared.body, exempt, view.yields == Some(true), view.kept);
            }
            drift = view.baseline.drift();
        }
        plan::Live {
            uid: self.uid.clone(),
            proof,
            controlled: self.controlled,
            terminating: self.terminating,
            shared,
            applied,
            drift,
            current: opens,
            suspended: status == HealthStatus::Suspended && !opens,
        }
    }

    /// As a status of this owner sees it.
    pub(super) fn seen<'a>(&'a self, owner: &OwnerHash, standing: Standing<'a>) -> Seen<'a> {
        let Standing { status: health, suspended, unproven, note, ends, .. } = standing;
        let view = self.view_of(owner);
        let (proof, has_drifted) =
            view.map_or((false, false), |view| (view.proof, view.baseline.has_drifted()));
        Seen { health, suspended, unproven, note, ends, uid: &self.uid, proof, has_drifted }
    }

    pub(super) fn owners(&self) -> BTreeSet<OwnerHash> {
        self.views.iter().map(|view| view.owner.clone()).collect()
    }

    /// It is proved to be this owner's.
    pub(super) fn is_proved(&self, owner: &OwnerHash) -> bool {
        self.view_of(owner).is_some_and(|view| view.proof)
    }

    /// This owner has an Apply entry there.
    pub(super) fn is_applied_by(&self, owner: &OwnerHash) -> bool {
        self.view_of(owner).is_some_and(|view| view.applies)
    }

    /// It is proved to be another owner's too.
    pub(super) fn is_shared(&self, own: &OwnerHash) -> bool {
        self.views.iter().any(|view| view.owner != *own && view.proof)
    }

    /// Another owner has an Apply entry there, and with it holds what that one names, though its label may be lost.
    fn is_applied_by_others(&self, own: &OwnerHash) -> bool {
        if mutants::is(Mutant::UnlabelledHoldsNothing) {
            return self.is_shared(own);
        }
        self.views.iter().any(|view| view.owner != *own && view.applies)
    }

    /// Whoever declares it too cannot join it: nothing proves whose it is, a controller owns it, or it is on its way out.
    pub(super) fn keeps_out(&self) -> bool {
        self.terminating || self.controlled || !self.views.iter().any(|view| view.proof)
    }

    /// An event that was overtaken by the answer of a call, or by what a list showed since.
    ///
    /// resourceVersions are compared within one watch session only. A list replaces what it shows, unless the
    /// record was folded after the list began.
    pub(super) fn outdates(&self, resource_version: u64, source: Source<'_>) -> bool {
        match source {
            Source::Watch => resource_version != 0 && resource_version <= self.resource_version,
            Source::List(mark) => self.folded > mark && resource_version <= self.resource_version,
            Source::Beside(mark) => {
                resource_version < self.resource_version
                    || self.folded > mark && resource_version <= self.resource_version
            }
            Source::Answer(_) | Source::Read => resource_version < self.resource_version,
        }
    }

    /// What a watch, or a list that began before, shows of another object of this name is of the time before this one was
    /// made. Of a read that is not sure: a member that was restored gives lower versions, and a read is the first to show
    /// it.
    pub(super) fn succeeds(&self, resource_version: u64, source: Source<'_>) -> bool {
        matches!(source, Source::Watch | Source::List(_))
            && self.outdates(resource_version, source)
            && !mutants::is(Mutant::PredecessorShown)
    }

    /// What is recorded of an object is not what was read of it: another owner may have applied meanwhile.
    pub(super) fn has_overtaken(&self, read: &Value) -> bool {
        let metadata = &read["metadata"];
        let version =
            metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0);
        let is_same = metadata["uid"].as_str().is_some_and(|uid| self.uid == *uid);
        is_same && self.resource_version != version && !mutants::is(Mutant::OldReadCompared)
    }

    /// The owners for whom a plan or a status could come out otherwise than before.
    pub(super) fn changed_for(&self, before: Option<&Self>) -> BTreeSet<OwnerHash> {
        let Some(before) = before else { return self.owners() };
        let common = (&before.uid, before.terminating, before.controlled)
            != (&self.uid, self.terminating, self.controlled);
        if common || self.judged.is_news(&before.judged) || before.views.len() != self.views.len() {
            return &before.owners() | &self.owners();
        }
        fn standing(view: &View) -> (&OwnerHash, bool, Drift, Option<&Evidence>) {
            (&view.owner, view.proof, view.baseline.drift(), view.trace.as_ref().map(|trace| &trace.evidence))
        }
        let pairs = || before.views.iter().map(standing).zip(self.views.iter().map(standing));
        // One that cannot prove it its own may join it now.
        let is_proved = pairs().any(|((_, was, ..), (_, is, ..))| is && !was);
        let is_changed = |(old, new): &(_, (_, bool, _, _))| *old != *new || (is_proved && !new.1);
        pairs().filter(is_changed).map(|(_, new)| new.0.clone()).collect()
    }

    /// What is otherwise about it for an owner that has it under this uid; `None`: nothing, as far as is known.
    pub(super) fn evidence(
        &self,
        owner: &OwnerHash,
        uid: &Uid,
        declared: Option<&Declared>,
    ) -> Option<Evidence> {
        let view = self.view_of(owner);
        let proof = view.is_some_and(|view| view.proof);
        if !proof && self.uid != *uid {
            return Some(bare(ChangeKind::Missing));
        }
        let applied = view.and_then(View::applied);
        // Lost marks are told all the same: where what is declared by now is refused, they stay lost.
        if proof && applied.zip(declared).is_some_and(|((hash, _), declared)| hash != declared.hash) {
            // It is about to be applied otherwise.
            return None;
        }
        let drift = view.map_or(Drift::Differs, |view| view.baseline.drift());
        if self.terminating || (proof && drift != Drift::Differs) {
            return None;
        }
        let change = if proof { ChangeKind::Modified } else { ChangeKind::OwnershipLost };
        Some(view.and_then(View::evidence).unwrap_or_else(|| bare(change)))
    }
}
