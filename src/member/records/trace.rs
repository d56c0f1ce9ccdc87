//! What is kept of drift: the evidence of the event that showed it, while it lasts, and when it is undone until
//! somebody asks. Nothing in it is secret.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::Value;
use vidra_api::{ChangeKind, ChangedField, labels::HUB_LABEL, names::OwnerHash};
use vidra_core::{
    drift::{Cover, Evidence, Suspect, UNKNOWN, evidence},
    fields::{self, FieldSet, Path},
    object::ObjectKey,
    plan::Drift,
    render::{Declared, HashKey},
    uid::Uid,
};

use super::{Base, Record, Records, View, is_overtaken, owners::Owner, spare, tombstones::Tombstone, viewed};
use crate::settings::tuning::Tuning;

/// Evidence of one member: what comes beyond is told without its fields.
const BYTES_MOST: usize = 8 << 20;

/// What keeps secret values out of evidence.
pub struct Secrecy {
    /// The salt of digests.
    pub salt: HashKey,
    /// Names what is redacted.
    pub tuning: Arc<Tuning>,
}

/// Evidence, as long as there is room for it.
pub(super) struct Trace {
    pub(super) evidence: Evidence,
    bytes: usize,
    room: Arc<AtomicUsize>,
}

impl Trace {
    fn new(mut evidence: Evidence, room: &Arc<AtomicUsize>) -> Box<Self> {
        let of = |field: &ChangedField| {
            let values =
                [&field.expected, &field.actual].into_iter().flatten().map(String::len).sum::<usize>();
            size_of::<ChangedField>()
                + field.path.len()
                + field.manager.len()
                + field.operation.len()
                + values
        };
        let mut bytes: usize = evidence.fields.iter().map(of).sum();
        if room.load(Ordering::Relaxed) + bytes > BYTES_MOST {
            evidence.fields = Vec::new();
            bytes = 0;
        }
        room.fetch_add(bytes, Ordering::Relaxed);
        Box::new(Self { evidence, bytes, room: room.clone() })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.room.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Records {
    /// The evidence against a live object, if there is anything against it. `told`: the paths that a dry run gave.
    pub(super) fn trace(
        &self,
        key: &ObjectKey,
        live: &Value,
        view: &View,
        owner: Option<&Owner>,
        told: Option<&[Path]>,
    ) -> Option<Box<Trace>> {
        if view.proof && view.base.drift() != Drift::Differs {
            return None;
        }
        let owner = owner?;
        let declared = owner.declared(key)?;
        if view.applied().is_some_and(|(hash, _)| hash != declared.hash) {
            // It is about to be applied otherwise.
            return None;
        }
        let spared = owner.spared(key);
        // What is left alone is no evidence against anybody.
        let without = |value: &Value| spared.map(|spared| spared.compared(value, live));
        let (seen, body) = (without(live), without(&declared.body));
        let (seen, body) = (seen.as_ref().unwrap_or(live), body.as_ref().unwrap_or(&declared.body));
        let known = view.base.known();
        let modified = view.base.is_modified(&spare::seen(spared, live), &declared.body);
        let lost = matches!(view.base, Base::Lost { .. });
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

    /// A dry run has shown that an apply would change the object: what it would leave is the baseline. False: what is
    /// recorded is not what was read.
    pub fn differs(
        &self,
        owner: &OwnerHash,
        key: &ObjectKey,
        live: &Value,
        would: &Value,
        set: FieldSet,
        declared: &Declared,
    ) -> bool {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if is_overtaken(inner.objects.get(key).map(Box::as_ref), live) {
            return false;
        }
        let set = self.interned.sets.share(set);
        let known = inner.owners.get(owner);
        let Some(view) = viewed(inner.objects.get_mut(key).map(Box::as_mut), owner, live) else {
            return true;
        };
        let spared = known.and_then(|known| known.spared(key));
        let values = fields::values_hash(&spare::seen(spared, would), &set, Some(&declared.body));
        let compared = |value: &Value| spared.map_or_else(|| value.clone(), |one| one.compared(value, live));
        let told = fields::differing(&compared(live), &compared(would), &set, Some(&declared.body));
        view.base = Base::Known { set, values, drifted: true };
        view.trace = self.trace(key, live, view, known, Some(&told));
        true
    }

    /// What is otherwise about an object that this owner has under a uid; `None`: nothing, as far as is known.
    pub fn found(&self, owner: &OwnerHash, key: &ObjectKey, uid: &Uid) -> Option<Evidence> {
        let inner = self.inner.lock();
        let missing = || Some(Evidence { change: ChangeKind::Missing, fields: Vec::new() });
        let Some(record) = inner.objects.get(key) else {
            return match inner.tombstones.get(key).filter(|known| known.uid() == uid) {
                Some(known) if known.is_hidden() => Some(self.hidden(known.evidence(owner))),
                _ => missing(),
            };
        };
        let view = record.views.iter().find(|view| view.owner == *owner);
        let proof = view.is_some_and(|view| view.proof);
        if !proof && record.uid != *uid {
            return missing();
        }
        let declared = inner.owners.get(owner).and_then(|known| known.declared(key));
        let applied = view.and_then(View::applied);
        // Lost marks are told all the same: where what is declared by now is refused, they stay lost.
        if proof && applied.zip(declared).is_some_and(|((hash, _), declared)| hash != declared.hash) {
            // It is about to be applied otherwise.
            return None;
        }
        let drift = view.map_or(Drift::Differs, |view| view.base.drift());
        if record.terminating || (proof && drift != Drift::Differs) {
            return None;
        }
        let bare = if proof { ChangeKind::Modified } else { ChangeKind::OwnershipLost };
        let kept = view.and_then(|view| view.trace.as_ref()).map(|trace| trace.evidence.clone());
        Some(kept.unwrap_or(Evidence { change: bare, fields: Vec::new() }))
    }

    /// An object that is there without the label by which the hub sees it.
    pub fn hidden(&self, known: Option<Evidence>) -> Evidence {
        let mut found = known.unwrap_or(Evidence { change: ChangeKind::OwnershipLost, fields: Vec::new() });
        let path = format!(".metadata.labels.{HUB_LABEL}");
        if found.change == ChangeKind::OwnershipLost && !found.fields.iter().any(|field| field.path == path) {
            let expected = Some(Value::from(self.hub.as_ref()).to_string());
            let manager = UNKNOWN.to_owned();
            found.fields.insert(0, ChangedField { path, expected, manager, ..ChangedField::default() });
        }
        found
    }
}

/// What an owner's own answer has corrected, if anything was otherwise before it.
pub(super) fn corrected(
    records: &Records,
    own: &OwnerHash,
    uid: &str,
    before: Option<&Record>,
    tombstone: Option<&Tombstone>,
) -> Option<Evidence> {
    if let Some(before) = before {
        let view = before.views.iter().find(|view| view.owner == *own)?;
        return view.trace.as_ref().map(|trace| trace.evidence.clone());
    }
    let tombstone = tombstone?;
    Some(match *tombstone.uid() == *uid {
        true => records.hidden(tombstone.evidence(own)),
        false => Evidence { change: ChangeKind::Missing, fields: Vec::new() },
    })
}
