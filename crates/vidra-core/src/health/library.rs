//! The rules that the hub ships: one file a project, rules and the cases that prove them side by side.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::rule::RuleText;
use super::rules::{Origin, Problem, RuleSet, Rules};

/// The name and the text of each file.
macro_rules! files {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("library/", $name, ".yaml"))),)*]
    };
}

/// The name of each project, and the text of its file.
pub const FILES: &[(&str, &str)] = files![
    "3scale",
    "actions-runner-controller",
    "airlock",
    "argo-cd",
    "argo-rollouts",
    "argo-workflows",
    "aws-controllers-k8s",
    "awx",
    "cassandra",
    "cert-manager",
    "clickhouse",
    "cloudnative-pg",
    "cluster-api",
    "config-connector",
    "contour",
    "crossplane",
    "elastic",
    "external-secrets",
    "flagger",
    "flink",
    "flux",
    "gatekeeper",
    "gateway-api",
    "gitops-promoter",
    "gloo",
    "grafana",
    "humio",
    "iam-manager",
    "istio-operator",
    "jaeger",
    "karmada",
    "karpenter",
    "keda",
    "keycloak",
    "knative",
    "koperator",
    "kruise",
    "kserve",
    "kubeflow",
    "kubevirt",
    "kueue",
    "kyverno",
    "longhorn",
    "mariadb-operator",
    "metal3",
    "minio",
    "mongodb-community",
    "nmstate",
    "numaflow",
    "numaplane",
    "olm",
    "open-cluster-management-policies",
    "openshift",
    "opentelemetry",
    "percona-postgresql-operator",
    "percona-server-mongodb-operator",
    "percona-server-mysql-operator",
    "percona-xtradb-cluster-operator",
    "proclaim",
    "prometheus-operator",
    "rabbitmq",
    "ray",
    "redis",
    "rook",
    "sealed-secrets",
    "solr",
    "spark",
    "spinkube",
    "strimzi",
    "tekton",
    "tigera",
    "trident",
    "velero",
    "victoriametrics",
    "volcano",
    "zalando-postgres-operator",
];

static SHIPPED: LazyLock<Arc<Rules>> = LazyLock::new(|| Arc::new(load().0));

/// All shipped rules, read once in a process.
pub fn rules() -> Arc<Rules> {
    SHIPPED.clone()
}

/// They alone.
pub fn rule_set() -> RuleSet {
    RuleSet::new(Arc::default(), Arc::default(), rules())
}

/// Reads them, and tells what is wrong; a test holds the files to nothing.
pub(super) fn load() -> (Rules, Vec<Problem>) {
    let texts: Vec<_> = FILES.iter().flat_map(|(name, text)| entries(name, text)).collect();
    Rules::read(Origin::Shipped, texts.iter().map(|(place, text)| (place.clone(), text)), &Rules::default())
}

/// The rules of one file, without what proves them. One that cannot be read is left out: the test counts them.
pub fn entries(name: &str, text: &str) -> Vec<(String, RuleText)> {
    let file: Value = serde_saphyr::from_str(&without_cases(text)).unwrap_or_default();
    let rules = file["rules"].as_array().into_iter().flatten().enumerate();
    let read = |(nth, rule): (usize, &Value)| {
        let mut rule = rule.as_object()?.clone();
        rule.retain(|field, _| field != "source");
        Some((format!("{name}.yaml, rules[{nth}]"), serde_json::from_value(Value::Object(rule)).ok()?))
    };
    rules.filter_map(read).collect()
}

/// A file without its cases, which are most of it: each process reads the rules when it starts.
fn without_cases(text: &str) -> String {
    let mut is_kept = true;
    let kept = text.split_inclusive('\n').filter(|line| {
        is_kept = line.starts_with("- ") || is_kept && line.trim_end() != "  cases:";
        is_kept
    });
    kept.collect()
}
