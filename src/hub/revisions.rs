//! Revisions: what a VidraResource delivers, as its manifests said at one time, immutable, kept in a Secret as
//! Helm keeps its releases (`secret`), and in memory parsed and rendered once for all members on which it comes
//! out alike.

mod secret;
mod turns;

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vidra_api::{Override, OverrideInputs, Raw, VidraResource, names::revision_secret_name};
use vidra_core::{
    annotations,
    manifest::{self, ManifestError, ManifestObject, Reader},
    mutants::{self, Mutant},
    object::{Gvk, Scope},
    overrides::{Effective, InvalidOverride, Overrides},
    render::{self, Changes, DeclaredHash, HashKey, RenderError},
    status::Reason,
    weight,
};

use self::turns::Turns;
use super::{
    api::HubApi,
    sources::{Source, SourceError},
};
use crate::{
    base::{error::CallError, interner::Interned},
    config::dynamic_settings::Bounds,
    desired::Desired,
    workqueue::ResourceKey,
};

/// Why a revision could not be made or had.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// A source of manifests cannot be read.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// The manifest does not parse.
    #[error("{0}")]
    Parse(#[from] ManifestError),
    /// An override is wrong, whatever the cluster.
    #[error("{0}")]
    Overrides(#[from] InvalidOverride),
    /// A Secret stands in the VidraResource itself, and may not.
    #[error(
        "{0} is a Secret, which may not stand in a VidraResource here (setting allowInlineSecrets); put it into a Secret on the hub, and name that in spec.manifestsFrom"
    )]
    InlineSecret(String),
    /// The manifest is too large to be kept.
    #[error("the manifest is too large: {0} bytes compressed; split it into several VidraResources")]
    TooLarge(usize),
    /// The Secret could not be read or written.
    #[error(
        "the revision's Secret {name}: {source}; it is made again once what the VidraResource declares can be read, at a start of the hub at the latest"
    )]
    Call {
        /// The Secret's name.
        name: String,
        /// What failed.
        source: CallError,
    },
    /// The hub's API does not take the Secret: a quota, or a policy.
    #[error(
        "the hub's API refuses the revision's Secret {name}: {source}; lift the quota, grant the right that is missing, or change the policy that refuses it"
    )]
    Refused {
        /// The Secret's name.
        name: String,
        /// The refusal.
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
    /// An object that is declared twice, once namespaces are filled in, or an override that a cluster cannot have.
    #[error("{0}")]
    Render(#[from] RenderError),
    /// What the VidraResources of a namespace render to takes too much memory together.
    #[error(
        "what is declared does not fit as it comes out on cluster {cluster}: all VidraResources of namespace {namespace} may take {most} MiB of the hub's memory together, with what overrides and namespaces make different (setting namespaceMaxBytes); change fewer objects, declare less in that namespace, or raise the setting"
    )]
    TooMany {
        /// The first cluster for which there is no room.
        cluster: String,
        /// The namespace on the hub.
        namespace: String,
        /// The bound, in MiB.
        most: usize,
    },
    /// There is no room for it beside what the namespace's other VidraResources have.
    #[error(
        "the VidraResources of namespace {namespace} declare too much together: {all} with this one, of {most} that the setting {setting} allows. What was delivered stays and is repaired. Declare less in this namespace, or raise the setting"
    )]
    NamespaceFull {
        /// The namespace on the hub.
        namespace: String,
        /// What it would be, in words.
        all: String,
        /// The bound.
        most: usize,
        /// The setting that says so.
        setting: &'static str,
    },
    /// There is no room for it beside what the VidraResources of all namespaces have.
    #[error(
        "the VidraResources of all namespaces would take {all} bytes of the hub's memory with this one, of {most} that the setting hubMaxBytes allows (by default half of the memory limit of the hub's Pod). What was delivered stays and is repaired. Declare less, or give the hub more memory, or raise the setting"
    )]
    HubFull {
        /// What it would be.
        all: usize,
        /// The bound.
        most: usize,
    },
}

impl RevisionError {
    /// Why a VidraResource has no revision.
    pub fn invalid(&self) -> Reason {
        match self {
            Self::Source(error) => error.reason(),
            Self::Overrides(_) => Reason::OverridesInvalid,
            Self::Refused { .. } => Reason::RevisionRefused,
            Self::NamespaceFull { .. } => Reason::NamespaceFull,
            Self::HubFull { .. } => Reason::HubFull,
            _ => Reason::ManifestInvalid,
        }
    }

    /// The VidraResource itself is too large, so that perhaps nothing can be written into it.
    pub fn is_inline_too_large(&self) -> bool {
        matches!(self, Self::Parse(ManifestError::InlineTooLarge { .. }))
    }

    /// There is no room for it: others may make some, and nothing tells when they have.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::NamespaceFull { .. } | Self::HubFull { .. })
    }

    /// Not what is declared keeps the revision from being made: a source may not be read, or its Secret not be written.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Source(SourceError::Forbidden { .. }) | Self::Refused { .. })
    }

    /// Why a target has nothing to deliver.
    pub fn unavailable(&self) -> Reason {
        match self {
            Self::Render(RenderError::Override(_)) | Self::TooMany { .. } => Reason::OverrideFailed,
            Self::HubFull { .. } => Reason::HubFull,
            _ => Reason::RevisionUnavailable,
        }
    }
}

/// What is longer than this, and what has overrides, may take much memory.
const LARGE: usize = 1 << 20;

/// What the objects of `spec.manifest` and `spec.manifests` are told to stand in.
const TEXT: &str = "spec.manifest";
const INLINE: &str = "spec.manifests";

/// What a revision holds: all that shapes what is rendered, objects in the order of its fields.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The text of `spec.manifest`.
    pub manifest: String,
    /// `spec.manifests`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Raw>,
    /// What the sources of `spec.manifestsFrom` said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// Whether missing namespaces are made.
    pub create_namespaces: bool,
    /// What differs from cluster to cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// Without what is declared, which may be a Secret.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, objects) = (self.manifest.len(), self.manifests.len());
        write!(f, "Content({text} bytes, {objects} objects, {:?})", self.sources)
    }
}

impl Content {
    /// The revision's name. Parts are added for what is there only, so that a revision that was made before a
    /// field existed keeps its name.
    fn revision(&self, inline: &[Value], key: &HashKey) -> String {
        let flag = if self.create_namespaces { "createNamespaces" } else { "" };
        let mut parts = vec![self.manifest.clone(), flag.to_owned()];
        for value in inline {
            parts.extend(["manifests".to_owned(), DeclaredHash::of(value, key).to_string()]);
        }
        for source in &self.sources {
            parts.extend(["source".to_owned(), source.name.clone(), source.text.clone()]);
        }
        if !self.overrides.is_empty() {
            // By hash, and not by text: the order of the fields in a patch says nothing.
            let value = serde_json::to_value(&self.overrides).unwrap_or_default();
            parts.extend(["overrides".to_owned(), DeclaredHash::of(&value, key).to_string()]);
        }
        render::revision_of(parts, key)
    }

    /// Bytes of all its texts.
    fn text(&self) -> usize {
        let objects = self.manifests.iter().map(|raw| raw.text().len());
        let sources = self.sources.iter().map(|source| source.text.len());
        self.manifest.len() + objects.chain(sources).sum::<usize>()
    }

    /// `spec.manifests`, read.
    fn inline(&self, reader: &mut Reader) -> Result<Vec<Value>, ManifestError> {
        let source = Arc::from(INLINE);
        let read = |(index, raw): (usize, &Raw)| reader.value(Some(&source), index + 1, raw.text());
        self.manifests.iter().enumerate().map(read).collect()
    }

    fn objects(&self, mut reader: Reader, inline: Vec<Value>) -> Result<Vec<ManifestObject>, ManifestError> {
        reader.read_text(Some(&TEXT.into()), &self.manifest)?;
        let source = Arc::from(INLINE);
        for (index, value) in inline.into_iter().enumerate() {
            reader.read_value(Some(&source), index + 1, value)?;
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
    /// What differs from cluster to cluster.
    pub overrides: Overrides,
    /// The objects, in the order of writing.
    pub objects: Vec<ManifestObject>,
    /// Bytes of the texts that they were read from.
    text: usize,
    /// What they take in memory.
    weight: usize,
}

impl Parsed {
    /// That it has no annotation of the hub's own that the hub does not know, nor do its overrides write one. What is
    /// delivered already is not asked this.
    pub fn check_annotations(&self) -> Result<(), RevisionError> {
        annotations::check(&self.objects)?;
        Ok(self.overrides.unknown_annotation().map_or(Ok(()), Err)?)
    }

    /// Where a Secret stands in the VidraResource itself, if one does.
    pub fn inline_secret(&self) -> Option<String> {
        let is_inline = |object: &&ManifestObject| {
            matches!(object.place.source.as_deref(), Some(TEXT | INLINE))
                && (&*object.gvk.group, &*object.gvk.kind) == ("", "Secret")
        };
        self.objects.iter().find(is_inline).map(|object| format!("{}: {:?}", object.place, object.name))
    }
}

/// Revisions, parsed and rendered.
pub struct Revisions {
    key: HashKey,
    interned: Arc<Interned>,
    /// Bytes of a revision in one Secret.
    part: usize,
    parsed: Mutex<BTreeMap<(ResourceKey, String), Arc<Parsed>>>,
    rendered: Mutex<BTreeMap<(ResourceKey, String), Renderings>>,
    turns: Turns,
}

impl Revisions {
    /// How many entries there are, by what they are of; for tests, which look that what is gone leaves none.
    pub fn entries(&self) -> [(&'static str, usize); 2] {
        [("parsed revisions", self.parsed.lock().len()), ("rendered revisions", self.rendered.lock().len())]
    }
}

/// Of one revision.
type Renderings = Arc<Mutex<Vec<Rendering>>>;

struct Rendering {
    namespace: String,
    scopes: Vec<Option<Scope>>,
    effective: Effective,
    desired: Arc<Desired>,
    /// What it takes that it does not share.
    weight: usize,
}

impl Rendering {
    /// It is what no override changes, for this namespace.
    fn is_plain(&self, namespace: &str) -> bool {
        self.effective == Effective::default() && self.namespace == namespace
    }
}

impl Revisions {
    /// Revisions named and hashed with this key.
    pub fn new(key: HashKey, interned: Arc<Interned>, part: usize) -> Self {
        let (parsed, rendered, turns) = (Mutex::default(), Mutex::default(), Turns::default());
        Self { key, interned, part, parsed, rendered, turns }
    }

    /// Parses what a VidraResource declares now, with what its sources said.
    pub async fn parse(
        &self,
        resource: &VidraResource,
        sources: Vec<Source>,
    ) -> Result<(Content, Arc<Parsed>), RevisionError> {
        let content = Content {
            manifest: resource.spec.manifest.clone().unwrap_or_default(),
            manifests: resource.spec.manifests.clone(),
            sources,
            create_namespaces: resource.spec.create_namespaces,
            overrides: resource.spec.overrides.clone(),
        };
        let key = resource_key(resource);
        let turn = self.turns.of(&key.namespace).await;
        let parsed = turn.run(|| {
            manifest::check_inline(&resource.spec)?;
            self.parsed_from(&key, &content)
        })?;
        if parsed.objects.is_empty() && !resource.spec.allow_empty {
            return Err(ManifestError::Empty.into());
        }
        Ok((content, parsed))
    }

    /// What is held already, or is to be.
    fn parsed_from(&self, key: &ResourceKey, content: &Content) -> Result<Arc<Parsed>, RevisionError> {
        let text = content.text();
        announce("read", key, text, !content.overrides.is_empty());
        // Before anything is made of them: nothing else bounds how deep they are.
        let mut reader = Reader::default();
        let inline = content.inline(&mut reader)?;
        let overrides = Overrides::compile(&content.overrides)?;
        let name = content.revision(&inline, &self.key);
        if let Some(parsed) = self.parsed.lock().get(&(key.clone(), name.clone())) {
            return Ok(parsed.clone());
        }
        let objects = content.objects(reader, inline)?;
        let create_namespaces = content.create_namespaces;
        let weight = objects.iter().map(|object| weight::of(&object.value)).sum();
        Ok(Arc::new(Parsed { name, create_namespaces, overrides, objects, text, weight }))
    }

    /// Holds a revision in memory: within these bounds, if there are any, beside what the namespace's other
    /// VidraResources have, and those of all namespaces.
    pub fn hold(
        &self,
        key: &ResourceKey,
        parsed: &Arc<Parsed>,
        bounds: Option<Bounds>,
    ) -> Result<(), RevisionError> {
        let mut all = self.parsed.lock();
        let others = all.iter().filter(|((of, _), _)| of.namespace == key.namespace && of != key);
        let (objects, bytes) = others
            .map(|(_, other)| other)
            .chain([parsed])
            .fold((0, 0), |(objects, bytes), one| (objects + one.objects.len(), bytes + one.weight));
        let whole = || {
            let others = all.iter().filter(|((of, _), _)| of != key).map(|(_, one)| one.weight);
            parsed.weight + others.sum::<usize>() + self.rendered_bytes(|of| of != key)
        };
        let own = || bytes + self.rendered_bytes(|of| of.namespace == key.namespace && of != key);
        let full = |all: String, most: usize, setting: &'static str| {
            Err(RevisionError::NamespaceFull { namespace: key.namespace.to_string(), all, most, setting })
        };
        match bounds {
            Some(bounds) if objects > bounds.objects => {
                full(format!("{objects} objects"), bounds.objects, "namespaceMaxObjects")
            }
            Some(bounds) if bytes > bounds.bytes => {
                full(format!("{bytes} bytes of memory"), bounds.bytes, "namespaceMaxBytes")
            }
            Some(bounds) if bounds.all_bytes() < usize::MAX && !bounds.has_room(own(), whole()) => {
                Err(RevisionError::HubFull { all: whole(), most: bounds.hub })
            }
            _ => {
                all.insert((key.clone(), parsed.name.clone()), parsed.clone());
                Ok(())
            }
        }
    }

    /// A revision by name, if it is in memory.
    pub fn known(&self, key: &ResourceKey, name: &str) -> Option<Arc<Parsed>> {
        self.parsed.lock().get(&(key.clone(), name.to_owned())).cloned()
    }

    /// The Secrets that keep a revision, in the order in which they are to be written.
    pub async fn secrets(
        &self,
        resource: &VidraResource,
        owner: &str,
        content: &Content,
        name: &str,
    ) -> Result<Vec<Secret>, RevisionError> {
        let turn = self.turns.of(&resource.namespace().unwrap_or_default()).await;
        turn.run(|| secret::pack(resource, owner, content, name, self.part))
    }

    /// A revision by name: from memory, else from its Secret.
    pub async fn get(
        &self,
        api: &HubApi,
        key: &ResourceKey,
        name: &str,
    ) -> Result<Arc<Parsed>, RevisionError> {
        if let Some(parsed) = self.known(key, name) {
            return Ok(parsed);
        }
        let packed = secret::fetch(api, key, name).await?;
        let turn = self.turns.of(&key.namespace).await;
        let parsed = turn.run(|| self.parsed_from(key, &secret::open(key, name, &packed)?))?;
        if parsed.name != name {
            return Err(RevisionError::Damaged {
                name: revision_secret_name(&key.name, name),
                why: "its content has another hash".into(),
            });
        }
        // It is kept, so it was let in before.
        self.hold(key, &parsed, None)?;
        Ok(parsed)
    }

    /// Renders a revision for a member: by the scopes that the member gives its kinds, and by what its
    /// overrides use of it. All that is held of the namespace, and of all, is within these bounds then.
    pub async fn render(
        &self,
        key: &ResourceKey,
        parsed: &Parsed,
        namespace: &str,
        scope_of: &(dyn Fn(&Gvk) -> Option<Scope> + Sync),
        (cluster, inputs): (&str, Option<&OverrideInputs>),
        bounds: Bounds,
    ) -> Result<Arc<Desired>, RevisionError> {
        let mut last = None;
        let scopes: Vec<_> =
            parsed.objects.iter().map(|object| scope_after(&mut last, &object.gvk, scope_of)).collect();
        let effective = parsed.overrides.effective(cluster, inputs);
        let slot = self.rendered.lock().entry((key.clone(), parsed.name.clone())).or_default().clone();
        let found = || {
            let same = |one: &&Rendering| {
                one.namespace == namespace && one.effective == effective && one.scopes == scopes
            };
            slot.lock().iter().find(same).map(|one| one.desired.clone())
        };
        if let Some(found) = found() {
            return Ok(found);
        }
        let turn = self.turns.of(&key.namespace).await;
        // Who had the turn before may have rendered it.
        if let Some(found) = found() {
            return Ok(found);
        }
        let changes = Changes { overrides: &parsed.overrides, effective: &effective, cluster };
        let changes = (effective != Effective::default()).then_some(changes);
        let desired = turn.run(|| {
            announce("render", key, parsed.text, changes.is_some());
            let rendered = render::render_with(&parsed.objects, scope_of, namespace, &self.key, changes)?;
            let mut desired = Desired::new(rendered, &self.interned);
            let plain = slot.lock().iter().find(|one| one.is_plain(namespace)).map(|one| one.desired.clone());
            if let Some(plain) = plain.or_else(|| slot.lock().first().map(|one| one.desired.clone())) {
                desired.share(&plain);
            }
            Ok::<_, RevisionError>(desired)
        })?;
        // What an earlier label of a cluster, an earlier namespace or kinds that a member served before led to, and no
        // member has any more.
        slot.lock().retain(|one| {
            Arc::strong_count(&one.desired) > 1 || (one.is_plain(namespace) && one.scopes == scopes)
        });
        let weight = desired.own_weight();
        self.check_room(&key.namespace, cluster, weight, bounds)?;
        let (desired, namespace) = (Arc::new(desired), namespace.to_owned());
        slot.lock().push(Rendering { namespace, scopes, effective, desired: desired.clone(), weight });
        Ok(desired)
    }

    /// Looks for room for a rendering of this weight, of a VidraResource in this namespace for this cluster.
    ///
    /// # Errors
    /// There is none in the namespace's share, or none at all.
    fn check_room(
        &self,
        namespace: &str,
        cluster: &str,
        weight: usize,
        bounds: Bounds,
    ) -> Result<(), RevisionError> {
        let taken = self.taken(|of| *of.namespace == *namespace) + weight;
        if taken > bounds.bytes {
            let (cluster, namespace) = (cluster.to_owned(), namespace.to_owned());
            return Err(RevisionError::TooMany { cluster, namespace, most: bounds.bytes >> 20 });
        }
        if bounds.all_bytes() < usize::MAX {
            let all = self.taken(|_| true) + weight;
            if !bounds.has_room(taken, all) {
                return Err(RevisionError::HubFull { all, most: bounds.hub });
            }
        }
        Ok(())
    }

    /// Bytes that are held of these VidraResources.
    fn taken(&self, of: impl Fn(&ResourceKey) -> bool) -> usize {
        let parsed = self.parsed.lock();
        let parsed: usize = parsed.iter().filter(|((key, _), _)| of(key)).map(|(_, one)| one.weight).sum();
        parsed + self.rendered_bytes(of)
    }

    /// Bytes that are held of what was rendered alone.
    fn rendered_bytes(&self, of: impl Fn(&ResourceKey) -> bool) -> usize {
        let slots: Vec<_> = self
            .rendered
            .lock()
            .iter()
            .filter(|((key, _), _)| of(key))
            .map(|(_, slot)| slot.clone())
            .collect();
        slots.iter().map(|slot| slot.lock().iter().map(|one| one.weight).sum::<usize>()).sum()
    }

    /// Keeps in memory only the named revisions of a resource.
    pub fn keep(&self, key: &ResourceKey, names: &std::collections::BTreeSet<String>) {
        self.parsed.lock().retain(|(of, name), _| of != key || names.contains(name));
        self.rendered.lock().retain(|(of, name), _| of != key || names.contains(name));
    }
}

/// Says in the log whose turn begins where it may take much memory: should the process end by that, it is the last line.
fn announce(step: &str, key: &ResourceKey, bytes: usize, overrides: bool) {
    if (bytes > LARGE || overrides) && !mutants::is(Mutant::LargeUntold) {
        tracing::info!(resource = %key, step, bytes, overrides, "the hub begins a step that may take much memory");
    }
}

/// The scope of a kind; objects of one kind mostly stand together.
fn scope_after<'a>(
    last: &mut Option<(&'a Gvk, Option<Scope>)>,
    gvk: &'a Gvk,
    scope_of: &dyn Fn(&Gvk) -> Option<Scope>,
) -> Option<Scope> {
    match last {
        Some((held, scope)) if *held == gvk => *scope,
        _ => last.insert((gvk, scope_of(gvk))).1,
    }
}

/// The queue key of a VidraResource.
pub fn resource_key(resource: &VidraResource) -> ResourceKey {
    ResourceKey::new(&resource.namespace().unwrap_or_default(), &resource.name_any())
}

#[cfg(test)]
mod tests;
