//! Controllers that take their time: what the server's own controllers do after a write, and so much later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::custom;
use super::garbage::Task;
use super::kinds::{CRD_GROUP, CRD_PLURAL, Kind};
use super::store::{Place, Resource, Somewhere, Store};
use super::{Cluster, Inner, service};

/// How far a cluster's own controllers are behind the writes that call for them. From the start none is: what
/// follows from a write is done when its answer is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The garbage collector, in each of its steps: a dependent goes so long after its owner, and what that
    /// one owns so long after it; an object with the finalizer `orphan` or `foregroundDeletion` keeps it as
    /// long; what comes without a living owner stays as long.
    pub garbage: Duration,
    /// The namespace controller: a deleted Namespace is Terminating, with all that is in it, for so long; then
    /// its objects are deleted, and so long after the last one is gone, the Namespace goes.
    pub namespaces: Duration,
    /// A CRD has no conditions and its kind is not served (404) for so long after it is made. The real server
    /// takes half a second.
    pub establishing: Duration,
    /// For so long after that, lists and watches of the kind get 429, "storage is (re)initializing".
    pub storage: Duration,
    /// A deleted CRD is Terminating for so long, and its objects are there, though no new ones may come; then
    /// they are deleted, and so long after the last one is gone, the CRD goes. The real server takes some
    /// seconds.
    pub crds: Duration,
    /// Discovery shows so much later what is served, and what no longer is. A kind may be used before.
    pub discovery: Duration,
}

/// What a controller is going to do.
#[derive(Clone)]
pub(super) enum Deferred {
    Collect(Somewhere, Task),
    /// Does what the finalizers of an object that is being deleted ask for.
    Release(Somewhere),
    /// Deletes what a Terminating Namespace or CRD holds, and then the holder.
    Clear(Resource, Place),
    Establish(Place),
    /// The kind of this CRD can be listed.
    Ready(String),
    /// Discovery shows these.
    Publish(Vec<Arc<Kind>>),
}

/// What the controllers of a cluster have before them.
#[derive(Default)]
pub(super) struct Controllers {
    pub lag: Lag,
    /// Not yet handed to the clock.
    deferred: Vec<(Duration, Deferred)>,
    /// The kinds that discovery shows, where they are not those that are served.
    shown: Option<Vec<Arc<Kind>>>,
    /// CRDs whose kinds cannot be listed yet.
    initializing: BTreeSet<String>,
}

fn namespaces() -> Resource {
    Resource::new("", "namespaces")
}

fn crds() -> Resource {
    Resource::new(CRD_GROUP, CRD_PLURAL)
}

impl Store {
    pub fn later(&mut self, after: Duration, what: Deferred) {
        self.controllers.deferred.push((after, what));
    }

    /// How far behind the controller is that empties a Namespace or a CRD; zero for other kinds.
    pub fn clearing(&self, resource: &Resource) -> Duration {
        match () {
            () if *resource == namespaces() => self.controllers.lag.namespaces,
            () if *resource == crds() => self.controllers.lag.crds,
            () => Duration::ZERO,
        }
    }

    /// The kinds in discovery.
    pub fn shown(&self) -> &[Arc<Kind>] {
        self.controllers.shown.as_deref().unwrap_or(&self.kinds)
    }

    /// Can the objects of this kind be listed?
    pub fn is_ready(&self, kind: &Kind) -> bool {
        !self.controllers.initializing.contains(&kind.qualified())
    }

    /// Before the kinds that are served change: discovery goes on to show those that are.
    pub fn hold_discovery(&mut self) {
        if !self.controllers.lag.discovery.is_zero() && self.controllers.shown.is_none() {
            self.controllers.shown = Some(self.kinds.clone());
        }
    }

    /// After it: it is going to show the new ones.
    pub fn publish(&mut self) {
        let after = self.controllers.lag.discovery;
        if !after.is_zero() {
            self.later(after, Deferred::Publish(self.kinds.clone()));
        }
    }

    fn perform(&mut self, what: Deferred, now: Timestamp) {
        match what {
            Deferred::Collect((resource, place), task) => self.look_at(&resource, &place, task, now),
            Deferred::Release((resource, place)) => self.release_now(&resource, &place, now),
            Deferred::Clear(resource, place) => self.clear(&resource, &place, now),
            Deferred::Establish(place) => self.establish(&place, now),
            Deferred::Ready(crd) => {
                self.controllers.initializing.remove(&crd);
            }
            Deferred::Publish(kinds) => {
                let same = kinds.len() == self.kinds.len()
                    && kinds.iter().zip(&self.kinds).all(|(shown, served)| Arc::ptr_eq(shown, served));
                self.controllers.shown = (!same).then_some(kinds);
            }
        }
    }

    /// Accepts a CRD's names and serves its kinds.
    fn establish(&mut self, place: &Place, now: Timestamp) {
        let Some(crd) = self.get(&crds(), place) else { return };
        if custom::is_established(&crd) {
            return;
        }
        self.write_established(place, &crd, now);
        let after = self.controllers.lag.storage;
        if !after.is_zero() {
            self.controllers.initializing.insert(place.name.clone());
            self.later(after, Deferred::Ready(place.name.clone()));
        }
    }

    /// A controller manager that starts looks at everything.
    pub fn look_at_all(&mut self) {
        self.controllers.deferred.clear();
        self.controllers.shown = None;
        self.controllers.initializing.clear();
        let lag = self.controllers.lag;
        if lag == Lag::default() {
            return;
        }
        for resource in [namespaces(), crds()] {
            for (_, place) in self.places(&resource) {
                let Some(holder) = self.get(&resource, &place) else { continue };
                if super::lifecycle::is_terminating(&holder) {
                    self.later(self.clearing(&resource), Deferred::Clear(resource.clone(), (*place).clone()));
                } else if resource == crds() && !custom::is_established(&holder) {
                    self.later(lag.establishing, Deferred::Establish((*place).clone()));
                }
            }
        }
        for one in self.owned() {
            self.later(lag.garbage, Deferred::Collect(one, Task::Collect));
        }
    }
}

impl Inner {
    /// Hands to the clock what controllers are going to do. What a cluster is to do ends with it.
    pub(super) fn schedule(self: &Arc<Self>, store: &mut Store) {
        let restores = store.restores;
        for (after, what) in std::mem::take(&mut store.controllers.deferred) {
            let cluster = Arc::downgrade(self);
            self.spawn(async move {
                service::pause(after).await;
                let Some(cluster) = cluster.upgrade() else { return };
                cluster.in_reach().await;
                let mut store = cluster.store.lock();
                if store.restores != restores {
                    return;
                }
                store.perform(what, (cluster.clock)());
                cluster.schedule(&mut store);
                drop(store);
                cluster.wake.notify_waiters();
            });
        }
    }

    /// Waits while the cluster is down, for whoever does not give up.
    async fn in_reach(&self) {
        loop {
            let changed = self.wake.notified();
            if self.front.lock().down.is_none() {
                return;
            }
            changed.await;
        }
    }
}

impl Cluster {
    /// Lets the cluster's controllers be so far behind from now on; what they have before them keeps its time.
    /// They need a runtime (tokio's) around the calls, and do nothing while the cluster is down.
    pub fn set_lag(&self, lag: Lag) {
        self.inner.store.lock().controllers.lag = lag;
    }
}
