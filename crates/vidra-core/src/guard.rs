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
    let approves = |removal: &BTreeSet<String>| approved == Some(hash(removal).as_str());
    if approves(leaving) || approves(&(leaving | underway)) {
        Removal::Allowed
    } else {
        Removal::Held { hash: hash(leaving), why }
    }
}

fn hash(leaving: &BTreeSet<String>) -> String {
    let mut digest = Sha256::new();
    for name in leaving {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name.as_bytes());
    }
    digest.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
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
}
