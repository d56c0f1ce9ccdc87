//! What API servers refuse for a while, and what the hub may not read: its own API does not take some of its writes, as under a
//! quota or a policy; a webhook of a member answers with codes that an API server has another meaning for; rights are taken.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Denial, Verb};
use serde_json::{Value, json};
use testkit::sim::{judge::clouds::HUB, observer::HUB_USER};
use tokio::time::sleep;
use vidra_api::labels::REVISION_SECRET_TYPE;

use super::{Walk, steps::secret};

/// What is refused for so long is told: what may pass by itself, when it has failed a few times.
const TOLD_WITHIN: Duration = Duration::from_secs(15);
/// A member that lets nobody ask who it is is told within this: two probes, ten seconds apart, and a status.
const FOUND_WITHIN: Duration = Duration::from_secs(40);
/// Of a registration; the hub carries it to the MemberCluster.
pub(super) const LABEL: &str = "shelf";

/// Is it a write of this kind?
type Meant = fn(&Call, &Value) -> bool;

/// What the hub's own API refuses, and with which code. What 500 says may pass by itself.
const WRITES: [(Meant, u16); 7] = [
    (is_revision, 403),
    (is_revision, 500),
    (is_target, 403),
    (is_inventory, 403),
    (is_status_of_target, 403),
    (is_long_status, 403),
    (is_member, 403),
];

/// Codes of a webhook, each with a reason.
const ANSWERS: [(u16, &str); 8] = [
    (400, "BadRequest"),
    (404, ""),
    (404, "NotFound"),
    (409, "Conflict"),
    (410, "Gone"),
    (422, "Invalid"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
];

fn is_revision(call: &Call, object: &Value) -> bool {
    call.verb == Verb::Create && object["type"] == REVISION_SECRET_TYPE
}

fn is_target(call: &Call, _: &Value) -> bool {
    call.resource == "vidratargets" && call.subresource.is_empty()
}

fn is_inventory(call: &Call, _: &Value) -> bool {
    call.resource == "vidrainventories"
}

fn is_status_of_target(call: &Call, _: &Value) -> bool {
    call.resource == "vidratargets" && call.subresource == "status"
}

/// Of a VidraResource that has targets.
fn is_long_status(call: &Call, object: &Value) -> bool {
    let lists = object["status"]["clusters"].as_array();
    call.resource == "vidraresources"
        && call.subresource == "status"
        && lists.is_some_and(|list| !list.is_empty())
}

fn is_member(call: &Call, _: &Value) -> bool {
    call.resource == "memberclusters" && call.subresource.is_empty()
}

/// A refusal of that code. One that says NotFound names something else than what was written.
fn denial(code: u16, reason: &str) -> Denial {
    let details = match reason {
        "NotFound" => json!({"kind": "policies", "name": "of-the-day"}),
        _ => Value::Null,
    };
    Denial { code, reason: reason.to_owned(), details, ..Denial::new("policy.test.io", "not now") }
}

impl Walk {
    /// One of these, by its number from 0 to 5.
    pub(super) async fn refuse(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 | 1 => self.refuse_on_the_hub(member, some).await,
            2 => self.refuse_with_any_code(member, some).await,
            3 => self.hide_namespaces(member, some).await,
            4 => self.hide_crds(some).await,
            _ => self.lose_what_is_recorded(member, some).await,
        }
    }

    /// The hub's own API refuses some of what the hub writes there, while there is something to write.
    async fn refuse_on_the_hub(&mut self, member: &'static str, some: Duration) {
        let (meant, code) = self.pick(&WRITES);
        let lasts = TOLD_WITHIN + some;
        self.world.observer.cloud(HUB, lasts);
        let reason = if code == 403 { "Forbidden" } else { "InternalError" };
        let refuse = move |call: &Call, object: &Value| {
            let refused = call.user.starts_with(HUB_USER) && meant(call, object);
            if refused { Err(denial(code, reason)) } else { Ok(()) }
        };
        self.world.cluster(HUB).set_validating_admission(Some(Arc::new(refuse)));
        let value = self.value();
        self.label_registration(member, json!(value)).await;
        self.edit().await;
        sleep(lasts).await;
        self.world.cluster(HUB).set_validating_admission(None);
        self.ask_for_a_look().await;
    }

    /// A label of a registration changes.
    pub(super) async fn label_registration(&self, member: &str, value: Value) {
        self.world.try_patch("hub", &secret(member), json!({"metadata": {"labels": {LABEL: value}}})).await;
    }

    /// A webhook of a member refuses what the hub writes about some names. What it says is not the server's word.
    async fn refuse_with_any_code(&mut self, member: &'static str, some: Duration) {
        let (code, reason) = self.pick(&ANSWERS);
        let name = self.pick(&["a", "b", "s", "key", "web", "app"]);
        let refuse = move |call: &Call, object: &Value| {
            let refused = call.user.starts_with(HUB_USER) && object["metadata"]["name"] == name;
            if refused { Err(denial(code, reason)) } else { Ok(()) }
        };
        self.tell(&format!("{member} refuses {name} with {code} {reason}"));
        self.world.cluster(member).set_validating_admission(Some(Arc::new(refuse)));
        // One of them surely has something to write there.
        self.declare(name).await;
        self.edit().await;
        sleep(some).await;
        self.world.cluster(member).set_validating_admission(None);
        self.ask_for_a_look().await;
    }

    /// The hub may not see the namespaces of a member, and so not who it is.
    async fn hide_namespaces(&mut self, member: &'static str, some: Duration) {
        let lasts = FOUND_WITHIN + some;
        self.world.observer.cloud(member, lasts);
        self.world.observer.forbid(Some((member, "namespaces")));
        self.edit().await;
        sleep(lasts).await;
        self.world.observer.forbid(None);
        self.ask_for_a_look().await;
    }

    /// The hub may not read its own CRDs, and a VidraResource is deleted: by a person, as far as it can see.
    async fn hide_crds(&mut self, some: Duration) {
        self.world.observer.cloud(HUB, some);
        self.world.observer.forbid(Some((HUB, "customresourcedefinitions")));
        self.come_or_go().await;
        sleep(some / 2).await;
        self.come_or_go().await;
        sleep(some / 2).await;
        self.world.observer.forbid(None);
        self.ask_for_a_look().await;
    }

    /// Somebody takes inventories away while the hub may not look for what was in them.
    async fn lose_what_is_recorded(&mut self, member: &'static str, some: Duration) {
        self.world.observer.cloud(member, some);
        self.world.observer.forbid(Some((member, "configmaps")));
        self.erase_inventories(member).await;
        self.edit().await;
        sleep(some).await;
        self.world.observer.forbid(None);
        self.ask_for_a_look().await;
    }
}
