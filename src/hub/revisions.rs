//! Revisions: what a VidraResource's manifest said at one time, immutable, kept in a Secret as Helm keeps
//! its releases, and in memory parsed and rendered once for all members on which it comes out alike.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use vidra_api::{
    Override, OverrideInputs, VidraResource, labels::REVISION_SECRET_TYPE, names::revision_secret_name,
};
use vidra_core::{
    manifest::{self, ManifestError, ManifestObject},
    object::{Gvk, Scope},
    overrides::{Effective, InvalidOverride, Overrides},
    render::{self, Changes, DeclaredHash, HashKey, RenderError},
};

use super::api::{HubApi, REVISION_LABEL};
use crate::{desired::Desired, member::error::CallError, queue::ResourceKey};

const PAYLOAD: &str = "revision.json.zst";
/// A Secret holds 1 MiB; the rest is room for its metadata.
const PAYLOAD_MAX: usize = 1_000_000;
const UNPACKED_MAX: usize = 32 << 20;

/// Why a revision could not be made or had.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// The manifest does not parse.
    #[error("{0}")]
    Parse(#[from] ManifestError),
    /// An override is wrong, whatever the cluster.
    #[error("{0}")]
    Overrides(#[from] InvalidOverride),
    /// The manifest holds no object.
    #[error(
        "the manifest holds no object; write one, or delete the VidraResource to remove what it delivered"
    )]
    Empty,
    /// The manifest is too large for one Secret.
    #[error(
        "the manifest is too large: {0} bytes compressed, at most {PAYLOAD_MAX}; split it into several VidraResources"
    )]
    TooLarge(usize),
    /// The Secret could not be read or written.
    #[error("the revision's Secret {name}: {source}")]
    Call {
        /// The Secret's name.
        name: String,
        /// What failed.
        source: CallError,
    },
    /// The Secret does not hold a revision.
    #[error(
        "the revision's Secret {name} cannot be read ({why}); delete it and edit the VidraResource, and it is made again"
    )]
    Damaged {
        /// The Secret's name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The same object twice, once namespaces are filled in, or an override that a cluster cannot have.
    #[error("{0}")]
    Render(#[from] RenderError),
}

impl RevisionError {
    /// Why a VidraResource has no revision, in one CamelCase word.
    pub fn invalid(&self) -> &'static str {
        match self {
            Self::Overrides(_) => "OverridesInvalid",
            _ => "ManifestInvalid",
        }
    }

    /// Why a target has nothing to deliver, in one CamelCase word.
    pub fn unavailable(&self) -> &'static str {
        match self {
            Self::Render(RenderError::Override(_)) => "OverrideFailed",
            _ => "RevisionUnavailable",
        }
    }
}

/// What a revision holds: all that shapes what is rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The manifest's text.
    pub manifest: String,
    /// Whether missing namespaces are made.
    pub create_namespaces: bool,
    /// What differs from cluster to cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// A revision, parsed.
pub struct Parsed {
    /// Its name.
    pub name: String,
    /// Whether missing namespaces are made.
    pub create_namespaces: bool,
    /// What differs from cluster to cluster.
    pub overrides: Overrides,
    /// The objects, in the order of writing.
    pub objects: Vec<ManifestObject>,
}

/// See the module.
pub struct Revisions {
    key: HashKey,
    parsed: Mutex<BTreeMap<(ResourceKey, String), Arc<Parsed>>>,
    rendered: Mutex<BTreeMap<(ResourceKey, String), Vec<Rendering>>>,
}

struct Rendering {
    namespace: String,
    scopes: Vec<Option<Scope>>,
    effective: Effective,
    desired: Arc<Desired>,
}

impl Revisions {
    /// Revisions named and hashed with this key.
    pub fn new(key: HashKey) -> Self {
        Self { key, parsed: Mutex::default(), rendered: Mutex::default() }
    }

    /// Parses what a VidraResource declares now.
    pub fn parse(&self, resource: &VidraResource) -> Result<(Content, Arc<Parsed>), RevisionError> {
        let content = Content {
            manifest: resource.spec.manifest.clone().unwrap_or_default(),
            create_namespaces: resource.spec.create_namespaces,
            overrides: resource.spec.overrides.clone(),
        };
        let parsed = self.parsed_from(&resource_key(resource), &content)?;
        if parsed.objects.is_empty() {
            return Err(RevisionError::Empty);
        }
        Ok((content, parsed))
    }

    fn parsed_from(&self, key: &ResourceKey, content: &Content) -> Result<Arc<Parsed>, RevisionError> {
        let flag = if content.create_namespaces { "createNamespaces" } else { "" };
        let mut parts = vec![content.manifest.clone(), flag.to_owned()];
        if !content.overrides.is_empty() {
            // By hash, and not by text: the order of the fields in a patch says nothing.
            let value = serde_json::to_value(&content.overrides).unwrap_or_default();
            parts.push(DeclaredHash::of(&value, &self.key).to_string());
        }
        let name = render::revision_of(parts, &self.key);
        let slot = (key.clone(), name.clone());
        if let Some(parsed) = self.parsed.lock().get(&slot) {
            return Ok(parsed.clone());
        }
        let objects = manifest::parse(&content.manifest)?;
        let overrides = Overrides::compile(&content.overrides)?;
        let create_namespaces = content.create_namespaces;
        let parsed = Arc::new(Parsed { name, create_namespaces, overrides, objects });
        self.parsed.lock().insert(slot, parsed.clone());
        Ok(parsed)
    }

    /// The Secret that keeps a revision.
    pub fn secret(
        &self,
        resource: &VidraResource,
        owner: &str,
        content: &Content,
        name: &str,
    ) -> Result<Secret, RevisionError> {
        let damaged = |why: String| RevisionError::Damaged { name: name.to_owned(), why };
        let json = serde_json::to_vec(content).map_err(|error| damaged(error.to_string()))?;
        let packed = zstd::encode_all(json.as_slice(), 9).map_err(|error| damaged(error.to_string()))?;
        if packed.len() > PAYLOAD_MAX {
            return Err(RevisionError::TooLarge(packed.len()));
        }
        let mut secret = Secret {
            type_: Some(REVISION_SECRET_TYPE.to_owned()),
            immutable: Some(true),
            data: Some(BTreeMap::from([(PAYLOAD.to_owned(), ByteString(packed))])),
            ..Secret::default()
        };
        secret.metadata.name = Some(revision_secret_name(&resource.name_any(), name));
        secret.metadata.namespace = resource.namespace();
        secret.metadata.labels = Some(BTreeMap::from([(REVISION_LABEL.to_owned(), owner.to_owned())]));
        secret.metadata.owner_references =
            resource.controller_owner_ref(&()).map(|reference| vec![reference]);
        Ok(secret)
    }

    /// A revision by name: from memory, else from its Secret.
    pub async fn get(
        &self,
        api: &HubApi,
        key: &ResourceKey,
        name: &str,
    ) -> Result<Arc<Parsed>, RevisionError> {
        if let Some(parsed) = self.parsed.lock().get(&(key.clone(), name.to_owned())) {
            return Ok(parsed.clone());
        }
        let secret_name = revision_secret_name(&key.name, name);
        let secrets: Api<Secret> = Api::namespaced(api.client.clone(), &key.namespace);
        let secret = api
            .call("get", secrets.get(&secret_name))
            .await
            .map_err(|source| RevisionError::Call { name: secret_name.clone(), source })?;
        let content =
            unpack(secret).map_err(|why| RevisionError::Damaged { name: secret_name.clone(), why })?;
        let parsed = self.parsed_from(key, &content)?;
        if parsed.name != name {
            return Err(RevisionError::Damaged {
                name: secret_name,
                why: "its content has another hash".into(),
            });
        }
        Ok(parsed)
    }

    /// Renders a revision for a member: by the scopes that the member gives its kinds, and by what its
    /// overrides use of it.
    pub fn render(
        &self,
        key: &ResourceKey,
        parsed: &Parsed,
        namespace: &str,
        scope_of: &dyn Fn(&Gvk) -> Option<Scope>,
        (cluster, inputs): (&str, Option<&OverrideInputs>),
    ) -> Result<Arc<Desired>, RevisionError> {
        let scopes: Vec<_> = parsed.objects.iter().map(|object| scope_of(&object.gvk)).collect();
        let effective = parsed.overrides.effective(cluster, inputs);
        let mut rendered = self.rendered.lock();
        let held = rendered.entry((key.clone(), parsed.name.clone())).or_default();
        let find = |held: &[Rendering], effective: &Effective| {
            let same = |one: &&Rendering| {
                one.namespace == namespace && one.effective == *effective && one.scopes == scopes
            };
            held.iter().find(same).map(|one| one.desired.clone())
        };
        if let Some(found) = find(held, &effective) {
            return Ok(found);
        }
        let changes = Changes { overrides: &parsed.overrides, effective: &effective, cluster };
        let changes = (effective != Effective::default()).then_some(changes);
        let objects = &parsed.objects;
        let mut desired: Desired =
            render::render_with(objects, scope_of, namespace, &self.key, changes)?.into();
        if changes.is_some() {
            if let Some(plain) =
                find(held, &Effective::default()).or_else(|| held.first().map(|one| one.desired.clone()))
            {
                desired.share(&plain);
            }
            // What an earlier label of a cluster led to, and no member has any more.
            held.retain(|one| one.effective == Effective::default() || Arc::strong_count(&one.desired) > 1);
        }
        let desired = Arc::new(desired);
        held.push(Rendering { namespace: namespace.to_owned(), scopes, effective, desired: desired.clone() });
        Ok(desired)
    }

    /// Keeps in memory only the named revisions of a resource.
    pub fn keep(&self, key: &ResourceKey, names: &std::collections::BTreeSet<String>) {
        self.parsed.lock().retain(|(of, name), _| of != key || names.contains(name));
        self.rendered.lock().retain(|(of, name), _| of != key || names.contains(name));
    }
}

/// The queue key of a VidraResource.
pub fn resource_key(resource: &VidraResource) -> ResourceKey {
    ResourceKey::new(&resource.namespace().unwrap_or_default(), &resource.name_any())
}

fn unpack(secret: Secret) -> Result<Content, String> {
    let data = secret.data.unwrap_or_default();
    let packed = data.get(PAYLOAD).ok_or("it has no payload")?;
    let json = zstd::bulk::decompress(&packed.0, UNPACKED_MAX).map_err(|error| error.to_string())?;
    // serde's words could quote the content.
    serde_json::from_slice(&json).map_err(|_| "its payload is no revision".to_owned())
}

#[cfg(test)]
mod tests;
