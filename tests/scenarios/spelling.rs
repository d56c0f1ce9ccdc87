//! Several VidraResources, one object, and the same or nearly the same said in other words.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::TargetState;

use crate::{config_map, config_map_in, marks, object, says, scenario};

fn deployment(cpu: &str, env: &[&str]) -> Value {
    let env: Vec<Value> = env.iter().map(|name| json!({"name": name, "value": "1"})).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1", "env": env,
                    "resources": {"limits": {"cpu": cpu}}}]},
            },
        },
    })
}

fn web(world: &World) -> At {
    At::new("apps/v1", "Deployment", &world.ns, "web")
}

/// The VidraResources that apply it.
fn owners(live: &Value) -> Vec<String> {
    let mut owners: Vec<_> = marks(live)
        .into_iter()
        .filter(|mark| mark.starts_with("vidra/"))
        .filter_map(|mark| mark.rsplit('/').next().map(str::to_owned))
        .collect();
    owners.sort();
    owners
}

/// How often one that is refused may ask at most in [`is_quiet`]: its pauses double from a quarter of a second, in each
/// of two lives.
const ASKS: usize = 40;

/// Nothing is written to the Deployment, by hubs that remember and by one that does not; so many writes are refused at
/// most.
async fn is_quiet(world: &mut World, asks: usize) {
    let mark = world.mark();
    world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
    world.ready("marker").await;
    world.restart_hub().await;
    world.deliver("marker", &["berlin"], &config_map("marker", "two")).await;
    world.ready("marker").await;
    let writes = world.writes_to(&web(world), "berlin", &mark);
    assert!(writes.iter().all(|write| write.code >= 400) && writes.len() <= asks, "{writes:?}");
}

#[test]
fn a_quantity_in_two_spellings_is_shared_and_another_quantity_is_refused_by_path() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        for (name, cpu) in [("first", "1"), ("second", "1000m"), ("third", "1000m")] {
            world.deliver(name, &["berlin"], &object(&deployment(cpu, &["X"]))).await;
            world.ready(name).await;
        }
        let alice = world.alice("berlin").await;
        let live = alice.live(&web(&world)).await;
        assert_eq!(owners(&live), ["first", "second", "third"]);
        is_quiet(&mut world, 0).await;

        world.deliver("fourth", &["berlin"], &object(&deployment("2", &["X"]))).await;
        let message = world.target_is("fourth", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        assert!(message.contains("limits.cpu") && message.contains(&format!("{}/", world.ns)), "{message}");
        assert!(!owners(&alice.live(&web(&world)).await).contains(&"fourth".to_owned()));
        for name in ["first", "second", "third"] {
            world.ready(name).await;
            world.remove(name).await;
        }
        alice.when(&web(&world), "gone or the fourth's", |live| owners(live) == ["fourth"]).await;
        world.end().await;
    });
}

#[test]
fn a_list_in_another_order_is_refused_and_does_not_go_to_and_fro() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("first", &["berlin"], &object(&deployment("1", &["X", "Y"]))).await;
        world.ready("first").await;
        let alice = world.alice("berlin").await;
        let made = alice.live(&web(&world)).await;
        world.deliver("second", &["berlin"], &object(&deployment("1", &["Y", "X"]))).await;
        let message = world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        assert!(message.contains("/first") && message.contains("env"), "{message}");
        assert_eq!(alice.live(&web(&world)).await, made);
        is_quiet(&mut world, ASKS).await;

        // In the same order it is shared; an order that is changed later is refused as well.
        world.deliver("second", &["berlin"], &object(&deployment("1", &["X", "Y"]))).await;
        world.ready("second").await;
        world.deliver("second", &["berlin"], &object(&deployment("1", &["Y", "X"]))).await;
        world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        let names: Vec<_> =
            alice.live(&web(&world)).await["spec"]["template"]["spec"]["containers"][0]["env"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["name"].clone())
                .collect();
        assert_eq!(names, ["X", "Y"]);
        world.ready("first").await;
        world.end().await;
    });
}

#[test]
fn who_leaves_a_shared_object_takes_what_it_alone_declared_and_no_more() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        let mut more = config_map_in("", "settings", "one");
        more["data"]["extra"] = "second's".into();
        world.deliver("first", &["berlin"], &config_map("settings", "one")).await;
        world.ready("first").await;
        world.deliver("second", &["berlin"], &object(&more)).await;
        world.ready("second").await;
        assert_eq!(alice.live(&settings).await["data"], json!({"key": "one", "extra": "second's"}));
        world.remove("second").await;
        let left = alice.live(&settings).await;
        assert_eq!((&left["data"], owners(&left)), (&json!({"key": "one"}), vec!["first".to_owned()]));

        // What only the first holds, and the Deployment cannot be without, stays when the first goes.
        world.deliver("maker", &["berlin"], &object(&deployment("1", &["X"]))).await;
        world.ready("maker").await;
        let label = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"team": "a"}}});
        world.deliver("labeller", &["berlin"], &object(&label)).await;
        world.ready("labeller").await;
        world.remove("maker").await;
        let left = alice.live(&web(&world)).await;
        assert_eq!(
            (owners(&left), &left["metadata"]["labels"]["team"]),
            (vec!["labeller".to_owned()], &json!("a"))
        );
        world.remove("labeller").await;
        alice.gone(&web(&world)).await;
        assert!(says("one")(&alice.live(&settings).await));
        world.end().await;
    });
}
