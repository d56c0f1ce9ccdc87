//! One Lease, so that two processes never write at once.
//!
//! The holder renews it; one that cannot renew in time stops by itself before another may take it over.
//! Times are compared by when this process saw a renewal, never by another machine's clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Secret,
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use vidra_api::labels::IDENTITY_SECRET;
use vidra_core::{
    leader_change::{Former, lands_in},
    mutants::{self, Mutant},
};

use super::late_writes::LateWrites;
use crate::base::{
    env::Clock,
    error::{CallError, Class},
    resource_version::version,
};

/// The Lease's name, in the hub's namespace.
pub const NAME: &str = "vidra-hub";
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_PERIOD: Duration = Duration::from_secs(4);
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// The holder gives up after this long without a renewal: well before others may follow.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// How long ago the Lease was renewed: for all who may write only under it, whatever becomes of the one that renews it.
pub struct Tenure {
    clock: Arc<dyn Clock>,
    /// In milliseconds of the machine's uptime; 0: never.
    renewed: AtomicU64,
    late: Arc<LateWrites>,
}

impl Tenure {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let late = Arc::new(LateWrites::new(clock.clone()));
        Self { clock, renewed: AtomicU64::new(0), late }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.uptime().as_millis()).unwrap_or(u64::MAX)
    }

    /// It was renewed by what was asked then.
    fn note(&self, asked: u64) {
        self.renewed.store(asked, Ordering::SeqCst);
    }

    /// What was sent to members, under this Lease, of which it is not known what becomes of it.
    pub fn late(&self) -> Arc<LateWrites> {
        self.late.clone()
    }

    /// It was renewed so lately that nobody else can have it.
    pub fn stands(&self) -> bool {
        let age = self.now().saturating_sub(self.renewed.load(Ordering::SeqCst));
        u128::from(age) < RENEW_DEADLINE.as_millis() || mutants::is(Mutant::LeaseAgeIgnored)
    }
}

/// A claim to the Lease.
pub struct Claim {
    api: Api<Lease>,
    secrets: Api<Secret>,
    holder: String,
    clock: Arc<dyn Clock>,
    tenure: Arc<Tenure>,
    waits: watch::Sender<bool>,
    /// The resourceVersion of the last write of it that was answered.
    written: AtomicU64,
}

/// The Lease as another process had it when it was read last.
struct Seen {
    holder: String,
    version: String,
    at: Instant,
}

impl Seen {
    fn now(holder: &str, version: &str) -> Self {
        Self { holder: holder.to_owned(), version: version.to_owned(), at: Instant::now() }
    }
}

impl Claim {
    /// A claim by `holder`, which names this process and no other that runs at the same time.
    pub fn new(client: Client, namespace: &str, holder: String, clock: Arc<dyn Clock>) -> Self {
        let tenure = Arc::new(Tenure::new(clock.clone()));
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            api: Api::namespaced(client, namespace),
            holder,
            clock,
            tenure,
            waits: watch::Sender::new(false),
            written: AtomicU64::new(0),
        }
    }

    /// Tells there when it has read the Lease, which another process holds.
    #[must_use]
    pub fn telling(self, waits: watch::Sender<bool>) -> Self {
        Self { waits, ..self }
    }

    /// What those ask who write under it.
    pub fn tenure(&self) -> Arc<Tenure> {
        self.tenure.clone()
    }

    /// Waits until the Lease is ours.
    pub async fn acquire(&self) {
        let mut seen: Option<Seen> = None;
        loop {
            let asked = self.tenure.now();
            match self.try_acquire(&mut seen).await {
                Ok(Some(former)) => {
                    self.tenure.note(asked);
                    return self.tenure.late.expect_former(lands_in(former, RENEW_DEADLINE));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "this process could not read or write the Lease {NAME}; it tries again")
                }
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Renews until `stop`; returns early, with false, when the Lease is lost.
    pub async fn hold(&self, stop: CancellationToken) -> bool {
        let mut renewed = Instant::now();
        let mut pause = RENEW_PERIOD;
        loop {
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return true;
            }
            let (asked, by_uptime) = (Instant::now(), self.tenure.now());
            let renewal = tokio::time::timeout_at(renewed + RENEW_DEADLINE, self.renew());
            // The answer of one that is under way is not waited for: who gives the Lease back reads it again, and what lands
            // behind that is of an older version, and refused.
            let renewal = match mutants::is(Mutant::RenewalOutlivesStop) {
                true => Some(renewal.await),
                false => stop.run_until_cancelled(renewal).await,
            };
            let Some(renewal) = renewal else { return true };
            match renewal {
                // A renewal counts from when it was asked for: others may have seen it then.
                Ok(Ok(true)) => {
                    self.tenure.note(by_uptime);
                    (renewed, pause) = (asked, RENEW_PERIOD);
                }
                Ok(Ok(false)) | Err(_) => return false,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "this process could not renew the Lease {NAME}; it tries again");
                    pause = RETRY_PERIOD;
                }
            }
        }
    }

    /// Gives the Lease back, so that a successor need not wait. One without a renewal says that each write was answered:
    /// who acquires it writes a renewal, whichever build it is.
    pub async fn release(&self) {
        let Ok(Some(mut lease)) = self.get().await else { return };
        if self.is_ours(&lease) {
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = None;
            if self.tenure.late.is_drained() {
                spec.renew_time = None;
            }
            if let Err(error) = self.replace(&lease).await {
                tracing::debug!(%error, "this process could not give the Lease back");
            }
        }
    }

    /// How the previous holder has left it, if it is ours now.
    async fn try_acquire(&self, seen: &mut Option<Seen>) -> Result<Option<Former>, CallError> {
        let Some(mut lease) = self.get().await? else {
            // Somebody deleted it: whoever held it may be there still, also where it was never seen.
            if seen.is_none() && self.has_led().await? && !mutants::is(Mutant::LostLeaseIsFree) {
                *seen = Some(Seen::now("", ""));
            }
            let unrenewed = seen.as_ref().map(|seen| seen.at.elapsed());
            if unrenewed.is_some_and(|unrenewed| unrenewed <= LEASE_DURATION)
                && !mutants::is(Mutant::LostLeaseIsFree)
            {
                return Ok(None);
            }
            let former = unrenewed.map_or(Former::None, Former::Silent);
            let mut lease = Lease::default();
            lease.metadata.name = Some(NAME.to_owned());
            lease.spec = Some(self.spec());
            return won(self.create(&lease).await, former);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let former = match spec.holder_identity.as_deref().unwrap_or_default() {
            "" => Former::Released { is_drained: spec.renew_time.is_none() },
            // A process of this name was there a moment ago, and did not give it up.
            held if held == self.holder || mutants::is(Mutant::HolderIsAnybody) => {
                Former::Silent(Duration::ZERO)
            }
            held => {
                self.waits.send_replace(true);
                let version = lease.metadata.resource_version.clone().unwrap_or_default();
                match seen {
                    Some(last) if last.version == version => match last.at.elapsed() {
                        unrenewed if unrenewed > LEASE_DURATION => Former::Silent(unrenewed),
                        _ => return Ok(None),
                    },
                    _ => {
                        // It renews every few seconds.
                        if seen.as_ref().is_none_or(|last| last.holder != held) {
                            tracing::info!(
                                holder = held,
                                "another process holds the Lease {NAME}; this one waits"
                            );
                        }
                        *seen = Some(Seen::now(held, &version));
                        return Ok(None);
                    }
                }
            }
        };
        lease.spec = Some(self.spec());
        won(self.replace(&lease).await, former)
    }

    /// Some process has led this hub: it has its identity.
    async fn has_led(&self) -> Result<bool, CallError> {
        match within(self.secrets.get_metadata(IDENTITY_SECRET)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_gone_of::<Secret>(IDENTITY_SECRET) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn renew(&self) -> Result<bool, CallError> {
        let Some(mut lease) = self.get().await? else { return Ok(false) };
        if !self.is_ours(&lease) {
            return Ok(false);
        }
        let (now, written) = (version(&lease), self.written.load(Ordering::SeqCst));
        let is_edited = now > written && mutants::is(Mutant::LeaseEditedEnds);
        if is_edited || now < written && !mutants::is(Mutant::OldLeaseRenewed) {
            // However far its versions are again: all that this process has seen is from after the backup.
            tracing::error!(
                "the Lease {NAME} is older than this process wrote it: the hub's API server was restored from a backup"
            );
            return Ok(false);
        }
        let now = MicroTime(self.clock.now());
        lease.spec.get_or_insert_default().renew_time = Some(now);
        self.replace(&lease).await.map(|_| true)
    }

    fn spec(&self) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref()) == Some(&self.holder)
    }

    async fn get(&self) -> Result<Option<Lease>, CallError> {
        match within(self.api.get(NAME)).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_gone_of::<Lease>(NAME) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, CallError> {
        self.note_written(within(self.api.create(&PostParams::default(), lease)).await)
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, CallError> {
        self.note_written(within(self.api.replace(NAME, &PostParams::default(), lease)).await)
    }

    fn note_written(&self, written: Result<Lease, CallError>) -> Result<Lease, CallError> {
        written.inspect(|lease| self.written.store(version(lease), Ordering::SeqCst))
    }
}

/// Whether the Lease was written, and not by somebody else meanwhile.
fn won(written: Result<Lease, CallError>, former: Former) -> Result<Option<Former>, CallError> {
    match written {
        Ok(_) => Ok(Some(former)),
        Err(error) if error.class == Class::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

async fn within<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_) => Err(CallError::deadline(CALL_TIMEOUT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::env::Uptime;

    #[test]
    fn a_lease_stands_for_less_than_ten_seconds_from_when_its_renewal_was_asked_for() {
        let clock = Arc::new(Uptime(AtomicU64::new(500_000)));
        let tenure = Tenure::new(clock.clone());
        assert!(!tenure.stands(), "it was never had");
        tenure.note(tenure.now());
        for (age, stands) in [(0, true), (9_999, true), (10_000, false), (3_600_000, false)] {
            clock.0.store(500_000 + age, Ordering::SeqCst);
            assert_eq!(tenure.stands(), stands, "{age} ms");
        }
        tenure.note(tenure.now());
        assert!(tenure.stands());
    }
}
