//! What is left alone: fields that a VidraResource ignores, and fields that it yields to the controllers that hold
//! them. Rules are checked once; for one declared object they come to a [`FieldExemptions`], and most objects have none.
//!
//! An ignored field is never compared, and an apply to a live object leaves it as it is. A yielded one is treated so
//! while somebody who may have it holds it; otherwise it is a field like any other.

mod autoscalers;
mod field_exemptions;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use vidra_api::{DriftSpec, IgnoreTarget, YieldPolicy};

pub use autoscalers::Autoscalers;
pub use field_exemptions::FieldExemptions;

use autoscalers::{Scaled, Scalers};

use crate::{
    fields::Path,
    first_of::more,
    object::{Gvk, ObjectKey},
    render::Unresolved,
    status::Reason,
};

/// A path of `spec.drift.ignore` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} ({path}): {why}")]
pub struct InvalidIgnore {
    /// Where it stands, such as `spec.drift.ignore[0].paths[1]`.
    pub place: String,
    /// The path as written.
    pub path: String,
    /// What is wrong, and how to fix it.
    pub why: String,
}

/// A rule, or one path of it, that matches nothing of what a target declares. Ordered as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unused {
    /// The rule's index.
    pub rule: usize,
    /// The path's index; `None`: its target matches no object.
    pub path: Option<usize>,
}

/// The checked rules of one VidraResource.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<(IgnoreTarget, Vec<Path>)>,
    yields: bool,
}

/// What the rules come to for all that a target declares.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exemptions {
    /// The objects of which something is, or may be, left alone.
    pub objects: BTreeMap<ObjectKey, FieldExemptions>,
    /// What matches nothing, most likely by mistake.
    pub unused: Vec<Unused>,
}

impl Rules {
    /// Checks the rules.
    ///
    /// # Errors
    /// The first path that cannot be read.
    pub fn compile(spec: &DriftSpec) -> Result<Self, InvalidIgnore> {
        let mut rules = Vec::with_capacity(spec.ignore.len());
        for (nth, rule) in spec.ignore.iter().enumerate() {
            let paths = rule.paths.iter().enumerate().map(|(at, text)| {
                read(text).map_err(|why| InvalidIgnore {
                    place: format!("spec.drift.ignore[{nth}].paths[{at}]"),
                    path: text.clone(),
                    why,
                })
            });
            rules.push((rule.target.clone(), paths.collect::<Result<_, _>>()?));
        }
        Ok(Self { rules, yields: spec.yield_to == YieldPolicy::Standard })
    }

    /// Applies the rules to declared objects. Of objects of kinds that nobody knows yet it cannot be told what they
    /// match: rules whose target may mean them count as used. Replicas yield to `autoscalers`.
    pub fn exemptions<'a>(
        &self,
        declared: impl IntoIterator<Item = (&'a Gvk, &'a ObjectKey, &'a Value)> + Clone,
        unresolved: &[Unresolved],
        autoscalers: &Arc<Autoscalers>,
    ) -> Exemptions {
        let scaled: Vec<Scaled<'a>> = match self.yields {
            true => {
                let all = declared.clone().into_iter();
                all.filter_map(|(gvk, key, body)| Scaled::by(gvk, key, body)).collect()
            }
            false => Vec::new(),
        };
        let mut matched: Vec<Matched> =
            self.rules.iter().map(|(_, paths)| Matched::none(paths.len())).collect();
        let mut objects = BTreeMap::new();
        for (gvk, key, body) in declared {
            let mut ignored: Vec<Path> = Vec::new();
            for ((target, paths), matched) in self.rules.iter().zip(&mut matched) {
                if !holds(target, &gvk.group, &gvk.kind, &key.name, Some(&key.namespace)) {
                    continue;
                }
                matched.target = true;
                for (path, seen) in paths.iter().zip(&mut matched.paths) {
                    if path.find(body).is_some() {
                        *seen = true;
                        if !ignored.contains(path) {
                            ignored.push(path.clone());
                        }
                    }
                }
            }
            let yielding = if self.yields { field_exemptions::candidates(gvk, body) } else { Vec::new() };
            let is_scaled = !yielding.is_empty() && scaled.iter().any(|scaled| scaled.is(key));
            let scalers = match is_scaled {
                true => Scalers::Anybody,
                false => Scalers::Only(Arc::clone(autoscalers)),
            };
            if let Some(exempt) = FieldExemptions::new(ignored, yielding, scalers) {
                objects.insert(key.clone(), exempt);
            }
        }
        for ((target, _), matched) in self.rules.iter().zip(&mut matched) {
            let may_mean = |one: &Unresolved| holds(target, &one.gvk.group, &one.gvk.kind, &one.name, None);
            if unresolved.iter().any(may_mean) {
                *matched = Matched::none(0);
                matched.target = true;
            }
        }
        let unused = matched.iter().enumerate().flat_map(|(rule, matched)| matched.unused(rule)).collect();
        Exemptions { objects, unused }
    }
}

/// What of a rule was seen to match.
struct Matched {
    target: bool,
    paths: Vec<bool>,
}

impl Matched {
    fn none(paths: usize) -> Self {
        Self { target: false, paths: vec![false; paths] }
    }

    fn unused(&self, rule: usize) -> Vec<Unused> {
        match self.target {
            false => vec![Unused { rule, path: None }],
            true => {
                let paths = self.paths.iter().enumerate().filter(|(_, seen)| !**seen);
                paths.map(|(at, _)| Unused { rule, path: Some(at) }).collect()
            }
        }
    }
}

fn holds(target: &IgnoreTarget, group: &str, kind: &str, name: &str, namespace: Option<&str>) -> bool {
    let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    same(&target.group, group)
        && same(&target.kind, kind)
        && same(&target.name, name)
        && namespace.is_none_or(|namespace| same(&target.namespace, namespace))
}

fn read(text: &str) -> Result<Path, String> {
    let path: Path = text.parse().map_err(|error: crate::fields::PathError| error.to_string())?;
    let names: Vec<String> = path.elements().iter().map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        [".apiVersion" | ".kind", ..]
        | [".metadata"]
        | [".metadata", ".name" | ".namespace" | ".uid" | ".resourceVersion" | ".managedFields", ..] => {
            Err("what an object is called and what the server keeps of it cannot be ignored".to_owned())
        }
        _ => Ok(path),
    }
}

/// What is unused in every target, by what is in each; `None`: there is no target.
pub fn unused_everywhere<'t>(targets: impl Iterator<Item = &'t [Unused]>) -> Option<Vec<Unused>> {
    let sets = targets.map(|unused| unused.iter().copied().collect::<BTreeSet<_>>());
    let common = sets.reduce(|all, one| in_both(&all, &one))?;
    Some(common.into_iter().collect())
}

/// What is unused in both: a rule whose target matches nothing here and only some path there, is unused for that path.
fn in_both(one: &BTreeSet<Unused>, other: &BTreeSet<Unused>) -> BTreeSet<Unused> {
    let covers = |all: &BTreeSet<Unused>, unused: &Unused| {
        all.contains(unused) || all.contains(&Unused { path: None, ..*unused })
    };
    let of_one = one.iter().filter(|unused| covers(other, unused));
    let of_other = other.iter().filter(|unused| covers(one, unused));
    of_one.chain(of_other).copied().collect()
}

/// What is unused, in a sentence that says what to do; `None` when nothing is.
pub fn complaint(unused: &[Unused], spec: &DriftSpec) -> Option<(Reason, String)> {
    let first = unused.first()?;
    let more = more(unused.len() - 1, |more| format!(" ({more} more like it)"));
    let place = format!("spec.drift.ignore[{}]", first.rule);
    let Some(at) = first.path else {
        let message = format!(
            "the target of {place} matches no object that is declared{more}; correct it, or remove the entry"
        );
        return Some((Reason::TargetMatchesNothing, message));
    };
    let path = spec.ignore.get(first.rule).and_then(|rule| rule.paths.get(at)).map_or("", String::as_str);
    let message = format!(
        "{place}.paths[{at}] ({path}) is in no object that its target matches{more}; write it as the API server does in conflicts, or remove it"
    );
    Some((Reason::PathMatchesNothing, message))
}
