//! Validation of specs: pieces of OpenAPI schema that several kinds share. Each bears a bound, because the API server
//! estimates what a CEL rule may cost from the bounds around it and refuses a CRD over budget.
//!
//! A format that people get wrong is a CEL rule and not a `pattern`: the API server answers a
//! failed pattern with the regular expression, a failed rule with our sentence.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Longest name of a VidraResource. With a cluster of 63 and two dots it leaves 8 characters of
/// the 253 that an object's name may have, for the chunk number of an inventory.
pub(crate) const RESOURCE_NAME_MAX: usize = 180;
/// Longest DNS label, RFC 1123.
pub(crate) const LABEL_MAX: usize = 63;
/// Longest DNS subdomain, and so the longest name of most objects.
pub(crate) const SUBDOMAIN_MAX: usize = 253;
/// Longest apiVersion: a group, a slash, and a version.
pub(crate) const API_VERSION_MAX: usize = SUBDOMAIN_MAX + 1 + LABEL_MAX;
/// Longest revision: a SHA-256 in hex.
pub(crate) const REVISION_MAX: usize = 64;
/// Longest reason of ours.
pub(crate) const REASON_MAX: usize = 128;
/// Longest uid of a member's Namespace kube-system in characters; Kubernetes' own have 36.
pub(crate) const CLUSTER_UID_MAX: usize = 128;
/// Most entries in a list of cluster or namespace names.
const NAME_LIST_MAX: usize = 1000;
/// Most clusters that one entry of targets names. The API server multiplies the bounds from the root
/// down: 100 targets of 400 names use five sixths of what one rule may cost, 476 would use all of it.
const TARGET_CLUSTERS_MAX: usize = 400;
/// Most clusters that one entry of overrides names: 50 entries of 100 names cost an eighth of what targets may.
const OVERRIDE_CLUSTERS_MAX: usize = 100;
/// Most values of one requirement: 100 targets of 10 requirements of 30 values stay within the cost.
const LABEL_VALUES_MAX: usize = 30;

/// Longest path of a field.
const PATH_MAX: usize = 512;
/// Longest value of a member: most URLs are shorter.
const VALUE_MAX: usize = 2048;

const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const DNS_SUBDOMAIN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
const VALUE_NAME: &str = "^[A-Za-z]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
const RULE_API_VERSION: &str = "^([*][.])?[-.a-z0-9]+(/v[0-9]+((alpha|beta)[0-9]+)?)?$";
const CONFIG_KEY: &str = "^[-._a-zA-Z0-9]+$";
/// What Go's time.ParseDuration reads, without signs and units below a millisecond. Six digits in
/// 16 characters cannot overflow the 292 years that a Go duration holds.
const DURATION: &str = "^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$";

/// A time, as Kubernetes writes it.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A number of targets, or a percentage of all of them.
pub(crate) fn max_unreachable(_: &mut SchemaGenerator) -> Schema {
    let pattern = "^([1-9][0-9]{0,3}|([1-9][0-9]?|100)%)$";
    let message = "give a number of targets from 1 to 9999, or a percentage from 1% to 100%";
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 4,
        "x-kubernetes-validations": rule(&format!("string(self).matches('{pattern}')"), message),
    })
}

/// The value of `x-kubernetes-validations` for one rule and the sentence that refuses an object.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!([{ "rule": rule, "message": message }])
}

/// The rule that the whole string matches `pattern`.
fn matches(pattern: &str, message: &str) -> Value {
    rule(&format!("self.matches('{pattern}')"), message)
}

fn checked_string(max: usize, pattern: &str, message: &str) -> Value {
    json!({ "type": "string", "maxLength": max, "x-kubernetes-validations": matches(pattern, message) })
}

fn atomic_list(max: usize, items: Value) -> Schema {
    json_schema!({ "type": "array", "maxItems": max, "x-kubernetes-list-type": "atomic", "items": items })
}

fn clusters(max: usize) -> Schema {
    let message = "use the name of a MemberCluster: lower-case letters, digits and '-', beginning and ending \
                   with a letter or digit (kubectl get memberclusters lists them)";
    atomic_list(max, checked_string(LABEL_MAX, DNS_LABEL, message))
}

/// Member clusters by name, for the whole object.
pub(crate) fn cluster_names(_: &mut SchemaGenerator) -> Schema {
    clusters(NAME_LIST_MAX)
}

/// Member clusters by name, for one entry of targets.
pub(crate) fn target_cluster_names(_: &mut SchemaGenerator) -> Schema {
    clusters(TARGET_CLUSTERS_MAX)
}

/// Member clusters by name, for one entry of overrides.
pub(crate) fn override_cluster_names(_: &mut SchemaGenerator) -> Schema {
    clusters(OVERRIDE_CLUSTERS_MAX)
}

/// A list of namespaces of the hub.
pub(crate) fn namespaces(_: &mut SchemaGenerator) -> Schema {
    atomic_list(NAME_LIST_MAX, checked_string(LABEL_MAX, DNS_LABEL, NAMESPACE_MESSAGE))
}

const NAMESPACE_MESSAGE: &str = "use the name of a namespace: lower-case letters, digits and '-', beginning and \
                                 ending with a letter or digit";

fn from_value(value: Value) -> Schema {
    // Only an object or a boolean is a schema, and every caller passes an object.
    Schema::try_from(value).unwrap_or_default()
}

/// The name of a namespace.
pub(crate) fn namespace(_: &mut SchemaGenerator) -> Schema {
    from_value(checked_string(LABEL_MAX, DNS_LABEL, NAMESPACE_MESSAGE))
}

/// The name of a Secret.
pub(crate) fn secret_name(_: &mut SchemaGenerator) -> Schema {
    let message = "use the name of a Secret: lower-case letters, digits, '-' and '.', each part between dots \
                   beginning and ending with a letter or digit";
    from_value(checked_string(SUBDOMAIN_MAX, DNS_SUBDOMAIN, message))
}

/// The name of a ConfigMap.
pub(crate) fn config_map_name(_: &mut SchemaGenerator) -> Schema {
    let message = "use the name of a ConfigMap: lower-case letters, digits, '-' and '.', each part between dots \
                   beginning and ending with a letter or digit";
    from_value(checked_string(SUBDOMAIN_MAX, DNS_SUBDOMAIN, message))
}

/// Keys of a ConfigMap or Secret: none is a slip, for leaving them out means all.
pub(crate) fn source_keys(_: &mut SchemaGenerator) -> Schema {
    let key = "use a key of the ConfigMap's or Secret's data: letters, digits, '-', '_' and '.'";
    json_schema!({
        "type": "array",
        "maxItems": crate::sources::KEYS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": checked_string(SUBDOMAIN_MAX, CONFIG_KEY, key),
        "x-kubernetes-validations": rule("size(self) > 0", "write at least one key, or leave keys out to read all of them"),
    })
}

/// What a value of status feedback is called.
pub(crate) fn value_name(_: &mut SchemaGenerator) -> Schema {
    let message = "use a name of letters, digits, '-', '_' and '.', beginning with a letter and ending with a letter \
                   or digit";
    from_value(checked_string(LABEL_MAX, VALUE_NAME, message))
}

/// What a health rule is about: a group, with or without a version, or a family of groups.
pub(crate) fn rule_api_version(_: &mut SchemaGenerator) -> Schema {
    let message = "write a group in small letters, with or without a version, as in cert-manager.io/v1, or a family \
                   of groups, as in *.crossplane.io";
    from_value(checked_string(API_VERSION_MAX, RULE_API_VERSION, message))
}

/// The kind that a health rule is about.
pub(crate) fn rule_kind(_: &mut SchemaGenerator) -> Schema {
    let message =
        "write a kind in letters and digits, as in Certificate, or leave it out for the whole group";
    from_value(checked_string(LABEL_MAX, "^[A-Za-z0-9]+$", message))
}

/// A key of a Secret's data.
pub(crate) fn secret_key(_: &mut SchemaGenerator) -> Schema {
    let message = "use a key of the Secret's data: letters, digits, '-', '_' and '.'";
    from_value(checked_string(SUBDOMAIN_MAX, CONFIG_KEY, message))
}

/// A duration of at least one second and at most thirty days in Go's notation.
pub(crate) fn interval(_: &mut SchemaGenerator) -> Schema {
    let check = format!(
        "self.matches('{DURATION}') && duration(self) >= duration('1s') && duration(self) <= duration('720h')"
    );
    let message = "write a duration with its units, of one second or more and at most 720h (30 days), such as 30s, 10m or 1h30m";
    json_schema!({ "type": "string", "maxLength": 16, "x-kubernetes-validations": rule(&check, message) })
}

/// Any object; what is in it is not looked at here.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "maxProperties": 1000, "x-kubernetes-preserve-unknown-fields": true })
}

/// Any value at all.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A JSON Pointer, RFC 6901.
pub(crate) fn pointer(_: &mut SchemaGenerator) -> Schema {
    let message =
        "write a JSON Pointer that begins with '/', such as /spec/replicas or /metadata/labels/a~1b";
    json_schema!({
        "type": "string",
        "maxLength": PATH_MAX,
        "x-kubernetes-validations": rule("self == '' || self.startsWith('/')", message),
    })
}

/// The path of a field, as the API server writes it in conflicts.
pub(crate) fn field_path(_: &mut SchemaGenerator) -> Schema {
    let message =
        "write the path from the root of the object, beginning with '.', such as .metadata.labels.region";
    json_schema!({
        "type": "string",
        "maxLength": PATH_MAX,
        "x-kubernetes-validations": rule("self.startsWith('.')", message),
    })
}

/// How such a path is made: names after dots, names in brackets and quotes, items of lists; what follows labels
/// and annotations of metadata is one key. What the hub reads is told exactly by vidra-core's fields/text.rs.
const FIELD_PATH: &str = r#"^[.]([^.\[\]"/]+([.][^.\[\]"/]+|\["([^"\\]|\\.)+"\]|\[[0-9]+\]|\[([^=\[\]",]+)?=("([^"\\]|\\.)*"|[-+.0-9eE]+|true|false)(,[^=\[\]",]+=("([^"\\]|\\.)*"|[-+.0-9eE]+|true|false))*\])*|(.+[.])?metadata[.](labels|annotations)[.].+)$"#;
/// What an object is known by, and the root of its metadata.
const IDENTITY_PATH: &str =
    "^[.](apiVersion|kind|metadata([.](name|namespace|uid|resourceVersion|managedFields).*)?)$";

/// Paths of fields that are left alone.
pub(crate) fn ignored_paths(_: &mut SchemaGenerator) -> Schema {
    let path = "write the path as the API server does in conflicts, beginning with '.', such as .spec.replicas, \
                .data[\"app.conf\"] or .spec.template.spec.containers[name=\"app\"].image";
    let identity = "choose a field below the root: what an object is called and what the server keeps of it cannot \
                    be ignored";
    json_schema!({
        "type": "array",
        "description": "The fields, each with all that is below it, at most 16.",
        "maxItems": crate::drift::IGNORED_PATHS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string",
            "maxLength": PATH_MAX,
            "x-kubernetes-validations": [
                { "rule": format!("self.matches(r'{FIELD_PATH}')"), "message": path },
                { "rule": format!("!self.matches(r'{IDENTITY_PATH}')"), "message": identity },
            ],
        },
        "x-kubernetes-validations": rule("size(self) > 0", "write at least one path"),
    })
}

/// Texts of a cluster that expressions use, by their keys.
pub(crate) fn inputs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": crate::overrides::INPUTS_MAX,
        "additionalProperties": { "type": "string", "maxLength": VALUE_MAX },
    })
}

/// Values of a member, by their keys. A schema cannot bound the keys of a map, so a rule does.
pub(crate) fn values(_: &mut SchemaGenerator) -> Schema {
    let check = format!("self.all(key, size(key) <= {LABEL_MAX} && key.matches('{CONFIG_KEY}'))");
    let message = "use keys of at most 63 letters, digits, '-', '_' and '.'";
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": VALUE_MAX },
        "x-kubernetes-validations": rule(&check, message),
    })
}

const LABEL_KEY_MAX: usize = SUBDOMAIN_MAX + 1 + LABEL_MAX;
const LABEL_KEY_MESSAGE: &str = "use a label key: an optional DNS name and '/', then at most 63 letters, digits, \
                                 '-', '_' and '.', beginning and ending with a letter or digit";
const LABEL_VALUE_MESSAGE: &str = "use a label value: letters, digits, '-', '_' and '.', beginning and ending with \
                                   a letter or digit, or nothing at all";

fn label_value() -> Value {
    checked_string(LABEL_MAX, LABEL_VALUE, LABEL_VALUE_MESSAGE)
}

/// The key of a label in a selector.
pub(crate) fn label_key(_: &mut SchemaGenerator) -> Schema {
    from_value(checked_string(LABEL_KEY_MAX, LABEL_KEY, LABEL_KEY_MESSAGE))
}

/// The values that a requirement compares with.
pub(crate) fn label_values(_: &mut SchemaGenerator) -> Schema {
    atomic_list(LABEL_VALUES_MAX, label_value())
}

/// Labels that must be equal. A schema cannot bound the keys of a map, so a rule does.
pub(crate) fn match_labels(_: &mut SchemaGenerator) -> Schema {
    let check = format!("self.all(key, size(key) <= {LABEL_KEY_MAX} && key.matches('{LABEL_KEY}'))");
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": label_value(),
        "x-kubernetes-validations": rule(&check, LABEL_KEY_MESSAGE),
    })
}

/// Conditions as `metav1.Condition` describes them, keyed by type.
/// Source of names and formats: k8s.io/apimachinery/pkg/apis/meta/v1/types.go, type Condition.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the object's state.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": { "type": "string", "maxLength": 316, "description": "What the condition is about." },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether it holds: True, False or Unknown.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why, in one CamelCase word for programs.",
                },
                "message": {
                    "type": "string",
                    "maxLength": crate::condition::CONDITION_MESSAGE_MAX,
                    "description": "Why, in a sentence for people.",
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "The metadata.generation that the condition speaks of.",
                },
            },
        },
    })
}
