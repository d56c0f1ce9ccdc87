//! What of its objects in members comes back to the hub for a VidraResource: the rules of `spec.statusFeedback`, read
//! once; the values that they give for a live object; and what of all these a VidraTarget's status has room for.
//!
//! Pure functions of the rules and of what is declared and live. Expressions are those of health rules, with the same
//! bounds; nothing of a Secret is read. Whatever is too large or too much is left out, counted, and told.

mod builtin;
mod gather;
mod value;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt::Display};

use serde_json::Value;
use sha2::{Digest, Sha256};
use vidra_api::{
    FeedbackRule, FeedbackValue,
    feedback::{FEEDBACK_OBJECTS_MAX, FEEDBACK_RULES_MAX, FEEDBACK_VALUES_MAX, OBJECT_VALUES_MAX},
};

use crate::{
    first_of::more,
    health::{
        expression::{Expression, Stop, View},
        rule::{Groups, RuleError, RuleText},
        rules::{PatternRoom, short},
    },
    mutants::{self, Mutant},
    object::ObjectKey,
    status::Reason,
};
use builtin::Builtin;
pub use gather::{NO_ROOM, ROOM_MAX, gather};
use value::Untold;

/// Most objects that a rule without a name is about.
const UNNAMED_MAX: usize = 20;

/// The rules of a VidraResource, as far as they can be used.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    digest: Option<String>,
}

/// A rule that can be used.
#[derive(Debug)]
pub struct Rule {
    /// Its place among those that are written.
    nth: usize,
    /// The group of its objects; empty for the core group.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// The name of the only one. `None`: all of the kind.
    pub name: Option<String>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Builtin(Builtin),
    Own(Vec<(String, Expression)>),
}

const TOO_MANY: &str = "is beyond the 20 values of one object; ask for fewer in spec.statusFeedback";

/// What of declared objects rules are about.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// The objects, in the order of the rules; at most 100.
    pub objects: Vec<ObjectKey>,
    /// How many more there are.
    pub beyond: usize,
}

/// What the rules give for one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extract {
    values: Vec<FeedbackValue>,
    /// What they take, in bytes of JSON.
    size: usize,
    /// How many values are left out.
    left_out: usize,
    /// Which is the first of them, and why.
    why: Option<String>,
    /// One costs too much with what was asked of the object before.
    is_costly: bool,
}

/// A live object that values are read of. All that is asked of it takes at most what one VidraResource may take.
#[derive(Debug)]
pub struct Reading<'l> {
    live: &'l Value,
    view: View<'l>,
}

impl<'l> Reading<'l> {
    /// Nothing was asked of it yet.
    pub fn new(live: &'l Value) -> Self {
        Self { live, view: View::for_showing(live) }
    }

    /// The steps that all that was asked of it has taken.
    pub fn steps(&self) -> usize {
        self.view.steps()
    }
}

impl Extract {
    /// Of an object of which nothing may be written anywhere.
    pub fn redaction() -> Self {
        let why = Some("is of a kind that the setting redact protects".to_owned());
        Self { left_out: 1, why, ..Self::default() }
    }

    /// What its values take, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// This without its values: they are not kept, and why.
    #[must_use]
    pub fn cut(mut self, why: &str) -> Self {
        self.size = 0;
        for value in std::mem::take(&mut self.values) {
            self.leave_out(&value.name, why);
        }
        self
    }

    /// What of it has so much room, read with more.
    #[must_use]
    pub fn within(mut self, room: usize) -> Self {
        if self.size > room {
            self.size = 0;
            for value in std::mem::take(&mut self.values) {
                self.put(value, room);
            }
        }
        self
    }

    fn put(&mut self, value: FeedbackValue, room: usize) {
        match self.size + value::size(&value) {
            size if size <= room => {
                self.size = size;
                self.values.push(value);
            }
            _ => self.leave_out(&value.name, gather::NO_ROOM),
        }
    }

    /// A value is left out that costs too much with what was asked of the object before: it may come once less is asked.
    pub fn is_costly(&self) -> bool {
        self.is_costly
    }

    fn has(&self, name: &str) -> bool {
        self.values.iter().any(|known| known.name == name)
    }

    /// There is a value, and why it is not told.
    fn leave_out(&mut self, name: &str, why: impl Display) {
        self.left_out += 1;
        self.why.get_or_insert_with(|| format!("{name} {why}"));
    }
}

impl Rules {
    /// Reads them; tells what of them cannot be used, each with its place.
    pub fn read(written: &[FeedbackRule]) -> (Rules, Vec<String>) {
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        let mut room = PatternRoom::of_resource();
        for (nth, one) in written.iter().take(FEEDBACK_RULES_MAX).enumerate() {
            match Rule::read(nth, one, (&mut room, &mut problems)) {
                Ok(rule) => rules.push(rule),
                Err(why) => problems.push(format!("spec.statusFeedback[{nth}]: {why}")),
            }
        }
        (Rules { rules, digest: digest(written) }, problems)
    }

    /// None of them can be used.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// 12 hex digits over what is written; `None`: nothing is.
    pub fn digest(&self) -> Option<&String> {
        self.digest.as_ref()
    }

    /// Them, in their order.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// What they are about of what is declared; the keys come in their order.
    pub fn matches<'k>(&self, declared: impl Iterator<Item = &'k ObjectKey> + Clone) -> Matches {
        let (mut matched, mut seen) = (Matches::default(), BTreeSet::new());
        for rule in &self.rules {
            let most = if rule.name.is_some() { usize::MAX } else { UNNAMED_MAX };
            let about = declared.clone().filter(|key| rule.is_about(&key.group, &key.kind, &key.name));
            for (nth, key) in about.enumerate() {
                if seen.contains(key) {
                    continue;
                }
                if nth >= most || matched.objects.len() >= FEEDBACK_OBJECTS_MAX {
                    matched.beyond += 1;
                    continue;
                }
                seen.insert(key.clone());
                matched.objects.push(key.clone());
            }
        }
        matched
    }

    /// The places of those that are about nothing that is declared, given by group, kind and name.
    pub fn without_match<'d>(
        &self,
        declared: impl Iterator<Item = (&'d str, &'d str, &'d str)>,
    ) -> Vec<usize> {
        let mut open: Vec<&Rule> = self.rules.iter().collect();
        declared.for_each(|(group, kind, name)| open.retain(|rule| !rule.is_about(group, kind, name)));
        open.iter().map(|rule| rule.nth).collect()
    }

    /// What they give for a live object. Of two values of one name the first counts; where a field is missing there is
    /// none. `room`: bytes that all may take.
    pub fn extract(&self, key: &ObjectKey, Reading { live, view }: &Reading<'_>, room: usize) -> Extract {
        let (mut extract, mut tries) = (Extract::default(), 0);
        for rule in self.rules.iter().filter(|rule| rule.is_about(&key.group, &key.kind, &key.name)) {
            match &rule.values {
                Values::Builtin(kind) => {
                    let all = kind.values(live).into_iter();
                    all.for_each(|(name, json)| keep((&mut extract, room), name, Ok(json)));
                }
                Values::Own(all) => all.iter().for_each(|(name, expression)| {
                    if extract.has(name) {
                        return;
                    }
                    // Whatever comes of it: each costs.
                    tries += 1;
                    let given = match tries <= OBJECT_VALUES_MAX {
                        true => value::evaluate(expression, view),
                        false => Err(TOO_MANY.into()),
                    };
                    keep((&mut extract, room), name, given);
                }),
            }
        }
        extract
    }
}

/// Takes what an expression gave, if it is of a form that is told and there is room.
fn keep((extract, room): (&mut Extract, usize), name: &str, given: Result<Option<Value>, Untold>) {
    if extract.has(name) {
        return;
    }
    let value =
        given.and_then(|json| json.map(|json| value::form(name, json).map_err(Untold::from)).transpose());
    match value {
        Ok(None) => {}
        Err(untold) => {
            extract.is_costly |= untold.is_costly;
            extract.leave_out(name, untold.why);
        }
        Ok(Some(_)) if extract.values.len() >= OBJECT_VALUES_MAX => extract.leave_out(name, TOO_MANY),
        Ok(Some(value)) => extract.put(value, room),
    }
}

impl Rule {
    fn read(
        nth: usize,
        written: &FeedbackRule,
        told: (&mut PatternRoom, &mut Vec<String>),
    ) -> Result<Rule, String> {
        let FeedbackRule { api_version, kind, name, values } = written;
        let text =
            RuleText { api_version: api_version.clone(), kind: Some(kind.clone()), ..RuleText::default() };
        let scope = text.scope().map_err(|error| match error {
            RuleError::Scope { what, .. } => format!("apiVersion {api_version:?}, kind {kind:?}: {what}"),
            other => other.to_string(),
        })?;
        let group = match scope.groups {
            Groups::One(group) => group,
            Groups::Family(_) => return Err(format!("apiVersion {api_version:?}: name one group")),
        };
        if group.is_empty() && kind == "Secret" && !mutants::is(Mutant::SecretsComeBack) {
            return Err("nothing of a Secret comes back to the hub; choose another kind".to_owned());
        }
        let values = match values.is_empty() {
            true => Values::Builtin(Builtin::of(&group, kind).ok_or_else(|| {
                format!("the hub knows no values of {kind} by itself; write expressions under values")
            })?),
            false => Values::Own(compile(nth, written, told)),
        };
        Ok(Rule { nth, group, kind: kind.clone(), name: name.clone(), values })
    }

    /// The names of the values that it asks for.
    pub fn asks_for(&self) -> Vec<&str> {
        match &self.values {
            Values::Builtin(kind) => kind.values(&Value::Null).into_iter().map(|(name, _)| name).collect(),
            Values::Own(all) => all.iter().map(|(name, _)| name.as_str()).collect(),
        }
    }

    /// It asks for values of this object.
    pub fn is_about(&self, group: &str, kind: &str, name: &str) -> bool {
        self.kind == kind && self.group == group && self.name.as_deref().is_none_or(|own| own == name)
    }
}

/// Those of its expressions that can be read, while there is room for their patterns.
fn compile(
    nth: usize,
    written: &FeedbackRule,
    (room, problems): (&mut PatternRoom, &mut Vec<String>),
) -> Vec<(String, Expression)> {
    let mut all = Vec::new();
    for (at, one) in written.values.iter().take(FEEDBACK_VALUES_MAX).enumerate() {
        let text = &one.expression;
        let read = room.compile([text.as_str()].into_iter()).map_err(str::to_owned);
        let read = read.and_then(|()| Expression::compile(text).map_err(|fault| fault.describe(text)));
        let read = read.and_then(|expression| {
            room.take(expression.patterns()).map(|()| expression).map_err(str::to_owned)
        });
        match read {
            Ok(expression) => all.push((one.name.clone(), expression)),
            Err(why) => problems.push(format!("spec.statusFeedback[{nth}].values[{at}].expression, {why}")),
        }
    }
    all
}

fn digest(written: &[FeedbackRule]) -> Option<String> {
    let text = serde_json::to_vec(written).ok().filter(|_| !written.is_empty())?;
    Some(short(&Sha256::digest(text)))
}

/// What is wrong with rules: those that cannot be used, else those that are about nothing that is declared. Each with how
/// many more there are.
pub fn complaint(problems: &[String], unmatched: &[usize]) -> Option<(Reason, String)> {
    let more = |count: usize| more(count - 1, |more| format!("; and {more} more"));
    if let Some(first) = problems.first() {
        return Some((Reason::FeedbackInvalid, format!("{first}{}", more(problems.len()))));
    }
    let first = unmatched.first()?;
    let message = format!(
        "spec.statusFeedback[{first}] matches no object of the manifest{}; correct its apiVersion, kind and name, or remove it",
        more(unmatched.len())
    );
    Some((Reason::FeedbackUnmatched, message))
}
