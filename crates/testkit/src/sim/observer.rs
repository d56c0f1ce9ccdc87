//! Sees each call before it has an effect and after: writes the trace, delays, cuts a life of the hub off, and
//! hands what happened to the judge.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::Notify, time::Instant};

use memkube::{Backup, Call, Changed, Cluster, Fault, Verb, WatchFault};

use super::{
    crash::BLIND,
    index::Key,
    judge::{Judge, clouds::LATE_MOST, is_write, uid},
    marks,
    strike::strike,
    trouble::{Between, Crash, Effect, Lost, Stale, fault, late_effect},
};

/// What is asked of a member again and again, so as to know who answers.
const PROBE: &str = "/api/v1/namespaces/kube-system";

/// The hub's users are named so, and numbered.
pub const HUB_USER: &str = "vidra-hub-";
/// The hub's id.
pub const HUB_ID: &str = "sim";
/// The users of another hub that a world may have, likewise.
pub const OTHER_USER: &str = "other-hub-";
/// That one's id, which begins as the first one's does.
pub const OTHER_ID: &str = "sim-2";
/// How long the hub may need to see clearly again after a fault: pauses of watches grow to a minute, and one
/// that was refused begins another.
pub const CLEARS_WITHIN: Duration = Duration::from_secs(150);

/// What of the hub's cluster the judge follows: what others depend on comes first.
const FOLLOWED: [(&str, &str); 6] = [
    ("", "configmaps"),
    ("", "secrets"),
    (vidra_api::GROUP, "memberclusters"),
    (vidra_api::GROUP, "vidraresources"),
    (vidra_api::GROUP, "vidratargets"),
    (vidra_api::GROUP, "vidrainventories"),
];

/// The last write of a life lands so long after it.
const LANDS: Duration = Duration::from_secs(3);

/// All clusters of a world.
#[derive(Clone)]
pub struct Clusters {
    /// The hub's.
    pub hub: Cluster,
    /// Members by name.
    pub members: BTreeMap<String, Cluster>,
}

impl Clusters {
    /// The hub's, and the members.
    pub fn all(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.hub).chain(self.members.values())
    }
}

/// One call of the hub.
#[derive(Clone, Debug)]
pub struct Seen {
    /// On the simulated clock, since the world began.
    pub at: Duration,
    /// The call; its status is not known yet.
    pub call: Call,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { at, call } = self;
        let dry = if call.dry_run { " (dry run)" } else { "" };
        write!(f, "{:10.3} {} {} {} {}{dry}", at.as_secs_f64(), call.user, call.cluster, call.verb, call.path)
    }
}

impl Seen {
    /// A probe, with the version beside it now and then, or a watch: goes on for ever and changes nothing. So does the
    /// Lease's renewal.
    pub fn is_idle(&self) -> bool {
        let is_probe = matches!(&*self.call.path, PROBE | "/version");
        self.call.verb == Verb::Watch || is_probe || self.call.resource == "leases"
    }

    /// The Secret of a revision that nobody has had for ten minutes goes, and nothing else with it.
    pub fn ends_a_revision(&self) -> bool {
        self.call.verb == Verb::Delete && self.call.resource == "secrets"
    }

    /// It may change something.
    pub fn is_write(&self) -> bool {
        is_write(&self.call) && self.call.resource != "leases"
    }
}

/// Sees each call, disturbs it, and has it judged.
pub struct Observer {
    clusters: Clusters,
    began: Instant,
    state: Mutex<State>,
    crashed: Notify,
    blinded: Notify,
}

#[derive(Default)]
struct State {
    trace: Vec<Seen>,
    armed: Option<usize>,
    armed_at: Option<Instant>,
    crashes: VecDeque<Crash>,
    /// How many more lives end at the first call after a write that had an effect.
    restless: usize,
    /// The life that has had its write.
    spent: Option<Arc<str>>,
    dead: BTreeSet<Arc<str>>,
    /// Nothing that this life sends arrives now.
    severed: Option<Arc<str>>,
    busy: Option<Instant>,
    judge: Judge,
    latency: Option<fastrand::Rng>,
    noise: Option<fastrand::Rng>,
    /// Some writes land seconds later, whoever waits for them.
    landing: Option<fastrand::Rng>,
    /// When the hub's API told a hub last how far it is: by a list or an event of what the hub follows.
    told: Option<Instant>,
    /// Events of the hub's watches since it was armed.
    events: usize,
    lost: Option<Lost>,
    /// The object of the event that was lost, while its next one is to be lost.
    missing: Option<String>,
    /// One event in three is lost.
    losses: Option<fastrand::Rng>,
    stale: Option<Stale>,
    /// Since when lives see the past, if they do; the revisions are those of when it was armed.
    turned_back: bool,
    views: BTreeMap<String, u64>,
    strikes: Option<fastrand::Rng>,
    /// Lists of this resource fail.
    refused: Option<&'static str>,
    /// In this cluster the hub has no right to this resource.
    forbidden: Option<(String, &'static str)>,
    /// Watches of this member are opened and say nothing.
    hushed: Option<String>,
    /// Watches of this member leave out what happens.
    lying: Option<String>,
    /// Answers in a member's place.
    between: Option<Between>,
    /// Changes of objects with this in their names are shown to whoever replays a run.
    shown: Option<String>,
}

impl State {
    /// Something that tells a hub how far its API is.
    fn note_told(&mut self, call: &Call) {
        let is_followed = |(group, plural): &(&str, &str)| call.group == *group && call.resource == *plural;
        if &*call.cluster == "hub" && FOLLOWED.iter().any(is_followed) {
            self.told = Some(Instant::now());
        }
    }

    /// An event, and what follows it in its watch, may be late: then it comes behind other watches, and behind answers.
    fn delay(&mut self, cluster: &str) -> WatchFault {
        if let Some(chance) = &mut self.noise
            && chance.u8(..20) == 0
        {
            self.judge.hold_up(cluster, Instant::now());
            return WatchFault::Delay(Duration::from_secs(chance.u64(1..LATE_MOST.as_secs())));
        }
        if let Some(chance) = &mut self.latency
            && chance.u8(..8) == 0
        {
            return WatchFault::Delay(Duration::from_millis(chance.u64(1..60)));
        }
        WatchFault::None
    }

    /// Half of the calls take milliseconds, so that those side by side end in another order.
    fn take_time(&mut self) -> Fault {
        let Some(chance) = &mut self.latency else { return Fault::None };
        if !chance.bool() {
            return Fault::None;
        }
        let time = Duration::from_millis(chance.u64(1..12));
        // An answer that is late comes behind what watches tell of its call.
        if chance.bool() { Fault::Late(time) } else { Fault::Delay(time) }
    }
}

impl Observer {
    /// Sees the calls to these clusters from now on; `latency` draws how long each takes.
    pub fn new(clusters: Clusters, latency: Option<fastrand::Rng>) -> Arc<Self> {
        let shown = std::env::var("VIDRA_SIM_OBJECT").ok();
        let state = Mutex::new(State { latency, shown, ..State::default() });
        let observer = Arc::new(Self {
            clusters,
            began: Instant::now(),
            state,
            crashed: Notify::new(),
            blinded: Notify::new(),
        });
        for cluster in observer.clusters.all() {
            let (before, after) = (observer.clone(), observer.clone());
            cluster.set_fault(Arc::new(move |call| before.before(call)));
            cluster.set_witness(Some(Arc::new(move |call, changes| after.after(call, changes))));
            let watch = observer.clone();
            cluster
                .set_watch_fault(Some(Arc::new(move |call, kind, object| watch.event(call, kind, object))));
        }
        observer
    }

    /// Ends it: without this clusters and observer would keep each other.
    pub fn end(&self) {
        for cluster in self.clusters.all() {
            cluster.clear_fault();
            cluster.set_witness(None);
            cluster.set_watch_fault(None);
        }
    }

    /// Counts the hub's calls from here, and cuts it off at these; one life for each.
    pub fn arm(&self, crashes: &[Crash]) {
        let mut state = self.state.lock();
        state.armed = Some(state.trace.len());
        state.crashes = crashes.iter().copied().collect();
        state.armed_at = Some(Instant::now());
        state.events = 0;
        state.views =
            self.clusters.all().map(|cluster| (cluster.name().to_owned(), cluster.revision())).collect();
    }

    /// Loses this event, and what a new life sees first is old.
    pub fn blind(&self, lost: Option<Lost>, stale: Option<Stale>) {
        let mut state = self.state.lock();
        (state.lost, state.stale) = (lost, stale);
    }

    /// From now on one event in three is lost; with `None` no more.
    pub fn lose_events(&self, chance: Option<fastrand::Rng>) {
        self.state.lock().losses = chance;
    }

    /// Waits until an event was lost, or a life began that sees the past.
    pub async fn blinded(&self) {
        self.blinded.notified().await;
    }

    /// All see what is so: lost events come to light by a list, and watches go on with the present.
    pub fn enlighten(&self) {
        self.state.lock().turned_back = false;
        for cluster in self.clusters.all() {
            cluster.expire_watches();
        }
    }

    /// What a member had then is what it has now; its objects are looked at again.
    pub fn restore(&self, member: &str, backup: &Backup) {
        let cluster = &self.clusters.members[member];
        cluster.restore(backup);
        let mut state = self.state.lock();
        state.judge.index.look_again(cluster, Instant::now());
        state.judge.restored(member, Instant::now());
    }

    /// What the hub's cluster had then is what it has now, while no hub runs; all that the judge follows there is looked at again.
    pub fn restore_hub(&self, backup: &Backup) {
        self.put_hub_back(backup, 0);
        let lease = self.clusters.hub.objects("coordination.k8s.io", "leases").into_iter().next();
        let holder =
            lease.map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned());
        self.state.lock().judge.holds(holder);
    }

    /// The same under a hub that runs, whose API did not answer since then; its versions go back, or rise by `bump`. A hub that
    /// the API has told nothing since the backup was `made` has lost nothing, and cannot notice.
    pub fn restore_under_the_hub(&self, (backup, made): (&Backup, Instant), bump: u64, since: Instant) {
        let changed = self.put_hub_back(backup, bump);
        let is_ours = |one: &Changed| one.group == vidra_api::GROUP;
        let mut state = self.state.lock();
        let changes = state.told.is_some_and(|at| at >= made) && changed.iter().any(is_ours);
        state.judge.goes_on(changes, since, Instant::now());
    }

    /// The hub's process has ended by itself.
    pub fn ended(&self, user: &str) {
        if user.starts_with(HUB_USER) {
            self.state.lock().judge.ended(user);
        }
    }

    /// Goes the hub by what it knew before its store was put back?
    pub fn is_unaware(&self) -> bool {
        self.state.lock().judge.is_unaware()
    }

    /// Notes that it still does so.
    pub fn breach_unaware(&self) {
        let at = self.began.elapsed().as_secs_f64();
        self.state.lock().judge.breach(format!("{at:.3}: the hub goes on though its API was restored"));
    }

    fn put_hub_back(&self, backup: &Backup, bump: u64) -> Vec<Changed> {
        let hub = &self.clusters.hub;
        let before = followed(hub);
        hub.restore_bumped(backup, bump);
        let after = followed(hub);
        let places: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let changed = places.into_iter().filter_map(|place| {
            let (old, new) = (before.get(place), after.get(place));
            let (group, plural) = FOLLOWED[place.0];
            (old != new).then(|| Changed::beside(group, plural, old.cloned(), new.cloned()))
        });
        let changed: Vec<Changed> = changed.collect();
        let (mut state, now) = (self.state.lock(), Instant::now());
        for member in self.clusters.members.keys() {
            state.judge.excuse_unknown(member, now);
        }
        state.judge.restored_hub(&changed, now);
        changed
    }

    /// What serves a group in a member does not answer from now on, or does again. What ends with that is nobody's call,
    /// and is looked at.
    pub fn set_group_available(&self, member: &str, group: &str, available: bool) {
        let cluster = &self.clusters.members[member];
        cluster.set_group_available(group, available);
        let mut state = self.state.lock();
        state.judge.silence(member, !available, Instant::now());
        state.judge.index.look_again(cluster, Instant::now());
    }

    /// Events of the hub's watches since it was armed.
    pub fn events(&self) -> usize {
        self.state.lock().events
    }

    /// From now on each life is cut off at its first call after a write that had an effect; at most so many.
    pub fn make_restless(&self, lives: usize) {
        self.state.lock().restless = lives;
    }

    /// How many lives may still end so.
    pub fn restless_left(&self) -> usize {
        self.state.lock().restless
    }

    /// From now on one call in ten fails, each in another way as chance has it; with `None` no more.
    pub fn noise(&self, chance: Option<fastrand::Rng>) {
        self.state.lock().noise = chance;
    }

    /// From now on one write in six lands up to so much later, whether its caller still waits or not; with `None` no
    /// more.
    pub fn land_later(&self, chance: Option<fastrand::Rng>) {
        self.state.lock().landing = chance;
    }

    /// From now on lists of this resource fail; with `None` no more.
    pub fn refuse(&self, resource: Option<&'static str>) {
        self.state.lock().refused = resource;
    }

    /// From now on the hub has no right to this resource in this cluster; with `None` it has all again.
    pub fn forbid(&self, what: Option<(&str, &'static str)>) {
        self.state.lock().forbidden = what.map(|(cluster, resource)| (cluster.to_owned(), resource));
    }

    /// From now on watches of this member are opened, say nothing and do not end, until they are cut; with `None` only those that
    /// were opened so.
    pub fn hush(&self, member: Option<&str>) {
        self.state.lock().hushed = member.map(str::to_owned);
    }

    /// From now on the hub's watches of this member leave out all that happens; with `None` no more.
    pub fn lie(&self, member: Option<&str>) {
        self.state.lock().lying = member.map(str::to_owned);
    }

    /// From now on somebody answers in a member's place; with `None` no more.
    pub fn stand_between(&self, between: Option<Between>) {
        self.state.lock().between = between;
    }

    /// From now on somebody is now and then a moment faster than the hub; with `None` no more.
    pub fn strikes(&self, chance: Option<fastrand::Rng>) {
        self.state.lock().strikes = chance;
    }

    /// From now on for so long, and until it has cleared, the hub may not know what is so in this cluster; in the hub's,
    /// anywhere.
    pub fn cloud(&self, cluster: &str, lasts: Duration) {
        self.state.lock().judge.cloud(cluster, Instant::now(), lasts + CLEARS_WITHIN);
    }

    /// Waits until a life was cut off.
    pub async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Crashes that were asked for and have not come.
    pub fn crashes_left(&self) -> usize {
        self.state.lock().crashes.len()
    }

    /// Nothing that this user sends from now on has an effect or an answer.
    pub fn cut_off(&self, user: &Arc<str>) {
        let mut state = self.state.lock();
        state.dead.insert(user.clone());
        state.judge.rests();
    }

    /// Nothing that this life sends arrives from now on, or with `None` everything again.
    pub fn sever(&self, user: Option<Arc<str>>) {
        self.state.lock().severed = user;
    }

    /// The hub's calls since the world began.
    pub fn whole_trace(&self) -> Vec<Seen> {
        self.state.lock().trace.clone()
    }

    /// The hub's calls since [`Observer::arm`], or all.
    pub fn trace(&self) -> Vec<Seen> {
        let state = self.state.lock();
        state.trace.get(state.armed.unwrap_or(0)..).unwrap_or_default().to_vec()
    }

    /// Those of them that count.
    pub fn traced(&self, counts: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let state = self.state.lock();
        let seen = state.trace.get(state.armed.unwrap_or(0)..).unwrap_or_default().iter();
        seen.filter(|seen| counts(seen)).cloned().collect()
    }

    /// How long the world has been.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Something was done from which the hub may have work.
    pub fn stir(&self) {
        self.state.lock().busy = Some(Instant::now());
    }

    /// How long the hub has called nothing but probes and watches.
    pub fn quiet_for(&self) -> Duration {
        self.state.lock().busy.unwrap_or(self.began).elapsed()
    }

    /// From now on the hub must not touch the object.
    pub fn guard(&self, object: &Value) {
        self.state.lock().judge.guard(uid(object));
    }

    /// Is the object guarded?
    pub fn is_foreign(&self, object: &Value) -> bool {
        self.state.lock().judge.is_foreign(uid(object))
    }

    /// A person takes an inventory of a member away, or puts the member back: that objects are in none is not the hub's fault
    /// until each is in one again.
    pub fn excuse_unknown(&self, member: &str) {
        self.state.lock().judge.excuse_unknown(member, Instant::now());
    }

    /// Is a target's inventory from a process that did not know yet that its store was put back, and nobody's?
    pub fn is_written_behind(&self, target: &str) -> bool {
        self.state.lock().judge.is_written_behind(target)
    }

    /// Notes targets that have said Ready for so long though they are not.
    pub fn judge_claims(&self, most: Duration) {
        let mut state = self.state.lock();
        for wrong in state.judge.stale_claims(Instant::now(), most) {
            let at = self.began.elapsed();
            state.judge.breach(format!("{:.3}: {wrong}", at.as_secs_f64()));
        }
    }

    /// What no status says, and what one says that is not so, when all has had time to come to rest.
    pub fn untold(&self) -> Vec<String> {
        self.state.lock().judge.untold(Instant::now())
    }

    /// Notes what is not so on a member that has been well for so long, though another is not.
    pub fn judge_core(&self, member: &str, most: Duration) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if !state.judge.is_clear(member, now, most) {
            return;
        }
        for wrong in state.judge.untold_on(member, now) {
            let at = self.began.elapsed();
            state.judge.breach(format!("{:.3}: while another member is broken: {wrong}", at.as_secs_f64()));
        }
    }

    /// Notes this where the hub has seen this member as it is for that long.
    pub fn breach_if_clear(&self, member: &str, most: Duration, what: &str) {
        let mut state = self.state.lock();
        if state.judge.is_clear(member, Instant::now(), most) {
            let at = self.began.elapsed().as_secs_f64();
            state.judge.breach(format!("{at:.3}: {what}"));
        }
    }

    /// Notes that a member counts as one that answers, though for so long only another one has answered in its place.
    pub fn judge_contact(&self, member: &str, most: Duration) {
        let mut state = self.state.lock();
        if let Some(wrong) = state.judge.counts_as_there(member, Instant::now(), most) {
            let at = self.began.elapsed();
            state.judge.breach(format!("{:.3}: {wrong}", at.as_secs_f64()));
        }
    }

    /// Notes that.
    pub fn judge_untold(&self) {
        let mut state = self.state.lock();
        for wrong in state.judge.untold(Instant::now()) {
            let at = self.began.elapsed();
            state.judge.breach(format!("{:.3}: before the nudge: {wrong}", at.as_secs_f64()));
        }
    }

    /// What in members is not as declared on the hub; empty when all is.
    pub fn differs(&self) -> Vec<String> {
        self.state.lock().judge.differs(Instant::now())
    }

    /// What targets tell of drift that is not so, and what is so and not told, when all is quiet.
    pub fn misreports(&self) -> Vec<String> {
        self.state.lock().judge.misreports(Instant::now())
    }

    /// Something that a VidraResource declares it may not join before its marks are back, and another VidraResource leaves
    /// it without them.
    pub fn waits_for_marks(&self, resource: &str) -> bool {
        self.state.lock().judge.waits_for_any_marks(resource, Instant::now())
    }

    /// Where the hub is to put something and may not: what stands there is people's, or was let go. After a
    /// restore also what came back and is not wanted; and what the hub says it cannot prove its own, once that lasts.
    pub fn in_the_way(&self, restored: bool, lasts: bool) -> Vec<Key> {
        self.state.lock().judge.in_the_way(restored, lasts, Instant::now())
    }

    /// What did not hold, in words.
    pub fn breaches(&self) -> Vec<String> {
        self.state.lock().judge.breaches()
    }

    fn before(&self, call: &Call) -> Fault {
        // Faults of calls are for the first hub; clusters fail for both.
        if call.user.starts_with(OTHER_USER) {
            return self.state.lock().take_time();
        }
        if !call.user.starts_with(HUB_USER) {
            return Fault::None;
        }
        let fault = self.fault(call);
        if !matches!(fault, Fault::None) {
            let name = format!("fault:{fault:?}");
            marks::note(name.split(['(', ' ']).next().unwrap_or_default().to_owned());
        }
        fault
    }

    fn fault(&self, call: &Call) -> Fault {
        let chance = self.state.lock().strikes.as_mut().map(fastrand::Rng::fork);
        if let (Some(mut chance), Some(member)) = (chance, self.clusters.members.get(&*call.cluster))
            && let Some(made) = strike(member, call, &mut chance)
        {
            self.guard(&made);
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.dead.contains(&call.user) || state.severed.as_ref() == Some(&call.user) {
            return Fault::Hang;
        }
        let now = Instant::now();
        state.judge.called(call, now);
        let seen = Seen { at: self.began.elapsed(), call: call.clone() };
        if !seen.is_idle() {
            state.busy = Some(now);
        }
        state.trace.push(seen);
        if state.spent.as_ref() == Some(&call.user) {
            (state.spent, state.restless) = (None, state.restless - 1);
            return self.cut(state, call, Effect::Never);
        }
        let forbidden = |(cluster, resource): &(String, &str)| {
            (cluster.as_str(), *resource) == (&*call.cluster, call.resource.as_str())
        };
        if state.forbidden.as_ref().is_some_and(forbidden) {
            return Fault::Status(403, "Forbidden");
        }
        if call.verb == Verb::Watch && state.hushed.as_deref() == Some(&*call.cluster) {
            return Fault::Silent;
        }
        let is_probe = matches!(&*call.path, PROBE | "/version");
        if let Some(fault) = state.between.as_mut().and_then(|between| between.answer(call, is_probe)) {
            return fault;
        }
        if call.verb == Verb::List && state.refused == Some(call.resource.as_str()) {
            return Fault::Status(500, "InternalError");
        }
        if state.turned_back && matches!(call.verb, Verb::List | Verb::Watch) {
            let view = state.views.get(&*call.cluster).copied().unwrap_or_default();
            match state.stale {
                Some(Stale::Members) if &*call.cluster != "hub" => return Fault::StaleReads(view),
                Some(Stale::Cache) => return Fault::Stale(view),
                _ => {}
            }
        }
        let index = state.armed.map(|armed| state.trace.len() - 1 - armed);
        if let (Some(crash), Some(index)) = (state.crashes.front().copied(), index)
            && index >= crash.call
        {
            state.crashes.pop_front();
            return self.cut(state, call, crash.effect);
        }
        if let Some(chance) = &mut state.noise
            && chance.u8(..10) == 0
        {
            return fault(chance, call.verb);
        }
        if let Some(chance) = &mut state.landing
            && is_write(call)
            && call.resource != "leases"
            && chance.u8(..6) == 0
        {
            state.judge.lands_later(call);
            return late_effect(chance);
        }
        state.take_time()
    }

    fn cut(&self, state: &mut State, call: &Call, effect: Effect) -> Fault {
        state.dead.insert(call.user.clone());
        self.crashed.notify_one();
        if state.stale.is_some() && !state.turned_back {
            state.turned_back = true;
            if let Some(armed) = state.armed_at {
                state.judge.cloud_from(armed, Instant::now(), BLIND + CLEARS_WITHIN);
            }
            self.blinded.notify_one();
        }
        match effect {
            Effect::Never => Fault::Hang,
            Effect::Done => Fault::DropAfter,
            Effect::Late => {
                state.judge.lands_later(call);
                state.judge.cloud_from(state.armed_at.unwrap_or(self.began), Instant::now(), LANDS);
                Fault::LandsLater(LANDS)
            }
        }
    }

    fn event(&self, call: &Call, kind: &str, object: &Value) -> WatchFault {
        if !call.user.starts_with(HUB_USER) || kind == "BOOKMARK" {
            return WatchFault::None;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.lying.as_deref() == Some(&*call.cluster) {
            return WatchFault::Lose;
        }
        if let Some(chance) = &mut state.losses
            && chance.u8(..3) == 0
        {
            return WatchFault::Lose;
        }
        state.note_told(call);
        let delay = state.delay(&call.cluster);
        if state.armed.is_none() {
            return delay;
        }
        let metadata = &object["metadata"];
        let object =
            format!("{} {} {} {}", call.cluster, call.resource, metadata["namespace"], metadata["name"]);
        let this = state.events;
        state.events += 1;
        if state.missing.as_ref() == Some(&object) {
            state.missing = None;
            self.blinded.notify_one();
            return WatchFault::Lose;
        }
        match state.lost {
            Some(lost) if lost.event == this => {
                state.missing = lost.next.then_some(object);
                self.blinded.notify_one();
                WatchFault::Lose
            }
            _ => delay,
        }
    }

    #[allow(clippy::print_stdout, reason = "whoever replays a run reads it")]
    fn show(&self, call: &Call, changed: &Changed) {
        let after = changed.after().map_or_else(|| "gone".to_owned(), |object| object.to_string());
        println!(
            "~~~ {:.3} {call}: {}/{} is {after}",
            self.began.elapsed().as_secs_f64(),
            changed.plural,
            changed.name
        );
    }

    fn after(&self, call: &Call, changes: &[Changed]) {
        let ours = call.user.starts_with(HUB_USER);
        if ours && &*call.cluster == "hub" && call.resource == "events" {
            let told = changes.iter().filter_map(Changed::after);
            let reasons = told.filter_map(|event| Some(event["reason"].as_str()?.to_owned()));
            reasons.for_each(|reason| marks::note(format!("event:{reason}")));
        }
        let mut state = self.state.lock();
        if let Some(part) = &state.shown {
            changes.iter().filter(|one| one.name.contains(part)).for_each(|one| self.show(call, one));
        }
        state.judge.witness(call, changes, ours, Instant::now());
        if ours && call.verb == Verb::List && call.status == 200 {
            state.note_told(call);
        }
        // Events tell people what was done; nothing follows from them.
        let effective = !changes.is_empty() && !matches!(call.resource.as_str(), "events" | "leases");
        if ours && effective && state.restless > 0 && !state.dead.contains(&call.user) {
            state.spent = Some(call.user.clone());
        }
    }
}

/// What there is of that, by its place in [`FOLLOWED`], its namespace and its name.
fn followed(hub: &Cluster) -> BTreeMap<(usize, String, String), Value> {
    let mut all = BTreeMap::new();
    for (at, (group, plural)) in FOLLOWED.into_iter().enumerate() {
        for object in hub.objects(group, plural) {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            all.insert((at, text("namespace"), text("name")), object);
        }
    }
    all
}
