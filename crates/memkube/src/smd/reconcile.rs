//! Sets of fields that were written under another schema: what has become atomic since is owned whole.

use super::element::Element;
use super::set::Set;
use super::typed::{Typed, entry_type};
use crate::schema::{Form, Items, TypeId, Types};

/// The set as the type has it now: below an atomic list or map nothing is owned, but the whole is.
#[must_use]
pub fn reconcile(typed: Typed<'_>, set: &Set) -> Set {
    set.map(|element, member, below| {
        let Some(of) = inner(typed, element) else { return (member, below.clone()) };
        let typed = typed.at(of);
        if below.is_empty() {
            return (member, Set::default());
        }
        match typed.types.atom(of).first() {
            // What is open is no map of this kind, whatever it is marked as.
            Form::Map(map) if map.fields.is_empty() && map.values == Some(Types::DEDUCED) => {
                (member, below.clone())
            }
            Form::Map(map) if map.atomic => (true, Set::default()),
            Form::List(list) if list.relation == Items::Atomic => (true, Set::default()),
            Form::Map(_) | Form::List(_) => (member, reconcile(typed, below)),
            Form::Scalar(_) | Form::None => (member, below.clone()),
        }
    })
}

/// The type at an element of a list or map.
fn inner(typed: Typed<'_>, element: &Element) -> Option<TypeId> {
    match typed.types.atom(typed.of).first() {
        Form::Map(map) => element.name().map_or(map.values, |name| entry_type(map, name)),
        Form::List(list) => Some(list.items),
        Form::Scalar(_) | Form::None => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Reader;

    #[test]
    fn what_has_become_atomic_is_owned_whole() {
        let none = std::collections::BTreeMap::new();
        let mut reader = Reader::new(&none, Types::new());
        let text = json!({"type": "string"});
        let pair = json!({"type": "object", "properties": {"a": text, "b": text}});
        let mut whole = pair.clone();
        whole["x-kubernetes-map-type"] = json!("atomic");
        let list = json!({"type": "array", "items": text});
        let of = reader.schema(
            &json!({"type": "object", "properties": {"pair": pair, "whole": whole, "list": list}}),
            false,
        );
        let types = reader.finish();
        let typed = Typed { types: &types, of };
        let set = |fields| Set::decode(&fields).expect("fieldsV1");
        let table = [
            (json!({"f:pair": {"f:a": {}}}), json!({"f:pair": {"f:a": {}}})),
            (json!({"f:whole": {"f:a": {}}}), json!({"f:whole": {}})),
            (json!({"f:list": {"v:\"a\"": {}}}), json!({"f:list": {}})),
            (json!({"f:gone": {"f:a": {}}}), json!({"f:gone": {"f:a": {}}})),
        ];
        for (before, after) in table {
            assert_eq!(reconcile(typed, &set(before)).encode(), after);
        }
    }
}
