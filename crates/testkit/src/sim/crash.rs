//! Crash at every call: a scenario runs once undisturbed, and then once for each of the hub's calls in it,
//! before and after the call's effect; each run must end as the undisturbed one.

use std::{any::Any, fmt::Write, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, sleep};

use super::{
    observer::Seen,
    run,
    state::{State, differences},
    trouble::Trouble,
    world::{QUIET, Shape, World},
};

/// A hub that came back must be done within this.
const RECOVERS_WITHIN: Duration = Duration::from_secs(60);
/// The longest that a life waits before it writes anything.
const LIFE: Duration = Duration::from_secs(6);

/// How long it takes until a list brings to light what the hub was not shown.
pub const BLIND: Duration = Duration::from_secs(4);

/// When the first life of the hub starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Its start is what may be cut off.
    WithAct,
    /// Before, and everything prepared was delivered undisturbed.
    BeforeAct,
}

/// Something that people do, and what the hub must make of it.
#[allow(async_fn_in_trait, reason = "one thread runs all of it")]
pub trait Scenario: Copy {
    /// Its name, for messages and replays.
    fn name(&self) -> String;
    /// When the hub starts.
    fn moment(&self) -> Moment;
    /// What is there before.
    async fn prepare(&self, world: &World);
    /// What happens.
    async fn act(&self, world: &World);
    /// What must be so in the end, beyond being equal in all runs; panics.
    fn check(&self, world: &World);
}

/// How a run ended.
pub struct Run {
    /// What is stored, comparable between runs.
    pub state: State,
    /// The same with uids, times and all, if the shape asks for it.
    pub raw: Vec<String>,
    /// The hub's calls since the act.
    pub trace: Vec<Seen>,
    /// How many events the hub's watches had since the act.
    pub events: usize,
    /// From the act until the hub fell quiet.
    pub took: Duration,
}

/// Runs a scenario, so disturbed. `wanted` is the end to be reached; without it the run goes on until
/// the hub is quiet. The error says what was wrong.
pub fn once<S: Scenario>(
    scenario: S,
    shape: Shape,
    trouble: &Trouble,
    wanted: Option<&State>,
) -> Result<Run, String> {
    run(shape.seed, || async {
        let world = World::new(shape).await;
        scenario.prepare(&world).await;
        if scenario.moment() == Moment::BeforeAct {
            world.start_hub();
            world.settle().await;
        }
        world.arm(&trouble.crashes);
        world.observer.make_restless(trouble.restless);
        world.observer.blind(trouble.lost, trouble.stale);
        let began = Instant::now();
        let acting = async {
            if scenario.moment() == Moment::WithAct {
                world.start_hub();
            }
            scenario.act(&world).await;
            match wanted {
                None => world.settle().await,
                Some(wanted) => reach(&world, wanted, trouble).await,
            }
        };
        let ended = caught(world.supervised(acting)).await;
        let run = Run {
            state: world.state(),
            raw: if shape.kept { raw(&world) } else { Vec::new() },
            trace: world.observer.trace(),
            events: world.observer.events(),
            took: began.elapsed().saturating_sub(world.observer.quiet_for()),
        };
        let mut wrong = world.observer.breaches();
        wrong.extend(ended.err());
        let differ = wanted.map_or_else(String::new, |wanted| differences(wanted, &run.state));
        if !differ.is_empty() {
            wrong.push(format!(
                "after {:?} the end is not that of the undisturbed run:\n{differ}",
                began.elapsed()
            ));
        }
        // A later life may be done before the call at which it was to be cut off.
        let crashes = trouble.crashes.len();
        if crashes > 0 && world.observer.crashes_left() == crashes {
            wrong.push("the call at which it was to be cut off never came".to_owned());
        }
        if trouble.restless > 0 && world.observer.restless_left() == 0 {
            wrong.push(format!("after {} lives it had still more to write", trouble.restless));
        }
        if wrong.is_empty() {
            let checked = std::panic::catch_unwind(AssertUnwindSafe(|| scenario.check(&world)));
            wrong.extend(checked.err().map(words));
        }
        if wrong.is_empty() { Ok(run) } else { Err(report(&wrong, &run.trace)) }
    })
}

/// Runs it, and gives a panic's words.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(words)
}

/// A panic's words.
fn words(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// Waits until the wanted state is reached and stays while the hub is quiet.
async fn reach(world: &World, wanted: &State, trouble: &Trouble) {
    let began = Instant::now();
    let crashes = trouble.crashes.len();
    // Each life may have to wait a second until it may write a status, and for pruneDelay again before it prunes.
    let within = RECOVERS_WITHIN + LIFE * u32::try_from(trouble.restless).unwrap_or(u32::MAX);
    if trouble.lost.is_some() || trouble.stale.is_some() {
        sleep(BLIND).await;
    }
    while began.elapsed() < within {
        if (crashes == 0 || world.observer.crashes_left() < crashes)
            && world.observer.quiet_for() >= QUIET
            && world.state() == *wanted
        {
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

fn raw(world: &World) -> Vec<String> {
    let requests = world.clusters.all().flat_map(|cluster| cluster.requests());
    requests.map(|call| call.to_string()).chain(stored(world)).collect()
}

/// Objects that are stored, with uids, versions, times and all.
pub fn stored(world: &World) -> Vec<String> {
    let mut stored = Vec::new();
    for cluster in world.clusters.all() {
        for (group, plural) in [
            (vidra_api::GROUP, "vidraresources"),
            (vidra_api::GROUP, "vidratargets"),
            (vidra_api::GROUP, "vidrainventories"),
            (vidra_api::GROUP, "memberclusters"),
            ("events.k8s.io", "events"),
            ("", "secrets"),
            ("", "configmaps"),
        ] {
            stored.extend(cluster.objects(group, plural).iter().map(ToString::to_string));
        }
    }
    stored
}

fn report(wrong: &[String], trace: &[Seen]) -> String {
    let mut text = String::new();
    for line in wrong.iter().take(10) {
        let _ = writeln!(text, "- {line}");
    }
    let _ = writeln!(text, "the hub's calls, without probes and watches:");
    for (index, seen) in trace.iter().enumerate().filter(|(_, seen)| !seen.is_idle()) {
        let _ = writeln!(text, "{index:5} {seen}");
    }
    text
}
