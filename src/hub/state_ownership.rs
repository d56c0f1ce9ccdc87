//! The check at the start: what a hub keeps for itself in its own cluster bears its id: VidraTargets, VidraInventories, and the MemberClusters
//! that it makes for registrations. A hub that is another one than they say would take what was delivered for somebody
//! else's: it does not start, unless a person says so.

use std::{collections::BTreeMap, fmt::Debug};

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::{PartialObjectMeta, Request},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use vidra_api::{
    MemberCluster, VidraInventory, VidraTarget,
    labels::{HUB_LABEL, IDENTITY_SECRET, REGISTRATION},
    names::HubId,
};

use crate::{base::error::CallError, config::Inherit};

/// Objects in a page.
const PAGE: u32 = 500;

/// Why the hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The state of a hub is there, and its identity is not.
    #[error(
        "IdentityMissing: {found} is there, and Secret {namespace}/{IDENTITY_SECRET} of the hub that made it is not. If that hub runs in another namespace, correct --namespace. Otherwise restore the Secret from a backup; if it is lost, start with --new-identity{keep}"
    )]
    IdentityMissing {
        /// The hub's namespace.
        namespace: String,
        /// An object.
        found: String,
        /// How the id is kept that the objects in members bear.
        keep: String,
    },
    /// The state of another hub is there.
    #[error(
        "{found} is of the hub {other}, and this is the hub {ours}. Restore Secret {namespace}/{IDENTITY_SECRET} of {other}; or start with --adopt-hub-state, and see vidra.dev/take-over-from for what {other} has delivered{unless}"
    )]
    OfAnotherHub {
        /// The hub's namespace.
        namespace: String,
        /// An object.
        found: String,
        /// Whose it is.
        other: String,
        /// This hub's id.
        ours: HubId,
        /// What else it may be.
        unless: String,
    },
    /// A kind cannot be listed, or an object not be written.
    #[error("cannot look whose {kind} objects are: {source}")]
    Call {
        /// The kind.
        kind: &'static str,
        /// What failed.
        source: CallError,
    },
}

/// An object that a hub made.
struct Found {
    namespace: Option<String>,
    name: String,
    /// The hub, where it says.
    hub: Option<String>,
}

/// The first objects of a kind that a hub made and that a selector chooses, as many as this.
async fn list_made_by_hub<K>(client: &Client, selector: &str, most: usize) -> Result<Vec<Found>, StateError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Made,
{
    let api: Api<K> = Api::all(client.clone());
    let mut params =
        ListParams::default().labels(selector).limit(PAGE.min(u32::try_from(most).unwrap_or(PAGE)));
    let mut all = Vec::new();
    loop {
        let page = api.list_metadata(&params).await.map_err(list_error::<K>)?;
        let made =
            page.items.iter().filter(|object| K::IS_HUBS || object.annotations().contains_key(REGISTRATION));
        all.extend(made.map(|object| Found {
            namespace: object.namespace(),
            name: object.name_any(),
            hub: object.labels().get(HUB_LABEL).cloned(),
        }));
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() && all.len() < most => params = params.continue_token(&next),
            _ => return Ok(all),
        }
    }
}

/// Whether all objects of a kind are made by hubs.
trait Made {
    /// The kind.
    const KIND: &'static str;
    /// Else only what bears the mark of a registration.
    const IS_HUBS: bool;
}

impl Made for VidraTarget {
    const KIND: &'static str = "VidraTarget";
    const IS_HUBS: bool = true;
}

impl Made for VidraInventory {
    const KIND: &'static str = "VidraInventory";
    const IS_HUBS: bool = true;
}

impl Made for MemberCluster {
    const KIND: &'static str = "MemberCluster";
    const IS_HUBS: bool = false;
}

fn list_error<K: Made>(error: kube::Error) -> StateError {
    StateError::Call { kind: K::KIND, source: error.into() }
}

/// The first object that a hub made and that a selector chooses, in words.
async fn find_first(client: &Client, selector: &str) -> Result<Option<(String, Found)>, StateError> {
    async fn find_first_of<K>(client: &Client, selector: &str) -> Result<Option<(String, Found)>, StateError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Made,
    {
        let found = list_made_by_hub::<K>(client, selector, 1).await?.into_iter().next();
        Ok(found.map(|found| {
            let place = found.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            (format!("{} {place}{}", K::KIND, found.name), found)
        }))
    }
    if let Some(found) = find_first_of::<VidraTarget>(client, selector).await? {
        return Ok(Some(found));
    }
    if let Some(found) = find_first_of::<VidraInventory>(client, selector).await? {
        return Ok(Some(found));
    }
    find_first_of::<MemberCluster>(client, selector).await
}

/// The labels of what this hub keeps for itself.
pub fn hub_labels(hub: &HubId) -> BTreeMap<String, String> {
    BTreeMap::from([(HUB_LABEL.to_owned(), hub.to_string())])
}

/// These labels say that the object is this hub's.
pub fn is_labelled_ours(labels: &BTreeMap<String, String>, hub: &HubId) -> bool {
    labels.get(HUB_LABEL).is_some_and(|of| of == hub.as_str())
}

/// Nothing is there that a hub has made: a new identity harms nobody.
///
/// # Errors
/// [`StateError::IdentityMissing`]: something is.
pub async fn ensure_none(client: &Client, namespace: &str) -> Result<(), StateError> {
    let Some((found, object)) = find_first(client, "").await? else { return Ok(()) };
    let keep = match object.hub {
        Some(hub) => format!(" --hub-id {hub}, which is the id that the delivered objects bear"),
        None => String::new(),
    };
    Err(StateError::IdentityMissing { namespace: namespace.to_owned(), found, keep })
}

/// All that is there is this hub's, or becomes so.
///
/// # Errors
/// It is another's and nobody said that it may be taken over, or it could not be.
pub async fn ensure_ours(
    client: &Client,
    namespace: &str,
    ours: &HubId,
    inherit: Inherit,
) -> Result<(), StateError> {
    let others = format!("{HUB_LABEL},{HUB_LABEL}!={ours}");
    if inherit == Inherit::Refuse {
        return match find_first(client, &others).await? {
            None => Ok(()),
            Some((found, object)) => Err(StateError::OfAnotherHub {
                namespace: namespace.to_owned(),
                // People and registration Secrets may label it, too.
                unless: match object.namespace {
                    None => format!(
                        ". If no hub wrote that label, take it off: kubectl label membercluster {} {HUB_LABEL}-",
                        object.name
                    ),
                    Some(_) => String::new(),
                },
                found,
                other: object.hub.unwrap_or_default(),
                ours: ours.clone(),
            }),
        };
    }
    take_over::<VidraTarget>(client, &others, ours).await?;
    take_over::<VidraInventory>(client, &others, ours).await?;
    take_over::<MemberCluster>(client, &others, ours).await
}

/// Takes over what others have left of a kind. Cut off in the middle, it goes on at the next start.
async fn take_over<K>(client: &Client, others: &str, ours: &HubId) -> Result<(), StateError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Made,
{
    let all = list_made_by_hub::<K>(client, others, usize::MAX).await?;
    if let Some(first) = all.first() {
        tracing::warn!(
            kind = K::KIND,
            objects = all.len(),
            from = first.hub,
            "the hub takes over the state of another hub"
        );
    }
    for object in all {
        let body = json!({"metadata": {"labels": hub_labels(ours)}});
        let request = Request::new(K::url_path(&(), object.namespace.as_deref()))
            .patch(&object.name, &PatchParams::default(), &Patch::Merge(&body))
            .map_err(|error| list_error::<K>(kube::Error::BuildRequest(error)))?;
        match client.request::<PartialObjectMeta<K>>(request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "NotFound" => {}
            Err(error) => return Err(list_error::<K>(error)),
        }
    }
    Ok(())
}
