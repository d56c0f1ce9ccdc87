//! A change that the API server refuses because a field cannot be changed on a live object: told, or, where the manifest
//! asks for it, made by deleting the object and creating it again.
//!
//! Which refusals are of that kind no code or cause of the answer says (a Job's template is "invalid", a StatefulSet's
//! field "forbidden"). So the server is asked by a dry run whether it would create the object: it answers that the name is
//! taken when nothing but the live object is in the way, and refuses it again when the object itself is at fault. Nothing
//! is deleted that could not be created again.

use serde_json::Value;
use vidra_api::labels::PRUNE;

use super::{
    Act, Answer, ApplyState, End, Failure, FailureKind, Holder, Note, Obstacle, Pending, Refusal, Retry,
    Step,
    body::{body, is_terminating, uid_of},
    call,
    collision::note_unwritten,
    create, end, fail, pass_on, refuse, retry,
};
use crate::{
    directives::OnImmutable,
    mutants::{self, Mutant},
    object::Gvk,
    owner::{Ownership, other_owners_of, ownership},
    uid::Uid,
};

/// A call that follows such a refusal.
pub(super) enum Phase<E> {
    Read { uid: Uid, holder: Holder, refused: Failure<E> },
    DryRun { holder: Holder, refused: Failure<E> },
    Delete { fields: Vec<String> },
}

/// An apply to the object with this uid was refused for fields.
pub(super) fn examine<E>(
    state: &mut ApplyState<'_, E>,
    uid: Uid,
    holder: Holder,
    refused: Failure<E>,
) -> Step<E> {
    call(state, Pending::Immutable(Phase::Read { uid, holder, refused }), Act::Read)
}

pub(super) fn next<E>(state: &mut ApplyState<'_, E>, phase: Phase<E>, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::Read { uid, holder, refused }, Answer::Read(live)) => {
            match live.filter(|live| uid == *uid_of(live)) {
                Some(live) => {
                    state.live = live;
                    let act = Act::DryRunCreate(body(&state.input));
                    call(state, Pending::Immutable(Phase::DryRun { holder, refused }), act)
                }
                // A uid that differs is refused in the same way.
                None => retry(state, Retry::Replaced).after(Note::Forget(uid)),
            }
        }
        (Phase::DryRun { holder, refused }, Answer::Creatable(true)) => judge(state, holder, refused),
        (Phase::DryRun { refused, .. }, Answer::Creatable(false)) => fail(state, refused),
        (Phase::DryRun { refused, .. }, Answer::Failed(failure)) if !failure.is_transient => {
            fail(state, refused)
        }
        (Phase::Delete { .. }, Answer::Deleted { is_terminating: true }) => end(state, End::Leaving),
        // The inventory holds its key throughout: after a crash in between it is missing, and is created.
        (Phase::Delete { fields }, Answer::Deleted { is_terminating: false }) => {
            state.recreates = Some(fields);
            let uid = Uid::from(uid_of(&state.live));
            create::create(state, false).after(Note::Forget(uid))
        }
        (_, answer) => pass_on(state, answer),
    }
}

fn judge<E>(state: &mut ApplyState<'_, E>, holder: Holder, refused: Failure<E>) -> Step<E> {
    let FailureKind::InvalidFields(fields) = refused.kind else {
        return end(state, End::Failed(refused.error));
    };
    let (live, input) = (&state.live, &state.input);
    let obstacle = if holder == Holder::Unproved {
        Some(Obstacle::Unproved)
    } else if let Some(why) = must_stay(&input.declared.gvk, live) {
        Some(Obstacle::MustStay(why))
    } else if input.declared.directives.on_immutable == OnImmutable::Fail {
        Some(Obstacle::NotAsked)
    } else {
        let is_owner = |manager: &str| input.facts.is_owner(manager);
        match ownership(live, input.owner) {
            Ownership::Ours if other_owners_of(live, input.owner).into_iter().any(is_owner) => {
                Some(Obstacle::NotAlone)
            }
            Ownership::Ours => None,
            // Known by its uid; but what another one had is released, and nobody's of ours.
            Ownership::Foreign if holder == Holder::Ours => {
                // It may have been planned by an entry that is gone since then. The reconcile that saw that entry writes
                // the uid down at its end; else it is not ours.
                let is_recorded = input.facts.is_in_inventory(&uid_of(live).into());
                if !is_recorded && !mutants::is(Mutant::UnrecordedRecreated) {
                    return retry(state, Retry::LostEntry);
                }
                None
            }
            _ => Some(Obstacle::NotAlone),
        }
    };
    match obstacle {
        Some(obstacle) => refuse(state, Refusal::Immutable { fields, error: refused.error, obstacle }),
        None => recreate(state, fields),
    }
}

fn recreate<E>(state: &mut ApplyState<'_, E>, fields: Vec<String>) -> Step<E> {
    if is_terminating(&state.live) {
        let note = note_unwritten(&state.live, state.input.owner);
        return end(state, End::Leaving).after(note);
    }
    if let Some(rest) = state.input.facts.late_writes() {
        return end(state, End::TooEarly(rest));
    }
    let act = Act::Delete { fields: fields.clone() };
    call(state, Pending::Immutable(Phase::Delete { fields }), act)
}

/// Why an object is not deleted, whatever the manifest says.
fn must_stay(gvk: &Gvk, live: &Value) -> Option<&'static str> {
    if live["metadata"]["annotations"][PRUNE] == "disabled" {
        return Some("it is annotated vidra.dev/prune: disabled");
    }
    match (&*gvk.group, &*gvk.kind) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            Some("what others have put into it would go with it")
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") => Some("its data could go with it"),
        ("apps", "StatefulSet")
            if live["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" =>
        {
            Some("its claims, and their data, would go with it (persistentVolumeClaimRetentionPolicy)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_holds_data_or_objects_of_others_stays() {
        let keeps = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}});
        let drops = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}});
        let cases = [
            (Gvk::new("", "v1", "Namespace"), json!({}), true),
            (Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), json!({}), true),
            (Gvk::new("", "v1", "PersistentVolumeClaim"), json!({}), true),
            (Gvk::new("", "v1", "PersistentVolume"), json!({}), true),
            (Gvk::new("apps", "v1", "StatefulSet"), keeps, false),
            (Gvk::new("apps", "v1", "StatefulSet"), drops, true),
            (Gvk::new("batch", "v1", "Job"), json!({}), false),
            (Gvk::new("example.com", "v1", "Namespace"), json!({}), false),
            (Gvk::new("batch", "v1", "Job"), json!({"metadata": {"annotations": {PRUNE: "disabled"}}}), true),
        ];
        for (gvk, live, stays) in cases {
            assert_eq!(must_stay(&gvk, &live).is_some(), stays, "{gvk}");
        }
    }
}
