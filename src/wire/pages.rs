//! The pages of one list, one after another, and what to do where they are too large: with fewer objects in each,
//! down to one; and one that is too large by itself is asked for without its content, so that it can be named and
//! the list goes on behind it. Where objects are small again, pages grow again.

use std::{pin::pin, time::Duration};

use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout},
};
use vidra_core::mutants::{self, Mutant};

use super::{MOST, Page, Wire};
use crate::member::error::{CallError, Class};

/// A page of a list must be there within this time.
pub const PAGE_WITHIN: Duration = Duration::from_secs(60);
/// By how much a page shrinks and grows.
const STEP: u32 = 5;
/// A list that has shown nothing for this long gives its turn to another.
const SILENT_LIST: Duration = Duration::from_secs(2);

/// And one that goes on for this long, too: the others wait behind it.
const TURN: Duration = Duration::from_secs(30);
/// Bound on empty pages in a row that say that more comes.
const EMPTY_MOST: u32 = 20;
/// Bound on the objects of a list: one that shows more has no end.
const OBJECTS_MOST: usize = 1_000_000;

/// See the module.
pub struct Pages<'a> {
    wire: &'a Wire,
    /// Objects in the next page.
    size: &'a mut u32,
    /// In a page; fewer where they are too large.
    most: u32,
    turn: Option<OwnedSemaphorePermit>,
    from: Option<String>,
    version: String,
    /// Pages in a row that showed nothing.
    empty: u32,
    /// How many objects may be shown still.
    left: usize,
    /// When the turn is given back, whatever is shown until then.
    until: Instant,
}

impl<'a> Pages<'a> {
    /// A list from its beginning, with at most `most` objects in a page. `turn` is given back where the member is silent,
    /// and at the end.
    pub fn new(wire: &'a Wire, size: &'a mut u32, most: u32, turn: Option<OwnedSemaphorePermit>) -> Self {
        let until = Instant::now() + TURN;
        Self {
            wire,
            size,
            most,
            turn,
            from: None,
            version: String::new(),
            empty: 0,
            left: OBJECTS_MOST,
            until,
        }
    }

    /// Reads a page and hands over each of its objects as text, and whether that is its metadata only, for it is too
    /// large. False: it was the last.
    ///
    /// # Errors
    /// As any call; the list is to be begun again.
    pub async fn next(&mut self, take: &mut (dyn FnMut(&str, bool) + Send)) -> Result<bool, CallError> {
        let (text, is_bare) = self.fetch().await?;
        let page = Page::read(&text)?;
        for raw in page.items() {
            let endless =
                || CallError::endless("it has shown more objects than one cluster may have of the hub's");
            if !mutants::is(Mutant::PagesForEver) {
                self.left = self.left.checked_sub(1).ok_or_else(endless)?;
            }
            take(raw, is_bare);
        }
        page.version().clone_into(&mut self.version);
        let next = page.next().map(str::to_owned);
        self.empty = if page.items().next().is_none() { self.empty + 1 } else { 0 };
        if next.is_some() && (next == self.from || self.empty >= EMPTY_MOST) {
            return Err(CallError::endless("its pages are empty, or lead to themselves"));
        }
        self.from = next;
        if !is_bare {
            self.grow(text.len());
        }
        Ok(self.from.is_some())
    }

    /// The list's resourceVersion, as the last page said it.
    pub fn version(self) -> String {
        self.version
    }

    /// The next page; without content (true) where a single object is too large.
    async fn fetch(&mut self) -> Result<(String, bool), CallError> {
        loop {
            match self.within_turn(false).await {
                Err(error) if error.class == Class::Oversized && *self.size > 1 => {
                    *self.size = (*self.size / STEP).max(1);
                }
                Err(error) if error.class == Class::Oversized => {
                    return Ok((self.within_turn(true).await?, true));
                }
                answer => return Ok((answer?, false)),
            }
        }
    }

    async fn within_turn(&mut self, bare: bool) -> Result<String, CallError> {
        let mut page = pin!(self.wire.page(*self.size, self.from.as_deref(), bare, PAGE_WITHIN));
        if Instant::now() >= self.until {
            self.turn = None;
        }
        if self.turn.is_some() {
            match timeout(SILENT_LIST, &mut page).await {
                Ok(answer) => return answer,
                Err(_) => self.turn = None,
            }
        }
        page.await
    }

    /// A page that could have been so much larger makes the next one larger.
    fn grow(&mut self, bytes: usize) {
        if bytes.saturating_mul(STEP as usize) <= MOST {
            *self.size = self.size.saturating_mul(STEP).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use kube::{Client, api::ListParams, client::Body};

    use super::*;

    /// A server whose every page has so many objects and leads on: to itself, or to a new one.
    fn endless(same: bool, objects: usize, asked: Arc<AtomicUsize>) -> Wire {
        let answer = move |_: http::Request<Body>| {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            assert!(number < 100, "it is read on and on");
            let next = if same { "x".to_owned() } else { format!("x{number}") };
            let page = serde_json::json!({"metadata": {"resourceVersion": "1", "continue": next}, "items": vec![serde_json::json!({}); objects]});
            async move { Ok::<_, http::Error>(http::Response::new(Body::from(page.to_string().into_bytes()))) }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        Wire::of::<k8s_openapi::api::core::v1::ConfigMap>(client, None, ListParams::default())
    }

    /// Reads on until it is ended.
    async fn read(same: bool, objects: usize, at_most: usize) -> (CallError, usize, usize) {
        let asked = Arc::<AtomicUsize>::default();
        let (wire, mut size) = (endless(same, objects, asked.clone()), 500);
        let mut pages = Pages::new(&wire, &mut size, 500, None);
        pages.left = at_most;
        let mut shown = 0;
        loop {
            match pages.next(&mut |_, _| shown += 1).await {
                Ok(true) => {}
                Ok(false) => panic!("it has an end"),
                Err(error) => return (error, asked.load(Ordering::Relaxed), shown),
            }
        }
    }

    #[tokio::test]
    async fn a_list_that_does_not_end_is_given_up() {
        for same in [true, false] {
            let (error, asked, _) = read(same, 0, OBJECTS_MOST).await;
            assert_eq!(error.class, Class::Flood);
            assert!(asked <= EMPTY_MOST as usize, "{asked}");
        }
    }

    /// A server that takes so long for each page, and always has another.
    fn slow(each: Duration) -> Wire {
        let answer = move |_: http::Request<Body>| async move {
            tokio::time::sleep(each).await;
            let version = tokio::time::Instant::now();
            let page = serde_json::json!({"metadata": {"resourceVersion": "1", "continue": format!("{version:?}")}, "items": [{}]});
            Ok::<_, http::Error>(http::Response::new(Body::from(page.to_string().into_bytes())))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        Wire::of::<k8s_openapi::api::core::v1::ConfigMap>(client, None, ListParams::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_silent_or_goes_on_for_long_gives_its_turn_back() {
        // A page that takes longer than a turn may be silent; pages that come in time, until the turn is over.
        for (each, kept, given_back) in [(SILENT_LIST * 2, 0, 1), (SILENT_LIST / 2, 29, 32)] {
            let turns = Arc::new(tokio::sync::Semaphore::new(1));
            let turn = turns.clone().acquire_owned().await.unwrap();
            let (wire, mut size) = (slow(each), 500);
            let mut pages = Pages::new(&wire, &mut size, 500, Some(turn));
            for page in 1..=given_back {
                assert!(pages.next(&mut |_, _| {}).await.unwrap());
                assert!(page > kept || turns.available_permits() == 0, "page {page} of {each:?}");
            }
            assert_eq!(turns.available_permits(), 1, "pages of {each:?}");
        }
    }

    #[tokio::test]
    async fn a_list_whose_full_pages_do_not_end_is_given_up() {
        let (error, asked, shown) = read(false, 500, 1700).await;
        assert_eq!((error.class, asked, shown), (Class::Flood, 4, 1700));
    }
}
