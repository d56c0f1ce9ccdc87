//! What is taken over, held, kept and given up, on people's word.

use std::time::Duration;

use memkube::Down;
use serde_json::{Value, json};
use testkit::sim::{
    Moment, Scenario, World,
    world::{MEMBERS, TARGET_NAMESPACE, config_map, config_maps, document, hub_path, member_path, resource},
};
use vidra_api::labels::{APPROVE_REMOVAL, FORGET, TAKE_OVER_FROM};

use crate::scenarios::{has, manifest, ready, shop};

/// Each is run with a crash at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// Most objects are dropped, which a person has to approve.
    ApproveObjects,
    /// A manifest is emptied, and says that this is meant.
    Empty,
    /// An object that is not to be pruned leaves the manifest.
    Keep,
    /// A namespace goes with what is in it.
    EmptyNamespace,
    /// Somebody holds a field that is not to be taken, and gives it back.
    Hold,
    /// An object that kubectl applied is taken over.
    Adopt,
    /// An object that is as declared is taken over.
    AdoptEqual,
    /// An object of another hub is taken over.
    Inherit,
    /// A silent member is deselected and given up.
    Forget,
}

pub const ALL: [Parting; 9] = [
    Parting::ApproveObjects,
    Parting::Empty,
    Parting::Keep,
    Parting::EmptyNamespace,
    Parting::Hold,
    Parting::Adopt,
    Parting::AdoptEqual,
    Parting::Inherit,
    Parting::Forget,
];

const SOON: Duration = Duration::from_secs(90);
const MANY: [&str; 5] = ["a", "c", "d", "e", "f"];

fn many() -> String {
    MANY.iter().map(|name| document(name, "one")).collect()
}

fn kept() -> String {
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {vidra.dev/prune: disabled}}\n";
    format!("{text}data: {{key: one}}\n---\n")
}

/// What client-side kubectl has applied.
async fn applied_by_kubectl(world: &World, value: &str) {
    let entry = json!({"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:key": {}, "f:old": {}}}});
    let body = json!({"metadata": {"name": "b"}, "data": {"key": value, "old": "x"}});
    world.create("berlin", &config_maps(TARGET_NAMESPACE), body).await;
    world.patch("berlin", &config_map("b"), json!({"metadata": {"managedFields": [entry]}})).await;
}

/// What another hub has delivered.
async fn delivered_by_another(world: &World) {
    let mark = "owner.vidra.dev/0123456789abcdef0123456789abcdef";
    let marks = json!({format!("f:{mark}"): {}, "f:vidra.dev/hub": {}});
    let entry = json!({"manager": "vidra/other/team/shop", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:key": {}, "f:old": {}}, "f:metadata": {"f:labels": marks}}});
    let body = json!({"metadata": {"name": "b", "labels": {mark: "", "vidra.dev/hub": "other"}},
        "data": {"key": "theirs", "old": "x"}});
    world.create("berlin", &config_maps(TARGET_NAMESPACE), body).await;
    world.patch("berlin", &config_map("b"), json!({"metadata": {"managedFields": [entry]}})).await;
}

impl Scenario for Parting {
    fn name(&self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn moment(&self) -> Moment {
        match self {
            Parting::Adopt | Parting::AdoptEqual => Moment::WithAct,
            _ => Moment::BeforeAct,
        }
    }

    async fn prepare(&self, world: &World) {
        let mut shop = resource("shop", &manifest("one", "one"));
        match self {
            Parting::ApproveObjects | Parting::Empty => shop = resource("shop", &many()),
            Parting::Keep => shop = resource("shop", &(document("a", "one") + &kept())),
            Parting::EmptyNamespace => {
                let own = "apiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n---\napiVersion: v1\n\
                           kind: ConfigMap\nmetadata: {name: in, namespace: own}\ndata: {key: one}\n---\n";
                shop = resource("shop", &(own.to_owned() + &manifest("one", "one")));
                shop["spec"]["namespaceAndCRDDeletion"] = json!("WhenEmpty");
            }
            Parting::Hold => shop["spec"]["conflicts"] = json!({"fields": "Fail"}),
            Parting::Adopt | Parting::AdoptEqual => {
                let (policy, value) =
                    if *self == Parting::Adopt { ("Adopt", "theirs") } else { ("AdoptIfEqual", "one") };
                shop["spec"]["conflicts"] = json!({"existing": policy});
                applied_by_kubectl(world, value).await;
            }
            Parting::Inherit => {
                MEMBERS.iter().for_each(|member| world.observer.excuse_unknown(member));
                delivered_by_another(world).await;
            }
            Parting::Forget => {}
        }
        world.create("hub", &hub_path("vidraresources"), shop).await;
    }

    async fn act(&self, world: &World) {
        let edit = async |spec: Value| {
            world.patch("hub", &shop(), json!({"spec": spec})).await;
        };
        match self {
            Parting::Adopt | Parting::AdoptEqual => {}
            Parting::ApproveObjects => {
                edit(json!({"manifest": document("a", "two")})).await;
                let held = || world.has_condition("shop", "Stalled", "True", "RemovalHeld");
                world.until("the removal is held", SOON, held).await;
                let status = world.resource("shop").expect("the resource")["status"].to_string();
                let (_, rest) = status.split_once(&format!("{APPROVE_REMOVAL}=")).expect("the hash is told");
                let hash: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
                has(world, "berlin", "a", "one");
                let word = json!({"metadata": {"annotations": {APPROVE_REMOVAL: hash}}});
                world.patch("hub", &shop(), word).await;
            }
            Parting::Empty => edit(json!({"manifest": "# nothing", "allowEmpty": true})).await,
            Parting::Keep => edit(json!({"manifest": document("a", "one")})).await,
            Parting::Inherit => {
                let word = json!({"metadata": {"annotations": {TAKE_OVER_FROM: "other"}}});
                world.patch("hub", &member_path("berlin"), word).await;
            }
            Parting::EmptyNamespace => world.delete("hub", &shop()).await,
            Parting::Hold => {
                world.patch("berlin", &config_map("a"), json!({"data": {"key": "mine"}})).await;
                let told = || world.reason("shop", "berlin") == "FieldConflict";
                world.until("it is told", SOON, told).await;
                has(world, "berlin", "a", "mine");
                // Taken away, not put back: whoever tries in that moment would own the value too, or not.
                world.patch("berlin", &config_map("a"), json!({"data": {"key": null}})).await;
                world.until("it is well again", Duration::from_secs(330), || ready(world, "shop")).await;
            }
            Parting::Forget => {
                world.observer.excuse_unknown("tokyo");
                world.observer.cloud("tokyo", Duration::from_secs(300));
                world.cluster("tokyo").set_down(Some(Down::Refuse));
                edit(json!({"excludeClusters": ["tokyo"]})).await;
                let waits =
                    || world.target("shop", "tokyo").unwrap_or_default()["status"]["state"] == "Terminating";
                world.until("it waits", SOON, waits).await;
                let word = json!({"metadata": {"annotations": {FORGET: "tokyo"}}});
                world.patch("hub", &shop(), word).await;
                world.until("it is given up", SOON, || world.target("shop", "tokyo").is_none()).await;
                world.cluster("tokyo").set_down(None);
                // Of what stays behind somebody else takes care.
                for name in ["a", "b"] {
                    world.delete("tokyo", &config_map(name)).await;
                }
            }
        }
    }

    fn check(&self, world: &World) {
        match self {
            Parting::EmptyNamespace => {
                assert_eq!(world.resource("shop"), None);
                for member in ["berlin", "tokyo"] {
                    assert_eq!(world.object(member, "", "namespaces", "", "own"), None, "{member}");
                    assert_eq!(world.data(member, "a"), None);
                }
                return;
            }
            _ => assert!(ready(world, "shop"), "{}", world.resource("shop").unwrap_or_default()["status"]),
        }
        for member in ["berlin", "tokyo"] {
            match self {
                Parting::ApproveObjects => {
                    has(world, member, "a", "two");
                    MANY[1..].iter().for_each(|name| assert_eq!(world.data(member, name), None, "{name}"));
                }
                Parting::Empty => {
                    MANY.iter().for_each(|name| assert_eq!(world.data(member, name), None, "{name}"));
                }
                Parting::Keep => {
                    has(world, member, "b", "one");
                    let left =
                        world.object(member, "", "configmaps", TARGET_NAMESPACE, "b").expect("it stays");
                    let metadata = &left["metadata"];
                    assert_eq!(metadata["annotations"], json!({"vidra.dev/prune": "disabled"}), "{left}");
                    assert!(metadata["labels"].as_object().is_none_or(|labels| labels.is_empty()), "{left}");
                }
                Parting::AdoptEqual if member == "berlin" => {
                    assert_eq!(world.data(member, "b"), Some(json!({"key": "one", "old": "x"})));
                }
                Parting::Inherit if member == "berlin" => {
                    assert_eq!(world.data(member, "b"), Some(json!({"key": "one"})));
                }
                Parting::Forget if member == "tokyo" => {}
                _ => has(world, member, "b", "one"),
            }
        }
        if *self == Parting::Forget {
            let left = world.resource("shop").unwrap_or_default()["status"]["leftBehind"].clone();
            assert_eq!((&left[0]["cluster"], &left[0]["objects"]), (&json!("tokyo"), &json!(2)), "{left}");
            assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
        }
    }
}
