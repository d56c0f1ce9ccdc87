//! The removal guard: a wish to remove much at once is more often a mistake than a wish. It is held until
//! a person approves exactly this removal.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::mutants::{self, Mutant};

/// What the guard decided about the targets that a VidraResource is about to lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Go on.
    Allowed,
    /// Go on: a person has approved exactly this removal, by this hash.
    Approved(String),
    /// Do nothing until the annotation `vidra.dev/approve-removal` bears this hash.
    Held {
        /// Names this removal and no other: the hash of what would go.
        hash: String,
        /// Why, in a sentence for people.
        why: String,
    },
}

/// Hashes of removals that a person has approved.
pub type Approvals<'a> = BTreeSet<&'a str>;

/// VidraTargets of one VidraResource: cluster name to uid.
pub type Targets = BTreeMap<String, String>;

/// Decides about a VidraResource (by its uid) that loses `leaving` out of its `existing` targets.
///
/// Held: losing the last target; losing more than `share` (percent) and more than one of them; with a share of 0 any loss;
/// and whatever is lost with a target whose MemberCluster was made again (`remade`, its name) since it was delivered to:
/// what selected it, or selected it for its namespace, may be lost, and nobody has taken it back.
/// Approval names the hash of exactly this removal, by uids: of targets that were made later it says nothing, though
/// they are on the same clusters. A removal that was broken off, with some of its targets `underway` already, is the one
/// that was approved.
pub fn targets(
    resource: &str,
    existing: &Targets,
    leaving: &Targets,
    underway: &Targets,
    remade: Option<&str>,
    share: u8,
    approvals: &Approvals<'_>,
) -> Removal {
    let (all, gone) =
        (existing.len(), leaving.keys().filter(|cluster| existing.contains_key(*cluster)).count());
    if gone == 0 {
        return Removal::Allowed;
    }
    let remade = remade.filter(|_| !mutants::is(Mutant::RemadeMemberAsks));
    let why = if let Some(remade) = remade {
        format!(
            "MemberCluster {remade} was made again and is not selected as it was; its labels may be lost, put them back"
        )
    } else if gone == all {
        let last = if all == 1 { "cluster".into() } else { format!("{all} clusters") };
        format!("it would take the VidraResource off its last {last}")
    } else if (share == 0 || gone > 1) && gone * 100 > all * usize::from(share) {
        format!("it would take the VidraResource off {gone} of {all} clusters, more than {share} %")
    } else {
        return Removal::Allowed;
    };
    let hash_of = |of: &[&Targets]| {
        let uids: BTreeSet<&str> = of.iter().flat_map(|of| of.values()).map(String::as_str).collect();
        digest([resource].into_iter().chain(uids))
    };
    let hash = hash_of(&[leaving]);
    let whole = hash_of(&[leaving, underway]);
    if is_approved(approvals, &whole) {
        Removal::Approved(whole)
    } else if is_approved(approvals, &hash) {
        Removal::Approved(hash)
    } else {
        Removal::Held { hash, why }
    }
}

/// Percent of one target's objects that may be deleted at once, where no setting says otherwise.
pub const OBJECTS_SHARE: u8 = 50;

/// Whether deleting `dropped` of the `held` objects of one target needs an approval: more than `share` (percent) and more
/// than three of them; with a share of 0 any deletion.
pub fn holds_objects(held: usize, dropped: usize, share: u8) -> bool {
    (dropped > if share == 0 { 0 } else { 3 }) && dropped * 100 > held * usize::from(share)
}

/// What approves that a generation of a VidraResource (by its uid), with this revision and this default namespace, drops
/// what it drops. It names the change and not the objects: so one word is enough for all members, and for a removal that
/// was broken off; and the same content declared once more later is another change. Sources change without a new
/// generation, and then the revision is another; one that comes back is told by how many drops were `approved` before.
pub fn objects_hash(
    resource: &str,
    generation: i64,
    revision: &str,
    namespace: &str,
    approved: i32,
) -> String {
    let (generation, times) = (generation.to_string(), approved.to_string());
    let again = (approved != 0).then_some(&*times);
    digest(["objects", resource, &generation, revision, namespace].into_iter().chain(again))
}

/// What the annotation `vidra.dev/approve-removal` approves: hashes with commas between them.
pub fn approvals(annotation: Option<&str>) -> Approvals<'_> {
    let words = annotation.unwrap_or_default().split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}

/// Whether approvals name this removal.
pub fn is_approved(approvals: &Approvals<'_>, hash: &str) -> bool {
    approvals.contains(hash) || (mutants::is(Mutant::ApprovesAnything) && !approvals.is_empty())
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

    fn names(count: usize) -> Targets {
        (0..count).map(|n| (format!("c{n:03}"), format!("uid-{n:03}"))).collect()
    }

    fn targets(
        existing: &Targets,
        leaving: &Targets,
        underway: &Targets,
        share: u8,
        approved: Option<&str>,
    ) -> Removal {
        super::targets("r1", existing, leaving, underway, None, share, &approvals(approved))
    }

    fn is_held(decided: &Removal) -> bool {
        matches!(decided, Removal::Held { .. })
    }

    #[test]
    fn losing_the_last_target_is_held_and_small_losses_are_not() {
        for (all, gone, held) in [
            (1, 1, true),
            (2, 2, true),
            (2, 1, false),
            (6, 1, false),
            (6, 2, true),
            (10, 2, false),
            (10, 3, true),
            (100, 20, false),
            (100, 21, true),
        ] {
            let decided = targets(&names(all), &names(gone), &names(0), 20, None);
            assert_eq!(is_held(&decided), held, "{gone} of {all}: {decided:?}");
        }
        for (share, gone, held) in
            [(0, 0, false), (0, 1, true), (1, 1, false), (1, 2, true), (100, 99, false)]
        {
            let decided = targets(&names(100), &names(gone), &names(0), share, None);
            assert_eq!(is_held(&decided), held, "{gone} of 100 at {share} %: {decided:?}");
        }
    }

    #[test]
    fn a_target_whose_membercluster_was_made_again_is_not_lost_unasked() {
        let lost = |approved: Option<&str>| {
            let approvals = approvals(approved);
            super::targets("r1", &names(100), &names(1), &names(0), Some("c000"), 20, &approvals)
        };
        let Removal::Held { hash, why } = lost(None) else { panic!("nobody has taken it back") };
        assert!(why.contains("MemberCluster c000"), "{why}");
        assert_eq!(lost(Some(&hash)), Removal::Approved(hash.clone()));
    }

    #[test]
    fn an_approval_lets_go_of_exactly_what_it_names() {
        let Removal::Held { hash, why } = targets(&names(1), &names(1), &names(0), 20, None) else {
            panic!("the last target must be held")
        };
        assert!(why.contains("last cluster"), "{why}");
        let approved = targets(&names(1), &names(1), &names(0), 20, Some(&hash));
        assert_eq!(approved, Removal::Approved(hash.clone()));
        assert!(is_held(&targets(&names(2), &names(2), &names(0), 20, Some(&hash))));
    }

    #[test]
    fn an_approved_removal_goes_on_after_it_was_broken_off() {
        let all = names(2);
        let Removal::Held { hash, .. } = targets(&all, &all, &names(0), 20, None) else {
            panic!("losing all must be held")
        };
        let (first, mut rest) = (names(1), all.clone());
        rest.retain(|cluster, _| !first.contains_key(cluster));
        assert_eq!(targets(&rest, &rest, &first, 20, Some(&hash)), Removal::Approved(hash.clone()));
        assert!(is_held(&targets(&rest, &rest, &names(0), 20, Some(&hash))));
    }

    #[test]
    fn an_approval_says_nothing_of_targets_that_were_made_later_on_the_same_clusters() {
        let all = names(1);
        let Removal::Held { hash, .. } = targets(&all, &all, &names(0), 20, None) else {
            panic!("the last target must be held")
        };
        let later = Targets::from([("c000".to_owned(), "another".to_owned())]);
        assert!(is_held(&targets(&later, &later, &names(0), 20, Some(&hash))));
        let other = super::targets("r2", &all, &all, &names(0), None, 20, &approvals(Some(&hash)));
        assert!(is_held(&other), "another VidraResource");
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
            assert_eq!(holds_objects(held, dropped, OBJECTS_SHARE), stops, "{dropped} of {held}");
        }
        for (share, dropped, stops) in
            [(0, 0, false), (0, 1, true), (10, 3, false), (10, 4, false), (10, 11, true)]
        {
            assert_eq!(holds_objects(100, dropped, share), stops, "{dropped} of 100 at {share} %");
        }
    }

    #[test]
    fn several_approvals_stand_side_by_side() {
        let (one, two) = (objects_hash("r1", 1, "00ff", "a", 0), objects_hash("r1", 1, "00ff", "b", 0));
        assert_ne!(one, two);
        assert_ne!(one, objects_hash("r2", 1, "00ff", "a", 0));
        assert_ne!(one, objects_hash("r1", 2, "00ff", "a", 0));
        assert_ne!(one, objects_hash("r1", 1, "ff00", "a", 0));
        assert_ne!(one, objects_hash("r1", 1, "00ff", "a", 1));
        let both = format!("{one}, {two}");
        let words = approvals(Some(&both));
        assert!(is_approved(&words, &one) && is_approved(&words, &two));
        assert!(!is_approved(&words, &objects_hash("r2", 1, "00ff", "a", 0)));
        for nothing in [None, Some(""), Some(" , ,")] {
            assert!(approvals(nothing).is_empty(), "{nothing:?}");
        }
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
            let approved = targets(&names(all), &names(gone), &names(0), share, Some(&hash));
            prop_assert_eq!(approved, Removal::Approved(hash.clone()));
            let larger = (gone + more).min(all);
            prop_assume!(larger > gone);
            let held = targets(&names(all), &names(larger), &names(0), share, Some(&hash));
            prop_assert!(is_held(&held));
        }

        #[test]
        fn what_is_held_of_many_is_held_of_more(held in 0usize..1000, dropped in 0usize..1000, share in 0u8..=100) {
            prop_assume!(dropped < held && holds_objects(held, dropped, share));
            prop_assert!(holds_objects(held, dropped + 1, share));
        }
    }
}
