//! Objects in a member that are large, and too large to be read. In memory only: etcd takes no such object.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::TargetState;

use super::{memory, scenario};
use crate::{config_map, gadget, gadgets, object, says, uid};

fn gadget_at(world: &World, name: &str) -> At {
    At::new(&format!("{}.example.com/v1", world.ns), "Gadget", &world.ns, name)
}

fn blob(mib: usize) -> Value {
    json!({"blob": "x".repeat(mib << 20)})
}

#[test]
fn an_object_that_is_too_large_is_named_and_holds_nothing_else_up() {
    scenario(async |mut world| {
        let berlin = memory(&world, "berlin");
        berlin.set_any_size(true);
        let (alice, group) = (world.alice("berlin").await, format!("{}.example.com", world.ns));
        let gadget = |name: &str| gadget(&group, name);
        world.register(&["berlin"]).await;
        let small = gadget("small") + &config_map("settings", "one");
        let manifest = object(&gadgets(&group)) + &gadget("huge") + &small;
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        let (huge, small) = (gadget_at(&world, "huge"), gadget_at(&world, "small"));
        let settings = At::config_map(&world.ns, "settings");
        let made = uid(&alice.live(&huge).await);
        let is = |size: i64| move |live: &Value| live["spec"]["size"] == size;

        // Of ten megabytes: it is read, and kept as declared.
        alice.merge(&huge, blob(10)).await;
        alice.merge(&huge, json!({"spec": {"size": 2}})).await;
        alice.when(&huge, "as declared", is(1)).await;
        world.corrected("shop", "berlin", 1).await;
        world.ready("shop").await;

        let mark = world.mark();
        alice.merge(&huge, blob(17)).await;
        for (turn, life) in ["this one", "a new one"].into_iter().enumerate() {
            if turn == 1 {
                world.restart_hub().await;
                world.look("shop", "again", 1).await;
            }
            let message = world.target_is("shop", "berlin", TargetState::Failed, "ObjectUnreadable").await;
            assert!(message.contains("huge") && message.contains("larger than 16 MiB"), "{life}: {message}");
            let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
            assert_eq!(status.unready, [], "{life}: who cannot see it does not say that it is not there");
            // The others of its kind, and other kinds.
            alice.merge(&small, json!({"spec": {"size": 2}})).await;
            alice.when(&small, "as declared", is(1)).await;
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            alice.when(&settings, "as declared", says("one")).await;
        }
        let deletes = world.writes("berlin", &mark).into_iter().filter(|one| one.verb == "delete");
        assert_eq!(deletes.collect::<Vec<_>>(), []);
        assert_eq!(uid(&alice.live(&huge).await), made);

        alice.merge(&huge, json!({"blob": null})).await;
        world.ready("shop").await;
        alice.merge(&huge, json!({"spec": {"size": 2}})).await;
        alice.when(&huge, "as declared", is(1)).await;
        world.remove("shop").await;
        let name = format!("gadgets.{group}");
        alice.delete(&At::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name)).await;
        world.end().await;
    });
}
