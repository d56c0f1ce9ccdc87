//! `vidra.dev/wait-for`: what of one object its target and later waves wait for.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::{ObjectHealth, TargetState, VidraTargetStatus};

use crate::{
    config_map_in, gadget, gadgets,
    health::{GADGET, over_a_restart},
    object, says, scenario,
};

/// In wave 0, with this annotation; and a ConfigMap in the wave behind it.
fn manifest(first: Value, wait_for: Option<&str>) -> String {
    before(first, wait_for, "one")
}

/// The same with this value in the ConfigMap.
fn before(mut first: Value, wait_for: Option<&str>, late: &str) -> String {
    if let Some(word) = wait_for {
        first["metadata"]["annotations"]["vidra.dev/wait-for"] = word.into();
    }
    let mut late = config_map_in("", "late", late);
    late["metadata"]["annotations"]["vidra.dev/wave"] = "1".into();
    object(&first) + &object(&late)
}

async fn waits(world: &World, words: &str) {
    let says = |status: &VidraTargetStatus| {
        status.reason.as_deref() == Some("WaitingForWave")
            && status.message.as_ref().is_some_and(|message| message.contains(words))
    };
    world.target_when("shop", "berlin", words, says).await;
}

#[test]
fn a_job_holds_the_next_wave_until_it_has_completed_where_that_is_asked_for() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        // Nobody but alice moves its status.
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {
            "managedBy": "example.com/alice", "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "app", "image": "app:1"}]}}}});
        let at = At::new("batch/v1", "Job", &world.ns, "migrate");
        let late = At::config_map(&world.ns, "late");
        world.deliver("shop", &["berlin"], &manifest(job.clone(), Some("Complete"))).await;
        alice.when(&at, "there", |_| true).await;
        let begun = json!({"startTime": "2026-01-01T00:00:00Z"});
        alice.merge_status(&at, json!({"status": begun})).await;
        waits(&world, "has not completed yet").await;
        assert!(alice.get(&late).await.is_none(), "a Job that runs has not completed");

        let is = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"});
        let done = json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z",
            "succeeded": 1, "conditions": [is("SuccessCriteriaMet"), is("Complete")]});
        alice.merge_status(&at, json!({"status": done})).await;
        alice.when(&late, "there", |_| true).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_service_is_ready_once_it_has_an_address_where_that_is_asked_for() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "example.com/alice", "ports": [{"port": 80}], "selector": {"app": "web"}}});
        world.deliver("shop", &["berlin"], &manifest(service.clone(), Some("Address"))).await;
        waits(&world, "no address yet").await;
        over_a_restart(&mut world, &alice, &["shop"]).await;
        // The edit of an instruction acts at once, and nothing is written for it.
        let at = At::new("v1", "Service", &world.ns, "web");
        let before = alice.live(&at).await["metadata"]["resourceVersion"].clone();
        world.deliver("shop", &["berlin"], &manifest(service.clone(), None)).await;
        world.ready("shop").await;
        assert_eq!(alice.live(&at).await["metadata"]["resourceVersion"], before);

        world.deliver("shop", &["berlin"], &manifest(service, Some("Address"))).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let addresses = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}});
        alice.merge_status(&at, json!({"status": addresses})).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_nothing_is_to_wait_for_is_told_and_holds_nobody() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let group = format!("{}.example.com", world.ns);
        world.deliver("kinds", &["berlin"], &object(&gadgets(&group))).await;
        world.ready("kinds").await;
        let one: Value =
            serde_json::from_str(gadget(&group, "odd").trim_start_matches("---\n").trim()).unwrap();
        world.deliver("shop", &["berlin"], &manifest(one.clone(), Some("Nothing"))).await;
        world.ready("shop").await;

        let at = At::new(&format!("{group}/v1"), "Gadget", &world.ns, "odd");
        let says = json!({"type": "Ready", "status": "False", "reason": "Alice", "message": ""});
        alice.merge(&at, json!({"status": {"conditions": [says]}})).await;
        let listed = world.target_when("shop", "berlin", "listed", |status| !status.unready.is_empty()).await;
        let status = listed.status.unwrap_or_default();
        assert_eq!(status.state, Some(TargetState::Ready));
        assert_eq!(status.unready[0].health, ObjectHealth::InProgress);

        world.deliver("shop", &["berlin"], &manifest(one, None)).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        alice.delete(&At::of(&gadgets(&group))).await;
        world.end().await;
    });
}

#[test]
fn what_is_not_well_opens_the_next_wave_where_nothing_is_to_wait_for_it() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        // It has no status, and never gets one.
        let rule = json!({"apiVersion": "health.example.com/v1", "kind": "Gadget",
            "current": "status.phase == 'Up'"});
        let deliver = async |word: Option<&str>, late: &str| {
            let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": [rule]});
            let manifest = object(&GADGET.crd()) + &before(GADGET.one("one"), word, late);
            world.deliver_with("shop", &manifest, spec).await;
        };
        let late = At::config_map(&world.ns, "late");
        deliver(Some("Nothing"), "one").await;
        alice.when(&late, "the next wave", says("one")).await;
        world.ready("shop").await;
        deliver(None, "two").await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        world.look("shop", "once more", 1).await;
        assert!(says("one")(&alice.live(&late).await), "it waits where nothing is said");
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        alice.when(&late, "the next wave", says("two")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_word_that_does_not_fit_the_kind_is_refused_by_document_and_object() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let odd = manifest(config_map_in("", "settings", "one"), Some("Complete"));
        world.deliver("shop", &["berlin"], &odd).await;
        let resource = world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        let message =
            vidra_api::find(&resource.status.unwrap().conditions, "Stalled").unwrap().message.clone();
        for word in ["document 1", "ConfigMap settings", "vidra.dev/wait-for", "Nothing"] {
            assert!(message.contains(word), "{message}");
        }
        world.end().await;
    });
}
