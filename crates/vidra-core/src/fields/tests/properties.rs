//! Properties over generated objects: each has a live value, the entry that owns it, and a way to disturb it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::fields::{FieldSet, differing, has_empties, missing_leaves, raw_fingerprint, values_hash};

/// An owned value, with its kind in the schema.
#[derive(Debug, Clone)]
enum Owned {
    Scalar(i64),
    Atomic(Vec<i64>),
    Map(BTreeMap<String, Owned>),
    Keyed(Vec<(String, BTreeMap<String, Owned>)>),
    Set(Vec<String>),
}

fn fields() -> impl Strategy<Value = BTreeMap<String, Owned>> {
    let name = || "[a-d]";
    let leaf = prop_oneof![
        (0i64..5).prop_map(Owned::Scalar),
        prop::collection::vec(0i64..3, 1..4).prop_map(Owned::Atomic),
        prop::collection::btree_set(name(), 1..4)
            .prop_map(|s| s.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
            .prop_map(Owned::Set),
    ];
    let tree = leaf.prop_recursive(3, 24, 3, move |inner| {
        let map = || prop::collection::btree_map(name(), inner.clone(), 1..4);
        prop_oneof![
            map().prop_map(Owned::Map),
            prop::collection::btree_map(name(), map(), 1..4)
                .prop_map(|m| m.into_iter().collect::<Vec<_>>())
                .prop_shuffle()
                .prop_map(Owned::Keyed),
        ]
    });
    prop::collection::btree_map(name(), tree, 1..4)
}

fn live_map(map: &BTreeMap<String, Owned>) -> Map<String, Value> {
    map.iter().map(|(name, owned)| (name.clone(), live(owned))).collect()
}

fn live(owned: &Owned) -> Value {
    match owned {
        Owned::Scalar(n) => json!(n),
        Owned::Atomic(items) => json!(items),
        Owned::Map(map) => Value::Object(live_map(map)),
        Owned::Set(items) => json!(items),
        Owned::Keyed(items) => items
            .iter()
            .map(|(key, map)| {
                let mut item = live_map(map);
                item.insert("name".into(), json!(key));
                Value::Object(item)
            })
            .collect(),
    }
}

fn entry_map(map: &BTreeMap<String, Owned>) -> Map<String, Value> {
    map.iter().map(|(name, owned)| (format!("f:{name}"), entry(owned))).collect()
}

fn entry(owned: &Owned) -> Value {
    match owned {
        Owned::Scalar(_) | Owned::Atomic(_) => json!({}),
        Owned::Map(map) => Value::Object(entry_map(map)),
        Owned::Set(items) => items.iter().map(|i| (format!("v:\"{i}\""), json!({}))).collect(),
        Owned::Keyed(items) => items
            .iter()
            .map(|(key, map)| {
                let mut item = entry_map(map);
                item.insert(".".into(), json!({}));
                item.insert("f:name".into(), json!({}));
                (format!("k:{{\"name\":\"{key}\"}}"), Value::Object(item))
            })
            .collect(),
    }
}

/// Adds foreign fields to every granular map and foreign items to every list that is not atomic.
fn disturb(map: &BTreeMap<String, Owned>, live: &mut Value, chance: &mut impl FnMut() -> usize) {
    live["foreign"] = json!(chance());
    for (name, owned) in map {
        let value = &mut live[name];
        match owned {
            Owned::Scalar(_) | Owned::Atomic(_) => {}
            Owned::Map(map) => disturb(map, value, chance),
            Owned::Set(_) => insert(value, json!("foreign"), chance),
            Owned::Keyed(items) => {
                for (item, (_, map)) in value.as_array_mut().unwrap().iter_mut().zip(items) {
                    disturb(map, item, chance);
                }
                insert(value, json!({"name": "foreign", "a": chance()}), chance);
            }
        }
    }
}

fn insert(list: &mut Value, item: Value, chance: &mut impl FnMut() -> usize) {
    let items = list.as_array_mut().unwrap();
    let at = chance() % (items.len() + 1);
    items.insert(at, item);
}

/// How often `change_nth` finds something to change.
fn changes(owned: &Owned) -> usize {
    match owned {
        Owned::Scalar(_) => 2,
        Owned::Atomic(_) => 1,
        Owned::Map(map) => map.values().map(changes).sum(),
        Owned::Set(items) => items.len(),
        Owned::Keyed(items) => items.iter().map(|(_, m)| 1 + m.values().map(changes).sum::<usize>()).sum(),
    }
}

/// Changes the nth owned value in the live object.
fn change_nth(owned: &Owned, live: &mut Value, n: &mut usize) -> bool {
    let mut here = || {
        let hit = *n == 0;
        *n = n.wrapping_sub(1);
        hit
    };
    match owned {
        Owned::Scalar(old) => {
            if here() {
                *live = json!(old + 1);
                return true;
            }
            if here() {
                *live = json!(old.to_string());
                return true;
            }
            false
        }
        Owned::Atomic(_) => {
            let hit = here();
            if hit {
                live.as_array_mut().unwrap().push(json!(9));
            }
            hit
        }
        Owned::Map(map) => map.iter().any(|(name, owned)| change_nth(owned, &mut live[name], n)),
        Owned::Set(items) => (0..items.len()).any(|i| {
            let hit = here();
            if hit {
                live.as_array_mut().unwrap().remove(i);
            }
            hit
        }),
        Owned::Keyed(items) => items.iter().enumerate().any(|(i, (_, map))| {
            let hit = *n == 0;
            if hit {
                live.as_array_mut().unwrap().remove(i);
                return true;
            }
            *n -= 1;
            map.iter().any(|(name, owned)| change_nth(owned, &mut live[i][name], n))
        }),
    }
}

fn sequence(mut seed: usize) -> impl FnMut() -> usize {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    }
}

fn set_of(map: &BTreeMap<String, Owned>) -> FieldSet {
    FieldSet::from_fields_v1(&Value::Object(entry_map(map))).unwrap()
}

proptest! {
    #[test]
    fn foreign_content_never_changes_the_hash(map in fields(), seed in any::<usize>()) {
        let set = set_of(&map);
        let before = Value::Object(live_map(&map));
        let mut after = before.clone();
        disturb(&map, &mut after, &mut sequence(seed));
        prop_assert_ne!(&before, &after);
        prop_assert_eq!(values_hash(&before, &set, None), values_hash(&after, &set, None));
        prop_assert_eq!(differing(&before, &after, &set, None), vec![]);
    }

    #[test]
    fn a_change_of_an_owned_value_changes_the_hash_and_its_reverse_restores_it(
        map in fields(), pick in any::<usize>(), seed in any::<usize>(),
    ) {
        let set = set_of(&map);
        let clean = Value::Object(live_map(&map));
        let owned = Owned::Map(map.clone());
        let mut n = pick % changes(&owned);
        let mut changed = clean.clone();
        prop_assert!(change_nth(&owned, &mut changed, &mut n));
        prop_assert_ne!(values_hash(&clean, &set, None), values_hash(&changed, &set, None));
        prop_assert!(!differing(&clean, &changed, &set, None).is_empty());
        // Back again, with foreign content left behind.
        let mut back = clean.clone();
        disturb(&map, &mut back, &mut sequence(seed));
        prop_assert_eq!(values_hash(&clean, &set, None), values_hash(&back, &set, None));
    }

    #[test]
    fn without_declared_empties_what_is_declared_does_not_matter(map in fields(), other in fields()) {
        let (live, declared) = (Value::Object(live_map(&map)), Value::Object(live_map(&other)));
        prop_assert!(!has_empties(&declared));
        let set = set_of(&map);
        prop_assert_eq!(values_hash(&live, &set, None), values_hash(&live, &set, Some(&declared)));
    }

    #[test]
    fn content_under_a_declared_empty_never_changes_the_hash(map in fields(), pick in any::<usize>()) {
        let names: Vec<&String> = map.keys().collect();
        let name = names[pick % names.len()];
        let mut entry = entry_map(&map);
        entry.insert(format!("f:{name}"), json!({}));
        let set = FieldSet::from_fields_v1(&Value::Object(entry)).unwrap();
        let filled = Value::Object(live_map(&map));
        for empty in [json!({}), json!([]), Value::Null] {
            let mut declared = filled.clone();
            declared[name] = empty;
            prop_assert!(has_empties(&declared));
            prop_assert_eq!(
                values_hash(&filled, &set, Some(&declared)),
                values_hash(&declared, &set, Some(&declared))
            );
            prop_assert_ne!(values_hash(&filled, &set, None), values_hash(&declared, &set, None));
        }
    }

    #[test]
    fn hashes_are_equal_exactly_when_nothing_differs(a in fields(), b in fields(), c in fields()) {
        let set = set_of(&a);
        let (left, right) = (Value::Object(live_map(&b)), Value::Object(live_map(&c)));
        let equal = values_hash(&left, &set, None) == values_hash(&right, &set, None);
        prop_assert_eq!(equal, differing(&left, &right, &set, None).is_empty());
    }

    #[test]
    fn fingerprints_are_equal_exactly_when_sets_are(a in fields(), b in fields()) {
        let (left, right) = (set_of(&a), set_of(&b));
        prop_assert_eq!(left == right, left.fingerprint() == right.fingerprint());
        prop_assert_eq!(left == right, entry_map(&a) == entry_map(&b));
        prop_assert_eq!(left == right, left.cmp(&right).is_eq());
        let (raw_a, raw_b) = (Value::Object(entry_map(&a)), Value::Object(entry_map(&b)));
        prop_assert_eq!(left == right, raw_fingerprint(&raw_a) == raw_fingerprint(&raw_b));
        prop_assert_eq!(left.lost_in(&right).is_empty() && right.lost_in(&left).is_empty(), left == right);
    }

    #[test]
    fn what_was_declared_is_all_owned(map in fields()) {
        let declared = Value::Object(live_map(&map));
        prop_assert_eq!(missing_leaves(&declared, &set_of(&map)), vec![]);
    }

    #[test]
    fn a_lost_path_is_missing_in_what_is_declared(map in fields(), pick in any::<usize>()) {
        let full = set_of(&map);
        // Names outside lists: taking a whole top-level field away loses all that is declared under it.
        let names: Vec<&String> = map.keys().collect();
        let name = names[pick % names.len()];
        let mut rest = entry_map(&map);
        rest.remove(&format!("f:{name}"));
        let rest = FieldSet::from_fields_v1(&Value::Object(rest)).unwrap();
        prop_assert!(!full.lost_in(&rest).is_empty());
        let missing = missing_leaves(&Value::Object(live_map(&map)), &rest);
        prop_assert!(!missing.is_empty());
        let prefix = format!(".{name}");
        prop_assert!(missing.iter().all(|p| p.to_string().starts_with(&prefix)));
    }

    #[test]
    fn every_owned_path_is_held_and_found(map in fields()) {
        let live = Value::Object(live_map(&map));
        let set = set_of(&map);
        for path in set.paths() {
            prop_assert!(set.holds(&path), "{}", path);
            prop_assert!(path.find(&live).is_some(), "{}", path);
        }
    }
}
