//! Follows the hub's own kinds and folds them into the catalog.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, time::Instant};
use vidra_api::{
    MemberCluster, VidraInventory, VidraResource, VidraTarget,
    labels::{HUB_LABEL, REGISTRATION_LABEL},
    names::HubId,
    target::LABEL_MAX,
};
use vidra_core::{
    mutants::{self, Mutant},
    unseen,
};

use super::catalog::{Catalog, Listed, Via};
use crate::{
    base::{
        env::Rng,
        error::CallError,
        supervise::{Halt, Stop},
    },
    config::{refusal::Refusal, tuning::Tuning},
    wire::{
        self, Glance, TOO_LARGE, Wire,
        follow::{Object, WatchEvent},
    },
    workqueue::{ResourceKey, TargetKey},
};

/// Objects in a page of a list, of kinds whose objects are large: a page is held whole while it is read.
const PAGE_OF_LARGE: u32 = 50;

/// A kind of which nothing could be seen for so long, though the process leads, ends it: what it would decide by is old.
const BLIND_FOR: Duration = Duration::from_secs(150);

/// What becomes of a hub whose first lists fail.
pub struct Startup {
    /// What can be changed while the hub runs.
    pub tuning: Arc<Tuning>,
    /// Ends the hub.
    pub stop: Arc<Stop>,
    /// This hub.
    pub hub: HubId,
    /// Objects in a page of a list.
    pub page: u32,
}

impl Startup {
    /// A first list failed: the hub tries again, or ends.
    fn failed(&self, kind: &str, error: &CallError) {
        if self.tuning.now().stop_on_startup_error {
            self.stop.halt(Halt::FirstList { kind: kind.to_owned(), error: error.message.clone() });
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
    let sink = Sink { catalog: &catalog, rng, startup, done: watch::Sender::new(BTreeSet::new()) };
    let (any, large) = (startup.page, PAGE_OF_LARGE.min(startup.page));
    let all_listed = async {
        let mut listed = sink.done.subscribe();
        // Never fails: the sender outlives this.
        let _ = listed.wait_for(|kinds: &BTreeSet<Listed>| kinds.len() == Listed::ALL.len()).await;
        catalog.all_listed();
        synced.send_replace(true);
    };
    tokio::join!(
        follow::<VidraResource>(&client, large, Scope::all(Listed::Resources), &sink),
        follow::<VidraTarget>(&client, any, Scope::all(Listed::Targets), &sink),
        follow::<VidraInventory>(&client, large, Scope::all(Listed::Inventories), &sink),
        follow::<MemberCluster>(&client, any, Scope::all(Listed::Members), &sink),
        follow_registrations(&client, namespace, any, &sink),
        all_listed,
    );
}

/// Follows the registration Secrets of the hub's namespace and of those that the settings name, again whenever
/// these change.
async fn follow_registrations(client: &Client, own: &str, page: u32, sink: &Sink<'_>) {
    let mut settings = sink.startup.tuning.follow();
    loop {
        let mut namespaces = settings.borrow_and_update().registration_namespaces.clone();
        namespaces.insert(own.to_owned());
        sink.catalog.register_from(&namespaces);
        let listed = watch::Sender::new(BTreeSet::new());
        let each = namespaces.iter().map(|namespace| {
            let (within, optional) = (Some((namespace.as_str(), &listed)), namespace != own);
            let scope = Scope { kind: Listed::Registrations, within, optional };
            follow::<Secret>(client, page, scope, sink)
        });
        let all_listed = async {
            let all = namespaces.len();
            let _ = listed.subscribe().wait_for(|listed: &BTreeSet<String>| listed.len() == all).await;
            sink.done(Listed::Registrations);
            std::future::pending::<()>().await;
        };
        let changed = settings.wait_for(|settings| {
            let mut wanted = settings.registration_namespaces.clone();
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
    fn done(&self, sink: &Sink<'_>) {
        match self.within {
            None => sink.done(self.kind),
            Some((namespace, listed)) => listed.send_modify(|listed| {
                listed.insert(namespace.to_owned());
            }),
        }
    }

    /// A list or watch failed; the last time that anything was seen was then.
    fn failed(
        &self,
        kind: &str,
        error: &CallError,
        (seen, refusal): (Instant, &mut Refusal),
        sink: &Sink<'_>,
    ) {
        if self.optional {
            // A moment's trouble says nothing of who is registered there.
            if refusal.lasts(error) || mutants::is(Mutant::OptionalUnawaited) {
                self.done(sink);
            }
        } else if !sink.done.borrow().contains(&self.kind) {
            sink.startup.failed(kind, error);
        } else if seen.elapsed() >= BLIND_FOR && !mutants::is(Mutant::BlindGoesOn) {
            sink.startup.stop.halt(Halt::Blind { kind: kind.to_owned(), error: error.message.clone() });
        }
    }
}

/// How one kind is folded.
trait Fold: Sized {
    /// Only hubs make them, and each bears its hub's id.
    const IS_HUBS: bool = false;
    /// Which objects of the kind are followed.
    fn which() -> ListParams {
        ListParams::default()
    }
    fn fold(self, catalog: &Catalog);
    fn fold_deleted(self, catalog: &Catalog, at: u64);
}

/// Where watches lead.
struct Sink<'a> {
    catalog: &'a Catalog,
    rng: &'a dyn Rng,
    startup: &'a Startup,
    done: watch::Sender<BTreeSet<Listed>>,
}

impl Sink<'_> {
    fn done(&self, kind: Listed) {
        self.done.send_modify(|kinds| {
            kinds.insert(kind);
        });
    }

    /// It is another hub's: nothing is made of it, and everything ends.
    fn is_anothers<K: Resource<DynamicType = ()> + Fold>(&self, object: &K) -> bool {
        let ours = &self.startup.hub;
        let other = object.labels().get(HUB_LABEL).filter(|of| K::IS_HUBS && *of != ours.as_str());
        let Some(other) = other.filter(|_| !mutants::is(Mutant::TakesAnyState)) else { return false };
        let (kind, namespace) = (K::kind(&()), object.namespace().unwrap_or_default());
        self.startup.stop.halt(Halt::OfAnotherHub {
            found: format!("{kind} {namespace}/{}", object.name_any()),
            other: unseen::shown(other, LABEL_MAX),
            ours: ours.to_string(),
        });
        true
    }
}

async fn follow<K>(client: &Client, page: u32, scope: Scope<'_>, sink: &Sink<'_>)
where
    K: Resource<DynamicType = ()> + Fold + DeserializeOwned,
{
    let (catalog, kind) = (sink.catalog, scope.kind);
    let within = scope.within.map(|(namespace, _)| namespace);
    let wire = Wire::of::<K>(client.clone(), within, K::which());
    let (mut seen, mut lists, mut sees) = (BTreeSet::new(), false, Instant::now());
    let mut refusal = Refusal::default();
    // Answers may have told more than a watch that has failed for a while.
    let mut newest = 0;
    let restored = || sink.startup.stop.halt(Halt::Restored { kind: K::kind(&()).into_owned() });
    let is_anothers = |object: &K| sink.is_anothers(object);
    let tell = |event: WatchEvent<'_>| {
        if !matches!(event, WatchEvent::Init | WatchEvent::Error(_)) {
            sees = Instant::now();
        }
        match event {
            WatchEvent::Init => {
                newest = catalog.newest(kind, within);
                seen.clear();
                lists = true;
            }
            WatchEvent::InitApply(object) => {
                seen.extend(fold_present::<K>(catalog, kind, object, is_anothers))
            }
            WatchEvent::InitDone(version) if version < newest && !mutants::is(Mutant::AnswersUnheeded) => {
                restored()
            }
            WatchEvent::InitDone(version) => {
                catalog.end_list(kind, within, &seen, version);
                seen.clear();
                lists = false;
                scope.done(sink);
            }
            WatchEvent::Apply(object) => drop(fold_present::<K>(catalog, kind, object, is_anothers)),
            WatchEvent::Delete(object) => fold_gone::<K>(catalog, kind, object),
            WatchEvent::Bookmark(version) => catalog.advance_floor(kind, within, version),
            WatchEvent::Error(error) => {
                if mutants::is(Mutant::DeleteOnFailedList) && lists {
                    catalog.end_list(kind, within, &seen, u64::MAX);
                    scope.done(sink);
                }
                tracing::warn!(kind = %K::kind(&()), %error, "a watch of the hub's API failed; the hub starts it again");
                scope.failed(&K::kind(&()), error, (sees, &mut refusal), sink);
            }
            WatchEvent::Restored => restored(),
        }
    };
    wire::follow::follow(&wire, page, sink.rng, tell).await;
}

/// Folds an object that is there. Its namespace and name: it is there also where it cannot be read, and then it is held
/// until it can be.
fn fold_present<K: Resource<DynamicType = ()> + Fold + DeserializeOwned>(
    catalog: &Catalog,
    kind: Listed,
    object: Object<'_>,
    is_anothers: impl Fn(&K) -> bool,
) -> Option<(String, String)> {
    match read::<K>(object) {
        Ok(read) => {
            let name = (read.namespace().unwrap_or_default(), read.name_any());
            if !is_anothers(&read) {
                read.fold(catalog);
            }
            // Only now: in between nobody takes it for missing.
            catalog.set_readable(kind, &name);
            Some(name)
        }
        Err(_) if mutants::is(Mutant::UnreadGone) => None,
        Err(why) => {
            let glance = Glance::read(object.text).unwrap_or_default();
            let name = (glance.namespace.unwrap_or_default(), glance.name?);
            if catalog.set_unreadable(kind, &name) {
                tracing::error!(
                    kind = %K::kind(&()), namespace = %name.0, name = %name.1, why,
                    "the hub cannot read an object and does nothing for it until it can. Did a newer vidra-hub write it?"
                );
            }
            Some(name)
        }
    }
}

/// Folds that an object is gone.
fn fold_gone<K: Resource<DynamicType = ()> + Fold + DeserializeOwned>(
    catalog: &Catalog,
    kind: Listed,
    object: Object<'_>,
) {
    let glance = Glance::read(object.text).unwrap_or_default();
    let at = glance.resource_version.and_then(|version| version.parse().ok()).unwrap_or(u64::MAX);
    let name = (glance.namespace.unwrap_or_default(), glance.name.unwrap_or_default());
    match read::<K>(object) {
        Ok(read) => read.fold_deleted(catalog, at),
        Err(_) => catalog.drop_named(kind, &name, at),
    }
    catalog.set_readable(kind, &name);
}

/// One object; why it cannot be read, without a word of it.
fn read<K: DeserializeOwned>(object: Object<'_>) -> Result<K, &'static str> {
    if object.is_cut {
        return Err(TOO_LARGE);
    }
    serde_json::from_str(object.text).map_err(|_| "it does not have the form that this version knows")
}

impl Fold for VidraResource {
    fn fold(self, catalog: &Catalog) {
        catalog.fold_resource(self, Via::Watch);
    }
    fn fold_deleted(self, catalog: &Catalog, at: u64) {
        catalog.drop_resource(&ResourceKey::new(&self.namespace().unwrap_or_default(), &self.name_any()), at);
    }
}

impl Fold for VidraTarget {
    const IS_HUBS: bool = true;
    fn fold(self, catalog: &Catalog) {
        catalog.fold_target(self, Via::Watch);
    }
    fn fold_deleted(self, catalog: &Catalog, at: u64) {
        catalog.drop_target(&TargetKey::of(&self), at);
    }
}

impl Fold for VidraInventory {
    const IS_HUBS: bool = true;
    fn fold(self, catalog: &Catalog) {
        catalog.fold_inventory(self, Via::Watch);
    }
    fn fold_deleted(self, catalog: &Catalog, at: u64) {
        let key =
            TargetKey::new(&self.namespace().unwrap_or_default(), &self.spec.resource, &self.spec.cluster);
        catalog.drop_inventory(&key, &self.name_any(), at);
    }
}

impl Fold for MemberCluster {
    fn fold(self, catalog: &Catalog) {
        catalog.fold_member(self, Via::Watch);
    }
    fn fold_deleted(self, catalog: &Catalog, at: u64) {
        catalog.drop_member(&self.name_any(), at);
    }
}

impl Fold for Secret {
    fn which() -> ListParams {
        ListParams::default().labels(REGISTRATION_LABEL)
    }
    fn fold(self, catalog: &Catalog) {
        catalog.fold_registration(self.into(), Via::Watch);
    }
    fn fold_deleted(self, catalog: &Catalog, at: u64) {
        catalog.drop_registration(&self.namespace().unwrap_or_default(), &self.name_any(), at);
    }
}

#[cfg(test)]
mod tests;
