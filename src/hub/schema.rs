//! Whether the hub's CRDs know all that this version writes. What a schema does not know an API server drops without a
//! word, and with it what keeps a removal from going on unasked, or an approval.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use vidra_api::{crds::SCHEMA, labels::SCHEMA_ANNOTATION};
use vidra_core::{
    mutants::{self, Mutant},
    unseen,
};

use super::ending::KINDS;
use crate::member::error::{CallError, Class};

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
    /// A CRD cannot be read.
    #[error("cannot read the CustomResourceDefinition {crd}: {source}; try again when the hub's API answers")]
    Call {
        /// The CRD's name.
        crd: String,
        /// What failed.
        source: Box<CallError>,
    },
}

/// Looks at the annotation of each CRD. One that may not be read is taken for good.
///
/// # Errors
/// One is too old, or the API server does not answer.
pub async fn check(client: &Client) -> Result<(), SchemaError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in KINDS {
        let crd = format!("{kind}.{}", vidra_api::GROUP);
        let read = match api.get_metadata(&crd).await.map_err(CallError::from) {
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
    }
    Ok(())
}

/// A schema with this number knows all that this version writes.
fn is_known(has: Option<&String>) -> bool {
    has.and_then(|has| has.parse::<u32>().ok()).is_some_and(|has| has >= SCHEMA)
}
