//! One change of a VidraTarget's status in words.

use vidra_api::{Change, ChangeKind, ChangedField};

use crate::text::brief;

/// Longest value in a line.
const VALUE_MAX: usize = 60;
/// Longest path in a line.
const PATH_MAX: usize = 160;

/// `Deployment.apps shop/web`.
pub fn object(change: &Change) -> String {
    named(&change.group, &change.kind, &change.namespace, &change.name)
}

/// The same of its four names.
pub fn named(group: &str, kind: &str, namespace: &str, name: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind}{dot}{group} {namespace}{slash}{name}")
}

/// `Deployment.apps shop/web .spec.replicas 3 -> 5`; of several fields the first, unless `all` is wished.
pub fn what(change: &Change, all: bool) -> String {
    let object = brief(&object(change), 400);
    match change.change {
        ChangeKind::Missing => format!("{object} is missing"),
        ChangeKind::OwnershipLost => format!("{object} has lost the hub's marks"),
        ChangeKind::Extra => format!("{object} bears the hub's labels and is not its own"),
        ChangeKind::Modified => match change.fields.as_slice() {
            [] => format!("{object} is modified"),
            fields if all => {
                format!("{object} {}", fields.iter().map(field).collect::<Vec<_>>().join("; "))
            }
            [first] => format!("{object} {}", field(first)),
            [first, rest @ ..] => {
                let more = crate::text::count(rest.len(), "field");
                format!("{object} {} (and {more} more)", field(first))
            }
        },
    }
}

/// `.spec.replicas 3 -> 5`.
fn field(field: &ChangedField) -> String {
    let value = |value: &Option<String>| match value {
        Some(value) => brief(value, VALUE_MAX),
        None => "nothing".to_owned(),
    };
    format!("{} {} -> {}", brief(&field.path, PATH_MAX), value(&field.expected), value(&field.actual))
}

/// Who did it: `kubectl-edit (Update)`, each once. Empty where nobody is named.
pub fn by(change: &Change) -> String {
    let mut all = Vec::new();
    for field in change.fields.iter().filter(|field| !field.manager.is_empty()) {
        let manager = brief(&field.manager, 128);
        let who = match field.operation.as_str() {
            "" => manager,
            operation => format!("{manager} ({})", brief(operation, 64)),
        };
        if !all.contains(&who) {
            all.push(who);
        }
    }
    all.join(", ")
}
