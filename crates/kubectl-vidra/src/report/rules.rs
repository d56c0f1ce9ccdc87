//! What a file of health rules holds: ConfigMaps of fleet rules, lists of rules, or a VidraResource with its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use vidra_api::labels::{HEALTH_RULES, HUB_LABEL};
use vidra_api::{HealthCheckExpr, VidraTarget};
use vidra_core::first_of::{first_of, more};
use vidra_core::health::fleet::Fleet;
use vidra_core::health::rule::RuleText;
use vidra_core::health::rules::{Origin, Problem, RuleSet, Rules};
use vidra_core::health::{library, own};
use vidra_core::manifest;

use crate::text::{count, some_of};

/// Most rules that are named.
const NAMED: usize = 10;

/// What stands in a rule.
const FIELDS: &str = "write apiVersion, kind and current, and where they are needed inProgress, failed, suspended, message, and observedGeneration: Ignore";

/// A rule with where it stands.
type Placed = (String, RuleText);

/// What was read so far.
#[derive(Default)]
struct Found {
    /// The fleet's, each list with the ConfigMap and the key that it is from; lists by themselves come first.
    fleet: Vec<((String, String), Vec<Placed>)>,
    /// Of a VidraResource: where it stands, and its rules.
    resource: Option<(String, Vec<Placed>)>,
    warnings: Vec<String>,
}

/// The shipped rules with those of a file, as the hub would put them together, and what to tell whoever wrote them.
///
/// # Errors
/// The text or a rule cannot be read: where, why, and what to write.
pub fn read(name: &str, text: &str) -> Result<(RuleSet, Vec<String>), String> {
    let mut found = Found::default();
    for (place, document) in manifest::documents(name, text).map_err(|error| error.to_string())? {
        if document.is_array() {
            found.fleet.push((Default::default(), list(&place.to_string(), &document)?));
            continue;
        }
        let objects = manifest::live_objects(place, document).map_err(|error| error.to_string())?;
        objects.iter().try_for_each(|object| found.add(name, object))?;
    }
    // ConfigMaps count by name and key, wherever they stand in the file.
    found.fleet.sort_by(|(one, _), (other, _)| one.cmp(other));
    let fleet: Vec<Placed> = found.fleet.into_iter().flat_map(|(_, rules)| rules).collect();
    let resource = found.resource.map(|(_, rules)| rules).unwrap_or_default();
    if fleet.is_empty() && resource.is_empty() {
        return Err(format!(
            "{name} holds no health rule; name a file with a ConfigMap of rules, a list of rules, or a VidraResource with spec.healthCheckExprs"
        ));
    }
    let mut warnings = found.warnings;
    let mut compiled = |origin, rules: &[Placed]| {
        let (rules, problems) =
            Rules::read(origin, rules.iter().map(|(place, text)| (place.clone(), text)), &Rules::default());
        let told: Vec<_> = problems.iter().filter_map(warning).collect();
        warnings.extend(told);
        match problems.iter().filter_map(error).collect::<Vec<_>>().as_slice() {
            [] => Ok(Arc::new(rules)),
            [first, others @ ..] => {
                Err(first.clone() + &more(others.len(), |more| format!(" (and {more} more)")))
            }
        }
    };
    let (resource, fleet) = (compiled(Origin::Resource, &resource)?, compiled(Origin::Fleet, &fleet)?);
    Ok((RuleSet::new(resource, fleet, library::rules()), warnings))
}

/// The rules that a hub has, as far as its API shows them, and what is to be known of them.
pub struct OfHub {
    /// With those that this version ships.
    pub set: RuleSet,
    /// Lines for people.
    pub warnings: Vec<String>,
    /// What it has beside those that are shipped; empty where that is nothing.
    pub beside: String,
}

/// Puts them together: of ConfigMaps in the hub's namespace, and of a VidraResource. What cannot be used is a warning: the
/// hub goes by what it was before, which its API does not show.
pub fn of_hub(config_maps: &[ConfigMap], own: &[HealthCheckExpr]) -> OfHub {
    let mut warnings = Vec::new();
    let mut texts: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for one in config_maps {
        let name = one.metadata.name.as_deref().unwrap_or_default();
        if one.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(HUB_LABEL)) {
            warnings
                .push(format!("ConfigMap {name} is delivered by a hub: to that hub its rules do not count"));
        } else {
            texts.insert(name, one.data.clone().unwrap_or_default());
        }
    }
    let (fleet, faults) = Fleet::default().read(texts.iter().map(|(name, texts)| (*name, texts)));
    warnings.extend(faults.into_iter().map(|fault| format!("{}: {}", fault.place, fault.why)));
    let (own, problems) = own::read(own, &Rules::default());
    warnings.extend(own::complaint(&problems).into_iter().chain(own::duplicates(&problems)));
    let named = |what: &str, rules: &Rules| {
        let scopes: Vec<String> = rules.scopes().map(ToString::to_string).collect();
        (!scopes.is_empty())
            .then(|| format!("{} of the {what} ({})", scopes.len(), first_of(scopes.iter(), NAMED)))
    };
    let beside: Vec<_> =
        [named("fleet", &fleet.rules), named("VidraResource", &own)].into_iter().flatten().collect();
    let set = RuleSet::new(Arc::new(own), fleet.rules, library::rules());
    OfHub { set, warnings, beside: beside.join(", ") }
}

/// Whether targets were judged by a set of rules when their statuses were written: a line, which is a warning where some
/// were not.
pub fn compared(digest: &str, targets: &[&VidraTarget]) -> String {
    let mut others: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut alike = 0;
    for target in targets {
        match target.status.as_ref().and_then(|status| status.health_rules.as_deref()) {
            Some(theirs) if theirs == digest => alike += 1,
            Some(theirs) => {
                let name = target.metadata.name.clone().unwrap_or_default();
                others.entry(theirs).or_default().push(name);
            }
            None => {}
        }
    }
    let told: Vec<_> =
        others.iter().map(|(theirs, names)| format!("{theirs} on {}", some_of(names, false))).collect();
    match (alike, told.as_slice()) {
        (0, []) => {
            "note: no target shows by which rules the hub judges, so they may differ from these".to_owned()
        }
        (alike, []) => format!("note: the hub judged {} by these rules", count(alike, "target")),
        (_, told) => format!(
            "warning: the hub judged by other rules when it last wrote ({}): its release ships others than this plug-in, or a change is on its way",
            told.join("; ")
        ),
    }
}

impl Found {
    /// What an object has of rules; others than those that hold some are passed over.
    fn add(&mut self, file: &str, object: &Value) -> Result<(), String> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/kind");
        let name = match text("/metadata/namespace") {
            "" => text("/metadata/name").to_owned(),
            namespace => format!("{namespace}/{}", text("/metadata/name")),
        };
        let place = format!("{file}, {kind} {name}");
        match (text("/apiVersion"), kind) {
            ("v1", "ConfigMap") => self.config_map(&name, &place, object),
            (api_version, "VidraResource") if api_version.split('/').next() == Some(vidra_api::GROUP) => {
                if let Some((first, _)) = &self.resource {
                    return Err(format!(
                        "{first} and {place} have rules each for its own objects; name a file with one of them"
                    ));
                }
                let exprs = &object["spec"]["healthCheckExprs"];
                let place = format!("{place}, spec.healthCheckExprs");
                let rules = if exprs.is_null() { Vec::new() } else { list(&place, exprs)? };
                self.resource = Some((place, rules));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn config_map(&mut self, name: &str, place: &str, object: &Value) -> Result<(), String> {
        if object["metadata"]["labels"][HEALTH_RULES] != "true" {
            self.warnings.push(format!(
                "{place} has no label {HEALTH_RULES}: \"true\"; the hub reads its rules only with it"
            ));
        }
        for (key, value) in object["data"].as_object().into_iter().flatten() {
            let place = format!("{place}, key {key}");
            let Some(text) = value.as_str() else {
                return Err(format!("{place}: it is no text; write a list of rules below `{key}: |`"));
            };
            for (place, document) in manifest::documents(&place, text).map_err(|error| error.to_string())? {
                let rules = list(&place.to_string(), &document)?;
                self.fleet.push(((name.to_owned(), key.clone()), rules));
            }
        }
        Ok(())
    }
}

/// The rules of a list.
fn list(place: &str, list: &Value) -> Result<Vec<Placed>, String> {
    let rules = list.as_array().ok_or_else(|| {
        format!("{place}: it is no list of health rules; begin each rule with `- apiVersion: `")
    })?;
    let read = |(nth, rule): (usize, &Value)| {
        let place = format!("{place}, rules[{nth}]");
        match serde_json::from_value(rule.clone()) {
            Ok(text) => Ok((place, text)),
            Err(error) => Err(format!("{place}: {error}; {FIELDS}")),
        }
    };
    rules.iter().enumerate().map(read).collect()
}

/// What keeps rules from being used.
fn error(problem: &Problem) -> Option<String> {
    match problem {
        Problem::Invalid { place, error } => Some(format!("{place}: {error}")),
        Problem::TooMany { place, most } => Some(format!(
            "{place}: there are more than {most} rules, and the hub reads no more; take some out"
        )),
        Problem::Duplicate { .. } => None,
    }
}

/// What does not.
fn warning(problem: &Problem) -> Option<String> {
    match problem {
        Problem::Duplicate { place, first, scope } => {
            Some(format!("{place} is about {scope}, as is {first}, which counts; take one of them out"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "- {apiVersion: example.com/v1, kind: Shop, current: status.open}\n";

    fn refusal(text: &str) -> String {
        match read("rules.yaml", text) {
            Ok((_, warnings)) => panic!("{text} was read, with {warnings:?}"),
            Err(error) => error,
        }
    }

    fn config_map(labels: &str, data: &str) -> String {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: rules, namespace: vidra-system{labels}}}\ndata:\n{data}"
        )
    }

    #[test]
    fn rules_stand_in_lists_config_maps_and_a_vidra_resource() {
        let labels = ", labels: {vidra.dev/health-rules: \"true\"}";
        let resource = "{apiVersion: vidra.dev/v1alpha1, kind: VidraResource, metadata: {name: shop}, spec: {healthCheckExprs: [{apiVersion: example.com/v1, kind: Shop, current: status.open}]}}";
        let digests: Vec<_> = [
            RULE.to_owned(),
            config_map(labels, &format!("  shop.yaml: |\n    {RULE}")),
            // As kubectl prints several, and beside what holds no rules.
            format!("kind: Namespace\napiVersion: v1\n---\n{RULE}"),
            resource.to_owned(),
        ]
        .iter()
        .map(|text| {
            let (set, warnings) = read("rules.yaml", text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(warnings.is_empty(), "{text}: {warnings:?}");
            set.digest()
        })
        .collect();
        assert_eq!(
            (&digests[0], &digests[0]),
            (&digests[1], &digests[2]),
            "fleet rules are the same in each form"
        );
        assert_ne!(digests[0], digests[3], "a VidraResource's are others");
        assert!(!digests.contains(&library::rule_set().digest()));
    }

    #[test]
    fn a_hubs_rules_are_put_together_as_the_hub_does_and_compared_by_digest() {
        let one = |name: &str, labels: Value, text: &str| -> ConfigMap {
            serde_json::from_value(
                serde_json::json!({"metadata": {"name": name, "labels": labels}, "data": {"a": text}}),
            )
            .unwrap_or_default()
        };
        let delivered = one("z", serde_json::json!({HUB_LABEL: "main"}), &RULE.replace("Shop", "Till"));
        let hub = of_hub(&[one("b", Value::Null, "- ["), one("a", Value::Null, RULE), delivered], &[]);
        let (same, _) = read("rules.yaml", RULE).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((hub.set.digest(), &*hub.beside), (same.digest(), "1 of the fleet (example.com/Shop)"));
        assert!(hub.warnings[0].starts_with("ConfigMap z is delivered by a hub"), "{:?}", hub.warnings);
        assert!(
            hub.warnings[1].starts_with("ConfigMap b, key a: document 1 (line 1): "),
            "{:?}",
            hub.warnings
        );
        let rule = HealthCheckExpr {
            api_version: "a.io/v1".into(),
            current: "status.up".into(),
            ..HealthCheckExpr::default()
        };
        let own = of_hub(&[], &[rule]);
        assert_eq!((&*own.beside, own.warnings.len()), ("1 of the VidraResource (a.io/*)", 0));
        assert_eq!(of_hub(&[], &[]).beside, "");
        assert_eq!(of_hub(&[], &[]).set.digest(), library::rule_set().digest());

        let target = |name: &str, digest: Option<&str>| -> VidraTarget {
            let mut target = VidraTarget::new(name, vidra_api::VidraTargetSpec::default());
            let health_rules = digest.map(str::to_owned);
            target.status = Some(vidra_api::VidraTargetStatus { health_rules, ..Default::default() });
            target
        };
        let all =
            [target("shop.berlin", Some("aa")), target("shop.cairo", Some("bb")), target("shop.delhi", None)];
        assert!(
            compared("aa", &[&all[0], &all[2]]).starts_with("note: the hub judged 1 target by these rules")
        );
        let told = compared("aa", &all.iter().collect::<Vec<_>>());
        assert!(told.starts_with("warning: ") && told.contains("(bb on 1: shop.cairo)"), "{told}");
        assert!(compared("aa", &[&all[2]]).contains("no target shows"));
    }

    #[test]
    fn what_counts_and_is_not_as_meant_is_a_warning() {
        let (_, warnings) =
            read("rules.yaml", &config_map("", &format!("  a: |\n    {RULE}    {RULE}"))).unwrap();
        assert_eq!(
            warnings,
            [
                "rules.yaml, ConfigMap vidra-system/rules has no label vidra.dev/health-rules: \"true\"; the hub reads its rules only with it",
                "rules.yaml, ConfigMap vidra-system/rules, key a, document 1 (line 1), rules[1] is about example.com/Shop, as is rules.yaml, ConfigMap vidra-system/rules, key a, document 1 (line 1), rules[0], which counts; take one of them out",
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_with_where_it_stands_and_what_to_write() {
        let rule = |fields: &str| format!("- {{apiVersion: example.com/v1, kind: Shop, {fields}}}");
        let resource = "{apiVersion: vidra.dev/v1alpha1, kind: VidraResource, metadata: {name: shop}, spec: {healthCheckExprs: []}}";
        let many = RULE.repeat(501);
        for (text, told) in [
            ("- [", "rules.yaml, document 1 (line 1): "),
            ("", "rules.yaml holds no health rule; name a file with a ConfigMap"),
            ("[]", "holds no health rule"),
            ("{apiVersion: v1, kind: Pod}", "holds no health rule"),
            (resource, "holds no health rule"),
            (&format!("{resource}\n---\n{resource}"), "name a file with one of them"),
            ("rules: []", "object has no apiVersion: add it"),
            ("- 1", "rules.yaml, document 1 (line 1), rules[0]: invalid type: integer `1`"),
            (
                "- {kind: Shop, current: 'true'}",
                "rules[0]: missing field `apiVersion`; write apiVersion, kind and current",
            ),
            (&rule("curent: 'true'"), "rules[0]: unknown field `curent`, expected one of `apiVersion`"),
            (&rule("current: true"), "rules[0]: invalid type: boolean `true`, expected a string"),
            (&rule("failed: status.a"), "rules[0]: health rule example.com/Shop: current is missing"),
            (
                &rule("current: status.phase = 'a'"),
                "rules[0]: health rule example.com/Shop, current, column 14: ",
            ),
            (&format!("{}\n- {{apiVersion: a.org, current: '('}}", rule("current: '('")), "(and 1 more)"),
            (
                "- {apiVersion: Example.com, current: 'true'}",
                "health rule for \"Example.com\": this is no group",
            ),
            (
                &config_map("", "  a: 1"),
                "ConfigMap vidra-system/rules, key a: it is no text; write a list of rules below",
            ),
            (&config_map("", "  a: 'b: 1'"), "key a, document 1 (line 1): it is no list of health rules"),
            (&config_map("", "  a: '- ['"), "ConfigMap vidra-system/rules, key a, document 1 (line 1): "),
            (&many, "rules[500]: there are more than 500 rules"),
        ] {
            let error = refusal(text);
            assert!(error.contains(told) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
