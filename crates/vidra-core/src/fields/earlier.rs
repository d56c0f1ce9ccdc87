//! Who applied an object before the hub: the tools and commands that people use to bring objects into a cluster, and
//! whom a VidraResource names beside them. What they own becomes the hub's with an object that it takes over.
//!
//! Not here: to whom a path yields. That is asked all the time, and of people who edit an object today.

use serde_json::Value;
use vidra_api::TakeFrom;

use super::{MANAGER_PREFIX, entries::text, set::FieldSet};
use crate::mutants::{self, Mutant};

const BOTH: &[&str] = &["Apply", "Update"];
const UPDATE: &[&str] = &["Update"];

/// Managers whose entries are leftovers of an earlier way of applying, and of which operations: kubectl's commands that
/// make or change an object (k8s.io/kubectl, pkg/cmd: the last-applied annotation is kept by an apply of its own),
/// Helm (3 updates, 4 applies), Argo CD and Flux, which have done both; and what the API server makes up at the first
/// apply to an object without entries.
const KNOWN: [(&str, &[&str]); 10] = [
    ("argocd-controller", BOTH),
    ("before-first-apply", UPDATE),
    ("helm", BOTH),
    ("kubectl", BOTH),
    ("kubectl-client-side-apply", UPDATE),
    ("kubectl-create", UPDATE),
    ("kubectl-edit", UPDATE),
    ("kubectl-last-applied", BOTH),
    ("kubectl-patch", UPDATE),
    ("kustomize-controller", BOTH),
];

/// Whose entries count as those of earlier appliers, for one VidraResource and one object that it declares.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// The apiVersion in which the object is declared. Entries of others stay where they are: their paths are those of
    /// another schema.
    pub api_version: &'a str,
    /// Whom the VidraResource names beside those that are known, `conflicts.takeFrom`.
    pub named: &'a [TakeFrom],
}

/// An entry of an earlier applier that stays, because it is of another apiVersion than the declared one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// The field manager's name: chosen by its client, so a claim and no identity.
    pub manager: String,
    /// The apiVersion of the entry.
    pub api_version: String,
    /// What it owns, as the API server writes paths; none where the entry cannot be read.
    pub paths: Vec<String>,
}

impl Earlier<'_> {
    /// Whether the entry moves.
    pub(super) fn moves(&self, entry: &Value) -> bool {
        self.wrote(entry) && entry["apiVersion"] == *self.api_version
    }

    /// The entries of earlier appliers of `live` that do not move.
    pub fn other_versions(&self, live: &Value) -> Vec<OtherVersion> {
        let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
        let other_versions =
            entries.into_iter().flatten().filter(|entry| self.wrote(entry) && !self.moves(entry));
        let named = other_versions.map(|entry| {
            let set = entry.get("fieldsV1").and_then(|fields| FieldSet::from_fields_v1(fields).ok());
            OtherVersion {
                manager: text(entry, "manager").unwrap_or_default().to_owned(),
                api_version: text(entry, "apiVersion").unwrap_or_default().to_owned(),
                paths: set.iter().flat_map(FieldSet::paths).map(|path| path.to_string()).collect(),
            }
        });
        named.collect()
    }

    /// Whether the entry is an earlier applier's, in whatever apiVersion. What was written through a subresource, such as
    /// a status, nobody has declared.
    fn wrote(&self, entry: &Value) -> bool {
        let (Some(manager), Some(operation)) = (text(entry, "manager"), text(entry, "operation")) else {
            return false;
        };
        let is_named = |one: &TakeFrom| one.manager == manager && one.operation.as_str() == operation;
        text(entry, "subresource").is_none()
            && !manager.starts_with(MANAGER_PREFIX)
            && (is_known(manager, operation) || self.named.iter().any(is_named))
    }
}

fn is_known(manager: &str, operation: &str) -> bool {
    let known = KNOWN.iter().any(|(name, operations)| *name == manager && operations.contains(&operation));
    known && !(mutants::is(Mutant::OnlyUpdatesMove) && operation != "Update")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vidra_api::ManagerOperation;

    use super::*;

    fn entry(manager: &str, operation: &str, api_version: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": api_version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}})
    }

    #[test]
    fn the_entries_of_all_who_applied_before_move_and_nobody_elses() {
        let named = [TakeFrom { manager: "helm-controller".to_owned(), operation: ManagerOperation::Apply }];
        let earlier = Earlier { api_version: "v1", named: &named };
        // Manager, whether what it applied moves, and what it updated.
        let rows = [
            ("argocd-controller", true, true),
            ("before-first-apply", false, true),
            ("helm", true, true),
            ("kubectl", true, true),
            ("kubectl-client-side-apply", false, true),
            ("kubectl-create", false, true),
            ("kubectl-edit", false, true),
            ("kubectl-last-applied", true, true),
            ("kubectl-patch", false, true),
            ("kustomize-controller", true, true),
            ("helm-controller", true, false),
            ("kubectl-label", false, false),
            ("kube-controller-manager", false, false),
            ("keda-operator", false, false),
            ("alice", false, false),
            ("", false, false),
        ];
        for (manager, applied, updated) in rows {
            for (operation, moves) in [("Apply", applied), ("Update", updated), ("Other", false)] {
                let one = entry(manager, operation, "v1");
                assert_eq!(earlier.moves(&one), moves, "{manager} {operation}");
                assert!(!earlier.moves(&entry(manager, operation, "v1beta1")), "{manager} {operation}");
                let mut status = one.clone();
                status["subresource"] = "status".into();
                assert!(!earlier.moves(&status), "{manager} {operation} through a subresource");
            }
        }
        assert!(!earlier.moves(&json!({"operation": "Update", "apiVersion": "v1"})));
    }

    #[test]
    fn what_a_hub_applied_moves_by_nobodys_naming_its_manager() {
        let named =
            [TakeFrom { manager: "vidra/h/team/shop".to_owned(), operation: ManagerOperation::Apply }];
        let earlier = Earlier { api_version: "v1", named: &named };
        assert!(!earlier.moves(&entry("vidra/h/team/shop", "Apply", "v1")));
    }

    #[test]
    fn what_stays_in_another_api_version_is_named_with_its_paths() {
        let named = [TakeFrom { manager: "mine".to_owned(), operation: ManagerOperation::Update }];
        let earlier = Earlier { api_version: "v1", named: &named };
        let mut status = entry("kubectl-edit", "Update", "v1beta1");
        status["subresource"] = "status".into();
        let mut unread = entry("mine", "Update", "v2");
        unread["fieldsV1"] = "?".into();
        let live = json!({"metadata": {"managedFields": [
            entry("helm", "Update", "v1"), entry("helm", "Apply", "v1beta1"), entry("alice", "Update", "v1beta1"),
            status, unread,
        ]}});
        let entry = |manager: &str, api_version: &str, paths: &[&str]| OtherVersion {
            manager: manager.to_owned(),
            api_version: api_version.to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        assert_eq!(
            earlier.other_versions(&live),
            [entry("helm", "v1beta1", &[".data.a", ".data.b"]), entry("mine", "v2", &[])]
        );
        assert_eq!(earlier.other_versions(&json!({"metadata": {}})), []);
    }
}
