//! Statuses that the hub's API does not take whole: with them the object is too large, or a policy refuses them. The same
//! writer writes them without their lists in place of that, so that people see why all the same, and an Event says that
//! something is left out. A status that was not taken is not sent again before it says something else or a person asks
//! for a look: it would be refused for ever.

use tokio::time::Instant;
use vidra_api::{VidraResourceStatus, VidraTargetStatus, labels::RECONCILE_REQUESTED_AT};
use vidra_core::{
    mutants::{self, Mutant},
    status::WithoutLists,
};

use super::{
    Hub,
    write_refusal::{fails_often, is_refusal},
};
use crate::{
    base::error::{CallError, Class},
    workqueue::{Key, ResourceKey},
};

/// The status of an object that was not taken whole, and stands without its lists.
#[derive(Default, PartialEq)]
pub(super) struct Whole {
    resource: Option<Box<VidraResourceStatus>>,
    target: Option<Box<VidraTargetStatus>>,
}

/// A status that is remembered whole while it stands without its lists.
pub(super) trait Fallback: WithoutLists + Clone + PartialEq {
    /// The slot of [`Whole`] in which a status of this kind is remembered.
    fn place(whole: &mut Whole) -> &mut Option<Box<Self>>;
    /// The status that is remembered in that slot.
    fn of(whole: &Whole) -> Option<&Self>;
}

impl Fallback for VidraResourceStatus {
    fn place(whole: &mut Whole) -> &mut Option<Box<Self>> {
        &mut whole.resource
    }

    fn of(whole: &Whole) -> Option<&Self> {
        whole.resource.as_deref()
    }
}

impl Fallback for VidraTargetStatus {
    fn place(whole: &mut Whole) -> &mut Option<Box<Self>> {
        &mut whole.target
    }

    fn of(whole: &Whole) -> Option<&Self> {
        whole.target.as_deref()
    }
}

/// The status that was reported last: that on the object, or the remembered whole if only one without lists was taken.
pub(super) fn last_written<S: Fallback>(hub: &Hub, key: &Key, stands: Option<&S>) -> Option<S> {
    let state = hub.state.lock();
    let whole = state
        .of(key)
        .and_then(|state| S::of(&state.whole))
        .filter(|whole| stands == Some(&whole.without_lists()));
    whole.filter(|_| !mutants::is(Mutant::RefusedStatusAgain)).or(stands).cloned()
}

/// Writes a status over the one that stands, with `put`; without its lists where the whole is not taken. Why that was
/// so, if it is news.
pub(super) async fn put<S: Fallback, F: Future<Output = Result<(), CallError>>>(
    hub: &Hub,
    key: &Key,
    stands: Option<&S>,
    status: S,
    put: impl Fn(S) -> F,
) -> Result<Option<CallError>, CallError> {
    let sent = |taken| hub.state.lock().change(key, |state| state.throttle.sent(taken, Instant::now()));
    let Err(error) = put(status.clone()).await else {
        sent(true);
        hub.state.lock().change(key, |state| *S::place(&mut state.whole) = None);
        return Ok(None);
    };
    let short = status.without_lists();
    let takes_less = short != status && may_take_less::<S>(hub, key, &error);
    sent(takes_less);
    if !takes_less {
        return Err(error);
    }
    if stands != Some(&short) {
        let answer = put(short).await;
        sent(answer.is_ok());
        answer?;
    }
    let before = hub.state.lock().change(key, |state| S::place(&mut state.whole).replace(Box::new(status)));
    tracing::info!(%error, "the hub writes the status without its lists");
    Ok(before.is_none().then_some(error))
}

/// A write that was refused, or has failed again and again, may be for what was to be written.
fn may_take_less<S: Fallback>(hub: &Hub, key: &Key, error: &CallError) -> bool {
    let was_so = || hub.state.lock().of(key).is_some_and(|state| S::of(&state.whole).is_some());
    let fails = matches!(error.class, Class::Server | Class::Gateway) && (fails_often(hub, key) || was_so());
    (is_refusal(error) || fails) && !mutants::is(Mutant::StatusWholeOrNot)
}

/// What a user should know of a status of this object, one of a VidraResource's, that was not taken whole.
pub(super) fn shortened(object: &str, resource: &ResourceKey, error: &CallError) -> String {
    let ResourceKey { namespace, name } = resource;
    format!(
        "the status of {object} is written without its lists, for the hub's API does not take the whole: make the VidraResource smaller, or change the policy that refuses it and ask for a look: kubectl annotate vidraresource {name} -n {namespace} --overwrite {RECONCILE_REQUESTED_AT}=\"$(date +%s)\". The API says: {error}"
    )
}
