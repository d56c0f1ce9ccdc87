//! What an API server sends, read with bounds: pages of lists, and the lines of a watch. The objects in them stay text,
//! for each to be read by itself, so that one that cannot be read is named and hides no other.
//!
//! kube's own readers hold whatever comes, decode a page whole, and fail with it.

pub mod at_most;
pub mod flow;
pub mod follow;
pub mod pace;
pub mod pages;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use kube::{
    Client, Resource,
    api::{ListParams, WatchParams},
    client::Body,
    core::{Request, Status},
};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

use self::{
    at_most::AtMost,
    flow::{Flow, Part},
    pace::{LONGEST, Pace},
};
use crate::base::error::{CallError, Class};

/// No page, no event and no answer may be larger. An API server's own objects end at a few MiB: etcd takes 1.5 MiB.
pub const MOST: usize = 16 << 20;
/// Why an object alone in its page is not read.
pub const TOO_LARGE: &str = "it is larger than 16 MiB";
const _: () = assert!(MOST == 16 << 20, "TOO_LARGE says how much");
/// Objects of one page.
const ITEMS_MOST: usize = 1 << 20;
/// Of an answer that is an error.
pub const MOST_OF_ERROR: usize = 1 << 20;
/// The longest name of an object (a DNS subdomain); some kinds allow more signs, none more of them.
pub const LONGEST_NAME: usize = 253;

/// What is made of a refusal: which of the server's words may be told.
pub type Tell = Arc<dyn Fn(Status) -> CallError + Send + Sync>;

/// A kind, everywhere or in one namespace, as one server shows it.
#[derive(Clone)]
pub struct Wire {
    client: Client,
    path: String,
    params: ListParams,
    bare: bool,
    tell: Tell,
    flow: Option<Arc<Flow>>,
    pace: Arc<Pace>,
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    metadata: PageMeta,
    /// `None`: it is not said.
    #[serde(borrow, default, deserialize_with = "items")]
    items: Option<Vec<&'a RawValue>>,
}

/// The objects of a page, each as text; `null` is none. Their places alone take as much as the text.
fn items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    deserializer.deserialize_any(AtMost::<_, ITEMS_MOST>::default()).map(Some)
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(rename = "resourceVersion", default)]
    version: String,
    #[serde(rename = "continue", default)]
    next: Option<String>,
}

impl<'a> Page<'a> {
    /// Reads what [`Wire::page`] got; the objects stay text.
    ///
    /// # Errors
    /// It is no list: what is between answers with JSON of its own too, and what that does not show is not gone.
    pub fn read(text: &'a str) -> Result<Self, CallError> {
        let page: Self = serde_json::from_str(text).map_err(|_| undecodable("a page of the list"))?;
        let is_list = page.items.is_some() && !page.kind.is_empty() && !page.api_version.is_empty();
        match is_list || mutants::is(Mutant::AnyList) {
            true => Ok(page),
            false => {
                let message =
                    "what answers for the API server sends JSON that is no list; look what is between"
                        .to_owned();
                Err(CallError { class: Class::Gateway, message })
            }
        }
    }

    /// Its objects, each as text.
    pub fn items(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().flatten().map(|raw| raw.get())
    }

    /// The resourceVersion of the list; empty where the server names none.
    pub fn version(&self) -> &str {
        &self.metadata.version
    }

    /// Where the next page begins; none: this is the last.
    pub fn next(&self) -> Option<&str> {
        self.metadata.next.as_deref().filter(|token| !token.is_empty())
    }
}

/// One line of a watch; objects are text.
pub enum Line<'a> {
    /// ADDED or MODIFIED.
    Applied(&'a str),
    /// DELETED, or out of the selector's sight.
    Deleted(&'a str),
    /// Everything up to this resourceVersion was sent.
    Bookmark(String),
    /// The server ends or refuses the watch.
    Error(CallError),
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(rename = "type", borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What is read of an object before all of it is, or where the rest cannot be read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Glance {
    /// `metadata.name`.
    #[serde(default)]
    pub name: Option<String>,
    /// `metadata.namespace`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// `metadata.uid`.
    #[serde(default)]
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    #[serde(default)]
    pub resource_version: Option<String>,
}

impl Glance {
    /// Reads no more of an object; `None`: not even that can be read.
    pub fn read(object: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Around {
            #[serde(default)]
            metadata: Glance,
        }
        Some(serde_json::from_str::<Around>(object).ok()?.metadata)
    }
}

impl Wire {
    /// Reads what is at a path of the API, chosen by these parameters; `tell` makes errors of refusals.
    pub fn new(client: Client, path: String, params: ListParams, tell: Tell) -> Self {
        Self { client, path, params, bare: false, tell, flow: None, pace: Arc::default() }
    }

    /// A kind that this program knows, in one namespace or in all, whose refusals may be told.
    pub fn of<K: Resource<DynamicType = ()>>(
        client: Client,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Self {
        Self::new(client, K::url_path(&(), namespace), params, Arc::new(CallError::from))
    }

    /// Of each object only its metadata.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// Only objects that bear these labels.
    #[must_use]
    pub fn with_labels(self, selector: String) -> Self {
        let params = ListParams { label_selector: Some(selector), ..self.params };
        Self { params, ..self }
    }

    /// Its watches send, with all others of this server, no more than that.
    #[must_use]
    pub fn with(self, flow: Arc<Flow>) -> Self {
        Self { flow: Some(flow), ..self }
    }

    /// What it asks waits for as long as the server asks.
    #[must_use]
    pub fn with_pace(self, pace: Arc<Pace>) -> Self {
        Self { pace, ..self }
    }

    /// Where it reads.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Asks for a page, and reads it whole, each within this time. `bare`: of each object only its metadata.
    ///
    /// # Errors
    /// [`Class::Oversized`]: it is larger than [`MOST`]. Otherwise as any call.
    pub async fn page(
        &self,
        size: u32,
        from: Option<&str>,
        bare: bool,
        within: Duration,
    ) -> Result<String, CallError> {
        self.ask(size, from, bare, within).await?.read(within).await
    }

    /// Asks for a page; it is answered within this time, and nothing of it is read.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask(
        &self,
        size: u32,
        from: Option<&str>,
        bare: bool,
        within: Duration,
    ) -> Result<Begun, CallError> {
        let mut params = self.params.clone().limit(size);
        if let Some(token) = from {
            params = params.continue_token(token);
        }
        let request = Request::new(self.path.as_str());
        let bare = bare || self.bare;
        let request = if bare { request.list_metadata(&params) } else { request.list(&params) };
        self.begin(request, within).await
    }

    /// How far the server is, at least as far as this resourceVersion. It is asked how far it is: asked whether it has that version, one
    /// that was restored would wait until it has come so far again, by other changes.
    ///
    /// # Errors
    /// [`Class::Expired`]: it is not.
    pub async fn reaches(&self, least: u64, within: Duration) -> Result<u64, CallError> {
        let params = self.params.clone().limit(1);
        let asked = self.begin(Request::new(self.path.as_str()).list(&params), within).await?;
        let text = asked.read(within).await?;
        let Ok(is) = Page::read(&text)?.version().parse() else { return Ok(least) };
        if is < least {
            let message = "the server is not as far as it was".to_owned();
            return Err(CallError { class: Class::Expired, message });
        }
        Ok(is)
    }

    async fn begin(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        within: Duration,
    ) -> Result<Begun, CallError> {
        let request = request.map_err(malformed)?;
        self.pace.pass(Instant::now() + LONGEST).await?;
        let body = tokio::time::timeout(within, self.send(request)).await;
        Ok(Begun(body.map_err(|_| CallError::deadline(within))??))
    }

    /// Opens a watch behind a resourceVersion, which the server is to end after `seconds`.
    ///
    /// # Errors
    /// As any call.
    pub async fn watch(&self, version: &str, seconds: u32, within: Duration) -> Result<Lines, CallError> {
        let params = WatchParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let request = Request::new(self.path.as_str());
        let request = match self.bare {
            true => request.watch_metadata(&params, version),
            false => request.watch(&params, version),
        };
        let Begun(body) = self.begin(request, within).await?;
        let part = self.flow.clone().map(Part::new);
        Ok(Lines { body, waiting: BytesMut::new(), searched: 0, part })
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Body, CallError> {
        let response = self.client.send(request.map(Body::from)).await?;
        let code = response.status();
        let body = response.into_body();
        if code.is_success() {
            return Ok(body);
        }
        let text = read_whole(body, MOST_OF_ERROR).await?;
        let status = serde_json::from_str::<Status>(&text);
        // A page: so an API server says that it serves no such kind, and a gateway that it knows nothing.
        let is_page = status.is_err();
        let status = status.unwrap_or_else(|_| Status { message: text, ..Status::default() });
        let error = (self.tell)(Status { code: code.as_u16(), ..status });
        Err(match is_page && code == http::StatusCode::NOT_FOUND {
            // No object is gone for that: it makes who asks look at the discovery.
            true => CallError { class: Class::NotServed, ..error },
            false => error,
        })
    }

    /// Reads one line of a watch.
    ///
    /// # Errors
    /// It is no event: what it said is lost.
    pub fn line<'a>(&self, text: &'a str) -> Result<Line<'a>, CallError> {
        let raw: RawLine<'a> = serde_json::from_str(text).map_err(|_| undecodable("an event"))?;
        let object = raw.object.get();
        Ok(match &*raw.event {
            "ADDED" | "MODIFIED" => Line::Applied(object),
            "DELETED" => Line::Deleted(object),
            "BOOKMARK" => {
                let glance = Glance::read(object).unwrap_or_default();
                Line::Bookmark(glance.resource_version.unwrap_or_default())
            }
            "ERROR" => match serde_json::from_str::<Status>(object) {
                Ok(status) => Line::Error((self.tell)(status)),
                Err(_) => return Err(undecodable("an error in a watch")),
            },
            _ => return Err(undecodable("an event of an unknown type")),
        })
    }
}

/// An answer that has begun; nothing of it is read yet.
pub struct Begun(Body);

impl Begun {
    /// Reads it whole within this time.
    ///
    /// # Errors
    /// [`Class::Oversized`]: it is larger than [`MOST`]. Otherwise the connection broke, or it took longer.
    pub async fn read(self, within: Duration) -> Result<String, CallError> {
        let read = tokio::time::timeout(within, read_whole(self.0, MOST)).await;
        read.map_err(|_| CallError::deadline(within))?
    }
}

/// The lines of an open watch.
pub struct Lines {
    body: Body,
    pub(crate) waiting: BytesMut,
    /// So much of what waits has no end of a line.
    searched: usize,
    /// What it may send and hold, where that is bounded.
    part: Option<Part>,
}

/// Room for a line that is kept for the next one.
const KEPT: usize = 64 << 10;

impl Lines {
    /// The next line; `None`: the server has ended the watch. May be given up and asked again.
    ///
    /// # Errors
    /// [`Class::Oversized`]: it is longer than [`MOST`], or the server's watches hold too much of lines without an end.
    /// [`Class::Flood`]: they send too much. Otherwise the connection broke.
    pub async fn next(&mut self) -> Result<Option<String>, CallError> {
        loop {
            if let Some(end) = self.waiting[self.searched..].iter().position(|byte| *byte == b'\n') {
                if self.searched + end > MOST {
                    return Err(oversized(MOST));
                }
                let line = self.waiting.split_to(self.searched + end);
                self.waiting.advance(1);
                self.searched = 0;
                if line.len() > KEPT {
                    // The room of a long line would be kept as long as the watch is open.
                    self.waiting = BytesMut::from(&self.waiting[..]);
                }
                if let Some(part) = &mut self.part {
                    part.event()?;
                    // The line has ended: it is held no more.
                    part.holds(self.waiting.len())?;
                }
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            self.searched = self.waiting.len();
            if self.searched > MOST {
                return Err(oversized(MOST));
            }
            if !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// Reads what comes next; false: nothing does any more.
    async fn read(&mut self) -> Result<bool, CallError> {
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        if let Ok(data) = frame.map_err(CallError::from)?.into_data() {
            self.waiting.extend_from_slice(&data);
            if let Some(part) = &mut self.part {
                part.came(data.len())?;
                part.holds(self.waiting.len())?;
            }
        }
        Ok(true)
    }
}

/// Text that is no UTF-8 is read with marks in the wrong places: one object's matter, not the page's.
async fn read_whole(mut body: Body, most: usize) -> Result<String, CallError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(CallError::from)?.into_data() {
            if bytes.len() + data.len() > most {
                return Err(oversized(most));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Is this the name of an object?
pub fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c == '/')
}

fn oversized(most: usize) -> CallError {
    let message = format!("the server sends more than {} MiB at once", most >> 20);
    CallError { class: Class::Oversized, message }
}

/// Without a word of it: it may hold a Secret.
fn undecodable(what: &str) -> CallError {
    CallError { class: Class::Gateway, message: format!("{what} could not be decoded") }
}

fn malformed(error: kube::core::request::Error) -> CallError {
    CallError { class: Class::Invalid, message: error.to_string() }
}
