//! Credentials change, break and vanish; delivered objects stay.

use serde_json::{Value, json};
use testkit::{
    testbed::Request,
    world::{At, Mark, SOON, Who, World, two_contexts, wait_for},
};
use vidra_api::TargetState;

use crate::{config_map, member_says_why, says, scenario, told_of, uid};

/// The writes of a user to one ConfigMap of berlin since a mark, dry runs apart.
fn writes_by(world: &World, who: Who, at: &At, since: &Mark) -> Vec<Request> {
    let is_write = |one: &Request| one.verb == "patch" && !one.uri.contains("dryRun=");
    let all = world.requests_by(who, "berlin", since).into_iter();
    all.filter(|one| is_write(one) && (one.namespace.as_str(), one.name.as_str()) == at.name_parts())
        .collect()
}

#[test]
fn a_rotated_kubeconfig_works_without_a_restart() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let settings = At::config_map(&world.ns, "settings");
        let alice = world.alice("berlin").await;
        let made = alice.live(&settings).await;
        for (before, now, value) in [(Who::VidraHub, Who::Alice, "two"), (Who::Alice, Who::Admin, "three")] {
            let mark = world.mark();
            world.register_as("berlin", &world.kubeconfig("berlin", now), json!({})).await;
            // What is declared sooner may still go by the old credentials.
            wait_for(&format!("a watch by {now}"), SOON, async || {
                let requests = world.requests_by(now, "berlin", &mark);
                let is_watch = |one: &Request| one.verb == "watch" && one.resource == "configmaps";
                if requests.iter().any(is_watch) { Ok(()) } else { Err(format!("{requests:?}")) }
            })
            .await;
            let mark = world.mark();
            world.deliver("shop", &["berlin"], &config_map("settings", value)).await;
            world.ready("shop").await;
            let changed = alice.live(&settings).await;
            assert!(says(value)(&changed));
            assert_eq!(uid(&changed), uid(&made));
            assert_eq!(writes_by(&world, now, &settings, &mark).len(), 1, "it is written with the new ones");
            assert_eq!(writes_by(&world, before, &settings, &mark), []);
        }
        world.end().await;
    });
}

#[test]
fn a_kubeconfig_that_cannot_be_used_removes_nothing() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        let before = alice.live(&settings).await;
        let good = world.kubeconfig("berlin", Who::VidraHub);
        let mark = world.mark();

        let marker = std::env::temp_dir().join(format!("vidra-exec-{}", std::process::id()));
        let mut plugin: Value =
            serde_json::from_str(&two_contexts(&world.kubeconfig("tokyo", Who::VidraHub), &good)).unwrap();
        let exec =
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [marker]});
        for user in plugin["users"].as_array_mut().unwrap() {
            user["user"] = json!({"exec": exec});
        }
        let wrong_token = good.lines().map(|line| match line.trim_start().starts_with("token:") {
            true => format!("{}token: wrong\n", &line[..line.len() - line.trim_start().len()]),
            false => format!("{line}\n"),
        });
        let wrong_token: String = wrong_token.collect();
        assert!(wrong_token.contains("token: wrong"));
        for (bad, reason, word) in [
            ("{{{ no kubeconfig", "KubeconfigInvalid", "kubeconfig"),
            (&plugin.to_string(), "KubeconfigInvalid", "exec"),
            (&wrong_token, "CredentialsRefused", "401"),
        ] {
            world.register_as("berlin", bad, json!({})).await;
            let message = member_says_why(&world, "berlin", "CredentialsValid", ("False", reason)).await;
            assert!(message.contains(word), "{message}");
            world
                .target_when("shop", "berlin", "Unknown", |status| status.state == Some(TargetState::Unknown))
                .await;
            world.restart_hub().await;
            world.resource_says("shop", "Ready", "False", "MembersUnreachable").await;
            world.register_as("berlin", &good, json!({})).await;
            world.member_says("berlin", "CredentialsValid", "True").await;
            world.ready("shop").await;
        }
        assert!(!marker.exists(), "the exec plug-in was run");
        assert_eq!(alice.live(&settings).await, before);
        assert_eq!(world.writes("berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_vanished_registration_removes_nothing() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let mark = world.mark();
        world.hub.delete(&world.registration("berlin")).await;
        let message = world.member_says("berlin", "CredentialsValid", "False").await;
        assert!(message.contains("missing"), "{message}");
        world.target_is("shop", "berlin", TargetState::Unknown, "NoCredentials").await;
        // An alarm sees it: 0, and not no series.
        let closed = "vidra_member_ready{cluster=\"berlin\"} 0\n";
        assert!(world.metrics().contains(closed), "{}", world.metrics());
        world.restart_hub().await;
        world.resource_says("shop", "Ready", "False", "MembersUnreachable").await;
        assert!(
            world.member("berlin").await.is_some_and(|member| member.metadata.deletion_timestamp.is_none())
        );
        assert_eq!(world.writes("berlin", &mark), []);

        world.register(&["berlin"]).await;
        world.ready("shop").await;
        assert_eq!(world.writes("berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_certificate_that_tls_cannot_use_is_told_to_the_member_and_to_its_secret() {
    scenario(async |world| {
        let (other, good) =
            (world.kubeconfig("tokyo", Who::VidraHub), world.kubeconfig("berlin", Who::VidraHub));
        let mut bad: Value = serde_json::from_str(&two_contexts(&other, &good)).unwrap();
        // An empty DER sequence, as a certificate and as a key in PEM: enough for a parser.
        let key = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1BQT0KLS0tLS1FTkQgUFJJVkFURSBLRVktLS0tLQo=";
        for user in bad["users"].as_array_mut().unwrap() {
            user["user"] = json!({"client-certificate-data": "MAA=", "client-key-data": key});
        }
        world.register_as("berlin", &bad.to_string(), json!({})).await;
        let message = world.member_says("berlin", "CredentialsValid", "False").await;
        assert!(message.contains("TLS material cannot be used"), "{message}");
        let member = world.hub.live(&world.member_at("berlin")).await;
        let secret = world.hub.live(&world.registration("berlin")).await;
        for about in [&member, &secret] {
            told_of(&world, about, "KubeconfigInvalid").await;
        }
        world.end().await;
    });
}

#[test]
fn a_registration_without_a_kubeconfig_is_told_to_the_member_and_to_its_secret() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        for (condition, reason) in
            [("CredentialsValid", "Accepted"), ("Reachable", "Answers"), ("IdentityConfirmed", "Confirmed")]
        {
            member_says_why(&world, "berlin", condition, ("True", reason)).await;
        }
        let registration = world.registration("berlin");
        world.hub.merge(&registration, json!({"data": {"kubeconfig": null}})).await;
        let why = ("False", "KubeconfigMissing");
        let message = member_says_why(&world, "berlin", "CredentialsValid", why).await;
        assert!(message.contains("no key \"kubeconfig\""), "{message}");
        member_says_why(&world, "berlin", "Reachable", ("Unknown", "NotTried")).await;
        for at in [world.member_at("berlin"), registration] {
            told_of(&world, &world.hub.live(&at).await, "KubeconfigMissing").await;
        }
        world.register(&["berlin"]).await;
        world.end().await;
    });
}

#[test]
fn a_secret_that_names_no_member_or_one_of_another_secret_is_told_so_and_registers_nothing() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        for (name, member, reason) in
            [("second", "berlin", "AlreadyRegistered"), ("misnamed", "Not_A_Name", "InvalidName")]
        {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": world.settings.namespace,
                    "labels": {"vidra.dev/member-cluster": member}},
                "stringData": {"kubeconfig": world.kubeconfig("tokyo", Who::VidraHub)},
            });
            told_of(&world, &world.hub.create(secret).await, reason).await;
        }
        let members = world.hub.list(&world.member_at("")).await;
        let secrets: Vec<_> =
            members.iter().map(|member| &member["spec"]["kubeconfigSecretRef"]["name"]).collect();
        assert_eq!(secrets, ["berlin"]);
        world.end().await;
    });
}

/// Another Secret that names berlin, with the same credentials, before it is made.
async fn second_of_berlin(world: &World) -> Value {
    let mut second = world.hub.live(&world.registration("berlin")).await;
    second["metadata"] = json!({"name": "second", "namespace": world.settings.namespace,
        "labels": {"vidra.dev/member-cluster": "berlin"}});
    second
}

#[test]
fn a_member_that_has_left_does_not_come_back_by_another_secret_that_names_it() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let second = second_of_berlin(&world).await;
        let second = At::of(&world.hub.create(second).await);
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        for secret in [&second, &world.registration("berlin")] {
            let secret = world.hub.live(secret).await;
            assert!(secret["metadata"]["annotations"]["vidra.dev/left-at"].is_string(), "{secret}");
        }
        world.end().await;
    });
}

/// A label that it lacks would drop targets.
#[test]
fn a_secret_that_says_otherwise_does_not_take_the_place_of_one_that_is_gone_for_a_moment() {
    scenario(async |world| {
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        for name in ["berlin", "tokyo"] {
            world.register_as(name, &world.kubeconfig(name, Who::VidraHub), json!({"env": "prod"})).await;
            world.member_says(name, "Ready", "True").await;
        }
        let spec = json!({"targets": [{"clusterSelector": {"matchLabels": {"env": "prod"}}}]});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        let made = alice.live(&settings).await;
        let second = second_of_berlin(&world).await;
        let at = At::of(&second);
        told_of(&world, &world.hub.create(second).await, "AlreadyRegistered").await;
        world.hub.delete(&world.registration("berlin")).await;
        member_says_why(&world, "berlin", "CredentialsValid", ("False", "SecretMissing")).await;
        let member = world.hub.live(&world.member_at("berlin")).await;
        assert_eq!(member["metadata"]["labels"]["env"], "prod");
        assert_eq!(member["spec"]["kubeconfigSecretRef"]["name"], "berlin");

        // One that is like it takes its place.
        world.hub.merge(&at, json!({"metadata": {"labels": {"env": "prod"}}})).await;
        world.member_says("berlin", "CredentialsValid", "True").await;
        let member = world.hub.live(&world.member_at("berlin")).await;
        assert_eq!(member["spec"]["kubeconfigSecretRef"]["name"], "second");
        world.ready("shop").await;
        assert_eq!(uid(&alice.live(&settings).await), uid(&made), "it was deleted and made again");
        world.end().await;
    });
}

#[test]
fn a_secret_whose_member_has_left_does_not_take_the_place_of_one_that_is_gone_for_a_moment() {
    scenario(async |world| {
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let kubeconfig = world.kubeconfig("berlin", Who::VidraHub);
        world.register_as("berlin", &kubeconfig, json!({"env": "prod"})).await;
        world.member_says("berlin", "Ready", "True").await;
        let left = world.hub.live(&world.registration("berlin")).await;
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;

        // It joins again by another Secret.
        let mut second = left.clone();
        let name = format!("{}-2", left["metadata"]["name"].as_str().unwrap());
        second["metadata"] = json!({"name": name, "namespace": left["metadata"]["namespace"], "labels": {
            "vidra.dev/member-cluster": left["metadata"]["labels"]["vidra.dev/member-cluster"], "env": "prod"}});
        let at = At::of(&world.hub.create(second.clone()).await);
        world.member_says("berlin", "Ready", "True").await;
        let targets = json!({"targets": [{"clusterSelector": {"matchLabels": {"env": "prod"}}}]});
        world.deliver_with("shop", &config_map("settings", "one"), targets).await;
        world.ready("shop").await;
        let made = alice.live(&settings).await;

        world.hub.delete(&at).await;
        let message = world.member_says("berlin", "CredentialsValid", "False").await;
        assert!(message.contains(&name), "{message}");
        let member = world.hub.live(&world.member_at("berlin")).await;
        assert_eq!(member["spec"]["kubeconfigSecretRef"]["name"], *name, "{member}");
        world.hub.create(second).await;
        world.ready("shop").await;
        assert_eq!(uid(&alice.live(&settings).await), uid(&made));
        world.end().await;
    });
}
