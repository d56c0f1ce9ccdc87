//! The options of a request, in its URL or as DeleteOptions: what is wrong with them is said before anything
//! else is looked at.

use serde_json::{Value, json};

use super::failure::Failure;
use super::fault::Verb;
use super::kinds::Kind;
use super::protobuf;
use super::route::Asked;
use super::write::PatchType;

/// The longest name of a field manager.
const LONGEST_MANAGER: usize = 128;
const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

/// Refuses options that no request may have, and bodies of an unknown type. `deletion` is the body of a
/// DELETE with the URL's options, as [`deletion`] reads it.
pub(super) fn check(asked: &Asked, deletion: &Value) -> Result<(), Failure> {
    let kind = match asked.verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch | Verb::Apply => "PatchOptions",
        Verb::Delete => "DeleteOptions",
        Verb::DeleteCollection => {
            selection(asked)?;
            "DeleteOptions"
        }
        Verb::List | Verb::Watch => return selection(asked),
        _ => return Ok(()),
    };
    let refused = |field: &str, why: String| Err(Failure::invalid(kind, "meta.k8s.io", "", field, &why));
    if kind == "DeleteOptions" {
        let orphan = deletion["orphanDependents"].is_boolean();
        match deletion["propagationPolicy"].as_str() {
            Some(_) if orphan => {
                let why = "Invalid value: orphanDependents and deletionPropagation cannot be both set";
                return refused("propagationPolicy", why.to_owned());
            }
            Some(policy) if !POLICIES.contains(&policy) => {
                let why = format!("Unsupported value: {policy:?}: supported values: {POLICIES:?}");
                return refused("propagationPolicy", why);
            }
            _ => {}
        }
    } else {
        manager(asked.param("fieldManager")).or_else(|why| refused("fieldManager", why))?;
        let validation = asked.param("fieldValidation");
        if !["", "Ignore", "Strict", "Warn"].contains(&validation) {
            let why = format!(
                "Unsupported value: {validation:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            );
            return refused("fieldValidation", why);
        }
    }
    let dry_run = match &deletion["dryRun"] {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ if asked.param("dryRun").is_empty() => Vec::new(),
        _ => vec![asked.param("dryRun")],
    };
    if dry_run.iter().any(|one| *one != "All") {
        return refused("dryRun", format!("Unsupported value: {dry_run:?}: supported values: \"All\""));
    }
    if matches!(asked.verb, Verb::Create | Verb::Update) {
        let read = asked.content_type.split(';').next().unwrap_or_default().trim();
        if !["", "application/json", "application/yaml", protobuf::MEDIA_TYPE].contains(&read) {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor";
            return Err(Failure::new(415, "UnsupportedMediaType", message));
        }
    }
    Ok(())
}

/// What is wrong with a manager's name.
fn manager(name: &str) -> Result<(), String> {
    if name.len() > LONGEST_MANAGER {
        return Err(format!("Too long: may not be more than {LONGEST_MANAGER} bytes"));
    }
    match name.chars().any(char::is_control) {
        true => Err(format!("Invalid value: {name:?}: should only contain printable characters")),
        false => Ok(()),
    }
}

/// The options of a list, a watch, or a deletion of many.
fn selection(asked: &Asked) -> Result<(), Failure> {
    let (version, how) = (asked.param("resourceVersion"), asked.param("resourceVersionMatch"));
    let refused =
        |why: String| Err(Failure::invalid("ListOptions", "meta.k8s.io", "", "resourceVersionMatch", &why));
    let initial = asked.param("sendInitialEvents") == "true";
    let limit = asked.param("limit");
    if !limit.is_empty() && limit.parse::<i64>().is_err() {
        return Err(Failure::bad_request(format!("strconv.ParseInt: parsing {limit:?}: invalid syntax")));
    }
    if !how.is_empty() && !initial {
        if asked.verb == Verb::Watch {
            return refused("Forbidden: resourceVersionMatch is forbidden for watch".to_owned());
        }
        if version.is_empty() {
            let why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
            return refused(why.to_owned());
        }
        if !asked.param("continue").is_empty() {
            let why = "Forbidden: resourceVersionMatch is forbidden when continue is provided";
            return refused(why.to_owned());
        }
        if how != "Exact" && how != "NotOlderThan" {
            let why = format!("Unsupported value: {how:?}: supported values: \"Exact\", \"NotOlderThan\"");
            return refused(why);
        }
        if how == "Exact" && version == "0" {
            let why = "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            return refused(why.to_owned());
        }
    }
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(Failure::bad_request(format!("invalid resource version: {version:?}")));
    }
    Ok(())
}

/// The DeleteOptions of a request: its body, or else what its URL says.
pub(super) fn deletion(asked: &Asked, body: Value) -> Value {
    if !body.is_null() {
        return body;
    }
    let mut options = json!({});
    if !asked.param("propagationPolicy").is_empty() {
        options["propagationPolicy"] = json!(asked.param("propagationPolicy"));
    }
    if let Ok(orphan) = asked.param("orphanDependents").parse::<bool>() {
        options["orphanDependents"] = json!(orphan);
    }
    options
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
            let message = "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json, application/apply-patch+yaml";
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
