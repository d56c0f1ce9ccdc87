//! What of a status is written where the whole is not taken: what people and the hub go by, and no list of details.

use vidra_api::{Feedback, LeftBehind, VidraResourceStatus, VidraTargetStatus};

/// A status that can be told in short.
pub trait WithoutLists {
    /// Its conditions and its single fields, without the lists of details; how many entries these had stays.
    #[must_use]
    fn without_lists(&self) -> Self;
}

impl WithoutLists for VidraResourceStatus {
    fn without_lists(&self) -> Self {
        // The VidraTargets tell of their clusters; what stays in a member that was forgotten nothing else tells.
        let in_short = |left: &LeftBehind| LeftBehind { names: String::new(), ..left.clone() };
        let left_behind = self.left_behind.iter().map(in_short).collect();
        Self { clusters: Vec::new(), left_behind, ..self.clone() }
    }
}

impl WithoutLists for VidraTargetStatus {
    fn without_lists(&self) -> Self {
        Self {
            unready: Vec::new(),
            unready_total: left_out(self.unready_total, self.unready.len()),
            changes: Vec::new(),
            changes_total: left_out(self.changes_total, self.changes.len()),
            feedback: self.feedback.as_ref().map(in_short),
            ..self.clone()
        }
    }
}

/// All of its values count as left out.
fn in_short(feedback: &Feedback) -> Feedback {
    let values: usize = feedback.objects.iter().map(|object| object.values.len()).sum();
    let left_out = feedback.left_out.saturating_add(i64::try_from(values).unwrap_or(i64::MAX));
    Feedback { objects: Vec::new(), left_out, message: feedback.message.clone() }
}

/// How many entries a list has that is left out; unset: none.
fn left_out(total: Option<i64>, listed: usize) -> Option<i64> {
    total.or_else(|| i64::try_from(listed).ok().filter(|listed| *listed > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A status of so many of all that it lists.
    fn target(count: usize, totals: bool) -> VidraTargetStatus {
        let value = "x".repeat(256);
        let field = json!({"path": ".data.key", "expected": value, "actual": value});
        let change = |number: usize| {
            json!({"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": format!("c{number}"),
                "change": "Modified", "detectedAt": "2026-01-02T03:04:05Z", "fields": vec![field.clone(); 20]})
        };
        let unready = |number: usize| json!({"kind": "ConfigMap", "namespace": "shop", "name": format!("c{number}"), "health": "NotFound"});
        let mut status = json!({
            "observedGeneration": 2, "state": "Failed", "drift": "Drifted", "revision": "00ff",
            "appliedGeneration": 7, "objects": 12, "ready": 1, "drifted": count,
            "conditions": [condition("Ready"), condition("Stalled")],
            "unready": (0..count.min(10)).map(unready).collect::<Vec<_>>(),
            "removing": {"objects": 2, "reason": "Finalizers", "message": "waits"},
            "changes": (0..count).map(change).collect::<Vec<_>>(),
            "corrections": {"count": 4, "last": "2026-01-02T03:04:05Z"},
            "progress": {"revision": "00ff", "wave": 1, "since": "2026-01-02T03:04:05Z"},
            "reason": "Contention", "message": "why", "since": "2026-01-02T03:04:05Z",
        });
        if totals {
            (status["unreadyTotal"], status["changesTotal"]) = (40.into(), 120.into());
        }
        serde_json::from_value(status).unwrap()
    }

    fn condition(name: &str) -> Value {
        json!({"type": name, "status": "False", "reason": "Contention", "message": "m".repeat(4096),
            "observedGeneration": 2, "lastTransitionTime": "2026-01-02T03:04:05Z"})
    }

    fn resource(count: usize) -> VidraResourceStatus {
        let cluster = |number: usize| json!({"name": format!("member-{number}"), "state": "Failed", "reason": "Contention", "message": "m".repeat(1024)});
        let left = |number: usize| {
            json!({"cluster": format!("gone-{number}"), "objects": 3, "names": "n".repeat(1024),
                "at": "2026-01-02T03:04:05Z"})
        };
        serde_json::from_value(json!({
            "observedGeneration": 2, "revision": "00ff", "lastHandledReconcileAt": "1", "targetsReady": "0/50",
            "summary": {"targets": count, "failed": count},
            "conditions": [condition("Ready"), condition("Stalled")],
            "clusters": (0..count).map(cluster).collect::<Vec<_>>(),
            "leftBehind": (0..count).map(left).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    /// Its text without these fields.
    fn without(status: &impl serde::Serialize, fields: &[&str]) -> Value {
        let mut value = serde_json::to_value(status).unwrap();
        for field in fields {
            value.as_object_mut().unwrap().remove(*field);
        }
        value
    }

    #[test]
    fn a_lean_status_has_all_but_the_lists_and_says_how_many_entries_it_leaves_out() {
        const LISTS: [&str; 4] = ["unready", "unreadyTotal", "changes", "changesTotal"];
        for (totals, expected) in [(false, (Some(10), Some(100))), (true, (Some(40), Some(120)))] {
            let whole = target(100, totals);
            let short = whole.without_lists();
            assert_eq!(without(&short, &LISTS), without(&whole, &LISTS));
            assert_eq!((&*short.unready, &*short.changes), (&[][..], &[][..]));
            assert_eq!((short.unready_total, short.changes_total), expected);
            assert_eq!(short.without_lists(), short);
        }
        let values = json!([{"name": "v", "text": "x".repeat(900)}, {"name": "w", "integer": 1}]);
        let feedback = json!({"objects": [{"kind": "Service", "name": "a", "values": values}], "leftOut": 1});
        let whole =
            VidraTargetStatus { feedback: serde_json::from_value(feedback).unwrap(), ..target(1, false) };
        assert_eq!(json!(whole.without_lists())["feedback"], json!({"leftOut": 3}));
        assert_eq!(
            target(0, false).without_lists(),
            target(0, false),
            "where nothing is listed nothing is left out"
        );

        let whole = resource(50);
        let short = whole.without_lists();
        assert_eq!(
            without(&short, &["clusters", "leftBehind"]),
            without(&whole, &["clusters", "leftBehind"])
        );
        assert_eq!(short.clusters, []);
        let gone =
            |status: &VidraResourceStatus| status.left_behind.iter().map(|left| left.objects).sum::<i64>();
        assert_eq!(
            (gone(&short), short.left_behind.len()),
            (gone(&whole), 50),
            "nothing else tells of these"
        );
        assert_eq!(short.without_lists(), short);
    }

    #[test]
    fn a_lean_status_is_small_however_large_the_whole_is() {
        let bytes = |status: &Value| status.to_string().len();
        let of = |whole: Value, short: Value| (bytes(&whole) > 100_000, bytes(&short) < 16_384);
        let (one, all) = (target(100, true), resource(50));
        assert_eq!(of(json!(one), json!(one.without_lists())), (true, true));
        assert_eq!(of(json!(all), json!(all.without_lists())), (true, true));
    }
}
