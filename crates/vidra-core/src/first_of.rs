//! Lists of which messages name the first few, and count the others.

use std::fmt::Display;

/// The first of these, with commas between them, and how many more there are.
pub fn first_of(all: impl ExactSizeIterator<Item = impl Display>, most: usize) -> String {
    let others = all.len().saturating_sub(most);
    let named = all.take(most).map(|one| one.to_string()).collect::<Vec<_>>().join(", ");
    named + &more(others, |more| format!(" and {more} more"))
}

/// What tells of those that are not named; nothing where there are none.
pub fn more(count: usize, told: impl FnOnce(usize) -> String) -> String {
    if count == 0 { String::new() } else { told(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_the_others_counted() {
        for (all, told) in
            [("", ""), ("a", "a"), ("ab", "a, b"), ("abc", "a, b and 1 more"), ("abcd", "a, b and 2 more")]
        {
            assert_eq!(first_of(all.chars().collect::<Vec<_>>().iter(), 2), told);
        }
    }
}
