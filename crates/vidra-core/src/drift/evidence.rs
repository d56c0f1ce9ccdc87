//! What about an object is otherwise, read off the object itself: the fields that our entry has lost and whose values
//! differ, and the entries that hold them now.

use std::collections::BTreeSet;

use serde_json::Value;
use vidra_api::{ChangeKind, ChangedField, Time, drift::FIELDS_MAX, labels::HUB_LABEL};

use super::{
    redact::Cover,
    value::{Shown, capped},
};
use crate::{
    fields::{self, FieldSet, Holder, Path, STAMP_PREFIX},
    object::ObjectKey,
};

/// The manager where the server names nobody: removals, reorderings and merged entries.
pub const UNKNOWN: &str = "unknown";
/// Longest `operation`.
const OPERATION_MAX: usize = 63;

/// An object that is not as it was delivered.
#[derive(Clone, Copy, Debug)]
pub struct Suspect<'a> {
    /// What it is.
    pub key: &'a ObjectKey,
    /// The object.
    pub live: &'a Value,
    /// What is declared, prepared and without our marks.
    pub declared: &'a Value,
    /// Our field manager.
    pub manager: &'a str,
    /// The hub's id: the value of its label.
    pub hub: &'a str,
    /// The owner's label.
    pub owner_label: &'a str,
    /// What our entry owned when we last applied, where that is known.
    pub set: Option<&'a FieldSet>,
    /// The values over it are others than then. False: only the marks or the entry are.
    pub modified: bool,
    /// The paths that differ, where a dry run told them.
    pub told: Option<&'a [Path]>,
}

/// What is otherwise about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// In one word.
    pub change: ChangeKind,
    /// The fields, at most 20. Nothing in it is secret.
    pub fields: Vec<ChangedField>,
}

/// Makes the evidence.
///
/// A value that differs from the declared one and is still ours was only spelt otherwise by the server. Items of a
/// list in another order are told by the list's path. Our own stamps are never told.
pub fn evidence(suspect: &Suspect<'_>, cover: Cover<'_>) -> Evidence {
    let entry = fields::own_apply_set(suspect.live, suspect.manager);
    let lost = lost(suspect, entry.as_ref());
    let (marks, rest): (Vec<Path>, Vec<Path>) =
        lost.into_iter().partition(|path| suspect.mark(path).is_some());
    let paths = match suspect.told {
        Some(told) => told.to_vec(),
        None if suspect.modified => suspect.differing(rest),
        None => Vec::new(),
    };
    let paths = outermost(paths, suspect.live);
    let is_lost = |path: &&Path| suspect.mark(path).as_ref() != path.find(suspect.live);
    let marks: Vec<&Path> = marks.iter().filter(is_lost).collect();
    let change = match () {
        () if !paths.is_empty() => ChangeKind::Modified,
        // Something of it differs, and it is none of our marks.
        () if suspect.modified && marks.is_empty() && entry.is_some() => ChangeKind::Modified,
        () => ChangeKind::OwnershipLost,
    };
    let holders = Holders::of(suspect);
    let mut found: Vec<ChangedField> =
        paths.iter().take(FIELDS_MAX).map(|path| suspect.field(path, &holders, cover)).collect();
    if change == ChangeKind::OwnershipLost {
        found.extend(marks.into_iter().map(|path| suspect.field(path, &holders, cover)));
        if entry.is_none() {
            let path = ".metadata.managedFields".to_owned();
            found.push(ChangedField { path, manager: UNKNOWN.to_owned(), ..ChangedField::default() });
        }
        found.truncate(FIELDS_MAX);
    }
    Evidence { change, fields: found }
}

/// What our entry owned and owns no more; stamps left out.
fn lost(suspect: &Suspect<'_>, entry: Option<&FieldSet>) -> Vec<Path> {
    let mut lost = match (suspect.set, entry) {
        (Some(set), Some(entry)) => set.lost_in(entry),
        (Some(set), None) => set.paths(),
        (None, Some(entry)) => {
            let mut missing = fields::missing_leaves(suspect.declared, entry);
            let marks = [HUB_LABEL, suspect.owner_label];
            let marks = marks.map(|label| Path::of_fields(["metadata", "labels", label]));
            missing.extend(marks.into_iter().filter(|mark| !entry.holds(mark)));
            missing
        }
        (None, None) => Vec::new(),
    };
    lost.retain(|path| !is_stamp(path));
    lost
}

fn is_stamp(path: &Path) -> bool {
    let [.., parent, fields::Element::Field(name)] = path.elements() else { return false };
    *parent == fields::Element::Field("annotations".into()) && name.starts_with(STAMP_PREFIX)
}

/// The paths without those that lie in one that is gone altogether.
fn outermost(paths: Vec<Path>, live: &Value) -> Vec<Path> {
    let mut kept: Vec<Path> = Vec::new();
    for path in paths.into_iter().collect::<BTreeSet<_>>() {
        let within =
            |outer: &Path| path.elements().starts_with(outer.elements()) && outer.find(live).is_none();
        if !kept.last().is_some_and(within) {
            kept.push(path);
        }
    }
    kept
}

impl Suspect<'_> {
    /// The value that a label of ours has, if the path is one.
    fn mark(&self, path: &Path) -> Option<Value> {
        let is = |label: &str| *path == Path::of_fields(["metadata", "labels", label]);
        match () {
            () if is(HUB_LABEL) => Some(self.hub.into()),
            () if is(self.owner_label) => Some("".into()),
            () => None,
        }
    }

    /// Of what was lost, what differs; and what differs without being lost: the order of lists, and what is declared
    /// empty and was filled.
    fn differing(&self, lost: Vec<Path>) -> Vec<Path> {
        let owned = self.set.map(FieldSet::paths).unwrap_or_default();
        // Sorted, so what lies in a path comes right behind it.
        let has_parts = |path: &Path| {
            let from = owned.partition_point(|other| other <= path);
            owned.get(from).is_some_and(|next| next.elements().starts_with(path.elements()))
        };
        let mut paths = lost;
        paths.retain(|path| {
            let (declared, live) = (path.find(self.declared), path.find(self.live));
            match has_parts(path) {
                true => declared.is_some() != live.is_some(),
                false => declared != live,
            }
        });
        if let Some(set) = self.set {
            let reordered = fields::differing(self.declared, self.live, set, Some(self.declared));
            let is_list = |path: &Path, in_: &Value| path.find(in_).is_some_and(Value::is_array);
            paths.extend(
                reordered.into_iter().filter(|path| {
                    is_list(path, self.declared) && is_list(path, self.live) && has_parts(path)
                }),
            );
        }
        paths.extend(fields::taken_empties(self.live, self.declared, self.manager));
        paths
    }

    fn field(&self, path: &Path, holders: &Holders, cover: Cover<'_>) -> ChangedField {
        let shown = Shown::new(cover, self.key, path);
        let expected = self.mark(path).or_else(|| path.find(self.declared).cloned());
        let holder = holders.of_path(path);
        let operation = holder.map_or_else(String::new, |holder| match &holder.subresource {
            Some(subresource) => format!("{}/{subresource}", holder.operation),
            None => holder.operation.clone(),
        });
        let time = holder.and_then(|holder| holder.time.as_deref());
        ChangedField {
            expected: expected.map(|value| shown.value(&value)),
            actual: path.find(self.live).map(|value| shown.value(value)),
            manager: match holder.map(|holder| capped(&holder.manager)) {
                Some(manager) if !manager.is_empty() => manager,
                _ => UNKNOWN.to_owned(),
            },
            operation: vidra_api::clip(&capped(&operation), OPERATION_MAX),
            not_after: time.and_then(|time| serde_json::from_value::<Time>(time.into()).ok()),
            path: shown.path,
        }
    }
}

/// Who holds what, besides us.
struct Holders(Vec<(Holder, FieldSet)>);

impl Holders {
    fn of(suspect: &Suspect<'_>) -> Self {
        let mut all = fields::entry_sets(suspect.live);
        all.retain(|(holder, _)| !(holder.manager == suspect.manager && holder.operation == "Apply"));
        // The newest first: of several that hold a path it is the one that changed it, or came after.
        all.sort_by(|(a, _), (b, _)| b.time.cmp(&a.time).then_with(|| a.cmp(b)));
        Self(all)
    }

    fn of_path(&self, path: &Path) -> Option<&Holder> {
        self.0.iter().find(|(_, set)| set.holds(path)).map(|(holder, _)| holder)
    }
}

#[cfg(test)]
mod tests;
