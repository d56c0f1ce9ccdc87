//! What the hub asked of the members, as their servers recorded it.

use std::collections::BTreeMap;

use super::{At, Bed, Who, World};
use crate::testbed::{Point, Request};

/// A point in the records of all clusters.
#[derive(Clone, Debug)]
pub struct Mark(BTreeMap<String, Point>);

impl Mark {
    pub(super) fn of(bed: &dyn Bed) -> Self {
        let clusters = bed.members().into_iter().chain(["hub".to_owned()]);
        Self(clusters.map(|name| (name.clone(), bed.mark(&name).expect("a record of requests"))).collect())
    }
}

impl World {
    /// From here on.
    pub fn mark(&self) -> Mark {
        Mark::of(&*self.bed)
    }

    /// The requests of a user in a cluster since a mark.
    pub fn requests_by(&self, who: Who, cluster: &str, since: &Mark) -> Vec<Request> {
        self.requests_of(who.name(), cluster, since)
    }

    /// The hub's requests in a cluster since a mark.
    pub fn requests(&self, cluster: &str, since: &Mark) -> Vec<Request> {
        match cluster {
            "hub" => self.requests_of(&self.hub_user(), cluster, since),
            _ => self.requests_by(Who::VidraHub, cluster, since),
        }
    }

    fn requests_of(&self, user: &str, cluster: &str, since: &Mark) -> Vec<Request> {
        let all = self.bed.requests_since(cluster, since.0[cluster]).expect("a record of requests");
        all.into_iter().filter(|request| request.user == user).collect()
    }

    /// The hub's writes in a cluster since a mark, dry runs apart. In the hub's own cluster, Leases and
    /// Events apart too.
    pub fn writes(&self, cluster: &str, since: &Mark) -> Vec<Request> {
        let is_work = |request: &Request| !matches!(request.resource.as_str(), "leases" | "events");
        let all = self.requests(cluster, since).into_iter();
        all.filter(is_write).filter(|request| cluster != "hub" || is_work(request)).collect()
    }

    /// The hub's requests for one object since a mark: reads, writes, dry runs.
    pub fn requests_for(&self, at: &At, cluster: &str, since: &Mark) -> Vec<Request> {
        let (plural, wanted) = (at.plural(), at.name_parts());
        let all = self.requests(cluster, since).into_iter();
        all.filter(|one| {
            (one.namespace.as_str(), one.name.as_str()) == wanted
                && one.resource.split('/').next() == Some(plural.as_str())
                && one.verb != "watch"
        })
        .collect()
    }

    /// The hub's writes to one object since a mark, dry runs apart.
    pub fn writes_to(&self, at: &At, cluster: &str, since: &Mark) -> Vec<Request> {
        self.requests_for(at, cluster, since).into_iter().filter(is_write).collect()
    }
}

fn is_write(request: &Request) -> bool {
    let writes = ["create", "update", "patch", "delete", "deletecollection"];
    writes.contains(&request.verb.as_str()) && !request.uri.contains("dryRun=")
}
