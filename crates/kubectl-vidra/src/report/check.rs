//! What other health rules would turn: of which declared objects the verdict may be another, and which is. Functions of
//! what the hub's API says of its targets and, where the user may read them there, of the objects in the members.

use std::collections::BTreeMap;

use serde_json::Value;
use vidra_api::{ObjectHealth, VidraTarget};
use vidra_core::directives::{ApplyMode, Directives, WaitFor};
use vidra_core::health::facts::{Facts, may_be_custom};
use vidra_core::health::rules::RuleSet;
use vidra_core::health::{HealthStatus, is_done, judge};
use vidra_core::object::ObjectKey;

use crate::text::{brief, clean, count, some_of};

/// Longest message of a verdict in a line.
const MESSAGE_MAX: usize = 200;

/// A target, and the rules by which it is and would be judged.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// It.
    pub target: &'a VidraTarget,
    /// The hub's rules, with those that this version ships.
    pub now: &'a RuleSet,
    /// As they would be.
    pub then: &'a RuleSet,
}

/// What would become of an object's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It would be the same.
    Same,
    /// Another: `Gadget.example.com shop/web: Current -> Failed (…)`.
    Other(String),
    /// Nobody can tell: why.
    Open(String),
}

impl Question<'_> {
    /// `team-a/shop.berlin`.
    pub fn name(&self) -> String {
        let metadata = &self.target.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
    }

    fn judged_by(&self) -> Option<&str> {
        self.target.status.as_ref()?.health_rules.as_deref()
    }

    /// The hub judged it by just the rules that this plug-in has put together.
    fn is_known(&self) -> bool {
        self.judged_by().is_some_and(|digest| digest == self.now.digest())
    }

    /// It was judged by just the rules that would be: nothing turns.
    pub fn is_alike(&self) -> bool {
        self.judged_by().is_some_and(|digest| digest == self.then.digest())
    }

    /// The objects whose verdict may be another. Where the hub's rules are known, these are
    /// objects of kinds whose rule changes; else of all kinds that have a rule, or may have had one.
    pub fn concerned<'o>(&self, objects: &'o BTreeMap<ObjectKey, Value>) -> Vec<(&'o ObjectKey, &'o Value)> {
        let is_known = self.is_known();
        let may_turn = |key: &ObjectKey| match is_known {
            true => {
                self.now.fingerprint(&key.group, &key.kind) != self.then.fingerprint(&key.group, &key.kind)
            }
            false => self.then.scope(&key.group, &key.kind).is_some() || may_be_custom(&key.group),
        };
        objects.iter().filter(|(key, _)| may_turn(key)).collect()
    }

    /// What would become of one, as it is in the member.
    pub fn turn(&self, key: &ObjectKey, declared: &Value, live: &Value, facts: &Facts) -> Turn {
        let directives = Directives::of(declared).unwrap_or_default();
        let by = |rules: &RuleSet| {
            let health = judge(live, rules, facts).health;
            let waits = matches!(directives.wait_for, WaitFor::Address | WaitFor::Complete) && !is_done(live);
            match health.status {
                HealthStatus::Current | HealthStatus::Suspended if waits => {
                    (HealthStatus::InProgress, health)
                }
                status => (status, health),
            }
        };
        let before = match self.is_known() {
            true => by(self.now).0,
            // What is made once is not judged for ever.
            false if directives.apply != ApplyMode::Always => return Turn::Same,
            false => match self.told(key) {
                Ok(status) => status,
                Err(why) => return Turn::Open(why),
            },
        };
        let (after, health) = by(self.then);
        // A status does not tell which of those that are well are suspended.
        if before == after || !self.is_known() && before.is_well() && after.is_well() {
            return Turn::Same;
        }
        let why = brief(&format!("{}: {}", health.reason, health.message), MESSAGE_MAX);
        Turn::Other(format!("{}: {before} -> {after} ({why})", clean(&key.to_string())))
    }

    /// How the hub has told that an object is: what is not in its list is well, where the list is whole. Else why that is
    /// not known.
    fn told(&self, key: &ObjectKey) -> Result<HealthStatus, String> {
        let status = self.target.status.as_ref().ok_or("the hub has not looked at it yet; ask again")?;
        let is_it = |one: &&vidra_api::UnreadyObject| {
            // Whether a kind is in namespaces is not known for sure.
            (&*one.group, &*one.kind, &*one.name) == (&*key.group, &*key.kind, &*key.name)
                && (one.namespace.is_empty() || *one.namespace == *key.namespace)
        };
        let one = status.unready.iter().find(is_it);
        match one.map(|one| one.health) {
            Some(ObjectHealth::Failed) => Ok(HealthStatus::Failed),
            Some(ObjectHealth::InProgress) => Ok(HealthStatus::InProgress),
            Some(ObjectHealth::Terminating) => Ok(HealthStatus::Terminating),
            Some(ObjectHealth::Unknown) => Ok(HealthStatus::Unknown),
            Some(ObjectHealth::NotFound) => {
                let why = match one.and_then(|one| one.note.as_deref()) {
                    Some(note) => format!("the hub does not see it: {}", clean(note)),
                    None => "the hub has not seen it in the member yet; ask again".to_owned(),
                };
                Err(format!("{}: {why}", clean(&key.to_string())))
            }
            None if status.unready_total.is_none() => Ok(HealthStatus::Current),
            None => Err("the status lists only some of the objects that are not well".to_owned()),
        }
    }
}

/// What was found, the same of several targets once.
#[derive(Debug, Default)]
pub struct Report {
    lines: BTreeMap<(char, String), Vec<String>>,
    targets: usize,
    turned: usize,
    open: usize,
}

impl Report {
    /// Takes what was found of a target: no turn at all is that it is judged alike.
    pub fn add(&mut self, name: &str, turns: impl IntoIterator<Item = Turn>) {
        let (mut is_turned, mut is_open) = (false, false);
        for turn in turns {
            let line = match turn {
                Turn::Same => continue,
                Turn::Other(line) => ('~', line),
                Turn::Open(line) => ('?', line),
            };
            is_turned |= line.0 == '~';
            is_open |= line.0 == '?';
            let names = self.lines.entry(line).or_default();
            if names.last().is_none_or(|last| last != name) {
                names.push(name.to_owned());
            }
        }
        self.targets += 1;
        self.turned += usize::from(is_turned);
        self.open += usize::from(is_open && !is_turned);
    }

    /// No target was looked at.
    pub fn is_empty(&self) -> bool {
        self.targets == 0
    }

    /// Something would turn, or may.
    pub fn differs(&self) -> bool {
        self.turned + self.open > 0
    }

    /// For people.
    pub fn text(&self) -> String {
        let line = |((sign, line), names): (&(char, String), &Vec<String>)| {
            format!("{sign} {} on {}\n", brief(line, 600), clean(&some_of(names, false)))
        };
        let Self { targets, turned, open, .. } = self;
        let alike = targets - turned - open;
        format!(
            "{}{}: {alike} judged alike, {turned} would turn, {open} not known.\n",
            self.lines.iter().rev().map(line).collect::<String>(),
            count(*targets, "target")
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vidra_core::health::library;

    use super::*;
    use crate::report::rules::of_hub;

    fn key(kind: &str) -> ObjectKey {
        ObjectKey::new(&vidra_core::object::Gvk::new("example.com", "v1", kind), "shop", "web")
    }

    fn gadget(kind: &str, phase: &str) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "status": {"phase": phase}})
    }

    fn target(status: Value) -> VidraTarget {
        serde_json::from_value(json!({
            "metadata": {"name": "shop.berlin", "namespace": "team-a"},
            "spec": {"resource": "shop", "cluster": "berlin", "revision": "aa", "desired": "Present", "namespace": "shop", "generation": 1},
            "status": status,
        }))
        .unwrap_or_else(|error| panic!("{error}"))
    }

    fn rules(kind: &str, phase: &str) -> RuleSet {
        let rule =
            format!("- {{apiVersion: example.com, kind: {kind}, current: \"status.phase == '{phase}'\"}}");
        let config_map = json!({"metadata": {"name": "a"}, "data": {"a": rule}});
        of_hub(&[serde_json::from_value(config_map).unwrap_or_default()], &[]).set
    }

    fn objects() -> BTreeMap<ObjectKey, Value> {
        let declared = |kind: &str| (key(kind), gadget(kind, ""));
        let config_map = ObjectKey::new(&vidra_core::object::Gvk::new("", "v1", "ConfigMap"), "shop", "a");
        [declared("Gadget"), declared("Widget"), (config_map, json!({}))].into()
    }

    #[test]
    fn objects_of_kinds_whose_rule_changes_are_concerned_and_of_all_where_the_hubs_rules_are_not_known() {
        let (now, then) = (rules("Gadget", "Up"), rules("Gadget", "On"));
        for (digest, kinds) in [
            (Some(now.digest()), vec!["Gadget"]),
            (Some("of another release".to_owned()), vec!["Gadget", "Widget"]),
            (None, vec!["Gadget", "Widget"]),
        ] {
            let target = target(json!({"healthRules": digest}));
            let question = Question { target: &target, now: &now, then: &then };
            let objects = objects();
            assert!(!question.is_alike());
            let found: Vec<_> =
                question.concerned(&objects).iter().map(|(key, _)| key.kind.to_string()).collect();
            assert_eq!(found, kinds, "{digest:?}");
        }
    }

    #[test]
    fn equal_digests_judge_alike() {
        let (now, then) = (rules("Gadget", "Up"), rules("Gadget", "On"));
        let target = target(json!({"healthRules": then.digest()}));
        assert!(Question { target: &target, now: &now, then: &then }.is_alike());
        assert!(!Question { target: &target, now: &then, then: &now }.is_alike());
    }

    #[test]
    fn a_verdict_turns_by_the_rules_alone_and_where_these_are_not_known_from_what_the_hub_told() {
        let (now, then) = (rules("Gadget", "Up"), rules("Gadget", "On"));
        let known = now.digest();
        let waits = json!([{"group": "example.com", "kind": "Gadget", "namespace": "shop", "name": "web", "health": "InProgress"}]);
        let told = |status: Value, phase: &str| {
            let target = target(status);
            let question = Question { target: &target, now: &now, then: &then };
            let (key, declared) = (key("Gadget"), gadget("Gadget", ""));
            match question.turn(&key, &declared, &gadget("Gadget", phase), &Facts::default()) {
                Turn::Same => "same".to_owned(),
                Turn::Open(why) => why,
                Turn::Other(line) => line,
            }
        };
        let down = "Gadget.example.com shop/web: Current -> InProgress (HealthCheckNotMet: No expression of the kind's health rule is true)";
        let unlisted = "the status lists only some of the objects that are not well";
        for (status, phase, words) in [
            (json!({"healthRules": known}), "Up", down),
            (json!({"healthRules": known}), "Odd", "same"),
            // The object has changed since the hub's last status: the rules turn nothing.
            (json!({"healthRules": known, "unready": waits}), "Odd", "same"),
            (json!({"healthRules": "other"}), "Up", down),
            (json!({"healthRules": "other", "unready": waits}), "Up", "same"),
            (json!({"healthRules": "other", "unreadyTotal": 30}), "Up", unlisted),
        ] {
            assert_eq!(told(status.clone(), phase), words, "{status} {phase}");
        }
        let hidden = |note: Value| {
            let one = json!({"group": "example.com", "kind": "Gadget", "namespace": "shop", "name": "web",
                "health": "NotFound", "note": note});
            told(json!({"healthRules": "other", "unready": [one]}), "Up")
        };
        assert!(hidden(json!(null)).ends_with("yet; ask again"), "{}", hidden(json!(null)));
        assert!(
            hidden(json!("left so")).ends_with("the hub does not see it: left so"),
            "asking does not help"
        );
        let up = told(json!({"healthRules": known}), "On");
        assert!(up.contains("InProgress -> Current"), "{up}");
    }

    #[test]
    fn instructions_count_as_they_do_for_the_hub() {
        let (now, then) = (library::rule_set(), rules("Gadget", "Up"));
        let target = target(json!({"healthRules": "other"}));
        let question = Question { target: &target, now: &now, then: &then };
        let mut once = gadget("Gadget", "");
        once["metadata"]["annotations"] = json!({"vidra.dev/apply": "Once"});
        let turn = question.turn(&key("Gadget"), &once, &gadget("Gadget", "Odd"), &Facts::default());
        assert_eq!(turn, Turn::Same);
    }

    #[test]
    fn the_same_of_several_targets_is_one_line() {
        let mut report = Report::default();
        let other = || Turn::Other("Gadget web: Current -> Failed".to_owned());
        report.add("team-a/shop.austin", [other(), Turn::Same]);
        report.add("team-a/shop.berlin", [other(), Turn::Open("Widget web: odd\u{1b}".to_owned())]);
        report.add("team-a/shop.cairo", [Turn::Open("Widget web: odd\u{1b}".to_owned())]);
        assert!(report.differs());
        report.add("team-a/shop.delhi", []);
        assert_eq!(
            report.text(),
            "~ Gadget web: Current -> Failed on 2: team-a/shop.austin, team-a/shop.berlin\n\
             ? Widget web: odd\\u{1b} on 2: team-a/shop.berlin, team-a/shop.cairo\n\
             4 targets: 1 judged alike, 2 would turn, 1 not known.\n"
        );
        assert!(!Report::default().differs());
    }
}
