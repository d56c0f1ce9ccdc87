//! Several VidraResources that apply one object, of one team or two, in the shortest ways to what only they show: who holds a
//! field, what a member allows, to whom an object is handed over, and whose an entry is. Each way is tried on the hub as it is,
//! and on one that makes the mistake which it is to show.

use std::time::Duration;

use serde_json::json;
use testkit::sim::{
    World,
    observer::HUB_ID,
    run,
    world::{
        OTHER_TEAM, Shape, TARGET_NAMESPACE, TEAM, config_map, document, hub_path_in, member_path,
        path_named, place_of, resource,
    },
};
use tokio::time::sleep;
use vidra_core::mutants::{self, Mutant};

use crate::scenarios::{manifest, ready};

const SOON: Duration = Duration::from_secs(30);
/// What is refused is tried again within this.
const RETRIES_WITHIN: Duration = Duration::from_secs(330);
/// The shop of the other team.
const OTHER: &str = "team-b/shop";

/// Each for one of these mistakes.
const SHOWN: [Mutant; 5] = [
    Mutant::AgeAcrossNamespaces,
    Mutant::RevokedGoes,
    Mutant::RevokedAwaited,
    Mutant::NothingHandedOver,
    Mutant::AnyOwner,
];

async fn make(world: &World, name: &str, manifest: &str) {
    let collection = hub_path_in(place_of(name).0, "vidraresources");
    world.create("hub", &collection, resource(name, manifest)).await;
}

async fn declare(world: &World, name: &str, manifest: &str) {
    let path = path_named("vidraresources", name);
    world.patch("hub", &path, json!({"spec": {"manifest": manifest}})).await;
}

/// Both shops have what is in the first two places, and what the second team has of its own.
async fn shared(world: &World) {
    world.create("hub", "/api/v1/namespaces", json!({"metadata": {"name": OTHER_TEAM}})).await;
    make(world, "shop", &manifest("one", "one")).await;
    make(world, OTHER, &(document("b", "one") + &document("m", "one"))).await;
    world.start_hub();
    world.until("both are delivered", SOON, || ready(world, "shop") && ready(world, OTHER)).await;
    world.settle().await;
}

async fn revoke(world: &World) {
    let closed = json!({"spec": {"allowedNamespaces": [TEAM], "onRevoke": "Keep"}});
    world.patch("hub", &member_path("tokyo"), closed).await;
    world.settle().await;
}

/// What is wrong after the way that leads to this mistake.
fn tried(mistake: Mutant) -> Vec<String> {
    run(41, || async move {
        let world = World::new(Shape::new(41)).await;
        match mistake {
            // The first team's is the older one, by its name.
            Mutant::AgeAcrossNamespaces => {
                shared(&world).await;
                declare(&world, "shop", &manifest("one", "two")).await;
            }
            Mutant::RevokedGoes => {
                shared(&world).await;
                revoke(&world).await;
            }
            Mutant::RevokedAwaited => {
                shared(&world).await;
                revoke(&world).await;
                world.crash_hub().await;
                world.start_hub();
                world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
            }
            Mutant::NothingHandedOver => {
                make(&world, "shop", &manifest("one", "one")).await;
                world.start_hub();
                world.until("it is delivered", SOON, || ready(&world, "shop")).await;
                make(&world, "bank", &document("b", "two")).await;
                let reason = || world.reason("bank", "tokyo");
                world.until("the bank is refused", SOON, || reason() == "SharedObjectConflict").await;
                world.settle().await;
                declare(&world, "shop", &document("a", "one")).await;
            }
            _ => {
                make(&world, "shop", &manifest("one", "one")).await;
                world.start_hub();
                world.until("it is delivered", SOON, || ready(&world, "shop")).await;
                let forged = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "b", "namespace": TARGET_NAMESPACE}, "data": {"forged": "so"}});
                let nobody = format!("vidra/{HUB_ID}/nobody/b");
                world.try_apply_as(&nobody, "tokyo", &config_map("b"), forged).await;
                world.settle().await;
                declare(&world, "shop", &document("a", "one")).await;
            }
        }
        world.settle().await;
        let mut wrong = world.observer.breaches();
        wrong.extend(world.observer.untold());
        world.end_hub().await;
        wrong
    })
}

#[test]
fn what_only_several_owners_show_is_noticed_and_the_hub_passes_it() {
    for mistake in SHOWN {
        assert_eq!(tried(mistake), [""; 0], "the hub as it is, on the way to {mistake:?}");
        mutants::choose(Some(mistake));
        let wrong = tried(mistake);
        mutants::choose(None);
        assert!(!wrong.is_empty(), "no rule of the simulation notices {mistake:?}");
    }
}

/// The judge went by what is declared, and by what targets are to bring: of a removal that is held neither says what is there.
#[test]
fn what_stays_while_its_removal_is_held_is_refused_to_another_team_for_as_long() {
    run(42, || async {
        let world = World::new(Shape::new(42)).await;
        world.create("hub", "/api/v1/namespaces", json!({"metadata": {"name": OTHER_TEAM}})).await;
        let all = ["a", "b", "c", "d", "e"].map(|name| document(name, "one")).concat();
        make(&world, "shop", &all).await;
        world.start_hub();
        world.until("it is delivered", SOON, || ready(&world, "shop")).await;
        world.settle().await;
        let says = |name: &str, reason: &str| {
            let targets = ["berlin", "tokyo"].map(|member| world.target(name, member).unwrap_or_default());
            targets.iter().all(|target| target["status"]["reason"] == reason)
        };
        declare(&world, "shop", &document("a", "one")).await;
        world.until("its removal is held", SOON, || says("shop", "RemovalHeld")).await;
        make(&world, OTHER, &document("b", "two")).await;
        world.until("the other is refused", SOON, || says(OTHER, "SharedObjectConflict")).await;
        sleep(RETRIES_WITHIN).await;
        assert!(says(OTHER, "SharedObjectConflict"), "as long as the removal is held");
        assert_eq!(world.observer.untold(), [""; 0], "while it is held");
        // What a person deletes is not held, and nobody tells the other one.
        world.delete("hub", &path_named("vidraresources", "shop")).await;
        world.until("it has gone", SOON, || world.resource("shop").is_none()).await;
        sleep(SOON / 3).await;
        assert_eq!(world.observer.untold(), [""; 0], "before the next try");
        world.until("the other has the name", RETRIES_WITHIN, || ready(&world, OTHER)).await;
        world.settle().await;
        assert_eq!(world.data("tokyo", "b"), Some(json!({"key": "two"})));
        assert_eq!(world.observer.untold(), [""; 0], "in the end");
        assert_eq!(world.observer.breaches(), [""; 0]);
        world.end_hub().await;
    });
}
