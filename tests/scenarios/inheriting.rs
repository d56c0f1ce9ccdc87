//! Objects of another hub in a member: refused, unless a person says on the MemberCluster that they may be taken over.

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::TargetState;
use vidra_hub::config::Inherit;

use crate::{config_map, config_map_in, marks, object, says, scenario, uid};

fn manifest(value: &str, more: Value) -> String {
    let mut shared = config_map_in("", "settings", value);
    shared["data"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object(&shared) + &config_map("beside", value)
}

/// The hub's cluster has all that it had, but for the identity and what the hub kept for itself: so it is another hub.
async fn become_another(world: &mut World) {
    world.stop_hub().await;
    for kind in ["VidraTarget", "VidraInventory"] {
        for object in world.hub.list(&At::new("vidra.dev/v1alpha1", kind, &world.ns, "")).await {
            let at = At::of(&object);
            world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
            world.hub.delete(&at).await;
            world.hub.gone(&at).await;
        }
    }
    world.hub.delete(&At::new("v1", "Secret", &world.settings.namespace, "vidra-hub-identity")).await;
    world.settings.hub_id = Some(format!("{}-new", world.ns));
    world.settings.inherit = Inherit::NewIdentity;
    world.start_hub().await;
}

async fn take_over_from(world: &World, hub: &str) {
    let annotation = json!({"metadata": {"annotations": {"vidra.dev/take-over-from": hub}}});
    world.hub.merge(&world.member_at("berlin"), annotation).await;
}

#[test]
fn what_another_hub_delivered_is_taken_over_on_a_persons_word_and_only_from_the_hub_that_it_names() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let (settings, beside) = (At::config_map(&world.ns, "settings"), At::config_map(&world.ns, "beside"));
        world.deliver("shop", &["berlin"], &manifest("one", json!({"old": "x"}))).await;
        world.ready("shop").await;
        alice.merge(&settings, json!({"data": {"more": "alice's"}})).await;
        let before = alice.live(&settings).await;
        let (old, new) = (world.ns.clone(), format!("{}-new", world.ns));

        become_another(&mut world).await;
        world.deliver("shop", &["berlin"], &manifest("two", json!({}))).await;
        let mark = world.mark();
        let message = world.target_is("shop", "berlin", TargetState::Failed, "OwnedByOtherHub").await;
        assert!(message.contains(&format!("vidra.dev/take-over-from={old}")), "{message}");
        take_over_from(&world, "somebody").await;
        let says_so = |status: &vidra_api::VidraTargetStatus| {
            status
                .message
                .as_deref()
                .is_some_and(|message| message.contains("names \"somebody\", which is another"))
        };
        world.target_when("shop", "berlin", "the wrong hub is named", says_so).await;
        assert_eq!(alice.live(&settings).await, before);
        assert!(world.writes_to(&settings, "berlin", &mark).iter().all(|write| write.code == 409));

        take_over_from(&world, &old).await;
        let taken = alice.when(&settings, "as declared", says("two")).await;
        world.ready("shop").await;
        assert_eq!(uid(&taken), uid(&before));
        // What the other hub declared and this one does not goes; what alice added stays.
        assert_eq!(taken["data"], json!({"key": "two", "more": "alice's"}));
        for at in [&settings, &beside] {
            let live = alice.live(at).await;
            assert_eq!(live["metadata"]["labels"]["vidra.dev/hub"], new.as_str(), "{live}");
            let all = marks(&live);
            let owners = all.iter().filter(|mark| mark.starts_with("owner.")).count();
            assert_eq!(owners, 2, "a label and an annotation: {all:?}");
            assert!(!all.iter().any(|mark| mark.starts_with(&format!("vidra/{old}/"))), "{all:?}");
        }
        let held = world.inventory("shop", "berlin").await;
        assert!(held.len() == 2 && held.iter().all(|one| one.adopted && one.done), "{held:?}");

        // From then on it is this hub's: repaired, quiet, and gone with the VidraResource.
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("two")).await;
        world.ready("shop").await;
        let mark = world.mark();
        world.look("shop", "look", 1).await;
        assert_eq!(world.writes("berlin", &mark), []);
        world.remove("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn objects_of_another_hub_that_a_controller_owns_or_that_are_on_their_way_out_are_not_taken_over() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        take_over_from(&world, "another").await;
        let owner = alice.create(config_map_in(&world.ns, "owner", "alice's")).await;
        let theirs = |name: &str| {
            let mut object = config_map_in(&world.ns, name, "one");
            object["metadata"]["labels"] = json!({"vidra.dev/hub": "another"});
            object
        };
        let mut controlled = theirs("controlled");
        controlled["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": owner["metadata"]["uid"], "controller": true}]);
        let controlled = alice.create(controlled).await;
        world.deliver("controlled", &["berlin"], &config_map("controlled", "two")).await;
        world.target_is("controlled", "berlin", TargetState::Failed, "ControlledByOther").await;
        assert_eq!(alice.live(&At::of(&controlled)).await, controlled);

        let mut dying = theirs("dying");
        dying["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let at = At::of(&alice.create(dying).await);
        alice.delete(&at).await;
        let before = alice.live(&at).await;
        world.deliver("dying", &["berlin"], &config_map("dying", "two")).await;
        world.target_is("dying", "berlin", TargetState::Waiting, "ObjectTerminating").await;
        assert_eq!(alice.live(&at).await, before);
        alice.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        alice.when(&at, "made by this hub", says("two")).await;

        // A label alone, with fields that are alice's: what `conflicts.fields` says of them holds here too.
        alice.create(theirs("held")).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "conflicts": {"fields": "Fail"}});
        world.deliver_with("held", &config_map("held", "two"), spec).await;
        let message = world.target_is("held", "berlin", TargetState::Failed, "FieldConflict").await;
        assert!(message.contains("alice-edit"), "{message}");
        world.deliver("held", &["berlin"], &config_map("held", "two")).await;
        alice.when(&At::config_map(&world.ns, "held"), "taken over", says("two")).await;
        world.ready("held").await;

        // Or that an earlier applier set: they move to this hub with the object.
        let helm = Access::new(alice.client.clone(), "helm");
        let mut released = theirs("released");
        released["data"]["old"] = "x".into();
        let released = At::of(&helm.create(released).await);
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "conflicts": {"fields": "Fail"}});
        world.deliver_with("released", &config_map("released", "two"), spec).await;
        let taken = alice.when(&released, "taken over", says("two")).await;
        assert_eq!(taken["data"], json!({"key": "two"}));
        world.ready("released").await;
        world.end().await;
    });
}
