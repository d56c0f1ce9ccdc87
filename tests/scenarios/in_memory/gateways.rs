//! Gateways that answer for a member with a page of their own: what they say is not the API server's word, whatever code
//! it bears. Only in memory can a gateway be told which call to answer so.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Fault, Verb};
use serde_json::{Value, json};
use testkit::world::{Access, At, Who, World};
use tokio::time::Instant;
use vidra_api::TargetState;

use super::{memory, scenario, started::with_namespace};
use crate::{
    config_map, config_map_in,
    health::{GADGET, in_wave},
    says,
};

const CODES: [u16; 9] = [401, 403, 404, 409, 410, 413, 422, 429, 503];

#[test]
fn a_gateways_page_is_no_contact_with_the_member_whatever_its_code() {
    for code in CODES {
        scenario(async |world| {
            world.register(&["berlin"]).await;
            let berlin = memory(&world, "berlin");
            berlin.set_fault(Arc::new(move |_: &Call| Fault::Html(code)));
            world.member_says("berlin", "Reachable", "False").await;
            berlin.clear_fault();
            tokio::time::sleep(Duration::from_secs(150)).await;
            world.member_says("berlin", "Reachable", "True").await;
            world.end().await;
        });
    }
}

#[test]
fn a_gateways_page_in_place_of_a_write_or_a_read_says_nothing_of_the_object_whatever_its_code() {
    // A page, or JSON that is no object: with a code of success, too.
    let answers = CODES.map(Fault::Html).into_iter().chain([200, 404].map(Fault::Json));
    for answer in answers {
        scenario(async |world| {
            world.register(&["berlin"]).await;
            let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
            world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
            world.ready("shop").await;
            let berlin = memory(&world, "berlin");
            let page = |verb: Verb| {
                let answer = answer.clone();
                Arc::new(move |call: &Call| {
                    let is_hubs = &*call.user == Who::VidraHub.name();
                    match is_hubs && call.verb == verb && call.resource == "configmaps" {
                        true => answer.clone(),
                        false => Fault::None,
                    }
                })
            };
            berlin.set_fault(page(Verb::Apply));
            world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
            world.target_is("shop", "berlin", TargetState::Failed, "ServerError").await;
            world.resource_says("shop", "Stalled", "False", "Moving").await;
            // It lasts, and ends: nobody needs to ask.
            tokio::time::sleep(Duration::from_secs(90)).await;
            berlin.clear_fault();
            let ended = tokio::time::Instant::now();
            world.ready("shop").await;
            assert!(ended.elapsed() <= Duration::from_secs(35), "{answer:?}: {:?}", ended.elapsed());
            assert!(says("two")(&alice.live(&settings).await));

            for verb in [Verb::Get, Verb::Delete] {
                berlin.set_fault(page(verb));
                if verb == Verb::Get {
                    world.hub.delete(&world.resource_at("shop")).await;
                }
                tokio::time::sleep(Duration::from_secs(25)).await;
                alice.live(&settings).await;
                let target = world.target("shop", "berlin").await;
                assert!(target.is_some(), "{answer:?} for {verb}: the hub says that all of it is gone");
            }
            berlin.clear_fault();
            world.removed("shop").await;
            alice.gone(&settings).await;
            world.end().await;
        });
    }
}

type Answered = fn(&Call) -> bool;

/// What alice has in the namespace, that would go with it, and what of the member's API would tell of it.
const HIDDEN: [(&str, Answered); 2] = [
    ("rbac.authorization.k8s.io/v1 Role", |call| call.path == "/apis"),
    ("v1 ConfigMap", |call| call.verb == Verb::List && call.resource == "configmaps"),
];

#[test]
fn a_gateways_json_in_place_of_a_list_or_a_discovery_makes_nothing_empty() {
    for (kind, is_hidden) in HIDDEN {
        scenario(async |world| {
            world.register(&["berlin"]).await;
            let alice = world.alice("berlin").await;
            let name = format!("{}-own", world.ns);
            let namespace = with_namespace(&world, &name).await;
            let (api_version, kind) = kind.split_once(' ').expect("an apiVersion and a kind");
            let metadata = json!({"name": "alices", "namespace": name});
            let theirs =
                alice.create(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})).await;

            let berlin = memory(&world, "berlin");
            berlin.set_fault(Arc::new(move |call: &Call| {
                let is_hubs = &*call.user == Who::VidraHub.name();
                if is_hubs && is_hidden(call) { Fault::Json(200) } else { Fault::None }
            }));
            // What was known of the member before is old by then.
            tokio::time::sleep(Duration::from_secs(120)).await;
            world.hub.delete(&world.resource_at("shop")).await;
            tokio::time::sleep(Duration::from_secs(120)).await;
            let left = alice.live(&At::of(&namespace)).await;
            assert!(left["metadata"]["deletionTimestamp"].is_null(), "{kind}: {left}");
            assert_eq!(alice.live(&At::of(&theirs)).await["metadata"]["uid"], theirs["metadata"]["uid"]);

            berlin.clear_fault();
            world.removed("shop").await;
            let left = alice.live(&At::of(&namespace)).await;
            assert!(left["metadata"]["deletionTimestamp"].is_null(), "it is not empty: {left}");
            alice.delete(&At::of(&namespace)).await;
            world.end().await;
        });
    }
}

/// Makes the CRD of gadgets, which declares a status, in berlin, where the hub gets this answer in its place; and
/// delivers one gadget, and behind it a ConfigMap.
async fn with_crd_answered(world: &World, alice: &Access, answer: Fault) -> Value {
    let mut crd = GADGET.crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] =
        json!({"observedGeneration": {"type": "integer"}});
    let crd = alice.create(crd).await;
    let berlin = memory(world, "berlin");
    berlin.set_fault(Arc::new(move |call: &Call| {
        let is_hubs = &*call.user == Who::VidraHub.name() && call.verb == Verb::Get;
        match is_hubs && call.resource == "customresourcedefinitions" {
            true => answer.clone(),
            false => Fault::None,
        }
    }));
    let manifest = in_wave(GADGET.one("one"), 1) + &in_wave(config_map_in("", "late", "one"), 2);
    world.deliver("shop", &["berlin"], &manifest).await;
    crd
}

#[test]
fn a_crd_that_may_not_be_read_declares_nothing_and_holds_no_wave_up() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, began) = (world.alice("berlin").await, Instant::now());
        let crd = with_crd_answered(&world, &alice, Fault::Status(403, "Forbidden")).await;
        alice.when(&At::config_map(&world.ns, "late"), "the next wave", says("one")).await;
        world.ready("shop").await;
        assert!(began.elapsed() < Duration::from_secs(5), "after {:?}", began.elapsed());
        world.end().await;
        alice.delete(&At::of(&crd)).await;
    });
}

#[test]
fn an_answer_of_something_else_in_place_of_a_crd_opens_no_wave_and_is_not_remembered() {
    for answer in [Fault::NotFound("namespaces", "nowhere"), Fault::Unauthorized] {
        scenario(async |world| {
            world.register(&["berlin"]).await;
            let alice = world.alice("berlin").await;
            let crd = with_crd_answered(&world, &alice, answer.clone()).await;
            let late = At::config_map(&world.ns, "late");
            let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
            assert!(message.contains("what its CRD declares yet"), "{answer:?}: {message}");
            memory(&world, "berlin").clear_fault();
            world.reconcile_now("shop", "1").await;
            let awaits = |status: &vidra_api::VidraTargetStatus| {
                status.message.as_ref().is_some_and(|message| message.contains("and it has none yet"))
            };
            world.target_when("shop", "berlin", "a first status is awaited", awaits).await;
            assert!(alice.get(&late).await.is_none(), "{answer:?}");
            GADGET.set(&world, &alice, "one", json!({"observedGeneration": 1})).await;
            alice.when(&late, "the next wave", says("one")).await;
            world.ready("shop").await;
            world.end().await;
            alice.delete(&At::of(&crd)).await;
        });
    }
}
