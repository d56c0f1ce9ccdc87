//! One apply of a declared object, decided step by step: [`begin`] names the first call, [`next`] takes what the API server
//! answered and names the next one, until the apply ends. Who sends the calls decides nothing.
//!
//! Expected flow: what is not there is created, what is there and ours is applied to under its uid. Whatever bears the
//! name otherwise is read, and joined, adopted or refused as its owners and `conflicts` say (`collision.rs`, `adopt.rs`);
//! fields that others hold are taken or left (`conflict.rs`); what cannot be changed on a live object is recreated where
//! the manifest asks for it (`immutable.rs`).
//!
//! Guarantees: nothing is written but to the object with the uid, or the resourceVersion, that was looked at; nothing
//! foreign is overwritten by a create. An object that is replaced, or changed, again and again ends the apply: the queue's
//! back-off decides when it is tried again.

mod adopt;
mod attempt;
mod body;
mod collision;
mod conflict;
mod create;
mod facts;
mod immutable;
mod step;
mod verify;

pub use body::{ApplyInput, comparable, is_visible};
pub use collision::note_unwritten;
pub use facts::{Facts, Other};
pub use step::{
    Act, Answer, Comparison, Disagreement, End, Failure, FailureKind, Note, Obstacle, Refusal, Retry, Step,
};

use serde_json::Value;

use crate::{
    plan::{Action, Why},
    uid::Uid,
};
use attempt::Attempt;

/// What an apply has come to. `E` is the error of a failed call, which is handed back as it came.
pub struct ApplyState<'a, E> {
    input: ApplyInput<'a>,
    phase: Pending<E>,
    live: Value,
    /// The objects that were applied to, the newest last: a refusal of fields that cannot be changed is about that one.
    attempts: Vec<(Uid, Holder)>,
    /// An object that was not expected was found to be ours, and applied to all the same.
    has_resolved: bool,
    /// The fields for which the object was deleted, if what is created from now on stands in its place.
    recreates: Option<Vec<String>>,
}

impl<'a, E> ApplyState<'a, E> {
    /// Before the first call.
    pub fn new(input: ApplyInput<'a>) -> Self {
        let (live, attempts) = (Value::Null, Vec::new());
        Self { input, phase: Pending::End, live, attempts, has_resolved: false, recreates: None }
    }

    /// The object as it was read last, or as it was written since. What a step says of "the object" is about it.
    pub fn live(&self) -> &Value {
        &self.live
    }
}

/// Whose an object was when it was applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Proved to be this VidraResource's.
    Ours,
    /// Another VidraResource's, which this one joined.
    Shared,
    /// Nothing proves that it is this hub's: it was to be adopted.
    Unproved,
}

/// Which answer is awaited, and what for.
enum Pending<E> {
    Create(create::Phase),
    Attempt(attempt::Phase<E>),
    Collision(collision::Phase<E>),
    Conflict(conflict::Phase<E>),
    Adopt(adopt::Phase),
    Immutable(immutable::Phase<E>),
    Verify(verify::Phase<E>),
    End,
}

/// The first step. An action that applies nothing ends at once: the object is not in the target any more.
pub fn begin<E>(state: &mut ApplyState<'_, E>, action: &Action) -> Step<E> {
    match action {
        Action::Create => create::create(state, false),
        Action::Apply { uid, why: Why::Missing, force } => create::create_again(state, uid.clone(), *force),
        Action::Apply { uid, why, force } => {
            attempt::apply(state, Attempt { uid: uid.clone(), why: *why, force: *force })
        }
        Action::Verify { uid, force } => verify::verify(state, uid.clone(), *force),
        Action::Look { uid } => verify::look(state, uid.clone()),
        Action::Remove { .. } => end(state, End::Gone),
    }
}

/// The step after an answer to the one before.
pub fn next<E>(state: &mut ApplyState<'_, E>, answer: Answer<E>) -> Step<E> {
    match std::mem::replace(&mut state.phase, Pending::End) {
        Pending::Create(phase) => create::next(state, phase, answer),
        Pending::Attempt(phase) => attempt::next(state, phase, answer),
        Pending::Collision(phase) => collision::next(state, phase, answer),
        Pending::Conflict(phase) => conflict::next(state, phase, answer),
        Pending::Adopt(phase) => adopt::next(state, phase, answer),
        Pending::Immutable(phase) => immutable::next(state, phase, answer),
        Pending::Verify(phase) => verify::next(state, phase, answer),
        Pending::End => pass_on(state, answer),
    }
}

/// A call whose answer this phase takes.
fn call<E>(state: &mut ApplyState<'_, E>, phase: Pending<E>, act: Act<E>) -> Step<E> {
    state.phase = phase;
    Step::from(act)
}

fn end<E>(state: &mut ApplyState<'_, E>, end: End<E>) -> Step<E> {
    let end = match (end, state.recreates.take()) {
        (End::Applied { uid, .. }, Some(fields)) => End::Recreated { uid, fields },
        (end, _) => end,
    };
    Step::from(Act::End(end))
}

fn refuse<E>(state: &mut ApplyState<'_, E>, refusal: Refusal<E>) -> Step<E> {
    end(state, End::Refused(refusal))
}

fn retry<E>(state: &mut ApplyState<'_, E>, why: Retry) -> Step<E> {
    end(state, End::Retry(why))
}

/// An answer that a phase has no other use for.
fn pass_on<E>(state: &mut ApplyState<'_, E>, answer: Answer<E>) -> Step<E> {
    match answer {
        Answer::Failed(failure) => fail(state, failure),
        _ => retry(state, Retry::Unanswered),
    }
}

/// A call failed: for good, unless it was for fields that cannot be changed.
fn fail<E>(state: &mut ApplyState<'_, E>, failure: Failure<E>) -> Step<E> {
    if matches!(failure.kind, FailureKind::InvalidFields(_))
        && let Some((uid, holder)) = state.attempts.pop()
    {
        return immutable::examine(state, uid, holder, failure);
    }
    end(state, End::Failed(failure.error))
}

#[cfg(test)]
mod tests;
