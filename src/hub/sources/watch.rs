//! Follows the metadata of ConfigMaps and Secrets in the namespaces whose VidraResources read some: one watch
//! for each kind and namespace, begun with the first that needs it and ended with the last.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use futures::{
    FutureExt, StreamExt,
    future::{AbortHandle, abortable},
    stream::FuturesUnordered,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, Resource,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;

use super::{
    SourceKind,
    index::{Scope, SourceIndex, SourceKey, Version},
};
use crate::{
    hub::watch::{brief, is_expired},
    seams::Rng,
    tasks::{Pauses, supervised},
};

/// Follows what the index wants, until cancelled.
pub async fn follow_sources(client: &Client, index: &SourceIndex, rng: &dyn Rng, page: u32) {
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
                supervised("watch of sources", rng, || follow(client, &of, index, rng, page)).await;
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

async fn follow(client: &Client, scope: &Scope, index: &SourceIndex, rng: &dyn Rng, page: u32) {
    match scope.kind {
        SourceKind::ConfigMap => follow_kind::<ConfigMap>(client, scope, index, rng, page).await,
        SourceKind::Secret => follow_kind::<Secret>(client, scope, index, rng, page).await,
    }
}

async fn follow_kind<K>(client: &Client, scope: &Scope, index: &SourceIndex, rng: &dyn Rng, page: u32)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), &scope.namespace);
    let key = |name: String| SourceKey { scope: scope.clone(), name };
    let mut pauses = Pauses::default();
    loop {
        let mut events = std::pin::pin!(watcher::watcher(
            api.clone(),
            watcher::Config::default().timeout(200).page_size(page)
        ));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    index.listing(scope);
                    listed.clear();
                }
                Ok(Event::InitApply(object)) => {
                    let version = Version::of(&object.metadata);
                    let name = object.metadata.name.unwrap_or_default();
                    index.noticed(&key(name.clone()), Some(version));
                    listed.insert(name);
                }
                Ok(Event::InitDone) => {
                    index.listed(scope, &listed);
                    listed.clear();
                    pauses.reset();
                }
                Ok(Event::Apply(object)) => {
                    let version = Version::of(&object.metadata);
                    index.noticed(&key(object.metadata.name.unwrap_or_default()), Some(version));
                }
                Ok(Event::Delete(object)) => {
                    index.noticed(&key(object.metadata.name.unwrap_or_default()), None);
                }
                Err(error) => {
                    let (kind, namespace) = (scope.kind, &scope.namespace);
                    tracing::warn!(%kind, %namespace, error = %brief(&error), "a watch of manifests' sources failed; it is tried again");
                    pauses.pause(rng).await;
                    if is_expired(&error) {
                        break;
                    }
                }
            }
        }
    }
}
