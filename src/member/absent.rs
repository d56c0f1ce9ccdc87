//! Kinds of objects of ours that a member does not serve, and since when that is known.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use vidra_core::{
    mutants::{self, Mutant},
    object::Gvk,
};

use super::kinds::Kinds;

/// A kind that the member has not served for this long is taken for gone, with its objects.
const GONE_AFTER: Duration = Duration::from_secs(60);
/// So long a kind is remembered; whoever asks for it later waits once more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Kinds that the member does not serve any more, and since when. In whichever version.
#[derive(Default)]
pub(super) struct Absent(BTreeMap<Gvk, Instant>);

impl Absent {
    /// Whether a kind that was just not discovered is gone for good. An API server that has just started does not serve
    /// all that it will: so it must have been missing for a while.
    pub(super) fn is_gone_for_good(&mut self, gvk: &Gvk) -> bool {
        let now = Instant::now();
        let any_version = Gvk::new(&gvk.group, "", &gvk.kind);
        let since = *self.0.entry(any_version).or_insert(now);
        now.duration_since(since) >= GONE_AFTER || mutants::is(Mutant::KindGoneAtOnce)
    }

    /// This is what the member serves now.
    pub(super) fn retain(&mut self, kinds: &Kinds) {
        self.0.retain(|gvk, since| kinds.any_version(gvk).is_none() && since.elapsed() < FORGOTTEN_AFTER);
    }

    /// Another cluster answers.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn kinds_that_were_removed_from_a_member_are_gone_for_good_after_a_minute_and_forgotten_after_an_hour()
     {
        let mut absent = Absent::default();
        let gvk = |nth: usize| Gvk::new("example.com", "v1", &format!("Kind{nth}"));
        for nth in 0..10_000 {
            assert!(!absent.is_gone_for_good(&gvk(nth)), "{nth}");
        }
        absent.retain(&Kinds::default());
        tokio::time::advance(GONE_AFTER).await;
        assert!(absent.is_gone_for_good(&gvk(1)));
        tokio::time::advance(FORGOTTEN_AFTER).await;
        absent.retain(&Kinds::default());
        assert_eq!(absent.0.len(), 0);
    }
}
