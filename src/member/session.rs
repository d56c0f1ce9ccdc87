//! One session for each member: its client, what it serves, its informers and records, and the breaker.
//!
//! A session writes nothing until the cluster loop has admitted the identity that it found. When it loses
//! the member it finds out again who answers before it goes on.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_api::names::{HubId, OwnerHash};
use vidra_core::{drift::About, render::HashKey, unseen};

use super::{
    budget::{Budget, Shared},
    error::{CallError, Class},
    informers::Informers,
    kinds::Kinds,
    records::{Later, Records, Secrecy},
};
use crate::{
    interned::Interned,
    knobs::Knobs,
    queue::{Key, Priority, Queue, TargetKey, jittered},
    seams::{Clock, Rng},
    serve::metrics::{ClusterCounters, Metrics},
    settings::{live::Live, tuning::Tuning},
    tasks::supervised,
};

/// Longest version that a member may say to have.
const VERSION_MAX: usize = 128;
/// Between two probes of a member that answers.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// A probe that takes longer is a miss.
const PROBE_WITHIN: Duration = Duration::from_secs(5);
/// After a miss the next probe follows soon.
const PROBE_AGAIN: Duration = Duration::from_secs(1);
/// So many misses open the breaker.
const MISSES: u32 = 3;
/// So many calls without an answer, in a row, ask for a probe at once.
const FAILED_CALLS: u32 = 5;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(120);
/// Discovery is asked for again, for a kind that is not known, at most this often.
const DISCOVER_EVERY: Duration = Duration::from_secs(1);

/// How the session stands with its member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// The first answer is awaited.
    Connecting,
    /// It answers.
    Up {
        /// The uid of its kube-system namespace.
        uid: String,
        /// Its version, as it says.
        version: String,
    },
    /// It does not answer, or refuses the credentials.
    Down {
        /// Since when.
        since: Timestamp,
        /// The last failure.
        error: CallErrorNote,
    },
}

/// A failure as the status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallErrorNote {
    /// A condition reason.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// The member answered, and refused the credentials.
    pub refused: bool,
}

impl From<&CallError> for CallErrorNote {
    fn from(error: &CallError) -> Self {
        let refused = matches!(error.class, Class::Unauthenticated | Class::Forbidden);
        Self { reason: error.reason(), message: error.message.clone(), refused }
    }
}

/// Takes a cluster, a reason, and a sentence.
pub type Warn = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

/// What a session needs of the house.
#[derive(Clone)]
pub struct SessionDeps {
    /// This hub.
    pub hub: HubId,
    /// The salt of what stands for secret values.
    pub salt: HashKey,
    /// Where contact lost and found is told.
    pub queue: Arc<Queue>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub rng: Arc<dyn Rng>,
    /// Calls are counted here.
    pub metrics: Metrics,
    /// The calls that all members share.
    pub calls: Shared,
    /// Bounds.
    pub knobs: Knobs,
    /// What all members have alike.
    pub interned: Arc<Interned>,
    /// What can be changed while the hub runs.
    pub tuning: Arc<Tuning>,
    /// Wakes all targets of a cluster.
    pub wake_targets: Arc<dyn Fn(&str) + Send + Sync>,
    /// Says of a cluster, for a reason, what somebody should look at.
    pub warn: Warn,
}

/// See the module.
pub struct Session {
    /// The MemberCluster's name.
    pub cluster: Arc<str>,
    /// Tells one kubeconfig from another.
    pub fingerprint: u64,
    /// For calls.
    pub client: Client,
    /// What is known of its objects.
    pub records: Arc<Records>,
    /// What its targets found of later declarations.
    pub later: Later,
    /// Its informers.
    pub informers: Arc<Informers>,
    deps: SessionDeps,
    counters: ClusterCounters,
    state: Mutex<State>,
    budget: Budget,
    suspicion: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

struct State {
    contact: Contact,
    /// The uid that the cluster loop has admitted: only to that cluster is anything written.
    admitted: Option<String>,
    dismissed: Option<String>,
    kinds: Arc<Kinds>,
    discovered: Option<tokio::time::Instant>,
    failed_calls: u32,
}

impl Session {
    /// Its bounds.
    pub fn knobs(&self) -> &Knobs {
        &self.deps.knobs
    }

    /// A session that runs until [`Session::end`].
    pub fn start(cluster: &str, fingerprint: u64, client: Client, deps: SessionDeps) -> Arc<Self> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let secrecy = Secrecy { salt: deps.salt.clone(), tuning: deps.tuning.clone() };
        let records = Arc::new(Records::new(deps.hub.clone(), secrecy, deps.interned.clone()));
        let informers = Informers::new(
            cluster.into(),
            client.clone(),
            records.clone(),
            &deps,
            tasks.clone(),
            stop.clone(),
        );
        let state = State {
            contact: Contact::Connecting,
            admitted: None,
            dismissed: None,
            kinds: Arc::default(),
            discovered: None,
            failed_calls: 0,
        };
        let budget = Budget::new(deps.calls.clone());
        let session = Arc::new(Self {
            cluster: cluster.into(),
            fingerprint,
            client,
            records,
            later: Later::default(),
            informers,
            counters: deps.metrics.clusters().of(cluster),
            deps,
            state: Mutex::new(state),
            budget,
            suspicion: Notify::new(),
            stop: stop.clone(),
            tasks: tasks.clone(),
        });
        let run = session.clone();
        tasks.spawn(async move {
            let rng = run.deps.rng.clone();
            stop.run_until_cancelled(supervised("session", rng.as_ref(), || run.clone().run())).await
        });
        session
    }

    /// Ends the session: its informers, its calls, its probe.
    pub async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// How it stands.
    pub fn contact(&self) -> Contact {
        self.state.lock().contact.clone()
    }

    /// The cluster loop's word: this is the cluster that is meant.
    pub fn admit(&self, uid: &str) {
        let changed = {
            let mut state = self.state.lock();
            state.dismissed = None;
            let before = state.admitted.replace(uid.to_owned());
            if before.as_deref().is_some_and(|before| before != uid) {
                // What was seen in another cluster says nothing of this one.
                self.records.clear();
            }
            before.as_deref() != Some(uid)
        };
        if changed {
            self.informers.restart();
            (self.deps.wake_targets)(&self.cluster);
        }
    }

    /// The cluster loop's word: another cluster answers, nothing is to be written.
    pub fn dismiss(&self, why: &str) {
        {
            let mut state = self.state.lock();
            state.admitted = None;
            if state.dismissed.replace(why.to_owned()).as_deref() == Some(why) {
                return;
            }
        }
        self.informers.pause();
        (self.deps.wake_targets)(&self.cluster);
    }

    /// Why nothing is to be written although the member answers.
    pub fn dismissed(&self) -> Option<String> {
        self.state.lock().dismissed.clone()
    }

    /// It answers, and it is the cluster that is meant.
    pub fn is_open(&self) -> bool {
        let state = self.state.lock();
        matches!(&state.contact, Contact::Up { uid, .. } if state.admitted.as_ref() == Some(uid))
    }

    /// What it serves, as last discovered.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.state.lock().kinds.clone()
    }

    /// Discovers again, unless that was done a moment ago.
    pub async fn rediscover(&self) -> Result<Arc<Kinds>, CallError> {
        {
            let state = self.state.lock();
            if state.discovered.is_some_and(|at| at.elapsed() < DISCOVER_EVERY) {
                return Ok(state.kinds.clone());
            }
        }
        let kinds = Arc::new(self.ask("discover", Kinds::discover(&self.client)).await?);
        let mut state = self.state.lock();
        state.kinds = kinds.clone();
        state.discovered = Some(tokio::time::Instant::now());
        Ok(kinds)
    }

    /// One call: within the member's budget and the deadline, counted, its failure classified and cleared of what
    /// may not be told of such objects, and a lack of answers told to the breaker.
    ///
    /// On the heap: it is large, and lies within all that leads to it.
    pub fn call<T>(
        &self,
        verb: &'static str,
        about: About<'_>,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        let telling = move |error: kube::Error| CallError::about(error, about, &self.settings().redact);
        self.counted(verb, Box::pin(call), telling)
    }

    /// The settings that hold now.
    pub fn settings(&self) -> Arc<Live> {
        self.deps.tuning.now()
    }

    /// A call about the member itself, and no object that anybody declares.
    fn ask<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        self.counted(verb, Box::pin(call), CallError::from)
    }

    async fn counted<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
        telling: impl FnOnce(kube::Error) -> CallError,
    ) -> Result<T, CallError> {
        let closed = || CallError { class: Class::Transport, message: "the session has ended".into() };
        let answered = async {
            let _permit = self.budget.permit().await.map_err(|_| closed())?;
            // All stages together.
            let within = self.deps.tuning.now().apply_timeout;
            match tokio::time::timeout(within, call).await {
                Ok(answer) => answer.map_err(telling),
                Err(_) => Err(CallError::deadline(within)),
            }
        };
        let answer = self.stop.run_until_cancelled(answered).await.unwrap_or_else(|| Err(closed()));
        let outcome = answer.as_ref().err().map_or("ok", CallError::reason);
        self.counters.called(verb, outcome);
        self.heed(answer.as_ref().err());
        answer
    }

    fn heed(&self, error: Option<&CallError>) {
        let mut state = self.state.lock();
        match error {
            Some(error) if error.is_transport() => state.failed_calls += 1,
            Some(CallError { class: Class::Unauthenticated, .. }) => state.failed_calls = FAILED_CALLS,
            _ => state.failed_calls = 0,
        }
        if state.failed_calls >= FAILED_CALLS {
            state.failed_calls = 0;
            self.suspicion.notify_one();
        }
    }

    /// Makes targets look again after a fold, except the one that caused it, if any did: it knows.
    pub fn wake(&self, targets: Vec<TargetKey>, cause: Option<&OwnerHash>) {
        let own = cause.and_then(|cause| self.records.target_of(cause));
        for target in targets.into_iter().filter(|target| Some(target) != own.as_ref()) {
            self.deps.queue.add(Key::Target(target), Priority::Drift);
        }
    }

    async fn run(self: Arc<Self>) {
        let mut retry = FIRST_RETRY;
        loop {
            match self.meet().await {
                Ok(contact) => {
                    retry = FIRST_RETRY;
                    self.found(contact);
                    let error = self.watch_over().await;
                    self.lost(&error);
                }
                Err(error) => self.lost(&error),
            }
            tokio::time::sleep(jittered(retry, self.deps.rng.as_ref())).await;
            retry = (retry * 2).min(LAST_RETRY);
        }
    }

    /// Who answers there, what it is, and what it serves.
    async fn meet(&self) -> Result<Contact, CallError> {
        let version = self.ask("version", self.client.apiserver_version()).await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let system = self.ask("get", namespaces.get("kube-system")).await?;
        let kinds = self.ask("discover", Kinds::discover(&self.client)).await?;
        let mut state = self.state.lock();
        state.kinds = Arc::new(kinds);
        state.discovered = Some(tokio::time::Instant::now());
        let uid = system.metadata.uid.unwrap_or_default();
        Ok(Contact::Up { uid, version: unseen::shown(&version.git_version, VERSION_MAX) })
    }

    fn found(&self, contact: Contact) {
        tracing::info!(cluster = %self.cluster, ?contact, "member answers");
        self.state.lock().contact = contact;
        self.records.ask_again();
        if self.is_open() {
            self.informers.restart();
        }
        self.tell();
    }

    fn lost(&self, error: &CallError) {
        let note = CallErrorNote::from(error);
        {
            let mut state = self.state.lock();
            let since = match &state.contact {
                Contact::Down { since, error } if *error == note => *since,
                Contact::Down { since, .. } => *since,
                _ => self.deps.clock.now(),
            };
            let contact = Contact::Down { since, error: note };
            if state.contact == contact {
                return;
            }
            tracing::warn!(cluster = %self.cluster, %error, "member does not answer");
            state.contact = contact;
        }
        self.informers.pause();
        self.tell();
    }

    fn tell(&self) {
        self.deps.queue.add(Key::Cluster(self.cluster.clone()), Priority::User);
        (self.deps.wake_targets)(&self.cluster);
    }

    /// Probes until the member has missed too often; returns the last failure.
    async fn watch_over(&self) -> CallError {
        let mut misses = 0;
        loop {
            let pause = if misses == 0 { PROBE_EVERY } else { PROBE_AGAIN };
            tokio::select! {
                biased;
                error = self.informers.cannot_start() => return error,
                () = self.suspicion.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            match self.probe().await {
                Ok(()) => misses = 0,
                Err(error) if error.class == Class::Unauthenticated => return error,
                Err(error) => {
                    misses += 1;
                    if misses >= MISSES {
                        return error;
                    }
                }
            }
        }
    }

    /// Beside the work: neither its budget nor its failures count.
    async fn probe(&self) -> Result<(), CallError> {
        let request = http::Request::get("/livez").body(Vec::new());
        let request =
            request.map_err(|error| CallError { class: Class::Invalid, message: error.to_string() })?;
        let answer = tokio::time::timeout(PROBE_WITHIN, self.client.request_text(request)).await;
        let outcome = match answer {
            Err(_) => Err(CallError::deadline(PROBE_WITHIN)),
            Ok(answer) => answer.map(drop).map_err(CallError::from),
        };
        self.counters.called("probe", outcome.as_ref().err().map_or("ok", CallError::reason));
        match outcome {
            // It answers: that it is not well, or that the path is forbidden, is no silence.
            Err(error) if !error.is_transport() && error.class != Class::Unauthenticated => Ok(()),
            other => other,
        }
    }
}
