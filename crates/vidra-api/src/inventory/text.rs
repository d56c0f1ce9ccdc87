//! An inventory entry as one string, and back. No part before the uid can have a slash in it: names are path
//! segments of the API, so a server refuses them.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::InventoryEntry;

/// What the schema lets pass is read without an error.
const FORM: &str = concat!(
    "^[^/]*/[^/]+/[^/]+/[^/]*/[^/]+",
    "/(intended|done)(,adopted)?(,wave=-?(1000|[1-9][0-9]{0,2}))?(,settled=[0-9a-f]{1,64})?/.{0,128}$"
);
/// The longest parts together.
const MAX: usize = 1800;

/// A text that is no inventory entry.
#[derive(Debug, thiserror::Error)]
#[error("an inventory entry is group/version/kind/namespace/name/state/uid, and this is not: {0:?}")]
pub struct NoEntry(String);

impl fmt::Display for InventoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, version, kind, namespace, name, .. } = self;
        let state = if self.done { "done" } else { "intended" };
        write!(f, "{group}/{version}/{kind}/{namespace}/{name}/{state}")?;
        if self.adopted {
            f.write_str(",adopted")?;
        }
        if self.wave != 0 {
            write!(f, ",wave={}", self.wave)?;
        }
        if !self.settled.is_empty() {
            write!(f, ",settled={}", self.settled)?;
        }
        write!(f, "/{}", self.uid)
    }
}

impl FromStr for InventoryEntry {
    type Err = NoEntry;

    fn from_str(text: &str) -> Result<Self, NoEntry> {
        let bad = || NoEntry(text.to_owned());
        let mut parts = text.splitn(7, '/');
        let mut part = || parts.next().ok_or_else(bad);
        let (group, version, kind, namespace, name) = (part()?, part()?, part()?, part()?, part()?);
        let (state, uid) = (part()?, part()?);
        let mut entry = Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..Self::default()
        };
        for word in state.split(',') {
            match word.split_once('=').unwrap_or((word, "")) {
                ("intended", "") => {}
                ("done", "") => entry.done = true,
                ("adopted", "") => entry.adopted = true,
                ("wave", wave) => entry.wave = wave.parse().map_err(|_| bad())?,
                ("settled", hash) => entry.settled = hash.to_owned(),
                _ => return Err(bad()),
            }
        }
        Ok(entry)
    }
}

impl Serialize for InventoryEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InventoryEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = InventoryEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an inventory entry")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<InventoryEntry, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl JsonSchema for InventoryEntry {
    fn schema_name() -> Cow<'static, str> {
        "InventoryEntry".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX, "pattern": FORM })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> InventoryEntry {
        InventoryEntry {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
            uid: "0a1b".into(),
            adopted: true,
            done: true,
            wave: -1000,
            settled: "00ff".into(),
        }
    }

    #[test]
    fn an_entry_is_read_back_from_its_text() {
        let role = InventoryEntry {
            version: "v1".into(),
            kind: "ClusterRole".into(),
            name: "system:a b,c=d".into(),
            ..InventoryEntry::default()
        };
        let odd_uid = InventoryEntry {
            uid: "a/b,c".into(),
            adopted: false,
            settled: String::new(),
            wave: 7,
            ..entry()
        };
        let cases = [
            (entry(), "apps/v1/Deployment/shop/web/done,adopted,wave=-1000,settled=00ff/0a1b"),
            (role, "/v1/ClusterRole//system:a b,c=d/intended/"),
            (odd_uid, "apps/v1/Deployment/shop/web/done,wave=7/a/b,c"),
        ];
        for (entry, text) in cases {
            assert_eq!(entry.to_string(), text);
            assert_eq!(text.parse::<InventoryEntry>().unwrap(), entry);
        }
    }

    #[test]
    fn what_is_no_entry_is_refused_with_its_text() {
        for text in ["", "v1/ConfigMap/a/b", "/v1/ConfigMap/a/b/gone/", "/v1/ConfigMap/a/b/done,wave=x/"] {
            let error = text.parse::<InventoryEntry>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
