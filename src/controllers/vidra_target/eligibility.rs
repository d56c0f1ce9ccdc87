//! Whether a target may be worked on now, and what it says where not.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use vidra_api::{MemberClusterStatus, condition::CREDENTIALS_VALID, find, labels::FORGET};
use vidra_core::{
    mutants::{self, Mutant},
    status::{Delivery, Reason},
};

use super::context::{Context, is_at_rest};
use crate::{
    controllers::{
        confirmation::{Confirmation, orphaning_command},
        unreadable,
    },
    hub::events::Severity,
    member::session::{Session, State},
    workqueue::TargetKey,
};

/// What a target says that is left as it is: it or its member is suspended, or does not allow the namespace any more.
pub(super) fn at_rest(ctx: &Context<'_>, intent: Confirmation) -> Option<Delivery> {
    let TargetKey { namespace, resource, cluster } = ctx.key;
    if ctx.hub.catalog.member(cluster).as_deref().is_some_and(is_at_rest) {
        let message = format!("MemberCluster {cluster} is suspended; set its spec.suspend to false to go on");
        return Some(Delivery::Suspended { message });
    }
    if ctx.is_suspended() {
        // Nothing wakes it when the VidraResource says otherwise beside a manifest that cannot be read.
        let message = format!(
            "VidraResource {resource} was suspended; it goes on when its spec.suspend is false and what it declares can be delivered"
        );
        return Some(Delivery::Suspended { message });
    }
    (intent == Confirmation::NotAllowed).then(|| Delivery::Revoked {
        message: format!(
            "MemberCluster {cluster} does not allow namespace {namespace} any more: what is there stays as it is and nothing is written. Add {namespace} to its spec.allowedNamespaces to go on, or leave the cluster out of the VidraResource to clean up there"
        ),
    })
}

/// What a target says of which nobody can say whether it is wanted.
pub(super) fn explain(ctx: &Context<'_>, missing: Confirmation) -> Delivery {
    let TargetKey { namespace, resource, cluster } = ctx.key;
    let (reason, message) = match missing {
        Confirmation::MemberMissing => (
            Reason::MemberMissing,
            format!(
                "MemberCluster {cluster} does not exist. That is no wish to leave: nothing is written and nothing is deleted. Create it again, or annotate VidraResource {namespace}/{resource} with {FORGET}={cluster} to leave what is there"
            ),
        ),
        Confirmation::MemberUnread => {
            (Reason::HubTooOld, unreadable::message(&format!("MemberCluster {cluster}")))
        }
        Confirmation::ResourceUnread => {
            (Reason::HubTooOld, unreadable::message(&format!("VidraResource {namespace}/{resource}")))
        }
        _ => (
            Reason::ResourceMissing,
            format!(
                "VidraResource {namespace}/{resource} does not exist. That is no wish to delete: nothing is written and nothing is deleted. Apply it again, or keep what it delivered without it: {}",
                orphaning_command(ctx.key),
            ),
        ),
    };
    if matches!(missing, Confirmation::ResourceMissing | Confirmation::ResourceUnread) {
        // There is no VidraResource to say it of.
        ctx.hub.events.say(ctx.target, Severity::Warning, reason, &message);
    }
    Delivery::Unreachable { reason, message }
}

/// The session, if it may be worked with; `None` while it, or its first answer, is awaited.
pub(super) fn open_session(ctx: &Context<'_>) -> Result<Option<Arc<Session>>, Delivery> {
    let cluster = &ctx.key.cluster;
    let is_judged = || {
        ctx.hub.catalog.member(cluster).is_none()
            || ctx.hub.state.lock().member(cluster).is_some_and(|member| member.judged)
    };
    let Some(session) = session_once_judged(is_judged, || ctx.hub.session(cluster)) else {
        return Ok(None);
    };
    let Some(session) = session else {
        let reason = Reason::NoCredentials;
        let message = format!(
            "the hub has no usable credentials for it; nothing was deleted. See `kubectl describe membercluster {cluster}`"
        );
        return Err(Delivery::Unreachable { reason, message });
    };
    match session.state() {
        // Who answers is asked first.
        State::Open(_) => Ok(session.is_sure_for(ctx.key).then_some(session)),
        State::Down { since, error } => {
            // This process may have begun in the middle of it.
            let member = ctx.hub.catalog.member(cluster);
            let told = member.and_then(|member| out_of_reach_since(member.status.as_ref()?));
            let told = told.filter(|_| !mutants::is(Mutant::SilenceBeginsAnew));
            let since = told.map_or(since, |told| since.min(told.0));
            let message = format!("out of reach since {since:.0}: {}", error.message);
            Err(Delivery::Unreachable { reason: Reason::MemberUnreachable, message })
        }
        State::Refused(_, message) => {
            Err(Delivery::Unreachable { reason: Reason::IdentityNotConfirmed, message })
        }
        State::Connecting | State::Asking(_) => Ok(None),
    }
}

/// Since when the status of a member says that nothing is read of it: it is silent, or refuses the credentials.
fn out_of_reach_since(status: &MemberClusterStatus) -> Option<Time> {
    let refused = || {
        let valid = find(&status.conditions, CREDENTIALS_VALID)?;
        (valid.status == "False").then(|| valid.last_transition_time.clone())
    };
    status.last_contact_time.clone().or_else(refused)
}

/// The session of a member, or that it has none; `None`: its credentials were not looked at yet. That is asked first: where
/// they are looked at in between, there is a session by then.
fn session_once_judged<S>(
    is_judged: impl FnOnce() -> bool,
    session: impl FnOnce() -> Option<S>,
) -> Option<Option<S>> {
    let judged = is_judged();
    let session = session();
    (judged || session.is_some()).then_some(session)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_that_is_silent_or_refuses_the_credentials_is_out_of_reach_since_its_status_says_so() {
        let (told, since) = ("2026-01-02T03:04:05Z", |status| {
            let status: MemberClusterStatus = serde_json::from_value(status).unwrap();
            out_of_reach_since(&status).map(|time| time.0.to_string())
        });
        let valid = |valid: &str| {
            let condition = json!({"type": "CredentialsValid", "status": valid, "reason": "R", "message": "",
                "lastTransitionTime": told});
            json!({"conditions": [condition]})
        };
        assert_eq!(since(json!({"lastContactTime": told})).as_deref(), Some(told));
        assert_eq!(since(valid("False")).as_deref(), Some(told));
        for none in [json!({}), valid("True"), valid("Unknown")] {
            assert_eq!(since(none), None);
        }
    }

    #[test]
    fn credentials_that_are_looked_at_meanwhile_are_not_missing() {
        let judged = Cell::new(false);
        let none_yet = || {
            judged.set(true);
            None::<()>
        };
        assert_eq!(session_once_judged(|| judged.get(), none_yet), None, "what is there is awaited");
        assert_eq!(session_once_judged(|| judged.get(), || None::<()>), Some(None), "it has none");
        assert_eq!(session_once_judged(|| false, || Some(1)), Some(Some(1)));
    }
}
