//! What spec.statusFeedback brought back: a table by cluster, or the clusters by what a value is on them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vidra_api::{Feedback, FeedbackObject, FeedbackRule, FeedbackValue, VidraTarget};
use vidra_core::feedback::{Rule, Rules};

use super::change::named;
use crate::table::table;
use crate::text::{age, brief, clean, count, names};

/// Longest value in a cell.
const CELL_MAX: usize = 60;
/// Longest reason why something is left out.
const MESSAGE_MAX: usize = 300;

/// Group, kind, namespace and name of an object.
type Name<'t> = (&'t str, &'t str, &'t str, &'t str);

/// One object with the clusters that have values of it, and its values: those that the rules ask for, then the others.
#[derive(Default)]
struct Object<'t> {
    names: Vec<&'t str>,
    clusters: Vec<(&'t VidraTarget, &'t FeedbackObject)>,
}

impl<'t> Object<'t> {
    fn add(&mut self, target: &'t VidraTarget, object: &'t FeedbackObject) {
        object.values.iter().for_each(|value| self.name(&value.name));
        self.clusters.push((target, object));
    }

    fn name(&mut self, name: &'t str) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }
}

/// A table for each object: its values by cluster, and of numbers their sum, least and greatest. Rules that gave nothing on
/// any cluster are lines below.
pub fn values(rules: &[FeedbackRule], targets: &[VidraTarget], now: Timestamp) -> String {
    let rules = Rules::read(rules).0;
    let objects = objects(&rules, targets);
    let mut text = String::new();
    for ((group, kind, namespace, name), object) in &objects {
        text.push_str(&format!("{}\n", clean(&named(group, kind, namespace, name))));
        let header: Vec<&str> = ["CLUSTER"].into_iter().chain(object.names.iter().copied()).collect();
        let rows = object.clusters.iter().map(|(target, object_there)| {
            let cells = object.names.iter().map(|name| cell(value(object_there, name)));
            [who(target, now)].into_iter().chain(cells).collect()
        });
        text.push_str(&table(&header, rows.chain(totals(object))));
        text.push('\n');
    }
    let without = without_values(&rules, &objects);
    text.extend(
        without.iter().map(|rule| format!("{}: {}: none\n", of(rule), clean(&rule.asks_for().join(", ")))),
    );
    if !without.is_empty() {
        text.push('\n');
    }
    if objects.is_empty() && rules.is_empty() {
        text.push_str("No values: see spec.statusFeedback of the VidraResource.\n");
    }
    text + &ending(targets)
}

/// `Deployment.apps web`, or all of the kind.
fn of(rule: &Rule) -> String {
    let name = rule.name.as_deref().unwrap_or("of any name");
    clean(&named(&rule.group, &rule.kind, "", name))
}

/// Rules that are about no object with values.
fn without_values<'r>(rules: &'r Rules, objects: &BTreeMap<Name<'_>, Object<'_>>) -> Vec<&'r Rule> {
    let gave = |rule: &Rule| objects.keys().any(|(group, kind, _, name)| rule.is_about(group, kind, name));
    rules.all().iter().filter(|rule| !gave(rule) && !rule.asks_for().is_empty()).collect()
}

/// The clusters by what this value is on them, for each object that has it.
///
/// # Errors
/// No value is named so; and which there are.
pub fn by(
    rules: &[FeedbackRule],
    targets: &[VidraTarget],
    wanted: &str,
    now: Timestamp,
) -> Result<String, String> {
    let rules = Rules::read(rules).0;
    let objects = objects(&rules, targets);
    let mut text = String::new();
    for ((group, kind, namespace, name), object) in &objects {
        if !object.names.contains(&wanted) {
            continue;
        }
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for target in targets {
            let there = object.clusters.iter().find(|(one, _)| std::ptr::eq(*one, target));
            let found = cell(there.and_then(|(_, there)| value(there, wanted)));
            groups.entry(found).or_default().push(who(target, now));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(found, clusters)| (found.is_empty(), std::cmp::Reverse(clusters.len())));
        text.push_str(&format!("{}: {}\n", clean(&named(group, kind, namespace, name)), clean(wanted)));
        let rows = groups
            .into_iter()
            .map(|(found, clusters)| vec![found, clusters.len().to_string(), names(&clusters, false)]);
        text.push_str(&table(&["VALUE", "CLUSTERS", "NAMES"], rows));
        text.push('\n');
    }
    let without = without_values(&rules, &objects);
    for rule in without.iter().filter(|rule| rule.asks_for().contains(&wanted)) {
        text.push_str(&format!("{}: {}: none\n\n", of(rule), clean(wanted)));
    }
    if text.is_empty() {
        let mut known: Vec<&str> = objects.values().flat_map(|object| object.names.iter().copied()).collect();
        known.extend(without.iter().flat_map(|rule| rule.asks_for()));
        known.sort_unstable();
        known.dedup();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("no value is named {wanted}; there are: {known}"));
    }
    Ok(text + &ending(targets))
}

/// Objects that have values anywhere, by their names.
fn objects<'t>(rules: &'t Rules, targets: &'t [VidraTarget]) -> BTreeMap<Name<'t>, Object<'t>> {
    let asked = |group: &str, kind: &str, name: &str| {
        let mut object = Object::default();
        let about = rules.all().iter().filter(|rule| rule.is_about(group, kind, name));
        about.flat_map(Rule::asks_for).for_each(|value| object.name(value));
        object
    };
    let mut all: BTreeMap<Name<'_>, Object<'_>> = BTreeMap::new();
    let mut targets: Vec<&VidraTarget> = targets.iter().collect();
    targets.sort_by_key(|target| &target.spec.cluster);
    for target in targets {
        for object in feedback(target).into_iter().flat_map(|feedback| &feedback.objects) {
            let FeedbackObject { group, kind, namespace, name, .. } = object;
            let key = (group.as_str(), kind.as_str(), namespace.as_str(), name.as_str());
            all.entry(key).or_insert_with(|| asked(group, kind, name)).add(target, object);
        }
    }
    all
}

fn feedback(target: &VidraTarget) -> Option<&Feedback> {
    target.status.as_ref()?.feedback.as_ref()
}

fn value<'o>(object: &'o FeedbackObject, name: &str) -> Option<&'o FeedbackValue> {
    object.values.iter().find(|value| value.name == name)
}

/// The cluster, and how old what it says is.
fn who(target: &VidraTarget, now: Timestamp) -> String {
    let old = target.status.as_ref().and_then(|status| status.feedback_at.as_ref());
    let cluster = &target.spec.cluster;
    old.map_or_else(|| cluster.clone(), |at| format!("{cluster} ({} old)", age(at, now)))
}

fn cell(value: Option<&FeedbackValue>) -> String {
    let Some(value) = value else { return String::new() };
    let text = value.text.clone().or_else(|| value.json.clone()).or_else(|| value.number.clone());
    let text = text.or_else(|| value.integer.map(|number| number.to_string()));
    brief(&text.or_else(|| value.boolean.map(|truth| truth.to_string())).unwrap_or_default(), CELL_MAX)
}

/// The numbers that a value is.
enum Numbers {
    Whole(Vec<i128>),
    Decimal(Vec<f64>),
}

/// `None`: it is no number anywhere, or something else too.
fn numbers(object: &Object<'_>, name: &str) -> Option<Numbers> {
    let all: Vec<_> = object.clusters.iter().filter_map(|(_, there)| value(there, name)).collect();
    if all.is_empty() {
        return None;
    }
    if let Some(whole) = all.iter().map(|value| value.integer.map(i128::from)).collect() {
        return Some(Numbers::Whole(whole));
    }
    let decimal = |value: &&FeedbackValue| {
        let whole = value.integer.map(|number| number as f64);
        whole.or_else(|| value.number.as_ref()?.parse().ok())
    };
    all.iter().map(decimal).collect::<Option<_>>().map(Numbers::Decimal)
}

/// The lines below a table; none where nothing is a number, or where there is but one cluster.
fn totals(object: &Object<'_>) -> Vec<Vec<String>> {
    let all: Vec<_> = object.names.iter().map(|name| numbers(object, name)).collect();
    if object.clusters.len() < 2 || all.iter().all(Option::is_none) {
        return Vec::new();
    }
    let line = |what: &str, whole: fn(&[i128]) -> i128, decimal: fn(&[f64]) -> f64| {
        let cells = all.iter().map(|numbers| match numbers {
            None => String::new(),
            Some(Numbers::Whole(numbers)) => whole(numbers).to_string(),
            Some(Numbers::Decimal(numbers)) => decimal(numbers).to_string(),
        });
        [what.to_owned()].into_iter().chain(cells).collect()
    };
    vec![
        line("sum", |all| all.iter().sum(), |all| all.iter().sum()),
        line(
            "min",
            |all| all.iter().copied().min().unwrap_or_default(),
            |all| all.iter().copied().fold(f64::INFINITY, f64::min),
        ),
        line(
            "max",
            |all| all.iter().copied().max().unwrap_or_default(),
            |all| all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ),
    ]
}

/// Of how many clusters that is, how many of them nobody has seen since, and what is left out.
fn ending(targets: &[VidraTarget]) -> String {
    let told = targets.iter().filter(|target| feedback(target).is_some()).count();
    let is_old = |target: &&VidraTarget| {
        feedback(target).is_some()
            && target.status.as_ref().is_some_and(|status| status.feedback_at.is_some())
    };
    let old = targets.iter().filter(is_old).count();
    let mut text = format!("{told} of {}", count(targets.len(), "cluster"));
    if old > 0 {
        text.push_str(&format!(", {old} old"));
    }
    text.push('\n');
    for target in targets {
        let Some(Feedback { left_out, message, .. }) = feedback(target).filter(|told| told.left_out > 0)
        else {
            continue;
        };
        let why = message.as_deref().unwrap_or("the status is written without its lists");
        text.push_str(&format!(
            "left out on {}: {left_out}; {}\n",
            clean(&target.spec.cluster),
            brief(why, MESSAGE_MAX)
        ));
    }
    text
}
