//! What drifts while a pass waits for its repairs is repaired by the same pass. A hundred edits at once keep the member
//! busy: the repair of the first is answered behind the last of them, and only then could another pass begin.

use std::{collections::BTreeSet, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use kube::ResourceExt;
use tokio::time::{Instant, sleep};
use vidra_api::DriftPolicy;
use vidra_core::{
    object::ObjectKey,
    plan::{Action, Effect, Plan},
};

use super::{
    Pass,
    look::{Look, Scene},
};
use crate::{hub::inventory::Inventory, queue::Key};

/// What comes within this is looked at together: a look costs a millisecond for some hundred objects.
const GATHER: Duration = Duration::from_millis(5);
/// A pass that has gone on for so long ends when its repairs are answered: its status is waited for.
const MOST: Duration = Duration::from_secs(1);

/// A pass that repairs, and looks again as long as it does.
pub(super) struct Lately<'a> {
    pass: &'a Pass<'a>,
    scene: &'a Scene<'a>,
    key: Key,
    /// What the newest look has seen of what arrived.
    known: u32,
    until: Instant,
    /// What was taken up: no object is, twice.
    taken: BTreeSet<ObjectKey>,
    /// All looks together.
    look: &'a mut Look,
}

impl<'a> Lately<'a> {
    /// Of a pass whose first look this was, and led to this plan.
    pub(super) fn new(pass: &'a Pass<'a>, scene: &'a Scene<'a>, plan: &Plan, look: &'a mut Look) -> Self {
        let key = Key::Target(pass.key.clone());
        let taken = plan.stages.iter().flatten().map(|effect| effect.key.clone()).collect();
        Self { pass, scene, key, known: 0, until: Instant::now() + MOST, taken, look }
    }

    /// Is a stage one in which drift is repaired, and nothing else is done? What a delivery does comes back as
    /// events, and is no drift.
    pub(super) fn suits(&self, stage: &[Effect]) -> bool {
        let policy = self.pass.target.spec.drift.policy;
        policy == DriftPolicy::Correct && self.scene.delivered && stage.iter().all(is_repair)
    }

    /// Returns when there is something to look at.
    pub(super) fn news(&self) -> BoxFuture<'a, ()> {
        let (queue, key, known) = (&self.pass.hub.queue, self.key.clone(), self.known);
        let news = async move {
            queue.more_arrivals(&key, known).await;
            sleep(GATHER).await;
        };
        news.boxed()
    }

    /// Looks again; what is to be repaired beside what is under way, in the same stage.
    pub(super) async fn more(&mut self, inventory: &mut Inventory) -> Vec<Effect> {
        // Taken before the look: what arrives during it may be missed by it.
        self.known = self.pass.hub.queue.arrivals(&self.key);
        if !self.is_meant() {
            return Vec::new();
        }
        let look = self.pass.look(self.scene, &self.scene.live(), inventory).await;
        let mut stages = look.plan.stages.into_iter();
        let stage = stages.next().filter(|stage| {
            // Of an earlier stage, or a later one, the next pass takes care.
            stage.iter().any(|effect| self.taken.contains(&effect.key))
        });
        if look.behind.is_some() || look.plan.intent.is_some() {
            return Vec::new();
        }
        let more: Vec<_> = stage
            .into_iter()
            .flatten()
            .filter(|effect| is_repair(effect) && self.taken.insert(effect.key.clone()))
            .collect();
        let is_new = |key: &ObjectKey| more.iter().any(|effect| effect.key == *key);
        self.look.found.join(look.found, is_new);
        self.look.suspects.join(look.suspects);
        more
    }

    /// Nobody has changed what this pass goes by, and it has not gone on for too long.
    fn is_meant(&self) -> bool {
        let Pass { hub, key, target } = *self.pass;
        let now = hub.catalog.target(key);
        let same = now.is_some_and(|now| {
            now.metadata.generation == target.metadata.generation && now.uid() == target.uid()
        });
        let rests = hub.catalog.member(&key.cluster).is_none_or(|member| member.spec.suspend);
        same && !rests && self.scene.session.is_open() && Instant::now() < self.until
    }
}

/// Undoes drift, of an object that the inventory has.
fn is_repair(effect: &Effect) -> bool {
    matches!(effect.action, Action::Apply { why, .. } if why.is_drift())
}
