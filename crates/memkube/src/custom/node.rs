//! A structural schema as it is checked: read once, with its patterns and rules compiled.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::format::Format;
use super::rule::Rule;

/// What a schema demands of one place.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// None where nothing is said.
    pub kind: Option<String>,
    pub int_or_string: bool,
    pub nullable: bool,
    /// The root, or an embedded resource.
    pub resource: bool,
    pub allowed: Option<Vec<Value>>,
    /// Least and most characters, items, properties.
    pub length: (Option<u64>, Option<u64>),
    pub items_bounds: (Option<u64>, Option<u64>),
    pub properties_bounds: (Option<u64>, Option<u64>),
    /// With what the bound was written as, and whether the bound itself is excluded.
    pub minimum: Option<(Value, bool)>,
    pub maximum: Option<(Value, bool)>,
    pub multiple_of: Option<Value>,
    pub pattern: Option<Regex>,
    pub format: Option<Format>,
    pub required: Vec<String>,
    pub properties: BTreeMap<String, Node>,
    /// What is not declared.
    pub rest: Option<Box<Node>>,
    pub items: Option<Box<Node>>,
    pub list: ListKind,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
    pub rules: Vec<Rule>,
    /// There are rules here or below.
    pub ruled: bool,
    /// There are rules of changes here or below.
    pub transitions: bool,
}

/// How the items of a list are told apart.
#[derive(Debug, Default, PartialEq)]
pub(super) enum ListKind {
    #[default]
    Plain,
    Set,
    Map(Vec<String>),
}

/// What of a schema cannot be used: the path in the schema, and why.
pub(super) type Fault = (String, String);

impl Node {
    /// Reads a schema; what is wrong with it is added to the faults.
    pub fn read(schema: &Value, root: bool, path: &str, faults: &mut Vec<Fault>) -> Self {
        let mut node = Node::shape(schema, root, path, faults);
        let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            let at = format!("{path}.x-kubernetes-validations[{index}]");
            match Rule::read(rule, &node) {
                Ok(rule) => node.rules.push(rule),
                Err((field, why)) => faults.push((format!("{at}.{field}"), why)),
            }
        }
        node.ruled |= !node.rules.is_empty();
        node.transitions |= node.rules.iter().any(Rule::is_transition);
        node
    }

    fn shape(schema: &Value, root: bool, path: &str, faults: &mut Vec<Fault>) -> Self {
        let flag = |name: &str| schema[name] == true;
        let count = |name: &str| schema[name].as_u64();
        let kind = schema["type"].as_str().map(str::to_owned);
        let bound = |name: &str, exclusive: &str| {
            schema[name].is_number().then(|| (schema[name].clone(), flag(exclusive)))
        };
        let pattern = schema["pattern"].as_str().filter(|text| !text.is_empty());
        let pattern = pattern.and_then(|text| {
            let read = super::regex(text);
            read.map_err(|why| faults.push((format!("{path}.pattern"), why))).ok()
        });
        let format = Format::read(kind.as_deref(), schema["format"].as_str().unwrap_or_default());
        let format = format.unwrap_or_else(|why| {
            faults.push((format!("{path}.format"), why));
            None
        });
        let texts = |name: &str| -> Vec<String> {
            let all = schema[name].as_array().into_iter().flatten();
            all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let mut below = |schema: &Value, step: &str| {
            schema.is_object().then(|| Box::new(Node::read(schema, false, &format!("{path}.{step}"), faults)))
        };
        let items = below(&schema["items"], "items");
        let rest = below(&schema["additionalProperties"], "additionalProperties");
        let not = below(&schema["not"], "not");
        let properties = schema["properties"].as_object().into_iter().flatten();
        let properties: BTreeMap<_, _> = properties
            // Whatever is said of the metadata of a resource is for others to check.
            .filter(|(name, _)| !((root || flag("x-kubernetes-embedded-resource")) && *name == "metadata"))
            .map(|(name, schema)| {
                let path = format!("{path}.properties[{name}]");
                (name.clone(), Node::read(schema, false, &path, faults))
            })
            .collect();
        let mut several = |name: &str| -> Vec<Node> {
            let all = schema[name].as_array().into_iter().flatten().enumerate();
            all.map(|(index, schema)| Node::read(schema, false, &format!("{path}.{name}[{index}]"), faults))
                .collect()
        };
        let (all_of, any_of, one_of) = (several("allOf"), several("anyOf"), several("oneOf"));
        let list = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(texts("x-kubernetes-list-map-keys")),
            _ => ListKind::Plain,
        };
        let mut node = Node {
            kind,
            int_or_string: flag("x-kubernetes-int-or-string"),
            nullable: flag("nullable"),
            resource: root || flag("x-kubernetes-embedded-resource"),
            allowed: schema["enum"].as_array().cloned(),
            length: (count("minLength"), count("maxLength")),
            items_bounds: (count("minItems"), count("maxItems")),
            properties_bounds: (count("minProperties"), count("maxProperties")),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: Some(schema["multipleOf"].clone()).filter(Value::is_number),
            pattern,
            format,
            required: texts("required"),
            properties,
            rest,
            items,
            list,
            all_of,
            any_of,
            one_of,
            not,
            ..Node::default()
        };
        let ruled = node.below().any(|node| node.ruled);
        let transitions = node.below().any(|node| node.transitions);
        (node.ruled, node.transitions) = (ruled, transitions);
        node
    }

    /// The nodes whose rules are run too.
    fn below(&self) -> impl Iterator<Item = &Node> {
        let boxed = [&self.items, &self.rest].into_iter().filter_map(|node| node.as_deref());
        self.properties.values().chain(boxed).chain(&self.all_of)
    }

    /// What is said of an entry of a map.
    pub fn entry(&self, key: &str) -> Option<&Node> {
        self.properties.get(key).or(self.rest.as_deref())
    }

    /// The item of an older list that this one was, where that can be told.
    pub fn same_item<'v>(&self, item: &Value, old: Option<&'v Value>) -> Option<&'v Value> {
        let ListKind::Map(keys) = &self.list else { return None };
        old?.as_array()?.iter().find(|other| keys.iter().all(|key| other[key] == item[key]))
    }
}
