//! What of a VidraResource's policies holds for its targets while its manifest cannot be read, or a removal of it is held.
//!
//! Targets keep the revision that was delivered last. A policy by which less is written acts on it at once. One by which
//! more is written was declared along with the manifest, and waits for it: nobody has asked for an older revision to be
//! enforced by it.

use vidra_api::{
    DriftPolicy, VidraResourceSpec, VidraTargetSpec,
    drift::{DriftSpec, IGNORES_MAX, IgnoreRule},
};

use crate::{
    ignore::Rules,
    mutants::{self, Mutant},
};

/// The spec that a target has, `held`, with what of the VidraResource's restrains it.
pub fn restrained(held: &VidraTargetSpec, asked: &VidraResourceSpec) -> VidraTargetSpec {
    let mut next = held.clone();
    next.drift = drift(&held.drift, &asked.drift);
    next.prune &= asked.prune;
    next.namespace_and_crd_deletion = held.namespace_and_crd_deletion.min(asked.namespace_and_crd_deletion);
    next.conflicts.existing = held.conflicts.existing.min(asked.conflicts.existing);
    next.conflicts.fields = held.conflicts.fields.min(asked.conflicts.fields);
    next.conflicts.take_from.retain(|manager| asked.conflicts.take_from.contains(manager));
    next.suspend |= asked.suspend;
    if asked.status_feedback.is_empty() && !mutants::is(Mutant::HeldFeedback) {
        next.status_feedback = None;
    }
    next
}

fn drift(held: &DriftSpec, asked: &DriftSpec) -> DriftSpec {
    let mut next = held.clone();
    if asked.policy != DriftPolicy::Correct {
        next.policy = asked.policy;
    }
    next.yield_to = held.yield_to.min(asked.yield_to);
    let before = held.ignore.iter().filter(|rule| !asked.ignore.contains(rule));
    // A target whose rules cannot be read is neither compared nor repaired.
    let readable = asked.ignore.iter().chain(before).filter(|rule| is_readable(rule));
    next.ignore = readable.take(IGNORES_MAX).cloned().collect();
    next
}

fn is_readable(rule: &IgnoreRule) -> bool {
    Rules::compile(&DriftSpec { ignore: vec![rule.clone()], ..DriftSpec::default() }).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(spec: &Value) -> VidraResourceSpec {
        let mut whole = json!({"targets": [], "manifest": "x"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    /// The target of a VidraResource that says this.
    fn target(spec: &Value) -> VidraTargetSpec {
        let VidraResourceSpec { drift, prune, namespace_and_crd_deletion, conflicts, suspend, .. } =
            resource(spec);
        VidraTargetSpec {
            revision: "r".into(),
            drift,
            prune,
            namespace_and_crd_deletion,
            conflicts,
            suspend,
            ..VidraTargetSpec::default()
        }
    }

    #[test]
    fn what_restrains_acts_and_what_does_more_waits() {
        let rule = |path: &str| json!({"target": {"kind": "ConfigMap"}, "paths": [path]});
        let manager = |name: &str| json!({"manager": name, "operation": "Apply"});
        // Of each pair the first writes less.
        let pairs = [
            (json!({"suspend": true}), json!({"suspend": false})),
            (json!({"drift": {"policy": "Report"}}), json!({"drift": {"policy": "Correct"}})),
            (json!({"drift": {"policy": "Ignore"}}), json!({"drift": {"policy": "Correct"}})),
            (json!({"drift": {"yield": "Standard"}}), json!({"drift": {"yield": "None"}})),
            (
                json!({"drift": {"ignore": [rule(".a"), rule(".b")]}}),
                json!({"drift": {"ignore": [rule(".a")]}}),
            ),
            (json!({"prune": false}), json!({"prune": true})),
            (json!({"namespaceAndCRDDeletion": "Retain"}), json!({"namespaceAndCRDDeletion": "WhenEmpty"})),
            (json!({"conflicts": {"existing": "Fail"}}), json!({"conflicts": {"existing": "Adopt"}})),
            (json!({"conflicts": {"fields": "Fail"}}), json!({"conflicts": {"fields": "Force"}})),
            (
                json!({"conflicts": {"takeFrom": [manager("a")]}}),
                json!({"conflicts": {"takeFrom": [manager("a"), manager("b")]}}),
            ),
        ];
        for (less, more) in pairs {
            assert_eq!(restrained(&target(&more), &resource(&less)), target(&less), "{less}: at once");
            assert_eq!(restrained(&target(&less), &resource(&more)), target(&less), "{more}: waits");
        }
        let (report, ignore) =
            (json!({"drift": {"policy": "Report"}}), json!({"drift": {"policy": "Ignore"}}));
        assert_eq!(restrained(&target(&ignore), &resource(&report)), target(&report), "neither writes");
    }

    #[test]
    fn a_rule_that_cannot_be_read_stops_no_repair() {
        let rule = |path: &str| json!({"drift": {"ignore": [{"target": {}, "paths": [path]}]}});
        let (bad, good) = (rule("no path"), rule(".a"));
        assert_eq!(restrained(&target(&good), &resource(&bad)), target(&good));
        assert_eq!(restrained(&target(&bad), &resource(&good)), target(&good));
    }

    #[test]
    fn rules_of_both_are_no_more_than_a_target_takes() {
        let rules = |from: usize| {
            let rules = (from..from + 20).map(|at| json!({"target": {}, "paths": [format!(".a{at}")]}));
            json!({"drift": {"ignore": rules.collect::<Vec<_>>()}})
        };
        let next = restrained(&target(&rules(0)), &resource(&rules(20)));
        assert_eq!(next.drift.ignore.len(), IGNORES_MAX);
        assert_eq!(next.drift.ignore[..20], resource(&rules(20)).drift.ignore[..], "first what is asked for");
        assert_eq!(restrained(&next, &resource(&rules(20))), next);
    }
}
