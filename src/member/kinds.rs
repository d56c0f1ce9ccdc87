//! What kinds a member serves, from its aggregated discovery documents.

use std::collections::{BTreeMap, BTreeSet};

use http::header::ACCEPT;
use kube::{
    Client,
    core::{
        ApiResource,
        discovery::v2::{ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscoveryList},
    },
};
use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, Scope},
    unseen,
    weight::Bounded,
};

/// Longer than any group version is.
const STALE_MAX: usize = 512;

/// What a kind must serve for the hub to deliver it.
const DELIVERS: [&str; 3] = ["patch", "list", "delete"];

/// What a kind must serve for its objects to be content: what can be listed and deleted. Reports such as the
/// metrics of pods cannot.
const HOLDS: [&str; 2] = ["list", "delete"];

/// The kinds of one member at one time.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    known: BTreeMap<Gvk, (ApiResource, Scope)>,
    deliverable: BTreeSet<Gvk>,
    content: BTreeSet<Gvk>,
    with_status: BTreeSet<Gvk>,
    /// Group versions that the member could not tell about: their kinds are unknown, not gone. As messages may show them.
    pub stale: Vec<String>,
}

/// Asks for one aggregated document; `None`: what came is another one. kube's own reader makes 80 times its text of one that
/// is nonsense.
async fn document(client: &Client, path: &str) -> Result<Option<APIGroupDiscoveryList>, kube::Error> {
    let request = http::Request::get(path).header(ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2).body(Vec::new());
    let Bounded(value) = client.request(request.map_err(kube::Error::HttpError)?).await?;
    if value["kind"] != "APIGroupDiscoveryList" && !mutants::is(Mutant::AnyList) {
        return Ok(None);
    }
    serde_json::from_value(value).map(Some).map_err(kube::Error::SerdeError)
}

impl Kinds {
    /// Asks the member, in two calls. Where one of them is answered with something else, none of it is known.
    pub async fn discover(client: &Client) -> Result<Self, kube::Error> {
        let core = document(client, "/api").await?;
        let groups = document(client, "/apis").await?;
        let mut kinds = Self::default();
        let (Some(core), Some(groups)) = (core, groups) else { return Ok(kinds) };
        for group in core.items.into_iter().chain(groups.items) {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for version in group.versions {
                let version_name = version.version.unwrap_or_default();
                if version.freshness.as_deref() == Some("Stale") {
                    kinds.stale.push(unseen::shown(&format!("{name}/{version_name}"), STALE_MAX));
                }
                for resource in version.resources {
                    let Some(plural) = resource.resource else { continue };
                    let Some(kind) = resource.response_kind.and_then(|kind| kind.kind) else { continue };
                    let scope = if resource.scope.as_deref() == Some("Cluster") {
                        Scope::Cluster
                    } else {
                        Scope::Namespaced
                    };
                    let gvk = kinds.insert(&name, &version_name, &kind, &plural, scope);
                    let serves = |verbs: &[&str]| {
                        verbs.iter().all(|verb| resource.verbs.iter().any(|served| served == verb))
                    };
                    if resource.subresources.iter().any(|part| part.subresource.as_deref() == Some("status"))
                    {
                        kinds.with_status.insert(gvk.clone());
                    }
                    if serves(&HOLDS) {
                        kinds.content.insert(gvk.clone());
                    }
                    if serves(&DELIVERS) {
                        kinds.deliverable.insert(gvk);
                    }
                }
            }
        }
        Ok(kinds)
    }

    fn insert(&mut self, group: &str, version: &str, kind: &str, plural: &str, scope: Scope) -> Gvk {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let gvk = Gvk::new(group, version, kind);
        self.known.insert(gvk.clone(), (resource, scope));
        gvk
    }

    /// Kinds of which the hub may have made objects: they can be applied, listed and deleted.
    pub fn deliverable(&self) -> impl Iterator<Item = (&Gvk, &ApiResource)> {
        self.deliverable.iter().filter_map(|gvk| self.known.get(gvk).map(|(resource, _)| (gvk, resource)))
    }

    /// Kinds of which objects may lie in a namespace, each in one version.
    pub fn namespaced_content(&self) -> Vec<(&Gvk, &ApiResource)> {
        let mut seen = BTreeSet::new();
        self.content
            .iter()
            .filter_map(|gvk| self.known.get(gvk).map(|(resource, scope)| (gvk, resource, *scope)))
            .filter(|(_, _, scope)| *scope == Scope::Namespaced)
            .filter(|(gvk, _, _)| seen.insert((gvk.group.clone(), gvk.kind.clone())))
            .map(|(gvk, resource, _)| (gvk, resource))
            .collect()
    }

    /// One kind in a namespace, with a status.
    #[cfg(test)]
    pub fn serving(gvk: &Gvk) -> Self {
        let mut kinds = Self::default();
        kinds.insert(&gvk.group, &gvk.version, &gvk.kind, "things", Scope::Namespaced);
        kinds.with_status.insert(gvk.clone());
        kinds
    }

    /// How to address a kind, and where it lives.
    pub fn get(&self, gvk: &Gvk) -> Option<&(ApiResource, Scope)> {
        self.known.get(gvk)
    }

    /// Whether a kind has a status subresource; `None`: it is not known.
    pub fn has_status(&self, gvk: &Gvk) -> Option<bool> {
        self.known.contains_key(gvk).then(|| self.with_status.contains(gvk))
    }

    /// A served version of a kind whose own version is not served any more, or was not recorded.
    pub fn any_version(&self, gvk: &Gvk) -> Option<(Gvk, &(ApiResource, Scope))> {
        self.known
            .iter()
            .find(|(known, _)| known.group == gvk.group && known.kind == gvk.kind)
            .map(|(known, found)| (known.clone(), found))
    }

    /// The group version of this kind could not be discovered.
    pub fn is_stale(&self, gvk: &Gvk) -> bool {
        let prefix = format!("{}/", gvk.group);
        self.stale.iter().any(|stale| stale.starts_with(&prefix))
    }
}
