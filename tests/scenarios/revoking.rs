//! A member that does not allow a namespace any more: what is there stays, unless its administrator says otherwise.

use serde_json::{Value, json};
use testkit::world::{At, SOON, Who, World, wait_for};
use vidra_api::{TargetState, labels::APPROVE_REMOVAL};

use crate::{config_map, marks, says, scenario, uid};

/// Delivers to every member.
async fn everywhere(world: &World, name: &str, manifest: &str) {
    world.deliver_with(name, manifest, json!({"targets": [{"clusterSelector": {}}]})).await;
}

async fn change(world: &World, member: &str, spec: Value) {
    world.hub.merge(&world.member_at(member), json!({"spec": spec})).await;
}

async fn is_revoked(world: &World, name: &str, cluster: &str) -> String {
    world.target_is(name, cluster, TargetState::Suspended, "NamespaceNotAllowed").await
}

async fn approve(world: &World, member: &str, hash: &str) {
    let approval = json!({"metadata": {"annotations": {APPROVE_REMOVAL: hash}}});
    world.hub.merge(&world.member_at(member), approval).await;
}

/// What approves the removal that a member's onRevoke is held with, once it takes so many targets.
async fn held(world: &World, member: &str, targets: &str) -> String {
    wait_for(&format!("{member} holds {targets}"), SOON, async || {
        let message = world.member_says(member, "Stalled", "True").await;
        match message.rsplit_once(&format!("{APPROVE_REMOVAL}=")) {
            Some((before, hash)) if before.contains(targets) => Ok(hash.to_owned()),
            _ => Err(message),
        }
    })
    .await
}

async fn holds_nothing(world: &World, member: &str) {
    wait_for(&format!("{member} holds nothing and keeps no approval"), SOON, async || {
        let member = world.hub.live(&world.member_at(member)).await;
        let (conditions, annotations) =
            (member["status"]["conditions"].to_string(), &member["metadata"]["annotations"]);
        let is_so = !conditions.contains("Stalled") && annotations[APPROVE_REMOVAL].is_null();
        if is_so { Ok(()) } else { Err(format!("{annotations} {conditions}")) }
    })
    .await;
}

#[test]
fn what_is_where_a_namespace_is_not_allowed_any_more_stays_and_goes_on_when_it_is_again() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let settings = At::config_map(&world.ns, "settings");
        let manifest = |value: &str| config_map("settings", value) + &config_map(value, "");
        everywhere(&world, "shop", &manifest("one")).await;
        world.ready("shop").await;
        let made = berlin.live(&settings).await;

        change(&world, "berlin", json!({"allowedNamespaces": ["others"]})).await;
        let message = is_revoked(&world, "shop", "berlin").await;
        assert!(message.contains(&world.ns) && message.contains("allowedNamespaces"), "{message}");
        let mark = world.mark();
        berlin.merge(&settings, json!({"data": {"key": "evil"}})).await;
        everywhere(&world, "shop", &manifest("two")).await;
        tokyo.when(&settings, "delivered", says("two")).await;
        // It holds up nobody, and a new process sees it so.
        world.ready("shop").await;
        world.restart_hub().await;
        everywhere(&world, "later", &config_map("later", "one")).await;
        world.ready("later").await;
        assert!(world.target("later", "berlin").await.is_none());
        is_revoked(&world, "shop", "berlin").await;
        let left = berlin.live(&settings).await;
        assert_eq!((uid(&left), marks(&left)), (uid(&made), marks(&made)));
        berlin.live(&At::config_map(&world.ns, "one")).await;
        assert_eq!(world.writes("berlin", &mark), []);

        change(&world, "berlin", json!({"allowedNamespaces": null})).await;
        let live = berlin.when(&settings, "up to date", says("two")).await;
        assert_eq!(uid(&live), uid(&made));
        berlin.gone(&At::config_map(&world.ns, "one")).await;
        world.ready("shop").await;
        world.ready("later").await;
        world.end().await;
    });
}

#[test]
fn what_on_revoke_takes_of_a_member_is_held_until_exactly_that_is_approved() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let names = ["a", "b", "c"];
        for name in names {
            everywhere(&world, name, &config_map(name, "one")).await;
            world.ready(name).await;
        }
        let ns = world.ns.clone();
        let at = |name: &str| At::config_map(&ns, name);
        let mark = world.mark();
        change(&world, "berlin", json!({"allowedNamespaces": ["others"], "onRevoke": "Orphan"})).await;
        let for_orphaning = held(&world, "berlin", "Orphan would take 3 of 3").await;
        let revoked = json!({"allowedNamespaces": ["others"], "onRevoke": "Delete"});
        change(&world, "berlin", revoked.clone()).await;
        let hash = held(&world, "berlin", "Delete would take 3 of 3").await;
        assert_ne!(hash, for_orphaning, "who lets objects go has not approved that they are deleted");
        approve(&world, "berlin", "0123456789").await;
        world.restart_hub().await;
        everywhere(&world, "marker", &config_map("marker", "one")).await;
        world.ready("marker").await;
        for name in names {
            is_revoked(&world, name, "berlin").await;
            world.ready(name).await;
            berlin.live(&at(name)).await;
        }
        assert_eq!(world.writes("berlin", &mark), []);

        assert_eq!(held(&world, "berlin", "3 of 3").await, hash);
        approve(&world, "berlin", &hash).await;
        for name in names {
            berlin.gone(&at(name)).await;
            world.hub.gone(&world.target_at(name, "berlin")).await;
            world.ready(name).await;
            tokyo.live(&at(name)).await;
        }
        holds_nothing(&world, "berlin").await;

        // Allowed and revoked again; a GitOps tool has put the annotation back.
        change(&world, "berlin", json!({"allowedNamespaces": null})).await;
        for name in names {
            berlin.when(&at(name), "delivered again", |_| true).await;
            world.ready(name).await;
        }
        approve(&world, "berlin", &hash).await;
        change(&world, "berlin", revoked).await;
        assert_ne!(held(&world, "berlin", "4 of 4").await, hash);
        change(&world, "berlin", json!({"onRevoke": "Keep"})).await;
        for name in names {
            is_revoked(&world, name, "berlin").await;
            berlin.live(&at(name)).await;
        }
        world.end().await;
    });
}

#[test]
fn whoever_declares_may_delete_and_deselect_where_the_namespace_is_not_allowed_any_more() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let at = |name: &str| At::config_map(&world.ns, name);
        for name in ["gone", "left", "kept"] {
            everywhere(&world, name, &(config_map(name, "one") + &config_map("shared", "one"))).await;
            world.ready(name).await;
        }
        change(&world, "berlin", json!({"allowedNamespaces": [], "onRevoke": "Orphan"})).await;
        held(&world, "berlin", "3 of 3").await;
        world.remove("gone").await;
        let spec = json!({"targets": [{"clusterSelector": {}}], "excludeClusters": ["berlin"]});
        world.deliver_with("left", &config_map("left", "one"), spec).await;
        world.hub.gone(&world.target_at("left", "berlin")).await;
        world.ready("left").await;
        for name in ["gone", "left"] {
            berlin.gone(&at(name)).await;
        }
        tokyo.gone(&at("gone")).await;
        // Neither waits for one that is at rest, nor takes what that has.
        is_revoked(&world, "kept", "berlin").await;
        berlin.live(&at("shared")).await;
        berlin.live(&at("kept")).await;
        world.remove("kept").await;
        berlin.gone(&at("shared")).await;
        holds_nothing(&world, "berlin").await;
        world.end().await;
    });
}

#[test]
fn what_one_word_lets_go_another_on_revoke_does_not_delete_unasked() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let berlin = world.alice("berlin").await;
        everywhere(&world, "shop", &config_map("settings", "one")).await;
        world.ready("shop").await;
        let settings = At::config_map(&world.ns, "settings");
        let made = berlin.live(&settings).await;
        let frozen = world.freeze("berlin");
        world.member_says("berlin", "Reachable", "False").await;
        change(&world, "berlin", json!({"allowedNamespaces": [], "onRevoke": "Orphan"})).await;
        let hash = held(&world, "berlin", "1 of 1").await;
        approve(&world, "berlin", &hash).await;
        let target = world.target_at("shop", "berlin");
        world.hub.when(&target, "let go", |live| live["spec"]["desired"] == "Orphaned").await;
        change(&world, "berlin", json!({"onRevoke": "Delete"})).await;
        world.hub.when(&target, "recalled", |live| live["spec"]["desired"] == "Present").await;
        drop(frozen);
        is_revoked(&world, "shop", "berlin").await;
        assert_eq!(uid(&berlin.live(&settings).await), uid(&made));
        wait_for("it goes by the word that is told now", SOON, async || {
            if berlin.get(&settings).await.is_none() {
                return Ok(());
            }
            let status = world.member("berlin").await.and_then(|member| member.status).unwrap_or_default();
            let told = vidra_api::find(&status.conditions, "Stalled").map(|told| told.message.clone());
            if let Some((_, other)) =
                told.as_deref().and_then(|told| told.rsplit_once(&format!("{APPROVE_REMOVAL}=")))
            {
                assert_ne!(hash, other);
                approve(&world, "berlin", other).await;
            }
            Err(format!("{told:?}"))
        })
        .await;
        world.end().await;
    });
}

#[test]
fn a_member_leaves_by_its_on_leave_while_what_its_on_revoke_takes_is_held() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let berlin = world.alice("berlin").await;
        everywhere(&world, "shop", &config_map("settings", "one")).await;
        world.ready("shop").await;
        change(&world, "berlin", json!({"allowedNamespaces": [], "onRevoke": "Delete"})).await;
        held(&world, "berlin", "1 of 1").await;
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        let settings = At::config_map(&world.ns, "settings");
        let left = berlin.live(&settings).await;
        assert!(says("one")(&left) && marks(&left).is_empty(), "{left}");
        world.ready("shop").await;
        berlin.delete(&settings).await;
        world.end().await;
    });
}

/// A VidraResource of another namespace is delivered to berlin: that namespace, and where it is declared.
async fn beside(world: &World) -> (String, At) {
    let more = format!("{}-more", world.ns);
    world.hub.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": more}})).await;
    let beside = json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "beside", "namespace": more},
        "spec": {"targets": [{"clusterNames": ["berlin"]}], "manifest": config_map("beside", "one")},
    });
    let at = At::of(&world.hub.create(beside).await);
    world.hub.when(&at, "Ready", |live| live["status"]["targetsReady"] == "1/1").await;
    (more, at)
}

#[test]
fn a_small_part_of_a_members_targets_goes_by_its_on_revoke_unasked() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let (berlin, tokyo) = (world.alice("berlin").await, world.alice("tokyo").await);
        let (more, at) = beside(&world).await;
        everywhere(&world, "shop", &config_map("settings", "one")).await;
        world.ready("shop").await;

        change(&world, "berlin", json!({"allowedNamespaces": [more], "onRevoke": "Orphan"})).await;
        let settings = At::config_map(&world.ns, "settings");
        let left = berlin.when(&settings, "let go", |live| marks(live).is_empty()).await;
        assert!(says("one")(&left), "{left}");
        world.hub.gone(&world.target_at("shop", "berlin")).await;
        world.ready("shop").await;
        assert!(!marks(&tokyo.live(&settings).await).is_empty());
        holds_nothing(&world, "berlin").await;
        world.hub.delete(&at).await;
        world.hub.gone(&at).await;
        berlin.delete(&settings).await;
        world.end().await;
    });
}

#[test]
fn members_that_say_nothing_allow_what_the_setting_says_and_lose_nothing_by_it() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let berlin = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        everywhere(&world, "shop", &config_map("settings", "one")).await;
        world.ready("shop").await;
        let made = berlin.live(&settings).await;
        change(&world, "berlin", json!({"onRevoke": "Delete"})).await;
        change(&world, "tokyo", json!({"allowedNamespaces": [world.ns]})).await;
        crate::settings::set(&world, json!({"defaultAllowedNamespaces": "others"})).await;
        is_revoked(&world, "shop", "berlin").await;
        everywhere(&world, "shop", &config_map("settings", "two")).await;
        world.ready("shop").await;

        // Without the ConfigMap it holds on.
        world.hub.delete(&crate::settings::settings_at(&world)).await;
        everywhere(&world, "later", &config_map("later", "one")).await;
        world.ready("later").await;
        is_revoked(&world, "shop", "berlin").await;
        assert_eq!(uid(&berlin.live(&settings).await), uid(&made));

        let both = format!("others, {}", world.ns);
        crate::settings::set(&world, json!({"defaultAllowedNamespaces": both})).await;
        assert_eq!(uid(&berlin.when(&settings, "up to date", says("two")).await), uid(&made));
        world.restart_hub().await;
        world.ready("later").await;
        world.hub.delete(&crate::settings::settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn a_registration_says_once_which_namespaces_its_member_allows() {
    scenario(async |world| {
        for (name, allowed) in [("berlin", "others, more"), ("tokyo", "Not_A_Name")] {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "name": name, "namespace": world.settings.namespace,
                    "labels": {"vidra.dev/member-cluster": name},
                    "annotations": {"vidra.dev/allowed-namespaces": allowed},
                },
                "stringData": {"kubeconfig": world.kubeconfig(name, Who::VidraHub)},
            });
            world.hub.apply(&secret, true).await.expect("the Secret is taken");
            world.member_says(name, "Ready", "True").await;
        }
        let allowed = async |name: &str| world.member(name).await.unwrap().spec.allowed_namespaces;
        assert_eq!(allowed("berlin").await, Some(vec!["more".to_owned(), "others".to_owned()]));
        // What cannot be read allows nobody.
        assert_eq!(allowed("tokyo").await, Some(Vec::new()));
        wait_for("it is told", SOON, async || {
            let all = world.hub.list(&At::new("events.k8s.io/v1", "Event", "", "")).await;
            let told = all.iter().any(|event| {
                event["reason"] == "AllowedNamespacesInvalid" && event["regarding"]["name"] == "tokyo"
            });
            if told { Ok(()) } else { Err(format!("{} others", all.len())) }
        })
        .await;

        // Later the MemberCluster alone counts, whatever else the Secret asks for.
        let label = json!({"metadata": {"labels": {"env": "prod"},
            "annotations": {"vidra.dev/allowed-namespaces": "others"}}});
        change(&world, "tokyo", json!({"allowedNamespaces": [world.ns]})).await;
        for (name, kept) in
            [("berlin", vec!["more".to_owned(), "others".to_owned()]), ("tokyo", vec![world.ns.clone()])]
        {
            world.hub.merge(&world.registration(name), label.clone()).await;
            let is_labelled = |live: &Value| live["metadata"]["labels"]["env"] == "prod";
            world.hub.when(&world.member_at(name), "labelled", is_labelled).await;
            assert_eq!(allowed(name).await, Some(kept), "{name}");
        }
        world.end().await;
    });
}

#[test]
fn a_target_that_rests_where_its_namespace_is_not_allowed_holds_up_nobody_after_a_restart_and_new_credentials()
 {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let berlin = world.alice("berlin").await;
        let (more, declared) = beside(&world).await;
        everywhere(&world, "shop", &config_map("settings", "one")).await;
        world.ready("shop").await;
        change(&world, "berlin", json!({"allowedNamespaces": [more]})).await;
        is_revoked(&world, "shop", "berlin").await;

        let at = At::config_map(&more, "beside");
        for rotated in [false, true] {
            match rotated {
                false => world.restart_hub().await,
                true => {
                    let kubeconfig = world.kubeconfig("berlin", Who::Admin);
                    world.register_as("berlin", &kubeconfig, json!({})).await;
                }
            }
            berlin.merge(&at, json!({"data": {"key": "evil"}})).await;
            berlin.when(&at, "repaired", says("one")).await;
        }
        world.hub.delete(&declared).await;
        world.hub.gone(&declared).await;
        world.end().await;
    });
}
