//! What the `drift` of a VidraResource leaves alone, told apart from the hub's own way to do it: a judge that asked the
//! hub would agree with it.

use serde_json::Value;

use super::index::Key;

/// A field as people write it, such as `.spec.template.spec.containers[name="app"].image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// The item in which this field has this value.
    Item(String, String),
}

/// What differs is left as it is.
pub fn leaves(spec: &Value) -> bool {
    matches!(spec["drift"]["policy"].as_str(), Some("Report" | "Ignore"))
}

/// What differs is not even told.
pub fn tells(spec: &Value) -> bool {
    spec["drift"]["policy"] != "Ignore"
}

/// The fields of an object that are left to others once it is there.
pub fn ignored(spec: &Value, key: &Key) -> Vec<Path> {
    let rules = spec["drift"]["ignore"].as_array().into_iter().flatten();
    let meant = rules.filter(|rule| is_rule(rule)).filter(|rule| {
        let is = |field: &str, has: &str| rule["target"][field].is_null() || rule["target"][field] == has;
        is("group", &key[1]) && is("kind", &key[2]) && is("namespace", &key[3]) && is("name", &key[4])
    });
    let paths = meant.flat_map(|rule| rule["paths"].as_array().into_iter().flatten());
    paths.filter_map(Value::as_str).map(Path::read).collect()
}

/// Can all rules be read?
pub fn are_rules(spec: &Value) -> bool {
    spec["drift"]["ignore"].as_array().into_iter().flatten().all(is_rule)
}

/// Can the rule be read? One that cannot leaves nothing alone. The CRD lets an index through that is no index.
fn is_rule(rule: &Value) -> bool {
    let mut paths = rule["paths"].as_array().into_iter().flatten().filter_map(Value::as_str);
    paths.all(|path| {
        let brackets = path.split('[').skip(1).filter_map(|rest| rest.split(']').next());
        let mut indexes = brackets.filter(|inner| inner.bytes().all(|byte| byte.is_ascii_digit()));
        indexes.all(|index| index.parse::<u32>().is_ok())
    })
}

/// Who is an autoscaler without being called one.
const AUTOSCALERS: [&str; 5] = ["kube-controller-manager", "k3s", "kubelite", "keda", "keda-operator"];

/// Replicas that an autoscaler has set through `scale`, where those are left to it.
pub fn yielded(spec: &Value, live: &Value) -> Vec<Path> {
    let entries = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut held = entries.filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    let standard = matches!(spec["drift"]["yield"].as_str(), None | Some("Standard"));
    match standard
        && held.any(|entry| {
            let is_autoscaler = AUTOSCALERS.iter().any(|name| entry["manager"] == *name);
            entry["subresource"] == "scale" && is_autoscaler
        }) {
        true => vec![Path::read(".spec.replicas")],
        false => Vec::new(),
    }
}

/// All of it that is left alone in this live object.
pub fn spared(spec: &Value, key: &Key, live: &Value) -> Vec<Path> {
    let mut paths = ignored(spec, key);
    paths.extend(yielded(spec, live));
    paths
}

impl Path {
    fn read(text: &str) -> Self {
        let steps = text.split('.').skip(1).flat_map(|part| {
            let (field, item) =
                part.split_once('[').map_or((part, None), |(field, item)| (field, Some(item)));
            let item = item.and_then(|item| item.trim_end_matches(']').split_once('='));
            let item = item.map(|(by, value)| Step::Item(by.to_owned(), value.trim_matches('"').to_owned()));
            [Some(Step::Field(field.to_owned())), item].into_iter().flatten()
        });
        Self(steps.collect())
    }

    /// What is there.
    pub fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |at, step| match step {
            Step::Field(field) => at.get(field),
            Step::Item(by, is) => at.as_array()?.iter().find(|item| item[by] == is.as_str()),
        })
    }

    /// Takes it out, and what is empty then.
    pub fn take_out(&self, value: &mut Value) {
        take_out(&self.0, value);
    }
}

fn take_out(steps: &[Step], value: &mut Value) {
    let Some((step, rest)) = steps.split_first() else { return };
    match (step, value) {
        (Step::Field(field), Value::Object(map)) => {
            if let Some(within) = map.get_mut(field).filter(|_| !rest.is_empty()) {
                take_out(rest, within);
                if *within != Value::Object(serde_json::Map::new()) {
                    return;
                }
            }
            map.remove(field);
        }
        (Step::Item(by, is), Value::Array(items)) => {
            let item = items.iter_mut().find(|item| item[by.as_str()] == is.as_str());
            if let Some(item) = item {
                take_out(rest, item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(kind: &str, name: &str) -> Key {
        ["berlin", "", kind, "shop", name].map(str::to_owned)
    }

    #[test]
    fn a_rule_spares_the_fields_of_the_objects_that_it_means() {
        let image = r#".spec.containers[name="app"].image"#;
        let spec = json!({"drift": {"ignore": [
            {"target": {"kind": "Pod", "name": "web"}, "paths": [image, ".data.key"]},
        ]}});
        assert!(ignored(&spec, &key("Pod", "other")).is_empty());
        let paths = ignored(&spec, &key("Pod", "web"));
        let mut live = json!({"spec": {"containers": [{"name": "app", "image": "one"}]}, "data": {"key": 1}});
        let found: Vec<_> = paths.iter().map(|path| path.of(&live).cloned()).collect();
        assert_eq!(found, [Some(json!("one")), Some(json!(1))]);
        paths.iter().for_each(|path| path.take_out(&mut live));
        assert_eq!(live, json!({"spec": {"containers": [{"name": "app"}]}}));
    }

    #[test]
    fn a_rule_with_an_index_that_is_too_large_spares_nothing() {
        let of = |path: &str| json!({"drift": {"ignore": [{"target": {"kind": "Pod"}, "paths": [path]}]}});
        let (good, bad) = (of(".data.key[0]"), of(".data.key[99999999999]"));
        assert!(are_rules(&good) && !are_rules(&bad));
        assert_eq!(ignored(&good, &key("Pod", "web")).len(), 1);
        assert!(ignored(&bad, &key("Pod", "web")).is_empty());
    }

    #[test]
    fn replicas_are_left_to_the_autoscaler_that_holds_them_through_scale() {
        let by = |manager: &str, subresource: &str| {
            json!({"metadata": {"managedFields": [
                {"manager": manager, "subresource": subresource, "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ]}})
        };
        let held = |subresource: &str| by("keda", subresource);
        let none = json!({"drift": {"yield": "None"}});
        assert_eq!(yielded(&json!({}), &by("kubectl", "scale")).len(), 0);
        assert_eq!(yielded(&json!({}), &held("scale")).len(), 1);
        assert_eq!(yielded(&json!({}), &held("")).len(), 0);
        assert_eq!(yielded(&none, &held("scale")).len(), 0);
    }
}
