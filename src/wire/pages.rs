//! Pagination (`limit` and `continue`): the pages of one list, one after another, and what to do where they are too large:
//! with fewer objects in each, down to one; and one that is too large by itself is asked for without its content, so that it
//! can be named and the list goes on behind it. Where objects are small again, pages grow again.
//!
//! Of members, each page is read and folded in a turn, of which all of them have a few. A server that does not answer has none:
//! what it is asked first it is asked without one. Where none is free when it answers, the answer is not kept, for those
//! of all members would fill the memory: it is asked for again when the turn has come.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::timeout;
use vidra_core::mutants::{self, Mutant};

use super::{MOST, Page, Wire};
use crate::base::{
    error::{CallError, Class},
    limiter::{Turn, Turns},
};

/// A page of a list must be there within this time.
pub const PAGE_WITHIN: Duration = Duration::from_secs(60);
/// By how much a page shrinks and grows.
const STEP: u32 = 5;
/// What takes longer to be answered, or to be read, gives its turn to another.
const SILENT_LIST: Duration = Duration::from_secs(2);
/// Bound on empty pages in a row that say that more comes.
const EMPTY_MOST: u32 = 20;
/// Bound on the objects of a list: one that shows more has no end.
const OBJECTS_MOST: usize = 1_000_000;

/// A list that is read page by page.
pub struct Pages<'a> {
    wire: &'a Wire,
    /// Objects in the next page.
    size: &'a mut u32,
    /// In a page; fewer where they are too large.
    most: u32,
    turns: Option<&'a Turns>,
    /// Is true while a turn is waited for.
    in_line: Option<&'a AtomicBool>,
    /// For the next page.
    turn: Option<Turn>,
    /// The server answers: a turn is taken before it is asked.
    answers: bool,
    from: Option<String>,
    version: String,
    /// Pages in a row that showed nothing.
    empty: u32,
    /// How many objects may be shown still.
    left: usize,
}

/// A page, whether it is without content, and the turn in which it was read.
struct Fetched {
    text: String,
    is_bare: bool,
    turn: Option<Turn>,
}

impl<'a> Pages<'a> {
    /// A list from its beginning, with at most `most` objects in a page, read in these turns, if in any.
    pub fn new(wire: &'a Wire, size: &'a mut u32, most: u32, turns: Option<&'a Turns>) -> Self {
        Self {
            wire,
            size,
            most,
            turns,
            in_line: None,
            turn: None,
            answers: mutants::is(Mutant::TurnBeforeAnswer),
            from: None,
            version: String::new(),
            empty: 0,
            left: OBJECTS_MOST,
        }
    }

    /// Makes this true while a turn is waited for.
    #[must_use]
    pub fn with_line(self, in_line: &'a AtomicBool) -> Self {
        Self { in_line: Some(in_line), ..self }
    }

    /// Nothing was shown yet.
    pub fn is_at_start(&self) -> bool {
        self.from.is_none()
    }

    /// Reads a page and hands over each of its objects as text, and whether that is its metadata only, for it is too
    /// large; or waits for a turn, and shows nothing. False: it was the last.
    ///
    /// # Errors
    /// As any call; the list is to be begun again.
    pub async fn next(&mut self, take: &mut (dyn FnMut(&str, bool) + Send)) -> Result<bool, CallError> {
        let Some(Fetched { text, is_bare, turn }) = self.fetch().await? else {
            self.turn = self.wait().await;
            return Ok(true);
        };
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
        drop(turn);
        Ok(self.from.is_some())
    }

    /// The list's resourceVersion, as the last page said it.
    pub fn version(self) -> String {
        self.version
    }

    /// The next page, without content where a single object is too large; `None`: there is no turn for it.
    async fn fetch(&mut self) -> Result<Option<Fetched>, CallError> {
        loop {
            match self.read(false).await {
                Err(error) if error.class == Class::Oversized && *self.size > 1 => {
                    *self.size = (*self.size / STEP).max(1);
                }
                Err(error) if error.class == Class::Oversized => return self.read(true).await,
                answer => return answer,
            }
        }
    }

    async fn read(&mut self, is_bare: bool) -> Result<Option<Fetched>, CallError> {
        let mut turn = self.turn.take();
        if turn.is_none() && self.answers {
            turn = self.wait().await;
        }
        let had_turn = turn.is_some();
        let ask = self.wire.ask(*self.size, self.from.as_deref(), is_bare, PAGE_WITHIN);
        // On the heap while it is asked: who waits for a turn waits in little memory.
        let begun = within(&mut turn, Box::pin(ask)).await?;
        self.answers = !had_turn || turn.is_some();
        if let Some(turns) = self.turns.filter(|_| turn.is_none()) {
            turn = turns.free_turn();
            if turn.is_none() && !had_turn {
                return Ok(None);
            }
        }
        let text = within(&mut turn, Box::pin(begun.read(PAGE_WITHIN))).await?;
        Ok(Some(Fetched { text, is_bare, turn }))
    }

    /// Waits for a turn, where there are any.
    async fn wait(&self) -> Option<Turn> {
        let turns = self.turns?;
        let note = |waits| {
            if let Some(in_line) = self.in_line {
                in_line.store(waits, Ordering::Relaxed);
            }
        };
        note(true);
        // Never fails: turns do not end.
        let turn = turns.turn().await.ok();
        note(false);
        turn
    }

    /// A page that could have been so much larger makes the next one larger.
    fn grow(&mut self, bytes: usize) {
        if bytes.saturating_mul(STEP as usize) <= MOST {
            *self.size = self.size.saturating_mul(STEP).min(self.most);
        }
    }
}

/// Does this, and gives the turn back where it takes long.
async fn within<T>(turn: &mut Option<Turn>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if turn.is_some() {
        match timeout(SILENT_LIST, &mut work).await {
            Ok(done) => return done,
            Err(_) => *turn = None,
        }
    }
    work.await
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, atomic::AtomicUsize},
    };

    use bytes::Bytes;
    use futures::{StreamExt, future::join_all};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use kube::{Client, api::ListParams, client::Body};
    use tokio::time::Instant;

    use super::*;
    use crate::{base::limiter::Shared, wire::ITEMS_MOST};

    /// A server whose every page has so many objects and leads on: to itself, or to a new one.
    fn endless(same: bool, objects: usize, asked: Arc<AtomicUsize>) -> Wire {
        let answer = move |_: http::Request<Body>| {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            assert!(number < 100, "it is read on and on");
            let next = if same { "x".to_owned() } else { format!("x{number}") };
            let page = serde_json::json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "continue": next}, "items": vec![serde_json::json!({}); objects]});
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
            assert_eq!((&error.class, error.reason().as_str()), (&Class::Flood, "AnswerTooLarge"));
            assert!(asked <= EMPTY_MOST as usize, "{asked}");
        }
    }

    /// A server of which nothing is answered, or nothing but headers, or so many pages at once; it counts what it is asked.
    #[derive(Clone, Copy)]
    enum Answers {
        Nothing,
        Headers,
        Pages(usize),
    }

    fn server(answers: Answers, asked: Arc<AtomicUsize>) -> Wire {
        let answer = move |_: http::Request<Body>| {
            let number = asked.fetch_add(1, Ordering::Relaxed) + 1;
            async move {
                let text = match answers {
                    Answers::Nothing => return std::future::pending().await,
                    Answers::Headers => None,
                    Answers::Pages(count) => {
                        let next = if number < count { number.to_string() } else { String::new() };
                        let metadata = serde_json::json!({"resourceVersion": "1", "continue": next});
                        Some(serde_json::json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": [{}]}).to_string())
                    }
                };
                let is_endless = text.is_none();
                let frames = futures::stream::iter(text.map(|text| Frame::data(Bytes::from(text))));
                let silence = futures::stream::pending().take(usize::from(is_endless));
                let frames = frames.chain(silence).map(Ok::<_, Infallible>);
                Ok::<_, Infallible>(http::Response::new(StreamBody::new(Box::pin(frames))))
            }
        };
        let service = tower::service_fn(move |request| Box::pin(answer(request)));
        let client = Client::new(service, "default");
        Wire::of::<k8s_openapi::api::core::v1::ConfigMap>(client, None, ListParams::default())
    }

    /// Lists in these turns; how many pages there were.
    async fn list(wire: Wire, turns: Shared) -> Result<usize, CallError> {
        let (turns, mut size, mut shown) = (turns.turns(), 500, 0);
        let mut pages = Pages::new(&wire, &mut size, 500, Some(&turns));
        while pages.next(&mut |_, _| shown += 1).await? {}
        Ok(shown)
    }

    /// How many turns nobody has.
    fn free(turns: &Shared) -> usize {
        std::iter::from_fn(|| turns.turns().free_turn()).collect::<Vec<_>>().len()
    }

    #[tokio::test(start_paused = true)]
    async fn lists_that_hang_keep_no_turn_from_others() {
        let (turns, began) = (Shared::default(), Instant::now());
        let all = free(&turns);
        let hung = join_all((0..1000).map(|_| list(server(Answers::Nothing, Arc::default()), turns.clone())));
        let healthy = async {
            tokio::time::sleep(SILENT_LIST / 2).await;
            assert_eq!(free(&turns), all);
            let asked = Arc::<AtomicUsize>::default();
            assert_eq!(list(server(Answers::Pages(3), asked.clone()), turns.clone()).await.unwrap(), 3);
            assert_eq!(asked.load(Ordering::Relaxed), 3);
        };
        tokio::select! {
            biased;
            _ = hung => panic!("they hang"),
            () = healthy => {}
        }
        assert_eq!(began.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_whose_answers_hang_give_their_turns_back_and_what_waits_is_asked_for_again() {
        let (turns, began) = (Shared::default(), Instant::now());
        let all = free(&turns);
        let hung = join_all((0..all).map(|_| list(server(Answers::Headers, Arc::default()), turns.clone())));
        let in_line = AtomicBool::new(false);
        let healthy = async {
            tokio::time::sleep(SILENT_LIST / 2).await;
            assert_eq!(free(&turns), 0);
            let asked = Arc::<AtomicUsize>::default();
            let (wire, mut size, mut shown) = (server(Answers::Pages(4), asked.clone()), 500, 0);
            let own = turns.turns();
            let mut pages = Pages::new(&wire, &mut size, 500, Some(&own)).with_line(&in_line);
            assert!(pages.next(&mut |_, _| shown += 1).await.unwrap());
            assert!(pages.is_at_start() && shown == 0, "what is read before the turn has come is kept");
            assert!(!in_line.load(Ordering::Relaxed));
            assert_eq!(began.elapsed().as_secs(), SILENT_LIST.as_secs());
            while pages.next(&mut |_, _| shown += 1).await.unwrap() {}
            // The first answer was not read.
            assert_eq!((shown, asked.load(Ordering::Relaxed)), (3, 4));
            assert_eq!(free(&turns), all, "a turn is given back with its page");
        };
        let watch = async {
            tokio::time::sleep(SILENT_LIST * 3 / 4).await;
            assert!(in_line.load(Ordering::Relaxed));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            _ = hung => panic!("they hang"),
            () = watch => {}
            () = healthy => {}
        }
    }

    #[test]
    fn a_page_with_more_objects_than_fit_into_it_is_none() {
        let page = |count: usize| {
            format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{}0]}}", "0,".repeat(count - 1))
        };
        assert_eq!(Page::read(&page(ITEMS_MOST)).unwrap().items().count(), ITEMS_MOST);
        assert!(Page::read(&page(ITEMS_MOST + 1)).is_err());
        assert_eq!(
            Page::read(r#"{"kind":"List","apiVersion":"v1","items":null}"#).unwrap().items().count(),
            0
        );
        assert!(Page::read(r#"{"error":"no such route"}"#).is_err());
        assert!(Page::read(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#).is_err());
    }

    #[tokio::test]
    async fn a_list_whose_full_pages_do_not_end_is_given_up() {
        let (error, asked, shown) = read(false, 500, 1700).await;
        assert_eq!((error.class, asked, shown), (Class::Flood, 4, 1700));
    }
}
