//! What drifts while a reconcile waits for its repairs, or writes what it did, is repaired by the same one. A hundred edits
//! at once keep the member busy: the repair of the first is answered behind the last of them, and only then could another
//! reconcile begin.

use std::{collections::BTreeSet, mem, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep_until};
use vidra_api::DriftPolicy;
use vidra_core::{
    object::ObjectKey,
    plan::{Action, Effect, Inventory, Plan},
    render::Stage,
};

use super::{
    contention::DriftCauses,
    drift::Suspects,
    observe::{Scope, observe},
    plan::{TargetPlan, plan},
};
use crate::{member::fence::Fence, workqueue::Key};

/// So long after an observation that led to a repair comes the next: more is likely to come.
const GATHER: Duration = Duration::from_millis(5);
/// And so long after one that found nothing.
const BREATH: Duration = Duration::from_millis(1);
/// After this nothing more is taken up beside calls: the status is waited for.
const MOST: Duration = Duration::from_secs(1);

/// Repairs of a reconcile, which observes again as long as it has some.
pub(super) struct ConcurrentRepair<'a> {
    scope: &'a Scope<'a>,
    fence: &'a Fence<'a>,
    key: Key,
    /// What the newest observation has seen of what arrived.
    known: u32,
    /// Not before this is looked again.
    next: Instant,
    until: Instant,
    /// What was taken up since it was last handed over: no object is, twice, for contention would not be told.
    taken: BTreeSet<ObjectKey>,
    /// The wave and stage of the calls under way.
    turn: Option<Turn>,
    causes: DriftCauses,
    suspects: Suspects,
}

/// What a reconcile is waiting for.
#[derive(Clone, Copy)]
pub(super) struct UnderWay {
    /// Calls to the member.
    pub(super) calls: bool,
    /// What it tells the hub.
    pub(super) writes: bool,
}

/// A wave, and a stage of it: what is of one turn may be sent side by side.
type Turn = (i32, Stage);

impl<'a> ConcurrentRepair<'a> {
    /// Of a reconcile whose first observation led to this plan.
    pub(super) fn new(scope: &'a Scope<'a>, fence: &'a Fence<'a>, plan: &Plan) -> Self {
        let (key, now) = (Key::Target(scope.ctx.key.clone()), Instant::now());
        let taken = plan.stages.iter().flatten().map(|effect| effect.key.clone()).collect();
        let (causes, suspects) = (DriftCauses::default(), Suspects::default());
        let next = now + if plan.stages.is_empty() { BREATH } else { GATHER };
        Self { scope, fence, key, known: 0, next, until: now + MOST, taken, turn: None, causes, suspects }
    }

    /// A stage begins. Is it one in which drift is repaired, and nothing else is done? What a delivery does comes back as
    /// events, and is no drift.
    pub(super) fn begin(&mut self, stage: &[Effect]) -> bool {
        self.turn = stage.first().and_then(|effect| self.turn(effect));
        let policy = self.scope.ctx.target.spec.drift.policy;
        policy == DriftPolicy::Correct && self.scope.delivered && stage.iter().all(is_repair)
    }

    /// Returns when there is something to observe.
    pub(super) fn news(&self) -> BoxFuture<'a, ()> {
        let (queue, key, known) = (&self.scope.ctx.hub.queue, self.key.clone(), self.known);
        let next = self.next;
        let news = async move {
            queue.more_arrivals(&key, known).await;
            // A timer takes a moment though its time is over.
            if Instant::now() < next {
                sleep_until(next).await;
            }
        };
        news.boxed()
    }

    /// Observes again; what is to be repaired beside the calls under way, in the same turn. Where there are none, the first
    /// turn that has something to repair.
    pub(super) async fn more(&mut self, under_way: UnderWay, inventory: &mut Inventory) -> Vec<Effect> {
        // Taken before the observation: what arrives during it may be missed by it.
        self.known = self.scope.ctx.hub.queue.arrivals(&self.key);
        self.next = Instant::now() + BREATH;
        if self.fence.check().is_err() || !(under_way.writes || Instant::now() < self.until) {
            return Vec::new();
        }
        let observation = observe(self.scope, self.scope.live(), inventory).await;
        let newer = plan(self.scope, observation, inventory);
        if newer.behind.is_some() || newer.effects.intent.is_some() {
            return Vec::new();
        }
        let first = newer.effects.stages.into_iter().next().unwrap_or_default();
        let turn = first.first().and_then(|effect| self.turn(effect));
        // Of an earlier turn, or a later one, the next reconcile takes care.
        if under_way.calls && turn != self.turn {
            return Vec::new();
        }
        let repairs = first.into_iter().filter(is_repair);
        let more: Vec<_> = repairs.filter(|effect| self.taken.insert(effect.key.clone())).collect();
        if !more.is_empty() {
            self.next = Instant::now() + GATHER;
            self.turn = turn;
        }
        let is_new = |key: &ObjectKey| more.iter().any(|effect| effect.key == *key);
        self.causes.join(newer.causes, is_new);
        self.suspects.join(newer.suspects);
        more
    }

    /// What the later plans found goes to the first. Nothing is under way.
    pub(super) fn hand_over(&mut self, first: &mut TargetPlan) {
        self.taken.clear();
        self.until = Instant::now() + MOST;
        first.causes.join(mem::take(&mut self.causes), |_| true);
        first.suspects.join(mem::take(&mut self.suspects));
    }

    fn turn(&self, effect: &Effect) -> Option<Turn> {
        let want = self.scope.desired.wants.get(&effect.key)?;
        Some((want.directives.wave, want.stage))
    }
}

/// Undoes drift, of an object that the inventory has.
fn is_repair(effect: &Effect) -> bool {
    matches!(effect.action, Action::Apply { why, .. } if why.is_drift())
}
