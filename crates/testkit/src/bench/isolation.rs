//! `isolation`: whether members that are dead, hung or slow make the others wait.
//!
//! Real API servers, some of them behind a proxy that refuses, is silent, or is late. In turn all is well and
//! some are unwell; meanwhile objects are edited on the others, one at a time, and a VidraResource of all members
//! changes now and then, so that the hub always has something to do for those that are unwell. Timed is from an edit's
//! request to the watch event that shows the object repaired.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    fleet::{Fleet, NAMESPACE, resource},
    report::{Report, quantile},
    watched::{Events, object, says, undone, watch},
};
use crate::{
    proxy::{Conduct, Proxy},
    testbed::Testbed,
    world::{Access, At},
};

const MEMBERS: usize = 4;
/// So many of them are unwell.
const UNWELL: usize = 2;
const ROUNDS: usize = 4;
/// Between two edits: a round lasts until the hub has given members up.
const PACE: Duration = Duration::from_millis(100);
/// After so many edits of a round comes a change of what all members have.
const CHANGE_AFTER: usize = 25;
/// Objects of a VidraResource.
const OBJECTS: usize = 125;
/// An object is edited no more often: the hub would take it for a fight.
const EDITS: usize = 4;
const SETTLE: Duration = Duration::from_secs(180);
/// The time that a slow member's way takes, in each direction.
const LATE: Duration = Duration::from_secs(1);

/// How members are unwell.
const STATES: [(&str, Conduct); 3] =
    [("dead", Conduct::Refuse), ("hung", Conduct::Silent), ("slow", Conduct::Late(LATE))];

/// Samples of each state, and as many of all well before each.
#[derive(Clone, Copy, Debug)]
pub struct Isolation {
    /// How many.
    pub samples: usize,
}

impl Default for Isolation {
    fn default() -> Self {
        Self { samples: 500 }
    }
}

/// Milliseconds.
#[derive(Default)]
struct Times {
    heals: Vec<f64>,
    changes: Vec<f64>,
}

/// Runs it.
pub async fn isolation(binary: &Path, size: Isolation) -> Result<Report> {
    let bed = Testbed::start(&["--members", &MEMBERS.to_string()])?;
    let mut proxies = Vec::new();
    for member in bed.members.iter().take(UNWELL) {
        proxies.push(Proxy::start(member.address()?).await?);
    }
    let ways: Vec<_> = bed.members.iter().map(|member| member.name.clone()).zip(&proxies).collect();
    let fleet = Fleet::on(binary, bed, |member| {
        let text = member.kubeconfig("vidra-hub")?;
        let way = ways.iter().find(|(name, _)| *name == member.name);
        Ok(way.map_or(text.clone(), |(_, proxy)| text.replace(&member.url, &proxy.url())))
    })
    .await?;
    let mut bench = Bench::new(&fleet, &proxies, size).await?;
    bench.deliver().await?;

    // Each state has rounds of all well beside its own.
    let mut found: Vec<(Times, Times)> = STATES.iter().map(|_| Default::default()).collect();
    for round in 0..ROUNDS {
        for ((state, conduct), (well, unwell)) in STATES.into_iter().zip(&mut found) {
            bench.round(well).await?;
            bench.conduct(conduct);
            bench.round(unwell).await?;
            bench.conduct(Conduct::Pass);
            bench.recovered().await?;
            tracing::info!("round {} of {ROUNDS}: {state}", round + 1);
        }
    }
    let mut report = tell(&found);
    report.condition("samples of each state", size.samples);
    report.condition("members, of which unwell", json!([MEMBERS, UNWELL]));
    report.condition("ms that a slow way takes, each direction", LATE.as_millis() as u64);
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    for proxy in proxies {
        proxy.stop().await;
    }
    Ok(report)
}

fn tell(found: &[(Times, Times)]) -> Report {
    let p99 = |times: &[f64]| quantile(times, 0.99);
    let all_well: Vec<f64> = found.iter().flat_map(|(well, _)| well.heals.iter().copied()).collect();
    let ratio = |unwell: &Times| p99(&unwell.heals) / p99(&all_well);
    let worst = found.iter().map(|(_, unwell)| ratio(unwell)).fold(0.0, f64::max);
    let mut report = Report::new("isolation");
    report.figure(
        "ratio_p99",
        worst,
        Some(1.1),
        "P99 from an edit on a healthy member to the repaired object: the worst state over all well",
    );
    let keys = ["dead_ratio_p99", "hung_ratio_p99", "slow_ratio_p99"];
    for ((key, (state, _)), (well, unwell)) in keys.into_iter().zip(STATES).zip(found) {
        let what = format!("of it, with members that are {state}");
        report.figure(key, ratio(unwell), None, what);
        let spread = p99(&well.heals) / p99(&all_well);
        report
            .condition(&format!("{state}: the rounds of all well before it, over all well: spread"), spread);
        for (share, word) in [(0.5, "P50"), (0.99, "P99")] {
            report.condition(&format!("{state}: ms {word} of a repair"), quantile(&unwell.heals, share));
            report.condition(&format!("{state}: ms {word} of a change"), quantile(&unwell.changes, share));
        }
    }
    let changes: Vec<f64> = found.iter().flat_map(|(well, _)| well.changes.iter().copied()).collect();
    for (share, word) in [(0.5, "P50"), (0.99, "P99")] {
        report.condition(&format!("all well: ms {word} of a repair"), quantile(&all_well, share));
        report.condition(&format!("all well: ms {word} of a change"), quantile(&changes, share));
    }
    report
}

struct Bench<'a> {
    fleet: &'a Fleet,
    proxies: &'a [Proxy],
    /// The members that are always well.
    healthy: Vec<(Access, Events)>,
    /// Samples of a round.
    samples: usize,
    /// Edits and changes so far.
    edits: usize,
    changes: usize,
}

impl<'a> Bench<'a> {
    async fn new(fleet: &'a Fleet, proxies: &'a [Proxy], size: Isolation) -> Result<Self> {
        let mut healthy = Vec::new();
        for member in fleet.bed.members.iter().skip(UNWELL) {
            let client = member.client("admin").await?;
            let events = watch(&client, None).await?;
            healthy.push((Access::new(client, "bench-edit"), events));
        }
        let samples = size.samples.div_ceil(ROUNDS).max(1);
        Ok(Self { fleet, proxies, healthy, samples, edits: 0, changes: 0 })
    }

    /// How many objects all edits take on one member.
    fn objects(&self) -> usize {
        (self.samples * ROUNDS * STATES.len() * 2).div_ceil((MEMBERS - UNWELL) * EDITS)
    }

    async fn deliver(&mut self) -> Result<()> {
        let numbers: Vec<_> = (0..self.objects()).collect();
        let parts: Vec<_> = numbers.chunks(OBJECTS).collect();
        for (part, numbers) in parts.iter().enumerate() {
            let manifest: Vec<_> =
                numbers.iter().map(|number| object("hub", &kept(*number)).to_string()).collect();
            self.apply(&format!("kept-{part}"), &manifest.join("\n---\n")).await?;
        }
        for part in 0..parts.len() {
            self.fleet.ready(&format!("kept-{part}")).await?;
        }
        self.change(&mut Times::default()).await?;
        self.recovered().await
    }

    async fn apply(&self, name: &str, manifest: &str) -> Result<()> {
        let applied = self.fleet.hub.apply(&resource(name, manifest, json!({})), true).await;
        applied.map(drop).map_err(|refused| anyhow::anyhow!("VidraResource {name}: {refused}"))
    }

    fn conduct(&self, conduct: Conduct) {
        self.proxies.iter().for_each(|proxy| proxy.set(conduct));
    }

    /// Waits until all members are ready and have everything, and the hub has settled.
    async fn recovered(&self) -> Result<()> {
        self.fleet.joined().await;
        self.fleet.ready("changing").await?;
        self.fleet.settled(SETTLE, || Ok(())).await
    }

    async fn round(&mut self, times: &mut Times) -> Result<()> {
        for sample in 0..self.samples {
            if sample % CHANGE_AFTER == 0 {
                self.change(times).await?;
            }
            let (turn, count) = (self.edits / self.healthy.len(), self.healthy.len());
            let (name, objects) = (kept(turn % self.objects()), self.objects());
            let (editor, events) = self.healthy.get_mut(self.edits % count).context("no healthy member")?;
            self.edits += 1;
            let began = Instant::now();
            let edit = json!({"data": {"value": format!("edit {}", turn / objects)}});
            let at = At::config_map(NAMESPACE, &name);
            let names = [name];
            let (_, undone) = tokio::join!(editor.merge(&at, edit), undone(events, began, &names));
            times.heals.extend(undone?);
            sleep(PACE).await;
        }
        Ok(())
    }

    /// Changes what all members have; until the healthy ones have it.
    async fn change(&mut self, times: &mut Times) -> Result<()> {
        self.changes += 1;
        let value = format!("change {}", self.changes);
        let mut changing = object("hub", "changing");
        changing["data"]["value"] = value.as_str().into();
        let began = Instant::now();
        self.apply("changing", &changing.to_string()).await?;
        for (_, events) in &mut self.healthy {
            times.changes.push(says(events, began, "changing", &value).await?);
        }
        Ok(())
    }
}

/// An object that is edited and repaired.
fn kept(number: usize) -> String {
    format!("kept-{number:04}")
}
