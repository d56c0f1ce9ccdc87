//! Who may write what only the hub writes, and what says how it works, its settings and the fleet's health rules: a ValidatingAdmissionPolicy as data, beside RBAC (rights.rs), which cannot
//! tell types of Secrets apart and gives whoever has a wildcard in a namespace more than was meant.
//! `deploy/` is written from here (src/bin/deploy.rs).

use serde_json::{Value, json};

use crate::{
    GROUP,
    labels::{HEALTH_RULES, REVISION_SECRET_TYPE},
    rights::NAME,
};

/// The verb on vidratargets that lets its holder write what the hub writes. RBAC knows it by its name only.
pub const MAINTAIN: &str = "maintain";
const API: &str = "admissionregistration.k8s.io/v1";
/// Those of Kubernetes' controllers that delete what has lost its owner or its namespace, and let it go: with
/// accounts of their own, and without (`--use-service-account-credentials`).
const CONTROLLERS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// The user name of the hub's ServiceAccount in this namespace.
#[must_use]
pub fn hub_user(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{NAME}")
}

/// The variable of the policy that says who the hub is.
#[must_use]
pub fn hub_variable(user: &str) -> Value {
    json!({"name": "hub", "expression": format!("'{user}'")})
}

/// The policy's spec but for its variables.
#[must_use]
pub fn rules() -> Value {
    let operations = ["CREATE", "UPDATE", "DELETE"];
    let everything = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": resources});
    let of_the_hub = [
        "vidratargets",
        "vidratargets/status",
        "vidrainventories",
        "vidraresources/status",
        "memberclusters/status",
    ];
    let secret = "(request.operation == 'DELETE' ? oldObject : object)";
    // Whatever they bear before or after: who may put the label on, or take it off, decides what Ready means.
    let config_map = format!(
        "[object, oldObject].exists(o, o != null && (has(o.metadata.name) && o.metadata.name == '{NAME}' || \
         has(o.metadata.labels) && '{HEALTH_RULES}' in o.metadata.labels))"
    );
    let controllers = CONTROLLERS.map(|user| format!("'{user}'")).join(", ");
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [everything(GROUP, &of_the_hub), everything("", &["secrets", "configmaps"])]},
        "matchConditions": [{
            "name": "what-only-the-hub-writes",
            "expression": format!(
                "request.resource.resource == 'configmaps' ? {config_map} : \
                 request.resource.resource != 'secrets' || {secret}.type == '{REVISION_SECRET_TYPE}'"
            ),
        }],
        "validations": [{
            "expression": format!(
                "(request.resource.resource == 'configmaps' ? \
                 variables.hub != 'system:serviceaccount:' + request.namespace + ':{NAME}' : \
                 request.userInfo.username == variables.hub) || \
                 request.userInfo.username in [{controllers}] || \
                 authorizer.group('{GROUP}').resource('vidratargets').check('{MAINTAIN}').allowed()"
            ),
            "messageExpression": message(),
            "reason": "Forbidden",
        }],
    })
}

/// What is refused, who may, and what to do instead.
fn message() -> String {
    format!(
        "request.userInfo.username + ' may not ' + request.operation.lowerAscii() + ' ' \
         + (request.resource.resource == 'configmaps' ? 'ConfigMaps of settings or health rules in the namespace of the hub: \
         only who has the verb {MAINTAIN} on vidratargets.{GROUP} in all namespaces does' : (request.resource.resource == 'secrets' ? 'Secrets of type {REVISION_SECRET_TYPE}' : request.resource.resource) \
         + (has(request.subResource) ? '/' + request.subResource : '') + ': only ' + variables.hub \
         + ' does, and who has the verb {MAINTAIN} on vidratargets.{GROUP} in all namespaces. Change the ' \
         + (request.resource.resource == 'memberclusters' ? 'MemberCluster' : 'VidraResource') \
         + ' instead: the hub does the rest')"
    )
}

/// The policy and its binding, for the hub that is this user.
#[must_use]
pub fn objects(hub: &str) -> [Value; 2] {
    let mut spec = rules();
    spec["variables"] = json!([hub_variable(hub)]);
    let object = |kind: &str, spec: Value| json!({"apiVersion": API, "kind": kind, "metadata": {"name": NAME}, "spec": spec});
    [
        object("ValidatingAdmissionPolicy", spec),
        object(
            "ValidatingAdmissionPolicyBinding",
            json!({"policyName": NAME, "validationActions": ["Deny"]}),
        ),
    ]
}
