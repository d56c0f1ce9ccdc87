//! The kinds that a cluster serves: built in, registered by a test, or declared by a CRD.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::custom::Custom;
use super::events;
use super::schema::{self, TypeId, Types};
use super::smd::Typed;
use super::store::Object;

/// One served version of a kind. Versions of one group and plural share their objects.
#[derive(Clone, Debug)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `ConfigMap`.
    pub kind: String,
    /// Resource name in URLs, such as `configmaps`.
    pub plural: String,
    /// Its objects live in namespaces.
    pub namespaced: bool,
    /// Status is written by the `status` subresource only.
    pub status_subresource: bool,
    pub(super) shape: Shape,
    /// Its entry in an aggregated discovery document.
    pub(super) entry: Value,
}

/// What is known of a kind's fields.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Nothing: maps are walked, lists are owned whole.
    Unknown,
    /// A type of the packed schemas.
    Builtin(TypeId),
    /// What its CRD says.
    Custom(Arc<Custom>),
}

impl Kind {
    /// A kind without a schema, by its apiVersion (`v1`, `apps/v1`), kind, plural, and whether it has
    /// namespaces and status.
    pub fn new(
        api_version: &str,
        kind: &str,
        plural: &str,
        namespaced: bool,
        status_subresource: bool,
    ) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let response = json!({"group": group, "version": version, "kind": kind});
        let mut entry = json!({
            "resource": plural,
            "responseKind": response,
            "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": kind.to_lowercase(),
            "verbs": VERBS,
        });
        if status_subresource {
            entry["subresources"] =
                json!([{"subresource": "status", "responseKind": response, "verbs": STATUS_VERBS}]);
        }
        Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced,
            status_subresource,
            shape: Shape::Unknown,
            entry,
        }
    }

    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// As error messages name it: `deployments.apps`, `configmaps`.
    pub(super) fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The type of its objects.
    pub(super) fn typed(&self) -> Typed<'_> {
        match &self.shape {
            Shape::Unknown => Typed { types: &schema::builtin().types, of: Types::DEDUCED },
            Shape::Builtin(of) => Typed { types: &schema::builtin().types, of: *of },
            Shape::Custom(custom) => Typed { types: &custom.types, of: custom.root },
        }
    }

    /// An object as this version shows it.
    pub(super) fn view(&self, object: &Object) -> Object {
        if events::is_newer(self) {
            return events::newer(Value::clone(object)).into();
        }
        if object["apiVersion"].as_str().is_some_and(|version| self.is_of(version)) {
            return object.clone();
        }
        let mut object = Value::clone(object);
        object["apiVersion"] = json!(self.api_version());
        object.into()
    }

    /// Is it the version of this `apiVersion`?
    fn is_of(&self, api_version: &str) -> bool {
        match api_version.rsplit_once('/') {
            Some((group, version)) => !group.is_empty() && self.group == group && self.version == version,
            None => self.group.is_empty() && self.version == api_version,
        }
    }

    /// What its CRD says, where it has one.
    pub(super) fn custom(&self) -> Option<&Custom> {
        match &self.shape {
            Shape::Custom(custom) => Some(custom),
            Shape::Unknown | Shape::Builtin(_) => None,
        }
    }

    /// May a field selector name this path?
    pub(super) fn serves_field(&self, path: &str) -> bool {
        if matches!(path, "metadata.name" | "metadata.namespace") || matches!(self.shape, Shape::Unknown) {
            return true;
        }
        match self.custom() {
            Some(custom) => custom.selectable.iter().any(|served| served == path),
            None => SELECTABLE.iter().any(|(group, plural, paths)| {
                *group == self.group
                    && *plural == self.plural
                    && paths.split(' ').any(|served| served == path)
            }),
        }
    }

    pub(super) fn is_builtin(&self) -> bool {
        matches!(self.shape, Shape::Builtin(_))
    }

    /// The verbs of the kind or of a subresource; none where there is no such subresource.
    pub(super) fn verbs(&self, subresource: &str) -> Vec<&str> {
        let entry = match subresource {
            "" => Some(&self.entry),
            name => {
                let mut all = self.entry["subresources"].as_array().into_iter().flatten();
                all.find(|one| one["subresource"] == name)
            }
        };
        let verbs = entry.and_then(|entry| entry["verbs"].as_array());
        verbs.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Does the real server count generations of it?
    pub(super) fn has_generation(&self) -> bool {
        let (group, plural) = (self.group.as_str(), self.plural.as_str());
        !self.is_builtin() || COUNTED_GROUPS.contains(&group) || COUNTED.contains(&(group, plural))
    }

    /// Groups with a dot that Kubernetes does not reserve belong to CRDs.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self.shape, Shape::Custom(_))
            || (self.group.contains('.') && !self.group.ends_with(".k8s.io"))
    }

    pub(super) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    pub(super) fn is_crd(&self) -> bool {
        self.group == CRD_GROUP && self.plural == CRD_PLURAL
    }
}

/// Groups whose kinds all have generations, and single ones.
const COUNTED_GROUPS: [&str; 7] = [
    "apps",
    "batch",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "scheduling.k8s.io",
    "discovery.k8s.io",
];
const COUNTED: [(&str, &str); 6] = [
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("networking.k8s.io", "ingressclasses"),
    ("policy", "poddisruptionbudgets"),
];

/// What field selectors may name of built-in kinds, beside name and namespace.
const SELECTABLE: [(&str, &str, &str); 11] = [
    (
        "",
        "pods",
        "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork \
         status.phase status.podIP status.nominatedNodeName",
    ),
    (
        "",
        "events",
        "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid \
         involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason \
         reportingComponent source type",
    ),
    (
        "events.k8s.io",
        "events",
        "reason regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion \
         regarding.resourceVersion regarding.fieldPath reportingController type",
    ),
    ("", "secrets", "type"),
    ("", "namespaces", "status.phase"),
    ("", "nodes", "spec.unschedulable"),
    ("", "services", "spec.clusterIP spec.type"),
    ("", "replicationcontrollers", "status.replicas"),
    ("apps", "replicasets", "status.replicas"),
    ("batch", "jobs", "status.successful"),
    ("certificates.k8s.io", "certificatesigningrequests", "spec.signerName"),
];

pub(super) const CRD_GROUP: &str = "apiextensions.k8s.io";
pub(super) const CRD_PLURAL: &str = "customresourcedefinitions";
pub(super) const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The kinds of the packed discovery documents, in their order. Clusters share them.
pub(super) fn built_in() -> &'static [Arc<Kind>] {
    static KINDS: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(read_built_in);
    &KINDS
}

fn read_built_in() -> Vec<Arc<Kind>> {
    let bundle = schema::builtin();
    let list = |value: &'static Value, field: &str| value[field].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut kinds = Vec::new();
    for group in bundle.discovery.iter().flat_map(|document| list(document, "items")) {
        let name = text(&group["metadata"]["name"]);
        for version in list(group, "versions") {
            for entry in list(version, "resources") {
                let (version, kind) = (text(&version["version"]), text(&entry["responseKind"]["kind"]));
                let status =
                    list(entry, "subresources").any(|subresource| subresource["subresource"] == "status");
                let shape = bundle.kind(&name, &version, &kind).map_or(Shape::Unknown, Shape::Builtin);
                kinds.push(Arc::new(Kind {
                    group: name.clone(),
                    version,
                    kind,
                    plural: text(&entry["resource"]),
                    namespaced: entry["scope"] == "Namespaced",
                    status_subresource: status,
                    shape,
                    entry: entry.clone(),
                }));
            }
        }
    }
    kinds
}

/// The kinds that a CustomResourceDefinition serves, in its order of versions.
pub(super) fn of_crd(crd: &Value) -> Vec<Kind> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let served =
        spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    served
        .map(|version| {
            let group = text(&spec["group"]);
            let name = text(&version["name"]);
            let names = &spec["names"];
            let status = version["subresources"]["status"].is_object();
            let mut kind = Kind::new(
                &format!("{group}/{name}"),
                &text(&names["kind"]),
                &text(&names["plural"]),
                spec["scope"] == "Namespaced",
                status,
            );
            for (field, from) in [("shortNames", "shortNames"), ("categories", "categories")] {
                if names[from].as_array().is_some_and(|list| !list.is_empty()) {
                    kind.entry[field] = names[from].clone();
                }
            }
            if let Some(singular) = names["singular"].as_str().filter(|name| !name.is_empty()) {
                kind.entry["singularResource"] = json!(singular);
            }
            if version["subresources"]["scale"].is_object() {
                let scale = json!({
                    "subresource": "scale",
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    "verbs": STATUS_VERBS,
                });
                match kind.entry["subresources"].as_array_mut() {
                    Some(list) => list.push(scale),
                    None => kind.entry["subresources"] = json!([scale]),
                }
            }
            kind.shape = Shape::Custom(Custom::read(version, spec));
            kind
        })
        .collect()
}
