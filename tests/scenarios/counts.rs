//! How many requests things cost, as the member's server counted them.

use serde_json::json;
use testkit::{
    testbed::Request,
    world::{Access, At, Mark, World},
};
use vidra_api::{ChangeKind, VidraTargetStatus};

use crate::{config_map, object, says, scenario};

/// Berlin has joined, and the namespace is there; somebody in it, and where the ConfigMap will be.
async fn begun(world: &World) -> (Access, At) {
    world.register(&["berlin"]).await;
    let alice = world.alice("berlin").await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
    alice.create(namespace).await;
    (alice, At::config_map(&world.ns, "settings"))
}

fn verbs(world: &World, at: &At, since: &Mark) -> Vec<String> {
    world.requests_for(at, "berlin", since).into_iter().map(|one| one.verb).collect()
}

/// All that the hub asked of berlin, by whichever verb; watches, probes and discovery apart.
fn asked(world: &World, since: &Mark) -> Vec<Request> {
    let is_probe = |one: &Request| one.resource == "namespaces" && one.name == "kube-system";
    let all = world.requests("berlin", since).into_iter();
    all.filter(|one| one.verb != "watch" && !one.resource.is_empty() && !is_probe(one)).collect()
}

#[test]
fn creating_takes_one_request_idling_none_and_a_repair_one_of_a_lost_object_too() {
    scenario(async |world| {
        let (alice, settings) = begun(&world).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}});
        let verbs = |mark: &Mark| verbs(&world, &settings, mark);

        let mark = world.mark();
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        world.counted(&["berlin"]).await;
        assert_eq!(verbs(&mark), ["patch"], "creating");
        assert_eq!(world.metric("vidra_objects{cluster=\"berlin\"}"), 1.0);

        let mark = world.mark();
        world.after_passes(3).await;
        assert_eq!(verbs(&mark), [""; 0], "three intervals");
        assert_eq!(world.writes("hub", &mark), [], "three intervals");

        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "as declared", says("one")).await;
        world.corrected("shop", "berlin", 1).await;
        world.after_passes(2).await;
        assert_eq!(verbs(&mark), ["patch"], "repairing");

        let mark = world.mark();
        alice.delete(&settings).await;
        alice.when(&settings, "made again", says("one")).await;
        world.corrected("shop", "berlin", 2).await;
        world.after_passes(2).await;
        assert_eq!(verbs(&mark), ["patch"], "making again");

        let mark = world.mark();
        alice.merge(&settings, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
        world.corrected("shop", "berlin", 3).await;
        world.after_passes(2).await;
        assert_eq!(verbs(&mark), ["patch", "patch"], "one that lost its label");
        world.end().await;
    });
}

#[test]
fn reporting_an_edit_takes_no_request_and_a_lost_object_one() {
    scenario(async |world| {
        let (alice, settings) = begun(&world).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"},
            "drift": {"policy": "Report"}});
        let verbs = |mark: &Mark| verbs(&world, &settings, mark);
        let drifted = async |what: ChangeKind| {
            let is = |status: &VidraTargetStatus| status.changes.iter().any(|one| one.change == what);
            world.target_when("shop", "berlin", "told", is).await;
        };
        let mark = world.mark();
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        assert_eq!(verbs(&mark), ["patch"], "creating");

        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        drifted(ChangeKind::Modified).await;
        // The VidraResource and the MemberCluster have said so too.
        world.after_passes(3).await;
        world.counted(&["berlin"]).await;
        let quiet = world.mark();
        world.after_passes(3).await;
        assert_eq!(verbs(&mark), [""; 0], "reporting");
        assert_eq!(world.writes("hub", &quiet), [], "three intervals");

        let mark = world.mark();
        alice.delete(&settings).await;
        drifted(ChangeKind::Missing).await;
        world.after_passes(3).await;
        world.counted(&["berlin"]).await;
        let quiet = world.mark();
        world.after_passes(3).await;
        assert_eq!(verbs(&mark), ["get"], "reporting a lost object");
        assert_eq!(world.writes("hub", &quiet), [], "three intervals");
        world.end().await;
    });
}

#[test]
fn objects_that_two_resources_share_take_no_request_while_nothing_changes() {
    scenario(async |world| {
        begun(&world).await;
        let spec = || json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}});
        for name in ["first", "second"] {
            let manifest = config_map("settings", "one") + &config_map(name, "one");
            world.deliver_with(name, &manifest, spec()).await;
            world.ready(name).await;
            world.recorded(name, &["berlin"]).await;
        }
        world.counted(&["berlin"]).await;
        world.after_passes(2).await;

        let quiet = world.mark();
        world.after_passes(8).await;
        assert_eq!(asked(&world, &quiet), [], "intervals of both");
        assert_eq!(world.writes("hub", &quiet), [], "intervals of both");
        world.end().await;
    });
}

#[test]
fn replicas_that_an_autoscaler_sets_take_no_request_where_they_are_not_declared_or_are_ignored() {
    scenario(async |world| {
        let (alice, _) = begun(&world).await;
        let deployment = |name: &str, replicas: Option<u32>| {
            let mut declared = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                    },
                },
            });
            if let Some(replicas) = replicas {
                declared["spec"]["replicas"] = replicas.into();
            }
            object(&declared)
        };
        // The hub does not know who scales: only what is declared, and what it is told to ignore.
        let ignored = json!({"yield": "None",
            "ignore": [{"target": {"kind": "Deployment"}, "paths": [".spec.replicas"]}]});
        let all = [("undeclared", None, json!({"yield": "None"})), ("ignored", Some(0), ignored)];
        let at = |name: &str| At::new("apps/v1", "Deployment", &world.ns, name);
        for (name, replicas, drift) in &all {
            let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"},
                "drift": drift});
            world.deliver_with(name, &deployment(name, *replicas), spec).await;
            alice.when(&at(name), "made", |_| true).await;
            // No pod is started: ready where nothing runs them.
            alice.scale(&at(name), 0).await;
            world.ready(name).await;
            world.recorded(name, &["berlin"]).await;
        }
        world.counted(&["berlin"]).await;
        world.after_passes(2).await;

        let mark = world.mark();
        for replicas in [2, 5, 3] {
            for (name, ..) in &all {
                alice.scale(&at(name), replicas).await;
            }
            world.after_passes(4).await;
        }
        assert_eq!(asked(&world, &mark), []);
        for (name, ..) in &all {
            assert_eq!(alice.live(&at(name)).await["spec"]["replicas"], 3, "{name}");
            let target = world.target(name, "berlin").await.unwrap();
            let status = target.status.unwrap();
            assert_eq!((status.drifted, status.corrections), (0, None), "{name}");
        }
        world.end().await;
    });
}
