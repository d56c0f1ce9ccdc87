//! What is no longer declared goes, as the policies say; what looks like a mistake is held.

use serde_json::{Value, json};
use testkit::world::{Access, At, LONG, SOON, World, wait_for};
use vidra_api::TargetState;

use crate::{apply_modes::annotated, config_map, config_map_in, inventoried, marks, says, scenario, uid};

#[test]
fn a_dropped_document_is_pruned_unless_pruning_is_off() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let manifest = |names: &[&str]| names.iter().map(|name| config_map(name, "one")).collect::<String>();
        let spec = |prune: bool| json!({"targets": [{"clusterNames": ["berlin"]}], "prune": prune});
        world.deliver_with("shop", &manifest(&["a", "b", "c"]), spec(true)).await;
        world.ready("shop").await;
        let kept = alice.live(&at("a")).await;

        world.deliver_with("shop", &manifest(&["a", "c"]), spec(true)).await;
        alice.gone(&at("b")).await;
        world.ready("shop").await;
        world.deliver_with("shop", &manifest(&["a"]), spec(false)).await;
        world.ready("shop").await;
        alice.live(&at("c")).await;
        assert_eq!(alice.live(&at("a")).await, kept, "what stays is not written");
        // It was never let go: turning pruning on again, or deleting the resource, takes it too.
        world.deliver_with("shop", &manifest(&["a"]), spec(true)).await;
        alice.gone(&at("c")).await;
        world.ready("shop").await;
        inventoried(&world, "shop", "berlin", 1).await;
        world.end().await;
    });
}

/// Waits until the VidraResource tells that something still goes, for this reason and with all these words; the message.
async fn removing(world: &World, reason: &str, words: &[&str]) -> String {
    wait_for(&format!("Removing says {reason} and {words:?}"), LONG, async || {
        let resource = world.resource_says("shop", "Removing", "True", reason).await;
        let conditions = resource.status.unwrap_or_default().conditions;
        let message = vidra_api::find(&conditions, "Removing").expect("it stands there").message.clone();
        if words.iter().all(|word| message.contains(word)) { Ok(message) } else { Err(message) }
    })
    .await
}

#[test]
fn what_is_pruned_and_does_not_go_yet_is_told_and_does_not_hold_up_ready() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let clusters = ["berlin", "tokyo"];
        let alice = world.alice("berlin").await;
        let old = At::config_map(&world.ns, "old");
        let all = config_map("settings", "one") + &config_map("old", "one");
        world.deliver("shop", &clusters, &all).await;
        world.ready("shop").await;
        world.resource_says("shop", "Removing", "False", "Nothing").await;
        alice.merge(&old, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;

        world.deliver("shop", &clusters, &config_map("settings", "two")).await;
        world.ready("shop").await;
        for _ in 0..2 {
            let message = removing(&world, "Finalizers", &["1 object ", "1 target", "berlin", "old"]).await;
            world.restart_hub().await;
            world.look("shop", &message.len().to_string(), 2).await;
        }
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!(status.state, Some(TargetState::Ready), "{status:?}");
        assert_eq!(status.removing.map(|removing| removing.objects), Some(1));

        alice.merge(&old, json!({"metadata": {"finalizers": null}})).await;
        alice.gone(&old).await;
        world.resource_says("shop", "Removing", "False", "Nothing").await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_target_that_cannot_be_taken_down_is_told_by_a_resource_that_is_ready_elsewhere() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo", "austin"]).await;
        let manifest = config_map("settings", "one") + &config_map("more", "one");
        world.deliver("shop", &["berlin", "tokyo", "austin"], &manifest).await;
        world.ready("shop").await;
        let frozen = world.freeze("austin");
        world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
        world.deliver("shop", &["berlin", "tokyo"], &manifest).await;
        let words = ["2 objects", "1 target", "austin", "out of reach"];
        removing(&world, "MemberUnreachable", &words).await;
        let ready = world.ready("shop").await.status.unwrap();
        assert_eq!(ready.targets_ready.as_deref(), Some("2/2"));
        drop(frozen);
        world.resource_says("shop", "Removing", "False", "Nothing").await;
        assert!(world.target("shop", "austin").await.is_none());
        world.end().await;
    });
}

#[test]
fn orphaned_objects_stay_as_they_are_without_a_mark_of_ours() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let settings = At::config_map(&world.ns, "settings");
        let spec =
            |clusters: &[&str]| json!({"targets": [{"clusterNames": clusters}], "deletionPolicy": "Orphan"});
        world.deliver_with("shop", &config_map("settings", "one"), spec(&["berlin", "tokyo"])).await;
        world.ready("shop").await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let note = json!({"metadata": {"annotations": {"example.com/note": "alice's"}, "labels": {"team": "alice"}}});
        let made = berlin.merge(&settings, note).await;

        // A cluster that is left, then the end of the resource.
        world.deliver_with("shop", &config_map("settings", "one"), spec(&["berlin"])).await;
        tokyo.when(&settings, "let go", |live| marks(live).is_empty()).await;
        world.remove("shop").await;
        for member in [&berlin, &tokyo] {
            let left = member.live(&settings).await;
            assert_eq!(marks(&left), [""; 0], "{left}");
            assert!(says("one")(&left) && left["metadata"]["deletionTimestamp"].is_null(), "{left}");
        }
        let left = berlin.live(&settings).await;
        assert_eq!(uid(&left), uid(&made));
        assert_eq!(left["metadata"]["annotations"], json!({"example.com/note": "alice's"}));
        assert_eq!(left["metadata"]["labels"], json!({"team": "alice"}));

        // It is nobody's now: the hub leaves it alone, and does not take it back unasked.
        berlin.merge(&settings, json!({"data": {"key": "alice's"}})).await;
        world.deliver("again", &["berlin"], &config_map("settings", "two")).await;
        world.target_is("again", "berlin", TargetState::Failed, "AlreadyExists").await;
        assert!(says("alice's")(&berlin.live(&settings).await));
        world.end().await;
        berlin.delete(&settings).await;
        tokyo.delete(&settings).await;
    });
}

#[test]
fn a_loss_that_is_held_stays_so_when_somebody_deletes_the_target_itself() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.deliver("shop", &[], &config_map("settings", "one")).await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;

        let target = At::new("vidra.dev/v1alpha1", "VidraTarget", &world.ns, "shop.berlin");
        let foreign = "example.org/audit";
        let both = json!({"metadata": {"finalizers": ["vidra.dev/teardown", foreign]}});
        world.hub.merge(&target, both).await;
        world.hub.delete(&target).await;
        handled(&world, "one").await;
        let left = world.hub.live(&target).await["metadata"]["finalizers"].clone();
        let left: Vec<_> = left.as_array().unwrap().iter().filter(|one| **one != foreign).cloned().collect();
        world.hub.merge(&target, json!({"metadata": {"finalizers": left}})).await;
        handled(&world, "two").await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        assert!(says("one")(&alice.live(&settings).await));
        world.target("shop", "berlin").await.expect("what the guard counts is there");

        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        alice.when(&settings, "delivered again", says("two")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

/// Its spec was not written while it was on its way out: what it was told to leave alone was pruned and repaired.
#[test]
fn what_restrains_the_hub_reaches_a_target_whose_loss_is_held_and_that_somebody_deletes() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let manifest = config_map("settings", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        world.deliver("shop", &[], &manifest).await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        let target = world.target_at("shop", "berlin");
        world.hub.delete(&target).await;
        handled(&world, "one").await;

        let less = json!({"spec": {"prune": false, "drift": {"policy": "Report"}}});
        world.hub.merge(&world.resource_at("shop"), less).await;
        let is_told = |target: &Value| {
            let spec = &target["spec"];
            spec["prune"] == false && spec["drift"]["policy"] == "Report"
        };
        let told = world.hub.when(&target, "told", is_told).await;
        assert!(
            told["metadata"]["deletionTimestamp"].is_string(),
            "it is the one that somebody deleted: {told}"
        );
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;

        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        world.end().await;
    });
}

/// Waits until the hub has looked at the VidraResource again.
async fn handled(world: &World, token: &str) {
    world.reconcile_now("shop", token).await;
    let is = |resource: &Value| resource["status"]["lastHandledReconcileAt"] == token;
    world.hub.when(&world.resource_at("shop"), token, is).await;
}

#[test]
fn losing_the_last_target_is_held_until_exactly_that_is_approved() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let mark = world.mark();
        world.deliver("shop", &[], &config_map("settings", "one")).await;
        let held = world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        let conditions = held.status.unwrap().conditions;
        let message = &vidra_api::find(&conditions, "Stalled").unwrap().message;
        let (_, hash) = message.rsplit_once("vidra.dev/approve-removal=").unwrap();
        let approve = |hash: &str| json!({"metadata": {"annotations": {"vidra.dev/approve-removal": hash}}});

        // Another hash, and a restart, let nothing go.
        world.hub.merge(&world.resource_at("shop"), approve("0123456789")).await;
        world.restart_hub().await;
        world.deliver("other", &["berlin"], &config_map("other", "one")).await;
        world.ready("other").await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        assert!(says("one")(&alice.live(&settings).await));
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);

        world.hub.merge(&world.resource_at("shop"), approve(hash)).await;
        alice.gone(&settings).await;
        world.resource_says("shop", "Ready", "False", "NoTargets").await;
        world.end().await;
    });
}

#[test]
fn a_suspended_resource_is_left_alone_and_then_brought_up_to_date() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        let spec = |suspend: bool| json!({"targets": [{"clusterNames": ["berlin"]}], "suspend": suspend, "reconcile": {"interval": "1s"}});
        world
            .deliver_with("shop", &(config_map("settings", "one") + &config_map("old", "one")), spec(false))
            .await;
        world.ready("shop").await;
        world
            .deliver_with("shop", &(config_map("settings", "one") + &config_map("old", "one")), spec(true))
            .await;
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        world.deliver_with("shop", &config_map("settings", "two"), spec(true)).await;
        world.reconcile_now("shop", "1").await;
        world.resource_says("shop", "Ready", "False", "Suspended").await;
        // Another resource that is delivered later shows that the hub had the time.
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        assert!(says("evil")(&alice.live(&settings).await));
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);

        world.deliver_with("shop", &config_map("settings", "two"), spec(false)).await;
        alice.when(&settings, "up to date", says("two")).await;
        alice.gone(&At::config_map(&world.ns, "old")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

fn config_maps(names: &[&str], value: &str) -> String {
    names.iter().map(|name| config_map(name, value)).collect()
}

#[test]
fn dropping_most_objects_is_held_everywhere_until_one_word_lets_it_go() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let members = [world.alice("berlin").await, world.alice("tokyo").await];
        let namespace = world.ns.clone();
        let at = |name: &str| At::config_map(&namespace, name);
        let all = ["a", "b", "c", "d", "e", "f"];
        world.deliver("shop", &["berlin", "tokyo"], &config_maps(&all, "one")).await;
        world.ready("shop").await;
        // Three go unasked, also when that is half.
        world.deliver("shop", &["berlin", "tokyo"], &config_maps(&all[..5], "one")).await;
        for member in &members {
            member.gone(&at("f")).await;
        }
        world.resource_says("shop", "Removing", "False", "Nothing").await;
        world.ready("shop").await;
        let mark = world.mark();
        let manifest = config_maps(&["a", "new"], "two");
        world.deliver("shop", &["berlin", "tokyo"], &manifest).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        assert!(message.contains("4 of 5 objects") && message.contains("ConfigMap"), "{message}");
        // Both have told before the process ends: a write that its end cuts short would be counted below.
        world.target_is("shop", "tokyo", TargetState::Failed, "RemovalHeld").await;
        let held = world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        let conditions = held.status.unwrap().conditions;
        let told = &vidra_api::find(&conditions, "Stalled").unwrap().message;
        let (_, hash) = told.rsplit_once("vidra.dev/approve-removal=").unwrap();
        let approve = |hash: &str| json!({"metadata": {"annotations": {"vidra.dev/approve-removal": hash}}});
        world.hub.merge(&world.resource_at("shop"), approve("0123456789")).await;
        let restarted = world.mark();
        world.restart_hub().await;
        world.deliver("marker", &["berlin", "tokyo"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        for member in &members {
            assert!(says("one")(&member.live(&at("a")).await) && member.get(&at("new")).await.is_none());
        }
        for name in ["berlin", "tokyo"] {
            let writes = world.writes(name, &mark);
            assert!(writes.iter().all(|write| write.name == "marker"), "{writes:?}");
        }

        wait_for("an Event says that it approves nothing", SOON, async || {
            let told = crate::events(&world, "ApprovalIgnored").await;
            if told.iter().any(|note| note.contains("0123456789")) {
                Ok(())
            } else {
                Err(format!("{told:?}"))
            }
        })
        .await;
        for name in ["berlin", "tokyo"] {
            let told = world.writes_to(&world.target_at("shop", name), "hub", &restarted);
            assert_eq!(told, [], "what is held is told throughout");
        }
        world.hub.merge(&world.resource_at("shop"), approve(&format!("0123456789,{hash}"))).await;
        for member in &members {
            for name in ["b", "c", "d", "e"] {
                member.gone(&at(name)).await;
            }
            assert!(says("two")(&member.live(&at("new")).await));
        }
        world.ready("shop").await;
        // It was taken over by those that it is for, and off the VidraResource; another word stays.
        let annotation = world.hub.live(&world.resource_at("shop")).await["metadata"]["annotations"]
            ["vidra.dev/approve-removal"]
            .clone();
        assert_eq!(annotation, "0123456789");
        for name in ["berlin", "tokyo"] {
            let spec = world.target("shop", name).await.expect("it is targeted").spec;
            assert_eq!(spec.approved_removal.as_deref(), Some(hash));
        }
        // The word was for that change: another one is held again.
        world.deliver("shop", &["berlin", "tokyo"], &config_maps(&["a", "b", "c", "d"], "two")).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin", "tokyo"], &config_maps(&["x"], "two")).await;
        world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        world.remove("shop").await;
        members[0].gone(&at("a")).await;
        world.end().await;
    });
}

#[test]
fn an_empty_manifest_is_an_error_unless_it_is_meant() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let all = ["a", "b", "c", "d", "e"];
        world.deliver("shop", &["berlin"], &config_maps(&all, "one")).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], "# nothing yet\n---\n").await;
        let told = world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        let conditions = told.status.unwrap().conditions;
        assert!(vidra_api::find(&conditions, "Stalled").unwrap().message.contains("allowEmpty"));
        for name in all {
            alice.live(&at(name)).await;
        }
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "allowEmpty": true});
        world.deliver_with("shop", "# nothing\n", spec.clone()).await;
        for name in all {
            alice.gone(&at(name)).await;
        }
        world.ready("shop").await;
        inventoried(&world, "shop", "berlin", 0).await;
        world.deliver_with("shop", &config_maps(&all, "two"), spec).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_is_not_to_be_pruned_is_let_go_when_it_leaves_the_manifest_and_when_all_ends() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let kept = |name: &str| {
            let mut object = crate::config_map_in("", name, "one");
            object["metadata"]["annotations"] = json!({"vidra.dev/prune": "disabled"});
            crate::object(&object)
        };
        let let_go = |live: &serde_json::Value| marks(live) == ["vidra.dev/prune"];
        world
            .deliver("shop", &["berlin"], &(kept("a") + &kept("b") + &config_maps(&["c", "d"], "one")))
            .await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], &(kept("b") + &config_maps(&["c", "d"], "one"))).await;
        let left = alice.when(&at("a"), "let go", let_go).await;
        assert!(says("one")(&left) && left["metadata"]["deletionTimestamp"].is_null(), "{left}");
        world.ready("shop").await;
        inventoried(&world, "shop", "berlin", 3).await;

        // A person may say so on the live object.
        alice.merge(&at("c"), json!({"metadata": {"annotations": {"vidra.dev/prune": "disabled"}}})).await;
        world.remove("shop").await;
        alice.gone(&at("d")).await;
        for name in ["b", "c"] {
            assert!(let_go(&alice.live(&at(name)).await), "{name}");
        }
        let mut bad = crate::config_map_in("", "bad", "one");
        bad["metadata"]["annotations"] = json!({"vidra.dev/prune": "false"});
        world.deliver("bad", &["berlin"], &crate::object(&bad)).await;
        let told = world.resource_says("bad", "Stalled", "True", "ManifestInvalid").await;
        assert!(format!("{:?}", told.status).contains("vidra.dev/prune"), "{:?}", told.status);
        world.end().await;
    });
}

#[test]
fn a_change_of_namespace_moves_few_objects_and_asks_about_many() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let (first, second) = (format!("{}-a", world.ns), format!("{}-b", world.ns));
        let spec =
            |namespace: &str| json!({"targets": [{"clusterNames": ["berlin"], "namespace": namespace}]});
        for (name, all) in [("few", &["a", "b", "c"][..]), ("many", &["k", "l", "m", "n"][..])] {
            let manifest = config_maps(all, "one");
            world.deliver_with(name, &manifest, spec(&first)).await;
            world.ready(name).await;
            world.deliver_with(name, &manifest, spec(&second)).await;
        }
        for name in ["a", "b", "c"] {
            alice.gone(&At::config_map(&first, name)).await;
            assert!(says("one")(&alice.live(&At::config_map(&second, name)).await));
        }
        world.ready("few").await;
        let message = world.target_is("many", "berlin", TargetState::Failed, "RemovalHeld").await;
        assert!(alice.get(&At::config_map(&second, "k")).await.is_none());
        let (_, hash) = message.rsplit_once('=').unwrap();
        let approve = json!({"metadata": {"annotations": {"vidra.dev/approve-removal": hash}}});
        world.hub.merge(&world.resource_at("many"), approve).await;
        for name in ["k", "l", "m", "n"] {
            alice.gone(&At::config_map(&first, name)).await;
            assert!(says("one")(&alice.live(&At::config_map(&second, name)).await));
        }
        world.ready("many").await;
        world.end().await;
    });
}

#[test]
fn a_revision_that_waits_for_its_waves_drops_most_objects_no_more_than_another() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let old = ["a", "b", "c", "d"];
        world.deliver("shop", &["berlin"], &config_maps(&old, "one")).await;
        world.ready("shop").await;
        // Applied, the later waves would make those that go the smaller part.
        let later = |name: &str| annotated(config_map_in("", name, "one"), &[("wave", "1")]);
        let new: String = ["e", "f", "g", "h"].map(later).concat();
        world.deliver("shop", &["berlin"], &(config_map("first", "one") + &new)).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        assert!(message.contains("4 of 4 objects"), "{message}");
        assert_eq!(alice.get(&At::config_map(&world.ns, "first")).await, None, "none of it is applied");

        world.hub.merge(&world.resource_at("shop"), approval(&message)).await;
        for name in old {
            alice.gone(&At::config_map(&world.ns, name)).await;
        }
        world.ready("shop").await;
        inventoried(&world, "shop", "berlin", 5).await;
        world.end().await;
    });
}

/// What waits for its wave stands in the inventory, and is nothing that could be kept.
#[test]
fn what_was_intended_and_never_made_makes_a_drop_of_objects_no_smaller() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "example.com/alice", "ports": [{"port": 80}]}});
        let later = |name: &str| annotated(config_map_in("", name, "one"), &[("wave", "1")]);
        let waiting = annotated(service, &[("wait-for", "Address")])
            + &["l", "m", "n", "o", "p", "q", "r", "s"].map(later).concat();
        let old = ["a", "b", "c", "d"];
        world.deliver("shop", &["berlin"], &(config_maps(&old, "one") + &waiting)).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        inventoried(&world, "shop", "berlin", 5).await;

        world.deliver("shop", &["berlin"], &waiting).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        assert!(message.contains("4 of 5 objects"), "{message}");
        for name in old {
            alice.live(&At::config_map(&world.ns, name)).await;
        }
        world.end().await;
    });
}

/// What a message of the guard names, as the annotation that approves it.
pub fn approval(message: &str) -> Value {
    let (_, hash) = message.rsplit_once("vidra.dev/approve-removal=").expect("it says what approves it");
    json!({"metadata": {"annotations": {"vidra.dev/approve-removal": hash}}})
}

/// The message of the guard that holds a removal of targets.
pub async fn held(world: &World, name: &str) -> String {
    let held = world.resource_says(name, "Stalled", "True", "RemovalHeld").await;
    let conditions = held.status.expect("it has a status").conditions;
    vidra_api::find(&conditions, "Stalled").expect("it is stalled").message.clone()
}

/// One object on the only member: whoever edits it there, where it is, and the manifest.
async fn settings_on_berlin(world: &World) -> (Access, At, String) {
    world.register(&["berlin"]).await;
    let manifest = config_map("settings", "one");
    world.deliver("shop", &["berlin"], &manifest).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"), manifest)
}

#[test]
fn an_approved_loss_of_the_last_target_approves_no_later_one() {
    scenario(async |world| {
        let (alice, settings, manifest) = settings_on_berlin(&world).await;
        world.deliver("shop", &[], &manifest).await;
        let approved = approval(&held(&world, "shop").await);
        world.hub.merge(&world.resource_at("shop"), approved.clone()).await;
        alice.gone(&settings).await;
        world.resource_says("shop", "Ready", "False", "NoTargets").await;
        let annotations = &world.hub.live(&world.resource_at("shop")).await["metadata"]["annotations"];
        assert!(annotations["vidra.dev/approve-removal"].is_null(), "{annotations}");

        // Selected again, and lost again a year later; a GitOps tool has put the annotation back.
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        world.hub.merge(&world.resource_at("shop"), approved.clone()).await;
        world.deliver("shop", &[], &manifest).await;
        wait_for("the hub has decided", SOON, async || {
            let resource = world.hub.live(&world.resource_at("shop")).await;
            let text = resource["status"]["conditions"].to_string();
            let decided = text.contains("RemovalHeld") || text.contains("NoTargets");
            if decided { Ok(()) } else { Err(text) }
        })
        .await;
        let target = world.target("shop", "berlin").await;
        assert!(target.is_some(), "the last target went by a word that was for an earlier removal");
        assert_ne!(approval(&held(&world, "shop").await), approved);
        assert!(says("one")(&alice.live(&settings).await));
        world.end().await;
    });
}

#[test]
fn a_removal_that_was_approved_and_taken_back_is_held_again_by_another_word() {
    scenario(async |world| {
        let (alice, settings, manifest) = settings_on_berlin(&world).await;
        // It keeps the removal under way until it is taken back.
        let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
        alice.merge(&settings, finalizers(json!(["example.org/audit"]))).await;
        world.deliver("shop", &[], &manifest).await;
        let approved = approval(&held(&world, "shop").await);
        world.hub.merge(&world.resource_at("shop"), approved.clone()).await;
        alice.when(&settings, "going", |live| !live["metadata"]["deletionTimestamp"].is_null()).await;
        world.deliver("shop", &["berlin"], &manifest).await;
        let wanted = |target: &Value| target["spec"]["desired"] == "Present";
        world.hub.when(&world.target_at("shop", "berlin"), "wanted again", wanted).await;
        alice.merge(&settings, finalizers(Value::Null)).await;
        world.ready("shop").await;

        world.deliver("shop", &[], &manifest).await;
        assert_ne!(approval(&held(&world, "shop").await), approved);
        world.hub.merge(&world.resource_at("shop"), approval(&held(&world, "shop").await)).await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn an_approved_drop_of_most_objects_approves_no_later_one() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let all = config_maps(&["a", "b", "c", "d", "e"], "one");
        let one = config_maps(&["a"], "one");
        let at = At::config_map(&world.ns, "b");
        world.deliver("shop", &["berlin"], &all).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], &one).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        let approved = approval(&message);
        world.hub.merge(&world.resource_at("shop"), approved.clone()).await;
        alice.gone(&at).await;
        world.ready("shop").await;

        // What was dropped is declared again, and dropped again; a GitOps tool has put the annotation back.
        world.deliver("shop", &["berlin"], &all).await;
        world.ready("shop").await;
        let again = uid(&alice.live(&at).await);
        world.hub.merge(&world.resource_at("shop"), approved.clone()).await;
        world.deliver("shop", &["berlin"], &one).await;
        wait_for("the hub has decided", SOON, async || {
            let target = world.target("shop", "berlin").await.expect("it is targeted");
            let status = target.status.unwrap_or_default();
            let decided = status.reason.as_deref() == Some("RemovalHeld") || status.objects == 1;
            if decided { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
        let live = alice.get(&at).await.map(|live| uid(&live));
        assert_eq!(live, Some(again), "it went by a word that was for an earlier removal");
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        assert_ne!(approval(&message), approved);
        world.end().await;
    });
}

#[test]
fn an_approved_drop_of_most_objects_approves_no_change_of_namespace() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let (first, second) = (format!("{}-a", world.ns), format!("{}-b", world.ns));
        let spec =
            |namespace: &str| json!({"targets": [{"clusterNames": ["berlin"], "namespace": namespace}]});
        let left = ["a", "b", "c", "d"];
        let all = config_maps(&["a", "b", "c", "d", "e", "f", "g", "h", "i"], "one");
        world.deliver_with("shop", &all, spec(&first)).await;
        world.ready("shop").await;
        world.deliver_with("shop", &config_maps(&left, "one"), spec(&first)).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        world.hub.merge(&world.resource_at("shop"), approval(&message)).await;
        alice.gone(&At::config_map(&first, "i")).await;
        world.ready("shop").await;

        world.deliver_with("shop", &config_maps(&left, "one"), spec(&second)).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        for name in left {
            alice.live(&At::config_map(&first, name)).await;
        }
        world.hub.merge(&world.resource_at("shop"), approval(&message)).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_word_for_objects_waits_while_the_loss_of_targets_is_held() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo", "austin"]).await;
        let all = ["berlin", "tokyo", "austin"];
        let alice = world.alice("berlin").await;
        world.deliver("shop", &all, &config_maps(&["a", "b", "c", "d", "e"], "one")).await;
        world.ready("shop").await;
        let few = config_maps(&["a"], "one");
        world.deliver("shop", &all, &few).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        let objects = approval(&message);
        world.deliver("shop", &["berlin"], &few).await;
        let off = wait_for("the loss of targets is held", LONG, async || {
            let message = held(&world, "shop").await;
            if message.contains("off 2 of 3 clusters") { Ok(message) } else { Err(message) }
        })
        .await;

        world.hub.merge(&world.resource_at("shop"), objects.clone()).await;
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        alice.live(&At::config_map(&world.ns, "b")).await;
        assert_eq!(crate::events(&world, "ApprovalIgnored").await, Vec::<String>::new());

        let word = |of: &Value| {
            let word = &of["metadata"]["annotations"]["vidra.dev/approve-removal"];
            word.as_str().expect("a hash").to_owned()
        };
        let both = [&objects, &approval(&off)].map(word).join(",");
        let both = json!({"metadata": {"annotations": {"vidra.dev/approve-removal": both}}});
        world.hub.merge(&world.resource_at("shop"), both).await;
        alice.gone(&At::config_map(&world.ns, "b")).await;
        world.alice("tokyo").await.gone(&At::config_map(&world.ns, "a")).await;
        world.ready("shop").await;
        let resource = world.hub.live(&world.resource_at("shop")).await;
        let annotation = &resource["metadata"]["annotations"]["vidra.dev/approve-removal"];
        assert!(annotation.is_null(), "{annotation}");
        world.end().await;
    });
}

/// A source changes without a new generation of its VidraResource.
#[test]
fn an_approval_of_what_a_source_drops_says_nothing_of_what_it_drops_next() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, ns) = (world.alice("berlin").await, world.ns.clone());
        let source = async |names: &[&str]| {
            let texts = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": config_maps(names, "one")},
                "metadata": {"name": "texts", "namespace": world.ns}});
            world.hub.apply(&texts, true).await.expect("the source is taken");
        };
        source(&["a", "b", "c", "d", "e"]).await;
        let from = json!([{"configMapRef": {"name": "texts"}}]);
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "manifestsFrom": from});
        world.deliver_with("shop", &config_map("own", "one"), spec).await;
        world.ready("shop").await;
        let held = async |names: &str| {
            let is_it = |message: &String| message.contains("RemovalHeld") || message.contains(names);
            wait_for(&format!("held: {names}"), LONG, async || {
                let target = world.target("shop", "berlin").await.expect("it is targeted");
                let status = target.status.unwrap_or_default();
                let message = status.message.unwrap_or_default();
                let is_held = status.reason.as_deref() == Some("RemovalHeld") && is_it(&message);
                if is_held { Ok(message) } else { Err(message) }
            })
            .await
        };
        source(&["a"]).await;
        let first = approval(&held("/b, ").await);
        source(&["b"]).await;
        let second = approval(&held("/a, ").await);
        assert_ne!(first, second, "whoever approves the first has not seen the second");
        world.hub.merge(&world.resource_at("shop"), first).await;
        crate::told(&world, "ApprovalIgnored", &[]).await;
        for name in ["a", "b", "c", "d", "e"] {
            alice.live(&At::config_map(&ns, name)).await;
        }
        world.hub.merge(&world.resource_at("shop"), second).await;
        alice.gone(&At::config_map(&ns, "a")).await;
        world.ready("shop").await;
        alice.live(&At::config_map(&ns, "b")).await;
        world.end().await;
    });
}

#[test]
fn what_a_member_that_is_named_does_not_allow_any_more_is_told_and_stays() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let allow = |namespaces: Value| json!({"spec": {"allowedNamespaces": namespaces}});
        world.hub.merge(&world.member_at("berlin"), allow(json!(["others"]))).await;
        world.resource_says("shop", "Ready", "False", "NamespaceNotAllowed").await;
        let message = world.target_is("shop", "berlin", TargetState::Suspended, "NamespaceNotAllowed").await;
        assert!(message.contains(&world.ns), "{message}");
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;

        world.hub.merge(&world.member_at("berlin"), allow(Value::Null)).await;
        alice.when(&settings, "repaired", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}
