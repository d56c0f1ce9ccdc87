//! JSON that is kept as the text that it came as, so that whoever reads the object around it reads it whatever its depth.
//! Readers of JSON stop at 128 levels, and an API server takes some 10,000.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error};
use serde_json::{Value, value::RawValue};

/// One JSON value as text. It is well-formed; how deep it is, is not known.
///
/// It is read and written by serde_json only.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Arc<str>);

impl Raw {
    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Without the text: it may be a Secret.
impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({} bytes)", self.0.len())
    }
}

impl From<Value> for Raw {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Ok(Self(raw.get().into()))
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(S::Error::custom)?.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_of_any_depth_goes_through_unread() {
        #[derive(Serialize, Deserialize)]
        struct Around {
            inner: Vec<Raw>,
        }
        let deep = format!("{{\"inner\":[{}{}]}}", "[".repeat(10_000), "]".repeat(10_000));
        let read: Around = serde_json::from_str(&deep).unwrap();
        assert_eq!(read.inner[0].text().len(), 20_000);
        assert_eq!(serde_json::to_string(&read).unwrap(), deep);
        assert!(serde_json::from_str::<Around>(&deep[..deep.len() - 2]).is_err());
    }

    #[test]
    fn a_value_goes_through_as_itself_and_does_not_show_where_it_is_debugged() {
        let value = json!({"b": [1, null], "a": "pin"});
        let raw = Raw::from(value.clone());
        assert_eq!(serde_json::from_value::<Raw>(value.clone()).unwrap(), raw);
        assert_eq!(serde_json::to_value(&raw).unwrap(), value);
        assert_eq!(format!("{raw:?}"), "Raw(24 bytes)");
    }
}
