//! `hubstate`: what it costs the hub side to keep its own records, beside what the change itself costs the
//! members.
//!
//! 1,000 targets (334 VidraResources on three members), each with an inventory of 1,000 entries that the bench
//! wrote, while the members hold only the one object of each target that changes.

use std::{ops::Sub, path::Path, time::Duration};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use vidra_api::{
    InventoryEntry, TargetState, VidraInventory, VidraInventorySpec, VidraTarget, inventory::ENTRIES_MAX,
    labels::FINALIZER, names::inventory_name,
};

use super::{
    etcd,
    fleet::{Fleet, NAMESPACE, resource},
    ledger,
    process::resident_bytes,
    report::Report,
};

const MEMBERS: usize = 3;
/// Changes that the bench has under way at once.
const IN_FLIGHT: usize = 8;
/// Bytes of an object's data: as in the bench `apply`.
const DATA: usize = 1024;
/// For one step, on a slow machine.
const STEP: Duration = Duration::from_secs(1200);
/// How long the idle CPU is measured, which is reported beside the figures.
const IDLE: Duration = Duration::from_secs(10);

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// VidraResources, each on three members.
    pub resources: usize,
    /// Entries in the inventory of each target.
    pub entries: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { resources: 334, entries: 1000 }
    }
}

/// Runs it.
pub async fn hubstate(binary: &Path, size: Size) -> Result<Report> {
    let fleet = Fleet::start(binary, MEMBERS).await?;
    let bench = Bench { fleet: &fleet, size };
    let mut report = Report::new("hubstate");
    let file_before = etcd::file_bytes(&fleet.bed.dir)?;
    bench.deliver("first").await?;
    fleet.settled(STEP, || Ok(())).await?;
    let resident_before = fleet.process.resident_bytes()?.0;
    bench.write_inventories().await?;
    let idle = bench.idle().await?;
    bench.change(idle, &mut report).await?;
    bench.weigh(&mut report, file_before, resident_before).await?;
    report.condition("targets", size.resources * MEMBERS);
    report.condition("inventory entries", size.resources * MEMBERS * size.entries);
    report.condition(
        "change",
        format!("one ConfigMap of {DATA} bytes in each VidraResource, {IN_FLIGHT} VidraResources in flight"),
    );
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    Ok(report)
}

struct Bench<'a> {
    fleet: &'a Fleet,
    size: Size,
}

impl Bench<'_> {
    /// Applies all VidraResources with this word in their objects.
    async fn deliver(&self, word: &str) -> Result<()> {
        tracing::info!("applying {} VidraResources: {word}", self.size.resources);
        let apply = |number| {
            let name = format!("object-{number:04}");
            let resource = resource(&name, &manifest(&name, word), json!({"prune": false}));
            async move {
                let applied = self.fleet.hub.apply(&resource, true).await;
                applied.map(|_| ()).map_err(|refused| anyhow::anyhow!("{name}: {refused}"))
            }
        };
        stream::iter(0..self.size.resources).map(apply).buffer_unordered(IN_FLIGHT).try_collect::<()>().await
    }

    async fn targets(&self) -> Result<Vec<VidraTarget>> {
        list(&Api::namespaced(self.fleet.client(), NAMESPACE)).await
    }

    /// Fills each target's inventory up, as the hub itself would have written it: it changes nothing there.
    async fn write_inventories(&self) -> Result<()> {
        let targets = self.delivered("first").await?;
        tracing::info!("writing {} inventories of {} entries", targets.len(), self.size.entries);
        let since = ledger::mark(&self.fleet.bed.hub)?;
        let api: Api<VidraInventory> = Api::namespaced(self.fleet.client(), NAMESPACE);
        let fill = |(seed, target): (u64, VidraTarget)| {
            let (api, rng) = (api.clone(), fastrand::Rng::with_seed(seed));
            async move { fill(&api, &target, self.size.entries, rng).await }
        };
        let fills = stream::iter((0..).zip(targets)).map(fill).buffer_unordered(IN_FLIGHT);
        fills.try_collect::<()>().await?;
        self.fleet.settled(STEP, || Ok(())).await?;
        let seen = ledger::work(&self.fleet.bed.hub, since)?;
        let touched = seen.iter().filter(|request| request.resource == "vidrainventories").count();
        ensure!(
            touched == 0,
            "the hub made {touched} requests for inventories that it should have taken as they are"
        );
        Ok(())
    }

    /// CPU seconds in a second without a change.
    async fn idle(&self) -> Result<Cpu> {
        let before = self.cpu()?;
        sleep(IDLE).await;
        Ok((self.cpu()? - before).over(IDLE.as_secs_f64()))
    }

    fn cpu(&self) -> Result<Cpu> {
        let members = self.fleet.bed.members.iter().map(|member| member.cpu_seconds());
        Ok(Cpu {
            api: self.fleet.bed.hub.cpu_seconds()?,
            hub: self.fleet.process.cpu_seconds()?,
            members: members.sum::<Result<f64>>()?,
        })
    }

    async fn change(&self, idle: Cpu, report: &mut Report) -> Result<()> {
        let (since, began) = (ledger::mark(&self.fleet.bed.hub)?, Instant::now());
        let member_marks: Vec<_> = self.fleet.bed.members.iter().map(ledger::mark).collect::<Result<_>>()?;
        let (before, passes) = (self.cpu()?, self.fleet.passes().await?);
        // The last look at which the hub was still at work.
        let mut end = (before, began);
        self.deliver("second").await?;
        let look = || {
            end = (self.cpu()?, Instant::now());
            Ok(())
        };
        self.fleet.settled(STEP, look).await?;
        self.delivered("second").await?;
        let (used, seconds) = (end.0 - before, (end.1 - began).as_secs_f64());
        let net = used - idle.times(seconds);
        report.figure(
            "cpu_ratio",
            used.ratio(),
            Some(4.0),
            "CPU of the hub side over that of the members' API servers",
        );
        report.condition("seconds", rounded(seconds));
        report.condition("CPU seconds", used.json());
        report.condition("CPU seconds, idle taken off", net.json());
        report.condition("cpu_ratio, idle taken off", rounded(net.ratio()));
        let targets = (self.size.resources * MEMBERS) as f64;
        let of_a_target = |seen: &[crate::testbed::Request]| -> Map<String, Value> {
            let sorts = ledger::sorts(seen).into_iter();
            sorts.map(|(sort, count)| (sort, rounded(count as f64 / targets))).collect()
        };
        let passes = self.fleet.passes().await? - passes;
        report.condition("looks at a changed target", rounded(passes / targets));
        let hub = ledger::work(&self.fleet.bed.hub, since)?;
        report.condition("hub requests for a changed target", of_a_target(&hub));
        let mut members = Vec::new();
        for (member, since) in self.fleet.bed.members.iter().zip(member_marks) {
            members.extend(ledger::work(member, since)?);
        }
        report.condition("member requests for a changed target", of_a_target(&members));
        Ok(())
    }

    /// All targets are Ready with the newest revision, and the members have what it says.
    async fn delivered(&self, word: &str) -> Result<Vec<VidraTarget>> {
        let targets = self.targets().await?;
        ensure!(targets.len() == self.size.resources * MEMBERS, "there are {} targets", targets.len());
        for target in &targets {
            let status = target.status.clone().unwrap_or_default();
            let current = status.observed_generation == target.metadata.generation
                && status.revision.as_ref() == Some(&target.spec.revision)
                && status.state == Some(TargetState::Ready);
            ensure!(current, "{} has not settled: {status:?}", target.name_any());
        }
        for member in &self.fleet.bed.members {
            let api: Api<ConfigMap> = Api::namespaced(member.client("admin").await?, NAMESPACE);
            let is_new = |object: &&ConfigMap| {
                object.data.as_ref().and_then(|data| data.get("word")).is_some_and(|found| found == word)
            };
            let objects = list(&api).await?;
            let new = objects.iter().filter(is_new).count();
            ensure!(new == self.size.resources, "{} has {new} objects with {word:?}", member.name);
        }
        Ok(targets)
    }

    async fn weigh(&self, report: &mut Report, file_before: u64, resident_before: u64) -> Result<()> {
        let (resident, most) = self.fleet.process.resident_bytes()?;
        let api_server = resident_bytes(self.fleet.bed.hub.pid)?.0;
        let file = etcd::file_bytes(&self.fleet.bed.dir)?;
        tracing::info!("reading what the hub keeps");
        let live = etcd::live_bytes(&self.fleet.client()).await?;
        report.figure(
            "etcd_bytes",
            live.values().sum::<usize>() as f64,
            None,
            "the hub's objects, newest versions, as JSON",
        );
        report.figure("hub_rss_bytes", resident as f64, None, "memory of the hub's process, settled");
        report.condition("etcd_bytes by resource", json!(live));
        report.condition("etcd_bytes is", "the length of the newest versions as JSON with managedFields, as custom resources are stored; etcd's file beside it holds old versions too");
        report.condition("etcd's file, growth in bytes", file.saturating_sub(file_before));
        report.condition("hub_rss_bytes, most", most);
        report.condition("memory of the hub's API server in bytes", api_server);
        report.condition("hub_rss_bytes before the inventories", resident_before);
        Ok(())
    }
}

/// CPU seconds.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// The hub's API server.
    api: f64,
    /// The hub's process.
    hub: f64,
    /// The members' API servers.
    members: f64,
}

impl Cpu {
    fn times(self, factor: f64) -> Self {
        Self { api: self.api * factor, hub: self.hub * factor, members: self.members * factor }
    }

    fn over(self, divisor: f64) -> Self {
        self.times(1.0 / divisor)
    }

    fn ratio(self) -> f64 {
        (self.api + self.hub) / self.members
    }

    fn json(self) -> Value {
        json!({
            "hub's API server": rounded(self.api),
            "hub's process": rounded(self.hub),
            "members' API servers": rounded(self.members),
        })
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { api: self.api - other.api, hub: self.hub - other.hub, members: self.members - other.members }
    }
}

fn rounded(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}

/// All objects, page by page.
async fn list<K>(api: &Api<K>) -> Result<Vec<K>>
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let mut params = ListParams::default().limit(200);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// Adds entries to a target's first chunk until it is full, and writes the other chunks.
async fn fill(
    api: &Api<VidraInventory>,
    target: &VidraTarget,
    entries: usize,
    mut rng: fastrand::Rng,
) -> Result<()> {
    let (resource, cluster) = (&target.spec.resource, &target.spec.cluster);
    let mut first = api.get(&inventory_name(resource, cluster, 0)).await?;
    let missing = entries.saturating_sub(first.spec.entries.len());
    let mut rest: Vec<_> = (0..missing).map(|number| invented(resource, number, &mut rng)).collect();
    let room = ENTRIES_MAX.saturating_sub(first.spec.entries.len()).min(missing);
    first.spec.entries.extend(rest.drain(..room));
    let more = rest.len().div_ceil(ENTRIES_MAX) as i32;
    first.spec.chunks = if more > 0 { (0..=more).collect() } else { Vec::new() };
    first.metadata.managed_fields = None;
    api.replace(&first.name_any(), &PostParams::default(), &first).await?;
    for (chunk, entries) in (1..).zip(rest.chunks(ENTRIES_MAX)) {
        let (resource, cluster) = (resource.clone(), cluster.clone());
        let name = inventory_name(&resource, &cluster, chunk);
        let cluster_uid = first.spec.cluster_uid.clone();
        let entries = entries.to_vec();
        let spec =
            VidraInventorySpec { resource, cluster, cluster_uid, chunk, entries, ..Default::default() };
        let mut made = VidraInventory::new(&name, spec);
        made.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        api.create(&PostParams::default(), &made).await?;
    }
    Ok(())
}

/// A ConfigMap that no member has. prune is false: nobody looks whether it is there.
fn invented(resource: &str, number: usize, rng: &mut fastrand::Rng) -> InventoryEntry {
    let (high, low) = (rng.u64(..), rng.u64(..));
    InventoryEntry {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: NAMESPACE.into(),
        name: format!("{resource}-invented-{number:04}"),
        uid: format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        ),
        done: true,
        ..InventoryEntry::default()
    }
}

/// One ConfigMap that says a word, and is filled up.
fn manifest(name: &str, word: &str) -> String {
    let data = json!({"word": word, "filling": "x".repeat(DATA - word.len())});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_entries_have_uids_of_their_own() {
        let mut rng = fastrand::Rng::with_seed(1);
        let entries: Vec<_> = (0..1000).map(|number| invented("shop", number, &mut rng)).collect();
        let uids: std::collections::BTreeSet<_> = entries.iter().map(|entry| &entry.uid).collect();
        assert_eq!(uids.len(), 1000);
        assert!(uids.iter().all(|uid| uid.len() == 36), "{uids:?}");
    }

    #[test]
    fn the_hub_side_is_compared_with_the_members() {
        let used =
            Cpu { api: 3.0, hub: 1.0, members: 2.0 } - Cpu { api: 1.0, hub: 0.0, members: 1.0 }.times(0.5);
        assert!((used.ratio() - 3.5 / 1.5).abs() < 1e-9, "{used:?}");
    }
}
