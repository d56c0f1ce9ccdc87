//! Members of a scenario's hub: registered, rotated, frozen.

use std::sync::Arc;

use kube::Api;
use serde_json::{Value, json};
use vidra_api::{
    DesiredState, DriftState, MemberCluster, MemberClusterStatus, MemberTargets, TargetState, VidraTarget,
    find,
};

use super::{
    access::At,
    bed::{Bed, Who},
    hub::World,
    wait::{LONG, wait_for},
};

impl World {
    /// Registers members under their own names, with the hub's credentials, and waits until they are Ready.
    pub async fn register(&self, names: &[&str]) {
        for name in names {
            self.register_as(name, &self.kubeconfig(name, Who::VidraHub), json!({})).await;
        }
        for name in names {
            self.member_says(name, "Ready", "True").await;
        }
    }

    /// Makes or changes a registration Secret, and waits for nothing.
    pub async fn register_as(&self, name: &str, kubeconfig: &str, labels: Value) {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.settings.namespace, "labels": labels},
            "stringData": {"kubeconfig": kubeconfig},
        });
        secret["metadata"]["labels"]["vidra.dev/member-cluster"] = name.into();
        self.hub.apply(&secret, true).await.expect("the Secret is taken");
    }

    /// Where a registration Secret is.
    pub fn registration(&self, name: &str) -> At {
        At::new("v1", "Secret", &self.settings.namespace, name)
    }

    /// Where a MemberCluster is.
    pub fn member_at(&self, name: &str) -> At {
        At::new("vidra.dev/v1alpha1", "MemberCluster", "", name)
    }

    /// A kubeconfig of the bed.
    pub fn kubeconfig(&self, cluster: &str, who: Who) -> String {
        self.bed.kubeconfig(cluster, who).expect("a kubeconfig")
    }

    /// A MemberCluster.
    pub async fn member(&self, name: &str) -> Option<MemberCluster> {
        Api::all(self.client()).get_opt(name).await.expect("an answer")
    }

    /// Waits until a condition of a MemberCluster has this status; its message.
    pub async fn member_says(&self, name: &str, condition: &str, status: &str) -> String {
        wait_for(&format!("MemberCluster {name} has {condition}={status}"), LONG, async || {
            let member = self.member(name).await.ok_or("there is no such MemberCluster")?;
            let conditions = member.status.map(|status| status.conditions).unwrap_or_default();
            match find(&conditions, condition) {
                Some(found) if found.status == status => Ok(found.message.clone()),
                _ => Err(format!("{conditions:?}")),
            }
        })
        .await
    }

    /// Waits until the counts of MemberClusters are those of their VidraTargets and of the hub's informers; nothing
    /// may be suspended there. The hub writes them a moment after it has written what they count.
    pub async fn counted(&self, names: &[&str]) {
        for name in names {
            self.counts_when(name, "all is counted", async |status| {
                let api: Api<VidraTarget> = Api::all(self.client());
                let all = api.list(&Default::default()).await.expect("a list").items;
                let (mut targets, mut objects) = (MemberTargets::default(), 0);
                for target in all.iter().filter(|target| target.spec.cluster == *name) {
                    let own = target.status.clone().unwrap_or_default();
                    let stays = target.spec.desired == DesiredState::Present;
                    let current = own.observed_generation == target.metadata.generation;
                    let is = |state| i32::from(stays && current && own.state == Some(state));
                    let has = i32::from(own.revision.as_ref() == Some(&target.spec.revision));
                    targets.total += i32::from(stays);
                    targets.terminating += i32::from(!stays);
                    targets.ready += is(TargetState::Ready) * has;
                    targets.failed += is(TargetState::Failed);
                    targets.drifted += i32::from(own.drift == Some(DriftState::Drifted));
                    objects += own.objects;
                }
                let metric = |metric: &str| self.metric(&format!("{metric}{{cluster=\"{name}\"}}")) as i32;
                let watches = (metric("vidra_informers"), metric("vidra_informers_synced"));
                status.targets == Some(targets)
                    && status.objects == Some(objects)
                    && status.watches.map(|counts| (counts.total, counts.synced)) == Some(watches)
            })
            .await;
        }
    }

    /// Waits until the counts of a MemberCluster are as this says.
    pub async fn counts_when(&self, name: &str, what: &str, are: impl AsyncFn(&MemberClusterStatus) -> bool) {
        wait_for(&format!("MemberCluster {name}: {what}"), LONG, async || {
            let status = self.member(name).await.and_then(|member| member.status).unwrap_or_default();
            if are(&status).await { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    }

    /// Lets the address of a member lead to another cluster from now on (in memory only): that of another
    /// member, or one that nobody knew, made with `memkube::Cluster::new` and other `uids` (another kube-system)
    /// and told who may do what with `authorize_with_rbac`. Tokens are the same. The hub's connections and
    /// watches to the old one break; clients of the world still reach each cluster by its own name.
    pub fn redirect(&self, member: &str, to: memkube::Cluster) {
        self.bed.redirect(member, to).expect("the address leads elsewhere");
    }

    /// Stops a cluster from answering until what is returned is dropped.
    pub fn freeze(&self, cluster: &str) -> Frozen {
        self.bed.freeze(cluster).expect("the cluster freezes");
        Frozen { bed: self.bed.clone(), cluster: cluster.to_owned() }
    }
}

/// A cluster that takes connections and does not answer.
pub struct Frozen {
    bed: Arc<dyn Bed>,
    cluster: String,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = self.bed.thaw(&self.cluster) {
            tracing::error!(cluster = self.cluster, %error, "the cluster stays silent");
        }
    }
}

/// One kubeconfig of two: the clusters, users and contexts of `other` come first, and the current context is
/// that of `current`.
pub fn two_contexts(other: &str, current: &str) -> String {
    let mut joined: Value = serde_saphyr::from_str(other).expect("a kubeconfig");
    let current: Value = serde_saphyr::from_str(current).expect("a kubeconfig");
    for list in ["clusters", "users", "contexts"] {
        let more = current[list].as_array().expect("a list").clone();
        joined[list].as_array_mut().expect("a list").extend(more);
    }
    joined["current-context"] = current["current-context"].clone();
    joined.to_string()
}
