//! The field managers of a kind alone: what an apply or another write makes of an object and its
//! managedFields, with no server around them. No defaults, no validation but that of the type.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::{self, Kind};
use super::managed::{self, Writer};
use super::smd;

/// Field managers of one kind.
#[derive(Clone, Debug)]
pub struct FieldManagers {
    kind: Arc<Kind>,
}

/// Who writes, and through what.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// `fieldManager`.
    pub manager: &'a str,
    /// `status`, or empty.
    pub subresource: &'a str,
}

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Others own what would change: each field, and what the server says of it.
    Conflicts(Vec<(String, String)>),
    /// The document, or the live object, does not fit the type.
    Untyped(Vec<String>),
}

impl FieldManagers {
    /// Those of a built-in kind.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Self> {
        let all = kinds::built_in();
        let fits = |of: &&Arc<Kind>| of.group == group && of.version == version && of.kind == kind;
        all.iter().find(fits).cloned().map(|kind| FieldManagers { kind })
    }

    /// Those of the first served version of a CustomResourceDefinition.
    pub fn of_crd(crd: &Value) -> Option<Self> {
        kinds::of_crd(crd).into_iter().next().map(|kind| FieldManagers { kind: kind.into() })
    }

    /// The object before it is created.
    pub fn empty(&self) -> Value {
        json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind})
    }

    /// A create, PUT, or another patch than apply, from `live` to `new`: `new` with its managedFields.
    pub fn update(&self, live: &Value, mut new: Value, by: By<'_>) -> Value {
        let created = live["metadata"]["uid"].is_null();
        managed::update(live, created, &mut new, &self.writer(by));
        new
    }

    /// An apply of `declared` to `live`: the new object with its managedFields.
    pub fn apply(&self, live: &Value, declared: &Value, by: By<'_>, force: bool) -> Result<Value, Refusal> {
        let typed = self.kind.typed();
        smd::validate(typed, declared, false).map_err(Refusal::Untyped)?;
        let new = managed::apply(live, &self.empty(), declared, &self.writer(by), force);
        let mut new = new.map_err(|failure| {
            if failure.code != 409 {
                return Refusal::Untyped(vec![failure.message]);
            }
            let causes = failure.details["causes"].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Refusal::Conflicts(
                causes.iter().map(|one| (text(&one["field"]), text(&one["message"]))).collect(),
            )
        })?;
        managed::note_applied(&mut new, declared, by.manager);
        Ok(new)
    }

    fn writer<'a>(&'a self, by: By<'a>) -> Writer<'a> {
        Writer {
            manager: by.manager,
            kind: &self.kind,
            subresource: by.subresource,
            time: "1970-01-01T00:00:00Z".to_owned(),
            versions: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(manager: &str) -> By<'_> {
        By { manager, subresource: "" }
    }

    /// An object of the kind with these fields beside its identity.
    fn object(of: &FieldManagers, fields: Value) -> Value {
        let mut object = of.empty();
        object["metadata"] = json!({"name": "x"});
        for (field, value) in fields.as_object().expect("fields") {
            object[field] = value.clone();
        }
        object
    }

    fn stored(mut object: Value) -> Value {
        object["metadata"]["uid"] = json!("u");
        object
    }

    /// Manager and fields of each entry.
    fn owners(object: &Value) -> Vec<(String, Value)> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let manager = |entry: &Value| entry["manager"].as_str().unwrap_or_default().to_owned();
        entries.iter().map(|entry| (manager(entry), entry["fieldsV1"].clone())).collect()
    }

    #[test]
    fn a_field_may_make_an_atomic_struct_granular() {
        let volumes = FieldManagers::builtin("", "v1", "PersistentVolume").expect("built in");
        let body = object(&volumes, json!({"spec": {"claimRef": {"name": "a", "uid": "b"}}}));
        let made = volumes.apply(&volumes.empty(), &body, by("m"), false).expect("applied");
        let fields = json!({"f:spec": {"f:claimRef": {"f:name": {}, "f:uid": {}}}});
        assert_eq!(owners(&made), [("m".to_owned(), fields)]);
    }

    #[test]
    fn of_an_object_that_does_not_fit_its_type_nobody_owns_anything() {
        let accounts = FieldManagers::builtin("", "v1", "ServiceAccount").expect("built in");
        let body = object(&accounts, json!({"secrets": [{}]}));
        let made = stored(accounts.update(&accounts.empty(), body.clone(), by("m")));
        assert_eq!(owners(&made), []);
        let body = object(&accounts, json!({"automountServiceAccountToken": true}));
        let refused = accounts.apply(&made, &body, by("m"), true);
        assert!(matches!(refused, Err(Refusal::Untyped(_))), "{refused:?}");
    }

    #[test]
    fn an_entry_may_name_no_manager() {
        let maps = FieldManagers::builtin("", "v1", "ConfigMap").expect("built in");
        let mut body = object(&maps, json!({}));
        let entry = json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}}});
        body["metadata"]["managedFields"] = json!([entry]);
        let made = maps.update(&maps.empty(), body, by("m"));
        assert_eq!(made["metadata"]["managedFields"], json!([entry]));
    }

    #[test]
    fn kubectl_takes_nothing_over_where_a_list_holds_duplicates() {
        let pods = FieldManagers::builtin("", "v1", "Pod").expect("built in");
        let note = object(&pods, json!({"spec": {"nodeName": "a"}}));
        let live = |conditions: Value| {
            let mut live =
                object(&pods, json!({"spec": {"nodeName": "a"}, "status": {"conditions": conditions}}));
            live["metadata"]["annotations"] =
                json!({"kubectl.kubernetes.io/last-applied-configuration": note.to_string(), "n": null});
            stored(pods.update(&pods.empty(), live, by("other")))
        };
        let body = object(&pods, json!({"spec": {"nodeName": "b"}}));
        let taken = pods.apply(&live(json!([{"type": "c"}])), &body, by("kubectl"), false).expect("allowed");
        assert_eq!(taken["metadata"]["annotations"]["n"], json!(""), "rewritten annotations are texts");
        let refused = pods.apply(&live(json!([{"type": "c"}, {"type": "c"}])), &body, by("kubectl"), false);
        assert!(matches!(refused, Err(Refusal::Conflicts(_))), "{refused:?}");
    }

    #[test]
    fn an_item_stays_that_is_owned_without_any_of_its_fields() {
        let pods = FieldManagers::builtin("", "v1", "Pod").expect("built in");
        let one = object(&pods, json!({"spec": {"nodeName": "a"}}));
        let live = stored(pods.apply(&pods.empty(), &one, by("one"), false).expect("applied"));
        let mut twice = live.clone();
        twice["spec"]["containers"] = json!([{"name": "c"}, {"name": "c"}]);
        let live = pods.update(&live, twice, by("two"));
        let mut once = live.clone();
        once["spec"]["containers"] = json!([{"name": "c"}]);
        let live = pods.update(&live, once, By { manager: "two", subresource: "status" });
        let made = pods.apply(&live, &object(&pods, json!({})), by("one"), false).expect("applied");
        assert_eq!(made["spec"], json!({"containers": [{"name": "c"}]}));
    }
}
