//! The ConfigMap of settings: what it changes, at once, and what a wrong one does not.

use serde_json::{Value, json};
use testkit::world::{At, Who, World, wait_for};
use vidra_api::TargetState;

use crate::{config_map, object, partial::allow_config_maps, says, scenario, told_of};

pub fn settings_at(world: &World) -> At {
    At::config_map(&world.settings.namespace, "vidra-hub")
}

/// Applies the ConfigMap with these settings and no others.
pub async fn set(world: &World, data: Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "vidra-hub", "namespace": world.settings.namespace},
    });
    world.hub.apply(&object, true).await.expect("the ConfigMap is taken");
}

async fn informers(world: &World, count: f64) {
    wait_for(&format!("{count} informers"), testkit::world::SOON, async || {
        let now = world.metric("vidra_informers{cluster=\"berlin\"}");
        if now == count { Ok(()) } else { Err(format!("{now}")) }
    })
    .await;
}

/// Waits for an Event about the ConfigMap; what it says.
pub async fn said(world: &World, reason: &str) -> String {
    said_with(world, reason, "").await
}

/// The same of one with these words.
async fn said_with(world: &World, reason: &str, words: &str) -> String {
    let events = At::new("events.k8s.io/v1", "Event", "", "");
    wait_for(&format!("an Event {reason}: {words}"), testkit::world::SOON, async || {
        let all = world.hub.list(&events).await;
        let is = |event: &&Value| {
            event["reason"] == reason
                && event["regarding"]["name"] == "vidra-hub"
                && event["regarding"]["namespace"] == world.settings.namespace.as_str()
                && event["note"].as_str().is_some_and(|note| note.contains(words))
        };
        let found = all.iter().find(is).and_then(|event| event["note"].as_str().map(str::to_owned));
        found.ok_or_else(|| format!("{} others", all.len()))
    })
    .await
}

#[test]
fn interval_and_events_change_while_the_hub_runs_and_go_back_when_the_config_map_goes() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        informers(&world, 1.0).await;

        // Without events nothing is watched, and an hour's interval heals nothing.
        set(&world, json!({"reconcileOnEvents": "false"})).await;
        informers(&world, 0.0).await;
        alice.merge(&at, json!({"data": {"key": "evil"}})).await;
        assert!(says("evil")(&alice.live(&at).await));
        set(&world, json!({"reconcileOnEvents": "false", "interval": "1s"})).await;
        alice.when(&at, "healed by the interval", says("one")).await;
        alice.merge(&at, json!({"data": {"key": "evil"}})).await;
        alice.when(&at, "healed by the next interval", says("one")).await;

        world.hub.delete(&settings_at(&world)).await;
        informers(&world, 1.0).await;
        alice.merge(&at, json!({"data": {"key": "evil"}})).await;
        alice.when(&at, "healed by the event", says("one")).await;
        world.end().await;
    });
}

#[test]
fn a_bad_value_keeps_the_last_good_one_and_unknown_keys_are_named() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        // The names that Vidra gave them.
        set(&world, json!({"requeueResourcesAfter": "1s", "eventBasedReconcile": "false"})).await;
        informers(&world, 0.0).await;

        set(&world, json!({"requeueResourcesAfter": "soon", "eventBasedReconcile": "no", "intervall": "1s"}))
            .await;
        for wrong in ["requeueResourcesAfter: write a duration", "eventBasedReconcile: write true or false"] {
            said_with(&world, "SettingInvalid", wrong).await;
        }
        let note = said(&world, "SettingUnknown").await;
        assert!(note.contains("intervall") && note.contains("retry.max"), "{note}");
        alice.merge(&at, json!({"data": {"key": "evil"}})).await;
        alice.when(&at, "healed by the interval that was", says("one")).await;
        informers(&world, 0.0).await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn retries_can_be_switched_off_and_a_resource_can_have_its_own() {
    scenario(async |mut world| {
        set(&world, json!({"retry.enabled": "false", "retry.max": "1s"})).await;
        world.restart_hub().await;
        world.register(&["berlin"]).await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "invalid"},
            "spec": {"ports": [{"port": 99999}]}});
        let invalid = At::new("v1", "Service", &world.ns, "invalid");
        let targets = json!([{"clusterNames": ["berlin"]}]);
        world.deliver_with("broken", &object(&service), json!({"targets": targets})).await;
        world.target_is("broken", "berlin", TargetState::Failed, "Invalid").await;
        let often = json!({"targets": targets, "reconcile": {"interval": "1s"}});
        world.deliver_with("often", &config_map("often", "one"), often).await;
        world.ready("often").await;
        // Seconds in which it would have been tried many times.
        let mark = world.mark();
        world.after_passes(5).await;
        assert_eq!(world.requests_for(&invalid, "berlin", &mark), []);

        let own = json!({"targets": targets, "reconcile": {"retryInterval": "1s"}});
        world.deliver_with("broken", &object(&service), own).await;
        wait_for("more tries", testkit::world::SOON, async || {
            let now = world.requests_for(&invalid, "berlin", &mark).len();
            if now >= 4 { Ok(()) } else { Err(format!("{now}")) }
        })
        .await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn an_informer_that_cannot_start_ends_the_contact_where_the_settings_say_so() {
    scenario(async |mut world| {
        set(&world, json!({"informer.onStartupError": "Stop"})).await;
        world.restart_hub().await;
        let admin = world.cluster("berlin", Who::Admin).await;
        allow_config_maps(&world, &admin).await;
        world.register_as("berlin", &world.kubeconfig("berlin", Who::Limited), json!({})).await;
        world.member_says("berlin", "Ready", "True").await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "unseen"},
            "spec": {"ports": [{"port": 80}]}});
        world.deliver("blind", &["berlin"], &object(&service)).await;
        let message = world.target_is("blind", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        let words = ["the informer of v1 Service in namespace", "could not start"];
        assert!(words.iter().all(|words| message.contains(words)), "{message}");

        world.hub.delete(&settings_at(&world)).await;
        world.target_is("blind", "berlin", TargetState::Failed, "CannotWatch").await;
        world.end().await;
    });
}

#[test]
fn members_register_from_the_namespaces_that_the_settings_name() {
    scenario(async |mut world| {
        let team = world.namespace_beside().await;
        world.give_registration_rights(&team).await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "berlin", "namespace": team, "labels": {"vidra.dev/member-cluster": "berlin"}},
            "stringData": {"kubeconfig": world.kubeconfig("berlin", Who::VidraHub)},
        });
        world.hub.apply(&secret, true).await.expect("the Secret is taken");
        world.register(&["tokyo"]).await;
        assert!(world.member("berlin").await.is_none());

        // One that is not there holds nothing up.
        set(&world, json!({"registrationNamespaces": format!("{team}, missing")})).await;
        world.member_says("berlin", "Ready", "True").await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let at = At::config_map(&world.ns, "settings");
        let made = world.alice("berlin").await.live(&at).await;

        // A namespace that is no longer named is no wish to leave.
        world.hub.delete(&settings_at(&world)).await;
        world.member_says("berlin", "CredentialsValid", "False").await;
        world.target_is("shop", "berlin", TargetState::Unknown, "NoCredentials").await;
        assert_eq!(world.alice("berlin").await.live(&at).await, made);
        world.member_says("tokyo", "Ready", "True").await;

        set(&world, json!({"registrationNamespaces": team})).await;
        world.ready("shop").await;
        world.remove("shop").await;
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        world.hub.delete(&settings_at(&world)).await;
        world.hub.delete(&At::new("v1", "Namespace", "", &team)).await;
        world.end().await;
    });
}

#[test]
fn a_secret_of_another_namespace_does_not_take_the_place_of_one_that_is_gone_for_a_moment() {
    scenario(async |mut world| {
        let team = world.namespace_beside().await;
        world.give_registration_rights(&team).await;
        set(&world, json!({"registrationNamespaces": team})).await;
        world.register(&["berlin"]).await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "theirs", "namespace": team, "labels": {"vidra.dev/member-cluster": "berlin"}},
            "stringData": {"kubeconfig": world.kubeconfig("berlin", Who::Alice)},
        });
        let theirs = world.hub.create(secret).await;
        told_of(&world, &theirs, "AlreadyRegistered").await;
        world.hub.delete(&world.registration("berlin")).await;
        let message = world.member_says("berlin", "CredentialsValid", "False").await;
        assert!(message.contains(&format!("Secret {team}/theirs names the cluster too")), "{message}");
        let member = world.hub.live(&world.member_at("berlin")).await;
        assert_eq!(member["spec"]["kubeconfigSecretRef"]["name"], "berlin");
        world.register(&["berlin"]).await;
        world.hub.delete(&settings_at(&world)).await;
        world.hub.delete(&At::new("v1", "Namespace", "", &team)).await;
        world.end().await;
    });
}

#[test]
fn a_hub_that_may_not_list_its_own_kinds_ends_where_the_settings_say_so() {
    scenario(async |mut world| {
        set(&world, json!({"informer.onStartupError": "Stop"})).await;
        world.stop_hub().await;
        let (api, namespace) = ("rbac.authorization.k8s.io/v1", world.settings.namespace.clone());
        let rules = json!([{"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["*"]}]);
        let metadata = json!({"name": "limited", "namespace": namespace});
        world
            .hub
            .create(json!({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules}))
            .await;
        world
            .hub
            .create(json!({
                "apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
            }))
            .await;
        let client = world.bed().client("hub", Who::Limited).await.expect("a client");
        let started = world.bed().start_hub(client, world.settings.clone()).await;
        assert!(started.is_err(), "it knows its objects, which it may not see");
        world.hub.delete(&settings_at(&world)).await;
        world.start_hub().await;
        world.end().await;
    });
}

/// The labels of a MemberCluster but for the one that says whose it is.
fn carried(member: &Value) -> Value {
    let mut labels = member["metadata"]["labels"].clone();
    labels.as_object_mut().unwrap().remove("vidra.dev/hub");
    labels
}

#[test]
fn a_label_that_somebody_else_set_on_a_member_keeps_those_of_its_registration_away() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let at = world.member_at("berlin");
        let label = |env: &str| json!({"metadata": {"labels": {"env": env}}});
        world.hub.merge(&at, label("prod")).await;
        let asked = json!({"env": "test", "team": "a"});
        world.register_as("berlin", &world.kubeconfig("berlin", Who::VidraHub), asked.clone()).await;
        let registration = world.hub.live(&world.registration("berlin")).await;
        told_of(&world, &registration, "LabelsKept").await;
        assert_eq!(carried(&world.hub.live(&at).await), json!({"env": "prod"}));

        world.hub.merge(&at, label("test")).await;
        world.hub.when(&at, "labelled", |live| carried(live) == asked).await;
        world.end().await;
    });
}

#[test]
fn labels_of_registrations_go_where_the_setting_says_and_a_change_of_it_takes_none_off() {
    scenario(async |world| {
        let kubeconfig = world.kubeconfig("berlin", Who::VidraHub);
        let labels = json!({"env": "prod", "team": "a", "argocd.argoproj.io/instance": "fleet"});
        world.register_as("berlin", &kubeconfig, labels.clone()).await;
        world.member_says("berlin", "Ready", "True").await;
        let at = world.member_at("berlin");
        assert_eq!(carried(&world.hub.live(&at).await), json!({"env": "prod", "team": "a"}));

        set(&world, json!({"carriedLabels": "-team"})).await;
        let all = world.hub.when(&at, "labelled", |live| carried(live) == labels).await;
        assert_eq!(all["metadata"]["labels"]["team"], "a", "what was carried stays");

        set(&world, json!({"carriedLabels": "env"})).await;
        world.register_as("berlin", &kubeconfig, json!({"env": "test", "team": "a", "new": "1"})).await;
        let expected = json!({"env": "test", "team": "a"});
        world.hub.when(&at, "labelled", |live| carried(live) == expected).await;
        world.register_as("berlin", &kubeconfig, json!({"env": "test"})).await;
        world.hub.when(&at, "labelled", |live| carried(live) == json!({"env": "test"})).await;
        world.end().await;
    });
}

#[test]
fn what_stands_inline_may_be_no_secret_where_the_setting_says_so() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let secret = |key: &str| {
            object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
                "stringData": {"key": key}}))
        };
        let (alice, at) = (world.alice("berlin").await, At::new("v1", "Secret", &world.ns, "password"));
        world.deliver("shop", &["berlin"], &secret("one")).await;
        world.ready("shop").await;
        set(&world, json!({"allowInlineSecrets": "false"})).await;
        let told = world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        let conditions = told.status.unwrap_or_default().conditions;
        let message = &vidra_api::find(&conditions, "Stalled").unwrap().message;
        assert!(message.contains("spec.manifest") && message.contains("manifestsFrom"), "{message}");
        // What was delivered stays and is repaired.
        alice.delete(&at).await;
        alice.when(&at, "made again", |_| true).await;

        let source = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "passwords", "namespace": world.ns}, "stringData": {"manifest": secret("two")}});
        world.hub.create(source).await;
        let from = json!([{"secretRef": {"name": "passwords"}}]);
        world
            .apply_yaml(
                &json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource", "metadata": {"name": "shop"},
                    "spec": {"manifestsFrom": from, "targets": [{"clusterNames": ["berlin"]}]}})
                .to_string(),
            )
            .await;
        world.ready("shop").await;
        alice.when(&at, "from the source", |live| live["data"]["key"] == "dHdv").await;
        world.deliver("shop", &["berlin"], &secret("three")).await;
        world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        world.hub.delete(&settings_at(&world)).await;
        world.ready("shop").await;
        world.end().await;
    });
}
