//! What a member sends to an informer, read with bounds: pages of lists, and the lines of a watch. Each object is
//! decoded by itself, so that one that cannot be read is named and hides no other.
//!
//! kube's own readers hold whatever comes, decode a page whole, and fail with it.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use kube::{
    Client, Resource,
    api::{ListParams, VersionMatch, WatchParams},
    client::Body,
    core::{ApiResource, Request, Status},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use vidra_api::{labels::HUB_LABEL, names::HubId};
use vidra_core::{
    drift::{About, Does},
    object::{Gvk, ObjectKey},
};

use crate::{
    member::{
        error::{CallError, Class},
        live::Live,
    },
    settings::tuning::Tuning,
};

/// No page, no event and no answer may be larger. An API server's own objects end at a few MiB: etcd takes 1.5 MiB.
pub const MOST: usize = 16 << 20;
/// Why an object alone in its page is not read.
const TOO_LARGE: &str = "it is larger than 16 MiB";
const _: () = assert!(MOST == 16 << 20, "TOO_LARGE says how much");
/// Of an answer that is an error.
const MOST_OF_ERROR: usize = 1 << 20;
/// The longest name of an object (a DNS subdomain); some kinds allow more signs, none more of them.
const LONGEST_NAME: usize = 253;

/// Where one informer reads, and what belongs there.
pub(super) struct Wire {
    pub(super) client: Client,
    pub(super) gvk: Gvk,
    pub(super) resource: ApiResource,
    /// Empty: all.
    pub(super) namespace: Arc<str>,
    pub(super) hub: HubId,
    /// What of objects is not to be told.
    pub(super) tuning: Arc<Tuning>,
}

/// One object of a list or an event.
pub(super) enum Item {
    /// It can be folded.
    Object(ObjectKey, Box<Live>),
    /// It cannot be read.
    Broken(Broken),
}

/// An object that cannot be read, and what can be told of it.
#[derive(Debug)]
pub(super) struct Broken {
    /// If it has a name.
    pub(super) key: Option<ObjectKey>,
    pub(super) uid: String,
    pub(super) version: String,
    /// In words, without a value of the object.
    pub(super) why: &'static str,
}

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
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
    pub(super) fn read(text: &'a str) -> Result<Self, CallError> {
        serde_json::from_str(text).map_err(|_| undecodable("a page of the list"))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().flatten().map(|raw| raw.get())
    }

    pub(super) fn version(&self) -> &str {
        &self.metadata.version
    }

    /// Where the next page begins; none: this is the last.
    pub(super) fn next(&self) -> Option<&str> {
        self.metadata.next.as_deref().filter(|token| !token.is_empty())
    }
}

/// One line of a watch.
pub(super) enum Line {
    /// ADDED or MODIFIED.
    Applied(Item),
    /// The same, of a version that is known: most often a call of the hub's was answered with it. Nothing more of it is
    /// read.
    Known(ObjectKey, String),
    /// DELETED, or out of the selector's sight.
    Deleted(Item),
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

/// What is read of an object before all of it is.
#[derive(Default, Deserialize)]
struct Glance {
    #[serde(default)]
    metadata: GlanceMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GlanceMeta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
}

impl Wire {
    /// Asks for a page, and reads it whole within this time. `bare`: of each object only its metadata.
    pub(super) async fn page(
        &self,
        size: u32,
        from: Option<&str>,
        bare: bool,
        within: Duration,
    ) -> Result<String, CallError> {
        let mut params = self.list_params().limit(size);
        if let Some(token) = from {
            params = params.continue_token(token);
        }
        let request = Request::new(self.path());
        let request = if bare { request.list_metadata(&params) } else { request.list(&params) };
        self.answer(request, within).await
    }

    /// Whether the server is as far as this resourceVersion.
    ///
    /// # Errors
    /// [`Class::Expired`]: it is not, or it has forgotten it.
    pub(super) async fn reaches(&self, version: &str, within: Duration) -> Result<(), CallError> {
        let params = self.list_params().at(version).matching(VersionMatch::NotOlderThan).limit(1);
        self.answer(Request::new(self.path()).list(&params), within).await.map(drop)
    }

    async fn answer(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        within: Duration,
    ) -> Result<String, CallError> {
        let request = request.map_err(malformed)?;
        let read = async {
            let body = self.send(request).await?;
            read_whole(body, MOST).await
        };
        tokio::time::timeout(within, read).await.map_err(|_| CallError::deadline(within))?
    }

    /// Opens a watch behind a resourceVersion.
    pub(super) async fn watch(
        &self,
        version: &str,
        seconds: u32,
        within: Duration,
    ) -> Result<Lines, CallError> {
        let params = WatchParams::default().labels(&self.selector()).timeout(seconds);
        let request = Request::new(self.path()).watch(&params, version).map_err(malformed)?;
        let opened = tokio::time::timeout(within, self.send(request)).await;
        let body = opened.map_err(|_| CallError::deadline(within))??;
        Ok(Lines { body, waiting: BytesMut::new(), searched: 0 })
    }

    fn path(&self) -> String {
        Live::url_path(&self.resource, Some(&*self.namespace).filter(|namespace| !namespace.is_empty()))
    }

    fn selector(&self) -> String {
        format!("{HUB_LABEL}={}", self.hub)
    }

    fn list_params(&self) -> ListParams {
        ListParams::default().labels(&self.selector())
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Body, CallError> {
        let response = self.client.send(request.map(Body::from)).await?;
        let code = response.status();
        let body = response.into_body();
        if code.is_success() {
            return Ok(body);
        }
        let text = read_whole(body, MOST_OF_ERROR).await?;
        let status = serde_json::from_str::<Status>(&text)
            .unwrap_or_else(|_| Status { message: text, ..Status::default() });
        Err(self.failed(Status { code: code.as_u16(), ..status }))
    }

    fn failed(&self, status: Status) -> CallError {
        let about = About { group: &self.gvk.group, kind: &self.gvk.kind, does: Does::Reads };
        CallError::of_status(status, about, &self.tuning.now().redact)
    }

    /// One that is too large, of which this is the metadata.
    pub(super) fn oversized_item(&self, text: &str) -> Item {
        Item::Broken(self.broken(text, TOO_LARGE))
    }

    fn broken(&self, text: &str, why: &'static str) -> Broken {
        let glance = serde_json::from_str::<Glance>(text).unwrap_or_default().metadata;
        let namespace = glance.namespace.unwrap_or_default();
        let named = glance.name.filter(|name| is_name(name) && self.holds(&namespace));
        Broken {
            key: named.map(|name| ObjectKey::new(&self.gvk, &namespace, &name)),
            uid: glance.uid.unwrap_or_default(),
            version: glance.resource_version.unwrap_or_default(),
            why,
        }
    }

    /// Reads one object.
    pub(super) fn item(&self, text: &str) -> Item {
        let broken = |why| Item::Broken(self.broken(text, why));
        let Ok(live) = serde_json::from_str::<Live>(text) else {
            return broken("its JSON cannot be read (too deep, or not JSON)");
        };
        let (namespace, name) = (live.meta_text("namespace"), live.meta_text("name"));
        if !is_name(name) || live.uid().is_empty() || live.resource_version().is_empty() {
            return broken("it has no proper name, uid or resourceVersion");
        }
        if !self.holds(namespace) {
            return broken("it is not in a namespace that was asked for");
        }
        if live.json["metadata"]["labels"][HUB_LABEL] != *self.hub.as_ref() {
            return broken("it does not bear the label that was asked for");
        }
        Item::Object(ObjectKey::new(&self.gvk, namespace, name), Box::new(live))
    }

    /// Is this what was asked for?
    fn holds(&self, namespace: &str) -> bool {
        (self.namespace.is_empty() && namespace.len() <= LONGEST_NAME) || *self.namespace == *namespace
    }

    /// An object's key and version, if `is_known` says so of its key, uid and version.
    fn known(&self, text: &str, is_known: impl Fn(&ObjectKey, &str, &str) -> bool) -> Option<Line> {
        let glance = serde_json::from_str::<Glance>(text).ok()?.metadata;
        let (name, uid, version) = (glance.name?, glance.uid?, glance.resource_version?);
        let key = ObjectKey::new(&self.gvk, &glance.namespace.unwrap_or_default(), &name);
        is_known(&key, &uid, &version).then_some(Line::Known(key, version))
    }

    /// Reads one line of a watch. `is_known` tells by key, uid and version what need not be read.
    pub(super) fn line(
        &self,
        text: &str,
        is_known: impl Fn(&ObjectKey, &str, &str) -> bool,
    ) -> Result<Line, CallError> {
        let raw: RawLine<'_> = serde_json::from_str(text).map_err(|_| undecodable("an event"))?;
        let object = raw.object.get();
        Ok(match &*raw.event {
            "ADDED" | "MODIFIED" => {
                self.known(object, is_known).unwrap_or_else(|| Line::Applied(self.item(object)))
            }
            "DELETED" => Line::Deleted(self.item(object)),
            "BOOKMARK" => {
                let glance = serde_json::from_str::<Glance>(object).unwrap_or_default();
                Line::Bookmark(glance.metadata.resource_version.unwrap_or_default())
            }
            "ERROR" => match serde_json::from_str::<Status>(object) {
                Ok(status) => Line::Error(self.failed(status)),
                Err(_) => return Err(undecodable("an error in a watch")),
            },
            _ => return Err(undecodable("an event of an unknown type")),
        })
    }
}

/// The lines of an open watch.
pub(super) struct Lines {
    body: Body,
    waiting: BytesMut,
    /// So much of what waits has no end of a line.
    searched: usize,
}

impl Lines {
    /// The next line; `None`: the server has ended the watch. May be given up and asked again.
    pub(super) async fn next(&mut self) -> Result<Option<String>, CallError> {
        loop {
            if let Some(end) = self.waiting[self.searched..].iter().position(|byte| *byte == b'\n') {
                if self.searched + end > MOST {
                    return Err(oversized(MOST));
                }
                let line = self.waiting.split_to(self.searched + end);
                self.waiting.advance(1);
                self.searched = 0;
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            self.searched = self.waiting.len();
            if self.searched > MOST {
                return Err(oversized(MOST));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.map_err(CallError::from)?;
                    if let Ok(data) = frame.into_data() {
                        self.waiting.extend_from_slice(&data);
                    }
                }
            }
        }
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

fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c == '/')
}

fn oversized(most: usize) -> CallError {
    let message = format!("the member sends more than {} MiB at once", most >> 20);
    CallError { class: Class::Oversized, message }
}

/// Without a word of it: it may hold a Secret.
fn undecodable(what: &str) -> CallError {
    CallError { class: Class::Server, message: format!("{what} could not be decoded") }
}

fn malformed(error: kube::core::request::Error) -> CallError {
    CallError { class: Class::Invalid, message: error.to_string() }
}

#[cfg(test)]
mod tests;
