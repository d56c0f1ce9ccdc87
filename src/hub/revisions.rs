//! Revisions: what a VidraResource delivers, as its manifests said at one time, immutable, kept in a Secret as
//! Helm keeps its releases (`secret`), and in memory parsed and rendered once for all members on which it comes
//! out alike.

mod secret;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vidra_api::{VidraResource, names::revision_secret_name};
use vidra_core::{
    manifest::{ManifestError, ManifestObject, Reader},
    object::{Gvk, Scope},
    render::{self, DeclaredHash, HashKey, RenderError},
};

use super::{
    api::HubApi,
    sources::{Source, SourceError},
};
use crate::{desired::Desired, member::error::CallError, queue::ResourceKey};

/// Why a revision could not be made or had.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// A source of manifests cannot be read.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// The manifest does not parse.
    #[error("{0}")]
    Parse(#[from] ManifestError),
    /// The manifest holds no object.
    #[error(
        "the manifest holds no object; write one, or delete the VidraResource to remove what it delivered"
    )]
    Empty,
    /// The manifest is too large to be kept.
    #[error("the manifest is too large: {0} bytes compressed; split it into several VidraResources")]
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
    /// The same object twice, once namespaces are filled in.
    #[error("{0}")]
    Render(#[from] RenderError),
}

impl RevisionError {
    /// Why a VidraResource has no revision, in one CamelCase word.
    pub fn invalid(&self) -> &'static str {
        match self {
            Self::Source(error) => error.reason(),
            _ => "ManifestInvalid",
        }
    }
}

/// What a revision holds: all that shapes what is rendered, objects in the order of its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The text of `spec.manifest`.
    pub manifest: String,
    /// `spec.manifests`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Value>,
    /// What the sources of `spec.manifestsFrom` said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// Whether missing namespaces are made.
    pub create_namespaces: bool,
}

impl Content {
    /// The revision's name. Parts are added for what is there only, so that a revision that was made before a
    /// field existed keeps its name.
    fn revision(&self, key: &HashKey) -> String {
        let flag = if self.create_namespaces { "createNamespaces" } else { "" };
        let mut parts = vec![self.manifest.clone(), flag.to_owned()];
        for value in &self.manifests {
            parts.extend(["manifests".to_owned(), DeclaredHash::of(value, key).to_string()]);
        }
        for source in &self.sources {
            parts.extend(["source".to_owned(), source.name.clone(), source.text.clone()]);
        }
        render::revision_of(parts, key)
    }

    fn objects(&self) -> Result<Vec<ManifestObject>, ManifestError> {
        let mut reader = Reader::default();
        reader.read_text(Some(&"spec.manifest".into()), &self.manifest)?;
        let inline = Arc::from("spec.manifests");
        for (index, value) in self.manifests.iter().enumerate() {
            reader.read_value(Some(&inline), index + 1, value.clone())?;
        }
        for source in &self.sources {
            reader.read_text(Some(&source.name.as_str().into()), &source.text)?;
        }
        Ok(reader.finish())
    }
}

/// A revision, parsed.
pub struct Parsed {
    /// Its name.
    pub name: String,
    /// Whether missing namespaces are made.
    pub create_namespaces: bool,
    objects: Vec<ManifestObject>,
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
    desired: Arc<Desired>,
}

impl Revisions {
    /// Revisions named and hashed with this key.
    pub fn new(key: HashKey) -> Self {
        Self { key, parsed: Mutex::default(), rendered: Mutex::default() }
    }

    /// Parses what a VidraResource declares now, with what its sources said.
    pub fn parse(
        &self,
        resource: &VidraResource,
        sources: Vec<Source>,
    ) -> Result<(Content, Arc<Parsed>), RevisionError> {
        let content = Content {
            manifest: resource.spec.manifest.clone().unwrap_or_default(),
            manifests: resource.spec.manifests.clone(),
            sources,
            create_namespaces: resource.spec.create_namespaces,
        };
        let parsed = self.parsed_from(&resource_key(resource), &content)?;
        if parsed.objects.is_empty() {
            return Err(RevisionError::Empty);
        }
        Ok((content, parsed))
    }

    fn parsed_from(&self, key: &ResourceKey, content: &Content) -> Result<Arc<Parsed>, RevisionError> {
        let name = content.revision(&self.key);
        let slot = (key.clone(), name.clone());
        if let Some(parsed) = self.parsed.lock().get(&slot) {
            return Ok(parsed.clone());
        }
        let objects = content.objects()?;
        let parsed = Arc::new(Parsed { name, create_namespaces: content.create_namespaces, objects });
        self.parsed.lock().insert(slot, parsed.clone());
        Ok(parsed)
    }

    /// The Secrets that keep a revision, in the order in which they are to be written.
    pub fn secrets(
        &self,
        resource: &VidraResource,
        owner: &str,
        content: &Content,
        name: &str,
    ) -> Result<Vec<Secret>, RevisionError> {
        secret::pack(resource, owner, content, name)
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
        let content = secret::fetch(api, key, name).await?;
        let parsed = self.parsed_from(key, &content)?;
        if parsed.name != name {
            return Err(RevisionError::Damaged {
                name: revision_secret_name(&key.name, name),
                why: "its content has another hash".into(),
            });
        }
        Ok(parsed)
    }

    /// Renders a revision for a member: by the scopes that the member gives its kinds.
    pub fn render(
        &self,
        key: &ResourceKey,
        parsed: &Parsed,
        namespace: &str,
        scope_of: &dyn Fn(&Gvk) -> Option<Scope>,
    ) -> Result<Arc<Desired>, RevisionError> {
        let scopes: Vec<_> = parsed.objects.iter().map(|object| scope_of(&object.gvk)).collect();
        let slot = (key.clone(), parsed.name.clone());
        let mut rendered = self.rendered.lock();
        let held = rendered.entry(slot).or_default();
        if let Some(found) = held.iter().find(|one| one.namespace == namespace && one.scopes == scopes) {
            return Ok(found.desired.clone());
        }
        let desired: Arc<Desired> =
            Arc::new(render::render(&parsed.objects, scope_of, namespace, &self.key)?.into());
        held.push(Rendering { namespace: namespace.to_owned(), scopes, desired: desired.clone() });
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn content(manifest: &str) -> Content {
        Content {
            manifest: manifest.into(),
            manifests: Vec::new(),
            sources: Vec::new(),
            create_namespaces: true,
        }
    }

    fn source(name: &str, text: &str) -> Source {
        Source { name: name.into(), text: text.into() }
    }

    #[test]
    fn what_has_only_a_manifest_keeps_the_name_of_its_revision_and_all_else_changes_it() {
        let key = HashKey::new([7; 32]);
        let plain = content("a: 1");
        assert_eq!(plain.revision(&key), render::revision_of(["a: 1", "createNamespaces"], &key));
        let object = json!({"kind": "ConfigMap", "x": [1, null]});
        let all = [
            plain.clone(),
            Content { create_namespaces: false, ..plain.clone() },
            Content { manifests: vec![object.clone()], ..plain.clone() },
            Content { manifests: vec![object.clone(), object.clone()], ..plain.clone() },
            Content { sources: vec![source("a", "b")], ..plain.clone() },
            Content { sources: vec![source("a", "c")], ..plain.clone() },
            Content { manifests: vec![object], sources: vec![source("a", "b")], ..plain.clone() },
            content("a: 2"),
        ];
        let names: std::collections::BTreeSet<_> = all.iter().map(|one| one.revision(&key)).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn objects_come_in_the_order_of_the_fields_and_know_their_place() {
        let object =
            |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let all = Content {
            manifest: object("one").to_string(),
            manifests: vec![object("two"), object("three")],
            sources: vec![source("Secret s, key k", &format!("---\n---\n{}", object("four")))],
            create_namespaces: true,
        };
        let objects = all.objects().unwrap();
        let found: Vec<_> = objects.iter().map(|one| format!("{}: {}", one.name, one.place)).collect();
        assert_eq!(
            found,
            [
                "one: spec.manifest, document 1 (line 1)",
                "two: spec.manifests, document 1",
                "three: spec.manifests, document 2",
                "four: Secret s, key k, document 2 (line 3)",
            ]
        );
    }
}
