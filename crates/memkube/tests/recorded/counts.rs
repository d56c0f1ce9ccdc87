//! How many sequences hold a request of each verb, patch type, scope and subresource that the server did, and
//! of each sort of wrong request.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use crate::steps::Step;
use crate::wrong::SORTS;

/// Sequences that each must be in.
const LEAST: usize = 20;
/// Sequences that each sort of wrong request must be in.
const LEAST_WRONG: usize = 3;

/// Verb or patch type, scope, subresource.
type Cell = (&'static str, &'static str, &'static str);

/// What the real server always refuses: the only cluster-scoped kinds with scale are custom ones.
const NEVER_DONE: [Cell; 2] = [("apply", "cluster", "scale"), ("strategic", "cluster", "scale")];

fn cell(step: &Step) -> Option<Cell> {
    let verb = match step.method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "MERGE" => "merge",
        "JSON" => "json",
        "STRATEGIC" => "strategic",
        "APPLY" => "apply",
        "DELETE" => "delete",
        "DELETECOLLECTION" => "deletecollection",
        "GET" => "get",
        "LIST" => "list",
        "WATCH" => "watch",
        _ => return None,
    };
    let path = step.path.split('?').next().unwrap_or_default();
    let scope = if path.contains("/namespaces/{ns}/") { "namespaced" } else { "cluster" };
    let subresource = match path.rsplit('/').next() {
        Some("status") => "status",
        Some("scale") => "scale",
        _ => "",
    };
    Some((verb, scope, subresource))
}

fn was_done(step: &Step) -> bool {
    step.answer["events"].is_array() || matches!(step.answer["code"].as_u64(), Some(200..=299))
}

/// Each verb in each scope, and where it is there, through each subresource.
fn wanted() -> Vec<Cell> {
    let mut cells = Vec::new();
    for scope in ["namespaced", "cluster"] {
        for verb in ["create", "delete", "deletecollection", "list", "watch"] {
            cells.push((verb, scope, ""));
        }
        for subresource in ["", "status", "scale"] {
            for verb in ["update", "merge", "json", "strategic", "apply", "get"] {
                cells.push((verb, scope, subresource));
            }
        }
    }
    cells
}

/// Fails with all that are too few.
pub fn enough(sequences: &[Vec<Step>]) -> Result<()> {
    let mut cells: BTreeMap<Cell, usize> = wanted().into_iter().map(|cell| (cell, 0)).collect();
    let mut sorts: BTreeMap<&str, usize> = SORTS.into_iter().map(|sort| (sort, 0)).collect();
    sorts.insert("expired-continue", 0);
    for steps in sequences {
        let counts = |(step, cell): &(&Step, Cell)| was_done(step) || NEVER_DONE.contains(cell);
        let done = steps.iter().filter_map(|step| Some((step, cell(step)?))).filter(counts);
        let done: BTreeSet<Cell> = done.map(|(_, cell)| cell).collect();
        for cell in done {
            if let Some(count) = cells.get_mut(&cell) {
                *count += 1;
            }
        }
        let wrong: BTreeSet<&str> = steps.iter().map(|step| step.sort.as_str()).collect();
        for sort in wrong {
            if let Some(count) = sorts.get_mut(sort) {
                *count += 1;
            }
        }
    }
    cells.retain(|_, count| *count < LEAST);
    sorts.retain(|_, count| *count < LEAST_WRONG);
    ensure!(cells.is_empty() && sorts.is_empty(), "too few sequences: {cells:?} {sorts:?}");
    Ok(())
}
