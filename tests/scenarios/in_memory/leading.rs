//! A process under its Lease: what it does not send when nobody renews it, how it ends when the hub's own API was
//! restored under it, and how the next one takes over. On the paused clock, with the processes in the scenario's hands.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster, Fault, Verb};
use serde_json::{Value, json};
use testkit::{
    hub::RunningHub,
    sim::seams::SimClock,
    world::{At, Mark, World},
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;
use vidra_core::kubeconfig::MemberConfig;
use vidra_hub::{
    app::{Deps, RunError},
    base::{
        env::{Clock, Connect, ConnectError, Link, SeededRng},
        supervise::Halt,
    },
    internal_limits::InternalLimits,
    leader_election::lease::{Claim, NAME},
    metrics::Metrics,
    process::under_claim,
};

use super::{memory, scenario};
use crate::{config_map, says};

/// The only member that there is.
struct Only(Cluster);

impl Connect for Only {
    fn connect(&self, _: &MemberConfig) -> Result<Link, ConnectError> {
        Ok(self.0.service_as("vidra-hub").boxed_clone())
    }
}

fn berlin(world: &World) -> Cluster {
    memory(world, "berlin")
}

/// What a process has that holds the Lease under this name, once it has it.
async fn process(world: &World, holder: &str) -> (Claim, Deps) {
    let clock: Arc<dyn Clock> =
        Arc::new(SimClock(memkube::tokio_clock("2026-01-01T00:00:00Z".parse().unwrap())));
    let client = world.hub_client().await;
    let claim = Claim::new(client.clone(), &world.settings.namespace, holder.to_owned(), clock.clone());
    claim.acquire().await;
    let deps = Deps {
        client,
        connect: Arc::new(Only(berlin(world))),
        clock,
        rng: Arc::new(SeededRng::new(7)),
        metrics: Metrics::default(),
        limits: InternalLimits::default(),
        tenure: Some(claim.tenure()),
    };
    (claim, deps)
}

/// A process that leads.
pub(super) struct Process {
    claim: Arc<Claim>,
    hub: RunningHub,
    stop: CancellationToken,
    keeping: JoinHandle<bool>,
}

impl Process {
    /// Waits for the Lease, and leads.
    pub(super) async fn start(world: &World, holder: &str) -> Self {
        let (claim, deps) = process(world, holder).await;
        let (claim, stop) = (Arc::new(claim), CancellationToken::new());
        let (held, token) = (claim.clone(), stop.clone());
        let keeping = TaskTracker::new().spawn(async move { held.hold(token).await });
        let hub = RunningHub::start_with(deps, world.settings.clone()).await.unwrap();
        Self { claim, hub, stop, keeping }
    }

    /// Ends it as SIGKILL does: it gives nothing back.
    pub(super) async fn kill(self) {
        self.stop.cancel();
        drop(self.hub);
        assert!(self.keeping.await.unwrap());
    }

    /// Ends it as SIGTERM does.
    pub(super) async fn end(self) {
        self.hub.stop().await.unwrap();
        self.stop.cancel();
        assert!(self.keeping.await.unwrap());
        self.claim.release().await;
    }

    /// How long it leaves what is there, for what the process of before had sent.
    fn waits(&self) -> Option<Duration> {
        self.claim.tenure().late().former_writes_left()
    }
}

/// What a process asked of berlin since then, answered or not; it goes on to watch, to list and to ask who answers.
fn calls(world: &World, since: u64) -> Vec<String> {
    let all = berlin(world).requests().into_iter();
    all.filter(|call| call.index >= since && &*call.user == "vidra-hub")
        .filter(|call| !matches!(call.verb, Verb::Watch | Verb::List) && !call.resource.is_empty())
        .filter(|call| call.resource != "namespaces" || call.name != "kube-system")
        .map(|call| call.to_string())
        .collect()
}

#[test]
fn a_process_whose_lease_is_not_renewed_for_ten_seconds_sends_no_call_to_any_member() {
    scenario(async |mut world| {
        const MANY: usize = 600;
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.stop_hub().await;
        let (claim, deps) = process(&world, "this process").await;
        let hub = RunningHub::start_with(deps, world.settings.clone()).await.unwrap();
        let stop = CancellationToken::new();
        let renewing = timeout(Duration::from_secs(30), claim.hold(stop.clone())).await;
        assert!(renewing.is_err(), "it is held for as long as somebody renews it");

        // Who renews it stands still, in the middle of a long delivery.
        let slow = |call: &Call| match call.verb {
            Verb::Apply => Fault::Delay(Duration::from_secs(1)),
            _ => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(slow));
        let manifest: String = (0..MANY).map(|number| config_map(&format!("c{number}"), "one")).collect();
        let manifest = manifest + &config_map("settings", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        sleep(Duration::from_secs(11)).await;
        let (mark, from) = (world.mark(), berlin(&world).requests().last().map_or(0, |call| call.index + 1));
        let sent = calls(&world, 0).len();
        assert!((10..MANY).contains(&sent), "in the middle of it: {sent}");
        let settings = At::config_map(&world.ns, "settings");
        let alice = world.alice("berlin").await;
        alice.merge(&settings, serde_json::json!({"data": {"key": "evil"}})).await;
        sleep(Duration::from_secs(120)).await;
        assert_eq!(calls(&world, from), [] as [String; 0]);
        assert_eq!(world.writes("hub", &mark), [], "nor does it write to the hub");

        // It goes on.
        let done = async {
            alice.when(&settings, "repaired", says("one")).await;
            world.ready("shop").await;
        };
        tokio::select! {
            held = claim.hold(stop.clone()) => panic!("the Lease is held: {held}"),
            () = done => {}
        }
        hub.stop().await.unwrap();
        claim.release().await;
        berlin(&world).clear_fault();
        world.start_hub().await;
        world.end().await;
    });
}

/// What of berlin's objects was deleted since then.
pub(super) fn deleted(world: &World, since: &Mark) -> Vec<String> {
    let all = world.requests("berlin", since).into_iter();
    all.filter(|one| one.verb.starts_with("delete")).map(|one| one.name).collect()
}

#[test]
fn a_process_under_which_the_hubs_api_is_restored_ends_with_an_error_and_gives_the_lease_up() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.stop_hub().await;
        let (claim, deps) = process(&world, "this process").await;
        let lease = At::new("coordination.k8s.io/v1", "Lease", &world.settings.namespace, NAME);
        let holder = async || world.hub.live(&lease).await["spec"]["holderIdentity"].clone();
        let (stop, synced) = (CancellationToken::new(), watch::Sender::new(false));
        let mut known = synced.subscribe();
        let living = under_claim(claim.hold(stop.clone()), world.settings.clone(), deps, synced, &stop);
        let mark = world.mark();
        let restored = async {
            known.wait_for(|known| *known).await.unwrap();
            assert_eq!(holder().await, "this process");
            let backup = memory(&world, "hub").backup();
            let after = config_map("settings", "two") + &config_map("made", "two");
            world.deliver("shop", &["berlin"], &after).await;
            let made = At::config_map(&world.ns, "made");
            world.alice("berlin").await.when(&made, "made", says("two")).await;
            world.ready("shop").await;
            memory(&world, "hub").restore(&backup);
        };
        let both = async { tokio::join!(living, restored) };
        let both = timeout(Duration::from_secs(600), both).await;
        let ((ended, held), ()) = both.expect("the process goes on as if nothing had happened");
        assert!(matches!(ended, Err(RunError::Halted(Halt::Restored { .. }))), "{ended:?}");
        assert!(held, "the Lease was its own until it ended");
        claim.release().await;
        assert_eq!(holder().await, Value::Null);

        // The next one reads everything again, and goes by what is declared now.
        world.start_hub().await;
        world
            .deliver("shop", &["berlin"], &(config_map("settings", "three") + &config_map("made", "two")))
            .await;
        let settings = At::config_map(&world.ns, "settings");
        world.alice("berlin").await.when(&settings, "as declared", says("three")).await;
        world.ready("shop").await;
        assert_eq!(deleted(&world, &mark), [] as [String; 0]);
        world.end().await;
    });
}

/// Others write so much that the versions are as far again before a watch is begun again: none of them tells.
#[test]
fn a_process_whose_lease_is_older_than_it_wrote_it_gives_up() {
    scenario(async |mut world| {
        world.stop_hub().await;
        let process = Process::start(&world, "this process").await;
        let backup = memory(&world, "hub").backup();
        sleep(Duration::from_secs(10)).await;
        memory(&world, "hub").restore(&backup);
        memory(&world, "hub").pass(10_000);
        let keeping = timeout(Duration::from_secs(30), process.keeping).await;
        let held = keeping.expect("it goes on as if nothing had happened").unwrap();
        assert!(!held);
        process.hub.stop().await.unwrap();
        world.start_hub().await;
        world.end().await;
    });
}

#[test]
fn only_a_process_that_did_not_end_in_good_order_keeps_the_next_one_waiting() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.stop_hub().await;
        // Of the one that ran without a Lease it knows nothing.
        let without = Process::start(&world, "without").await;
        assert!(without.waits().is_some(), "somebody has led, and there is no Lease");
        sleep(Duration::from_secs(60)).await;
        without.end().await;
        let first = Process::start(&world, "first").await;
        assert_eq!(first.waits(), None, "each write of the one before was answered");
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        first.end().await;
        let second = Process::start(&world, "second").await;
        assert_eq!(second.waits(), None, "each write was answered");
        second.kill().await;
        let third = Process::start(&world, "third").await;
        assert!(third.waits().is_some(), "nobody knows what the killed one had sent");
        // Nor has what the killed one had sent landed by now.
        third.end().await;
        let fourth = Process::start(&world, "fourth").await;
        assert!(fourth.waits().is_some(), "the one before had not waited for it to the end");
        fourth.end().await;
        world.start_hub().await;
        world.end().await;
    });
}

#[test]
fn a_container_that_starts_again_has_its_lease_at_once() {
    scenario(async |mut world| {
        world.stop_hub().await;
        let first = Process::start(&world, "this Pod").await;
        first.kill().await;
        let killed = Instant::now();
        let (claim, _) = process(&world, "this Pod").await;
        assert!(killed.elapsed() < Duration::from_secs(1), "{:?}", killed.elapsed());
        let waits = claim.tenure().late().former_writes_left();
        assert!(waits.is_some(), "what it had sent may take effect all the same");
        claim.release().await;
        world.start_hub().await;
        world.end().await;
    });
}

#[test]
fn a_lease_that_somebody_annotates_is_held_all_the_same() {
    scenario(async |mut world| {
        world.stop_hub().await;
        let (claim, _) = process(&world, "this process").await;
        let stop = CancellationToken::new();
        let at = At::new("coordination.k8s.io/v1", "Lease", &world.settings.namespace, "vidra-hub");
        world.hub.merge(&at, json!({"metadata": {"annotations": {"example.com/note": "by alice"}}})).await;
        let holding = timeout(Duration::from_secs(30), claim.hold(stop.clone())).await;
        assert!(holding.is_err(), "only an older one tells of a backup");
        claim.release().await;
        world.start_hub().await;
        world.end().await;
    });
}

#[test]
fn a_second_process_waits_while_the_first_one_leads_and_takes_over_when_that_is_killed() {
    scenario(async |mut world| {
        world.stop_hub().await;
        let first = Process::start(&world, "first").await;
        let mut second = Box::pin(process(&world, "second"));
        assert!(timeout(Duration::from_secs(60), &mut second).await.is_err(), "the first one leads");
        first.kill().await;
        let killed = Instant::now();
        let (claim, _) = second.await;
        // It was renewed at most 4 s before, and is looked at each second.
        let took = killed.elapsed();
        assert!((Duration::from_secs(11)..Duration::from_secs(18)).contains(&took), "{took:?}");
        claim.release().await;
        world.start_hub().await;
        world.end().await;
    });
}

#[test]
fn a_lease_that_somebody_deletes_is_not_taken_before_its_holder_can_be_gone_and_its_late_writes_are_waited_for()
 {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        // It does not renew, and is there all the same.
        let (first, _) = process(&world, "first").await;
        let world = Arc::new(world);
        let second = {
            let world = world.clone();
            TaskTracker::new().spawn(async move { process(&world, "second").await.0 })
        };
        sleep(Duration::from_secs(3)).await;
        let began = Instant::now();
        let lease = At::new("coordination.k8s.io/v1", "Lease", &world.settings.namespace, NAME);
        world.hub.delete(&lease).await;
        // One that has not seen it waits no less.
        let third = timeout(Duration::from_secs(5), process(&world, "third")).await;
        assert!(third.is_err() && first.tenure().stands(), "the first one may write");
        let second = second.await.unwrap();
        assert!((9..=16).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert!(!first.tenure().stands());
        assert!(second.tenure().late().former_writes_left().is_some());
        Arc::into_inner(world).expect("nobody else has it").end().await;
    });
}

#[test]
fn a_process_that_is_told_to_end_does_not_wait_for_the_answer_of_a_renewal() {
    scenario(async |mut world| {
        world.stop_hub().await;
        let first = Process::start(&world, "first").await;
        let late = |call: &Call| match call.verb {
            Verb::Update if call.resource == "leases" => Fault::Late(Duration::from_secs(60)),
            _ => Fault::None,
        };
        memory(&world, "hub").set_fault(Arc::new(late));
        // It renews after 4 s, and waits for the answer for 4 s more.
        sleep(Duration::from_secs(6)).await;
        memory(&world, "hub").clear_fault();
        let told = Instant::now();
        first.end().await;
        assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
        let (claim, _) = process(&world, "second").await;
        assert!(told.elapsed() < Duration::from_secs(2), "it was given back: {:?}", told.elapsed());
        claim.release().await;
        world.start_hub().await;
        world.end().await;
    });
}
