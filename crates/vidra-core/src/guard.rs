//! The removal guard: a wish to remove much at once is more often a mistake than a wish. It is held until
//! a person approves exactly this removal.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

/// What the guard decided about the targets that a VidraResource is about to lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Go on.
    Allowed,
    /// Do nothing until the annotation `vidra.dev/approve-removal` bears this hash.
    Held {
        /// Names this removal and no other: the hash of what would go.
        hash: String,
        /// Why, in a sentence for people.
        why: String,
    },
}

/// Decides about losing `leaving` out of `existing` targets (cluster names).
///
/// Held: losing the last target; losing more than `share` (percent) and more than three of them.
/// Approval names the hash of exactly this removal, so it cannot approve a later one by accident. A removal
/// that was broken off, with some of its targets `underway` already, is the one that was approved.
pub fn targets(
    existing: &BTreeSet<String>,
    leaving: &BTreeSet<String>,
    underway: &BTreeSet<String>,
    share: u8,
    approved: Option<&str>,
) -> Removal {
    let (all, gone) = (existing.len(), leaving.intersection(existing).count());
    if gone == 0 {
        return Removal::Allowed;
    }
    let why = if gone == all {
        format!(
            "it would leave its last {}",
            if all == 1 { "cluster".into() } else { format!("{all} clusters") }
        )
    } else if gone > 3 && gone * 100 > all * usize::from(share) {
        format!("it would leave {gone} of {all} clusters, more than {share} %")
    } else {
        return Removal::Allowed;
    };
    let approves = |removal: &BTreeSet<String>| is_approved(approved, &hash(removal));
    if approves(leaving) || approves(&(leaving | underway)) {
        Removal::Allowed
    } else {
        Removal::Held { hash: hash(leaving), why }
    }
}

/// Whether deleting `dropped` of the `held` objects of one target needs a person's word: more than three of them,
/// and more than half.
pub fn holds_objects(held: usize, dropped: usize) -> bool {
    dropped > 3 && dropped * 2 > held
}

/// What approves that a revision, with this default namespace, drops what it drops. It names the change and not the
/// objects: so one word is enough for all members, and for a removal that was broken off.
pub fn objects_hash(revision: &str, namespace: &str) -> String {
    digest(["objects", revision, namespace].into_iter())
}

/// Whether an approval, hashes with commas between them, names this one.
pub fn is_approved(approval: Option<&str>, hash: &str) -> bool {
    approval.is_some_and(|all| all.split(',').any(|one| one.trim() == hash))
}

fn hash(leaving: &BTreeSet<String>) -> String {
    digest(leaving.iter().map(String::as_str))
}

fn digest<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> BTreeSet<String> {
        (0..count).map(|n| format!("c{n:03}")).collect()
    }

    #[test]
    fn losing_the_last_target_is_held_and_small_losses_are_not() {
        for (all, gone, held) in [
            (1, 1, true),
            (2, 2, true),
            (2, 1, false),
            (10, 3, false),
            (10, 4, true),
            (100, 20, false),
            (100, 21, true),
        ] {
            let decided = targets(&names(all), &names(gone), &names(0), 20, None);
            assert_eq!(decided != Removal::Allowed, held, "{gone} of {all}: {decided:?}");
        }
    }

    #[test]
    fn an_approval_lets_go_of_exactly_what_it_names() {
        let Removal::Held { hash, why } = targets(&names(1), &names(1), &names(0), 20, None) else {
            panic!("the last target must be held")
        };
        assert!(why.contains("last cluster"), "{why}");
        assert_eq!(targets(&names(1), &names(1), &names(0), 20, Some(&hash)), Removal::Allowed);
        assert_ne!(targets(&names(2), &names(2), &names(0), 20, Some(&hash)), Removal::Allowed);
    }

    #[test]
    fn an_approved_removal_goes_on_after_it_was_broken_off() {
        let all = names(2);
        let Removal::Held { hash, .. } = targets(&all, &all, &names(0), 20, None) else {
            panic!("losing all must be held")
        };
        let (first, rest) = (names(1), &all - &names(1));
        assert_eq!(targets(&rest, &rest, &first, 20, Some(&hash)), Removal::Allowed);
        assert_ne!(targets(&rest, &rest, &names(0), 20, Some(&hash)), Removal::Allowed);
    }

    #[test]
    fn dropping_most_objects_is_held_and_dropping_few_is_not() {
        for (held, dropped, stops) in [
            (0, 0, false),
            (3, 3, false),
            (4, 4, true),
            (8, 4, false),
            (7, 4, true),
            (100, 50, false),
            (100, 51, true),
        ] {
            assert_eq!(holds_objects(held, dropped), stops, "{dropped} of {held}");
        }
    }

    #[test]
    fn several_approvals_stand_side_by_side() {
        let (one, two) = (objects_hash("r1", "a"), objects_hash("r1", "b"));
        assert_ne!(one, two);
        assert_ne!(one, objects_hash("r2", "a"));
        let both = format!("{one}, {two}");
        assert!(is_approved(Some(&both), &one) && is_approved(Some(&both), &two));
        assert!(!is_approved(Some(&both), &objects_hash("r2", "a")) && !is_approved(None, &one));
        assert!(!is_approved(Some(""), &one));
    }

    proptest! {
        #[test]
        fn an_approval_lets_go_of_that_removal_and_of_no_larger_one(
            all in 1usize..40, gone in 1usize..40, more in 1usize..40, share in 0u8..=100
        ) {
            let gone = gone.min(all);
            let Removal::Held { hash, .. } = targets(&names(all), &names(gone), &names(0), share, None) else {
                return Ok(());
            };
            prop_assert_eq!(targets(&names(all), &names(gone), &names(0), share, Some(&hash)), Removal::Allowed);
            let larger = (gone + more).min(all);
            prop_assume!(larger > gone);
            let held = targets(&names(all), &names(larger), &names(0), share, Some(&hash));
            prop_assert!(held != Removal::Allowed);
        }

        #[test]
        fn what_is_held_of_many_is_held_of_more(held in 0usize..1000, dropped in 0usize..1000) {
            prop_assume!(dropped < held && holds_objects(held, dropped));
            prop_assert!(holds_objects(held, dropped + 1));
        }
    }
}
