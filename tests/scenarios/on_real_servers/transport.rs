//! What the way to a member does to connections: a TCP proxy before the real server, in real time. On real servers
//! only: memory has no sockets, and its faults are those of whole calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::{
    proxy::{Conduct, Proxy},
    testbed::Request,
    world::{At, LONG, Mark, SOON, Who, World, wait_for},
};
use tokio::time::{Duration, Instant};
use vidra_api::{TargetState, VidraTargetStatus};

use super::scenario;
use crate::{
    config_map, says,
    settings::{said, set, settings_at},
};

/// More than a connection that bears no watch carries in a moment.
const BULK: usize = 100_000;

/// Registers a member behind a proxy of its own, and waits until it is ready.
async fn behind(world: &World, member: &str) -> Proxy {
    let mut kubeconfig: Value = serde_saphyr::from_str(&world.kubeconfig(member, Who::VidraHub)).unwrap();
    let server = &mut kubeconfig["clusters"][0]["cluster"]["server"];
    let address = server.as_str().and_then(|url| url.strip_prefix("https://")).unwrap().parse().unwrap();
    let proxy = Proxy::start(address).await.unwrap();
    *server = proxy.url().into();
    world.register_as(member, &kubeconfig.to_string(), json!({})).await;
    world.member_says(member, "Ready", "True").await;
    proxy
}

/// The hub's deletions in a member.
fn deletions(world: &World, member: &str, since: &Mark) -> Vec<Request> {
    world.writes(member, since).into_iter().filter(|write| write.verb.starts_with("delete")).collect()
}

/// How much each connection has carried since.
fn carried(proxy: &Proxy, since: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let now = proxy.open().into_iter();
    now.map(|(number, bytes)| (number, bytes - since.get(&number).unwrap_or(&0))).collect()
}

#[test]
fn an_edit_behind_a_half_open_watch_is_seen_when_its_connection_is_found_dead() {
    scenario(async |world| {
        let proxy = behind(&world, "berlin").await;
        world
            .deliver("shop", &["berlin"], &(config_map("settings", "one") + &config_map("other", "one")))
            .await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));

        // The connection that bears the watch is the one on which a large event comes; the hub asks nothing for it,
        // because the value is not one that it declares.
        let before = proxy.open();
        alice.merge(&settings, json!({"data": {"bulk": "x".repeat(BULK)}})).await;
        let watching = wait_for("an event comes", SOON, async || {
            let carried = carried(&proxy, &before);
            let large = carried.iter().find(|(_, bytes)| **bytes as usize >= BULK);
            large.map(|(number, _)| *number).ok_or_else(|| format!("{carried:?}"))
        })
        .await;
        let mark = world.mark();
        proxy.set_one(watching, Conduct::Silent);
        let began = Instant::now();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        wait_for("the edit is repaired", LONG, async || match alice.live(&settings).await {
            live if says("one")(&live) => Ok(()),
            live => Err(live["data"]["key"].to_string()),
        })
        .await;
        // Nobody could have known at once; and it took one call, to the object that was edited.
        assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
        // A server records a call when its answer is sent, which alice may see before.
        let writes = wait_for("the repair is recorded", SOON, async || {
            Some(world.writes("berlin", &mark))
                .filter(|writes| !writes.is_empty())
                .ok_or_else(|| "no write".to_owned())
        })
        .await;
        assert!(matches!(&writes[..], [one] if one.verb == "patch" && one.name == "settings"), "{writes:?}");
        assert!(proxy.open().contains_key(&watching), "the connection is as it was: nobody closed it");
        world.target_is("shop", "berlin", TargetState::Ready, "Ready").await;
        proxy.set(Conduct::Pass);
        world.end().await;
        proxy.stop().await;
    });
}

#[test]
fn a_member_whose_connections_are_silent_lead_nowhere_or_are_garbled_is_unknown_and_loses_nothing() {
    scenario(async |world| {
        let proxy = behind(&world, "berlin").await;
        let (one, other) = (At::config_map(&world.ns, "settings"), At::config_map(&world.ns, "other"));
        let both = |value: &str| config_map("settings", value) + &config_map("other", value);
        world.deliver("shop", &["berlin"], &both("first")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let mark = world.mark();
        for (conduct, value) in
            [(Conduct::Silent, "second"), (Conduct::Vanished, "third"), (Conduct::Garble, "fourth")]
        {
            proxy.set(conduct);
            let message = world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
            assert!(message.contains("out of reach since"), "{message}");
            world.member_says("berlin", "Reachable", "False").await;
            // What changes meanwhile, on either side, is dealt with when it is over.
            world.deliver("shop", &["berlin"], &both(value)).await;
            alice.delete(&other).await;
            proxy.set(Conduct::Pass);
            // Until then the hub looks again after pauses that grow.
            world.target_is("shop", "berlin", TargetState::Ready, "Ready").await;
            world.ready("shop").await;
            for at in [&one, &other] {
                assert!(says(value)(&alice.live(at).await), "{conduct:?}");
            }
            world.member_says("berlin", "Reachable", "True").await;
        }
        assert_eq!(deletions(&world, "berlin", &mark), []);
        world.end().await;
        proxy.stop().await;
    });
}

#[test]
fn a_member_whose_answers_drip_is_given_up_and_the_others_are_changed_before_that() {
    scenario(async |world| {
        let proxy = behind(&world, "berlin").await;
        world.register(&["tokyo", "austin"]).await;
        let (all, settings) = (["berlin", "tokyo", "austin"], At::config_map(&world.ns, "settings"));
        world.deliver("shop", &all, &config_map("settings", "one")).await;
        world.ready("shop").await;
        // Sooner than the connection's own pings find out.
        set(&world, json!({"apply.timeout": "3s", "nothing": "a word that tells when it is read"})).await;
        said(&world, "SettingUnknown").await;
        let mark = world.mark();

        let before = proxy.open();
        proxy.set(Conduct::Drip);
        let began = Instant::now();
        world.deliver("shop", &all, &config_map("settings", "two")).await;
        for name in ["tokyo", "austin"] {
            world.alice(name).await.when(&settings, "the change", says("two")).await;
            world.target_is("shop", name, TargetState::Ready, "Ready").await;
        }
        let others = began.elapsed();
        // They did not wait until the hub had given the first up, which takes several time-outs.
        let first = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_ne!(first.state, Some(TargetState::Unknown), "after {others:?}");
        let late = |status: &VidraTargetStatus| {
            status.message.as_ref().is_some_and(|message| message.contains("no answer within 3 s"))
        };
        world.target_when("shop", "berlin", "the deadline of its calls has passed", late).await;
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        world.member_says("berlin", "Reachable", "False").await;
        let dripped: u64 = carried(&proxy, &before).values().sum();
        assert!(dripped > 0, "answers came, if slowly");

        proxy.set(Conduct::Pass);
        world.target_is("shop", "berlin", TargetState::Ready, "Ready").await;
        world.ready("shop").await;
        assert!(says("two")(&world.alice("berlin").await.live(&settings).await));
        assert_eq!(deletions(&world, "berlin", &mark), []);
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
        proxy.stop().await;
    });
}

#[test]
fn a_list_that_breaks_in_its_middle_is_read_again_and_shows_nothing_to_be_gone() {
    scenario(async |mut world| {
        let proxy = behind(&world, "berlin").await;
        let filler = "x".repeat(8_000);
        let maps: String = (0..60).map(|number| config_map(&format!("map-{number:02}"), &filler)).collect();
        world.deliver("shop", &["berlin"], &maps).await;
        world.ready("shop").await;
        world.stop_hub().await;

        // Room enough for discovery, not for the list.
        let mark = world.mark();
        proxy.set(Conduct::Cut(300_000));
        world.start_hub().await;
        wait_for("the list breaks, more than once", LONG, async || match proxy.cuts() {
            cuts if cuts > 2 => Ok(()),
            cuts => Err(cuts.to_string()),
        })
        .await;
        let lists = |world: &World| {
            let requests = world.requests("berlin", &mark).into_iter();
            requests.filter(|one| one.verb == "list" && one.resource == "configmaps").count()
        };
        assert!(lists(&world) > 1, "it is read again");
        assert_eq!(world.metric("vidra_informers_synced{cluster=\"berlin\"}"), 0.0);
        assert_eq!(world.writes("berlin", &mark), []);

        proxy.set(Conduct::Pass);
        wait_for("the list is read", LONG, async || {
            match world.metric("vidra_informers_synced{cluster=\"berlin\"}") {
                1.0 => Ok(()),
                count => Err(format!("{count}, after {} lists", lists(&world))),
            }
        })
        .await;
        // The hub sees, and all that it has to do is what somebody has done.
        let (alice, last) = (world.alice("berlin").await, At::config_map(&world.ns, "map-59"));
        alice.merge(&last, json!({"data": {"key": "evil"}})).await;
        alice.when(&last, "repaired", says(&filler)).await;
        world.ready("shop").await;
        let writes = world.writes("berlin", &mark);
        assert!(matches!(&writes[..], [one] if one.verb == "patch" && one.name == "map-59"), "{writes:?}");
        world.end().await;
        proxy.stop().await;
    });
}
