//! One life of the hub: `app::run` over the world's clusters, as a user of its own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use vidra_core::kubeconfig::Allow;
use vidra_hub::{
    app::{self, Deps},
    config::Settings,
    leader_election::lease::Claim,
    metrics::Metrics,
    process::under_claim,
};

use super::{
    observer::{HUB_ID, HUB_USER, OTHER_ID, OTHER_USER},
    seams::{SimClock, SimConnect, SimRng},
    world::{HUB_NAMESPACE, World},
};
use memkube::{Address, Cluster};

/// A process that ended by itself is started again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// As a process does it, under its Lease, if there is one: a hub that could not start or has lost the Lease
/// ends, and is started again.
async fn run(
    claim: Option<Claim>,
    settings: Settings,
    deps: Deps,
    stop: CancellationToken,
    ended: impl Fn(),
) {
    while !stop.is_cancelled() {
        let Deps { client, connect, clock, rng, limits, .. } = &deps;
        let deps = Deps {
            client: client.clone(),
            connect: connect.clone(),
            clock: clock.clone(),
            rng: rng.clone(),
            metrics: Metrics::default(),
            limits: *limits,
            tenure: claim.as_ref().map(Claim::tenure),
        };
        // Nobody else waits on `synced`: tokio's watch channel wakes several waiters in a random order.
        let (synced, this) = (watch::Sender::new(false), stop.child_token());
        let _ = match &claim {
            None => app::run(settings.clone(), deps, synced, this).await,
            Some(claim) => {
                if stop.run_until_cancelled(claim.acquire()).await.is_none() {
                    return;
                }
                let holding = claim.hold(this.clone());
                let (ended, held) = under_claim(holding, settings.clone(), deps, synced, &this).await;
                if held {
                    claim.release().await;
                }
                ended
            }
        };
        ended();
        stop.run_until_cancelled(sleep(AGAIN_AFTER)).await;
    }
}

/// Whose life it is.
struct Hub<'a> {
    id: &'a str,
    cluster: &'a Cluster,
    /// By which it reaches its members, by member.
    addresses: BTreeMap<String, Address>,
    lease: bool,
}

/// A running hub.
pub struct Life {
    /// As whom it calls.
    pub user: Arc<str>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Life {
    /// Starts the life of this number.
    pub fn start(world: &World, number: u32) -> Self {
        let (addresses, lease) = (world.addresses.clone(), world.shape.lease);
        let hub = Hub { id: HUB_ID, cluster: &world.clusters.hub, addresses, lease };
        Self::of(hub, world, format!("{HUB_USER}{number}").into(), SimRng::new(world.shape.seed, number))
    }

    /// Starts the life of this number of the other hub, whose cluster this is, and that has this member.
    pub fn start_other(world: &World, cluster: &Cluster, member: &str, number: u32) -> Self {
        let addresses = BTreeMap::from([(member.to_owned(), Address::new(world.cluster(member).clone()))]);
        let hub = Hub { id: OTHER_ID, cluster, addresses, lease: false };
        Self::of(hub, world, format!("{OTHER_USER}{number}").into(), SimRng::new(!world.shape.seed, number))
    }

    fn of(hub: Hub<'_>, world: &World, user: Arc<str>, rng: SimRng) -> Self {
        let members = hub.addresses.into_iter();
        let members = members.map(|(name, address)| (format!("{name}.test"), address)).collect();
        let deps = Deps {
            client: hub.cluster.client_as(&user),
            connect: Arc::new(SimConnect { members, user: user.clone() }),
            clock: Arc::new(SimClock(world.clock.clone())),
            rng: Arc::new(rng),
            metrics: Metrics::default(),
            limits: world.shape.limits,
            tenure: None,
        };
        let settings = Settings {
            namespace: HUB_NAMESPACE.to_owned(),
            hub_id: Some(hub.id.to_owned()),
            inherit: Default::default(),
            interval: world.shape.interval,
            on_events: true,
            allow: Allow::default(),
            memory_limit: None,
        };
        let stop = CancellationToken::new();
        let claim = hub.lease.then(|| {
            let clock = deps.clock.clone();
            Claim::new(deps.client.clone(), HUB_NAMESPACE, user.to_string(), clock)
        });
        let (observer, called) = (world.observer.clone(), user.clone());
        let running = run(claim, settings, deps, stop.clone(), move || observer.ended(&called));
        #[expect(
            clippy::disallowed_methods,
            reason = "the handle is awaited or aborted in end() and crash()"
        )]
        let task = tokio::spawn(running);
        Self { user, stop, task }
    }

    /// Ends it as SIGTERM does; it must not take long, whatever its calls wait for.
    pub async fn end(self) {
        self.stop.cancel();
        let ended = timeout(Duration::from_secs(1), self.task).await;
        ended.expect("the hub must end within a second").expect("the hub panicked");
    }

    /// Drops it; it was cut off before.
    pub async fn crash(mut self) {
        self.stop.cancel();
        // While it waits for its identity it has started nothing else yet.
        if timeout(Duration::from_millis(1), &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}
