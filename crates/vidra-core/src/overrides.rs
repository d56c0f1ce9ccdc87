//! What of the declared objects differs from cluster to cluster. Entries are checked once, whatever the
//! cluster; then, for one cluster, changed objects are a function of the objects, the entries that are for it,
//! its name, and those labels and values of it that the expressions name.

mod error;
mod expression;
mod patch;
mod set;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use json_patch::PatchOperation;
use serde_json::Value;
use vidra_api::{
    LabelSelector, Override, OverrideInputs, OverrideTarget, SetField,
    overrides::{INPUTS_MAX, OVERRIDES_MAX},
};

pub use error::{InvalidOverride, OverrideError, Subject};

use self::expression::{Expression, Inputs, Uses};
use crate::{
    annotations::Unknown,
    fields::{Element, Path},
    manifest::{self, MAX_VALUES, ManifestObject},
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    select::selects,
    weight::{self, Room},
};

/// Bound on [`Budget::work`]: about a second of one core.
const WORK_MAX: usize = 8 << 30;

/// The overrides of one revision, checked.
#[derive(Debug, Default)]
pub struct Overrides {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// `None`: every cluster, unless the selector says otherwise.
    names: Option<BTreeSet<String>>,
    selector: Option<LabelSelector>,
    target: OverrideTarget,
    change: Change,
}

enum Change {
    Patch(Vec<PatchOperation>),
    Merge(Value),
    Set(Vec<(Path, Expression)>),
}

impl Change {
    fn unknown_annotation(&self) -> Option<Unknown> {
        let is_at = |path: Vec<&str>, value: &Value| Unknown::at(&path, value);
        match self {
            Self::Merge(patch) => is_at(Vec::new(), patch),
            Self::Patch(operations) => operations.iter().find_map(|operation| {
                let (path, value) = match operation {
                    PatchOperation::Add(one) => (&one.path, &one.value),
                    PatchOperation::Replace(one) => (&one.path, &one.value),
                    // What they put there is known of an object only.
                    PatchOperation::Copy(one) => (&one.path, &Value::Null),
                    PatchOperation::Move(one) => (&one.path, &Value::Null),
                    _ => return None,
                };
                let names: Vec<_> = path.tokens().map(|token| token.decoded().into_owned()).collect();
                is_at(names.iter().map(String::as_str).collect(), value)
            }),
            Self::Set(fields) => fields.iter().find_map(|(path, _)| {
                let names = path.elements().iter().map(|element| match element {
                    Element::Field(name) => Some(&**name),
                    _ => None,
                });
                is_at(names.collect::<Option<_>>()?, &Value::Null)
            }),
        }
    }
}

/// Without values: they may be for a Secret.
impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Patch(_) => "Patch",
            Self::Merge(_) => "Merge",
            Self::Set(_) => "Set",
        })
    }
}

/// A cluster, as far as overrides may look at it.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Its name.
    pub name: &'a str,
    /// The labels of its MemberCluster.
    pub labels: &'a BTreeMap<String, String>,
    /// The values of its MemberCluster.
    pub values: &'a BTreeMap<String, String>,
}

/// All that the changed objects of a cluster depend on: clusters for which it is equal share them. The default
/// is no override at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effective {
    inputs: OverrideInputs,
    /// Only if an expression uses it.
    name: Option<String>,
}

/// What changing the objects of one cluster may take, all together.
#[derive(Debug)]
pub struct Budget {
    /// Bytes of changed objects.
    memory: Room,
    /// Bytes of objects that are looked at: each operation may go through a whole object.
    work: Room,
}

impl Default for Budget {
    fn default() -> Self {
        Self { memory: Room::new(MAX_VALUES), work: Room::new(WORK_MAX) }
    }
}

impl Overrides {
    /// Checks the entries of a VidraResource.
    ///
    /// # Errors
    /// The first thing that is wrong on every cluster, by its place.
    pub fn compile(declared: &[Override]) -> Result<Self, InvalidOverride> {
        let invalid = |place: String, why: String| InvalidOverride { place, why };
        if declared.len() > OVERRIDES_MAX {
            let why = format!("there are more than {OVERRIDES_MAX} entries; join some");
            return Err(invalid("spec.overrides".to_owned(), why));
        }
        let entries: Vec<Entry> = declared
            .iter()
            .enumerate()
            .map(|(index, one)| {
                let place = format!("spec.overrides[{index}]");
                Entry::compile(one, &place)
            })
            .collect::<Result<_, _>>()?;
        let overrides = Self { entries };
        let uses = overrides.uses(|_| true);
        for (map, used) in [("labels", uses.labels.len()), ("values", uses.values.len())] {
            if used > INPUTS_MAX {
                let why =
                    format!("the expressions use more than {INPUTS_MAX} keys of cluster.{map}; use fewer");
                return Err(invalid("spec.overrides".to_owned(), why));
            }
        }
        Ok(overrides)
    }

    /// What a VidraTarget is to hold for this cluster; `None` when no entry is for it.
    pub fn inputs(&self, cluster: &Cluster<'_>) -> Option<OverrideInputs> {
        let apply: Vec<i32> = (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.is_for(cluster))
            .map(|(index, _)| index)
            .collect();
        if apply.is_empty() {
            return None;
        }
        let uses = self.uses(|index| apply.contains(&index));
        let pick = |used: &BTreeSet<String>, has: &BTreeMap<String, String>| {
            has.iter()
                .filter(|(key, _)| used.contains(*key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        Some(OverrideInputs {
            labels: pick(&uses.labels, cluster.labels),
            values: pick(&uses.values, cluster.values),
            apply,
        })
    }

    /// All that the changed objects of a cluster depend on.
    pub fn effective(&self, cluster: &str, inputs: Option<&OverrideInputs>) -> Effective {
        let Some(inputs) = inputs else { return Effective::default() };
        let uses = self.uses(|index| inputs.apply.contains(&index));
        Effective { inputs: inputs.clone(), name: uses.name.then(|| cluster.to_owned()) }
    }

    fn uses(&self, applies: impl Fn(i32) -> bool) -> Uses {
        let mut all = Uses::default();
        let entries = (0..).zip(&self.entries).filter(|(index, _)| applies(*index));
        for (_, entry) in entries {
            let Change::Set(fields) = &entry.change else { continue };
            for (_, expression) in fields {
                all.name |= expression.uses.name;
                all.labels.extend(expression.uses.labels.iter().cloned());
                all.values.extend(expression.uses.values.iter().cloned());
            }
        }
        all
    }

    /// The first name of a cluster in an entry that none of these members bears, and the entry's index.
    pub fn unknown_cluster(&self, members: &BTreeSet<&str>) -> Option<(usize, &str)> {
        self.entries.iter().enumerate().find_map(|(index, entry)| {
            let mut names = entry.names.iter().flatten();
            names.find(|name| !members.contains(name.as_str())).map(|name| (index, name.as_str()))
        })
    }

    /// The first annotation of the hub's own that it does not know and that an entry writes by name, with the entry's
    /// place. What else entries make of an object is looked at when it is rendered.
    pub fn unknown_annotation(&self) -> Option<InvalidOverride> {
        let mut entries = self.entries.iter().enumerate();
        let (index, unknown) =
            entries.find_map(|(index, entry)| Some((index, entry.change.unknown_annotation()?)))?;
        let why = format!("metadata.annotations[\"{}\"] {unknown}", unknown.key());
        Some(InvalidOverride { place: format!("spec.overrides[{index}]"), why })
    }

    /// Entries, by index, whose target holds for none of the objects, wherever they may go: `may_be_in` says whether
    /// objects which name no namespace may be put into this one. It is asked once for an entry, however many objects
    /// there are: whoever declares them pays for no more than a comparison of each with each.
    pub fn unmatched(&self, objects: &[ManifestObject], may_be_in: impl Fn(&str) -> bool) -> Vec<usize> {
        let unmatched = |entry: &Entry| {
            let wanted = entry.target.namespace.as_deref();
            let may_be_put = || wanted.is_none_or(|wanted| wanted.is_empty() || may_be_in(wanted));
            let once = may_be_put();
            let is_there = |object: &ManifestObject| match &object.namespace {
                Some(own) => wanted.is_none_or(|wanted| wanted == own),
                None if mutants::is(Mutant::PlacesEach) => may_be_put(),
                None => once,
            };
            !objects.iter().any(|object| entry.holds(&object.gvk, &object.name) && is_there(object))
        };
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| unmatched(entry))
            .map(|(index, _)| index)
            .collect()
    }

    /// Changes one object for a cluster; `object` has its namespace already. Whether it was changed. `budget` is that of
    /// all objects of the cluster.
    ///
    /// # Errors
    /// The first entry that cannot be done; `object` is of no use then.
    pub fn apply(
        &self,
        effective: &Effective,
        cluster: &str,
        gvk: &Gvk,
        key: &ObjectKey,
        object: &mut Value,
        budget: &Budget,
    ) -> Result<bool, OverrideError> {
        let mut changed = None;
        for index in &effective.inputs.apply {
            let entry = usize::try_from(*index).ok().and_then(|at| self.entries.get(at));
            let Some(entry) = entry else {
                return Err(OverrideError::Unknown { index: *index, cluster: cluster.to_owned() });
            };
            if !entry.target_holds(gvk, key) {
                continue;
            }
            let place = format!("spec.overrides[{index}]");
            let subject = Doing { place, key, cluster, budget };
            entry.apply(&effective.inputs, &subject, object)?;
            subject.check(gvk, object)?;
            changed = Some(subject);
        }
        match changed {
            Some(last) if !budget.memory.take(weight::of(object)) => {
                Err(OverrideError::TooMuch { of: last.of() })
            }
            changed => Ok(changed.is_some()),
        }
    }
}

impl Entry {
    fn compile(declared: &Override, place: &str) -> Result<Self, InvalidOverride> {
        let invalid = |place: String, why: &str| InvalidOverride { place, why: why.to_owned() };
        if declared.cluster_names.is_some() && declared.cluster_selector.is_some() {
            return Err(invalid(place.to_owned(), "set at most one of clusterNames and clusterSelector"));
        }
        let change = match (&declared.json_patch, &declared.merge_patch, &declared.set) {
            (Some(operations), None, None) => {
                let numbered = operations.iter().enumerate().map(|(index, one)| {
                    patch::operation(one)
                        .map_err(|(field, why)| invalid(format!("{place}.jsonPatch[{index}].{field}"), &why))
                });
                Change::Patch(numbered.collect::<Result<_, _>>()?)
            }
            (None, Some(patch), None) => {
                Change::Merge(patch::read(patch).map_err(|why| invalid(format!("{place}.mergePatch"), &why))?)
            }
            (None, None, Some(fields)) => {
                let numbered = fields
                    .iter()
                    .enumerate()
                    .map(|(index, one)| assignment(one, &format!("{place}.set[{index}]")));
                Change::Set(numbered.collect::<Result<_, _>>()?)
            }
            _ => return Err(invalid(place.to_owned(), "set exactly one of jsonPatch, mergePatch and set")),
        };
        Ok(Self {
            names: declared.cluster_names.as_ref().map(|names| names.iter().cloned().collect()),
            selector: declared.cluster_selector.clone(),
            target: declared.target.clone(),
            change,
        })
    }

    fn is_for(&self, cluster: &Cluster<'_>) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(cluster.name))
            && self.selector.as_ref().is_none_or(|selector| selects(selector, cluster.labels))
    }

    fn target_holds(&self, gvk: &Gvk, key: &ObjectKey) -> bool {
        let namespace = self.target.namespace.as_deref();
        self.holds(gvk, &key.name) && namespace.is_none_or(|wanted| *wanted == *key.namespace)
    }

    /// It is about objects of this kind and name, whatever the namespace.
    fn holds(&self, gvk: &Gvk, name: &str) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        same(&self.target.name, name)
            && same(&self.target.kind, &gvk.kind)
            && same(&self.target.group, &gvk.group)
            && same(&self.target.version, &gvk.version)
    }

    fn apply(
        &self,
        inputs: &OverrideInputs,
        subject: &Doing<'_>,
        object: &mut Value,
    ) -> Result<(), OverrideError> {
        match &self.change {
            Change::Merge(patch) => json_patch::merge(object, patch),
            Change::Patch(operations) => {
                for (index, one) in operations.iter().enumerate() {
                    json_patch::patch(object, std::slice::from_ref(one))
                        .map_err(|error| subject.patch_failed(index, one, &error.kind))?;
                    if matches!(one, PatchOperation::Copy(_) | PatchOperation::Move(_)) {
                        subject.check_size(object)?;
                    }
                }
            }
            Change::Set(fields) => {
                let cluster =
                    Inputs { name: subject.cluster, labels: &inputs.labels, values: &inputs.values };
                for (index, (path, expression)) in fields.iter().enumerate() {
                    let value =
                        expression.evaluate(&cluster).map_err(|why| subject.gives_nothing(index, why))?;
                    set::set(object, path, value).map_err(|error| subject.not_set(index, &error))?;
                }
            }
        }
        Ok(())
    }
}

fn assignment(field: &SetField, place: &str) -> Result<(Path, Expression), InvalidOverride> {
    let path = field.path.parse().map_err(|error: crate::fields::PathError| InvalidOverride {
        place: format!("{place}.path"),
        why: error.to_string(),
    })?;
    let expression = Expression::compile(&field.expression)
        .map_err(|why| InvalidOverride { place: format!("{place}.expression"), why })?;
    Ok((path, expression))
}

/// What one entry is being done to.
struct Doing<'a> {
    place: String,
    key: &'a ObjectKey,
    cluster: &'a str,
    budget: &'a Budget,
}

impl Doing<'_> {
    fn of(&self) -> Box<Subject> {
        Box::new(Subject {
            place: self.place.clone(),
            object: self.key.clone(),
            cluster: self.cluster.to_owned(),
        })
    }

    fn patch_failed(
        &self,
        index: usize,
        operation: &PatchOperation,
        kind: &json_patch::PatchErrorKind,
    ) -> OverrideError {
        OverrideError::Patch {
            of: self.of(),
            index,
            op: patch::name(operation),
            path: operation.path().to_string(),
            why: patch::why(operation, kind),
        }
    }

    fn gives_nothing(&self, index: usize, why: String) -> OverrideError {
        OverrideError::Evaluate { of: self.of(), index, why }
    }

    fn not_set(&self, index: usize, error: &set::SetError) -> OverrideError {
        OverrideError::Set { of: self.of(), index, at: error.at.to_string(), why: error.why }
    }

    fn check_size(&self, object: &Value) -> Result<(), OverrideError> {
        let weight = weight::of(object);
        if !self.budget.work.take(weight) {
            return Err(OverrideError::TooMuch { of: self.of() });
        }
        match patch::is_in_bounds(object) && weight <= weight::OBJECT_MAX {
            true => Ok(()),
            false => Err(OverrideError::TooLarge { of: self.of() }),
        }
    }

    /// What came out is the same object still, and can be delivered. What only a server writes is taken off.
    fn check(&self, gvk: &Gvk, object: &mut Value) -> Result<(), OverrideError> {
        self.check_size(object)?;
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let namespace = (!self.key.namespace.is_empty()).then_some(&*self.key.namespace);
        let kept = [
            ("apiVersion", text("/apiVersion") == Some(gvk.api_version().as_str())),
            ("kind", text("/kind") == Some(&*gvk.kind)),
            ("metadata.name", text("/metadata/name") == Some(&*self.key.name)),
            ("metadata.namespace", text("/metadata/namespace") == namespace),
        ];
        if let Some((field, _)) = kept.iter().find(|(_, same)| !same) {
            return Err(OverrideError::Renamed { of: self.of(), field });
        }
        let undeliverable = |why: String| OverrideError::Undeliverable { of: self.of(), why };
        let mut checked = manifest::from_value(1, std::mem::take(object)).map_err(|error| {
            undeliverable(error.to_string().trim_start_matches("document 1: ").to_owned())
        })?;
        match (checked.pop(), checked.is_empty()) {
            (Some(one), true) => {
                *object = one.value;
                Ok(())
            }
            _ => Err(undeliverable("it has become a list".to_owned())),
        }
    }
}
