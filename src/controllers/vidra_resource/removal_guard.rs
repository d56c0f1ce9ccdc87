//! A VidraResource that would lose many of its VidraTargets, or the last: whether a person has to approve that.

use vidra_api::{VidraTarget, target::DesiredState};
use vidra_core::{
    first_of::first_of,
    guard::{self, Removal},
    mutants::{self, Mutant},
    status::{Problem, Reason},
};

use super::{
    approval::approvals,
    context::{Context, Targets},
    observe::Observation,
    teardown::came_to_nothing,
    unreadable::is_member_unread,
};
use crate::{
    controllers::{approvals::command, confirmation::is_leaving},
    hub::inventory,
};

/// Holds a removal that is more likely a mistake; the word that approves one that needs it. A member that a person
/// deletes leaves by that person's word; one whose MemberCluster is not there has not left; and what one does not allow
/// any more is not given up here.
pub(super) fn guard_removal(ctx: &Context<'_>, observation: &Observation) -> Result<Option<String>, Problem> {
    let Observation { selection, targets, .. } = observation;
    // What selects a member that cannot be read is not known; and what came to nothing is no loss.
    let counts = |cluster: &str, target: &VidraTarget| {
        !selection.is_barred(cluster)
            && !is_member_unread(ctx, cluster)
            && !came_to_nothing(ctx, cluster, target)
    };
    let counted = targets.iter().filter(|(cluster, target)| counts(cluster, target));
    let targets: Targets = counted.map(|(cluster, target)| (cluster.clone(), target.clone())).collect();
    let (mut existing, mut leaving, mut underway) =
        (guard::Targets::new(), guard::Targets::new(), guard::Targets::new());
    for (cluster, target) in &targets {
        let (name, uid) = (cluster.clone(), target.removal_id());
        let exists = target.spec.desired == DesiredState::Present && !is_leaving(ctx.hub, cluster);
        let to = selection.targets.get(cluster);
        if let Some(to) = to.filter(|to| exists && **to != target.spec.namespace && ctx.is_remade(target)) {
            // What it has in the previous namespace goes.
            let uid = format!("{uid} {to}");
            leaving.insert(name.clone(), uid.clone());
            existing.insert(name, uid);
            continue;
        }
        match (exists, to.is_some()) {
            (true, true) => drop(existing.insert(name, uid)),
            (true, false) => {
                leaving.insert(name.clone(), uid.clone());
                existing.insert(name, uid);
            }
            (false, false) => drop(underway.insert(name, uid)),
            (false, true) => {}
        }
    }
    // One that was deleted by hand and could not be made again yet has what it had: another one that goes is not the last.
    let lost = selection
        .targets
        .keys()
        .filter(|cluster| !observation.targets.contains_key(*cluster) && has_something(ctx, cluster));
    if !mutants::is(Mutant::GuardForgetsRemade) {
        existing.extend(lost.map(|cluster| (cluster.clone(), String::new())));
    }
    // What was broken off goes on though its word has been taken off the VidraResource.
    let mut approvals = approvals(ctx);
    let words = underway.keys().filter_map(|cluster| targets[cluster].spec.approved_removal.as_deref());
    approvals.extend(words);
    let share = ctx.hub.tuning.now().removal_guard;
    let remade = leaving.keys().find(|cluster| ctx.is_remade(&targets[*cluster]));
    let remade = remade.map(String::as_str);
    match guard::targets(&ctx.uid(), &existing, &leaving, &underway, remade, share, &approvals) {
        Removal::Allowed => Ok(None),
        Removal::Approved(hash) => Ok(Some(hash)),
        Removal::Held { hash, why } => Err(problem(ctx, &leaving, &hash, &why)),
    }
}

/// Something stands in its inventory, or may: not all of it can be read.
fn has_something(ctx: &Context<'_>, cluster: &str) -> bool {
    let (key, catalog) = (ctx.target_key(cluster), &ctx.hub.catalog);
    !inventory::is_empty(&catalog.inventory(&key)) || catalog.unread_inventory(&key).is_some()
}

/// What is held, and what lets it go.
fn problem(ctx: &Context<'_>, leaving: &guard::Targets, hash: &str, why: &str) -> Problem {
    let message = format!(
        "held: {why} ({}), and nothing new is delivered. If this is meant: {}",
        first_of(leaving.keys(), 10),
        command(ctx.key, hash),
    );
    Problem { reason: Reason::RemovalHeld, message, stalled: true }
}
