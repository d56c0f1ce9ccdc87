//! The circuit breaker of a member: finds out who answers at its address, and probes it for as long as the session lasts.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::version::Info};
use kube::{Api, core::ApiResource};
use tokio::time::{Instant, sleep_until, timeout_at};
use vidra_core::{
    contact,
    mutants::{self, Mutant},
    object::Gvk,
    status::Reason,
    unseen,
};

use super::{Answering, CallErrorNote, Session, State};
use crate::{
    base::{
        backoff::Pauses,
        error::{CallError, Class},
    },
    member::{kinds::Kinds, live::Live},
    workqueue::{Key, Priority},
};

/// Longest uid of a cluster; Kubernetes' own have 36 characters.
const UID_MAX: usize = 128;
/// Longest version that a member may say to have.
const VERSION_MAX: usize = 128;
/// It is asked for its version again this often: behind a load balancer it may be upgraded while it answers throughout.
const VERSION_EVERY: Duration = Duration::from_secs(600);
/// Pauses between handshakes with a member that does not answer: what it costs to ask is one connection, and once it is
/// back its statuses are true soon.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const ABSENT_PAUSE: Duration = Duration::from_secs(15);
/// The longest pause after one that was met was lost again.
const LAST_PAUSE: Duration = Duration::from_secs(120);
/// A member that is lost sooner after it was met has not come back: each meeting lists all of it, and wakes all its
/// targets.
const CALM: Duration = Duration::from_secs(300);

impl Session {
    /// Meets the member again and again, until the session ends.
    pub(super) async fn run(self: Arc<Self>) {
        let mut losses = Pauses::new(FIRST_PAUSE, LAST_PAUSE, Some(CALM));
        let mut absence = Pauses::new(FIRST_PAUSE, ABSENT_PAUSE, None);
        loop {
            let (error, pauses) = match self.handshake().await {
                Ok(who) => {
                    absence.reset();
                    losses.begin();
                    self.found(who);
                    (self.health_check().await, &mut losses)
                }
                Err(error) => (error, &mut absence),
            };
            self.lost(&error);
            pauses.pause(self.deps.rng.as_ref()).await;
        }
    }

    /// Who answers there, what it is, and what it serves.
    async fn handshake(&self) -> Result<Answering, CallError> {
        let asked = self.doubt.count();
        // A member that was lost in silence is told in the same words while the silence lasts.
        let (soon, within) = (self.settings().probe_timeout, self.call_within());
        let version = shown(&self.ask("version", soon, self.client.apiserver_version()).await?);
        let uid = proper_uid(self.ask("get", within, self.system_uid()).await?)?;
        let kinds = self.ask("discover", within, Kinds::discover(&self.client)).await?;
        // All targets are woken when it is told that the member answers.
        self.doubt.settle(asked);
        self.take(Arc::new(plausible(kinds)?));
        Ok(Answering { uid, version })
    }

    fn found(&self, who: Answering) {
        tracing::info!(cluster = %self.cluster, uid = %who.uid, version = %who.version, "the member answers");
        let is_open = {
            let mut inner = self.inner.lock();
            let is_known = inner.accepted.as_ref() == Some(&who.uid);
            inner.go(if is_known { State::Open(who) } else { State::Asking(who) });
            is_known
        };
        self.records.ask_again();
        if is_open {
            self.informers.restart();
        }
        self.tell();
    }

    fn lost(&self, error: &CallError) {
        let note = CallErrorNote::from(error);
        {
            let mut inner = self.inner.lock();
            let since = match &inner.state {
                State::Down { since, .. } => *since,
                _ => self.deps.clock.now(),
            };
            let is_same =
                |known: &CallErrorNote| known.reason == note.reason && known.refused == note.refused;
            let is_known = matches!(&inner.state, State::Down { error, .. } if is_same(error));
            // Other words for the same make all its targets be written of.
            if is_known && inner.told.is_some_and(|told| told.elapsed() < LAST_PAUSE) {
                return;
            }
            let down = State::Down { since, error: note };
            if inner.state == down {
                return;
            }
            inner.told = Some(Instant::now());
            tracing::warn!(cluster = %self.cluster, %error, "the member does not answer");
            inner.go(down);
        }
        self.informers.pause();
        self.tell();
    }

    fn tell(&self) {
        self.deps.queue.add(Key::Cluster(self.cluster.clone()), Priority::User);
        (self.deps.wake_targets)(&self.cluster);
    }

    /// Probes until the member has missed too often; returns the last failure.
    async fn health_check(&self) -> CallError {
        let (mut misses, mut asks_again) = (0, false);
        let mut last = Instant::now();
        let mut version_due = last + VERSION_EVERY;
        loop {
            // A probe that failed is followed by the next at once, unless the server asks to be left alone.
            let mut late = Duration::ZERO;
            if !asks_again {
                let due = last + self.settings().probe_interval;
                tokio::select! {
                    biased;
                    error = self.informers.cannot_start() => return error,
                    () = self.probe_now.notified() => {}
                    () = self.doubt.raised() => {}
                    () = sleep_until(due) => late = due.elapsed(),
                }
            }
            let settings = self.settings();
            let asked = Instant::now();
            let ends = asked + settings.probe_timeout;
            let is_due = asked >= version_due && !mutants::is(Mutant::VersionOnce);
            let asks_version = is_due && self.pace.asks(ends).is_none();
            if asks_version {
                version_due = asked + VERSION_EVERY;
            }
            let probe = async {
                self.probe(ends, settings.probe_timeout).await?;
                Ok::<_, CallError>(Instant::now())
            };
            // Beside the probe, and without a word in whether it was answered.
            let version = async { Ok(if asks_version { self.version(ends).await } else { None }) };
            let answer = tokio::try_join!(probe, version);
            last = answer.as_ref().map_or_else(|_| Instant::now(), |(at, _)| *at);
            if let Ok((_, Some(version))) = &answer {
                self.note_version(version);
            }
            let is_asked = self.pace.is_asked_by_server(asked);
            // Who asks is not known while that is in doubt.
            let is_excused = is_asked && (!self.doubt.is_open() || mutants::is(Mutant::DoubtForEver));
            let is_asked = is_asked || is_throttled(&answer);
            asks_again = answer.is_err() && (!is_asked || mutants::is(Mutant::ProbesInARow));
            misses = contact::misses(misses, answer.is_ok(), is_excused, late.max(ends.elapsed()));
            match answer {
                Err(error) if matches!(error.class, Class::Unauthenticated | Class::Conflict) => {
                    return error;
                }
                Err(error) if misses >= settings.probe_misses => return error,
                _ => {}
            }
        }
    }

    /// The uid of the Namespace kube-system, by which a cluster is known; empty where it names none.
    pub(super) async fn system_uid(&self) -> Result<String, kube::Error> {
        let namespaces: Api<Live> = Api::all_with(self.client.clone(), &ApiResource::erase::<Namespace>(&()));
        Ok(namespaces.get("kube-system").await?.uid().to_owned())
    }

    /// Its version, where it says it in time. Beside the work, as a probe.
    async fn version(&self, ends: Instant) -> Option<String> {
        let answer = timeout_at(ends, self.client.apiserver_version()).await;
        let outcome = match answer {
            Err(_) => Err(Reason::NoAnswer),
            Ok(answer) => answer.map_err(|error| CallError::from(error).reason()),
        };
        self.counters.called("version", outcome.as_ref().err().map_or("ok", |reason| reason.as_str()));
        Some(shown(&outcome.ok()?))
    }

    fn note_version(&self, version: &str) {
        {
            let mut inner = self.inner.lock();
            let Some(who) = inner.answering().filter(|who| who.version != version) else { return };
            version.clone_into(&mut who.version);
        }
        self.deps.queue.add(Key::Cluster(self.cluster.clone()), Priority::Resync);
    }

    /// Asks who answers. Beside the work: neither its budget nor its failures count, and it waits for nothing.
    async fn probe(&self, ends: Instant, within: Duration) -> Result<(), CallError> {
        let asked = self.doubt.count();
        let answer = timeout_at(ends, self.system_uid()).await;
        let outcome = match answer {
            Err(_) => Err(CallError::deadline(within)),
            Ok(answer) => answer.map_err(CallError::from).and_then(proper_uid),
        };
        self.counters.called("probe", outcome.as_ref().err().map_or("ok", CallError::outcome));
        match outcome {
            Ok(uid) => {
                if self.state().answering().is_some_and(|who| who.uid != uid) {
                    let message = "another cluster answers at its address".to_owned();
                    return Err(CallError { class: Class::Conflict, message });
                }
                for key in self.doubt.settle(asked) {
                    self.deps.queue.add(Key::Target(key), Priority::Resync);
                }
                Ok(())
            }
            // It answers; who it is, is not known from that, and where that is in doubt nothing else will tell.
            Err(CallError { class: Class::Forbidden | Class::Throttled(_), .. })
                if !self.doubt.is_open() || mutants::is(Mutant::DoubtForEver) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn is_throttled<T>(answer: &Result<T, CallError>) -> bool {
    answer.as_ref().is_err_and(|error| matches!(error.class, Class::Throttled(_)))
}

/// A version as it is told.
fn shown(version: &Info) -> String {
    unseen::shown(&version.git_version, VERSION_MAX)
}

/// Each API server serves Namespaces. One that shows nothing is too old to be understood, or something between drops
/// what was asked for: nothing is gone for that.
pub(super) fn plausible(kinds: Kinds) -> Result<Kinds, CallError> {
    if kinds.get(&Gvk::new("", "v1", "Namespace")).is_some() || mutants::is(Mutant::AnyDiscovery) {
        return Ok(kinds);
    }
    let message = "its aggregated discovery shows not even Namespaces; it must be of Kubernetes 1.27 or newer, and nothing between may drop the Accept header".to_owned();
    Err(CallError { class: Class::Server, message })
}

/// An object's uid as API servers give them out. Messages name it in commands that people paste: nothing in it means
/// anything to a shell.
pub fn is_proper_uid(uid: &str) -> bool {
    (1..=UID_MAX).contains(&uid.len())
        && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// What kube-system's uid must look like to say which cluster it is.
pub(super) fn proper_uid(uid: String) -> Result<String, CallError> {
    if is_proper_uid(&uid) || mutants::is(Mutant::AnyUid) {
        return Ok(uid);
    }
    let message = format!(
        "its Namespace kube-system has no proper uid (1 to {UID_MAX} letters, digits, '-', '.' or '_')"
    );
    Err(CallError { class: Class::Server, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_that_is_none_is_no_identity() {
        assert!(proper_uid("0b2f-11".to_owned()).is_ok_and(|uid| uid == "0b2f-11"));
        for uid in ["", "a b", "a\n", "ü", "x$(id)", "a;b", "a|b", "`id`", &"x".repeat(UID_MAX + 1)] {
            assert!(proper_uid(uid.to_owned()).is_err_and(|error| error.class == Class::Server), "{uid:?}");
        }
    }

    #[test]
    fn a_discovery_that_shows_nothing_is_an_error() {
        assert!(plausible(Kinds::default()).is_err_and(|error| error.class == Class::Server));
    }
}
