//! What people do that a hub would rather they did not, and what they put right.

use std::time::Duration;

use serde_json::json;
use testkit::sim::{
    Moment, Scenario, World,
    world::{
        HUB_NAMESPACE, TARGET_NAMESPACE, TEAM, config_map, config_maps, document, hub_path, member_path,
        registration, resource, secrets,
    },
};

use crate::scenarios::{has, manifest, ready, released, shop};

/// Each is run with a crash at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// A VidraInventory is deleted, and its finalizer taken off by hand.
    LoseInventory,
    /// A backup tool resets an object's managedFields.
    ResetFields,
    /// A MemberCluster is deleted that takes its objects with it.
    LeaveAndDelete,
    /// Somebody deletes the namespace in a member.
    DeleteNamespace,
    /// A finalizer in the member keeps an object that is to go.
    HoldObject,
    /// A second VidraResource declares an object otherwise.
    Disagree,
    /// A cluster is deselected and selected again.
    Reselect,
    /// Another's object has taken the name of one that is to be removed.
    Usurp,
    /// The Secrets of all revisions are deleted while the hub is down.
    LoseRevisions,
    /// A name that was taken is freed.
    Free,
    /// A registration Secret gets new credentials.
    Rotate,
    /// A registration Secret is lost, and put back.
    LoseRegistration,
    /// A manifest that cannot be read, then one that can.
    Garble,
    /// Suspended, tampered with, resumed.
    Suspend,
    /// A CRD and an object of its kind, in one manifest.
    WithCrd,
    /// A kind that the members come to know later.
    UnknownKind,
    /// The ConfigMap that holds the manifest changes.
    ChangeSource,
    /// It is deleted, and made again with another content.
    LoseSource,
}

pub const ALL: [Harm; 18] = [
    Harm::LoseInventory,
    Harm::ResetFields,
    Harm::LeaveAndDelete,
    Harm::DeleteNamespace,
    Harm::HoldObject,
    Harm::Disagree,
    Harm::Reselect,
    Harm::Usurp,
    Harm::LoseRevisions,
    Harm::Free,
    Harm::Rotate,
    Harm::LoseRegistration,
    Harm::Garble,
    Harm::Suspend,
    Harm::WithCrd,
    Harm::UnknownKind,
    Harm::ChangeSource,
    Harm::LoseSource,
];

const SOON: Duration = Duration::from_secs(90);
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOOK: &str = "apiVersion: test.io/v1\nkind: Book\nmetadata: {name: one}\nspec: {pages: 1}\n---\n";

fn crd() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "books.test.io"},
        "spec": {"group": "test.io", "scope": "Namespaced", "names": {"kind": "Book", "plural": "books"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"pages": {"type": "integer"}}}}}}}]},
    })
}

/// The ConfigMap on the hub that holds a manifest.
fn source(text: &str) -> serde_json::Value {
    json!({"metadata": {"name": "texts"}, "data": {"a.yaml": text}})
}

fn source_path() -> String {
    format!("{}/texts", config_maps(TEAM))
}

fn state(world: &World, member: &str) -> serde_json::Value {
    world.target("shop", member).unwrap_or_default()["status"]["state"].clone()
}

fn has_book(world: &World) -> bool {
    ["berlin", "tokyo"]
        .iter()
        .all(|member| world.object(member, "test.io", "books", TARGET_NAMESPACE, "one").is_some())
}

impl Scenario for Harm {
    fn name(&self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn moment(&self) -> Moment {
        match self {
            Harm::WithCrd => Moment::WithAct,
            _ => Moment::BeforeAct,
        }
    }

    async fn prepare(&self, world: &World) {
        let text = match self {
            Harm::WithCrd => format!("{}\n---\n{BOOK}{}", crd(), manifest("one", "one")),
            Harm::UnknownKind => BOOK.to_owned() + &manifest("one", "one"),
            _ => manifest("one", "one"),
        };
        if *self == Harm::Free {
            world.create("berlin", &crate::scenarios::theirs(), json!({"metadata": {"name": "b"}})).await;
        }
        let mut shop = resource("shop", &text);
        if matches!(self, Harm::ChangeSource | Harm::LoseSource) {
            world.create("hub", &config_maps(TEAM), source(&text)).await;
            shop["spec"]["manifest"] = document("c", "one").into();
            shop["spec"]["manifestsFrom"] = json!([{"configMapRef": {"name": "texts"}}]);
        }
        world.create("hub", &hub_path("vidraresources"), shop).await;
    }

    async fn act(&self, world: &World) {
        match self {
            Harm::WithCrd => {}
            Harm::LoseInventory => {
                world.observer.excuse_unknown("tokyo");
                let path = format!("{}/shop.tokyo.0", hub_path("vidrainventories"));
                world.patch("hub", &path, json!({"metadata": {"finalizers": null}})).await;
                world.delete("hub", &path).await;
            }
            Harm::ResetFields => {
                world.patch("tokyo", &config_map("a"), json!({"metadata": {"managedFields": [{}]}})).await;
            }
            Harm::LeaveAndDelete => {
                world.patch("hub", &member_path("tokyo"), json!({"spec": {"onLeave": "Delete"}})).await;
                world.delete("hub", &member_path("tokyo")).await;
            }
            Harm::DeleteNamespace => {
                world.delete("tokyo", &format!("/api/v1/namespaces/{TARGET_NAMESPACE}")).await;
            }
            Harm::HoldObject => {
                world
                    .patch("tokyo", &config_map("a"), json!({"metadata": {"finalizers": ["test.io/held"]}}))
                    .await;
                world.delete("hub", &shop()).await;
                let told = || state(world, "tokyo") == "Terminating";
                world.until("the removal waits", SOON, told).await;
                world.patch("tokyo", &config_map("a"), json!({"metadata": {"finalizers": null}})).await;
            }
            Harm::Disagree => {
                let bank = resource("bank", &document("a", "two"));
                world.create("hub", &hub_path("vidraresources"), bank).await;
            }
            Harm::Reselect => {
                world.patch("hub", &shop(), json!({"spec": {"excludeClusters": ["tokyo"]}})).await;
                let leaves = || {
                    world.target("shop", "tokyo").is_none_or(|target| target["spec"]["desired"] == "Absent")
                };
                world.until("it is turned", SOON, leaves).await;
                world.patch("hub", &shop(), json!({"spec": {"excludeClusters": null}})).await;
            }
            Harm::Usurp => {
                world.end_hub().await;
                world.delete("tokyo", &config_map("a")).await;
                world.plant("tokyo", TARGET_NAMESPACE, "a", json!({"app": "theirs"})).await;
                world.delete("berlin", &config_map("b")).await;
                // It even bears our labels, as things do that were copied.
                let copied = world.object("berlin", "", "configmaps", TARGET_NAMESPACE, "copied");
                let labels = copied.unwrap_or_default()["metadata"]["labels"].clone();
                world.plant("berlin", TARGET_NAMESPACE, "b", labels).await;
                world.delete("hub", &shop()).await;
                world.start_hub();
            }
            Harm::LoseRevisions => {
                world.end_hub().await;
                for secret in world.clusters.hub.objects("", "secrets") {
                    if secret["type"] == "vidra.dev/revision" {
                        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
                        world.delete("hub", &format!("{}/{name}", secrets(TEAM))).await;
                    }
                }
                world.start_hub();
            }
            Harm::Free => world.delete("berlin", &config_map("b")).await,
            Harm::Rotate => {
                let data = registration("tokyo", "another-name")["data"].clone();
                world.patch("hub", &format!("{}/tokyo", secrets(HUB_NAMESPACE)), json!({"data": data})).await;
            }
            Harm::LoseRegistration => {
                world.delete("hub", &format!("{}/tokyo", secrets(HUB_NAMESPACE))).await;
                world.until("its target is unknown", SOON, || state(world, "tokyo") == "Unknown").await;
                world.create("hub", &secrets(HUB_NAMESPACE), registration("tokyo", "it")).await;
            }
            Harm::Garble => {
                world.patch("hub", &shop(), json!({"spec": {"manifest": "a: [b"}})).await;
                let told = || world.has_condition("shop", "Stalled", "True", "ManifestInvalid");
                world.until("it is refused", SOON, told).await;
                world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("two", "one")}})).await;
            }
            Harm::ChangeSource => {
                world.patch("hub", &source_path(), source(&manifest("two", "one"))).await;
            }
            Harm::LoseSource => {
                world.delete("hub", &source_path()).await;
                let told = || world.has_condition("shop", "Stalled", "True", "SourceNotFound");
                world.until("it is missed", SOON, told).await;
                world.create("hub", &config_maps(TEAM), source(&manifest("two", "one"))).await;
            }
            Harm::Suspend => {
                world.patch("hub", &shop(), json!({"spec": {"suspend": true}})).await;
                world.until("it is suspended", SOON, || state(world, "tokyo") == "Suspended").await;
                world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
                world.delete("tokyo", &config_map("b")).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert_eq!(world.data("tokyo", "a"), Some(json!({"key": "mine"})), "it is left alone");
                world.patch("hub", &shop(), json!({"spec": {"suspend": false}})).await;
            }
            Harm::UnknownKind => {
                world.create("berlin", CRDS, crd()).await;
                world.create("tokyo", CRDS, crd()).await;
                world.until("it is delivered", SOON, || has_book(world)).await;
            }
        }
        if *self == Harm::Free {
            // Nothing tells of an object without the hub's label: it is looked at now and then.
            world.until("it is delivered", Duration::from_secs(330), || ready(world, "shop")).await;
        }
    }

    fn check(&self, world: &World) {
        match self {
            Harm::HoldObject => {
                assert_eq!(world.resource("shop"), None);
                assert_eq!(world.data("tokyo", "a"), None);
            }
            // That the others' stay as they are is judged in every run.
            Harm::Usurp => {
                assert_eq!(world.resource("shop"), None);
                assert_eq!((world.data("berlin", "a"), world.data("tokyo", "b")), (None, None));
            }
            Harm::Disagree => {
                assert!(ready(world, "shop"));
                let reason = |member: &str| world.target("bank", member).unwrap()["status"]["reason"].clone();
                assert_eq!([reason("berlin"), reason("tokyo")], ["SharedObjectConflict"; 2]);
                has(world, "tokyo", "a", "one");
            }
            Harm::LeaveAndDelete => {
                assert!(ready(world, "shop"));
                assert_eq!((world.data("tokyo", "a"), world.data("tokyo", "b")), (None, None));
                assert_eq!(world.target("shop", "tokyo"), None);
            }
            Harm::Garble | Harm::ChangeSource | Harm::LoseSource => {
                assert!(ready(world, "shop"));
                has(world, "berlin", "a", "two");
                has(world, "tokyo", "a", "two");
            }
            _ => {
                assert!(ready(world, "shop"), "{}", world.resource("shop").unwrap_or_default()["status"]);
                for member in ["berlin", "tokyo"] {
                    has(world, member, "a", "one");
                    has(world, member, "b", "one");
                }
                if matches!(self, Harm::WithCrd | Harm::UnknownKind) {
                    assert!(has_book(world));
                }
            }
        }
    }
}

/// Whatever is let go bears no mark of the hub.
#[test]
fn what_a_leaving_member_keeps_is_its_own() {
    testkit::sim::run(8, || async {
        let world = World::new(testkit::sim::Shape::new(8)).await;
        world.create("hub", &hub_path("vidraresources"), resource("shop", &document("a", "one"))).await;
        world.start_hub();
        world.until("it is delivered", SOON, || ready(&world, "shop")).await;
        world.delete("hub", &member_path("tokyo")).await;
        let left = || world.object("hub", vidra_api::GROUP, "memberclusters", "", "tokyo").is_none();
        world.until("it has left", SOON, left).await;
        released(&world, "tokyo", "a");
        world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        world.settle().await;
        has(&world, "tokyo", "a", "mine");
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}
