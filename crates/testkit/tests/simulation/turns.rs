//! What annotations of a manifest ask for: waves, objects that are applied once, objects that are made again.

use serde_json::{Value, json};
use testkit::sim::{
    Moment, Scenario, World,
    world::{config_map, document, hub_path, resource},
};

use crate::scenarios::{has, ready, shop};

/// Each is run with a crash at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Three waves, delivered at the first start.
    Waves,
    /// Contents and waves change at once.
    SwapWaves,
    /// A VidraResource with waves is deleted.
    EndWaves,
    /// An object that is applied once was deleted, and another one changes.
    Once,
    /// The same, and its content changes.
    OnceMore,
    /// An object that cannot be changed changes, and is made again.
    Recreate,
    /// An object that is made where there is none was edited, and its content changes.
    IfAbsent,
}

pub const ALL: [Turn; 7] = [
    Turn::Waves,
    Turn::SwapWaves,
    Turn::EndWaves,
    Turn::Once,
    Turn::OnceMore,
    Turn::Recreate,
    Turn::IfAbsent,
];

/// A ConfigMap with an annotation of ours.
fn asking(name: &str, value: &str, annotation: &str, says: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "annotations": {format!("vidra.dev/{annotation}"): says}},
        "data": {"key": value},
    })
}

fn text(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("{object}\n---\n")).collect()
}

fn waves(values: [&str; 3], waves: [&str; 3]) -> String {
    let each = ["a", "b", "c"].into_iter().zip(values.into_iter().zip(waves));
    let all: Vec<_> = each.map(|(name, (value, wave))| asking(name, value, "wave", wave)).collect();
    text(&all)
}

fn fixed(value: &str) -> String {
    let mut object = asking("a", value, "on-immutable", "Recreate");
    object["immutable"] = json!(true);
    text(&[object]) + &document("b", "one")
}

impl Turn {
    /// What is declared before the act, and after it.
    fn manifests(self) -> (String, String) {
        let once = |value: &str| text(&[asking("a", value, "apply", "Once")]);
        let absent = |value: &str| text(&[asking("a", value, "apply", "IfAbsent")]);
        let first = waves(["one"; 3], ["2", "0", "-1"]);
        match self {
            Turn::Waves | Turn::EndWaves => (first.clone(), first),
            Turn::SwapWaves => (first, waves(["two", "one", "two"], ["-1", "0", "7"])),
            Turn::Once => (once("one") + &document("b", "one"), once("one") + &document("b", "two")),
            Turn::OnceMore => (once("one") + &document("b", "one"), once("two") + &document("b", "one")),
            Turn::Recreate => (fixed("one"), fixed("two")),
            Turn::IfAbsent => (absent("one") + &document("b", "one"), absent("two") + &document("b", "two")),
        }
    }
}

impl Scenario for Turn {
    fn name(&self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn moment(&self) -> Moment {
        match self {
            Turn::Waves => Moment::WithAct,
            _ => Moment::BeforeAct,
        }
    }

    async fn prepare(&self, world: &World) {
        world.create("hub", &hub_path("vidraresources"), resource("shop", &self.manifests().0)).await;
    }

    async fn act(&self, world: &World) {
        match self {
            Turn::Waves => return,
            Turn::EndWaves => return world.delete("hub", &shop()).await,
            Turn::Once | Turn::OnceMore => world.delete("tokyo", &config_map("a")).await,
            Turn::IfAbsent => {
                world.patch("berlin", &config_map("a"), json!({"data": {"key": "mine"}})).await;
            }
            Turn::SwapWaves | Turn::Recreate => {}
        }
        world.patch("hub", &shop(), json!({"spec": {"manifest": self.manifests().1}})).await;
    }

    fn check(&self, world: &World) {
        if *self == Turn::EndWaves {
            assert_eq!(world.resource("shop"), None);
            for member in ["berlin", "tokyo"] {
                assert!(["a", "b", "c"].iter().all(|name| world.data(member, name).is_none()), "{member}");
            }
            return;
        }
        assert!(ready(world, "shop"), "{}", world.resource("shop").unwrap_or_default()["status"]);
        for member in ["berlin", "tokyo"] {
            match self {
                Turn::Waves => ["a", "b", "c"].iter().for_each(|name| has(world, member, name, "one")),
                Turn::SwapWaves => {
                    has(world, member, "a", "two");
                    has(world, member, "b", "one");
                    has(world, member, "c", "two");
                }
                Turn::Once => {
                    let there = (member == "berlin").then(|| json!({"key": "one"}));
                    assert_eq!(world.data(member, "a"), there, "{member}");
                    has(world, member, "b", "two");
                }
                Turn::OnceMore | Turn::Recreate => has(world, member, "a", "two"),
                Turn::IfAbsent => {
                    has(world, member, "a", if member == "berlin" { "mine" } else { "one" });
                    has(world, member, "b", "two");
                }
                Turn::EndWaves => {}
            }
        }
    }
}
