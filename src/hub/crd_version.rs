//! Whether the hub's CRDs know all that this version writes. What a schema does not know an API server drops without a
//! word, and with it what keeps a removal from going on unasked, or an approval.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::{Api, Client, ResourceExt};
use vidra_api::{
    crds::{self, SCHEMA},
    labels::SCHEMA_ANNOTATION,
};
use vidra_core::{
    mutants::{self, Mutant},
    unseen,
};

use super::crd_deletion::KINDS;
use crate::base::error::{CallError, Class};

/// Longest value of the annotation that is told.
const SHOWN: usize = 20;

/// Why the hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A CRD is older than this hub.
    #[error(
        "SchemaTooOld: the CustomResourceDefinition {crd} has {has}, and this vidra-hub needs {SCHEMA_ANNOTATION}={SCHEMA} or higher: with it, some of what the hub writes would be lost. Update the CRDs: kubectl apply --server-side --force-conflicts -f crds/ of this version, or helm upgrade with the value crds.install=true"
    )]
    TooOld {
        /// The CRD's name.
        crd: String,
        /// What it says of its schema.
        has: String,
    },
    /// A CRD lacks a field of this version.
    #[error(
        "SchemaTooOld: the CustomResourceDefinition {crd} has no field {field}, whatever its annotation {SCHEMA_ANNOTATION} says: what this vidra-hub writes there would be lost. Update the CRDs: kubectl apply --server-side --force-conflicts -f crds/ of this version, or helm upgrade with the value crds.install=true"
    )]
    Lacks {
        /// The CRD's name.
        crd: String,
        /// Its path.
        field: String,
    },
    /// A CRD cannot be read.
    #[error("cannot read the CustomResourceDefinition {crd}: {source}; try again when the hub's API answers")]
    Call {
        /// The CRD's name.
        crd: String,
        /// What failed.
        source: Box<CallError>,
    },
}

/// Looks at the annotation of each CRD and at its fields: whoever puts older ones in over those of another field manager
/// leaves that one's annotation. One that may not be read is taken for good.
///
/// # Errors
/// One is too old, or the API server does not answer.
pub async fn check(client: &Client) -> Result<(), SchemaError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in KINDS {
        let crd = format!("{kind}.{}", vidra_api::GROUP);
        let read = match api.get(&crd).await.map_err(CallError::from) {
            Ok(read) => read,
            // Whoever lists its kind says so.
            Err(error) if error.is_gone_of::<CustomResourceDefinition>(&crd) => continue,
            Err(error) if error.class == Class::Forbidden => {
                tracing::warn!(
                    %crd, %error,
                    "the hub may not read its CustomResourceDefinition: nobody knows whether it is as new as the hub; grant the hub get on it"
                );
                continue;
            }
            Err(error) => return Err(SchemaError::Call { crd, source: Box::new(error) }),
        };
        let has = read.annotations().get(SCHEMA_ANNOTATION);
        if !is_known(has) && !mutants::is(Mutant::AnySchema) {
            let has = match has {
                Some(has) => format!("{SCHEMA_ANNOTATION}={}", unseen::shown(has, SHOWN)),
                None => format!("no annotation {SCHEMA_ANNOTATION}"),
            };
            return Err(SchemaError::TooOld { crd, has });
        }
        let field = WRITTEN
            .iter()
            .find(|written| written.name_any() == crd)
            .and_then(|written| lacks(written, &read));
        if let Some(field) = field.filter(|_| !mutants::is(Mutant::AnySchema)) {
            return Err(SchemaError::Lacks { crd, field });
        }
    }
    Ok(())
}

/// Made once in a process, because that takes a while, and a simulation starts many hubs.
static WRITTEN: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crds::all);

/// The first field that a CRD of this version has and another one has not.
fn lacks(written: &CustomResourceDefinition, read: &CustomResourceDefinition) -> Option<String> {
    written.spec.versions.iter().find_map(|version| {
        let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        let same = read.spec.versions.iter().find(|other| other.name == version.name);
        let other = same.and_then(|same| same.schema.as_ref()?.open_api_v3_schema.as_ref());
        match other {
            Some(other) => missing(schema, other, ""),
            None => Some(format!("in {}", version.name)),
        }
    })
}

/// What the schema keeps whole may hold anything, and what it knows by name is looked into all the same.
fn missing(written: &JSONSchemaProps, read: &JSONSchemaProps, path: &str) -> Option<String> {
    let keeps_all = read.x_kubernetes_preserve_unknown_fields == Some(true);
    let lost = |path: String| (!keeps_all).then_some(path);
    let known = read.properties.as_ref();
    let field = written.properties.iter().flatten().find_map(|(name, written)| {
        let path = format!("{path}.{name}");
        match known.and_then(|known| known.get(name)) {
            Some(read) => missing(written, read, &path),
            None => lost(path),
        }
    });
    let items = || match (&written.items, &read.items) {
        (Some(JSONSchemaPropsOrArray::Schema(written)), Some(JSONSchemaPropsOrArray::Schema(read))) => {
            missing(written, read, &format!("{path}[]"))
        }
        (Some(_), None) => lost(format!("{path}[]")),
        _ => None,
    };
    let values = || match (&written.additional_properties, &read.additional_properties) {
        (Some(JSONSchemaPropsOrBool::Schema(written)), Some(JSONSchemaPropsOrBool::Schema(read))) => {
            missing(written, read, &format!("{path}.*"))
        }
        (Some(_), None | Some(JSONSchemaPropsOrBool::Bool(false))) => lost(format!("{path}.*")),
        _ => None,
    };
    field.or_else(items).or_else(values)
}

/// A schema with this number knows all that this version writes.
fn is_known(has: Option<&String>) -> bool {
    has.and_then(|has| has.parse::<u32>().ok()).is_some_and(|has| has >= SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_a_schema_lacks_is_named_wherever_it_stands() {
        for written in crds::all() {
            assert_eq!(lacks(&written, &written), None);
            let mut read = written.clone();
            read.spec.versions[0].name = "v1".to_owned();
            assert!(lacks(&written, &read).unwrap().contains(&written.spec.versions[0].name));
        }
        let written = crds::all().into_iter().find(|crd| crd.spec.names.kind == "VidraResource").unwrap();
        let without = |take: &dyn Fn(&mut serde_json::Value)| {
            let mut read = serde_json::to_value(&written).unwrap();
            take(&mut read["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]);
            lacks(&written, &serde_json::from_value(read).unwrap())
        };
        let take = |of: &mut serde_json::Value, name: &str| drop(of.as_object_mut().unwrap().remove(name));
        assert_eq!(
            without(&|all| take(&mut all["spec"]["properties"], "drift")),
            Some(".spec.drift".to_owned())
        );
        let of_targets = |all: &mut serde_json::Value| {
            take(&mut all["spec"]["properties"]["targets"]["items"]["properties"], "namespace");
        };
        assert_eq!(without(&of_targets), Some(".spec.targets[].namespace".to_owned()));
        let of_labels = |all: &mut serde_json::Value| {
            let selector =
                &mut all["spec"]["properties"]["targets"]["items"]["properties"]["clusterSelector"];
            take(&mut selector["properties"]["matchLabels"], "additionalProperties");
        };
        let selector = ".spec.targets[].clusterSelector.matchLabels.*";
        assert_eq!(without(&of_labels), Some(selector.to_owned()));
        let mut more = serde_json::to_value(&written).unwrap();
        let properties = &mut more["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        properties["spec"]["properties"]["later"] = serde_json::json!({"type": "string"});
        assert_eq!(lacks(&written, &serde_json::from_value(more).unwrap()), None, "a later version has more");
    }
}
