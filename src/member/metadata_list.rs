//! Lists of a member's objects of which only a part of the metadata is read: name, uid, deletionTimestamp,
//! ownerReferences, the managers in managedFields, and our stamps in annotations. So whatever else an object holds, however
//! deep, keeps neither it nor another from being seen.

use std::{fmt, marker::PhantomData, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource,
    api::ListParams,
    core::{ApiResource, Status},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use vidra_api::labels::OWNER_PREFIX;
use vidra_core::{
    drift::{About, Does},
    uid::Uid,
};

use super::{
    fence::Fence,
    live::Live,
    session::{Session, is_proper_uid},
};
use crate::{
    base::error::CallError,
    wire::{Wire, is_name, pages::Pages},
};

/// Owners, and managers, of one object that are read.
const ENTRIES_MOST: usize = 1_000;
/// Bytes that may be kept of one list: with more it is given up.
const BYTES_MOST: usize = 64 << 20;

/// One object, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartialMetadata {
    /// `metadata.name`; empty: it has none that could be one.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    uid: String,
    deletion_timestamp: Option<IgnoredAny>,
    annotations: Stamps,
    /// `metadata.ownerReferences`.
    owner_references: Bounded<OwnerReference>,
    managed_fields: Bounded<ManagedFieldsEntry>,
}

/// The annotations in which owners say what they have applied, by their keys: the first [`ENTRIES_MOST`].
#[derive(Debug, Default)]
struct Stamps(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Stamps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Annotations)
    }
}

struct Annotations;

impl<'de> Visitor<'de> for Annotations {
    type Value = Stamps;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("annotations")
    }

    fn visit_unit<E: Error>(self) -> Result<Stamps, E> {
        Ok(Stamps::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Stamps, A::Error> {
        let mut stamps = Vec::new();
        while let Some(key) = all.next_key::<String>()? {
            match key.starts_with(OWNER_PREFIX) && stamps.len() < ENTRIES_MOST {
                true => stamps.push((key, all.next_value()?)),
                false => drop(all.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Stamps(stamps))
    }
}

/// The first [`ENTRIES_MOST`] entries, of which a member may send millions that are empty.
#[derive(Debug)]
struct Bounded<T> {
    entries: Vec<T>,
    /// There are more.
    is_cut: bool,
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), is_cut: false }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Entries(PhantomData))
    }
}

struct Entries<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = Bounded<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("entries")
    }

    fn visit_unit<E: Error>(self) -> Result<Bounded<T>, E> {
        Ok(Bounded::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Bounded<T>, A::Error> {
        let mut first = Bounded::default();
        while first.entries.len() < ENTRIES_MOST {
            match all.next_element()? {
                Some(entry) => first.entries.push(entry),
                None => return Ok(first),
            }
        }
        while all.next_element::<IgnoredAny>()?.is_some() {
            first.is_cut = true;
        }
        Ok(first)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManagedFieldsEntry {
    manager: String,
    operation: String,
    subresource: String,
}

impl PartialMetadata {
    /// Reads one object; one of which not even this can be read has no name.
    pub fn read(text: &str) -> Self {
        #[derive(Default, Deserialize)]
        struct Around {
            #[serde(default)]
            metadata: PartialMetadata,
        }
        let read = serde_json::from_str::<Around>(text).unwrap_or_default().metadata;
        if is_name(&read.name) { read } else { Self::default() }
    }

    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        let owners = self.owner_references.entries.iter().map(|owner| {
            size_of::<OwnerReference>()
                + [&owner.api_version, &owner.kind, &owner.name, &owner.uid]
                    .iter()
                    .map(|text| text.len())
                    .sum::<usize>()
        });
        let managers = self.managed_fields.entries.iter().map(|entry| {
            size_of::<ManagedFieldsEntry>()
                + entry.manager.len()
                + entry.operation.len()
                + entry.subresource.len()
        });
        let stamps =
            self.annotations.0.iter().map(|(key, text)| 2 * size_of::<String>() + key.len() + text.len());
        let names = self.name.len() + self.namespace.len() + self.uid.len();
        size_of::<Self>() + names + owners.chain(managers).chain(stamps).sum::<usize>()
    }

    /// It has a deletionTimestamp.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whom it belongs to, as far as they are read.
    pub fn owner_references(&self) -> &[OwnerReference] {
        &self.owner_references.entries
    }

    /// What the annotation with this key says, in which an owner says what it has applied.
    pub fn stamp(&self, key: &str) -> Option<&str> {
        self.annotations.0.iter().find(|(of, _)| of == key).map(|(_, text)| &**text)
    }

    /// This manager applied it, or may have: not all managers are read.
    pub fn may_have_been_applied_by(&self, manager: &str) -> bool {
        self.managed_fields.is_cut || self.is_applied_by(manager)
    }

    /// Its uid, where this manager surely applied it and an inventory can hold that; else empty.
    pub fn uid_applied_by(&self, manager: &str) -> Uid {
        let is_known = self.is_applied_by(manager) && is_proper_uid(&self.uid);
        if is_known { self.uid.as_str().into() } else { Uid::default() }
    }

    fn is_applied_by(&self, manager: &str) -> bool {
        let applies = |entry: &ManagedFieldsEntry| entry.operation == "Apply" && entry.subresource.is_empty();
        self.managed_fields.entries.iter().any(|entry| entry.manager == manager && applies(entry))
    }
}

/// All objects of a kind, in one namespace or in all, that bear the labels.
///
/// # Errors
/// As any call, or it shows more than may be kept; nothing is known then.
pub async fn list(
    session: &Session,
    fence: &Fence<'_>,
    resource: &ApiResource,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<PartialMetadata>, CallError> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    let mut take = |text: &str| {
        let listed = PartialMetadata::read(text);
        bytes += listed.weight();
        // Over the bound it stops: the caller gets an error, not a short list.
        if bytes <= BYTES_MOST {
            all.push(listed);
        }
        bytes <= BYTES_MOST
    };
    let page = session.limits().page;
    match list_each(session, fence, (resource, true), (namespace, labels), page, &mut take).await? {
        true => Ok(all),
        false => Err(CallError::endless("it shows more than the hub keeps of one list")),
    }
}

/// Hands over each object of a kind that bears the labels, or only its metadata, as text, one at a time and at most `page`
/// in a call, until `take` says no; whether it did not.
///
/// # Errors
/// As any call.
pub async fn list_each(
    session: &Session,
    fence: &Fence<'_>,
    (resource, is_bare): (&ApiResource, bool),
    (namespace, labels): (Option<&str>, &str),
    page: u32,
    take: &mut (dyn FnMut(&str) -> bool + Send),
) -> Result<bool, CallError> {
    let (told, settings) = (resource.clone(), session.settings());
    let tell = move |status: Status| {
        let about = About { group: &told.group, kind: &told.kind, does: Does::Reads };
        CallError::of_status(status, about, &settings.redact)
    };
    let params = ListParams { label_selector: Some(labels.to_owned()), ..ListParams::default() };
    let params = if labels.is_empty() { ListParams::default() } else { params };
    let path = Live::url_path(resource, namespace);
    let wire = Wire::new(session.client.clone(), path, params, Arc::new(tell));
    let wire = if is_bare { wire.bare() } else { wire };
    let mut size = page;
    let mut pages = Pages::new(&wire, &mut size, page, None);
    let mut goes_on = true;
    loop {
        let mut each = |text: &str, _: bool| goes_on = goes_on && take(text);
        let more = session.page(fence, pages.next(&mut each)).await?;
        if !goes_on || !more {
            return Ok(goes_on);
        }
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
        let read = PartialMetadata::read(&text);
        assert_eq!(read.name, "a");
        assert!(
            read.may_have_been_applied_by("own")
                && !read.may_have_been_applied_by("evil")
                && !read.is_terminating()
        );
    }

    #[test]
    fn of_annotations_those_of_owners_are_read() {
        let text =
            r#"{"metadata":{"name":"a","annotations":{"a":{"b":[1]},"owner.vidra.dev/x":"team/shop 1"}}}"#;
        let read = PartialMetadata::read(text);
        assert_eq!((read.stamp("owner.vidra.dev/x"), read.stamp("a")), (Some("team/shop 1"), None));
        assert_eq!(PartialMetadata::read(r#"{"metadata":{"name":"a","annotations":null}}"#).name, "a");
    }

    #[test]
    fn of_an_object_with_more_owners_or_managers_than_any_has_the_first_are_read_and_it_may_be_anybodys() {
        for field in ["managedFields", "ownerReferences"] {
            let entry = match field {
                "managedFields" => "{}",
                _ => r#"{"apiVersion":"v1","kind":"Node","name":"a","uid":"1"}"#,
            };
            for (count, may_be) in [(ENTRIES_MOST, false), (ENTRIES_MOST + 1, field == "managedFields")] {
                let entries = vec![entry; count].join(",");
                let text = format!(r#"{{"metadata":{{"name":"a","{field}":[{entries}]}}}}"#);
                let read = PartialMetadata::read(&text);
                assert_eq!(
                    (&*read.name, read.may_have_been_applied_by("own")),
                    ("a", may_be),
                    "{count} {field}"
                );
                let kept = [read.owner_references.entries.len(), read.managed_fields.entries.len()];
                assert!(kept.contains(&ENTRIES_MOST) && kept.contains(&0), "{kept:?}");
            }
        }
    }

    #[test]
    fn what_is_kept_of_an_object_is_weighed_with_all_that_it_holds() {
        let text = |manager: &str| {
            format!(r#"{{"metadata":{{"name":"a","managedFields":[{{"manager":"{manager}"}}]}}}}"#)
        };
        let weight = |manager: &str| PartialMetadata::read(&text(manager)).weight();
        assert_eq!(weight(&"m".repeat(5000)) - weight("m"), 4999);
        assert!(weight("m") > PartialMetadata::read(r#"{"metadata":{"name":"a"}}"#).weight());
    }

    #[test]
    fn what_has_no_proper_name_has_none() {
        for text in [r#"{"metadata":{"name":7}}"#, r#"{"metadata":{"name":"a/b"}}"#, "[]", ""] {
            assert_eq!(PartialMetadata::read(text).name, "", "{text}");
        }
    }
}
