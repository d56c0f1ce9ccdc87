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
/// namespace is the default. Each name is looked up once: there may be many thousands, and as many members.
pub fn select(
    namespace: &str,
    targets: &[TargetSelector],
    excluded: &[String],
    members: &[Member<'_>],
) -> Selection {
    let mut selection = Selection::default();
    let there: BTreeSet<&str> = members.iter().map(|member| member.name).collect();
    let excluded: BTreeSet<&str> =
        excluded.iter().map(String::as_str).filter(|name| there.contains(name)).collect();
    let named = first_named(targets, |name| there.contains(name));
    for member in members.iter().filter(|member| !excluded.contains(member.name)) {
        let named = named.get(member.name).copied();
        let Some(entry) = first_entry(targets, named, member.labels) else { continue };
        if member.leaving {
            continue;
        }
        if !member.allows(namespace) {
            let barred = match named {
                Some(_) => &mut selection.forbidden,
                None => &mut selection.closed,
            };
            barred.insert(member.name.to_owned());
            continue;
        }
        let destination = entry.namespace.as_deref().unwrap_or(namespace);
        selection.targets.insert(member.name.to_owned(), destination.to_owned());
    }
    selection
}

/// Names that no member bears.
pub fn unknown<'a>(
    names: impl Iterator<Item = &'a String>,
    members: &BTreeSet<&str>,
) -> impl Iterator<Item = &'a str> {
    names.map(String::as_str).filter(|name| !members.contains(name))
}

/// The names in `clusterNames`.
pub fn named(targets: &[TargetSelector]) -> impl Iterator<Item = &String> {
    targets.iter().filter_map(|entry| entry.cluster_names.as_ref()).flatten()
}

/// By the name of each member that is there and is named, the first entry that names it.
fn first_named(targets: &[TargetSelector], is_there: impl Fn(&str) -> bool) -> BTreeMap<&str, usize> {
    let mut first = BTreeMap::new();
    for (index, entry) in targets.iter().enumerate() {
        for name in entry.cluster_names.iter().flatten().filter(|name| is_there(name)) {
            first.entry(name.as_str()).or_insert(index);
        }
    }
    first
}

/// The first entry that selects these labels, or this one, which names the member, where none does before.
fn first_entry<'a>(
    targets: &'a [TargetSelector],
    named: Option<usize>,
    labels: &BTreeMap<String, String>,
) -> Option<&'a TargetSelector> {
    let before = targets.iter().take(named.unwrap_or(targets.len()));
    let mut selected = before.filter_map(|entry| Some((entry, entry.cluster_selector.as_ref()?)));
    let selected = selected.find(|(_, selector)| selects(selector, labels)).map(|(entry, _)| entry);
    selected.or_else(|| targets.get(named?))
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
        assert!(selection.is_barred("austin") && !selection.is_barred("berlin"));
        assert_eq!((selection.forbidden.len(), selection.closed.len()), (0, 1));
    }

    #[test]
    fn a_member_that_allows_no_such_namespace_is_told_only_where_it_is_named() {
        let selection =
            run(json!([{"clusterNames": ["austin"]}, {"clusterSelector": {}}]), &["berlin", "berlim"]);
        assert_eq!(selection.forbidden, BTreeSet::from(["austin".to_owned()]));
        assert_eq!((chosen(&selection), selection.closed.len()), (vec![("tokyo", "team")], 0));
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
    fn names_that_no_member_bears_are_found_where_that_is_asked() {
        let targets = json!([{"clusterNames": ["paris", "berlin"]}, {}, {"clusterNames": ["oslo"]}]);
        let targets: Vec<TargetSelector> = serde_json::from_value(targets).unwrap();
        let found: Vec<_> = unknown(named(&targets), &BTreeSet::from(["berlin", "tokyo"])).collect();
        assert_eq!(found, ["paris", "oslo"]);
    }

    #[test]
    fn each_name_is_looked_up_once_whoever_bears_it() {
        let names = |from: usize| (from..from + 100).map(|n| format!("c{n}")).collect::<Vec<_>>();
        let targets: Vec<TargetSelector> = serde_json::from_value(json!([
            {"clusterNames": names(0)}, {"clusterSelector": {}}, {"clusterNames": names(50)},
        ]))
        .unwrap();
        let asked = std::cell::Cell::new(0);
        let first = first_named(&targets, |name| {
            asked.set(asked.get() + 1);
            matches!(name, "c7" | "c70" | "c140")
        });
        assert_eq!(first, BTreeMap::from([("c7", 0), ("c70", 0), ("c140", 2)]));
        assert_eq!(asked.get(), 200);
    }

    proptest::proptest! {
        /// An entry matches a member that it names, or whose labels it selects.
        #[test]
        fn the_first_entry_is_the_one_that_a_search_finds(
            entries in proptest::collection::vec((proptest::collection::vec(0u8..4, 0..3), proptest::option::of(0u8..3)), 0..5),
            label in 0u8..3,
        ) {
            let targets: Vec<TargetSelector> = entries
                .iter()
                .map(|(names, selector)| {
                    let names: Vec<_> = names.iter().map(|name| format!("c{name}")).collect();
                    let selector = selector.map(|one| json!({"matchLabels": {"env": one.to_string()}}));
                    let namespace = format!("n{}", names.len());
                    serde_json::from_value(json!({
                        "clusterNames": names, "clusterSelector": selector, "namespace": namespace,
                    }))
                    .unwrap()
                })
                .collect();
            let labels = BTreeMap::from([("env".to_owned(), label.to_string())]);
            let found = entries.iter().position(|(names, selector)| names.contains(&1) || *selector == Some(label));
            let named = first_named(&targets, |name| name == "c1").get("c1").copied();
            let first = first_entry(&targets, named, &labels);
            proptest::prop_assert_eq!(
                first.map(std::ptr::from_ref),
                found.map(|index| std::ptr::from_ref(&targets[index]))
            );
        }
    }

    #[test]
    fn an_excluded_member_is_left_out_whatever_selects_it() {
        let selection = run(json!([{"clusterNames": ["berlin"]}, {"clusterSelector": {}}]), &["berlin"]);
        assert_eq!(chosen(&selection), [("tokyo", "team")]);
    }
}
