//! A target's status names each object that is not well, and no more than has room.

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::{
    ObjectHealth::{Failed, InProgress, NotFound},
    TargetState, VidraTargetStatus,
};

use crate::{config_map, config_map_in, gadget, gadgets, object, scenario};

/// What a member's controller says of an object.
const WORDS: &str = "the controller's own words, 1 of 9";

/// Gadgets of the scenario's own kind, as healthy as alice says.
struct Crew {
    group: String,
    alice: Access,
}

impl Crew {
    async fn of(world: &World) -> Self {
        Self { group: format!("{}.example.com", world.ns), alice: world.alice("berlin").await }
    }

    fn manifest(&self) -> String {
        let all = ["a", "b", "c", "well"].map(|name| gadget(&self.group, name));
        object(&gadgets(&self.group)) + &all.concat()
    }

    async fn say(&self, world: &World, name: &str, condition: &str, status: &str, message: &str) {
        let at = At::new(&format!("{}/v1", self.group), "Gadget", &world.ns, name);
        let says = json!({"type": condition, "status": status, "reason": "Alice", "message": message});
        self.alice.merge(&at, json!({"status": {"conditions": [says]}})).await;
    }

    /// Definitions stay in members; scenarios leave nothing behind.
    async fn clear(&self) {
        self.alice.delete(&At::of(&gadgets(&self.group))).await;
    }
}

fn names(status: &VidraTargetStatus) -> Vec<&str> {
    status.unready.iter().map(|one| one.name.as_str()).collect()
}

#[test]
fn each_object_that_is_not_well_is_named_the_failed_one_first_until_all_are_well() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let crew = Crew::of(&world).await;
        world.deliver("shop", &["berlin"], &(crew.manifest() + &config_map("settings", "one"))).await;
        world.ready("shop").await;
        let at = world.target_at("shop", "berlin");
        assert!(world.hub.live(&at).await["status"].get("unready").is_none());

        crew.say(&world, "a", "Ready", "False", WORDS).await;
        crew.say(&world, "b", "Ready", "Unknown", WORDS).await;
        crew.say(&world, "c", "Stalled", "True", WORDS).await;
        let three = |status: &VidraTargetStatus| names(status) == ["c", "a", "b"];
        let target = world.target_when("shop", "berlin", "names three, the failed one first", three).await;
        let status = target.status.unwrap();
        let health: Vec<_> = status.unready.iter().map(|one| one.health).collect();
        assert_eq!(health, [Failed, InProgress, InProgress]);
        assert_eq!((status.state, status.unready_total), (Some(TargetState::Failed), None));
        for one in &status.unready {
            let found = (one.group.as_str(), one.kind.as_str(), one.namespace.as_str());
            assert_eq!(found, (crew.group.as_str(), "Gadget", world.ns.as_str()));
            let note = one.note.as_deref().unwrap_or_default();
            assert!(note.ends_with(": the controller's own words, # of #"), "{one:?}");
        }
        let message = status.message.unwrap();
        assert!(message.contains("/c is not ready"), "the message tells of the first: {message}");

        // What a controller says again, over and over, is no news.
        let before = world.hub.live(&at).await;
        crew.say(&world, "a", "Ready", "False", "the controller's own words, 2 of 9").await;
        world.look("shop", "look", 1).await;
        let version = |target: &Value| target["metadata"]["resourceVersion"].clone();
        assert_eq!(version(&world.hub.live(&at).await), version(&before), "nothing is new");

        for (name, condition) in [("a", "Ready"), ("b", "Ready")] {
            crew.say(&world, name, condition, "True", WORDS).await;
        }
        world.target_when("shop", "berlin", "names one", |status| names(status) == ["c"]).await;
        crew.say(&world, "c", "Stalled", "False", WORDS).await;
        world.ready("shop").await;
        assert!(world.hub.live(&at).await["status"].get("unready").is_none());
        world.end().await;
        crew.clear().await;
    });
}

#[test]
fn what_waits_for_an_object_that_is_not_well_comes_behind_it_and_all_are_counted() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let crew = Crew::of(&world).await;
        world.deliver("shop", &["berlin"], &crew.manifest()).await;
        world.ready("shop").await;
        for name in ["a", "b"] {
            crew.say(&world, name, "Ready", "False", WORDS).await;
        }
        world.target_when("shop", "berlin", "names two", |status| names(status) == ["a", "b"]).await;

        let behind = (0..12).map(|number| {
            let mut map = config_map_in("", &format!("behind-{number:02}"), "one");
            map["metadata"]["annotations"]["vidra.dev/wave"] = "1".into();
            object(&map)
        });
        let more = crew.manifest() + &behind.collect::<String>();
        world.deliver("shop", &["berlin"], &more).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((names(&status)[..3].to_vec(), status.unready.len()), (vec!["a", "b", "behind-00"], 10));
        assert!(status.unready[2..].iter().all(|one| one.health == NotFound && one.note.is_none()));
        assert_eq!(status.unready_total, Some(14));

        for name in ["a", "b"] {
            crew.say(&world, name, "Ready", "True", WORDS).await;
        }
        world.ready("shop").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((names(&status), status.unready_total), (vec![], None));

        // What is taken down is not waited for.
        crew.say(&world, "a", "Ready", "False", WORDS).await;
        world.target_when("shop", "berlin", "names one", |status| names(status) == ["a"]).await;
        let at = At::config_map(&world.ns, "behind-00");
        crew.alice.merge(&at, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.hub.delete(&world.resource_at("shop")).await;
        world.target_is("shop", "berlin", TargetState::Terminating, "Removing").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!(names(&status), [""; 0]);
        crew.alice.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        world.removed("shop").await;
        world.end().await;
        crew.clear().await;
    });
}
