//! Label and field selectors.

use serde_json::Value;

use super::failure::Failure;
use super::store::{Object, Store, Stored};
use super::validate::{is_qualified, is_word};

/// What a list or a watch is limited to. All requirements must hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<(String, Test)>,
    fields: Vec<(String, Test)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    In(Vec<String>),
    /// Holds for an absent key too, as in Kubernetes.
    NotIn(Vec<String>),
    Exists,
    Absent,
    /// Of whole numbers.
    Greater(i64),
    Less(i64),
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = value.and_then(|value| value.parse::<i64>().ok());
        let among = |list: &[String]| value.is_some_and(|value| list.iter().any(|item| item == value));
        match self {
            Test::In(list) => among(list),
            Test::NotIn(list) => !among(list),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Greater(least) => number.is_some_and(|number| number > *least),
            Test::Less(most) => number.is_some_and(|number| number < *most),
        }
    }
}

impl Selector {
    /// Reads `labelSelector` (equality, existence and sets) and `fieldSelector` (equality on dotted paths
    /// to scalars; which of them a kind serves is its own matter).
    pub fn parse(labels: &str, fields: &str) -> Result<Self, Failure> {
        if !labels.trim().is_empty() && labels.split(',').any(|part| part.trim().is_empty()) {
            return Err(unreadable(labels));
        }
        let labels = split(labels).into_iter().map(label_requirement).collect::<Result<_, _>>()?;
        let fields = split(fields).into_iter().map(field_requirement).collect::<Result<_, _>>()?;
        Ok(Selector { labels, fields })
    }

    /// The paths of the fields that are asked for.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(path, _)| path.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The object, where it matches.
    pub fn read(&self, store: &Store, stored: &Stored) -> Option<Object> {
        let object = store.read(stored);
        self.matches(&object).then_some(object)
    }

    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|(key, test)| test.holds(labels[key].as_str()))
            && self.fields.iter().all(|(path, test)| test.holds(Some(&scalar(object, path))))
    }
}

/// Splits at commas outside brackets; empty parts go.
fn split(selector: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let parts = selector.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn equality(text: &str) -> Option<(String, Test)> {
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = text.split_once("!=") {
        return Some((key.trim().to_owned(), Test::NotIn(one(value))));
    }
    let (key, value) = text.split_once("==").or_else(|| text.split_once('='))?;
    Some((key.trim().to_owned(), Test::In(one(value))))
}

/// Keys and values must be such as labels have.
fn label_requirement(text: &str) -> Result<(String, Test), Failure> {
    let (key, test) = read_label(text)?;
    let values = match &test {
        Test::In(list) | Test::NotIn(list) => list.as_slice(),
        Test::Exists | Test::Absent | Test::Greater(_) | Test::Less(_) => &[],
    };
    let fits = is_qualified(&key) && values.iter().all(|value| value.is_empty() || is_word(value));
    if fits { Ok((key, test)) } else { Err(unreadable(text)) }
}

fn read_label(text: &str) -> Result<(String, Test), Failure> {
    if let Some(open) = text.strip_suffix(')') {
        let (head, list) = open.split_once('(').ok_or_else(|| unreadable(text))?;
        let list = list.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => Ok((key.into(), Test::In(list))),
            (Some(key), Some("notin"), None) => Ok((key.into(), Test::NotIn(list))),
            _ => Err(unreadable(text)),
        };
    }
    if let Some(requirement) = equality(text) {
        return Ok(requirement);
    }
    if let Some((key, number)) = text.split_once(['>', '<']) {
        let number = number.trim().parse().map_err(|_| unreadable(text))?;
        let test = if text.contains('>') { Test::Greater(number) } else { Test::Less(number) };
        return Ok((key.trim().to_owned(), test));
    }
    let (key, test) = match text.strip_prefix('!') {
        Some(key) => (key.trim(), Test::Absent),
        None => (text, Test::Exists),
    };
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(unreadable(text));
    }
    Ok((key.to_owned(), test))
}

fn field_requirement(text: &str) -> Result<(String, Test), Failure> {
    equality(text).ok_or_else(|| {
        Failure::bad_request(format!("invalid field selector: {text:?}; can't understand the operator"))
    })
}

fn unreadable(text: &str) -> Failure {
    Failure::bad_request(format!("unable to parse requirement: found {text:?}"))
}

/// The scalar at a dotted path as text; an absent one is "".
fn scalar(object: &Value, path: &str) -> String {
    let at = path.split('.').fold(object, |value, field| &value[field]);
    match at {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_match_as_in_kubernetes() {
        let object = json!({"metadata": {"labels": {"app": "shop", "tier": "web"}}});
        let table = [
            ("", true),
            ("app=shop", true),
            ("app == shop,tier", true),
            ("app!=shop", false),
            ("zone!=eu", true),
            ("app in (shop, bank),tier notin (db)", true),
            ("app in (bank)", false),
            ("zone notin (eu)", true),
            ("zone", false),
            ("!zone", true),
            ("!app", false),
            ("tier>1", false),
        ];
        for (text, expected) in table {
            let selector = Selector::parse(text, "").expect(text);
            assert_eq!(selector.matches(&object), expected, "{text}");
        }
        for text in ["app in shop", "app of (shop)", "a b", "a=b=c", "a=-", "/a=b", "=b", ",", "a,,b", "a>b"]
        {
            assert_eq!(Selector::parse(text, "").expect_err(text).code, 400);
        }
    }

    #[test]
    fn field_selectors_compare_scalars_at_dotted_paths() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3}});
        let table = [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("spec.replicas==3", true),
            ("spec.absent=", true),
            ("metadata.name=a,spec.replicas=4", false),
        ];
        for (text, expected) in table {
            let selector = Selector::parse("", text).expect(text);
            assert_eq!(selector.matches(&object), expected, "{text}");
        }
        assert_eq!(Selector::parse("", "metadata.name").expect_err("no operator").code, 400);
    }
}
