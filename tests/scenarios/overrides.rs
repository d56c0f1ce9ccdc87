//! Overrides: one manifest, and what differs from cluster to cluster.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::TargetState;

use crate::{config_map, says, scenario};

/// A ConfigMap that overrides change, and one that they do not.
fn manifest() -> String {
    config_map("settings", "one") + &config_map("beside", "one")
}

async fn deliver(world: &World, name: &str, overrides: Value) {
    let targets = json!([{"clusterNames": ["berlin", "tokyo"]}]);
    world.deliver_with(name, &manifest(), json!({"targets": targets, "overrides": overrides})).await;
}

async fn label(world: &World, cluster: &str, labels: Value) {
    world.hub.merge(&world.member_at(cluster), json!({"metadata": {"labels": labels}})).await;
}

fn settings(world: &World) -> At {
    At::config_map(&world.ns, "settings")
}

fn by_region() -> Value {
    json!([{"target": {"kind": "ConfigMap", "name": "settings"},
        "set": [{"path": ".data.key", "expression": "cluster.labels['region']"},
            {"path": ".data[\"where.is\"]", "expression": "cluster.values[?'url'].orValue('nowhere')"}]}])
}

#[test]
fn each_cluster_gets_what_its_labels_and_values_say_and_a_change_of_them_reaches_it_alone() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        label(&world, "berlin", json!({"region": "eu"})).await;
        label(&world, "tokyo", json!({"region": "asia"})).await;
        world
            .hub
            .merge(&world.member_at("berlin"), json!({"spec": {"values": {"url": "https://b/?a=1"}}}))
            .await;
        deliver(&world, "shop", by_region()).await;
        world.ready("shop").await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let at = settings(&world);
        assert_eq!(berlin.live(&at).await["data"], json!({"key": "eu", "where.is": "https://b/?a=1"}));
        assert_eq!(tokyo.live(&at).await["data"], json!({"key": "asia", "where.is": "nowhere"}));

        // A label that nobody uses, and a restart, write nothing.
        let mark = world.mark();
        label(&world, "berlin", json!({"unrelated": "x"})).await;
        world.restart_hub().await;
        world.look("shop", "look", 2).await;
        world.ready("shop").await;
        for cluster in ["berlin", "tokyo"] {
            assert_eq!(world.writes(cluster, &mark), [], "{cluster}");
        }

        let mark = world.mark();
        label(&world, "berlin", json!({"region": "north"})).await;
        berlin.when(&at, "the new label's value", says("north")).await;
        world.ready("shop").await;
        assert_eq!(world.writes("berlin", &mark).len(), 1);
        assert_eq!(world.writes("tokyo", &mark), []);

        // So does a value, once the hub has done all that it had still to do for the label.
        let often = json!({"targets": [{"clusterNames": ["tokyo"]}], "reconcile": {"interval": "1s"}});
        world.deliver_with("often", &config_map("often", "one"), often).await;
        world.ready("often").await;
        world.after_passes(4).await;
        let mark = world.mark();
        let values = json!({"spec": {"values": {"url": "https://new.example"}}});
        world.hub.merge(&world.member_at("berlin"), values).await;
        let both = json!({"key": "north", "where.is": "https://new.example"});
        berlin.when(&at, "the new value", |live| live["data"] == both).await;
        world.ready("shop").await;
        assert_eq!(world.writes("berlin", &mark).len(), 1);
        assert_eq!(world.writes("tokyo", &mark), []);

        // Drift is measured against what the cluster is to have.
        berlin.merge(&at, json!({"data": {"key": "one"}})).await;
        berlin.when(&at, "as overridden", says("north")).await;
        world.end().await;
    });
}

#[test]
fn patches_change_what_they_select_in_their_order_and_others_get_the_plain_objects() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        label(&world, "berlin", json!({"env": "prod"})).await;
        deliver(
            &world,
            "shop",
            json!([
                {"clusterSelector": {"matchLabels": {"env": "prod"}}, "target": {"group": "", "name": "settings"},
                    "mergePatch": {"data": {"key": "merged", "more": "1"}}},
                {"clusterNames": ["berlin"], "target": {"namespace": world.ns, "name": "settings"},
                    "jsonPatch": [{"op": "test", "path": "/data/key", "value": "merged"},
                        {"op": "move", "from": "/data/more", "path": "/data/moved"}]},
            ]),
        )
        .await;
        world.ready("shop").await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let at = settings(&world);
        assert_eq!(berlin.live(&at).await["data"], json!({"key": "merged", "moved": "1"}));
        assert_eq!(tokyo.live(&at).await["data"], json!({"key": "one"}));
        let beside = At::config_map(&world.ns, "beside");
        assert!(says("one")(&berlin.live(&beside).await));

        // Without overrides both are alike again; what they do not change is not touched.
        let mark = world.mark();
        deliver(&world, "shop", json!([])).await;
        berlin.when(&at, "plain", |live| live["data"] == json!({"key": "one"})).await;
        world.ready("shop").await;
        assert_eq!(world.writes_to(&beside, "berlin", &mark), []);
        assert_eq!(world.writes("tokyo", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_cluster_that_lacks_a_key_fails_alone_and_says_which_and_how_to_mend_it() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        label(&world, "berlin", json!({"region": "eu"})).await;
        let mark = world.mark();
        deliver(&world, "shop", by_region()).await;
        let message = world.target_is("shop", "tokyo", TargetState::Failed, "OverrideFailed").await;
        for part in [
            "spec.overrides[0].set[0].expression",
            "ConfigMap",
            "cluster.labels has no key \"region\"; label MemberCluster tokyo, or write 'region' in cluster.labels ?",
        ] {
            assert!(message.contains(part), "{message}");
        }
        world.target_when("shop", "berlin", "Ready", |status| status.state == Some(TargetState::Ready)).await;
        world.resource_says("shop", "Ready", "False", "TargetsFailed").await;
        world.resource_says("shop", "Stalled", "True", "TargetsFailed").await;
        assert_eq!(world.writes("tokyo", &mark), []);

        label(&world, "tokyo", json!({"region": "asia"})).await;
        world.ready("shop").await;
        assert!(says("asia")(&world.alice("tokyo").await.live(&settings(&world)).await));

        // And when the key goes again, what is there stays.
        let mark = world.mark();
        label(&world, "tokyo", json!({"region": null})).await;
        world.target_is("shop", "tokyo", TargetState::Failed, "OverrideFailed").await;
        assert_eq!(world.writes("tokyo", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_patch_that_does_not_apply_names_its_index_and_another_object_is_not_made_of_one() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let on_berlin = |change: Value| {
            let mut entry = json!({"clusterNames": ["berlin"], "target": {"name": "settings"}});
            entry.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            json!([entry])
        };
        for (change, expected) in [
            (
                json!({"jsonPatch": [{"op": "add", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/b"}]}),
                "spec.overrides[0].jsonPatch[1]: remove of \"/data/b\" does not apply",
            ),
            (
                json!({"mergePatch": {"metadata": {"name": "other"}}}),
                "spec.overrides[0]: it changes metadata.name",
            ),
        ] {
            let mark = world.mark();
            deliver(&world, "shop", on_berlin(change)).await;
            let target = world
                .target_when("shop", "berlin", expected, |status| {
                    status.state == Some(TargetState::Failed)
                        && status.message.as_ref().is_some_and(|message| message.contains(expected))
                })
                .await;
            assert_eq!(target.status.unwrap().reason.as_deref(), Some("OverrideFailed"));
            world
                .target_when("shop", "tokyo", "Ready", |status| status.state == Some(TargetState::Ready))
                .await;
            assert_eq!(world.writes("berlin", &mark), []);
        }
        world.end().await;
    });
}

/// What an expression gives is known only for a cluster.
#[test]
fn an_annotation_that_the_hub_does_not_know_is_refused_where_overrides_make_it_unless_it_was_delivered() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        label(&world, "berlin", json!({"key": "waves"})).await;
        label(&world, "tokyo", json!({"key": "wave"})).await;
        let mark = world.mark();
        let expression = "{'vidra.dev/' + cluster.labels['key']: '1'}";
        let make = json!([{"target": {"name": "settings"},
            "set": [{"path": ".metadata.annotations", "expression": expression}]}]);
        deliver(&world, "shop", make).await;
        let told = world.target_is("shop", "berlin", TargetState::Failed, "OverrideFailed").await;
        for part in ["spec.overrides", "settings", "cluster berlin", "write vidra.dev/wave,"] {
            assert!(told.contains(part), "{told}");
        }
        world.target_when("shop", "tokyo", "Ready", |status| status.state == Some(TargetState::Ready)).await;
        assert_eq!(world.writes("berlin", &mark), []);

        // As if an earlier version had delivered it: it is repaired.
        world.stop_hub().await;
        let at = world.target_at("shop", "berlin");
        let spec = world.hub.live(&at).await["spec"].clone();
        let whole = json!({"status": {"revision": spec["revision"], "namespace": spec["namespace"],
            "overrides": spec["overrides"]}});
        world.hub.merge_status(&at, whole).await;
        world.start_hub().await;
        world.ready("shop").await;

        // What a label makes of it newly is not.
        label(&world, "berlin", json!({"key": "weve"})).await;
        let told = world.target_is("shop", "berlin", TargetState::Failed, "OverrideFailed").await;
        assert!(told.contains("vidra.dev/weve"), "{told}");
        label(&world, "berlin", json!({"key": "wave"})).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn overrides_that_can_be_used_nowhere_are_refused_before_anything_is_touched() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        deliver(&world, "shop", json!([])).await;
        world.ready("shop").await;
        let mark = world.mark();
        let broken =
            json!([{"target": {}, "set": [{"path": ".data.key", "expression": "cluster.labels[name]"}]}]);
        deliver(&world, "shop", broken).await;
        let refused = world.resource_says("shop", "Stalled", "True", "OverridesInvalid").await;
        let conditions = refused.status.unwrap().conditions;
        let message = &vidra_api::find(&conditions, "Stalled").unwrap().message;
        assert!(message.starts_with("spec.overrides[0].set[0].expression: name the key"), "{message}");
        for cluster in ["berlin", "tokyo"] {
            assert_eq!(world.writes(cluster, &mark), [], "{cluster}");
        }

        // One that matches nothing is told, and the rest is delivered.
        deliver(&world, "shop", json!([{"target": {"kind": "Deployment"}, "mergePatch": {}}])).await;
        let told = world.resource_says("shop", "Ready", "False", "OverrideMatchesNothing").await;
        let conditions = told.status.unwrap().conditions;
        let message = &vidra_api::find(&conditions, "Ready").unwrap().message;
        assert!(message.contains("spec.overrides[0] matches no object"), "{message}");
        world.target_when("shop", "berlin", "Ready", |status| status.state == Some(TargetState::Ready)).await;
        world.end().await;
    });
}

#[test]
fn a_name_that_no_cluster_bears_is_told_wherever_it_stands_and_what_is_meant_is_delivered() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let deliver = async |name: &str, more: Value| {
            let mut spec = json!({"targets": [{"clusterSelector": {}}]});
            spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            world.deliver_with(name, &config_map(name, "one"), spec).await;
            let told = world.resource_says(name, "Ready", "False", "ClusterNotFound").await;
            let ready = vidra_api::find(&told.status.expect("it has one").conditions, "Ready").cloned();
            world.alice("berlin").await.when(&At::config_map(&world.ns, name), "delivered", |_| true).await;
            ready.expect("it was just seen").message
        };
        let told = deliver("out", json!({"excludeClusters": ["berlim"]})).await;
        assert!(told.contains("spec.excludeClusters names the cluster \"berlim\""), "{told}");
        let change = json!({"target": {}, "mergePatch": {"data": {"more": "two"}}});
        let mut named = change.clone();
        named["clusterNames"] = json!(["berlin", "toyko"]);
        let told = deliver("patched", json!({"overrides": [change, named]})).await;
        assert!(told.contains("spec.overrides[1].clusterNames names the cluster \"toyko\""), "{told}");
        world.end().await;
    });
}
