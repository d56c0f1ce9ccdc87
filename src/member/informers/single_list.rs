//! Lists of places where no watch tells, for which a reconcile waits: what several ask for at once is listed for all of
//! them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::core::ApiResource;
use tokio::time::Instant;
use vidra_api::names::OwnerHash;
use vidra_core::{
    mutants::{self, Mutant},
    object::Scope,
};

use super::{
    Informers,
    list::{Listing, in_time},
    places::{Need, Place},
    reader::Reader,
};
use crate::{
    base::{
        error::{CallError, Class},
        withdrawal::Withdrawn,
    },
    wire::pages::Pages,
};

/// A single list, when it began in the order of what is asked, and how it ended.
type Once = tokio::sync::Mutex<Option<(u64, Result<(), CallError>)>>;

/// Those under way, by place.
#[derive(Default)]
pub(super) struct SingleLists {
    of: BTreeMap<Place, Arc<Once>>,
}

impl SingleLists {
    /// The last one of a place, for as long as somebody waits for it.
    fn last(&mut self, place: &Place) -> Arc<Once> {
        self.of.retain(|_, once| Arc::strong_count(once) > 1);
        self.of.entry(place.clone()).or_default().clone()
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}

impl Informers {
    /// Lists one place now, where no watch tells: events are off, or the watch is down. Where it may not be listed
    /// in all namespaces, in those that are needed. Returns what could not be listed.
    pub async fn list_now(&self, place: &Place, need: &Need) -> BTreeMap<Place, CallError> {
        let mut failed = BTreeMap::new();
        match self.list_once(place, &need.resource).await {
            Ok(()) => {}
            Err(error)
                if error.class == Class::Forbidden
                    && place.namespace.is_empty()
                    && need.scope == Scope::Namespaced =>
            {
                self.state.lock().confined.add(&place.gvk);
                for namespace in &need.namespaces {
                    let place = Place { gvk: place.gvk.clone(), namespace: namespace.clone() };
                    if let Err(error) = self.list_once(&place, &need.resource).await {
                        failed.insert(place, error);
                    }
                }
            }
            Err(error) => {
                failed.insert(place.clone(), error);
            }
        }
        failed
    }

    /// Lists one place and folds it. What several ask for at once is listed for all of them: of those that wait for a list
    /// under way, which may be older than what they know of, one lists again.
    pub(super) async fn list_once(&self, place: &Place, resource: &ApiResource) -> Result<(), CallError> {
        if let Some(rest) = self.at_rest(place) {
            return Err(rest.error);
        }
        let order = || self.next_id.fetch_add(1, Ordering::Relaxed);
        let (asked, last) = (order(), self.state.lock().single_lists.last(place));
        let mut last = last.lock().await;
        if let Some((_, listed)) = last.as_ref().filter(|(began, _)| *began > asked) {
            return listed.clone();
        }
        // The one that it waited for may have shown that there is no end.
        if let Some(rest) = self.at_rest(place).filter(|_| !mutants::is(Mutant::RestsUnseenInLine)) {
            return Err(rest.error);
        }
        let number = order();
        let read = self.list_single(place, resource).await;
        *last = Some((number, read.clone()));
        read
    }

    /// Lists what bears an owner's label in one place, and folds it. Nothing is gone that it does not show.
    pub async fn list_owned(
        &self,
        place: &Place,
        resource: &ApiResource,
        owner: &OwnerHash,
    ) -> Result<(), CallError> {
        if let Some(rest) = self.at_rest(place) {
            return Err(rest.error);
        }
        let within = self.tuning.now().cache_sync_timeout;
        self.read_single(place, &self.reader(place, resource).of(owner), (false, within)).await
    }

    /// Lists one place though a watch may tell, and has what is recorded of it judged again.
    pub async fn list_again(&self, place: &Place, resource: &ApiResource) -> Result<(), CallError> {
        self.list_again_within(place, resource, self.tuning.now().cache_sync_timeout).await
    }

    /// Lists one place again, where nobody waits for it.
    pub(super) async fn list_again_within(
        &self,
        place: &Place,
        resource: &ApiResource,
        within: Duration,
    ) -> Result<(), CallError> {
        if let Some(rest) = self.at_rest(place) {
            return Err(rest.error);
        }
        self.read_single(place, &self.reader(place, resource), (false, within)).await
    }

    /// One list, for which a reconcile waits: so it ends with the session, and does not take longer than an informer's may.
    async fn list_single(&self, place: &Place, resource: &ApiResource) -> Result<(), CallError> {
        let within = self.tuning.now().cache_sync_timeout;
        self.read_single(place, &self.reader(place, resource), (true, within)).await
    }

    /// Reads one list; `is_whole`: what it does not show is gone.
    async fn read_single(
        &self,
        place: &Place,
        reader: &Reader,
        (is_whole, within): (bool, Duration),
    ) -> Result<(), CallError> {
        let began = Instant::now();
        let mut size = self.page;
        let mut listing = Listing::new(self, place, reader, is_whole);
        let turns = (!mutants::is(Mutant::OnceWithoutTurn)).then_some(&self.turns);
        let in_line = AtomicBool::new(false);
        let mut pages = Pages::new(&reader.wire, &mut size, self.page, turns).with_line(&in_line);
        let within = match mutants::is(Mutant::SingleListForEver) {
            true => Duration::MAX,
            false => within,
        };
        let mut read = Box::pin(listing.read(&mut pages, &|_| {}));
        let in_time = in_time(within, &in_line, read.as_mut());
        let ended = self.stop.run_until_cancelled(in_time).await;
        drop(read);
        let read = match ended {
            Some(Some(read)) => read,
            Some(None) => Err(CallError::late_list(within)),
            None => Err(Withdrawn::Ended.into()),
        };
        self.note_list(place, began, read.as_ref().err());
        self.notify(match &read {
            Ok(()) if is_whole => listing.end(pages.version().parse().unwrap_or(0)),
            _ => listing.woken,
        });
        read
    }
}
