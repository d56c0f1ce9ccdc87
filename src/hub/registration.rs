//! Registration: the Secret that asks for a member, and what its MemberCluster keeps of that.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::ResourceExt;
use serde_json::json;
use vidra_api::{
    MemberCluster,
    labels::{ALLOWED_NAMESPACES, LEFT_AT, REGISTRATION, REGISTRATION_LABEL},
};

use crate::base::resource_version::version;

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
    /// The namespaces that the MemberCluster is to allow when it is made, as text that may be wrong.
    pub allowed: Option<String>,
    /// The Secret's resourceVersion.
    pub version: u64,
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

    /// Are both alike but for the version?
    pub fn says_the_same(&self, other: &Self) -> bool {
        Self { version: other.version, ..self.clone() } == *other
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
        let version = version(&secret);
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
            left: annotations.contains_key(LEFT_AT),
            allowed: annotations.get(ALLOWED_NAMESPACES).cloned(),
            version,
        }
    }
}

/// What a registration Secret asks of its MemberCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDeclaration {
    pub(super) secret: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) allowed: Option<Vec<String>>,
}

impl MemberDeclaration {
    /// The Secret's name, the labels that it carries over, and the namespaces that it allowed first.
    pub fn new(
        namespace: &str,
        name: &str,
        labels: BTreeMap<String, String>,
        allowed: Option<Vec<String>>,
    ) -> Self {
        Self { secret: format!("{namespace}/{name}"), labels, allowed }
    }

    /// The namespaces that it allowed when the MemberCluster was made.
    pub fn allowed(&self) -> Option<&Vec<String>> {
        self.allowed.as_ref()
    }

    /// The labels that it carries over.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// What was asked when the MemberCluster was last applied; `None`: it was made by somebody else.
    pub fn read(member: &MemberCluster) -> Option<Self> {
        let text = member.annotations().get(REGISTRATION)?;
        if let Ok((secret, labels, allowed)) = serde_json::from_str(text) {
            return Some(Self { secret, labels, allowed: Some(allowed) });
        }
        let (secret, labels) = serde_json::from_str(text).ok()?;
        Some(Self { secret, labels, allowed: None })
    }

    pub(super) fn to_annotation(&self) -> String {
        match &self.allowed {
            Some(allowed) => json!([self.secret, self.labels, allowed]).to_string(),
            None => json!([self.secret, self.labels]).to_string(),
        }
    }
}
