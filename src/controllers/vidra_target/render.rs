//! What a target is to have, rendered from its revision for its member.

use std::sync::Arc;

use vidra_api::{OverrideInputs, VidraTargetSpec};
use vidra_core::{
    mutants::{self, Mutant},
    object::Gvk,
    render::RenderError,
    status::{Delivery, Reason},
};

use super::context::Context;
use crate::{
    desired::Desired,
    hub::revisions::{Parsed, RevisionError},
    member::{kinds::Kinds, session::Session},
};

/// Renders for this member what it is to have.
pub(super) async fn desired_state(
    ctx: &Context<'_>,
    session: &Session,
) -> Result<(Arc<Desired>, bool), Delivery> {
    let VidraTargetSpec { revision, namespace, overrides, .. } = &ctx.target.spec;
    let rendered = render_as(ctx, session, (revision, namespace), |_| overrides.clone()).await?;
    match reaches_hub(ctx, session, &rendered.0) {
        Some(delivery) => Err(delivery),
        None => Ok(rendered),
    }
}

/// Something would go into the hub's own namespace of its own cluster: what stands there says how the hub works, who its
/// members are, and what Ready means, for all.
fn reaches_hub(ctx: &Context<'_>, session: &Session, desired: &Desired) -> Option<Delivery> {
    let (own, hub) = (&*ctx.hub.settings.namespace, ctx.hub.identity.cluster.as_ref()?);
    // The cheap question first: for nearly all members it is the only one.
    if session.state().answering().is_none_or(|who| who.uid != *hub) || mutants::is(Mutant::OwnNamespaceTakes)
    {
        return None;
    }
    let within = desired.objects.keys().find(|key| *key.namespace == *own)?;
    Some(Delivery::Failed {
        reason: Reason::HubNamespace,
        message: format!(
            "{within} would go into {own}, the namespace of this hub, and cluster {} is the hub's own: nothing is delivered. \
             Take it out of the manifest, and write there by other means",
            ctx.key.cluster
        ),
        stalled: true,
    })
}

/// Renders a revision as in this namespace, with these inputs for its overrides.
pub(super) async fn render_as(
    ctx: &Context<'_>,
    session: &Session,
    (revision, namespace): (&str, &str),
    inputs: impl FnOnce(&Parsed) -> Option<OverrideInputs>,
) -> Result<(Arc<Desired>, bool), Delivery> {
    let failed = |error: RevisionError| Delivery::Failed {
        reason: error.unavailable(),
        message: error.to_string(),
        stalled: !matches!(&error, RevisionError::Call { source, .. } if source.is_transient()),
    };
    let resource = ctx.key.resource_key();
    let parsed = ctx.hub.revisions.get(&ctx.hub.api, &resource, revision).await.map_err(failed)?;
    let inputs = inputs(&parsed);
    let content = (namespace, inputs.as_ref());
    let mut desired = render(ctx, &parsed, content, &session.kinds()).await.map_err(failed)?;
    if !desired.unresolved.is_empty()
        && let Ok(kinds) = session.rediscover().await
    {
        desired = render(ctx, &parsed, content, &kinds).await.map_err(failed)?;
    }
    Ok((desired, parsed.create_namespaces))
}

async fn render(
    ctx: &Context<'_>,
    parsed: &Parsed,
    (namespace, inputs): (&str, Option<&OverrideInputs>),
    kinds: &Kinds,
) -> Result<Arc<Desired>, RevisionError> {
    let scope_of = |gvk: &Gvk| kinds.get(gvk).map(|(_, scope)| *scope);
    // What is delivered has more room: after a restart it is not to wait behind what is new.
    let bounds = ctx.hub.tuning.now().bounds;
    let had = ctx.target.status.as_ref().filter(|status| status.revision.as_ref() == Some(&parsed.name));
    let bounds = if had.is_some() { bounds.wider() } else { bounds };
    let key = ctx.key.resource_key();
    let cluster = (&*ctx.key.cluster, inputs);
    let desired = ctx.hub.revisions.render(&key, parsed, namespace, &scope_of, cluster, bounds).await?;
    // A status without a namespace does not say with which inputs.
    let is_had = had.is_some_and(|had| had.namespace.is_none() || had.overrides.as_ref() == inputs);
    match &desired.unknown {
        // What is rendered alike for several clusters is shared by them.
        Some(unknown) if !is_had => Err(RenderError::from(unknown.clone().on(&ctx.key.cluster)).into()),
        _ => Ok(desired),
    }
}
