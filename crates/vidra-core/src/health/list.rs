//! A list of health rules as a person writes it, in YAML or JSON: each is read by itself, so that one that cannot be read
//! hides no other.

use serde_json::Value;

use super::rule::RuleText;

/// Reads a list.
///
/// # Errors
/// It is no list of rules as a whole: what is wrong, in a sentence.
pub fn read(text: &str) -> Result<Vec<RuleText>, String> {
    let list: Value = serde_saphyr::from_str(text).map_err(|error| format!("it is no YAML: {error}"))?;
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(rules) => Ok(rules.into_iter().map(rule).collect()),
        _ => Err("it is no list; write a list of rules, each with apiVersion and current".to_owned()),
    }
}

fn rule(rule: Value) -> RuleText {
    let text = |field: &str| rule[field].as_str().map(str::to_owned);
    let (api_version, kind) = (text("apiVersion").unwrap_or_default(), text("kind"));
    serde_json::from_value(rule).unwrap_or_else(|error| RuleText {
        api_version,
        kind,
        fault: Some(error.to_string()),
        ..RuleText::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::health::{
        HealthStatus, judge,
        rules::{Origin, Problem, RuleSet, Rules},
    };

    fn fleet(text: &str, before: &Rules) -> (Arc<Rules>, Vec<Problem>) {
        let list = read(text).unwrap();
        let places = list.iter().enumerate().map(|(nth, rule)| (format!("rules[{nth}]"), rule));
        let (rules, problems) = Rules::read(Origin::Fleet, places, before);
        (Arc::new(rules), problems)
    }

    fn status(rules: &Arc<Rules>) -> HealthStatus {
        let live = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "status": {"phase": "Up"}});
        judge(&live, &RuleSet::new(Arc::default(), rules.clone(), Arc::default()), None).health.status
    }

    #[test]
    fn a_rule_that_becomes_unreadable_is_as_it_was_and_one_that_never_was_opens_no_gate() {
        let good = "- {apiVersion: example.com/v1, kind: Gadget, current: \"status.phase == 'Up'\"}";
        let (first, problems) = fleet(good, &Rules::default());
        assert_eq!((status(&first), problems.len()), (HealthStatus::Current, 0));
        for bad in [
            "- {apiVersion: example.com/v1, kind: Gadget, curent: 'true'}",
            "- {apiVersion: example.com/v1, kind: Gadget, current: 7}",
            "- {apiVersion: example.com/v1, kind: Gadget, current: 'status.'}",
            "- {apiVersion: example.com/v1, kind: Gadget}",
        ] {
            let (kept, problems) = fleet(bad, &first);
            assert!(matches!(&problems[..], [Problem::Invalid { .. }]), "{bad}: {problems:?}");
            assert_eq!((status(&kept), kept.digest()), (HealthStatus::Current, first.digest()), "{bad}");
            let (broken, _) = fleet(bad, &Rules::default());
            assert_eq!(status(&broken), HealthStatus::Unknown, "{bad}");
            assert_ne!(broken.digest(), first.digest(), "{bad}");
        }
        // What says nothing of what it is about gates nothing, and is told.
        let (none, problems) = fleet("- 7\n- {}", &Rules::default());
        assert!(none.is_empty() && problems.len() == 2, "{problems:?}");
        assert!(read("a: b").is_err() && read("{").is_err());
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn what_has_changed_is_told_by_what_rules_are_about() {
        let two = |phase: &str| {
            format!(
                "[{{apiVersion: a.io, kind: One, current: \"status.phase == '{phase}'\"}}, {{apiVersion: b.io, current: 'true'}}]"
            )
        };
        let (before, _) = fleet(&two("Up"), &Rules::default());
        let (same, _) = fleet(&two("Up"), &before);
        assert!(same.changed_from(&before).is_empty() && same.digest() == before.digest());
        let (after, _) = fleet(&two("On"), &before);
        let told: Vec<_> = after.changed_from(&before).into_iter().map(ToString::to_string).collect();
        assert_eq!(told, ["a.io/One"]);
        let set = |rules: &Arc<Rules>| RuleSet::new(Arc::default(), rules.clone(), Arc::default());
        let print = |rules, group, kind| set(rules).fingerprint(group, kind);
        assert_ne!(print(&before, "a.io", "One"), print(&after, "a.io", "One"));
        assert_eq!(print(&before, "b.io", "Any"), print(&after, "b.io", "Any"));
        assert_eq!(print(&after, "c.io", "Any"), 0);
    }
}
