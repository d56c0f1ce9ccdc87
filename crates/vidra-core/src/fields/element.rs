//! Path elements and paths: how one value in an object is named, read and printed as the API server does it.

use std::fmt;

use serde_json::Value;

use super::literal::Literal;

/// One step from a value to one below it. Ordered: fields, keyed items, members of sets, indexes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// `f:name`: a field of a map.
    Field(Box<str>),
    /// `k:{..}`: the list item that bears these keys, sorted by their names.
    Key(Box<[(Box<str>, Literal)]>),
    /// `v:..`: the item of a set that has this value.
    Member(Literal),
    /// `i:..`: the item at this index.
    Index(u32),
}

impl Element {
    /// Reads an element as fieldsV1 writes it (structured-merge-diff, fieldpath/serialize-pe.go). `None`: a kind
    /// that is not known here, left out as the API server leaves it out. Errors: what the parser said.
    pub(super) fn parse(raw: &str) -> Result<Option<Element>, String> {
        let Some((kind, content)) = raw.split_once(':') else {
            return Err("no colon".to_owned());
        };
        Ok(Some(match kind {
            "f" => Element::Field(content.into()),
            "k" => match parse_json(content)? {
                Value::Object(map) if map.is_empty() => return Err("no keys".to_owned()),
                Value::Object(map) => Element::keyed(map.iter().map(|(k, v)| (k.as_str(), v))),
                _ => return Err("not an object".to_owned()),
            },
            "v" => Element::Member(Literal::from(&parse_json(content)?)),
            "i" => Element::Index(content.parse().map_err(|e: std::num::ParseIntError| e.to_string())?),
            _ => return Ok(None),
        }))
    }

    /// The keyed element of these keys and values.
    pub(super) fn keyed<'a>(keys: impl Iterator<Item = (&'a str, &'a Value)>) -> Element {
        let mut pairs: Vec<(Box<str>, Literal)> = keys.map(|(k, v)| (k.into(), Literal::from(v))).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        Element::Key(pairs.into())
    }

    /// Whether a list item is the one that this element names; an item may leave keys out that have a default.
    pub(super) fn names(&self, index: usize, item: &Value) -> Match {
        match self {
            Element::Field(_) => Match::No,
            Element::Key(pairs) => key_match(pairs, item),
            Element::Member(literal) => Match::whole(literal.is(item)),
            Element::Index(i) => Match::whole(usize::try_from(*i) == Ok(index)),
        }
    }

    /// As [`Element::find`], for a list item that is probably at `index`.
    pub(super) fn find_near<'a>(&self, value: &'a Value, index: usize) -> Option<&'a Value> {
        match value.get(index) {
            Some(item) if self.names(index, item) == Match::Whole => Some(item),
            _ => self.find(value),
        }
    }

    /// The index of the list item that this element names and that bears all of its keys.
    pub(crate) fn position(&self, items: &[Value]) -> Option<usize> {
        items.iter().enumerate().position(|(index, item)| self.names(index, item) == Match::Whole)
    }

    /// The value that this element names below `value`, keys with a default allowed to be absent.
    pub(super) fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match (self, value) {
            (Element::Field(name), Value::Object(map)) => map.get(name.as_ref()),
            (Element::Index(i), Value::Array(items)) => items.get(usize::try_from(*i).ok()?),
            (_, Value::Array(items)) => {
                let mut partial = None;
                for (index, item) in items.iter().enumerate() {
                    match self.names(index, item) {
                        Match::Whole => return Some(item),
                        Match::Partial => partial = partial.or(Some(item)),
                        Match::No => {}
                    }
                }
                partial
            }
            _ => None,
        }
    }
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("{} at column {}", classify(&e), e.column()))
}

/// The class of a JSON error: its own message may quote the text.
fn classify(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "JSON ends early",
        _ => "not JSON",
    }
}

/// How well a list item fits an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    /// Another item.
    No,
    /// All keys that it bears are equal, and it lacks some.
    Partial,
    /// It is the one.
    Whole,
}

impl Match {
    fn whole(yes: bool) -> Match {
        if yes { Match::Whole } else { Match::No }
    }
}

fn key_match(pairs: &[(Box<str>, Literal)], item: &Value) -> Match {
    let Value::Object(map) = item else { return Match::No };
    let mut borne = 0;
    for (name, literal) in pairs {
        match map.get(name.as_ref()) {
            Some(value) if literal.is(value) => borne += 1,
            Some(_) => return Match::No,
            None => {}
        }
    }
    match borne {
        0 => Match::No,
        n if n == pairs.len() => Match::Whole,
        _ => Match::Partial,
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(pairs) => {
                f.write_str("[")?;
                for (i, (name, literal)) in pairs.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={literal}")?;
                }
                f.write_str("]")
            }
            Element::Member(literal) => write!(f, "[={literal}]"),
            Element::Index(i) => write!(f, "[{i}]"),
        }
    }
}

/// Where a value stands in an object. Prints as the API server prints paths in conflicts
/// (structured-merge-diff, fieldpath/element.go): `.spec.containers[name="app"].image`, `.metadata.finalizers[="x"]`.
/// Names are not quoted, so that a dot in a key of a ConfigMap looks like a step: compare paths, not texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Element>);

impl Path {
    /// The path through these fields of nested maps.
    pub fn of_fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Path {
        Path(names.into_iter().map(|name| Element::Field(name.into())).collect())
    }

    /// The path through the item that bears this `name`, in the list `list` of the object.
    pub fn of_item<'a>(list: &str, name: &Value, below: impl IntoIterator<Item = &'a str>) -> Path {
        let item = Element::keyed([("name", name)].into_iter());
        let below = below.into_iter().map(|name| Element::Field(name.into()));
        Path([Element::Field(list.into()), item].into_iter().chain(below).collect())
    }

    /// The steps from the object down.
    pub fn elements(&self) -> &[Element] {
        &self.0
    }

    /// Whether this path is `other`, or lies below it. A key of `other` may lack keys that have a default.
    pub fn is_within(&self, other: &Path) -> bool {
        let same = |(mine, theirs): (&Element, &Element)| match (mine, theirs) {
            (Element::Key(mine), Element::Key(theirs)) => theirs.iter().all(|pair| mine.contains(pair)),
            (mine, theirs) => mine == theirs,
        };
        self.0.len() >= other.0.len() && self.0.iter().zip(&other.0).all(same)
    }

    /// The live value at this path.
    pub fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(object, |value, element| element.find(value))
    }

    pub(super) fn push(&mut self, element: Element) {
        self.0.push(element);
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }
}

impl From<Vec<Element>> for Path {
    fn from(elements: Vec<Element>) -> Self {
        Path(elements)
    }
}

impl fmt::Display for Path {
    /// The object itself prints as `.`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(raw: &[&str]) -> Path {
        Path(raw.iter().map(|r| Element::parse(r).unwrap().unwrap()).collect())
    }

    #[test]
    fn paths_print_as_in_conflicts() {
        let cases: &[(&[&str], &str)] = &[
            (
                &["f:spec", "f:template", "f:spec", "f:containers", r#"k:{"name":"app"}"#, "f:image"],
                r#".spec.template.spec.containers[name="app"].image"#,
            ),
            (
                &["f:spec", "f:ports", r#"k:{"protocol":"TCP","port":80}"#, "f:targetPort"],
                r#".spec.ports[port=80,protocol="TCP"].targetPort"#,
            ),
            (&["f:metadata", "f:finalizers", r#"v:"a/b""#], r#".metadata.finalizers[="a/b"]"#),
            (
                &["f:metadata", "f:annotations", "f:nginx.ingress.kubernetes.io/rewrite-target"],
                ".metadata.annotations.nginx.ingress.kubernetes.io/rewrite-target",
            ),
            (&["f:data", "f:some.key"], ".data.some.key"),
            (&["f:foo", "i:1", "f:baz"], ".foo[1].baz"),
            (&["f:foo", r#"k:{"a":"b","c":1,"d":1.5,"e":true}"#], r#".foo[a="b",c=1,d=1.5,e=true]"#),
            (&[], "."),
        ];
        for (raw, text) in cases {
            assert_eq!(&path(raw).to_string(), text);
        }
    }

    #[test]
    fn a_path_lies_within_itself_and_those_above_it_also_by_some_of_the_keys() {
        let port = path(&["f:ports", r#"k:{"port":80,"protocol":"TCP"}"#, "f:name"]);
        for (other, within) in [
            (path(&["f:ports", r#"k:{"port":80,"protocol":"TCP"}"#, "f:name"]), true),
            (path(&["f:ports", r#"k:{"port":80}"#]), true),
            (path(&["f:ports"]), true),
            (path(&["f:ports", r#"k:{"port":81}"#]), false),
            (path(&["f:port"]), false),
            (path(&["f:ports", r#"k:{"port":80}"#, "f:name", "f:more"]), false),
        ] {
            assert_eq!(port.is_within(&other), within, "{other}");
        }
    }

    #[test]
    fn a_field_name_may_hold_colons() {
        assert_eq!(Element::parse("f:a:b"), Ok(Some(Element::Field("a:b".into()))));
    }

    #[test]
    fn an_unknown_kind_is_left_out_and_a_broken_one_is_an_error() {
        assert_eq!(Element::parse("z:new"), Ok(None));
        for raw in ["plain", "k:[1]", "k:{", "k:{}", "v:", "i:x", "i:-1"] {
            assert!(Element::parse(raw).is_err(), "{raw}");
        }
    }

    #[test]
    fn errors_do_not_quote_the_text() {
        let error = Element::parse(r#"v:"hush" hush"#).unwrap_err();
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn an_item_without_a_defaulted_key_is_found_unless_a_whole_match_exists() {
        let element = Element::parse(r#"k:{"containerPort":53,"protocol":"TCP"}"#).unwrap().unwrap();
        let ports = json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "name": "short"}]);
        assert_eq!(element.find(&ports), Some(&ports[1]));
        let both = json!([{"containerPort": 53}, {"containerPort": 53, "protocol": "TCP"}]);
        assert_eq!(element.find(&both), Some(&both[1]));
        assert_eq!(element.find(&json!([{"name": "x"}])), None);
    }
}
