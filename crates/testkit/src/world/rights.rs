//! The hub acts in its own cluster as its ServiceAccount, with the rights that `deploy/` gives it and no others:
//! every scenario shows that they suffice, and one that none is idle.

use kube::Client;
use serde_json::json;
use vidra_api::rights::{self, EVERYWHERE, OWN_NAMESPACE, REGISTRATIONS, Right};

use super::{
    access::{Access, At},
    hub::World,
    wait::{SOON, wait_for},
};
use crate::testbed::Request;

/// The user name of a ServiceAccount.
pub(super) fn account_user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

impl World {
    /// A client of the hub's cluster with the hub's own rights.
    pub async fn hub_client(&self) -> Client {
        self.bed.account(&self.settings.namespace, rights::NAME).await.expect("a client")
    }

    pub(super) fn hub_user(&self) -> String {
        account_user(&self.settings.namespace, rights::NAME)
    }

    /// Installs the hub's rights for its namespace, and waits until the server goes by them.
    pub async fn give_rights(&self) {
        for object in rights::hub_objects(&self.settings.namespace) {
            self.hub.apply(&object, true).await.expect("the role or binding is taken");
        }
        let hub = Access::new(self.hub_client().await, rights::NAME);
        let namespace = self.settings.namespace.as_str();
        let asked = [
            json!({"group": vidra_api::GROUP, "resource": "vidraresources", "verb": "list"}),
            json!({"group": "coordination.k8s.io", "resource": "leases", "verb": "create", "namespace": namespace}),
        ];
        wait_for("the hub has its rights", SOON, async || {
            for attributes in &asked {
                let review = json!({
                    "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": attributes},
                });
                let answer = hub.try_create(review).await.map_err(|refused| refused.to_string())?;
                if answer["status"]["allowed"] != true {
                    return Err(answer["status"].to_string());
                }
            }
            Ok(())
        })
        .await;
    }

    /// Takes one of the hub's rights in all namespaces until [`World::give_rights`], and waits until the server
    /// goes by that: for the object of this name, in the scenario's namespace if it has one.
    pub async fn take_right(&self, group: &str, resource: &str, verb: &str, name: &str) {
        let at = At::new("rbac.authorization.k8s.io/v1", "ClusterRole", "", rights::NAME);
        let mut rules = self.hub.live(&at).await["rules"].clone();
        let all = rules.as_array_mut().expect("rules");
        for rule in all.iter_mut() {
            if rule["apiGroups"] == json!([group]) && rule["resources"] == json!([resource]) {
                let verbs = rule["verbs"].as_array_mut().expect("verbs");
                verbs.retain(|one| one != verb);
            }
        }
        all.retain(|rule| rule["verbs"] != json!([]));
        self.hub.merge(&at, json!({"rules": rules})).await;
        let hub = Access::new(self.hub_client().await, rights::NAME);
        let mut attributes = json!({"group": group, "resource": resource, "verb": verb, "name": name});
        if group.is_empty() {
            attributes["namespace"] = self.ns.as_str().into();
        }
        wait_for("the right is gone", SOON, async || {
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            });
            let answer = hub.try_create(review).await.map_err(|refused| refused.to_string())?;
            if answer["status"]["allowed"] == true { Err(answer["status"].to_string()) } else { Ok(()) }
        })
        .await;
    }

    /// Gives the hub its rights in a namespace of registrations.
    pub async fn give_registration_rights(&mut self, namespace: &str) {
        for object in rights::registration_objects(namespace, &self.settings.namespace) {
            self.hub.apply(&object, true).await.expect("the role or binding is taken");
        }
        self.registrations.push(namespace.to_owned());
    }

    /// Every request of the hub in its own cluster is one that its rights name.
    pub(super) fn no_right_was_missing(&self) {
        for request in self.requests("hub", &self.first) {
            for verb in verbs(&request) {
                assert!(
                    // Everybody may ask what they may do; the scenarios do so as the hub.
                    matches!(request.resource.as_str(), "" | "selfsubjectaccessreviews")
                        || self.rights_for(&request, verb).next().is_some(),
                    "the hub has no right to this; give it one in crates/vidra-api/src/rights.rs: {verb} of {request:?}"
                );
            }
        }
    }

    /// The rights that no request of the hub has needed since the scenario began: `where group/resource verb`.
    pub fn idle_rights(&self) -> Vec<String> {
        let everywhere = EVERYWHERE.iter().map(|right| ("everywhere", right));
        let all = everywhere.chain(OWN_NAMESPACE.iter().map(|right| ("own namespace", right)));
        let requests = self.requests("hub", &self.first);
        let mut idle = Vec::new();
        for (place, right) in all {
            for (resource, verb) in
                right.resources.iter().flat_map(|one| right.verbs.iter().map(move |verb| (one, *verb)))
            {
                let used = requests.iter().any(|request| {
                    // The narrowest counts: what the Role gives needs no ClusterRole.
                    let narrowest = self.rights_for(request, verb).next();
                    request.resource == *resource
                        && verbs(request).contains(&verb)
                        && narrowest == Some(right)
                });
                if !used {
                    idle.push(format!("{place}: {}/{resource} {verb}", right.group));
                }
            }
        }
        idle
    }

    /// The rights that allow a request as this verb, the narrowest first.
    fn rights_for(&self, request: &Request, verb: &str) -> impl Iterator<Item = &'static Right> {
        let own = (request.namespace == self.settings.namespace).then_some(OWN_NAMESPACE);
        let registers = self.registrations.contains(&request.namespace).then_some(REGISTRATIONS);
        let all = own.into_iter().chain(registers).flatten().chain(EVERYWHERE);
        all.filter(move |right| {
            right.group == request.group
                && right.resources.contains(&request.resource.as_str())
                && right.verbs.contains(&verb)
                && (right.names.is_empty() || right.names.contains(&request.name.as_str()))
        })
    }
}

/// What a request has to be allowed: an apply that makes the object is a create too.
fn verbs(request: &Request) -> Vec<&str> {
    let made = request.verb == "patch" && request.code == 201;
    std::iter::once(request.verb.as_str()).chain(made.then_some("create")).collect()
}
