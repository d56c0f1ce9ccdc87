//! The name is taken: by whom? Only what is proved ours, or another VidraResource's of this hub that agrees, is applied to;
//! anything else is adopted or refused.

use serde_json::Value;

use super::{
    Act, Answer, ApplyState, End, Failure, FailureKind, Holder, Note, Pending, Refusal, Retry, Step, adopt,
    attempt::{self, Attempt},
    body::{is_terminating, is_visible, uid_of},
    call, end, pass_on, refuse, retry,
};
use crate::{
    mutants::{self, Mutant},
    owner::{Owner, Ownership, ownership},
    plan::Why,
    uid::Uid,
};

/// An apply to the object with this uid was refused, for another one bears the name. No uid: a create was.
pub(super) struct Refused<E> {
    pub(super) uid: Uid,
    /// How it ends where the same object has the name: the same apply would be refused again.
    end: End<E>,
    /// It said that there is a conflict, and not that there is no object.
    is_conflict: bool,
}

impl<E> Refused<E> {
    pub(super) fn new(uid: Uid, failure: Failure<E>) -> Self {
        let is_conflict = failure.kind != FailureKind::NotFound;
        Self { uid, end: End::Failed(failure.error), is_conflict }
    }

    /// By what was read, before anything was sent.
    pub(super) fn unsent(uid: Uid) -> Self {
        Self { uid, end: End::Retry(Retry::GoneOrReplaced), is_conflict: true }
    }
}

/// A look at what bears the name.
pub(super) enum Phase<E> {
    /// The uid under which the cache had it before.
    Read {
        cached: Option<Uid>,
        refused: Option<Refused<E>>,
    },
    Ingest {
        is_ours: bool,
        refused: Option<Refused<E>>,
    },
}

/// Reads what bears the name. `missing`: the uid of an object that is not there any more.
pub(super) fn resolve<E>(
    state: &mut ApplyState<'_, E>,
    missing: Option<Uid>,
    refused: Option<Refused<E>>,
) -> Step<E> {
    let cached = state.input.facts.uid().filter(|uid| missing.as_ref() != Some(uid));
    call(state, Pending::Collision(Phase::Read { cached, refused }), Act::Read)
        .after(missing.map(Note::Forget))
}

pub(super) fn next<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::Read { cached, refused }, Answer::Read(None)) => {
            let why = match refused {
                // There is none that it could be in conflict with: a webhook says so.
                Some(Refused { end, is_conflict: true, .. }) => end,
                _ => End::Retry(Retry::CameAndWent),
            };
            // No watch tells that one is gone which had lost our label before.
            end(state, why).after(cached.map(Note::Forget))
        }
        (Phase::Read { refused, .. }, Answer::Read(Some(live))) => {
            state.live = live;
            of_whom(state, refused)
        }
        (Phase::Ingest { is_ours: true, refused }, Answer::Ingested) => ours(state, refused),
        (Phase::Ingest { is_ours: false, .. }, Answer::Ingested) => {
            let uid = Uid::from(uid_of(&state.live));
            attempt::join(state, uid)
        }
        (_, answer) => pass_on(state, answer),
    }
}

fn of_whom<E>(state: &mut ApplyState<'_, E>, refused: Option<Refused<E>>) -> Step<E> {
    let ownership = ownership(&state.live, state.input.owner);
    // No watch would tell of changes to one without our label.
    let is_ours_or_shared = matches!(ownership, Ownership::Ours | Ownership::Shared);
    if is_terminating(&state.live) {
        let note = is_ours_or_shared.then(|| note_unwritten(&state.live, state.input.owner));
        return end(state, End::InTheWay).after(note);
    }
    if is_ours_or_shared {
        let is_ours = ownership == Ownership::Ours;
        return call(state, Pending::Collision(Phase::Ingest { is_ours, refused }), Act::Ingest);
    }
    if ownership == Ownership::Controlled {
        return refuse(state, Refusal::Controlled);
    }
    state.attempts.push((uid_of(&state.live).into(), Holder::Unproved));
    match ownership {
        Ownership::OtherHub(hub) => adopt::adopt_from_hub(state, &hub),
        _ => adopt::adopt(state),
    }
}

fn ours<E>(state: &mut ApplyState<'_, E>, refused: Option<Refused<E>>) -> Step<E> {
    let uid = Uid::from(uid_of(&state.live));
    match refused {
        // It would be refused again, and the queue's back-off decides when it is tried.
        Some(Refused { uid: tried, end: why, .. }) if tried == uid && !mutants::is(Mutant::RefusedGoesOn) => {
            end(state, why)
        }
        // Somebody makes it again and again.
        _ if std::mem::replace(&mut state.has_resolved, true) => retry(state, Retry::ReplacedAgain),
        _ => attempt::apply(state, Attempt { uid, why: Why::Changed, force: false }),
    }
}

/// What the cache learns of an object that was read and is not written: without the hub's label no watch tells of its end,
/// and it counts as one that is not seen.
pub fn note_unwritten(live: &Value, owner: &Owner) -> Note {
    match is_visible(live, owner) {
        true => Note::Ingest,
        false => Note::Forget(uid_of(live).into()),
    }
}
