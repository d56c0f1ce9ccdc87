//! Which members a VidraResource targets, and the namespace on each.

use std::collections::{BTreeMap, BTreeSet};

use vidra_api::{
    ClusterName, LabelSelector, LabelSelectorRequirement, SelectorOperator, TargetSelector, clip,
};

/// One member cluster, as far as selecting needs it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Hub namespaces that may target it; `None`: all.
    pub allowed_namespaces: Option<&'a [String]>,
    /// It is being deleted: nothing new goes there.
    pub leaving: bool,
}

impl Member<'_> {
    /// May VidraResources of this hub namespace target it?
    pub fn allows(&self, namespace: &str) -> bool {
        self.allowed_namespaces.is_none_or(|all| all.iter().any(|name| name == namespace))
    }
}

/// What was selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Member to destination namespace.
    pub targets: BTreeMap<String, String>,
    /// Names in `clusterNames` that no member bears.
    pub unknown: BTreeSet<String>,
    /// Names in `excludeClusters` that no member bears.
    pub unknown_excluded: BTreeSet<String>,
    /// Members that are named, and do not allow this namespace.
    pub forbidden: BTreeSet<String>,
    /// More that match by their labels, and do not allow this namespace: to this VidraResource they are not there.
    pub closed: BTreeSet<String>,
}

impl Selection {
    /// Whether this member is wanted, and does not allow this namespace.
    pub fn is_barred(&self, member: &str) -> bool {
        self.forbidden.contains(member) || self.closed.contains(member)
    }
}

/// So many namespaces are allowed by name, as the schema of MemberClusters has it.
pub const NAMESPACES_MAX: usize = 1000;

/// Reads names of namespaces, apart by commas or white space.
///
/// # Errors
/// In a sentence: there are too many, or one is none.
pub fn namespaces(text: &str, most: usize) -> Result<BTreeSet<String>, String> {
    let names = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|name| !name.is_empty());
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    // Both are DNS labels.
    let wrong = names.iter().find(|name| ClusterName::try_from(name.as_str()).is_err());
    let wrong = wrong.map(|name| format!("{:?} is not the name of a namespace; ", clip(name, 80)));
    if names.len() > most || wrong.is_some() {
        let wrong = wrong.unwrap_or_default();
        return Err(format!("{wrong}write at most {most} names of namespaces, apart by commas or spaces"));
    }
    Ok(names)
}

/// Selects. Entries are joined by OR; the first that matches a member names its namespace, and this
/// namespace is the default.
pub fn select(
    namespace: &str,
    targets: &[TargetSelector],
    excluded: &[String],
    members: &[Member<'_>],
) -> Selection {
    let mut selection = Selection::default();
    for member in members.iter().filter(|member| !excluded.iter().any(|name| name == member.name)) {
        let Some(entry) = targets.iter().find(|entry| matches(entry, member)) else { continue };
        if member.leaving {
            continue;
        }
        if !member.allows(namespace) {
            let barred = match targets.iter().any(|entry| names(entry, member)) {
                true => &mut selection.forbidden,
                false => &mut selection.closed,
            };
            barred.insert(member.name.to_owned());
            continue;
        }
        let destination = entry.namespace.as_deref().unwrap_or(namespace);
        selection.targets.insert(member.name.to_owned(), destination.to_owned());
    }
    let named = targets.iter().filter_map(|entry| entry.cluster_names.as_ref()).flatten();
    let is_unknown = |name: &&String| !members.iter().any(|member| member.name == **name);
    selection.unknown = named.filter(is_unknown).cloned().collect();
    selection.unknown_excluded = excluded.iter().filter(is_unknown).cloned().collect();
    selection
}

fn names(entry: &TargetSelector, member: &Member<'_>) -> bool {
    entry.cluster_names.as_ref().is_some_and(|names| names.iter().any(|name| name == member.name))
}

fn matches(entry: &TargetSelector, member: &Member<'_>) -> bool {
    let selected = entry.cluster_selector.as_ref().is_some_and(|selector| selects(selector, member.labels));
    names(entry, member) || selected
}

/// A label selector as Kubernetes defines it: all requirements hold; an empty one selects everything.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(|requirement| holds(requirement, labels))
}

fn holds(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|value| requirement.values.contains(value));
    match requirement.operator {
        SelectorOperator::In => listed,
        SelectorOperator::NotIn => !listed,
        SelectorOperator::Exists => value.is_some(),
        SelectorOperator::DoesNotExist => value.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn run(targets: Value, excluded: &[&str]) -> Selection {
        let labels = |text: &str| BTreeMap::from([("env".to_owned(), text.to_owned())]);
        let (prod, test) = (labels("prod"), labels("test"));
        let closed = ["other".to_owned()];
        let members = [
            Member { name: "berlin", labels: &prod, allowed_namespaces: None, leaving: false },
            Member { name: "tokyo", labels: &test, allowed_namespaces: None, leaving: false },
            Member { name: "austin", labels: &prod, allowed_namespaces: Some(&closed), leaving: false },
            Member { name: "gone", labels: &prod, allowed_namespaces: None, leaving: true },
        ];
        let targets: Vec<TargetSelector> = serde_json::from_value(targets).unwrap();
        let excluded: Vec<String> = excluded.iter().map(|name| (*name).to_owned()).collect();
        select("team", &targets, &excluded, &members)
    }

    fn chosen(selection: &Selection) -> Vec<(&str, &str)> {
        selection.targets.iter().map(|(name, namespace)| (&**name, &**namespace)).collect()
    }

    #[test]
    fn the_first_entry_that_matches_names_the_namespace() {
        let selection = run(
            json!([
                {"clusterNames": ["berlin", "paris"], "namespace": "shop"},
                {"clusterSelector": {}, "namespace": "rest"},
            ]),
            &[],
        );
        assert_eq!(chosen(&selection), [("berlin", "shop"), ("tokyo", "rest")]);
        assert_eq!(selection.unknown, BTreeSet::from(["paris".to_owned()]));
        assert!(selection.is_barred("austin") && !selection.is_barred("berlin"));
        assert_eq!((selection.forbidden.len(), selection.closed.len()), (0, 1));
    }

    #[test]
    fn a_member_that_allows_no_such_namespace_is_told_only_where_it_is_named() {
        let selection =
            run(json!([{"clusterNames": ["austin"]}, {"clusterSelector": {}}]), &["berlin", "berlim"]);
        assert_eq!(selection.forbidden, BTreeSet::from(["austin".to_owned()]));
        assert_eq!((chosen(&selection), selection.closed.len()), (vec![("tokyo", "team")], 0));
        assert_eq!(selection.unknown_excluded, BTreeSet::from(["berlim".to_owned()]));
    }

    #[test]
    fn selectors_select_as_in_kubernetes() {
        let cases = [
            (json!({"matchLabels": {"env": "test"}}), vec!["tokyo"]),
            (
                json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod"]}]}),
                vec!["berlin"],
            ),
            (
                json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}),
                vec!["tokyo"],
            ),
            (json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]}), vec!["berlin", "tokyo"]),
            (json!({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}), vec![]),
            (json!({}), vec!["berlin", "tokyo"]),
        ];
        for (selector, expected) in cases {
            let selection = run(json!([{ "clusterSelector": selector }]), &[]);
            let found: Vec<_> = selection.targets.keys().map(String::as_str).collect();
            assert_eq!(found, expected, "{selector}");
        }
    }

    #[test]
    fn names_of_namespaces_are_read_and_bounded() {
        let read =
            |text: &str| namespaces(text, 3).map(|names| names.into_iter().collect::<Vec<_>>().join(" "));
        assert_eq!(read("b, a\nb"), Ok("a b".to_owned()));
        assert_eq!(read(" "), Ok(String::new()));
        for (text, why) in [
            ("team-a Team_B", "\"Team_B\" is not the name of a namespace"),
            ("*", "\"*\" is not the name"),
            ("a b c d", "write at most 3 names"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn an_excluded_member_is_left_out_whatever_selects_it() {
        let selection = run(json!([{"clusterNames": ["berlin"]}, {"clusterSelector": {}}]), &["berlin"]);
        assert_eq!(chosen(&selection), [("tokyo", "team")]);
    }
}
