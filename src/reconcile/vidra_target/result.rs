//! What a pass came to: what its steps tell each other and the status, and when it is looked again.

use std::collections::BTreeSet;

use vidra_api::{Change, RemovingObjects};
use vidra_core::{object::ObjectKey, plan::Inventory, status::Delivery};

use crate::{queue::Verdict, reconcile::RETRY_RARELY};

/// What only another manifest, or another schema in the member, makes right.
pub(super) const RARELY: Verdict = Verdict::Done(Some(RETRY_RARELY));

/// What a pass came to.
#[derive(Default)]
pub(super) struct Report {
    pub(super) delivery: Option<Delivery>,
    pub(super) corrected: i64,
    /// What was applied to again, for whatever reason, and what a look found to differ.
    pub(super) reapplied: BTreeSet<ObjectKey>,
    /// What was repaired, with what was otherwise.
    pub(super) mended: Vec<Change>,
    /// What is otherwise when everything was done.
    pub(super) found: Vec<Change>,
    /// Objects that are not seen and are left so.
    pub(super) left: Left,
    /// Objects that are gone, whoever has their places now, and are left so: that is to be told.
    pub(super) gone: Left,
    /// What of what is not declared any more could not be removed yet.
    pub(super) removing: Option<RemovingObjects>,
    /// Objects whose effect did not succeed.
    pub(super) undone: usize,
    /// Some effects were not begun: what was decided counts no more.
    pub(super) withdrawn: bool,
    pub(super) verdict: Option<Verdict>,
    /// Objects that may be otherwise, and could be neither compared nor repaired.
    pub(super) unverified: BTreeSet<ObjectKey>,
    /// All of the target was compared with the member.
    pub(super) compared: bool,
    /// The highest generation of the VidraResource among the live objects.
    pub(super) applied_generation: i64,
    /// The wave up to which the revision is applied, if nothing but health keeps it from going on.
    pub(super) awaited: Option<i32>,
    /// The whole inventory, where what was done changed it and that is not written yet.
    pub(super) unwritten: Option<Inventory>,
}

impl Report {
    /// An effect did not succeed; of several such the first is told and decides when to look again.
    pub(super) fn put_off(&mut self, delivery: Delivery, verdict: Verdict) {
        self.undone += 1;
        self.delivery.get_or_insert(delivery);
        self.look_again(verdict);
    }

    /// The first that asks decides, but what is tried rarely puts off nothing else, and of failures the one that is tried
    /// again soonest counts.
    pub(super) fn look_again(&mut self, verdict: Verdict) {
        self.verdict = Some(match (self.verdict, verdict) {
            (None | Some(RARELY), verdict) => verdict,
            (Some(Verdict::Retry(held)), Verdict::Retry(most)) => Verdict::Retry(held.min(most)),
            (Some(held), _) => held,
        });
    }
}

/// Nothing of the kind is waited for.
pub(super) type Left = BTreeSet<ObjectKey>;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reconcile::RETRY_MOST;

    #[test]
    fn what_is_tried_rarely_puts_off_nothing_else() {
        let (soon, later) = (Verdict::Retry(RETRY_MOST), Verdict::Done(Some(Duration::from_secs(2))));
        let rarely = Verdict::Retry(RETRY_RARELY);
        for (asked, decided) in [
            (vec![RARELY], RARELY),
            (vec![RARELY, soon, later], soon),
            (vec![later, soon, RARELY], later),
            (vec![rarely, soon], soon),
            (vec![soon, rarely], soon),
            (vec![rarely, later, RARELY], rarely),
        ] {
            let mut report = Report::default();
            asked.iter().for_each(|verdict| report.look_again(*verdict));
            assert_eq!(report.verdict, Some(decided), "{asked:?}");
        }
    }
}
