//! From what a VidraResource declares, sources read, to the revision that is kept of it.

use std::sync::Arc;

use super::Pass;
use crate::{
    hub::{
        revisions::{Content, Parsed, RevisionError},
        sources::{self, index::Reading},
    },
    member::error::CallError,
    queue::Key,
    reconcile::RETRY_MOST,
};

impl Pass<'_> {
    /// The revision that is declared now. With sources that nobody has changed it takes no call; else each is
    /// read.
    pub(super) async fn revision(&self) -> Result<Result<Arc<Parsed>, RevisionError>, CallError> {
        if self.resource.spec.manifests_from.is_empty() {
            return self.keep(Vec::new()).await;
        }
        let generation = self.resource.metadata.generation.unwrap_or_default();
        let index = self.hub.catalog.sources();
        if let Some(name) = index.unchanged(self.key, generation)
            && let Ok(parsed) = self.hub.revisions.get(&self.hub.api, self.key, &name).await
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

    /// Parses what is declared and makes sure that its revision is kept.
    async fn keep(
        &self,
        sources: Vec<sources::Source>,
    ) -> Result<Result<Arc<Parsed>, RevisionError>, CallError> {
        let (content, parsed) = match self.hub.revisions.parse(self.resource, sources) {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Err(error)),
        };
        let known = self.resource.status.as_ref().and_then(|status| status.revision.as_deref());
        let kept = self.hub.memo.lock().kept_revision.get(self.key) == Some(&parsed.name);
        if kept || known == Some(parsed.name.as_str()) {
            return Ok(Ok(parsed));
        }
        match self.store(&content, &parsed.name).await? {
            Ok(()) => Ok(Ok(parsed)),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn store(&self, content: &Content, name: &str) -> Result<Result<(), RevisionError>, CallError> {
        let owner = self.owner();
        match self.hub.revisions.secrets(self.resource, &owner.to_string(), content, name) {
            Ok(secrets) => {
                for secret in &secrets {
                    self.hub.api.create_revision(secret).await?;
                }
            }
            Err(error) => return Ok(Err(error)),
        }
        let mut memo = self.hub.memo.lock();
        memo.kept_revision.insert(self.key.clone(), name.to_owned());
        *memo.new_revisions.entry(self.key.clone()).or_default() += 1;
        Ok(Ok(()))
    }
}
