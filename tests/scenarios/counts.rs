//! How many requests things cost, as the member's server counted them.

use serde_json::json;
use testkit::world::{Access, At, Mark, World};
use vidra_api::{ChangeKind, VidraTargetStatus};

use crate::{config_map, says, scenario};

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
