//! The story of one VidraResource on a few members: delivered, ready, tampered with, repaired.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    DemoError,
    fleet::{Fleet, apply, patch},
    teller::Teller,
    watches::{self, Told},
};

const SHOP: &str = include_str!("../../clusters/examples/shop.yaml");
const NAMESPACE: &str = "shop";
const TEAM: &str = "team-a";
const WITHIN: Duration = Duration::from_secs(30);

/// Shows it.
pub async fn show(fleet: &Fleet, teller: &Arc<Teller>) -> Result<(), DemoError> {
    let told = watches::follow(fleet, teller, NAMESPACE);
    let count = fleet.members.len();
    let ready = || {
        members(fleet).iter().filter(|member| is_ready(member) && told.is_up_to(&fleet.hub, member)).count()
    };
    until("all members are ready", || ready() == count).await?;
    teller.tell("you", "kubectl apply --server-side -f clusters/examples/shop.yaml");
    for document in documents()? {
        apply(&fleet.hub, "admin", document).await?;
    }
    let is_shop_ready = || is_ready(&resource(fleet)) && told.is_up_to(&fleet.hub, &resource(fleet));
    until("the shop is ready on all members", is_shop_ready).await?;
    teller.tell("demo", &format!("the shop is ready on {count} members"));
    edited(fleet, teller, &told).await?;
    deleted(fleet, teller, &told).await?;
    // The last status of a burst comes a second after the first.
    until("the hub counts both corrections", || corrections(fleet) >= 2 && is_ready(&resource(fleet)))
        .await?;
    teller.tell("demo", "everything is as declared");
    Ok(())
}

async fn edited(fleet: &Fleet, teller: &Teller, told: &Told) -> Result<(), DemoError> {
    let Some(member) = fleet.members.get(1).or(fleet.members.first()) else { return Ok(()) };
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop", "namespace": NAMESPACE}});
    let began = Instant::now();
    teller.tell("alice", &format!("edits ConfigMap shop on {}: greeting: Go away", member.name()));
    patch(member, "alice", settings, json!({"data": {"greeting": "Go away"}})).await?;
    let live = || member.object("", "configmaps", NAMESPACE, "shop").unwrap_or_default();
    until("the edit is undone", || live()["data"]["greeting"] == "Welcome").await?;
    let took = began.elapsed();
    until("the edit is told", || told.is_up_to(member, &live())).await?;
    tell_took(teller, member.name(), "the edit is undone", took);
    Ok(())
}

async fn deleted(fleet: &Fleet, teller: &Teller, told: &Told) -> Result<(), DemoError> {
    let Some(member) = fleet.members.last() else { return Ok(()) };
    let live = || member.object("", "services", NAMESPACE, "shop").unwrap_or_default();
    let uid = || live()["metadata"]["uid"].clone();
    let (before, began) = (uid(), Instant::now());
    teller.tell("alice", &format!("deletes Service shop on {}", member.name()));
    let client = member.client_as("alice");
    let services: kube::Api<k8s_openapi::api::core::v1::Service> = kube::Api::namespaced(client, NAMESPACE);
    services.delete("shop", &Default::default()).await.map_err(|cause| DemoError::Step {
        step: "delete Service shop".to_owned(),
        cause: cause.to_string(),
    })?;
    until("the Service is made again", || uid().is_string() && uid() != before).await?;
    let took = began.elapsed();
    until("the new Service is told", || told.is_up_to(member, &live())).await?;
    tell_took(teller, member.name(), "the Service is made again", took);
    Ok(())
}

fn tell_took(teller: &Teller, who: &str, what: &str, took: Duration) {
    teller.tell(who, &format!("{what}, {:.0} ms after it was done", took.as_secs_f64() * 1000.0));
}

/// The documents of the example.
fn documents() -> Result<Vec<Value>, DemoError> {
    let read = |cause: String| DemoError::Step { step: "read the example".to_owned(), cause };
    let documents = serde_saphyr::from_multiple(SHOP);
    documents.map_err(|cause| read(cause.to_string()))
}

fn resource(fleet: &Fleet) -> Value {
    fleet.hub.object(vidra_api::GROUP, "vidraresources", TEAM, "shop").unwrap_or_default()
}

/// The MemberClusters.
pub fn members(fleet: &Fleet) -> Vec<Value> {
    fleet.hub.objects(vidra_api::GROUP, "memberclusters")
}

fn corrections(fleet: &Fleet) -> u64 {
    let targets = fleet.hub.objects(vidra_api::GROUP, "vidratargets");
    targets.iter().filter_map(|target| target["status"]["corrections"]["count"].as_u64()).sum()
}

/// Has an object the condition Ready, for its present generation?
pub fn is_ready(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| {
        let observed = &one["observedGeneration"];
        one["type"] == "Ready" && one["status"] == "True" && (observed.is_null() || observed == generation)
    })
}

/// Waits until this holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) -> Result<(), DemoError> {
    until_within(what, WITHIN, holds).await
}

/// Waits until this holds, with a deadline of one's own.
pub async fn until_within(what: &str, within: Duration, holds: impl Fn() -> bool) -> Result<(), DemoError> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > within {
            return Err(DemoError::Late { what: what.to_owned(), within });
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
