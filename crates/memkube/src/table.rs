//! Tables (`application/json;as=Table;v=v1;g=meta.k8s.io`): what `kubectl get` prints. Some built-in kinds
//! have the columns of the real server, custom resources those of their CRD, all others name and age.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;

/// Does the `Accept` header take a table?
pub(super) fn wanted(accept: &str) -> bool {
    let mut types = accept.split(',').map(|one| one.split(';').map(str::trim).collect::<Vec<_>>());
    types.any(|one| ["as=Table", "v=v1", "g=meta.k8s.io"].iter().all(|part| one.contains(part)))
}

/// Columns of built-in kinds: name, type, priority.
type Column = (&'static str, &'static str, i64);

fn columns(kind: &Kind) -> &'static [Column] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ConfigMap") => &[("Data", "string", 0), ("Age", "string", 0)],
        ("", "Secret") => &[("Type", "string", 0), ("Data", "string", 0), ("Age", "string", 0)],
        ("", "Namespace") => &[("Status", "string", 0), ("Age", "string", 0)],
        ("", "Service") => &[
            ("Type", "string", 0),
            ("Cluster-IP", "string", 0),
            ("External-IP", "string", 0),
            ("Port(s)", "string", 0),
            ("Age", "string", 0),
            ("Selector", "string", 1),
        ],
        ("apps", "Deployment") => &[
            ("Ready", "string", 0),
            ("Up-to-date", "string", 0),
            ("Available", "string", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
            ("Selector", "string", 1),
        ],
        ("", "Pod") => &[
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            ("Age", "string", 0),
            ("IP", "string", 1),
            ("Node", "string", 1),
            ("Nominated Node", "string", 1),
            ("Readiness Gates", "string", 1),
        ],
        _ => &[("Age", "string", 0)],
    }
}

fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let age = json!(since(&object["metadata"]["creationTimestamp"], now));
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |fields: &[&str]| -> usize {
        fields.iter().filter_map(|field| object[*field].as_object()).map(serde_json::Map::len).sum()
    };
    let number = |value: &Value| json!(value.as_i64().unwrap_or_default());
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ConfigMap") => vec![json!(count(&["data", "binaryData"])), age],
        ("", "Secret") => vec![object["type"].clone(), json!(count(&["data"])), age],
        ("", "Namespace") => vec![status["phase"].clone(), age],
        ("", "Service") => vec![
            spec["type"].clone(),
            or_none(spec["clusterIP"].as_str().unwrap_or_default()),
            external(object),
            or_none(&join(&spec["ports"], port)),
            age,
            or_none(&labels(&spec["selector"])),
        ],
        ("apps", "Deployment") => {
            let containers = &spec["template"]["spec"]["containers"];
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            vec![
                json!(ready),
                number(&status["updatedReplicas"]),
                number(&status["availableReplicas"]),
                age,
                json!(join(containers, |one| text(&one["name"]))),
                json!(join(containers, |one| text(&one["image"]))),
                or_none(&labels(&spec["selector"]["matchLabels"])),
            ]
        }
        ("", "Pod") => {
            let states = status["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ready = states.iter().filter(|one| one["ready"] == true).count();
            let all = spec["containers"].as_array().map_or(0, Vec::len);
            let restarts: i64 = states.iter().filter_map(|one| one["restartCount"].as_i64()).sum();
            let waiting = states.iter().find_map(|one| one["state"]["waiting"]["reason"].as_str());
            let phase = match object["metadata"]["deletionTimestamp"] {
                Value::Null => json!(waiting.map_or_else(|| text(&status["phase"]), str::to_owned)),
                _ => json!("Terminating"),
            };
            vec![
                json!(format!("{ready}/{all}")),
                phase,
                json!(restarts.to_string()),
                age,
                or_none(&text(&status["podIP"])),
                or_none(&text(&spec["nodeName"])),
                or_none(&text(&status["nominatedNodeName"])),
                json!("<none>"),
            ]
        }
        _ => vec![age],
    }
}

/// A table of objects; of a watch only the first bears the columns.
pub(super) fn of(
    kind: &Kind,
    objects: &[Value],
    metadata: Value,
    head: bool,
    include: &str,
    now: Timestamp,
) -> Value {
    let printed = kind.custom().map(|custom| custom.columns.as_slice()).unwrap_or_default();
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": "Name must be unique within a namespace.",
    });
    let mut head_columns = vec![name];
    if printed.is_empty() {
        head_columns.extend(columns(kind).iter().map(|(name, of, priority)| {
            json!({"name": name, "type": of, "format": "", "description": "", "priority": priority})
        }));
    }
    head_columns.extend(printed.iter().map(|column| {
        let text = |field: &str| text(&column[field]);
        json!({
            "name": text("name"), "type": text("type"), "format": text("format"),
            "description": text("description"), "priority": column["priority"].as_i64().unwrap_or_default(),
        })
    }));
    let row = |object: &Value| {
        let mut cells_of = vec![object["metadata"]["name"].clone()];
        if printed.is_empty() {
            cells_of.extend(cells(kind, object, now));
        }
        cells_of.extend(printed.iter().map(|column| cell(column, object, now)));
        let mut row = json!({"cells": cells_of});
        match include {
            "None" => {}
            "Object" => row["object"] = kind.view(object),
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
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": if head { Value::Array(head_columns) } else { json!([]) }, "rows": rows,
    })
}

/// A CRD's column.
fn cell(column: &Value, object: &Value, now: Timestamp) -> Value {
    let found = at(object, column["jsonPath"].as_str().unwrap_or_default());
    match column["type"].as_str() {
        _ if found.is_null() => Value::Null,
        Some("date") => json!(since(found, now)),
        Some("string") if !found.is_string() => json!(found.to_string()),
        _ => found.clone(),
    }
}

/// What a simple JSON path leads to: fields, `['quoted']` ones, indexes, and `[?(@.field=="value")]`.
fn at<'v>(object: &'v Value, path: &str) -> &'v Value {
    let (mut value, mut rest) = (object, path.trim());
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some((step, after)) = inner.split_once(']') else { return &Value::Null };
            value = index(value, step);
            rest = after;
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let mut name = String::new();
        let mut letters = rest.char_indices().peekable();
        let mut end = rest.len();
        while let Some((here, letter)) = letters.next() {
            match letter {
                '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
                '.' | '[' => {
                    end = here;
                    break;
                }
                letter => name.push(letter),
            }
        }
        if name.is_empty() {
            return &Value::Null;
        }
        value = &value[name.as_str()];
        rest = &rest[end..];
    }
    value
}

fn index<'v>(value: &'v Value, step: &str) -> &'v Value {
    let unquoted = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    if let Some(filter) = step.strip_prefix("?(@.").and_then(|filter| filter.strip_suffix(')')) {
        let Some((field, wanted)) = filter.split_once("==") else { return &Value::Null };
        let (field, wanted) = (field.trim(), unquoted(wanted));
        let mut items = value.as_array().into_iter().flatten();
        return items.find(|item| text(at(item, field)) == wanted).unwrap_or(&Value::Null);
    }
    match step.parse::<usize>() {
        Ok(number) => &value[number],
        Err(_) => &value[unquoted(step).as_str()],
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn join(list: &Value, of: impl Fn(&Value) -> String) -> String {
    list.as_array().into_iter().flatten().map(of).collect::<Vec<_>>().join(",")
}

fn labels(map: &Value) -> String {
    let all = map.as_object().into_iter().flatten();
    all.map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(",")
}

fn port(port: &Value) -> String {
    let protocol = text(&port["protocol"]);
    match port["nodePort"].as_i64() {
        Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
        _ => format!("{}/{protocol}", port["port"]),
    }
}

fn external(service: &Value) -> Value {
    let spec = &service["spec"];
    match spec["type"].as_str() {
        Some("ExternalName") => spec["externalName"].clone(),
        Some("LoadBalancer") => {
            let found = join(&service["status"]["loadBalancer"]["ingress"], |one| text(&one["ip"]));
            json!(if found.is_empty() { "<pending>" } else { found.as_str() })
        }
        _ => or_none(&join(&spec["externalIPs"], text)),
    }
}

/// The time since a moment, as apimachinery's `duration.HumanDuration` writes it.
fn since(moment: &Value, now: Timestamp) -> String {
    let Some(from) = moment.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "<unknown>".to_owned();
    };
    human(now.as_second() - from.as_second())
}

fn human(seconds: i64) -> String {
    let two = |first: i64, unit: char, second: i64, small: char| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{small}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_shows_them() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (3600, "60m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600, "9h"),
            (50 * 3600, "2d2h"),
            (30 * 86_400, "30d"),
            (800 * 86_400, "2y70d"),
            (-5, "<invalid>"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn json_paths_of_columns_lead_to_values() {
        let object = json!({
            "spec": {"list": [1, 2]}, "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let table = [
            (".spec.list[1]", json!(2)),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".status.conditions[?(@.type=='A')].status", json!("False")),
            (".metadata.labels.a\\.b/c", json!("x")),
            (".metadata.labels['a.b/c']", json!("x")),
            (".nothing.here", json!(null)),
        ];
        for (path, expected) in table {
            assert_eq!(*at(&object, path), expected, "{path}");
        }
    }
}
