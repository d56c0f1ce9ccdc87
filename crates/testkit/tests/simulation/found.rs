//! What random walks have found, each as the shortest way to it.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Denial};
use serde_json::{Value, json};
use testkit::sim::{
    World,
    judge::{changes_in, clouds::HUB},
    observer::HUB_USER,
    run,
    world::{
        Shape, TARGET_NAMESPACE, TEAM, config_map, config_maps, document, hub_path, member_path, resource,
    },
};
use tokio::time::sleep;
use vidra_api::labels::HUB_LABEL;

use crate::scenarios::{has, manifest, ready, shop};

const SOON: Duration = Duration::from_secs(5);
/// Nothing tells, and a look comes within this.
const A_LOOK: Duration = Duration::from_secs(60);

async fn delivered(world: &World, text: &str) {
    world.create("hub", &hub_path("vidraresources"), resource("shop", text)).await;
    world.start_hub();
    world.until("it is delivered", SOON, || ready(world, "shop")).await;
    world.settle().await;
}

async fn ended(world: World) {
    world.end_hub().await;
    assert_eq!(world.observer.breaches(), [""; 0]);
}

/// Nothing told the targets of a member that it rests, or works again.
#[test]
fn a_member_that_was_suspended_is_worked_on_again_at_once() {
    run(21, || async {
        let world = World::new(Shape::new(21)).await;
        delivered(&world, &manifest("one", "one")).await;
        let state = || world.target("shop", "tokyo").unwrap_or_default()["status"]["state"].clone();
        world.patch("hub", &member_path("tokyo"), json!({"spec": {"suspend": true}})).await;
        world.until("it rests", SOON, || state() == "Suspended").await;
        world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("one", "two")}})).await;
        world.settle().await;
        has(&world, "tokyo", "a", "mine");
        world.patch("hub", &member_path("tokyo"), json!({"spec": {"suspend": false}})).await;
        world.until("it works again", SOON, || ready(&world, "shop")).await;
        has(&world, "tokyo", "a", "one");
        has(&world, "tokyo", "b", "two");
        ended(world).await;
    });
}

/// Each was refused by what the other held from before.
#[test]
fn two_resources_that_come_to_agree_on_a_shared_object_change_it() {
    run(22, || async {
        let world = World::new(Shape::new(22)).await;
        let bank = || format!("{}/bank", hub_path("vidraresources"));
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("a", "one"))).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("two", "one")}})).await;
        let refused = || world.has_condition("shop", "Stalled", "True", "TargetsFailed");
        world.until("one alone may not", SOON, refused).await;
        has(&world, "berlin", "a", "one");
        world.patch("hub", &bank(), json!({"spec": {"manifest": document("a", "two")}})).await;
        let agreed = || ready(&world, "bank") && world.data("berlin", "a") == Some(json!({"key": "two"}));
        world.until("both may", SOON, agreed).await;
        // The first is looked at again after a while.
        world.until("all is well", Duration::from_secs(330), || ready(&world, "shop")).await;
        has(&world, "tokyo", "a", "two");
        // And still the younger cannot change it alone; the older can.
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("three", "one")}})).await;
        world.settle().await;
        has(&world, "tokyo", "a", "two");
        world.patch("hub", &bank(), json!({"spec": {"manifest": document("a", "four")}})).await;
        world.until("the older's word counts", SOON, || ready(&world, "bank")).await;
        has(&world, "tokyo", "a", "four");
        ended(world).await;
    });
}

/// Only those whose marks it bore were told of its end: the other one said for an interval that it is in the way.
#[test]
fn what_nobody_can_prove_his_own_is_made_when_it_is_gone_by_another_that_declares_it() {
    run(42, || async {
        let world = World::new(Shape::new(42)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Ignore"}}})).await;
        world.settle().await;
        world.patch("tokyo", &config_map("a"), json!({"metadata": {"managedFields": [{}]}})).await;
        world.settle().await;
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("a", "one"))).await;
        let refused = || world.reason("bank", "tokyo") == "NotOurs";
        world.until("it is refused", SOON, refused).await;
        world.settle().await;
        world.delete("tokyo", &config_map("a")).await;
        world.until("it is made", SOON, || ready(&world, "bank")).await;
        has(&world, "tokyo", "a", "one");
        ended(world).await;
    });
}

/// The walk took it for what others made, and nobody was to clear that away, for an inventory knew it.
#[test]
fn what_has_lost_every_mark_is_joined_when_the_one_that_knows_it_brings_them_back() {
    run(44, || async {
        let world = World::new(Shape::new(44)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Ignore"}}})).await;
        world.settle().await;
        world.patch("tokyo", &config_map("a"), json!({"metadata": {"managedFields": [{}]}})).await;
        let bare = json!({"metadata": {"labels": {HUB_LABEL: null}}, "data": {"key": "mine"}});
        world.patch("tokyo", &config_map("a"), bare).await;
        world.settle().await;
        assert!(!world.observer.waits_for_marks("bank"), "it is not there yet");
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("a", "one"))).await;
        let refused = || world.reason("bank", "tokyo") == "AlreadyExists";
        world.until("it is refused", SOON, refused).await;
        world.settle().await;
        has(&world, "tokyo", "a", "mine");
        assert!(world.observer.waits_for_marks("bank"), "the shop leaves it so");
        assert_eq!(world.observer.differs(), [""; 0]);
        assert_eq!(world.observer.misreports(), [""; 0]);
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Correct"}}})).await;
        let is_back = || world.data("tokyo", "a") == Some(json!({"key": "one"}));
        world.until("the shop brings its marks back", A_LOOK, is_back).await;
        assert!(!world.observer.waits_for_marks("bank"), "nothing is in its way any more");
        // It tries again after a while, whether anything tells it or not.
        world.until("it is joined", Duration::from_secs(330), || ready(&world, "bank")).await;
        ended(world).await;
    });
}

/// It was made as one that nobody declares, for what is in it, and was another's from then on.
#[test]
fn a_declared_namespace_is_not_made_by_the_way_while_its_kind_cannot_be_listed() {
    run(23, || async {
        let world = World::new(Shape::new(23)).await;
        delivered(&world, &manifest("one", "one")).await;
        let own = "apiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n---\napiVersion: v1\nkind: ConfigMap\n\
                   metadata: {name: in, namespace: own}\ndata: {key: one}\n---\n";
        world.observer.refuse(Some("namespaces"));
        world
            .patch("hub", &shop(), json!({"spec": {"manifest": own.to_owned() + &manifest("one", "one")}}))
            .await;
        world.settle().await;
        assert!(world.object("berlin", "", "namespaces", "", "own").is_none(), "nobody made it");
        world.observer.refuse(None);
        world.until("it is delivered", Duration::from_secs(330), || ready(&world, "shop")).await;
        assert!(world.object("berlin", "", "configmaps", "own", "in").is_some());
        ended(world).await;
    });
}

/// What is wrong after a life whose lists of VidraResources failed for a while (lessons 4 and 5).
pub fn of_failed_lists() -> Vec<String> {
    run(24, || async {
        let world = World::new(Shape::new(24)).await;
        delivered(&world, &manifest("one", "one")).await;
        tokio::time::sleep(SOON * 6).await;
        world.crash_hub().await;
        world.observer.refuse(Some("vidraresources"));
        world.start_hub();
        tokio::time::sleep(SOON * 2).await;
        world.observer.refuse(None);
        world.settle().await;
        let mut wrong = world.observer.breaches();
        wrong.extend(world.observer.differs());
        world.end_hub().await;
        wrong
    })
}

#[test]
fn a_list_that_fails_is_not_an_empty_one() {
    assert_eq!(of_failed_lists(), [""; 0]);
}

/// What is wrong after an edit that no watch shows, for it came between an expired watch and the next list.
pub fn of_expired_watches() -> Vec<String> {
    run(25, || async {
        let world = World::new(Shape::new(25)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.cluster("tokyo").expire_watches();
        world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        tokio::time::sleep(SOON * 4).await;
        let mut wrong = world.observer.breaches();
        if world.data("tokyo", "a") != Some(json!({"key": "one"})) {
            wrong.push("an edit that a relist showed was not undone".to_owned());
        }
        world.end_hub().await;
        wrong
    })
}

#[test]
fn an_edit_that_only_a_relist_shows_is_undone() {
    assert_eq!(of_expired_watches(), [""; 0]);
}

/// Made again, it was deleted, whatever its annotation said.
#[test]
fn an_object_that_somebody_keeps_is_not_deleted_to_be_made_again() {
    run(26, || async {
        let world = World::new(Shape::new(26)).await;
        let fixed = |value: &str| {
            let annotations = json!({"vidra.dev/on-immutable": "Recreate"});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": annotations},
                "data": {"key": value}, "immutable": true})
            .to_string()
        };
        delivered(&world, &fixed("one")).await;
        let keeps = |kept: Option<&str>| json!({"metadata": {"annotations": {"vidra.dev/prune": kept}}});
        world.patch("tokyo", &config_map("a"), keeps(Some("disabled"))).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": fixed("two")}})).await;
        let refused = || world.reason("shop", "tokyo") == "ImmutableField";
        world.until("it is told", SOON, refused).await;
        has(&world, "tokyo", "a", "one");
        has(&world, "berlin", "a", "two");
        world.patch("tokyo", &config_map("a"), keeps(None)).await;
        world.until("it is made again", Duration::from_secs(330), || ready(&world, "shop")).await;
        has(&world, "tokyo", "a", "two");
        ended(world).await;
    });
}

/// The judge took it for one of which nobody says so: the target is Ready, and it is among what is still to go.
#[test]
fn what_is_not_declared_any_more_and_does_not_go_is_told_beside_ready() {
    run(29, || async {
        let world = World::new(Shape::new(29)).await;
        delivered(&world, &manifest("one", "one")).await;
        let held = |by: Value| json!({"metadata": {"finalizers": by}});
        world.patch("tokyo", &config_map("b"), held(json!(["test.io/held"]))).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": document("a", "one")}})).await;
        let status = || world.target("shop", "tokyo").unwrap_or_default()["status"].clone();
        let told = || status()["removing"]["reason"] == "Finalizers" && status()["state"] == "Ready";
        world.until("it is told", SOON * 4, told).await;
        // The hub looks again and again, so it never falls quiet.
        tokio::time::sleep(SOON).await;
        assert_eq!(world.observer.untold(), [""; 0]);
        world.patch("tokyo", &config_map("b"), held(json!(null))).await;
        world.until("it is gone", SOON, || world.data("tokyo", "b").is_none()).await;
        world.until("nothing is to go", SOON, || status()["removing"].is_null()).await;
        ended(world).await;
    });
}

/// The judge went by what is said now, which waits as long as the removal is held.
#[test]
fn what_is_ignored_stays_so_while_a_removal_is_held() {
    run(30, || async {
        let world = World::new(Shape::new(30)).await;
        delivered(&world, &manifest("one", "one")).await;
        let rule = json!({"target": {"kind": "ConfigMap", "name": "b"}, "paths": [".data"]});
        world.patch("hub", &shop(), json!({"spec": {"drift": {"ignore": [rule]}}})).await;
        world.settle().await;
        world.patch("hub", &shop(), json!({"spec": {"targets": []}})).await;
        let held = || world.has_condition("shop", "Stalled", "True", "RemovalHeld");
        world.until("the removal is held", SOON, held).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"ignore": null}}})).await;
        world.patch("berlin", &config_map("b"), json!({"data": {"key": "mine"}})).await;
        world.settle().await;
        tokio::time::sleep(SOON * 2).await;
        has(&world, "berlin", "b", "mine");
        assert_eq!(world.observer.untold(), [""; 0]);
        ended(world).await;
    });
}

/// The judge went by what was said last, as if that had been delivered: it was held.
#[test]
fn what_waits_for_a_removal_goes_on_waiting_while_what_is_declared_then_cannot_be_read() {
    run(52, || async {
        let world = World::new(Shape::new(52)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Report"}}})).await;
        world.settle().await;
        world.patch("hub", &shop(), json!({"spec": {"targets": []}})).await;
        let stalls = |reason: &str| world.has_condition("shop", "Stalled", "True", reason);
        world.until("the removal is held", SOON, || stalls("RemovalHeld")).await;
        let all = json!([{"clusterSelector": {}, "namespace": TARGET_NAMESPACE}]);
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Correct"}}})).await;
        world.settle().await;
        let broken = json!({"spec": {"targets": all, "manifest": "a: [b"}});
        world.patch("hub", &shop(), broken).await;
        world.until("it cannot be read", SOON, || stalls("ManifestInvalid")).await;
        world.patch("berlin", &config_map("b"), json!({"data": {"key": "mine"}})).await;
        world.settle().await;
        sleep(SOON * 2).await;
        has(&world, "berlin", "b", "mine");
        assert_eq!(world.observer.untold(), [""; 0]);
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("one", "one")}})).await;
        // The hub has yet to see it.
        world.observer.judge_claims(SOON * 2);
        let is_back = || world.data("berlin", "b") == Some(json!({"key": "one"}));
        world.until("all that was said holds", SOON, is_back).await;
        ended(world).await;
    });
}

/// The judge asked a target for what its VidraResource says cannot be delivered.
#[test]
fn what_cannot_be_delivered_keeps_no_member_from_being_as_it_was_while_another_is_away() {
    run(53, || async {
        let world = World::new(Shape::new(53)).await;
        delivered(&world, &manifest("one", "one")).await;
        let elsewhere = json!([{"clusterSelector": {}, "namespace": "elsewhere"}]);
        let broken = json!({"spec": {"targets": elsewhere, "manifest": "a: [b"}});
        world.patch("hub", &shop(), broken).await;
        world.patch("berlin", &config_map("b"), json!({"data": {"key": "mine"}})).await;
        sleep(A_LOOK).await;
        has(&world, "berlin", "b", "one");
        world.observer.judge_core("berlin", A_LOOK / 2);
        assert_eq!(world.observer.breaches(), [""; 0]);
        // It goes on looking there.
        world.observer.lie(Some("berlin"));
        world.patch("berlin", &config_map("b"), json!({"data": {"key": "mine"}})).await;
        sleep(A_LOOK / 2).await;
        world.observer.judge_core("berlin", A_LOOK / 2);
        let wrong = world.observer.breaches();
        assert!(
            wrong.iter().any(|what| what.contains("ConfigMap/shop/b is not as shop declares it")),
            "{wrong:?}"
        );
        world.end_hub().await;
    });
}

/// It waited as long as for what had failed before: that is for people, and this ends by itself.
#[test]
fn what_a_namespace_on_its_way_out_refused_is_made_soon_after_its_end_whatever_had_failed_before() {
    run(54, || async {
        let world = World::new(Shape::new(54)).await;
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("a", "one"))).await;
        world.start_hub();
        world.until("the bank is delivered", SOON, || ready(&world, "bank")).await;
        world.create("hub", &hub_path("vidraresources"), resource("shop", &manifest("two", "one"))).await;
        world.until("the shop is refused", SOON, || says(&world, "SharedObjectConflict")).await;
        sleep(A_LOOK * 10).await;
        let held = json!({"metadata": {"name": "mine", "finalizers": ["test.io/held"]}});
        world.create("tokyo", &config_maps(TARGET_NAMESPACE), held).await;
        world.delete("tokyo", &format!("/api/v1/namespaces/{TARGET_NAMESPACE}")).await;
        world.until("it is told", SOON, || says(&world, "NamespaceTerminating")).await;
        sleep(A_LOOK).await;
        world.patch("tokyo", &config_map("mine"), json!({"metadata": {"finalizers": null}})).await;
        let is_back = || world.data("tokyo", "b") == Some(json!({"key": "one"}));
        world.until("it is made again", A_LOOK * 3 / 4, is_back).await;
        world.settle().await;
        ended(world).await;
    });
}

/// The judge took what goes for nothing of anybody's, as soon as one of those who had it left it.
#[test]
fn what_goes_and_is_left_by_one_is_still_what_another_ignores() {
    run(55, || async {
        let world = World::new(Shape::new(55)).await;
        let both = document("a", "one") + &document("c", "one");
        world.create("hub", &hub_path("vidraresources"), resource("bank", &both)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Ignore"}}})).await;
        world.settle().await;
        let held = |by: Value| json!({"metadata": {"finalizers": by}});
        world.patch("tokyo", &config_map("a"), held(json!(["test.io/held"]))).await;
        world.delete("tokyo", &config_map("a")).await;
        let bank = format!("{}/bank", hub_path("vidraresources"));
        world.patch("hub", &bank, json!({"spec": {"manifest": document("c", "one")}})).await;
        sleep(SOON * 3).await;
        world.patch("tokyo", &config_map("a"), held(json!(null))).await;
        world.settle().await;
        assert_eq!(world.data("tokyo", "a"), None, "it is ignored");
        assert!(ready(&world, "shop"));
        ended(world).await;
    });
}

/// Does the shop's target in tokyo give this reason?
fn says(world: &World, reason: &str) -> bool {
    world.reason("shop", "tokyo") == reason
}

/// In tokyo an object that somebody made has the name of `b`, with this data; and the shop, which only reports drift, says so.
async fn stands_in(world: &World, data: Value) {
    world.delete("tokyo", &config_map("b")).await;
    let theirs = json!({"metadata": {"name": "b"}, "data": data});
    world.create("tokyo", &config_maps(TARGET_NAMESPACE), theirs).await;
    world.until("it is told", SOON, || says(world, "ObjectsMissing")).await;
}

fn drift(world: &World, member: &str) -> String {
    let target = world.target("shop", member).unwrap_or_default();
    target["status"]["drift"].as_str().unwrap_or_default().to_owned()
}

/// The judge excused it for a minute after the loss only, and went by what nobody could know any more.
#[test]
fn what_only_a_lost_inventory_knew_may_be_made_when_its_name_is_free() {
    run(34, || async {
        let world = World::new(Shape::new(34)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Report"}}})).await;
        world.settle().await;
        stands_in(&world, json!({"whose": "theirs"})).await;
        world.crash_hub().await;
        world.observer.excuse_unknown("tokyo");
        let inventory = format!("{}/shop.tokyo.0", hub_path("vidrainventories"));
        world.patch("hub", &inventory, json!({"metadata": {"finalizers": null}})).await;
        world.delete("hub", &inventory).await;
        world.start_hub();
        world.until("it is as one that was never made", SOON * 2, || says(&world, "AlreadyExists")).await;
        tokio::time::sleep(SOON * 20).await;
        world.delete("tokyo", &config_map("b")).await;
        world.until("it is made", Duration::from_secs(330), || ready(&world, "shop")).await;
        has(&world, "tokyo", "b", "one");
        world.settle().await;
        // And from then on it stays as it is again.
        world.delete("tokyo", &config_map("b")).await;
        world.until("it is told again", SOON, || says(&world, "ObjectsMissing")).await;
        world.settle().await;
        assert_eq!(world.data("tokyo", "b"), None, "it is only reported");
        ended(world).await;
    });
}

/// The judge wanted it in an inventory, and nothing proves it the hub's: that it is there is all that was asked for.
#[test]
fn what_is_made_where_there_is_none_and_lost_its_entry_and_its_inventory_counts_as_anothers() {
    run(41, || async {
        let world = World::new(Shape::new(41)).await;
        let absent = document("c", "one")
            .replace("metadata: {name: c}", "metadata: {name: c, annotations: {vidra.dev/apply: IfAbsent}}");
        delivered(&world, &(manifest("one", "one") + &absent)).await;
        world.patch("tokyo", &config_map("c"), json!({"metadata": {"managedFields": [{}]}})).await;
        world.settle().await;
        assert_eq!(world.observer.breaches(), [""; 0], "its inventory knows it by its uid");
        world.observer.excuse_unknown("tokyo");
        let inventory = format!("{}/shop.tokyo.0", hub_path("vidrainventories"));
        world.patch("hub", &inventory, json!({"metadata": {"finalizers": null}})).await;
        world.delete("hub", &inventory).await;
        let found = || {
            world.object("hub", vidra_api::GROUP, "vidrainventories", TEAM, "shop.tokyo.0").is_some()
                && ready(&world, "shop")
        };
        world.until("the rest is found again", A_LOOK, found).await;
        tokio::time::sleep(A_LOOK * 2).await;
        has(&world, "tokyo", "c", "one");
        ended(world).await;
    });
}

/// The judge wanted it told that they had been delivered: only the inventory that was lost knew that, and they wait for a
/// wave in which something is refused.
#[test]
fn what_only_a_lost_inventory_knew_is_not_told_while_it_waits_for_what_is_refused() {
    run(43, || async {
        let world = World::new(Shape::new(43)).await;
        let first = document("b", "one")
            .replace("metadata: {name: b}", "metadata: {name: b, annotations: {vidra.dev/wave: \"-1\"}}");
        let text = first + &document("c", "one") + &document("s", "one");
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("s", "one"))).await;
        delivered(&world, &text).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Report"}}})).await;
        world.settle().await;
        // The bank puts its marks on what it shares again, and the shop does not.
        for name in ["b", "s"] {
            world.patch("berlin", &config_map(name), json!({"metadata": {"managedFields": [{}]}})).await;
        }
        world.delete("berlin", &config_map("c")).await;
        world.settle().await;
        assert_eq!(world.observer.misreports(), [""; 0], "its inventory knows what is lost and what is gone");
        world.observer.excuse_unknown("berlin");
        let inventory = format!("{}/shop.berlin.0", hub_path("vidrainventories"));
        world.patch("hub", &inventory, json!({"metadata": {"finalizers": null}})).await;
        world.delete("hub", &inventory).await;
        let refused = || world.reason("shop", "berlin") == "NotOurs";
        world.until("nothing proves the first its own", A_LOOK, refused).await;
        world.settle().await;
        assert_eq!(world.data("berlin", "c"), None, "it waits");
        assert_eq!(world.observer.misreports(), [""; 0]);
        world.delete("berlin", &config_map("b")).await;
        world.until("all is as what was never delivered", A_LOOK, || ready(&world, "shop")).await;
        has(&world, "berlin", "b", "one");
        has(&world, "berlin", "c", "one");
        world.settle().await;
        assert_eq!(world.observer.misreports(), [""; 0]);
        ended(world).await;
    });
}

/// What the earlier revision declared was asked with the overrides of the new one, which it does not have.
#[test]
fn a_deletion_that_is_reported_stays_after_a_restart_and_a_revision_with_more_overrides() {
    run(27, || async {
        let world = World::new(Shape::new(27)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Report"}}})).await;
        world.settle().await;
        world.delete("tokyo", &config_map("b")).await;
        world.until("it is told", SOON, || drift(&world, "tokyo") == "Drifted").await;
        world.settle().await;
        world.crash_hub().await;
        world.start_hub();
        world.settle().await;
        let of_a =
            json!({"target": {"kind": "ConfigMap", "name": "a"}, "mergePatch": {"data": {"key": "two"}}});
        world.patch("hub", &shop(), json!({"spec": {"overrides": [of_a]}})).await;
        let changed = || {
            let target = world.target("shop", "tokyo").unwrap_or_default();
            world.data("tokyo", "a") == Some(json!({"key": "two"}))
                && target["status"]["revision"] == target["spec"]["revision"]
                && target["status"]["reason"] == "ObjectsMissing"
        };
        world.until("what is declared otherwise is applied", SOON, changed).await;
        world.settle().await;
        assert_eq!(world.data("tokyo", "b"), None, "it is only reported");
        ended(world).await;
    });
}

/// It said for ever that it goes in a moment; and when it was to go again, nothing told it.
#[test]
fn a_target_that_is_selected_again_while_nothing_is_delivered_rests_and_goes_when_it_is_to_go_again() {
    run(33, || async {
        let world = World::new(Shape::new(33)).await;
        delivered(&world, &manifest("one", "one")).await;
        let on = |members: &[&str]| json!([{"clusterNames": members, "namespace": TARGET_NAMESPACE}]);
        let (all, rest) = (on(&["berlin", "tokyo"]), on(&["berlin"]));
        for (mut held, free) in [
            (json!({"manifest": "a: [b"}), json!({"manifest": manifest("one", "one")})),
            (json!({"suspend": true}), json!({"suspend": false})),
        ] {
            world.patch("hub", &shop(), json!({"spec": {"targets": rest}})).await;
            world.until("it goes in a moment", SOON, || says(&world, "PruneDelayed")).await;
            held["targets"] = all.clone();
            world.patch("hub", &shop(), json!({"spec": held})).await;
            world.until("it rests", A_LOOK, || says(&world, "Suspended")).await;
            tokio::time::sleep(A_LOOK).await;
            has(&world, "tokyo", "a", "one");
            assert_eq!(world.observer.untold(), [""; 0]);
            world.patch("hub", &shop(), json!({"spec": free})).await;
            world.until("it is kept again", SOON, || ready(&world, "shop")).await;
        }
        world.patch("hub", &shop(), json!({"spec": {"targets": rest}})).await;
        world.until("it goes in a moment", SOON, || says(&world, "PruneDelayed")).await;
        world.patch("hub", &shop(), json!({"spec": {"targets": all, "suspend": true}})).await;
        world.until("it rests", A_LOOK, || says(&world, "Suspended")).await;
        world.patch("hub", &shop(), json!({"spec": {"targets": rest}})).await;
        let gone = || world.target("shop", "tokyo").is_none() && world.data("tokyo", "a").is_none();
        world.until("it goes, though the VidraResource is suspended", A_LOOK, gone).await;
        world.patch("hub", &shop(), json!({"spec": {"suspend": false}})).await;
        world.until("the rest is as declared", SOON, || ready(&world, "shop")).await;
        ended(world).await;
    });
}

/// What was refused was taken for what is about to be applied: while that lasted all was said to be in sync.
#[test]
fn lost_marks_of_an_object_that_another_resource_keeps_otherwise_are_told() {
    run(40, || async {
        let world = World::new(Shape::new(40)).await;
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("a", "one"))).await;
        delivered(&world, &manifest("one", "one")).await;
        let otherwise = json!({"spec": {"manifest": manifest("two", "one"), "drift": {"policy": "Report"}}});
        world.patch("hub", &shop(), otherwise).await;
        let refused = || world.has_condition("shop", "Stalled", "True", "TargetsFailed");
        world.until("it alone may not", SOON, refused).await;
        world.settle().await;
        let is_told = || {
            let target = world.target("shop", "berlin").unwrap_or_default();
            let changes = target["status"]["changes"].as_array().cloned().unwrap_or_default();
            changes.iter().any(|change| change["name"] == "a" && change["change"] == "OwnershipLost")
        };
        assert!(!is_told(), "it is not lost yet");
        let live = world.object("berlin", "", "configmaps", TARGET_NAMESPACE, "a").unwrap_or_default();
        let mut entries = live["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries.retain(|entry| entry["manager"] != "vidra/sim/team-a/shop");
        world.patch("berlin", &config_map("a"), json!({"metadata": {"managedFields": entries}})).await;
        world.until("it is told", SOON, is_told).await;
        has(&world, "berlin", "a", "one");
        ended(world).await;
    });
}

/// A revision that waits for a wave was not looked at again before the interval was over: what a plan leaves there for others
/// is not worked out while anything is waited for.
#[test]
fn a_drop_of_most_objects_that_waits_for_a_wave_goes_on_when_it_is_known_that_nobody_takes_them_over() {
    run(45, || async {
        let world = World::new(Shape::new(45)).await;
        let dropped = ["c", "d", "e", "f"].map(|name| document(name, "one")).concat();
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("g", "one"))).await;
        delivered(&world, &(document("a", "one") + &dropped)).await;
        let bank = async |text: &str| {
            let bank = format!("{}/bank", hub_path("vidraresources"));
            world.patch("hub", &bank, json!({"spec": {"manifest": text}})).await;
        };
        // It makes no manifest, and names all that the shop is going to drop.
        bank(&(dropped + "kind: [\n")).await;
        let invalid = || world.has_condition("bank", "Stalled", "True", "ManifestInvalid");
        world.until("it cannot be read", SOON, invalid).await;
        let later = document("b", "one")
            .replace("metadata: {name: b}", "metadata: {name: b, annotations: {vidra.dev/wave: \"1\"}}");
        world.patch("hub", &shop(), json!({"spec": {"manifest": document("a", "two") + &later}})).await;
        let says = |reason: &str| {
            let targets = ["berlin", "tokyo"].map(|member| world.target("shop", member).unwrap_or_default());
            targets.iter().all(|target| target["status"]["reason"] == reason)
        };
        world.until("it waits for the bank", SOON, || says("HandingOver")).await;
        // Nor does the end of pruneDelay bring it on.
        tokio::time::sleep(SOON * 3).await;
        assert!(says("HandingOver"), "the bank may declare all of them");
        bank(&document("g", "one")).await;
        // Nothing tells the shop, and a look comes.
        world.until("nobody takes them over, and a person is asked", A_LOOK, || says("RemovalHeld")).await;
        has(&world, "berlin", "a", "one");
        has(&world, "tokyo", "c", "one");
        ended(world).await;
    });
}

/// What a status says of the generations of objects was as the pass had found it, not as it left it, until the next look. A
/// hub that was restored once more would have known of a generation that no object is from.
#[test]
fn a_restored_hub_tells_with_what_it_applies_that_no_object_is_from_a_later_declaration() {
    run(46, || async {
        let world = World::new(Shape::new(46)).await;
        delivered(&world, &manifest("one", "one")).await;
        let agreed = |member: &str| {
            world.target("shop", member).unwrap_or_default()["status"]["appliedGeneration"].clone()
        };
        let generations = || ["berlin", "tokyo"].map(agreed);
        let says = |value: &str| {
            ["berlin", "tokyo"].iter().all(|member| world.data(member, "a") == Some(json!({"key": value})))
        };
        let (backup, before) = (world.cluster("hub").backup(), generations());
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("two", "one")}})).await;
        world.until("it is changed", SOON, || says("two")).await;
        world.settle().await;
        assert_ne!(generations(), before);
        world.crash_hub().await;
        world.observer.restore_hub(&backup);
        world.start_hub();
        // One object from a later declaration holds nothing.
        world.until("it is as it was declared then", A_LOOK, || says("one")).await;
        world.settle().await;
        assert_eq!(generations(), before);
        ended(world).await;
    });
}

/// The judge asked for another status than the one of a backup, and the hub's API took none.
#[test]
fn what_a_backup_says_stays_said_while_the_hub_can_write_no_other_status() {
    run(53, || async {
        let world = World::new(Shape::new(53)).await;
        delivered(&world, &manifest("one", "one")).await;
        let backup = world.cluster("hub").backup();
        let declare = async |value: &str| {
            world.patch("hub", &shop(), json!({"spec": {"manifest": manifest(value, "one")}})).await;
        };
        declare("two").await;
        world.settle().await;
        // Longer ago than the judge looks back.
        sleep(SOON * 6).await;
        world.crash_hub().await;
        world.observer.restore_hub(&backup);
        declare("three").await;
        let refuse = |call: &Call, _: &Value| {
            let is_status = call.resource == "vidratargets" && call.subresource == "status";
            let refused = is_status && call.user.starts_with(HUB_USER);
            if refused { Err(Denial::new("policy.test.io", "not now")) } else { Ok(()) }
        };
        world.observer.cloud(HUB, SOON * 3);
        world.cluster("hub").set_validating_admission(Some(Arc::new(refuse)));
        world.start_hub();
        sleep(SOON * 3).await;
        has(&world, "berlin", "a", "three");
        world.observer.judge_claims(SOON * 2);
        world.cluster("hub").set_validating_admission(None);
        world.until("it is told", A_LOOK, || ready(&world, "shop")).await;
        ended(world).await;
    });
}

/// No connection broke, for none was open: what the other one listed was believed until the next probe.
#[test]
fn another_cluster_behind_an_address_gets_nothing_where_all_watches_had_just_expired() {
    run(47, || async {
        let world = World::new(Shape::new(47)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.observer.lose_events(Some(fastrand::Rng::with_seed(47)));
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("two", "one")}})).await;
        world.patch("berlin", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        sleep(SOON).await;
        world.observer.lose_events(None);
        world.observer.enlighten();
        let stranger = world.lead_elsewhere("berlin", 4711);
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("three", "one")}})).await;
        sleep(A_LOOK).await;
        assert_eq!(changes_in(&stranger), [""; 0]);
        assert!(!stranger.requests().iter().any(|call| call.dry_run), "nor is anything tried there");
        world.lead_back("berlin");
        world.until("it is reached again", A_LOOK, || ready(&world, "shop")).await;
        has(&world, "berlin", "a", "three");
        world.settle().await;
        ended(world).await;
    });
}

/// A target that goes watches nothing, so no connection broke: what the other one said to be gone was struck off the inventory, and
/// stayed in the member as nobody's.
#[test]
fn what_another_cluster_behind_an_address_does_not_have_is_not_taken_for_removed() {
    run(48, || async {
        let world = World::new(Shape::new(48)).await;
        delivered(&world, &manifest("one", "one")).await;
        let held = json!({"metadata": {"finalizers": ["test.io/held"]}});
        world.patch("berlin", &config_map("a"), held).await;
        world.patch("hub", &shop(), json!({"spec": {"excludeClusters": ["berlin"]}})).await;
        world.until("what nothing holds is gone", SOON, || world.data("berlin", "b").is_none()).await;
        world.lead_elsewhere("berlin", 4711);
        // It looks again every two seconds.
        sleep(SOON).await;
        assert!(world.target("shop", "berlin").is_some(), "it is still there");
        world.lead_back("berlin");
        world.patch("berlin", &config_map("a"), json!({"metadata": {"finalizers": null}})).await;
        world.until("all of it is gone", A_LOOK, || world.target("shop", "berlin").is_none()).await;
        assert_eq!(world.data("berlin", "a"), None);
        world.settle().await;
        ended(world).await;
    });
}

/// A read brought it back into the records, and no watch told of its end: what was declared again was waited for.
#[test]
fn what_lost_its_label_on_its_way_out_is_made_again_when_it_is_gone() {
    run(49, || async {
        let world = World::new(Shape::new(49)).await;
        delivered(&world, &manifest("one", "one")).await;
        let held = json!({"metadata": {"finalizers": ["test.io/held"]}});
        world.patch("berlin", &config_map("a"), held).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": document("b", "one")}})).await;
        let goes = || {
            let live = world.object("berlin", "", "configmaps", TARGET_NAMESPACE, "a").unwrap_or_default();
            live["metadata"]["deletionTimestamp"].is_string()
        };
        world.until("it is on its way out", A_LOOK, goes).await;
        world.patch("berlin", &config_map("a"), json!({"metadata": {"labels": {HUB_LABEL: null}}})).await;
        // It looks again every two seconds.
        sleep(SOON).await;
        world.patch("berlin", &config_map("a"), json!({"metadata": {"finalizers": null}})).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("one", "one")}})).await;
        let is_back = || ready(&world, "shop") && world.data("berlin", "a") == Some(json!({"key": "one"}));
        world.until("it is made again", A_LOOK, is_back).await;
        world.settle().await;
        ended(world).await;
    });
}

/// The judge took what it had delivered for removed with it, though it was let go and made again: so what was left as it is held
/// up whatever was dropped beside it.
#[test]
fn what_is_gone_holds_no_prune_where_a_target_that_was_deleted_on_its_way_out_is_wanted_again() {
    run(50, || async {
        let world = World::new(Shape::new(50)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Report"}}})).await;
        world.settle().await;
        let on = |members: &[&str]| json!([{"clusterNames": members, "namespace": TARGET_NAMESPACE}]);
        world.patch("hub", &shop(), json!({"spec": {"targets": on(&["berlin"])}})).await;
        world.until("it goes in a moment", SOON, || says(&world, "PruneDelayed")).await;
        world.delete("hub", &format!("{}/shop.tokyo", hub_path("vidratargets"))).await;
        world.delete("tokyo", &config_map("b")).await;
        let again = json!({"targets": on(&["berlin", "tokyo"]), "manifest": document("b", "one")});
        world.patch("hub", &shop(), json!({"spec": again})).await;
        // How it was applied nobody knows: the VidraTarget that could tell is lost.
        world.until("what is gone is told", A_LOOK, || says(&world, "ObjectsMissing")).await;
        world.until("what was dropped goes", A_LOOK, || world.data("tokyo", "a").is_none()).await;
        world.settle().await;
        assert_eq!(world.data("tokyo", "b"), None, "it is only reported");
        assert_eq!(world.observer.differs(), [""; 0]);
        assert_eq!(world.observer.misreports(), [""; 0]);
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Correct"}}})).await;
        world.until("it is made again", A_LOOK, || ready(&world, "shop")).await;
        has(&world, "tokyo", "b", "one");
        ended(world).await;
    });
}

/// The judge wanted it told that another's object has lost its marks: what had been delivered in its place was dropped, and let
/// go, before it was declared again.
#[test]
fn what_was_dropped_while_anothers_stood_in_its_place_is_not_told_as_lost_when_it_is_declared_again() {
    run(51, || async {
        let world = World::new(Shape::new(51)).await;
        delivered(&world, &manifest("one", "one")).await;
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Report"}}})).await;
        world.settle().await;
        stands_in(&world, json!({"key": "one"})).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": document("a", "one")}})).await;
        let is_held = || {
            let held = world.object("hub", vidra_api::GROUP, "vidrainventories", TEAM, "shop.tokyo.0");
            held.unwrap_or_default()["spec"]["entries"].to_string().contains("/b/")
        };
        assert!(is_held(), "its inventory knows what it had");
        world.until("it is let go", A_LOOK, || ready(&world, "shop") && !is_held()).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("one", "one")}})).await;
        world.until("it is another's", SOON, || says(&world, "AlreadyExists")).await;
        world.settle().await;
        assert_eq!(world.observer.misreports(), [""; 0]);
        world.delete("tokyo", &config_map("b")).await;
        world.until("it is made", Duration::from_secs(330), || ready(&world, "shop")).await;
        // And from then on what becomes of it is told again.
        world.patch("tokyo", &config_map("b"), json!({"metadata": {"labels": {HUB_LABEL: null}}})).await;
        world.until("it is told again", SOON, || drift(&world, "tokyo") == "Drifted").await;
        world.settle().await;
        assert_eq!(world.observer.misreports(), [""; 0]);
        ended(world).await;
    });
}

/// The judge took that it is declared otherwise for a lie: what a target declares of which an override fails nobody can tell, and
/// what it has stays.
#[test]
fn what_a_target_has_stays_its_own_while_one_of_its_overrides_fails() {
    run(53, || async {
        let world = World::new(Shape::new(53)).await;
        delivered(&world, &manifest("one", "one")).await;
        let bank = format!("{}/bank", hub_path("vidraresources"));
        world.create("hub", &hub_path("vidraresources"), resource("bank", &document("a", "one"))).await;
        world.until("both have it", SOON, || ready(&world, "bank")).await;
        world.settle().await;
        let set = json!([{"path": ".data.zone", "expression": "cluster.values['zone']"}]);
        let fails = json!([{"target": {"kind": "ConfigMap", "name": "b"}, "set": set}]);
        let dropped = json!({"manifest": document("b", "one"), "overrides": fails});
        world.patch("hub", &shop(), json!({"spec": dropped})).await;
        world.until("it fails", SOON, || says(&world, "OverrideFailed")).await;
        world.patch("hub", &bank, json!({"spec": {"manifest": document("a", "two")}})).await;
        let refused = || world.reason("bank", "tokyo") == "SharedObjectConflict";
        world.until("it is refused", SOON, refused).await;
        // What was declared until lately counts, too.
        sleep(Duration::from_secs(330)).await;
        assert!(refused(), "it stays the shop's");
        assert_eq!(world.observer.untold(), [""; 0]);
        for &member in world.members() {
            world.patch("hub", &member_path(member), json!({"spec": {"values": {"zone": "one"}}})).await;
        }
        world.until("the shop lets it go", A_LOOK, || ready(&world, "shop")).await;
        world.settle().await;
        assert_eq!(world.observer.untold(), [""; 0]);
        world.until("the bank has it", Duration::from_secs(330), || ready(&world, "bank")).await;
        has(&world, "tokyo", "a", "two");
        ended(world).await;
    });
}

/// The judge took it for done with, for it had been there.
#[test]
fn what_is_applied_once_and_waits_for_its_finalizers_is_told_until_it_is_gone() {
    run(60, || async {
        let world = World::new(Shape::new(60)).await;
        let once = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "annotations": {"vidra.dev/apply": "Once"}}, "data": {"key": "one"}});
        delivered(&world, &once.to_string()).await;
        let held = |by: Value| json!({"metadata": {"finalizers": by}});
        world.patch("tokyo", &config_map("a"), held(json!(["test.io/held"]))).await;
        world.delete("tokyo", &config_map("a")).await;
        world.until("it is told", SOON, || world.reason("shop", "tokyo") == "ObjectsProgressing").await;
        sleep(SOON * 2).await;
        assert_eq!(world.observer.untold(), [""; 0]);
        world.patch("tokyo", &config_map("a"), held(json!(null))).await;
        world.until("it is gone and done", SOON, || ready(&world, "shop")).await;
        assert!(world.data("tokyo", "a").is_none());
        ended(world).await;
    });
}

/// The judge knew nothing of it: no walk had come to it.
#[test]
fn what_waits_behind_a_job_that_rests_is_told_until_it_goes_on() {
    run(61, || async {
        let world = World::new(Shape::new(61)).await;
        let text = |suspend: bool, more: &str| {
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
                "spec": {"suspend": suspend, "template": {"spec": {"restartPolicy": "Never",
                    "containers": [{"name": "job", "image": "job:one"}]}}}});
            format!("{job}\n---\n{more}")
        };
        let status = async |status: Value| {
            for &member in world.members() {
                let path = format!("/apis/batch/v1/namespaces/{TARGET_NAMESPACE}/jobs/job/status");
                world.patch(member, &path, json!({"status": status})).await;
            }
        };
        world.create("hub", &hub_path("vidraresources"), resource("shop", &text(true, ""))).await;
        world.start_hub();
        world.settle().await;
        status(json!({"conditions": [{"type": "Suspended", "status": "True"}]})).await;
        world.until("a Job that rests is well", SOON, || ready(&world, "shop")).await;
        let late = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "one"},
            "metadata": {"name": "late", "annotations": {"vidra.dev/wave": "1"}}});
        let late = late.to_string();
        world.patch("hub", &shop(), json!({"spec": {"manifest": text(true, &late)}})).await;
        world.until("it waits", SOON, || world.reason("shop", "tokyo") == "WaitingForSuspended").await;
        sleep(SOON * 2).await;
        assert_eq!(world.observer.untold(), [""; 0]);
        world.patch("hub", &shop(), json!({"spec": {"manifest": text(false, &late)}})).await;
        world.settle().await;
        status(json!({"conditions": null, "startTime": "2026-01-01T00:00:00Z"})).await;
        world.until("it goes on", SOON, || ready(&world, "shop")).await;
        ended(world).await;
    });
}

/// The judge took it for an apply of the declaration of before, for the ignored field had its old value; and that one for
/// held, for it lacks what had just been added.
#[test]
fn an_edit_beside_an_ignored_field_that_adds_much_is_no_apply_of_what_is_held() {
    run(62, || async {
        let world = World::new(Shape::new(62)).await;
        delivered(&world, &manifest("one", "one")).await;
        let rule = json!({"target": {"kind": "ConfigMap", "name": "a"}, "paths": [".data.key"]});
        world.patch("hub", &shop(), json!({"spec": {"drift": {"ignore": [rule]}}})).await;
        world.settle().await;
        let a = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: two, more: two}\n---\n";
        let rest = ["b", "c", "d", "e", "f"].map(|name| document(name, "one")).concat();
        world.patch("hub", &shop(), json!({"spec": {"manifest": format!("{a}{rest}")}})).await;
        let changed = || world.data("berlin", "a") == Some(json!({"key": "one", "more": "two"}));
        world.until("it is delivered", SOON, || changed() && ready(&world, "shop")).await;
        ended(world).await;
    });
}
