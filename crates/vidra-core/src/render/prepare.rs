//! Changes a declared object into what can be applied again and again: what the API server would turn into
//! something else, or what belongs to a controller, is not sent. Each rule was run against a real API server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::object::Gvk;

/// A value in a Secret's stringData that is not text, by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotText {
    /// The key within stringData.
    pub(super) key: String,
}

/// Prepares the object in place.
pub(super) fn prepare(gvk: &Gvk, object: &mut Value) -> Result<(), NotText> {
    match (&*gvk.group, &*gvk.kind) {
        ("", "Secret") => return secret(object),
        ("rbac.authorization.k8s.io", "ClusterRole") => cluster_role(object),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => {
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                drop_empty_bundle(webhook.get_mut("clientConfig"));
            }
        }
        ("apiregistration.k8s.io", "APIService") => drop_empty_bundle(object.get_mut("spec")),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            drop_empty_bundle(object.pointer_mut("/spec/conversion/webhook/clientConfig"));
        }
        _ => {}
    }
    Ok(())
}

/// stringData is owned as a field of its own while the value lives in data, so tampering with data would go
/// unseen; and a null in data is stored as "", which moves resourceVersion at every apply.
fn secret(object: &mut Value) -> Result<(), NotText> {
    let Some(fields) = object.as_object_mut() else { return Ok(()) };
    if let Some(Value::Object(data)) = fields.get_mut("data") {
        data.values_mut().filter(|value| value.is_null()).for_each(|value| *value = Value::from(""));
    }
    let plain = match fields.remove("stringData") {
        Some(Value::Object(plain)) => plain,
        None | Some(Value::Null) => return Ok(()),
        Some(_) => return Err(NotText { key: String::new() }),
    };
    if plain.is_empty() {
        return Ok(());
    }
    let data = fields.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    // A data field that is no mapping is left for the API server to refuse.
    let Some(data) = data.as_object_mut() else { return Ok(()) };
    for (key, value) in plain {
        let encoded = match value {
            Value::String(text) => STANDARD.encode(text),
            Value::Null => String::new(),
            _ => return Err(NotText { key }),
        };
        // As in the API server: stringData wins over data of the same key.
        data.insert(key, Value::String(encoded));
    }
    Ok(())
}

/// The rules of an aggregated role are written by a controller.
fn cluster_role(object: &mut Value) {
    if let Some(fields) = object.as_object_mut()
        && fields.get("aggregationRule").is_some_and(|rule| !rule.is_null())
    {
        fields.remove("rules");
    }
}

/// An empty bundle is a place for an injector to fill; applying it would take the bundle away again.
/// `Cg==` is a line break: some manifests have it because old servers refused "".
fn drop_empty_bundle(client_config: Option<&mut Value>) {
    if let Some(fields) = client_config.and_then(Value::as_object_mut) {
        let empty = match fields.get("caBundle") {
            Some(Value::String(bundle)) => matches!(bundle.as_str(), "" | "Cg=="),
            Some(bundle) => bundle.is_null(),
            None => false,
        };
        if empty {
            fields.remove("caBundle");
        }
    }
}
