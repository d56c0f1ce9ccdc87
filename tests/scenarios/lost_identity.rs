//! A hub that is not the one that made what its cluster has: it does not start, unless a person says so.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::TargetState;
use vidra_hub::config::Inherit;

use crate::{config_map, inventoried, scenario};

const KINDS: [&str; 3] = ["VidraTarget", "VidraInventory", "MemberCluster"];

fn identity(world: &World) -> At {
    At::new("v1", "Secret", &world.settings.namespace, "vidra-hub-identity")
}

/// Berlin has what is declared, and the hub has stopped; its identity.
async fn delivered_and_stopped(world: &mut World) -> Value {
    world.register(&["berlin"]).await;
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
    inventoried(world, "shop", "berlin", 1).await;
    world.stop_hub().await;
    world.hub.live(&identity(world)).await
}

/// An object that the hub keeps, and whose it is.
struct Kept {
    name: String,
    at: At,
    hub: String,
}

/// What the hub keeps of a kind.
async fn kept(world: &World, kind: &str) -> Vec<Kept> {
    let namespace = if kind == "MemberCluster" { "" } else { &world.ns };
    let place = |name: &str| At::new("vidra.dev/v1alpha1", kind, namespace, name);
    let all = world.hub.list(&place("")).await.into_iter().map(|object| {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let hub = object["metadata"]["labels"]["vidra.dev/hub"].as_str().unwrap_or("nobody").to_owned();
        Kept { at: place(&name), name, hub }
    });
    all.collect()
}

async fn all_are_of(world: &World, hub: &str) {
    for kind in KINDS {
        let all = kept(world, kind).await;
        let of: Vec<_> = all.iter().map(|one| one.hub.as_str()).collect();
        assert!(!of.is_empty() && of.iter().all(|of| *of == hub), "{kind}: {of:?}");
    }
}

#[test]
fn a_hub_whose_identity_is_lost_does_not_start_until_it_is_restored_or_a_new_one_is_asked_for() {
    scenario(async |mut world| {
        let lost = delivered_and_stopped(&mut world).await;
        all_are_of(&world, &world.ns).await;
        world.hub.delete(&identity(&world)).await;
        let mark = world.mark();
        world.settings.hub_id = None;
        let refused = world.refuses_to_start().await;
        let id = format!("--new-identity --hub-id {}", world.ns);
        for words in ["IdentityMissing", "shop.berlin", "restore the Secret", &id] {
            assert!(refused.contains(words), "{refused}");
        }
        // Each kind alone stops it.
        for (kind, stays) in [("VidraTarget", "VidraInventory"), ("VidraInventory", "MemberCluster berlin")] {
            for Kept { at, .. } in kept(&world, kind).await {
                world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
                world.hub.delete(&at).await;
                world.hub.gone(&at).await;
            }
            let refused = world.refuses_to_start().await;
            assert!(refused.contains("IdentityMissing") && refused.contains(stays), "{refused}");
        }
        // To adopt what is there is not to make another identity.
        world.settings.inherit = Inherit::Adopt;
        assert!(world.refuses_to_start().await.contains("IdentityMissing"));
        world.settings.inherit = Inherit::Refuse;
        assert!(world.hub.get(&identity(&world)).await.is_none());
        assert_eq!(world.writes("berlin", &mark), []);

        let again = json!({"apiVersion": "v1", "kind": "Secret", "data": lost["data"],
            "metadata": {"name": "vidra-hub-identity", "namespace": world.settings.namespace}});
        world.hub.create(again).await;
        world.start_hub().await;
        world.ready("shop").await;
        assert_eq!(world.writes("berlin", &mark), []);

        world.stop_hub().await;
        world.hub.delete(&identity(&world)).await;
        world.settings.hub_id = Some(world.ns.clone());
        world.settings.inherit = Inherit::NewIdentity;
        world.start_hub().await;
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        world.ready("shop").await;
        // The word is not needed twice.
        world.settings.inherit = Inherit::Refuse;
        world.restart_hub().await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_hub_does_not_start_on_the_state_of_another_unless_it_is_to_adopt_it() {
    scenario(async |mut world| {
        delivered_and_stopped(&mut world).await;
        let (old, new) = (world.ns.clone(), format!("{}-new", world.ns));
        world.hub.delete(&identity(&world)).await;
        let another = json!({"apiVersion": "v1", "kind": "Secret",
            "stringData": {"hubId": new, "hashKey": "0123456789abcdef0123456789abcdef"},
            "metadata": {"name": "vidra-hub-identity", "namespace": world.settings.namespace}});
        world.hub.create(another).await;
        let mark = world.mark();
        let refused = world.refuses_to_start().await;
        for words in [
            "VidraTarget",
            "shop.berlin",
            &format!("the hub {old}"),
            &format!("the hub {new}"),
            "--adopt-hub-state",
        ] {
            assert!(refused.contains(words), "{refused}");
        }
        assert_eq!(world.writes("berlin", &mark), []);

        world.settings.inherit = Inherit::Adopt;
        world.start_hub().await;
        all_are_of(&world, &new).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "OwnedByOtherHub").await;
        assert!(message.contains(&format!("vidra.dev/take-over-from={old}")), "{message}");
        let over = json!({"metadata": {"annotations": {"vidra.dev/take-over-from": old}}});
        world.hub.merge(&world.member_at("berlin"), over).await;
        world.ready("shop").await;
        // From then on it is the hub that was here.
        world.settings.inherit = Inherit::Refuse;
        world.restart_hub().await;
        world.ready("shop").await;
        all_are_of(&world, &new).await;
        world.end().await;
    });
}

#[test]
fn what_bears_another_hubs_label_is_not_gone_when_its_resource_is_deleted() {
    scenario(async |mut world| {
        delivered_and_stopped(&mut world).await;
        world.hub.delete(&identity(&world)).await;
        (world.settings.hub_id, world.settings.inherit) = (None, Inherit::NewIdentity);
        world.start_hub().await;
        world.target_is("shop", "berlin", TargetState::Failed, "OwnedByOtherHub").await;
        world.hub.delete(&world.resource_at("shop")).await;
        let words = "vidra.dev/forget=berlin";
        world
            .target_when("shop", "berlin", "waiting for a person", |status| {
                status.reason.as_deref() == Some("OwnedByOtherHub")
                    && status.message.as_deref().is_some_and(|message| message.contains(words))
            })
            .await;
        world.restart_hub().await;
        world.look("shop", "1", 1).await;
        assert!(world.target("shop", "berlin").await.is_some(), "it is told, and not taken for gone");
        let forget = json!({"metadata": {"annotations": {"vidra.dev/forget": "berlin"}}});
        world.hub.merge(&world.resource_at("shop"), forget).await;
        world.removed("shop").await;
        world.alice("berlin").await.delete(&At::config_map(&world.ns, "settings")).await;
        world.end().await;
    });
}

#[test]
fn each_object_of_another_hub_keeps_this_one_from_starting_and_a_members_own_label_does_not() {
    scenario(async |mut world| {
        delivered_and_stopped(&mut world).await;
        let of = |hub: &str| json!({"metadata": {"labels": {"vidra.dev/hub": hub}}});
        for kind in KINDS {
            for Kept { at, hub, .. } in kept(&world, kind).await {
                world.hub.merge(&at, of("another")).await;
                let refused = world.refuses_to_start().await;
                assert!(refused.contains(kind) && refused.contains("the hub another"), "{refused}");
                world.hub.merge(&at, of(&hub)).await;
            }
        }
        // One that a person made says what that person likes; and what no hub has marked yet is this one's.
        let person = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "spec": {},
            "metadata": {"name": "austin", "labels": {"vidra.dev/hub": "another"}}});
        world.hub.create(person).await;
        for kind in ["VidraTarget", "MemberCluster"] {
            for Kept { name, at, .. } in kept(&world, kind).await {
                if name != "austin" {
                    world.hub.merge(&at, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
                }
            }
        }
        world.start_hub().await;
        world.ready("shop").await;
        for kind in ["VidraTarget", "MemberCluster"] {
            for Kept { name, at, .. } in kept(&world, kind).await {
                let whose = if name == "austin" { "another" } else { &world.ns };
                let is = |object: &Value| object["metadata"]["labels"]["vidra.dev/hub"] == whose;
                world.hub.when(&at, "it says whose it is", is).await;
            }
        }
        world.end().await;
    });
}

#[test]
fn what_comes_of_another_hub_while_this_one_runs_ends_it_and_stays_as_it_is() {
    scenario(async |mut world| {
        delivered_and_stopped(&mut world).await;
        for kind in ["VidraTarget", "VidraInventory"] {
            world.start_hub().await;
            world.ready("shop").await;
            let mark = world.mark();
            let Kept { at, name, hub } = kept(&world, kind).await.pop().unwrap();
            world.hub.merge(&at, json!({"metadata": {"labels": {"vidra.dev/hub": "another"}}})).await;
            let ended = world.ends_by_itself().await;
            for words in ["OfAnotherHub", kind, &name, "the hub another", "--adopt-hub-state"] {
                assert!(ended.contains(words), "{ended}");
            }
            let refused = world.refuses_to_start().await;
            assert!(refused.contains("the hub another"), "{refused}");
            let live = world.hub.live(&at).await;
            assert_eq!(live["metadata"]["labels"]["vidra.dev/hub"], "another", "it is not relabelled");
            assert_eq!(world.writes("berlin", &mark), []);
            world.hub.merge(&at, json!({"metadata": {"labels": {"vidra.dev/hub": hub}}})).await;
        }
        // A MemberCluster may be labelled by whoever may write it: that is told, and what to do.
        let member = world.member_at("berlin");
        world.hub.merge(&member, json!({"metadata": {"labels": {"vidra.dev/hub": "another"}}})).await;
        let refused = world.refuses_to_start().await;
        assert!(refused.contains("kubectl label membercluster berlin vidra.dev/hub-"), "{refused}");
        world.hub.merge(&member, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
        world.start_hub().await;
        world.ready("shop").await;
        world.end().await;
    });
}
