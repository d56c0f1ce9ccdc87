//! Waiting for a condition, with a deadline and with the last observation when it passes.

use std::time::Duration;

use tokio::time::Instant;

/// For what should follow at once.
pub const SOON: Duration = Duration::from_secs(30);
/// For what waits for time-outs, back-offs or controllers.
pub const LONG: Duration = Duration::from_secs(90);

const POLL: Duration = Duration::from_millis(40);

/// Where time is real, the machine may have other work: a wait lasts this many times as long.
const PATIENCE: u32 = 3;

/// Asks until the answer is `Ok`; its value. Panics after `within`, with what was seen last; where the clock is not paused,
/// after three times as long.
///
/// The probe answers `Err` with what it saw instead.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "whether the clock is paused shows in the real time alone")]
pub fn wait_for<T>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let (began, really_began) = (Instant::now(), std::time::Instant::now());
        loop {
            let seen = match probe().await {
                Ok(found) => return found,
                Err(seen) => seen,
            };
            // A paused clock is far ahead of the real one.
            let is_real = really_began.elapsed() > began.elapsed() / 2;
            assert!(
                began.elapsed() < within * if is_real { PATIENCE } else { 1 },
                "{caller}: waited {within:?} in vain for: {what}\nlast seen: {seen}"
            );
            tokio::time::sleep(POLL).await;
        }
    }
}
