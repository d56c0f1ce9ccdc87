//! Lists of which messages name the first few, and count the others; and how many there are of a thing, in words.

use std::fmt::Display;

/// The first of these, with commas between them, and how many more there are.
pub fn first_of(all: impl ExactSizeIterator<Item = impl Display>, most: usize) -> String {
    let others = all.len().saturating_sub(most);
    let named = all.take(most).map(|one| one.to_string()).collect::<Vec<_>>().join(", ");
    named + &more(others, |more| format!(" and {more} more"))
}

/// `1 cluster`, `2 clusters`.
pub fn count<N: Display + PartialEq + From<bool>>(many: N, one: &str) -> String {
    let plural = if many == N::from(true) { "" } else { "s" };
    format!("{many} {one}{plural}")
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

    #[test]
    fn one_is_no_plural() {
        assert_eq!([count(0_usize, "cluster"), count(1_usize, "cluster")], ["0 clusters", "1 cluster"]);
        assert_eq!([count(1_i64, "more object"), count(2_i64, "object")], ["1 more object", "2 objects"]);
    }
}
