//! A label selector with bounds: the fields of `metav1.LabelSelector`, whose own schema has none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Selects by labels. All of matchLabels and matchExpressions must hold; an empty selector selects
/// everything. Source: k8s.io/apimachinery/pkg/apis/meta/v1/types.go, type LabelSelector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::match_labels")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 \
     : !has(self.values) || size(self.values) == 0",
    "give In and NotIn at least one entry in values, and Exists and DoesNotExist none",
)))]
pub struct LabelSelectorRequirement {
    /// The label's key.
    #[schemars(schema_with = "schema::label_key")]
    pub key: String,
    /// In: the label has one of the values. NotIn: it has none of them, or is missing. Exists: it is
    /// there. DoesNotExist: it is missing.
    pub operator: SelectorOperator,
    /// The values to compare with; for In and NotIn only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::label_values")]
    pub values: Vec<String>,
}

/// How a requirement compares. Source: k8s.io/apimachinery/pkg/apis/meta/v1/types.go,
/// LabelSelectorOperator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// The label is there with one of the values.
    In,
    /// The label is missing, or has none of the values.
    NotIn,
    /// The label is there.
    #[default]
    Exists,
    /// The label is missing.
    DoesNotExist,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_selector_is_an_empty_object_and_reads_back() {
        let selector: LabelSelector = serde_json::from_str("{}").unwrap();
        assert_eq!(selector, LabelSelector::default());
        assert_eq!(serde_json::to_string(&selector).unwrap(), "{}");
    }

    #[test]
    fn a_selector_reads_as_kubernetes_writes_it() {
        let text = r#"{"matchLabels":{"env":"prod"},"matchExpressions":[{"key":"tier","operator":"NotIn","values":["db"]}]}"#;
        let selector: LabelSelector = serde_json::from_str(text).unwrap();
        assert_eq!(selector.match_labels["env"], "prod");
        assert_eq!(selector.match_expressions[0].operator, SelectorOperator::NotIn);
        assert_eq!(serde_json::to_string(&selector).unwrap(), text);
    }
}
