//! The cluster loop: a registration Secret becomes a MemberCluster with a session, whose identity is
//! recorded before anything is written there.
//!
//! Writes MemberClusters; starts and ends sessions. A Secret that vanishes is no wish to leave: leaving is
//! deleting the MemberCluster. `counts.rs` counts what is on it.

pub(super) mod counts;

use std::sync::Arc;

use kube::ResourceExt;
use vidra_api::{
    ClusterName, ConditionStatus, MemberCluster, MemberClusterStatus, Time,
    condition::{CREDENTIALS_VALID, IDENTITY_CONFIRMED, REACHABLE, READY},
    labels::{ALLOWED_NAMESPACES, CONFIRM, CONFIRM_RESTORE, MEMBER_FINALIZER, REGISTRATION_LABEL},
    set_condition,
    target::DesiredState,
};
use vidra_core::{
    identity,
    kubeconfig::{self, Allow},
    mutants::{self, Mutant},
    select,
    status::Reason,
};

use super::{Hub, RETRY_MOST, after_hub_error, log_ready, revoke, unreadable, write_refusal};
use crate::{
    base::error::{CallError, Class},
    hub::{
        catalog::Lack,
        events::Severity,
        registration::{KUBECONFIG_KEYS, MemberDeclaration, Registration},
        state_ownership::{hub_labels, is_labelled_ours},
    },
    member::session::{Session, State},
    workqueue::{Key, Priority, Verdict},
};

/// One reconcile.
pub async fn reconcile(hub: &Hub, name: &Arc<str>) -> Verdict {
    match run(hub, name).await {
        Ok(verdict) => {
            write_refusal::clear_failed_writes(hub, &Key::Cluster(name.clone()));
            verdict
        }
        Err(error) => {
            tell_refusal(hub, name, &error);
            after_hub_error(&error)
        }
    }
}

/// Tells that a write of a MemberCluster failed, where that is to be told: on its registration, for the MemberCluster may
/// not be there.
fn tell_refusal(hub: &Hub, name: &Arc<str>, error: &CallError) {
    let Some(told) = write_refusal::count_failed_write(hub, &Key::Cluster(name.clone()), error) else {
        return;
    };
    let message = format!("the hub's API refuses to write MemberCluster {name}: {told}");
    tracing::warn!("{message}");
    let reason = Reason::MemberClusterRefused;
    if let Some(registration) = hub.catalog.registrations_for(name).iter().find(|one| !one.left) {
        hub.events.say_of(registration.reference(), Severity::Warning, reason, &message);
    }
    if let Some(member) = hub.catalog.member(name) {
        hub.events.say(member.as_ref(), Severity::Warning, reason, &message);
    }
}

async fn run(hub: &Hub, name: &str) -> Result<Verdict, CallError> {
    let candidates = hub.catalog.registrations_for(name);
    let member = match hub.catalog.find_member(name) {
        Ok(member) => member,
        Err(Lack::Unread) => {
            if let Some(registration) = candidates.iter().find(|one| !one.left) {
                let told = unreadable::message(&format!("MemberCluster {name}"));
                hub.events.say_of(registration.reference(), Severity::Warning, Reason::HubTooOld, &told);
            }
            return Ok(Verdict::Done(None));
        }
        Err(Lack::Missing) => return forget(hub, name, &candidates).await,
    };
    let leaving = member.metadata.deletion_timestamp.is_some();
    // Its targets go first, those too that cannot be read, and for that it needs its session.
    if leaving && hub.catalog.targets_on(name).is_empty() && hub.catalog.unread_target_on(name).is_none() {
        return leave(hub, name, &member).await;
    }
    let registration = chosen(hub, &member, &candidates);
    refuse_others(hub, registration.as_deref(), &candidates);
    if let Some(registration) =
        registration.as_ref().filter(|one| !leaving && asks_for_more(hub, one, &member))
        && register(hub, registration, Some(&member)).await?
    {
        return Ok(Verdict::Done(None));
    }
    if !leaving && !member.finalizers().iter().any(|one| one == MEMBER_FINALIZER) {
        hub.api.set_member_finalizer(&member, MEMBER_FINALIZER, true).await?;
        return Ok(Verdict::Done(None));
    }
    let credentials = credentials(hub, name, registration.as_deref(), &member).await;
    if hub.state.lock().member_mut(name).note_judged() {
        hub.wake_targets(name);
    }
    let findings = Findings::of(hub, &member, credentials);
    let status = revoke::with_stalled(hub, &member, findings.status(&member, hub.clock.time()));
    if let (Some(session), Identity::Refused(message)) = (hub.session(name), &findings.identity)
        && !mutants::is(Mutant::YoungerGoesOn)
    {
        // At once: it may be Open, and the write may take long.
        session.reject(message);
    }
    write_status(hub, &member, status).await?;
    if let Some(session) = hub.session(name) {
        act_on_identity(hub, &member, &session, &findings.identity);
        end_confirmation(hub, &member, &session).await?;
    }
    revoke::use_up_approvals(hub, name).await?;
    counts::settle(hub, name).await?;
    Ok(Verdict::Done(None))
}

/// Tells the session whether the cluster that answers is the one that is meant.
fn act_on_identity(hub: &Hub, member: &MemberCluster, session: &Session, identity: &Identity) {
    match identity {
        Identity::Confirmed(uid) => {
            session.accept(uid);
            // An older one may have been admitted while the status was written; one that claims from here on rejects this
            // one itself.
            let is_unasked = mutants::is(Mutant::AcceptedLate) || mutants::is(Mutant::TwinsAdmitted);
            let older = twins(hub, member, uid).0.into_iter().next();
            if let Some(older) = older.filter(|_| !is_unasked) {
                session.reject(&is_member_already(&older));
                hub.queue.add(Key::Cluster(member.name_any().as_str().into()), Priority::User);
            }
        }
        Identity::Refused(message) => {
            hub.events.say(member, Severity::Warning, Reason::IdentityNotConfirmed, message);
        }
        Identity::Unknown => {}
    }
}

/// Takes a person's word for a restore off when that is over: it was for this one, and the next asks for another.
async fn end_confirmation(hub: &Hub, member: &MemberCluster, session: &Session) -> Result<(), CallError> {
    let is_confirmed = member.annotations().get(CONFIRM).is_some_and(|word| word == CONFIRM_RESTORE);
    if is_confirmed && session.is_open() && is_restore_over(hub, &member.name_any(), session) {
        hub.api.reannotate_member(member, CONFIRM, None).await?;
    }
    Ok(())
}

/// All that is kept there has looked, and found nothing of later declarations. What goes or is suspended does not look.
fn is_restore_over(hub: &Hub, name: &str, session: &Session) -> bool {
    let mut looking = hub.catalog.fleet_on(name);
    looking.retain(|_, target| target.spec.desired == DesiredState::Present && !target.spec.suspend);
    session.later_generations.is_over(&looking.into_keys().collect::<Vec<_>>())
}

async fn write_status(
    hub: &Hub,
    member: &MemberCluster,
    status: MemberClusterStatus,
) -> Result<(), CallError> {
    if member.status.as_ref() == Some(&status) {
        return Ok(());
    }
    log_ready(member.status.as_ref().map(|before| &*before.conditions), &status.conditions);
    hub.api.member_status(member, status).await
}

/// There is no such MemberCluster: what was kept of it goes, and a Secret that asks for it makes it.
async fn forget(hub: &Hub, name: &str, candidates: &[Arc<Registration>]) -> Result<Verdict, CallError> {
    end_session(hub, name).await;
    hub.state.lock().forget_member(name);
    hub.queue.forget(&Key::Cluster(name.into()));
    unclaim(hub, name);
    hub.metrics.clusters().forget(name);
    if let Some(registration) = candidates.iter().find(|one| !one.left) {
        register(hub, registration, None).await?;
    }
    Ok(Verdict::Done(None))
}

/// The Secret that a MemberCluster refers to, else the oldest that names it. A reference that the hub made itself gives way,
/// when its Secret is gone, to one that is like it; one that a person wrote does not.
fn chosen(hub: &Hub, member: &MemberCluster, candidates: &[Arc<Registration>]) -> Option<Arc<Registration>> {
    let Some(reference) = &member.spec.kubeconfig_secret_ref else { return candidates.first().cloned() };
    let referred = hub.catalog.registration(&reference.namespace, &reference.name);
    match (referred, MemberDeclaration::read(member)) {
        (None, Some(made)) => {
            let mut others = candidates.iter();
            others.find(|one| stands_in(hub, one, (&reference.namespace, &made))).cloned()
        }
        (referred, _) => referred,
    }
}

/// May it take the place of a Secret in this namespace, by which the member was made? That one may be gone for a moment only.
/// So this one must be of the same namespace or the hub's, and carry the same labels: by others targets would be dropped. One
/// whose member has left registers nothing.
fn stands_in(hub: &Hub, other: &Registration, (namespace, made): (&str, &MemberDeclaration)) -> bool {
    let is_trusted = [namespace, &hub.settings.namespace].contains(&&*other.namespace);
    let is_alike = || is_trusted && intent(hub, other, Some(made)).labels() == made.labels();
    (!other.left || mutants::is(Mutant::LeftRegisters)) && (is_alike() || mutants::is(Mutant::AnyStandsIn))
}

fn refuse_others(hub: &Hub, chosen: Option<&Registration>, candidates: &[Arc<Registration>]) {
    for other in
        candidates.iter().filter(|one| chosen.is_some_and(|chosen| chosen.uid != one.uid) && !one.left)
    {
        let by = chosen.map_or_else(String::new, |chosen| format!(" {}/{}", chosen.namespace, chosen.name));
        let note = format!(
            "member cluster {:?} is registered by the Secret{by} already; name another cluster in the label",
            other.cluster
        );
        hub.events.say_of(other.reference(), Severity::Warning, Reason::AlreadyRegistered, &note);
    }
}

/// The Secret asks for something else than when its MemberCluster was made. A MemberCluster that a person
/// made keeps what it says.
fn asks_for_more(hub: &Hub, registration: &Registration, member: &MemberCluster) -> bool {
    let marked = is_labelled_ours(member.labels(), &hub.identity.hub);
    MemberDeclaration::read(member)
        .is_some_and(|made| !marked || made != intent(hub, registration, Some(&made)))
}

/// What a Secret asks for. A label that was carried before goes on to be, whatever the setting says now: targets may
/// have been chosen by it.
fn intent(hub: &Hub, registration: &Registration, made: Option<&MemberDeclaration>) -> MemberDeclaration {
    let settings = hub.tuning.now();
    let mut labels = registration.labels.clone();
    labels.retain(|key, _| {
        settings.carried_labels.carries(key) || made.is_some_and(|made| made.labels().contains_key(key))
    });
    labels.extend(hub_labels(&hub.identity.hub));
    let allowed = match made {
        Some(made) => made.allowed().cloned(),
        None => allowed(hub, registration),
    };
    MemberDeclaration::new(&registration.namespace, &registration.name, labels, allowed)
}

/// The namespaces that the MemberCluster allows when it is made. What cannot be read allows nobody.
fn allowed(hub: &Hub, registration: &Registration) -> Option<Vec<String>> {
    let text = registration.allowed.as_ref()?;
    let names = select::namespaces(text, select::NAMESPACES_MAX).unwrap_or_else(|why| {
        let note = format!(
            "{ALLOWED_NAMESPACES}: {why}; the MemberCluster allows no namespace until its spec.allowedNamespaces says otherwise"
        );
        hub.events.say_of(registration.reference(), Severity::Warning, Reason::AllowedNamespacesInvalid, &note);
        Default::default()
    });
    Some(names.into_iter().collect())
}

/// Makes or updates the MemberCluster; false: it could not be, and a person was told.
async fn register(
    hub: &Hub,
    registration: &Registration,
    member: Option<&MemberCluster>,
) -> Result<bool, CallError> {
    if let Err(error) = ClusterName::try_from(registration.cluster.as_str()) {
        let note = format!("the label names no valid member cluster: {error}");
        hub.events.say_of(registration.reference(), Severity::Warning, Reason::InvalidName, &note);
        return Ok(false);
    }
    let made = member.and_then(MemberDeclaration::read);
    let intent = intent(hub, registration, made.as_ref());
    match hub.api.apply_member(&registration.cluster, &intent, member).await {
        Err(error) if matches!(error.class, Class::FieldConflict(_)) => {
            let note = format!(
                "nothing was carried to the MemberCluster {}, where others set the same: make them equal. {error}",
                registration.cluster
            );
            hub.events.say_of(registration.reference(), Severity::Warning, Reason::LabelsKept, &note);
            Ok(false)
        }
        other => other.map(|()| true),
    }
}

/// Deleting the MemberCluster is the wish to leave, by its onLeave; its targets have gone.
async fn leave(hub: &Hub, name: &str, member: &MemberCluster) -> Result<Verdict, CallError> {
    end_session(hub, name).await;
    for registration in hub.catalog.registrations_for(name) {
        let is_named =
            member.spec.kubeconfig_secret_ref.as_ref().is_some_and(|one| one.name == registration.name);
        if !registration.left && (is_named || !mutants::is(Mutant::OneSecretLeaves)) {
            let now = hub.clock.time().0.to_string();
            hub.api.mark_registration_left(&registration.namespace, &registration.name, &now).await?;
        }
    }
    if member.finalizers().iter().any(|one| one == MEMBER_FINALIZER) {
        hub.api.set_member_finalizer(member, MEMBER_FINALIZER, false).await?;
    }
    Ok(Verdict::Done(Some(RETRY_MOST)))
}

/// Why there are no usable credentials: reason and message.
type Unusable = (Reason, String);

/// Brings the session to what the Secret says now.
async fn credentials(
    hub: &Hub,
    name: &str,
    registration: Option<&Registration>,
    member: &MemberCluster,
) -> Result<(), Unusable> {
    let config = config(hub, registration, member);
    let known = |config: &kubeconfig::MemberConfig| {
        hub.session(name).is_some_and(|session| session.fingerprint == config.fingerprint)
    };
    if config.as_ref().is_ok_and(known) {
        return Ok(());
    }
    let link = config.and_then(|config| match hub.connect.connect(&config) {
        Ok(link) => Ok((link, config.fingerprint)),
        Err(error) => Err((Reason::KubeconfigInvalid, error.to_string())),
    });
    let (link, fingerprint) = match link {
        Ok(opened) => opened,
        Err((reason, message)) => {
            end_session(hub, name).await;
            hub.events.say(member, Severity::Warning, reason, &message);
            if let Some(registration) = registration {
                hub.events.say_of(registration.reference(), Severity::Warning, reason, &message);
            }
            return Err((reason, message));
        }
    };
    let before = hub.session(name);
    let session = Session::new(name, fingerprint, link, hub.session_deps());
    if mutants::is(Mutant::SessionUnseen) {
        session.start();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // It stands before the other one ends: what looks in between waits for its answer, and tells of no loss. It writes
    // nothing until this loop has accepted who answers, and wakes the targets itself: they must not find the other one.
    hub.sessions.lock().insert(name.to_owned(), session.clone());
    if !mutants::is(Mutant::SessionUnseen) {
        session.start();
    }
    if let Some(before) = before {
        before.end().await;
    }
    Ok(())
}

fn config(
    hub: &Hub,
    registration: Option<&Registration>,
    member: &MemberCluster,
) -> Result<kubeconfig::MemberConfig, Unusable> {
    let missing = || {
        let named = member.spec.kubeconfig_secret_ref.as_ref();
        let which = named.map_or_else(String::new, |named| format!(" {}/{}", named.namespace, named.name));
        let others = hub.catalog.registrations_for(&member.name_any());
        let other = others.iter().find(|one| !one.left && named.is_some()).map_or_else(String::new, |one| {
            let (namespace, name) = (&one.namespace, &one.name);
            format!(
                ". Secret {namespace}/{name} names the cluster too: to have it take the place, name it in spec.kubeconfigSecretRef, or give it the same labels in the same namespace or the hub's"
            )
        });
        let message = format!(
            "its registration Secret{which} is missing, lacks the label {REGISTRATION_LABEL}, or is in no namespace that the hub looks at; nothing is deleted. Restore or label the Secret, or delete the MemberCluster to let the cluster go{other}"
        );
        (Reason::SecretMissing, message)
    };
    let registration = registration.ok_or_else(missing)?;
    let key = member.spec.kubeconfig_secret_ref.as_ref().map(|reference| reference.key.as_str());
    let bytes = registration.kubeconfig(key).ok_or_else(|| {
        let (namespace, name) = (&registration.namespace, &registration.name);
        let message =
            format!("Secret {namespace}/{name} has no key {:?}; add it", key.unwrap_or(KUBECONFIG_KEYS[0]));
        (Reason::KubeconfigMissing, message)
    })?;
    let allow = Allow { proxy: hub.tuning.now().allow_proxy, ..hub.settings.allow };
    kubeconfig::parse(bytes, &allow).map_err(|error| (Reason::KubeconfigInvalid, error.to_string()))
}

async fn end_session(hub: &Hub, name: &str) {
    let session = hub.sessions.lock().remove(name);
    if let Some(session) = session {
        session.end().await;
        hub.wake_targets(name);
    }
}

/// Which cluster answers.
enum Identity {
    /// Nobody has answered.
    Unknown,
    /// The one that is meant; its uid.
    Confirmed(String),
    /// Another: why, and what to do.
    Refused(String),
}

/// What a reconcile found out about a member.
struct Findings {
    credentials: Result<(), Unusable>,
    state: State,
    identity: Identity,
}

impl Findings {
    fn of(hub: &Hub, member: &MemberCluster, credentials: Result<(), Unusable>) -> Self {
        let state = hub.session(&member.name_any()).map_or(State::Connecting, |session| session.state());
        let identity = match state.answering() {
            Some(who) => identify(hub, member, &who.uid),
            None => Identity::Unknown,
        };
        Self { credentials, state, identity }
    }

    fn status(&self, member: &MemberCluster, now: Time) -> MemberClusterStatus {
        let mut status = member.status.clone().unwrap_or_default();
        status.observed_generation = member.metadata.generation;
        let mut facts: Vec<(&str, ConditionStatus, Reason, String)> = Vec::new();
        facts.push(match (&self.credentials, &self.state) {
            (Err((reason, message)), _) => {
                (CREDENTIALS_VALID, ConditionStatus::False, *reason, message.clone())
            }
            (Ok(()), State::Down { error, .. }) if error.refused => {
                let message =
                    format!("{}; renew the registration Secret or grant what is missing", error.message);
                (CREDENTIALS_VALID, ConditionStatus::False, error.reason, message)
            }
            (Ok(()), state) if state.answering().is_some() => {
                (CREDENTIALS_VALID, ConditionStatus::True, Reason::Accepted, String::new())
            }
            (Ok(()), _) => return self.unreachable(member, status, now),
        });
        // It answers, or is not asked.
        status.last_contact_time = None;
        match &self.state {
            State::Asking(who) | State::Open(who) | State::Refused(who, _) => {
                status.version = Some(who.version.clone());
                facts.push((REACHABLE, ConditionStatus::True, Reason::Answers, String::new()));
                match &self.identity {
                    Identity::Confirmed(_) => {
                        status.uid = Some(who.uid.clone());
                        facts.push((
                            IDENTITY_CONFIRMED,
                            ConditionStatus::True,
                            Reason::Confirmed,
                            String::new(),
                        ));
                    }
                    Identity::Refused(message) => {
                        facts.push((
                            IDENTITY_CONFIRMED,
                            ConditionStatus::False,
                            Reason::AnotherCluster,
                            message.clone(),
                        ));
                    }
                    Identity::Unknown => {}
                }
            }
            State::Down { error, .. } if error.refused => {
                facts.push((REACHABLE, ConditionStatus::True, Reason::Answers, String::new()));
            }
            _ => facts.push((REACHABLE, ConditionStatus::Unknown, Reason::NotTried, String::new())),
        }
        concluded(member, status, facts, now)
    }

    /// Silence: what the credentials and the identity are is as it was last known.
    fn unreachable(
        &self,
        member: &MemberCluster,
        mut status: MemberClusterStatus,
        now: Time,
    ) -> MemberClusterStatus {
        let State::Down { since, error } = &self.state else {
            if status.conditions.is_empty() {
                let fact = (
                    REACHABLE,
                    ConditionStatus::Unknown,
                    Reason::Connecting,
                    "the first answer is awaited".to_owned(),
                );
                return concluded(member, status, vec![fact], now);
            }
            return status;
        };
        status.last_contact_time.get_or_insert(Time(*since));
        let message = format!("{}; check the address, the network and the API server", error.message);
        concluded(member, status, vec![(REACHABLE, ConditionStatus::False, error.reason, message)], now)
    }
}

/// Sets the facts, and Ready as their conclusion.
fn concluded(
    member: &MemberCluster,
    mut status: MemberClusterStatus,
    facts: Vec<(&str, ConditionStatus, Reason, String)>,
    now: Time,
) -> MemberClusterStatus {
    let generation = member.metadata.generation;
    let bad = facts.iter().find(|(_, value, _, _)| *value != ConditionStatus::True);
    let ready = match bad {
        None => (ConditionStatus::True, Reason::Ready, String::new()),
        Some((_, ConditionStatus::Unknown, reason, message)) => {
            (ConditionStatus::Unknown, *reason, message.clone())
        }
        Some((_, _, reason, message)) => (ConditionStatus::False, *reason, message.clone()),
    };
    let mut set = |type_: &str, value: ConditionStatus, reason: Reason, message: &str| {
        let (reason, now) = (reason.as_str(), now.clone());
        set_condition(&mut status.conditions, type_, value, reason, message, generation, now);
    };
    set(READY, ready.0, ready.1, &ready.2);
    for (type_, value, reason, message) in &facts {
        set(type_, *value, *reason, message);
    }
    status
}

/// Is the cluster that answers the one that joined under this name, and under no other?
fn identify(hub: &Hub, member: &MemberCluster, uid: &str) -> Identity {
    let own = intended_uid(hub, member);
    if let Some(own) = own.filter(|own| **own != *uid)
        && member.annotations().get(CONFIRM).is_none_or(|confirmed| confirmed != uid)
    {
        return Identity::Refused(format!(
            "another cluster answers (kube-system uid {uid}, joined with {own}); nothing is written. If it is meant to \
             replace the old one: kubectl annotate membercluster {} --overwrite {CONFIRM}={uid}",
            member.name_any(),
        ));
    }
    match twin(hub, member, uid) {
        Some(twin) => Identity::Refused(is_member_already(&twin)),
        None => Identity::Confirmed(uid.to_owned()),
    }
}

fn is_member_already(older: &str) -> String {
    format!(
        "this cluster is a member already, as {older:?}, which is older and stays. Delete this MemberCluster: nothing is deleted in the cluster"
    )
}

/// The uid of the cluster that joined under this name, as far as anything that is kept on the hub tells it.
pub(super) fn intended_uid(hub: &Hub, member: &MemberCluster) -> Option<Arc<str>> {
    let joined = member.status.as_ref().and_then(|status| status.uid.as_deref());
    identity::meant(joined, || hub.catalog.delivered_to(&member.name_any()))
}

/// An older MemberCluster that names the same cluster. It is claimed under one lock, before anything is written: two
/// that register side by side see each other. One that is leaving counts until it is gone.
fn twin(hub: &Hub, member: &MemberCluster, uid: &str) -> Option<String> {
    hub.state.lock().claims.insert(member.name_any(), uid.to_owned());
    let (older, younger) = twins(hub, member, uid);
    // If this one came later than they did, they send nothing more, and look again.
    for other in younger.iter().filter(|_| older.is_empty()) {
        let Some(session) = hub.session(other) else { continue };
        // One that is being accepted beside this looks once more, too.
        if !matches!(session.state(), State::Refused(..)) {
            if !mutants::is(Mutant::YoungerGoesOn) {
                session.reject(&is_member_already(&member.name_any()));
            }
            hub.queue.add(Key::Cluster(other.as_str().into()), Priority::User);
        }
    }
    older.into_iter().next().filter(|_| !mutants::is(Mutant::TwinsAdmitted))
}

/// Other MemberClusters that name the same cluster: older ones, and younger ones.
pub(super) fn twins(hub: &Hub, member: &MemberCluster, uid: &str) -> (Vec<String>, Vec<String>) {
    let claimed = hub.state.lock().claims.clone();
    let age = |member: &MemberCluster| (member.metadata.creation_timestamp.clone(), member.name_any());
    let is_same = |other: &MemberCluster| {
        let name = other.name_any();
        name != member.name_any()
            && (intended_uid(hub, other).as_deref() == Some(uid)
                || claimed.get(&name).is_some_and(|claim| claim == uid))
    };
    let members = hub.catalog.known_members();
    let same = members.iter().filter(|other| is_same(other));
    let (older, younger): (Vec<_>, Vec<_>) = same.partition(|other| age(other) < age(member));
    let names = |all: Vec<&Arc<MemberCluster>>| all.into_iter().map(|other| other.name_any()).collect();
    (names(older), names(younger))
}

/// A MemberCluster is gone: who was refused for it may be accepted.
fn unclaim(hub: &Hub, name: &str) {
    let mut state = hub.state.lock();
    let Some(uid) = state.claims.remove(name) else { return };
    let same: Vec<_> =
        state.claims.iter().filter(|(_, claim)| **claim == uid).map(|(name, _)| name.clone()).collect();
    drop(state);
    for other in same {
        hub.queue.add(Key::Cluster(other.as_str().into()), Priority::User);
    }
}

#[cfg(test)]
mod tests {
    use vidra_api::MemberClusterSpec;

    use super::*;
    use crate::member::session::{Answering, CallErrorNote};

    #[test]
    fn since_when_nobody_answers_is_told_only_while_nobody_does() {
        let at = |second: i64| Time(jiff::Timestamp::from_second(second).unwrap());
        let down = |refused| {
            let error = CallErrorNote { reason: Reason::NoAnswer, message: "it failed".to_owned(), refused };
            State::Down { since: at(5).0, error }
        };
        let who = Answering { uid: "u".to_owned(), version: "v1.36.3".to_owned() };
        let mut member = MemberCluster::new("berlin", MemberClusterSpec::default());
        let missing = || Err((Reason::SecretMissing, "its Secret is missing".to_owned()));
        for (credentials, state, since) in [
            (Ok(()), State::Open(who.clone()), None),
            (Ok(()), down(false), Some(at(5))),
            // Refused credentials are an answer.
            (Ok(()), down(true), None),
            (Ok(()), down(false), Some(at(5))),
            (missing(), State::Connecting, None),
            (Ok(()), down(false), Some(at(5))),
            (Ok(()), State::Asking(who), None),
        ] {
            let findings = Findings { credentials, state, identity: Identity::Unknown };
            let status = findings.status(&member, at(9));
            assert_eq!(status.last_contact_time, since, "{:?}", findings.state);
            member.status = Some(status);
        }
    }
}
