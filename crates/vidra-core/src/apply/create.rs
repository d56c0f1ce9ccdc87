//! Creating what is not there. Nothing foreign is overwritten: what bears the name is looked at first, or left.

use super::{
    Act, Answer, ApplyState, End, Note, Pending, Retry, Step,
    attempt::{self, Attempt},
    body::{body, is_terminating, is_visible, uid_of},
    call,
    collision::{self, Refused},
    end, pass_on, retry,
};
use crate::{
    directives::ApplyMode,
    mutants::{self, Mutant},
    owner::{Ownership, is_proved, ownership},
    plan::Why,
    uid::Uid,
};

/// A create that is under way, or the read before it.
pub(super) enum Phase {
    /// Of an object that is wanted only where there is none.
    ReadAbsent,
    Sent {
        taken: Taken,
        corrected: bool,
    },
}

/// What to do when an object of that name exists.
pub(super) enum Taken {
    /// Read it.
    Resolve,
    /// Apply to the object with this uid: it was there, and is not seen.
    Apply { uid: Uid, force: bool },
    /// Nothing did a moment ago.
    GiveUp,
}

/// Creates the object; `corrected`: it was there before.
pub(super) fn create<E>(state: &mut ApplyState<'_, E>, corrected: bool) -> Step<E> {
    match state.input.declared.directives.apply {
        ApplyMode::IfAbsent => call(state, Pending::Create(Phase::ReadAbsent), Act::Read),
        _ => send(state, Taken::Resolve, corrected),
    }
}

/// It was there under this uid and is not seen: deleted, most often, or hidden by a lost label. A create tells which, and
/// where the name is taken, the uid tells by whom.
pub(super) fn create_again<E>(state: &mut ApplyState<'_, E>, uid: Uid, force: bool) -> Step<E> {
    send(state, Taken::Apply { uid, force }, true)
}

fn send<E>(state: &mut ApplyState<'_, E>, taken: Taken, corrected: bool) -> Step<E> {
    let mut body = body(&state.input);
    // Server-side apply has no create-only. No object can have this version: where one exists the server answers 409, and
    // where none does it creates one.
    body["metadata"]["resourceVersion"] = "1".into();
    call(state, Pending::Create(Phase::Sent { taken, corrected }), Act::Create(body))
}

pub(super) fn next<E>(state: &mut ApplyState<'_, E>, phase: Phase, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::ReadAbsent, Answer::Read(None)) => send(state, Taken::GiveUp, false),
        (Phase::ReadAbsent, Answer::Read(Some(live))) => {
            state.live = live;
            leave(state)
        }
        (Phase::Sent { corrected, .. }, Answer::Applied(uid)) => end(state, End::Applied { uid, corrected }),
        (Phase::Sent { taken, .. }, Answer::Failed(failure)) if failure.kind.is_conflict() => match taken {
            Taken::Resolve => collision::resolve(state, None, Some(Refused::new(Uid::default(), failure))),
            Taken::Apply { uid, force } => attempt::apply(state, Attempt { uid, why: Why::Missing, force }),
            Taken::GiveUp => retry(state, Retry::ComesAndGoes),
        },
        (_, answer) => pass_on(state, answer),
    }
}

/// It is wanted only where there is none, and there is one. Ours, it is taken into the inventory; anybody else's is theirs.
fn leave<E>(state: &mut ApplyState<'_, E>) -> Step<E> {
    let (live, owner) = (&state.live, state.input.owner);
    if is_terminating(live) {
        return end(state, End::InTheWay);
    }
    // Without our label no watch shows it, and asking again and again would tell no more.
    match ownership(live, owner) == Ownership::Ours && is_visible(live, owner) {
        true => {
            let uid = Uid::from(uid_of(live));
            end(state, End::Applied { uid, corrected: false }).after(Note::Ingest)
        }
        // Ours, and without the label: one that no watch of this process has shown is told like one that it saw lose it.
        false
            if is_proved(live, owner)
                && !is_visible(live, owner)
                && !mutants::is(Mutant::HiddenIsMissing) =>
        {
            end(state, End::Present).after(Note::Hidden)
        }
        false => end(state, End::Present).after(Note::Present),
    }
}
