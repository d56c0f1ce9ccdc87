//! Every write to the hub's API, each within a deadline and guarded by the resourceVersion that it was
//! made from; the others wait while as many as may be are under way. The answer is folded into the catalog at once.

mod partial_writes;

use std::{fmt::Debug, sync::Arc, time::Duration};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::Semaphore;
use vidra_api::{
    MemberCluster, VidraInventory, VidraResource, VidraTarget,
    labels::{FIELD_MANAGER, FINALIZER, LEFT_AT, MEMBER_FINALIZER, REGISTRATION},
    names::{HubId, inventory_name},
};
use vidra_core::{
    drift::{About, Does, Redactions},
    mutants::{self, Mutant},
};

use super::{
    catalog::{Catalog, Listed, Via},
    inventory::{ChunkWrite, chunk},
    registration::MemberDeclaration,
};
use crate::{
    base::{
        error::{CallError, Class},
        resource_version,
        withdrawal::Withdrawn,
    },
    leader_election::lease::Tenure,
    metrics::ClusterCounters,
    workqueue::{Key, ResourceKey, TargetKey},
};

const WITHIN: Duration = Duration::from_secs(15);
/// Label of revision Secrets: the VidraResource's owner hash.
pub const REVISION_LABEL: &str = "vidra.dev/revision-of";

/// Writes to the hub's API.
pub struct HubApi {
    /// The hub's client.
    pub client: Client,
    hub: HubId,
    catalog: Arc<Catalog>,
    counters: ClusterCounters,
    tenure: Option<Arc<Tenure>>,
    /// A call is under way while it has one of these.
    permits: Semaphore,
}

impl HubApi {
    /// Writes through this client as this hub, folds into this catalog; under a Lease, if there is one. At most `calls`
    /// are under way at once.
    pub fn new(
        client: Client,
        hub: HubId,
        catalog: Arc<Catalog>,
        counters: ClusterCounters,
        tenure: Option<Arc<Tenure>>,
        calls: usize,
    ) -> Self {
        let calls = if mutants::is(Mutant::HubCallsUnbounded) { Semaphore::MAX_PERMITS } else { calls };
        Self { client, hub, catalog, counters, tenure, permits: Semaphore::new(calls) }
    }

    fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// One call: when its turn has come, within the deadline, counted, its failure classified.
    pub fn call<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        self.counted(verb, call, CallError::from)
    }

    /// A call that sends what people declare, Secrets among it: a refusal is told without the server's words.
    fn call_unquoted<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        let about = About { group: "", kind: "Secret", does: Does::Writes(None) };
        self.counted(verb, call, move |error| CallError::about(error, about, &Redactions::default()))
    }

    async fn counted<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
        telling: impl FnOnce(kube::Error) -> CallError,
    ) -> Result<T, CallError> {
        // What may not be sent takes nobody's turn.
        self.leads()?;
        // Nothing closes it.
        let _permit = self.permits.acquire().await;
        // The others may have taken long.
        self.leads()?;
        let answer = match tokio::time::timeout(WITHIN, call).await {
            Ok(answer) => answer.map_err(telling),
            Err(_) => Err(CallError::deadline(WITHIN)),
        };
        self.counters.called(verb, answer.as_ref().err().map_or("ok", CallError::outcome));
        answer
    }

    /// No other process can hold the Lease now.
    ///
    /// # Errors
    /// Another one can: a [`Withdrawn`].
    pub fn leads(&self) -> Result<(), CallError> {
        match self.tenure.as_ref().is_none_or(|tenure| tenure.stands()) {
            true => Ok(()),
            false => Err(Withdrawn::Lease.into()),
        }
    }

    /// Makes a VidraTarget.
    pub async fn create_target(&self, target: &VidraTarget) -> Result<(), CallError> {
        let api = self.namespaced::<VidraTarget>(&target.namespace().unwrap_or_default());
        let made = self.call("create", api.create(&PostParams::default(), target)).await?;
        self.catalog.fold_target(made, Via::Answer);
        Ok(())
    }

    /// Writes a VidraTarget's metadata and spec.
    pub async fn replace_target(&self, target: &VidraTarget) -> Result<(), CallError> {
        let key = TargetKey::of(target);
        let api = self.namespaced::<VidraTarget>(&key.namespace);
        let answer =
            self.call("update", api.replace(&target.name_any(), &PostParams::default(), target)).await;
        self.catalog.fold_target(self.heard(Key::Target(key), answer)?, Via::Answer);
        Ok(())
    }

    /// Whether a VidraTarget that is there could be made again now. A namespace that is being deleted refuses
    /// new objects (403 with that cause) before it looks whether the name is taken (409).
    pub async fn could_remake(&self, target: &VidraTarget) -> Result<bool, CallError> {
        let api = self.namespaced::<VidraTarget>(&target.namespace().unwrap_or_default());
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let again = VidraTarget::new(&target.name_any(), target.spec.clone());
        match self.call("verify", api.create(&params, &again)).await {
            Ok(_) => Ok(true),
            Err(error) => match error.class {
                Class::Conflict => Ok(true),
                Class::Namespace { terminating: true } => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Lets a VidraTarget go: removes its finalizer, then deletes it.
    pub async fn remove_target(&self, key: &TargetKey, target: &VidraTarget) -> Result<(), CallError> {
        let api = self.namespaced::<VidraTarget>(&key.namespace);
        if let Some(at) = self.let_go(&api, target).await? {
            self.catalog.note_removal(Listed::Targets, &key.namespace, &target.name_any(), at);
            self.catalog.drop_target(key, at);
        }
        Ok(())
    }

    /// Removes our finalizer from a VidraResource. Nothing else of a user's object is touched.
    pub async fn remove_resource_finalizer(&self, held: &VidraResource) -> Result<(), CallError> {
        let api = self.namespaced::<VidraResource>(&held.namespace().unwrap_or_default());
        if let Some(now) = self.set_finalizer(&api, held, FINALIZER, false).await? {
            self.catalog.fold_resource(now, Via::Answer);
        }
        Ok(())
    }

    /// Makes or updates the MemberCluster that a registration Secret asks for, without taking any field that
    /// somebody else set (409 then).
    pub async fn apply_member(
        &self,
        name: &str,
        intent: &MemberDeclaration,
        held: Option<&MemberCluster>,
    ) -> Result<(), CallError> {
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        let (namespace, secret) = intent.secret.split_once('/').unwrap_or_default();
        let mut body = json!({
            "apiVersion": MemberCluster::api_version(&()),
            "kind": MemberCluster::kind(&()),
            "metadata": {
                "name": name,
                "labels": intent.labels,
                "annotations": {REGISTRATION: intent.to_annotation()},
                "finalizers": [MEMBER_FINALIZER],
            },
            "spec": {"kubeconfigSecretRef": {"namespace": namespace, "name": secret, "key": "kubeconfig"}},
        });
        // Left out, what was applied once would be taken off; what somebody has changed since is theirs.
        let is_ours = held.is_none_or(|held| held.spec.allowed_namespaces == intent.allowed);
        if let Some(allowed) = intent.allowed.as_ref().filter(|_| is_ours) {
            body["spec"]["allowedNamespaces"] = json!(allowed);
        }
        let params = PatchParams::apply(FIELD_MANAGER);
        let now = self.call("apply", api.patch(name, &params, &Patch::Apply(&body))).await?;
        self.catalog.fold_member(now, Via::Answer);
        Ok(())
    }

    /// Puts a finalizer on a MemberCluster, or takes it off.
    pub async fn set_member_finalizer(
        &self,
        held: &MemberCluster,
        name: &str,
        present: bool,
    ) -> Result<(), CallError> {
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        if let Some(now) = self.set_finalizer(&api, held, name, present).await? {
            self.catalog.fold_member(now, Via::Answer);
        }
        Ok(())
    }

    /// Changes an annotation of a MemberCluster, or takes it off, if it is as held.
    pub async fn reannotate_member(
        &self,
        held: &MemberCluster,
        annotation: &str,
        next: Option<String>,
    ) -> Result<(), CallError> {
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        let version = &held.metadata.resource_version;
        let body = json!({"metadata": {"resourceVersion": version, "annotations": {annotation: next}}});
        let (name, params) = (held.name_any(), PatchParams::default());
        let now = self.call("annotate", api.patch(&name, &params, &Patch::Merge(&body))).await?;
        self.catalog.fold_member(now, Via::Answer);
        Ok(())
    }

    /// Notes on a registration Secret that its member has left, so that it is not joined again.
    pub async fn mark_registration_left(
        &self,
        namespace: &str,
        name: &str,
        at: &str,
    ) -> Result<(), CallError> {
        let api = self.namespaced::<Secret>(namespace);
        let body = json!({"metadata": {"annotations": {LEFT_AT: at}}});
        match self.call("patch", api.patch(name, &PatchParams::default(), &Patch::Merge(&body))).await {
            Ok(secret) => self.catalog.fold_registration(secret.into(), Via::Answer),
            Err(error) if error.is_gone_of::<Secret>(name) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Performs inventory writes in order.
    pub async fn write_inventory(&self, key: &TargetKey, writes: &[ChunkWrite]) -> Result<(), CallError> {
        let api = self.namespaced::<VidraInventory>(&key.namespace);
        for write in writes {
            match write {
                ChunkWrite::Create { index, named, cluster_uid, entries } => {
                    let name = inventory_name(&key.resource, &key.cluster, *index);
                    let uid = cluster_uid.as_deref();
                    let next = chunk((&self.hub, key), &name, *index, None, named, uid, entries);
                    let made = self.put_inventory(next).await?;
                    self.catalog.fold_inventory(made, Via::Answer);
                }
                ChunkWrite::Update { name, index, version, named, cluster_uid, entries } => {
                    let uid = cluster_uid.as_deref();
                    let next = chunk((&self.hub, key), name, *index, Some(*version), named, uid, entries);
                    let made = self.put_inventory(next).await?;
                    self.catalog.fold_inventory(made, Via::Answer);
                }
                ChunkWrite::Remove { name, version } => {
                    let gone = match self.found(&api, name).await? {
                        None => Some(*version),
                        // Another one, or other entries: it was decided about what is not there any more.
                        Some(found) if resource_version::version(&found) != *version => {
                            return Err(changed(name));
                        }
                        Some(found) => self.let_go(&api, &found).await?,
                    };
                    if let Some(at) = gone {
                        self.catalog.note_removal(Listed::Inventories, &key.namespace, name, at);
                        self.catalog.drop_inventory(key, name, at);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a revision Secret; one that is there already holds the same, for its name is its content's.
    pub async fn create_revision(&self, secret: &Secret) -> Result<(), CallError> {
        let api = self.namespaced::<Secret>(&secret.namespace().unwrap_or_default());
        match self.call_unquoted("create", api.create(&PostParams::default(), secret)).await {
            Ok(_) => Ok(()),
            Err(error) if error.class == Class::Conflict => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The revision Secrets of a VidraResource, newest first: name and uid.
    pub async fn revisions_of(
        &self,
        key: &ResourceKey,
        owner: &str,
    ) -> Result<Vec<PartialObjectMeta<Secret>>, CallError> {
        let api = self.namespaced::<Secret>(&key.namespace);
        let params = ListParams::default().match_any().labels(&format!("{REVISION_LABEL}={owner}"));
        let mut all = self.call("list", api.list_metadata(&params)).await?.items;
        all.sort_by(|a, b| b.metadata.creation_timestamp.cmp(&a.metadata.creation_timestamp));
        Ok(all)
    }

    /// Deletes a revision Secret.
    pub async fn delete_revision(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<String>,
    ) -> Result<(), CallError> {
        let preconditions = Preconditions { uid, resource_version: None };
        self.delete(&self.namespaced::<Secret>(namespace), name, preconditions).await
    }

    async fn found<K>(&self, api: &Api<K>, name: &str) -> Result<Option<K>, CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        match self.call("get", api.get(name)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_gone_of::<K>(name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the finalizer of an object of ours and deletes it, if it is as held. The version in which it was removed;
    /// `None`: others hold it.
    async fn let_go<K>(&self, api: &Api<K>, held: &K) -> Result<Option<u64>, CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Serialize,
    {
        let mut current = held.clone();
        if held.meta().finalizers.as_ref().is_some_and(|all| all.iter().any(|one| one == FINALIZER)) {
            match self.set_finalizer(api, held, FINALIZER, false).await? {
                Some(now) => current = now,
                None => return Ok(Some(resource_version::version(held))),
            }
        }
        let version = resource_version::version(&current);
        if current.meta().deletion_timestamp.is_some() {
            // Ours was the last word, unless others hold it.
            return Ok(current.finalizers().is_empty().then_some(version));
        }
        let resource_version = current.resource_version();
        let preconditions = Preconditions { uid: held.uid(), resource_version };
        self.delete(api, &held.name_any(), preconditions).await?;
        Ok(Some(version))
    }

    async fn delete<K>(&self, api: &Api<K>, name: &str, preconditions: Preconditions) -> Result<(), CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        match self.call("delete", api.delete(name, &params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_gone_of::<K>(name) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Guarded by resourceVersion, because a list of finalizers can be written only whole. `None`: gone.
    async fn set_finalizer<K>(
        &self,
        api: &Api<K>,
        held: &K,
        name: &str,
        present: bool,
    ) -> Result<Option<K>, CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let mut finalizers: Vec<&str> =
            held.finalizers().iter().map(String::as_str).filter(|one| *one != name).collect();
        if present {
            finalizers.push(name);
        }
        let body = json!({"metadata": {
            "uid": held.uid(), "resourceVersion": held.resource_version(), "finalizers": finalizers,
        }});
        match self
            .call_unquoted(
                "patch",
                api.patch(&held.name_any(), &PatchParams::default(), &Patch::Merge(&body)),
            )
            .await
        {
            // The last finalizer of what is being deleted: it went with this write. Folded after the watch has
            // said so, the answer would bring it back for good.
            Ok(now) if now.meta().deletion_timestamp.is_some() && now.finalizers().is_empty() => Ok(None),
            Ok(now) => Ok(Some(now)),
            Err(error) if error.is_gone_of::<K>(&held.name_any()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// As the API server says it of one that is replaced in another version.
fn changed(name: &str) -> CallError {
    CallError { class: Class::Conflict, message: format!("{name} has changed meanwhile; trying again") }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use http::Method;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::Value;
    use tokio::time::Instant;
    use vidra_api::VidraTargetSpec;

    use super::*;
    use crate::{
        base::env::{Clock, SeededRng},
        internal_limits::InternalLimits,
        leader_election::lease::Claim,
        metrics::Metrics,
        workqueue::{Limits, Queue},
    };

    /// What a server that never answers was asked.
    #[derive(Default)]
    struct Asked {
        under_way: AtomicUsize,
        most: AtomicUsize,
        all: AtomicUsize,
    }

    /// One call under way, until its caller gives it up.
    struct Waiting(Arc<Asked>);

    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn silent(asked: Arc<Asked>) -> Client {
        let answer = move |_: http::Request<Body>| {
            let asked = asked.clone();
            let now = asked.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            asked.most.fetch_max(now, Ordering::Relaxed);
            asked.all.fetch_add(1, Ordering::Relaxed);
            let waiting = Waiting(asked);
            async move {
                let _waiting = waiting;
                std::future::pending::<Result<http::Response<Body>, http::Error>>().await
            }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    fn api(client: Client, tenure: Option<Arc<Tenure>>) -> HubApi {
        let metrics = Metrics::default();
        let (queue, _) = Queue::new(Limits::default(), Arc::new(SeededRng::new(1)), metrics.queue());
        let (hub, catalog) = (HubId::try_from("hub").unwrap(), Arc::new(Catalog::new(queue)));
        HubApi::new(
            client,
            hub,
            catalog,
            metrics.clusters().hub(),
            tenure,
            InternalLimits::default().hub_calls,
        )
    }

    /// What becomes of so many VidraTargets that are made at once.
    async fn make(api: &HubApi, many: usize) -> Vec<CallError> {
        let made = (0..many).map(|number| async move {
            let target = VidraTarget::new(&format!("shop.c{number}"), VidraTargetSpec::default());
            api.create_target(&target).await.unwrap_err()
        });
        join_all(made).await
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_calls_there_are_to_a_hub_that_does_not_answer_64_are_under_way_and_all_end() {
        let (asked, began) = (Arc::<Asked>::default(), Instant::now());
        let errors = make(&api(silent(asked.clone()), None), 500).await;
        assert_eq!(asked.most.load(Ordering::Relaxed), 64);
        assert_eq!(asked.all.load(Ordering::Relaxed), 500);
        assert_eq!(began.elapsed().as_secs(), 8 * WITHIN.as_secs(), "each once its turn has come");
        assert!(errors.iter().all(|error| error.class == Class::Transport), "{errors:?}");
    }

    /// The machine runs since the test began.
    struct Uptime(Instant);

    impl Clock for Uptime {
        fn now(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }

        fn uptime(&self) -> Duration {
            self.0.elapsed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waited_for_its_turn_until_the_lease_was_over_is_not_sent() {
        let asked = Arc::<Asked>::default();
        let client = silent(asked.clone());
        // Renewed when the test begins, and never again.
        let clock = Arc::new(Uptime(Instant::now()));
        let tenure = Claim::new(client.clone(), "vidra-system", "this process".into(), clock).tenure();
        let errors = make(&api(client, Some(tenure)), 100).await;
        assert_eq!(asked.all.load(Ordering::Relaxed), 64);
        let withdrawn = errors.iter().filter(|error| error.class == Class::Withdrawn);
        assert_eq!(withdrawn.count(), 36);
    }

    /// A VidraInventory on the hub, which another process writes just before the first call of this method.
    struct Stored {
        written_before: Option<Method>,
        version: u64,
        finalizers: Value,
        is_deleted: bool,
    }

    impl Stored {
        /// As an API server answers: a code and a body.
        fn answer(&mut self, method: &Method, body: &Value) -> (u16, Value) {
            if self.written_before.as_ref() == Some(method) {
                self.written_before = None;
                self.version += 1;
            }
            let metadata = if *method == Method::DELETE { "preconditions" } else { "metadata" };
            let expected = body[metadata]["resourceVersion"].as_str();
            if expected.is_some_and(|expected| expected != self.version.to_string()) {
                let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": "Conflict", "message": "the object has been modified", "code": 409});
                return (409, conflict);
            }
            if *method == Method::PATCH {
                self.version += 1;
                self.finalizers = body["metadata"]["finalizers"].clone();
            }
            self.is_deleted |= *method == Method::DELETE;
            let object = json!({
                "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraInventory",
                "metadata": {"name": "shop.berlin.0", "namespace": "team", "uid": "u-1",
                    "resourceVersion": self.version.to_string(), "finalizers": self.finalizers},
                "spec": {"resource": "shop", "cluster": "berlin", "chunk": 0, "entries": []},
            });
            (200, object)
        }
    }

    fn serving(stored: Arc<Mutex<Stored>>) -> Client {
        let answer = move |request: http::Request<Body>| {
            let stored = stored.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = stored.lock().answer(&parts.method, &body);
                http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))
            }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn a_part_of_an_inventory_that_another_process_writes_before_it_is_deleted_stays() {
        let key = TargetKey { namespace: "team".into(), resource: "shop".into(), cluster: "berlin".into() };
        let removal = [ChunkWrite::Remove { name: "shop.berlin.0".to_owned(), version: 7 }];
        for written_before in [Some(Method::GET), Some(Method::PATCH), Some(Method::DELETE), None] {
            let stored = Stored {
                written_before: written_before.clone(),
                version: 7,
                finalizers: json!([FINALIZER]),
                is_deleted: false,
            };
            let stored = Arc::new(Mutex::new(stored));
            let outcome = api(serving(stored.clone()), None).write_inventory(&key, &removal).await;
            let class = outcome.err().map(|error| error.class);
            let expected = written_before.is_some().then_some(Class::Conflict);
            assert_eq!(
                (class, stored.lock().is_deleted),
                (expected, written_before.is_none()),
                "{written_before:?}"
            );
        }
    }
}
