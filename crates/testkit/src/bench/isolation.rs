//! `isolation`: whether members that are dead, hung or slow make the others wait; whether hostile ones do is in
//! `attacked`.
//!
//! Real API servers, some of them behind a proxy that refuses, is silent, or is late. In turn all is well and
//! some are unwell; meanwhile objects are edited on the others, one at a time, and a VidraResource of all members
//! changes now and then, so that the hub always has something to do for those that are unwell. Timed is from an edit's
//! request to the watch event that shows the object repaired.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    attacked::{self, attacked},
    fleet::{Fleet, NAMESPACE, deliver},
    report::{Report, quantile},
    watched::{Events, object, says, undone, watch},
};
use crate::{
    proxy::{Conduct, Proxy},
    testbed::Testbed,
    world::{Access, At},
};

pub(super) const MEMBERS: usize = 4;
/// So many of them are unwell.
pub(super) const UNWELL: usize = 2;
const ROUNDS: usize = 4;
/// Between two edits: a round lasts until the hub has given members up.
pub(super) const PACE: Duration = Duration::from_millis(100);
/// After so many edits of a round comes a change of what all members have.
const CHANGE_AFTER: usize = 25;
/// Objects of a VidraResource.
const OBJECTS: usize = 125;
/// An object is edited no more often: the hub would take it for contention.
const EDITS: usize = 4;
const SETTLE: Duration = Duration::from_secs(180);
/// All members have all again: the list of one whose lists did not end rests thirty times as long as it was read.
const RECOVERED: Duration = Duration::from_secs(1200);
/// The time that a slow member's way takes, in each direction.
const LATE: Duration = Duration::from_secs(1);

/// A state, its figure's key, and how members are unwell in it.
type State = (&'static str, &'static str, Conduct);
const STATES: [State; 3] = [
    ("dead", "dead_ratio_p99", Conduct::Refuse),
    ("hung", "hung_ratio_p99", Conduct::Silent),
    ("slow", "slow_ratio_p99", Conduct::Late(LATE)),
];

/// What is measured.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// Samples of each state, and as many of all well, or of the control, beside each.
    pub samples: usize,
    /// The states to look at, by name; none: all.
    pub states: Vec<String>,
}

impl Default for Isolation {
    fn default() -> Self {
        Self { samples: 500, states: Vec::new() }
    }
}

impl Isolation {
    /// Is this state to be looked at?
    pub(super) fn has(&self, state: &str) -> bool {
        self.states.is_empty() || self.states.iter().any(|wanted| wanted == state)
    }
}

/// Milliseconds.
#[derive(Default)]
pub(super) struct Times {
    pub(super) heals: Vec<f64>,
    pub(super) changes: Vec<f64>,
}

/// Runs it.
pub async fn isolation(binary: &Path, size: Isolation) -> Result<Report> {
    let known: Vec<_> = STATES.iter().map(|(state, ..)| *state).chain(attacked::names()).collect();
    for state in &size.states {
        ensure!(known.contains(&state.as_str()), "there is no state {state}; there are {}", known.join(", "));
    }
    let mut report = Report::new("isolation");
    report.condition("samples of each state", size.samples);
    report.condition("members, of which unwell", json!([MEMBERS, UNWELL]));
    let states: Vec<_> = STATES.into_iter().filter(|(state, ..)| size.has(state)).collect();
    if !states.is_empty() {
        unwell(binary, &size, &states, &mut report).await?;
    }
    attacked(binary, &size, &mut report).await?;
    Ok(report)
}

/// Members that are dead, hung or slow.
async fn unwell(binary: &Path, size: &Isolation, states: &[State], report: &mut Report) -> Result<()> {
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
    let mut bench = Bench::new(&fleet, size.samples.div_ceil(ROUNDS), ROUNDS * states.len() * 2).await?;
    bench.deliver().await?;
    let conduct = |conduct| proxies.iter().for_each(|proxy: &Proxy| proxy.set(conduct));

    // Each state has rounds of all well beside its own.
    let mut found: Vec<(Times, Times)> = states.iter().map(|_| Default::default()).collect();
    for round in 0..ROUNDS {
        for ((state, _, way), (well, unwell)) in states.iter().zip(&mut found) {
            bench.round(well).await?;
            conduct(*way);
            bench.round(unwell).await?;
            conduct(Conduct::Pass);
            bench.recovered().await?;
            tracing::info!("round {} of {ROUNDS}: {state}", round + 1);
        }
    }
    tell(report, states, &found);
    report.condition("ms that a slow way takes, each direction", LATE.as_millis() as u64);
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    for proxy in proxies {
        proxy.stop().await;
    }
    Ok(())
}

fn tell(report: &mut Report, states: &[State], found: &[(Times, Times)]) {
    let p99 = |times: &[f64]| quantile(times, 0.99);
    let all_well: Vec<f64> = found.iter().flat_map(|(well, _)| well.heals.iter().copied()).collect();
    let ratio = |unwell: &Times| p99(&unwell.heals) / p99(&all_well);
    let worst = found.iter().map(|(_, unwell)| ratio(unwell)).fold(0.0, f64::max);
    report.figure(
        "ratio_p99",
        worst,
        Some(1.1),
        "P99 from an edit on a healthy member to the repaired object: the worst state over all well",
    );
    for ((state, key, _), (well, unwell)) in states.iter().zip(found) {
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
}

/// Edits on the members that are always well, and how long until they are undone.
pub(super) struct Bench<'a> {
    fleet: &'a Fleet,
    /// The members that are always well.
    healthy: Vec<(Access, Events)>,
    /// Samples of a round.
    samples: usize,
    /// There are so many rounds.
    rounds: usize,
    /// Edits and changes so far.
    edits: usize,
    changes: usize,
}

impl<'a> Bench<'a> {
    pub(super) async fn new(fleet: &'a Fleet, samples: usize, rounds: usize) -> Result<Self> {
        let mut healthy = Vec::new();
        for member in fleet.bed.members.iter().skip(UNWELL) {
            let client = member.client("admin").await?;
            let events = watch(&client, None).await?;
            healthy.push((Access::new(client, "bench-edit"), events));
        }
        Ok(Self { fleet, healthy, samples: samples.max(1), rounds, edits: 0, changes: 0 })
    }

    /// How many objects all edits take on one member.
    fn objects(&self) -> usize {
        (self.samples * self.rounds).div_ceil((MEMBERS - UNWELL) * EDITS)
    }

    pub(super) async fn deliver(&mut self) -> Result<()> {
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
        deliver(&self.fleet.hub, name, manifest).await
    }

    /// Waits until all members are ready and have everything, and the hub has settled.
    pub(super) async fn recovered(&self) -> Result<()> {
        self.fleet.joined_within(RECOVERED).await;
        self.fleet.ready_within("changing", RECOVERED).await?;
        self.fleet.settled(SETTLE, || Ok(())).await
    }

    pub(super) async fn round(&mut self, times: &mut Times) -> Result<()> {
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
