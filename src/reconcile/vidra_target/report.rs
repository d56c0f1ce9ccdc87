//! What a pass tells: the VidraTarget's status, coalesced, and Events.

use std::collections::BTreeMap;

use vidra_api::{
    DriftPolicy, TargetState, VidraTarget, VidraTargetStatus, names::OwnerHash, target::Desired as Wish,
};
use vidra_core::{
    health::HealthStatus,
    object::ObjectKey,
    plan::Inventory,
    status::{Delivery, HEALTH_CHECK_TIMEOUT, TargetFacts, Unready, is_torn_down, left, target_status},
};

use super::{Pass, outcome::Settled, result::Report};
use crate::{
    base::error::CallError,
    desired::Desired,
    hub::{
        events::{self, One, Saying, Severity},
        inventory,
    },
    member::{records::Seen, session::Session},
    queue::{Key, Verdict},
    reconcile::lean,
};

impl Pass<'_> {
    /// Writes the status, if it says something new and may be written now.
    pub(super) async fn conclude(
        &self,
        delivery: Delivery,
        desired: &Desired,
        session: Option<&Session>,
        report: &Report,
    ) -> Result<Verdict, CallError> {
        let queue_key = Key::Target(self.key.clone());
        self.count_corrections(report);
        self.note_looked(&delivery);
        // The newest: an answer may have been folded since the pass began.
        let target = self.hub.catalog.target(self.key);
        let target = target.as_deref().unwrap_or(self.target);
        let told = lean::told(self.hub, &queue_key, target.status.as_ref());
        let none = VidraTargetStatus::default();
        let before = told.as_ref().unwrap_or(&none);
        let facts = self.facts(delivery, desired, session, report, before);
        let mut status = target_status(before, &facts);
        self.cover(&mut status.changes);
        let late_in = status.progress.as_ref().and_then(|progress| left(progress, facts.timeout, &facts.now));
        // Where more has arrived another pass comes at once, and may have more to tell. A delivery's end waits for nobody.
        let is_end = (before.state, &before.revision) != (status.state, &status.revision);
        let waits =
            || !is_end && self.hub.queue.arrivals(&queue_key) > 0 && self.hub.can_wait(&queue_key).is_some();
        if told.as_ref() != Some(&status) && !waits() && self.hub.status_is_due(&queue_key, false) {
            self.tell(before, &status);
            self.write_status(target, status).await?;
            self.hub.memo.lock().made.remove(self.key);
            self.forget_corrections(facts.corrected);
        }
        // When it is late, nothing else tells.
        let interval = self.interval();
        let late_in = late_in.filter(|left| !left.is_zero());
        Ok(Verdict::Done(Some(late_in.map_or(interval, |left| left.min(interval)))))
    }

    /// What the status is made from. `before`: what it says now.
    fn facts(
        &self,
        delivery: Delivery,
        desired: &Desired,
        session: Option<&Session>,
        report: &Report,
        before: &VidraTargetStatus,
    ) -> TargetFacts<'_> {
        let chunks = self.hub.catalog.inventory(self.key);
        let unwritten = report.unwritten.as_ref();
        let known = |special: &dyn Fn(&ObjectKey) -> bool| match unwritten {
            Some(inventory) => inventory::chosen(inventory, special),
            None => inventory::part(&chunks, special),
        };
        let settled = Settled::of(&desired.wants, known);
        let (ready, unready) = session
            .map_or_else(Default::default, |session| self.healths(session, desired, &settled, report, known));
        let leaving = self.target.spec.desired != Wish::Present;
        // What is known to be there, not what is wanted.
        let objects = unwritten.map_or_else(|| inventory::known(&chunks), inventory::identified) as i64;
        // Locked here: within the literal below a lock would be held until its end.
        let contention = self.contention();
        let undone = self.hub.memo.lock().mended.get(self.key).cloned().unwrap_or_default();
        let corrected = self.hub.memo.lock().corrections.get(self.key).copied().unwrap_or(0);
        TargetFacts {
            generation: self.target.metadata.generation.unwrap_or_default(),
            revision: &self.target.spec.revision,
            namespace: &self.target.spec.namespace,
            overrides: self.target.spec.overrides.as_ref(),
            recalls: self.target.spec.recalls,
            leaving,
            delivery,
            objects,
            ready,
            found: (self.target.spec.drift.policy != DriftPolicy::Ignore).then(|| report.found.clone()),
            undone,
            changes_max: self.hub.knobs.changes,
            contention,
            unready,
            // While something cannot be seen, what was known stands.
            removing: if report.compared { report.removing.clone() } else { before.removing.clone() },
            corrected,
            compared: report.compared,
            unserved: !desired.unresolved.is_empty(),
            applied_generation: report.applied_generation.max(self.target.spec.generation),
            awaited: report.awaited,
            timeout: self.timeout(),
            now: self.hub.clock.time(),
        }
    }

    /// Writes a status, without its lists where the whole is not taken.
    async fn write_status(&self, target: &VidraTarget, status: VidraTargetStatus) -> Result<(), CallError> {
        let put = |status| self.hub.api.target_status(target, status);
        let key = Key::Target(self.key.clone());
        if let Some(error) = lean::put(self.hub, &key, target.status.as_ref(), status, put).await? {
            let object = format!("VidraTarget {}", self.key.target_name());
            let message = lean::shortened(&object, &self.key.resource_key(), &error);
            self.say(Severity::Warning, lean::STATUS_SHORTENED, &message);
        }
        Ok(())
    }

    /// How many of the target's objects are healthy, and which declared ones are not. `known` gives a part of the inventory.
    fn healths(
        &self,
        session: &Session,
        desired: &Desired,
        settled: &Settled,
        report: &Report,
        known: impl Fn(&dyn Fn(&ObjectKey) -> bool) -> Inventory,
    ) -> (i64, Unready) {
        let owner = OwnerHash::new(&self.hub.identity.hub, &self.key.namespace, &self.key.resource);
        let (mut ready, mut unready, mut unproved) = (0, Unready::default(), BTreeMap::new());
        let declared = |key: &ObjectKey| desired.objects.get(key).map(|declared| &declared.body);
        session.records.healths(&owner, desired.objects.keys(), |key, seen| match seen {
            _ if report.gone.contains(key) => unready.add_left(key),
            Some(Seen { health, note, uid, proof }) => {
                match declared(key).map_or(health, |body| health.declared(body)) {
                    HealthStatus::Current if proof => ready += 1,
                    HealthStatus::Current => drop(unproved.insert(key.clone(), uid.clone())),
                    health => unready.add(key, health, note),
                }
            }
            None if settled.all.contains(key) => ready += i64::from(settled.known.contains(key)),
            // What was not looked for may be there all the same.
            None if report.left.contains(key) || !report.compared => {}
            None => unready.add_missing(key),
        });
        // Somebody else's object in its place is none of the target's.
        if !unproved.is_empty() {
            let held = known(&|key| unproved.contains_key(key));
            ready += held.iter().filter(|(key, held)| unproved.get(key) == Some(&held.uid)).count() as i64;
        }
        (ready, unready)
    }

    /// What it needs of the member is known from here on.
    fn note_looked(&self, delivery: &Delivery) {
        if !matches!(delivery, Delivery::Unreachable { .. })
            && let Some(session) = self.hub.session(&self.key.cluster)
        {
            session.informers.looked(self.key);
        }
    }

    /// They are told with the next status.
    pub(super) fn count_corrections(&self, report: &Report) {
        if report.corrected > 0 {
            *self.hub.memo.lock().corrections.entry(self.key.clone()).or_default() += report.corrected;
        }
        self.hub.memo.lock().note_mended(self.key, &report.mended);
    }

    fn forget_corrections(&self, written: i64) {
        let mut memo = self.hub.memo.lock();
        memo.mended.remove(self.key);
        if let Some(count) = memo.corrections.get_mut(self.key) {
            *count -= written;
            if *count <= 0 {
                memo.corrections.remove(self.key);
            }
        }
    }

    fn tell(&self, before: &VidraTargetStatus, now: &VidraTargetStatus) {
        if before.state == now.state {
            return;
        }
        let saying = match now.state {
            Some(TargetState::Ready) => events::READY,
            Some(TargetState::Unknown) => Saying::amiss("TargetUnknown"),
            Some(TargetState::Failed) if now.reason.as_deref() == Some(HEALTH_CHECK_TIMEOUT) => {
                Saying::amiss(HEALTH_CHECK_TIMEOUT)
            }
            _ => return,
        };
        let message = now.message.as_deref().unwrap_or_default();
        self.gather_one(saying, One { cluster: &self.key.cluster, object: "", by: &[], message });
    }

    pub(super) fn say(&self, severity: Severity, reason: &str, note: &str) {
        if let Some(resource) = self.hub.catalog.resource(&self.key.resource_key()) {
            self.hub.events.say(resource.as_ref(), severity, reason, note);
        }
    }
}

pub(super) fn is_done(target: &VidraTarget) -> bool {
    let generation = target.metadata.generation.unwrap_or_default();
    target.status.as_ref().is_some_and(|status| is_torn_down(status, generation))
}
