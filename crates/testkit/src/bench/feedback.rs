//! The part of `health` about values that come back: those of all members change each second, and what the hub writes, and
//! how fast it repairs, stands beside a time in which nobody asks for them.

use std::{ops::Range, time::Duration};

use anyhow::{Context, Result};
use futures::future::join_all;
use kube::Api;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use vidra_api::{TargetState, VidraTarget};

use super::{
    fleet::{NAMESPACE, resource},
    memkube::reached,
    process::HubProcess,
    report::{Report, quantile},
    watched::{Events, object, undone, watch},
};
use crate::world::{Access, At};

const SECOND: Duration = Duration::from_secs(1);
/// How long values change, and how long they do not.
const MINUTE: Duration = Duration::from_secs(60);
/// Values alone are written so often a second, of all targets together: what the hub promises.
const A_SECOND: f64 = 10.0;
const BETWEEN_VALUES: Duration = Duration::from_secs(10);
/// Edits in a second, one after another.
const EDITS_A_SECOND: usize = 5;
/// Edits in a minute: of fewer, the slowest alone would be the P99. Each is of another ConfigMap: what somebody edits again
/// and again is left alone for a while.
const EDITS: usize = 60 * EDITS_A_SECOND;

/// What the parts of it work on.
pub struct Feedback<'a> {
    /// The hub's cluster.
    pub hub: &'a Access,
    /// The hub.
    pub process: &'a HubProcess,
    /// The members; each has the object.
    pub members: &'a [Access],
    /// An object of each member, with a number in its status.
    pub object: At,
    /// Sets that number.
    pub value: fn(usize) -> Value,
    /// Asks for it.
    pub rule: Value,
    /// Of the VidraResource with that object: its name and its manifest.
    pub resource: (&'static str, String),
    /// The first member's name.
    pub first: &'a str,
}

/// What a minute came to; or two of them.
struct Minute {
    /// Milliseconds of each.
    repairs: Vec<f64>,
    /// At the hub's API.
    writes: f64,
    /// Reconciles of targets.
    targets: f64,
    /// Reconciles of VidraResources and MemberClusters.
    others: f64,
}

impl Minute {
    fn with(mut self, other: Self) -> Self {
        self.repairs.extend(other.repairs);
        self.writes += other.writes;
        self.targets += other.targets;
        self.others += other.others;
        self
    }
}

impl Feedback<'_> {
    /// Runs it; nothing is asked for afterwards.
    pub async fn run(&self, report: &mut Report) -> Result<()> {
        self.deliver_what_is_edited().await?;
        // In the order A B B A, so that what drifts falls on both alike.
        let unasked = self.minute(true, 0..EDITS).await?;
        self.ask_for(json!([self.rule])).await?;
        self.values_are_there(true).await?;
        // What the new rule leads to has settled.
        sleep(2 * BETWEEN_VALUES).await;
        let busy = self.minute(true, EDITS..2 * EDITS).await?;
        let busy = busy.with(self.minute(true, 2 * EDITS..3 * EDITS).await?);
        // The last are written when all have had their turns.
        sleep(2 * BETWEEN_VALUES + Duration::from_secs_f64(self.members.len() as f64 / A_SECOND)).await;
        let rest = self.minute(false, 0..0).await?;
        self.ask_for(json!([])).await?;
        self.values_are_there(false).await?;
        sleep(2 * BETWEEN_VALUES).await;
        let unasked = unasked.with(self.minute(true, 3 * EDITS..4 * EDITS).await?);
        // What the last repairs have told is written.
        sleep(BETWEEN_VALUES).await;
        self.tell(report, (&unasked, &busy, &rest));
        Ok(())
    }

    /// Two minutes in which nobody asks for the values that change, two in which they come back, and one in which none changes.
    fn tell(&self, report: &mut Report, (unasked, busy, rest): (&Minute, &Minute, &Minute)) {
        let writes = busy.writes - unasked.writes;
        let most = 2.0 * A_SECOND * MINUTE.as_secs_f64();
        let what =
            "hub writes in two minutes in which all values change each second, more than for repairs alone";
        report.figure("feedback_writes", writes, Some(most), what);
        let what = "hub writes in a minute in which none does";
        report.figure("feedback_rest_writes", rest.writes, Some(0.0), what);
        // Each target is reconciled when its values change first, and takes its turn; when that comes; and again with the next
        // change.
        let most = self.members.len() as f64 + 2.0 * writes;
        let what = "reconciles of targets meanwhile, none of which calls a member, over one a target and two a write";
        report.figure("feedback_reconciles", (busy.targets - unasked.targets) / most, Some(1.1), what);
        let what = "reconciles of VidraResources and MemberClusters for each of these writes";
        report.figure("feedback_others", (busy.others - unasked.others).max(0.0) / writes, Some(0.05), what);
        let ratio = quantile(&busy.repairs, 0.99) / quantile(&unasked.repairs, 0.99);
        let what = "P99 of repairs meanwhile, over that of two minutes in which the values change and nobody asks for them";
        report.figure("feedback_repair_p99", ratio, Some(1.3), what);
        for (name, minute) in [("while nobody asks for values", unasked), ("while values come back", busy)] {
            report.condition(&format!("repairs {name}"), minute.repairs.len());
            report.condition(&format!("ms P99 of repairs {name}"), quantile(&minute.repairs, 0.99));
            report.condition(&format!("reconciles of targets {name}"), minute.targets);
            report.condition(&format!("reconciles of others {name}"), minute.others);
            report.condition(&format!("hub writes {name}, with those for repairs"), minute.writes);
        }
    }

    /// ConfigMaps in the first member.
    async fn deliver_what_is_edited(&self) -> Result<()> {
        let maps = (0..4 * EDITS).map(|number| object("hub", &edited(number)).to_string());
        let mut wanted = resource("edited", &maps.collect::<Vec<_>>().join("\n---\n"), json!({}));
        wanted["spec"]["targets"] = json!([{"clusterNames": [self.first]}]);
        let applied = self.hub.apply(&wanted, true).await;
        applied.map_err(|refused| anyhow::anyhow!("VidraResource edited: {refused}"))?;
        let is_ready = |one: &VidraTarget| {
            one.spec.resource == "edited"
                && one.status.as_ref().is_some_and(|status| status.state == Some(TargetState::Ready))
        };
        self.targets("what is edited is there", 1, is_ready).await
    }

    async fn values_are_there(&self, wanted: bool) -> Result<()> {
        let (name, _) = self.resource;
        let says = move |one: &VidraTarget| {
            let feedback = one.status.as_ref().and_then(|status| status.feedback.as_ref());
            one.spec.resource == name && feedback.is_some() == wanted
        };
        self.targets("targets have values, or none", self.members.len(), says).await
    }

    /// Waits until so many targets are like this.
    async fn targets(
        &self,
        what: &str,
        count: usize,
        are: impl Fn(&VidraTarget) -> bool + Copy + Send + 'static,
    ) -> Result<()> {
        let targets: Api<VidraTarget> = Api::namespaced(self.hub.client.clone(), NAMESPACE);
        reached(what, count, || {
            let targets = targets.clone();
            Box::pin(async move {
                Ok(targets.list(&Default::default()).await?.items.iter().filter(|one| are(one)).count())
            })
        })
        .await
    }

    async fn ask_for(&self, rules: Value) -> Result<()> {
        let (name, manifest) = &self.resource;
        let wanted = resource(name, manifest, json!({"statusFeedback": rules}));
        let applied = self.hub.apply(&wanted, true).await;
        applied.map(drop).map_err(|refused| anyhow::anyhow!("VidraResource {name}: {refused}"))
    }

    /// A minute in which each member's value changes each second, each at its own moment, and some of these ConfigMaps are
    /// edited; or neither.
    async fn minute(&self, values: bool, mut edits: Range<usize>) -> Result<Minute> {
        let first = self.members.first().context("no members")?;
        let mut events = watch(&first.client, None).await?;
        let looks = async |of: &str| {
            self.process.metric(&format!("workqueue_work_duration_seconds_count{{name=\"{of}\"}}")).await
        };
        let others = async || Ok::<_, anyhow::Error>(looks("resource").await? + looks("cluster").await?);
        let writes = async || self.process.metrics("vidra_api_requests_total{cluster=\"hub\"").await;
        let (targets, others_before) = (looks("target").await?, others().await?);
        let (written, began) = (writes().await?, Instant::now());
        let mut seconds = interval(SECOND);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut repairs = Vec::new();
        for turn in 1.. {
            seconds.tick().await;
            if began.elapsed() >= MINUTE {
                break;
            }
            let change = async {
                let members = self.members.iter().enumerate().filter(|_| values);
                join_all(members.map(async |(nth, member)| {
                    sleep(SECOND.mul_f64(nth as f64 / self.members.len() as f64)).await;
                    member.merge_status(&self.object, (self.value)(turn)).await;
                }))
                .await;
            };
            let repair = async {
                let mut moments = interval(SECOND / EDITS_A_SECOND as u32);
                for number in edits.by_ref().take(EDITS_A_SECOND) {
                    moments.tick().await;
                    repairs.extend(repair(first, &mut events, &edited(number)).await?);
                }
                Ok::<_, anyhow::Error>(())
            };
            tokio::join!(change, repair).1?;
        }
        let (targets, others) = (looks("target").await? - targets, others().await? - others_before);
        Ok(Minute { repairs, writes: writes().await? - written, targets, others })
    }
}

fn edited(number: usize) -> String {
    format!("edited-{number:03}")
}

/// Milliseconds until an edit is undone.
async fn repair(member: &Access, events: &mut Events, name: &str) -> Result<Vec<f64>> {
    let (at, names, began) = (At::config_map(NAMESPACE, name), [name.to_owned()], Instant::now());
    let edit = member.merge(&at, json!({"data": {"value": "edited"}}));
    tokio::join!(edit, undone(events, began, &names)).1
}
