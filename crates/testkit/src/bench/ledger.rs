//! What the hub asked of each API server, as the servers recorded it.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::testbed::{Cluster, Point, Request};

/// A point in a cluster's record.
#[derive(Clone, Copy, Debug)]
pub struct Mark(Point);

/// From here on.
pub fn mark(cluster: &Cluster) -> Result<Mark> {
    cluster.audit_mark().map(Mark)
}

/// The hub's requests since, without its watches.
pub fn requests(cluster: &Cluster, since: Mark) -> Result<Vec<Request>> {
    let all = cluster.requests_since(since.0)?.into_iter();
    Ok(all.filter(|request| request.user == "vidra-hub" && request.verb != "watch").collect())
}

/// The hub's requests since that are about objects: without its Lease, its probes and its discovery.
pub fn work(cluster: &Cluster, since: Mark) -> Result<Vec<Request>> {
    let is_work = |request: &Request| request.is_about_objects() && request.resource != "leases";
    Ok(requests(cluster, since)?.into_iter().filter(is_work).collect())
}

/// Does it change something, or try to?
pub fn is_write(request: &Request) -> bool {
    matches!(request.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
}

/// How many requests there are of each sort.
pub fn sorts(requests: &[Request]) -> BTreeMap<String, usize> {
    let mut sorts = BTreeMap::new();
    for request in requests {
        let failed = if request.code >= 400 { format!(" ({})", request.code) } else { String::new() };
        *sorts.entry(format!("{} {}{failed}", request.verb, request.resource)).or_default() += 1;
    }
    sorts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_verb_resource_and_failure() {
        let request = |verb: &str, code| Request {
            user: "vidra-hub".into(),
            verb: verb.into(),
            group: String::new(),
            resource: "configmaps".into(),
            namespace: "shop".into(),
            name: "web".into(),
            code,
            uri: String::new(),
        };
        let all = [request("patch", 200), request("patch", 201), request("patch", 409), request("get", 200)];
        let expected = [("get configmaps", 1), ("patch configmaps", 2), ("patch configmaps (409)", 1)];
        assert_eq!(sorts(&all), expected.map(|(sort, count)| (sort.to_owned(), count)).into());
        assert!(is_write(&all[0]) && !is_write(&all[3]));
    }
}
