//! The hub's rights in its own cluster: none is idle. That they suffice, every scenario shows at its end.

use std::sync::Arc;

use serde_json::json;
use testkit::world::At;
use vidra_hub::{base::env::SystemClock, leader_election::lease::Claim};

use crate::{config_map, says, scenario};

/// Rights that this scenario does not use, and why they are there.
const ELSEWHERE: [&str; 1] = [
    // Where the server looks at blockOwnerDeletion: the real bed has that admission plugin on.
    "everywhere: vidra.dev/vidraresources/finalizers update",
];

#[test]
fn the_hub_needs_each_of_its_rights_in_its_own_cluster() {
    scenario(async |mut world| {
        let claim = Claim::new(
            world.hub_client().await,
            &world.settings.namespace,
            "a-test".to_owned(),
            Arc::new(SystemClock),
        );
        claim.acquire().await;
        claim.release().await;

        world.register(&["berlin", "tokyo"]).await;
        let berlin = world.alice("berlin").await;
        // More revisions than are kept.
        for value in 0..12 {
            let spec = json!({"targets": [{"clusterNames": ["berlin", "tokyo"]}]});
            world.deliver_with("shop", &config_map("settings", &value.to_string()), spec).await;
            world.ready("shop").await;
        }
        // What was delivered last is needed again, and only its Secret holds it.
        world.deliver("shop", &["berlin", "tokyo"], "no: manifest").await;
        world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        world.restart_hub().await;
        let settings = At::config_map(&world.ns, "settings");
        berlin.delete(&settings).await;
        berlin.when(&settings, "made again", says("11")).await;

        // What a ConfigMap and a Secret declare.
        let named = |kind: &str, field: &str| {
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "source", "namespace": world.ns},
                field: {"manifest": config_map(&kind.to_lowercase(), "one")}})
        };
        world.hub.create(named("ConfigMap", "data")).await;
        world.hub.create(named("Secret", "stringData")).await;
        let from = json!([{"configMapRef": {"name": "source"}}, {"secretRef": {"name": "source"}}]);
        world
            .apply_yaml(
                &json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource", "metadata": {"name": "sourced"},
                    "spec": {"manifestsFrom": from, "targets": [{"clusterNames": ["berlin"]}]}})
                .to_string(),
            )
            .await;
        world.ready("sourced").await;
        world.remove("sourced").await;

        // A member leaves, then the VidraResource.
        world.hub.delete(&world.member_at("tokyo")).await;
        world.hub.gone(&world.member_at("tokyo")).await;
        world.remove("shop").await;
        assert_eq!(world.idle_rights(), ELSEWHERE);
        world.end().await;
    });
}
