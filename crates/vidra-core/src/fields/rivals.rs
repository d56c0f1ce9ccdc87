//! Who has taken fields from our entry: for telling one fight from another, and for naming the other side.

use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::element::Path;
use super::entries::{own_apply_entry, sets_of_others_named};
use super::set::FieldSet;
use crate::unseen;

/// So many of the paths are looked for in the entries of others.
const LOOKED_FOR: usize = 16;
/// So many managers are named.
const NAMED: usize = 3;
/// So many characters of a manager's name are told.
const MANAGER_MAX: usize = 64;

/// What our entry has lost, and to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Equal for equal sets of lost paths, whatever their values.
    pub paths: u64,
    /// The managers that hold some of them now, as messages may show them, see [`manager_name`]; sorted. Empty where
    /// the server names nobody: removals, and lists in another order.
    pub by: Vec<String>,
}

/// What the entry that `manager` applied has lost of what it `had`, and who holds that now; without what `left_alone`
/// says is nobody's loss.
///
/// The names are claims: clients choose them.
pub fn taken(live: &Value, manager: &str, had: &FieldSet, left_alone: impl Fn(&Path) -> bool) -> Taken {
    let now = own_apply_entry(live, manager).and_then(|entry| FieldSet::from_fields_v1(entry).ok());
    let mut lost = now.map_or_else(|| had.paths(), |now| had.lost_in(&now));
    lost.retain(|path| !left_alone(path));
    let mut hash = Xxh3::new();
    for path in &lost {
        hash.update(path.to_string().as_bytes());
        hash.update(&[0]);
    }
    let looked_for: Vec<&Path> = lost.iter().take(LOOKED_FOR).collect();
    let mut by: Vec<String> = sets_of_others_named(live, manager)
        .filter(|(_, set)| looked_for.iter().any(|path| set.holds(path)))
        .map(|(name, _)| manager_name(&name))
        .collect();
    by.sort();
    by.dedup();
    by.truncate(NAMED);
    Taken { paths: hash.digest(), by }
}

/// A manager's name as it may stand in messages, between quotes: see [`unseen::shown`].
pub fn manager_name(name: &str) -> String {
    unseen::shown(name, MANAGER_MAX).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OURS: &str = "vidra/h/ns/shop";

    fn live(ours: Value, other: &str, others: Value) -> Value {
        json!({"metadata": {"managedFields": [
            {"manager": OURS, "operation": "Apply", "fieldsV1": ours},
            {"manager": other, "operation": "Update", "fieldsV1": others},
        ]}})
    }

    fn taken(live: &Value, manager: &str, had: &FieldSet) -> Taken {
        super::taken(live, manager, had, |_| false)
    }

    fn had() -> FieldSet {
        FieldSet::from_fields_v1(&json!({"f:data": {"f:a": {}, "f:b": {}}})).unwrap()
    }

    #[test]
    fn who_holds_what_was_ours_is_named_and_equal_losses_are_equal() {
        let first = taken(
            &live(json!({"f:data": {"f:b": {}}}), "alice-edit", json!({"f:data": {"f:a": {}}})),
            OURS,
            &had(),
        );
        assert_eq!(first.by, ["alice-edit"]);
        let again =
            taken(&live(json!({"f:data": {"f:b": {}}}), "bob", json!({"f:data": {"f:a": {}}})), OURS, &had());
        assert_eq!((first.paths, again.by), (again.paths, vec!["bob".to_owned()]));
        let other = taken(
            &live(json!({"f:data": {"f:a": {}}}), "alice-edit", json!({"f:data": {"f:b": {}}})),
            OURS,
            &had(),
        );
        assert_ne!(first.paths, other.paths);
    }

    #[test]
    fn who_holds_something_else_is_not_named() {
        let removed = taken(
            &live(json!({"f:data": {"f:b": {}}}), "alice", json!({"f:data": {"f:c": {}}})),
            OURS,
            &had(),
        );
        assert_eq!(removed.by, [""; 0]);
        let both = taken(&live(json!({"f:data": {"f:a": {}, "f:b": {}}}), "alice", json!({})), OURS, &had());
        assert_eq!(both.by, [""; 0], "nothing was lost");
        let gone = taken(&json!({}), OURS, &had());
        assert_eq!(gone.by, [""; 0], "our entry itself is gone");
    }

    #[test]
    fn who_holds_what_is_left_alone_is_not_named() {
        let live = live(json!({}), "autoscaler", json!({"f:data": {"f:a": {}}}));
        let found = super::taken(&live, OURS, &had(), |path| *path == Path::of_fields(["data", "a"]));
        assert_eq!(found.by, [""; 0]);
        assert_ne!(found.paths, taken(&live, OURS, &had()).paths);
    }

    #[test]
    fn a_wild_name_is_cut_and_has_no_way_out_of_its_quotes() {
        let name = format!("evil\u{1b}[31m\n\u{202e}{}", "x".repeat(100));
        let shown = manager_name(&name);
        assert!(shown.starts_with("evil\u{fffd}[31m \u{fffd}xxx") && shown.ends_with('…'), "{shown}");
        assert!(shown.chars().count() < 100, "{shown}");
        assert_eq!(manager_name("a\", \"b"), "a\\\", \\\"b", "no second name");
    }
}
