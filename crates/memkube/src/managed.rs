//! managedFields: who owns which field, by the rules of apimachinery's field managers.

use serde_json::{Value, json};

mod entry;
mod scale;

use entry::{Entry, own_entry, read, write};
pub(super) use scale::{show as show_scale, take as take_scale};

use super::deep;
use super::failure::Failure;
use super::kinds::Kind;
use super::smd::{self, Comparison, Element, Set, Typed};
use super::strategy;
use super::write::set;

/// Update managers that an object has at most; the oldest are put together beyond that.
const MOST_UPDATERS: usize = 10;
const BEFORE: &str = "before-first-apply";
const ANCIENT: &str = "ancient-changes";

/// Who writes, through which version and subresource, and when.
pub(super) struct Writer<'a> {
    pub manager: &'a str,
    pub kind: &'a Kind,
    /// `status`, `scale`, or empty.
    pub subresource: &'a str,
    /// As managedFields writes it.
    pub time: String,
    /// The other served versions of the kind: entries made through them are compared in their schema.
    pub versions: Vec<std::sync::Arc<Kind>>,
}

impl Writer<'_> {
    fn typed(&self) -> Typed<'_> {
        self.kind.typed()
    }

    /// What this writer may own: not what the real server resets in such a write.
    fn owned(&self, set: &Set) -> Set {
        set.recursive_difference(&strategy::set(self.kind, self.subresource))
    }

    /// Without what belongs to nobody: identity and bookkeeping.
    fn stripped(&self, set: &Set) -> Set {
        let metadata = Element::field("metadata");
        let mut nobody = Set::default();
        nobody.insert(&[Element::field("apiVersion")]);
        nobody.insert(&[Element::field("kind")]);
        nobody.insert(std::slice::from_ref(&metadata));
        for field in NOBODYS {
            nobody.insert(&[metadata.clone(), Element::field(field)]);
        }
        set.difference(&nobody)
    }

    /// What of a stored object does not fit the schema; duplicates in lists do.
    fn misfit(&self, object: &Value) -> Option<String> {
        smd::validate(self.typed(), object, true).err().map(|wrong| wrong.join("; "))
    }

    /// The type in which an entry's fields are to be read; `None` for a version that is no longer served.
    fn typed_for(&self, api_version: &str) -> Option<Typed<'_>> {
        if api_version == self.kind.api_version() {
            return Some(self.typed());
        }
        self.versions.iter().find(|kind| kind.api_version() == api_version).map(|kind| kind.typed())
    }

    /// What differs in the schema of that version, as far as the writer may change it. The strategy of a
    /// custom resource knows only its own version.
    fn difference(&self, version: &str, old: &Value, new: &Value) -> Option<Comparison> {
        let found = smd::compare(self.typed_for(version)?, old, new);
        let own = self.kind.is_builtin() || version == self.kind.api_version();
        Some(if own { found.filtered(|set| self.owned(set)) } else { found })
    }
}

const NOBODYS: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

fn without_entries(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

/// Books a create, update or patch from `live`, for a create the empty object, to `new`: changed fields
/// leave every other entry and join the writer's Update entry. Entries that the client sent replace the
/// live ones; `[]` and `[{}]` reset them, and an object without entries stays without until the next apply.
pub(super) fn update(live: &Value, created: bool, new: &mut Value, writer: &Writer<'_>) {
    let sent = &new["metadata"]["managedFields"];
    let reset = *sent == json!([{}]) || *sent == json!([]);
    let mut entries = match read(new) {
        _ if !writer.subresource.is_empty() => read(live),
        _ if reset => Vec::new(),
        entries if entries.is_empty() => read(live),
        entries => entries,
    };
    if !created && entries.is_empty() {
        return write(new, entries);
    }
    // Of what has no place in the schema, such as an item without its key, nothing is booked any more.
    if writer.misfit(live).or_else(|| writer.misfit(new)).is_some() {
        return write(new, Vec::new());
    }
    book(live, new, &mut entries, writer, writer.manager);
    cap(&mut entries);
    write(new, entries);
}

fn book(live: &Value, new: &Value, entries: &mut Vec<Entry>, writer: &Writer<'_>, manager: &str) {
    let (live, new) = (without_entries(live), without_entries(new));
    reconcile(entries, writer);
    take(&live, &new, entries, writer, |_| true);
    let diff = writer.difference(&writer.kind.api_version(), &live, &new).unwrap_or_default();
    let won = writer.stripped(&writer.owned(&diff.added.union(&diff.modified)));
    if !won.is_empty() {
        let own = own_entry(entries, Entry::of(writer, manager, false));
        own.fields.extend(&won);
        own.time.clone_from(&writer.time);
    }
}

/// Reads all entries in the schemas of today; those of versions that are no longer served go.
fn reconcile(entries: &mut Vec<Entry>, writer: &Writer<'_>) {
    entries.retain_mut(|entry| {
        let Some(typed) = writer.typed_for(&entry.api_version) else { return false };
        entry.fields = smd::reconcile(typed, &entry.fields);
        true
    });
}

/// Takes what changed away from the entries that are asked for; entries of versions that are no longer
/// served go.
fn take(
    live: &Value,
    new: &Value,
    entries: &mut Vec<Entry>,
    writer: &Writer<'_>,
    of: impl Fn(&Entry) -> bool,
) {
    entries.retain_mut(|entry| {
        if !of(entry) {
            return true;
        }
        let Some(diff) = writer.difference(&entry.api_version, live, new) else { return false };
        let lost = diff.added.union(&diff.modified).union(&diff.removed);
        entry.fields = entry.fields.difference(&lost);
        !entry.fields.is_empty()
    });
}

/// Puts the oldest Update entries of a version together until there are no more than allowed.
fn cap(entries: &mut Vec<Entry>) {
    let count = entries.iter().filter(|entry| !entry.apply).count();
    let mut over = count.saturating_sub(MOST_UPDATERS);
    let mut order: Vec<usize> = (0..entries.len()).filter(|at| !entries[*at].apply).collect();
    order.sort_by_key(|at| (entries[*at].time.clone(), entries[*at].manager.clone()));
    let mut first: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let mut gone = Vec::new();
    for at in order {
        if over == 0 {
            break;
        }
        let version = entries[at].api_version.clone();
        let Some(bucket) = first.get(&version).copied() else {
            first.insert(version, at);
            continue;
        };
        let (fields, time) = (entries[at].fields.clone(), entries[at].time.clone());
        let into = &mut entries[bucket];
        into.fields.extend(&fields);
        into.time = time;
        into.manager = ANCIENT.to_owned();
        into.subresource = String::new();
        gone.push(at);
        over -= 1;
    }
    let mut at = 0;
    entries.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}

/// Applies `config` over `live`, for a create the empty object: the new object, not yet in its stored form,
/// with its entries. Without `force` a field whose value would change and that others own is a conflict;
/// fields that the applier has dropped and nobody else owns are removed.
pub(super) fn apply(
    live: &Value,
    empty: &Value,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Failure> {
    if let Some(wrong) = writer.misfit(live) {
        return Err(Failure::new(500, "", format!("failed to create typed live object: {wrong}")));
    }
    let mut entries = read(live);
    if entries.is_empty() {
        // Nothing before this was booked: one entry stands for all of it.
        book(empty, live, &mut entries, writer, BEFORE);
    }
    reconcile(&mut entries, writer);
    let live = without_entries(live);
    let typed = writer.typed();
    let merged = smd::merge(typed, &live, config);
    let declared = writer.owned(&smd::fields(typed, config));
    let myself = Entry::of(writer, writer.manager, true);
    let own = own_entry(&mut entries, myself.clone());
    own.api_version = writer.kind.api_version();
    let last = std::mem::replace(&mut own.fields, declared);
    let mut new = prune(typed, merged, &last, &entries);

    let mut conflicts = conflicts(&live, &new, &entries, writer, &myself);
    if writer.manager == KUBECTL {
        let allowed = noted(typed, &live);
        conflicts.retain(|conflict| !allowed.contains(&conflict.path));
    }
    if !force && !conflicts.is_empty() {
        let printed = |conflict: &Conflict| (smd::display(&conflict.path), conflict.manager.clone());
        return Err(Failure::apply_conflict(&conflicts.iter().map(printed).collect::<Vec<_>>()));
    }
    take(&live, &new, &mut entries, writer, |entry| !entry.is(&myself));
    let changed = new != live;
    if let Some(own) = entries.iter_mut().find(|entry| entry.is(&myself)) {
        own.fields = writer.stripped(&own.fields);
        if changed {
            own.time.clone_from(&writer.time);
        }
    }
    write(&mut new, entries);
    Ok(new)
}

/// What the apply would change and others own.
fn conflicts(
    live: &Value,
    new: &Value,
    entries: &[Entry],
    writer: &Writer<'_>,
    myself: &Entry,
) -> Vec<Conflict> {
    let others = entries.iter().filter(|entry| !entry.is(myself));
    let lost = others.flat_map(|entry| {
        let diff = writer.difference(&entry.api_version, live, new);
        let lost = diff.map(|diff| entry.fields.intersection(&diff.added.union(&diff.modified)));
        let paths = lost.map(|lost| lost.paths()).unwrap_or_default();
        paths.into_iter().map(|path| Conflict { path, manager: entry.printed() })
    });
    lost.collect()
}

struct Conflict {
    path: smd::Path,
    /// As printed.
    manager: String,
}

/// The manager whose applies follow those of client-side `kubectl apply`.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields that client-side `kubectl apply` declared, as its annotation says, and that are still so: kubectl
/// may take them over.
fn noted(typed: Typed<'_>, live: &Value) -> Set {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
    let Ok(said) = deep::read::<Value>(text.as_bytes()) else { return Set::default() };
    // Duplicates in either are too much for it.
    let read = |object: &Value| smd::validate(typed, object, false).is_ok();
    if said["apiVersion"] != live["apiVersion"] || !read(&said) || !read(live) {
        return Set::default();
    }
    let diff = smd::compare(typed, &said, live);
    let declared = smd::fields(typed, &said);
    declared.difference(&diff.modified).difference(&diff.added).difference(&diff.removed)
}

/// Keeps the annotation of client-side `kubectl apply`, where there is one, up to date with what kubectl
/// applies at the server.
pub(super) fn note_applied(object: &mut Value, said: &Value, manager: &str) {
    let Some(all) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    if manager != KUBECTL || all.get(LAST_APPLIED).is_none_or(|note| note.is_null() || *note == "") {
        return;
    }
    let mut said = said.clone();
    match said.pointer_mut("/metadata/annotations") {
        Some(Value::Object(annotations)) => {
            annotations.remove(LAST_APPLIED);
            texts(annotations);
        }
        Some(Value::Null) => set(&mut said["metadata"], "annotations", Value::Null),
        _ => {}
    }
    texts(all);
    all.insert(LAST_APPLIED.to_owned(), json!(format!("{said}\n")));
}

/// Annotations that are rewritten are texts afterwards.
fn texts(annotations: &mut serde_json::Map<String, Value>) {
    annotations.values_mut().filter(|value| value.is_null()).for_each(|value| *value = json!(""));
}

/// Takes out what the applier owned and no longer declares, unless somebody owns it, or something that
/// stays lies in it.
fn prune(typed: Typed<'_>, merged: Value, last: &Set, entries: &[Entry]) -> Value {
    if last.is_empty() {
        return merged;
    }
    let named = |set: &Set| set.with_named_fields(typed.types, typed.of);
    let last = named(last);
    let all = named(&smd::fields(typed, &merged));
    let without = smd::remove(typed, &merged, &last);
    let owned = entries.iter().fold(Set::default(), |all, entry| all.union(&entry.fields));
    let kept = named(&smd::fields(typed, &without)).union(&named(&owned));
    let without = smd::remove(typed, &merged, &all.difference(&kept));
    let kept = named(&smd::fields(typed, &without));
    smd::remove(typed, &merged, &all.difference(&kept).intersection(&last))
}

/// Are the two the same but for the times of their entries?
pub(super) fn same_but_times(one: &Value, other: &Value) -> bool {
    let untimed = |object: &Value| -> Vec<Value> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let mut entries: Vec<_> = entries
            .into_iter()
            .map(|mut entry| {
                entry.as_object_mut().map(|entry| entry.remove("time"));
                entry
            })
            .collect();
        entries.sort_by_key(Value::to_string);
        entries
    };
    untimed(one) == untimed(other) && without_entries(one) == without_entries(other)
}
