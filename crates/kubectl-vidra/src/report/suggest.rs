//! A health rule for an object that waits, or that says nothing that is understood: made of the names in its status, for
//! a person to check. Only plain names go into it, so that no object writes expressions.

use std::collections::BTreeSet;

use serde_json::Value;
use vidra_core::health::facts::Facts;
use vidra_core::health::rule::RuleText;
use vidra_core::health::rules::{Origin, RuleSet, Rules};
use vidra_core::health::{Basis, HealthStatus, judge};

use crate::text::brief;

/// Most conditions in an expression.
const CONDITIONS_MAX: usize = 4;
/// Longest message of an object in a comment.
const MESSAGE_MAX: usize = 200;
/// Fields of a status that say how an object is where it has no conditions; the first that is there.
const WORDS: [&str; 5] = ["phase", "state", "status", "health", "currentState"];
/// Counts of a status, each with what it is to be.
const COUNTS: [(&str, &str); 2] = [("readyReplicas", "replicas"), ("availableReplicas", "replicas")];
/// Types of conditions that are about something bad, by their endings.
const BAD: [&str; 6] = ["Degraded", "Stalled", "Failed", "Error", "Failure", "Reconciling"];

/// What is told of a status without a field that a rule could be made of; and what to do then.
const NOTHING: &str = "# Its status has nothing to make a rule of";
const COUNTS_AS_WELL: &str = ", and nobody waits for it.\n";
const GO_ON: &str =
    "; to go on without its health, annotate it in the manifest with vidra.dev/wait-for: Nothing.\n";

/// A list of rules, one for each kind that needs one, with comments; empty where none does.
pub fn text(objects: &[Value], rules: &RuleSet) -> String {
    let (mut text, mut known) = (String::new(), BTreeSet::new());
    for object in objects {
        let of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (of("/apiVersion"), of("/kind"));
        let verdict = judge(object, rules, &Facts::default());
        let health = &verdict.health;
        let is_well = matches!(health.status, HealthStatus::Current | HealthStatus::Suspended);
        if is_well && !matches!(verdict.basis, Basis::Nothing) || health.status == HealthStatus::Terminating {
            continue;
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if !known.insert((group.to_owned(), kind.to_owned())) {
            continue;
        }
        let name = [of("/metadata/namespace"), of("/metadata/name")].join("/");
        let name = brief(&format!("{kind} {}", name.trim_start_matches('/')), 400);
        let now = brief(&format!("{}: {}", health.reason, health.message), MESSAGE_MAX);
        text.push_str(&format!("# {name} is {} now ({now}).\n", health.status));
        text.push_str(&match fields(object).and_then(|fields| checked(api_version, kind, fields)) {
            Some(rule) => rule,
            None => NOTHING.to_owned() + if is_well { COUNTS_AS_WELL } else { GO_ON },
        });
    }
    text
}

/// The fields of a rule beside what it is about, each with its comment.
struct Fields {
    comment: String,
    current: String,
    failed: Option<String>,
    message: Option<String>,
}

/// What the status of an object gives; `None`: nothing.
fn fields(object: &Value) -> Option<Fields> {
    let conditions: Vec<&Value> =
        object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten().collect();
    let named: Vec<(&str, &Value)> = conditions
        .iter()
        .filter_map(|one| Some((plain(one["type"].as_str()?)?, *one)))
        .filter(|(_, one)| one["status"].is_string())
        .collect();
    let is_bad = |kind: &str| BAD.iter().any(|ending| kind.ends_with(ending));
    let bad: Vec<&str> = named.iter().map(|(kind, _)| *kind).filter(|kind| is_bad(kind)).collect();
    let ready = named.iter().filter(|(kind, _)| *kind == "Ready");
    let mut good: Vec<_> =
        ready.chain(named.iter().filter(|(kind, _)| *kind != "Ready" && !is_bad(kind))).collect();
    // A Ready speaks for the others.
    good.truncate(if good.first().is_some_and(|(kind, _)| *kind == "Ready") { 1 } else { CONDITIONS_MAX });
    let exists = |kind: &str, more: &str| {
        format!("status.conditions.exists(c, c.type == '{kind}' && c.status == 'True'{more})")
    };
    if let Some((first, _)) = good.first() {
        let current = good.iter().map(|(kind, one)| {
            let tells =
                one["observedGeneration"].is_i64() && object["status"]["observedGeneration"].is_null();
            exists(kind, if tells { " && c.observedGeneration == metadata.generation" } else { "" })
        });
        return Some(Fields {
            comment: "Check with the kind's documentation that these conditions are True when it works."
                .to_owned(),
            current: current.collect::<Vec<_>>().join(" && "),
            failed: bad.first().map(|kind| exists(kind, "")),
            message: Some(format!("status.conditions.filter(c, c.type == '{first}')[0].message")),
        });
    }
    let status = object.get("status")?;
    if let Some((field, word)) = word(status) {
        return Some(Fields {
            comment: format!(
                "It says {word} now. Write what one says that works: until then none is Current."
            ),
            current: format!("status.{field} == 'WRITE-WHAT-ONE-SAYS-THAT-WORKS'"),
            failed: None,
            message: None,
        });
    }
    let (has, wants) =
        COUNTS.into_iter().find(|(has, wants)| status[*has].is_i64() && object["spec"][*wants].is_i64())?;
    Some(Fields {
        comment: "Check with the kind's documentation what these counts are of.".to_owned(),
        current: format!("status.{has} == spec.{wants}"),
        failed: None,
        message: None,
    })
}

/// A field that says how the object is, by its path below the status, and what it says: of the status itself, or of one of
/// its own fields.
fn word(status: &Value) -> Option<(String, &str)> {
    let own = WORDS.iter().find_map(|field| Some(((*field).to_owned(), plain(status[*field].as_str()?)?)));
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let parts =
        status.as_object().into_iter().flatten().filter(|(name, part)| is_name(name) && part.is_object());
    own.or_else(|| {
        parts
            .flat_map(|(name, part)| WORDS.iter().map(move |field| (name, part, *field)))
            .find_map(|(name, part, field)| Some((format!("{name}.{field}"), plain(part[field].as_str()?)?)))
    })
}

/// A name or a word that an expression may quote.
fn plain(text: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    ((1..=64).contains(&text.len()) && text.chars().all(is_plain)).then_some(text)
}

/// The rule as it stands in a file, if the hub can use it.
fn checked(api_version: &str, kind: &str, fields: Fields) -> Option<String> {
    let Fields { comment, current, failed, message } = fields;
    let rule = RuleText {
        api_version: api_version.to_owned(),
        kind: Some(kind.to_owned()),
        current: Some(current.clone()),
        failed: failed.clone(),
        message: message.clone(),
        ..RuleText::default()
    };
    let (_, problems) = Rules::read(Origin::Fleet, [(String::new(), &rule)], &Rules::default());
    if !problems.is_empty() {
        return None;
    }
    let mut text =
        format!("# {comment}\n- apiVersion: {api_version}\n  kind: {kind}\n  current: {current}\n");
    if let Some(failed) = failed {
        text.push_str(&format!(
            "  # Only if it needs help then, and does not try again by itself:\n  # failed: {failed}\n"
        ));
    }
    if let Some(message) = message {
        text.push_str(&format!("  message: {message}\n"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vidra_core::health::library;

    use super::*;
    use crate::report::rules;

    fn gadget(status: Value) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "web", "namespace": "shop", "generation": 3},
            "spec": {"replicas": 2}, "status": status})
    }

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "message": "why"})
    }

    /// The verdict of an object with this status by what is suggested for one with that.
    fn by_suggestion(of: Value, judged: Value) -> HealthStatus {
        let text = text(&[gadget(of)], &library::rule_set());
        let (set, warnings) =
            rules::read("rules.yaml", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(warnings.is_empty(), "{text}: {warnings:?}");
        judge(&gadget(judged), &set, &Facts::default()).health.status
    }

    #[test]
    fn what_is_suggested_can_be_used_as_it_is_and_is_true_of_what_it_names_alone() {
        let conditions = |all: &[(&str, &str)]| json!({"conditions": all.iter().map(|(kind, status)| condition(kind, status)).collect::<Vec<_>>()});
        let seen = |generation: i64| json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]});
        let waits = conditions(&[("Synced", "False"), ("Wired", "True"), ("Degraded", "False")]);
        let mut old = seen(2);
        old["conditions"][0]["status"] = "False".into();
        for (of, judged, status) in [
            (waits.clone(), conditions(&[("Synced", "True"), ("Wired", "True")]), HealthStatus::Current),
            (waits.clone(), waits.clone(), HealthStatus::InProgress),
            (waits, conditions(&[("Synced", "True")]), HealthStatus::InProgress),
            (
                conditions(&[("Other", "True"), ("Ready", "False")]),
                conditions(&[("Ready", "True")]),
                HealthStatus::Current,
            ),
            (old.clone(), seen(3), HealthStatus::Current),
            (old, seen(2), HealthStatus::InProgress),
            // Current without evidence.
            (json!({"phase": "Odd"}), json!({"phase": "Odd"}), HealthStatus::InProgress),
            (
                json!({"health": {"state": "Odd"}}),
                json!({"health": {"state": "Odd"}}),
                HealthStatus::InProgress,
            ),
            (json!({"readyReplicas": 1}), json!({"readyReplicas": 2}), HealthStatus::Current),
        ] {
            assert_eq!(by_suggestion(of.clone(), judged.clone()), status, "{of} {judged}");
        }
    }

    #[test]
    fn one_rule_is_written_for_a_kind_and_none_for_what_is_well() {
        let well = gadget(json!({"conditions": [condition("Ready", "True")]}));
        let waits =
            gadget(json!({"conditions": [condition("Ready", "False"), condition("SyncFailed", "True")]}));
        assert_eq!(text(std::slice::from_ref(&well), &library::rule_set()), "");
        assert_eq!(
            text(&[well, waits.clone(), waits], &library::rule_set()),
            "# Gadget shop/web is InProgress now (NotReady: The condition Ready is not True: why).\n\
             # Check with the kind's documentation that these conditions are True when it works.\n\
             - apiVersion: example.com/v1\n  kind: Gadget\n  \
             current: status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')\n  \
             # Only if it needs help then, and does not try again by itself:\n  \
             # failed: status.conditions.exists(c, c.type == 'SyncFailed' && c.status == 'True')\n  \
             message: status.conditions.filter(c, c.type == 'Ready')[0].message\n"
        );
        let silent = text(&[gadget(json!({}))], &library::rule_set());
        assert!(silent.contains("nothing to make a rule of") && !silent.contains("\n- "), "{silent}");
        assert!(!silent.contains("wait-for"), "it is Current, and nobody waits: {silent}");
    }

    #[test]
    fn what_is_no_plain_name_is_no_part_of_an_expression_or_a_line() {
        for odd in ["x' || true || '", "a b", "a\nb", "", "ü", "x'"] {
            let mut object = gadget(
                json!({"conditions": [condition(odd, "False"), condition("Real", "False")], "phase": odd}),
            );
            object["metadata"]["name"] = odd.into();
            let told = text(&[object], &library::rule_set());
            assert!(told.contains("c.type == 'Real'") && !told.contains("|| true)"), "{told}");
            assert!(
                told.lines().all(|line| ["# ", "- ", "  "].iter().any(|begin| line.starts_with(begin))),
                "{told}"
            );
        }
        let mut odd = gadget(json!({"conditions": [condition("Ready", "False")]}));
        odd["kind"] = "Gadget\n- x".into();
        let told = text(&[odd], &library::rule_set());
        assert!(!told.contains("\n- "), "{told}");
        assert!(
            text(&[gadget(json!({"phase": "x'y"}))], &library::rule_set())
                .contains("nothing to make a rule of")
        );
    }
}
