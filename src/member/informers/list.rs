//! Lists of one place: those with which an informer begins. A list is read page by page, and folded as it comes.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::{Instant, timeout};
use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
};

use super::{
    Informers, State,
    places::Place,
    reader::{Broken, Item, Reader},
    run::{Course, Run},
};
use crate::{
    base::error::{CallError, Class},
    member::records::{ListGuard, Source},
    wire::pages::Pages,
    workqueue::TargetKey,
};

/// Objects of a list beyond those that are recorded, and objects that nobody can read: with more it is given up.
const BEYOND_MAX: usize = 10_000;
/// How closely the time of a list is counted.
const STEP: Duration = Duration::from_secs(1);

/// A list under way.
pub(super) struct Listing<'a> {
    informers: &'a Informers,
    place: &'a Place,
    reader: &'a Reader,
    /// What ends from here on is not brought back.
    _guard: ListGuard<'a>,
    /// When it began, in the order of folds.
    mark: u64,
    is_whole: bool,
    seen: BTreeSet<ObjectKey>,
    broken: BTreeMap<ObjectKey, &'static str>,
    /// Whom it tells something: at its end, for until then a plan would have to wait for it.
    pub(super) woken: BTreeSet<TargetKey>,
    /// See [`BEYOND_MAX`].
    beyond: usize,
}

impl<'a> Listing<'a> {
    /// `is_whole`: what it does not show is gone, and nothing else tells of the place while it is read.
    pub(super) fn new(
        informers: &'a Informers,
        place: &'a Place,
        reader: &'a Reader,
        is_whole: bool,
    ) -> Self {
        Self {
            informers,
            place,
            reader,
            _guard: ListGuard::new(&informers.records),
            mark: informers.records.mark(),
            is_whole,
            seen: BTreeSet::new(),
            broken: BTreeMap::new(),
            woken: BTreeSet::new(),
            beyond: 0,
        }
    }

    /// Reads all pages and folds what they show; `name` hears of each object that cannot be read.
    pub(super) async fn read(
        &mut self,
        pages: &mut Pages<'_>,
        name: &(dyn Fn(&Broken) + Send + Sync),
    ) -> Result<(), CallError> {
        loop {
            if pages.is_at_start() {
                // It may have waited for its turn until now.
                self.mark = self.informers.records.mark();
            }
            let more = pages.next(&mut |text, is_cut| self.take(text, is_cut, name)).await?;
            if self.beyond > BEYOND_MAX && !mutants::is(Mutant::EndlessListRead) {
                return Err(CallError::endless(
                    "it shows more objects than the hub records of one cluster, or as many that cannot be read",
                ));
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn take(&mut self, text: &str, is_cut: bool, name: &(dyn Fn(&Broken) + Send + Sync)) {
        let records = &self.informers.records;
        match self.reader.listed(text, is_cut) {
            Item::Object(key, live) => {
                match records.takes(&key) {
                    true => drop(self.seen.insert(records.shared(key))),
                    false => self.beyond += 1,
                }
                let source = if self.is_whole { Source::List(self.mark) } else { Source::Beside(self.mark) };
                self.woken.extend(records.fold(&self.place.gvk, *live, source));
            }
            Item::Broken(one) => {
                name(&one);
                self.beyond += 1;
                if let Some(key) = one.key {
                    // It is there: that it cannot be read is no reason to think it gone.
                    self.seen.insert(key.clone());
                    self.broken.insert(key, one.why);
                }
            }
        }
    }

    /// All was shown, at this version: what was not is gone. Returns whom it tells something.
    pub(super) fn end(mut self, version: u64) -> BTreeSet<TargetKey> {
        let (gvk, namespace, of) = (&self.place.gvk, &self.place.namespace, (self.mark, version));
        self.woken.extend(self.informers.records.end_list(gvk, namespace, &self.seen, of));
        self.woken.extend(self.informers.set_unreadable(self.place, self.broken));
        self.woken
    }
}

/// What a list comes to within this time, of which waiting for its turn takes nothing: the member is not late, it would be
/// asked. `None`: it takes longer.
pub(super) async fn in_time<T>(
    within: Duration,
    in_line: &AtomicBool,
    mut list: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut left = within;
    while !left.is_zero() {
        let step = left.min(STEP);
        match timeout(step, &mut list).await {
            Ok(listed) => return Some(listed),
            Err(_) if in_line.load(Ordering::Relaxed) => {}
            Err(_) => left -= step,
        }
    }
    None
}

impl Run {
    /// Lists all, and says so when it takes long. It goes on all the same: begun again, a long list would never end.
    pub(super) async fn list_in_time(&self, course: &mut Course) -> Result<String, CallError> {
        let within = self.registry.tuning.now().cache_sync_timeout;
        self.in_line.store(false, Ordering::Relaxed);
        let mut listing = pin!(self.list(course));
        if let Some(listed) = in_time(within, &self.in_line, listing.as_mut()).await {
            return listed;
        }
        let why = format!("its first list takes longer than {within:?}");
        self.set_state(State::Failing(why));
        listing.await
    }

    /// Lists all and folds it; the resourceVersion behind which to watch.
    async fn list(&self, course: &mut Course) -> Result<String, CallError> {
        let (registry, gvk) = (&self.registry, &self.place.gvk);
        let judged_by = registry.health.now().fingerprint(&gvk.group, &gvk.kind);
        let mut listing = Listing::new(registry, &self.place, &self.reader, true);
        let pages = Pages::new(&self.reader.wire, &mut course.page, registry.page, Some(&registry.turns));
        let mut pages = pages.with_line(&self.in_line);
        let began = Instant::now();
        let read = listing.read(&mut pages, &|one| self.name_broken(one)).await;
        registry.note_list(&self.place, began, read.as_ref().err());
        let version = match read.map(|()| pages.version()) {
            Ok(version) if !version.is_empty() => version,
            failed => {
                registry.notify_of_list(listing.woken);
                let message = "the member sends no resourceVersion".to_owned();
                return failed.and(Err(CallError { class: Class::Server, message }));
            }
        };
        let number = version.parse().unwrap_or(0);
        let before = std::mem::replace(&mut course.highest, number);
        if number < before && registry.restored(&self.place) {
            // It, too, is begun again: nothing is decided from what is half old.
            return std::future::pending().await;
        }
        // Before it counts for anything.
        registry.doubt.note_answer();
        registry.notify_of_list(listing.end(number));
        course.verified = Instant::now();
        registry.set_judged(&self.place, self.id, judged_by);
        Ok(version)
    }
}
