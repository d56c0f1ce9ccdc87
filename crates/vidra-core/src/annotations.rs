//! Annotations with the hub's own prefix in what is declared: which there are, and what is said of one that the hub does
//! not know. It is refused, as a wrong value of a known one is: it was to change what the hub does with the object, and
//! would do nothing.
//!
//! What was declared before is read without asking this: a revision that is kept goes on to be delivered and repaired.

use std::fmt;

use serde_json::Value;
use vidra_api::labels::{
    ALLOWED_NAMESPACES, APPLY, APPROVE_REMOVAL, CONFIRM, FORGET, HUB_LABEL, LEFT_AT, ON_IMMUTABLE, PRUNE,
    RECONCILE_REQUESTED_AT, REGISTRATION, SCHEMA_ANNOTATION, TAKE_OVER_FROM, WAIT_FOR, WAVE,
};

use crate::{
    manifest::{ManifestError, ManifestObject},
    unseen::shown,
};

const PREFIX: &str = "vidra.dev/";
/// What a manifest says of an object.
const INSTRUCTIONS: [&str; 5] = [WAVE, APPLY, WAIT_FOR, ON_IMMUTABLE, PRUNE];
/// What people and the hub put on objects of a hub's cluster: one hub may deliver these to another.
const OF_HUBS: [&str; 10] = [
    RECONCILE_REQUESTED_AT,
    APPROVE_REMOVAL,
    FORGET,
    CONFIRM,
    TAKE_OVER_FROM,
    ALLOWED_NAMESPACES,
    LEFT_AT,
    REGISTRATION,
    SCHEMA_ANNOTATION,
    HUB_LABEL,
];
/// So much of a key is compared, and shown.
const KEY_MAX: usize = 80;

/// What is wrong with an annotation that the hub does not know, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    key: String,
    nearest: Option<&'static str>,
}

impl Unknown {
    /// The first of the keys of an object's annotations that has the prefix and is none of the known ones.
    fn find<'k>(keys: impl IntoIterator<Item = &'k str>) -> Option<Self> {
        let known = || INSTRUCTIONS.into_iter().chain(OF_HUBS);
        let key =
            keys.into_iter().find(|key| key.starts_with(PREFIX) && !known().any(|known| known == *key))?;
        let name: String = key.chars().skip(PREFIX.len()).take(KEY_MAX).collect();
        let of = |known: &'static str| {
            (strsim::levenshtein(&name, known.get(PREFIX.len()..).unwrap_or_default()), known)
        };
        let (least, nearest) = known().map(of).min()?;
        // One that is further away was not meant.
        let nearest = (least * 2 <= name.chars().count()).then_some(nearest);
        Some(Self { key: shown(key, KEY_MAX), nearest })
    }

    /// The first of an object's, or of what a patch writes at this path of one.
    pub fn at(path: &[&str], value: &Value) -> Option<Self> {
        let annotations = match path {
            [] => value.get("metadata")?.get("annotations")?,
            ["metadata"] => value.get("annotations")?,
            ["metadata", "annotations"] => value,
            ["metadata", "annotations", key] => return Self::find([*key]),
            _ => return None,
        };
        // Null is as if it were not there.
        let written = annotations.as_object()?.iter().filter(|(_, value)| !value.is_null());
        Self::find(written.map(|(key, _)| key.as_str()))
    }

    /// The annotation.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// What follows the annotation in a sentence.
impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is no annotation that this version of the hub knows: ")?;
        match self.nearest {
            Some(nearest) => write!(f, "write {nearest}, or remove it"),
            None => write!(f, "remove it, or write one of {}", INSTRUCTIONS.join(", ")),
        }
    }
}

/// That all annotations of the hub's own prefix are known.
///
/// # Errors
/// The first that is not, with its place and its object.
pub fn check(objects: &[ManifestObject]) -> Result<(), ManifestError> {
    let unknown = objects.iter().find_map(|object| Some((object, Unknown::at(&[], &object.value)?)));
    let Some((object, unknown)) = unknown else { return Ok(()) };
    let slash = object.namespace.iter().map(|namespace| format!("{namespace}/")).collect::<String>();
    Err(ManifestError::UnknownAnnotation {
        place: object.place.clone(),
        object: shown(&format!("{} {slash}{}", object.gvk.kind, object.name), 2 * 253),
        unknown,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::parse;

    fn said(key: &str) -> Option<String> {
        Unknown::at(&[], &json!({"metadata": {"annotations": {key: "x"}}})).map(|unknown| unknown.to_string())
    }

    #[test]
    fn what_is_misspelt_is_told_with_what_was_meant() {
        for (key, nearest) in [
            ("vidra.dev/wait_for", WAIT_FOR),
            ("vidra.dev/waitFor", WAIT_FOR),
            ("vidra.dev/Wave", WAVE),
            ("vidra.dev/waves", WAVE),
            ("vidra.dev/apply-mode", APPLY),
            ("vidra.dev/immutable", ON_IMMUTABLE),
            ("vidra.dev/pruning", PRUNE),
            ("vidra.dev/forgot", FORGET),
        ] {
            let words = said(key).unwrap_or_else(|| panic!("{key}"));
            assert!(words.ends_with(&format!("write {nearest}, or remove it")), "{key}: {words}");
        }
        for key in ["vidra.dev/", "vidra.dev/x", "vidra.dev/team", "vidra.dev/protect-from-humans"] {
            let words = said(key).unwrap_or_else(|| panic!("{key}"));
            assert!(words.contains("one of vidra.dev/wave, vidra.dev/apply, "), "{key}: {words}");
        }
        for key in INSTRUCTIONS.into_iter().chain(OF_HUBS) {
            assert_eq!(said(key), None, "{key}");
        }
        for key in
            ["wave", "example.com/wave", "owner.vidra.dev/0123", "x.vidra.dev/wave", "vidra.device/wave"]
        {
            assert_eq!(said(key), None, "{key}");
        }
        let none = json!({"metadata": {"annotations": {"vidra.dev/wait_for": null}}});
        assert_eq!((Unknown::at(&[], &none), Unknown::at(&[], &json!({}))), (None, None));
    }

    #[test]
    fn one_of_many_objects_is_named_with_its_place() {
        let object = |name: &str, key: &str| {
            format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, annotations: {{{key}: '1'}}}}\n"
            )
        };
        let good = object("a", "vidra.dev/wave");
        assert_eq!(check(&parse(&good).unwrap()), Ok(()));
        let told = check(&parse(&(good + &object("b", "vidra.dev/weve"))).unwrap()).unwrap_err().to_string();
        assert_eq!(
            told,
            "document 2 (line 6): metadata.annotations[\"vidra.dev/weve\"] of Pod shop/b is no annotation that this version of the hub knows: write vidra.dev/wave, or remove it"
        );
        let hostile = format!("vidra.dev/\u{1b}{}", "x".repeat(100_000));
        let unknown = Unknown::find([hostile.as_str()]).unwrap();
        assert!(unknown.key().chars().count() <= KEY_MAX && !unknown.key().contains('\u{1b}'));
    }
}
