//! The condition Drifted of a VidraResource: on how many members, which object first, since when, by whom.

use vidra_api::{Change, ConditionStatus, DriftState, Time};

use super::{reason::Reason, resource::TargetView};
use crate::drift::managers;

/// What differed first of a target, and still does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDrift {
    /// The object.
    pub object: String,
    /// When the hub first saw it.
    pub since: Time,
    /// The managers that hold what differs, as messages may show them. Empty: nobody is named.
    pub by: Vec<String>,
}

/// The oldest of what is not corrected; of equally old ones the first.
pub fn first_drift(changes: &[Change]) -> Option<FirstDrift> {
    let change =
        changes.iter().filter(|change| change.corrected.is_none()).min_by_key(|one| one.detected_at.0)?;
    let dot = if change.group.is_empty() { "" } else { "." };
    let slash = if change.namespace.is_empty() { "" } else { "/" };
    let Change { kind, group, namespace, name, .. } = change;
    let object = format!("{kind}{dot}{group} {namespace}{slash}{name}");
    Some(FirstDrift { object, since: change.detected_at.clone(), by: managers(&change.fields) })
}

/// Status, reason and message of the condition.
pub(super) fn drifted(targets: &[TargetView]) -> (ConditionStatus, Reason, String) {
    let mut differ: Vec<&TargetView> =
        targets.iter().filter(|target| target.drift == Some(DriftState::Drifted)).collect();
    if !differ.is_empty() {
        // By age; where no age is known last; then by name.
        let since = |target: &TargetView| target.first_drift.as_ref().map(|first| first.since.0);
        differ.sort_by_key(|target| (since(target).is_none(), since(target), &target.cluster));
        let first = differ.first().map_or_else(String::new, |target| described(target));
        let message =
            format!("{} of {} targets differ from what is declared: {first}", differ.len(), targets.len());
        return (ConditionStatus::True, Reason::TargetsDrifted, message);
    }
    let blind = |target: &&TargetView| !target.leaving && target.drift != Some(DriftState::InSync);
    let unknown: Vec<&str> = targets.iter().filter(blind).map(|target| target.cluster.as_str()).collect();
    match unknown.iter().min() {
        None => (ConditionStatus::False, Reason::InSync, String::new()),
        Some(first) => {
            let count = unknown.len();
            let message = format!("{count} of {} targets are not compared: {first}", targets.len());
            (ConditionStatus::Unknown, Reason::NotCompared, message)
        }
    }
}

/// `berlin, ConfigMap shop/settings since 2026-01-02T03:04:05Z, by "alice-edit"`.
fn described(target: &TargetView) -> String {
    let Some(first) = &target.first_drift else { return target.cluster.clone() };
    let by = match first.by.as_slice() {
        [] => String::new(),
        names => {
            let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!(", by {}", names.join(", "))
        }
    };
    format!("{}, {} since {:.0}{by}", target.cluster, first.object, first.since.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::target::tests::at;
    use vidra_api::{ChangeKind, ChangedField};

    fn change(name: &str, detected: i64, corrected: Option<i64>, managers: &[&str]) -> Change {
        let field = |manager: &&str| ChangedField {
            path: ".data.key".into(),
            manager: (*manager).into(),
            ..ChangedField::default()
        };
        Change {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: name.into(),
            change: ChangeKind::Modified,
            detected_at: at(detected),
            corrected: corrected.map(at),
            fields: managers.iter().map(field).collect(),
        }
    }

    fn target(cluster: &str, drift: Option<DriftState>, changes: &[Change]) -> TargetView {
        TargetView {
            cluster: cluster.into(),
            state: None,
            drift,
            reason: None,
            message: None,
            revision: None,
            ready_revision: None,
            since: None,
            leaving: false,
            stalled: None,
            first_drift: first_drift(changes),
            going: None,
            objects: 1,
        }
    }

    #[test]
    fn the_oldest_change_that_is_not_corrected_is_told_with_who_did_it() {
        let changes = [
            change("b", 200, None, &["bob"]),
            change("a", 100, None, &["carol\n", "alice", "alice", "unknown", ""]),
            change("c", 1, Some(2), &["dave"]),
        ];
        let first = first_drift(&changes).unwrap();
        assert_eq!((first.object.as_str(), first.since.clone()), ("Deployment.apps shop/a", at(100)));
        assert_eq!(first.by, ["alice", "carol "]);
        assert_eq!(first_drift(&changes[2..]), None);
        assert_eq!(first_drift(&[]), None);
    }

    #[test]
    fn the_condition_says_on_how_many_members_and_since_when() {
        use DriftState::{Drifted, InSync, Unknown};
        let old = [change("a", 100, None, &["alice-edit"])];
        let new = [change("b", 200, None, &[])];
        let cases = [
            (
                vec![
                    target("berlin", Some(Drifted), &new),
                    target("tokyo", Some(Drifted), &old),
                    target("x", Some(Unknown), &[]),
                ],
                ConditionStatus::True,
                "2 of 3 targets differ from what is declared: tokyo, Deployment.apps shop/a since 1970-01-01T00:01:40Z, by \"alice-edit\"",
            ),
            (
                vec![target("tokyo", Some(Drifted), &[]), target("berlin", Some(Drifted), &[])],
                ConditionStatus::True,
                "2 of 2 targets differ from what is declared: berlin",
            ),
            (
                vec![
                    target("tokyo", Some(InSync), &[]),
                    target("berlin", Some(Unknown), &[]),
                    target("austin", None, &[]),
                ],
                ConditionStatus::Unknown,
                "2 of 3 targets are not compared: austin",
            ),
            (vec![target("tokyo", Some(InSync), &old)], ConditionStatus::False, ""),
            (vec![], ConditionStatus::False, ""),
        ];
        for (targets, status, message) in cases {
            let said = drifted(&targets);
            assert_eq!((said.0, said.2.as_str()), (status, message));
        }
    }

    #[test]
    fn who_leaves_is_not_waited_for() {
        let mut gone = target("berlin", Some(DriftState::Unknown), &[]);
        gone.leaving = true;
        let all = [gone, target("tokyo", Some(DriftState::InSync), &[])];
        assert_eq!(drifted(&all).0, ConditionStatus::False);
    }
}
