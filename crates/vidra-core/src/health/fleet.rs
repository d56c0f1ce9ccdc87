//! The fleet's health rules, as ConfigMaps have them: each key is a list of rules in YAML or JSON. What cannot be read
//! hides nothing else, and stays as it was.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    rule::{RuleText, UNTIL_THEN},
    rules::{Origin, Problem, Rules},
};
use crate::manifest;

/// What stands in a rule.
const FIELDS: &str = "write apiVersion, kind and current, and where they are needed inProgress, failed, suspended, message, and observedGeneration: Ignore";

/// What was read last.
#[derive(Debug, Default)]
pub struct Fleet {
    /// The rules.
    pub rules: Arc<Rules>,
    /// Of each key of a ConfigMap, as it was when it could be read.
    good: BTreeMap<(String, String), Vec<RuleText>>,
}

/// Something to tell whoever wrote a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub config_map: String,
    /// It is like another, which counts (HealthRuleDuplicate); or it cannot be used (HealthRuleInvalid).
    pub is_duplicate: bool,
    /// Where in it: the key, and the place in its list.
    pub place: String,
    /// Why, and what to do.
    pub why: String,
}

/// Rules while they are read.
struct Found {
    /// Each with its ConfigMap and its place.
    rules: Vec<(String, String, RuleText)>,
    good: BTreeMap<(String, String), Vec<RuleText>>,
    faults: Vec<Fault>,
}

impl Fleet {
    /// Reads ConfigMaps, each with its name and its keys, in the order of their names; tells what of them cannot be used.
    pub fn read<'t>(
        &self,
        config_maps: impl IntoIterator<Item = (&'t str, &'t BTreeMap<String, String>)>,
    ) -> (Fleet, Vec<Fault>) {
        let mut found = Found { rules: Vec::new(), good: BTreeMap::new(), faults: Vec::new() };
        for (config_map, keys) in config_maps {
            for (key, text) in keys {
                found.add((config_map, key), text, self);
            }
        }
        let Found { rules, good, mut faults } = found;
        let placed = rules.iter().map(|(_, place, text)| (place.clone(), text));
        let (read, problems) = Rules::read(Origin::Fleet, placed, &self.rules);
        let of: BTreeMap<_, _> =
            rules.iter().map(|(config_map, place, _)| (&**place, &**config_map)).collect();
        faults.extend(problems.into_iter().map(|problem| fault(problem, &of)));
        (Fleet { rules: Arc::new(read), good }, faults)
    }
}

impl Found {
    /// Takes the rules of a key, as many as there may be in all.
    fn add(&mut self, (config_map, key): (&str, &str), text: &str, before: &Fleet) {
        let source = format!("ConfigMap {config_map}, key {key}");
        let invalid =
            |place, why| Fault { config_map: config_map.to_owned(), is_duplicate: false, place, why };
        let most = Origin::Fleet.most();
        let beyond = format!(
            "it and what follows are not read: all ConfigMaps of health rules may have {most} rules together; remove some"
        );
        let room = most - self.rules.len();
        if room == 0 {
            if !text.trim().is_empty() {
                self.faults.push(invalid(source, beyond));
            }
            return;
        }
        let at = (config_map.to_owned(), key.to_owned());
        let rules = match list(&source, text) {
            Ok(rules) => {
                self.good.insert(at, rules.clone());
                rules
            }
            Err(why) => {
                // The place says already what it is the source of.
                let why = why.strip_prefix(&format!("{source}, ")).unwrap_or(&why);
                self.faults.push(invalid(source.clone(), format!("{why}; {UNTIL_THEN}")));
                let known = before.good.get(&at).cloned();
                known
                    .inspect(|known| drop(self.good.insert(at, known.clone())))
                    .unwrap_or_else(|| named(text))
            }
        };
        if rules.len() > room {
            self.faults.push(invalid(format!("{source}, rules[{room}]"), beyond));
        }
        let placed = rules.into_iter().take(room).enumerate();
        self.rules.extend(
            placed.map(|(nth, rule)| (config_map.to_owned(), format!("{source}, rules[{nth}]"), rule)),
        );
    }
}

/// Reads the lists of a text. A rule that cannot be read says so when it is compiled.
fn list(source: &str, text: &str) -> Result<Vec<RuleText>, String> {
    let mut rules = Vec::new();
    for (place, document) in manifest::documents(source, text).map_err(|error| error.to_string())? {
        let Value::Array(list) = document else {
            return Err(format!(
                "{place}: it is no list of health rules; begin each rule with `- apiVersion: `"
            ));
        };
        rules.extend(list.into_iter().map(rule));
    }
    Ok(rules)
}

fn rule(rule: Value) -> RuleText {
    let text = |field: &str| rule[field].as_str().map(str::to_owned);
    let (api_version, kind) = (text("apiVersion").unwrap_or_default(), text("kind"));
    serde_json::from_value(rule).unwrap_or_else(|error| unreadable(api_version, kind, error.to_string()))
}

fn unreadable(api_version: String, kind: Option<String>, why: String) -> RuleText {
    RuleText { api_version, kind, fault: Some(format!("{why}; {FIELDS}")), ..RuleText::default() }
}

/// What the rules of a list are about that cannot be read as a whole, as far as its lines tell: no gate opens for these
/// kinds because of a bracket that is missing.
fn named(text: &str) -> Vec<RuleText> {
    let field = |line: &str, name: &str| {
        let (before, value) = line.split_once(name)?;
        let last = before.trim_end_matches('"').chars().next_back();
        let is_name = last.is_none_or(|c| matches!(c, ' ' | '-' | '{' | '[' | ','));
        let value = value.trim_start_matches('"').strip_prefix(':')?.trim_start();
        let end = value.find([',', '}', ' ', '\r']).unwrap_or(value.len());
        let value = value.get(..end)?.trim_matches(['"', '\'']);
        (is_name && !value.is_empty()).then(|| value.to_owned())
    };
    let mut rules = Vec::<RuleText>::new();
    for line in text.lines() {
        if line.trim_start().starts_with(['-', '[']) {
            let why = "its list cannot be read".to_owned();
            rules.push(unreadable(String::new(), None, why));
        }
        let Some(rule) = rules.last_mut() else { continue };
        if rule.api_version.is_empty() {
            rule.api_version = field(line, "apiVersion").unwrap_or_default();
        }
        rule.kind = rule.kind.take().or_else(|| field(line, "kind"));
    }
    rules.retain(|rule| rule.scope().is_ok());
    rules
}

fn fault(problem: Problem, of: &BTreeMap<&str, &str>) -> Fault {
    let (place, is_duplicate, why) = match problem {
        Problem::Duplicate { place, first, scope } => {
            let why = format!(
                "it does not count: {first} is about {scope} too, and stands first; remove one of them"
            );
            (place, true, why)
        }
        Problem::Invalid { place, error } => (place, false, format!("{error}; {}", error.meanwhile())),
        Problem::TooMany { place, most } => {
            (place, false, format!("it is not read: {most} rules may be there in all"))
        }
    };
    let config_map = of.get(&*place).copied().unwrap_or_default().to_owned();
    Fault { config_map, is_duplicate, place, why }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::health::{HealthStatus, facts::Facts, judge, rules::RuleSet};

    const GOOD: &str = "- {apiVersion: a.io/v1, kind: One, current: \"status.phase == 'Up'\"}";

    fn read(before: &Fleet, config_maps: &[(&str, &[(&str, &str)])]) -> (Fleet, Vec<Fault>) {
        let owned = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        let all: BTreeMap<_, BTreeMap<_, _>> =
            config_maps.iter().map(|(name, keys)| (*name, keys.iter().map(owned).collect())).collect();
        before.read(all.iter().map(|(name, keys)| (*name, keys)))
    }

    fn one(before: &Fleet, text: &str) -> (Fleet, Vec<Fault>) {
        read(before, &[("rules", &[("key", text)])])
    }

    fn set(fleet: &Fleet) -> RuleSet {
        RuleSet::new(Arc::default(), fleet.rules.clone(), Arc::default())
    }

    fn status(fleet: &Fleet) -> HealthStatus {
        let live = json!({"apiVersion": "a.io/v1", "kind": "One", "status": {"phase": "Up"}});
        judge(&live, &set(fleet), &Facts::default()).health.status
    }

    #[test]
    fn what_becomes_unreadable_is_as_it_was_and_what_never_was_readable_opens_no_gate() {
        let (first, faults) = one(&Fleet::default(), GOOD);
        assert_eq!((status(&first), faults.len()), (HealthStatus::Current, 0));
        for bad in [
            "- {apiVersion: a.io/v1, kind: One, curent: 'true'}",
            "- {apiVersion: a.io/v1, kind: One, current: 7}",
            "- {apiVersion: a.io/v1, kind: One, current: 'status.'}",
            "- {apiVersion: a.io/v1, kind: One}",
            // No YAML as a whole.
            "- apiVersion: a.io/v1\n  kind: One\n  current: status.phase == 'Up': ]",
            "- kind: One\n  apiVersion: a.io/v1\n current: x\n",
            "[{\"apiVersion\": \"a.io/v1\", \"kind\": \"One\"",
        ] {
            let (kept, faults) = one(&first, bad);
            assert_eq!((faults.len(), faults[0].is_duplicate), (1, false), "{bad}: {faults:?}");
            assert!(faults[0].place.starts_with("ConfigMap rules, key key"), "{faults:?}");
            assert!(!faults[0].why.contains("ConfigMap"), "its place is said once: {faults:?}");
            assert_eq!(
                (status(&kept), kept.rules.digest()),
                (HealthStatus::Current, first.rules.digest()),
                "{bad}"
            );
            // What it was is known for as long as it is broken.
            assert_eq!(status(&one(&kept, bad).0), HealthStatus::Current, "{bad}");
            let (broken, _) = one(&Fleet::default(), bad);
            assert_eq!(status(&broken), HealthStatus::Unknown, "{bad}");
            assert_ne!(broken.rules.digest(), first.rules.digest(), "{bad}");
        }
    }

    #[test]
    fn what_says_nothing_of_what_it_is_about_gates_nothing_and_is_told() {
        let (none, faults) = one(&Fleet::default(), "- 7\n- {}");
        assert!(none.rules.is_empty() && faults.len() == 2, "{faults:?}");
        for text in ["a: b", "{", "text"] {
            let (none, faults) = one(&Fleet::default(), text);
            assert!(none.rules.is_empty() && faults.len() == 1, "{text}: {faults:?}");
        }
        assert_eq!(one(&Fleet::default(), "").1, []);
        let two = format!("{GOOD}\n---\n- {{apiVersion: b.io, current: status.up}}");
        assert_eq!(one(&Fleet::default(), &two).0.rules.scopes().count(), 2);
    }

    #[test]
    fn a_rule_for_kinds_of_kubernetes_names_its_kind() {
        for refused in ["v1", "apps/v1", "rbac.authorization.k8s.io/v1"] {
            let (none, faults) =
                one(&Fleet::default(), &format!("- {{apiVersion: {refused}, current: 'true'}}"));
            assert!(none.rules.is_empty() && faults[0].why.contains("name a kind"), "{faults:?}");
        }
        let (family, _) = one(&Fleet::default(), "- {apiVersion: '*.k8s.io', current: status.never}");
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "status": {"never": false}});
        assert_eq!(judge(&role, &set(&family), &Facts::default()).health.status, HealthStatus::Current);
        let (pods, faults) =
            one(&Fleet::default(), "- {apiVersion: v1, kind: Pod, current: status.phase == 'Up'}");
        assert!(pods.rules.scopes().count() == 1 && faults.is_empty(), "{faults:?}");
    }

    #[test]
    fn of_two_alike_the_first_counts_and_what_is_beyond_the_bound_is_told_by_key() {
        let other = GOOD.replace("Up", "On");
        let (read_, faults) =
            read(&Fleet::default(), &[("b", &[("a", &other)]), ("a", &[("y", &other), ("x", GOOD)])]);
        assert_eq!(status(&read_), HealthStatus::Current);
        let told: Vec<_> =
            faults.iter().map(|fault| (&*fault.config_map, fault.is_duplicate, &*fault.place)).collect();
        assert_eq!(
            told,
            [("a", true, "ConfigMap a, key y, rules[0]"), ("b", true, "ConfigMap b, key a, rules[0]")]
        );
        assert!(faults[0].why.contains("ConfigMap a, key x, rules[0] is about a.io/One too"), "{faults:?}");

        let many: String =
            (0..501).map(|nth| format!("- {{apiVersion: a.io, kind: K{nth}, current: 'true'}}\n")).collect();
        let (read_, faults) = read(&Fleet::default(), &[("a", &[("x", &many), ("y", GOOD), ("z", " ")])]);
        let told: Vec<_> = faults.iter().map(|fault| &*fault.place).collect();
        assert_eq!(told, ["ConfigMap a, key x, rules[500]", "ConfigMap a, key y"]);
        assert_eq!(read_.rules.scopes().count(), 500);
    }

    #[test]
    fn what_has_changed_is_told_by_what_rules_are_about() {
        let two = |phase: &str| {
            format!(
                "- {{apiVersion: a.io, kind: One, current: \"status.phase == '{phase}'\"}}\n- {{apiVersion: b.io, current: 'true'}}"
            )
        };
        let (before, _) = one(&Fleet::default(), &two("Up"));
        let (same, _) = one(&before, &two("Up"));
        assert!(same.rules.changed_from(&before.rules).is_empty());
        let (after, _) = one(&before, &two("On"));
        let told = |now: &Fleet, than: &Fleet| {
            now.rules.changed_from(&than.rules).into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(&after, &before), ["a.io/One"]);
        assert_eq!(told(&Fleet::default(), &before), ["a.io/One", "b.io/*"]);
        let print = |fleet: &Fleet, group| set(fleet).fingerprint(group, "One");
        assert_ne!(print(&before, "a.io"), print(&after, "a.io"));
        assert_eq!(print(&before, "b.io"), print(&after, "b.io"));
    }
}
