//! Places whose kinds other health rules judge by now are listed again, beside the watches that go on to tell: one place of a
//! member at a time, and few of all members, behind all other work.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{Informers, registry::Unjudged};
use crate::base::backoff::Pauses;

/// Between two rounds of a member: the first, and, after rounds in which lists failed, the longest.
const RESTS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// Does so until it is dropped.
pub(super) async fn follow(informers: Arc<Informers>) {
    let mut pauses = Pauses::new(RESTS.0, RESTS.1, None);
    loop {
        // Of what changes from here on the round below may know nothing.
        let changed = informers.health.changed();
        match round(&informers).await {
            None => {
                tokio::select! {
                    () = changed => {}
                    () = informers.unjudged.notified() => {}
                }
                continue;
            }
            Some(true) => pauses.reset(),
            Some(false) => {}
        }
        pauses.pause(informers.rng.as_ref()).await;
    }
}

/// Lists each place for which that is due once. Whether all went well; `None`: there was none.
async fn round(informers: &Informers) -> Option<bool> {
    let (mut tried, mut went_well) = (BTreeSet::new(), None);
    loop {
        let next = informers.state.lock().unjudged(&informers.health.now(), &tried);
        let Some(next) = next else { return went_well };
        tried.insert(next.0.clone());
        let is_judged = list(informers, &next).await;
        went_well = Some(went_well.unwrap_or(true) && is_judged);
    }
}

async fn list(informers: &Informers, (place, id, resource): &Unjudged) -> bool {
    let turn = informers.health.turn().await;
    let judged_by = informers.health.now().fingerprint(&place.gvk.group, &place.gvk.kind);
    let within = informers.tuning.now().cache_sync_timeout;
    let mut list = Box::pin(informers.list_again_within(place, resource, Duration::MAX));
    let listed = match timeout(within, list.as_mut()).await {
        Ok(listed) => listed,
        Err(_) => {
            // It goes on: begun again, a long list would never end. But others wait for its turn.
            drop(turn);
            list.await
        }
    };
    if let Err(error) = &listed {
        tracing::debug!(%place, %error, "a list for changed health rules failed");
        return false;
    }
    informers.set_judged(place, *id, judged_by);
    true
}
