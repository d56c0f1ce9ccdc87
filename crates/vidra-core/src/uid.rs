//! An object's uid, as it is kept of hundreds of thousands of objects.

use std::fmt;

use uuid::{Uuid, fmt::Hyphenated};

/// The uid of an object. It is shown as it was read.
///
/// An API server gives out UUIDs, which take 16 bytes; whatever else a server makes up is kept as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Uuid([u8; 16]),
    Text(Box<str>),
}

/// A UUID that is written as text just so: lower case, with hyphens.
fn canonical(text: &str) -> Option<[u8; 16]> {
    let uuid = Uuid::try_parse(text).ok()?;
    (uuid.hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]) == text).then(|| uuid.into_bytes())
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(canonical(text).map_or_else(|| Form::Text(text.into()), Form::Uuid))
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self::from("")
    }
}

impl Uid {
    /// It is the empty text: no uid is known.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, text: &str) -> bool {
        match &self.0 {
            Form::Uuid(bytes) => canonical(text).as_ref() == Some(bytes),
            Form::Text(own) => **own == *text,
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(bytes) => fmt::Display::fmt(&Uuid::from_bytes(*bytes), f),
            Form::Text(text) => f.pad(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_shown_as_it_was_read_and_is_equal_to_nothing_else() {
        let canonical = "0b9a1d3e-44cc-4c1b-9d0f-2f6a7c8e9b10";
        let texts = [
            canonical.to_owned(),
            canonical.to_uppercase(),
            canonical.replace('-', ""),
            format!("{{{canonical}}}"),
            format!("urn:uuid:{canonical}"),
            format!("{canonical} "),
            "00000000-0000-0000-0000-000000000000".to_owned(),
            "u1".to_owned(),
            String::new(),
        ];
        for (nth, text) in texts.iter().enumerate() {
            let uid = Uid::from(text.as_str());
            assert_eq!(uid.to_string(), *text);
            assert_eq!(uid.is_empty(), text.is_empty());
            for (nth_other, text) in texts.iter().enumerate() {
                let other = Uid::from(text.as_str());
                assert_eq!(uid == *text.as_str(), nth == nth_other, "{uid} and {text}");
                assert_eq!(uid == other, nth == nth_other, "{uid} and {text}");
            }
        }
    }

    #[test]
    fn a_uid_is_small() {
        assert_eq!(size_of::<Uid>(), 24);
        assert!(matches!(Uid::from("0b9a1d3e-44cc-4c1b-9d0f-2f6a7c8e9b10").0, Form::Uuid(_)));
    }
}
