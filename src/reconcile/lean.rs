//! Statuses that the hub's API does not take whole: with them the object is too large, or a policy refuses them. The same
//! writer writes them without their lists in place of that, so that people see why all the same, and an Event says that
//! something is left out. A status that was not taken is not sent again before it says something else or a person asks
//! for a look: it would be refused for ever.

use std::collections::BTreeMap;

use vidra_api::{VidraResourceStatus, VidraTargetStatus, labels::RECONCILE_REQUESTED_AT};
use vidra_core::{
    mutants::{self, Mutant},
    status::Lean,
};

use super::{Hub, Memo, refused::is_refusal};
use crate::{
    base::error::{CallError, Class},
    queue::{Key, ResourceKey},
};

/// Reason of the Event.
pub(super) const STATUS_SHORTENED: &str = "StatusShortened";

/// A status that is remembered whole while it stands without its lists.
pub(super) trait Told: Lean + Clone + PartialEq {
    /// Those.
    fn whole(memo: &mut Memo) -> &mut BTreeMap<Key, Self>;
}

impl Told for VidraResourceStatus {
    fn whole(memo: &mut Memo) -> &mut BTreeMap<Key, Self> {
        &mut memo.whole_resources
    }
}

impl Told for VidraTargetStatus {
    fn whole(memo: &mut Memo) -> &mut BTreeMap<Key, Self> {
        &mut memo.whole_targets
    }
}

impl Hub {
    /// What was told last: what stands, or the whole of it where only a part was taken.
    pub(super) fn told<S: Told>(&self, key: &Key, stands: Option<&S>) -> Option<S> {
        let mut memo = self.memo.lock();
        let whole = S::whole(&mut memo).get(key).filter(|whole| stands == Some(&whole.lean()));
        let whole = whole.filter(|_| !mutants::is(Mutant::RefusedStatusAgain));
        whole.or(stands).cloned()
    }

    /// Writes a status over the one that stands, with `put`; without its lists where the whole is not taken. Why that was
    /// so, if it is news.
    pub(super) async fn put_status<S: Told, F: Future<Output = Result<(), CallError>>>(
        &self,
        key: &Key,
        stands: Option<&S>,
        status: S,
        put: impl Fn(S) -> F,
    ) -> Result<Option<CallError>, CallError> {
        let answer = put(status.clone()).await;
        self.status_was_sent(key);
        let error = match answer {
            Ok(()) => {
                S::whole(&mut self.memo.lock()).remove(key);
                return Ok(None);
            }
            Err(error) => error,
        };
        let lean = status.lean();
        if lean == status || !self.may_take_less::<S>(key, &error) {
            return Err(error);
        }
        if stands != Some(&lean) {
            let answer = put(lean).await;
            self.status_was_sent(key);
            answer?;
        }
        let is_news = S::whole(&mut self.memo.lock()).insert(key.clone(), status).is_none();
        tracing::info!(%key, %error, "its status is written without its lists");
        Ok(is_news.then_some(error))
    }

    /// A write that was refused, or has failed again and again, may be for what was to be written.
    fn may_take_less<S: Told>(&self, key: &Key, error: &CallError) -> bool {
        let was_so = || S::whole(&mut self.memo.lock()).contains_key(key);
        let fails = error.class == Class::Server && (self.fails_often(key) || was_so());
        (is_refusal(error) || fails) && !mutants::is(Mutant::StatusWholeOrNot)
    }
}

/// What a user should know of a status of this object, one of a VidraResource's, that was not taken whole.
pub(super) fn shortened(object: &str, resource: &ResourceKey, error: &CallError) -> String {
    let ResourceKey { namespace, name } = resource;
    format!(
        "the status of {object} is written without its lists, for the hub's API does not take the whole: make the VidraResource smaller, or change the policy that refuses it and ask for a look: kubectl annotate vidraresource {name} -n {namespace} --overwrite {RECONCILE_REQUESTED_AT}=\"$(date +%s)\". The API says: {error}"
    )
}
