//! Lists of one place: those with which an informer begins, and single ones where no watch tells.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use kube::core::ApiResource;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout},
};

use super::{
    Informers, Place, State,
    run::{Course, Run},
    wire::{Item, Page},
};
use crate::member::{
    error::{CallError, Class},
    records::Source,
};

/// A page of a list must be there within this time.
pub(super) const PAGE_WITHIN: Duration = Duration::from_secs(60);
/// Objects in a page; fewer where they are too large.
pub(super) const PAGE: u32 = 500;
/// A list that has shown nothing for so long gives its turn to another.
const SILENT_LIST: Duration = Duration::from_secs(2);

impl Run {
    /// Lists all, and says so when it takes long. It goes on all the same: begun anew, a long list would never end.
    pub(super) async fn list_in_time(&self, course: &mut Course) -> Result<String, CallError> {
        let within = self.registry.tuning.now().cache_sync_timeout;
        let mut listing = pin!(self.list(course));
        match timeout(within, &mut listing).await {
            Ok(listed) => listed,
            Err(_) => {
                let why = format!("its first list takes longer than {within:?}");
                self.set_state(State::Failing(why));
                listing.await
            }
        }
    }

    /// Lists all and folds it; the resourceVersion behind which to watch.
    async fn list(&self, course: &mut Course) -> Result<String, CallError> {
        let registry = &self.registry;
        // Never fails: turns do not end.
        let mut turn = registry.turns.list().await.ok();
        let mark = registry.records.mark();
        // Told at the list's end: until then a plan would have to wait for it.
        let (mut seen, mut woken) = (BTreeSet::new(), BTreeSet::new());
        let mut broken = BTreeMap::new();
        let mut from: Option<String> = None;
        let version = loop {
            let text = match self.page(&mut course.page, from.as_deref(), &mut turn).await {
                Ok(text) => text,
                Err(error) => {
                    registry.notify_of_list(woken);
                    return Err(error);
                }
            };
            let page = match Page::read(&text) {
                Ok(page) => page,
                Err(error) => {
                    registry.notify_of_list(woken);
                    return Err(error);
                }
            };
            for raw in page.items() {
                match self.wire.item(raw) {
                    Item::Object(key, live) => {
                        seen.insert(registry.records.shared(key));
                        woken.extend(registry.records.fold(&self.place.gvk, *live, Source::List(mark)));
                    }
                    Item::Broken(one) => {
                        self.name_broken(&one);
                        if let Some(key) = one.key {
                            // It is there: that it cannot be read is no reason to think it gone.
                            seen.insert(key.clone());
                            broken.insert(key, one.why);
                        }
                    }
                }
            }
            match page.next() {
                Some(next) => from = Some(next.to_owned()),
                None => break page.version().to_owned(),
            }
        };
        if version.is_empty() {
            registry.notify_of_list(woken);
            let message = "the member sends no resourceVersion".to_owned();
            return Err(CallError { class: Class::Server, message });
        }
        let number = version.parse().unwrap_or(0);
        let before = std::mem::replace(&mut course.highest, number);
        if number < before && registry.restored(&self.place) {
            // It, too, is begun anew: nothing is decided from what is half old.
            return std::future::pending().await;
        }
        woken.extend(registry.records.listed(&self.place.gvk, &self.place.namespace, &seen, mark));
        woken.extend(registry.set_broken(&self.place, broken));
        registry.notify_of_list(woken);
        course.verified = Instant::now();
        Ok(version)
    }

    /// A page; where objects are so large that it is too much, with fewer of them.
    pub(super) async fn page(
        &self,
        size: &mut u32,
        from: Option<&str>,
        turn: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<String, CallError> {
        loop {
            let mut page = pin!(self.wire.page(*size, from, PAGE_WITHIN));
            let answer = match turn {
                Some(_) => match timeout(SILENT_LIST, &mut page).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        *turn = None;
                        page.await
                    }
                },
                None => page.await,
            };
            match answer {
                Err(error) if error.class == Class::Oversized && *size > 1 => *size = (*size / 5).max(1),
                answer => return answer,
            }
        }
    }
}

impl Informers {
    /// Lists one place and folds it.
    pub(super) async fn list_once(&self, place: &Place, resource: &ApiResource) -> Result<(), CallError> {
        let wire = self.wire(place, resource);
        let mark = self.records.mark();
        let (mut seen, mut broken) = (BTreeSet::new(), BTreeMap::new());
        let (mut size, mut from) = (PAGE, None::<String>);
        loop {
            let text = match wire.page(size, from.as_deref(), PAGE_WITHIN).await {
                Err(error) if error.class == Class::Oversized && size > 1 => {
                    size = (size / 5).max(1);
                    continue;
                }
                text => text?,
            };
            let page = Page::read(&text)?;
            for raw in page.items() {
                match wire.item(raw) {
                    Item::Object(key, live) => {
                        seen.insert(self.records.shared(key));
                        let targets = self.records.fold(&place.gvk, *live, Source::List(mark));
                        self.notify(targets);
                    }
                    Item::Broken(one) => {
                        if let Some(key) = one.key {
                            seen.insert(key.clone());
                            broken.insert(key, one.why);
                        }
                    }
                }
            }
            match page.next() {
                Some(next) => from = Some(next.to_owned()),
                None => break,
            }
        }
        self.set_broken(place, broken);
        self.notify(self.records.listed(&place.gvk, &place.namespace, &seen, mark));
        Ok(())
    }
}
