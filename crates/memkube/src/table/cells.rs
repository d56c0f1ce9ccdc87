//! What a column of a built-in kind shows: the functions that many kinds share.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, age_of, pod, special};

/// The cell of a function with its arguments; none where there is no such function.
pub(super) fn cell(function: &str, arguments: &[&str], object: &Value, now: Timestamp) -> Option<Value> {
    let argument = |number: usize| arguments.get(number).copied().unwrap_or_default();
    let found = at(object, argument(0));
    let or = |text: String, number: usize| json!(if text.is_empty() { argument(number) } else { &text });
    Some(match function {
        "age" => age_of(&object["metadata"]["creationTimestamp"], now),
        "since" => or(age::since(found, now).unwrap_or_default(), 1),
        "text" => or(text(found), 1),
        "trimmed" => json!(text(found).trim()),
        "first" => or(text(&found[0][argument(1)]), 2),
        "number" => json!(found.as_i64().unwrap_or_default()),
        "flag" => json!(*found == true),
        "truth" => json!(if *found == true { "True" } else { "False" }),
        "length" => json!(found.as_array().map_or(0, Vec::len)),
        "count" => {
            let maps = arguments.iter().filter_map(|path| at(object, path).as_object());
            json!(maps.map(serde_json::Map::len).sum::<usize>())
        }
        "ratio" => {
            let number = |number: usize| at(object, argument(number)).as_i64().unwrap_or_default();
            json!(format!("{}/{}", number(0), number(1)))
        }
        "join" => json!(join(found, ",", |item| text(&item[argument(1)]))),
        "labels" => or_none(&labels(found)),
        "selector" => or_none(&selector(found)),
        // The rest, where there is something at this path.
        "where" if text(found).is_empty() => json!(""),
        "where" => return cell(argument(1), arguments.get(2..).unwrap_or_default(), object, now),
        "pod" => pod::cell(argument(0), object, now)?,
        _ => return special::cell(function, argument(0), object, now),
    })
}

/// The value at a dotted path; of names without dots only.
pub(super) fn at<'v>(object: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(object, |value, field| &value[field])
}

/// A scalar as it is printed; nothing of null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub(super) fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

pub(super) fn join(list: &Value, between: &str, of: impl Fn(&Value) -> String) -> String {
    list.as_array().into_iter().flatten().map(of).collect::<Vec<_>>().join(between)
}

fn labels(map: &Value) -> String {
    let all = map.as_object().into_iter().flatten();
    all.map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(",")
}

/// A label selector as it is written on a command line.
fn selector(selector: &Value) -> String {
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|one| {
        let key = text(&one["key"]);
        let values = join(&one["values"], ",", text);
        match one["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key,
        }
    });
    let equal = Some(labels(&selector["matchLabels"])).filter(|labels| !labels.is_empty());
    equal.into_iter().chain(expressions).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_on_a_command_line() {
        let expressions = json!([
            {"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "d", "operator": "NotIn", "values": ["e"]},
            {"key": "f", "operator": "Exists"}, {"key": "g", "operator": "DoesNotExist"},
        ]);
        let table = [
            (json!({}), ""),
            (json!({"matchLabels": {"x": "y"}}), "x=y"),
            (
                json!({"matchLabels": {"x": "y"}, "matchExpressions": expressions}),
                "x=y,a in (b,c),d notin (e),f,!g",
            ),
        ];
        for (given, wanted) in table {
            assert_eq!(selector(&given), wanted);
        }
    }
}
