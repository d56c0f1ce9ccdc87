//! Values and paths as a report shows them: as JSON, bounded, and nothing of what is secret.

use serde_json::Value;
use vidra_api::drift::FIELD_VALUE_MAX;

use super::redact::Cover;
use crate::{fields::Path, object::ObjectKey, unseen};

/// One value at one path of one object.
pub(super) struct Shown<'a> {
    cover: Cover<'a>,
    key: &'a ObjectKey,
    covered: bool,
    /// The path as it may be shown.
    pub(super) path: String,
}

impl<'a> Shown<'a> {
    pub(super) fn new(cover: Cover<'a>, key: &'a ObjectKey, path: &Path) -> Self {
        let covered = cover.covered(key, path);
        let text = covered.as_ref().unwrap_or(path).to_string();
        Self { cover, key, covered: covered.is_some(), path: capped(&text) }
    }

    /// The value as JSON; a digest where it is secret or long.
    pub(super) fn value(&self, value: &Value) -> String {
        let json = value.to_string();
        let shown = unseen::escaped_json(&json);
        if self.covered || shown.len() > FIELD_VALUE_MAX {
            self.cover.digest(self.key, &self.path, &json)
        } else {
            shown
        }
    }
}

/// Text from a member as [`unseen::shown`] gives it, no longer than a report allows. What was cut ends with "…".
pub(super) fn capped(text: &str) -> String {
    let clean = unseen::shown(text, FIELD_VALUE_MAX);
    if clean.len() <= FIELD_VALUE_MAX {
        return clean;
    }
    let room = FIELD_VALUE_MAX - '…'.len_utf8();
    let end = (0..=room).rev().find(|at| clean.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &clean[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{drift::Redactions, object::Gvk, render::HashKey};

    #[test]
    fn long_values_are_digests_and_texts_are_cut_and_clean() {
        let (salt, redactions) = (HashKey::new([7; 32]), Redactions::default());
        let cover = Cover { redactions: &redactions, salt: &salt };
        let key = ObjectKey::new(&Gvk::new("", "v1", "ConfigMap"), "shop", "settings");
        let shown = Shown::new(cover, &key, &Path::of_fields(["data", "a\u{1b}[31m"]));
        assert_eq!(shown.path, ".data.a\u{fffd}[31m");
        assert_eq!(shown.value(&json!("line\n\u{1}<b>")), "\"line\\n\\u0001<b>\"");
        assert_eq!(shown.value(&json!("\u{9b}2J\u{202e}")), "\"\\u009b2J\\u202e\"");
        assert!(shown.value(&json!("x".repeat(300))).starts_with("hmac:"));
        assert_eq!(shown.value(&json!("x".repeat(254))).len(), 256);
        let long = capped(&"ü".repeat(300));
        assert!(long.len() <= 256 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn of_what_is_secret_neither_value_nor_item_is_shown() {
        let salt = HashKey::new([7; 32]);
        let redactions = Redactions::parse("Gate .spec.tokens\nGate .spec.doors[name=\"x\"].code").unwrap();
        let cover = Cover { redactions: &redactions, salt: &salt };
        let key = ObjectKey::new(&Gvk::new("example.com", "v1", "Gate"), "shop", "front");
        for (path, told) in [
            (".spec.tokens[=\"hush\"]", ".spec.tokens"),
            (".spec.tokens[token=\"hush\"].ttl", ".spec.tokens"),
            (".spec.doors[name=\"a\"].code", ".spec.doors[name=\"a\"].code"),
            (".spec.doors[name=\"a\"]", ".spec.doors[name=\"a\"]"),
        ] {
            let shown = Shown::new(cover, &key, &path.parse().unwrap());
            assert_eq!(shown.path, told);
            assert!(!shown.value(&json!("hush")).contains("hush"));
        }
    }
}
