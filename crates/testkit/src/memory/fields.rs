//! Sets of fields, as managedFields holds them: paths into an object, to leaves.
//!
//! There is no schema: maps are walked, lists are leaves. On the real server many lists of built-in kinds are
//! walked too (`k:`, `v:`); here such elements are kept when a client sends them, and lead nowhere.

use std::collections::BTreeSet;
use std::ops::Bound;

use serde_json::{Map, Value};

/// Segments as fieldsV1 writes them: `f:data`, `f:key`.
pub(super) type Path = Vec<String>;
pub(super) type Fields = BTreeSet<Path>;

/// What a write did to an object's fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Diff {
    /// Fields added or given another value.
    pub changed: Fields,
    pub removed: Fields,
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// What an apply of this object owns: its leaves; an empty map, an empty list and null are leaves.
pub(super) fn declared(object: &Value) -> Fields {
    let mut fields = Fields::new();
    collect(object, &mut Path::new(), false, &mut fields);
    fields
}

/// What a write of this object where nothing was owns: its leaves, and its maps.
pub(super) fn all(object: &Value) -> Fields {
    let mut fields = Fields::new();
    collect(object, &mut Path::new(), true, &mut fields);
    fields
}

fn collect(value: &Value, path: &mut Path, with_maps: bool, fields: &mut Fields) {
    let children = value.as_object().filter(|map| !map.is_empty());
    if !path.is_empty() && (children.is_none() || with_maps) {
        fields.insert(path.clone());
    }
    for (key, child) in children.into_iter().flatten() {
        path.push(format!("f:{key}"));
        // Labels and annotations are maps that belong to somebody; metadata itself belongs to nobody.
        let structural = path.len() == 1 && key == "metadata";
        if structural {
            for (name, inner) in child.as_object().into_iter().flatten() {
                path.push(format!("f:{name}"));
                collect(inner, path, with_maps, fields);
                path.pop();
            }
        } else {
            collect(child, path, with_maps, fields);
        }
        path.pop();
    }
}

/// The difference of two objects, down to their leaves.
pub(super) fn diff(old: &Value, new: &Value) -> Diff {
    let mut diff = Diff::default();
    compare(old, new, &mut Path::new(), &mut diff);
    diff
}

fn compare(old: &Value, new: &Value, path: &mut Path, diff: &mut Diff) {
    if old == new {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (old, new) {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys {
            path.push(format!("f:{key}"));
            match (before.get(key), after.get(key)) {
                (Some(old), Some(new)) => compare(old, new, path, diff),
                (Some(old), None) => collect(old, path, true, &mut diff.removed),
                (None, Some(new)) => collect(new, path, true, &mut diff.changed),
                (None, None) => {}
            }
            path.pop();
        }
        return;
    }
    collect(new, path, true, &mut diff.changed);
    let mut gone = Fields::new();
    collect(old, path, true, &mut gone);
    diff.removed.extend(gone.into_iter().filter(|field| !diff.changed.contains(field)));
}

/// Lays an applied object over the live one: maps merge, all else is replaced, null takes away.
pub(super) fn merge(live: &mut Map<String, Value>, config: &Map<String, Value>) {
    for (key, value) in config {
        match (live.get_mut(key), value) {
            (_, Value::Null) => {
                live.remove(key);
            }
            (Some(Value::Object(below)), Value::Object(value)) => merge(below, value),
            (_, Value::Object(value)) => {
                let mut below = Map::new();
                merge(&mut below, value);
                live.insert(key.clone(), Value::Object(below));
            }
            (_, value) => {
                live.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Takes the field out, and the maps above it that this leaves empty and `kept` does not hold.
pub(super) fn remove(object: &mut Value, path: &[String], kept: &dyn Fn(&[String]) -> bool) {
    let Some((last, above)) = path.split_last() else { return };
    let mut parent = Some(&mut *object);
    for segment in above {
        parent = parent.and_then(|value| value.get_mut(key_of(segment)?));
    }
    let Some(map) = parent.and_then(Value::as_object_mut) else { return };
    if key_of(last).is_some_and(|key| map.remove(key).is_some())
        && map.is_empty()
        && !above.is_empty()
        && !kept(above)
    {
        remove(object, above, kept);
    }
}

fn key_of(segment: &str) -> Option<&str> {
    segment.strip_prefix("f:")
}

/// Does the set hold this path, or one below it?
pub(super) fn covers(fields: &Fields, path: &[String]) -> bool {
    let from = (Bound::Included(path), Bound::Unbounded);
    fields.range::<[String], _>(from).next().is_some_and(|first| first.starts_with(path))
}

/// A path as conflicts print it: `.data.key`.
pub(super) fn display(path: &[String]) -> String {
    path.iter().map(|segment| format!(".{}", key_of(segment).unwrap_or(segment))).collect()
}

/// To fieldsV1: nested maps; "." where a path has others below it.
pub(super) fn encode(fields: &Fields) -> Value {
    let mut root = Map::new();
    fields.iter().for_each(|path| plant(&mut root, path));
    let mut root = Value::Object(root);
    drop_lone_dots(&mut root);
    root
}

fn plant(node: &mut Map<String, Value>, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        node.insert(".".to_owned(), Value::Object(Map::new()));
        return;
    };
    let child = node.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(child) = child {
        plant(child, rest);
    }
}

fn drop_lone_dots(node: &mut Value) {
    let Some(map) = node.as_object_mut() else { return };
    if map.len() == 1 {
        map.remove(".");
    }
    map.iter_mut().for_each(|(_, child)| drop_lone_dots(child));
}

/// From fieldsV1.
pub(super) fn decode(fields_v1: &Value) -> Fields {
    fn walk(node: &Value, path: &mut Path, fields: &mut Fields) {
        let children = node.as_object().filter(|map| !map.is_empty());
        if !path.is_empty() && children.is_none() {
            fields.insert(path.clone());
        }
        for (key, child) in children.into_iter().flatten() {
            if key == "." {
                fields.insert(path.clone());
                continue;
            }
            path.push(key.clone());
            walk(child, path, fields);
            path.pop();
        }
    }
    let mut fields = Fields::new();
    walk(fields_v1, &mut Path::new(), &mut fields);
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(fields: &Fields) -> Vec<String> {
        fields.iter().map(|path| display(path)).collect()
    }

    #[test]
    fn leaves_are_scalars_lists_and_empties() {
        let object = json!({"data": {"a": "1"}, "list": [1], "none": {}, "null": null});
        assert_eq!(paths(&declared(&object)), [".data.a", ".list", ".none", ".null"]);
        assert_eq!(paths(&all(&object)), [".data", ".data.a", ".list", ".none", ".null"]);
    }

    #[test]
    fn diff_names_leaves_on_both_sides() {
        let diff = diff(
            &json!({"data": {"a": "1", "b": "2"}, "x": {"y": 1}}),
            &json!({"data": {"a": "3", "c": {"d": 1}}, "x": 5}),
        );
        assert_eq!(paths(&diff.changed), [".data.a", ".data.c", ".data.c.d", ".x"]);
        assert_eq!(paths(&diff.removed), [".data.b", ".x.y"]);
    }

    #[test]
    fn fields_survive_encoding() {
        let table = [
            json!({"f:data": {"f:a": {}, "f:b": {}}}),
            json!({"f:data": {".": {}, "f:a": {}}}),
            json!({"f:spec": {"f:items": {"k:{\"name\":\"x\"}": {".": {}, "f:v": {}}, "v:1": {}}}}),
        ];
        for fields in table {
            assert_eq!(encode(&decode(&fields)), fields);
        }
    }

    #[test]
    fn removing_a_leaf_takes_emptied_maps_with_it_unless_kept() {
        let path: Path = vec!["f:data".into(), "f:in".into(), "f:a".into()];
        let mut object = json!({"data": {"in": {"a": 1}}, "kind": "X"});
        remove(&mut object, &path, &|_| false);
        assert_eq!(object, json!({"kind": "X"}));
        let mut object = json!({"data": {"in": {"a": 1}}});
        remove(&mut object, &path, &|above| above.len() == 2);
        assert_eq!(object, json!({"data": {"in": {}}}));
    }
}
