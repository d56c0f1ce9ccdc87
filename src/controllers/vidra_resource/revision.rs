//! From what a VidraResource declares, sources read, to the revision that is kept of it.

use std::sync::Arc;

use kube::ResourceExt;
use vidra_api::VidraResource;
use vidra_core::mutants::{self, Mutant};

use super::{context::Context, revision_gc::change_use};
use crate::{
    base::error::CallError,
    controllers::{RETRY_MOST, write_refusal::is_refusal},
    hub::{
        revisions::{Content, Parsed, RevisionError},
        sources::{self, index::Reading},
    },
};

/// A revision whose Secret was written.
#[derive(Clone)]
pub(in crate::controllers) struct KeptRevision {
    /// Of the VidraResource.
    uid: Option<String>,
    /// The VidraResource's, when it was kept.
    generation: i64,
    /// The revision's.
    name: String,
}

impl KeptRevision {
    /// Its name, if it is what a VidraResource declares now.
    pub(in crate::controllers) fn of(&self, resource: &VidraResource) -> Option<&str> {
        let is_current = self.generation == resource.metadata.generation.unwrap_or_default();
        (self.is_of(resource) && is_current).then_some(&*self.name)
    }

    /// Its name, if it is the last that was kept of a VidraResource.
    pub(in crate::controllers) fn last_of(&self, resource: &VidraResource) -> Option<&str> {
        self.is_of(resource).then_some(&*self.name)
    }

    /// It was kept of this very VidraResource: with another of its name its Secret went.
    fn is_of(&self, resource: &VidraResource) -> bool {
        self.uid == resource.metadata.uid
    }
}

/// The revision that is declared now. With sources that nobody has changed it takes no call; else each is
/// read.
pub(super) async fn revision(ctx: &Context<'_>) -> Result<Result<Arc<Parsed>, RevisionError>, CallError> {
    let generation = ctx.generation();
    let is_lost = change_use(ctx, |known| known.lost);
    if ctx.resource.spec.manifests_from.is_empty() {
        let kept = kept_revision(ctx);
        // A megabyte is neither copied nor hashed to find that it is the same.
        if let Some(kept) = kept.filter(|kept| !is_lost && kept.of(ctx.resource).is_some())
            && let Ok(parsed) = ctx.hub.revisions.get(&ctx.hub.api, ctx.key, &kept.name).await
            && barred(ctx, &parsed).is_none()
        {
            return Ok(Ok(parsed));
        }
        return keep(ctx, Vec::new()).await;
    }
    let index = ctx.hub.catalog.sources();
    if let Some(name) = index.unchanged(ctx.key, ctx.resource).filter(|_| !is_lost)
        && let Ok(parsed) = ctx.hub.revisions.get(&ctx.hub.api, ctx.key, &name).await
        && barred(ctx, &parsed).is_none()
    {
        return Ok(Ok(parsed));
    }
    if !index.follows(ctx.key) {
        // No watch tells of changes, or not yet.
        ctx.hub.queue.add_after(ctx.queue_key(), RETRY_MOST);
    }
    index.forget_reading(ctx.key);
    let read = match sources::read(&ctx.hub.api, ctx.resource).await? {
        Ok(read) => read,
        Err(error) => return Ok(Err(error.into())),
    };
    let kept = keep(ctx, read.texts).await?;
    if let Ok(parsed) = &kept {
        let revision = parsed.name.clone();
        let uid = ctx.resource.metadata.uid.clone();
        index.remember(ctx.key, Reading { uid, generation, versions: read.versions, revision });
    }
    Ok(kept)
}

/// A setting bars what is declared, or it has an annotation that the hub does not know. Neither is asked of a revision that
/// targets have.
fn barred(ctx: &Context<'_>, parsed: &Parsed) -> Option<RevisionError> {
    let may = ctx.hub.tuning.now().allow_inline_secrets || mutants::is(Mutant::SecretsInline);
    let secret = parsed.inline_secret().filter(|_| !may).map(RevisionError::InlineSecret);
    secret.or_else(|| parsed.check_annotations().err())
}

/// Parses what is declared and makes sure that its revision is kept.
async fn keep(
    ctx: &Context<'_>,
    sources: Vec<sources::Source>,
) -> Result<Result<Arc<Parsed>, RevisionError>, CallError> {
    let (content, parsed) = match ctx.hub.revisions.parse(ctx.resource, sources).await {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Err(error)),
    };
    let known = ctx.resource.status.as_ref().and_then(|status| status.revision.as_deref());
    let kept = kept_revision(ctx);
    let is_kept = kept.is_some_and(|kept| kept.name == parsed.name && kept.is_of(ctx.resource))
        || known == Some(parsed.name.as_str());
    let is_had = is_kept || ctx.targets().values().any(|target| target.spec.revision == parsed.name);
    let is_lost = change_use(ctx, |known| known.lost);
    let barred = match barred(ctx, &parsed) {
        Some(error) if !(is_had && is_lost) => return Ok(Err(error)),
        // What targets have is made again, whatever bars it since.
        barred => barred,
    };
    if let Err(error) = admit(ctx, &parsed, is_had).await {
        return Ok(Err(error));
    }
    if (!is_kept || is_lost)
        && let Err(error) = store(ctx, &content, &parsed.name).await?
    {
        return Ok(Err(error));
    }
    change_use(ctx, |known| known.lost = false);
    if let Some(error) = barred {
        return Ok(Err(error));
    }
    let kept = KeptRevision {
        uid: ctx.resource.metadata.uid.clone(),
        generation: ctx.generation(),
        name: parsed.name.clone(),
    };
    ctx.hub.state.lock().resource_mut(ctx.key).kept_revision = Some(kept);
    Ok(Ok(parsed))
}

/// Holds the revision, if there is room for it beside what the namespace's other VidraResources have, and those of all.
/// What was let in before keeps its room.
async fn admit(ctx: &Context<'_>, parsed: &Arc<Parsed>, is_had: bool) -> Result<(), RevisionError> {
    let revisions = &ctx.hub.revisions;
    if is_had {
        return revisions.hold(ctx.key, parsed, None);
    }
    let bounds = ctx.hub.tuning.now().bounds;
    // After a restart too what others have comes first. What cannot be had of it takes no room.
    let mut others = match bounds.all_bytes() {
        usize::MAX => ctx.hub.catalog.revisions_in(&ctx.key.namespace),
        _ => ctx.hub.catalog.all_revisions(),
    };
    others.retain(|(key, name)| revisions.known(key, name).is_none());
    let reads = others.iter().map(|(key, name)| revisions.get(&ctx.hub.api, key, name));
    ctx.side_by_side(reads.collect()).await;
    revisions.hold(ctx.key, parsed, Some(bounds))
}

/// What is known to be kept of what it declared last.
fn kept_revision(ctx: &Context<'_>) -> Option<KeptRevision> {
    ctx.hub.state.lock().resource(ctx.key).and_then(|one| one.kept_revision.clone())
}

async fn store(
    ctx: &Context<'_>,
    content: &Content,
    name: &str,
) -> Result<Result<(), RevisionError>, CallError> {
    let owner = ctx.owner();
    let secrets = match ctx.hub.revisions.secrets(ctx.resource, &owner.to_string(), content, name).await {
        Ok(secrets) => secrets,
        Err(error) => return Ok(Err(error)),
    };
    for secret in &secrets {
        match ctx.hub.api.create_revision(secret).await {
            Err(source) if is_refusal(&source) => {
                return Ok(Err(RevisionError::Refused { name: secret.name_any(), source }));
            }
            made => made?,
        }
    }
    Ok(Ok(()))
}
