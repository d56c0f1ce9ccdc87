//! `standby`: two processes, of which one works. How long nobody repairs when that one is killed, when it ends in good order,
//! and when its container starts again with no other there; and how long until a member that falls silent is told, and
//! until it counts as ready again.
//!
//! An edit counts from the moment at which the process is signalled, and is made when that process has ended: one that it
//! repaired itself would be told of too soon.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    fleet::{Fleet, NAMESPACE, resource},
    machine,
    process::HubProcess,
    report::{Report, quantile},
    watched::{Events, object, undone, watch},
};
use crate::world::{Access, At};

const MEMBERS: usize = 3;
/// Objects in each: each is edited once at most, so that none is taken for contention.
const OBJECTS: usize = 100;
/// How often a process is killed, and how often one is asked to end.
const TAKEOVERS: usize = 10;
/// How often a container starts again, and how often a member falls silent.
const ROUNDS: usize = 5;
/// The Lease is renewed this often, and a member is probed this often: rounds begin all over these times.
const RENEWED_EVERY: Duration = Duration::from_secs(4);
const PROBED_EVERY: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(120);

/// How a process ends.
#[derive(Clone, Copy)]
enum End {
    Killed,
    Asked,
}

/// Runs it.
pub async fn standby(binary: &Path) -> Result<Report> {
    let mut report = Report::new("standby");
    report.condition("load before it began, over 1, 5 and 15 minutes", machine::load());
    let mut bench = Bench::start(binary).await?;
    for (end, keys, bound, what) in [
        (End::Killed, ["kill_worst_s", "kill_p50_s"], 17.0, "from SIGKILL of the process that works"),
        (End::Asked, ["term_worst_s", "term_p50_s"], 3.0, "from SIGTERM of the process that works"),
    ] {
        let mut times = Vec::new();
        for round in 0..TAKEOVERS {
            sleep(part(RENEWED_EVERY, round, TAKEOVERS)).await;
            times.push(bench.taken_over(end).await?);
            tracing::info!("{what}: {} of {TAKEOVERS}", round + 1);
        }
        let what = format!("seconds {what} until an edit in each member is undone by the other one");
        tell(&mut report, keys, &times, bound, &what);
    }
    let (mut told, mut back) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (silent, answers) = bench.silent(round).await?;
        told.push(silent);
        back.push(answers);
        tracing::info!("a silent member: {} of {ROUNDS}", round + 1);
    }
    let what = "seconds from SIGSTOP of a member's API server until its MemberCluster is not Reachable";
    tell(&mut report, ["silent_worst_s", "silent_p50_s"], &told, 21.0, what);
    let what = "seconds from SIGCONT until it is Ready";
    tell(&mut report, ["back_worst_s", "back_p50_s"], &back, 3.0, what);
    let what = "seconds from SIGKILL, the container at once started again and no other process there, until an edit in each \
                member is undone";
    tell(&mut report, ["again_worst_s", "again_p50_s"], &bench.started_again().await?, 3.0, what);
    report.condition("objects in each member", OBJECTS);
    report.condition("bed", bench.fleet.describe().await?);
    bench.fleet.stop().await?;
    Ok(report)
}

/// Where in this time a round begins.
fn part(of: Duration, round: usize, rounds: usize) -> Duration {
    of.mul_f64(round as f64 / rounds as f64)
}

fn tell(report: &mut Report, [worst, middle]: [&'static str; 2], times: &[f64], bound: f64, what: &str) {
    report.figure(worst, quantile(times, 1.0), Some(bound), what);
    report.figure(middle, quantile(times, 0.5), Some(bound), "of it, the median");
    report.condition(&format!("{worst}, each"), json!(times));
}

struct Bench<'a> {
    binary: &'a Path,
    /// With the process that works.
    fleet: Fleet,
    /// The one that waits.
    standby: HubProcess,
    editors: Vec<Access>,
    /// So far.
    edits: usize,
    processes: usize,
}

impl<'a> Bench<'a> {
    async fn start(binary: &'a Path) -> Result<Self> {
        let fleet = Fleet::start(binary, MEMBERS).await?;
        let manifest: Vec<_> = (0..OBJECTS).map(|number| object("hub", &kept(number)).to_string()).collect();
        let applied = fleet.hub.apply(&resource("kept", &manifest.join("\n---\n"), json!({})), true).await;
        applied.map_err(|refused| anyhow::anyhow!("the VidraResource: {refused}"))?;
        fleet.ready("kept").await?;
        fleet.counted(OBJECTS).await;
        let mut editors = Vec::new();
        for member in &fleet.bed.members {
            editors.push(Access::new(member.client("admin").await?, "bench-edit"));
        }
        let standby = begin(binary, &fleet, "process-1", 1).await?;
        let bench = Self { binary, fleet, standby, editors, edits: 0, processes: 1 };
        bench.settled().await?;
        Ok(bench)
    }

    async fn settled(&self) -> Result<()> {
        self.fleet.settled(SETTLE, || Ok(())).await
    }

    /// Ends the process that works, and starts another one to wait behind the one that waited. Seconds from that end until
    /// the latter has undone an edit in each member.
    async fn taken_over(&mut self, end: End) -> Result<f64> {
        let mut events = self.watches().await?;
        let began = Instant::now();
        match end {
            End::Killed => self.fleet.process.kill().await?,
            End::Asked => self.fleet.process.end().await?,
        }
        let name = self.next();
        let seconds = undone_everywhere(&self.editors, &mut events, &name, began).await?;
        self.processes += 1;
        let holder = format!("process-{}", self.processes);
        let next = begin(self.binary, &self.fleet, &holder, self.processes).await?;
        self.fleet.process = std::mem::replace(&mut self.standby, next);
        self.settled().await?;
        Ok(seconds)
    }

    /// Stops a member's API server until that is told, and lets it go on until it is ready: seconds of each. Before it another
    /// process takes over, for one that has just lost the member waits longer before it tries again.
    async fn silent(&mut self, round: usize) -> Result<(f64, f64)> {
        self.taken_over(End::Asked).await?;
        sleep(part(PROBED_EVERY, round, ROUNDS)).await;
        let member = self.fleet.bed.members.get(round % MEMBERS).context("no member")?;
        let began = Instant::now();
        member.signal("STOP")?;
        let told = self.fleet.member_says(&member.name, "Reachable", false).await;
        let (silent, since) = (began.elapsed(), Instant::now());
        member.signal("CONT")?;
        told?;
        self.fleet.member_says(&member.name, "Ready", true).await?;
        let back = since.elapsed();
        self.settled().await?;
        Ok((silent.as_secs_f64(), back.as_secs_f64()))
    }

    /// Ends the process that waits, and kills the other one, which is started again under the same name: seconds of each time.
    async fn started_again(&mut self) -> Result<Vec<f64>> {
        self.standby.end().await?;
        self.fleet.process.end().await?;
        self.fleet.process = begin(self.binary, &self.fleet, "one-pod", self.processes + 1).await?;
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            self.settled().await?;
            let mut events = self.watches().await?;
            let name = self.next();
            let began = Instant::now();
            self.fleet.process.kill().await?;
            let (again, seconds) = tokio::join!(
                begin(self.binary, &self.fleet, "one-pod", self.processes + 2 + round),
                undone_everywhere(&self.editors, &mut events, &name, began)
            );
            self.fleet.process = again?;
            times.push(seconds?);
        }
        Ok(times)
    }

    /// What each member tells from now on.
    async fn watches(&self) -> Result<Vec<Events>> {
        try_join_all(self.editors.iter().map(|editor| watch(&editor.client, None))).await
    }

    /// An object that was not edited yet.
    fn next(&mut self) -> String {
        self.edits += 1;
        kept(self.edits)
    }
}

/// Edits this object in each member: seconds from `began` until all are as declared again.
async fn undone_everywhere(
    editors: &[Access],
    events: &mut [Events],
    name: &str,
    began: Instant,
) -> Result<f64> {
    let (at, names) = (&At::config_map(NAMESPACE, name), &[name.to_owned()]);
    let each = editors.iter().zip(events).map(|(editor, events)| async move {
        editor.merge(at, json!({"data": {"value": "edited"}})).await;
        undone(events, began, names).await
    });
    let times = try_join_all(each).await?;
    Ok(quantile(&times.concat(), 1.0) / 1000.0)
}

/// Starts a process under this name, which has a log of its own.
async fn begin(binary: &Path, fleet: &Fleet, holder: &str, number: usize) -> Result<HubProcess> {
    let kubeconfig = fleet.bed.hub.kubeconfigs.get("vidra-hub").context("no identity vidra-hub")?;
    let log = fleet.bed.dir.join(format!("vidra-hub-{number}.log"));
    HubProcess::start_as(holder, binary, kubeconfig, &log).await
}

fn kept(number: usize) -> String {
    format!("kept-{number:03}")
}
