//! Which cluster a MemberCluster means: the one that joined under its name, whatever a restore has left of its status.

use std::{collections::BTreeSet, sync::Arc};

use crate::mutants::{self, Mutant};

/// The uid of the cluster that is meant; `None`: nobody knows, and whichever answers first is taken for it.
///
/// `joined` is what the MemberCluster's status says. A restore may drop it, and one that is applied again has none:
/// `delivered`, the uids of the clusters that its inventories are of, stands in no status. Where these disagree, as after a
/// cluster was replaced and not all of its targets came to the new one, none of them counts.
pub fn meant(joined: Option<&str>, delivered: impl FnOnce() -> BTreeSet<Arc<str>>) -> Option<Arc<str>> {
    if joined.is_some() || mutants::is(Mutant::StatusAlone) {
        return joined.map(Arc::from);
    }
    let mut all = delivered().into_iter();
    all.next().filter(|_| all.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_that_is_meant_is_the_one_that_joined_or_the_one_that_all_inventories_name() {
        for (joined, delivered, is_meant) in [
            (None, &[][..], None),
            (Some("a"), &[], Some("a")),
            (Some("a"), &["a"], Some("a")),
            // A person has confirmed it since, and not all was delivered there yet.
            (Some("b"), &["a"], Some("b")),
            (Some("b"), &["a", "b"], Some("b")),
            (None, &["a"], Some("a")),
            (None, &["a", "a"], Some("a")),
            (None, &["a", "b"], None),
        ] {
            let uids = || delivered.iter().map(|uid| Arc::from(*uid)).collect();
            assert_eq!(meant(joined, uids).as_deref(), is_meant, "{joined:?} {delivered:?}");
        }
    }
}
