//! What the store knows of a kind's shape: structs, maps, lists and their merge rules, scalars.
//!
//! The types are those of server-side apply's own schema language: at each place a scalar, a list or a map
//! may be allowed. They are read from OpenAPI v3 documents (`read`): of the built-in kinds from the packed
//! file (`pack`), of custom resources from their CRDs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod pack;
mod read;

pub use pack::{Bundle, META, PackError, builtin, documents, pack};
pub use read::Reader;

/// A type's place in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeId(u32);

/// Types that refer to each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Types {
    atoms: Vec<Atom>,
}

/// What may stand at a place: at least one of the three, or nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Atom {
    /// A scalar is allowed.
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    pub scalar: Option<Scalar>,
    /// A list is allowed.
    #[serde(rename = "l", skip_serializing_if = "Option::is_none")]
    pub list: Option<List>,
    /// A struct or a map is allowed.
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    pub map: Option<Map>,
}

/// Kinds of scalars, as the real server's Go types tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Scalar {
    String,
    /// Base64 text.
    Bytes,
    /// RFC 3339 text.
    Time,
    Integer,
    Number,
    Boolean,
    /// A whole number or a text.
    IntOrString,
    /// A number with a unit; kept in its canonical form.
    Quantity,
    Any,
}

/// How a list's items are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Items {
    /// Not at all: the list has one owner.
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// A list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// The type of its items.
    #[serde(rename = "i")]
    pub items: TypeId,
    /// How they are told apart.
    #[serde(rename = "r")]
    pub relation: Items,
}

/// A struct (fields), a map (values), or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Map {
    /// Declared fields.
    #[serde(rename = "f", skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<Box<str>, Field>,
    /// The type of what is not declared; `None` where nothing else may be there.
    #[serde(rename = "v", skip_serializing_if = "Option::is_none")]
    pub values: Option<TypeId>,
    /// It has one owner.
    #[serde(rename = "a", skip_serializing_if = "std::ops::Not::not")]
    pub atomic: bool,
    /// Fields that must be there.
    #[serde(rename = "q", skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Box<str>>,
}

/// A declared field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Its type.
    #[serde(rename = "t")]
    pub of: TypeId,
    /// Its default: of a key of a map list, or `{}` for a struct that the server always writes.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// How a strategic merge patch treats it.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
    /// What the server fills in where the field is absent: `schemas/defaults.json`.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Value>,
    /// Its zero value (0, false) is not stored: `schemas/defaults.json` says null.
    #[serde(rename = "z", default, skip_serializing_if = "std::ops::Not::not")]
    pub omits_zero: bool,
    /// It is written as null where it is absent: `schemas/defaults.json` says [].
    #[serde(rename = "n", default, skip_serializing_if = "std::ops::Not::not")]
    pub writes_null: bool,
    /// The values allowed, of a text.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Box<str>>,
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Patch {
    /// Lists are merged, by the key or as sets.
    #[serde(rename = "m", skip_serializing_if = "std::ops::Not::not")]
    pub merge: bool,
    /// Fields that the patch does not name are dropped.
    #[serde(rename = "r", skip_serializing_if = "std::ops::Not::not")]
    pub retain_keys: bool,
    /// The merge key.
    #[serde(rename = "k", skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<str>>,
}

impl Default for Types {
    fn default() -> Self {
        Types::new()
    }
}

impl Types {
    /// Where nothing may stand.
    pub const NOTHING: TypeId = TypeId(0);
    /// Anything, owned as a whole.
    pub const UNTYPED: TypeId = TypeId(1);
    /// Anything; maps are walked, lists are owned as a whole.
    pub const DEDUCED: TypeId = TypeId(2);

    /// The types that are always there.
    pub fn new() -> Self {
        let any = |id: TypeId, atomic: bool| Atom {
            scalar: Some(Scalar::Any),
            list: Some(List { items: Types::UNTYPED, relation: Items::Atomic }),
            map: Some(Map { values: Some(id), atomic, ..Map::default() }),
        };
        Types { atoms: vec![Atom::default(), any(Types::UNTYPED, true), any(Types::DEDUCED, false)] }
    }

    /// A type; that of [`Types::NOTHING`] for an id from elsewhere.
    pub fn atom(&self, id: TypeId) -> &Atom {
        const NOTHING: &Atom = &Atom { scalar: None, list: None, map: None };
        self.atoms.get(id.0 as usize).unwrap_or(NOTHING)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.atoms.len()
    }

    /// Never: the common types are always there.
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    fn push(&mut self, atom: Atom) -> TypeId {
        let id = TypeId(u32::try_from(self.atoms.len()).unwrap_or(u32::MAX));
        self.atoms.push(atom);
        id
    }

    fn set(&mut self, id: TypeId, atom: Atom) {
        if let Some(at) = self.atoms.get_mut(id.0 as usize) {
            *at = atom;
        }
    }
}

impl Atom {
    /// The one form that fits a value; all forms where none does, as for null.
    pub fn fitting(&self, value: &Value) -> Form<'_> {
        let (scalar, list, map) = (self.scalar, self.list.as_ref(), self.map.as_ref());
        match value {
            Value::Array(_) if list.is_some() => list.map_or(Form::None, Form::List),
            Value::Object(_) if map.is_some() => map.map_or(Form::None, Form::Map),
            Value::Null | Value::Array(_) | Value::Object(_) => self.first(),
            _ => scalar.map_or_else(|| self.first(), Form::Scalar),
        }
    }

    /// The form that is tried where the value does not decide.
    pub fn first(&self) -> Form<'_> {
        match self {
            Atom { map: Some(map), .. } => Form::Map(map),
            Atom { scalar: Some(scalar), .. } => Form::Scalar(*scalar),
            Atom { list: Some(list), .. } => Form::List(list),
            _ => Form::None,
        }
    }
}

/// One form of an [`Atom`].
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    /// Nothing is allowed here.
    None,
    /// A scalar.
    Scalar(Scalar),
    /// A list.
    List(&'a List),
    /// A struct or map.
    Map(&'a Map),
}

impl PartialEq for Form<'_> {
    /// Mostly they are the very same one: structs with many fields are not gone through for that.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Form::None, Form::None) => true,
            (Form::Scalar(one), Form::Scalar(other)) => one == other,
            (Form::List(one), Form::List(other)) => std::ptr::eq(*one, *other) || one == other,
            (Form::Map(one), Form::Map(other)) => std::ptr::eq(*one, *other) || one == other,
            _ => false,
        }
    }
}
