//! Writes to members that may take effect though nobody waits for their answers any more: those of the process that held
//! the Lease before, and this one's own, which are for the next one to reckon with.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use vidra_core::leader_change::WRITE_LANDS_WITHIN;

use crate::base::{env::Clock, error::CallError};

/// Until when writes that nobody waits for any more may take effect. Moments are in milliseconds of the machine's uptime; 0:
/// there is nothing to wait for.
pub struct LateWrites {
    clock: Arc<dyn Clock>,
    /// Until when those of the previous process may take effect.
    former: AtomicU64,
    /// Until when this process's own may that were not answered.
    own: AtomicU64,
}

impl LateWrites {
    /// None are known.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, former: AtomicU64::new(0), own: AtomicU64::new(0) }
    }

    /// What the previous process had sent may take effect for so long from now on.
    pub fn expect_former(&self, lands_in: Duration) {
        self.former.fetch_max(self.after(lands_in), Ordering::SeqCst);
    }

    /// How long what the previous process had sent may still take effect; `None`: it has, or never will.
    pub fn former_writes_left(&self) -> Option<Duration> {
        let left = self.former.load(Ordering::SeqCst).saturating_sub(self.after(Duration::ZERO));
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// Nothing that was sent up to now, by whichever process, can take effect later.
    pub fn is_drained(&self) -> bool {
        self.former_writes_left().is_none() && self.own.load(Ordering::SeqCst) <= self.after(Duration::ZERO)
    }

    /// Sends a write: one that ends without an answer which says what became of it, or is dropped before, may take effect
    /// later.
    pub async fn send<T>(&self, write: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let mut sent = Sent { late: self, is_answered: false };
        let answer = write.await;
        sent.is_answered = !answer.as_ref().is_err_and(CallError::is_unsure);
        answer
    }

    fn after(&self, time: Duration) -> u64 {
        let at = self.clock.uptime().saturating_add(time);
        u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A write that was sent.
struct Sent<'a> {
    late: &'a LateWrites,
    is_answered: bool,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.late.own.fetch_max(self.late.after(WRITE_LANDS_WITHIN), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt;

    use super::*;
    use crate::base::{env::Uptime, error::Class};

    fn late() -> (Arc<Uptime>, LateWrites) {
        let clock = Arc::new(Uptime(AtomicU64::new(500_000)));
        (clock.clone(), LateWrites::new(clock))
    }

    #[test]
    fn what_the_process_of_before_had_sent_lands_within_the_time_that_was_told() {
        let (clock, late) = late();
        assert!(late.former_writes_left().is_none() && late.is_drained(), "there was none");
        late.expect_former(Duration::from_secs(28));
        late.expect_former(Duration::from_secs(3));
        assert_eq!(late.former_writes_left(), Some(Duration::from_secs(28)));
        assert!(!late.is_drained(), "the next process has to wait for it too");
        clock.0.store(528_000, Ordering::SeqCst);
        assert!(late.former_writes_left().is_none() && late.is_drained());
    }

    #[test]
    fn a_write_that_was_dropped_or_not_answered_may_land_and_one_that_was_not_sent_may_not() {
        let failed = |class| Err::<(), _>(CallError { class, message: String::new() });
        for (answer, is_drained) in [
            (Ok(()), true),
            (failed(Class::Conflict), true),
            (failed(Class::Forbidden), true),
            (failed(Class::Invalid), true),
            (failed(Class::Transport), false),
            (failed(Class::Server), false),
            (failed(Class::Gateway), false),
            (failed(Class::InvalidField), false),
        ] {
            let (clock, late) = late();
            let words = format!("{answer:?}");
            drop(late.send(ready(answer)).now_or_never());
            assert_eq!(late.is_drained(), is_drained, "{words}");
            clock.0.store(534_000, Ordering::SeqCst);
            assert!(late.is_drained(), "{words}");
        }
        let (_, late) = late();
        drop(late.send(pending::<Result<(), CallError>>()));
        assert!(late.is_drained(), "it was not sent");
        assert!(late.send(pending::<Result<(), CallError>>()).now_or_never().is_none());
        assert!(!late.is_drained(), "it was sent and dropped");
    }
}
