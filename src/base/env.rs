//! The three seams: the only ways to a member, to time, and to chance.
//!
//! Tests and the simulation own them, so that a run of the hub is a function of its seed. Sleeping goes
//! through tokio's clock, which tests pause; [`Clock`] gives the wall time that is written into objects.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::client::Body;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tower::{BoxError, util::BoxCloneService};
use vidra_core::kubeconfig::MemberConfig;

/// The body of a member's answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The way to a member: requests in, answers out. What is to be seen of each answer before kube reads it is seen here.
pub type Link = BoxCloneService<Request<Body>, Response<AnswerBody>, BoxError>;

/// Why there is no way to a member. Nothing was sent yet.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The certificates or the key cannot be used for TLS.
    #[error("the kubeconfig's TLS material cannot be used: {0}; renew the registration Secret")]
    Tls(String),
    /// The server's address cannot be used.
    #[error("the kubeconfig's server cannot be used: {0}; correct it in the registration Secret")]
    Server(String),
}

/// From a parsed kubeconfig to that member.
pub trait Connect: Send + Sync {
    /// Makes the way; connects on first use only.
    fn connect(&self, config: &MemberConfig) -> Result<Link, ConnectError>;
}

/// Wall time, for what is written into objects and compared with what is read from them; and how long the machine runs.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
    /// Since some moment before this process began: it never goes back, and goes on while the machine is suspended.
    fn uptime(&self) -> Duration;
    /// Now, in the shape that Kubernetes objects carry: whole seconds.
    fn time(&self) -> Time {
        let now = self.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }
}

/// Chance: jitter, names of Events; and keys, the hub's id and the Lease's holder, which nobody may guess.
pub trait Rng: Send + Sync {
    /// The next number. It can be guessed from those before it.
    fn next(&self) -> u64;

    /// What nobody can guess.
    ///
    /// # Errors
    /// The operating system gives none.
    fn secret(&self) -> Result<[u8; 32], SecretError>;

    /// So many bytes of that, at most 32, as hexadecimal digits: a name that nobody can guess.
    ///
    /// # Errors
    /// The operating system gives none.
    fn name(&self, bytes: usize) -> Result<String, SecretError> {
        Ok(self.secret()?.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// There is no chance to be had from the operating system.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random bytes: {0}")]
pub struct SecretError(String);

/// The monotonic clock stands still while the machine is suspended.
#[cfg(target_os = "linux")]
const UPTIME: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const UPTIME: ClockId = ClockId::Monotonic;

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam that everything else goes through")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        Duration::try_from(clock_gettime(UPTIME)).unwrap_or_default()
    }
}

/// The uptime, in milliseconds, in the hands of a test.
#[cfg(test)]
pub(crate) struct Uptime(pub std::sync::atomic::AtomicU64);

#[cfg(test)]
impl Clock for Uptime {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

/// Numbers from a seed.
pub struct SeededRng(Mutex<fastrand::Rng>);

impl SeededRng {
    /// Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }
}

/// The operating system's.
#[derive(Default)]
pub struct SystemRng(Mutex<fastrand::Rng>);

impl Rng for SystemRng {
    fn next(&self) -> u64 {
        self.0.lock().u64(..)
    }

    fn secret(&self) -> Result<[u8; 32], SecretError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| SecretError(error.to_string()))?;
        Ok(bytes)
    }
}

impl Rng for SeededRng {
    fn next(&self) -> u64 {
        self.0.lock().u64(..)
    }

    fn secret(&self) -> Result<[u8; 32], SecretError> {
        let mut bytes = [0; 32];
        self.0.lock().fill(&mut bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_guess_is_not_drawn_from_the_numbers_that_are_told() {
        let rng = SystemRng::default();
        // The same state of the generator: of jitter and of names of Events.
        let told = || *rng.0.lock() = fastrand::Rng::with_seed(1);
        told();
        let (one, name) = (rng.secret().expect("random bytes"), rng.name(5).expect("random bytes"));
        told();
        assert_ne!(rng.secret().expect("random bytes"), one);
        told();
        assert_ne!(rng.name(5).expect("random bytes"), name);
        assert_eq!(name.len(), 10);
    }
}
