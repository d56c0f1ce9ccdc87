//! The evidence against a live object, made when it is folded: what differs from what an owner declares, who did it, and
//! no secret value.

use std::sync::{Arc, atomic::AtomicUsize};

use serde_json::Value;
use vidra_api::{
    ChangeKind, ChangedField,
    labels::HUB_LABEL,
    names::{HubId, OwnerHash},
};
use vidra_core::{
    drift::{Cover, Evidence, Suspect, UNKNOWN, evidence},
    fields::Path,
    object::ObjectKey,
    plan::Drift,
    render::HashKey,
};

use super::{
    baseline::{Baseline, hashed_part},
    owners::Owner,
    record::Record,
    tombstones::Tombstone,
    trace::{Trace, bare},
    view::View,
};
use crate::config::tuning::Tuning;

/// What keeps secret values out of evidence.
pub struct Secrecy {
    /// The salt of digests.
    pub salt: HashKey,
    /// Names what is redacted.
    pub tuning: Arc<Tuning>,
}

/// Makes the evidence of one member.
pub(super) struct EvidenceBuilder {
    pub(super) hub: HubId,
    pub(super) secrecy: Secrecy,
    /// Bytes of evidence that are kept.
    pub(super) room: Arc<AtomicUsize>,
}

impl EvidenceBuilder {
    /// The evidence against a live object, if there is anything against it. `told`: the paths that a dry run gave.
    pub(super) fn trace(
        &self,
        key: &ObjectKey,
        live: &Value,
        view: &View,
        owner: Option<&Owner>,
        told: Option<&[Path]>,
    ) -> Option<Box<Trace>> {
        if view.proof && view.baseline.drift() != Drift::Differs {
            return None;
        }
        let owner = owner?;
        let declared = owner.declared(key)?;
        if view.applied().is_some_and(|(hash, _)| hash != declared.hash) {
            // It is about to be applied otherwise.
            return None;
        }
        let exempt = owner.exempt(key);
        // What is left alone is no evidence against anybody.
        let without = |value: &Value| exempt.map(|exempt| exempt.compared(value, live));
        let (seen, body) = (without(live), without(&declared.body));
        let (seen, body) = (seen.as_ref().unwrap_or(live), body.as_ref().unwrap_or(&declared.body));
        let known = view.baseline.known();
        let modified = view.baseline.is_modified(&hashed_part(exempt, live), &declared.body);
        let lost = matches!(view.baseline, Baseline::Lost { .. });
        let suspect = Suspect {
            key,
            live: seen,
            declared: body,
            manager: &owner.manager(&self.hub),
            hub: self.hub.as_ref(),
            owner_label: &view.owner.label_key(),
            set: known.as_ref().map(|(set, ..)| &**set),
            modified: modified.unwrap_or(!lost),
            told,
        };
        let now = self.secrecy.tuning.now();
        let cover = Cover { redactions: &now.redact, salt: &self.secrecy.salt };
        Some(Trace::new(evidence(&suspect, cover), &self.room))
    }

    /// An object that is there without the label by which the hub sees it.
    pub(super) fn hidden(&self, known: Option<Evidence>) -> Evidence {
        let mut found = known.unwrap_or_else(|| bare(ChangeKind::OwnershipLost));
        let path = format!(".metadata.labels.{HUB_LABEL}");
        if found.change == ChangeKind::OwnershipLost && !found.fields.iter().any(|field| field.path == path) {
            let expected = Some(Value::from(self.hub.as_ref()).to_string());
            let manager = UNKNOWN.to_owned();
            found.fields.insert(0, ChangedField { path, expected, manager, ..ChangedField::default() });
        }
        found
    }

    /// What an owner's own answer has corrected, if anything was otherwise before it.
    pub(super) fn corrected(
        &self,
        own: &OwnerHash,
        uid: &str,
        before: Option<&Record>,
        tombstone: Option<&Tombstone>,
    ) -> Option<Evidence> {
        if let Some(before) = before {
            return before.view_of(own)?.evidence();
        }
        let tombstone = tombstone?;
        Some(match *tombstone.uid() == *uid {
            true => self.hidden(tombstone.evidence(own)),
            false => bare(ChangeKind::Missing),
        })
    }
}
