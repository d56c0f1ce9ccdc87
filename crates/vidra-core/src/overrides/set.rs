//! Putting a value at a path of an object.

use serde_json::{Map, Value};

use crate::fields::{Element, Path};

/// Why a value could not be put there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SetError {
    /// How far down the path could be followed.
    pub(super) at: Path,
    /// What is wrong there.
    pub(super) why: &'static str,
}

/// Puts `value` at `path`. Maps that are missing on the way are made; items of lists must be there, or a key
/// written wrong would make a second item.
pub(super) fn set(object: &mut Value, path: &Path, value: Value) -> Result<(), SetError> {
    let mut place = object;
    for (depth, element) in path.elements().iter().enumerate() {
        let wrong = |why| {
            let at = path.elements().iter().take(depth + 1).cloned().collect::<Vec<_>>();
            Err(SetError { at: Path::from(at), why })
        };
        place = match (element, place) {
            (Element::Field(name), Value::Object(fields)) => {
                fields.entry(name.as_ref()).or_insert(Value::Null)
            }
            (Element::Field(name), place @ Value::Null) => {
                *place = Value::Object(Map::new());
                let Some(fields) = place.as_object_mut() else { return wrong("cannot be made") };
                fields.entry(name.as_ref()).or_insert(Value::Null)
            }
            (Element::Field(_), _) => {
                return wrong("is no field: what is above it is no map; correct the path");
            }
            (_, Value::Array(items)) => match element.position(items) {
                Some(index) => match items.get_mut(index) {
                    Some(item) => item,
                    None => return wrong("is not there"),
                },
                None => {
                    return wrong(
                        "is not in the list; write the item into the manifest, or correct the path",
                    );
                }
            },
            (_, Value::Null) => {
                return wrong(
                    "is not there: the list is missing; write it into the manifest, or correct the path",
                );
            }
            (_, _) => return wrong("is no item: what is above it is no list; correct the path"),
        };
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_put_where_the_path_leads() {
        let object =
            json!({"spec": {"list": [{"name": "a", "v": 1}, {"name": "b"}], "plain": [1, 2]}, "text": "x"});
        for (path, pointer) in [
            (".spec.list[name=\"b\"].v", "/spec/list/1/v"),
            (".spec.list[name=\"a\"]", "/spec/list/0"),
            (".spec.plain[1]", "/spec/plain/1"),
            (".spec.plain[=2]", "/spec/plain/1"),
            (".metadata.labels.example.com/region", "/metadata/labels/example.com~1region"),
            (".text", "/text"),
        ] {
            let mut changed = object.clone();
            set(&mut changed, &path.parse().unwrap(), json!("new")).unwrap();
            assert_eq!(changed.pointer(pointer), Some(&json!("new")), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_told_by_how_far_it_could() {
        let object = json!({"spec": {"list": [{"name": "a"}]}, "text": "x"});
        for (path, at, why) in [
            (".text.more", ".text.more", "is no field"),
            (".spec.list[name=\"c\"].v", ".spec.list[name=\"c\"]", "is not in the list"),
            (".spec.other[0].v", ".spec.other[0]", "the list is missing"),
            (".spec.list.v", ".spec.list.v", "is no field"),
            (".spec[0]", ".spec[0]", "is no item"),
        ] {
            let error = set(&mut object.clone(), &path.parse().unwrap(), json!(1)).unwrap_err();
            assert!(error.at.to_string() == at && error.why.contains(why), "{path}: {error:?}");
        }
    }
}
