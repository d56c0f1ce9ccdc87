//! Objects of a file, each with the verdict that the hub would give.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use vidra_core::health::facts::{Facts, KindFacts};
use vidra_core::health::rules::{Match, Origin, RuleSet};
use vidra_core::health::{Basis, Health, HealthStatus, Subject};

use crate::table::table;
use crate::text::{brief, clean};

/// One object with its verdict.
#[derive(Clone, Debug)]
struct Row {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    health: Health,
    /// The health rule that decided, if one did.
    rule: Option<String>,
    /// The rule is one of those that the hub ships.
    is_shipped: bool,
    /// Its expressions that counted as not true, with why.
    undefined: Vec<(&'static str, String)>,
}

impl Row {
    fn of(object: &Value, rules: &RuleSet, facts: &Facts) -> Self {
        let subject = Subject::new(object, rules);
        let verdict = subject.judge(facts);
        let found = match &verdict.basis {
            Basis::Rule(found) => Some(found),
            _ => None,
        };
        Row {
            api_version: text(object, "/apiVersion"),
            kind: text(object, "/kind"),
            namespace: Some(text(object, "/metadata/namespace")).filter(|namespace| !namespace.is_empty()),
            name: text(object, "/metadata/name"),
            rule: found.map(rule),
            is_shipped: found.is_some_and(|found| found.origin == Origin::Shipped),
            undefined: found.map(|_| subject.undefined()).unwrap_or_default(),
            health: verdict.health,
        }
    }

    /// `team-a/web`.
    fn place(&self) -> String {
        self.namespace.iter().map(|namespace| format!("{namespace}/")).chain([self.name.clone()]).collect()
    }
}

/// All objects in the order of their files, and what they were judged by.
#[derive(Clone, Debug)]
pub struct Report {
    rows: Vec<Row>,
    digest: String,
}

impl Report {
    /// Judges objects; those of kinds that a CRD among them defines with what that declares. Without an age no wait is
    /// open.
    pub fn of(objects: &[Value], rules: &RuleSet, age: Option<Duration>) -> Report {
        let crds: BTreeMap<_, _> = objects
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
            .map(|crd| ((text(crd, "/spec/group"), text(crd, "/spec/names/kind")), crd))
            .collect();
        let row = |object: &Value| {
            let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            let crd = crds.get(&(group.to_owned(), kind.clone()));
            let declared = crd.map(|crd| KindFacts::of_crd(crd, version)).unwrap_or_default();
            Row::of(object, rules, &Facts { kind: declared, age, ..Facts::default() })
        };
        Report { rows: objects.iter().map(row).collect(), digest: rules.digest() }
    }

    /// Judges objects, each with what is known beside it.
    pub fn with_facts(objects: &[(Value, Facts)], rules: &RuleSet) -> Report {
        let rows = objects.iter().map(|(object, facts)| Row::of(object, rules, facts)).collect();
        Report { rows, digest: rules.digest() }
    }

    /// Whether each object is one of these; any but Failed where there are none.
    pub fn is_as_required(&self, required: &[HealthStatus]) -> bool {
        self.rows.iter().all(|row| match required {
            [] => row.health.status != HealthStatus::Failed,
            required => required.contains(&row.health.status),
        })
    }

    /// For people; with apiVersions and whole messages where it may be wide.
    pub fn text(&self, wide: bool) -> String {
        let mut header = vec!["KIND", "NAMESPACE", "NAME", "HEALTH", "REASON", "RULE", "MESSAGE"];
        if wide {
            header.insert(0, "APIVERSION");
        }
        let rows = self.rows.iter().map(|row| {
            let mut cells = vec![
                row.kind.clone(),
                row.namespace.clone().unwrap_or_default(),
                row.name.clone(),
                row.health.status.to_string(),
                row.health.reason.to_owned(),
                row.rule.clone().unwrap_or_default(),
                brief(&row.health.message, if wide { 400 } else { 80 }),
            ];
            if wide {
                cells.insert(0, row.api_version.clone());
            }
            cells
        });
        format!("{}{}Rules: {}\n", table(&header, rows), self.notes(), self.digest)
    }

    /// A line for each expression that counted as not true of some objects, of a rule that somebody can change.
    fn notes(&self) -> String {
        let mut of = BTreeMap::<_, Vec<&Row>>::new();
        for row in self.rows.iter().filter(|row| !row.is_shipped) {
            for (field, why) in &row.undefined {
                of.entry((&row.rule, field, why)).or_default().push(row);
            }
        }
        let note = |((rule, field, why), rows): ((&Option<String>, &&str, &String), Vec<&Row>)| {
            let (rule, why) = (rule.as_deref().unwrap_or_default(), clean(why));
            let first = rows.first().map(|row| clean(&row.place())).unwrap_or_default();
            let more = match rows.len() {
                0 | 1 => String::new(),
                all => format!(" and {} more", all - 1),
            };
            format!("Note: {field} of {rule} counts as not true for {first}{more}: {why}\n")
        };
        of.into_iter().map(note).collect()
    }

    /// For programs.
    pub fn value(&self) -> Value {
        let objects = self.rows.iter().map(|row| {
            let undefined = row.undefined.iter();
            let undefined = undefined.map(|(field, why)| json!({"expression": field, "message": why}));
            json!({
                "apiVersion": row.api_version, "kind": row.kind, "namespace": row.namespace, "name": row.name,
                "health": row.health.status.to_string(), "reason": row.health.reason,
                "message": row.health.message, "rule": row.rule, "undefined": undefined.collect::<Vec<_>>(),
            })
        });
        json!({"rules": self.digest, "objects": objects.collect::<Vec<_>>()})
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// `cert-manager.io/Certificate (shipped)`.
fn rule(found: &Match<'_>) -> String {
    let origin = match found.origin {
        Origin::Resource => "VidraResource",
        Origin::Fleet => "fleet",
        Origin::Shipped => "shipped",
    };
    format!("{} ({origin})", found.scope)
}
