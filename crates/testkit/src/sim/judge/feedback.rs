//! What comes back of objects' own values: just what they have, when all has come to rest; nothing of a Secret, ever; and
//! values alone as often as every ten seconds.

use std::{collections::BTreeMap, time::Duration};

use memkube::{Call, Changed};
use serde_json::{Value, json};

use super::{Judge, appliers, labelled, manager};
use crate::sim::{
    index::{Key, Target},
    marks,
};

/// Stands in a Secret, and nowhere else.
pub const SEAL: &str = "sealed-and-nobodys-business";
/// An expression that cannot be read.
pub const BROKEN_VALUE: &str = "status.";
/// Values alone are written so long after another status at the earliest, less what a call may take on its way.
const BETWEEN_VALUES: Duration = Duration::from_secs(9);

/// Kind, name and name of the value, and the value.
type Values = BTreeMap<[String; 3], Value>;

impl Judge {
    /// What a VidraTarget's status tells was written; `after`: so long after another one, by the same life.
    pub(super) fn judge_values(&mut self, call: &Call, changed: &Changed, after: Option<Duration>) {
        if changed.plural != "vidratargets" {
            return;
        }
        let (old, new) = (changed.before().unwrap_or_default(), changed.after().unwrap_or_default());
        if new["status"].to_string().contains(SEAL) {
            self.breaches.push(format!("{call}: tells what is in a Secret: {}", new["status"]));
        }
        let is_told = |of: &Value| !of["status"]["feedback"].is_null();
        if !is_told(&old) || !is_told(&new) || old["status"]["feedback"] == new["status"]["feedback"] {
            return;
        }
        let rest = |of: &Value| {
            let mut status = of["status"].clone();
            status["feedback"] = Value::Null;
            status["feedbackAt"] = Value::Null;
            status
        };
        if rest(&old) != rest(&new) {
            return;
        }
        marks::note("rule:values alone");
        if let Some(after) = after.filter(|after| *after < BETWEEN_VALUES) {
            self.breaches.push(format!("{call}: values alone, {after:?} after another write of this status"));
        }
    }

    /// Targets that tell other values than their objects have.
    pub(super) fn untold_values(&self) -> Vec<String> {
        let declared = &self.index.declared;
        let is_told = |target: &&Target| {
            let says = declared.said(&target.resource);
            let asks = says.is_some_and(|spec| spec["statusFeedback"].is_array() && spec["suspend"] != true);
            let rests = declared.tells_rest(&target.resource)
                || declared.is_revoked(&target.resource, &target.cluster);
            let is_seen = !matches!(&*target.state, "Unknown" | "Suspended");
            target.present && target.is_current && is_seen && asks && !rests && !target.feedback.1
        };
        let mut wrong = Vec::new();
        for target in self.index.targets.values().filter(is_told) {
            marks::note("rule:values");
            let (is, told) = (self.values_of(target), told(&target.feedback.0));
            if is != told {
                let Target { resource, cluster, .. } = target;
                wrong.push(format!("{resource}.{cluster} tells the values {told:?}, and there are {is:?}"));
            }
        }
        wrong
    }

    /// The values of what a target is to have, by the rules of its VidraResource.
    fn values_of(&self, target: &Target) -> Values {
        let mut values = Values::new();
        let spec = self.index.declared.said(&target.resource).unwrap_or(&Value::Null);
        let manager = manager(&target.resource);
        for rule in spec["statusFeedback"].as_array().into_iter().flatten() {
            let is_about =
                |key: &Key| rule["kind"] == *key[2] && (rule["name"].is_null() || rule["name"] == *key[4]);
            for key in self.asked(target).into_keys().filter(is_about) {
                let live = self.index.live(&key);
                let Some(live) = live.filter(|live| labelled(live) && appliers(live).contains(&manager))
                else {
                    continue;
                };
                for (name, value) in given(rule, &live) {
                    values.entry([key[2].clone(), key[4].clone(), name]).or_insert(value);
                }
            }
        }
        values
    }
}

/// What a rule gives of an object: paths of fields, or without any what everybody wants to know of a Service.
fn given(rule: &Value, live: &Value) -> Vec<(String, Value)> {
    let Some(written) = rule["values"].as_array() else {
        let addresses = live["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let all = addresses.collect::<Vec<_>>().join(",");
        return if all.is_empty() { Vec::new() } else { vec![("addresses".to_owned(), json!(all))] };
    };
    let each = written.iter().filter(|one| one["expression"] != BROKEN_VALUE).filter_map(|one| {
        let path = one["expression"].as_str()?.split('.');
        let value = path.fold(live, |at, field| &at[field]);
        Some((one["name"].as_str()?.to_owned(), value.clone()))
    });
    each.filter(|(_, value)| !value.is_null()).collect()
}

/// What a status tells.
fn told(feedback: &Value) -> Values {
    let mut values = Values::new();
    for object in feedback["objects"].as_array().into_iter().flatten() {
        for value in object["values"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let forms = ["text", "integer", "boolean", "number", "json"].map(|form| &value[form]);
            let form = forms.into_iter().find(|form| !form.is_null()).cloned().unwrap_or_default();
            values.insert([text(&object["kind"]), text(&object["name"]), text(&value["name"])], form);
        }
    }
    values
}
