//! Who this hub is: the id in its field managers and labels, and the key of its hashes. Made once, kept in
//! a Secret, so that a hub rebuilt from Git knows its objects again.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{Api, Client, api::PostParams};
use vidra_api::{
    labels::IDENTITY_SECRET,
    names::{HubId, NameError},
};
use vidra_core::render::HashKey;

use super::state_ownership::{self, StateError};
use crate::{
    base::env::{Rng, SecretError},
    config::{Inherit, Settings},
};

const HUB_ID: &str = "hubId";
const HASH_KEY: &str = "hashKey";

/// This hub's identity.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The id.
    pub hub: HubId,
    /// The key of declared objects' and revisions' hashes.
    pub key: HashKey,
    /// The uid of the Namespace kube-system, by which clusters are known; `None`: the hub cannot read it.
    pub cluster: Option<String>,
}

/// Why the identity could not be had.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Reading the Secret failed.
    #[error(
        "cannot read Secret {namespace}/{IDENTITY_SECRET}: {source}; grant the hub get and create on Secrets there"
    )]
    Read {
        /// The hub's namespace.
        namespace: String,
        /// What failed.
        source: Box<kube::Error>,
    },
    /// Making the Secret failed.
    #[error("cannot create Secret {namespace}/{IDENTITY_SECRET}: {source}; does the namespace exist?")]
    Create {
        /// The hub's namespace.
        namespace: String,
        /// What failed.
        source: Box<kube::Error>,
    },
    /// The Secret does not hold an identity.
    #[error(
        "Secret {IDENTITY_SECRET} holds no valid {field}; restore it from a backup, for a new one would not know the hub's objects"
    )]
    Content {
        /// Which key.
        field: &'static str,
    },
    /// The key of its hashes cannot be made.
    #[error("the hub's secret key cannot be made: {0}")]
    Secret(#[from] SecretError),
    /// Reading the Namespace by which its cluster is known failed.
    #[error("cannot read the Namespace kube-system of the hub's cluster: {0}")]
    Cluster(Box<kube::Error>),
    /// It is not that of the hub whose state is there.
    #[error(transparent)]
    State(#[from] StateError),
    /// The id given at install is not valid.
    #[error("the hub id is not valid: {0}")]
    HubId(#[from] NameError),
}

/// Reads the identity, or makes it with the id that the settings want (else a random one). What the hub keeps in its
/// cluster is of that id then.
///
/// # Errors
/// It cannot be had, or what is there is another hub's.
pub async fn ensure(client: &Client, settings: &Settings, rng: &dyn Rng) -> Result<Identity, IdentityError> {
    let mut identity = read_or_make(client, settings, rng).await?;
    identity.cluster = cluster(client).await?;
    state_ownership::ensure_ours(client, &settings.namespace, &identity.hub, settings.inherit).await?;
    Ok(identity)
}

/// Which cluster the hub is in.
async fn cluster(client: &Client) -> Result<Option<String>, IdentityError> {
    match Api::<Namespace>::all(client.clone()).get("kube-system").await {
        Ok(namespace) => Ok(namespace.metadata.uid),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
            tracing::warn!(
                "the hub cannot read the Namespace kube-system of its own cluster, so it cannot tell whether a member is \
                 that cluster, whose namespace of the hub nothing is delivered into; grant it get"
            );
            Ok(None)
        }
        Err(error) => Err(IdentityError::Cluster(Box::new(error))),
    }
}

async fn read_or_make(
    client: &Client,
    settings: &Settings,
    rng: &dyn Rng,
) -> Result<Identity, IdentityError> {
    let namespace = settings.namespace.as_str();
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let read = |source| IdentityError::Read { namespace: namespace.to_owned(), source: Box::new(source) };
    match api.get(IDENTITY_SECRET).await {
        Ok(secret) => return parse(secret),
        // A gateway's page with that code says nothing of it.
        Err(kube::Error::Api(status)) if status.reason == "NotFound" => {}
        Err(error) => return Err(read(error)),
    }
    if settings.inherit != Inherit::NewIdentity {
        state_ownership::ensure_none(client, namespace).await?;
    }
    let id = match &settings.hub_id {
        Some(id) => id.clone(),
        None => format!("h{}", rng.name(5)?),
    };
    HubId::try_from(id.as_str())?;
    let key = rng.secret()?.to_vec();
    let mut secret = Secret::default();
    secret.metadata.name = Some(IDENTITY_SECRET.to_owned());
    secret.data = Some(BTreeMap::from([
        (HUB_ID.to_owned(), ByteString(id.into_bytes())),
        (HASH_KEY.to_owned(), ByteString(key)),
    ]));
    match api.create(&PostParams::default(), &secret).await {
        Ok(made) => parse(made),
        // Another process was first: its word counts.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            parse(api.get(IDENTITY_SECRET).await.map_err(read)?)
        }
        Err(source) => {
            Err(IdentityError::Create { namespace: namespace.to_owned(), source: Box::new(source) })
        }
    }
}

fn parse(secret: Secret) -> Result<Identity, IdentityError> {
    let data = secret.data.unwrap_or_default();
    let field = |name: &'static str| data.get(name).ok_or(IdentityError::Content { field: name });
    let id = std::str::from_utf8(&field(HUB_ID)?.0).map_err(|_| IdentityError::Content { field: HUB_ID })?;
    let key: [u8; 32] =
        field(HASH_KEY)?.0.as_slice().try_into().map_err(|_| IdentityError::Content { field: HASH_KEY })?;
    let hub = HubId::try_from(id.trim()).map_err(|_| IdentityError::Content { field: HUB_ID })?;
    Ok(Identity { hub, key: HashKey::new(key), cluster: None })
}
