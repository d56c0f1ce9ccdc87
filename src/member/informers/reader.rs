//! What a member's objects are to an informer: each is read by itself and must be what was asked for.

use std::sync::Arc;

use kube::{
    Client, Resource,
    api::ListParams,
    core::{ApiResource, Status},
};
use vidra_api::{
    labels::{HUB_LABEL, hub_selector, owner_selector},
    names::{HubId, OwnerHash},
};
use vidra_core::{
    drift::{About, Does},
    object::{Gvk, ObjectKey},
};

use crate::{
    base::error::CallError,
    config::tuning::Tuning,
    member::live::Live,
    wire::{self, Glance, LONGEST_NAME, TOO_LARGE, Wire, flow::Flow, is_name, pace::Pace},
};

/// Where one informer reads, and what belongs there.
pub(super) struct Reader {
    /// The way there.
    pub(super) wire: Wire,
    pub(super) resource: ApiResource,
    gvk: Gvk,
    /// Empty: all.
    namespace: Arc<str>,
    hub: HubId,
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

/// One line of a watch.
pub(super) enum Line {
    /// ADDED or MODIFIED.
    Applied(Item),
    /// ADDED or MODIFIED, of a version that is known: most often a call of the hub's was answered with it. Nothing more of
    /// it is read.
    Known(ObjectKey, String),
    /// DELETED, or out of the selector's sight.
    Deleted(Item),
    /// Everything up to this resourceVersion was sent.
    Bookmark(String),
    /// The server ends or refuses the watch.
    Error(CallError),
}

impl Reader {
    /// The objects of a kind that bear the label of this hub, in a namespace or, where that is empty, in all.
    pub(super) fn new(
        client: Client,
        (gvk, resource): (Gvk, ApiResource),
        namespace: Arc<str>,
        hub: HubId,
        tuning: Arc<Tuning>,
    ) -> Self {
        let within = Some(&*namespace).filter(|namespace| !namespace.is_empty());
        let path = Live::url_path(&resource, within);
        let params = ListParams::default().labels(&hub_selector(&hub));
        let told = gvk.clone();
        let tell = move |status: Status| {
            let about = About { group: &told.group, kind: &told.kind, does: Does::Reads };
            CallError::of_status(status, about, &tuning.now().redact)
        };
        let wire = Wire::new(client, path, params, Arc::new(tell));
        Self { wire, resource, gvk, namespace, hub }
    }

    /// Its watches send, with all others of the member, no more than that, and what it asks waits with all else.
    pub(super) fn with(self, flow: Arc<Flow>, pace: Arc<Pace>) -> Self {
        Self { wire: self.wire.with(flow).with_pace(pace), ..self }
    }

    /// Only those that bear this owner's label, too.
    pub(super) fn of(self, owner: &OwnerHash) -> Self {
        Self { wire: self.wire.with_labels(owner_selector(&self.hub, owner)), ..self }
    }

    /// Reads one object of a list; `is_cut`: of one that is too large this is the metadata.
    pub(super) fn listed(&self, text: &str, is_cut: bool) -> Item {
        if is_cut { Item::Broken(self.broken(text, TOO_LARGE)) } else { self.item(text) }
    }

    fn broken(&self, text: &str, why: &'static str) -> Broken {
        let glance = Glance::read(text).unwrap_or_default();
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
            return broken("its JSON cannot be read (too deep, too many fields, or not JSON)");
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
        let glance = Glance::read(text)?;
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
        Ok(match self.wire.line(text)? {
            wire::Line::Applied(object) => {
                self.known(object, is_known).unwrap_or_else(|| Line::Applied(self.item(object)))
            }
            wire::Line::Deleted(object) => Line::Deleted(self.item(object)),
            wire::Line::Bookmark(version) => Line::Bookmark(version),
            wire::Line::Error(error) => Line::Error(error),
        })
    }
}

#[cfg(test)]
mod tests;
