//! The part of `isolation` about harm that somebody means: members that turn hostile, a user of a member who forges the
//! hub's labels, a VidraResource that takes as much work as it may, a member that comes and goes. Each is beside a
//! control in which the machine has the same to do and the hub has not: the same server sends the same bytes in a second
//! to a client that drains them, as many objects are made without the hub's labels, the same VidraResource changes
//! without what takes work.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, WatchParams},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{
    fleet::{Fleet, NAMESPACE, resource, resource_at},
    hostile::{Attack, Hostile, Sent},
    isolation::{Bench, Isolation, MEMBERS, PACE, Times, UNWELL},
    process::HubProcess,
    report::{Report, quantile},
    tenants::{Tenant, apply},
    watched::object,
};
use crate::{
    proxy::{Conduct, Proxy},
    refusals::{self, OPERATIONS, Refusals},
    testbed::Testbed,
    world::{Access, At},
};

const ROUNDS: usize = 4;
/// What happens until then is the first offence, and is not counted as what the harm costs.
const OFFENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A member that comes and goes is there, and away, for so long.
const FLAP: Duration = Duration::from_secs(2);
/// Objects that a member's user makes for each sample: 10,000 with 500.
const FORGED_PER_SAMPLE: usize = 20;
/// Between two changes of a VidraResource that does harm, or of what a hostile member does.
const CHANGE: Duration = Duration::from_secs(5);
/// What is refused takes so many values in turn.
const TURNS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Serves(Attack),
    Flaps,
    Labels,
    Declares(Tenant),
    Refuses,
    /// All but the one that comes and goes, for nobody can be hostile who is away.
    All,
}

/// The bomb late: its objects stay.
const HARMS: [(&str, Harm); 12] = [
    ("nonsense", Harm::Serves(Attack::Nonsense)),
    ("causes", Harm::Serves(Attack::Causes)),
    ("endless-list", Harm::Serves(Attack::EndlessList)),
    ("flood", Harm::Serves(Attack::Flood)),
    ("endless-line", Harm::Serves(Attack::EndlessLine)),
    ("flapping", Harm::Flaps),
    ("labels", Harm::Labels),
    ("deep", Harm::Declares(Tenant::Deep)),
    ("yaml", Harm::Declares(Tenant::Yaml)),
    ("webhook", Harm::Refuses),
    ("bomb", Harm::Declares(Tenant::Overrides)),
    ("all", Harm::All),
];
const ATTACKS: [Attack; 5] =
    [Attack::Nonsense, Attack::Causes, Attack::EndlessList, Attack::Flood, Attack::EndlessLine];

/// The names of the harms.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    HARMS.into_iter().map(|(name, _)| name)
}

impl Harm {
    /// The VidraResources that it is done with.
    fn tenants(self) -> Vec<Tenant> {
        match self {
            Self::Declares(tenant) => vec![tenant],
            Self::All => Tenant::ALL.to_vec(),
            _ => Vec::new(),
        }
    }

    fn refuses(self) -> bool {
        matches!(self, Self::Refuses | Self::All)
    }
}

/// One harm with its control.
#[derive(Default)]
struct Found {
    harmed: Times,
    control: Times,
    /// CPU of the hub in seconds of a second, in each.
    cpu: [f64; 2],
    /// Bytes that the hub held beyond what it held before: at the first offence, and after it.
    held: [u64; 2],
    /// What was done in a second, of each kind.
    rate: BTreeMap<&'static str, f64>,
    /// P50 of a repair in each round of the control: what the machine makes of the same work.
    controls: Vec<f64>,
}

/// Runs those that are asked for.
pub(super) async fn attacked(binary: &Path, size: &Isolation, report: &mut Report) -> Result<()> {
    let harms: Vec<_> = HARMS.into_iter().filter(|(name, _)| size.has(name)).collect();
    if harms.is_empty() {
        return Ok(());
    }
    let bed = Testbed::start(&["--members", &MEMBERS.to_string()])?;
    let mut doors = Vec::new();
    for member in bed.members.iter().take(UNWELL) {
        let hostile = Arc::new(Hostile::start(member).await?);
        doors.push(Door {
            proxy: Arc::new(Proxy::start(hostile.address()).await?),
            hostile,
            name: member.name.clone(),
        });
    }
    let fleet = Fleet::on(binary, bed, |member| match doors.iter().find(|door| door.name == member.name) {
        Some(door) => door.hostile.kubeconfig(&door.proxy.url()),
        None => member.kubeconfig("vidra-hub"),
    })
    .await?;
    let samples = size.samples.div_ceil(ROUNDS);
    let mut bench = Bench::new(&fleet, samples, ROUNDS * harms.len() * 2).await?;
    bench.deliver().await?;
    let site = Site::new(&fleet, &doors, samples).await?;

    let mut worst = Worst::default();
    for (name, harm) in harms {
        let mut found = Found::default();
        for round in 0..ROUNDS {
            site.prepare(harm).await?;
            bench.recovered().await?;
            site.round(harm, round, &mut bench, &mut found).await?;
        }
        worst.tell(name, harm, &found, report);
    }
    worst.conclude(report);
    report.condition("bed of the harms", fleet.describe().await?);
    fleet.stop().await?;
    for door in doors {
        door.proxy.set(Conduct::Refuse);
    }
    Ok(())
}

/// The way to a member that is to be unwell.
struct Door {
    name: String,
    hostile: Arc<Hostile>,
    proxy: Arc<Proxy>,
}

/// What harms are done with.
struct Site<'a> {
    fleet: &'a Fleet,
    doors: &'a [Door],
    /// Samples of a round.
    samples: usize,
    /// One of the members, as a user of it.
    user: Client,
    hub_id: String,
    /// Who owns what all members have.
    owner: String,
    refusals: Refusals,
}

impl<'a> Site<'a> {
    async fn new(fleet: &'a Fleet, doors: &'a [Door], samples: usize) -> Result<Self> {
        let member = fleet.bed.members.first().context("no member")?;
        let admin = Access::new(member.client("admin").await?, "bench");
        for object in crowd_rights() {
            admin.create(object).await;
        }
        let changing = admin.live(&At::config_map(NAMESPACE, "changing")).await;
        let hub_id = changing["metadata"]["labels"]["vidra.dev/hub"].as_str();
        let hub_id = hub_id.context("a delivered object bears no label of the hub")?.to_owned();
        let annotations = changing["metadata"]["annotations"].as_object();
        let owner = annotations.and_then(|all| all.keys().find_map(|key| key.strip_prefix(OWNER)));
        let owner = owner.context("a delivered object bears no stamp")?.to_owned();
        let user = member.client("limited").await?;
        Ok(Self { fleet, doors, samples, user, hub_id, owner, refusals: Refusals::start().await? })
    }

    /// What must be there before the harm begins.
    async fn prepare(&self, harm: Harm) -> Result<()> {
        let targets = self.targets();
        for tenant in harm.tenants() {
            apply(&self.fleet.hub, &tenant.declares(false, 0, &targets)).await?;
            tenant.rest(&self.fleet.hub, &targets).await?;
            self.fleet.ready(tenant.name()).await?;
        }
        if harm.refuses() {
            for name in ["update", "delete"].into_iter().flat_map(refusals::names) {
                apply(&self.fleet.hub, &self.refused(&name, 0)).await?;
                self.fleet.ready(&name).await?;
            }
        }
        Ok(())
    }

    /// The harm, and then its control.
    async fn round(&self, harm: Harm, round: usize, bench: &mut Bench<'_>, found: &mut Found) -> Result<()> {
        let hub = &self.fleet.process;
        let before = hub.resident_bytes()?.0;
        let mut beside = JoinSet::new();
        self.begin(harm, round, &mut beside).await?;
        found.held[0] = found.held[0].max(most(hub, sleep(OFFENCE)).await?.1.saturating_sub(before));
        let (sent, cpu, began) = (self.sent(), hub.cpu_seconds()?, Instant::now());
        let (done, held) = most(hub, bench.round(&mut found.harmed)).await?;
        done?;
        let seconds = began.elapsed().as_secs_f64();
        found.cpu[0] += (hub.cpu_seconds()? - cpu) / seconds / ROUNDS as f64;
        found.held[1] = found.held[1].max(held.saturating_sub(before));
        let now = self.sent();
        let rates = self.rates(harm, (now.bytes - sent.bytes, now.answers - sent.answers), seconds);
        for (what, rate) in &rates {
            *found.rate.entry(*what).or_default() += rate / ROUNDS as f64;
        }
        self.end(harm, &mut beside).await?;
        bench.recovered().await?;

        self.begin_control(harm, round, &rates, &mut beside).await?;
        sleep(OFFENCE).await;
        let (cpu, began) = (hub.cpu_seconds()?, Instant::now());
        let known = found.control.heals.len();
        bench.round(&mut found.control).await?;
        found.controls.push(quantile(&found.control.heals[known..], 0.5));
        found.cpu[1] += (hub.cpu_seconds()? - cpu) / began.elapsed().as_secs_f64() / ROUNDS as f64;
        self.end(harm, &mut beside).await
    }

    async fn begin(&self, harm: Harm, round: usize, beside: &mut JoinSet<Result<()>>) -> Result<()> {
        match harm {
            Harm::Serves(attack) => self.doors.iter().for_each(|door| door.hostile.set(Some(attack))),
            Harm::Flaps => {
                let proxies: Vec<_> = self.doors.iter().map(|door| door.proxy.clone()).collect();
                beside.spawn(async move {
                    for conduct in [Conduct::Refuse, Conduct::Pass].into_iter().cycle() {
                        proxies.iter().for_each(|proxy| proxy.set(conduct));
                        sleep(FLAP).await;
                    }
                    Ok(())
                });
            }
            Harm::Labels => self.crowd(&format!("forged-{round}"), true, beside),
            Harm::Declares(tenant) => self.changes(tenant, true, beside),
            Harm::Refuses => self.refuse(true, beside).await?,
            Harm::All => {
                self.crowd(&format!("forged-{round}"), true, beside);
                Tenant::ALL.into_iter().for_each(|tenant| self.changes(tenant, true, beside));
                self.refuse(true, beside).await?;
                self.take_turns(beside);
            }
        }
        Ok(())
    }

    /// The hostile members change what they do now and then, each to something else.
    fn take_turns(&self, beside: &mut JoinSet<Result<()>>) {
        for (first, door) in self.doors.iter().enumerate() {
            let hostile = door.hostile.clone();
            beside.spawn(async move {
                for attack in ATTACKS.into_iter().cycle().skip(first) {
                    hostile.set(Some(attack));
                    sleep(CHANGE).await;
                }
                Ok(())
            });
        }
    }

    /// A webhook of a healthy member refuses what changes now and then; otherwise it only changes.
    async fn refuse(&self, is_refused: bool, beside: &mut JoinSet<Result<()>>) -> Result<()> {
        let [created, updated, deleted] = OPERATIONS.map(refusals::names);
        if is_refused {
            self.webhook(true).await?;
            for name in &deleted {
                self.fleet.hub.delete(&resource_at(name)).await;
            }
        }
        let hub = Access::new(self.fleet.client(), "bench");
        let declared = |number| {
            let names = created.iter().chain(&updated);
            names.map(|name| self.refused(name, number)).collect::<Vec<_>>()
        };
        let turns: Vec<_> = (1..=TURNS).map(declared).collect();
        beside.spawn(async move {
            for turn in turns.iter().cycle() {
                for declared in turn {
                    apply(&hub, declared).await?;
                }
                sleep(CHANGE).await;
            }
            Ok(())
        });
        Ok(())
    }

    /// It is asked, or not any more.
    async fn webhook(&self, is_asked: bool) -> Result<()> {
        let member = self.fleet.bed.members.get(UNWELL).context("no healthy member")?;
        let admin = Access::new(member.client("admin").await?, "bench");
        let configuration = self.refusals.configuration("bench", NAMESPACE);
        match is_asked {
            true => drop(apply(&admin, &configuration).await?),
            false => admin.delete(&At::of(&configuration)).await,
        }
        Ok(())
    }

    /// One of the VidraResources whose object the webhook refuses something of.
    fn refused(&self, name: &str, number: usize) -> Value {
        let mut one = object("hub", name);
        one["data"]["value"] = format!("change {number}").into();
        let mut declared = resource(name, &one.to_string(), json!({}));
        let healthy = self.fleet.bed.members.get(UNWELL).map(|member| member.name.as_str());
        declared["spec"]["targets"] = json!([{"clusterNames": [healthy]}]);
        declared
    }

    async fn begin_control(
        &self,
        harm: Harm,
        round: usize,
        rates: &BTreeMap<&'static str, f64>,
        beside: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        match harm {
            Harm::Serves(attack) => {
                let rate = rates.get(BYTES).copied().unwrap_or_default();
                for door in self.doors {
                    let hostile = door.hostile.clone();
                    beside.spawn(async move { hostile.drain(attack, rate).await });
                }
            }
            // Nothing is sent, and nothing drains it. Of all together it only counts that nothing is missed.
            Harm::Flaps | Harm::All => {}
            Harm::Labels => {
                let all: Api<ConfigMap> = Api::namespaced(self.user.clone(), CROWD);
                let params = WatchParams::default().timeout(290);
                let mut events = all.watch(&params, "0").await?.boxed();
                beside.spawn(async move {
                    while events.try_next().await?.is_some() {}
                    bail!("the watch that drains has ended")
                });
                self.crowd(&format!("plain-{round}"), false, beside);
            }
            Harm::Declares(tenant) => self.changes(tenant, false, beside),
            Harm::Refuses => self.refuse(false, beside).await?,
        }
        Ok(())
    }

    async fn end(&self, harm: Harm, beside: &mut JoinSet<Result<()>>) -> Result<()> {
        // What was done beside goes on until it is ended here.
        while let Some(ended) = beside.try_join_next() {
            ended??;
        }
        beside.shutdown().await;
        for door in self.doors {
            door.hostile.set(None);
            door.proxy.set(Conduct::Pass);
        }
        if harm.refuses() {
            self.webhook(false).await?;
        }
        for tenant in harm.tenants() {
            tenant.rest(&self.fleet.hub, &self.targets()).await?;
        }
        if matches!(harm, Harm::Labels | Harm::All) {
            let all: Api<ConfigMap> = Api::namespaced(self.user.clone(), CROWD);
            all.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        }
        Ok(())
    }

    /// Of all hostile members.
    fn sent(&self) -> Sent {
        self.doors.iter().map(|door| door.hostile.sent()).fold(Sent::default(), |sum, one| Sent {
            bytes: sum.bytes + one.bytes,
            answers: sum.answers + one.answers,
        })
    }

    /// What one of them did in a second.
    fn rates(&self, harm: Harm, (bytes, answers): (u64, u64), seconds: f64) -> BTreeMap<&'static str, f64> {
        let each = |count: u64| count as f64 / seconds / UNWELL as f64;
        match harm {
            Harm::Serves(_) => [(BYTES, each(bytes)), ("answers", each(answers))].into(),
            Harm::Flaps => [("outages", 0.5 / FLAP.as_secs_f64())].into(),
            Harm::Labels => [("objects", self.crowd_rate())].into(),
            Harm::Declares(_) | Harm::Refuses => [("changes", 1.0 / CHANGE.as_secs_f64())].into(),
            Harm::All => [(BYTES, each(bytes)), ("objects", self.crowd_rate())].into(),
        }
    }

    /// Objects a second, so that all are there at the end of a round.
    fn crowd_rate(&self) -> f64 {
        let seconds = OFFENCE + PACE * u32::try_from(self.samples).unwrap_or(u32::MAX);
        (self.samples * FORGED_PER_SAMPLE) as f64 / seconds.as_secs_f64()
    }

    /// A user of one member makes objects, with the hub's labels and stamps: by turns of owners that nobody knows and of
    /// one that there is; or with labels and annotations as long.
    fn crowd(&self, name: &str, is_forged: bool, beside: &mut JoinSet<Result<()>>) {
        let (count, rate) = (self.samples * FORGED_PER_SAMPLE, self.crowd_rate());
        let (user, name) = (self.user.clone(), name.to_owned());
        let (hub_key, owner_key) =
            if is_forged { ("vidra.dev", OWNER) } else { ("plain.dev", "owner.plain.dev/") };
        let (hub_id, known) = (self.hub_id.clone(), self.owner.clone());
        beside.spawn(async move {
            let (all, began) = (Api::<ConfigMap>::namespaced(user, CROWD), Instant::now());
            for number in 0..count {
                let owner = if number % 2 == 0 { known.clone() } else { format!("{number:032x}") };
                let owner = format!("{owner_key}{owner}");
                let labels = [(format!("{hub_key}/hub"), hub_id.clone()), (owner.clone(), String::new())];
                let stamp = format!("{NAMESPACE}/changing {} {number:032x} 0123456789ab", 1000 + number);
                let metadata = ObjectMeta {
                    name: Some(format!("{name}-{number}")),
                    labels: Some(labels.into()),
                    annotations: Some([(owner, stamp)].into()),
                    ..ObjectMeta::default()
                };
                let made = ConfigMap { metadata, ..ConfigMap::default() };
                all.create(&PostParams::default(), &made).await?;
                sleep_until(began + Duration::from_secs_f64((number + 1) as f64 / rate)).await;
            }
            std::future::pending().await
        });
    }

    /// A tenant's VidraResource changes now and then.
    fn changes(&self, tenant: Tenant, is_harm: bool, beside: &mut JoinSet<Result<()>>) {
        let (hub, targets) = (self.fleet.client(), self.targets());
        beside.spawn(async move {
            let hub = Access::new(hub, "bench");
            for number in 1.. {
                tenant.change(&hub, is_harm, number, &targets).await?;
                sleep(CHANGE).await;
            }
            Ok(())
        });
    }

    /// Only members that are to be unwell: the others have their share of work.
    fn targets(&self) -> Vec<String> {
        self.doors.iter().map(|door| door.name.clone()).collect()
    }
}

/// The rate of bytes.
const BYTES: &str = "bytes";
/// The namespace in a member where its user makes objects.
const CROWD: &str = "crowd";
/// What labels and annotations of owners begin with.
const OWNER: &str = "owner.vidra.dev/";

/// That namespace, and the rights of an ordinary user there.
fn crowd_rights() -> [Value; 3] {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "crowd", "namespace": CROWD});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CROWD}}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "crowd"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "limited"}]}),
    ]
}

/// What comes of it, and the most memory that the hub held meanwhile.
async fn most<T>(hub: &HubProcess, doing: impl Future<Output = T>) -> Result<(T, u64)> {
    let mut doing = std::pin::pin!(doing);
    let mut most = 0;
    loop {
        tokio::select! {
            biased;
            done = &mut doing => return Ok((done, most.max(hub.resident_bytes()?.0))),
            () = sleep(LOOK_EVERY) => most = most.max(hub.resident_bytes()?.0),
        }
    }
}

/// The worst of all harms.
#[derive(Default)]
struct Worst {
    p50: f64,
    p99: f64,
    core: f64,
    bytes: f64,
    /// Milliseconds: P99 of each alone, and the longest of all together.
    ms: f64,
    together: f64,
}

impl Worst {
    fn tell(&mut self, name: &str, harm: Harm, found: &Found, report: &mut Report) {
        let ratio = |share| quantile(&found.harmed.heals, share) / quantile(&found.control.heals, share);
        // Each of the members that do it; there is one crowd, and one bomb.
        let count = if matches!(harm, Harm::Serves(_) | Harm::Flaps) { UNWELL as f64 } else { 1.0 };
        let core = (found.cpu[0] - found.cpu[1]).max(0.0) / count;
        let [first, held] = found.held.map(|bytes| bytes as f64 / count);
        let (p50, p99) = (ratio(0.5), ratio(0.99));
        // What was found is not lost with what comes after it.
        let [ms, beside] = [&found.harmed, &found.control].map(|times| quantile(&times.heals, 0.99));
        tracing::info!(
            "{name}: P50 {p50:.2} of the control's, P99 {ms:.1} ms beside {beside:.1}, {core:.2} cores and {:.0} MiB each",
            held / MIB
        );
        if harm == Harm::All {
            self.together = quantile(&found.harmed.heals, 1.0);
        } else {
            self.p50 = self.p50.max(p50);
            self.p99 = self.p99.max(p99);
            self.ms = self.ms.max(quantile(&found.harmed.heals, 0.99));
        }
        // What a VidraResource may cost is bounded by other means than what a member may.
        if matches!(harm, Harm::Serves(_) | Harm::Flaps | Harm::Labels) {
            self.core = self.core.max(core);
            self.bytes = self.bytes.max(held);
        }
        let mut say = |what: &str, value: Value| report.condition(&format!("{name}: {what}"), value);
        say("P50 over the control's", p50.into());
        say("P99 over the control's", p99.into());
        let slowest = found.controls.iter().copied().fold(0.0, f64::max);
        let fastest = found.controls.iter().copied().fold(f64::MAX, f64::min);
        say("P50 of the control's rounds, the slowest over the fastest", (slowest / fastest).into());
        say("cores for each", core.into());
        say("MiB for each, at its first offence and after it", json!([first / MIB, held / MIB]));
        for (what, rate) in &found.rate {
            say(&format!("{what} in a second, of each"), (*rate).into());
        }
        for (times, of) in [(&found.harmed, "harm"), (&found.control, "control")] {
            let ms = |share| quantile(&times.heals, share);
            say(&format!("ms P50 and P99 of a repair, {of}"), json!([ms(0.5), ms(0.99)]));
            say(&format!("ms P50 of a change, {of}"), quantile(&times.changes, 0.5).into());
        }
    }

    fn conclude(&self, report: &mut Report) {
        let worst = "from an edit on a healthy member to the repaired object beside a harm, over its control: the worst";
        report.figure("hostile_ratio_p50", self.p50, Some(1.1), format!("P50 {worst}"));
        report.figure("hostile_ratio_p99", self.p99, Some(1.25), format!("P99 {worst}"));
        report.figure(
            "hostile_core",
            self.core,
            Some(0.05),
            "cores for a hostile member after its first offence: the worst",
        );
        report.figure("hostile_bytes", self.bytes, Some(64.0 * MIB), "memory for one, likewise");
        report.figure(
            "hostile_p99_ms",
            self.ms,
            Some(1000.0),
            "P99 of a repair beside one harm, ms: the worst harm",
        );
        report.figure("together_ms", self.together, None, "the longest repair beside all harms at once, ms");
    }
}

const MIB: f64 = (1 << 20) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_harms_are_all_different() {
        let names: std::collections::BTreeSet<_> = names().collect();
        assert_eq!(names.len(), HARMS.len());
    }
}
