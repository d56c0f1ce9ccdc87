//! Follows the hub's own kinds and folds them into the catalog.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vidra_api::{MemberCluster, VidraInventory, VidraResource, VidraTarget, labels::REGISTRATION_LABEL};
use vidra_core::mutants::{self, Mutant};

use super::catalog::{Catalog, Listed};
use crate::{
    queue::{ResourceKey, TargetKey},
    seams::Rng,
    settings::tuning::Tuning,
    tasks::Pauses,
};

/// Set on a registration Secret whose member has left: it registers again when this is taken off.
pub const LEFT_ANNOTATION: &str = "vidra.dev/left-at";

/// Where a registration Secret keeps the kubeconfig when nothing else is said; the first that it has.
pub const KUBECONFIG_KEYS: [&str; 3] = ["kubeconfig", "value", "value.yaml"];

/// A Secret that registers a member. Its kubeconfig is shown to nobody.
#[derive(Clone, PartialEq)]
pub struct Registration {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The Secret's uid.
    pub uid: String,
    /// When it was made, as text that sorts.
    pub created: String,
    /// The member's name, as the label says; may be no valid name.
    pub cluster: String,
    /// Its labels, without the registration label: they become the member's.
    pub labels: BTreeMap<String, String>,
    data: BTreeMap<String, Arc<[u8]>>,
    /// The member has left; the Secret asks for nothing.
    pub left: bool,
}

impl Registration {
    /// The kubeconfig: under this key, or, for the default key, under the first of the usual ones.
    pub fn kubeconfig(&self, key: Option<&str>) -> Option<&[u8]> {
        match key.filter(|key| *key != KUBECONFIG_KEYS[0]) {
            Some(key) => self.data.get(key),
            None => KUBECONFIG_KEYS.iter().find_map(|key| self.data.get(*key)),
        }
        .map(|bytes| &**bytes)
    }

    /// The Secret, for Events.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

impl From<Secret> for Registration {
    fn from(secret: Secret) -> Self {
        let mut labels = secret.metadata.labels.unwrap_or_default();
        let cluster = labels.remove(REGISTRATION_LABEL).unwrap_or_default();
        let data =
            secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0.into())).collect();
        let annotations = secret.metadata.annotations.unwrap_or_default();
        Self {
            namespace: secret.metadata.namespace.unwrap_or_default(),
            name: secret.metadata.name.unwrap_or_default(),
            uid: secret.metadata.uid.unwrap_or_default(),
            created: secret.metadata.creation_timestamp.map(|time| time.0.to_string()).unwrap_or_default(),
            cluster,
            labels,
            data,
            left: annotations.contains_key(LEFT_ANNOTATION),
        }
    }
}

/// Objects in a page of a list, of kinds whose objects are large: each page is decoded whole.
const PAGE_OF_LARGE: u32 = 50;

/// What becomes of a hub whose first lists fail.
pub struct Startup {
    /// What can be changed while the hub runs.
    pub tuning: Arc<Tuning>,
    /// What failed, where that ends the hub.
    pub failed: Mutex<Option<String>>,
    /// Ends the hub.
    pub stop: CancellationToken,
    /// Objects in a page of a list.
    pub page: u32,
}

impl Startup {
    /// A first list failed: the hub tries again, or ends.
    fn failed(&self, kind: &str, error: &watcher::Error) {
        if self.tuning.now().stop_on_startup_error {
            *self.failed.lock() = Some(format!("the first list of {kind} failed: {}", brief(error)));
            self.stop.cancel();
        }
    }
}

/// Follows everything until cancelled; `synced` turns true when each first list is complete.
pub async fn follow_all(
    client: Client,
    namespace: &str,
    catalog: Arc<Catalog>,
    rng: &dyn Rng,
    startup: &Startup,
    synced: watch::Sender<bool>,
) {
    let to = Into { catalog: &catalog, rng, startup, done: watch::Sender::new(BTreeSet::new()) };
    let any = watcher::Config::default().timeout(200).page_size(startup.page);
    let large = any.clone().page_size(PAGE_OF_LARGE.min(startup.page));
    let all_listed = async {
        let mut listed = to.done.subscribe();
        // Never fails: the sender outlives this.
        let _ = listed.wait_for(|kinds: &BTreeSet<Listed>| kinds.len() == 5).await;
        catalog.all_listed();
        synced.send_replace(true);
    };
    tokio::join!(
        follow(Api::<VidraResource>::all(client.clone()), large.clone(), Scope::all(Listed::Resources), &to),
        follow(Api::<VidraTarget>::all(client.clone()), any.clone(), Scope::all(Listed::Targets), &to),
        follow(Api::<VidraInventory>::all(client.clone()), large, Scope::all(Listed::Inventories), &to),
        follow(Api::<MemberCluster>::all(client.clone()), any.clone(), Scope::all(Listed::Members), &to),
        follow_registrations(&client, namespace, &any, &to),
        all_listed,
    );
}

/// Follows the registration Secrets of the hub's namespace and of those that the settings name, anew whenever
/// these change.
async fn follow_registrations(client: &Client, own: &str, config: &watcher::Config, to: &Into<'_>) {
    let config = config.clone().labels(REGISTRATION_LABEL);
    let mut live = to.startup.tuning.follow();
    loop {
        let mut namespaces = live.borrow_and_update().registration_namespaces.clone();
        namespaces.insert(own.to_owned());
        to.catalog.register_from(&namespaces);
        let listed = watch::Sender::new(BTreeSet::new());
        let each = namespaces.iter().map(|namespace| {
            let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
            let (within, optional) = (Some((namespace.as_str(), &listed)), namespace != own);
            let scope = Scope { kind: Listed::Registrations, within, optional };
            follow(api, config.clone(), scope, to)
        });
        let all_listed = async {
            let all = namespaces.len();
            let _ = listed.subscribe().wait_for(|listed: &BTreeSet<String>| listed.len() == all).await;
            to.done(Listed::Registrations);
            std::future::pending::<()>().await;
        };
        let changed = live.wait_for(|live| {
            let mut wanted = live.registration_namespaces.clone();
            wanted.insert(own.to_owned());
            wanted != namespaces
        });
        tokio::select! {
            biased;
            _ = futures::future::join_all(each) => {}
            () = all_listed => {}
            _ = changed => {}
        }
    }
}

/// What one watch follows.
#[derive(Clone, Copy)]
struct Scope<'a> {
    kind: Listed,
    /// One namespace of several, and which of them have answered.
    within: Option<(&'a str, &'a watch::Sender<BTreeSet<String>>)>,
    /// A failure holds nothing up.
    optional: bool,
}

impl Scope<'_> {
    fn all(kind: Listed) -> Self {
        Self { kind, within: None, optional: false }
    }

    /// The first list is complete.
    fn done(&self, to: &Into<'_>) {
        match self.within {
            None => to.done(self.kind),
            Some((namespace, listed)) => listed.send_modify(|listed| {
                listed.insert(namespace.to_owned());
            }),
        }
    }

    /// A list or watch failed.
    fn failed(&self, kind: &str, error: &watcher::Error, to: &Into<'_>) {
        if self.optional {
            self.done(to);
        } else if !to.done.borrow().contains(&self.kind) {
            to.startup.failed(kind, error);
        }
    }
}

/// How one kind is folded.
trait Fold: Sized {
    fn fold(self, catalog: &Catalog);
    fn drop(self, catalog: &Catalog);
}

/// Where watches lead.
struct Into<'a> {
    catalog: &'a Catalog,
    rng: &'a dyn Rng,
    startup: &'a Startup,
    done: watch::Sender<BTreeSet<Listed>>,
}

impl Into<'_> {
    fn done(&self, kind: Listed) {
        self.done.send_modify(|kinds| {
            kinds.insert(kind);
        });
    }
}

async fn follow<K>(api: Api<K>, config: watcher::Config, scope: Scope<'_>, to: &Into<'_>)
where
    K: Resource<DynamicType = ()> + Fold + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (catalog, kind) = (to.catalog, scope.kind);
    let within = scope.within.map(|(namespace, _)| namespace);
    let mut pauses = Pauses::default();
    loop {
        let mut events = std::pin::pin!(watcher::watcher(api.clone(), config.clone()));
        let mut seen = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    catalog.listing(kind);
                    seen.clear();
                }
                Ok(Event::InitApply(object)) => {
                    catalog.note_there(object.meta().uid.as_deref());
                    seen.insert((object.namespace().unwrap_or_default(), object.name_any()));
                    object.fold(catalog);
                }
                Ok(Event::InitDone) => {
                    catalog.listed(kind, within, &seen);
                    seen.clear();
                    pauses.reset();
                    scope.done(to);
                }
                Ok(Event::Apply(object)) => {
                    pauses.reset();
                    catalog.note_there(object.meta().uid.as_deref());
                    object.fold(catalog);
                }
                Ok(Event::Delete(object)) => {
                    pauses.reset();
                    // A Secret that has lost its label is deleted to this watch, and may get it again.
                    if kind != Listed::Registrations {
                        catalog.note_gone(object.uid());
                    }
                    object.drop(catalog);
                }
                Err(error) => {
                    if mutants::is(Mutant::DeleteOnFailedList)
                        && matches!(error, watcher::Error::InitialListFailed(_))
                    {
                        catalog.listed(kind, within, &seen);
                        scope.done(to);
                    }
                    tracing::warn!(kind = %K::kind(&()), error = %brief(&error), "watch on the hub failed; it is tried again");
                    scope.failed(&K::kind(&()), &error, to);
                    pauses.pause(to.rng).await;
                    if is_expired(&error) {
                        break;
                    }
                }
            }
        }
    }
}

/// A watcher that met an expired resourceVersion would ask with it for ever.
pub fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// Never the body: a Secret may be in it.
pub fn brief(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            format!("{} ({})", status.message, status.code)
        }
        watcher::Error::InitialListFailed(kube::Error::SerdeError(_)) => {
            "an object could not be decoded".into()
        }
        other => other.to_string(),
    }
}

impl Fold for VidraResource {
    fn fold(self, catalog: &Catalog) {
        catalog.fold_resource(self);
    }
    fn drop(self, catalog: &Catalog) {
        catalog.drop_resource(&ResourceKey::new(&self.namespace().unwrap_or_default(), &self.name_any()));
    }
}

impl Fold for VidraTarget {
    fn fold(self, catalog: &Catalog) {
        catalog.fold_target(self);
    }
    fn drop(self, catalog: &Catalog) {
        let key =
            TargetKey::new(&self.namespace().unwrap_or_default(), &self.spec.resource, &self.spec.cluster);
        catalog.drop_target(&key, self.uid().as_deref());
    }
}

impl Fold for VidraInventory {
    fn fold(self, catalog: &Catalog) {
        catalog.fold_inventory(self, false);
    }
    fn drop(self, catalog: &Catalog) {
        let key =
            TargetKey::new(&self.namespace().unwrap_or_default(), &self.spec.resource, &self.spec.cluster);
        catalog.drop_inventory(&key, &self.name_any());
    }
}

impl Fold for MemberCluster {
    fn fold(self, catalog: &Catalog) {
        catalog.fold_member(self);
    }
    fn drop(self, catalog: &Catalog) {
        catalog.drop_member(&self.name_any());
    }
}

impl Fold for Secret {
    fn fold(self, catalog: &Catalog) {
        catalog.fold_registration(self.into());
    }
    fn drop(self, catalog: &Catalog) {
        catalog.drop_registration(&self.namespace().unwrap_or_default(), &self.name_any());
    }
}
