//! From what a VidraResource declares, sources read, to the revision that is kept of it.

use std::sync::Arc;

use kube::ResourceExt;
use vidra_api::VidraResource;
use vidra_core::mutants::{self, Mutant};

use super::Pass;
use crate::{
    base::error::{CallError, Class},
    hub::{
        revisions::{Content, Parsed, RevisionError},
        sources::{self, index::Reading},
    },
    queue::Key,
    reconcile::RETRY_MOST,
};

/// A revision whose Secret was written.
#[derive(Clone)]
pub(in crate::reconcile) struct KeptRevision {
    /// Of the VidraResource.
    uid: Option<String>,
    /// The VidraResource's, when it was kept.
    generation: i64,
    /// The revision's.
    name: String,
}

impl KeptRevision {
    /// Its name, if it is what a VidraResource declares now.
    pub(in crate::reconcile) fn of(&self, resource: &VidraResource) -> Option<&str> {
        let is_it = self.uid == resource.metadata.uid
            && self.generation == resource.metadata.generation.unwrap_or_default();
        is_it.then_some(&*self.name)
    }
}

impl Pass<'_> {
    /// The revision that is declared now. With sources that nobody has changed it takes no call; else each is
    /// read.
    pub(super) async fn revision(&self) -> Result<Result<Arc<Parsed>, RevisionError>, CallError> {
        let generation = self.resource.metadata.generation.unwrap_or_default();
        let is_lost = self.of_outdated(|known| known.lost);
        if self.resource.spec.manifests_from.is_empty() {
            let kept = self.kept();
            // A megabyte is neither copied nor hashed to find that it is the same.
            if let Some(kept) = kept.filter(|kept| !is_lost && kept.of(self.resource).is_some())
                && let Ok(parsed) = self.hub.revisions.get(&self.hub.api, self.key, &kept.name).await
                && self.barred(&parsed).is_none()
            {
                return Ok(Ok(parsed));
            }
            return self.keep(Vec::new()).await;
        }
        let index = self.hub.catalog.sources();
        if let Some(name) = index.unchanged(self.key, generation).filter(|_| !is_lost)
            && let Ok(parsed) = self.hub.revisions.get(&self.hub.api, self.key, &name).await
            && self.barred(&parsed).is_none()
        {
            return Ok(Ok(parsed));
        }
        if !index.follows(self.key) {
            // No watch tells of changes, or not yet.
            self.hub.queue.add_after(Key::Resource(self.key.clone()), RETRY_MOST);
        }
        let read = match sources::read(&self.hub.api, self.resource).await? {
            Ok(read) => read,
            Err(error) => return Ok(Err(error.into())),
        };
        let kept = self.keep(read.texts).await?;
        if let Ok(parsed) = &kept {
            let revision = parsed.name.clone();
            index.remember(self.key, Reading { generation, versions: read.versions, revision });
        }
        Ok(kept)
    }

    /// A setting bars what is declared.
    fn barred(&self, parsed: &Parsed) -> Option<RevisionError> {
        let may = self.hub.tuning.now().allow_inline_secrets || mutants::is(Mutant::SecretsInline);
        parsed.inline_secret().filter(|_| !may).map(RevisionError::InlineSecret)
    }

    /// Parses what is declared and makes sure that its revision is kept.
    async fn keep(
        &self,
        sources: Vec<sources::Source>,
    ) -> Result<Result<Arc<Parsed>, RevisionError>, CallError> {
        let (content, parsed) = match self.hub.revisions.parse(self.resource, sources).await {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(error) = self.barred(&parsed) {
            return Ok(Err(error));
        }
        let known = self.resource.status.as_ref().and_then(|status| status.revision.as_deref());
        let kept = self.kept();
        let is_kept = kept.is_some_and(|kept| kept.name == parsed.name && self.is_kept(&kept))
            || known == Some(parsed.name.as_str());
        if let Err(error) = self.admit(&parsed, is_kept).await {
            return Ok(Err(error));
        }
        if (!is_kept || self.of_outdated(|known| known.lost))
            && let Err(error) = self.store(&content, &parsed.name).await?
        {
            return Ok(Err(error));
        }
        self.of_outdated(|known| known.lost = false);
        let kept = KeptRevision {
            uid: self.resource.metadata.uid.clone(),
            generation: self.resource.metadata.generation.unwrap_or_default(),
            name: parsed.name.clone(),
        };
        self.hub.state.lock().resource_mut(self.key).kept_revision = Some(kept);
        Ok(Ok(parsed))
    }

    /// Holds the revision, if there is room for it beside what the namespace's other VidraResources have, and those of all.
    /// What was let in before keeps its room.
    async fn admit(&self, parsed: &Arc<Parsed>, is_kept: bool) -> Result<(), RevisionError> {
        let revisions = &self.hub.revisions;
        let targets = self.hub.catalog.targets_of(self.key);
        if is_kept || targets.values().any(|target| target.spec.revision == parsed.name) {
            return revisions.hold(self.key, parsed, None);
        }
        let bounds = self.hub.tuning.now().bounds;
        // After a restart too what others have comes first. What cannot be had of it takes no room.
        let mut others = match bounds.all_bytes() {
            usize::MAX => self.hub.catalog.revisions_in(&self.key.namespace),
            _ => self.hub.catalog.all_revisions(),
        };
        others.retain(|(key, name)| revisions.known(key, name).is_none());
        let reads = others.iter().map(|(key, name)| revisions.get(&self.hub.api, key, name));
        self.side_by_side(reads.collect()).await;
        revisions.hold(self.key, parsed, Some(bounds))
    }

    /// What is known to be kept of what it declared last.
    fn kept(&self) -> Option<KeptRevision> {
        self.hub.state.lock().resource(self.key).and_then(|one| one.kept_revision.clone())
    }

    /// It was kept of this very VidraResource: with another of its name its Secret went.
    fn is_kept(&self, kept: &KeptRevision) -> bool {
        kept.uid == self.resource.metadata.uid
    }

    async fn store(&self, content: &Content, name: &str) -> Result<Result<(), RevisionError>, CallError> {
        let owner = self.owner();
        match self.hub.revisions.secrets(self.resource, &owner.to_string(), content, name).await {
            Ok(secrets) => {
                for secret in &secrets {
                    match self.hub.api.create_revision(secret).await {
                        Err(source) if source.class == Class::Forbidden || source.is_invalid() => {
                            return Ok(Err(RevisionError::Refused { name: secret.name_any(), source }));
                        }
                        made => made?,
                    }
                }
            }
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }
}
