//! Tables (`application/json;as=Table;v=v1;g=meta.k8s.io`): what `kubectl get` prints. Built-in kinds have the
//! columns of the real server (`schemas/columns.txt`), custom resources those of their CRD, all others their
//! name and when they were made.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::store::Object;

mod age;
mod cells;
mod columns;
mod path;
mod pod;
mod special;

use columns::Column;

/// A table of objects; of a watch only the first bears the columns.
pub(super) fn of(
    kind: &Kind,
    objects: &[Object],
    metadata: Value,
    head: bool,
    include: &str,
    now: Timestamp,
) -> Value {
    let columns = columns_of(kind);
    let row = |object: &Object| {
        let cells: Vec<_> = columns.iter().map(|column| column.cell(object, now)).collect();
        let mut row = json!({"cells": cells});
        match include {
            "None" => {}
            "Object" => row["object"] = kind.view(object).into_value(),
            _ => {
                row["object"] = json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": object["metadata"],
                });
            }
        }
        row
    };
    let rows: Vec<_> = objects.iter().map(row).collect();
    let heads: Vec<_> = columns.iter().filter(|_| head).map(Head::shown).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": heads, "rows": rows,
    })
}

/// A column of a kind.
enum Head<'a> {
    Name,
    BuiltIn(&'a Column),
    /// One of a CRD's `additionalPrinterColumns`.
    Printed(&'a Value),
    Age,
    CreatedAt,
}

fn columns_of(kind: &Kind) -> Vec<Head<'_>> {
    let built_in = columns::of(&kind.group, &kind.kind);
    if !built_in.is_empty() {
        let named = built_in.iter().any(|column| column.name == "Name");
        let name = (!named).then_some(Head::Name);
        return name.into_iter().chain(built_in.iter().map(Head::BuiltIn)).collect();
    }
    let printed = kind.custom().map(|custom| custom.columns.as_slice()).unwrap_or_default();
    if !printed.is_empty() {
        return std::iter::once(Head::Name).chain(printed.iter().map(Head::Printed)).collect();
    }
    vec![Head::Name, if kind.is_custom() { Head::Age } else { Head::CreatedAt }]
}

impl Head<'_> {
    fn shown(&self) -> Value {
        let shown = |name: &str, of: &str, format: &str, description: &str, priority: i64| {
            json!({
                "name": name, "type": of, "format": format, "description": description, "priority": priority,
            })
        };
        match self {
            Head::Name => shown("Name", "string", "name", "Name must be unique within a namespace.", 0),
            Head::BuiltIn(Column { name, of, wide, .. }) => {
                let format = if *name == "Name" { "name" } else { "" };
                shown(name, of, format, "", i64::from(*wide))
            }
            Head::Printed(column) => {
                let text = |field: &str| column[field].as_str().unwrap_or_default();
                let priority = column["priority"].as_i64().unwrap_or_default();
                shown(text("name"), text("type"), text("format"), text("description"), priority)
            }
            Head::Age => shown("Age", "date", "", "", 0),
            Head::CreatedAt => shown("Created At", "date", "", "", 0),
        }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let metadata = &object["metadata"];
        match self {
            Head::Name => metadata["name"].clone(),
            Head::BuiltIn(column) => column.cell(object, now),
            Head::Printed(column) => printed(column, object, now),
            Head::Age => age_of(&metadata["creationTimestamp"], now),
            Head::CreatedAt => metadata["creationTimestamp"].clone(),
        }
    }
}

fn age_of(moment: &Value, now: Timestamp) -> Value {
    json!(age::since(moment, now).unwrap_or_else(|| "<unknown>".to_owned()))
}

/// The cell of a CRD's column.
fn printed(column: &Value, object: &Value, now: Timestamp) -> Value {
    let Some(found) = path::first(object, column["jsonPath"].as_str().unwrap_or_default()) else {
        return Value::Null;
    };
    match column["type"].as_str() {
        Some("date") => age_of(found, now),
        Some("string") => json!(cells::text(found)),
        _ => found.clone(),
    }
}
