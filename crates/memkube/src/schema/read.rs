//! Types from OpenAPI v3: components by name, and schemas inlined in them, as kube-openapi's schema
//! converter reads them for server-side apply.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Atom, Field, Items, List, Map, Patch, Scalar, TypeId, Types};

/// Reads components that refer to each other by name.
pub struct Reader<'a> {
    components: &'a BTreeMap<String, Value>,
    names: BTreeMap<(String, Option<bool>), TypeId>,
    same: BTreeMap<String, TypeId>,
    types: Types,
    /// By component and field; null where a zero is not stored.
    defaults: Value,
}

impl<'a> Reader<'a> {
    /// A reader of these components, adding to `types`.
    pub fn new(components: &'a BTreeMap<String, Value>, types: Types) -> Self {
        Reader { components, names: BTreeMap::new(), same: BTreeMap::new(), types, defaults: Value::Null }
    }

    /// What the server fills in, by component and field: OpenAPI does not say it.
    #[must_use]
    pub fn defaults(mut self, defaults: Value) -> Self {
        self.defaults = defaults;
        self
    }

    /// All types read so far.
    pub fn finish(self) -> Types {
        self.types
    }

    /// The type of a component; any type where there is none of that name. A field that refers to it may say
    /// whether its struct is atomic there.
    pub fn named(&mut self, name: &str, atomic: Option<bool>) -> TypeId {
        let key = (name.to_owned(), atomic);
        if let Some(known) = self.names.get(&key) {
            return *known;
        }
        let components = self.components;
        let Some(schema) = components.get(name) else { return Types::DEDUCED };
        // Known before it is read: types may contain themselves.
        let id = self.types.push(Atom::default());
        self.names.insert(key, id);
        let mut atom = match name.rsplit('.').next() {
            Some("Quantity") => Atom { scalar: Some(Scalar::Quantity), ..Atom::default() },
            Some("RawExtension") => self.types.atom(Types::UNTYPED).clone(),
            _ => self.atom(schema, false),
        };
        if let (Some(map), Some(atomic)) = (&mut atom.map, atomic) {
            map.atomic = atomic;
        }
        let given = self.defaults.get(name).and_then(Value::as_object);
        if let Some(map) = &mut atom.map {
            for (field, value) in given.into_iter().flatten() {
                if let Some(field) = map.fields.get_mut(field.as_str()) {
                    field.omits_zero = value.is_null();
                    field.writes_null = value.is_array();
                    field.server = Some(value.clone()).filter(|value| !value.is_null() && !value.is_array());
                }
            }
        }
        self.types.set(id, atom);
        id
    }

    /// The type of a schema, which may be a reference. `open` lets undeclared fields stand.
    pub fn schema(&mut self, schema: &Value, open: bool) -> TypeId {
        let reference = schema["$ref"].as_str().or_else(|| match schema["allOf"].as_array()?.as_slice() {
            [one] => one["$ref"].as_str(),
            _ => None,
        });
        if let Some(name) = reference.and_then(|path| path.rsplit('/').next()) {
            let atomic = schema["x-kubernetes-map-type"].as_str().map(|of| of == "atomic");
            return self.named(name, atomic);
        }
        let atom = self.atom(schema, open);
        // One type for all that look alike; those in CRDs repeat a lot.
        let print = serde_json::to_string(&atom).unwrap_or_default();
        if let Some(known) = self.same.get(&print) {
            return *known;
        }
        let id = self.types.push(atom);
        self.same.insert(print, id);
        id
    }

    fn atom(&mut self, schema: &Value, open: bool) -> Atom {
        let open = open || schema["x-kubernetes-preserve-unknown-fields"] == true;
        let int_or_string = schema["x-kubernetes-int-or-string"] == true;
        let scalar = match schema["type"].as_str() {
            _ if int_or_string || schema["format"] == "int-or-string" => Scalar::IntOrString,
            Some("object") => {
                return Atom { map: Some(self.map(schema, open)), ..Atom::default() };
            }
            Some("array") => {
                return Atom { list: Some(self.list(schema, open)), ..Atom::default() };
            }
            Some("integer") => Scalar::Integer,
            Some("number") => Scalar::Number,
            Some("boolean") => Scalar::Boolean,
            Some("string") => match schema["format"].as_str() {
                None => Scalar::String,
                Some("byte") => Scalar::Bytes,
                Some("date-time") => Scalar::Time,
                Some(_) => Scalar::Any,
            },
            _ => {
                let map = Some(self.map(schema, open));
                return Atom { scalar: Some(Scalar::Any), list: Some(self.list(schema, open)), map };
            }
        };
        Atom { scalar: Some(scalar), ..Atom::default() }
    }

    fn list(&mut self, schema: &Value, open: bool) -> List {
        let items = match &schema["items"] {
            Value::Null => Types::UNTYPED,
            items => self.schema(items, open),
        };
        let texts = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|text| text.as_str().map(str::to_owned))
                .collect()
        };
        let relation = match schema["x-kubernetes-list-type"].as_str() {
            Some("map") => Items::Map(texts(&schema["x-kubernetes-list-map-keys"])),
            Some("set") => Items::Set,
            Some(_) => Items::Atomic,
            None => match patch(schema) {
                Some(Patch { merge: true, key: Some(key), .. }) => Items::Map(vec![key.into()]),
                Some(Patch { merge: true, .. }) => Items::Set,
                _ => Items::Atomic,
            },
        };
        List { items, relation }
    }

    fn map(&mut self, schema: &Value, open: bool) -> Map {
        let properties = schema["properties"].as_object();
        let fields = properties.into_iter().flatten().map(|(name, schema)| {
            let default = Some(schema["default"].clone()).filter(|default| !default.is_null());
            let values = schema["enum"].as_array().into_iter().flatten();
            let values = values.filter_map(|value| value.as_str().map(Box::from)).collect();
            let field = Field {
                of: self.schema(schema, open),
                default,
                server: None,
                omits_zero: false,
                writes_null: false,
                patch: patch(schema),
                values,
            };
            (name.as_str().into(), field)
        });
        let fields: BTreeMap<_, _> = fields.collect();
        let values = match &schema["additionalProperties"] {
            Value::Null => (open || fields.is_empty()).then_some(Types::DEDUCED),
            Value::Bool(allowed) => allowed.then_some(Types::DEDUCED),
            schema => Some(self.schema(schema, open)),
        };
        let required = schema["required"].as_array().into_iter().flatten();
        Map {
            fields,
            values,
            atomic: schema["x-kubernetes-map-type"] == "atomic",
            required: required.filter_map(|name| name.as_str().map(Box::from)).collect(),
        }
    }
}

fn patch(schema: &Value) -> Option<Patch> {
    let strategy = schema["x-kubernetes-patch-strategy"].as_str();
    let key = schema["x-kubernetes-patch-merge-key"].as_str();
    (strategy.is_some() || key.is_some()).then(|| {
        let says = |word: &str| strategy.is_some_and(|all| all.split(',').any(|one| one == word));
        Patch { merge: says("merge"), retain_keys: says("retainKeys"), key: key.map(Box::from) }
    })
}
