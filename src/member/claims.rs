//! What each target declares on a member, as far as this process has looked: who drops an object asks it before the
//! object is removed, for another VidraResource may have taken it up.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use vidra_core::{directives::ApplyMode, object::ObjectKey};

use crate::{desired::Desired, queue::TargetKey};

/// What a target declares.
#[derive(Clone, Debug)]
pub enum Claim {
    /// These objects.
    Objects(Arc<Desired>),
    /// Nobody can tell; what its inventory holds may be among it.
    Unknown,
}

/// The claims of one member's targets.
#[derive(Debug, Default)]
pub struct Claims(Mutex<BTreeMap<TargetKey, (Box<str>, Claim)>>);

impl Claims {
    /// A target that is to be there has this revision.
    pub fn note(&self, target: &TargetKey, revision: &str, claim: Claim) {
        self.0.lock().insert(target.clone(), (revision.into(), claim));
    }

    /// The target declares nothing any more.
    pub fn forget(&self, target: &TargetKey) {
        self.0.lock().remove(target);
    }

    /// What the target declares with this revision is known, or known not to be.
    pub fn is_noted(&self, target: &TargetKey, revision: &str) -> bool {
        self.0.lock().get(target).is_some_and(|(noted, _)| **noted == *revision)
    }

    /// The other VidraResources of the same namespace that declare the object for as long as it stands there; `holds` tells
    /// of one of which nothing is known whether its inventory has the object.
    pub fn claimants(
        &self,
        own: &TargetKey,
        object: &ObjectKey,
        holds: impl Fn(&TargetKey) -> bool,
    ) -> Vec<TargetKey> {
        let all = self.0.lock();
        let others = all
            .iter()
            .filter(|(target, _)| target.namespace == own.namespace && target.resource != own.resource);
        let claimants = others.filter(|(target, (_, claim))| match claim {
            Claim::Objects(desired) => {
                desired.wants.get(object).is_some_and(|want| want.directives.apply != ApplyMode::IfAbsent)
            }
            Claim::Unknown => holds(target),
        });
        claimants.map(|(target, _)| target.clone()).collect()
    }
}
