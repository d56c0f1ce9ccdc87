//! Waiting for a condition, with a deadline and with the last observation when it passes.

use std::time::Duration;

use tokio::time::Instant;

/// For what should follow at once.
pub const SOON: Duration = Duration::from_secs(30);
/// For what waits for time-outs, back-offs or controllers.
pub const LONG: Duration = Duration::from_secs(90);

const POLL: Duration = Duration::from_millis(40);

/// Asks until the answer is `Ok`; its value. Panics after `within`, with what was seen last.
///
/// The probe answers `Err` with what it saw instead.
#[track_caller]
pub fn wait_for<T>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + within;
        loop {
            let seen = match probe().await {
                Ok(found) => return found,
                Err(seen) => seen,
            };
            assert!(
                Instant::now() < deadline,
                "{caller}: waited {within:?} in vain for: {what}\nlast seen: {seen}"
            );
            tokio::time::sleep(POLL).await;
        }
    }
}
