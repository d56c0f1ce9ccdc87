//! `kubectl vidra health`.

use serde_json::Value;
use vidra_core::health::{library, rules::RuleSet};
use vidra_core::manifest;

use super::file;
use crate::arguments::{Format, HealthFlags};
use crate::error::Failure;
use crate::output::{complain, print};
use crate::report::health::Report;
use crate::report::rules;
use crate::{DONE, Ended, OTHERWISE};

/// Judges the objects of files.
///
/// # Errors
/// A file cannot be read, or a rule cannot be used.
pub fn run(flags: &HealthFlags) -> Ended {
    let rules = rule_set(flags)?;
    let objects = objects(flags)?;
    let report = Report::of(&objects, &rules, flags.age);
    print(&match flags.output {
        Format::Table => report.text(false),
        Format::Wide => report.text(true),
        Format::Json => crate::text::json(&report.value()),
        Format::Yaml => crate::text::yaml(&report.value()),
    })?;
    Ok(if report.is_as_required(&flags.require) { DONE } else { OTHERWISE })
}

fn rule_set(flags: &HealthFlags) -> Result<RuleSet, Failure> {
    let Some(path) = &flags.rules else { return Ok(library::rule_set()) };
    let (set, warnings) = rules::read(&file::name(path), &file::text(path)?).map_err(Failure::Input)?;
    for warning in warnings {
        complain(&format!("warning: {}", crate::text::clean(&warning)));
    }
    Ok(set)
}

/// All objects of all files, in their order.
fn objects(flags: &HealthFlags) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for path in &flags.files {
        let name = file::name(path);
        let before = all.len();
        let unfit = |error: manifest::ManifestError| Failure::Input(error.to_string());
        for (place, document) in manifest::documents(&name, &file::text(path)?).map_err(unfit)? {
            all.extend(manifest::live_objects(place, document).map_err(unfit)?);
        }
        if all.len() == before {
            let what = "holds no object; name a file with objects as kubectl get -o yaml prints them";
            return Err(Failure::Input(format!("{name} {what}")));
        }
    }
    Ok(all)
}
