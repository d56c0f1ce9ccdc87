//! What the cache of a member's objects learns from calls: who else is concerned is woken.

use serde_json::Value;
use vidra_core::{
    apply::Note,
    object::{Gvk, ObjectKey},
};

use super::Executor;
use crate::member::{live::Live, records::Source};

/// What a step asks it to learn of an object that was read as `live`.
pub(super) fn note(executor: &Executor<'_>, gvk: &Gvk, key: &ObjectKey, live: &Value, note: &Note) {
    let Executor { session, owner, .. } = executor;
    match note {
        Note::Ingest => ingest(executor, gvk, Live::from(live.clone()), Source::Read),
        Note::Forget(uid) => forget(executor, key, &uid.to_string()),
        Note::Vanished(uid) => {
            let targets = session.records.note_gone(key, &uid.to_string());
            session.wake(targets, Some(&owner.hash));
        }
        Note::Hidden => {
            let targets = session.records.note_hidden(gvk, Live::from(live.clone()));
            session.wake(targets, Some(&owner.hash));
        }
        Note::Present => session.records.note_present(key, &Live::from(live.clone())),
        Note::Immutable => session.records.note_immutable(&owner.hash, key, live),
    }
}

pub(super) fn ingest(executor: &Executor<'_>, gvk: &Gvk, live: Live, source: Source<'_>) {
    let targets = executor.session.records.fold(gvk, live, source);
    // Of its own answer it is told only where that came too late.
    let cause = (!matches!(source, Source::Answer(_))).then_some(&executor.owner.hash);
    executor.session.wake(targets, cause);
}

pub(super) fn forget(executor: &Executor<'_>, key: &ObjectKey, uid: &str) {
    let targets = executor.session.records.fold_gone(key, uid, "");
    executor.session.wake(targets, Some(&executor.owner.hash));
}
