//! How many calls a member may have under way, and no rate limit (QPS): a few always, and more out of what all members
//! share. So a thousand members at work do not drown the process, or themselves, in calls that wait for each other; and
//! members that never answer take nothing from the others but speed.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use vidra_core::mutants::{self, Mutant};

/// What each member has to itself.
const OWN: usize = 4;
/// What one member may take of the shared ones.
const MORE: usize = 28;
/// What all members share.
const SHARED: usize = 256;
/// Pages of lists that are read at the same time. Reading them is work of this process: with more of them it
/// would be late for every answer, and take a thousand members' probes for misses of theirs.
const LISTS: usize = 16;
/// Of these, of one member: as many as its informers read slowly, the others have theirs.
const LISTS_OF_ONE: usize = 4;

/// The calls that members share; clones are the same ones.
#[derive(Clone)]
pub struct Shared {
    calls: Arc<Semaphore>,
    lists: Arc<Semaphore>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { calls: Arc::new(Semaphore::new(SHARED)), lists: Arc::new(Semaphore::new(LISTS)) }
    }
}

impl Shared {
    /// One member's turns at reading lists.
    pub fn turns(&self) -> Turns {
        let of_one = if mutants::is(Mutant::ListsOfOneMember) { LISTS } else { LISTS_OF_ONE };
        Turns { own: Arc::new(Semaphore::new(of_one)), all: self.lists.clone() }
    }
}

/// The turns of one member at reading pages of lists, of those that all members share; clones are the same ones.
#[derive(Clone)]
pub struct Turns {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// A page may be read while this is held.
pub struct Turn(#[expect(dead_code, reason = "held, not read")] [OwnedSemaphorePermit; 2]);

impl Turns {
    /// A turn at reading a page of a list, until it is dropped. What shows nothing for a while should give it back,
    /// or a member that hangs would keep the others waiting.
    ///
    /// # Errors
    /// Never: nothing here is closed.
    pub async fn turn(&self) -> Result<Turn, AcquireError> {
        let own = self.own.clone().acquire_owned().await?;
        Ok(Turn([own, self.all.clone().acquire_owned().await?]))
    }

    /// A turn at reading a page, if there is one and nobody waits for it.
    pub fn free_turn(&self) -> Option<Turn> {
        let own = self.own.clone().try_acquire_owned().ok()?;
        Some(Turn([own, self.all.clone().try_acquire_owned().ok()?]))
    }
}

/// One member's calls.
pub struct Budget {
    own: Semaphore,
    more: Semaphore,
    shared: Shared,
}

/// A call may be made while this is held.
pub struct Permit<'a>(#[expect(dead_code, reason = "held, not read")] Held<'a>);

#[expect(dead_code, reason = "held, not read")]
enum Held<'a> {
    Own(SemaphorePermit<'a>),
    Shared(SemaphorePermit<'a>, SemaphorePermit<'a>),
}

impl Budget {
    /// A member's.
    pub fn new(shared: Shared) -> Self {
        Self { own: Semaphore::new(OWN), more: Semaphore::new(MORE), shared }
    }

    /// Waits for whichever comes first.
    ///
    /// # Errors
    /// Never: nothing here is closed.
    pub async fn permit(&self) -> Result<Permit<'_>, AcquireError> {
        let shared = async {
            let of_member = self.more.acquire().await?;
            Ok((of_member, self.shared.calls.acquire().await?))
        };
        tokio::select! {
            biased;
            own = self.own.acquire() => own.map(|own| Permit(Held::Own(own))),
            shared = shared => shared.map(|(member, all)| Permit(Held::Shared(member, all))),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// As many as can be had at once.
    fn take(budget: &Budget) -> Vec<Permit<'_>> {
        std::iter::from_fn(|| budget.permit().now_or_never()?.ok()).collect()
    }

    #[test]
    fn a_member_alone_takes_its_own_and_its_part_of_the_shared() {
        let budget = Budget::new(Shared::default());
        assert_eq!(take(&budget).len(), OWN + MORE);
        assert_eq!(take(&budget).len(), OWN + MORE, "they were given back");
    }

    #[test]
    fn members_that_never_answer_leave_each_other_member_its_own() {
        let shared = Shared::default();
        let hung: Vec<_> = (0..SHARED.div_ceil(MORE)).map(|_| Budget::new(shared.clone())).collect();
        let held: Vec<_> = hung.iter().map(take).collect();
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), SHARED + hung.len() * OWN);
        let healthy = Budget::new(shared);
        assert_eq!(take(&healthy).len(), OWN);
        drop(held);
        assert_eq!(take(&healthy).len(), OWN + MORE);
    }

    #[test]
    fn who_waits_gets_what_is_given_back_first() {
        let shared = Shared::default();
        let (one, others) = (Budget::new(shared.clone()), Budget::new(shared));
        let mut held = take(&one);
        let mut waiting = Box::pin(one.permit());
        assert!((&mut waiting).now_or_never().is_none());
        drop(take(&others));
        assert!((&mut waiting).now_or_never().is_none(), "a member has its bound");
        held.pop();
        assert!(waiting.now_or_never().is_some());
    }
}
