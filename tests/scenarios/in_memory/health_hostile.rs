//! Health rules and objects of somebody who means no good: what they say is told in clean words or not at all, and counts for
//! nobody else.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Fault, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{
    testbed::Request,
    world::{Access, At, Mark, Who, World},
};
use tokio::time::{Instant, sleep};
use vidra_api::{
    TargetState, VidraTargetStatus,
    names::{HubId, OwnerHash},
};

use super::{memory, scenario};
use crate::{
    config_map, config_map_in, events,
    health::GADGET,
    health_fleet::{rule, write},
    object, says, settings,
};

/// For a terminal, a page and a log.
const EVIL: &str = "\u{1b}[2J\u{202e}evil\r\n<script>\u{7} password=hunter2 Bearer abcdef";

fn ruled(current: &str, message: &str) -> Value {
    json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": [
        {"apiVersion": "health.example.com/v1", "kind": "Gadget", "current": current, "message": message},
    ]})
}

fn gadget() -> String {
    object(&GADGET.crd()) + &object(&GADGET.one("one"))
}

/// The target is not Ready after a look, and neither after a restart.
async fn progresses_over_restarts(world: &mut World) {
    for nth in 0..2 {
        world.look("shop", &format!("look {nth}"), 1).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        world.restart_hub().await;
        world.member_says("berlin", "Ready", "True").await;
    }
}

/// Delivers a Gadget to berlin, with this beside it; alice is there.
async fn deliver(world: &World, spec: Value) -> Access {
    world.register(&["berlin"]).await;
    world.deliver_with("shop", &gadget(), spec).await;
    world.alice("berlin").await
}

fn note(status: &VidraTargetStatus) -> Option<&str> {
    status.unready.first()?.note.as_deref()
}

#[test]
fn what_an_object_says_is_told_in_clean_words_and_not_at_all_where_redact_names_its_kind() {
    scenario(async |world| {
        let alice = deliver(&world, ruled("status.up", "status.text")).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let text = format!("canary-words {EVIL} {}", "x".repeat(300_000));
        GADGET.set(&world, &alice, "one", json!({"text": text, "up": false})).await;
        world.look("shop", "its words", 1).await;
        let told = |status: &VidraTargetStatus| note(status).is_some_and(|note| note.contains("canary"));
        let status = world.target_when("shop", "berlin", "its words", told).await.status.unwrap();
        let words = note(&status).unwrap();
        assert!(
            words.chars().count() <= 256 && !words.contains(['\u{1b}', '\u{202e}', '\n', '\u{7}']),
            "{words:?}"
        );
        assert!(
            words.contains("evil") && !words.contains("hunter2") && !words.contains("abcdef"),
            "{words:?}"
        );

        settings::set(&world, json!({"redact": "Gadget.health.example.com .status.text"})).await;
        let withheld =
            |status: &VidraTargetStatus| note(status).is_some_and(|note| note.contains("withheld"));
        let status = world.target_when("shop", "berlin", "none of its words", withheld).await.status.unwrap();
        assert!(!json!(status).to_string().contains("canary"), "{status:?}");
        GADGET.set(&world, &alice, "one", json!({"text": "canary-again", "up": false})).await;
        world.look("shop", "once more", 1).await;
        let is_silent = |object: &Value| !object["status"].to_string().contains("canary");
        world.hub.when(&world.resource_at("shop"), "none of its words", is_silent).await;
        assert!(is_silent(&world.hub.live(&world.target_at("shop", "berlin")).await));
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn rules_in_a_namespace_that_is_not_the_hubs_count_for_nobody_wherever_they_are_from() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.register_as("local", &world.kubeconfig("hub", Who::Admin), json!({})).await;
        let alice = world.alice("berlin").await;
        let rule = json!([{"apiVersion": "health.example.com/v1", "kind": "Gadget", "current": "true"}]);
        let rules = |name: &str| {
            let mut rules = config_map_in(&world.ns, name, &rule.to_string());
            rules["metadata"]["labels"] = json!({"vidra.dev/health-rules": "true"});
            rules
        };
        world.hub.create(rules("mine")).await;
        world.deliver("rules", &["local"], &object(&rules("delivered"))).await;
        world.ready("rules").await;
        assert!(world.hub.get(&At::config_map(&world.ns, "delivered")).await.is_some());

        world.deliver("shop", &["berlin"], &gadget()).await;
        world.ready("shop").await;
        let down = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "Down"}]});
        GADGET.set(&world, &alice, "one", down).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        world.look("shop", "once more", 1).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        assert_eq!(events(&world, "HealthRulesChanged").await, [""; 0]);
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

/// Those of gadgets on a member since a mark.
fn lists(world: &World, member: &str, mark: &Mark) -> Vec<Request> {
    let all = world.requests(member, mark).into_iter();
    all.filter(|one| one.verb == "list" && one.resource == "gadgets").collect()
}

#[test]
fn own_rules_that_are_edited_all_the_time_have_what_bears_the_owners_label_listed_once_in_a_while() {
    scenario(async |world| {
        let alice = deliver(&world, ruled("has(metadata.name)", "'x'")).await;
        world.ready("shop").await;
        sleep(Duration::from_secs(30)).await;
        let mark = world.mark();
        for nth in 0..20 {
            let current = format!("has(metadata.name) || {nth} == 0");
            world.deliver_with("shop", &gadget(), ruled(&current, "'x'")).await;
            world.look("shop", &format!("edit {nth}"), 1).await;
        }
        assert_eq!(lists(&world, "berlin", &mark).len(), 1);
        sleep(Duration::from_secs(60)).await;
        let all = lists(&world, "berlin", &mark);
        assert_eq!(all.len(), 2, "what was edited since is judged by one more");
        let owner = OwnerHash::new(&HubId::try_from(&*world.ns).unwrap(), &world.ns, "shop").label_key();
        assert!(all.iter().all(|one| one.uri.contains(&owner)), "{owner}: {all:?}");
        assert_eq!(world.writes("berlin", &mark), []);
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn rules_of_the_fleet_that_are_edited_all_the_time_cost_few_lists_and_two_at_once() {
    const TAKES: Duration = Duration::from_secs(4);
    scenario(async |world| {
        let members = ["austin", "berlin", "tokyo"];
        world.register(&members).await;
        world.deliver("shop", &members, &gadget()).await;
        world.ready("shop").await;
        let began = Arc::new(Mutex::new(Vec::new()));
        for member in members {
            let began = began.clone();
            let slow = move |call: &Call| match call.verb == Verb::List && call.resource == "gadgets" {
                true => {
                    began.lock().push(Instant::now());
                    Fault::Delay(TAKES)
                }
                false => Fault::None,
            };
            memory(&world, member).set_fault(Arc::new(slow));
        }
        let mark = world.mark();
        for nth in 0..20 {
            write(&world, "rules", &rule(&format!("has(metadata.name) || {nth} == 0"))).await;
            sleep(Duration::from_secs(3)).await;
        }
        sleep(Duration::from_secs(60)).await;
        for member in members {
            let count = lists(&world, member, &mark).len();
            assert!((2..=8).contains(&count), "{count} lists on {member} for 20 edits");
            assert_eq!(world.writes(member, &mark), []);
        }
        let began = began.lock().clone();
        let beside = |at: &Instant| began.iter().filter(|one| **one >= *at && **one < *at + TAKES).count();
        assert_eq!(began.iter().map(beside).max(), Some(2), "{began:?}");
        for member in members {
            memory(&world, member).clear_fault();
        }
        world.end().await;
    });
}

#[test]
fn a_status_that_turns_all_the_time_costs_few_writes_and_holds_no_repair_up() {
    scenario(async |world| {
        settings::set(&world, json!({"health.failedAfter": "0s"})).await;
        let mut spec = ruled("status.up", "status.text");
        spec["statusFeedback"] = json!([{"apiVersion": "health.example.com/v1", "kind": "Gadget",
            "values": [{"name": "text", "expression": "status.text"}]}]);
        let alice = deliver(&world, spec).await;
        world.deliver("other", &["berlin"], &config_map("beside", "one")).await;
        world.ready("other").await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let (mark, beside) = (world.mark(), At::config_map(&world.ns, "beside"));
        for nth in 0..200 {
            let text = "x".repeat(nth % 40);
            GADGET.set(&world, &alice, "one", json!({"up": nth % 2 == 1, "text": text})).await;
            if nth == 100 {
                alice.merge(&beside, json!({"data": {"key": "alice's"}})).await;
            }
        }
        alice.when(&beside, "repaired", says("one")).await;
        world.ready("shop").await;
        let written = world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark).len();
        assert!(written <= 40, "{written} writes for 200 changes");
        let told = world.writes_to(&world.resource_at("shop"), "hub", &mark).len();
        assert!(told <= 40, "{told} writes for 200 changes");
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_rule_for_secrets_sees_nothing_of_what_is_in_them_before_and_after_a_restart() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
            "stringData": {"key": "canary"}});
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": [
            {"apiVersion": "v1", "kind": "Secret", "current": "data.key.startsWith('Y')",
                "failed": "has(stringData.key) || size(data) > 0", "message": "data.key"},
        ]});
        world.deliver_with("shop", &object(&secret), spec).await;
        for nth in 0..2 {
            let said =
                world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
            assert!(said.contains("is withheld: the setting redact") && !said.contains("Y2FuYXJ5"), "{said}");
            world.restart_hub().await;
            world.member_says("berlin", "Ready", "True").await;
            world.look("shop", &format!("look {nth}"), 1).await;
        }
        world.end().await;
    });
}

#[test]
fn what_an_object_said_is_withheld_where_redact_comes_to_name_its_kind_while_its_target_is_suspended() {
    scenario(async |world| {
        let alice = deliver(&world, ruled("status.up", "status.text")).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        GADGET.set(&world, &alice, "one", json!({"text": "canary", "up": false})).await;
        world.look("shop", "its words", 1).await;
        let told = |status: &VidraTargetStatus| note(status).is_some_and(|note| note.contains("canary"));
        world.target_when("shop", "berlin", "its words", told).await;
        world.hub.merge(&world.resource_at("shop"), json!({"spec": {"suspend": true}})).await;
        let rests = |status: &VidraTargetStatus| status.state == Some(TargetState::Suspended);
        world.target_when("shop", "berlin", "suspended", rests).await;
        settings::set(&world, json!({"redact": "Gadget.health.example.com .status.text"})).await;
        let withheld = |status: &VidraTargetStatus| !json!(status).to_string().contains("canary");
        world.target_when("shop", "berlin", "none of its words", withheld).await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_rule_of_a_resource_cannot_ask_for_a_field_that_redact_names_before_and_after_a_restart() {
    scenario(async |mut world| {
        settings::set(&world, json!({"redact": "Gadget.health.example.com .status.token"})).await;
        let asks = ruled("status.token.startsWith('c') || !status.token.startsWith('c')", "'x'");
        let alice = deliver(&world, asks).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        GADGET.set(&world, &alice, "one", json!({"token": "canary", "up": true})).await;
        progresses_over_restarts(&mut world).await;
        // What is beside it is seen.
        world.deliver_with("shop", &gadget(), ruled("status.up", "'x'")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn what_a_rule_of_a_resource_said_while_it_could_not_read_a_field_ends_when_it_can() {
    scenario(async |world| {
        settings::set(&world, json!({"redact": "Gadget.health.example.com .status"})).await;
        let alice = deliver(&world, ruled("status.up", "'x'")).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        GADGET.set(&world, &alice, "one", json!({"up": true})).await;
        world.look("shop", "look", 1).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        settings::set(&world, json!({})).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn what_redact_names_is_hidden_from_rules_of_a_resource_alone() {
    scenario(async |mut world| {
        settings::set(&world, json!({"redact": "Gadget.health.example.com .status.conditions"})).await;
        // Of the whole group: it is about what has the fields that it reads, and this has none of them.
        let group = json!([{"apiVersion": "health.example.com/v1", "current": "status.phase == 'Up'"}]);
        let alice =
            deliver(&world, json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": group}))
                .await;
        world.ready("shop").await;
        let unready = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        GADGET.set(&world, &alice, "one", unready).await;
        progresses_over_restarts(&mut world).await;
        GADGET.set(&world, &alice, "one", json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}
