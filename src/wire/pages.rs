//! The pages of one list, one after another, and what to do where they are too large: with fewer objects in each,
//! down to one; and one that is too large by itself is asked for without its content, so that it can be named and
//! the list goes on behind it. Where objects are small again, pages grow again.

use std::{pin::pin, time::Duration};

use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use super::{MOST, Page, Wire};
use crate::member::error::{CallError, Class};

/// A page of a list must be there within this time.
pub const PAGE_WITHIN: Duration = Duration::from_secs(60);
/// By how much a page shrinks and grows.
const STEP: u32 = 5;
/// A list that has shown nothing for so long gives its turn to another.
const SILENT_LIST: Duration = Duration::from_secs(2);

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
}

impl<'a> Pages<'a> {
    /// A list from its beginning, with at most so many objects in a page. `turn` is given back where the member is silent, and at the end.
    pub fn new(wire: &'a Wire, size: &'a mut u32, most: u32, turn: Option<OwnedSemaphorePermit>) -> Self {
        Self { wire, size, most, turn, from: None, version: String::new() }
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
            take(raw, is_bare);
        }
        page.version().clone_into(&mut self.version);
        self.from = page.next().map(str::to_owned);
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
