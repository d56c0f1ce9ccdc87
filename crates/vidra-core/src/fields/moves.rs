//! Moving fields between entries of `metadata.managedFields`: what an earlier applier owns has to become ours, or
//! fields that are dropped later would stay for ever, held by somebody who applies no more.
//!
//! Not here: writing the list back. It is replaced whole, guarded by the resourceVersion that it was read under.

use serde_json::{Map, Value, json};

use super::{
    Earlier, MANAGER_PREFIX, STAMP_PREFIX,
    entries::{applier, is_apply_entry},
};

/// The managedFields of `live` after all that earlier appliers own has become what `manager` applied. What the next apply
/// leaves out is removed then. `None`: there is nothing to move.
pub fn absorbed(live: &Value, manager: &str, earlier: &Earlier<'_>) -> Option<Value> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let (moved, mut rest): (Vec<&Value>, Vec<&Value>) =
        entries.iter().partition(|entry| earlier.moves(entry));
    let first = moved.first()?;
    let fields = gathered(&moved, &mut rest, manager);
    let ours = apply_entry(manager, earlier.api_version, &first["time"], fields.into());
    Some(rest.into_iter().cloned().chain([ours]).collect())
}

/// The managedFields of `live` after all that earlier appliers own, and that the hub `from` applied in the same
/// apiVersion, has become what `manager` applied, but for the marks of that hub's owners; and the keys of those marks, of
/// labels and of annotations alike. What that hub applied in other versions is nobody's then. `None`: it has applied
/// nothing.
pub fn inherited(
    live: &Value,
    from: &str,
    manager: &str,
    earlier: &Earlier<'_>,
) -> Option<(Value, Vec<String>)> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let is_theirs = |entry: &Value| applier(entry).is_some_and(|applier| is_of_hub(applier, from));
    let (theirs, rest): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| is_theirs(entry));
    let (leftovers, mut rest): (Vec<&Value>, Vec<&Value>) =
        rest.into_iter().partition(|entry| earlier.moves(entry));
    let first = theirs.first()?;
    let mut marks: Vec<String> = theirs.iter().flat_map(|entry| owner_keys(entry)).collect();
    marks.sort();
    marks.dedup();
    let same = theirs.iter().copied().filter(|entry| entry["apiVersion"] == *earlier.api_version);
    let moved: Vec<&Value> = same.chain(leftovers).collect();
    let mut fields = gathered(&moved, &mut rest, manager);
    for place in MARKED {
        let metadata = fields.get_mut("f:metadata").and_then(|metadata| metadata.get_mut(place));
        if let Some(keys) = metadata.and_then(Value::as_object_mut) {
            keys.retain(|key, _| !marks.iter().any(|mark| key.strip_prefix("f:") == Some(mark)));
        }
    }
    let ours = apply_entry(manager, earlier.api_version, &first["time"], fields.into());
    Some((rest.into_iter().cloned().chain([ours]).collect(), marks))
}

/// Whether a field manager is that of a VidraResource of this hub.
pub fn is_of_hub(manager: &str, hub: &str) -> bool {
    let rest = manager.strip_prefix(MANAGER_PREFIX).and_then(|rest| rest.strip_prefix(hub));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Where owners leave their marks.
const MARKED: [&str; 2] = ["f:labels", "f:annotations"];

/// The keys of owners' marks that an entry holds.
fn owner_keys(entry: &Value) -> impl Iterator<Item = String> + '_ {
    let metadata = &entry["fieldsV1"]["f:metadata"];
    let keys = MARKED.into_iter().flat_map(move |place| metadata[place].as_object()).flatten();
    let keys = keys.filter_map(|(key, _)| key.strip_prefix("f:"));
    keys.filter(|key| key.starts_with(STAMP_PREFIX)).map(str::to_owned)
}

/// What these entries and that of `manager`, which is taken out of the rest, own together.
fn gathered(moved: &[&Value], rest: &mut Vec<&Value>, manager: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(at) = rest.iter().position(|entry| is_apply_entry(entry, manager)) {
        unite(&mut fields, rest.remove(at).get("fieldsV1"));
    }
    moved.iter().for_each(|entry| unite(&mut fields, entry.get("fieldsV1")));
    fields
}

/// The managedFields of `live` after what `ours` (a fieldsV1) owns was taken from earlier appliers and given to `manager`;
/// what else they own stays theirs. `None`: they own nothing of it.
pub fn parted(live: &Value, manager: &str, earlier: &Earlier<'_>, ours: &Value) -> Option<Value> {
    let (mut entries, time) = shed_from(live, earlier, ours)?;
    entries.retain(|entry| !is_apply_entry(entry, manager));
    entries.push(apply_entry(manager, earlier.api_version, &time, ours.clone()));
    Some(entries.into())
}

/// The managedFields of `live`, which has none, with `ours` (a fieldsV1) in an entry of `manager`. Written before an
/// apply, it keeps the API server from making up an entry that holds everything for the time before. `None`: it has
/// some.
pub fn claimed(live: &Value, manager: &str, api_version: &str, ours: &Value) -> Option<Value> {
    has_no_entries(live).then(|| json!([apply_entry(manager, api_version, &Value::Null, ours.clone())]))
}

/// Whether nobody owns anything in `live`: its managedFields were reset, as tools for backups do.
pub fn has_no_entries(live: &Value) -> bool {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.is_none_or(|entries| entries.iter().all(|entry| entry.get("manager").is_none()))
}

/// The entries without what `ours` owns in those of earlier appliers, and the time of the first that lost something.
fn shed_from(live: &Value, earlier: &Earlier<'_>, ours: &Value) -> Option<(Vec<Value>, Value)> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let (mut kept, mut time) = (Vec::with_capacity(entries.len()), None);
    for entry in entries {
        let theirs = entry["fieldsV1"].as_object();
        let (Some(theirs), Some(ours)) = (theirs.filter(|_| earlier.moves(entry)), ours.as_object()) else {
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
        let Some(below) = below.as_object().filter(|below| !below.is_empty()) else { continue };
        let rest = match taken_below.is_empty() {
            // Declared as an empty map: what is in it is not ours.
            true => below
                .iter()
                .filter(|(key, _)| *key != ".")
                .map(|(key, of)| (key.clone(), of.clone()))
                .collect(),
            false => without(below, taken_below),
        };
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
    const EARLIER: Earlier<'static> = Earlier { api_version: "v1", named: &[] };

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
        let after = absorbed(&before, US, &EARLIER).expect("something moves");
        let united = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}});
        let alice = entry("alice", "Update", json!({"f:data": {"f:c": {}}}));
        assert_eq!(after, json!([alice, status, entry(US, "Apply", united)]));
        assert_eq!(absorbed(&live(after), US, &EARLIER), None, "moving again moves nothing");
    }

    #[test]
    fn what_tools_applied_or_updated_becomes_ours_and_what_is_not_an_earlier_appliers_stays() {
        let (data, more) = (json!({"f:data": {"f:a": {}}}), json!({"f:data": {"f:b": {}}}));
        let scaled = json!({"manager": "kubectl", "operation": "Update", "apiVersion": "v1",
            "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let before = live(json!([
            entry("kustomize-controller", "Apply", data.clone()),
            entry("autoscaler", "Update", json!({"f:spec": {"f:replicas": {}}})),
            entry("helm", "Update", more),
            scaled,
        ]));
        let after = absorbed(&before, US, &EARLIER).expect("something moves");
        let autoscaler = entry("autoscaler", "Update", json!({"f:spec": {"f:replicas": {}}}));
        let united = json!({"f:data": {"f:a": {}, "f:b": {}}});
        assert_eq!(after, json!([autoscaler, scaled, entry(US, "Apply", united)]));
        for stays in
            [entry("alice", "Apply", data.clone()), entry("kubectl-client-side-apply", "Apply", data)]
        {
            assert_eq!(absorbed(&live(json!([stays])), US, &EARLIER), None);
        }
        let newer = Earlier { api_version: "v2", named: &[] };
        assert_eq!(absorbed(&before, US, &newer), None, "paths of another schema");
        assert_eq!(absorbed(&json!({"metadata": {}}), US, &EARLIER), None);
    }

    #[test]
    fn what_is_not_ours_stays_with_the_earlier_applier() {
        let theirs =
            json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:app": {}}}});
        let ours = json!({"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:app": {}}}});
        for (manager, operation) in [("kubectl-client-side-apply", "Update"), ("kubectl", "Apply")] {
            let before = live(json!([entry(manager, operation, theirs.clone())]));
            let after = parted(&before, US, &EARLIER, &ours).expect("something moves");
            let rest = json!({"f:data": {".": {}, "f:b": {}}});
            assert_eq!(after, json!([entry(manager, operation, rest), entry(US, "Apply", ours.clone())]));
            assert_eq!(parted(&live(after), US, &EARLIER, &ours), None);
        }
        let all = live(json!([entry("kubectl-client-side-apply", "Update", ours.clone())]));
        assert_eq!(parted(&all, US, &EARLIER, &ours), Some(json!([entry(US, "Apply", ours)])));
    }

    /// An update owns maps, which an apply does not: kept, they would stay as `{}` when they are dropped later.
    #[test]
    fn a_map_of_which_all_is_ours_stays_with_no_earlier_applier() {
        let by_kubectl = |fields: Value| entry("kubectl-client-side-apply", "Update", fields);
        let theirs = json!({
            "f:data": {".": {}, "f:a": {}},
            "f:metadata": {"f:annotations": {".": {}, "f:note": {}}, "f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:strategy": {".": {}, "f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}}},
        });
        let ours = json!({
            "f:data": {"f:a": {}},
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}},
        });
        let after = parted(&live(json!([by_kubectl(theirs)])), US, &EARLIER, &ours);
        let rest = json!({
            "f:metadata": {"f:annotations": {".": {}, "f:note": {}}},
            "f:spec": {"f:strategy": {".": {}, "f:type": {}}},
        });
        assert_eq!(after, Some(json!([by_kubectl(rest), entry(US, "Apply", ours)])));

        let all = json!({"f:spec": {".": {}, "f:strategy": {".": {}, "f:type": {}}}});
        let ours = json!({"f:spec": {"f:strategy": {"f:type": {}}}});
        let after = parted(&live(json!([by_kubectl(all)])), US, &EARLIER, &ours);
        assert_eq!(after, Some(json!([entry(US, "Apply", ours)])), "nothing is left of its entry");
    }

    /// Nobody would take it away when they let it go.
    #[test]
    fn what_is_in_a_map_that_is_declared_empty_stays_the_earlier_appliers() {
        let by_kubectl = |fields: Value| entry("kubectl-client-side-apply", "Update", fields);
        let theirs = by_kubectl(json!({"f:data": {".": {}, "f:extra": {}}, "f:spec": {"f:limits": {}}}));
        let ours = json!({"f:data": {}, "f:spec": {"f:limits": {}}});
        let after = parted(&live(json!([theirs])), US, &EARLIER, &ours);
        let rest = by_kubectl(json!({"f:data": {"f:extra": {}}}));
        assert_eq!(after, Some(json!([rest, entry(US, "Apply", ours)])));
    }

    #[test]
    fn what_another_hub_applied_becomes_ours_but_for_its_owners_marks() {
        let of = |data: &str, mark: &str| {
            let mark = format!("f:owner.vidra.dev/{mark}");
            json!({"f:data": {data: {}}, "f:metadata": {
                "f:annotations": {&mark: {}}, "f:labels": {"f:app": {}, "f:vidra.dev/hub": {}, &mark: {}}}})
        };
        let mut elder = entry("vidra/old/team/elder", "Apply", of("f:gone", "1e"));
        elder["apiVersion"] = "v1beta1".into();
        let kept = [
            entry("vidra/older/team/shop", "Apply", of("f:theirs", "2e")),
            entry("vidra/old/team/shop", "Update", json!({"f:data": {"f:update": {}}})),
        ];
        let before = live(json!([
            entry("vidra/old/team/shop", "Apply", of("f:a", "1a")),
            kept[0],
            entry("vidra/old/1a2b", "Apply", of("f:b", "1b")),
            elder,
            kept[1],
            entry("before-first-apply", "Update", json!({"f:data": {"f:first": {}}})),
        ]));
        let (after, marks) = inherited(&before, "old", US, &EARLIER).expect("something moves");
        assert_eq!(marks, ["owner.vidra.dev/1a", "owner.vidra.dev/1b", "owner.vidra.dev/1e"]);
        let united = json!({"f:data": {"f:a": {}, "f:b": {}, "f:first": {}},
            "f:metadata": {"f:annotations": {}, "f:labels": {"f:app": {}, "f:vidra.dev/hub": {}}}});
        assert_eq!(after, json!([kept[0], kept[1], entry(US, "Apply", united)]));
        assert_eq!(inherited(&live(after), "old", US, &EARLIER), None, "moving again moves nothing");
        assert_eq!(inherited(&json!({"metadata": {}}), "old", US, &EARLIER), None);
        assert!(
            !is_of_hub("vidra/older/x", "old")
                && !is_of_hub("alice", "old")
                && !is_of_hub("vidra/old", "old")
        );
    }

    #[test]
    fn only_what_nobody_owns_is_claimed() {
        let ours = json!({"f:data": {"f:a": {}}});
        for reset in [json!({"metadata": {}}), live(json!([])), live(json!([{}]))] {
            let mut entry = entry(US, "Apply", ours.clone());
            entry.as_object_mut().unwrap().remove("time");
            assert_eq!(claimed(&reset, US, "v1", &ours), Some(json!([entry])), "{reset}");
        }
        assert_eq!(claimed(&live(json!([entry("alice", "Update", json!({}))])), US, "v1", &ours), None);
    }
}
