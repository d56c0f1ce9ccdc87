//! What is told of a call that a member has refused, where its words may quote a value that is never written.
//!
//! API servers quote what they refuse: structured-merge-diff (`expected string, got &value.valueUnstructured{…}`),
//! validation (`Invalid value: "…"`), conversion, webhooks. Of an object that holds such values only the code, the
//! reasons and the fields are told.

use serde_json::Value;

use super::redact::Redactions;
use crate::{first_of::first_of, unseen};

/// Bound on the fields that are named.
const FIELDS: usize = 5;
/// Bound on the causes that are looked at: a member may send hundreds of thousands.
const CAUSES_MAX: usize = 64;
/// Longest path that is named, in characters.
const PATH_MAX: usize = 256;
/// Longest reason, in characters.
const REASON_MAX: usize = 64;
/// So much of the member's words is searched for paths, in bytes.
const SEARCHED: usize = 8 << 10;

/// What a call is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The object's group.
    pub group: &'a str,
    /// The object's kind.
    pub kind: &'a str,
    /// What the call does with objects of the kind.
    pub does: Does<'a>,
}

/// What a call does with objects.
#[derive(Clone, Copy)]
pub enum Does<'a> {
    /// It reads: who refuses that looks at who asks, and at no object; a server that fails may quote one.
    Reads,
    /// It writes or deletes one, of which so much is declared.
    Writes(Option<&'a Value>),
}

impl std::fmt::Debug for Does<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reads => "Reads",
            Self::Writes(_) => "Writes",
        })
    }
}

/// How a member has refused a call.
#[derive(Clone, Copy)]
pub struct Refusal<'a> {
    /// The HTTP status.
    pub code: u16,
    /// The Status' reason.
    pub reason: &'a str,
    /// Its words.
    pub message: &'a str,
    /// Reason and field of each of its causes.
    pub causes: &'a [(&'a str, &'a str)],
}

impl Redactions {
    /// What to tell instead of the member's words. `None`: these may be told.
    pub fn withheld(&self, about: About<'_>, refusal: &Refusal<'_>) -> Option<String> {
        let declared = match about.does {
            Does::Reads if (400..500).contains(&refusal.code) => return None,
            Does::Reads => None,
            Does::Writes(declared) => declared,
        };
        if !self.protects(about.group, about.kind) {
            return None;
        }
        let told = self.fields(about, declared, refusal);
        let mut text = match word(refusal.reason) {
            Some(reason) => format!("{reason} ({})", refusal.code),
            None => format!("status {}", refusal.code),
        };
        if !told.is_empty() {
            text.push_str(&format!(": {}", first_of(told.iter(), FIELDS)));
        }
        text.push_str(
            "; the API server's own words are withheld, for the object holds protected values: kubectl apply \
             --server-side --dry-run=server of it there shows them",
        );
        Some(text)
    }

    /// What is wrong where, each once: by the causes, else by the fields that the words name.
    fn fields(&self, about: About<'_>, declared: Option<&Value>, refusal: &Refusal<'_>) -> Vec<String> {
        let cause = |(reason, field): &(&str, &str)| {
            let at = is_path(field).then(|| self.shown_path(about.group, about.kind, field));
            match (word(reason), at) {
                (Some(reason), Some(at)) => Some(format!("{reason} at {at}")),
                (None, Some(at)) => Some(format!("at {at}")),
                (reason, None) => reason.map(str::to_owned),
            }
        };
        let few = &refusal.causes[..refusal.causes.len().min(CAUSES_MAX)];
        let all: Vec<String> = match (few, declared) {
            ([], None) => Vec::new(),
            ([], Some(declared)) => {
                named(declared, refusal.message).iter().map(|path| format!("at {path}")).collect()
            }
            (causes, _) => causes.iter().filter_map(cause).collect(),
        };
        let mut told: Vec<String> = Vec::new();
        for one in all {
            let one = unseen::shown(&one, PATH_MAX);
            if !told.contains(&one) {
                told.push(one);
            }
        }
        told
    }
}

/// A reason is one CamelCase word; what is none is not told.
fn word(reason: &str) -> Option<&str> {
    let fits = (1..=REASON_MAX).contains(&reason.len()) && reason.chars().all(|c| c.is_ascii_alphabetic());
    fits.then_some(reason)
}

/// What is in brackets aside, a path has no blank and no quote in it.
fn is_path(field: &str) -> bool {
    let mut depth = 0_usize;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/$".contains(c);
    !field.is_empty()
        && field.chars().all(|c| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => return depth > 0 || plain(c),
            }
            true
        })
}

/// The paths of what is declared that a text names, as `.data.pin`: names of fields, never what is in a list. A path of
/// which the text goes on into what is not declared is named as far as it is.
fn named(declared: &Value, text: &str) -> Vec<String> {
    let mut end = text.len().min(SEARCHED);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('.') {
        let begins = text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "\"'(".contains(c));
        let path = if begins { follow(declared, &text[at..]) } else { "" };
        if !path.is_empty() && !found.iter().any(|one| one == path) {
            found.push(path.to_owned());
        }
    }
    found
}

/// The longest beginning of a text that is a path of these maps.
fn follow<'t>(declared: &Value, text: &'t str) -> &'t str {
    let (mut value, mut length) = (declared, 0);
    while let (Some(map), Some(rest)) = (value.as_object(), text[length..].strip_prefix('.')) {
        let fits = |key: &&String| {
            rest.strip_prefix(key.as_str())
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_'))
        };
        let Some(key) = map.keys().filter(|key| !key.is_empty()).filter(fits).max_by_key(|key| key.len())
        else {
            break;
        };
        length += 1 + key.len();
        value = &map[key];
    }
    &text[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const WRITES: Does<'_> = Does::Writes(None);

    fn told(rules: &str, about: (&str, &str, Does<'_>), refusal: Refusal<'_>) -> Option<String> {
        let (group, kind, does) = about;
        Redactions::parse(rules).unwrap().withheld(About { group, kind, does }, &refusal)
    }

    #[test]
    fn only_of_objects_with_protected_values_words_are_withheld_and_of_reads_only_those_of_failures() {
        let rules = "Gate.example.com .spec.pin\nConfigMap .data.token";
        for (about, code, withheld) in [
            (("", "Secret", WRITES), 500, true),
            (("", "Secret", WRITES), 403, true),
            (("", "Secret", Does::Reads), 403, false),
            (("", "Secret", Does::Reads), 500, true),
            (("other.io", "Secret", WRITES), 500, false),
            (("example.com", "Gate", WRITES), 422, true),
            (("other.io", "Gate", WRITES), 422, false),
            (("", "ConfigMap", WRITES), 422, true),
            (("", "Service", WRITES), 422, false),
        ] {
            let refusal = Refusal { code, reason: "", message: "5up3r", causes: &[] };
            let told = told(rules, about, refusal);
            assert_eq!(told.is_some(), withheld, "{about:?} {code}: {told:?}");
            assert!(!told.unwrap_or_default().contains("5up3r"), "{about:?}");
        }
    }

    #[test]
    fn code_reasons_and_fields_are_told_and_nothing_that_may_be_a_value() {
        let declared =
            json!({"data": {"pin": 5, "app.conf": "a", "app": "b", "5up3r": "x"}, "list": ["5up3r"]});
        let smd = "failed to create typed patch object (ns/n; /v1, Kind=Secret): .data.pin: expected string, got &value.valueUnstructured{Value:5up3r}";
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let cases: [Case<'_>; 10] = [
            (smd, &[], "Invalid (422): at .data.pin;"),
            (
                ".data.app.conf: 5up3r, .data.app: 5up3r",
                &[],
                "Invalid (422): at .data.app.conf, at .data.app;",
            ),
            (".list[=\"5up3r\"]: no", &[], "Invalid (422): at .list;"),
            (".data.pinned is 5up3r", &[], "Invalid (422): at .data;"),
            ("v.data.pin", &[], "Invalid (422);"),
            (smd, &[("FieldValueInvalid", "spec.pin")], "Invalid (422): FieldValueInvalid at spec.pin;"),
            (smd, &[("", "spec.a[0].b"), ("", "spec.a[0].b")], "Invalid (422): at spec.a[0].b;"),
            (smd, &[("is 5up3r", "value is 5up3r")], "Invalid (422);"),
            (
                smd,
                &[("A", ".tokens[=\"5up3r\"]"), ("A", "data[5up3r]")],
                "Invalid (422): A at .tokens[], A at data[];",
            ),
            (
                "",
                &[("A", "a"), ("A", "b"), ("A", "c"), ("A", "d"), ("A", "e"), ("A", "f")],
                "A at e and 1 more;",
            ),
        ];
        for (message, causes, part) in cases {
            let refusal = Refusal { code: 422, reason: "Invalid", message, causes };
            let told = told("", ("", "Secret", Does::Writes(Some(&declared))), refusal).unwrap();
            assert!(told.contains(part), "{message} {causes:?}: {told}");
            assert!(
                !told.contains("5up3r") && told.contains("--dry-run=server"),
                "{message} {causes:?}: {told}"
            );
        }
    }
}
