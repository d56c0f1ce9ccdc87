//! Lists of a member's objects of which nothing is read but names, owners and managers: so whatever else an object
//! holds, however deep, keeps neither it nor another from being seen.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource,
    api::ListParams,
    core::{ApiResource, Status},
};
use serde::{Deserialize, de::IgnoredAny};
use vidra_core::drift::{About, Does};

use super::{error::CallError, live::Live, session::Session, token::Token};
use crate::wire::{Wire, is_name, pages::Pages};

/// One object, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listed {
    /// `metadata.name`; empty: it has none that could be one.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    deletion_timestamp: Option<IgnoredAny>,
    /// `metadata.ownerReferences`.
    pub owner_references: Vec<OwnerReference>,
    managed_fields: Vec<Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    manager: String,
    operation: String,
    subresource: String,
}

impl Listed {
    /// Reads one object; one of which not even this can be read has no name.
    pub fn read(text: &str) -> Self {
        #[derive(Default, Deserialize)]
        struct Around {
            #[serde(default)]
            metadata: Listed,
        }
        let read = serde_json::from_str::<Around>(text).unwrap_or_default().metadata;
        if is_name(&read.name) { read } else { Self::default() }
    }

    /// It has a deletionTimestamp.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// This manager applied it.
    pub fn is_applied_by(&self, manager: &str) -> bool {
        self.managed_fields.iter().any(|entry| {
            entry.manager == manager && entry.operation == "Apply" && entry.subresource.is_empty()
        })
    }
}

impl Session {
    /// All objects of a kind, in one namespace or in all, that bear the labels.
    ///
    /// # Errors
    /// As any call; nothing is known then.
    pub async fn list(
        &self,
        token: &Token<'_>,
        resource: &ApiResource,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Listed>, CallError> {
        let (told, settings) = (resource.clone(), self.settings());
        let tell = move |status: Status| {
            let about = About { group: &told.group, kind: &told.kind, does: Does::Reads };
            CallError::of_status(status, about, &settings.redact)
        };
        let params = ListParams { label_selector: Some(labels.to_owned()), ..ListParams::default() };
        let params = if labels.is_empty() { ListParams::default() } else { params };
        let path = Live::url_path(resource, namespace);
        let wire = Wire::new(self.client.clone(), path, params, Arc::new(tell)).bare();
        let (most, mut all) = (self.knobs().page, Vec::new());
        let mut size = most;
        let mut pages = Pages::new(&wire, &mut size, most, None);
        let mut take = |text: &str, _: bool| all.push(Listed::read(text));
        while self.page(token, pages.next(&mut take)).await? {}
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_any_depth_is_listed_with_its_managers() {
        let deep = format!("{}{}", "{\"f:a\":".repeat(9000), "}".repeat(9000).replacen('}', "{}}", 1));
        let text = format!(
            r#"{{"metadata":{{"name":"a","managedFields":[{{"manager":"evil","operation":"Update","fieldsV1":{deep}}},{{"manager":"own","operation":"Apply","fieldsV1":{{}}}}]}}}}"#
        );
        let read = Listed::read(&text);
        assert_eq!(read.name, "a");
        assert!(read.is_applied_by("own") && !read.is_applied_by("evil") && !read.is_terminating());
    }

    #[test]
    fn what_has_no_proper_name_has_none() {
        for text in [r#"{"metadata":{"name":7}}"#, r#"{"metadata":{"name":"a/b"}}"#, "[]", ""] {
            assert_eq!(Listed::read(text).name, "", "{text}");
        }
    }
}
