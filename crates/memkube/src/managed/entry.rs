//! One entry of managedFields: how it is read, written, told apart and printed.

use serde_json::{Value, json};

use super::Writer;
use crate::smd::Set;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub manager: String,
    pub apply: bool,
    pub api_version: String,
    pub subresource: String,
    pub time: String,
    pub fields: Set,
}

impl Entry {
    pub fn of(writer: &Writer<'_>, manager: &str, apply: bool) -> Self {
        Entry {
            manager: manager.to_owned(),
            apply,
            api_version: writer.kind.api_version(),
            subresource: writer.subresource.to_owned(),
            time: String::new(),
            fields: Set::default(),
        }
    }

    /// Is it the same manager? An applier is the same through every version.
    pub fn is(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.apply == other.apply
            && self.subresource == other.subresource
            && (self.apply || self.api_version == other.api_version)
    }

    /// What entries are sorted by.
    fn order(&self) -> (bool, [&str; 4]) {
        let Entry { time, manager, api_version, subresource, .. } = self;
        (!self.apply, [time, manager, api_version, subresource].map(String::as_str))
    }

    /// As conflicts print it: only the entry of an Update says its version.
    pub fn printed(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        if !self.apply {
            text += &format!(" using {}", self.api_version);
        }
        text
    }

    /// `None` for an entry that the server would not take.
    fn read(entry: &Value) -> Option<Self> {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let operation = entry["operation"].as_str();
        if !matches!(operation, Some("Apply" | "Update"))
            || text("apiVersion").is_empty()
            || entry["fieldsType"] != "FieldsV1"
        {
            return None;
        }
        let fields = match &entry["fieldsV1"] {
            Value::Null => Set::default(),
            fields => Set::decode(fields)?,
        };
        Some(Entry {
            manager: text("manager"),
            apply: operation == Some("Apply"),
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields,
        })
    }

    fn write(&self) -> Value {
        let mut entry = json!({
            "operation": if self.apply { "Apply" } else { "Update" },
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.encode(),
        });
        let optional = [("manager", &self.manager), ("time", &self.time), ("subresource", &self.subresource)];
        for (field, value) in optional {
            if !value.is_empty() {
                entry[field] = json!(value);
            }
        }
        entry
    }
}

/// The entries of an object; none where one of them is unreadable. Of several for one manager the last
/// counts.
pub(super) fn read(object: &Value) -> Vec<Entry> {
    let list = object["metadata"]["managedFields"].as_array();
    let mut entries: Vec<Entry> = Vec::new();
    for entry in list.into_iter().flatten() {
        let Some(entry) = Entry::read(entry) else { return Vec::new() };
        entries.retain(|other| !other.is(&entry));
        entries.push(entry);
    }
    entries
}

pub(super) fn write(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| a.order().cmp(&b.order()));
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".into(), entries.iter().map(Entry::write).collect());
    }
}

/// The entry of this manager, added when there is none.
pub(super) fn own_entry(entries: &mut Vec<Entry>, like: Entry) -> &mut Entry {
    let at = entries.iter().position(|entry| entry.is(&like)).unwrap_or_else(|| {
        entries.push(like);
        entries.len() - 1
    });
    &mut entries[at]
}
