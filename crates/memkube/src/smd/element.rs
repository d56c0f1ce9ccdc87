//! Path elements as fieldsV1 writes them: `f:name`, `k:{"name":"a"}`, `v:"x"`, `i:0`.
//!
//! Keys and values are held as compact JSON with sorted keys, so that equal elements are equal texts.

use std::fmt;

use serde_json::{Map, Value};

/// One step into an object. The text is the canonical one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element(Box<str>);

/// Steps from an object's root.
pub type Path = Vec<Element>;

impl Element {
    /// A field of a struct or an entry of a map.
    pub fn field(name: &str) -> Self {
        Element(["f:", name].concat().into())
    }

    /// The item of a map list with these values of its keys.
    pub fn key(keys: Map<String, Value>) -> Self {
        Element(format!("k:{}", Value::Object(sorted(keys))).into())
    }

    /// The item of a set.
    pub fn value(value: &Value) -> Self {
        Element(format!("v:{value}").into())
    }

    /// An item that has no name: no document that is stored has one.
    pub(super) fn nameless() -> Self {
        Element("?:".into())
    }

    /// Reads an element of fieldsV1; `None` for a kind that is not known or is not well formed.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Element(text.into())),
            "k" => Some(Element::key(serde_json::from_str(rest).ok()?)),
            "v" => Some(Element::value(&serde_json::from_str(rest).ok()?)),
            "i" => rest.parse::<u64>().ok().map(|_| Element(text.into())),
            _ => None,
        }
    }

    /// As fieldsV1 writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, where this is a field.
    pub fn name(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
    }

    /// Is it an item of a map list?
    pub fn is_key(&self) -> bool {
        self.0.starts_with("k:")
    }
}

/// Sorts also where serde_json keeps the order of insertion.
fn sorted(map: Map<String, Value>) -> Map<String, Value> {
    let sorted: std::collections::BTreeMap<_, _> = map.into_iter().collect();
    sorted.into_iter().collect()
}

impl fmt::Display for Element {
    /// As conflicts and refusals print it: `.name`, `[name="a"]`, `[="x"]`, `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, rest) = self.0.split_once(':').unwrap_or(("f", &self.0));
        match kind {
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
                let keys: Vec<_> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", keys.join(","))
            }
            "v" => write!(f, "[={rest}]"),
            "i" => write!(f, "[{rest}]"),
            _ => write!(f, ".{rest}"),
        }
    }
}

/// A path as conflicts print it: `.spec.containers[name="a"].image`.
pub fn display(path: &[Element]) -> String {
    path.iter().map(Element::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_canonical_and_print_as_in_conflicts() {
        let table = [
            ("f:data", "f:data", ".data"),
            ("f:a.b/c", "f:a.b/c", ".a.b/c"),
            (
                r#"k:{"protocol": "TCP", "containerPort": 80}"#,
                r#"k:{"containerPort":80,"protocol":"TCP"}"#,
                r#"[containerPort=80,protocol="TCP"]"#,
            ),
            (r#"v:"x""#, r#"v:"x""#, r#"[="x"]"#),
            ("v:1", "v:1", "[=1]"),
            ("i:3", "i:3", "[3]"),
        ];
        for (text, canonical, printed) in table {
            let element = Element::parse(text).expect(text);
            assert_eq!((element.as_str(), element.to_string().as_str()), (canonical, printed));
        }
        for text in ["", "x", "k:[]", "v:", "i:a", "z:1"] {
            assert_eq!(Element::parse(text), None, "{text}");
        }
    }
}
