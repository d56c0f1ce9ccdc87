//! How a live object becomes its owners' views: whose marks it bears, and how its values compare with what is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use vidra_api::{
    labels,
    names::{HubId, OwnerHash},
};
use vidra_core::{
    fields::{self, FieldSet},
    mutants::{self, Mutant},
    object::ObjectKey,
    render::Stamp,
};

use super::{
    Source,
    baseline::{Baseline, Comparison},
    evidence::{EvidenceBuilder, Secrecy},
    owners::Owners,
    view::{Applied, View, Views},
};
use crate::{base::interner::Interned, member::live::Live};

/// Makes the views of one member's objects.
pub(super) struct ViewBuilder {
    manager_prefix: String,
    interned: Arc<Interned>,
    pub(super) evidence: EvidenceBuilder,
}

/// What an object bears of an owner.
struct Marks {
    /// Our own Apply entry owns our label.
    proof: bool,
    /// By its stamp.
    applied: Option<Arc<Applied>>,
    /// See [`Stamp::kept`].
    kept: bool,
}

impl ViewBuilder {
    pub(super) fn new(hub: HubId, secrecy: Secrecy, interned: Arc<Interned>) -> Self {
        let manager_prefix = format!("vidra/{hub}/");
        let evidence = EvidenceBuilder { hub, secrecy, room: Arc::default() };
        Self { manager_prefix, interned, evidence }
    }

    pub(super) fn hub(&self) -> &HubId {
        &self.evidence.hub
    }

    /// The views of a live object. `before`: those that are known of it; `same_version`: of this very version.
    pub(super) fn build(
        &self,
        key: &ObjectKey,
        live: &Live,
        source: Source<'_>,
        (before, same_version): (&[View], bool),
        owners: &Owners,
    ) -> Views {
        let metadata = &live.json["metadata"];
        let is_seen = metadata["labels"][labels::HUB_LABEL] == *self.hub().as_ref()
            || mutants::is(Mutant::UnlabelledCounts);
        let entries = self.own_entries(&live.json);
        let mut all: BTreeSet<OwnerHash> = entries.keys().cloned().collect();
        all.extend(owners.labelled(metadata));
        all.extend(before.iter().map(|view| view.owner.clone()));
        all.into_iter()
            .map(|owner| {
                let known = owners.get(&owner);
                let comparison = Comparison::new(self.hub(), key, &live.json, known);
                let entry = entries.get(&owner).cloned();
                let applies = entry.is_some();
                let others = || entries.iter().filter(|(other, _)| **other != owner).map(|(_, set)| &**set);
                let Marks { proof, applied, kept } = self.marks(key, metadata, &owner, entry.as_deref());
                let view = before.iter().find(|view| view.owner == owner);
                // Of what was applied otherwise since, values from before say nothing.
                let is_newer = |view: &&View| applied.is_some() && view.applied != applied;
                let was = view.filter(|view| !is_newer(view)).and_then(|view| view.baseline.known());
                let before = view.map(|view| &view.baseline);
                let is_stale = matches!(before, Some(Baseline::NeedsDryRun));
                let is_immutable = same_version && matches!(before, Some(Baseline::Immutable));
                // Only reads show it without the label: our entry counts as gone.
                let counts = is_seen || is_stale || source == Source::Answer(&owner);
                let baseline = match (entry.filter(|_| counts), was) {
                    (Some(set), _) if source == Source::Answer(&owner) => comparison.unchanged(set),
                    (None, was) => Baseline::Lost { was: was.map(|(set, values, _)| (set, values)) },
                    (Some(_), _) if is_stale => Baseline::NeedsDryRun,
                    (Some(_), _) if is_immutable => Baseline::Immutable,
                    // A new default, without a write: a new baseline. A restored server gives a version to two writes; one
                    // of somebody else's takes a field from our entry, and one of ours has another stamp.
                    (Some(entry), Some((set, _, false)))
                        if same_version
                            && entry == set
                            && view.is_some_and(|view| view.applied == applied) =>
                    {
                        comparison.unchanged(set)
                    }
                    (Some(entry), Some((set, values, _))) => {
                        // Of these values a dry run has told already whose they are.
                        let is_sure = same_version || matches!(before, Some(Baseline::HeldByOther { .. }));
                        comparison.next(&entry, (set, values), others(), is_sure)
                    }
                    (Some(set), None) => comparison.first(set),
                };
                let yields = known.map(|_| comparison.yields());
                let mut view = View { owner, proof, applies, applied, yields, kept, baseline, trace: None };
                view.trace = self.evidence.trace(key, &live.json, &view, known, None);
                view
            })
            .collect()
    }

    fn marks(&self, key: &ObjectKey, metadata: &Value, owner: &OwnerHash, entry: Option<&FieldSet>) -> Marks {
        let label = owner.label_key();
        let is_owned = entry.is_some_and(|set| fields::owns_label(set, &label));
        let stamp = metadata["annotations"][&label].as_str().and_then(Stamp::parse);
        // Of one that others wrote, the generation says nothing.
        let generation = |stamp: &Stamp| {
            let genuine = stamp.is_genuine(&self.evidence.secrecy.salt, key) || mutants::is(Mutant::AnyStamp);
            if genuine { stamp.generation } else { 0 }
        };
        Marks {
            proof: is_owned && !metadata["labels"][&label].is_null(),
            kept: stamp.as_ref().is_some_and(|stamp| stamp.kept),
            applied: stamp.map(|stamp| self.interned.applied.share((stamp.hash, generation(&stamp)))),
        }
    }

    /// The Apply entries of this hub's resources, by owner.
    fn own_entries(&self, live: &Value) -> BTreeMap<OwnerHash, Arc<FieldSet>> {
        let entries = live["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
        entries
            .iter()
            .filter(|entry| {
                entry["operation"] == "Apply" && entry["subresource"].as_str().unwrap_or("").is_empty()
            })
            .filter_map(|entry| {
                let rest = entry["manager"].as_str()?.strip_prefix(&self.manager_prefix)?;
                let owner = match rest.split_once('/') {
                    Some((namespace, name)) => OwnerHash::new(self.hub(), namespace, name),
                    None => OwnerHash::from_label_key(&format!("{}{rest}", labels::OWNER_PREFIX))?,
                };
                let set = FieldSet::from_fields_v1(&entry["fieldsV1"]).ok()?;
                Some((owner, self.interned.sets.share(set)))
            })
            .collect()
    }
}
