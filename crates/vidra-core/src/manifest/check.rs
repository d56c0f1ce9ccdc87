//! From a JSON value to objects that can be delivered: lists are flattened, what only a server writes is
//! dropped, what cannot be delivered is refused.

use serde_json::{Map, Value};
use vidra_api::labels::PRUNE;

use super::error::{ManifestError, Place};
use super::{MAX_OBJECTS, ManifestObject};
use crate::directives::Directives;
use crate::object::Gvk;
use crate::unseen;

/// Lists within lists: kubectl flattens one level, and nobody needs more than a few.
pub(super) const MAX_LIST_DEPTH: usize = 4;
/// Metadata that only a server writes (k8s.io/apimachinery, ObjectMeta: "Populated by the system").
const SERVER_MADE: [&str; 7] = [
    "uid",
    "resourceVersion",
    "managedFields",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Checks what was read at `place` and adds its objects to `out`.
pub(super) fn add_objects(
    value: Value,
    place: Place,
    out: &mut Vec<ManifestObject>,
) -> Result<(), ManifestError> {
    add(value, &At { place, item: None }, 0, &mut |fields, at| {
        if out.len() >= MAX_OBJECTS {
            return Err(ManifestError::TooMany);
        }
        out.push(object(fields, at)?);
        Ok(())
    })
}

/// The objects of what was read at `place`, as they are.
pub(super) fn live_objects(value: Value, place: Place) -> Result<Vec<Value>, ManifestError> {
    let mut all = Vec::new();
    add(value, &At { place, item: None }, 0, &mut |fields, at| {
        let object = describe(&fields, at);
        for field in ["apiVersion", "kind"] {
            required(&fields, at, &object, field, field)?;
        }
        all.push(Value::Object(fields));
        Ok(())
    })?;
    Ok(all)
}

/// What becomes of each object that is no list.
type Take<'t> = &'t mut dyn FnMut(Map<String, Value>, &At) -> Result<(), ManifestError>;

/// What is being looked at, for messages.
struct At {
    place: Place,
    item: Option<(usize, String)>,
}

fn add(value: Value, at: &At, depth: usize, take: Take<'_>) -> Result<(), ManifestError> {
    let mut fields = match value {
        Value::Object(fields) => fields,
        other => {
            let object = match &at.item {
                Some((number, list)) => format!("item {number} of {list}"),
                None => "the document".to_owned(),
            };
            return Err(ManifestError::NotAnObject {
                place: at.place.clone(),
                object,
                found: type_of(&other),
            });
        }
    };
    if is_list(&fields) {
        return add_items(&mut fields, at, depth, take);
    }
    take(fields, at)
}

/// `kind: List`, or a kind such as ConfigMapList with the field `items`.
fn is_list(fields: &Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind == "List" || (kind.ends_with("List") && fields.contains_key("items"))
}

fn add_items(
    fields: &mut Map<String, Value>,
    at: &At,
    depth: usize,
    take: Take<'_>,
) -> Result<(), ManifestError> {
    let kind = text_or_empty(fields, "kind").to_owned();
    let object = describe(fields, at);
    let items = match fields.remove("items") {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => return Ok(()),
        Some(other) => return Err(wrong_type(at, object, "items", "a list", &other)),
    };
    if depth == MAX_LIST_DEPTH {
        let why = "are lists of lists, nested too deeply: write the objects one by one";
        return Err(ManifestError::Refused { place: at.place.clone(), object, field: "items", why });
    }
    for (index, mut item) in items.into_iter().enumerate() {
        let at = At { place: at.place.clone(), item: Some((index + 1, object.clone())) };
        if let Value::Object(item) = &mut item {
            // A typed list's items need not say what they are (apimachinery, UnstructuredJSONScheme).
            let item_kind = kind.strip_suffix("List").unwrap_or_default();
            let says_nothing =
                ["kind", "apiVersion"].iter().all(|field| text_or_empty(item, field).is_empty());
            if says_nothing && !item_kind.is_empty() {
                item.insert("kind".to_owned(), Value::from(item_kind));
                item.insert("apiVersion".to_owned(), Value::from(text_or_empty(fields, "apiVersion")));
            }
        }
        add(item, &at, depth + 1, take)?;
    }
    Ok(())
}

fn object(mut fields: Map<String, Value>, at: &At) -> Result<ManifestObject, ManifestError> {
    let object = describe(&fields, at);
    let api_version = required(&fields, at, &object, "apiVersion", "apiVersion")?;
    let kind = required(&fields, at, &object, "kind", "kind")?;
    let Some(gvk) = Gvk::from_api_version(api_version, kind) else {
        let why = "and kind are none that a cluster could have: write them as in `apps/v1`, `Deployment`";
        return Err(ManifestError::Refused { place: at.place.clone(), object, field: "apiVersion", why });
    };
    fields.remove("status");
    let metadata = match fields.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata,
        None | Some(Value::Null) => {
            return Err(ManifestError::Missing { place: at.place.clone(), object, field: "metadata.name" });
        }
        Some(other) => return Err(wrong_type(at, object, "metadata", "a mapping", other)),
    };
    for field in SERVER_MADE.into_iter().chain(["selfLink"]) {
        metadata.remove(field);
    }
    refuse_owners_and_generated_names(metadata, at, &object)?;
    check_labels(metadata, at, &object)?;
    check_prune(metadata, at, &object)?;
    let name = required(metadata, at, &object, "name", "metadata.name")?.to_owned();
    if !is_path_segment(&name) {
        let why = "is no name that an object can have: no `/`, `%`, `?`, `#`, white space, at most 253 bytes";
        return Err(ManifestError::Refused { place: at.place.clone(), object, field: "metadata.name", why });
    }
    let namespace = namespace(metadata, at, &object)?;
    let value = Value::Object(fields);
    if let Err(bad) = Directives::of(&value) {
        return Err(ManifestError::Refused {
            place: at.place.clone(),
            object,
            field: bad.field,
            why: bad.why,
        });
    }
    Ok(ManifestObject { place: at.place.clone(), gvk, namespace, name, value })
}

fn refuse_owners_and_generated_names(
    metadata: &mut Map<String, Value>,
    at: &At,
    object: &str,
) -> Result<(), ManifestError> {
    let rules = [
        (
            "generateName",
            "metadata.generateName",
            "would make another object at every apply: give the object a metadata.name instead",
        ),
        (
            "ownerReferences",
            "metadata.ownerReferences",
            "name an object by a uid that no other cluster has: remove them",
        ),
    ];
    for (key, field, why) in rules {
        if metadata.remove(key).is_some_and(|value| !is_empty(&value)) {
            let object = object.to_owned();
            return Err(ManifestError::Refused { place: at.place.clone(), object, field, why });
        }
    }
    Ok(())
}

fn check_labels(metadata: &Map<String, Value>, at: &At, object: &str) -> Result<(), ManifestError> {
    for field in ["labels", "annotations"] {
        let entries = match metadata.get(field) {
            Some(Value::Object(entries)) => entries,
            None | Some(Value::Null) => continue,
            Some(other) => {
                return Err(wrong_type(
                    at,
                    object.to_owned(),
                    &format!("metadata.{field}"),
                    "a mapping",
                    other,
                ));
            }
        };
        if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string() && !value.is_null()) {
            let path = format!("metadata.{field}[\"{}\"]", short(key));
            return Err(wrong_type(at, object.to_owned(), &path, "text", value));
        }
    }
    let finalizers = metadata.get("finalizers").unwrap_or(&Value::Null);
    let well_formed = finalizers.is_null()
        || finalizers.as_array().is_some_and(|finalizers| finalizers.iter().all(Value::is_string));
    if well_formed {
        Ok(())
    } else {
        Err(wrong_type(at, object.to_owned(), "metadata.finalizers", "a list of text", finalizers))
    }
}

/// Whether the hub may delete an object is no place for a slip of the pen.
fn check_prune(metadata: &Map<String, Value>, at: &At, object: &str) -> Result<(), ManifestError> {
    let asked = metadata.get("annotations").and_then(|all| all.get(PRUNE));
    match asked.and_then(Value::as_str) {
        None | Some("disabled") => Ok(()),
        Some(_) => Err(ManifestError::Refused {
            place: at.place.clone(),
            object: object.to_owned(),
            field: "the annotation vidra.dev/prune",
            why: "is not `disabled`, the one value that it may have: write that, or remove the annotation",
        }),
    }
}

/// The namespace that the object names. An empty one is as none, and is taken out.
fn namespace(
    metadata: &mut Map<String, Value>,
    at: &At,
    object: &str,
) -> Result<Option<String>, ManifestError> {
    match metadata.get("namespace") {
        Some(Value::String(namespace)) if is_dns_label(namespace) => Ok(Some(namespace.clone())),
        Some(Value::String(namespace)) if !namespace.is_empty() => Err(ManifestError::Refused {
            place: at.place.clone(),
            object: object.to_owned(),
            field: "metadata.namespace",
            why: "is no name of a namespace: small letters, digits and hyphens, at most 63",
        }),
        None | Some(Value::Null | Value::String(_)) => {
            metadata.remove("namespace");
            Ok(None)
        }
        Some(other) => Err(wrong_type(at, object.to_owned(), "metadata.namespace", "text", other)),
    }
}

fn required<'a>(
    fields: &'a Map<String, Value>,
    at: &At,
    object: &str,
    key: &str,
    path: &'static str,
) -> Result<&'a str, ManifestError> {
    match fields.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None | Some(Value::Null | Value::String(_)) => {
            Err(ManifestError::Missing { place: at.place.clone(), object: object.to_owned(), field: path })
        }
        Some(other) => Err(wrong_type(at, object.to_owned(), path, "text", other)),
    }
}

fn wrong_type(at: &At, object: String, field: &str, expected: &'static str, found: &Value) -> ManifestError {
    ManifestError::WrongType {
        place: at.place.clone(),
        object,
        field: field.to_owned(),
        expected,
        found: type_of(found),
    }
}

/// The object in words: `Deployment shop/frontend`, or as much of it as is there.
fn describe(fields: &Map<String, Value>, at: &At) -> String {
    let kind = match text_or_empty(fields, "kind") {
        "" => "object",
        kind => kind,
    };
    let metadata = fields.get("metadata").and_then(Value::as_object);
    let part = |key| metadata.map_or("", |metadata| text_or_empty(metadata, key));
    let mut words = short(kind);
    match (part("namespace"), part("name")) {
        (_, "") => {}
        ("", name) => words.push_str(&format!(" {}", short(name))),
        (namespace, name) => words.push_str(&format!(" {}/{}", short(namespace), short(name))),
    }
    match &at.item {
        Some((number, list)) => format!("{words} (item {number} of {list})"),
        None => words,
    }
}

/// Names go into messages, statuses and logs: cut when they are too long to be names.
fn short(text: &str) -> String {
    unseen::shown(text, 253)
}

fn text_or_empty<'a>(fields: &'a Map<String, Value>, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// apimachinery's IsValidPathSegmentName, and none of what begins another part of a URL.
fn is_path_segment(name: &str) -> bool {
    name.len() <= 253
        && !matches!(name, "." | "..")
        && !name
            .chars()
            .any(|c| matches!(c, '/' | '%' | '?' | '#' | '\\') || c.is_whitespace() || c.is_control())
}

/// RFC 1123, as apimachinery checks names of namespaces.
fn is_dns_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63
        && text.starts_with(is_inner)
        && text.ends_with(is_inner)
        && text.chars().all(|c| is_inner(c) || c == '-')
}
