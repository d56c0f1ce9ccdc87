//! Back-off of tasks: pauses that grow while something fails, and delays that are spread. That of failed reconciles is in
//! `workqueue`.

use std::time::Duration;

use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

use super::env::Rng;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Pauses between tries, each twice the one before; short again after it went well for a while.
#[derive(Debug)]
pub struct Pauses {
    first: Duration,
    last: Duration,
    calm: Option<Duration>,
    next: Duration,
    began: Option<Instant>,
}

impl Default for Pauses {
    fn default() -> Self {
        Self::new(FIRST_PAUSE, LAST_PAUSE, Some(LAST_PAUSE))
    }
}

impl Pauses {
    /// The first is so long, and none is longer than the last; after a try that went well for longer than `calm` the
    /// next is the first again. `None`: only after [`Self::reset`].
    pub fn new(first: Duration, last: Duration, calm: Option<Duration>) -> Self {
        Self { first, last, calm, next: first, began: None }
    }

    /// How long it goes well is counted from now, and not from the end of the last pause.
    pub fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// Waits for the next pause to end.
    pub async fn pause(&mut self, rng: &dyn Rng) {
        let calm = self.calm;
        let is_calm = |began: Instant| {
            calm.is_some_and(|calm| began.elapsed() > calm) || mutants::is(Mutant::CalmAtOnce)
        };
        if self.began.is_some_and(is_calm) {
            self.reset();
        }
        let pause = jittered(self.next, rng);
        self.next = (self.next * 2).min(self.last);
        tokio::time::sleep(pause).await;
        self.begin();
    }

    /// It went well: the next pause is short again.
    pub fn reset(&mut self) {
        self.next = self.first;
        self.began = None;
    }
}

/// Spreads a delay by up to 10 % either way, so that keys made together do not stay together.
pub fn jittered(delay: Duration, rng: &dyn Rng) -> Duration {
    let spread = (rng.next() % 2001) as f64 / 10_000.0 - 0.1;
    delay.mul_f64(1.0 + spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::env::SeededRng;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_it_fails_and_are_short_after_it_went_well_for_a_while() {
        let (mut pauses, rng) = (Pauses::default(), SeededRng::new(1));
        let mut took = Vec::new();
        for work in [0, 0, 5, 0, 61, 0] {
            tokio::time::sleep(Duration::from_secs(work)).await;
            let began = Instant::now();
            pauses.pause(&rng).await;
            took.push(began.elapsed().as_secs_f64().round());
        }
        assert_eq!(took, [1.0, 2.0, 4.0, 8.0, 1.0, 2.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn how_long_it_went_well_is_counted_from_when_it_was_seen_to_go_well() {
        let seconds = Duration::from_secs;
        let (mut pauses, rng) = (Pauses::new(seconds(1), seconds(4), Some(seconds(300))), SeededRng::new(1));
        let mut took = Vec::new();
        // So long until it goes well, and so long as it does.
        for (before, well) in [(0, 0), (400, 10), (0, 299), (400, 0), (400, 301), (0, 0)] {
            tokio::time::sleep(seconds(before)).await;
            pauses.begin();
            tokio::time::sleep(seconds(well)).await;
            let began = Instant::now();
            pauses.pause(&rng).await;
            took.push(began.elapsed().as_secs_f64().round());
        }
        assert_eq!(took, [1.0, 2.0, 4.0, 4.0, 1.0, 2.0]);
    }
}
