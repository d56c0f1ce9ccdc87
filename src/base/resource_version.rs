//! resourceVersions as numbers, which tell what is news.

use kube::ResourceExt;

/// The version of an object; 0 where it names none.
pub fn version<K: ResourceExt>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}
