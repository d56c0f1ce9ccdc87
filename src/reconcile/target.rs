//! The target loop: one pass of one (VidraResource, member cluster) pair. It gathers, lets vidra-core plan,
//! performs, and writes the inventory and the VidraTarget's status; nothing else.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use kube::core::ApiResource;
use vidra_api::{
    TargetState, VidraTarget, VidraTargetStatus,
    names::{OwnerHash, field_manager},
    target::Desired as Wish,
};
use vidra_core::{
    health::HealthStatus,
    object::Gvk,
    plan::{self, Action, Effect, Held, Plan, PlanInput, Refusal, Wait, Why},
    status::{Delivery, TargetFacts, target_status},
};

use super::{Hub, RETRY_MOST, RETRY_RARELY, after_hub_error};
use crate::{
    desired::Desired,
    hub::{
        events::Severity,
        inventory::{self, Inventory},
    },
    member::{
        effects::{Actor, Outcome, Owner},
        error::{CallError, Class},
        informers::State,
        recover,
        session::{Contact, Session},
    },
    queue::{Key, TargetKey, Verdict, jittered},
    settings::parse_interval,
};

/// Effects of one stage side by side.
const SIDE_BY_SIDE: usize = 32;
/// A removal waits for finalizers in the member: it is looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// One pass.
pub async fn reconcile(hub: &Hub, key: &TargetKey) -> Verdict {
    let Some(target) = hub.catalog.target(key) else {
        return match departed(hub, key).await {
            Ok(()) => Verdict::Done(None),
            Err(error) => after_hub_error(&Key::Target(key.clone()), &error),
        };
    };
    let pass = Pass { hub, key, target: &target };
    match pass.run().await {
        Ok(verdict) => verdict,
        Err(error) => after_hub_error(&Key::Target(key.clone()), &error),
    }
}

/// The VidraTarget is gone: what was kept for it goes too. An inventory that still holds something stays.
async fn departed(hub: &Hub, key: &TargetKey) -> Result<(), CallError> {
    if let Some(session) = hub.session(&key.cluster) {
        session.informers.release(key);
        session.records.forget(&OwnerHash::new(&hub.identity.hub, &key.namespace, &key.resource));
    }
    hub.memo.lock().corrections.remove(key);
    let chunks = hub.catalog.inventory(key);
    if !chunks.is_empty() && inventory::joined(&chunks).is_empty() {
        let writes: Vec<_> =
            chunks.keys().map(|name| inventory::ChunkWrite::Remove { name: name.clone() }).collect();
        hub.api.write_inventory(key, &writes).await?;
    }
    Ok(())
}

struct Pass<'a> {
    hub: &'a Hub,
    key: &'a TargetKey,
    target: &'a VidraTarget,
}

/// What a pass came to.
#[derive(Default)]
struct Report {
    delivery: Option<Delivery>,
    corrected: i64,
    /// Objects that differ and could not be repaired.
    drifted: i64,
    /// Objects whose effect did not succeed.
    undone: usize,
    verdict: Option<Verdict>,
}

impl Pass<'_> {
    async fn run(&self) -> Result<Verdict, CallError> {
        let spec = &self.target.spec;
        let leaving = spec.desired != Wish::Present;
        let member = self.hub.catalog.member(&self.key.cluster);
        if (spec.suspend && !leaving) || member.as_ref().is_some_and(|member| member.spec.suspend) {
            return self.conclude(Delivery::Suspended, &Desired::default(), None, &Report::default()).await;
        }
        let session = match self.open_session() {
            Ok(Some(session)) => session,
            // The first answer is awaited: what was last known stands.
            Ok(None) => return Ok(Verdict::Done(None)),
            Err(delivery) => {
                return self.conclude(delivery, &Desired::default(), None, &Report::default()).await;
            }
        };
        if leaving {
            return self.leave(&session).await;
        }
        let (desired, create_namespaces) = match self.desired(&session).await {
            Ok(desired) => desired,
            Err(delivery) => {
                self.conclude(delivery, &Desired::default(), None, &Report::default()).await?;
                return Ok(Verdict::Retry(RETRY_RARELY));
            }
        };
        self.keep(&session, &desired, create_namespaces).await
    }

    /// The session, if it may be worked with; `None` while it, or its first answer, is awaited.
    fn open_session(&self) -> Result<Option<Arc<Session>>, Delivery> {
        let cluster = &self.key.cluster;
        let Some(session) = self.hub.session(cluster) else {
            if self.hub.catalog.member(cluster).is_some() && !self.hub.memo.lock().judged.contains(&**cluster)
            {
                return Ok(None);
            }
            let reason = "NoCredentials";
            let message = format!(
                "the hub has no usable credentials for it; nothing was deleted. See `kubectl describe membercluster {cluster}`"
            );
            return Err(Delivery::Unreachable { reason, message });
        };
        match session.contact() {
            _ if session.is_open() => Ok(Some(session)),
            Contact::Down { since, error } => {
                let message = format!("out of reach since {since:.0}: {}", error.message);
                Err(Delivery::Unreachable { reason: "MemberUnreachable", message })
            }
            Contact::Connecting => Ok(None),
            Contact::Up { .. } => match session.dismissed() {
                Some(message) => Err(Delivery::Unreachable { reason: "IdentityNotConfirmed", message }),
                None => Ok(None),
            },
        }
    }

    /// Renders the revision for this member.
    async fn desired(&self, session: &Session) -> Result<(Arc<Desired>, bool), Delivery> {
        let spec = &self.target.spec;
        let failed = |error: crate::hub::revisions::RevisionError| Delivery::Failed {
            reason: "RevisionUnavailable",
            message: error.to_string(),
            stalled: true,
        };
        let resource = self.key.resource_key();
        let parsed =
            self.hub.revisions.get(&self.hub.api, &resource, &spec.revision).await.map_err(failed)?;
        let render = |kinds: &crate::member::kinds::Kinds| {
            let scope_of = |gvk: &Gvk| kinds.get(gvk).map(|(_, scope)| *scope);
            self.hub.revisions.render(&resource, &parsed, &spec.namespace, &scope_of)
        };
        let mut desired = render(&session.kinds()).map_err(failed)?;
        if !desired.unresolved.is_empty()
            && let Ok(kinds) = session.rediscover().await
        {
            desired = render(&kinds).map_err(failed)?;
        }
        Ok((desired, parsed.create_namespaces))
    }

    fn owner(&self, create_namespaces: bool) -> Owner {
        let hub = &self.hub.identity.hub;
        let (namespace, resource) = (&*self.key.namespace, &*self.key.resource);
        Owner {
            hub: hub.clone(),
            hash: OwnerHash::new(hub, namespace, resource),
            manager: field_manager(hub, namespace, resource),
            name: format!("{namespace}/{resource}"),
            generation: self.target.spec.generation,
            create_namespaces,
        }
    }

    /// Keeps the member as declared.
    async fn keep(
        &self,
        session: &Arc<Session>,
        desired: &Arc<Desired>,
        create_namespaces: bool,
    ) -> Result<Verdict, CallError> {
        let owner = self.owner(create_namespaces);
        let inventory = inventory::joined(&self.hub.catalog.inventory(self.key));
        session.records.declare(owner.hash.clone(), self.key.clone(), desired.clone());
        let blind = match self.follow(session, desired, &inventory).await {
            Some(blind) => blind,
            None => return Ok(Verdict::Done(None)),
        };
        let wants: BTreeMap<_, _> = desired
            .wants
            .iter()
            .filter(|(_, want)| !blind.contains_key(&want.gvk))
            .map(|(key, want)| (key.clone(), want.clone()))
            .collect();
        let live: BTreeMap<_, _> = wants
            .keys()
            .chain(inventory.keys())
            .filter_map(|key| Some((key.clone(), session.records.view(&owner.hash, key, desired)?)))
            .collect();
        let plan = plan::plan(&PlanInput {
            wish: plan::Wish::Present,
            wants: &wants,
            inventory: &inventory,
            live: &live,
            prune: self.target.spec.prune,
            complete: desired.unresolved.is_empty() && blind.is_empty(),
        });
        let actor = Actor { session, owner: &owner, desired };
        let mut report = self.perform(&actor, &plan, inventory).await?;
        if report.delivery.is_none() {
            report.delivery = complaint(&plan, desired, &blind);
        }
        let delivery = report.delivery.take().unwrap_or(Delivery::Applied);
        let verdict = self.conclude(delivery, desired, Some(session), &report).await?;
        Ok(report.verdict.unwrap_or(verdict))
    }

    /// Asks for the informers that this target needs. `None`: some have not listed yet, and will say so.
    /// Else the kinds that cannot be seen, and why.
    async fn follow(
        &self,
        session: &Arc<Session>,
        desired: &Desired,
        inventory: &Inventory,
    ) -> Option<BTreeMap<Gvk, String>> {
        let kinds = session.kinds();
        let declared = desired.wants.values().map(|want| want.gvk.clone());
        let held =
            inventory.iter().filter(|(key, _)| !desired.wants.contains_key(key)).filter_map(|(key, held)| {
                let gvk = Gvk::new(&key.group, &held.version, &key.kind);
                kinds.get(&gvk).map(|_| gvk.clone()).or_else(|| kinds.any_version(&gvk).map(|(gvk, _)| gvk))
            });
        let needed: BTreeMap<Gvk, ApiResource> = declared
            .chain(held)
            .filter_map(|gvk| kinds.get(&gvk).map(|(kind, _)| (gvk, kind.clone())))
            .collect();
        let on_events = self.target.spec.reconcile.on_events.unwrap_or(self.hub.settings.on_events);
        let mut blind = BTreeMap::new();
        let states = if on_events {
            session.informers.require(self.key, &needed)
        } else {
            session.informers.release(self.key);
            needed.keys().map(|gvk| (gvk.clone(), State::Failing("not watched".into()))).collect()
        };
        for (gvk, state) in states {
            match state {
                State::Synced => {}
                State::Syncing => return None,
                State::Denied(why) => {
                    blind.insert(gvk, why);
                }
                // Where no watch tells, one list does.
                State::Failing(_) => {
                    if let Some(resource) = needed.get(&gvk)
                        && let Err(error) = session.informers.list_now(&gvk, resource).await
                    {
                        blind.insert(gvk, error.message);
                    }
                }
            }
        }
        Some(blind)
    }

    /// Performs a plan: intent first, then stage by stage, removals last, and the inventory at the end.
    async fn perform(&self, actor: &Actor<'_>, plan: &Plan, held: Inventory) -> Result<Report, CallError> {
        let mut report = Report::default();
        let mut inventory = held;
        if let Some(keys) = &plan.intent {
            for key in keys {
                let version = actor.desired.wants.get(key).map(|want| want.gvk.version.to_string());
                let new = || Held { version: version.clone().unwrap_or_default(), ..Held::default() };
                inventory.entry(key.clone()).or_insert_with(new);
            }
            self.write_inventory(&inventory).await?;
        }
        for stage in &plan.stages {
            self.perform_stage(actor, stage, &mut inventory, &mut report).await;
        }
        if report.undone == 0 {
            for stage in &plan.removals {
                let before = report.undone;
                self.perform_stage(actor, stage, &mut inventory, &mut report).await;
                if report.undone > before {
                    break;
                }
            }
        }
        self.write_inventory(&inventory).await?;
        Ok(report)
    }

    async fn write_inventory(&self, inventory: &Inventory) -> Result<(), CallError> {
        let writes = inventory::writes(&self.hub.catalog.inventory(self.key), inventory);
        if writes.is_empty() {
            return Ok(());
        }
        self.hub.api.write_inventory(self.key, &writes).await
    }

    async fn perform_stage(
        &self,
        actor: &Actor<'_>,
        stage: &[Effect],
        inventory: &mut Inventory,
        report: &mut Report,
    ) {
        let effects: Vec<_> = stage.iter().map(|effect| actor.perform(effect)).collect();
        let outcomes: Vec<_> = stream::iter(effects).buffered(SIDE_BY_SIDE).collect().await;
        for (effect, outcome) in stage.iter().zip(outcomes) {
            self.account(effect, outcome, inventory, report);
        }
    }

    fn account(&self, effect: &Effect, outcome: Outcome, inventory: &mut Inventory, report: &mut Report) {
        let (key, cluster) = (&effect.key, &self.key.cluster);
        let repairs = matches!(&effect.action, Action::Apply { why: Why::Drifted | Why::Missing, .. });
        if repairs && !matches!(outcome, Outcome::Applied { .. }) {
            report.drifted += 1;
        }
        match outcome {
            Outcome::Applied { uid, corrected } => {
                let held = inventory.entry(key.clone()).or_default();
                held.version = effect.gvk.version.to_string();
                held.uid = uid;
                if corrected {
                    report.corrected += 1;
                    self.say(
                        Severity::Normal,
                        "DriftCorrected",
                        &format!("{key} on {cluster} was not as declared and was applied again"),
                    );
                }
            }
            Outcome::Gone => {
                inventory.remove(key);
            }
            Outcome::Removing => {
                report.undone += 1;
                let message = format!("waiting until {key} is gone: its finalizers run in the member");
                report.delivery.get_or_insert(Delivery::TearingDown { message });
                report.verdict.get_or_insert(Verdict::Done(Some(LOOK_AGAIN)));
            }
            Outcome::Refused { reason, message } => {
                report.undone += 1;
                self.say(Severity::Warning, reason, &format!("{cluster}: {message}"));
                report.delivery.get_or_insert(Delivery::Failed { reason, message, stalled: true });
                report.verdict.get_or_insert(Verdict::Retry(RETRY_RARELY));
            }
            Outcome::Failed(error) => {
                report.undone += 1;
                let message = failure(effect, &error);
                tracing::info!(%cluster, target = %self.key, %message, "an effect failed");
                if !error.is_transport() {
                    self.say(Severity::Warning, error.reason(), &format!("{cluster}: {message}"));
                }
                let stalled = matches!(error.class, Class::Forbidden | Class::Invalid);
                let reason = error.reason();
                // Silence is no failure of the object: the breaker finds out what it is.
                report.delivery.get_or_insert(match error.is_transport() {
                    true => Delivery::Waiting { reason, message },
                    false => Delivery::Failed { reason, message, stalled },
                });
                let most = if error.is_transient() && error.class != Class::Server {
                    RETRY_MOST
                } else {
                    RETRY_RARELY
                };
                report.verdict.get_or_insert(Verdict::Retry(most));
            }
        }
    }

    /// Deletes or lets go what the inventory holds.
    async fn leave(&self, session: &Arc<Session>) -> Result<Verdict, CallError> {
        let owner = self.owner(false);
        session.informers.release(self.key);
        let chunks = self.hub.catalog.inventory(self.key);
        let status = self.target.status.clone().unwrap_or_default();
        let desired = Desired::default();
        let mut inventory = inventory::joined(&chunks);
        if chunks.is_empty() && (status.objects > 0 || status.revision.is_some()) && !is_done(self.target) {
            // The inventory is written before the first object, so here it was lost.
            match recover::find_own(session, &owner).await {
                Ok(found) => inventory = found,
                Err(error) => {
                    let message = format!("its inventory is lost, and finding its objects failed: {error}");
                    let reason = "InventoryMissing";
                    let failed = Delivery::Failed { reason, message, stalled: false };
                    self.conclude(failed, &desired, None, &Report::default()).await?;
                    return Ok(Verdict::Retry(RETRY_MOST));
                }
            }
        }
        let wish = match self.target.spec.desired {
            Wish::Orphaned => plan::Wish::Orphaned,
            _ => plan::Wish::Absent,
        };
        let (wants, live) = (BTreeMap::new(), BTreeMap::new());
        let plan = plan::plan(&PlanInput {
            wish,
            wants: &wants,
            inventory: &inventory,
            live: &live,
            prune: true,
            complete: true,
        });
        let actor = Actor { session, owner: &owner, desired: &desired };
        let report = self.perform(&actor, &plan, inventory).await?;
        let delivery = report.delivery.clone().unwrap_or(Delivery::TornDown);
        if delivery == Delivery::TornDown {
            session.records.forget(&owner.hash);
        }
        self.conclude(delivery, &desired, None, &report).await?;
        Ok(report.verdict.unwrap_or(Verdict::Done(None)))
    }

    /// Writes the status, if it says something new and may be written now.
    async fn conclude(
        &self,
        delivery: Delivery,
        desired: &Desired,
        session: Option<&Session>,
        report: &Report,
    ) -> Result<Verdict, CallError> {
        let queue_key = Key::Target(self.key.clone());
        if report.corrected > 0 {
            *self.hub.memo.lock().corrections.entry(self.key.clone()).or_default() += report.corrected;
        }
        // The newest: an answer may have been folded since the pass began.
        let target = self.hub.catalog.target(self.key);
        let target = target.as_deref().unwrap_or(self.target);
        let before = target.status.clone().unwrap_or_default();
        let (ready, unready) = session.map_or((0, None), |session| healths(session, desired));
        let leaving = self.target.spec.desired != Wish::Present;
        let objects = match (leaving, delivery == Delivery::TornDown) {
            (true, false) => before.objects,
            (true, true) => 0,
            (false, _) => desired.objects.len() as i64,
        };
        let corrections = self.hub.memo.lock().corrections.get(self.key).copied().unwrap_or(0);
        let facts = TargetFacts {
            generation: self.target.metadata.generation.unwrap_or_default(),
            revision: &self.target.spec.revision,
            leaving,
            delivery,
            objects,
            ready,
            drifted: report.drifted,
            unready,
            corrected: corrections,
            now: self.hub.clock.time(),
        };
        let status = target_status(&before, &facts);
        if target.status.as_ref() != Some(&status) && self.hub.status_is_due(&queue_key) {
            self.tell(&before, &status);
            self.hub.api.target_status(target, status).await?;
            self.forget_corrections(corrections);
        }
        Ok(Verdict::Done(Some(self.interval())))
    }

    fn forget_corrections(&self, written: i64) {
        let mut memo = self.hub.memo.lock();
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
        let cluster = &self.key.cluster;
        match now.state {
            Some(TargetState::Ready) => {
                self.say(Severity::Normal, "TargetReady", &format!("{cluster} is as declared"))
            }
            Some(TargetState::Unknown) => {
                let why = now.message.as_deref().unwrap_or_default();
                self.say(Severity::Warning, "TargetUnknown", &format!("{cluster}: {why}"));
            }
            _ => {}
        }
    }

    fn say(&self, severity: Severity, reason: &str, note: &str) {
        if let Some(resource) = self.hub.catalog.resource(&self.key.resource_key()) {
            self.hub.events.say(resource.as_ref(), severity, reason, note);
        }
    }

    fn interval(&self) -> Duration {
        let own = self.target.spec.reconcile.interval.as_deref().and_then(|text| parse_interval(text).ok());
        jittered(own.unwrap_or(self.hub.settings.interval), self.hub.rng.as_ref())
    }
}

fn is_done(target: &VidraTarget) -> bool {
    let generation = target.metadata.generation.unwrap_or_default();
    target.status.as_ref().is_some_and(|status| vidra_core::status::is_torn_down(status, generation))
}

/// How many objects are healthy, and the first that is not, with whether it has failed.
fn healths(session: &Session, desired: &Desired) -> (i64, Option<(String, bool)>) {
    let mut ready = 0;
    let mut first: Option<(String, bool)> = None;
    for key in desired.objects.keys() {
        match session.records.health(key) {
            Some((HealthStatus::Current, _)) => ready += 1,
            Some((status, note)) => {
                let failed = status == HealthStatus::Failed;
                if first.as_ref().is_none_or(|(_, worse)| failed && !worse) {
                    let note = note.map_or_else(String::new, |note| format!(": {note}"));
                    first = Some((format!("{key} is not ready{note}"), failed));
                }
            }
            None => {
                first.get_or_insert_with(|| (format!("{key} is not there yet"), false));
            }
        }
    }
    (ready, first)
}

/// What keeps a plan that was performed without failure from being everything.
fn complaint(plan: &Plan, desired: &Desired, blind: &BTreeMap<Gvk, String>) -> Option<Delivery> {
    if let Some(refusal) = plan.refusals.first() {
        let message = match refusal {
            Refusal::NotOurs(key) => format!(
                "{key} bears the hub's label and cannot be proved to be the hub's; delete it in the member or drop it from the manifest"
            ),
            Refusal::Controlled(key) => {
                format!("{key} is owned by a controller in the member; drop it from the manifest")
            }
        };
        return Some(Delivery::Failed { reason: "NotOurs", message, stalled: true });
    }
    if let Some((gvk, why)) = blind.first_key_value() {
        let message =
            format!("{gvk} cannot be listed and watched: {why}; grant the hub list and watch on it");
        return Some(Delivery::Failed { reason: "CannotWatch", message, stalled: true });
    }
    if let Some(wait) = plan.waits.first() {
        return Some(match wait {
            Wait::Terminating(key) => Delivery::Waiting {
                reason: "ObjectTerminating",
                message: format!("{key} is being deleted in the member; it is made again when it is gone"),
            },
            Wait::NotCurrent(key) => {
                Delivery::Waiting { reason: "WaitingForObject", message: format!("the rest waits for {key}") }
            }
        });
    }
    let unresolved = desired.unresolved.first()?;
    let message = format!(
        "document {}: the member does not know {} (object {:?}); install its CRD there, or correct apiVersion and kind",
        unresolved.document, unresolved.gvk, unresolved.name
    );
    Some(Delivery::Failed { reason: "KindUnknown", message, stalled: true })
}

fn failure(effect: &Effect, error: &CallError) -> String {
    let doing = match &effect.action {
        Action::Create => "creating",
        Action::Apply { .. } | Action::Verify { .. } => "applying",
        Action::Delete { .. } => "deleting",
        Action::Release { .. } => "releasing",
    };
    let hint = match error.class {
        Class::Forbidden => "; grant the registered credentials this right in the member",
        Class::Invalid | Class::Server => "; correct the object in the manifest if its fields are at fault",
        _ => "",
    };
    format!("{doing} {} failed: {}{hint}", effect.key, error.message)
}
