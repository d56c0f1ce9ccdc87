//! managedFields: who owns which field, by the rules of apimachinery's field managers.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

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
        let kept = strategy::set(self.kind, self.subresource);
        Some(if own { found.filtered(|set| set.recursive_difference(&kept)) } else { found })
    }
}

/// What differs between two objects without entries, in the schema of each version that somebody asks for. Entries
/// share their versions, and it is looked at once.
struct Differences<'a> {
    writer: &'a Writer<'a>,
    live: &'a Value,
    new: &'a Value,
    known: Vec<(String, Option<Difference>)>,
}

struct Difference {
    /// What is there now, or otherwise.
    set: Set,
    /// The same, and what is not there any more.
    lost: Set,
}

impl<'a> Differences<'a> {
    fn between(live: &'a Value, new: &'a Value, writer: &'a Writer<'a>) -> Self {
        Differences { writer, live, new, known: Vec::new() }
    }

    /// `None` for a version that is no longer served.
    fn of(&mut self, version: &str) -> Option<&Difference> {
        let known = self.known.iter().position(|(known, _)| known == version);
        let at = known.unwrap_or_else(|| {
            let found = self.writer.difference(version, self.live, self.new).map(|found| {
                let set = found.added.union(&found.modified);
                Difference { lost: set.union(&found.removed), set }
            });
            self.known.push((version.to_owned(), found));
            self.known.len() - 1
        });
        self.known[at].1.as_ref()
    }
}

/// Without what belongs to nobody: identity and bookkeeping.
fn stripped(set: &Set) -> Set {
    static NOBODY: LazyLock<Set> = LazyLock::new(|| {
        let metadata = Element::field("metadata");
        let mut nobody = Set::default();
        nobody.insert(&[Element::field("apiVersion")]);
        nobody.insert(&[Element::field("kind")]);
        nobody.insert(std::slice::from_ref(&metadata));
        for field in NOBODYS {
            nobody.insert(&[metadata.clone(), Element::field(field)]);
        }
        nobody
    });
    set.difference(&NOBODY)
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

/// Entries are most of many an object: they are not copied to be taken out.
fn without_entries(object: &Value) -> Value {
    let bare = |metadata: &Value| match metadata {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(field, _)| *field != "managedFields");
            kept.map(|(field, value)| (field.clone(), value.clone())).collect()
        }
        other => other.clone(),
    };
    let fields = object.as_object().into_iter().flatten().map(|(field, value)| {
        let value = if field == "metadata" { bare(value) } else { value.clone() };
        (field.clone(), value)
    });
    let mut object: Map<String, Value> = fields.collect();
    // As indexing a value to change it leaves it.
    object.entry("metadata").or_insert(Value::Null);
    Value::Object(object)
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
    // They are read, and written again.
    if let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    book(&without_entries(live), new, &mut entries, writer, writer.manager);
    cap(&mut entries);
    write(new, entries);
}

/// Of two objects without entries.
fn book(live: &Value, new: &Value, entries: &mut Vec<Entry>, writer: &Writer<'_>, manager: &str) {
    reconcile(entries, writer);
    let mut differences = Differences::between(live, new, writer);
    take(&mut differences, entries, |_| true);
    let own = differences.of(&writer.kind.api_version());
    let won = own.map(|own| stripped(&writer.owned(&own.set))).unwrap_or_default();
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
fn take(differences: &mut Differences<'_>, entries: &mut Vec<Entry>, of: impl Fn(&Entry) -> bool) {
    entries.retain_mut(|entry| {
        if !of(entry) {
            return true;
        }
        let Some(difference) = differences.of(&entry.api_version) else { return false };
        entry.fields = entry.fields.difference(&difference.lost);
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
    let live = without_entries(live);
    if entries.is_empty() {
        // Nothing before this was booked: one entry stands for all of it.
        book(&without_entries(empty), &live, &mut entries, writer, BEFORE);
    }
    reconcile(&mut entries, writer);
    let typed = writer.typed();
    let merged = smd::merge(typed, &live, config);
    let declared = writer.owned(&smd::fields(typed, config));
    let myself = Entry::of(writer, writer.manager, true);
    let own = own_entry(&mut entries, myself.clone());
    own.api_version = writer.kind.api_version();
    let last = std::mem::replace(&mut own.fields, declared);
    let mut new = prune(typed, merged, &last, &entries);

    let mut differences = Differences::between(&live, &new, writer);
    let mut conflicts = conflicts(&mut differences, &entries, &myself);
    if writer.manager == KUBECTL {
        let allowed = noted(typed, &live);
        conflicts.retain(|conflict| !allowed.contains(&conflict.path));
    }
    if !force && !conflicts.is_empty() {
        let printed = |conflict: &Conflict| (smd::display(&conflict.path), conflict.manager.clone());
        return Err(Failure::apply_conflict(&conflicts.iter().map(printed).collect::<Vec<_>>()));
    }
    take(&mut differences, &mut entries, |entry| !entry.is(&myself));
    let changed = new != live;
    if let Some(own) = entries.iter_mut().find(|entry| entry.is(&myself)) {
        own.fields = stripped(&own.fields);
        if changed {
            own.time.clone_from(&writer.time);
        }
    }
    write(&mut new, entries);
    Ok(new)
}

/// What the apply would change and others own.
fn conflicts(differences: &mut Differences<'_>, entries: &[Entry], myself: &Entry) -> Vec<Conflict> {
    let others = entries.iter().filter(|entry| !entry.is(myself));
    let lost = others.flat_map(|entry| {
        let difference = differences.of(&entry.api_version);
        let lost = difference.map(|difference| entry.fields.intersection(&difference.set));
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
    same_but_entries(one, other) && same_entries(listed(one), listed(other))
}

fn listed(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Are two objects the same without their entries?
fn same_but_entries(one: &Value, other: &Value) -> bool {
    let (Some(fields), Some(others)) = (one.as_object(), other.as_object()) else { return one == other };
    same_without("metadata", fields, others)
        && match (&one["metadata"], &other["metadata"]) {
            (Value::Object(one), Value::Object(other)) => same_without("managedFields", one, other),
            (one, other) => one == other,
        }
}

/// Are two maps the same beside one field?
fn same_without(field: &str, one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let rest = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(field));
    rest(one) == rest(other) && one.iter().all(|(key, value)| key == field || other.get(key) == Some(value))
}

/// In any order, but for their times. Mostly they are in the same.
fn same_entries(one: &[Value], other: &[Value]) -> bool {
    let same = |one: &Value, other: &Value| match (one, other) {
        (Value::Object(one), Value::Object(other)) => same_without("time", one, other),
        (one, other) => one == other,
    };
    let untimed = |entries: &[Value]| -> Vec<Value> {
        let mut entries = entries.to_vec();
        entries.iter_mut().for_each(|entry| drop(entry.as_object_mut().map(|entry| entry.remove("time"))));
        entries.sort_by_cached_key(Value::to_string);
        entries
    };
    one.len() == other.len()
        && (one.iter().zip(other).all(|(one, other)| same(one, other)) || untimed(one) == untimed(other))
}
