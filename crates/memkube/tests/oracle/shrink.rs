//! A differing sequence made small: steps, fields and items taken out as long as it still differs.

use anyhow::Result;
use serde_json::Value;

use super::sequence::{Sequence, Step};

/// How many candidates are tried.
const MOST: usize = 4_000;

/// The smallest sequence found that still differs; `differs` gives the step.
pub fn smallest(
    sequence: &Sequence,
    differs: &mut dyn FnMut(&Sequence) -> Result<Option<usize>>,
) -> Result<Sequence> {
    let mut best = sequence.clone();
    let mut tried = 0;
    'again: loop {
        let now = best.clone();
        for steps in candidates(&now) {
            tried += 1;
            if tried > MOST {
                return Ok(best);
            }
            let candidate = best.with(steps);
            if let Some(at) = differs(&candidate)? {
                best = candidate.with(candidate.steps[..=at].to_vec());
                continue 'again;
            }
        }
        return Ok(best);
    }
}

/// The sequence with one step less, or one field or item less in one step.
fn candidates(sequence: &Sequence) -> impl Iterator<Item = Vec<Step>> + '_ {
    let steps = &sequence.steps;
    let shorter = (0..steps.len()).map(move |at| {
        let mut left = steps.clone();
        left.remove(at);
        left
    });
    let smaller = (0..steps.len()).flat_map(move |at| {
        let mut paths = Vec::new();
        places(&steps[at].object, String::new(), &mut paths);
        paths.into_iter().map(move |path| {
            let mut left = steps.clone();
            take(&mut left[at].object, &path);
            left
        })
    });
    shorter.chain(smaller)
}

/// JSON pointers of all that can be taken out, outer ones first.
fn places(value: &Value, path: String, into: &mut Vec<String>) {
    let mut below = Vec::new();
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let step = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                if !["/apiVersion", "/kind", "/metadata", "/metadata/name"].contains(&step.as_str()) {
                    into.push(step.clone());
                }
                below.push((step, value));
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                into.push(format!("{path}/{at}"));
                below.push((format!("{path}/{at}"), value));
            }
        }
        _ => {}
    }
    below.into_iter().for_each(|(path, value)| places(value, path, into));
}

fn take(object: &mut Value, path: &str) {
    let Some((parent, last)) = path.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(list)) => {
            if let Ok(at) = last.parse::<usize>() {
                list.remove(at);
            }
        }
        _ => {}
    }
}
