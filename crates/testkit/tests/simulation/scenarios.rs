//! What people do, and what must come of it.

use std::time::Duration;

use serde_json::json;
use testkit::sim::{
    Moment, Scenario, World,
    world::{TARGET_NAMESPACE, config_map, config_maps, document, hub_path, member_path, resource},
};
use vidra_api::labels::APPROVE_REMOVAL;

/// Each is run with a crash at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The hub's very first start, with everything to deliver.
    Deliver,
    /// One document says something else.
    Change,
    /// One document is dropped, and its objects go.
    Drop,
    /// Somebody edits an object in a member.
    Tamper,
    /// Somebody takes the hub's label off an object.
    Unlabel,
    /// Somebody deletes an object in a member.
    DeleteObject,
    /// Somebody deletes an object and makes another of its name.
    ReplaceObject,
    /// One of two clusters is not selected any more.
    DeselectOne,
    /// No cluster is selected any more, which a person has to approve.
    DeselectAll,
    /// The VidraResource is deleted.
    DeleteResource,
    /// The VidraResource is deleted, and its objects are to stay.
    Orphan,
    /// A name that the manifest wants is taken in one member.
    Taken,
    /// Objects go to another namespace.
    Move,
    /// Of two VidraResources with an object in common, one is deleted.
    LeaveShared,
    /// Somebody deletes a VidraTarget.
    DeleteTarget,
    /// Somebody deletes a VidraInventory.
    DeleteInventory,
    /// A MemberCluster is deleted: it leaves, and keeps the objects.
    LeaveFleet,
    /// A namespace and what is in it, in one manifest.
    WithNamespace,
}

pub const ALL: [Act; 18] = [
    Act::Deliver,
    Act::Change,
    Act::Drop,
    Act::Tamper,
    Act::Unlabel,
    Act::DeleteObject,
    Act::ReplaceObject,
    Act::DeselectOne,
    Act::DeselectAll,
    Act::DeleteResource,
    Act::Orphan,
    Act::Taken,
    Act::Move,
    Act::LeaveShared,
    Act::DeleteTarget,
    Act::DeleteInventory,
    Act::LeaveFleet,
    Act::WithNamespace,
];

const SOON: Duration = Duration::from_secs(90);

/// Two ConfigMaps.
pub fn manifest(a: &str, b: &str) -> String {
    document("a", a) + &document("b", b)
}

/// The path of the VidraResource.
pub fn shop() -> String {
    format!("{}/shop", hub_path("vidraresources"))
}

/// Ready, everywhere, as it is declared now.
pub fn ready(world: &World, name: &str) -> bool {
    world.has_condition(name, "Ready", "True", "") && world.has_condition(name, "Stalled", "False", "")
}

/// The member has it, so.
pub fn has(world: &World, member: &str, name: &str, value: &str) {
    assert_eq!(world.data(member, name), Some(json!({"key": value})), "{name} on {member}");
}

fn gone(world: &World, member: &str, name: &str) {
    assert_eq!(world.data(member, name), None, "{name} on {member}");
}

/// Not a mark of the hub on it.
pub fn released(world: &World, member: &str, name: &str) {
    let object = world.object(member, "", "configmaps", TARGET_NAMESPACE, name).expect("it stays");
    let text = object.to_string();
    assert!(!text.contains("vidra"), "{text}");
}

impl Scenario for Act {
    fn name(&self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn moment(&self) -> Moment {
        match self {
            Act::Deliver | Act::Taken | Act::WithNamespace => Moment::WithAct,
            _ => Moment::BeforeAct,
        }
    }

    async fn prepare(&self, world: &World) {
        let mut shop = resource("shop", &manifest("one", "one"));
        match self {
            Act::Orphan => shop["spec"]["deletionPolicy"] = json!("Orphan"),
            Act::Taken => {
                world.plant("berlin", TARGET_NAMESPACE, "b", json!({"app": "theirs"})).await;
            }
            Act::LeaveShared => {
                world
                    .create("hub", &hub_path("vidraresources"), resource("bank", &document("a", "one")))
                    .await;
            }
            Act::WithNamespace => {
                let own = "apiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n---\napiVersion: v1\nkind: ConfigMap\n\
                           metadata: {name: in, namespace: own}\ndata: {key: one}\n---\n";
                shop = resource("shop", &(own.to_owned() + &manifest("one", "one")));
            }
            _ => {}
        }
        world.create("hub", &hub_path("vidraresources"), shop).await;
    }

    async fn act(&self, world: &World) {
        match self {
            Act::Deliver | Act::Taken | Act::WithNamespace => {}
            Act::Change => {
                world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("two", "one")}})).await;
            }
            Act::Drop => {
                world.patch("hub", &shop(), json!({"spec": {"manifest": document("a", "one")}})).await;
            }
            Act::Tamper => {
                world
                    .patch("berlin", &config_map("a"), json!({"data": {"key": "mine", "more": "mine"}}))
                    .await;
            }
            Act::Unlabel => {
                let labels = json!({"metadata": {"labels": {"vidra.dev/hub": null}}});
                world.patch("berlin", &config_map("a"), labels).await;
            }
            Act::DeleteObject => world.delete("tokyo", &config_map("a")).await,
            Act::ReplaceObject => {
                // While the hub is down: else it would be faster.
                world.end_hub().await;
                world.delete("tokyo", &config_map("a")).await;
                world.plant("tokyo", TARGET_NAMESPACE, "a", json!({})).await;
                world.start_hub();
            }
            Act::DeselectOne => {
                world.patch("hub", &shop(), json!({"spec": {"excludeClusters": ["tokyo"]}})).await;
            }
            Act::DeselectAll => deselect_all(world).await,
            Act::DeleteResource | Act::Orphan => world.delete("hub", &shop()).await,
            Act::Move => {
                let targets = json!([{"clusterSelector": {}, "namespace": "elsewhere"}]);
                world.patch("hub", &shop(), json!({"spec": {"targets": targets}})).await;
            }
            Act::LeaveShared => world.delete("hub", &format!("{}/bank", hub_path("vidraresources"))).await,
            Act::DeleteTarget => {
                world.delete("hub", &format!("{}/shop.tokyo", hub_path("vidratargets"))).await
            }
            Act::DeleteInventory => {
                world.delete("hub", &format!("{}/shop.tokyo.0", hub_path("vidrainventories"))).await;
            }
            Act::LeaveFleet => world.delete("hub", &member_path("tokyo")).await,
        }
    }

    fn check(&self, world: &World) {
        match self {
            Act::DeselectAll => {
                for member in ["berlin", "tokyo"] {
                    gone(world, member, "a");
                    gone(world, member, "b");
                    assert_eq!(world.target("shop", member), None);
                }
            }
            Act::DeleteResource => {
                assert_eq!(world.resource("shop"), None);
                for plural in ["vidratargets", "vidrainventories"] {
                    let left = world.clusters.hub.objects(vidra_api::GROUP, plural);
                    assert!(left.is_empty(), "{left:?}");
                }
                for member in ["berlin", "tokyo"] {
                    gone(world, member, "a");
                    gone(world, member, "b");
                }
            }
            Act::Orphan => {
                assert_eq!(world.resource("shop"), None);
                for member in ["berlin", "tokyo"] {
                    released(world, member, "a");
                    released(world, member, "b");
                }
            }
            Act::Taken => {
                assert!(world.has_condition("shop", "Stalled", "True", "TargetsFailed"));
                assert_eq!(world.target("shop", "berlin").unwrap()["status"]["reason"], "AlreadyExists");
                has(world, "berlin", "a", "one");
                has(world, "tokyo", "b", "one");
            }
            Act::ReplaceObject => {
                assert!(world.has_condition("shop", "Stalled", "True", "TargetsFailed"));
                has(world, "berlin", "a", "one");
                has(world, "tokyo", "b", "one");
            }
            _ => self.check_ready(world),
        }
    }
}

impl Act {
    fn check_ready(self, world: &World) {
        assert!(ready(world, "shop"), "{}", world.resource("shop").unwrap_or_default()["status"]);
        for member in ["berlin", "tokyo"] {
            match self {
                Act::DeselectOne if member == "tokyo" => {
                    gone(world, member, "a");
                    gone(world, member, "b");
                    assert_eq!(world.target("shop", member), None);
                }
                Act::LeaveFleet if member == "tokyo" => {
                    released(world, member, "a");
                    released(world, member, "b");
                    assert_eq!(world.object("hub", vidra_api::GROUP, "memberclusters", "", "tokyo"), None);
                }
                Act::Move => {
                    gone(world, member, "a");
                    assert!(world.object(member, "", "configmaps", "elsewhere", "a").is_some());
                }
                Act::Drop => {
                    has(world, member, "a", "one");
                    gone(world, member, "b");
                }
                Act::Change => {
                    has(world, member, "a", "two");
                    has(world, member, "b", "one");
                }
                Act::Tamper if member == "berlin" => {
                    // What the hub does not declare is not its own.
                    assert_eq!(world.data(member, "a"), Some(json!({"key": "one", "more": "mine"})));
                }
                Act::WithNamespace => {
                    has(world, member, "a", "one");
                    assert!(world.object(member, "", "configmaps", "own", "in").is_some());
                }
                _ => {
                    has(world, member, "a", "one");
                    has(world, member, "b", "one");
                }
            }
        }
    }
}

async fn deselect_all(world: &World) {
    world.patch("hub", &shop(), json!({"spec": {"targets": []}})).await;
    let held = || world.has_condition("shop", "Stalled", "True", "RemovalHeld");
    world.until("the removal is held", SOON, held).await;
    let status = world.resource("shop").expect("the resource")["status"].to_string();
    let (_, rest) = status.split_once(&format!("{APPROVE_REMOVAL}=")).expect("the hash is told");
    let hash: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    assert!(world.data("berlin", "a").is_some(), "nothing goes before the approval");
    world.patch("hub", &shop(), json!({"metadata": {"annotations": {APPROVE_REMOVAL: hash}}})).await;
    let gone = || world.target("shop", "berlin").is_none() && world.target("shop", "tokyo").is_none();
    world.until("the targets go", SOON, gone).await;
}

/// Where objects are made that nobody declared.
pub fn theirs() -> String {
    config_maps(TARGET_NAMESPACE)
}
