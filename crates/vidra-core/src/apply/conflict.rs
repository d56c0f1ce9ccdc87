//! Conflicts: fields that others hold: of people and controllers, as `conflicts.fields` says; of another VidraResource
//! never by force, unless it declares the object just so itself, or not at all any more, or came to it later.

use std::sync::Arc;

use serde_json::Value;
use vidra_api::FieldPolicy;

use super::{
    Act, Answer, ApplyInput, ApplyState, Disagreement, Failure, FailureKind, Note, Other, Pending, Refusal,
    Retry, Step, adopt,
    attempt::{self, Attempt},
    body::{body_for, trial_for, uid_of},
    call, collision, end, pass_on, refuse, retry,
};
use crate::{
    fields::{self, Path},
    mutants::{self, Mutant},
    owner::{Ownership, other_owners_of, others_holding, ownership},
    plan::Why,
};

/// An apply that was refused for fields that others hold.
pub(super) struct Contest<E> {
    attempt: Attempt,
    contested: Vec<String>,
    error: E,
}

/// A call of a contest.
pub(super) enum Phase<E> {
    Read(Contest<E>),
    /// Another VidraResource holds them: perhaps it means the same, in another spelling.
    DryRun(Contest<E>),
    /// In the live spelling.
    Sent(Contest<E>),
}

/// Precedence of another VidraResource that applies the object too.
enum Precedence {
    /// What this one declares counts.
    Ours,
    /// What it declares counts.
    Theirs(Option<Arc<Value>>),
    /// What it holds counts: what it declares nobody knows, or it has no say here.
    AsHeld,
}

/// Fields are held by others. Those of people and controllers are taken back, in exactly the object that was looked at,
/// unless the VidraResource says otherwise; those of another VidraResource only when it declares the object just so
/// itself, and what it holds is what both declared before; or when it has dropped the object, or came to it later.
pub(super) fn contest<E>(
    state: &mut ApplyState<'_, E>,
    attempt: Attempt,
    contested: Vec<String>,
    error: E,
) -> Step<E> {
    call(state, Pending::Conflict(Phase::Read(Contest { attempt, contested, error })), Act::Read)
}

pub(super) fn next<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::Read(contest), Answer::Read(live)) => {
            match live.filter(|live| contest.attempt.uid == *uid_of(live)) {
                Some(live) => {
                    state.live = live;
                    judge(state, contest)
                }
                None => find_replacement(state, contest.attempt),
            }
        }
        (Phase::Read(contest), Answer::Failed(Failure { kind: FailureKind::Conflict, .. }))
            if contest.attempt.why == Why::Missing =>
        {
            find_replacement(state, contest.attempt)
        }
        (Phase::DryRun(contest), Answer::DryRun(would)) => {
            match live_spelling(state, &would, &contest.contested) {
                Some(body) => {
                    call(state, Pending::Conflict(Phase::Sent(contest)), Act::Apply { body, force: false })
                }
                None => resolve(state, contest),
            }
        }
        (Phase::Sent(contest), Answer::Applied(uid)) => end(state, contest.attempt.end(uid)),
        (Phase::Sent(contest), Answer::Failed(Failure { kind: FailureKind::FieldConflict(_), .. })) => {
            resolve(state, contest)
        }
        (_, answer) => pass_on(state, answer),
    }
}

/// The server looks at fields before the uid: of an object that was not seen before another one may bear the name.
fn find_replacement<E>(state: &mut ApplyState<'_, E>, attempt: Attempt) -> Step<E> {
    match attempt.why {
        Why::Missing => collision::resolve(state, Some(attempt.uid), None),
        _ => retry(state, Retry::Replaced).after(Note::Forget(attempt.uid)),
    }
}

fn judge<E>(state: &mut ApplyState<'_, E>, contest: Contest<E>) -> Step<E> {
    let (live, owner) = (&state.live, state.input.owner);
    let ownership = ownership(live, owner);
    if contest.attempt.why == Why::Joined && !matches!(ownership, Ownership::Ours | Ownership::Shared) {
        return retry(state, Retry::Released);
    }
    let is_shared = others_holding(live, owner, &contest.contested).iter().any(|(_, holds)| *holds);
    match ownership {
        _ if !is_shared => resolve(state, contest),
        // It stands in an inventory that this hub has adopted.
        Ownership::OtherHub(hub) => adopt::adopt_from_hub(state, &hub),
        _ => {
            let act = Act::DryRun { body: trial_for(&state.input, live), force: true };
            call(state, Pending::Conflict(Phase::DryRun(contest)), act)
        }
    }
}

/// Another VidraResource holds what is declared here. When both mean the same value, in two spellings, the live spelling
/// is sent, so that both own it. `None`: they do not.
fn live_spelling<E>(state: &ApplyState<'_, E>, would: &Value, contested: &[String]) -> Option<Value> {
    let (input, live) = (&state.input, &state.live);
    let set = fields::own_apply_set(would, &input.owner.manager)?;
    let differing = fields::differing(live, would, &set, Some(&input.declared.body));
    match differing.iter().any(|path| contested.contains(&path.to_string())) {
        true => None,
        false => fields::with_live_values(&body_for(input, live), live, &set, contested),
    }
}

fn resolve<E>(state: &mut ApplyState<'_, E>, contest: Contest<E>) -> Step<E> {
    let (input, live) = (&state.input, &state.live);
    let Contest { attempt, contested, error } = contest;
    let others = others_holding(live, input.owner, &contested);
    let is_rival = |(manager, holds): &&(&str, bool)| is_rival(input, live, (manager, *holds), &contested);
    if let Some((rival, _)) = others.iter().find(is_rival) {
        let holder = (*rival).to_owned();
        return refuse(state, Refusal::Shared { holder, what: Disagreement::Fields(error) });
    }
    if input.owner.conflicts.fields == FieldPolicy::Fail {
        let mut holders = fields::contenders(live, &input.owner.manager, &contested);
        let known = !holders.is_empty();
        holders.retain(|(manager, _)| !manager.starts_with(fields::MANAGER_PREFIX));
        if !holders.is_empty() || !known {
            return refuse(state, Refusal::FieldConflict { holders, contested });
        }
    }
    let body = body_for(input, live);
    attempt::resend(state, Attempt { force: true, ..attempt }, body)
}

/// Whether another VidraResource that applies the object is to have these fields as it declares them, whoever holds them
/// now: one that was there first.
fn is_rival(
    input: &ApplyInput<'_>,
    live: &Value,
    (manager, holds): (&str, bool),
    contested: &[String],
) -> bool {
    let theirs = match precedence(input, live, manager) {
        Precedence::Ours => return false,
        Precedence::AsHeld => return holds,
        Precedence::Theirs(declared) => declared,
    };
    let otherwise = |path: &Path| {
        let theirs = theirs.as_ref().and_then(|theirs| path.find(theirs));
        theirs.is_some_and(|theirs| path.find(&input.declared.body).is_some_and(|ours| ours != theirs))
    };
    holds || fields::held_paths(live, contested).iter().any(otherwise)
}

/// Who comes first: who applies the object already; of two of one namespace who do, the older. Across namespaces age
/// counts for nothing, or whoever is old could take what others hold.
fn precedence(input: &ApplyInput<'_>, live: &Value, manager: &str) -> Precedence {
    let has_applied = || ownership(live, input.owner) == Ownership::Ours;
    // A restore of the member may have taken its entry off; the inventory has the object all the same.
    let has_had = || {
        has_applied()
            || input.facts.is_in_inventory(&uid_of(live).into()) && !mutants::is(Mutant::OnlyMarksHave)
    };
    // It is of this hub, and the hub knows no target of that name there.
    let is_nobodys = || input.owner.is_of_hub(manager) && !input.facts.is_owner(manager);
    match input.facts.other(manager) {
        // As a restore of the member brings it back, or anybody writes it: the hub has no target of that name there. One
        // that this one joins may be a VidraResource that is yet to be applied to the hub again.
        Other::Unknown if is_nobodys() && has_had() => Precedence::Ours,
        Other::Unknown => Precedence::AsHeld,
        Other::Yields => Precedence::Ours,
        Other::Differs { is_near: true, is_older: false, .. } if has_applied() => Precedence::Ours,
        Other::Differs { is_near: false, .. } if has_applied() => Precedence::AsHeld,
        Other::Differs { declared, .. } => Precedence::Theirs(declared),
    }
}

/// The first VidraResource that is not a later one, and of which an apply would change what it keeps; and where.
pub(super) fn find_disturbance(
    input: &ApplyInput<'_>,
    live: &Value,
    would: &Value,
) -> Option<(String, Vec<String>)> {
    let is_later = |holder: &str| matches!(precedence(input, live, holder), Precedence::Ours);
    let others = other_owners_of(live, input.owner).into_iter().filter(|one| !is_later(one));
    others.into_iter().find_map(|holder| {
        let paths = fields::differing(live, would, &fields::own_apply_set(live, holder)?, None);
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        (!paths.is_empty()).then(|| (holder.to_owned(), paths))
    })
}
