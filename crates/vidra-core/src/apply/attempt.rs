//! Applying to an object that is known by its uid, and what follows when the API server refuses.

use serde_json::{Value, json};

use super::{
    Act, Answer, ApplyState, Disagreement, End, Failure, FailureKind, Holder, Note, Pending, Refusal, Retry,
    Step, adopt,
    body::{body_for, body_to, exactly, trial_for, uid_of},
    call,
    collision::{self, Refused},
    conflict, create, end, fail, pass_on, refuse, retry,
};
use crate::{
    fields,
    mutants::{self, Mutant},
    plan::Why,
    uid::Uid,
};

/// So many times in one apply an object may change between its read and the apply to it.
const TRIES: usize = 5;

/// What is applied to.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) uid: Uid,
    pub(super) why: Why,
    pub(super) force: bool,
}

impl Attempt {
    pub(super) fn end<E>(self, uid: Uid) -> End<E> {
        End::Applied { uid, corrected: self.why.is_drift() }
    }
}

/// A call of an attempt.
pub(super) enum Phase<E> {
    /// Before an apply to an object whose managedFields were reset.
    ReadToClaim(Attempt),
    DryRunToClaim(Attempt),
    Claim(Attempt),
    /// Before an apply that might change what another VidraResource keeps. With the object that is to be joined.
    ReadShared(Attempt, Option<Value>),
    DryRunShared(Attempt, Option<Value>),
    Sent(Attempt),
    /// To the resourceVersion that is known.
    SentAtVersion(Attempt),
    /// So many reads are left.
    Read(Attempt, usize),
    SentAsRead(Attempt, usize),
    /// To the object of another VidraResource, exactly as it was read.
    Joined(Attempt),
    /// The namespace was said to be missing.
    ReadInNamespace(Attempt, Failure<E>),
    /// What was sent was said to be invalid.
    ReadInvalid(Attempt, Failure<E>),
}

/// Applies to the object with this uid.
pub(super) fn apply<E>(state: &mut ApplyState<'_, E>, attempt: Attempt) -> Step<E> {
    if !state.input.facts.has_lost_entry() {
        return compare_shared(state, attempt);
    }
    // Else the server would make up an entry for the time before, which holds everything for ever.
    state.attempts.push((attempt.uid.clone(), Holder::Ours));
    call(state, Pending::Attempt(Phase::ReadToClaim(attempt)), Act::Read)
}

/// Applies to the object of another VidraResource that was read, and to nothing else: that one may release it meanwhile,
/// and it would be nobody's of ours.
pub(super) fn join<E>(state: &mut ApplyState<'_, E>, uid: Uid) -> Step<E> {
    let attempt = Attempt { uid, why: Why::Joined, force: false };
    if !state.input.facts.is_disputed() {
        return send_joined(state, attempt);
    }
    let live = Some(state.live.clone());
    call(state, Pending::Attempt(Phase::ReadShared(attempt, live)), Act::Read)
}

pub(super) fn next<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (phase @ (Phase::ReadToClaim(_) | Phase::DryRunToClaim(_) | Phase::Claim(_)), answer) => {
            claim(state, phase, answer)
        }
        (phase @ (Phase::ReadShared(..) | Phase::DryRunShared(..)), answer) => {
            compare_with_others(state, phase, answer)
        }
        (
            Phase::Sent(attempt)
            | Phase::SentAtVersion(attempt)
            | Phase::SentAsRead(attempt, _)
            | Phase::Joined(attempt),
            Answer::Applied(uid),
        ) => end(state, attempt.end(uid)),
        (phase @ (Phase::Read(..) | Phase::SentAsRead(..)), answer) => as_read(state, phase, answer),
        (Phase::Sent(attempt), Answer::Failed(failure)) => handle_refusal(state, attempt, failure),
        (Phase::SentAtVersion(attempt), Answer::Failed(failure)) => match failure.kind.is_conflict() {
            true => read(state, attempt, TRIES),
            false => handle_refusal(state, attempt, failure),
        },
        (
            Phase::Joined(attempt),
            Answer::Failed(Failure { kind: FailureKind::FieldConflict(fields), error, .. }),
        ) => conflict::contest(state, attempt, fields, error),
        // An object that is there has its namespace: then a webhook says so.
        (Phase::ReadInNamespace(attempt, failure), Answer::Read(live)) => {
            match live.is_some_and(|live| attempt.uid == *uid_of(&live)) {
                true => fail(state, failure),
                false => create::create(state, attempt.why.is_drift()).after(Note::Forget(attempt.uid)),
            }
        }
        (Phase::ReadInvalid(attempt, failure), Answer::Read(live)) => match live {
            Some(live) if attempt.uid == *uid_of(&live) => fail(state, failure),
            Some(_) => collision::resolve(state, None, None),
            None => create::create(state, true),
        },
        (_, answer) => pass_on(state, answer),
    }
}

/// The hub's entry comes first, where an object's managedFields were reset.
fn claim<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::ReadToClaim(attempt), Answer::Read(live)) => {
            match live.filter(|live| attempt.uid == *uid_of(live) && fields::has_no_entries(live)) {
                Some(live) => {
                    let act = Act::DryRun { body: trial_for(&state.input, &live), force: true };
                    state.live = live;
                    call(state, Pending::Attempt(Phase::DryRunToClaim(attempt)), act)
                }
                None => after_claim(state, attempt),
            }
        }
        (Phase::DryRunToClaim(attempt), Answer::DryRun(would)) => match adopt::claim_entries(state, &would) {
            Some(entries) => {
                let metadata = json!({"metadata": {"managedFields": entries}});
                let act = Act::Rewrite(exactly(metadata, &state.live));
                call(state, Pending::Attempt(Phase::Claim(attempt)), act)
            }
            None => after_claim(state, attempt),
        },
        (Phase::Claim(attempt), Answer::Rewritten(_)) => after_claim(state, attempt),
        (_, answer) => pass_on(state, answer),
    }
}

fn after_claim<E>(state: &mut ApplyState<'_, E>, attempt: Attempt) -> Step<E> {
    state.attempts.pop();
    compare_shared(state, attempt)
}

/// An unforced apply may change what another VidraResource of this hub keeps, without a field being in conflict: a list of
/// which both own the same items, in another order, would go to and fro for ever.
///
/// Force was planned when nobody else's entry was seen. Who declares the object otherwise, and does not yield, may have one
/// by now, or before this call arrives: without force the server says who holds what.
fn compare_shared<E>(state: &mut ApplyState<'_, E>, mut attempt: Attempt) -> Step<E> {
    // The second takes away both ways in which an entry without its label holds its fields.
    if !mutants::is(Mutant::PlannedForce) && !mutants::is(Mutant::UnlabelledHoldsNothing) {
        attempt.force = attempt.force && !state.input.facts.is_outranked();
    }
    match !attempt.force && attempt.why != Why::Missing && state.input.facts.is_disputed() {
        true => call(state, Pending::Attempt(Phase::ReadShared(attempt, None)), Act::Read),
        false => send(state, attempt),
    }
}

fn compare_with_others<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::ReadShared(attempt, joined), Answer::Read(live)) => {
            let Some(live) = live.filter(|live| attempt.uid == *uid_of(live)) else {
                // A watch that has told of its end does not tell it again.
                return retry(state, Retry::Replaced).after(Note::Forget(attempt.uid));
            };
            let act = Act::DryRun { body: trial_for(&state.input, &live), force: false };
            state.live = live;
            call(state, Pending::Attempt(Phase::DryRunShared(attempt, joined)), act)
        }
        (Phase::DryRunShared(attempt, joined), Answer::DryRun(would)) => {
            if let Some((holder, paths)) = conflict::find_disturbance(&state.input, &state.live, &would) {
                return refuse(state, Refusal::Shared { holder, what: Disagreement::Values(paths) });
            }
            match joined {
                Some(live) => {
                    state.live = live;
                    send_joined(state, attempt)
                }
                None => send(state, attempt),
            }
        }
        (
            Phase::DryRunShared(attempt, _),
            Answer::Failed(Failure { kind: FailureKind::FieldConflict(fields), error, .. }),
        ) => conflict::contest(state, attempt, fields, error),
        (_, answer) => pass_on(state, answer),
    }
}

fn send_joined<E>(state: &mut ApplyState<'_, E>, attempt: Attempt) -> Step<E> {
    state.attempts.push((attempt.uid.clone(), Holder::Shared));
    let act = Act::Apply { body: body_for(&state.input, &state.live), force: false };
    call(state, Pending::Attempt(Phase::Joined(attempt)), act)
}

/// Where something is left alone only while somebody holds it, and nobody does as far as is known, no read is needed: the
/// resourceVersion says whether it is still so.
fn send<E>(state: &mut ApplyState<'_, E>, attempt: Attempt) -> Step<E> {
    let input = &state.input;
    state.attempts.push((attempt.uid.clone(), Holder::Ours));
    let exemptions = match mutants::is(Mutant::WriteIgnored) {
        true => std::sync::Arc::default(),
        false => input.facts.exemptions(),
    };
    let mut body = body_to(input, &attempt.uid);
    let Some(exempt) = exemptions.objects.get(&input.declared.key) else {
        if mutants::is(Mutant::NoUidPrecondition) {
            body["metadata"]["uid"].take();
        }
        return resend(state, attempt, body);
    };
    let version = match exempt.ignores() {
        true => None,
        false => input.facts.unyielded(&attempt.uid),
    };
    let Some(version) = version else { return read(state, attempt, TRIES) };
    body["metadata"]["resourceVersion"] = version.into();
    let act = Act::Apply { body, force: attempt.force };
    call(state, Pending::Attempt(Phase::SentAtVersion(attempt)), act)
}

/// Applies this body, as the attempt says.
pub(super) fn resend<E>(state: &mut ApplyState<'_, E>, attempt: Attempt, body: Value) -> Step<E> {
    let act = Act::Apply { body, force: attempt.force };
    call(state, Pending::Attempt(Phase::Sent(attempt)), act)
}

fn read<E>(state: &mut ApplyState<'_, E>, attempt: Attempt, left: usize) -> Step<E> {
    match left {
        0 => retry(state, Retry::ChangesAgain),
        _ => call(state, Pending::Attempt(Phase::Read(attempt, left)), Act::Read),
    }
}

fn as_read<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::Read(attempt, left), Answer::Read(live)) => {
            let Some(live) = live.filter(|live| attempt.uid == *uid_of(live)) else {
                return resolve_name(state, attempt.why, Refused::unsent(attempt.uid));
            };
            let act = Act::Apply { body: body_for(&state.input, &live), force: attempt.force };
            state.live = live;
            call(state, Pending::Attempt(Phase::SentAsRead(attempt, left)), act)
        }
        (Phase::SentAsRead(attempt, left), Answer::Failed(failure)) => match failure.kind {
            FailureKind::Conflict => read(state, attempt, left.saturating_sub(1)),
            _ => handle_refusal(state, attempt, failure),
        },
        (_, answer) => pass_on(state, answer),
    }
}

/// An apply was refused.
fn handle_refusal<E>(state: &mut ApplyState<'_, E>, attempt: Attempt, failure: Failure<E>) -> Step<E> {
    match failure.kind {
        FailureKind::FieldConflict(fields) if !attempt.force => {
            conflict::contest(state, attempt, fields, failure.error)
        }
        // Another object bears the name now.
        FailureKind::Conflict | FailureKind::NotFound => {
            resolve_name(state, attempt.why, Refused::new(attempt.uid, failure))
        }
        FailureKind::NamespaceMissing => {
            call(state, Pending::Attempt(Phase::ReadInNamespace(attempt, failure)), Act::Read)
        }
        // A uid that differs answers 422 for some kinds: see whether the body is at fault.
        FailureKind::Invalid | FailureKind::InvalidFields(_) if attempt.why == Why::Missing => {
            call(state, Pending::Attempt(Phase::ReadInvalid(attempt, failure)), Act::Read)
        }
        _ => fail(state, failure),
    }
}

fn resolve_name<E>(state: &mut ApplyState<'_, E>, why: Why, refused: Refused<E>) -> Step<E> {
    let missing = (why == Why::Missing).then(|| refused.uid.clone());
    collision::resolve(state, missing, Some(refused))
}
