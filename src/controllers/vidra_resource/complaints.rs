//! What a user should know of a VidraResource that was acted on: names that nobody bears, selections and overrides that
//! match nothing.

use std::collections::BTreeSet;

use vidra_core::{
    first_of::more,
    health::own,
    select::{self, Selection},
    status::{Problem, Reason},
};

use super::{
    context::Context,
    crd_deletion::crd_problem,
    unreadable::{unread_member, unread_problem},
};
use crate::{controllers::own_rules::own_health, hub::revisions::Parsed};

/// The first problem of those that this module looks for.
pub(super) fn complaint(ctx: &Context<'_>, revision: &Parsed, selection: &Selection) -> Option<Problem> {
    crd_problem(ctx)
        .or_else(|| unread_problem(ctx))
        .or_else(|| of_health_rules(ctx))
        .or_else(|| of_selection(ctx, revision, selection))
        .or_else(|| of_overrides(revision, selection))
}

/// Health rules that cannot be used.
fn of_health_rules(ctx: &Context<'_>) -> Option<Problem> {
    let rules = own_health(ctx.hub, ctx.key)?;
    let seen = ctx.resource.status.as_ref().and_then(|status| status.observed_generation);
    // No condition has it, so once a status speaks of this generation it was told.
    if seen != ctx.resource.metadata.generation {
        own::duplicates(&rules.problems).for_each(|told| ctx.warn(Reason::HealthRuleDuplicate, &told));
    }
    let message = own::complaint(&rules.problems)?;
    Some(Problem { reason: Reason::HealthChecksInvalid, message, stalled: true })
}

fn of_selection(ctx: &Context<'_>, revision: &Parsed, selection: &Selection) -> Option<Problem> {
    let unknown = unknown_cluster(ctx, revision);
    if let Some(unread) = unknown.as_ref().and_then(|(_, name)| unread_member(ctx, name)) {
        return Some(unread);
    }
    let (reason, message) = if let Some((place, name)) = unknown {
        let message = format!(
            "{place} names the cluster {name:?}, and there is no such MemberCluster; register it, or correct or remove the name"
        );
        (Reason::ClusterNotFound, message)
    } else if let Some(name) = selection.forbidden.first() {
        let message = format!(
            "the cluster {name:?} does not allow the namespace {:?}; add it to the MemberCluster's spec.allowedNamespaces",
            ctx.key.namespace
        );
        (Reason::NamespaceNotAllowed, message)
    } else if selection.targets.is_empty() {
        let closed = match selection.closed.len() {
            0 => String::new(),
            count => format!(" ({count} that match do not allow the namespace {:?})", ctx.key.namespace),
        };
        let message = match ctx.resource.spec.targets.is_empty() {
            true => "spec.targets is empty; name clusters there, or select them by labels".to_owned(),
            false => format!(
                "no member cluster matches spec.targets{closed}; see `kubectl get memberclusters --show-labels`"
            ),
        };
        (Reason::NoTargets, message)
    } else {
        return None;
    };
    Some(Problem { reason, message, stalled: false })
}

/// A name of a cluster that no member bears, and where it stands: of the places that may hold one, the first.
fn unknown_cluster(ctx: &Context<'_>, revision: &Parsed) -> Option<(String, String)> {
    let members = ctx.hub.catalog.members();
    let members = members.iter().filter_map(|member| member.metadata.name.as_deref()).collect();
    let spec = &ctx.resource.spec;
    let of_targets = select::unknown(select::named(&spec.targets), &members).min();
    let of_targets = of_targets.map(|name| ("spec.targets".to_owned(), name.to_owned()));
    let of_excluded = || {
        let name = select::unknown(spec.exclude_clusters.iter(), &members).min()?;
        Some(("spec.excludeClusters".to_owned(), name.to_owned()))
    };
    let of_override = || {
        let (index, name) = revision.overrides.unknown_cluster(&members)?;
        Some((format!("spec.overrides[{index}].clusterNames"), name.to_owned()))
    };
    of_targets.or_else(of_excluded).or_else(of_override)
}

/// Overrides that change nothing, most likely by mistake.
fn of_overrides(revision: &Parsed, selection: &Selection) -> Option<Problem> {
    let namespaces: BTreeSet<&str> = selection.targets.values().map(String::as_str).collect();
    let may_be_in = |namespace: &str| namespaces.contains(namespace);
    let unmatched = revision.overrides.unmatched(&revision.objects, may_be_in);
    let first = unmatched.first()?;
    let more = more(unmatched.len() - 1, |more| format!(", nor do those of {more} more"));
    let message = format!(
        "the target of spec.overrides[{first}] matches no object of the manifest{more}; correct its target, or remove the entry"
    );
    Some(Problem { reason: Reason::OverrideMatchesNothing, message, stalled: false })
}
