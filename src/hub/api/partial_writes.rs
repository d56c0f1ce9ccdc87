//! Writes that send only what they change, and get back only metadata. A VidraResource may hold a megabyte of
//! manifests: each time that the API server decodes or encodes them costs it milliseconds, and a write that sends and
//! gets back all of it takes two to three times the CPU (docs/performance.md).

use std::fmt::Debug;

use http::{HeaderValue, header::ACCEPT};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::{PartialObjectMeta, Request, object::HasStatus},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use vidra_api::{
    MemberCluster, MemberClusterStatus, VidraInventory, VidraResource, VidraResourceStatus, VidraTarget,
    VidraTargetStatus,
    labels::{FIELD_MANAGER, FINALIZER},
};
use vidra_core::mutants::{self, Mutant};

use super::HubApi;
use crate::{
    base::error::CallError,
    hub::catalog::Via,
    workqueue::{Key, ResourceKey, TargetKey},
};

const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

impl HubApi {
    /// Writes a VidraTarget's status.
    pub async fn target_status(
        &self,
        held: &VidraTarget,
        status: VidraTargetStatus,
    ) -> Result<(), CallError> {
        let key = TargetKey::of(held);
        let api = self.namespaced::<VidraTarget>(&key.namespace);
        let answer = self.replace_status(&api, held, status).await;
        self.catalog.fold_target(self.heard(Key::Target(key), answer)?, Via::Answer);
        Ok(())
    }

    /// Writes a VidraResource's status.
    pub async fn resource_status(
        &self,
        held: &VidraResource,
        status: VidraResourceStatus,
    ) -> Result<(), CallError> {
        let namespace = held.namespace().unwrap_or_default();
        let api = self.namespaced::<VidraResource>(&namespace);
        let answer = self.replace_status(&api, held, status).await;
        let key = ResourceKey::new(&namespace, &held.name_any());
        self.catalog.fold_resource(self.heard(Key::Resource(key), answer)?, Via::Answer);
        Ok(())
    }

    /// Writes a MemberCluster's status.
    pub async fn member_status(
        &self,
        held: &MemberCluster,
        status: MemberClusterStatus,
    ) -> Result<(), CallError> {
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        let answer = self.replace_status(&api, held, status).await;
        let key = Key::Cluster(held.name_any().as_str().into());
        self.catalog.fold_member(self.heard(key, answer)?, Via::Answer);
        Ok(())
    }

    /// Puts our finalizer on a VidraResource. Applied, it is the only one that is written: nothing else of a user's
    /// object is touched. An object that is gone, or was made again, is refused by its uid.
    pub async fn add_resource_finalizer(&self, held: &VidraResource) -> Result<(), CallError> {
        let api = self.namespaced::<VidraResource>(&held.namespace().unwrap_or_default());
        let mut body = version_of(held);
        body["metadata"]["finalizers"] = json!([FINALIZER]);
        let (name, params) = (held.name_any(), PatchParams::apply(FIELD_MANAGER));
        let made =
            self.call_unquoted("apply", api.patch_metadata(&name, &params, &Patch::Apply(&body))).await?;
        let now = VidraResource { metadata: made.metadata, ..held.clone() };
        self.catalog.fold_resource(now, Via::Answer);
        Ok(())
    }

    /// Changes an annotation of a VidraResource from what it says, or takes it off. One that says something else by now
    /// stays.
    pub async fn reannotate_resource(
        &self,
        held: &VidraResource,
        annotation: &str,
        says: &str,
        next: Option<String>,
    ) -> Result<(), CallError> {
        let namespace = held.namespace().unwrap_or_default();
        let key = ResourceKey::new(&namespace, &held.name_any());
        let same = |now: &VidraResource| {
            let says_so = now.annotations().get(annotation).is_some_and(|now| now == says);
            now.uid() == held.uid() && (says_so || mutants::is(Mutant::WordUnread))
        };
        let Some(latest) = self.catalog.resource(&key).filter(|now| same(now)) else { return Ok(()) };
        let mut body = version_of(&*latest);
        body["metadata"]["annotations"] = json!({annotation: next});
        let api = self.namespaced::<VidraResource>(&namespace);
        let (name, params) = (held.name_any(), PatchParams::default());
        let made =
            self.call_unquoted("annotate", api.patch_metadata(&name, &params, &Patch::Merge(&body))).await?;
        let now = VidraResource { metadata: made.metadata, ..(*latest).clone() };
        self.catalog.fold_resource(now, Via::Answer);
        Ok(())
    }

    /// Notes a write of this object to which no answer came.
    pub(super) fn heard<T>(&self, key: Key, answer: Result<T, CallError>) -> Result<T, CallError> {
        if answer.as_ref().is_err_and(CallError::is_unsure) {
            self.catalog.note_unanswered(key);
        }
        answer
    }

    /// Writes a status over the one of this very version of an object; what the object is after that. A PUT of a
    /// status changes nothing else, whatever it leaves out.
    /// Source: k8s.io/apiextensions-apiserver/pkg/registry/customresource/status_strategy.go, PrepareForUpdate.
    async fn replace_status<K>(&self, api: &Api<K>, held: &K, status: K::Status) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + HasStatus<Status: Serialize> + Clone + DeserializeOwned + Debug,
    {
        let mut body = version_of(held);
        body["status"] = json!(status);
        let request = Request::new(api.resource_url()).replace_subresource(
            "status",
            &held.name_any(),
            &PostParams::default(),
            body.to_string().into_bytes(),
        );
        let metadata = self.call_unquoted("status", self.metadata(request)).await?;
        let mut now = held.clone();
        *now.meta_mut() = metadata;
        *now.status_mut() = Some(status);
        Ok(now)
    }

    /// Makes a VidraInventory, or replaces the version that it names; it as it is after that.
    pub(super) async fn put_inventory(&self, mut chunk: VidraInventory) -> Result<VidraInventory, CallError> {
        let api = self.namespaced::<VidraInventory>(&chunk.namespace().unwrap_or_default());
        let (to, params, body) =
            (Request::new(api.resource_url()), PostParams::default(), json!(chunk).to_string().into_bytes());
        let (verb, request) = match chunk.metadata.resource_version {
            None => ("create", to.create(&params, body)),
            Some(_) => ("update", to.replace(&chunk.name_any(), &params, body)),
        };
        chunk.metadata = self.call(verb, self.metadata(request)).await?;
        Ok(chunk)
    }

    /// Sends a write, and gets back only metadata.
    async fn metadata(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<ObjectMeta> {
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(ACCEPT, METADATA);
        Ok(self.client.request::<PartialObjectMeta>(request).await?.metadata)
    }
}

/// This very version of an object, and nothing of what is in it.
fn version_of<K: Resource<DynamicType = ()>>(held: &K) -> Value {
    json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {
            "name": held.name_any(), "namespace": held.namespace(),
            "uid": held.uid(), "resourceVersion": held.resource_version(),
        },
    })
}
