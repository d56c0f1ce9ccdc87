//! Names of Kubernetes objects: group, version and kind, and the key that one object has in a cluster.
//! Not for their contents.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
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

/// The four names of which a key is made.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyParts {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The kind, such as `Deployment`.
    pub kind: Arc<str>,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Ord for KeyParts {
    fn cmp(&self, other: &Self) -> Ordering {
        // Compared a hundred times for each object of a pass; most keys have all but their names in common.
        let by_text = |one: &Arc<str>, other: &Arc<str>| match Arc::ptr_eq(one, other) {
            true => Ordering::Equal,
            false => one.cmp(other),
        };
        by_text(&self.group, &other.group)
            .then_with(|| by_text(&self.kind, &other.kind))
            .then_with(|| by_text(&self.namespace, &other.namespace))
            .then_with(|| by_text(&self.name, &other.name))
    }
}

impl PartialOrd for KeyParts {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What one object is called in one cluster, whatever version it is read in.
///
/// One pointer: a clone shares the names. Keys are compared by their names, shared or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectKey(Arc<KeyParts>);

impl From<KeyParts> for ObjectKey {
    fn from(parts: KeyParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for ObjectKey {
    type Target = KeyParts;

    fn deref(&self) -> &KeyParts {
        &self.0
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // In one process most equal keys are clones of one.
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ObjectKey {
    /// The key of the object of this kind; `namespace` is empty for a cluster-scoped one.
    pub fn new(gvk: &Gvk, namespace: &str, name: &str) -> Self {
        let (group, kind) = (gvk.group.clone(), gvk.kind.clone());
        KeyParts { group, kind, namespace: namespace.into(), name: name.into() }.into()
    }

    /// Clones of it are held elsewhere.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
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
    fn keys_are_equal_and_sorted_by_their_names_whether_they_share_them_or_not() {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let key = |name| ObjectKey::new(&gvk, "shop", name);
        let (one, other) = (key("a"), key("a"));
        assert_eq!((&one, one.cmp(&other)), (&other, Ordering::Equal));
        assert!(!one.is_shared());
        let clone = one.clone();
        assert_eq!((&clone, clone.cmp(&one)), (&one, Ordering::Equal));
        assert!(one.is_shared() && key("a") < key("b"));
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
