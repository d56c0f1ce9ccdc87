//! The target loop: one pass of one (VidraResource, member cluster) pair. It gathers, lets vidra-core plan,
//! performs, and writes the inventory and the VidraTarget's status; nothing else.

mod close;
mod drifting;
mod fights;
mod follow;
mod handover;
mod ignored;
mod lately;
mod look;
mod outcome;
mod perform;
mod refused;
mod regain;
mod removal_guard;
mod report;
mod restored;
mod result;
mod waiting;

use std::{borrow::Cow, collections::BTreeMap, mem, sync::Arc, time::Duration};

use kube::ResourceExt;
use tokio::time::Instant;
use vidra_api::{
    ContainerDeletion, ExistingPolicy, FieldPolicy, MemberCluster, OverrideInputs, VidraTarget,
    VidraTargetSpec,
    labels::{FORGET, TAKE_OVER_FROM},
    names::{OwnerHash, field_manager},
    target::Desired as Wish,
};
use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    plan::{self, Inventory, Plan, PlanInput, Policy},
    status::{Delivery, is_held},
};

pub(super) use self::{handover::Undeclared, regain::may_have_delivered};
use self::{
    handover::{asks_again, asks_again_while_held, stays},
    lately::Lately,
    look::Scene,
    perform::Done,
    regain::{Regained, with_found},
    report::is_done,
    result::Report,
};
use super::{
    Hub, RETRY_MOST, RETRY_RARELY,
    affirm::{Affirmed, RESOURCE_MISSING, affirm, let_stay},
    after_hub_error,
    refused::ends_well,
    unreadable::{self, HUB_TOO_OLD},
};
use crate::{
    base::{
        backoff::jittered,
        error::{CallError, Class},
        withdrawal::Withdrawn,
    },
    desired::Desired,
    hub::{
        catalog::Lack,
        events::Severity,
        inventory,
        revisions::{Parsed, RevisionError},
    },
    member::{
        claims::Claim,
        effects::Actor,
        kinds::Kinds,
        owner::Owner,
        recover,
        session::{Session, State},
        token::Token,
    },
    queue::{Key, TargetKey, Verdict},
    settings::clamped_interval,
};

/// How long applied objects may take to become healthy, where nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);

/// One pass.
pub async fn reconcile(hub: &Hub, key: &TargetKey) -> Verdict {
    let target = match hub.catalog.find_target(key) {
        Ok(target) => target,
        // Its VidraResource tells it.
        Err(Lack::Unread) => return Verdict::Done(None),
        Err(Lack::Missing) => {
            return match departed(hub, key).await {
                Ok(()) => Verdict::Done(None),
                Err(error) => {
                    refused::tell(hub, key, &error);
                    after_hub_error(&Key::Target(key.clone()), &error)
                }
            };
        }
    };
    let pass = Pass { hub, key, target: &target };
    match pass.run().await {
        Ok(verdict) if ends_well(hub, &Key::Target(key.clone())) => {
            pass.note_refused(None);
            pass.tuned(verdict)
        }
        Ok(_) => pass.tuned(Verdict::Retry(RETRY_MOST)),
        Err(error) => pass.failed(&error).await,
    }
}

/// The VidraTarget is gone: what was kept for it goes too. An inventory that still holds something stays.
async fn departed(hub: &Hub, key: &TargetKey) -> Result<(), CallError> {
    if let Some(session) = hub.session(&key.cluster) {
        session.informers.release(key);
        session.informers.forget(key);
        session.later.forget(key);
        session.claims.forget(key);
        session.records.forget(&OwnerHash::new(&hub.identity.hub, &key.namespace, &key.resource));
    }
    hub.forget_target(key);
    let chunks = hub.catalog.inventory(key);
    if !chunks.is_empty() && inventory::is_empty(&chunks) {
        let writes: Vec<_> = chunks.values().map(|chunk| chunk.removal()).collect();
        hub.api.write_inventory(key, &writes).await?;
    }
    Ok(())
}

/// Suspended; a member that leaves is not, for its objects go by its owner's wish.
fn is_at_rest(member: &MemberCluster) -> bool {
    member.spec.suspend && member.metadata.deletion_timestamp.is_none()
}

struct Pass<'a> {
    hub: &'a Hub,
    key: &'a TargetKey,
    target: &'a VidraTarget,
}

impl Pass<'_> {
    async fn run(&self) -> Result<Verdict, CallError> {
        self.note_past();
        let spec = &self.target.spec;
        let leaving = spec.desired != Wish::Present;
        if spec.desired == Wish::Forgotten {
            return self.forget().await;
        }
        let affirmed = affirm(self.hub, self.key, spec);
        if let Some(rests) = self.at_rest(affirmed) {
            if affirmed == Affirmed::NotAllowed && !mutants::is(Mutant::RevokedAwaited) {
                // Others wait for its look, which does not come while the namespace is not allowed.
                self.cannot_look();
            }
            self.claim_at_rest().await;
            return self.conclude_unseen(rests).await;
        }
        if let Some(chunk) = self.hub.catalog.unread_inventory(self.key) {
            let message = format!(
                "this vidra-hub cannot read VidraInventory {chunk}: nothing is written and nothing is deleted. Run the vidra-hub that wrote it, or repair it by hand"
            );
            let reason = "InventoryUnreadable";
            return self.conclude_unknown(Delivery::Failed { reason, message, stalled: true }).await;
        }
        if leaving && self.has_nothing() {
            self.disclaim();
            // The inventory is written before the first object: no member needs to be asked.
            return self.conclude_unseen(Delivery::TornDown).await;
        }
        match affirmed {
            Affirmed::Yes => {}
            Affirmed::NotYet => return self.not_yet().await,
            missing => return self.conclude_unknown(self.unaffirmed(missing)).await,
        }
        let session = match self.open_session() {
            Ok(Some(session)) => session,
            // The first answer is awaited: what was last known stands.
            Ok(None) => return Ok(Verdict::Done(None)),
            Err(delivery) => return self.conclude_unseen(delivery).await,
        };
        if leaving {
            return self.leave(&session).await;
        }
        let (desired, create_namespaces) = match self.desired(&session).await {
            Ok(desired) => desired,
            Err(delivery) => {
                self.note_first_look(&session);
                self.claim(Claim::Unknown);
                self.conclude_unseen(delivery).await?;
                return Ok(Verdict::Retry(RETRY_RARELY));
            }
        };
        self.claim(Claim::Objects(desired.clone()));
        self.keep(&session, &desired, create_namespaces).await
    }

    /// Tells this of a target at which nothing was looked.
    async fn conclude_unseen(&self, delivery: Delivery) -> Result<Verdict, CallError> {
        self.conclude(delivery, &Desired::default(), None, &Report::default()).await
    }

    /// The same where it cannot be looked at and nobody can say what it declares: who waits for that goes on.
    async fn conclude_unknown(&self, delivery: Delivery) -> Result<Verdict, CallError> {
        self.cannot_look();
        self.claim(Claim::Unknown);
        self.conclude_unseen(delivery).await
    }

    /// Its member is not asked, and is not waited for.
    async fn forget(&self) -> Result<Verdict, CallError> {
        if let Some(session) = self.hub.session(&self.key.cluster) {
            session.informers.release(self.key);
        }
        self.disclaim();
        self.forget_inventory().await?;
        self.conclude_unseen(Delivery::TornDown).await
    }

    /// Nothing was ever delivered, or all of it is gone. A lost inventory is no empty one.
    fn has_nothing(&self) -> bool {
        let chunks = self.hub.catalog.inventory(self.key);
        match chunks.is_empty() {
            true => !self.may_have_delivered(),
            false => inventory::is_empty(&chunks) && !inventory::is_lost(&chunks),
        }
    }

    /// What a target says of which nobody can say whether it is wanted.
    fn unaffirmed(&self, missing: Affirmed) -> Delivery {
        let TargetKey { namespace, resource, cluster } = self.key;
        let (reason, message) = match missing {
            Affirmed::MemberMissing => (
                "MemberMissing",
                format!(
                    "MemberCluster {cluster} is not there, which is no wish to leave: nothing is written and nothing is deleted. Make it again, or annotate VidraResource {namespace}/{resource} with {FORGET}={cluster} to leave what is there"
                ),
            ),
            Affirmed::MemberUnread => (HUB_TOO_OLD, unreadable::told(&format!("MemberCluster {cluster}"))),
            Affirmed::ResourceUnread => {
                (HUB_TOO_OLD, unreadable::told(&format!("VidraResource {namespace}/{resource}")))
            }
            _ => (
                RESOURCE_MISSING,
                format!(
                    "VidraResource {namespace}/{resource} is not there, which is no wish to delete: nothing is written and nothing is deleted. Apply it again, or let what it delivered stay without it: {}",
                    let_stay(self.key),
                ),
            ),
        };
        if matches!(missing, Affirmed::ResourceMissing | Affirmed::ResourceUnread) {
            // There is no VidraResource to say it of.
            self.hub.events.say(self.target, Severity::Warning, reason, &message);
        }
        Delivery::Unreachable { reason, message }
    }

    /// What a target says that is left as it is: it or its member is suspended, or does not allow the namespace any more.
    fn at_rest(&self, affirmed: Affirmed) -> Option<Delivery> {
        let TargetKey { namespace, resource, cluster } = self.key;
        let spec = &self.target.spec;
        if self.hub.catalog.member(cluster).as_deref().is_some_and(is_at_rest) {
            let message =
                format!("MemberCluster {cluster} is suspended; set its spec.suspend to false to go on");
            return Some(Delivery::Suspended { message });
        }
        if spec.suspend && spec.desired == Wish::Present {
            // Nothing wakes it when the VidraResource says otherwise beside a manifest that cannot be read.
            let message = format!(
                "VidraResource {resource} was suspended; it goes on when its spec.suspend is false and what it declares can be delivered"
            );
            return Some(Delivery::Suspended { message });
        }
        (affirmed == Affirmed::NotAllowed).then(|| Delivery::Revoked {
            message: format!(
                "MemberCluster {cluster} does not allow namespace {namespace} any more: what is there stays as it is and nothing is written. Add {namespace} to its spec.allowedNamespaces to go on, or leave the cluster out of the VidraResource to clean up there"
            ),
        })
    }

    /// It was to go, and that is not asked for any more. Mostly the VidraTarget changes at once, which comes as an event;
    /// not while nothing is delivered of its VidraResource: what it said of its going is not so any more, and is not to
    /// stand until then.
    async fn not_yet(&self) -> Result<Verdict, CallError> {
        let resource = self.hub.catalog.resource(&self.key.resource_key());
        if resource.is_some_and(|resource| is_held(&resource)) {
            let message = format!(
                "it was to go, and VidraResource {} does not ask for that any more: what is there stays as it is until what that one declares can be delivered, see its Ready",
                self.key.resource
            );
            let rests = Delivery::Suspended { message };
            self.conclude_unseen(rests).await?;
            // Nothing tells when the same end is asked for again: the VidraTarget stays as it is.
            return Ok(Verdict::Done(Some(RETRY_MOST)));
        }
        // Nor when it is held.
        Ok(Verdict::Retry(RETRY_MOST))
    }

    /// Leave to work on the member for as long as what this pass goes by stands.
    fn token<'s>(&'s self, session: &'s Session) -> Token<'s> {
        let stands = || {
            let Self { hub, key, target } = self;
            if !hub.leads() {
                return Err(Withdrawn::Lease);
            }
            let now = hub.catalog.target(key).filter(|now| {
                now.metadata.generation == target.metadata.generation && now.uid() == target.uid()
            });
            let now = now.ok_or(Withdrawn::Target)?;
            if hub.catalog.member(&key.cluster).is_some_and(|member| is_at_rest(&member)) {
                return Err(Withdrawn::Suspended);
            }
            match affirm(hub, key, &now.spec) {
                Affirmed::Yes => Ok(()),
                _ => Err(Withdrawn::Wish),
            }
        };
        Token::new(|| session.epoch(), stands)
    }

    /// Performs effects for this target, and knows what is written of its inventory.
    fn actor<'s>(
        &'s self,
        session: &'s Session,
        owner: &'s Owner,
        desired: &'s Desired,
        token: &'s Token<'s>,
    ) -> Actor<'s> {
        Actor::new(session, owner, desired, token, move |object: &ObjectKey, uid: &str| {
            inventory::has_uid(&self.hub.catalog.inventory(self.key), object, uid)
        })
    }

    /// The session, if it may be worked with; `None` while it, or its first answer, is awaited.
    fn open_session(&self) -> Result<Option<Arc<Session>>, Delivery> {
        let cluster = &self.key.cluster;
        let Some(session) = self.hub.session(cluster) else {
            let is_judged = || self.hub.memo.lock().member(cluster).is_some_and(|member| member.judged);
            if self.hub.catalog.member(cluster).is_some() && !is_judged() {
                return Ok(None);
            }
            let reason = "NoCredentials";
            let message = format!(
                "the hub has no usable credentials for it; nothing was deleted. See `kubectl describe membercluster {cluster}`"
            );
            return Err(Delivery::Unreachable { reason, message });
        };
        match session.state() {
            // Who answers is asked first.
            State::Open(_) => Ok(session.is_sure().then_some(session)),
            State::Down { since, error } => {
                let message = format!("out of reach since {since:.0}: {}", error.message);
                Err(Delivery::Unreachable { reason: "MemberUnreachable", message })
            }
            State::Refused(_, message) => {
                Err(Delivery::Unreachable { reason: "IdentityNotConfirmed", message })
            }
            State::Connecting | State::Asking(_) => Ok(None),
        }
    }

    /// Renders for this member what it is to have.
    async fn desired(&self, session: &Session) -> Result<(Arc<Desired>, bool), Delivery> {
        let VidraTargetSpec { revision, namespace, overrides, .. } = &self.target.spec;
        self.rendered(session, (revision, namespace), |_| overrides.clone()).await
    }

    /// Renders a revision as in this namespace, with these inputs for its overrides.
    async fn rendered(
        &self,
        session: &Session,
        (revision, namespace): (&str, &str),
        inputs: impl FnOnce(&Parsed) -> Option<OverrideInputs>,
    ) -> Result<(Arc<Desired>, bool), Delivery> {
        let failed = |error: RevisionError| Delivery::Failed {
            reason: error.unavailable(),
            message: error.to_string(),
            stalled: !matches!(&error, RevisionError::Call { source, .. } if source.is_transient()),
        };
        let resource = self.key.resource_key();
        let parsed = self.hub.revisions.get(&self.hub.api, &resource, revision).await.map_err(failed)?;
        let inputs = inputs(&parsed);
        let content = (namespace, inputs.as_ref());
        let mut desired = self.render(&parsed, content, &session.kinds()).await.map_err(failed)?;
        if !desired.unresolved.is_empty()
            && let Ok(kinds) = session.rediscover().await
        {
            desired = self.render(&parsed, content, &kinds).await.map_err(failed)?;
        }
        Ok((desired, parsed.create_namespaces))
    }

    async fn render(
        &self,
        parsed: &Parsed,
        (namespace, inputs): (&str, Option<&OverrideInputs>),
        kinds: &Kinds,
    ) -> Result<Arc<Desired>, RevisionError> {
        let scope_of = |gvk: &Gvk| kinds.get(gvk).map(|(_, scope)| *scope);
        // What is delivered has more room: after a restart it is not to wait behind what is new.
        let bounds = self.hub.tuning.now().bounds;
        let had = self.target.status.as_ref().and_then(|status| status.revision.as_ref());
        let bounds = if had == Some(&parsed.name) { bounds.wider() } else { bounds };
        let key = self.key.resource_key();
        let cluster = (&*self.key.cluster, inputs);
        self.hub.revisions.render(&key, parsed, namespace, &scope_of, cluster, bounds).await
    }

    fn owner(&self, create_namespaces: bool) -> Owner {
        let hub = &self.hub.identity.hub;
        let (namespace, resource) = (&*self.key.namespace, &*self.key.resource);
        let member = self.hub.catalog.member(&self.key.cluster);
        let resource_now = self.hub.catalog.resource(&self.key.resource_key());
        let made =
            resource_now.and_then(|now| now.metadata.creation_timestamp.as_ref().map(|at| at.0.as_second()));
        Owner {
            hub: hub.clone(),
            hash: OwnerHash::new(hub, namespace, resource),
            manager: field_manager(hub, namespace, resource),
            name: format!("{namespace}/{resource}"),
            generation: self.target.spec.generation,
            since: made.unwrap_or_default(),
            leaves: self.target.spec.desired != Wish::Present,
            create_namespaces,
            conflicts: self.target.spec.conflicts.clone(),
            take_over_from: member.and_then(|member| member.annotations().get(TAKE_OVER_FROM).cloned()),
        }
    }

    fn policy(&self) -> Policy {
        let spec = &self.target.spec;
        let drift = spec.drift.policy;
        let drift = match mutants::is(Mutant::ReportRepairs)
            && self.target.status.as_ref().and_then(|status| status.drift)
                == Some(vidra_api::DriftState::Drifted)
        {
            true => vidra_api::DriftPolicy::Correct,
            false => drift,
        };
        Policy {
            adopt: spec.conflicts.existing != ExistingPolicy::Fail,
            force: spec.conflicts.fields == FieldPolicy::Force,
            when_empty: spec.namespace_and_crd_deletion == ContainerDeletion::WhenEmpty
                && !self.is_to_retain(),
            drift,
        }
    }

    /// The VidraResource has Namespaces and CRDs kept now, also where that is not written into the VidraTarget yet.
    fn is_to_retain(&self) -> bool {
        let resource = self.hub.catalog.resource(&self.key.resource_key());
        resource.is_some_and(|now| now.spec.namespace_and_crd_deletion == ContainerDeletion::Retain)
    }

    /// Keeps the member as declared.
    async fn keep(
        &self,
        session: &Arc<Session>,
        desired: &Arc<Desired>,
        create_namespaces: bool,
    ) -> Result<Verdict, CallError> {
        let owner = self.owner(create_namespaces);
        let sparing = match self.sparing(desired) {
            Ok(sparing) => sparing,
            Err(delivery) => {
                self.note_first_look(session);
                self.conclude(delivery, desired, None, &Report::default()).await?;
                return Ok(Verdict::Retry(RETRY_RARELY));
            }
        };
        session.records.declare(owner.hash.clone(), owner.since, self.key.clone(), desired.clone(), sparing);
        let blind = match self.follow(session, desired).await {
            Ok(blind) => blind,
            Err(verdict) => return Ok(verdict),
        };
        let wants = match blind.is_empty() {
            true => Cow::Borrowed(&desired.wants),
            false => Cow::Owned(blind.seen(&desired.wants)),
        };
        let (delivered, revisit) = (self.target.is_delivered(), self.is_revisit_due());
        self.deliver(Scene { session, owner: &owner, desired, blind: &blind, wants, delivered, revisit })
            .await
    }

    /// Looks at what can be seen, and brings to the member what is otherwise there than declared.
    async fn deliver(&self, mut scene: Scene<'_>) -> Result<Verdict, CallError> {
        let Scene { session, owner, desired, .. } = scene;
        let live = scene.live();
        let held = self.written(&scene);
        let token = self.token(session);
        let regained = match self.regain(session, owner, &live, &token).await {
            Err(error) if error.class == Class::Withdrawn => {
                return self.again(&mut Report::default()).await;
            }
            regained => regained?,
        };
        let (held, mut inventory) = match &regained {
            Regained::All(found) => {
                let whole = inventory::joined(&self.hub.catalog.inventory(self.key));
                (whole.clone(), with_found(whole, found.clone()))
            }
            Regained::NotLost | Regained::Unknown(_) => (held.clone(), held),
        };
        let mut look = self.look(&scene, &live, &mut inventory).await;
        let plan = mem::take(&mut look.plan);
        let revisit = mem::take(&mut scene.revisit);
        if let Some(held) = look.behind.take_if(|_| !plan.is_empty()) {
            return self.wait_behind(&scene, held).await;
        }
        if let Some(delivery) = self.held(desired, &plan, &inventory) {
            let report = Report::default();
            self.conclude(delivery, desired, Some(session), &report).await?;
            let again = asks_again_while_held(&plan);
            return Ok(again.unwrap_or_else(|| Verdict::Done(Some(self.interval()))));
        }
        let actor = self.actor(session, owner, desired, &token);
        if mutants::is(Mutant::ReadyBeforeApplied) {
            let report = Report { compared: true, ..Report::default() };
            self.conclude(Delivery::Applied, desired, Some(session), &report).await?;
        }
        let mut lately = Lately::new(self, &scene, &token, &plan);
        let done = match regained {
            Regained::Unknown(delivery) => self.tend_only(&actor, plan.clone(), inventory, delivery).await,
            Regained::NotLost | Regained::All(_) => {
                self.perform(&actor, &plan, held, inventory, Some(&mut lately)).await?
            }
        };
        if revisit {
            self.hub.memo.lock().revisited.insert(self.key.clone(), Instant::now());
        }
        self.close(&actor, &scene, look, &plan, lately, done).await
    }

    /// The hub seems to be behind the member, or that is not known yet: nothing is written.
    async fn wait_behind(&self, scene: &Scene<'_>, held: Delivery) -> Result<Verdict, CallError> {
        let Scene { session, desired, delivered, .. } = *scene;
        if matches!(held, Delivery::Waiting { .. }) {
            session.later.wait(self.key, !delivered);
            let key = Key::Target(self.key.clone());
            if let Some(rest) = self.hub.can_wait(&key) {
                // Mostly it is over in a moment.
                self.hub.queue.add_after(key, rest);
                return Ok(Verdict::Done(None));
            }
        }
        self.conclude(held, desired, Some(session), &Report::default()).await?;
        Ok(Verdict::Retry(RETRY_MOST))
    }

    /// Deletes or lets go what the inventory holds.
    async fn leave(&self, session: &Arc<Session>) -> Result<Verdict, CallError> {
        let owner = self.owner(false);
        self.hub.memo.lock().forget_drift(self.key);
        session.informers.release(self.key);
        let chunks = self.hub.catalog.inventory(self.key);
        let desired = Arc::new(Desired::default());
        // Whoever takes over an object has to know that this one does not declare it any more.
        session.records.declare(
            owner.hash.clone(),
            owner.since,
            self.key.clone(),
            desired.clone(),
            Arc::default(),
        );
        self.disclaim();
        let token = self.token(session);
        let mut inventory = inventory::joined(&chunks);
        let lost = match chunks.is_empty() {
            // The inventory is written before the first object.
            true => self.may_have_delivered() && !is_done(self.target),
            false => inventory::is_lost(&chunks),
        };
        if lost {
            match recover::find_own(session, &owner, &token).await {
                Ok(found) => inventory = with_found(inventory, found),
                Err(error) if error.class == Class::Withdrawn => {
                    return self.again(&mut Report::default()).await;
                }
                Err(error) => {
                    let message = format!("its inventory is lost, and finding its objects failed: {error}");
                    let reason = "InventoryMissing";
                    self.conclude_unseen(Delivery::Failed { reason, message, stalled: false }).await?;
                    return Ok(Verdict::Retry(RETRY_MOST));
                }
            }
        }
        let plan = self.plan_to_leave(session, &inventory);
        if !plan.is_empty()
            && let Some(held) = self.goes_behind(session)
        {
            self.conclude_unseen(held).await?;
            return Ok(Verdict::Retry(RETRY_MOST));
        }
        let actor = self.actor(session, &owner, &desired, &token);
        let held = inventory::joined(&chunks);
        let Done { mut report, inventory } = self.perform(&actor, &plan, held, inventory, None).await?;
        if report.withdrawn {
            return self.again(&mut report).await;
        }
        self.settle(&mut report).await?;
        let stays = || stays(&plan, &inventory);
        let delivery = report.delivery.clone().or_else(stays).unwrap_or(Delivery::TornDown);
        if delivery == Delivery::TornDown {
            session.records.forget(&owner.hash);
        }
        self.conclude(delivery, &desired, None, &report).await?;
        Ok(report.verdict.or_else(|| asks_again(&plan)).unwrap_or(Verdict::Done(None)))
    }

    /// What is to be done with all that the inventory holds.
    fn plan_to_leave(&self, session: &Session, inventory: &Inventory) -> Plan {
        let wish = match self.target.spec.desired {
            Wish::Orphaned => plan::Wish::Orphaned,
            _ => plan::Wish::Absent,
        };
        let (wants, live) = (BTreeMap::new(), BTreeMap::new());
        let (vanished, before) = (BTreeMap::new(), BTreeMap::new());
        let handovers = self.handovers(session, inventory.keys());
        plan::plan(&PlanInput {
            wish,
            wants: &wants,
            inventory,
            live: &live,
            vanished: &vanished,
            before: &before,
            handovers: &handovers,
            prune: true,
            complete: true,
            delivered: false,
            revisit: false,
            unplannable: None,
            may_be_declared: &|_| false,
            policy: self.policy(),
        })
    }

    /// Once after a start, and as often as all is listed though watches tell.
    fn is_revisit_due(&self) -> bool {
        let every = self.hub.tuning.now().verify_interval;
        let last = self.hub.memo.lock().revisited.get(self.key).copied();
        last.is_none_or(|last| !every.is_zero() && last.elapsed() >= every)
    }

    fn follows_events(&self) -> bool {
        self.target.spec.reconcile.on_events.unwrap_or(self.hub.tuning.now().on_events)
    }

    /// How long applied objects may take to become healthy.
    fn timeout(&self) -> Duration {
        clamped_interval(self.target.spec.reconcile.timeout.as_deref()).unwrap_or(TIMEOUT)
    }

    fn interval(&self) -> Duration {
        let own = clamped_interval(self.target.spec.reconcile.interval.as_deref());
        jittered(own.unwrap_or(self.hub.tuning.now().interval), self.hub.rng.as_ref())
    }

    /// Failures are tried again as the VidraResource says, else as the settings do.
    fn tuned(&self, verdict: Verdict) -> Verdict {
        let Verdict::Retry(most) = verdict else { return verdict };
        let live = self.hub.tuning.now();
        match clamped_interval(self.target.spec.reconcile.retry_interval.as_deref()) {
            Some(own) => Verdict::Retry(own),
            None if !live.retry => Verdict::Done(Some(self.interval())),
            None if most == RETRY_RARELY => Verdict::Retry(live.retry_max),
            None => Verdict::Retry(most.min(live.retry_max)),
        }
    }
}
