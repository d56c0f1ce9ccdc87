//! Status feedback: which fields of its objects in members a VidraResource asks for, and what a VidraTarget has of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::health::EXPRESSION_MAX;
use crate::schema;

/// Most rules of one VidraResource.
pub const FEEDBACK_RULES_MAX: usize = 20;
/// Most values of one rule.
pub const FEEDBACK_VALUES_MAX: usize = 10;
/// Most values of one object.
pub const OBJECT_VALUES_MAX: usize = 20;
/// Most objects of a VidraTarget of which values are told.
pub const FEEDBACK_OBJECTS_MAX: usize = 100;
/// Longest value that is a text, in bytes.
pub const TEXT_MAX: usize = 1024;
/// Longest value that is JSON, in bytes.
pub const JSON_MAX: usize = 4096;
/// Longest message about what is left out, in characters.
pub const LEFT_OUT_MAX: usize = 512;

/// Objects of one kind, and what of them comes back to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "self.kind != 'Secret' || self.apiVersion.contains('/')",
    "choose another kind: nothing of a Secret comes back to the hub",
)))]
pub struct FeedbackRule {
    /// The group, with or without a version, which does not count: apps/v1.
    #[schemars(length(min = 1, max = schema::API_VERSION_MAX))]
    pub api_version: String,
    /// The kind.
    #[schemars(length(min = 1, max = schema::LABEL_MAX))]
    pub kind: String,
    /// The name, in whichever namespace it is declared. Unset: all declared objects of the kind, at most 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub name: Option<String>,
    /// What comes back. Unset: what is well known of the kind: desired, updated, ready and available of workloads;
    /// succeeded, failed and active of Jobs; addresses of Services, Ingresses and Gateways; capacity of
    /// PersistentVolumeClaims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FEEDBACK_VALUES_MAX), extend(
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = schema::rule(
            "self.all(one, self.exists_one(other, other.name == one.name))",
            "give each value of a rule another name",
        ),
    ))]
    pub values: Vec<FeedbackExpression>,
}

/// One value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackExpression {
    /// What it is called, once in a rule.
    #[schemars(schema_with = "schema::value_name")]
    pub name: String,
    /// An expression in CEL over the fields of the object, such as status.currentPrimary. Of metadata it sees name,
    /// namespace, labels, annotations, generation and creationTimestamp. Where a field is missing there is no value.
    #[schemars(length(min = 1, max = EXPRESSION_MAX))]
    pub expression: String,
}

/// What came back from a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Feedback {
    /// The objects with their values, in the order of the rules; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FEEDBACK_OBJECTS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub objects: Vec<FeedbackObject>,
    /// How many values and objects are left out, because they are too large or too many. Unset: none.
    #[serde(default, skip_serializing_if = "is_none")]
    #[schemars(range(min = 0))]
    pub left_out: i64,
    /// Why the first of them is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LEFT_OUT_MAX))]
    pub message: Option<String>,
}

impl Feedback {
    /// There is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && is_none(&self.left_out)
    }
}

fn is_none(left_out: &i64) -> bool {
    *left_out == 0
}

/// One object with values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackObject {
    /// The object's API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub group: String,
    /// Its kind.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub kind: String,
    /// Its namespace; empty where its kind lives in none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub name: String,
    /// Its values, in the order of the rules; at most 20.
    #[schemars(length(max = OBJECT_VALUES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<FeedbackValue>,
}

/// One value: its name and one of the other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// What the rule calls it.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub name: String,
    /// A text; several addresses are separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = TEXT_MAX))]
    pub text: Option<String>,
    /// A whole number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// Another number, in decimals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub number: Option<String>,
    /// True or false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// A list or a map, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = JSON_MAX))]
    pub json: Option<String>,
}
