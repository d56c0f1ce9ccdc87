//! Members that allow less than everything: chosen namespaces only, or looking only. The rights are those of
//! `clusters/`, to the letter.

use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, Who, World, wait_for};
use vidra_api::{DriftState, TargetState, VidraTargetStatus};

use crate::{config_map, config_map_in, object, says, scenario, uid};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The documents of a manifest of `clusters/`.
fn manifest(file: &str) -> Vec<Value> {
    let path = format!("{}/clusters/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_manifests_of_members_agree_on_kinds_and_the_one_for_looking_writes_nothing() {
    let rules = |file: &str| -> Vec<(Value, Value, Value)> {
        let all = manifest(file);
        let rules = all.iter().filter_map(|one| one["rules"].as_array()).flatten();
        // What is delivered is watched; what the hub reads beside it is not.
        let is_watched =
            |rule: &&Value| rule["verbs"].as_array().is_some_and(|verbs| verbs.contains(&json!("watch")));
        let of_kinds = rules.filter(is_watched);
        let of_kinds = of_kinds
            .map(|rule| (rule["apiGroups"].clone(), rule["resources"].clone(), rule["verbs"].clone()));
        of_kinds.collect()
    };
    let usual = rules("member-kinds.yaml");
    assert_eq!(usual.len(), 6);
    assert_eq!(rules("member-namespaces.yaml"), usual);
    let report = rules("member-report.yaml");
    assert!(report.iter().all(|(_, _, verbs)| *verbs == json!(["get", "list", "watch"])), "{report:?}");
    let kinds = |rules: &[(Value, Value, Value)]| {
        rules.iter().map(|(groups, kinds, _)| (groups.clone(), kinds.clone())).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&report), kinds(&usual));
}

/// Gives the limited identity what a manifest of `clusters/` gives the hub, `namespace` in place of the chosen one.
/// Returns what to take away in the end: users' rights outlive a scenario.
async fn give(world: &World, admin: &Access, file: &str, namespace: &str) -> Vec<At> {
    let name = format!("{}-{}", world.ns, file.trim_end_matches(".yaml"));
    let mut given = Vec::new();
    for mut document in manifest(file) {
        if !document["apiVersion"].as_str().unwrap().starts_with(RBAC) {
            continue;
        }
        document["metadata"]["name"] = name.as_str().into();
        if document["metadata"]["namespace"] == "shop" {
            document["metadata"]["namespace"] = namespace.into();
        }
        if document["roleRef"].is_object() {
            document["roleRef"]["name"] = name.as_str().into();
            document["subjects"] = json!([{"apiGroup": RBAC, "kind": "User", "name": "limited"}]);
        }
        given.push(At::of(&document));
        admin.create(document).await;
    }
    let limited = world.cluster("tokyo", Who::Limited).await;
    wait_for("the rights are there", SOON, async || {
        limited.try_list(&At::config_map(namespace, "")).await.map_err(|refused| refused.to_string())
    })
    .await;
    given
}

async fn take_back(admin: &Access, given: &[At]) {
    for at in given {
        admin.delete(at).await;
    }
}

async fn informers(world: &World, count: f64) {
    wait_for(&format!("{count} informers"), SOON, async || {
        let now = world.metric("vidra_informers{cluster=\"tokyo\"}");
        if now == count { Ok(()) } else { Err(format!("{now}")) }
    })
    .await;
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[test]
fn with_rights_in_chosen_namespaces_all_goes_well_there_and_nothing_elsewhere() {
    scenario(async |world| {
        let admin = world.cluster("tokyo", Who::Admin).await;
        let other = format!("{}-other", world.ns);
        admin.create(namespace(&world.ns)).await;
        admin.create(namespace(&other)).await;
        let given = give(&world, &admin, "member-namespaces.yaml", &world.ns).await;
        let mark = world.mark();
        world.register_as("tokyo", &world.kubeconfig("tokyo", Who::Limited), json!({})).await;
        world.member_says("tokyo", "Ready", "True").await;

        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
            "stringData": {"key": "one"}});
        let all = config_map("settings", "one") + &config_map("more", "one") + &object(&secret);
        world.deliver("shop", &["tokyo"], &all).await;
        world.ready("shop").await;
        let (settings, more) = (At::config_map(&world.ns, "settings"), At::config_map(&world.ns, "more"));
        let made = admin.live(&settings).await;

        // Watched, namespace by namespace: an edit and a deletion are repaired at once.
        informers(&world, 2.0).await;
        admin.merge(&settings, json!({"data": {"key": "evil"}})).await;
        admin.when(&settings, "as declared", says("one")).await;
        assert_eq!(uid(&admin.live(&settings).await), uid(&made));
        admin.delete(&settings).await;
        admin.when(&settings, "made again", says("one")).await;

        // Dropped: pruned.
        world.deliver("shop", &["tokyo"], &(config_map("settings", "two") + &object(&secret))).await;
        admin.gone(&more).await;
        world.ready("shop").await;

        // What lies elsewhere is refused in words that name it, and keeps nothing else back.
        let stray = config_map_in(&other, "stray", "one");
        world.deliver("both", &["tokyo"], &(config_map("beside", "one") + &object(&stray))).await;
        let message = world.target_is("both", "tokyo", TargetState::Failed, "CannotWatch").await;
        for word in [&*other, "ConfigMap", "list and watch", "member-namespaces.yaml"] {
            assert!(message.contains(word), "{word}: {message}");
        }
        let beside = At::config_map(&world.ns, "beside");
        admin.when(&beside, "delivered", says("one")).await;
        admin.merge(&beside, json!({"data": {"key": "evil"}})).await;
        admin.when(&beside, "as declared", says("one")).await;
        assert!(admin.get(&At::config_map(&other, "stray")).await.is_none());
        // So is what has no namespace.
        let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": format!("{}-reader", world.ns)}, "rules": []});
        world.deliver("wide", &["tokyo"], &(config_map("wide", "one") + &object(&role))).await;
        let message = world.target_is("wide", "tokyo", TargetState::Failed, "CannotWatch").await;
        assert!(message.contains("ClusterRole"), "{message}");
        admin.when(&At::config_map(&world.ns, "wide"), "delivered", says("one")).await;

        // Rights that come later are found by themselves.
        let more_given = give_again(&world, &admin, &other).await;
        world.look("both", "now", 1).await;
        admin.when(&At::config_map(&other, "stray"), "delivered", says("one")).await;
        world.ready("both").await;

        let requests = world.requests_by(Who::Limited, "tokyo", &mark);
        let refused: Vec<_> = requests
            .iter()
            .filter(|one| one.code == 403 && !matches!(one.verb.as_str(), "list" | "watch" | "get"))
            .collect();
        assert!(refused.is_empty(), "nothing is tried where nothing can be seen: {refused:?}");

        for name in ["shop", "both", "wide"] {
            world.remove(name).await;
        }
        informers(&world, 0.0).await;
        for at in [&settings, &beside, &At::config_map(&other, "stray")] {
            assert!(admin.get(at).await.is_none(), "{at}");
        }
        take_back(&admin, &given).await;
        take_back(&admin, &more_given).await;
        world.end().await;
    });
}

/// The Role and its binding once more, for another namespace.
async fn give_again(world: &World, admin: &Access, namespace: &str) -> Vec<At> {
    let name = format!("{}-member-namespaces", world.ns);
    let mut given = Vec::new();
    for kind in ["Role", "RoleBinding"] {
        let mut copy = admin.live(&At::new(&format!("{RBAC}/v1"), kind, &world.ns, &name)).await;
        copy["metadata"] = json!({"name": name, "namespace": namespace});
        given.push(At::of(&copy));
        admin.create(copy).await;
    }
    given
}

#[test]
fn with_rights_to_look_only_nothing_is_written_and_what_differs_is_said() {
    scenario(async |world| {
        let admin = world.cluster("tokyo", Who::Admin).await;
        world.register(&["tokyo"]).await;
        world.deliver("shop", &["tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let given = give(&world, &admin, "member-report.yaml", &world.ns).await;
        world.register_as("tokyo", &world.kubeconfig("tokyo", Who::Limited), json!({})).await;
        let mark = world.mark();
        let limited = async || {
            let requests = world.requests_by(Who::Limited, "tokyo", &mark);
            match requests.iter().any(|one| one.verb == "watch" && one.resource == "configmaps") {
                true => Ok(()),
                false => Err(format!("{requests:?}")),
            }
        };
        wait_for("the new credentials are used", SOON, limited).await;
        world.ready("shop").await;

        let settings = At::config_map(&world.ns, "settings");
        admin.merge(&settings, json!({"data": {"key": "evil"}})).await;
        let message = world.target_is("shop", "tokyo", TargetState::Failed, "Forbidden").await;
        assert!(message.contains("settings") && message.contains("grant"), "{message}");
        assert!(says("evil")(&admin.live(&settings).await), "nothing was written");
        admin.merge(&settings, json!({"data": {"key": "one"}})).await;
        world.look("shop", "again", 1).await;
        world.ready("shop").await;

        // Under the policy that reports nothing is missed: what differs is told, and nothing is tried.
        let spec = json!({"targets": [{"clusterNames": ["tokyo"]}], "drift": {"policy": "Report"}});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        let mark = world.mark();
        admin.merge(&settings, json!({"data": {"key": "evil"}})).await;
        let told = |status: &VidraTargetStatus| {
            status.drift == Some(DriftState::Drifted) && status.state == Some(TargetState::Ready)
        };
        world.target_when("shop", "tokyo", "Ready, Drifted", told).await;
        world.look("shop", "reported", 1).await;
        let refused: Vec<_> = world
            .requests_by(Who::Limited, "tokyo", &mark)
            .into_iter()
            .filter(|one| one.code >= 400)
            .collect();
        assert_eq!(refused, []);
        assert!(says("evil")(&admin.live(&settings).await), "nothing was written");

        // To take it away needs the rights.
        world.register_as("tokyo", &world.kubeconfig("tokyo", Who::VidraHub), json!({})).await;
        world.remove("shop").await;
        take_back(&admin, &given).await;
        world.end().await;
    });
}

#[test]
fn an_inventory_that_is_lost_where_not_everything_can_be_listed_is_not_taken_for_an_empty_one() {
    scenario(async |mut world| {
        let admin = world.cluster("tokyo", Who::Admin).await;
        admin.create(namespace(&world.ns)).await;
        let given = give(&world, &admin, "member-namespaces.yaml", &world.ns).await;
        world.register_as("tokyo", &world.kubeconfig("tokyo", Who::Limited), json!({})).await;
        world.member_says("tokyo", "Ready", "True").await;
        world.deliver("shop", &["tokyo"], &(config_map("kept", "one") + &config_map("dropped", "one"))).await;
        world.ready("shop").await;

        world.stop_hub().await;
        let inventories = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "");
        for inventory in world.hub.list(&inventories).await {
            let at = At::of(&inventory);
            world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
            world.hub.delete(&at).await;
            world.hub.gone(&at).await;
        }
        world.deliver("shop", &["tokyo"], &(config_map("kept", "one") + &config_map("new", "one"))).await;
        let mark = world.mark();
        world.start_hub().await;
        let message = world.target_is("shop", "tokyo", TargetState::Failed, "InventoryMissing").await;
        assert!(message.contains("forbidden") && message.contains("prunes nothing"), "{message}");
        let kept = At::config_map(&world.ns, "kept");
        admin.merge(&kept, json!({"data": {"key": "evil"}})).await;
        admin.when(&kept, "as declared", says("one")).await;
        for (name, is_there) in [("dropped", true), ("new", false)] {
            assert_eq!(admin.get(&At::config_map(&world.ns, name)).await.is_some(), is_there, "{name}");
        }
        let by_limited = world.requests_by(Who::Limited, "tokyo", &mark);
        assert!(by_limited.iter().all(|one| one.verb != "delete"), "{by_limited:?}");

        // With rights to list everything it is found again.
        world.register_as("tokyo", &world.kubeconfig("tokyo", Who::VidraHub), json!({})).await;
        admin.gone(&At::config_map(&world.ns, "dropped")).await;
        world.ready("shop").await;
        take_back(&admin, &given).await;
        world.remove("shop").await;
        world.end().await;
    });
}

#[test]
fn a_namespace_that_is_missing_and_is_not_to_be_made_is_told_until_somebody_makes_it() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "createNamespaces": false});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "NamespaceMissing").await;
        assert!(message.contains(&world.ns) && message.contains("createNamespaces: true"), "{message}");
        world.alice("berlin").await.create(namespace(&world.ns)).await;
        world.look("shop", "made", 1).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_namespace_that_is_missing_is_made_once_and_fails_nothing_of_what_goes_into_it() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let mark = world.mark();
        let names =
            |prefix: &str| -> Vec<String> { (0..12).map(|index| format!("{prefix}-{index}")).collect() };
        for shop in ["one", "two"] {
            let all: String = names(shop).iter().map(|name| config_map(name, "one")).collect();
            world.deliver(shop, &["berlin"], &all).await;
        }
        for shop in ["one", "two"] {
            world.ready(shop).await;
            for name in names(shop) {
                let calls = world.requests_for(&At::config_map(&world.ns, &name), "berlin", &mark);
                let codes: Vec<u64> = calls.iter().map(|call| call.code).collect();
                assert!(matches!(codes[..], [201] | [404, 201]), "{name}: {codes:?}");
            }
        }
        let mut made = world.writes("berlin", &mark);
        made.retain(|call| call.resource == "namespaces");
        assert_eq!(made.iter().map(|call| call.code).collect::<Vec<_>>(), [201], "{made:?}");
        let events =
            world.cluster("hub", Who::Admin).await.list(&At::new("v1", "Event", &world.ns, "")).await;
        let warnings: Vec<_> = events.iter().filter(|event| event["type"] == "Warning").collect();
        assert!(warnings.is_empty(), "{warnings:#?}");
        world.end().await;
    });
}
