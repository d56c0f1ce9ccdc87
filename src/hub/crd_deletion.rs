//! Our own CustomResourceDefinitions on their way out: deleting one deletes every object of its kind, and that is
//! nobody's wish for what those objects stand for in the members.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt};
use vidra_api::labels::{APPROVE_ORPHANING, APPROVE_REMOVAL};

use super::api::HubApi;
use crate::base::error::{CallError, Class};

/// The plurals of the hub's own kinds.
pub(super) const KINDS: [&str; 4] = ["vidraresources", "vidratargets", "vidrainventories", "memberclusters"];

/// Whether the hub is being uninstalled under its feet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No CRD of ours is being deleted.
    No,
    /// This one is, and nobody said what is to become of the members: nothing.
    Held(String),
    /// One is, and a person said that the members are to be left alone.
    Orphan,
    /// The hub may not read this one, so it cannot tell: a sentence. It goes on as if none were being deleted.
    Unseen(String),
}

/// Looks at the CRDs.
pub async fn look(api: &HubApi) -> Result<Ending, CallError> {
    let crds: Api<CustomResourceDefinition> = Api::all(api.client.clone());
    for kind in KINDS {
        let name = format!("{kind}.{}", vidra_api::GROUP);
        let crd = match api.call("get", crds.get_metadata(&name)).await {
            Ok(crd) => Some(crd),
            Err(error) if error.is_gone_of::<CustomResourceDefinition>(&name) => None,
            Err(error) if error.class == Class::Forbidden => {
                let why = format!(
                    "the hub may not read the CustomResourceDefinition {name} ({error}): while it is being deleted, every object of its kind that goes with it counts as deleted by a person, and what it stands for is removed in the members; grant the hub get on it"
                );
                tracing::warn!("{why}");
                return Ok(Ending::Unseen(why));
            }
            Err(error) => return Err(error),
        };
        if let Some(crd) = crd.filter(|crd| crd.metadata.deletion_timestamp.is_some()) {
            let approved =
                crd.annotations().get(APPROVE_REMOVAL).is_some_and(|word| word == APPROVE_ORPHANING);
            return Ok(if approved { Ending::Orphan } else { Ending::Held(name) });
        }
    }
    Ok(Ending::No)
}
