//! One session for each member: its client, what it serves, its informers and records, and its health check.
//!
//! A session writes nothing until the cluster loop has accepted the identity that it found. When it loses
//! the member it finds out again who answers before it goes on.

mod health_check;
mod state;

use std::{sync::Arc, time::Duration};

use kube::Client;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;
use vidra_api::names::OwnerHash;
use vidra_core::{
    drift::{About, Does},
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    render::HashKey,
};

pub use self::{
    health_check::is_proper_uid,
    state::{Answering, CallErrorNote, Readiness, State},
};

use self::{
    health_check::{plausible, proper_uid},
    state::Contact,
};
use super::{
    absent::Absent,
    claims::Claims,
    doubt::Doubt,
    fence::{Epoch, Fence},
    informers::Informers,
    kinds::Kinds,
    late_creates::LateCreates,
    namespaces::Namespaces,
    records::{LaterGenerations, Records, Secrecy},
    session_deps::SessionDeps,
};
use crate::{
    base::{
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

/// Discovery is asked for again, for a kind that is not known, at most this often.
const DISCOVER_EVERY: Duration = Duration::from_secs(1);

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
        let records = Records::new(deps.hub.clone(), secrecy, deps.health.clone(), deps.interned.clone());
        let records = Arc::new(records.counting(deps.value_bytes.clone()));
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

    /// Runs it until [`Session::end`]. To be called once, and where its targets find it: it wakes them when it has an
    /// answer.
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
    pub fn epoch(&self) -> Option<Epoch> {
        let inner = self.inner.lock();
        let is_sure = matches!(inner.state, State::Open(_)) && !self.doubt.is_open();
        is_sure.then(|| Epoch { opened: inner.epoch, doubts: self.doubt.count() })
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
    pub async fn readiness(&self, fence: &Fence<'_>) -> Result<Readiness, CallError> {
        let request = http::Request::get("/readyz").body(Vec::new());
        let request =
            request.map_err(|error| CallError { class: Class::Invalid, message: error.to_string() })?;
        let about = About { group: "", kind: "Namespace", does: Does::Reads };
        match self.call(fence, "ready", about, self.client.request_text(request)).await {
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
    pub async fn confirm(&self, fence: &Fence<'_>) -> Result<(), CallError> {
        if mutants::is(Mutant::AbsenceUnconfirmed) {
            return Ok(());
        }
        let about = About { group: "", kind: "Namespace", does: Does::Reads };
        let uid = proper_uid(self.call(fence, "get", about, self.system_uid()).await?)?;
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
    pub fn note_late_create(&self, owner: &OwnerHash, key: &ObjectKey) {
        self.late_creates.note(owner, key);
    }

    /// Whether an object that is not there may still be made by an earlier call, as this owner's.
    pub fn may_appear(&self, owner: &OwnerHash, key: &ObjectKey) -> bool {
        self.late_creates.may_appear(owner, key)
    }

    /// How long what the process that led before this one had sent may still take effect here; `None`: it does not.
    pub fn former_writes_left(&self) -> Option<Duration> {
        self.deps.late.as_ref()?.former_writes_left()
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
        fence: &Fence<'_>,
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
        self.counted(verb, self.call_within(), Box::pin(call), Some(fence))
    }

    /// A page of a list, under the same rules; its own errors are told as they are.
    pub fn page<T>(
        &self,
        fence: &Fence<'_>,
        page: impl Future<Output = Result<T, CallError>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        self.counted("list", self.call_within(), Box::pin(page), Some(fence))
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
        self.counted(verb, within, Box::pin(async move { Ok(call.await?) }), None)
    }

    async fn counted<T>(
        &self,
        verb: &'static str,
        within: Duration,
        call: impl Future<Output = Result<T, CallError>>,
        fence: Option<&Fence<'_>>,
    ) -> Result<T, CallError> {
        // The hub ends a session itself: that says nothing of the member, and is no failure of what was asked.
        let closed = || match mutants::is(Mutant::CutIsNoAnswer) {
            true => CallError { class: Class::Transport, message: "the session has ended".into() },
            false => Withdrawn::Ended.into(),
        };
        // `Err`: nothing was sent.
        let answered = async {
            // What is not wanted any more takes nobody's turn.
            fence.map_or(Ok(()), Fence::check)?;
            let _permit = self.permit().await?;
            // Much may have changed while others had theirs.
            fence.map_or(Ok(()), Fence::check)?;
            Ok(tokio::time::timeout(within, call).await.unwrap_or_else(|_| Err(CallError::deadline(within))))
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
}
