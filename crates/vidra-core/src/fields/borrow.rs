//! Taking live values over into what is declared, where both mean the same and are spelt otherwise.
//!
//! The API server keeps `1000m` as `1`, and compares what is applied with that: a second applier of the same text is
//! refused, or takes the field from the first. Sending the live spelling makes both own it.

use serde_json::Value;

use super::element::{Element, Path};
use super::mask::position;
use super::set::FieldSet;

/// `declared` with the live values at those paths of `set` that are `contested` (as the API server writes paths).
/// `None`: one of them is not in both.
pub fn with_live_values(
    declared: &Value,
    live: &Value,
    set: &FieldSet,
    contested: &[String],
) -> Option<Value> {
    let mut body = declared.clone();
    let paths: Vec<Path> =
        set.paths().into_iter().filter(|path| contested.contains(&path.to_string())).collect();
    // A field that two managers hold is contested twice.
    let known: Vec<String> = paths.iter().map(Path::to_string).collect();
    if !contested.iter().all(|path| known.contains(path)) {
        return None;
    }
    for path in &paths {
        let mut from = live;
        let mut into = &mut body;
        for element in path.elements() {
            from = element.find(from)?;
            into = find_mut(element, into)?;
        }
        *into = from.clone();
    }
    Some(body)
}

pub(super) fn find_mut<'a>(element: &Element, value: &'a mut Value) -> Option<&'a mut Value> {
    match (element, value) {
        (Element::Field(name), Value::Object(map)) => map.get_mut(name.as_ref()),
        (_, Value::Array(items)) => {
            let at = position(element, items)?;
            items.get_mut(at)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(cpu: Value) -> Value {
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": cpu, "x": "1"}}}]}})
    }

    #[test]
    fn a_contested_leaf_gets_the_live_spelling_and_nothing_else_changes() {
        let set = FieldSet::from_fields_v1(&json!({"f:spec": {"f:containers": {
            r#"k:{"name":"b"}"#: {".": {}, "f:name": {}, "f:resources": {"f:limits": {"f:cpu": {}, "f:x": {}}}},
        }}}))
        .unwrap();
        let contested = vec![r#".spec.containers[name="b"].resources.limits.cpu"#.to_owned()];
        let sent = with_live_values(&pod(json!("1000m")), &pod(json!("1")), &set, &contested);
        assert_eq!(sent, Some(pod(json!("1"))));
        let twice = [contested.clone(), contested].concat();
        let sent = with_live_values(&pod(json!("1000m")), &pod(json!("1")), &set, &twice);
        assert_eq!(sent, Some(pod(json!("1"))), "two managers hold it");
        let unknown = vec![".spec.other".to_owned()];
        assert_eq!(with_live_values(&pod(json!("1000m")), &pod(json!("1")), &set, &unknown), None);
    }
}
