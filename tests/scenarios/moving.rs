//! Objects that move between two VidraResources while both are applied, one right after the other, as kubectl sends the
//! documents of a file: each stays the object that it is, a volume's claim above all, and nothing is ever deleted.

use serde_json::{Value, json};
use testkit::world::{Access, At, Mark, World};

use crate::{config_map, marks, object, says, scenario, uid};

/// A claim that bears this label.
fn claim(label: &str) -> String {
    object(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "labels": {"moved": label}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))
}

/// What moves: of three objects two change with that.
fn moving(value: &str) -> String {
    config_map("moved", "one") + &config_map("changed", value) + &claim(value)
}

fn at(world: &World) -> [At; 3] {
    let ns = &world.ns;
    let claim = At::new("v1", "PersistentVolumeClaim", ns, "data");
    [At::config_map(ns, "moved"), At::config_map(ns, "changed"), claim]
}

/// The first has all, the second one of its own; what there is then.
async fn before(world: &World) -> (Access, Vec<Value>) {
    world.register(&["berlin"]).await;
    let alice = world.alice("berlin").await;
    world.deliver("first", &["berlin"], &(config_map("first", "one") + &moving("one"))).await;
    world.deliver("second", &["berlin"], &config_map("second", "one")).await;
    let [.., claim] = at(world);
    alice.when(&claim, "there", |_| true).await;
    // On real servers nobody binds it.
    let bound = json!({"status": {"phase": "Bound"}});
    alice.merge_status(&claim, bound).await;
    world.ready("first").await;
    world.ready("second").await;
    let mut live = Vec::new();
    for at in at(world) {
        live.push(alice.live(&at).await);
    }
    (alice, live)
}

async fn declare(world: &World, name: &str) {
    let more = if name == "second" { moving("two") } else { String::new() };
    world.deliver(name, &["berlin"], &(config_map(name, "one") + &more)).await;
}

/// All is the second's alone, as it declares it, and is what it was; nothing was deleted since the mark.
async fn moved(world: &World, alice: &Access, before: &[Value], mark: &Mark) {
    world.ready("first").await;
    world.ready("second").await;
    let second = format!("vidra/{0}/{0}/second", world.ns);
    let is_seconds = |live: &Value| {
        let managers = marks(live).into_iter().filter(|mark| mark.starts_with("vidra/"));
        managers.collect::<Vec<_>>() == [second.clone()]
    };
    for live in before {
        let now = alice.when(&At::of(live), "it is the second's alone", is_seconds).await;
        assert_eq!(uid(&now), uid(live), "{} was deleted and made again", At::of(live));
    }
    let [_, changed, claim] = at(world);
    assert!(says("two")(&alice.live(&changed).await));
    assert_eq!(alice.live(&claim).await["metadata"]["labels"]["moved"], "two");
    let deletes = world.requests("berlin", mark).into_iter().filter(|one| one.verb.starts_with("delete"));
    assert_eq!(deletes.collect::<Vec<_>>(), []);
    // The claim's protection is lifted by a controller that not every bed has.
    alice.merge(&claim, json!({"metadata": {"finalizers": null}})).await;
}

#[test]
fn objects_that_are_dropped_and_then_declared_elsewhere_in_one_apply_stay_what_they_are() {
    scenario(async |world| {
        let (alice, live) = before(&world).await;
        let mark = world.mark();
        for name in ["first", "second"] {
            declare(&world, name).await;
        }
        moved(&world, &alice, &live, &mark).await;
        world.end().await;
    });
}

#[test]
fn objects_that_are_declared_elsewhere_and_then_dropped_in_one_apply_stay_what_they_are() {
    scenario(async |world| {
        let (alice, live) = before(&world).await;
        let mark = world.mark();
        for name in ["second", "first"] {
            declare(&world, name).await;
        }
        moved(&world, &alice, &live, &mark).await;
        world.end().await;
    });
}

#[test]
fn objects_that_move_and_change_while_the_hub_is_down_stay_what_they_are() {
    scenario(async |mut world| {
        let (alice, live) = before(&world).await;
        let mark = world.mark();
        world.stop_hub().await;
        for name in ["first", "second"] {
            declare(&world, name).await;
        }
        world.start_hub().await;
        moved(&world, &alice, &live, &mark).await;
        world.end().await;
    });
}
