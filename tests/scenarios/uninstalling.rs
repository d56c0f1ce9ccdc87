//! The hub's own CRDs are deleted: no wish for what their objects stand for.

use serde_json::json;
use testkit::world::{Access, At, LONG, SOON, World, wait_for};

use crate::{config_map, marks, says, scenario};

/// A CRD of the hub's.
pub fn crd(plural: &str) -> At {
    let name = format!("{plural}.vidra.dev");
    At::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name)
}

/// Puts a finalizer of the scenario's on a CRD, or takes it off.
pub async fn hold(world: &World, crd: &At, held: bool) {
    let live = world.hub.live(crd).await;
    let mut all = live["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    all.retain(|one| one != "example.com/hold");
    all.extend(held.then(|| json!("example.com/hold")));
    world.hub.merge(crd, json!({"metadata": {"finalizers": all}})).await;
}

/// Berlin has what is declared; somebody in it, and the ConfigMap there.
async fn delivered(world: &World) -> (Access, At) {
    world.register(&["berlin"]).await;
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

/// A person's word that the objects stay where they are.
async fn approve(world: &World, crd: &At) {
    let word = json!({"metadata": {"annotations": {"vidra.dev/approve-removal": "orphan"}}});
    world.hub.merge(crd, word).await;
}

/// The CRD goes, and with it all of its objects; then the hub is installed again, and berlin registered again.
async fn install_again(world: &mut World, crd: &At) {
    world.stop_hub().await;
    hold(world, crd, false).await;
    world.hub.gone(crd).await;
    world.install_again().await;
    world.start_hub().await;
    let again = json!({"metadata": {"annotations": {"vidra.dev/left-at": null}}});
    world.hub.merge(&world.registration("berlin"), again).await;
}

#[test]
fn while_a_crd_of_the_hub_is_being_deleted_nothing_is_torn_down_until_a_person_lets_it_go() {
    scenario(async |mut world| {
        let (alice, settings) = delivered(&world).await;
        let made = alice.live(&settings).await;
        let crd = crd("vidraresources");
        // It stays until the scenario is done with it.
        hold(&world, &crd, true).await;
        let mark = world.mark();
        world.hub.delete(&crd).await;
        // As the server does with every object of the kind.
        world.hub.delete(&world.resource_at("shop")).await;
        let told = world.resource_says("shop", "Stalled", "True", "CRDTerminating").await;
        assert!(format!("{:?}", told.status).contains("approve-removal=orphan"));
        let looks = || world.metric("workqueue_work_duration_seconds_count{name=\"resource\"}");
        let before = looks();
        world.hub.delete(&world.member_at("berlin")).await;
        world.reconcile_now("shop", "1").await;
        wait_for("two more looks", SOON, async || match looks() {
            seen if seen >= before + 2.0 => Ok(()),
            seen => Err(format!("{seen}")),
        })
        .await;
        assert_eq!(alice.live(&settings).await, made);
        assert_eq!(world.writes("berlin", &mark), []);

        approve(&world, &crd).await;
        world.removed("shop").await;
        world.hub.gone(&world.member_at("berlin")).await;
        assert_eq!(alice.live(&settings).await, made);
        install_again(&mut world, &crd).await;

        // It knows its objects.
        world.member_says("berlin", "Ready", "True").await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let known = alice.live(&settings).await;
        assert!(says("one")(&known) && !marks(&known).is_empty());
        assert_eq!(known["metadata"]["uid"], made["metadata"]["uid"]);
        world.remove("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn while_the_crd_of_members_is_being_deleted_their_resources_say_so_and_go_on_by_a_persons_word() {
    scenario(async |mut world| {
        let (alice, settings) = delivered(&world).await;
        let made = alice.live(&settings).await;
        let (crd, berlin) = (crd("memberclusters"), world.member_at("berlin"));
        hold(&world, &crd, true).await;
        let mark = world.mark();
        world.hub.delete(&crd).await;
        // As the server does with every object of the kind.
        world.hub.delete(&berlin).await;
        let told = world.resource_says("shop", "Stalled", "True", "CRDTerminating").await;
        assert!(
            format!("{:?}", told.status)
                .contains("memberclusters.vidra.dev vidra.dev/approve-removal=orphan")
        );
        assert_eq!(alice.live(&settings).await, made);

        // Nothing else makes the hub look.
        approve(&world, &crd).await;
        wait_for("the member leaves", LONG, async || match world.hub.get(&berlin).await {
            None => Ok(()),
            Some(member) => Err(member["metadata"].to_string()),
        })
        .await;
        assert_eq!(alice.live(&settings).await, made);
        assert_eq!(world.writes("berlin", &mark), []);
        world.resource_says("shop", "Stalled", "False", "Moving").await;
        install_again(&mut world, &crd).await;
        world.ready("shop").await;
        assert_eq!(alice.live(&settings).await["metadata"]["uid"], made["metadata"]["uid"]);
        world.end().await;
    });
}

#[test]
fn a_hub_that_may_not_read_its_crds_says_so_when_something_is_deleted() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let crd = "vidraresources.vidra.dev";
        world.take_right("apiextensions.k8s.io", "customresourcedefinitions", "get", crd).await;
        world.remove("shop").await;
        let events = At::new("events.k8s.io/v1", "Event", &world.ns, "");
        let note = wait_for("an Event", SOON, async || {
            let all = world.hub.list(&events).await;
            let found = all.iter().find(|event| event["reason"] == "CRDUnreadable");
            found
                .and_then(|event| event["note"].as_str().map(str::to_owned))
                .ok_or_else(|| format!("{all:?}"))
        })
        .await;
        assert!(note.contains(crd) && note.contains("grant the hub get"), "{note}");
        world.give_rights().await;
        world.end().await;
    });
}
