//! managedFields seen through the `scale` subresource: who owns the number of replicas, and what a write of
//! the Scale makes of it, by the rules of apimachinery's scale handler.

use serde_json::Value;

use super::entry::{Entry, read, write};
use crate::smd::{Element, Path, Set};

/// The version of every Scale.
const SCALE: &str = "autoscaling/v1";

fn fields(path: &[String]) -> (Path, Set) {
    let path: Path = path.iter().map(|name| Element::field(name)).collect();
    let mut set = Set::default();
    set.insert(&path);
    (path, set)
}

fn replicas() -> (Path, Set) {
    fields(&["spec".to_owned(), "replicas".to_owned()])
}

/// Gives the Scale of an object the entries of those who own its number, which is at `path`.
pub(crate) fn show(object: &Value, path: &[String], scale: &mut Value) {
    let (path, _) = fields(path);
    let owners = read(object).into_iter().filter(|entry| entry.fields.contains(&path));
    let shown = owners.map(|entry| Entry { api_version: SCALE.to_owned(), fields: replicas().1, ..entry });
    write(scale, shown.collect());
}

/// Takes the entries of a written Scale over to its object. An Update entry that owned the number before is
/// not known again in the Scale's version: it is cut in two.
pub(crate) fn take(object: &mut Value, path: &[String], scale: &Value, api_version: &str) {
    let (path, number) = fields(path);
    let before = read(object);
    let mut written = read(scale);
    let mut entries = Vec::new();
    for entry in &before {
        if !entry.fields.contains(&path) {
            entries.push(entry.clone());
        } else if written.iter().any(|other| other.is(entry)) {
            written.retain(|other| !other.is(entry));
            entries.push(entry.clone());
        } else {
            entries.push(Entry { fields: entry.fields.difference(&number), ..entry.clone() });
        }
    }
    for entry in written.into_iter().filter(|entry| entry.fields.contains(&replicas().0)) {
        let time = before.iter().find(|other| other.is(&entry)).map(|other| other.time.clone());
        entries.retain(|other| !other.is(&entry));
        let time = time.unwrap_or_default();
        let api_version = api_version.to_owned();
        entries.push(Entry { api_version, fields: number.clone(), time, ..entry });
    }
    write(object, entries);
}
