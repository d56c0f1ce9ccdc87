//! What a request says beside its address: options in its query, the forms of its body and of the answer.
//! Each is refused as the real server refuses it (`tests/facts/wrong.rs`).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::deep;
use super::failure::Failure;
use super::fault::Verb;
use super::kinds::Kind;
use super::protobuf;
use super::route::Asked;
use super::write::{PatchType, Validation};

/// In which form objects are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
    Table,
}

/// Bytes of a field manager's name.
const MANAGER: usize = 128;
const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

/// The first form of the `Accept` header that there is. YAML is answered in JSON.
pub(super) fn form(accept: &str) -> Result<Form, Failure> {
    if accept.trim().is_empty() {
        return Ok(Form::Object);
    }
    let form = |one: &str| {
        let mut parts = one.split(';').map(str::trim);
        let json =
            matches!(parts.next(), Some("application/json" | "application/*" | "*/*" | "application/yaml"));
        let kind = parts.find_map(|part| part.strip_prefix("as="));
        match kind.filter(|_| json) {
            None => json.then_some(Form::Object),
            Some("Table") if one.contains("v=v1") => Some(Form::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Form::Metadata),
            Some(_) => None,
        }
    };
    accept.split(',').find_map(form).ok_or_else(|| {
        let message = "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf";
        Failure::new(406, "NotAcceptable", message)
    })
}

/// Only the metadata of an object.
pub(super) fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// `fieldValidation`, which [`check`] has looked at.
pub(super) fn validation(asked: &Asked) -> Validation {
    match asked.param("fieldValidation") {
        "Ignore" => Validation::Ignore,
        "Strict" => Validation::Strict,
        _ => Validation::Warn,
    }
}

/// Refuses options that no request may have, and bodies of an unknown type. `deletion` are the options of a
/// DELETE, as [`deletion`] reads them.
pub(super) fn check(asked: &Asked, deletion: &Value) -> Result<(), Failure> {
    let kind = match asked.verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch | Verb::Apply => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        _ => "ListOptions",
    };
    let invalid = |field: &str, why: &str| Failure::invalid(kind, "meta.k8s.io", "", field, why);
    for name in ["limit", "timeoutSeconds", "gracePeriodSeconds"] {
        let text = asked.param(name);
        if !text.is_empty() && text.parse::<i64>().is_err() {
            return Err(Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")));
        }
    }
    match kind {
        "ListOptions" => return revision(asked),
        "DeleteOptions" => {
            policy(deletion).map_err(|why| invalid("propagationPolicy", &why))?;
            revision(asked)?;
        }
        _ => {
            manager(asked.param("fieldManager")).map_err(|why| invalid("fieldManager", &why))?;
            let validation = asked.param("fieldValidation");
            if !["", "Ignore", "Strict", "Warn"].contains(&validation) {
                let why = format!(
                    "Unsupported value: {validation:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                );
                return Err(invalid("fieldValidation", &why));
            }
        }
    }
    let dry_run = match &deletion["dryRun"] {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ if asked.param("dryRun").is_empty() => Vec::new(),
        _ => vec![asked.param("dryRun")],
    };
    if dry_run.iter().any(|one| *one != "All") {
        let why = format!("Unsupported value: {dry_run:?}: supported values: \"All\"");
        return Err(invalid("dryRun", &why));
    }
    media_type(asked)
}

/// What is wrong with how a deletion treats dependents.
fn policy(deletion: &Value) -> Result<(), String> {
    match deletion["propagationPolicy"].as_str() {
        Some(_) if deletion["orphanDependents"].is_boolean() => {
            Err("Invalid value: orphanDependents and deletionPropagation cannot be both set".to_owned())
        }
        Some(policy) if !POLICIES.contains(&policy) => {
            Err(format!("Unsupported value: {policy:?}: supported values: {POLICIES:?}"))
        }
        _ => Ok(()),
    }
}

/// What is wrong with a manager's name.
fn manager(name: &str) -> Result<(), String> {
    if name.len() > MANAGER {
        return Err(format!("Too long: may not be more than {MANAGER} bytes"));
    }
    match name.chars().any(char::is_control) {
        true => Err(format!("Invalid value: {name:?}: should only contain printable characters")),
        false => Ok(()),
    }
}

/// Bodies are JSON, YAML or protobuf; patches have types of their own.
fn media_type(asked: &Asked) -> Result<(), Failure> {
    let deletes = matches!(asked.verb, Verb::Delete | Verb::DeleteCollection) && !asked.body.is_empty();
    if !deletes && !matches!(asked.verb, Verb::Create | Verb::Update) {
        return Ok(());
    }
    let known = ["", "application/json", "application/yaml", protobuf::MEDIA_TYPE];
    if known.contains(&asked.content_type.split(';').next().unwrap_or_default().trim()) {
        return Ok(());
    }
    let message = "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf";
    Err(Failure::new(415, "UnsupportedMediaType", message))
}

/// The rules of `resourceVersion`, `resourceVersionMatch` and `sendInitialEvents` of reads.
fn revision(asked: &Asked) -> Result<(), Failure> {
    if !matches!(asked.verb, Verb::Get | Verb::List | Verb::Watch | Verb::DeleteCollection) {
        return Ok(());
    }
    let invalid = |field: &str, why: &str| Failure::invalid("ListOptions", "meta.k8s.io", "", field, why);
    let version = asked.param("resourceVersion");
    if !version.is_empty() && version.parse::<u64>().is_err() {
        let message = format!(
            "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
        );
        return Err(match asked.verb {
            Verb::List | Verb::DeleteCollection => {
                Failure::bad_request(format!("invalid resource version: {message}"))
            }
            _ => Failure::new(500, "", message),
        });
    }
    if asked.verb == Verb::Get {
        return Ok(());
    }
    let how = asked.param("resourceVersionMatch");
    let initial = !asked.param("sendInitialEvents").is_empty();
    let refused = |why: &str| Err(invalid("resourceVersionMatch", &format!("Forbidden: {why}")));
    match how {
        _ if initial && asked.verb == Verb::List => {
            Err(invalid("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list"))
        }
        "NotOlderThan" if asked.verb == Verb::Watch && initial => Ok(()),
        _ if asked.verb == Verb::Watch && initial => {
            refused("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        }
        "" => Ok(()),
        _ if asked.verb == Verb::Watch => {
            refused("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        }
        _ if version.is_empty() => {
            refused("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        "Exact" if version == "0" => {
            refused("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" | "NotOlderThan" if asked.param("continue").is_empty() => Ok(()),
        "Exact" | "NotOlderThan" => refused("resourceVersionMatch is forbidden when continue is provided"),
        other => Err(invalid(
            "resourceVersionMatch",
            &format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
        )),
    }
}

/// The options of a DELETE: its body, or without one its query. Null of other requests.
pub(super) fn deletion(asked: &Asked) -> Result<Value, Failure> {
    if !matches!(asked.verb, Verb::Delete | Verb::DeleteCollection) {
        return Ok(Value::Null);
    }
    if !asked.body.is_empty() {
        media_type(asked)?;
        let options = body(asked)?;
        return match options["kind"].as_str() {
            None | Some("" | "DeleteOptions") => Ok(options),
            Some(other) => {
                Err(Failure::bad_request(format!("no kind {other:?} is registered for a deletion")))
            }
        };
    }
    let mut options = Map::new();
    for name in ["propagationPolicy", "orphanDependents", "gracePeriodSeconds"] {
        let text = asked.param(name);
        let value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        if !text.is_empty() {
            options.insert(name.to_owned(), value);
        }
    }
    Ok(Value::Object(options))
}

/// An object that is to be stored: one at all, and with metadata that can be read.
pub(super) fn object(body: Value) -> Result<Value, Failure> {
    let refused =
        |what: &str| Err(Failure::bad_request(format!("the object provided is unrecognized: {what}")));
    let metadata = &body["metadata"];
    if !body.is_object() && !body.is_null() {
        return refused("it is not a JSON object");
    }
    if !metadata.is_object() && !metadata.is_null() {
        return refused("metadata is not a JSON object");
    }
    for field in ["name", "generateName", "namespace", "uid", "resourceVersion"] {
        if !metadata[field].is_string() && !metadata[field].is_null() {
            return refused(&format!("metadata.{field} is not a string"));
        }
    }
    Ok(body)
}

/// The body as JSON; where its type says YAML or protobuf, that is read.
pub(super) fn body(asked: &Asked) -> Result<Value, Failure> {
    let unreadable = |language: &str, error: String| {
        Failure::bad_request(format!("error decoding the request's body as {language}: {error}"))
    };
    if asked.content_type.starts_with(protobuf::MEDIA_TYPE) {
        return protobuf::read(&asked.body).map_err(|error| unreadable("protobuf", error.to_string()));
    }
    match deep::read(&asked.body) {
        Ok(value) => Ok(value),
        Err(_) if asked.content_type.contains("yaml") => {
            let text =
                std::str::from_utf8(&asked.body).map_err(|error| unreadable("YAML", error.to_string()))?;
            deep::read_yaml(text).map_err(|error| unreadable("YAML", error))
        }
        Err(error) => Err(unreadable("JSON", error.to_string())),
    }
}

/// Built-in groups say in a Status that there is nothing at a path; all else is a page that is not found.
pub(super) fn missing(kinds: &[Arc<Kind>], path: &str) -> Option<Failure> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let known = match (parts.next(), parts.next()) {
        (Some("api"), _) => true,
        (Some("apis"), Some(group)) => kinds.iter().any(|kind| kind.group == group && kind.is_builtin()),
        _ => false,
    };
    known.then(|| Failure::new(404, "NotFound", "the server could not find the requested resource"))
}

/// How the body of a PATCH is to be read.
pub(super) fn patch_type(asked: &Asked, kind: &Kind) -> Result<PatchType, Failure> {
    if !asked.param("force").is_empty() {
        let why = "Forbidden: may not be specified for non-apply patch";
        return Err(Failure::invalid("PatchOptions", "meta.k8s.io", "", "force", why));
    }
    match asked.content_type.split(';').next().map(str::trim) {
        Some("application/merge-patch+json") => Ok(PatchType::Merge),
        Some("application/json-patch+json") => Ok(PatchType::Json),
        Some("application/strategic-merge-patch+json") if kind.is_builtin() => Ok(PatchType::Strategic),
        _ => {
            let strategic = if kind.is_builtin() { "application/strategic-merge-patch+json, " } else { "" };
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, {strategic}\
                 application/apply-patch+yaml"
            );
            Err(Failure::new(415, "UnsupportedMediaType", message))
        }
    }
}

/// `force` of an apply, which must name its manager.
pub(super) fn force(asked: &Asked) -> Result<bool, Failure> {
    if asked.param("fieldManager").is_empty() {
        let why = "Required value: is required for apply patch";
        return Err(Failure::invalid("PatchOptions", "meta.k8s.io", "", "fieldManager", why));
    }
    Ok(asked.param("force") == "true")
}
