//! APIServices: groups that another server would serve. Nothing runs behind them here, so one that names a
//! Service is broken, unless its kinds are registered: discovery shows its group as stale, requests for it
//! get 503, and namespaces do not end. So it is with a group that a test makes unavailable.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::lifecycle::is_terminating;
use super::store::{Place, Resource, Store, rfc3339};

pub(super) const GROUP: &str = "apiregistration.k8s.io";
const PLURAL: &str = "apiservices";

pub(super) fn is_api_services(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural == PLURAL
}

/// The status that the aggregator writes at once.
fn status(store: &Store, object: &Value, now: Timestamp) -> Value {
    let service = &object["spec"]["service"];
    let text = |field: &str| object["spec"][field].as_str().unwrap_or_default();
    let (group, version) = (text("group"), text("version"));
    let served = store.kinds.iter().any(|kind| kind.group == group && kind.version == version);
    let (status, reason, message) = match service["name"].as_str() {
        None => ("True", "Local", "Local APIServices are always available".to_owned()),
        Some(_) if served && store.unavailable.contains(group) => {
            let message = "failing or missing response from the server behind the service".to_owned();
            ("False", "FailedDiscoveryCheck", message)
        }
        Some(_) if served => ("True", "Passed", "all checks passed".to_owned()),
        Some(name) => {
            let namespace = service["namespace"].as_str().unwrap_or_default();
            ("False", "ServiceNotFound", format!("service/{name} in {namespace:?} is not present"))
        }
    };
    let time = rfc3339(now);
    json!({"conditions": [{
        "type": "Available", "status": status, "reason": reason, "message": message, "lastTransitionTime": time,
    }]})
}

impl Store {
    /// Gives a new APIService its status.
    pub(super) fn begin_service(&self, kind: &Kind, object: &mut Value, now: Timestamp) {
        if is_api_services(&Resource::from(kind)) {
            object["status"] = status(self, object, now);
        }
    }

    /// Makes a group available or not, as its APIServices then say.
    pub(super) fn set_available(&mut self, group: &str, available: bool, now: Timestamp) {
        if available {
            self.unavailable.remove(group);
        } else {
            self.unavailable.insert(group.to_owned());
        }
        for (resource, place) in self.places(&Resource::new(GROUP, PLURAL)) {
            let Some(service) = self.get(&resource, &place) else { continue };
            let mut service = service.into_value();
            let new = status(self, &service, now);
            let is = |status: &Value| status["conditions"][0]["reason"].clone();
            if service["spec"]["group"] == group && is(&service["status"]) != is(&new) {
                service["status"] = new;
                self.write(&resource, &place, Some(service));
            }
        }
        if available {
            self.end_namespaces(now);
        }
    }

    /// Group and version of each broken APIService, in the order of their names, then those that a test made
    /// unavailable.
    pub(super) fn broken(&self) -> Vec<(String, String)> {
        let table = self.table(&Resource::new(GROUP, PLURAL));
        let services = table.into_iter().flat_map(|table| table.values().map(|stored| self.read(stored)));
        let broken = services.filter(|service| !service["spec"]["service"].is_null());
        let mut all: Vec<_> = broken
            .map(|service| {
                let text = |field: &str| service["spec"][field].as_str().unwrap_or_default().to_owned();
                (text("group"), text("version"))
            })
            .filter(|(group, version)| {
                !self.kinds.iter().any(|kind| kind.group == *group && kind.version == *version)
            })
            .collect();
        for kind in self.kinds.iter().filter(|kind| self.unavailable.contains(&kind.group)) {
            let of = (kind.group.clone(), kind.version.clone());
            if !all.contains(&of) {
                all.push(of);
            }
        }
        all
    }

    /// Says in a terminating namespace why it stays, where a broken APIService is why.
    pub(super) fn waits_for_discovery(&mut self, place: &Place, now: Timestamp) -> bool {
        let broken = self.broken();
        if broken.is_empty() {
            return false;
        }
        let namespaces = Resource::new("", "namespaces");
        let Some(namespace) = self.get(&namespaces, place) else { return true };
        let mut namespace = namespace.into_value();
        if namespace["status"]["conditions"].is_null() {
            let names: Vec<_> = broken.iter().map(|(group, version)| format!("{group}/{version}")).collect();
            namespace["status"]["conditions"] = json!([{
                "type": "NamespaceDeletionDiscoveryFailure",
                "status": "True",
                "reason": "DiscoveryFailed",
                "message": format!("Discovery failed for some groups, {} failing: {}", names.len(), names.join(", ")),
                "lastTransitionTime": rfc3339(now),
            }]);
            self.write(&namespaces, place, Some(namespace));
        }
        true
    }

    /// The namespaces that are being deleted.
    pub(super) fn terminating_namespaces(&self) -> Vec<Place> {
        let namespaces = self.places(&Resource::new("", "namespaces"));
        let ending = namespaces.into_iter().filter(|(resource, place)| {
            self.get(resource, place).is_some_and(|namespace| is_terminating(&namespace))
        });
        ending.map(|(_, place)| (*place).clone()).collect()
    }
}
