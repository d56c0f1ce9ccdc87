//! Whose an entry in a member's object may be. Whoever may write there can apply under any name, this hub's among
//! them: only who has a target there by what the hub itself has counts as an owner.

use std::sync::Arc;

use kube::ResourceExt;
use vidra_api::names::{HubId, field_manager};
use vidra_core::select::{self, Member};

use crate::{hub::catalog::Catalog, workqueue::TargetKey};

/// Whether a target on a cluster applies under this manager: there is one or something of it, or a VidraResource is to
/// have one there; where that cannot be read, it may.
pub(super) fn is_known(catalog: &Catalog, hub: &HubId, cluster: &str, manager: &str) -> bool {
    let applies = |namespace: &str, name: &str| field_manager(hub, namespace, name) == manager;
    catalog.find_on(&Arc::from(cluster), applies).is_some_and(|key| {
        catalog.target(&key).is_some()
            || !catalog.inventory(&key).is_empty()
            || is_selected(catalog, &key)
            || catalog.is_any_unread(&key)
    })
}

/// Its VidraResource wants it there: if there is no VidraTarget, it is being made, or made again.
pub(super) fn is_selected(catalog: &Catalog, key: &TargetKey) -> bool {
    let (Some(resource), Some(member)) =
        (catalog.resource(&key.resource_key()), catalog.member(&key.cluster))
    else {
        return false;
    };
    let (targets, excluded) = (&resource.spec.targets, &resource.spec.exclude_clusters);
    // Where the namespace is not allowed any more, what it has there is its own all the same.
    let view = Member {
        name: &key.cluster,
        labels: member.labels(),
        allowed_namespaces: None,
        leaving: member.metadata.deletion_timestamp.is_some(),
    };
    let selection = select::select(&key.namespace, targets, excluded, &[view]);
    selection.targets.contains_key(&*key.cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::env::SeededRng,
        hub::catalog::Listed,
        metrics::Metrics,
        workqueue::{Limits, Queue},
    };

    #[test]
    fn what_is_there_and_cannot_be_read_has_what_it_applies() {
        let (queue, _timer) =
            Queue::new(Limits::default(), Arc::new(SeededRng::new(1)), Metrics::default().queue());
        let catalog = Catalog::new(queue);
        let hub = HubId::try_from("h1").unwrap();
        let knows =
            |cluster: &str, name: &str| is_known(&catalog, &hub, cluster, &field_manager(&hub, "team", name));
        for (kind, name) in [
            (Listed::Resources, "my.shop"),
            (Listed::Targets, "my.shop.berlin"),
            (Listed::Inventories, "my.shop.berlin.0"),
        ] {
            assert!(!knows("berlin", "my.shop"));
            let place = ("team".to_owned(), name.to_owned());
            assert!(catalog.set_unreadable(kind, &place));
            assert!(knows("berlin", "my.shop") && !knows("berlin", "shop"), "{kind:?}");
            // Where a VidraResource is to be delivered to stands in it.
            assert_eq!(knows("tokyo", "my.shop"), kind == Listed::Resources, "{kind:?}");
            catalog.set_readable(kind, &place);
        }
    }
}
