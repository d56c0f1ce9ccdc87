//! Objects in members, read with the user's own rights there: by the context of a kubeconfig that has the member's name.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::Value;
use vidra_api::MemberCluster;
use vidra_core::health::facts::{Facts, KindFacts, may_be_custom};
use vidra_core::object::ObjectKey;

use crate::cluster::Cluster;
use crate::error::{Failure, is_missing};
use crate::text::brief;

/// Longest reason in a line.
const WHY_MAX: usize = 200;
/// What to ask for.
const READING_THERE: &str = "get on it in the member";

/// Members as a kubeconfig reaches them; each is opened once.
pub struct Members<'a> {
    kubeconfig: Option<&'a Path>,
    known: &'a [MemberCluster],
    open: BTreeMap<String, Result<Member, String>>,
}

struct Member {
    cluster: Cluster,
    kinds: BTreeMap<(String, String), Option<Kind>>,
}

/// A kind that it serves.
#[derive(Clone)]
struct Kind {
    resource: ApiResource,
    is_namespaced: bool,
    facts: KindFacts,
}

impl<'a> Members<'a> {
    /// Of this kubeconfig, or as kubectl finds it.
    pub fn new(kubeconfig: Option<&'a Path>, known: &'a [MemberCluster]) -> Self {
        Self { kubeconfig, known, open: BTreeMap::new() }
    }

    /// An object as it is in a member, and what its kind declares there; `None`: it is not there.
    ///
    /// # Errors
    /// It cannot be read, in words.
    pub async fn find(
        &mut self,
        name: &str,
        key: &ObjectKey,
        declared: &Value,
    ) -> Result<Option<(Value, Facts)>, String> {
        if !self.open.contains_key(name) {
            let opened = self.open(name).await.map_err(|failure| brief(&failure.to_string(), WHY_MAX));
            self.open.insert(name.to_owned(), opened);
        }
        match self.open.get_mut(name) {
            Some(Ok(member)) => member.find(key, declared).await,
            Some(Err(why)) => Err(format!("the member is not looked at: {why}")),
            None => Ok(None),
        }
    }

    /// The member of this name, by the context of that name: it must be the very cluster that joined.
    async fn open(&self, name: &str) -> Result<Member, Failure> {
        let cluster = Cluster::member(self.kubeconfig, Some(name)).await?;
        let known = self.known.iter().find(|one| one.metadata.name.as_deref() == Some(name));
        let joined = known.and_then(|one| one.status.as_ref()?.uid.clone());
        let api: Api<Namespace> = Api::all(cluster.client.clone());
        let found = cluster.find(&api, "kube-system", READING_THERE).await?;
        let uid = found.and_then(|namespace| namespace.metadata.uid);
        if uid.is_none() || uid != joined {
            return Err(Failure::Input(format!(
                "{} is not the cluster that joined as {name}: correct the context {name}",
                cluster.name
            )));
        }
        Ok(Member { cluster, kinds: BTreeMap::new() })
    }
}

impl Member {
    async fn find(&mut self, key: &ObjectKey, declared: &Value) -> Result<Option<(Value, Facts)>, String> {
        let api_version = declared["apiVersion"].as_str().unwrap_or_default().to_owned();
        let at = (api_version, key.kind.to_string());
        if !self.kinds.contains_key(&at) {
            let kind = self.kind(key, &at.0).await?;
            self.kinds.insert(at.clone(), kind);
        }
        let Some(Some(kind)) = self.kinds.get(&at) else { return Ok(None) };
        let client = self.cluster.client.clone();
        let api: Api<DynamicObject> = match kind.is_namespaced {
            true => Api::namespaced_with(client, &key.namespace, &kind.resource),
            false => Api::all_with(client, &kind.resource),
        };
        match api.get(&key.name).await {
            Ok(live) => {
                let live = serde_json::to_value(live).map_err(|error| error.to_string())?;
                Ok(Some((live, Facts { kind: kind.facts.clone(), ..Facts::default() })))
            }
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self.failed(&format!("read {key}"), error)),
        }
    }

    /// How a kind is served, and for one that a CRD may define what that declares, as far as it may be read.
    async fn kind(&self, key: &ObjectKey, api_version: &str) -> Result<Option<Kind>, String> {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let client = &self.cluster.client;
        let gvk = GroupVersionKind::gvk(&key.group, version, &key.kind);
        let (resource, capabilities) = match pinned_kind(client, &gvk).await {
            // A server may name no group beside a kind, which is that of its document.
            Ok((served, capabilities)) => {
                (ApiResource::from_gvk_with_plural(&gvk, &served.plural), capabilities)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(kube::Error::Discovery(_)) => return Ok(None),
            Err(error) => return Err(self.failed(&format!("ask for the kind {gvk:?}"), error)),
        };
        let mut facts = KindFacts::default();
        if may_be_custom(&key.group) {
            let crd = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&crd));
            if let Ok(crd) = api.get(&format!("{}.{}", resource.plural, key.group)).await {
                facts = KindFacts::of_crd(&serde_json::to_value(crd).unwrap_or_default(), version);
            }
        }
        Ok(Some(Kind { resource, is_namespaced: capabilities.scope == Scope::Namespaced, facts }))
    }

    fn failed(&self, action: &str, error: kube::Error) -> String {
        brief(&self.cluster.doing(action, READING_THERE).failed(error).to_string(), WHY_MAX)
    }
}
