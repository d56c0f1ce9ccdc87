//! Health rules of the fleet, in ConfigMaps of the hub's namespace: what they say counts on all members, what is broken
//! of them opens nothing, and a change of them alone writes nothing.

use serde_json::{Value, json};
use testkit::world::{Access, At, Mark, SOON, Who, World, wait_for};
use vidra_api::{Change, ChangeKind, TargetState, VidraTarget, VidraTargetStatus};

use crate::{
    config_map, config_map_in,
    health::{GADGET, in_wave},
    object, says, scenario, told_of, uid,
};

const UP: &str = "status.phase == 'Up'";

/// Writes a ConfigMap of rules with this one text.
pub async fn write(world: &World, name: &str, text: &str) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"gadgets": text},
        "metadata": {"name": name, "namespace": world.settings.namespace,
            "labels": {"vidra.dev/health-rules": "true"}},
    });
    world.hub.apply(&object, true).await.expect("the ConfigMap is taken")
}

/// A list with one rule for gadgets.
pub fn rule(current: &str) -> String {
    json!([{"apiVersion": "health.example.com/v1", "kind": "Gadget", "current": current}]).to_string()
}

/// Waits until an Event about the ConfigMap has these words.
async fn said(world: &World, about: &Value, reason: &str, words: &str) {
    let events = At::new("events.k8s.io/v1", "Event", &world.settings.namespace, "");
    wait_for(&format!("an Event {reason}: {words}"), SOON, async || {
        let all = world.hub.list(&events).await;
        let is = |event: &&Value| event["reason"] == reason && event["regarding"]["uid"] == uid(about);
        let mut notes = all.iter().filter(is).filter_map(|event| event["note"].as_str());
        if notes.any(|note| note.contains(words)) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

/// A gadget in wave 1, and a ConfigMap in wave 2.
fn waves(late: &str) -> String {
    object(&GADGET.crd()) + &in_wave(GADGET.one("one"), 1) + &in_wave(config_map_in("", "late", late), 2)
}

/// Waits until kinds have been listed for a change of rules.
async fn listed(world: &World, mark: &Mark) {
    wait_for("a list of gadgets", SOON, async || match asked(world, "list", mark) {
        0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
}

/// How many calls were of this verb and about gadgets.
fn asked(world: &World, verb: &str, mark: &Mark) -> usize {
    let all = world.requests("berlin", mark).into_iter();
    all.filter(|one| one.verb == verb && one.resource == "gadgets").count()
}

fn digest(target: &VidraTarget) -> Option<String> {
    target.status.as_ref().and_then(|status| status.health_rules.clone())
}

#[test]
fn a_rule_of_the_fleet_holds_the_next_wave_until_the_object_is_well_across_a_restart() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let about = write(&world, "gadgets", &rule("has(metadata.name)")).await;
        said(&world, &about, "HealthRulesChanged", "and kubectl wrote this ConfigMap last").await;
        let ann = Access::new(world.hub.client.clone(), "ann");
        ann.merge(&At::of(&about), json!({"data": {"gadgets": rule(UP)}})).await;
        said(&world, &about, "HealthRulesChanged", "and ann wrote this ConfigMap last").await;
        world.deliver("shop", &["berlin"], &waves("one")).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        assert!(message.contains("Gadget"), "{message}");
        let late = At::config_map(&world.ns, "late");

        // The process that comes next goes by the same rules from the start on.
        let (before, mark) = (world.target("shop", "berlin").await.unwrap(), world.mark());
        world.restart_hub().await;
        world.when_passes(1).await;
        assert!(alice.get(&late).await.is_none());
        assert_eq!(world.writes("berlin", &mark), []);
        let after = world.target("shop", "berlin").await.unwrap();
        assert!(digest(&before).is_some());
        assert_eq!(before.metadata.resource_version, after.metadata.resource_version);

        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.ready("shop").await;
        alice.when(&late, "the next wave", says("one")).await;
        assert_eq!(world.metric("vidra_health_rules{state=\"InUse\"}"), 1.0);

        // What is as it should be is written by no restart either.
        let (before, mark) = (world.target("shop", "berlin").await.unwrap(), world.mark());
        world.restart_hub().await;
        world.when_passes(1).await;
        assert_eq!(world.writes("berlin", &mark), []);
        let after = world.target("shop", "berlin").await.unwrap();
        assert_eq!(before.metadata.resource_version, after.metadata.resource_version);
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_rule_of_the_fleet_that_breaks_is_as_it_was_and_one_that_never_was_whole_opens_no_wave() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let about = write(&world, "gadgets", &rule(UP)).await;
        told_of(&world, &about, "HealthRulesChanged").await;
        world.deliver("shop", &["berlin"], &waves("one")).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;

        write(&world, "gadgets", &rule("status.phase = 'Up'")).await;
        said(&world, &about, "HealthRuleInvalid", "ConfigMap gadgets, key gadgets, rules[0]: health rule")
            .await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Fine"})).await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.ready("shop").await;

        let other = write(&world, "others", &rule("true")).await;
        said(
            &world,
            &other,
            "HealthRuleDuplicate",
            "ConfigMap others, key gadgets, rules[0]: it does not count",
        )
        .await;
        world.hub.delete(&At::config_map(&world.settings.namespace, "others")).await;
        assert_eq!(world.metric("vidra_health_rules{state=\"InUse\"}"), 1.0);

        // A process that never knew what it was says so, takes nothing away, and opens nothing.
        let mark = world.mark();
        world.restart_hub().await;
        world.member_says("berlin", "Ready", "True").await;
        world.look("shop", "after the restart", 1).await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((status.state, &status.unready[..]), (Some(TargetState::Ready), &[][..]));
        assert_eq!(world.writes("berlin", &mark), []);
        world.deliver("shop", &["berlin"], &waves("two")).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let late = At::config_map(&world.ns, "late");
        assert_eq!(alice.live(&late).await["data"]["key"], "one");
        write(&world, "gadgets", &rule(UP)).await;
        alice.when(&late, "the next wave", says("two")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_rule_of_the_fleet_that_broke_stops_neither_repair_nor_prune() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let about = write(&world, "gadgets", &rule(UP)).await;
        told_of(&world, &about, "HealthRulesChanged").await;
        let first = object(&GADGET.crd()) + &object(&GADGET.one("one")) + &config_map("kept", "one");
        world.deliver("shop", &["berlin"], &(first.clone() + &config_map("dropped", "one"))).await;
        alice.when(&GADGET.at(&world, "one"), "there", |_| true).await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.ready("shop").await;
        write(&world, "gadgets", &rule("status.phase = 'Up'")).await;
        said(&world, &about, "HealthRuleInvalid", "health rule health.example.com/Gadget").await;
        world.restart_hub().await;
        world.look("shop", "after the restart", 1).await;

        let (kept, one) = (At::config_map(&world.ns, "kept"), GADGET.at(&world, "one"));
        alice.merge(&kept, json!({"data": {"key": "evil"}})).await;
        alice.when(&kept, "repaired", says("one")).await;
        alice.merge(&one, json!({"spec": {"size": 7}})).await;
        alice.when(&one, "repaired", |one| one["spec"]["size"] == 1).await;
        world.deliver("shop", &["berlin"], &first).await;
        alice.gone(&At::config_map(&world.ns, "dropped")).await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_change_of_the_fleets_rules_alone_applies_nothing_and_closes_no_wave_that_is_open() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        world.deliver("shop", &["berlin"], &waves("one")).await;
        world.ready("shop").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Fine"})).await;

        // One that turns no verdict has the kind listed, and writes nothing.
        let (before, mark) = (world.target("shop", "berlin").await.unwrap(), world.mark());
        let about = write(&world, "rules", &rule("has(metadata.name)")).await;
        told_of(&world, &about, "HealthRulesChanged").await;
        listed(&world, &mark).await;
        let after = world.target("shop", "berlin").await.unwrap();
        assert_eq!(before.metadata.resource_version, after.metadata.resource_version);
        // A real server ends watches of a kind that was defined a moment ago.
        if world.bed().memory("berlin").is_some() {
            assert_eq!(asked(&world, "watch", &mark), 0, "its watch tells while it is listed");
        }

        world.hub.delete(&At::config_map(&world.settings.namespace, "rules")).await;
        let about = write(&world, "rules", &rule(UP)).await;
        let message = world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        assert!(message.contains("Gadget"), "{message}");
        assert_eq!(world.writes("berlin", &mark), []);
        said(&world, &about, "HealthRulesChanged", "health rule health.example.com/Gadget: 1 object judged")
            .await;
        assert_eq!(world.metric("vidra_health_turned_total"), 1.0);
        let was = digest(&before);
        world.target_when("shop", "berlin", "another digest", |status| status.health_rules != was).await;

        // The gadget has not changed: what waits for it goes on.
        world.deliver("shop", &["berlin"], &waves("two")).await;
        let late = At::config_map(&world.ns, "late");
        alice.when(&late, "the wave that was open", says("two")).await;
        // From its next change on it counts.
        let enough = world.passes() + 1;
        GADGET.set(&world, &alice, "one", json!({"phase": "Fair"})).await;
        world.when_passes(enough).await;
        world.deliver("shop", &["berlin"], &waves("three")).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_rule_of_the_fleet_that_takes_the_place_of_an_own_one_opens_nothing_that_the_own_one_held() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}],
            "healthCheckExprs": [{"apiVersion": "health.example.com", "current": UP}]});
        let first = object(&GADGET.crd()) + &in_wave(GADGET.one("one"), 1);
        world.deliver_with("shop", &first, spec.clone()).await;
        world.ready("shop").await;
        // By what all kinds say of themselves it is well; by the rules of its VidraResource it is not.
        let well = json!({"phase": "Down", "conditions": [{"type": "Ready", "status": "True"}]});
        GADGET.set(&world, &alice, "one", well).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        world.deliver_with("shop", &waves("one"), spec).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let before = world.target("shop", "berlin").await.unwrap();

        write(&world, "gadgets", &rule(UP)).await;
        let was = digest(&before);
        world.target_when("shop", "berlin", "another digest", |status| status.health_rules != was).await;
        world.look("shop", "after the rule", 1).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let late = At::config_map(&world.ns, "late");
        assert!(alice.get(&late).await.is_none(), "no rule that counts has called it well");
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        alice.when(&late, "the next wave", says("one")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn own_rules_that_were_edited_while_the_member_was_suspended_judge_what_changed_since() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let spec =
            |rules: Value| json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": rules});
        let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
        let rules = json!([{"apiVersion": "health.example.com", "current": UP}]);
        let first = object(&GADGET.crd()) + &in_wave(GADGET.one("one"), 1);
        world.deliver_with("shop", &first, spec(json!([]))).await;
        alice.when(&GADGET.at(&world, "one"), "there", |_| true).await;
        let ready =
            |status: &str| json!({"phase": "Down", "conditions": [{"type": "Ready", "status": status}]});
        GADGET.set(&world, &alice, "one", ready("False")).await;
        world.hub.merge(&world.member_at("berlin"), suspend(true)).await;
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        world.deliver_with("shop", &waves("one"), spec(rules)).await;
        wait_for("the rules reach the target", SOON, async || {
            let target = world.target("shop", "berlin").await.ok_or("no target")?;
            let observed = target.status.and_then(|status| status.observed_generation);
            let has_rules = target.spec.health_rules.is_some() && observed == target.metadata.generation;
            has_rules.then_some(()).ok_or_else(|| format!("{:?}", target.spec))
        })
        .await;
        // Well by what all kinds say of themselves, not by the rules that there are by now.
        GADGET.set(&world, &alice, "one", ready("True")).await;

        world.hub.merge(&world.member_at("berlin"), suspend(false)).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let late = At::config_map(&world.ns, "late");
        assert!(alice.get(&late).await.is_none(), "no rule that counts has called it well");
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        alice.when(&late, "the next wave", says("one")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn own_rules_that_came_with_an_override_that_fails_judge_what_changes_until_it_is_corrected() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let spec = |rules: Value, overrides: Value| {
            json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": rules,
                "overrides": overrides})
        };
        let first = object(&GADGET.crd()) + &in_wave(GADGET.one("one"), 1);
        world.deliver_with("shop", &first, spec(json!([]), json!([]))).await;
        alice.when(&GADGET.at(&world, "one"), "there", |_| true).await;
        let ready =
            |status: &str| json!({"phase": "Down", "conditions": [{"type": "Ready", "status": status}]});
        GADGET.set(&world, &alice, "one", ready("False")).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let rules = json!([{"apiVersion": "health.example.com", "current": UP}]);
        let region = json!([{"target": {"kind": "ConfigMap"},
            "set": [{"path": ".data.key", "expression": "cluster.labels['region']"}]}]);
        world.deliver_with("shop", &waves("one"), spec(rules, region)).await;
        world.target_is("shop", "berlin", TargetState::Failed, "OverrideFailed").await;
        // Well by what all kinds say of themselves, not by the rules that there are by now.
        let enough = world.passes() + 1;
        GADGET.set(&world, &alice, "one", ready("True")).await;
        world.when_passes(enough).await;

        let labels = json!({"metadata": {"labels": {"region": "eu"}}});
        world.hub.merge(&world.member_at("berlin"), labels).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let late = At::config_map(&world.ns, "late");
        assert!(alice.get(&late).await.is_none(), "no rule that counts has called it well");
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        alice.when(&late, "the next wave", says("eu")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn an_object_whose_marks_are_taken_off_is_judged_by_the_own_rules_all_the_same() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let rules = json!([{"apiVersion": "health.example.com/v1", "kind": "Gadget", "current": UP}]);
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"},
            "healthCheckExprs": rules});
        world.deliver_with("shop", &waves("one"), spec).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let well = json!({"phase": "Down", "conditions": [{"type": "Ready", "status": "True"}]});
        GADGET.set(&world, &alice, "one", well).await;
        alice.merge(&GADGET.at(&world, "one"), json!({"metadata": {"managedFields": [{}]}})).await;
        let is_lost = |change: &Change| change.change == ChangeKind::OwnershipLost;
        let told = |status: &VidraTargetStatus| status.changes.iter().any(is_lost);
        world.target_when("shop", "berlin", "its marks are lost", told).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        assert!(alice.get(&At::config_map(&world.ns, "late")).await.is_none(), "no wave is open");
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn rules_that_the_hub_has_delivered_itself_do_not_count() {
    scenario(async |world| {
        let mut about = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"gadgets": rule("has(metadata.name)")},
            "metadata": {"name": "gadgets", "namespace": world.settings.namespace,
                "labels": {"vidra.dev/health-rules": "true", "vidra.dev/hub": world.ns}},
        });
        about = world.hub.create(about).await;
        said(&world, &about, "HealthRuleInvalid", "this hub has delivered it").await;
        let at = At::config_map(&world.settings.namespace, "gadgets");
        world.hub.merge(&at, json!({"metadata": {"labels": {"vidra.dev/hub": "another"}}})).await;
        told_of(&world, &about, "HealthRulesChanged").await;
        world.end().await;
    });
}

#[test]
fn nothing_is_delivered_into_the_hubs_own_namespace_of_its_own_cluster() {
    scenario(async |world| {
        world.register_as("local", &world.kubeconfig("hub", Who::Admin), json!({})).await;
        world.member_says("local", "Ready", "True").await;
        let own = &*world.settings.namespace;
        let mut rules = config_map_in(own, "gadgets", &rule("has(metadata.name)"));
        rules["metadata"]["labels"] = json!({"vidra.dev/health-rules": "true"});
        world.deliver("rules", &["local"], &(object(&rules) + &config_map("beside", "one"))).await;
        let message = world.target_is("rules", "local", TargetState::Failed, "HubNamespace").await;
        assert!(message.contains(&format!("ConfigMap {own}/gadgets")), "{message}");
        assert!(world.hub.get(&At::config_map(own, "gadgets")).await.is_none());
        world.deliver("rules", &["local"], &config_map("beside", "one")).await;
        world.ready("rules").await;
        world.end().await;
    });
}
