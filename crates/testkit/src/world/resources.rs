//! VidraResources as a user applies them, and what the hub says of them.

use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use vidra_api::{
    InventoryEntry, TargetState, VidraInventory, VidraResource, VidraTarget, VidraTargetStatus, find,
};

use super::{
    access::At,
    hub::World,
    wait::{LONG, SOON, wait_for},
};

impl World {
    /// Delivers a manifest to members by name; changes it when it was delivered before.
    pub async fn deliver(&self, name: &str, clusters: &[&str], manifest: &str) {
        self.deliver_with(name, manifest, json!({"targets": [{"clusterNames": clusters}]})).await;
    }

    /// Applies a VidraResource with this spec and this manifest.
    pub async fn deliver_with(&self, name: &str, manifest: &str, mut spec: Value) {
        spec["manifest"] = manifest.into();
        self.apply_resource(json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource", "metadata": {"name": name}, "spec": spec,
        }))
        .await;
    }

    /// Applies a VidraResource written in YAML into the scenario's namespace, as a user does.
    pub async fn apply_yaml(&self, text: &str) {
        self.apply_resource(serde_saphyr::from_str(text).expect("YAML")).await;
    }

    async fn apply_resource(&self, mut resource: Value) {
        resource["metadata"]["namespace"] = self.ns.as_str().into();
        self.hub.apply(&resource, true).await.expect("the VidraResource is taken");
    }

    /// Applies a VidraResource for berlin in another namespace of the hub.
    pub async fn deliver_from(&self, namespace: &str, name: &str, manifest: &str) {
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "manifest": manifest});
        let resource = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        self.hub.apply(&resource, true).await.expect("the VidraResource is taken");
    }

    /// Makes a namespace of the hub beside the world's.
    pub async fn namespace_beside(&self) -> String {
        let name = format!("a-{}", self.ns);
        self.hub.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        name
    }

    /// Deletes a VidraResource of another namespace, and waits until it is gone.
    pub async fn remove_from(&self, namespace: &str, name: &str) {
        let at = At::new("vidra.dev/v1alpha1", "VidraResource", namespace, name);
        self.hub.delete(&at).await;
        self.hub.gone(&at).await;
    }

    /// Where a VidraResource is.
    pub fn resource_at(&self, name: &str) -> At {
        At::new("vidra.dev/v1alpha1", "VidraResource", &self.ns, name)
    }

    /// Where a VidraTarget is.
    pub fn target_at(&self, name: &str, cluster: &str) -> At {
        At::new("vidra.dev/v1alpha1", "VidraTarget", &self.ns, &format!("{name}.{cluster}"))
    }

    /// Asks for a look now, as a user does by annotation; `token` must be new.
    pub async fn reconcile_now(&self, name: &str, token: &str) {
        let patch = json!({"metadata": {"annotations": {"vidra.dev/reconcile-requested-at": token}}});
        self.hub.merge(&self.resource_at(name), patch).await;
    }

    /// Has the hub look at a VidraResource's targets again, and waits until it has looked so many times: counted
    /// from before it is asked, for it may be done before anybody can count.
    pub async fn look(&self, name: &str, token: &str, looks: u64) {
        let enough = self.passes() + looks;
        self.reconcile_now(name, token).await;
        self.when_passes(enough).await;
    }

    /// Waits until a condition of a VidraResource has this status and reason for its present generation.
    pub async fn resource_says(
        &self,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> VidraResource {
        let api: Api<VidraResource> = Api::namespaced(self.client(), &self.ns);
        wait_for(&format!("VidraResource {name} has {condition}={status}, {reason}"), LONG, async || {
            let resource =
                api.get_opt(name).await.expect("an answer").ok_or("there is no such VidraResource")?;
            let seen = resource.status.clone().unwrap_or_default();
            let found = find(&seen.conditions, condition);
            let current = seen.observed_generation == resource.metadata.generation
                && found.is_some_and(|found| found.observed_generation == resource.metadata.generation);
            match found {
                Some(found) if current && found.status == status && found.reason == reason => Ok(resource),
                _ => Err(format!("generation {:?}, {seen:?}", resource.metadata.generation)),
            }
        })
        .await
    }

    /// Waits until a VidraResource is Ready as it is declared now.
    pub async fn ready(&self, name: &str) -> VidraResource {
        self.resource_says(name, "Ready", "True", "Ready").await
    }

    /// A VidraTarget.
    pub async fn target(&self, name: &str, cluster: &str) -> Option<VidraTarget> {
        let api: Api<VidraTarget> = Api::namespaced(self.client(), &self.ns);
        api.get_opt(&format!("{name}.{cluster}")).await.expect("an answer")
    }

    /// Waits until a VidraTarget's status, made for its present generation, is as this says.
    pub async fn target_when(
        &self,
        name: &str,
        cluster: &str,
        what: &str,
        is: impl Fn(&VidraTargetStatus) -> bool,
    ) -> VidraTarget {
        wait_for(&format!("VidraTarget {name}.{cluster}: {what}"), LONG, async || {
            let target = self.target(name, cluster).await.ok_or("there is no such VidraTarget")?;
            let status = target.status.clone().unwrap_or_default();
            match status.observed_generation == target.metadata.generation && is(&status) {
                true => Ok(target),
                false => Err(format!("{status:?}")),
            }
        })
        .await
    }

    /// Waits until a VidraTarget is in this state for this reason; its message.
    pub async fn target_is(&self, name: &str, cluster: &str, state: TargetState, reason: &str) -> String {
        let what = format!("{state:?}, {reason}");
        let target = self
            .target_when(name, cluster, &what, |status| {
                status.state == Some(state) && status.reason.as_deref() == Some(reason)
            })
            .await;
        target.status.and_then(|status| status.message).unwrap_or_default()
    }

    /// Waits until a VidraTarget has counted so many corrections.
    pub async fn corrected(&self, name: &str, cluster: &str, count: i64) {
        let counted = |status: &VidraTargetStatus| status.corrections.as_ref().map_or(0, |all| all.count);
        self.target_when(name, cluster, &format!("{count} corrections"), |status| counted(status) == count)
            .await;
    }

    /// Waits until the inventories tell the uid of every object on these clusters. The hub writes that after the
    /// status for which [`World::ready`] waits.
    pub async fn recorded(&self, name: &str, clusters: &[&str]) {
        for cluster in clusters {
            wait_for(&format!("{name} on {cluster} is recorded"), SOON, async || {
                let entries = self.inventory(name, cluster).await;
                match !entries.is_empty() && entries.iter().all(|entry| !entry.uid.is_empty()) {
                    true => Ok(()),
                    false => Err(format!("{entries:?}")),
                }
            })
            .await;
        }
    }

    /// What a target's inventory holds.
    pub async fn inventory(&self, name: &str, cluster: &str) -> Vec<InventoryEntry> {
        let api: Api<VidraInventory> = Api::namespaced(self.client(), &self.ns);
        let all = api.list(&Default::default()).await.expect("a list").items.into_iter();
        let mine = all.filter(|one| one.spec.resource == name && one.spec.cluster == cluster);
        let mut entries: Vec<_> = mine.flat_map(|one| one.spec.entries).collect();
        entries.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        entries
    }

    /// Deletes a VidraResource and waits until it is gone.
    pub async fn remove(&self, name: &str) {
        self.hub.delete(&self.resource_at(name)).await;
        self.removed(name).await;
    }

    /// Waits until a VidraResource is gone.
    pub async fn removed(&self, name: &str) {
        let api: Api<VidraResource> = Api::namespaced(self.client(), &self.ns);
        wait_for(&format!("VidraResource {} is gone", name), LONG, async || {
            match api.get_opt(name).await.expect("an answer") {
                None => Ok(()),
                Some(left) => {
                    let targets = self.hub.list(&self.target_at("", "")).await;
                    Err(format!("{}: {:?}; {targets:?}", left.name_any(), left.status))
                }
            }
        })
        .await;
    }
}
