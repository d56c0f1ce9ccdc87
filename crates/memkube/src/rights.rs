//! Users' rights as RBAC has them: who may do what, read from the Roles and bindings that are stored.
//! Off until [`Cluster::authorize_with_rbac`]. What a role gives is not held against what its writer has
//! (the real server's check of escalation), and aggregated ClusterRoles are not filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Cluster;
use super::failure::Failure;
use super::fault::Verb;
use super::route::{Asked, Target};

mod bootstrap;
mod rules;

pub(super) use rules::{GROUP, Rights};

/// The user that nobody has named, as the real server calls it.
const ANONYMOUS: &str = "system:anonymous";
const MASTERS: &str = "system:masters";

/// Who is free of all rules, and who is in which groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Authority {
    superusers: BTreeSet<String>,
    groups: BTreeMap<String, BTreeSet<String>>,
}

impl Authority {
    /// A user with the groups that it has by its name, and those that it was put in.
    pub fn caller(&self, user: &str) -> Caller {
        let user = known_as(user);
        let mut all: BTreeSet<String> = self.groups.get(user).into_iter().flatten().cloned().collect();
        all.extend(own_groups(user));
        self.named(user, all.iter().map(String::as_str))
    }

    /// Who acts as another user (`Impersonate-User`, `Impersonate-Group`); none where that is nobody. Named
    /// groups take the place of those that the name gives.
    pub fn acting(&self, user: &str, groups: &[String]) -> Option<Caller> {
        if user.is_empty() {
            return None;
        }
        let mut all = own_groups(user);
        if !groups.is_empty() {
            all.retain(|group| !group.starts_with("system:serviceaccounts"));
            all.extend(groups.iter().cloned());
        }
        Some(self.named(user, all.iter().map(String::as_str)))
    }

    /// A user in these groups and no others, as a SubjectAccessReview names it.
    pub fn named<'a>(&self, user: &str, groups: impl IntoIterator<Item = &'a str>) -> Caller {
        let groups: BTreeSet<_> = groups.into_iter().map(str::to_owned).collect();
        let free = self.superusers.contains(user) || groups.contains(MASTERS);
        Caller { user: user.to_owned(), groups, free }
    }
}

/// The real server's name for a user of [`Cluster::client`].
fn known_as(user: &str) -> &str {
    if user == "anonymous" { ANONYMOUS } else { user }
}

/// The groups that a user is in by its name.
fn own_groups(user: &str) -> Vec<String> {
    let known = if user == ANONYMOUS { "system:unauthenticated" } else { "system:authenticated" };
    let mut all = vec![known.to_owned()];
    if let Some((namespace, _)) = service_account(user) {
        all.push("system:serviceaccounts".to_owned());
        all.push(format!("system:serviceaccounts:{namespace}"));
    }
    all
}

/// Namespace and name of a ServiceAccount, from its user name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub user: String,
    pub groups: BTreeSet<String>,
    /// No rule holds it.
    pub free: bool,
}

/// What somebody wants to do: with objects, or where `resource` is empty with a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Attributes {
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
}

impl Attributes {
    /// As apiserver's RequestInfo reads a request: a Namespace is in itself, and a list or watch that selects
    /// one name has that name.
    pub fn of(asked: &Asked) -> Self {
        let Target::Objects(address) = &asked.target else {
            let verb = match asked.verb {
                Verb::Create => "post",
                Verb::Update => "put",
                Verb::Patch | Verb::Apply => "patch",
                Verb::Delete | Verb::DeleteCollection => "delete",
                _ => "get",
            };
            return Attributes { verb: verb.into(), path: asked.path.clone(), ..Attributes::default() };
        };
        let verb = match asked.verb {
            Verb::Apply => Verb::Patch,
            verb => verb,
        };
        let namespaces = address.group.is_empty() && address.plural == "namespaces";
        let mut name = address.name.as_str();
        if matches!(verb, Verb::List | Verb::Watch) {
            let terms = asked.param("fieldSelector").split(',');
            let mut named = terms.filter_map(|term| {
                let (path, name) = term.split_once('=')?;
                (path == "metadata.name").then(|| name.trim_start_matches('='))
            });
            name = named.next().unwrap_or_default();
        }
        Attributes {
            verb: verb.to_string(),
            group: address.group.clone(),
            resource: address.plural.clone(),
            subresource: address.subresource.clone(),
            namespace: if namespaces { address.name.clone() } else { address.namespace.clone() },
            name: name.to_owned(),
            path: asked.path.clone(),
        }
    }

    /// The rights that it takes to act as this user in these groups.
    pub fn to_act_as(user: &str, groups: &[String]) -> Vec<Self> {
        let attributes = |resource: &str, namespace: &str, name: &str| Attributes {
            verb: "impersonate".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        let as_user = match service_account(user) {
            Some((namespace, name)) => attributes("serviceaccounts", namespace, name),
            None => attributes("users", "", user),
        };
        std::iter::once(as_user).chain(groups.iter().map(|group| attributes("groups", "", group))).collect()
    }

    /// What a review's `resourceAttributes` or `nonResourceAttributes` ask.
    pub fn read(spec: &Value) -> Self {
        let (objects, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let of = if objects.is_object() { objects } else { path };
        let text = |field: &str| of[field].as_str().unwrap_or_default().to_owned();
        Attributes {
            verb: text("verb"),
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            path: text("path"),
        }
    }

    /// The refusal; `why` is what went wrong in the reading of the rules, if anything.
    pub fn forbidden(&self, user: &str, why: &str) -> Failure {
        let Attributes { verb, group, resource, namespace, .. } = self;
        let mut message = if resource.is_empty() {
            format!("User {user:?} cannot {verb} path {:?}", self.path)
        } else {
            let resource = match self.subresource.as_str() {
                "" => resource.clone(),
                subresource => format!("{resource}/{subresource}"),
            };
            let at = match namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {at}")
        };
        message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !why.is_empty() {
            message += &format!(": {why}");
        }
        Failure::forbidden(group, resource, &self.name, &message)
    }
}

impl Rights {
    /// Refuses what the caller may not do.
    pub fn demand(&self, caller: &Caller, attributes: &Attributes) -> Result<(), Failure> {
        self.check(caller, attributes).map(drop).map_err(|why| attributes.forbidden(&caller.user, &why))
    }
}

impl Cluster {
    /// From now on each request is held against the Roles and bindings that are stored, as with
    /// `--authorization-mode=RBAC`; a refusal is the real server's 403. These users, and the group
    /// `system:masters`, may do everything. The ClusterRoles and bindings cluster-admin, system:basic-user,
    /// system:discovery and system:public-info-viewer are made, where they are not there.
    ///
    /// A user is in `system:authenticated` (`anonymous` in `system:unauthenticated`), a ServiceAccount
    /// `system:serviceaccount:NAMESPACE:NAME` in its groups, and each in those of
    /// [`put_in_groups`](Self::put_in_groups). Who has the right to impersonate acts as another user with the
    /// headers `Impersonate-User` and `Impersonate-Group`.
    pub fn authorize_with_rbac<'a>(&self, superusers: impl IntoIterator<Item = &'a str>) {
        bootstrap::roles(self);
        let mut front = self.inner.front.lock();
        let mut authority = front.authority.as_deref().cloned().unwrap_or_default();
        authority.superusers = superusers.into_iter().map(|user| known_as(user).to_owned()).collect();
        front.authority = Some(Arc::new(authority));
    }

    /// Puts a user in these groups, beside those that its name gives it. Asks for
    /// [`authorize_with_rbac`](Self::authorize_with_rbac) before; without it nothing happens.
    pub fn put_in_groups<'a>(&self, user: &str, groups: impl IntoIterator<Item = &'a str>) {
        let mut front = self.inner.front.lock();
        let Some(authority) = front.authority.as_deref() else { return };
        let mut authority = authority.clone();
        let all = authority.groups.entry(user.to_owned()).or_default();
        all.extend(groups.into_iter().map(str::to_owned));
        front.authority = Some(Arc::new(authority));
    }
}
