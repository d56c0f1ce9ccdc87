//! Objects of another hub: refused, unless a person has named that hub on the MemberCluster. Then one that is declared
//! here is taken over as `conflicts.existing: Adopt` takes over what kubectl applied.
//!
//! The label of the other hub stays until our apply puts ours in its place: a hub that dies in between meets an object of
//! the other hub again, and begins again.

use serde_json::{Map, Value, json};
use vidra_api::{FieldPolicy, labels::TAKE_OVER_FROM};
use vidra_core::{fields, object::ObjectKey, render::Declared, unseen};

use super::{Executor, LABEL_MAX, Outcome, Step};
use crate::member::live::Live;

impl Executor<'_> {
    /// An object with the label of the hub `other` bears the name.
    pub(super) async fn meet_other_hub(&self, declared: &Declared, live: Live, other: &str) -> Step {
        if self.owner.take_over_from.as_deref() != Some(other) {
            return Ok(owned(&declared.key, other, self.owner.take_over_from.as_deref()));
        }
        let (manager, api_version) = (&self.owner.manager, declared.gvk.api_version());
        let earlier = self.earlier(&api_version);
        let (moved, marks) = match fields::inherited(&live.json, other, manager, &earlier).unzip() {
            // That hub's label is all that there is of it.
            (None, _) => (fields::absorbed(&live.json, manager, &earlier), None),
            inherited => inherited,
        };
        if self.owner.conflicts.fields == FieldPolicy::Fail
            && let Some(refused) = self.others_hold(declared, &live, moved.as_ref()).await?
        {
            return Ok(refused);
        }
        let entries = self.claim(declared, &live).await?.or(moved);
        let nulls = |keys: Vec<String>| {
            let nulls: Map<String, Value> = keys.into_iter().map(|key| (key, Value::Null)).collect();
            json!({"labels": nulls, "annotations": nulls})
        };
        self.take_over(declared, live, entries, marks.map_or_else(|| json!({}), nulls)).await
    }
}

fn owned(key: &ObjectKey, other: &str, named: Option<&str>) -> Outcome {
    let other = unseen::shown(other, LABEL_MAX);
    let named = named.map_or_else(String::new, |named| {
        format!("; the annotation names {:?}, which is another", unseen::shown(named, LABEL_MAX))
    });
    Outcome::Refused {
        reason: "OwnedByOtherHub",
        message: format!(
            "{key} belongs to the hub {other:?}; release it there first, or let this hub have what both declare in this \
             member by an annotation of the MemberCluster: {TAKE_OVER_FROM}={other}{named}"
        ),
    }
}
