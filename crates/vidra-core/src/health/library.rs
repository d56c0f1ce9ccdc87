//! The rules that the hub ships: one file a project, rules and the cases that prove them side by side.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::rule::{RuleText, Scope};
use super::rules::{RuleSet, Rules};

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

static SHIPPED: LazyLock<Arc<Rules>> = LazyLock::new(|| {
    let texts = FILES.iter().flat_map(|(_, file)| texts(file));
    Arc::new(Rules::lazy(texts.filter_map(|text| Some((scope(text)?, hash(text), || read(text))))))
});

/// All shipped rules. Each is read when an object of its scope is judged first: to read all takes 30 ms, and a member has few
/// of their kinds.
pub fn rules() -> Arc<Rules> {
    SHIPPED.clone()
}

/// They alone.
pub fn rule_set() -> RuleSet {
    RuleSet::new(Arc::default(), Arc::default(), rules())
}

/// The rules of one file, without what proves them.
pub fn entries(name: &str, file: &'static str) -> Vec<(String, RuleText)> {
    let place = |nth| format!("{name}.yaml, rules[{nth}]");
    texts(file).enumerate().map(|(nth, text)| (place(nth), read(text))).collect()
}

/// The text of each rule of a file, without its cases, which come last and are most of it.
fn texts(file: &'static str) -> impl Iterator<Item = &'static str> {
    let rules = file.split("\n- ").skip(1);
    rules.map(|rule| rule.split_once("\n  cases:").map_or(rule, |(text, _)| text))
}

/// What a rule is about, which its first two lines say.
fn scope(text: &str) -> Option<Scope> {
    let mut lines = text.lines();
    let api_version = lines.next()?.strip_prefix("apiVersion: ")?.trim_matches(['"', '\'']).to_owned();
    let kind = lines.next().and_then(|line| line.strip_prefix("  kind: ")).map(str::to_owned);
    RuleText { api_version, kind, ..RuleText::default() }.scope().ok()
}

/// Of what it says: its source and what is remarked beside it are no part of that.
pub(super) fn hash(text: &str) -> [u8; 32] {
    let says = text.lines().filter(|line| !line.starts_with("  #") && !line.starts_with("  source:"));
    says.fold(Sha256::new(), |hash, line| hash.chain_update(line).chain_update("\n")).finalize().into()
}

/// Reads the text of one rule. One that cannot be read is a rule that cannot be used; a test holds the files to none.
fn read(text: &str) -> RuleText {
    let read = || {
        let [mut rule] = serde_saphyr::from_str::<[Map<String, Value>; 1]>(&format!("- {text}")).ok()?;
        rule.remove("source");
        serde_json::from_value(Value::Object(rule)).ok()
    };
    let fault = || RuleText { fault: Some("its file cannot be read".to_owned()), ..RuleText::default() };
    read().unwrap_or_else(fault)
}
