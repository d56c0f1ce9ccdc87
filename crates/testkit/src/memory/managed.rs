//! managedFields: who owns which field, by the rules of structured-merge-diff's `merge.Updater`.

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::fields::{self, Fields};
use super::kinds::Kind;
use super::write::drop_empty_metadata;

/// Who writes, through which version and subresource, and when.
pub(super) struct Writer<'a> {
    pub manager: &'a str,
    pub kind: &'a Kind,
    /// By the status subresource.
    pub status: bool,
    /// As managedFields writes it.
    pub time: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    manager: String,
    apply: bool,
    api_version: String,
    subresource: String,
    time: String,
    fields: Fields,
}

impl Entry {
    fn of(writer: &Writer<'_>, apply: bool) -> Self {
        Entry {
            manager: writer.manager.to_owned(),
            apply,
            api_version: writer.kind.api_version(),
            subresource: writer.subresource().to_owned(),
            time: String::new(),
            fields: Fields::new(),
        }
    }

    /// Is it the same manager? An applier is the same through every version.
    fn is(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.apply == other.apply
            && self.subresource == other.subresource
            && (self.apply || self.api_version == other.api_version)
    }

    /// As conflicts print it: only the entry of an Update says its version.
    fn printed(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        if !self.apply {
            text += &format!(" using {}", self.api_version);
        }
        text
    }

    fn read(entry: &Value) -> Self {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        Entry {
            manager: text("manager"),
            apply: entry["operation"] == "Apply",
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: fields::decode(&entry["fieldsV1"]),
        }
    }

    fn write(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": if self.apply { "Apply" } else { "Update" },
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields::encode(&self.fields),
        });
        for (field, value) in [("time", &self.time), ("subresource", &self.subresource)] {
            if !value.is_empty() {
                entry[field] = json!(value);
            }
        }
        entry
    }
}

impl Writer<'_> {
    fn subresource(&self) -> &'static str {
        if self.status { "status" } else { "" }
    }

    /// The part of an object that this write can own: neither identity nor bookkeeping, and either status
    /// or all else where status is a subresource.
    fn tracked(&self, object: &Value) -> Value {
        let mut metadata = Map::new();
        let mut rest = Map::new();
        for (key, value) in object.as_object().into_iter().flatten() {
            let in_status = key == "status";
            match key.as_str() {
                "apiVersion" | "kind" => {}
                "metadata" if !self.status => metadata = value.as_object().cloned().unwrap_or_default(),
                "metadata" => {}
                _ if self.status != in_status && (self.status || self.kind.status_subresource) => {}
                _ => {
                    rest.insert(key.clone(), value.clone());
                }
            }
        }
        metadata.retain(|key, _| !UNTRACKED.contains(&key.as_str()));
        rest.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(rest)
    }
}

const UNTRACKED: [&str; 10] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

fn read(object: &Value) -> Vec<Entry> {
    object["metadata"]["managedFields"].as_array().into_iter().flatten().map(Entry::read).collect()
}

fn write(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| {
        let key = |entry: &Entry| {
            let Entry { apply, time, manager, api_version, subresource, .. } = entry.clone();
            (!apply, time, manager, api_version, subresource)
        };
        key(a).cmp(&key(b))
    });
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".into(), entries.iter().map(Entry::write).collect());
    }
}

/// Books a create, update or patch from `live` to `new`: changed fields leave every other entry and join
/// the writer's Update entry. Entries that the client sent replace the live ones; `[{}]` resets them, and
/// an object without entries stays without until the next apply.
pub(super) fn update(live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let sent = &new["metadata"]["managedFields"];
    let reset = !writer.status && *sent == json!([{}]);
    let mut entries = match live {
        _ if reset => Vec::new(),
        Some(live) if writer.status || sent.as_array().is_none_or(Vec::is_empty) => read(live),
        Some(_) => read(new),
        None => Vec::new(),
    };
    if live.is_some() && entries.is_empty() {
        return write(new, entries);
    }
    let before = live.map_or_else(|| json!({"metadata": {}}), |live| writer.tracked(live));
    let diff = fields::diff(&before, &writer.tracked(new));
    for entry in &mut entries {
        entry.fields.retain(|field| !diff.changed.contains(field) && !diff.removed.contains(field));
    }
    if !diff.changed.is_empty() {
        let own = own_entry(&mut entries, Entry::of(writer, false));
        own.fields.extend(diff.changed);
        own.time.clone_from(&writer.time);
    }
    write(new, entries);
}

/// Applies `config` over `live`: the new object, with its entries. Without `force` a field whose value
/// would change and that others own is a conflict; fields that the applier has dropped and nobody else
/// owns are removed.
pub(super) fn apply(
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Failure> {
    let nothing = json!({"metadata": {}});
    let before = live.map_or_else(|| nothing.clone(), |live| writer.tracked(live));
    let mut entries = live.map(read).unwrap_or_default();
    if live.is_some() && entries.is_empty() {
        let first = Writer { manager: "before-first-apply", time: writer.time.clone(), ..*writer };
        let fields = fields::all(&before);
        entries.push(Entry { time: first.time.clone(), fields, ..Entry::of(&first, false) });
    }

    let mut new = live.cloned().unwrap_or_else(|| nothing.clone());
    let config = writer.tracked(config);
    if let (Value::Object(new), Value::Object(config)) = (&mut new, &config) {
        fields::merge(new, config);
    }
    let own = own_entry(&mut entries, Entry::of(writer, true));
    own.api_version = writer.kind.api_version();
    let dropped = std::mem::replace(&mut own.fields, fields::declared(&config));
    for path in dropped.iter().rev() {
        if !entries.iter().any(|entry| fields::covers(&entry.fields, path)) {
            fields::remove(&mut new, path, &|above| entries.iter().any(|entry| entry.fields.contains(above)));
        }
    }

    // Not stored, so no change; the declared empties are owned all the same.
    drop_empty_metadata(&mut new);
    let diff = fields::diff(&before, &writer.tracked(&new));
    let myself = Entry::of(writer, true);
    let others = || entries.iter().filter(|entry| !entry.is(&myself));
    let conflicts: Vec<_> = others()
        .flat_map(|entry| {
            let lost = entry.fields.intersection(&diff.changed);
            lost.map(|path| (fields::display(path), entry.printed()))
        })
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(Failure::apply_conflict(&conflicts));
    }
    for entry in entries.iter_mut().filter(|entry| !entry.is(&myself)) {
        entry.fields.retain(|field| !diff.changed.contains(field) && !diff.removed.contains(field));
    }
    if !diff.is_empty() {
        own_entry(&mut entries, myself).time.clone_from(&writer.time);
    }
    write(&mut new, entries);
    Ok(new)
}

/// The entry of this manager, added when there is none.
fn own_entry(entries: &mut Vec<Entry>, like: Entry) -> &mut Entry {
    let at = entries.iter().position(|entry| entry.is(&like)).unwrap_or_else(|| {
        entries.push(like);
        entries.len() - 1
    });
    &mut entries[at]
}
