//! What a newer vidra-hub wrote, met by this one after a start, when nothing of it was known before, or while it runs; and
//! CRDs that are older than the hub.

use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, World, wait_for};
use vidra_api::{DesiredState, TargetState};

use crate::{config_map, marks, says, scenario, uid};

fn crd(plural: &str) -> At {
    At::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &format!("{plural}.vidra.dev"))
}

/// As a newer CRD does, lets the API server take other words in a field of a kind's spec.
async fn open(world: &World, plural: &str, field: &str) {
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let patch = json!([
        {"op": "remove", "path": format!("{schema}/{field}/enum")},
        {"op": "add", "path": format!("{schema}/{field}/maxLength"), "value": 20},
    ]);
    world.hub.json_patch(&crd(plural), patch).await;
}

/// Writes what a newer hub writes: it is taken once the server goes by the newer CRD.
async fn write(world: &World, at: &At, patch: Value) {
    wait_for(&format!("{at} is written"), SOON, async || {
        world.hub.try_merge(at, patch.clone()).await.map_err(|refused| refused.to_string())
    })
    .await;
}

/// The hub does something else, from a change to its status: what it does at once is done then.
async fn meanwhile(world: &World, cluster: &str) {
    world.deliver("marker", &[cluster], &config_map("marker", "one")).await;
    world.ready("marker").await;
}

fn unreadable(world: &World, kind: &str) -> f64 {
    world.metric(&format!("vidra_unreadable{{kind=\"{kind}\"}}"))
}

fn version(object: &Value) -> Value {
    object["metadata"]["resourceVersion"].clone()
}

/// What is to be done, and nothing that would give up what is there.
fn advises_the_newer_hub(message: &str) {
    assert!(
        message.contains("Run the vidra-hub that wrote it") && !message.contains("annotate"),
        "{message}"
    );
}

/// Two VidraResources are delivered, `shop` and `other`: somebody, and their objects.
async fn two_delivered(world: &World) -> (Access, [At; 2]) {
    world.register(&["berlin"]).await;
    for name in ["shop", "other"] {
        world.deliver(name, &["berlin"], &config_map(name, "one")).await;
        world.ready(name).await;
    }
    (world.alice("berlin").await, ["shop", "other"].map(|name| At::config_map(&world.ns, name)))
}

#[test]
fn a_target_whose_resource_a_newer_hub_wrote_is_held_alone_and_nobody_is_told_to_give_it_up() {
    scenario(async |mut world| {
        let (alice, [shop, other]) = two_delivered(&world).await;
        let (resource, target) = (world.resource_at("shop"), world.target_at("shop", "berlin"));
        let made = alice.live(&shop).await;
        world.stop_hub().await;
        open(&world, "vidraresources", "deletionPolicy").await;
        write(&world, &resource, json!({"spec": {"deletionPolicy": "Later"}})).await;
        let mark = world.mark();
        world.start_hub().await;

        advises_the_newer_hub(&world.target_is("shop", "berlin", TargetState::Unknown, "HubTooOld").await);
        for at in [&shop, &other] {
            alice.merge(at, json!({"data": {"key": "evil"}})).await;
        }
        alice.when(&other, "repaired", says("one")).await;
        // A word for one whose VidraResource is not there is none for this.
        let word = |word: Value| json!({"metadata": {"annotations": {"vidra.dev/approve-removal": word}}});
        world.hub.merge(&target, word(json!("orphan"))).await;
        meanwhile(&world, "berlin").await;
        assert_eq!(world.writes_to(&shop, "berlin", &mark), []);
        let left = world.target("shop", "berlin").await.expect("it is there");
        assert_eq!(left.spec.desired, DesiredState::Present);
        assert_eq!(unreadable(&world, "VidraResource"), 1.0);
        assert_eq!(world.metric("vidra_targets_resource_missing{cluster=\"berlin\"}"), 0.0);

        world.hub.merge(&target, word(Value::Null)).await;
        write(&world, &resource, json!({"spec": {"deletionPolicy": "Delete"}})).await;
        world.install_again().await;
        let now = alice.when(&shop, "repaired", says("one")).await;
        assert_eq!(uid(&now), uid(&made));
        world.ready("shop").await;
        assert_eq!(unreadable(&world, "VidraResource"), 0.0);
        world.end().await;
    });
}

#[test]
fn nothing_goes_before_a_target_that_a_newer_hub_wrote_and_that_target_is_not_written() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin", "tokyo"]).await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let (settings, target) = (At::config_map(&world.ns, "settings"), world.target_at("shop", "berlin"));
        let made = berlin.live(&settings).await;
        world.stop_hub().await;
        open(&world, "vidratargets", "drift/properties/policy").await;
        write(&world, &target, json!({"spec": {"drift": {"policy": "Later"}}})).await;
        let (mark, written) = (world.mark(), world.hub.live(&target).await);
        world.start_hub().await;

        let told = world.resource_says("shop", "Ready", "False", "HubTooOld").await;
        let status = told.status.expect("a status");
        let of_berlin = status.clusters.iter().find(|one| one.name == "berlin").expect("it is counted");
        assert_eq!(
            (of_berlin.state, status.targets_ready.as_deref()),
            (Some(TargetState::Unknown), Some("1/2"))
        );
        advises_the_newer_hub(of_berlin.message.as_deref().unwrap_or_default());
        tokyo.merge(&settings, json!({"data": {"key": "evil"}})).await;
        tokyo.when(&settings, "repaired", says("one")).await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "two")).await;
        tokyo.when(&settings, "changed", says("two")).await;

        world.hub.delete(&world.resource_at("shop")).await;
        tokyo.gone(&settings).await;
        world.hub.delete(&world.member_at("berlin")).await;
        advises_the_newer_hub(&world.member_says("berlin", "Stalled", "True").await);
        world.resource_says("shop", "Stalled", "True", "HubTooOld").await;
        meanwhile(&world, "tokyo").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        assert_eq!(berlin.live(&settings).await["metadata"], made["metadata"]);
        assert_eq!(version(&world.hub.live(&target).await), version(&written));
        assert_eq!(unreadable(&world, "VidraTarget"), 1.0);

        write(&world, &target, json!({"spec": {"drift": {"policy": "Correct"}}})).await;
        world.install_again().await;
        world.removed("shop").await;
        world.hub.gone(&world.member_at("berlin")).await;
        // The member has left, and keeps what it has.
        let left = berlin.live(&settings).await;
        assert!(marks(&left).is_empty() && uid(&left) == uid(&made), "{left}");
        berlin.delete(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_member_that_a_newer_hub_wrote_is_left_as_it_is_and_what_is_there_is_not_given_up() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let (settings, member) = (At::config_map(&world.ns, "settings"), world.member_at("berlin"));
        world.stop_hub().await;
        open(&world, "memberclusters", "onLeave").await;
        write(&world, &member, json!({"spec": {"onLeave": "Later"}})).await;
        let (mark, written) = (world.mark(), world.hub.live(&member).await);
        world.start_hub().await;

        advises_the_newer_hub(&world.target_is("shop", "berlin", TargetState::Unknown, "HubTooOld").await);
        world.resource_says("shop", "Ready", "False", "HubTooOld").await;
        for access in [&berlin, &tokyo] {
            access.merge(&settings, json!({"data": {"key": "evil"}})).await;
        }
        tokyo.when(&settings, "repaired", says("one")).await;
        // A word for a member that is not there is none for this.
        let forget = |word: Value| json!({"metadata": {"annotations": {"vidra.dev/forget": word}}});
        world.hub.merge(&world.resource_at("shop"), forget(json!("berlin"))).await;
        meanwhile(&world, "tokyo").await;
        assert_eq!(world.writes("berlin", &mark), []);
        let left = world.target("shop", "berlin").await.expect("it is there");
        assert_eq!(left.spec.desired, DesiredState::Present);
        assert_eq!(version(&world.hub.live(&member).await), version(&written));
        assert_eq!(unreadable(&world, "MemberCluster"), 1.0);

        world.hub.merge(&world.resource_at("shop"), forget(Value::Null)).await;
        write(&world, &member, json!({"spec": {"onLeave": "Orphan"}})).await;
        world.install_again().await;
        berlin.when(&settings, "repaired", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_resource_whose_edit_a_running_hub_cannot_read_is_held_and_told_as_at_a_start() {
    scenario(async |world| {
        let (alice, [shop, other]) = two_delivered(&world).await;
        let resource = world.resource_at("shop");
        let made = alice.live(&shop).await;
        open(&world, "vidraresources", "deletionPolicy").await;
        write(&world, &resource, json!({"spec": {"deletionPolicy": "Later", "suspend": true}})).await;

        advises_the_newer_hub(&world.target_is("shop", "berlin", TargetState::Unknown, "HubTooOld").await);
        assert_eq!(unreadable(&world, "VidraResource"), 1.0);
        let mark = world.mark();
        for at in [&shop, &other] {
            alice.merge(at, json!({"data": {"key": "evil"}})).await;
        }
        alice.when(&other, "repaired", says("one")).await;
        // Its deletion is an edit that cannot be read either.
        world.hub.delete(&resource).await;
        meanwhile(&world, "berlin").await;
        assert_eq!(world.writes_to(&shop, "berlin", &mark), []);
        let now = alice.live(&shop).await;
        assert!(says("evil")(&now) && uid(&now) == uid(&made), "{now}");
        let left = world.target("shop", "berlin").await.expect("it is there");
        assert_eq!(left.spec.desired, DesiredState::Present);

        write(&world, &resource, json!({"spec": {"deletionPolicy": "Delete"}})).await;
        world.install_again().await;
        world.removed("shop").await;
        alice.gone(&shop).await;
        assert_eq!(unreadable(&world, "VidraResource"), 0.0);
        world.end().await;
    });
}

#[test]
fn a_member_whose_edit_a_running_hub_cannot_read_is_written_to_no_more_and_says_so() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let (settings, member) = (At::config_map(&world.ns, "settings"), world.member_at("berlin"));
        open(&world, "memberclusters", "onLeave").await;
        write(&world, &member, json!({"spec": {"onLeave": "Later", "suspend": true}})).await;

        advises_the_newer_hub(&world.target_is("shop", "berlin", TargetState::Unknown, "HubTooOld").await);
        world.resource_says("shop", "Ready", "False", "HubTooOld").await;
        let (mark, written) = (world.mark(), world.hub.live(&member).await);
        for access in [&berlin, &tokyo] {
            access.merge(&settings, json!({"data": {"key": "evil"}})).await;
        }
        tokyo.when(&settings, "repaired", says("one")).await;
        meanwhile(&world, "tokyo").await;
        assert_eq!(world.writes("berlin", &mark), []);
        let left = world.target("shop", "berlin").await.expect("it is there");
        assert_eq!(left.spec.desired, DesiredState::Present);
        assert_eq!(version(&world.hub.live(&member).await), version(&written));

        write(&world, &member, json!({"spec": {"onLeave": "Orphan", "suspend": false}})).await;
        world.install_again().await;
        berlin.when(&settings, "repaired", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn by_an_inventory_of_a_newer_form_nothing_is_deleted_and_it_is_not_written() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let both = config_map("kept", "one") + &config_map("dropped", "one");
        world.deliver("shop", &["berlin"], &both).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let alice = world.alice("berlin").await;
        let objects = ["kept", "dropped"].map(|name| At::config_map(&world.ns, name));
        let inventories = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "");
        let all = world.hub.list(&inventories).await;
        let name = all[0]["metadata"]["name"].as_str().expect("a name");
        let inventory = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, name);
        world.stop_hub().await;
        world.hub.merge(&inventory, json!({"spec": {"format": 2}})).await;
        world.deliver("shop", &["berlin"], &config_map("kept", "one")).await;
        let (mark, written) = (world.mark(), world.hub.live(&inventory).await);
        world.start_hub().await;

        world.target_is("shop", "berlin", TargetState::Failed, "InventoryUnreadable").await;
        world.hub.delete(&world.resource_at("shop")).await;
        meanwhile(&world, "berlin").await;
        for at in &objects {
            alice.live(at).await;
            assert_eq!(world.writes_to(at, "berlin", &mark), []);
        }
        assert_eq!(version(&world.hub.live(&inventory).await), version(&written));
        assert_eq!(unreadable(&world, "VidraInventory"), 1.0);

        world.hub.merge(&inventory, json!({"spec": {"format": null}})).await;
        world.removed("shop").await;
        for at in &objects {
            alice.gone(at).await;
        }
        world.end().await;
    });
}

#[test]
fn a_hub_with_older_crds_does_not_start_and_says_how_they_are_updated() {
    scenario(async |mut world| {
        let crd = crd("vidratargets");
        let bears = |number: Value| json!({"metadata": {"annotations": {"vidra.dev/schema": number}}});
        world.stop_hub().await;
        for number in [json!("0"), json!("newest"), Value::Null] {
            world.hub.merge(&crd, bears(number.clone())).await;
            let refused = world.refuses_to_start().await;
            for word in [
                "SchemaTooOld",
                "vidratargets.vidra.dev",
                "kubectl apply --server-side --force-conflicts -f crds/",
            ] {
                assert!(refused.contains(word), "{number}: {refused}");
            }
        }
        // Newer ones know all that it writes.
        world.hub.merge(&crd, bears(json!("4000000000"))).await;
        world.start_hub().await;
        world.stop_hub().await;
        // What it may not read keeps it from nothing.
        world.hub.merge(&crd, bears(json!("0"))).await;
        let (group, kind) = ("apiextensions.k8s.io", "customresourcedefinitions");
        world.take_right(group, kind, "get", "vidratargets.vidra.dev").await;
        world.start_hub().await;
        world.give_rights().await;
        world.install_again().await;
        world.restart_hub().await;
        world.end().await;
    });
}

#[test]
fn what_one_drops_stays_while_another_that_a_newer_hub_wrote_may_declare_it() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let own = ["a", "b", "c"].map(|name| config_map(name, "one")).concat();
        world.deliver("shop", &["berlin"], &(config_map("moved", "one") + &own)).await;
        world.deliver("other", &["berlin"], &config_map("other", "one")).await;
        for name in ["shop", "other"] {
            world.ready(name).await;
            world.recorded(name, &["berlin"]).await;
        }
        let (alice, moved) = (world.alice("berlin").await, At::config_map(&world.ns, "moved"));
        let resource = world.resource_at("other");
        world.stop_hub().await;
        open(&world, "vidraresources", "deletionPolicy").await;
        write(&world, &resource, json!({"spec": {"deletionPolicy": "Later"}})).await;
        world.deliver("shop", &["berlin"], &own).await;
        world.start_hub().await;
        world.resource_says("shop", "Removing", "True", "HandingOver").await;
        alice.live(&moved).await;

        write(&world, &resource, json!({"spec": {"deletionPolicy": "Delete"}})).await;
        world.install_again().await;
        world.resource_says("shop", "Removing", "False", "Nothing").await;
        alice.gone(&moved).await;
        world.end().await;
    });
}
