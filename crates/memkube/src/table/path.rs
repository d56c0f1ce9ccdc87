//! JSON paths of CRDs' columns: what a simple one leads to first.

use serde_json::Value;

use super::cells::text;

/// Fields, `['quoted']` ones, indexes (from the end where negative), `[*]`, and `[?(@.field=="value")]`.
pub(super) fn first<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let path = path.trim();
    if path.is_empty() {
        return Some(value).filter(|value| !value.is_null());
    }
    if let Some(inner) = path.strip_prefix('[') {
        let (step, rest) = inner.split_once(']')?;
        return indexed(value, step, rest);
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let mut name = String::new();
    let mut end = path.len();
    let mut letters = path.char_indices();
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
    if name.is_empty() { None } else { first(value.get(&name)?, &path[end..]) }
}

fn indexed<'v>(value: &'v Value, step: &str, rest: &str) -> Option<&'v Value> {
    let unquoted = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    let mut items = value.as_array().into_iter().flatten();
    if step == "*" {
        return items.find_map(|item| first(item, rest));
    }
    if let Some(filter) = step.strip_prefix("?(@.").and_then(|filter| filter.strip_suffix(')')) {
        let (field, wanted) = filter.split_once("==")?;
        let (field, wanted) = (field.trim(), unquoted(wanted));
        let mut matching = items.filter(|item| first(item, field).is_some_and(|found| text(found) == wanted));
        return matching.find_map(|item| first(item, rest));
    }
    match step.parse::<isize>() {
        Ok(number) => {
            let list = value.as_array()?;
            let place =
                if number < 0 { list.len().checked_add_signed(number)? } else { number.unsigned_abs() };
            first(list.get(place)?, rest)
        }
        Err(_) => first(value.get(unquoted(step))?, rest),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_paths_of_columns_lead_to_values() {
        let object = json!({
            "spec": {"list": [1, 2], "parts": [{"x": 1}, {"name": "b"}]}, "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let table = [
            (".spec.list[1]", json!(2)),
            (".spec.list[-1]", json!(2)),
            (".spec.list[-3]", json!(null)),
            (".spec.list[*]", json!(1)),
            (".spec.parts[*].name", json!("b")),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".status.conditions[?(@.type=='A')].status", json!("False")),
            (".metadata.labels.a\\.b/c", json!("x")),
            (".metadata.labels['a.b/c']", json!("x")),
            (".nothing.here", json!(null)),
            ("..", json!(null)),
            (".spec[", json!(null)),
        ];
        for (path, expected) in table {
            assert_eq!(first(&object, path).cloned().unwrap_or_default(), expected, "{path}");
        }
    }
}
