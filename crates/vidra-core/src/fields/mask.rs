//! A value without what stands at some paths: what is left alone is compared with nothing.

use serde_json::Value;

use super::borrow::find_mut;
use super::element::{Element, Match, Path};

/// `value` without what stands at these paths. What is above them stays, empty or not.
pub fn masked<'a>(value: &Value, paths: impl IntoIterator<Item = &'a Path>) -> Value {
    let mut value = value.clone();
    paths.into_iter().for_each(|path| remove(&mut value, path.elements()));
    value
}

fn remove(value: &mut Value, path: &[Element]) {
    let Some((element, below)) = path.split_first() else { return };
    match (element, value) {
        (Element::Field(name), Value::Object(map)) if below.is_empty() => {
            map.remove(name.as_ref());
        }
        (Element::Field(name), Value::Object(map)) => {
            if let Some(value) = map.get_mut(name.as_ref()) {
                remove(value, below);
            }
        }
        (element, Value::Array(items)) => match position(element, items) {
            Some(at) if below.is_empty() => {
                items.remove(at);
            }
            Some(at) => remove(&mut items[at], below),
            None => {}
        },
        _ => {}
    }
}

/// Puts `new` where something stands at this path; else nothing is done.
pub fn put(value: &mut Value, path: &Path, new: &Value) {
    let found = path.elements().iter().try_fold(value, |value, element| find_mut(element, value));
    if let Some(found) = found {
        found.clone_from(new);
    }
}

/// The index of the list item that an element names, keys with a default allowed to be absent: as
/// [`Element::find`].
pub(super) fn position(element: &Element, items: &[Value]) -> Option<usize> {
    let named = |wanted: Match| {
        items.iter().enumerate().position(|(index, item)| element.names(index, item) == wanted)
    };
    named(Match::Whole).or_else(|| named(Match::Partial))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_at_a_path_is_taken_out_and_nothing_else() {
        let value =
            json!({"a": {"b": 1, "c": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "d": ["p", "q"]}});
        for (path, left) in [
            (".a.b", json!({"a": {"c": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "d": ["p", "q"]}})),
            (".a", json!({})),
            (
                r#".a.c[name="y"].v"#,
                json!({"a": {"b": 1, "c": [{"name": "x", "v": 1}, {"name": "y"}], "d": ["p", "q"]}}),
            ),
            (r#".a.c[name="x"]"#, json!({"a": {"b": 1, "c": [{"name": "y", "v": 2}], "d": ["p", "q"]}})),
            (
                r#".a.d[="p"]"#,
                json!({"a": {"b": 1, "c": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "d": ["q"]}}),
            ),
            (r#".a.c[name="z"].v"#, value.clone()),
            (".a.b.c", value.clone()),
            (".other", value.clone()),
        ] {
            assert_eq!(masked(&value, [&path.parse().unwrap()]), left, "{path}");
        }
    }
}
