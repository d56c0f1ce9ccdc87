//! Follows the metadata of ConfigMaps and Secrets in the namespaces whose VidraResources read some: one watch
//! for each kind and namespace, begun with the first that needs it and ended with the last.

use std::collections::{BTreeMap, BTreeSet};

use futures::{
    FutureExt, StreamExt,
    future::{AbortHandle, abortable},
    stream::FuturesUnordered,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Client, Resource, api::ListParams, core::PartialObjectMeta};

use super::{
    SourceKind,
    index::{Scope, SourceIndex, SourceKey, Version},
};
use crate::{
    base::{
        env::Rng,
        supervise::{Halt, Stop, supervised},
    },
    wire::{
        self, Wire,
        follow::{Object, WatchEvent},
    },
};

/// Follows what the index wants, until cancelled.
pub async fn follow_sources(client: &Client, index: &SourceIndex, rng: &dyn Rng, page: u32, stop: &Stop) {
    let mut wanted = index.wanted();
    let mut running: BTreeMap<Scope, AbortHandle> = BTreeMap::new();
    let mut watches = FuturesUnordered::new();
    loop {
        let scopes = wanted.borrow_and_update().clone();
        running.retain(|scope, watch| {
            let stays = scopes.contains(scope);
            if !stays {
                watch.abort();
                index.listing(scope);
            }
            stays
        });
        for scope in scopes.into_iter().filter(|scope| !running.contains_key(scope)).collect::<Vec<_>>() {
            let of = scope.clone();
            let follow = async move {
                supervised("watch of sources", rng, || follow(client, &of, index, rng, page, stop)).await;
            };
            let (watch, handle) = abortable(follow.boxed());
            watches.push(watch);
            running.insert(scope, handle);
        }
        tokio::select! {
            biased;
            changed = wanted.changed() => if changed.is_err() { return },
            Some(_) = watches.next() => {}
        }
    }
}

async fn follow(client: &Client, scope: &Scope, index: &SourceIndex, rng: &dyn Rng, page: u32, stop: &Stop) {
    match scope.kind {
        SourceKind::ConfigMap => follow_kind::<ConfigMap>(client, scope, index, rng, page, stop).await,
        SourceKind::Secret => follow_kind::<Secret>(client, scope, index, rng, page, stop).await,
    }
}

async fn follow_kind<K: Resource<DynamicType = ()>>(
    client: &Client,
    scope: &Scope,
    index: &SourceIndex,
    rng: &dyn Rng,
    page: u32,
    stop: &Stop,
) {
    let wire = Wire::of::<K>(client.clone(), Some(&scope.namespace), ListParams::default()).bare();
    let noticed = |object: Object<'_>, is_there: bool| {
        // Of metadata that cannot be read nothing is known: the source is read when its VidraResource is reconciled.
        let meta = serde_json::from_str::<PartialObjectMeta<K>>(object.text).ok()?.metadata;
        let name = meta.name.clone()?;
        index.noticed(
            &SourceKey { scope: scope.clone(), name: name.clone() },
            is_there.then(|| Version::of(&meta)),
        );
        Some(name)
    };
    let mut listed = BTreeSet::new();
    let tell = |event: WatchEvent<'_>| match event {
        WatchEvent::Init => {
            index.listing(scope);
            listed.clear();
        }
        WatchEvent::InitApply(object) => listed.extend(noticed(object, true)),
        WatchEvent::InitDone(_) => {
            index.end_list(scope, &listed);
            listed.clear();
        }
        WatchEvent::Apply(object) => drop(noticed(object, true)),
        WatchEvent::Delete(object) => drop(noticed(object, false)),
        WatchEvent::Error(error) => {
            let (kind, namespace) = (scope.kind, &scope.namespace);
            tracing::warn!(%kind, %namespace, %error, "a watch of manifests' sources failed; the hub starts it again");
        }
        WatchEvent::Bookmark(_) => {}
        // The hub's own kinds may be as they were.
        WatchEvent::Restored => stop.halt(Halt::Restored { kind: scope.kind.to_string() }),
    };
    wire::follow::follow(&wire, page, rng, tell).await;
}
