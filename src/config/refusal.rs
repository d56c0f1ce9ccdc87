//! Whether the hub may not read what it works by: a refusal (403) says so only when it lasts.

use std::time::Duration;

use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

use crate::base::error::{CallError, Class};

/// An API server that has just started, or whose authorizer does not answer, refuses everybody for a moment.
const LASTS: Duration = Duration::from_secs(30);

/// Since when each try was refused.
#[derive(Debug, Default)]
pub struct Refusal {
    since: Option<Instant>,
}

impl Refusal {
    /// A try has failed so. Whether all of them were refused for so long that the hub lacks the right.
    pub fn lasts(&mut self, error: &CallError) -> bool {
        if error.class != Class::Forbidden {
            self.since = None;
            return false;
        }
        let since = self.since.get_or_insert_with(Instant::now);
        since.elapsed() >= LASTS || mutants::is(Mutant::RefusedAtOnce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_right_is_missing_when_each_try_of_half_a_minute_was_refused() {
        let failed = |class| CallError { class, message: String::new() };
        let mut refusal = Refusal::default();
        for (class, lasts) in [
            (Class::Forbidden, false),
            (Class::Forbidden, false),
            (Class::Transport, false),
            (Class::Forbidden, false),
            (Class::Forbidden, false),
            (Class::Forbidden, true),
        ] {
            assert_eq!(refusal.lasts(&failed(class)), lasts);
            tokio::time::advance(LASTS / 2).await;
        }
    }
}
