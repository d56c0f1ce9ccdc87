//! How objects are of kinds that only conditions and health rules tell of, told apart from the hub's own evaluator: whoever
//! writes their statuses says a word to each who may ask, and what a rule asks is known by its text. A judge that evaluated
//! expressions would agree with a hub that does so wrongly.

use std::time::Duration;

use serde_json::{Value, json};

/// The group of these kinds: a Gadget has a status subresource, a Widget has none.
pub const GROUP: &str = "rig.test";
/// The ConfigMap of the fleet's rules about them.
pub const RULES: &str = "rig-rules";
/// A rule that cannot be read.
pub const BROKEN: &str = "status.phase = 'Up'";
/// What a VidraResource's rule may ask: when an object works, and when it has failed.
pub const OWN: [(&str, &str); 3] = [
    ("status.phase == 'Up'", "status.phase == 'Down'"),
    ("!(status.phase in ['Going', 'Down'])", "status.phase == 'Down'"),
    // Only for a rule that names its kind: an empty list is there.
    ("status.parts.all(part, part.state == 'good')", "status.parts.exists(part, part.state == 'bad')"),
];
/// What the fleet's may ask.
pub const FLEET: [(&str, &str); 2] = [
    ("status.mode == 'On'", "status.mode == 'Off'"),
    ("!(status.mode in ['Moving', 'Off'])", "status.mode == 'Off'"),
];

/// A first status is awaited for a minute of an object's age. Nobody knows better than to a few seconds when that is over,
/// and that somebody waits nobody has to tell later than this.
pub const AWAITED: (Duration, Duration) = (Duration::from_secs(55), Duration::from_secs(100));
/// The same of a status after a change, which is awaited for ten seconds.
pub const CATCHES_UP: (Duration, Duration) = (Duration::from_secs(8), Duration::from_secs(20));
/// What a rule, or a condition, calls failed may recover for half a minute: so long it takes Ready from none.
pub const RECOVERS: Duration = Duration::from_secs(35);
/// Objects are judged by changed rules within this: they are listed for it every thirty seconds.
pub const RULES_LAG: Duration = Duration::from_secs(45);
/// Rules are heard of within this: an event may come 8 s late, and 3 s are a moment.
pub const RULES_HEARD: Duration = Duration::from_secs(11);

/// What a status says to one who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It works.
    Well,
    /// It is on its way.
    Late,
    /// It has failed.
    Failed,
    /// Nothing: the field is missing, or the list is empty.
    Silent,
}

/// What it says to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// To who looks at conditions.
    pub conditions: Word,
    /// To a VidraResource's rule.
    pub own: Word,
    /// To the fleet's.
    pub fleet: Word,
}

impl Words {
    /// All is well, whoever asks.
    pub const WELL: Self = Self { conditions: Word::Well, own: Word::Well, fleet: Word::Well };

    /// A merge patch of the status that says this, of this generation where it tells of one.
    pub fn status(self, observed: Option<i64>) -> Value {
        let word = |word: Word, [well, late, failed]: [&str; 3]| match word {
            Word::Well => json!(well),
            Word::Late => json!(late),
            Word::Failed => json!(failed),
            Word::Silent => Value::Null,
        };
        let state = word(self.own, ["good", "going", "bad"]);
        let ready = word(self.conditions, ["True", "False", "False"]);
        let stalled = self.conditions == Word::Failed;
        let conditions =
            [json!({"type": "Ready", "status": ready}), json!({"type": "Stalled", "status": "True"})];
        let parts: Vec<_> = (!state.is_null()).then(|| json!({"state": state})).into_iter().collect();
        json!({
            "phase": word(self.own, ["Up", "Going", "Down"]), "parts": parts,
            "mode": word(self.fleet, ["On", "Moving", "Off"]), "observedGeneration": observed,
            "conditions": match self.conditions {
                Word::Silent => Value::Null,
                _ => json!(conditions[..1 + usize::from(stalled)]),
            },
        })
    }
}

/// What of a status is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Conditions,
    Phase,
    Parts,
    Mode,
}

/// What an object's status says to who asks so.
fn said(live: &Value, asks: Asks) -> Word {
    let status = &live["status"];
    let word = |value: &Value, [well, failed]: [&str; 2]| match value.as_str() {
        None => Word::Silent,
        Some(word) if word == well => Word::Well,
        Some(word) if word == failed => Word::Failed,
        Some(_) => Word::Late,
    };
    match asks {
        Asks::Phase => word(&status["phase"], ["Up", "Down"]),
        Asks::Mode => word(&status["mode"], ["On", "Off"]),
        Asks::Parts => word(&status["parts"][0]["state"], ["good", "bad"]),
        Asks::Conditions if status["conditions"][1].is_object() => Word::Failed,
        Asks::Conditions => word(&status["conditions"][0]["status"], ["True", ""]),
    }
}

/// Which objects a rule is about, as it is asked for: the narrower first.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Kind(String),
    Group,
    Family,
}

/// A rule, as far as the judge knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    scope: Scope,
    /// `None`: not known, for it could never be read.
    asks: Option<Asks>,
    /// It cannot be read, and is as it was.
    broken: bool,
}

/// The rules of a list, after those before it: one that cannot be read is as it was. It panics at one that it does not know.
pub fn rules(written: &Value, before: &[Rule]) -> Vec<Rule> {
    let all = written.as_array().into_iter().flatten();
    let read = |rule: &Value| {
        let scope = match rule["kind"].as_str() {
            Some(kind) => Scope::Kind(kind.to_owned()),
            None if rule["apiVersion"] == "*.test" => Scope::Family,
            None => Scope::Group,
        };
        let current = rule["current"].as_str().unwrap_or_default();
        let broken = current == BROKEN;
        let asks = match broken {
            true => before.iter().find(|one| one.scope == scope).and_then(|one| one.asks),
            // Of another kind than the rig's: no object of these is judged by it.
            false if !rule["apiVersion"].as_str().is_some_and(|of| of.contains(".test")) => None,
            false => Some(asked(current)),
        };
        Rule { scope, asks, broken }
    };
    all.map(read).collect()
}

fn asked(current: &str) -> Asks {
    let names = [("status.phase", Asks::Phase), ("status.parts", Asks::Parts), ("status.mode", Asks::Mode)];
    let asks = names.into_iter().find(|(name, _)| current.contains(name));
    asks.unwrap_or_else(|| panic!("the judge does not know the rule {current}")).1
}

/// Can each of them be read?
pub fn are_usable(rules: &[Rule]) -> bool {
    rules.iter().all(|rule| !rule.broken)
}

/// How an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It works: to its conditions, or to a rule.
    Well {
        /// No rule said so.
        by_conditions: bool,
    },
    /// It does not, or not yet.
    Late,
    /// It is called failed.
    Failed,
    /// It says nothing, and no rule is about it.
    Silent,
    /// The rule about it cannot be read; whether it works by what that was.
    Unusable(bool),
}

/// How an object of these kinds is by a VidraResource's rules and the fleet's.
pub fn told(live: &Value, own: &[Rule], fleet: &[Rule]) -> Told {
    let (metadata, kind) = (&live["metadata"], live["kind"].as_str().unwrap_or_default());
    let observed = &live["status"]["observedGeneration"];
    let is_old = kind == "Gadget" && !observed.is_null() && *observed != metadata["generation"];
    if !metadata["deletionTimestamp"].is_null() || is_old {
        return Told::Late;
    }
    let scopes = [Scope::Kind(kind.to_owned()), Scope::Group, Scope::Family];
    let of = |scope: &Scope| own.iter().chain(fleet).find(|rule| rule.scope == *scope);
    if let Some(rule) = scopes.iter().find_map(of) {
        let word = rule.asks.map(|asks| said(live, asks));
        // A rule for many kinds is about what has what it asks.
        let is_about = matches!(rule.scope, Scope::Kind(_)) || word.is_none_or(|word| word != Word::Silent);
        match word {
            _ if rule.broken => return Told::Unusable(word == Some(Word::Well)),
            Some(Word::Well) => return Told::Well { by_conditions: false },
            Some(Word::Failed) => return Told::Failed,
            _ if is_about => return Told::Late,
            _ => {}
        }
    }
    match said(live, Asks::Conditions) {
        Word::Well => Told::Well { by_conditions: true },
        Word::Silent => Told::Silent,
        Word::Failed => Told::Failed,
        Word::Late => Told::Late,
    }
}

/// Has no status been written since the hub's entry, as managedFields tell?
pub fn is_unanswered(live: &Value, is_ours: impl Fn(&str) -> bool) -> bool {
    let newest = |counts: &dyn Fn(&Value) -> bool| {
        let entries = live["metadata"]["managedFields"].as_array().into_iter().flatten();
        entries.filter(|entry| counts(entry)).filter_map(|entry| entry["time"].as_str()).max()
    };
    let ours = newest(&|entry| entry["manager"].as_str().is_some_and(&is_ours));
    let status = newest(&|entry| entry["subresource"] == "status");
    ours.is_some() && status < ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gadget(words: Words, observed: Option<i64>) -> Value {
        json!({"kind": "Gadget", "metadata": {"generation": 2}, "status": words.status(observed)})
    }

    fn rule(kind: Option<&str>, current: &str) -> Value {
        let api_version = if kind == Some("*") { "*.test" } else { "rig.test/v1" };
        json!([{"apiVersion": api_version, "kind": kind.filter(|kind| *kind != "*"), "current": current}])
    }

    #[test]
    fn the_narrower_rule_speaks_before_the_wider_and_a_resources_before_the_fleets() {
        let read = |kind, current| rules(&rule(kind, current), &[]);
        let (own, fleet) = (read(Some("Gadget"), OWN[1].0), read(Some("Gadget"), FLEET[0].0));
        let says = Words { own: Word::Late, ..Words::WELL };
        let live = gadget(says, Some(2));
        let by_rule = Told::Well { by_conditions: false };
        assert_eq!((told(&live, &own, &fleet), told(&live, &[], &fleet)), (Told::Late, by_rule));
        assert_eq!(told(&live, &read(None, OWN[0].0), &fleet), by_rule);
        assert_eq!(told(&live, &read(None, OWN[0].0), &read(Some("*"), FLEET[0].0)), Told::Late);
        assert_eq!(told(&gadget(says, Some(1)), &[], &fleet), Told::Late);
        assert_eq!(told(&live, &[], &[]), Told::Well { by_conditions: true });
    }

    #[test]
    fn what_says_nothing_is_on_its_way_to_a_rule_of_its_kind_and_none_of_anothers_business() {
        let by_rule = Told::Well { by_conditions: false };
        let silent = gadget(Words { own: Word::Silent, ..Words::WELL }, None);
        for (current, _) in OWN {
            assert_eq!(told(&silent, &rules(&rule(Some("Gadget"), current), &[]), &[]), Told::Late);
        }
        let wide = rules(&rule(None, OWN[0].0), &[]);
        assert_eq!(told(&silent, &wide, &[]), Told::Well { by_conditions: true });
        let all = Words { conditions: Word::Silent, own: Word::Silent, fleet: Word::Silent };
        assert_eq!(told(&gadget(all, None), &[], &[]), Told::Silent);
        let failed = gadget(Words { conditions: Word::Failed, ..Words::WELL }, None);
        assert_eq!(told(&failed, &[], &[]), Told::Failed);
        let own = rules(&rule(Some("Gadget"), OWN[0].0), &[]);
        let down = gadget(Words { own: Word::Failed, ..Words::WELL }, None);
        assert_eq!((told(&failed, &own, &[]), told(&down, &own, &[])), (by_rule, Told::Failed));
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_as_it_was() {
        let before = rules(&rule(Some("Gadget"), OWN[0].0), &[]);
        let broken = rule(Some("Gadget"), BROKEN);
        let live = gadget(Words { conditions: Word::Late, ..Words::WELL }, None);
        assert_eq!(told(&live, &rules(&broken, &before), &[]), Told::Unusable(true));
        assert_eq!(told(&live, &rules(&broken, &[]), &[]), Told::Unusable(false));
    }
}
