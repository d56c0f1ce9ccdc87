//! What overrides make of objects for one cluster, told apart from the hub's own way to do it, as far as the
//! simulation uses them: a judge that asked the hub would agree with it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::doc::Doc;

/// Expressions that do not compile, as far as the simulation uses such.
pub const BROKEN_EXPRESSIONS: [&str; 2] = ["1 +", "cluster.labels[name]"];

/// Can all of these overrides be read? One that cannot is wrong on every cluster, whether or not it is for any.
pub fn are_readable(overrides: &Value) -> bool {
    let entries = overrides.as_array().into_iter().flatten();
    let mut set = entries.flat_map(|entry| entry["set"].as_array().into_iter().flatten());
    !set.any(|one| BROKEN_EXPRESSIONS.iter().any(|broken| one["expression"] == *broken))
}

/// A cluster as overrides see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its values.
    pub values: BTreeMap<String, String>,
}

impl View {
    /// Of a MemberCluster.
    pub fn of(name: &str, member: &Value) -> Self {
        let map = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
        Self {
            name: name.to_owned(),
            labels: map(&member["metadata"]["labels"]),
            values: map(&member["spec"]["values"]),
        }
    }

    /// Is the override for this cluster?
    pub fn is_meant(&self, entry: &Value) -> bool {
        let names = entry["clusterNames"].as_array();
        let labels = entry["clusterSelector"]["matchLabels"].as_object();
        names.is_none_or(|names| names.iter().any(|name| name == self.name.as_str()))
            && labels
                .into_iter()
                .flatten()
                .all(|(key, value)| self.labels.get(key).is_some_and(|has| value == has))
    }

    fn gives(&self, expression: &str) -> Option<String> {
        let key = |map: &str| expression.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']");
        match (key("cluster.labels"), key("cluster.values")) {
            (Some(label), _) => self.labels.get(label).cloned(),
            (_, Some(value)) => self.values.get(value).cloned(),
            _ if expression == "cluster.name" => Some(self.name.clone()),
            _ => panic!("the judge does not know the expression {expression}"),
        }
    }
}

/// The objects for this cluster, changed by those overrides that `applies` says; `None`: one cannot be done.
pub fn vary(
    docs: &[Doc],
    overrides: &Value,
    view: &View,
    applies: impl Fn(usize, &Value) -> bool,
) -> Option<Vec<Doc>> {
    let mut docs = docs.to_vec();
    for (at, entry) in overrides.as_array().into_iter().flatten().enumerate() {
        if !applies(at, entry) {
            continue;
        }
        let target = &entry["target"];
        let is = |field: &str, has: &str| target[field].is_null() || target[field] == has;
        for doc in docs.iter_mut().filter(|doc| is("kind", &doc.kind) && is("name", &doc.name)) {
            change(&mut doc.body, entry, view)?;
        }
    }
    Some(docs)
}

fn change(body: &mut Value, entry: &Value, view: &View) -> Option<()> {
    if !entry["mergePatch"].is_null() {
        merge(body, &entry["mergePatch"]);
    }
    for one in entry["jsonPatch"].as_array().into_iter().flatten() {
        assert_eq!(one["op"], "add", "the judge knows no other op");
        let (parent, field) = one["path"].as_str()?.rsplit_once('/')?;
        body.pointer_mut(parent)?.as_object_mut()?.insert(field.to_owned(), one["value"].clone());
    }
    for one in entry["set"].as_array().into_iter().flatten() {
        let value = view.gives(one["expression"].as_str()?)?;
        let fields = one["path"].as_str()?.split('.').skip(1);
        let place = fields.fold(body as &mut Value, |at, field| &mut at[field]);
        *place = json!(value);
    }
    Some(())
}

/// RFC 7386.
fn merge(body: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *body = patch.clone();
        return;
    };
    if !body.is_object() {
        *body = json!({});
    }
    for (field, value) in patch {
        match (value, body.as_object_mut()) {
            (Value::Null, Some(body)) => drop(body.remove(field)),
            _ => merge(&mut body[field], value),
        }
    }
}
