//! Values that are never written anywhere: those of Secrets, and those of fields that a setting names.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;
use vidra_api::ChangedField;

use crate::{
    fields::{Element, Path},
    object::ObjectKey,
    render::HashKey,
};

/// Most rules of a hub.
pub const RULES_MAX: usize = 200;
/// What a digest begins with: no JSON text does.
pub(super) const DIGEST: &str = "hmac:";
const LAST_APPLIED_NAME: &str = "kubectl.kubernetes.io/last-applied-configuration";
const LAST_APPLIED: &str = ".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration";

/// Fields, by kind, whose values are never written. What lies in them, and what they lie in, is covered too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redactions {
    rules: BTreeSet<Rule>,
    /// No value is written, whatever the rules say.
    all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    kind: String,
    /// `None`: in every group.
    group: Option<String>,
    /// With every bracket emptied: it covers each item.
    path: String,
    /// How many steps lead to it, its last field included.
    depth: usize,
    /// These.
    steps: Vec<Element>,
}

impl Rule {
    fn is_of(&self, group: &str, kind: &str) -> bool {
        self.kind == kind && self.group.as_deref().is_none_or(|of| of == group)
    }
}

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadRule {
    /// Which line, 1 for the first.
    pub line: usize,
    /// What is wrong, and how to fix it.
    pub why: String,
}

impl Redactions {
    /// Reads one rule a line, `Kind .path` or `Kind.group .path`; lines that are empty or begin with # are none.
    ///
    /// # Errors
    /// The first line that is no rule, or one beyond the most that there may be.
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        let mut rules = BTreeSet::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |why: String| BadRule { line: index + 1, why };
            let Some((kind, path)) = line.split_once(char::is_whitespace) else {
                return Err(
                    bad("write a kind and a path, such as Deployment.apps .spec.template".to_owned()),
                );
            };
            let path = path.trim();
            let steps = path.parse::<Path>().map_err(|error| bad(format!("{path}: {error}")))?;
            let is_field = |step: &Element| matches!(step, Element::Field(_));
            let depth = steps.elements().iter().rposition(is_field).map_or(0, |last| last + 1);
            let (kind, group) = match kind.split_once('.') {
                Some((kind, group)) => (kind, Some(group.to_owned())),
                None => (kind, None),
            };
            let steps = steps.elements().iter().take(depth).cloned().collect();
            rules.insert(Rule { kind: kind.to_owned(), group, path: emptied(path), depth, steps });
            if rules.len() > RULES_MAX {
                return Err(bad(format!("write at most {RULES_MAX} lines")));
            }
        }
        Ok(Self { rules, all: false })
    }

    /// No value of any object may be written: what holds while nobody knows which may.
    pub fn everything() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Whether objects of a kind may hold values that must not be written.
    pub fn protects(&self, group: &str, kind: &str) -> bool {
        self.is_whole(group, kind) || self.rules.iter().any(|rule| rule.is_of(group, kind))
    }

    /// An object without the fields that the rules name, for one who could learn them by asking yes or no; `None`: no rule
    /// names any. While nobody knows which may be written, of its metadata alone.
    pub fn without_fields(&self, group: &str, kind: &str, live: &Value) -> Option<Value> {
        let mut rules = self.rules.iter().filter(|rule| rule.is_of(group, kind)).peekable();
        if rules.peek().is_none() && !self.all {
            return None;
        }
        let mut rest = live.clone();
        if let Some(fields) = rest.as_object_mut().filter(|_| self.all) {
            fields.retain(|name, _| ["apiVersion", "kind", "metadata"].contains(&&**name));
        }
        rules.for_each(|rule| take_off(&mut rest, &rule.steps));
        // A copy of all that was applied stands in one annotation.
        if let Some(annotations) = rest.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED_NAME);
        }
        Some(rest)
    }

    /// Differs with what [`Redactions::without_fields`] leaves of objects of a kind.
    pub fn mark(&self, group: &str, kind: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.all.hash(&mut hasher);
        let of_kind = self.rules.iter().filter(|rule| rule.is_of(group, kind));
        of_kind.for_each(|rule| rule.path.hash(&mut hasher));
        hasher.finish()
    }

    /// All values of such objects are covered.
    fn is_whole(&self, group: &str, kind: &str) -> bool {
        self.all || (kind == "Secret" && group.is_empty())
    }

    /// A path of an object as messages may show it: what names an item of a list may be a value.
    pub fn shown_path(&self, group: &str, kind: &str, path: &str) -> String {
        match self.protects(group, kind) {
            true => unnamed(path),
            false => path.to_owned(),
        }
    }

    /// Whether the value at a path of an object, as paths are shown, must not be written: after so many steps of the
    /// path what is secret begins.
    fn covers(&self, group: &str, kind: &str, path: &str) -> Option<usize> {
        if self.is_whole(group, kind) {
            // A copy of the whole of it stands in one annotation.
            let plain = touches(".metadata", path) && !touches(LAST_APPLIED, path);
            if !plain {
                return Some(1);
            }
        }
        let path = emptied(path);
        let matching = self.rules.iter().filter(|rule| rule.is_of(group, kind) && touches(&rule.path, &path));
        matching.map(|rule| rule.depth).min()
    }
}

/// Takes off what these steps lead to, in each item of a list.
fn take_off(value: &mut Value, steps: &[Element]) {
    match (steps, value) {
        ([Element::Field(name)], Value::Object(fields)) => drop(fields.remove(&**name)),
        ([Element::Field(name), below @ ..], Value::Object(fields)) => {
            fields.get_mut(&**name).into_iter().for_each(|value| take_off(value, below));
        }
        ([_, below @ ..], Value::Array(items)) => items.iter_mut().for_each(|item| take_off(item, below)),
        _ => {}
    }
}

/// One path is the other, or lies in it. A path that was cut ends with "…" and may be anything longer.
fn touches(rule: &str, path: &str) -> bool {
    let lies_in = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    match path.strip_suffix('…') {
        Some(cut) => rule.starts_with(cut) || lies_in(cut, rule),
        None => lies_in(path, rule) || lies_in(rule, path),
    }
}

/// The path as it is shown, with nothing in its brackets; names in brackets and quotes are names.
fn emptied(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('[') {
        out.push_str(&rest[..at]);
        let Some((end, quoted)) = bracket(&rest[at..]) else { return out };
        match quoted {
            Some(name) => {
                out.push('.');
                out.push_str(&name);
            }
            None => out.push_str("[]"),
        }
        rest = &rest[at + end..];
    }
    out + rest
}

/// The path with nothing in its brackets but numbers and quoted names of fields.
fn unnamed(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('[') {
        out.push_str(&rest[..at]);
        let Some((end, quoted)) = bracket(&rest[at..]) else {
            out.push_str("[]");
            return out;
        };
        let inside = &rest[at + 1..at + end - 1];
        let told = quoted.is_some() || inside.chars().all(|c| c.is_ascii_digit()) && inside.len() <= 6;
        out.push_str(if told { &rest[at..at + end] } else { "[]" });
        rest = &rest[at + end..];
    }
    out + rest
}

/// Where the bracket that begins the text ends, and the name in it, if it is one. `None`: it does not end.
fn bracket(text: &str) -> Option<(usize, Option<String>)> {
    let (mut quoted, mut escaped) = (false, false);
    let end = text.char_indices().skip(1).find_map(|(at, c)| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return Some(at),
            _ => {}
        }
        None
    })?;
    Some((end + 1, serde_json::from_str::<String>(&text[1..end]).ok()))
}

/// What keeps values from being written, and makes digests of them.
#[derive(Clone, Copy, Debug)]
pub struct Cover<'a> {
    /// What is not to be written, besides Secrets.
    pub redactions: &'a Redactions,
    /// The salt of digests: equal for all members, so that equal changes look equal.
    pub salt: &'a HashKey,
}

impl Cover<'_> {
    /// The path of a value that must not be written, as it may be shown: what names an item of a list in it may be
    /// secret too. `None`: it may be written.
    pub(super) fn covered(&self, key: &ObjectKey, path: &Path) -> Option<Path> {
        let depth = self.redactions.covers(&key.group, &key.kind, &path.to_string())?;
        let is_shown = |(at, step): &(usize, &Element)| match step {
            Element::Field(_) => true,
            Element::Key(_) => *at < depth,
            Element::Member(_) | Element::Index(_) => false,
        };
        let steps = path.elements().iter().enumerate().take_while(is_shown);
        Some(Path::from(steps.map(|(_, step)| step.clone()).collect::<Vec<_>>()))
    }

    /// The digest of a value's JSON text at this path, as it is shown.
    pub(super) fn digest(&self, key: &ObjectKey, path: &str, json: &str) -> String {
        let place: [&str; 6] = [&key.group, &key.kind, &key.namespace, &key.name, path, json];
        format!("{DIGEST}{}", self.salt.digest(b"changed value", place))
    }

    /// Takes out of a field that was told before what must not be written now.
    pub fn cover(&self, key: &ObjectKey, field: &mut ChangedField) {
        if self.redactions.covers(&key.group, &key.kind, &field.path).is_none() {
            return;
        }
        let mut plain = field.path.contains("[=");
        for text in [&mut field.expected, &mut field.actual].into_iter().flatten() {
            if !text.starts_with(DIGEST) {
                *text = self.digest(key, &field.path, text);
                plain = true;
            }
        }
        if plain {
            // What names an item may be a value.
            field.path = emptied(&field.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_could_learn_a_field_by_asking_sees_an_object_without_it() {
        let text = "ConfigMap .data[\"a.conf\"]\nDeployment.apps .spec.containers[name=\"app\"].env\n";
        let rules = Redactions::parse(text).unwrap();
        let settings = json!({"metadata": {"annotations": {LAST_APPLIED_NAME: "{}", "other": "1"}},
            "data": {"a.conf": "secret", "b": "plain"}});
        let seen = json!({"metadata": {"annotations": {"other": "1"}}, "data": {"b": "plain"}});
        assert_eq!(rules.without_fields("", "ConfigMap", &settings), Some(seen));
        let web =
            json!({"spec": {"containers": [{"name": "app", "env": [1]}, {"name": "side", "env": [2]}]}});
        let seen = json!({"spec": {"containers": [{"name": "app"}, {"name": "side"}]}});
        assert_eq!(rules.without_fields("apps", "Deployment", &web), Some(seen));
        assert_eq!(rules.without_fields("extensions", "Deployment", &web), None);
        let kept = json!({"metadata": {"annotations": {"other": "1"}}});
        assert_eq!(Redactions::everything().without_fields("", "ConfigMap", &settings), Some(kept));
    }

    #[test]
    fn a_rule_covers_its_field_what_lies_in_it_and_what_it_lies_in() {
        let text = "# comment\n\nConfigMap .data[\"app.conf\"]\nDeployment.apps .spec.template.spec.containers[name=\"app\"].env\n";
        let rules = Redactions::parse(text).unwrap();
        for (group, kind, path, covered) in [
            ("", "ConfigMap", ".data.app.conf", true),
            ("", "ConfigMap", ".data", true),
            ("other.io", "ConfigMap", ".data.app.conf", true),
            ("", "ConfigMap", ".data.app.config", false),
            ("", "ConfigMap", ".data.other", false),
            ("", "ConfigMap", ".data.app.co…", true),
            (
                "apps",
                "Deployment",
                ".spec.template.spec.containers[name=\"db\"].env[name=\"P]W\"].value",
                true,
            ),
            ("apps", "Deployment", ".spec.template.spec.containers[name=\"app\"]", true),
            ("apps", "Deployment", ".spec.template.spec.containers[name=\"app\"].image", false),
            ("other.io", "Deployment", ".spec.template", false),
            ("", "Secret", ".data.password", true),
            ("", "Secret", ".type", true),
            ("", "Secret", ".metadata.labels.app", false),
            ("", "Secret", LAST_APPLIED, true),
            ("", "Secret", ".metadata.annotations", true),
            ("other.io", "Secret", ".spec.name", false),
        ] {
            assert_eq!(rules.covers(group, kind, path).is_some(), covered, "{kind}.{group} {path}");
        }
    }

    #[test]
    fn a_line_that_is_no_rule_is_told_by_its_number() {
        for (text, line, why) in [
            ("ConfigMap", 1, "write a kind and a path"),
            ("ConfigMap .a\nConfigMap data", 2, "begin the path with '.'"),
            ("ConfigMap .data.a/b", 1, "in brackets and quotes"),
        ] {
            let bad = Redactions::parse(text).unwrap_err();
            assert!(bad.line == line && bad.why.contains(why), "{text}: {bad}");
        }
        let many: String = (0..=RULES_MAX).map(|n| format!("ConfigMap .data.k{n}\n")).collect();
        assert!(Redactions::parse(&many).unwrap_err().why.contains("at most 200"));
    }

    #[test]
    fn a_digest_tells_values_apart_and_names_none_of_them() {
        let salt = HashKey::new([7; 32]);
        let redactions = Redactions::parse("ConfigMap .data.password").unwrap();
        let cover = Cover { redactions: &redactions, salt: &salt };
        let key = ObjectKey::new(&crate::object::Gvk::new("", "v1", "ConfigMap"), "shop", "settings");
        let one = cover.digest(&key, ".data.password", "\"one\"");
        assert_eq!(one, cover.digest(&key, ".data.password", "\"one\""));
        assert_ne!(one, cover.digest(&key, ".data.password", "\"two\""));
        assert_ne!(one, cover.digest(&key, ".data.other", "\"one\""), "no guessing across fields");
        assert!(one.len() == 17 && one.starts_with("hmac:"), "{one}");
        let told = |path: &str| ChangedField {
            path: path.into(),
            expected: Some("\"one\"".into()),
            ..ChangedField::default()
        };
        let mut field = told(".data.password");
        for _ in 0..2 {
            cover.cover(&key, &mut field);
            assert_eq!(field.expected.as_deref(), Some(&*one), "twice is once");
        }
        let mut plain = told(".data.mode");
        cover.cover(&key, &mut plain);
        assert_eq!(plain, told(".data.mode"));
    }
}
