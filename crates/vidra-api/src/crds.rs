//! The CustomResourceDefinitions, derived from the types and put into the shape that the API server
//! wants. What is written to `crds/` comes from here; see `src/bin/crds.rs`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{MemberCluster, VidraInventory, VidraResource, VidraTarget, labels::SCHEMA_ANNOTATION};

/// The number of the schemas, which each CRD bears as an annotation. It is raised with each change of a schema: a hub
/// does not start where one has a lower number than its own.
pub const SCHEMA: u32 = 9;

/// Values of enums by the name that they have now, and the one that they had: a hub that is older than these CRDs works
/// with them, and writes the old one.
const RENAMED: [(&str, &str); 1] = [("NotFound", "NotThere")];

/// Every CRD of the hub, in the order of their names.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut crds =
        vec![MemberCluster::crd(), VidraInventory::crd(), VidraResource::crd(), VidraTarget::crd()];
    for crd in &mut crds {
        let whole: &[&str] = match crd.spec.names.kind.as_str() {
            "VidraTarget" | "VidraInventory" => &["spec", "status"],
            _ => &["status"],
        };
        written_whole(crd, whole);
        let annotations = crd.metadata.annotations.get_or_insert_default();
        annotations.insert(SCHEMA_ANNOTATION.to_owned(), SCHEMA.to_string());
    }
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        each_schema(root, &mut shape);
        if let Some(status) = root.properties.as_mut().and_then(|properties| properties.get_mut("status")) {
            each_schema(status, &mut without_default);
        }
    }
    crds
}

/// Only the hub writes these parts, each by one writer: who owns which field of them is of no use, and keeping
/// account of it is most of what a write costs the API server.
fn written_whole(crd: &mut CustomResourceDefinition, parts: &[&str]) {
    let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    for root in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        for (name, part) in root.properties.iter_mut().flatten() {
            if parts.contains(&name.as_str()) {
                part.x_kubernetes_map_type = Some("atomic".to_owned());
            }
        }
    }
}

/// Null is not a value of any field: the API server prunes it, so `has()` in a rule means "is set".
/// The derive marks every Option as nullable and names schemas after Rust types. A description is one
/// paragraph, whatever the width of the source. An enum takes the older names of its values too.
fn shape(schema: &mut JSONSchemaProps) {
    schema.description = schema.description.take().map(|text| text.replace('\n', " "));
    schema.nullable = None;
    schema.title = None;
    if let Some(values) = &mut schema.enum_ {
        let is_known = |name: &str| values.iter().any(|JSON(value)| value == name);
        let older = RENAMED.iter().filter(|(now, _)| is_known(now));
        let older: Vec<_> = older.map(|(_, before)| JSON((*before).into())).collect();
        values.extend(older);
    }
}

/// A status is what the hub wrote; the API server adds nothing to it.
fn without_default(schema: &mut JSONSchemaProps) {
    schema.default = None;
}

/// Calls `change` on a schema and on every schema within it that describes a value. Subschemas of
/// anyOf and its like are left out: the types here have none, and a test says so.
fn each_schema(schema: &mut JSONSchemaProps, change: &mut dyn FnMut(&mut JSONSchemaProps)) {
    change(schema);
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        each_schema(property, change);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        each_schema(items, change);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        each_schema(values, change);
    }
}

#[cfg(test)]
mod tests;
