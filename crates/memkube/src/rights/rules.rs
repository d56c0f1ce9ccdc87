//! The rules that are stored, made ready to be asked: bindings with the rules of their roles.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Attributes, Caller, service_account};
use crate::store::{Place, Resource, Store};

/// The group of Roles and bindings.
pub(in crate::rights) const API: &str = "rbac.authorization.k8s.io";
/// The same, for the store: a write to it makes the rules be read again.
pub(crate) const GROUP: &str = API;

/// All rules of a cluster, by binding: ClusterRoleBindings first, each kind in the order of names.
pub(crate) struct Rights {
    grants: Vec<Grant>,
}

struct Grant {
    /// As a review's reason names the binding and its role.
    source: String,
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    subjects: Vec<Value>,
    /// Or why there are none.
    rules: Result<Vec<Value>, String>,
}

impl Rights {
    fn read(store: &Store) -> Self {
        let all = |plural: &str| {
            let table = store.table(&Resource::new(API, plural)).into_iter();
            table.flat_map(|table| table.values().map(|stored| store.read(stored))).collect::<Vec<_>>()
        };
        let bindings = all("clusterrolebindings").into_iter().chain(all("rolebindings"));
        Rights { grants: bindings.map(|binding| Grant::read(store, &binding)).collect() }
    }

    /// The reason why the caller may, or what kept the rules from being read.
    pub fn check(&self, caller: &Caller, attributes: &Attributes) -> Result<String, String> {
        if caller.free {
            return Ok(String::new());
        }
        let mut unread = Vec::new();
        for (grant, subject) in self.of(caller, &attributes.namespace) {
            match &grant.rules {
                Ok(rules) if rules.iter().any(|rule| allows(rule, attributes)) => {
                    return Ok(format!("RBAC: allowed by {} to {}", grant.source, described(subject)));
                }
                Ok(_) => {}
                Err(why) => unread.push(why.as_str()),
            }
        }
        Err(match unread.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            all => format!("RBAC: [{}]", all.join(", ")),
        })
    }

    /// What the caller may do in a namespace: rules about objects and rules about paths.
    pub fn rules(&self, caller: &Caller, namespace: &str) -> (Vec<Value>, Vec<Value>) {
        let (mut objects, mut paths) = (Vec::new(), Vec::new());
        if caller.free {
            objects.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        for rule in self.of(caller, namespace).flat_map(|(grant, _)| grant.rules.iter().flatten()) {
            let said = |field: &str| rule[field].as_array().is_some_and(|list| !list.is_empty());
            let part = |fields: &[&str]| -> Value {
                let given = fields.iter().filter(|field| said(field));
                given.map(|field| ((*field).to_owned(), rule[*field].clone())).collect()
            };
            if said("resources") {
                objects.push(part(&["verbs", "apiGroups", "resources", "resourceNames"]));
            }
            if said("nonResourceURLs") {
                paths.push(part(&["verbs", "nonResourceURLs"]));
            }
        }
        (objects, paths)
    }

    /// The grants that hold for the caller in a namespace, with the subject by which they do.
    fn of(&self, caller: &Caller, namespace: &str) -> impl Iterator<Item = (&Grant, &Value)> {
        let here = move |grant: &&Grant| grant.namespace.is_empty() || grant.namespace == namespace;
        self.grants.iter().filter(here).filter_map(|grant| {
            let subject = grant.subjects.iter().find(|subject| applies(subject, &grant.namespace, caller))?;
            Some((grant, subject))
        })
    }
}

impl Grant {
    fn read(store: &Store, binding: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&binding["metadata"]["namespace"]);
        let (kind, role) = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
        let (plural, of) = match kind.as_str() {
            "ClusterRole" => ("clusterroles", ""),
            _ => ("roles", namespace.as_str()),
        };
        let rules = match store.get(&Resource::new(API, plural), &Place::new(of, &role)) {
            Some(role) => Ok(role["rules"].as_array().cloned().unwrap_or_default()),
            None => Err(format!("{}.{API} {role:?} not found", kind.to_lowercase())),
        };
        let name = text(&binding["metadata"]["name"]);
        let source = match namespace.as_str() {
            "" => format!("ClusterRoleBinding {name:?} of {kind} {role:?}"),
            namespace => format!("RoleBinding {:?} of {kind} {role:?}", format!("{name}/{namespace}")),
        };
        let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
        Grant { source, namespace, subjects, rules }
    }
}

impl Store {
    /// The rules as they are now; read once until one of them is written.
    pub fn rights(&mut self) -> Arc<Rights> {
        if let Some(rights) = &self.rights {
            return rights.clone();
        }
        let rights = Arc::new(Rights::read(self));
        self.rights = Some(rights.clone());
        rights
    }
}

/// Is the caller this subject of a binding in `namespace`?
fn applies(subject: &Value, namespace: &str, caller: &Caller) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => caller.user == name,
        Some("Group") => caller.groups.contains(name),
        Some("ServiceAccount") => {
            let of = subject["namespace"].as_str().filter(|of| !of.is_empty()).unwrap_or(namespace);
            !of.is_empty() && service_account(&caller.user) == Some((of, name))
        }
        _ => false,
    }
}

fn described(subject: &Value) -> String {
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    match text("namespace") {
        namespace if text("kind") == "ServiceAccount" => {
            format!("ServiceAccount {:?}", format!("{}/{namespace}", text("name")))
        }
        _ => format!("{} {:?}", text("kind"), text("name")),
    }
}

/// `RuleAllows` of Kubernetes' RBAC authorizer.
fn allows(rule: &Value, attributes: &Attributes) -> bool {
    let list = |field: &str| rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    if !list("verbs").any(|verb| verb == "*" || verb == attributes.verb) {
        return false;
    }
    if attributes.resource.is_empty() {
        return list("nonResourceURLs").any(|url| {
            let prefix = url.strip_suffix('*').map(|url| url.trim_end_matches('*'));
            url == attributes.path || prefix.is_some_and(|prefix| attributes.path.starts_with(prefix))
        });
    }
    let Attributes { resource, subresource, .. } = attributes;
    let whole = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
    let named = rule["resourceNames"].as_array().is_none_or(Vec::is_empty)
        || list("resourceNames").any(|name| name == attributes.name);
    list("apiGroups").any(|group| group == "*" || group == attributes.group)
        && list("resources").any(|of| {
            of == "*"
                || of == whole
                || (!subresource.is_empty() && of.strip_prefix("*/") == Some(subresource.as_str()))
        })
        && named
}
