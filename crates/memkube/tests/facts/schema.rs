//! What a CRD's schema refuses: each line of `schema.json` on every bed, and rules in CEL.

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{At, everywhere};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Deserialize)]
struct Row {
    /// Of the field that the value is given to: `spec.x`.
    schema: Value,
    value: Value,
    /// What the field was before; without, the object is made.
    #[serde(default)]
    before: Value,
    /// Reason and field of each cause; none where the value is taken.
    #[serde(default)]
    causes: Vec<(String, String)>,
    /// The release of Kubernetes that first refuses it, 36 for 1.36; older ones take it.
    #[serde(default)]
    since: u32,
}

/// A CRD of the namespace's own group with this schema of `spec`.
fn crd(at: &At, plural: &str, spec: &Value) -> Value {
    let group = format!("{}.schema.dev", at.namespace);
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": plural, "listKind": "L"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Reasons after which no rule is run; with rules anywhere in the CRD the server says that.
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// Reason and field of each cause.
fn causes(status: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = status["details"]["causes"].as_array().into_iter().flatten();
    let mut all: Vec<_> = all.map(|cause| (text(&cause["reason"]), text(&cause["field"]))).collect();
    all.sort();
    all
}

#[test]
fn values_are_held_to_their_schemas() -> Result<()> {
    let rows: Vec<Row> = serde_json::from_str(include_str!("schema.json"))?;
    everywhere(|at| async {
        let at = at;
        // A field for each schema: a CRD for each would take the real server long.
        let mut fields = Map::new();
        for (index, row) in rows.iter().enumerate() {
            fields.insert(format!("x{index}"), row.schema.clone());
        }
        let crd = crd(&at, "things", &json!({"type": "object", "properties": fields}));
        let (code, made) = at.bed.call("POST", CRDS, "application/json", crd.to_string()).await?;
        ensure!(code == 201, "{made}");
        let group = crd["spec"]["group"].as_str().unwrap_or_default();
        let things = format!("apis/{group}/v1/things");
        let all = at.path(&things, "");
        let all = all.trim_end_matches('/');
        at.bed.wait(all).await?;
        let object = |name: &str, index: usize, value: &Value| {
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name},
                "spec": {format!("x{index}"): value},
            })
        };
        let mut differing = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let name = format!("thing-{index}");
            let (code, answer) = if row.before.is_null() {
                let body = object(&name, index, &row.value).to_string();
                at.bed.call("POST", &format!("{all}?dryRun=All"), "application/json", body).await?
            } else {
                let made = at.create(&things, &object(&name, index, &row.before)).await?;
                let mut body = object(&name, index, &row.value);
                body["metadata"] = made["metadata"].clone();
                at.bed.call("PUT", &format!("{all}/{name}"), "application/json", body.to_string()).await?
            };
            let refused = if at.bed.is_since(row.since) { &row.causes[..] } else { &[] };
            let wanted = refused
                .iter()
                .map(|(reason, field)| (reason.clone(), field.replace("spec.x", &format!("spec.x{index}"))));
            let mut wanted: Vec<_> = wanted.collect();
            if wanted.iter().any(|(reason, _)| BLOCKING.contains(&reason.as_str())) {
                wanted.push(("FieldValueInvalid".to_owned(), "<nil>".to_owned()));
            }
            wanted.sort();
            let fits = if wanted.is_empty() { code < 300 } else { code == 422 && causes(&answer) == wanted };
            if !fits {
                let found = causes(&answer);
                differing.push(format!(
                    "{} {}: {code} {found:?} {}, and not {wanted:?}",
                    row.schema, row.value, answer["message"]
                ));
            }
        }
        let path = format!("{CRDS}/things.{group}");
        at.bed.call("DELETE", &path, "application/json", String::new()).await?;
        ensure!(differing.is_empty(), "{}", differing.join("\n"));
        Ok(())
    })
}

#[test]
fn a_crd_whose_rules_cannot_be_used_is_refused() -> Result<()> {
    everywhere(|at| async move {
        let rules = [
            "self.a +",
            "self.b == 'x'",
            "other == 1",
            "frobnicate(self.a)",
            "self.a.matches('(')",
            "self.m.name == 'x'",
        ];
        for rule in rules {
            let schema = json!({
                "type": "object",
                "properties": {
                    "a": {"type": "string", "maxLength": 10},
                    "m": {"type": "object", "properties": {"x": {"type": "string"}}},
                },
                "x-kubernetes-validations": [{"rule": rule}],
            });
            let crd = crd(&at, "rules", &schema);
            let path = format!("{CRDS}?dryRun=All");
            let (code, answer) = at.bed.call("POST", &path, "application/json", crd.to_string()).await?;
            let fields: Vec<_> = causes(&answer).into_iter().map(|(_, field)| field).collect();
            let here = fields.iter().any(|field| field.ends_with("x-kubernetes-validations[0].rule"));
            ensure!(code == 422 && here, "{rule}: {code} {answer}");
        }
        let open = json!({"type": "string", "pattern": "("});
        let crd = crd(&at, "rules", &open);
        let path = format!("{CRDS}?dryRun=All");
        let (code, answer) = at.bed.call("POST", &path, "application/json", crd.to_string()).await?;
        ensure!(code == 422, "a pattern that is none: {code} {answer}");
        Ok(())
    })
}
