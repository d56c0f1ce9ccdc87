//! Lists of one place: those with which an informer begins, and single ones where no watch tells.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use kube::core::ApiResource;
use tokio::time::{Instant, timeout};
use vidra_core::mutants::{self, Mutant};

use super::{
    Informers, Place, State,
    reader::Item,
    run::{Course, Run},
};
use crate::{
    member::{
        error::{CallError, Class},
        records::Source,
    },
    wire::pages::Pages,
};

/// Objects of a list beyond those that are recorded, and objects that nobody can read: with more it is given up.
const BEYOND_MAX: usize = 10_000;

/// Counts them.
#[derive(Default)]
struct Beyond(AtomicUsize);

impl Beyond {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// What is to be read of the list has been read.
    fn check(&self) -> Result<(), CallError> {
        match self.0.load(Ordering::Relaxed) > BEYOND_MAX && !mutants::is(Mutant::EndlessListRead) {
            true => Err(CallError::endless(
                "it shows more objects with the hub's label than the hub records of one cluster",
            )),
            false => Ok(()),
        }
    }
}

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
        let turn = registry.turns.list().await.ok();
        let mark = registry.records.mark();
        // Told at the list's end: until then a plan would have to wait for it.
        let (mut seen, mut woken) = (BTreeSet::new(), BTreeSet::new());
        let (mut broken, beyond) = (BTreeMap::new(), Beyond::default());
        let mut pages = Pages::new(&self.reader.wire, &mut course.page, registry.page, turn);
        loop {
            let mut take = |text: &str, is_cut| match self.reader.listed(text, is_cut) {
                Item::Object(key, live) => {
                    match registry.records.takes(&key) {
                        true => drop(seen.insert(registry.records.shared(key))),
                        false => beyond.note(),
                    }
                    woken.extend(registry.records.fold(&self.place.gvk, *live, Source::List(mark)));
                }
                Item::Broken(one) => {
                    self.name_broken(&one);
                    beyond.note();
                    if let Some(key) = one.key {
                        // It is there: that it cannot be read is no reason to think it gone.
                        seen.insert(key.clone());
                        broken.insert(key, one.why);
                    }
                }
            };
            let more = pages.next(&mut take).await;
            match more.and_then(|more| beyond.check().map(|()| more)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    registry.notify_of_list(woken);
                    return Err(error);
                }
            }
        }
        let version = pages.version();
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
}

impl Informers {
    /// Lists one place and folds it.
    pub(super) async fn list_once(&self, place: &Place, resource: &ApiResource) -> Result<(), CallError> {
        let reader = self.reader(place, resource);
        let mark = self.records.mark();
        let (mut seen, mut broken, beyond) = (BTreeSet::new(), BTreeMap::new(), Beyond::default());
        let mut size = self.page;
        let mut pages = Pages::new(&reader.wire, &mut size, self.page, None);
        let mut take = |text: &str, is_cut| match reader.listed(text, is_cut) {
            Item::Object(key, live) => {
                match self.records.takes(&key) {
                    true => drop(seen.insert(self.records.shared(key))),
                    false => beyond.note(),
                }
                let targets = self.records.fold(&place.gvk, *live, Source::List(mark));
                self.notify(targets);
            }
            Item::Broken(one) => {
                beyond.note();
                if let Some(key) = one.key {
                    seen.insert(key.clone());
                    broken.insert(key, one.why);
                }
            }
        };
        loop {
            let more = pages.next(&mut take).await?;
            beyond.check()?;
            if !more {
                break;
            }
        }
        self.set_broken(place, broken);
        self.notify(self.records.listed(&place.gvk, &place.namespace, &seen, mark));
        Ok(())
    }
}
