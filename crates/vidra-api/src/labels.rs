//! The labels, annotations and finalizers that the hub puts on objects and reads from them.

use std::collections::BTreeMap;

use crate::names::{HubId, OwnerHash};

/// Label on every delivered object; its value is the hub id. The informers in members select by it.
pub const HUB_LABEL: &str = "vidra.dev/hub";
/// Before the owner hash: the key of the label (value empty) and of the annotation (readable owner)
/// that an owner puts on an object. See [`OwnerHash::label_key`].
pub const OWNER_PREFIX: &str = "owner.vidra.dev/";
/// Field manager of what the hub writes beside the applies of owners.
pub const FIELD_MANAGER: &str = "vidra-hub";
/// Label on a Secret that registers a member; its value is the cluster's name.
pub const REGISTRATION_LABEL: &str = "vidra.dev/member-cluster";
/// Finalizer on VidraResources, VidraTargets and VidraInventories: members are cleaned up first.
pub const FINALIZER: &str = "vidra.dev/teardown";
/// Finalizer on MemberClusters: leaving comes first.
pub const MEMBER_FINALIZER: &str = "vidra.dev/leave";
/// Annotation on a VidraResource: a new value asks for a pass now.
pub const RECONCILE_REQUESTED_AT: &str = "vidra.dev/reconcile-requested-at";
/// Annotation on a VidraResource, or on a MemberCluster for its onRevoke: the hash of a removal that is held, which lets
/// it go; several with commas.
pub const APPROVE_REMOVAL: &str = "vidra.dev/approve-removal";
/// The value of [`APPROVE_REMOVAL`] on one of our CRDs that is being deleted: the members are left alone.
pub const APPROVE_ORPHANING: &str = "orphan";
/// Annotation: ends the wait for a member that does not answer. On a VidraResource its value is the
/// cluster, or several with commas; on a MemberCluster "true".
pub const FORGET: &str = "vidra.dev/forget";
/// Annotation on a MemberCluster: the id of another hub, whose objects there may be taken over.
pub const TAKE_OVER_FROM: &str = "vidra.dev/take-over-from";
/// Annotation on an object in a manifest or in a member: with the value "disabled" the hub never deletes it, but
/// lets it go.
pub const PRUNE: &str = "vidra.dev/prune";
/// Annotation on a MemberCluster: the uid that a person confirms, or "restore".
pub const CONFIRM: &str = "vidra.dev/confirm";

/// Set on a registration Secret whose member has left, with the time: it registers again when this is taken off.
pub const LEFT_AT: &str = "vidra.dev/left-at";
/// Annotation on a registration Secret: the namespaces that its MemberCluster allows when it is made.
pub const ALLOWED_NAMESPACES: &str = "vidra.dev/allowed-namespaces";
/// Value of [`CONFIRM`]: this hub's declarations count, although members have objects from later ones.
pub const CONFIRM_RESTORE: &str = "restore";
/// Annotation on an object of a manifest: the wave in which it is applied, a whole number.
pub const WAVE: &str = "vidra.dev/wave";
/// Annotation on an object of a manifest: Always, IfAbsent or Once.
pub const APPLY: &str = "vidra.dev/apply";
/// Annotation on an object of a manifest: Fail or Recreate.
pub const ON_IMMUTABLE: &str = "vidra.dev/on-immutable";
/// Annotation on an object of a manifest: Nothing, Address or Complete.
pub const WAIT_FOR: &str = "vidra.dev/wait-for";
/// Annotation on a MemberCluster: the registration Secret that it was made for, the labels taken from it and, where the
/// Secret said so then, the namespaces that it allows.
pub const REGISTRATION: &str = "vidra.dev/registration";
/// Label on ConfigMaps in the hub's namespace, with the value "true": each key is a list of health rules for all members.
pub const HEALTH_RULES: &str = "vidra.dev/health-rules";
/// Annotation on the hub's own CRDs: the number of their schemas, [`crate::crds::SCHEMA`].
pub const SCHEMA_ANNOTATION: &str = "vidra.dev/schema";
/// Type of the Secrets that hold revisions.
pub const REVISION_SECRET_TYPE: &str = "vidra.dev/revision";
/// Name of the Secret that holds the hub id.
pub const IDENTITY_SECRET: &str = "vidra-hub-identity";

/// The labels that one owner puts on an object: the hub's, and its own with an empty value.
#[must_use]
pub fn object_labels(hub: &HubId, owner: &OwnerHash) -> BTreeMap<String, String> {
    BTreeMap::from([(HUB_LABEL.to_owned(), hub.to_string()), (owner.label_key(), String::new())])
}

/// The label selector, as a watch sends it, of everything that this hub delivered.
#[must_use]
pub fn hub_selector(hub: &HubId) -> String {
    format!("{HUB_LABEL}={hub}")
}

/// The label selector of what this hub delivered for one owner.
#[must_use]
pub fn owner_selector(hub: &HubId, owner: &OwnerHash) -> String {
    format!("{},{}", hub_selector(hub), owner.label_key())
}

/// The owners that an object's labels name. They prove nothing: controllers copy labels.
pub fn owners(labels: &BTreeMap<String, String>) -> impl Iterator<Item = OwnerHash> + '_ {
    labels.keys().filter_map(|key| OwnerHash::from_label_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> HubId {
        HubId::try_from("main").unwrap()
    }

    #[test]
    fn an_object_names_its_hub_and_its_owner() {
        let owner = OwnerHash::new(&hub(), "team-a", "shop");
        let labels = object_labels(&hub(), &owner);
        assert_eq!(labels.get("vidra.dev/hub").map(String::as_str), Some("main"));
        assert_eq!(labels.get(&format!("owner.vidra.dev/{owner}")).map(String::as_str), Some(""));
        assert_eq!(labels.len(), 2);
        assert_eq!(hub_selector(&hub()), "vidra.dev/hub=main");
    }

    #[test]
    fn owners_are_read_from_labels_and_other_keys_are_left_out() {
        let (one, two) = (OwnerHash::new(&hub(), "a", "x"), OwnerHash::new(&hub(), "b", "x"));
        let mut labels = object_labels(&hub(), &one);
        labels.extend(object_labels(&hub(), &two));
        labels.insert("owner.vidra.dev/short".to_owned(), String::new());
        labels.insert("app".to_owned(), "web".to_owned());
        let mut expected = vec![one, two];
        expected.sort();
        assert_eq!(owners(&labels).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_key_is_a_valid_qualified_name() {
        let owner = OwnerHash::new(&hub(), "team-a", "shop").label_key();
        let keys = [
            HUB_LABEL,
            &owner,
            REGISTRATION_LABEL,
            FINALIZER,
            MEMBER_FINALIZER,
            RECONCILE_REQUESTED_AT,
            APPROVE_REMOVAL,
            FORGET,
            TAKE_OVER_FROM,
            PRUNE,
            CONFIRM,
            LEFT_AT,
            ALLOWED_NAMESPACES,
            WAVE,
            APPLY,
            ON_IMMUTABLE,
            WAIT_FOR,
            REGISTRATION,
            HEALTH_RULES,
            REVISION_SECRET_TYPE,
        ];
        for key in keys {
            let (prefix, name) = key.split_once('/').unwrap();
            assert!(prefix.ends_with("vidra.dev"), "{key}");
            assert!((1..=63).contains(&name.len()), "{key}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{key}");
        }
    }
}
