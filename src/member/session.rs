//! One session for each member: its client, what it serves, its informers and records, and its health check.
//!
//! A session writes nothing until the cluster loop has accepted the identity that it found. When it loses
//! the member it finds out again who answers before it goes on.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::version::Info};
use kube::{Api, Client, core::ApiResource};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;
use vidra_api::names::OwnerHash;
use vidra_core::{
    contact,
    drift::{About, Does},
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    render::HashKey,
    status::Reason,
    unseen,
};

use super::{
    absent::Absent,
    claims::Claims,
    doubt::Doubt,
    informers::Informers,
    kinds::Kinds,
    late_creates::LateCreates,
    live::Live,
    namespaces::Namespaces,
    records::{LaterGenerations, Records, Secrecy},
    session_deps::SessionDeps,
    token::Token,
};
use crate::{
    base::{
        backoff::Pauses,
        env::Link,
        error::{CallError, Class},
        interner::Interned,
        limiter::{Budget, Permit},
        supervise::supervised,
        withdrawal::Withdrawn,
    },
    config::dynamic_settings::DynamicSettings,
    internal_limits::InternalLimits,
    metrics::ClusterCounters,
    wire::pace::{self, Pace},
    workqueue::{Key, Priority, TargetKey},
};

/// Longest uid of a cluster; Kubernetes' own have 36 characters.
const UID_MAX: usize = 128;
/// Longest version that a member may say to have.
const VERSION_MAX: usize = 128;
/// It is asked for its version again this often: behind a load balancer it may be upgraded while it answers throughout.
const VERSION_EVERY: Duration = Duration::from_secs(600);
/// Pauses between handshakes with a member that does not answer: what it costs to ask is one connection, and once it is back its
/// statuses are true soon.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const ABSENT_PAUSE: Duration = Duration::from_secs(15);
/// The longest pause after one that was met was lost again.
const LAST_PAUSE: Duration = Duration::from_secs(120);
/// A member that is lost sooner after it was met has not come back: each meeting lists all of it, and wakes all its
/// targets.
const CALM: Duration = Duration::from_secs(300);
/// Discovery is asked for again, for a kind that is not known, at most this often.
const DISCOVER_EVERY: Duration = Duration::from_secs(1);

/// How the session stands with its member. Only in an open one is anything written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The first answer is awaited.
    Connecting,
    /// It answers; whether it is the cluster that is meant is being found out.
    Asking(Answering),
    /// It answers, and is the cluster that is meant.
    Open(Answering),
    /// It answers, and is not to be written to.
    Refused(Answering, String),
    /// It does not answer, or refuses the credentials.
    Down {
        /// Since when.
        since: Timestamp,
        /// The last failure; in other words for the same it is told every two minutes at most.
        error: CallErrorNote,
    },
}

/// What a member says of itself at /readyz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It serves all that it will.
    Ready,
    /// Not yet.
    NotReady,
    /// It does not tell: the hub may not ask there, or nothing answers.
    Untold,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// The uid of its kube-system namespace.
    pub uid: String,
    /// Its version, as it says.
    pub version: String,
}

impl State {
    /// Who answers, if somebody does.
    pub fn answering(&self) -> Option<&Answering> {
        match self {
            Self::Asking(who) | Self::Open(who) | Self::Refused(who, _) => Some(who),
            Self::Connecting | Self::Down { .. } => None,
        }
    }
}

/// A failure as the status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallErrorNote {
    /// A condition reason.
    pub reason: Reason,
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

/// All that the process holds open to one member.
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
    pub later_generations: LaterGenerations,
    /// What its targets declare.
    pub claims: Claims,
    /// Its informers.
    pub informers: Arc<Informers>,
    pub(super) namespaces: Namespaces,
    /// The turn at reading what a CRD declares.
    pub(super) reads: tokio::sync::Mutex<()>,
    late_creates: LateCreates,
    deps: SessionDeps,
    counters: ClusterCounters,
    inner: Mutex<Contact>,
    budget: Budget,
    pace: Arc<Pace>,
    doubt: Arc<Doubt>,
    probe_now: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What is known of who answers, and since when.
struct Contact {
    state: State,
    /// Grows whenever the session ceases to be open: what was begun before ends then.
    epoch: u64,
    /// The uid that the cluster loop has accepted: a member that comes back as the same need not be asked about again.
    accepted: Option<String>,
    /// The cluster whose objects are recorded.
    recorded: Option<String>,
    kinds: Arc<Kinds>,
    discovered: Option<Instant>,
    absent: Absent,
    /// When its silence was told last.
    told: Option<Instant>,
}

impl Contact {
    /// What who answers says of itself; its version alone may change while it does.
    fn answering(&mut self) -> Option<&mut Answering> {
        match &mut self.state {
            State::Asking(who) | State::Open(who) | State::Refused(who, _) => Some(who),
            State::Connecting | State::Down { .. } => None,
        }
    }

    fn go(&mut self, next: State) {
        let ceases = matches!(self.state, State::Open(_)) && self.state != next;
        self.epoch += u64::from(ceases);
        self.state = next;
    }
}

impl Session {
    /// The key of digests and seals.
    pub fn salt(&self) -> &HashKey {
        &self.deps.salt
    }

    /// What all members have alike.
    pub(super) fn interned(&self) -> &Interned {
        &self.deps.interned
    }

    /// What is counted of the member.
    pub fn counters(&self) -> &ClusterCounters {
        &self.counters
    }

    /// Its bounds.
    pub fn limits(&self) -> &InternalLimits {
        &self.deps.limits
    }

    /// A session that asks nothing before [`Session::start`].
    pub fn new(cluster: &str, fingerprint: u64, link: Link, deps: SessionDeps) -> Arc<Self> {
        let (stop, tasks, doubt) = (CancellationToken::new(), TaskTracker::new(), Arc::<Doubt>::default());
        let pace = Arc::<Pace>::default();
        let secrecy = Secrecy { salt: deps.salt.clone(), tuning: deps.tuning.clone() };
        let records =
            Arc::new(Records::new(deps.hub.clone(), secrecy, deps.health.clone(), deps.interned.clone()));
        let (heard, told) = (pace.clone(), records.clone());
        let link = link.map_response(move |answer| {
            told.facts.hear(answer.headers());
            heard.note_answer(answer)
        });
        let client = Client::new(link, "default");
        let informers = Informers::new(
            cluster.into(),
            client.clone(),
            records.clone(),
            &deps,
            tasks.clone(),
            (stop.clone(), doubt.clone(), pace.clone()),
        );
        let inner = Contact {
            state: State::Connecting,
            epoch: 0,
            accepted: None,
            recorded: None,
            kinds: Arc::default(),
            discovered: None,
            absent: Absent::default(),
            told: None,
        };
        let budget = Budget::new(deps.calls.clone());
        Arc::new(Self {
            cluster: cluster.into(),
            fingerprint,
            client,
            records,
            later_generations: LaterGenerations::default(),
            claims: Claims::default(),
            informers,
            namespaces: Namespaces::default(),
            reads: tokio::sync::Mutex::default(),
            late_creates: deps.late_creates.of(cluster),
            counters: deps.metrics.clusters().of(cluster),
            deps,
            inner: Mutex::new(inner),
            budget,
            pace,
            doubt,
            probe_now: Notify::new(),
            stop,
            tasks,
        })
    }

    /// Runs it until [`Session::end`]. To be called once, and where its targets find it: it wakes them when it has an answer.
    pub fn start(self: &Arc<Self>) {
        let (run, stop) = (self.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            let rng = run.deps.rng.clone();
            stop.run_until_cancelled(supervised("session", rng.as_ref(), || run.clone().run())).await
        });
    }

    /// Ends the session: its informers, its calls, its probe.
    pub async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Nothing is sent any more, and no answer is waited for.
    pub fn has_ended(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.inner.lock().state.clone()
    }

    /// The cluster loop's word: this is the cluster that is meant. It counts for as long as that one answers.
    pub fn accept(&self, uid: &str) {
        {
            let mut inner = self.inner.lock();
            let Some(who) = inner.state.answering().filter(|who| who.uid == uid).cloned() else { return };
            inner.accepted = Some(uid.to_owned());
            let recorded = inner.recorded.replace(uid.to_owned());
            if recorded.is_some_and(|recorded| recorded != uid) {
                // What was seen in another cluster says nothing of this one.
                self.records.clear();
                inner.absent.clear();
                self.late_creates.clear();
            }
            if matches!(inner.state, State::Open(_)) {
                return;
            }
            inner.go(State::Open(who));
        }
        self.informers.restart();
        (self.deps.wake_targets)(&self.cluster);
    }

    /// The cluster loop's word: nothing is to be written to who answers.
    pub fn reject(&self, why: &str) {
        {
            let mut inner = self.inner.lock();
            inner.accepted = None;
            let Some(who) = inner.state.answering().cloned() else { return };
            let refused = State::Refused(who, why.to_owned());
            if inner.state == refused {
                return;
            }
            inner.go(refused);
        }
        self.informers.pause();
        (self.deps.wake_targets)(&self.cluster);
    }

    /// Whether the hub itself knows a target that applies here under this manager of its own: an object says so of
    /// whatever name somebody applied it under.
    pub fn is_owner(&self, manager: &str) -> bool {
        (self.deps.is_owner)(&self.cluster, manager) || mutants::is(Mutant::AnyOwner)
    }

    /// It answers, and it is the cluster that is meant.
    pub fn is_open(&self) -> bool {
        matches!(self.inner.lock().state, State::Open(_))
    }

    /// The time for which it is open and who answers is beyond doubt, by number; `None`: nothing may be written now.
    pub fn epoch(&self) -> Option<(u64, u64)> {
        let inner = self.inner.lock();
        let is_sure = matches!(inner.state, State::Open(_)) && !self.doubt.is_open();
        is_sure.then(|| (inner.epoch, self.doubt.count()))
    }

    /// As [`Session::epoch`]; where it is only a doubt that is in the way, the target looks again when it is settled.
    pub fn is_sure_for(&self, key: &TargetKey) -> bool {
        if self.epoch().is_some() {
            return true;
        }
        // Whether or not a doubt is seen now: one may be settled, and another raised, between any two looks.
        self.doubt.wait(key);
        self.epoch().is_some()
    }

    /// Whether its API server serves all that it will: one that has just started does not, and a discovery does not show
    /// it.
    ///
    /// # Errors
    /// No answer, or no leave to ask.
    pub async fn readiness(&self, token: &Token<'_>) -> Result<Readiness, CallError> {
        let request = http::Request::get("/readyz").body(Vec::new());
        let request =
            request.map_err(|error| CallError { class: Class::Invalid, message: error.to_string() })?;
        let about = About { group: "", kind: "Namespace", does: Does::Reads };
        match self.call(token, "ready", about, self.client.request_text(request)).await {
            Ok(_) => Ok(Readiness::Ready),
            Err(error) => match error.class {
                Class::Forbidden | Class::NotServed => Ok(Readiness::Untold),
                Class::Server | Class::Gateway => Ok(Readiness::NotReady),
                _ => Err(error),
            },
        }
    }

    /// No watch is open that would break when another cluster comes to be there.
    pub fn is_blind(&self) -> bool {
        self.doubt.is_blind()
    }

    /// Who answers is not known: nothing is written until the probe has asked.
    pub fn raise_doubt(&self) {
        self.doubt.raise();
    }

    /// Asks who answers now: what was answered before by this cluster was so.
    ///
    /// # Errors
    /// No answer, no leave to ask, or another cluster answers.
    pub async fn confirm(&self, token: &Token<'_>) -> Result<(), CallError> {
        if mutants::is(Mutant::AbsenceUnconfirmed) {
            return Ok(());
        }
        let about = About { group: "", kind: "Namespace", does: Does::Reads };
        let uid = proper_uid(self.call(token, "get", about, self.system_uid()).await?)?;
        if self.state().answering().is_some_and(|who| who.uid == uid) {
            return Ok(());
        }
        // Nothing more is sent, and the probe tells it.
        self.doubt.raise();
        Err(Withdrawn::Contact.into())
    }

    /// What it serves, as last discovered.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.inner.lock().kinds.clone()
    }

    /// Discovers again, unless that was done a moment ago.
    pub async fn rediscover(&self) -> Result<Arc<Kinds>, CallError> {
        {
            let inner = self.inner.lock();
            if inner.discovered.is_some_and(|at| at.elapsed() < DISCOVER_EVERY) {
                return Ok(inner.kinds.clone());
            }
        }
        self.discover().await
    }

    /// Discovers again.
    pub async fn discover(&self) -> Result<Arc<Kinds>, CallError> {
        let kinds = Arc::new(plausible(
            self.ask("discover", self.call_within(), Kinds::discover(&self.client)).await?,
        )?);
        self.take(kinds.clone());
        Ok(kinds)
    }

    fn take(&self, kinds: Arc<Kinds>) {
        self.records.facts.set_kinds(kinds.clone());
        let mut inner = self.inner.lock();
        inner.absent.retain(&kinds);
        inner.kinds = kinds;
        inner.discovered = Some(Instant::now());
    }

    /// A call that makes this object for its owner was not answered: it may have been sent all the same.
    pub fn note_landing(&self, owner: &OwnerHash, key: &ObjectKey) {
        self.late_creates.note(owner, key);
    }

    /// Whether an object that is not there may still be made by a call of before, as this owner's.
    pub fn may_appear(&self, owner: &OwnerHash, key: &ObjectKey) -> bool {
        self.late_creates.may_appear(owner, key)
    }

    /// How long what the process that led before this one had sent may still take effect here; `None`: it does not.
    pub fn former_land_in(&self) -> Option<Duration> {
        self.deps.late.as_ref()?.former_land_in()
    }

    /// Whether a kind that was just not discovered is gone for good: it must have been missing for a while.
    pub fn is_gone_for_good(&self, gvk: &Gvk) -> bool {
        self.inner.lock().absent.is_gone_for_good(gvk)
    }

    /// One call: when the member takes any, within its budget and the deadline, counted, its failure classified and
    /// cleared of what may not be told of such objects, and a lack of answers makes the health check
    /// ask at once (the circuit breaker: `health_check`).
    ///
    /// On the heap: it is large, and lies within all that leads to it.
    pub fn call<T>(
        &self,
        token: &Token<'_>,
        verb: &'static str,
        about: About<'_>,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        let late = self.deps.late.as_ref().filter(|_| matches!(about.does, Does::Writes(_)));
        let call = async move {
            let told = async {
                let answer = call.await;
                answer.map_err(|error| CallError::about(error, about, &self.settings().redact))
            };
            match late {
                Some(late) => late.send(told).await,
                None => told.await,
            }
        };
        self.counted(verb, self.call_within(), Box::pin(call), Some(token), |error| error)
    }

    /// A page of a list, under the same rules; its own errors are told as they are.
    pub fn page<T>(
        &self,
        token: &Token<'_>,
        page: impl Future<Output = Result<T, CallError>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        self.counted("list", self.call_within(), Box::pin(page), Some(token), |error| error)
    }

    /// The settings that hold now.
    pub fn settings(&self) -> Arc<DynamicSettings> {
        self.deps.tuning.now()
    }

    /// How long a call may take, all stages together.
    fn call_within(&self) -> Duration {
        self.deps.tuning.now().apply_timeout
    }

    /// A call about the member itself, and no object that anybody declares.
    fn ask<T>(
        &self,
        verb: &'static str,
        within: Duration,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        self.counted(verb, within, Box::pin(call), None, CallError::from)
    }

    async fn counted<T, E>(
        &self,
        verb: &'static str,
        within: Duration,
        call: impl Future<Output = Result<T, E>>,
        token: Option<&Token<'_>>,
        telling: impl FnOnce(E) -> CallError,
    ) -> Result<T, CallError> {
        // The hub ends a session itself: that says nothing of the member, and is no failure of what was asked.
        let closed = || match mutants::is(Mutant::CutIsNoAnswer) {
            true => CallError { class: Class::Transport, message: "the session has ended".into() },
            false => Withdrawn::Ended.into(),
        };
        // `Err`: nothing was sent.
        let answered = async {
            // What is not wanted any more takes nobody's turn.
            token.map_or(Ok(()), Token::check)?;
            let _permit = self.permit().await?;
            // Much may have changed while others had theirs.
            token.map_or(Ok(()), Token::check)?;
            Ok(match tokio::time::timeout(within, call).await {
                Ok(answer) => answer.map_err(telling),
                Err(_) => Err(CallError::deadline(within)),
            })
        };
        let answer = match self.stop.run_until_cancelled(answered).await {
            Some(Ok(answer)) => answer,
            Some(Err(unsent)) => return Err(unsent),
            None => Err(closed()),
        };
        if answer.as_ref().is_err_and(|error| error.class == Class::Withdrawn) {
            return answer;
        }
        let outcome = answer.as_ref().err().map_or("ok", CallError::outcome);
        self.counters.called(verb, outcome);
        self.note_failure(answer.as_ref().err());
        answer
    }

    /// Leave for one call: the member does not ask to be left alone, and its budget has room.
    async fn permit(&self) -> Result<Permit<'_>, CallError> {
        let most = Instant::now() + pace::LONGEST;
        loop {
            let goes_anyway = self.pace.pass(most).await?;
            let permit = self.budget.permit().await.map_err(|_| Withdrawn::Ended)?;
            // It may ask for it while this one waits for others.
            if goes_anyway || self.pace.asks(Instant::now() + pace::LONGEST).is_none() {
                return Ok(permit);
            }
        }
    }

    /// A call that is not answered, or by whom is not known, asks for a probe at once.
    fn note_failure(&self, error: Option<&CallError>) {
        match error {
            Some(error) if error.is_transport() => self.doubt.raise(),
            Some(CallError { class: Class::Unauthenticated, .. }) => self.probe_now.notify_one(),
            _ => {}
        }
    }

    /// Makes targets look again after a fold, except the one that caused it, if any did: it knows.
    pub fn wake(&self, targets: Vec<TargetKey>, cause: Option<&OwnerHash>) {
        let own = cause.and_then(|cause| self.records.target_of(cause));
        for target in targets.into_iter().filter(|target| Some(target) != own.as_ref()) {
            self.deps.queue.add(Key::Target(target), Priority::Event);
        }
    }

    async fn run(self: Arc<Self>) {
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
            let live = self.settings();
            let asked = Instant::now();
            let ends = asked + live.probe_timeout;
            let is_due = asked >= version_due && !mutants::is(Mutant::VersionOnce);
            let asks_version = is_due && self.pace.asks(ends).is_none();
            if asks_version {
                version_due = asked + VERSION_EVERY;
            }
            let probe = async {
                self.probe(ends, live.probe_timeout).await?;
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
                Err(error) if misses >= live.probe_misses => return error,
                _ => {}
            }
        }
    }

    /// The uid of the Namespace kube-system, by which a cluster is known; empty where it names none.
    async fn system_uid(&self) -> Result<String, kube::Error> {
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
fn plausible(kinds: Kinds) -> Result<Kinds, CallError> {
    if kinds.get(&Gvk::new("", "v1", "Namespace")).is_some() || mutants::is(Mutant::AnyDiscovery) {
        return Ok(kinds);
    }
    let message = "its aggregated discovery shows not even Namespaces; it must be of Kubernetes 1.27 or newer, and nothing between may drop the Accept header".to_owned();
    Err(CallError { class: Class::Server, message })
}

/// An object's uid as API servers give them out.
pub(super) fn is_proper_uid(uid: &str) -> bool {
    (1..=UID_MAX).contains(&uid.len()) && uid.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What kube-system's uid must look like to say which cluster it is.
fn proper_uid(uid: String) -> Result<String, CallError> {
    if is_proper_uid(&uid) || mutants::is(Mutant::AnyUid) {
        return Ok(uid);
    }
    let message = format!("its Namespace kube-system has no proper uid (1 to {UID_MAX} visible characters)");
    Err(CallError { class: Class::Server, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_that_is_none_is_no_identity() {
        assert!(proper_uid("0b2f-11".to_owned()).is_ok_and(|uid| uid == "0b2f-11"));
        for uid in ["", "a b", "a\n", "ü", &"x".repeat(UID_MAX + 1)] {
            assert!(proper_uid(uid.to_owned()).is_err_and(|error| error.class == Class::Server), "{uid:?}");
        }
    }

    #[test]
    fn a_discovery_that_shows_nothing_is_an_error() {
        assert!(plausible(Kinds::default()).is_err_and(|error| error.class == Class::Server));
    }
}
