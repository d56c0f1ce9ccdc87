//! What the hub may do in its own cluster, and what its users may: RBAC as data, each rule with its reason.
//! `deploy/` is written from here (src/bin/deploy.rs), and every scenario runs with exactly these rights.
//! A new call of the hub to its own cluster begins with a line here.

use serde_json::{Value, json};

use crate::labels::IDENTITY_SECRET;

/// The name of the hub's ServiceAccount, Roles, Lease and settings.
pub const NAME: &str = "vidra-hub";
/// The namespace that the manifests in `deploy/kustomize` install into.
pub const NAMESPACE: &str = "vidra-system";
const RBAC: &str = "rbac.authorization.k8s.io";

/// One rule of RBAC, about one API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plurals, with `/subresource` where one is meant.
    pub resources: &'static [&'static str],
    /// Verbs as RBAC has them. A server-side apply is `patch`, and `create` too where it makes the object.
    pub verbs: &'static [&'static str],
    /// Only objects of these names; none: all.
    pub names: &'static [&'static str],
    /// What needs it.
    pub why: &'static str,
}

impl Right {
    const fn new(
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self { group, resources, verbs, names: &[], why }
    }

    /// A `PolicyRule` of rbac.authorization.k8s.io/v1.
    #[must_use]
    pub fn rule(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs});
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }
}

/// The hub's rights in all namespaces, and on what has none.
pub const EVERYWHERE: &[Right] = &[
    Right::new(
        crate::GROUP,
        &["vidraresources"],
        &["list", "watch", "patch"],
        "Read what users declare. patch: the finalizer, nothing else of a user's object.",
    ),
    Right::new(
        crate::GROUP,
        &["vidraresources/finalizers"],
        &["update"],
        "Own what is made for a VidraResource, where OwnerReferencesPermissionEnforcement asks for it.",
    ),
    Right::new(
        crate::GROUP,
        &["vidratargets"],
        &["list", "watch", "create", "update", "patch", "delete"],
        "One for each VidraResource and member. patch: the finalizer.",
    ),
    Right::new(
        crate::GROUP,
        &["vidrainventories"],
        &["get", "list", "watch", "create", "update", "patch", "delete"],
        "What each target has in its member. patch: the finalizer.",
    ),
    Right::new(
        crate::GROUP,
        &["memberclusters"],
        &["list", "watch", "create", "patch"],
        "Members, made by server-side apply from registration Secrets. patch: the finalizer too.",
    ),
    Right::new(
        crate::GROUP,
        &["vidraresources/status", "vidratargets/status", "memberclusters/status"],
        &["update"],
        "How delivery stands.",
    ),
    Right::new(
        "",
        &["secrets"],
        &["get", "list", "watch", "create", "delete"],
        "Revisions, kept as Secrets beside their VidraResource. get, watch: sources of manifests as well.",
    ),
    Right::new(
        "",
        &["configmaps"],
        &["get", "list", "watch"],
        "Sources of manifests. In its own namespace settings and health rules.",
    ),
    Right {
        names: &["kube-system"],
        ..Right::new(
            "",
            &["namespaces"],
            &["get"],
            "Whether a member is the hub's own cluster: nothing is delivered into the hub's namespace there.",
        )
    },
    Right {
        names: &[
            "vidraresources.vidra.dev",
            "vidratargets.vidra.dev",
            "vidrainventories.vidra.dev",
            "memberclusters.vidra.dev",
        ],
        ..Right::new(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get"],
            "While one of its own CRDs is being deleted nothing is torn down in members.",
        )
    },
    Right::new(
        "events.k8s.io",
        &["events"],
        &["create"],
        "Events about VidraResources; those about MemberClusters go to the namespace default.",
    ),
];

/// The hub's rights in its own namespace only.
pub const OWN_NAMESPACE: &[Right] = &[
    Right { names: &[IDENTITY_SECRET], ..Right::new("", &["secrets"], &["get"], "The hub's identity.") },
    Right::new(
        "",
        &["secrets"],
        &["list", "watch", "create", "patch"],
        "Registrations. create: the identity, at the first start. patch: the mark on a registration whose \
         member has left.",
    ),
    Right {
        names: &[NAME],
        ..Right::new("coordination.k8s.io", &["leases"], &["get", "update"], "The Lease.")
    },
    Right::new("coordination.k8s.io", &["leases"], &["create"], "The Lease, at the first start."),
];

/// The hub's rights in a namespace that the setting `registrationNamespaces` names. It lists and watches Secrets
/// there by [`EVERYWHERE`] already.
pub const REGISTRATIONS: &[Right] =
    &[Right::new("", &["secrets"], &["patch"], "The mark on a registration whose member has left.")];

/// A ClusterRole for people, named `vidra-<of>`.
#[derive(Clone, Copy, Debug)]
pub struct UserRole {
    /// admin, edit, view, or what else it is for.
    pub of: &'static str,
    /// What it gives.
    pub rights: &'static [Right],
}

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const TARGETS: Right = Right::new(crate::GROUP, &["vidratargets"], READ, "Only the hub writes them.");

/// What people may be given. Nothing here reads Secrets.
pub const USERS: &[UserRole] = &[
    UserRole {
        of: "admin",
        rights: &[
            Right::new(crate::GROUP, &["vidraresources"], WRITE, "Declare what members are to have."),
            TARGETS,
            Right::new(crate::GROUP, &["vidrainventories"], READ, "Only the hub writes them."),
        ],
    },
    UserRole {
        of: "edit",
        rights: &[
            Right::new(crate::GROUP, &["vidraresources"], WRITE, "Declare what members are to have."),
            TARGETS,
        ],
    },
    UserRole {
        of: "view",
        rights: &[
            Right::new(crate::GROUP, &["vidraresources"], READ, "See what members are to have."),
            TARGETS,
        ],
    },
    UserRole {
        of: "members",
        rights: &[Right::new(
            crate::GROUP,
            &["memberclusters"],
            READ,
            "See the fleet: members are in no namespace, so this takes a ClusterRoleBinding.",
        )],
    },
];

/// The hub's ServiceAccount with its roles and bindings, for a hub in this namespace.
#[must_use]
pub fn hub_objects(namespace: &str) -> Vec<Value> {
    let rules = |rights: &[Right]| rights.iter().map(Right::rule).collect::<Value>();
    let inside = json!({"name": NAME, "namespace": namespace});
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]);
    let object = |kind: &str, metadata: &Value| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata});
    let role = |kind: &str, metadata: &Value, rights: &[Right]| {
        let mut role = object(kind, metadata);
        role["rules"] = rules(rights);
        role
    };
    let binding = |kind: &str, metadata: &Value, of: &str| {
        let mut binding = object(kind, metadata);
        binding["roleRef"] = json!({"apiGroup": RBAC, "kind": of, "name": NAME});
        binding["subjects"] = subjects.clone();
        binding
    };
    let everywhere = json!({"name": NAME});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside}),
        role("ClusterRole", &everywhere, EVERYWHERE),
        binding("ClusterRoleBinding", &everywhere, "ClusterRole"),
        role("Role", &inside, OWN_NAMESPACE),
        binding("RoleBinding", &inside, "Role"),
    ]
}

/// What gives the hub its rights in a namespace of registrations.
#[must_use]
pub fn registration_objects(namespace: &str, hub_namespace: &str) -> Vec<Value> {
    let metadata = json!({"name": "vidra-hub-registrations", "namespace": namespace});
    let rules: Value = REGISTRATIONS.iter().map(Right::rule).collect();
    vec![
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "vidra-hub-registrations"},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": hub_namespace}],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = &'static Right> {
        let users = USERS.iter().flat_map(|role| role.rights);
        EVERYWHERE.iter().chain(OWN_NAMESPACE).chain(users)
    }

    #[test]
    fn nothing_is_given_by_a_wildcard_and_each_rule_has_its_reason() {
        for right in all() {
            let words = [&[right.group], right.resources, right.verbs, right.names].concat();
            assert!(!words.iter().any(|word| word.contains('*')), "{right:?}");
            assert!(!right.resources.is_empty() && !right.verbs.is_empty(), "{right:?}");
            assert!(right.why.ends_with('.'), "{right:?}");
        }
    }

    #[test]
    fn the_hub_has_no_right_to_roles_nor_to_escalate_bind_or_impersonate() {
        for right in EVERYWHERE.iter().chain(OWN_NAMESPACE) {
            assert_ne!(right.group, RBAC);
            for verb in ["escalate", "bind", "impersonate"] {
                assert!(!right.verbs.contains(&verb), "{right:?}");
            }
        }
    }

    #[test]
    fn users_read_no_secrets_and_write_vidra_resources_only() {
        for right in USERS.iter().flat_map(|role| role.rights) {
            assert_eq!(right.group, crate::GROUP);
            assert!(right.verbs == READ || right.resources == ["vidraresources"], "{right:?}");
        }
    }
}
