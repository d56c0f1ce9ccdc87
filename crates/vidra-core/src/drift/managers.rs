//! Who changed what differs, as messages name them.

use vidra_api::ChangedField;

use super::UNKNOWN;
use crate::unseen;

/// So many managers are named.
const NAMED: usize = 3;
/// So many characters of a manager's name are told.
const NAME_MAX: usize = 64;

/// The managers that hold what differs, as messages may show them between quotes: the first few, sorted. Empty where
/// the server names nobody: removals, and lists in another order.
///
/// The names are claims: clients choose them.
pub fn managers(fields: &[ChangedField]) -> Vec<String> {
    let named = fields.iter().map(|field| field.manager.as_str());
    let shown = |name: &str| unseen::shown(name, NAME_MAX).escape_debug().to_string();
    let mut by: Vec<String> = named.filter(|name| !name.is_empty() && *name != UNKNOWN).map(shown).collect();
    by.sort();
    by.dedup();
    by.truncate(NAMED);
    by
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        let field = |name: &&str| ChangedField { manager: (*name).to_owned(), ..ChangedField::default() };
        managers(&names.iter().map(field).collect::<Vec<_>>())
    }

    #[test]
    fn the_first_few_are_named_once_and_nobody_where_nobody_is_known() {
        assert_eq!(named(&["bob", "alice", "bob", "unknown", ""]), ["alice", "bob"]);
        assert_eq!(named(&["d", "c", "b", "a"]), ["a", "b", "c"]);
        assert_eq!(named(&["unknown"]), [""; 0]);
    }

    #[test]
    fn a_wild_name_is_cut_and_has_no_way_out_of_its_quotes() {
        let wild = named(&[&format!("evil\u{1b}[31m\n\u{202e}{}", "x".repeat(100))]);
        assert!(wild[0].starts_with("evil\u{fffd}[31m \u{fffd}xxx") && wild[0].ends_with('…'), "{wild:?}");
        assert!(wild[0].chars().count() < 100, "{wild:?}");
        assert_eq!(named(&["a\", \"b"]), ["a\\\", \\\"b"], "no second name");
    }
}
