//! `heal`: how soon an edit and a deletion in a member are undone, one at a time and a hundred edits at once, beside
//! a bare loop that watches and applies.
//!
//! They come in turn to objects of the hub, of one loop and of a second loop: the two loops beside each other give
//! the spread of the machine. Timed is from the first request that does harm to the watch event that shows an
//! object as declared again, seen by one observer for all.

use std::{ops::Range, path::Path, time::Duration};

use anyhow::{Context, Result};
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::{task::JoinSet, time::Instant};

use super::{
    fleet::{Fleet, Judge, NAMESPACE, resource},
    floor,
    report::{Report, quantile},
    watched::{Events, object, undone, watch},
};
use crate::world::{Access, At};

/// Edits, and deletions, of each.
const TIMES: usize = 1000;
/// Objects of each that take turns: each less often than makes the hub take it for contention.
const OBJECTS: usize = TIMES / 4;
/// Objects of a burst.
const BURST: usize = 100;
/// Bursts of each that count, so many in each of the [`ORDERS`]; one before them opens connections.
const BURSTS: usize = 3 * ORDERS.len();
/// So many bursts' objects take turns, for the same reason.
const SETS: usize = ORDERS.len();
const SETTLE: Duration = Duration::from_secs(120);

const OWNERS: [&str; 3] = ["loop", "hub", "other"];

/// How the [`OWNERS`] take turns one by one: every other time backwards, so that both loops come behind the hub alike.
fn order(turn: usize) -> [usize; 3] {
    if turn.is_multiple_of(2) { [0, 1, 2] } else { [2, 1, 0] }
}

/// How they take turns with bursts: in every order alike. With 100 edits at once the member's API server collects garbage
/// once in three bursts, for half of that burst's time. Were one of them always in the same place, it could be the one
/// that has it each time.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 0, 2], [0, 2, 1]];

/// What is done to objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harm {
    Edit,
    Delete,
    Burst,
}

impl Harm {
    const ALL: [Self; 3] = [Self::Edit, Self::Delete, Self::Burst];

    fn named(words: &[String]) -> Result<Vec<Self>> {
        let named = words.iter().map(|word| {
            let harm = Self::ALL.into_iter().find(|harm| harm.word() == word);
            harm.with_context(|| format!("{word} is none of edit, delete, burst"))
        });
        if words.is_empty() { Ok(Self::ALL.to_vec()) } else { named.collect() }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Burst => "burst",
        }
    }

    fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Edit => ["ratio_p50", "ratio_p99"],
            Self::Delete => ["delete_ratio_p50", "delete_ratio_p99"],
            Self::Burst => ["burst_ratio_p50", "burst_ratio_p99"],
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Edit => "from an edit to the repaired object, over a bare watch-and-apply loop",
            Self::Delete => "from a deletion to the object made again, over a bare watch-and-create loop",
            Self::Burst => {
                "from 100 edits at once to each repaired object, over a bare loop with 32 in flight"
            }
        }
    }

    fn objects(self) -> usize {
        if self == Self::Burst { SETS * BURST } else { OBJECTS }
    }

    /// The VidraResources that hold them, each with the numbers of its objects.
    fn resources(self) -> impl Iterator<Item = (String, Range<usize>)> {
        let in_each = if self == Self::Burst { BURST } else { OBJECTS / 2 };
        (0..self.objects())
            .step_by(in_each)
            .map(move |first| (format!("{}-{first}", self.word()), first..first + in_each))
    }

    fn name(self, owner: &str, number: usize) -> String {
        format!("{owner}-{}-{number:03}", self.word())
    }
}

/// Milliseconds of each of the [`OWNERS`].
type Times = [Vec<f64>; 3];

/// Runs it with these harms; with all, where none is named.
pub async fn heal(binary: &Path, judge: Judge, harms: &[String]) -> Result<Report> {
    let harms = Harm::named(harms)?;
    let fleet = Fleet::start(binary, 1).await?;
    let member = fleet.bed.members.first().context("no member")?;
    deliver(&fleet, judge).await?;
    let mut loops = JoinSet::new();
    for owner in ["loop", "other"] {
        let client = member.client("admin").await?;
        for harm in Harm::ALL {
            for number in 0..harm.objects() {
                floor::put(&client, owner, &harm.name(owner, number)).await?;
            }
        }
        let events = watch(&client, Some(owner)).await?;
        loops.spawn(floor::keep(client, owner, events));
    }
    fleet.settled(SETTLE, || Ok(())).await?;

    let observer = watch(&member.client("admin").await?, None).await?;
    let editor = Access::new(member.client("admin").await?, "bench-edit");
    let mut bench = Bench { fleet: &fleet, editor, observer };
    let mut report = Report::new("heal");
    for harm in harms {
        let times = match harm {
            Harm::Burst => bench.bursts().await?,
            harm => bench.one_by_one(harm).await?,
        };
        tell(&mut report, harm, &times);
    }
    loops.shutdown().await;
    report.condition("what judges the objects", judge.word());
    report.condition("edits, deletions of each", TIMES);
    report.condition("bursts of each", BURSTS);
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    Ok(report)
}

/// What is the hub's.
async fn deliver(fleet: &Fleet, judge: Judge) -> Result<()> {
    for harm in Harm::ALL {
        for (name, numbers) in harm.resources() {
            let manifest: Vec<_> =
                numbers.map(|number| object("hub", &harm.name("hub", number)).to_string()).collect();
            let applied =
                fleet.hub.apply(&resource(&name, &manifest.join("\n---\n"), judge.spec()), true).await;
            applied.map_err(|refused| anyhow::anyhow!("the VidraResource: {refused}"))?;
        }
    }
    for (name, _) in Harm::ALL.into_iter().flat_map(Harm::resources) {
        fleet.ready(&name).await?;
    }
    Ok(())
}

fn tell(report: &mut Report, harm: Harm, [floor, hub, other]: &Times) {
    let of = |times: &Vec<f64>, share| match harm {
        Harm::Burst => of_the_middle_burst(times, share),
        Harm::Edit | Harm::Delete => quantile(times, share),
    };
    for (key, share, word) in [(harm.keys()[0], 0.5, "P50"), (harm.keys()[1], 0.99, "P99")] {
        report.figure(key, of(hub, share) / of(floor, share), Some(1.3), harm.what());
        let what = harm.word();
        report.condition(&format!("{what}: ms {word} of the hub"), of(hub, share));
        report.condition(&format!("{what}: ms {word} of the loop"), of(floor, share));
        let spread = of(other, share) / of(floor, share);
        report.condition(&format!("{what}: {word}, loop over loop: the spread"), spread);
    }
    if harm == Harm::Burst {
        for (owner, times) in [("the loop", floor), ("the hub", hub), ("the second loop", other)] {
            report.condition(&format!("burst: ms P99 of all together, {owner}"), quantile(times, 0.99));
            let last: Vec<_> = times.chunks(BURST).map(|burst| quantile(burst, 1.0).round()).collect();
            report.condition(&format!("burst: ms until the last object of each, {owner}"), last);
        }
    }
}

/// This quantile of each burst, and of these the median: the P99 of all bursts together is that of the worst one, which
/// is the one that the API server collects garbage in.
fn of_the_middle_burst(times: &[f64], share: f64) -> f64 {
    let each: Vec<_> = times.chunks(BURST).map(|burst| quantile(burst, share)).collect();
    quantile(&each, 0.5)
}

struct Bench<'a> {
    fleet: &'a Fleet,
    editor: Access,
    observer: Events,
}

impl Bench<'_> {
    async fn one_by_one(&mut self, harm: Harm) -> Result<Times> {
        let mut times = Times::default();
        for turn in 0..TIMES {
            for owner in order(turn) {
                let name = harm.name(OWNERS[owner], turn % OBJECTS);
                times[owner].extend(self.harmed(harm, &[name], turn).await?);
            }
            if turn % 200 == 199 {
                tracing::info!("{}: {} of {TIMES}", harm.word(), turn + 1);
            }
        }
        Ok(times)
    }

    async fn bursts(&mut self) -> Result<Times> {
        let mut times = Times::default();
        for turn in 0..=BURSTS {
            let first = turn % SETS * BURST;
            for owner in ORDERS[turn % ORDERS.len()] {
                // What was written behind the last repairs is not to stand in the way.
                self.fleet.settled(SETTLE, || Ok(())).await?;
                let names: Vec<_> =
                    (first..first + BURST).map(|number| Harm::Burst.name(OWNERS[owner], number)).collect();
                let found = self.harmed(Harm::Burst, &names, turn).await?;
                if turn > 0 {
                    times[owner].extend(found);
                }
            }
            tracing::info!("bursts: {turn} of {BURSTS}");
        }
        Ok(times)
    }

    /// Does harm to these objects, all at once; milliseconds until each is as declared again.
    async fn harmed(&mut self, harm: Harm, names: &[String], turn: usize) -> Result<Vec<f64>> {
        let began = Instant::now();
        let editor = &self.editor;
        let harms = stream::iter(names).for_each_concurrent(None, |name| async move {
            let at = At::config_map(NAMESPACE, name);
            match harm {
                Harm::Delete => editor.delete(&at).await,
                Harm::Edit | Harm::Burst => {
                    editor.merge(&at, json!({"data": {"value": format!("edit {turn}")}})).await;
                }
            }
        });
        let ((), undone) = tokio::join!(harms, undone(&mut self.observer, began, names));
        undone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_burst_in_which_the_server_collects_garbage_does_not_count_for_all() {
        let burst = |last: f64| (1..=BURST).map(move |nth| if nth < 90 { nth as f64 } else { last });
        let times: Vec<_> = [100.0, 400.0, 110.0].into_iter().flat_map(burst).collect();
        assert_eq!(quantile(&times, 0.99), 400.0);
        assert_eq!((of_the_middle_burst(&times, 0.5), of_the_middle_burst(&times, 0.99)), (50.0, 110.0));
    }
}
