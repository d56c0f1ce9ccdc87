//! Two hubs on one member: who is first has a name, the other one tells so, and neither touches what is the other's.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::sim::{
    World, run,
    world::{
        OTHER_HUB, Shape, TARGET_NAMESPACE, config_map, document, document_in, hub_path, path_named, resource,
    },
};
use vidra_api::labels::RECONCILE_REQUESTED_AT;

use crate::scenarios::{has, manifest, ready, shop};

const SOON: Duration = Duration::from_secs(90);
/// Where the other hub's own objects go.
const ANNEX: &str = "annex";

fn theirs(common: &str) -> Value {
    let manifest = document("a", "one") + &document_in(TARGET_NAMESPACE, common, "theirs");
    let mut made = resource("shop", &manifest);
    made["spec"]["targets"] = json!([{"clusterSelector": {}, "namespace": ANNEX}]);
    made
}

/// A world in which the other hub has delivered under this name, in one member, where the shop's objects go.
async fn with_another(common: &str) -> World {
    let mut world = World::new(Shape::new(43)).await;
    world.found_other_hub("berlin").await;
    world.create(OTHER_HUB, &hub_path("vidraresources"), theirs(common)).await;
    world.start_other_hub();
    let is_there = || world.data("berlin", common).is_some();
    world.until("the other hub has delivered", SOON, is_there).await;
    world
}

async fn ended(world: World) {
    world.end_hub().await;
    world.end_other_hub().await;
}

#[test]
fn a_name_of_another_hub_is_refused_and_told_and_free_when_that_one_drops_it() {
    run(43, || async {
        let world = with_another("a").await;
        let made = resource("shop", &manifest("one", "one"));
        world.create("hub", &hub_path("vidraresources"), made.clone()).await;
        world.start_hub();
        let reason = || world.reason("shop", "berlin");
        world.until("it is refused", SOON, || reason() == "OwnedByOtherHub").await;
        world.settle().await;
        assert_eq!(world.observer.untold(), [""; 0]);
        has(&world, "berlin", "a", "theirs");
        has(&world, "berlin", "b", "one");
        has(&world, "tokyo", "a", "one");
        world.delete("hub", &shop()).await;
        world.until("the shop has gone", SOON, || world.resource("shop").is_none()).await;
        has(&world, "berlin", "a", "theirs");
        world.create("hub", &hub_path("vidraresources"), made).await;
        world.until("it is refused again", SOON, || reason() == "OwnedByOtherHub").await;
        let less = json!({"spec": {"manifest": document("a", "one")}});
        world.patch(OTHER_HUB, &path_named("vidraresources", "shop"), less).await;
        let has_left = || world.data("berlin", "a") != Some(json!({"key": "theirs"}));
        world.until("the other hub has left", SOON, has_left).await;
        let word = json!({"metadata": {"annotations": {RECONCILE_REQUESTED_AT: "now"}}});
        world.patch("hub", &shop(), word).await;
        world.until("it is delivered", SOON, || ready(&world, "shop")).await;
        has(&world, "berlin", "a", "one");
        assert_eq!(world.observer.breaches(), [""; 0]);
        ended(world).await;
    });
}

/// Somebody acts in a hub's name, which the judge takes for that hub.
#[test]
fn whichever_hub_touches_what_is_the_others_is_noticed() {
    for (user, name) in [("vidra-hub-9", "c"), ("other-hub-9", "b")] {
        run(43, || async {
            let world = with_another("c").await;
            world.create("hub", &hub_path("vidraresources"), resource("shop", &manifest("one", "one"))).await;
            world.start_hub();
            world.until("both have delivered", SOON, || ready(&world, "shop")).await;
            world.settle().await;
            assert_eq!(world.observer.breaches(), [""; 0]);
            let client = world.cluster("berlin").client_as(user);
            let request = http::Request::patch(config_map(name));
            let request = request.header("content-type", "application/merge-patch+json");
            let body = json!({"data": {"key": "mine"}}).to_string().into_bytes();
            client.request::<Value>(request.body(body).expect("a request")).await.expect("it is written");
            let breaches = world.observer.breaches();
            let told = breaches.iter().any(|one| one.contains("belongs to the hub"));
            assert!(told, "{user} has written {name}: {breaches:?}");
            ended(world).await;
        });
    }
}
