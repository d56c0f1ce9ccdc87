//! The entries of `metadata.managedFields`: which is ours, who else writes here, who holds a path.

use serde_json::Value;

use super::MANAGER_PREFIX;
use super::element::Path;
use super::set::FieldSet;

/// A manager that holds a path in a live object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The field manager's name: chosen by its client, so a claim and no identity.
    pub manager: String,
    /// Apply or Update.
    pub operation: String,
    /// The subresource written through, such as scale or status.
    pub subresource: Option<String>,
    /// RFC 3339: when the entry last changed, so an upper bound for each of its fields.
    pub time: Option<String>,
}

fn entries(live: &Value) -> impl Iterator<Item = &Value> {
    live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn text<'a>(entry: &'a Value, field: &str) -> Option<&'a str> {
    entry.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The manager of an entry that was made by apply on the object itself.
pub(super) fn applier(entry: &Value) -> Option<&str> {
    let whole = text(entry, "operation") == Some("Apply") && text(entry, "subresource").is_none();
    if whole { text(entry, "manager") } else { None }
}

/// The entry that `manager` made by applying the object itself.
pub(super) fn is_apply_entry(entry: &Value, manager: &str) -> bool {
    applier(entry) == Some(manager)
}

/// Who, besides the one that applied as `ours`, owns these fields (as the API server writes paths): the managers,
/// each with its subresource if it wrote through one, and what they own of them. Sorted.
pub fn contenders(live: &Value, ours: &str, contested: &[String]) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = entries(live)
        .filter(|entry| applier(entry) != Some(ours))
        .filter_map(|entry| {
            let set = FieldSet::from_fields_v1(entry.get("fieldsV1")?).ok()?;
            let owned: Vec<String> =
                set.paths().iter().map(Path::to_string).filter(|path| contested.contains(path)).collect();
            let manager = text(entry, "manager").unwrap_or_default();
            let name = match text(entry, "subresource") {
                Some(subresource) => format!("{manager} ({subresource})"),
                None => manager.to_owned(),
            };
            (!owned.is_empty()).then_some((name, owned))
        })
        .collect();
    found.sort();
    found
}

/// The `fieldsV1` of the entry that `manager` made by applying the object itself, not a subresource. There is at
/// most one, whatever versions it was applied through (apimachinery, managedfields/internal, BuildManagerIdentifier).
pub fn own_apply_entry<'a>(live: &'a Value, manager: &str) -> Option<&'a Value> {
    entries(live).find(|entry| applier(entry) == Some(manager)).and_then(|entry| entry.get("fieldsV1"))
}

/// What that entry owns; `None`: there is none, or it cannot be read.
pub fn own_apply_set(live: &Value, manager: &str) -> Option<FieldSet> {
    FieldSet::from_fields_v1(own_apply_entry(live, manager)?).ok()
}

/// The managers of Vidra hubs other than `ours` that applied this object, in the order of the object.
pub fn other_vidra_managers<'a>(live: &'a Value, ours: &str) -> Vec<&'a str> {
    entries(live)
        .filter_map(applier)
        .filter(|manager| manager.starts_with(MANAGER_PREFIX) && *manager != ours)
        .collect()
}

/// Whether the entry owns this label: with our owner label, the proof that the object is ours.
pub fn owns_label(set: &FieldSet, label_key: &str) -> bool {
    let labels = set.root().field("metadata").and_then(|metadata| metadata.field("labels"));
    labels.and_then(|labels| labels.field(label_key)).is_some_and(|label| label.owned)
}

/// Every entry that can be read, with what it owns; ours among them, in the order of the object.
pub fn entry_sets(live: &Value) -> Vec<(Holder, FieldSet)> {
    let read = |entry: &Value| Some((holder(entry), FieldSet::from_fields_v1(entry.get("fieldsV1")?).ok()?));
    entries(live).filter_map(read).collect()
}

fn holder(entry: &Value) -> Holder {
    Holder {
        manager: text(entry, "manager").unwrap_or_default().to_owned(),
        operation: text(entry, "operation").unwrap_or_default().to_owned(),
        subresource: text(entry, "subresource").map(str::to_owned),
        time: text(entry, "time").map(str::to_owned),
    }
}

/// The paths that bear these texts, as some entry holds them.
pub fn held_paths(live: &Value, texts: &[String]) -> Vec<Path> {
    let sets = entry_sets(live).into_iter();
    let mut paths: Vec<Path> = sets.flat_map(|(_, set)| set.paths()).collect();
    paths.retain(|path| texts.contains(&path.to_string()));
    paths.sort();
    paths.dedup();
    paths
}

/// Who holds `path`: every entry that owns it, something under it, or a value whole in which it lies; ours among
/// them. An entry that cannot be read holds nothing. Sorted.
pub fn holders(live: &Value, path: &Path) -> Vec<Holder> {
    let mut holders: Vec<Holder> = entries(live)
        .filter(|entry| {
            let set = entry.get("fieldsV1").map(FieldSet::from_fields_v1);
            matches!(set, Some(Ok(set)) if set.holds(path))
        })
        .map(holder)
        .collect();
    holders.sort();
    holders
}

/// Whether one of those whom `who` (manager, subresource) means holds `path`, as [`holders`] tells it. Only their
/// entries are read.
pub fn is_held(live: &Value, path: &Path, who: impl Fn(&str, Option<&str>) -> bool) -> bool {
    entries(live)
        .filter(|entry| who(text(entry, "manager").unwrap_or_default(), text(entry, "subresource")))
        .filter_map(|entry| FieldSet::from_fields_v1(entry.get("fieldsV1")?).ok())
        .any(|set| set.holds(path))
}

/// The field sets of all entries but the one that `manager` applied; one that cannot be read is left out.
pub(super) fn sets_of_others(live: &Value, manager: &str) -> Vec<FieldSet> {
    entries(live)
        .filter(|entry| applier(entry) != Some(manager))
        .filter_map(|entry| FieldSet::from_fields_v1(entry.get("fieldsV1")?).ok())
        .collect()
}
