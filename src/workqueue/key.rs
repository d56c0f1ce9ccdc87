//! What the queue holds: keys. A key says what to look at, never what to do.

use std::{fmt, sync::Arc};

use kube::ResourceExt;
use vidra_api::VidraTarget;

/// One (VidraResource, member cluster) pair; its hub object is the VidraTarget `<resource>.<cluster>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetKey {
    /// Namespace of the VidraResource on the hub.
    pub namespace: Arc<str>,
    /// Name of the VidraResource.
    pub resource: Arc<str>,
    /// Name of the MemberCluster.
    pub cluster: Arc<str>,
}

impl TargetKey {
    /// A key from its three names.
    pub fn new(namespace: &str, resource: &str, cluster: &str) -> Self {
        Self { namespace: namespace.into(), resource: resource.into(), cluster: cluster.into() }
    }

    /// The key that a VidraTarget names.
    pub fn of(target: &VidraTarget) -> Self {
        Self::new(&target.namespace().unwrap_or_default(), &target.spec.resource, &target.spec.cluster)
    }

    /// The VidraTarget's name.
    pub fn target_name(&self) -> String {
        vidra_api::names::target_name(&self.resource, &self.cluster)
    }

    /// The key of the VidraResource that this target belongs to.
    pub fn resource_key(&self) -> ResourceKey {
        ResourceKey { namespace: self.namespace.clone(), name: self.resource.clone() }
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.namespace, self.resource, self.cluster)
    }
}

/// One VidraResource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceKey {
    /// Its namespace on the hub.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ResourceKey {
    /// A key from its two names.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A key of one of the three loops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The cluster loop: one MemberCluster, by name.
    Cluster(Arc<str>),
    /// The resource loop.
    Resource(ResourceKey),
    /// The target loop.
    Target(TargetKey),
}

impl Key {
    /// Keys of one flow share a limit; flows take turns, so that a slow member, or who changes much, delays only itself.
    pub(super) fn flow(&self) -> Flow {
        match self {
            Key::Cluster(_) => Flow::Clusters,
            Key::Resource(resource) => Flow::Resources(resource.namespace.clone()),
            Key::Target(target) => Flow::Member(target.cluster.clone()),
        }
    }

    /// The namespace on the hub of what it is about; empty where that has none.
    pub fn namespace(&self) -> Arc<str> {
        match self {
            Key::Cluster(_) => Arc::default(),
            Key::Resource(key) => key.namespace.clone(),
            Key::Target(key) => key.namespace.clone(),
        }
    }

    /// What it is about, without the loop's name.
    pub fn object(&self) -> &dyn fmt::Display {
        match self {
            Key::Cluster(name) => name,
            Key::Resource(key) => key,
            Key::Target(key) => key,
        }
    }

    /// The loop's name, as metrics label it.
    pub fn loop_name(&self) -> &'static str {
        match self {
            Key::Cluster(_) => "cluster",
            Key::Resource(_) => "resource",
            Key::Target(_) => "target",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.loop_name(), self.object())
    }
}

/// What shares a concurrency limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flow {
    Clusters,
    /// Of a namespace.
    Resources(Arc<str>),
    Member(Arc<str>),
}

/// Which of a flow's keys goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A person changed something.
    User,
    /// A member changed, or the status of a target that its VidraResource rolls up.
    Event,
    /// The interval, a relist, a restart.
    Resync,
}

impl Priority {
    /// The first is the best.
    pub(super) const ALL: [Self; 3] = [Self::User, Self::Event, Self::Resync];
}
