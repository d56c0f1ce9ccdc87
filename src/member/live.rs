//! One live object as a member sends it: the whole JSON, and the few metadata that kube's watcher needs.
//!
//! It lives only between the wire and the fold; nothing keeps it.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::Value;
use vidra_core::{
    mutants::{self, Mutant},
    weight::Bounded,
};

/// A live object as the member sent it.
#[derive(Clone, Default)]
pub struct Live {
    meta: ObjectMeta,
    /// The object.
    pub json: Value,
}

/// Without the object, which may be a Secret.
impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Live({}/{} {})", self.meta_text("namespace"), self.meta_text("name"), self.uid())
    }
}

impl Live {
    /// A text of `metadata`, empty when it is missing.
    pub fn meta_text(&self, field: &str) -> &str {
        self.json["metadata"][field].as_str().unwrap_or_default()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.meta_text("uid")
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.meta_text("resourceVersion")
    }

    /// It has a deletionTimestamp.
    pub fn is_terminating(&self) -> bool {
        self.json["metadata"]["deletionTimestamp"].is_string()
    }
}

impl From<Value> for Live {
    fn from(json: Value) -> Self {
        let text = |field: &str| json["metadata"][field].as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Self { meta, json }
    }
}

impl<'de> Deserialize<'de> for Live {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let live = Self::from(Bounded::deserialize(deserializer)?.0);
        // Each object that an API server tells of has one: what has none is a gateway's, and says nothing of any object.
        if live.uid().is_empty() && !mutants::is(Mutant::AnyObject) {
            return Err(D::Error::custom("it is no Kubernetes object: it has no metadata.uid"));
        }
        Ok(live)
    }
}

impl Serialize for Live {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl Resource for Live {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_object_does_not_show_where_it_is_debugged() {
        let live = Live::from(json!({"metadata": {"name": "a", "uid": "u"}, "data": {"pin": "5up3r"}}));
        assert_eq!(format!("{live:?}"), "Live(/a u)");
    }
}
