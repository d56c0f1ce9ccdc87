//! Whether an object that was not compared yet is as it was left: a read, and where that does not tell a dry run. One that
//! is verified is applied to where it is not; a look writes nothing.
//!
//! A dry run may be refused, for somebody has changed for good what cannot be changed back. Where it is looked at, that is
//! what the look has found, if nothing but the live object is in the way (`immutable.rs`).

use super::{
    Act, Answer, ApplyState, Comparison, End, Failure, FailureKind, Holder, Note, Pending, Retry, Step,
    attempt::{self, Attempt},
    body::{body, body_since, is_visible, uid_of},
    call, create, end, fail, pass_on, retry,
};
use crate::{
    mutants::{self, Mutant},
    plan::{Drift, Why},
    uid::Uid,
};

/// An object is read and compared so often while another owner changes it in between.
const LOOKS: usize = 3;

/// What is looked at.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    uid: Uid,
    /// It is applied to where it differs; taking fields from other managers, or not. `None`: it is only looked at.
    force: Option<bool>,
    /// So many looks are left.
    left: usize,
}

/// A call of a look.
pub(super) enum Phase<E> {
    Read(Subject),
    Ingest(Subject),
    Compare(Subject),
    /// The comparison of a look was refused for fields. Could the object be created as it is declared?
    DryRunCreate(Failure<E>),
}

/// Asks what an apply would change, and applies only when it would change a value, or whose one is.
pub(super) fn verify<E>(state: &mut ApplyState<'_, E>, uid: Uid, force: bool) -> Step<E> {
    read(state, Subject { uid, force: Some(force), left: LOOKS })
}

/// The answer is in the cache when it ends.
pub(super) fn look<E>(state: &mut ApplyState<'_, E>, uid: Uid) -> Step<E> {
    read(state, Subject { uid, force: None, left: LOOKS })
}

fn read<E>(state: &mut ApplyState<'_, E>, subject: Subject) -> Step<E> {
    match subject.left {
        // Others, who apply the object too, were faster each time.
        0 => retry(state, Retry::ChangedMeanwhile),
        _ => call(state, Pending::Verify(Phase::Read(subject)), Act::Read),
    }
}

pub(super) fn next<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::Read(subject), Answer::Read(live)) => {
            state.live = live.unwrap_or_default();
            examine(state, subject)
        }
        (Phase::Ingest(subject), Answer::Ingested) => match subject.force {
            Some(force) => verify_view(state, subject, force),
            None => look_view(state, subject),
        },
        (Phase::Compare(mut subject), Answer::Compared(None)) => {
            subject.left = subject.left.saturating_sub(1);
            read(state, subject)
        }
        (Phase::Compare(Subject { force: None, .. }), Answer::Compared(Some(_))) => end(state, End::Seen),
        (Phase::Compare(Subject { uid, force: Some(force), .. }), Answer::Compared(Some(comparison))) => {
            match comparison {
                Comparison::Equal => end_unchanged(state),
                Comparison::Own => attempt::apply(state, Attempt { uid, why: Why::Changed, force }),
                Comparison::Differs => attempt::apply(state, Attempt { uid, why: Why::Drifted, force }),
            }
        }
        (Phase::Compare(Subject { uid, force: Some(_), .. }), answer) => {
            state.attempts.push((uid, Holder::Ours));
            pass_on(state, answer)
        }
        (
            Phase::Compare(Subject { force: None, .. }),
            Answer::Failed(refused @ Failure { kind: FailureKind::InvalidFields(_), .. }),
        ) if !mutants::is(Mutant::FixedFails) => {
            let act = Act::DryRunCreate(body(&state.input));
            call(state, Pending::Verify(Phase::DryRunCreate(refused)), act)
        }
        (Phase::DryRunCreate(_), Answer::Creatable(true)) => end(state, End::Seen).after(Note::Immutable),
        (Phase::DryRunCreate(refused), Answer::Creatable(false)) => fail(state, refused),
        (Phase::DryRunCreate(refused), Answer::Failed(failure)) if !failure.is_transient => {
            fail(state, refused)
        }
        (_, answer) => pass_on(state, answer),
    }
}

fn examine<E>(state: &mut ApplyState<'_, E>, subject: Subject) -> Step<E> {
    if subject.force.is_none() {
        if subject.uid != *uid_of(&state.live) || state.live.is_null() {
            return end(state, End::Seen).after(Note::Vanished(subject.uid));
        }
        if !is_visible(&state.live, state.input.owner) {
            return end(state, End::Seen).after(Note::Hidden);
        }
    } else if state.live.is_null() {
        return create::create(state, true).after(Note::Forget(subject.uid));
    }
    call(state, Pending::Verify(Phase::Ingest(subject)), Act::Ingest)
}

fn verify_view<E>(state: &mut ApplyState<'_, E>, subject: Subject, force: bool) -> Step<E> {
    match state.input.facts.view().map(|view| view.drift) {
        Some(Drift::None) => end_unchanged(state),
        Some(Drift::Differs) => attempt::apply(state, Attempt { uid: subject.uid, why: Why::Drifted, force }),
        _ => compare(state, subject),
    }
}

fn look_view<E>(state: &mut ApplyState<'_, E>, subject: Subject) -> Step<E> {
    match state.input.facts.view().is_none_or(|view| !view.proof || view.drift != Drift::Unsure) {
        true => end(state, End::Seen),
        false => compare(state, subject),
    }
}

fn compare<E>(state: &mut ApplyState<'_, E>, subject: Subject) -> Step<E> {
    let body = body_since(&state.input, &subject.uid, &state.live);
    call(state, Pending::Verify(Phase::Compare(subject)), Act::Compare(body))
}

fn end_unchanged<E>(state: &mut ApplyState<'_, E>) -> Step<E> {
    let uid = Uid::from(uid_of(&state.live));
    end(state, End::Applied { uid, corrected: false })
}
