//! Health rules as a VidraResource writes them: Flux's health check expressions, with what is ours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most rules of one VidraResource.
pub const HEALTH_RULES_MAX: usize = 20;
/// Longest expression in characters.
pub const EXPRESSION_MAX: usize = 1024;

/// How objects of one kind, or of a whole API group, are judged. Expressions are in CEL, over the fields of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.kind) || self.apiVersion.matches('^[^/]*[.]') \
     && !self.apiVersion.matches('^(apiextensions|apiregistration|rbac[.]authorization)[.]k8s[.]io(/|$)')",
    "give a kind, or a group that Kubernetes does not bring: rules without a kind do not count for its own",
)))]
pub struct HealthCheckExpr {
    /// The group, with or without a version, which does not count: cert-manager.io/v1; or a family of groups:
    /// *.crossplane.io.
    #[schemars(schema_with = "schema::rule_api_version")]
    pub api_version: String,
    /// The kind. Unset: all kinds of the group whose status has a field that an expression reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::rule_kind")]
    pub kind: Option<String>,
    /// True of an object that is on its way; asked before failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = EXPRESSION_MAX))]
    pub in_progress: Option<String>,
    /// True of an object that needs help; asked before current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = EXPRESSION_MAX))]
    pub failed: Option<String>,
    /// True of an object that works. Where none of the three is true, it is on its way.
    #[schemars(length(max = EXPRESSION_MAX))]
    pub current: String,
    /// True of an object that somebody has stopped; asked before all else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = EXPRESSION_MAX))]
    pub suspended: Option<String>,
    /// Gives the text that tells why; numbers and times in it are shown as #.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = EXPRESSION_MAX))]
    pub message: Option<String>,
    /// Ignore: an old status.observedGeneration is no matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<ObservedGeneration>,
}

/// What becomes of status.observedGeneration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ObservedGeneration {
    /// It is not asked.
    Ignore,
}
