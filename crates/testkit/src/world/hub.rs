//! One scenario's turn on a bed: fresh namespaces, a hub of its own, and an end that leaves nothing behind.

use std::sync::Arc;

use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use tokio::{sync::OwnedMutexGuard, time::Instant};
use vidra_api::{MemberCluster, VidraInventory, VidraResource, VidraTarget};
use vidra_hub::{config::Settings, metrics::Entries};

use super::{
    access::{Access, At},
    bed::{Bed, Turns, Who},
    logs, metric,
    record::Mark,
    wait::{LONG, SOON, wait_for},
};
use crate::hub::{RunningHub, settings};

/// The hub's own kinds, in the order in which they are taken away.
const KINDS: [&str; 4] = ["VidraResource", "VidraTarget", "VidraInventory", "MemberCluster"];

/// Kinds that scenarios deliver, and of which no controller makes one with the hub's label.
const DELIVERED: [(&str, &str); 11] = [
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
];

/// What a scenario acts on: a hub, its members, and who calls them. Names are fresh in each: what one scenario leaves in a member no other sees.
pub struct World {
    pub(super) bed: Arc<dyn Bed>,
    /// The scenario's namespace, on the hub and, by default, in the members; also the hub's id.
    pub ns: String,
    /// The hub's cluster, as administrator.
    pub hub: Access,
    /// What a hub that is started here goes by.
    pub settings: Settings,
    running: Option<RunningHub>,
    began: Instant,
    /// Before the hub's first request.
    pub(super) first: Mark,
    /// Namespaces of registrations in which it was given rights.
    pub(super) registrations: Vec<String>,
    _turn: OwnedMutexGuard<Turns>,
}

impl World {
    /// Waits for its turn, and starts a hub that knows no member yet.
    pub async fn start(bed: Arc<dyn Bed>) -> Self {
        let mut turn = bed.turns().lock_owned().await;
        logs::start();
        let hub = Access::new(bed.client("hub", Who::Admin).await.expect("a client"), "kubectl");
        if !turn.installed {
            install(&hub).await;
            turn.installed = true;
        }
        sweep(&hub).await;
        turn.begun += 1;
        let ns = format!("s{}", turn.begun);
        let mut settings = settings(&format!("{ns}-hub"));
        settings.hub_id = Some(ns.clone());
        for name in [&ns, &settings.namespace] {
            hub.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
        let (began, first) = (Instant::now(), Mark::of(&*bed));
        let mut world = Self {
            bed,
            ns,
            hub,
            settings,
            running: None,
            began,
            first,
            registrations: Vec::new(),
            _turn: turn,
        };
        world.give_rights().await;
        world.first = world.mark();
        world.start_hub().await;
        world
    }

    /// Starts the hub; it knows its own objects when this returns.
    pub async fn start_hub(&mut self) {
        assert!(self.running.is_none(), "the hub runs already");
        let client = self.hub_client().await;
        self.running = Some(self.bed.start_hub(client, self.settings.clone()).await.expect("the hub starts"));
    }

    /// Starts the hub, which refuses to: in which words.
    pub async fn refuses_to_start(&self) -> String {
        let client = self.hub_client().await;
        match self.bed.start_hub(client, self.settings.clone()).await {
            Ok(_) => panic!("the hub starts"),
            Err(refused) => refused.to_string(),
        }
    }

    /// Stops the hub and waits until all of it has ended.
    pub async fn stop_hub(&mut self) {
        self.running.take().expect("the hub runs").stop().await.expect("the hub ends well");
    }

    /// Waits until the hub has ended by itself; why.
    pub async fn ends_by_itself(&mut self) -> String {
        let ended = self.running.take().expect("the hub runs").ended();
        tokio::time::timeout(LONG, ended).await.expect("the hub ends by itself")
    }

    /// Stops the hub and starts it again: it remembers nothing.
    pub async fn restart_hub(&mut self) {
        self.stop_hub().await;
        self.start_hub().await;
    }

    /// Installs the hub's CRDs again, after a scenario has deleted one.
    pub async fn install_again(&self) {
        install(&self.hub).await;
    }

    /// The members' names.
    pub fn members(&self) -> Vec<String> {
        self.bed.members()
    }

    /// A cluster as one identity.
    pub async fn cluster(&self, cluster: &str, who: Who) -> Access {
        let client = self.bed.client(cluster, who).await.expect("a client");
        Access::new(client, &format!("{who}-edit"))
    }

    /// A cluster as alice, whose manager is `alice-edit`.
    pub async fn alice(&self, cluster: &str) -> Access {
        self.cluster(cluster, Who::Alice).await
    }

    /// The bed.
    pub fn bed(&self) -> &dyn Bed {
        &*self.bed
    }

    /// How many times the hub has looked at targets since it was started.
    pub fn passes(&self) -> u64 {
        self.metric("workqueue_work_duration_seconds_count{name=\"target\"}") as u64
    }

    /// Waits until the hub has looked at targets so many times more. For hubs that look by themselves; where it has
    /// to be asked, [`World::look`] counts from before that.
    pub async fn after_passes(&self, more: u64) {
        self.when_passes(self.passes() + more).await;
    }

    /// Waits until it has looked at targets so many times since it was started.
    pub async fn when_passes(&self, enough: u64) {
        wait_for(&format!("{enough} looks at targets"), SOON, async || match self.passes() {
            seen if seen >= enough => Ok(()),
            seen => Err(format!("{} to go", enough - seen)),
        })
        .await;
    }

    /// All of the running hub's metrics, as they are scraped.
    pub fn metrics(&self) -> String {
        self.running.as_ref().expect("the hub runs").metrics.render()
    }

    /// How many entries the running hub holds, by what they are of.
    pub fn entries(&self) -> Entries {
        self.running.as_ref().expect("the hub runs").metrics.entries()
    }

    /// The tasks of the running hub that should run and do not, as `/livez` names them.
    pub fn fallen(&self) -> Vec<&'static str> {
        self.running.as_ref().expect("the hub runs").metrics.fallen().names()
    }

    /// One value of the running hub's metrics, by its name and labels as they are written; 0: nothing is counted under
    /// them. Panics where the hub has no metric of that name, or has it by other labels.
    pub fn metric(&self, name: &str) -> f64 {
        metric::value(&self.metrics(), name)
    }

    /// Takes away what the scenario made, by the hub's own doing: first VidraResources, then MemberClusters.
    /// Fails when something is left, and when the hub asked for more in its own cluster than it has rights to.
    pub async fn end(mut self) {
        let resources: Api<VidraResource> = self.all();
        for resource in resources.list(&ListParams::default()).await.expect("a list").items {
            self.hub.delete(&named("VidraResource", &resource.metadata)).await;
        }
        self.none_left::<VidraResource>("VidraResources").await;
        let members: Api<MemberCluster> = self.all();
        for member in members.list(&ListParams::default()).await.expect("a list").items {
            self.hub.delete(&named("MemberCluster", &member.metadata)).await;
        }
        self.none_left::<MemberCluster>("MemberClusters").await;
        self.none_left::<VidraTarget>("VidraTargets").await;
        self.none_left::<VidraInventory>("VidraInventories").await;
        self.stop_hub().await;
        self.no_right_was_missing();
        self.nothing_delivered_is_left().await;
        for name in [&self.ns, &self.settings.namespace] {
            self.hub.delete(&At::new("v1", "Namespace", "", name)).await;
        }
        tracing::info!(target: "testkit", scenario = self.ns, took = ?self.began.elapsed(), "the scenario has ended");
    }

    /// No object of the usual kinds bears this hub's label in any member.
    async fn nothing_delivered_is_left(&self) {
        let label = format!("vidra.dev%2Fhub%3D{}", self.ns);
        for member in self.members() {
            let access = self.cluster(&member, Who::Admin).await;
            for (api_version, kind) in DELIVERED {
                let left = access.labelled(&At::new(api_version, kind, "", ""), &label).await;
                assert!(left.is_empty(), "left behind in {member}: {kind} {}", left[0]["metadata"]);
            }
        }
    }

    async fn none_left<K>(&self, what: &str)
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + serde::Serialize,
    {
        let api: Api<K> = self.all();
        wait_for(&format!("no {what} are left"), LONG, async || {
            let left = api.list(&ListParams::default()).await.expect("a list").items;
            match left.first() {
                None => Ok(()),
                Some(first) => Err(serde_json::to_string(first).expect("JSON")),
            }
        })
        .await;
    }

    fn all<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client())
    }

    pub(super) fn client(&self) -> Client {
        self.hub.client.clone()
    }
}

fn named(kind: &str, metadata: &kube::core::ObjectMeta) -> At {
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    At::new("vidra.dev/v1alpha1", kind, namespace.unwrap_or_default(), name.unwrap_or_default())
}

async fn install(hub: &Access) {
    for crd in vidra_api::crds::all() {
        let crd = serde_json::to_value(crd).expect("JSON");
        let at = At::of(&crd);
        hub.apply(&crd, true).await.expect("the CRD is taken");
        hub.when(&at, "Established", |crd| {
            let conditions = crd["status"]["conditions"].as_array();
            conditions.is_some_and(|all| {
                all.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
            })
        })
        .await;
    }
    // An established kind may answer 429 while its storage is set up.
    for kind in KINDS {
        let of_kind = At::new("vidra.dev/v1alpha1", kind, "", "");
        wait_for(&format!("{kind} can be listed"), SOON, async || {
            hub.try_list(&of_kind).await.map_err(|refused| refused.to_string())
        })
        .await;
    }
}

/// Takes by force what a scenario that failed has left: no hub runs now that would end it.
async fn sweep(hub: &Access) {
    for kind in KINDS {
        for object in hub.list(&At::new("vidra.dev/v1alpha1", kind, "", "")).await {
            let metadata = &object["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let at =
                At::new("vidra.dev/v1alpha1", kind, &text(&metadata["namespace"]), &text(&metadata["name"]));
            hub.delete(&at).await;
            if hub.get(&at).await.is_some() {
                hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
            }
            hub.gone(&at).await;
        }
    }
}
