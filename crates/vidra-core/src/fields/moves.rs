//! Moving fields between entries of `metadata.managedFields`: what an earlier applier owns has to become ours, or
//! fields that are dropped later would stay for ever, held by somebody who applies no more.
//!
//! Not here: writing the list back. It is replaced whole, guarded by the resourceVersion that it was read under.

use serde_json::{Map, Value, json};

use super::entries::is_apply_entry;

/// Managers whose Update entries are leftovers of an earlier way of applying: those that client-side `kubectl apply`
/// leaves, and that the API server makes up at the first apply to an object without entries. The same as kubectl
/// itself takes over (client-go, util/csaupgrade; cmd/apply).
pub const EARLIER_APPLIERS: [&str; 2] = ["kubectl-client-side-apply", BEFORE_FIRST_APPLY];
/// See [`EARLIER_APPLIERS`].
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The managedFields of `live` after all that earlier appliers own, in this apiVersion, has become what `manager`
/// applied. What the next apply leaves out is removed then. `None`: there is nothing to move.
pub fn absorbed(live: &Value, manager: &str, api_version: &str) -> Option<Value> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let (moved, mut rest): (Vec<&Value>, Vec<&Value>) = entries
        .iter()
        .partition(|entry| is_earlier(entry, &EARLIER_APPLIERS) && entry["apiVersion"] == *api_version);
    let first = moved.first()?;
    let mut fields = Map::new();
    if let Some(at) = rest.iter().position(|entry| is_apply_entry(entry, manager)) {
        unite(&mut fields, rest.remove(at).get("fieldsV1"));
    }
    moved.iter().for_each(|entry| unite(&mut fields, entry.get("fieldsV1")));
    let ours = apply_entry(manager, api_version, &first["time"], fields.into());
    Some(rest.into_iter().cloned().chain([ours]).collect())
}

/// The managedFields of `live` after what `ours` (a fieldsV1) owns was taken from earlier appliers in this
/// apiVersion and given to `manager`; what else they own stays theirs. `None`: they own nothing of it.
pub fn parted(live: &Value, manager: &str, api_version: &str, ours: &Value) -> Option<Value> {
    let (mut entries, time) = shed_from(live, &EARLIER_APPLIERS, api_version, ours)?;
    entries.retain(|entry| !is_apply_entry(entry, manager));
    entries.push(apply_entry(manager, api_version, &time, ours.clone()));
    Some(entries.into())
}

/// The managedFields of `live` after what our entry owns was taken from the entry that stands for the time before the
/// first apply. `None`: there is none, or it owns nothing of it.
pub fn relieved(live: &Value, manager: &str) -> Option<Value> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let ours = entries.iter().find(|entry| is_apply_entry(entry, manager))?;
    let api_version = ours["apiVersion"].as_str()?;
    shed_from(live, &[BEFORE_FIRST_APPLY], api_version, &ours["fieldsV1"]).map(|(entries, _)| entries.into())
}

/// The entries without what `ours` owns in those of `managers`, and the time of the first that lost something.
fn shed_from(
    live: &Value,
    managers: &[&str],
    api_version: &str,
    ours: &Value,
) -> Option<(Vec<Value>, Value)> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let (mut kept, mut time) = (Vec::with_capacity(entries.len()), None);
    for entry in entries {
        let theirs = entry["fieldsV1"].as_object();
        let (Some(theirs), Some(ours)) = (
            theirs.filter(|_| is_earlier(entry, managers) && entry["apiVersion"] == *api_version),
            ours.as_object(),
        ) else {
            kept.push(entry.clone());
            continue;
        };
        let left = without(theirs, ours);
        if left == *theirs {
            kept.push(entry.clone());
            continue;
        }
        time.get_or_insert_with(|| entry["time"].clone());
        if !left.is_empty() {
            let mut entry = entry.clone();
            entry["fieldsV1"] = left.into();
            kept.push(entry);
        }
    }
    time.map(|time| (kept, time))
}

fn is_earlier(entry: &Value, managers: &[&str]) -> bool {
    entry["operation"] == "Update"
        && entry["subresource"].as_str().unwrap_or_default().is_empty()
        && entry["manager"].as_str().is_some_and(|manager| managers.contains(&manager))
}

fn apply_entry(manager: &str, api_version: &str, time: &Value, fields: Value) -> Value {
    let mut entry = json!({
        "manager": manager, "operation": "Apply", "apiVersion": api_version,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    if time.is_string() {
        entry["time"] = time.clone();
    }
    entry
}

fn unite(into: &mut Map<String, Value>, from: Option<&Value>) {
    for (element, below) in from.and_then(Value::as_object).into_iter().flatten() {
        let slot = into.entry(element).or_insert_with(|| Value::Object(Map::new()));
        if let Some(slot) = slot.as_object_mut() {
            unite(slot, Some(below));
        }
    }
}

/// `from` without what `taken` owns; a part of which nothing is left but that it is there goes too.
fn without(from: &Map<String, Value>, taken: &Map<String, Value>) -> Map<String, Value> {
    let mut left = Map::new();
    for (element, below) in from {
        let Some(taken_below) = taken.get(element).and_then(Value::as_object) else {
            left.insert(element.clone(), below.clone());
            continue;
        };
        let Some(below) = below.as_object().filter(|below| !below.is_empty() && !taken_below.is_empty())
        else {
            continue;
        };
        let rest = without(below, taken_below);
        if rest.keys().any(|key| key != ".") {
            left.insert(element.clone(), rest.into());
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn live(entries: Value) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    const US: &str = "vidra/h/team/shop";

    #[test]
    fn what_kubectl_applied_becomes_ours_as_a_whole() {
        let (data, more) = (json!({"f:data": {".": {}, "f:a": {}}}), json!({"f:data": {"f:b": {}}}));
        let status = json!({"manager": "before-first-apply", "operation": "Update", "apiVersion": "v1",
            "subresource": "status", "fieldsV1": {}});
        let before = live(json!([
            entry("kubectl-client-side-apply", "Update", data),
            entry("alice", "Update", json!({"f:data": {"f:c": {}}})),
            entry("before-first-apply", "Update", more),
            status,
        ]));
        let after = absorbed(&before, US, "v1").expect("something moves");
        let united = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}});
        let alice = entry("alice", "Update", json!({"f:data": {"f:c": {}}}));
        assert_eq!(after, json!([alice, status, entry(US, "Apply", united)]));
        assert_eq!(absorbed(&live(after), US, "v1"), None, "moving again moves nothing");
    }

    #[test]
    fn only_entries_of_earlier_appliers_in_the_same_version_are_moved() {
        let other =
            |manager: &str, operation: &str| live(json!([entry(manager, operation, json!({"f:a": {}}))]));
        assert_eq!(absorbed(&other("helm", "Update"), US, "v1"), None);
        assert_eq!(absorbed(&other("kubectl-client-side-apply", "Apply"), US, "v1"), None);
        assert_eq!(absorbed(&other("kubectl-client-side-apply", "Update"), US, "v2"), None);
        assert_eq!(absorbed(&json!({"metadata": {}}), US, "v1"), None);
    }

    #[test]
    fn what_is_not_ours_stays_with_the_earlier_applier() {
        let theirs =
            json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:app": {}}}});
        let ours = json!({"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:app": {}}}});
        let before = live(json!([entry("kubectl-client-side-apply", "Update", theirs)]));
        let after = parted(&before, US, "v1", &ours).expect("something moves");
        let rest = json!({"f:data": {".": {}, "f:b": {}}});
        assert_eq!(
            after,
            json!([entry("kubectl-client-side-apply", "Update", rest), entry(US, "Apply", ours.clone())])
        );
        assert_eq!(parted(&live(after), US, "v1", &ours), None);
        let all = live(json!([entry("kubectl-client-side-apply", "Update", ours.clone())]));
        assert_eq!(parted(&all, US, "v1", &ours), Some(json!([entry(US, "Apply", ours)])));
    }

    #[test]
    fn the_time_before_the_first_apply_is_relieved_of_what_we_own() {
        let ours = entry(US, "Apply", json!({"f:data": {"f:a": {}}}));
        let before = |fields: Value| live(json!([ours, entry("before-first-apply", "Update", fields)]));
        let mixed = before(json!({"f:data": {"f:a": {}, "f:b": {}}}));
        let after = relieved(&mixed, US).expect("something goes");
        assert_eq!(
            after,
            json!([ours, entry("before-first-apply", "Update", json!({"f:data": {"f:b": {}}}))])
        );
        assert_eq!(relieved(&live(after), US), None);
        assert_eq!(relieved(&before(json!({"f:data": {"f:a": {}}})), US), Some(json!([ours])));
        assert_eq!(relieved(&live(json!([ours])), US), None);
    }
}
