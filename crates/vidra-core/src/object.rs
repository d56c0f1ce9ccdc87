//! Names of Kubernetes objects: group, version and kind, and the key that one object has in a cluster.
//! Not for their contents.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Group, version and kind, as `apiVersion` and `kind` spell them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gvk {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The version within the group, such as `v1`.
    pub version: Arc<str>,
    /// The kind, such as `Deployment`.
    pub kind: Arc<str>,
}

impl Gvk {
    /// Puts the three parts together as they are, without a check.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Reads `v1` or `apps/v1`. None when it is neither: a part is empty, there is more than one slash, or a
    /// character stands in it that no group, version or kind may hold (they become parts of a URL).
    pub fn from_api_version(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) if is_dns_like(group) => (group, version),
            Some(_) => return None,
            None => ("", api_version),
        };
        let kind_is_word = kind.starts_with(|c: char| c.is_ascii_alphabetic())
            && kind.len() <= 63
            && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        (is_dns_like(version) && kind_is_word).then(|| Self::new(group, version, kind))
    }

    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} {}", self.version, self.kind)
    }
}

/// Letters, digits, dots and hyphens, beginning and ending with a letter or digit.
fn is_dns_like(text: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    is_edge(text.chars().next())
        && is_edge(text.chars().next_back())
        && text.len() <= 253
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
}

/// What one object is called in one cluster, whatever version it is read in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The kind, such as `Deployment`.
    pub kind: Arc<str>,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of the object of this kind; `namespace` is empty for a cluster-scoped one.
    pub fn new(gvk: &Gvk, namespace: &str, name: &str) -> Self {
        Self {
            group: gvk.group.clone(),
            kind: gvk.kind.clone(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The scope that the key tells: with a namespace or without.
    pub fn scope(&self) -> Scope {
        if self.namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced }
    }
}

/// `Deployment.apps shop/frontend`, `ConfigMap shop/settings`, `Namespace shop`.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// The objects live in a namespace.
    Namespaced,
    /// The objects belong to the cluster.
    Cluster,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_version_reads_back_as_it_was_written() {
        for (text, group, version, shown) in [
            ("v1", "", "v1", "v1 Thing"),
            ("apps/v1", "apps", "v1", "apps/v1 Thing"),
            ("k8s.example.com/v1beta2", "k8s.example.com", "v1beta2", "k8s.example.com/v1beta2 Thing"),
        ] {
            let gvk = Gvk::from_api_version(text, "Thing").expect(text);
            assert_eq!((&*gvk.group, &*gvk.version, &*gvk.kind), (group, version, "Thing"));
            assert_eq!(gvk.api_version(), text);
            assert_eq!(gvk.to_string(), shown);
        }
    }

    #[test]
    fn what_could_change_a_url_is_no_api_version_and_no_kind() {
        for text in ["", "/", "/v1", "apps/", "a/b/c", "apps/../v1", "v1?x", "v1#", "v 1", "../v1", "%2e/v1"]
        {
            assert_eq!(Gvk::from_api_version(text, "Thing"), None, "{text}");
        }
        for kind in ["", "a/b", "7up", "Thing?", "Thing Thing", "../x"] {
            assert_eq!(Gvk::from_api_version("v1", kind), None, "{kind}");
        }
    }

    #[test]
    fn a_key_is_shown_with_its_group_and_namespace_only_where_it_has_them() {
        let apps = Gvk::new("apps", "v1", "Deployment");
        let core = Gvk::new("", "v1", "ConfigMap");
        let namespace = Gvk::new("", "v1", "Namespace");
        assert_eq!(ObjectKey::new(&apps, "shop", "frontend").to_string(), "Deployment.apps shop/frontend");
        assert_eq!(ObjectKey::new(&core, "shop", "settings").to_string(), "ConfigMap shop/settings");
        assert_eq!(ObjectKey::new(&namespace, "", "shop").to_string(), "Namespace shop");
        assert_eq!(ObjectKey::new(&namespace, "", "shop").scope(), Scope::Cluster);
    }
}
