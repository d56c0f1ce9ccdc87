//! One object of a manifest, and whether a live object is as it says.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use serde_json::Value;
use vidra_core::{
    directives::{ApplyMode, Directives, OnImmutable},
    manifest,
};

use super::{index::Key, kinds::is_cluster_scoped, sparing::Path};

/// One declared object, as a member must show it.
#[derive(Clone, Debug)]
pub struct Doc {
    group: String,
    /// Its kind.
    pub kind: String,
    namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// As declared, without what its annotations ask of the hub.
    pub body: Value,
    /// What they ask.
    directives: Directives,
}

impl Doc {
    /// Where it is in a member, when this is the destination namespace.
    pub fn key(&self, member: &str, destination: &str) -> Key {
        let namespace = match is_cluster_scoped(&self.kind) {
            true => "",
            false => self.namespace.as_deref().unwrap_or(destination),
        };
        [member, &self.group, &self.kind, namespace, &self.name].map(str::to_owned)
    }

    /// Is it kept as declared, and not only made?
    pub fn is_kept(&self) -> bool {
        self.directives.apply == ApplyMode::Always
    }

    /// Is it to be as declared at some time, or only to be there?
    pub fn is_for_each_content(&self) -> bool {
        self.directives.apply == ApplyMode::Once
    }

    /// Is another's object as good, where there is one?
    pub fn yields(&self) -> bool {
        self.directives.apply == ApplyMode::IfAbsent
    }

    /// May it be deleted to be made again?
    pub fn may_be_made_again(&self) -> bool {
        self.directives.on_immutable == OnImmutable::Recreate
    }

    /// Its wave; lower ones come first.
    pub fn wave(&self) -> i32 {
        self.directives.wave
    }

    /// Is the live object as declared but for what is spared, and healthy?
    pub fn is_met_by(&self, live: &Value, spared: &[Path]) -> bool {
        self.is_held_by(live, spared) && is_current(live)
    }

    /// Is it as declared but for what is spared?
    pub fn is_held_by(&self, live: &Value, spared: &[Path]) -> bool {
        if spared.is_empty() {
            return holds(&self.body, live);
        }
        let mut body = self.body.clone();
        spared.iter().for_each(|path| path.take_out(&mut body));
        holds(&body, live)
    }
}

/// What was read from a text.
type Read = Option<Arc<[Doc]>>;

thread_local! {
    /// A run declares some dozens of texts, and each of them is asked for again and again.
    static READ: RefCell<BTreeMap<String, Read>> = const { RefCell::new(BTreeMap::new()) };
}

/// Nothing is known any more. With another mutant the same text may say something else.
pub(super) fn forget() {
    READ.with_borrow_mut(BTreeMap::clear);
}

/// The objects of a text; `None`: it cannot be read.
pub fn read(text: &str) -> Option<Arc<[Doc]>> {
    if let Some(known) = READ.with_borrow(|known| known.get(text).cloned()) {
        return known;
    }
    let read: Read = read_new(text).map(Into::into);
    READ.with_borrow_mut(|known| known.insert(text.to_owned(), read.clone()));
    read
}

fn read_new(text: &str) -> Option<Vec<Doc>> {
    let objects = manifest::parse(text).ok()?;
    let docs = objects.into_iter().map(|object| Doc {
        group: object.gvk.group.to_string(),
        kind: object.gvk.kind.to_string(),
        namespace: object.namespace,
        name: object.name,
        directives: Directives::of(&object.value).unwrap_or_default(),
        body: without_directives(object.value),
    });
    Some(docs.collect())
}

fn without_directives(mut object: Value) -> Value {
    Directives::strip(&mut object);
    object
}

/// Has the live object what is declared? Of lists, the first items.
pub fn holds(declared: &Value, live: &Value) -> bool {
    match (declared, live) {
        (Value::Object(declared), Value::Object(live)) => {
            declared.iter().all(|(field, value)| holds(value, live.get(field).unwrap_or(&Value::Null)))
        }
        (Value::Array(declared), Value::Array(live)) => {
            live.len() >= declared.len() && declared.iter().zip(live).all(|(one, live)| holds(one, live))
        }
        _ => declared == live,
    }
}

/// Does it do its work, as docs/reference/health.md has it, told apart from the hub's own rules? What is being
/// deleted does not. Kinds that run nothing do from the start.
fn is_current(live: &Value) -> bool {
    if !live["metadata"]["deletionTimestamp"].is_null() {
        return false;
    }
    match live["kind"].as_str() {
        Some("Deployment") => is_rolled_out(live, &["updatedReplicas", "availableReplicas"]),
        Some("StatefulSet") => is_rolled_out(live, &["replicas", "updatedReplicas", "readyReplicas"]),
        Some("Job") => is_at_work(live),
        _ => true,
    }
}

/// Has the status caught up with the spec, and are there as many as wanted of each of these?
fn is_rolled_out(live: &Value, counts: &[&str]) -> bool {
    let (status, wanted) = (&live["status"], live["spec"]["replicas"].as_i64().unwrap_or(1));
    status["observedGeneration"] == live["metadata"]["generation"]
        && counts.iter().all(|count| status[*count].as_i64().unwrap_or_default() >= wanted)
}

/// Does a Job rest, as its status says too?
pub fn rests(live: &Value) -> bool {
    live["kind"] == "Job"
        && live["metadata"]["deletionTimestamp"].is_null()
        && live["spec"]["suspend"] == true
        && says(live, "Suspended")
        && !says(live, "Complete")
        && !says(live, "Failed")
}

fn says(live: &Value, condition: &str) -> bool {
    let mut all = live["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == condition && one["status"] == "True")
}

/// A Job has begun, and has not failed, or is suspended.
fn is_at_work(live: &Value) -> bool {
    if says(live, "Failed") || says(live, "Complete") {
        return !says(live, "Failed");
    }
    rests(live) || !live["status"]["startTime"].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workloads_are_current_when_their_statuses_have_caught_up() {
        let of = |kind: &str, status: Value| {
            let mut live = json!({"kind": kind, "metadata": {"generation": 2}, "spec": {"replicas": 2}});
            live["status"] = status;
            is_current(&live)
        };
        let deployment = |seen: u8, updated: u8, available: u8| {
            let status = json!({"observedGeneration": seen, "updatedReplicas": updated, "availableReplicas": available});
            of("Deployment", status)
        };
        assert!(deployment(2, 2, 2));
        assert!(!deployment(1, 2, 2) && !deployment(2, 1, 2) && !deployment(2, 2, 1));
        let set = |updated: u8, ready: u8| {
            let status = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": updated, "readyReplicas": ready});
            of("StatefulSet", status)
        };
        assert!(set(2, 2) && !set(0, 2) && !set(2, 0));
        assert!(of("ConfigMap", Value::Null));
    }

    #[test]
    fn a_job_is_current_from_its_start_until_it_fails_and_while_it_rests() {
        let of = |suspend: bool, conditions: &[&str], started: bool| {
            let conditions: Vec<_> =
                conditions.iter().map(|one| json!({"type": one, "status": "True"})).collect();
            let started = if started { json!("2026-01-01T00:00:00Z") } else { Value::Null };
            let status = json!({"startTime": started, "conditions": conditions});
            let live = json!({"kind": "Job", "spec": {"suspend": suspend}, "status": status});
            is_current(&live)
        };
        assert!(!of(false, &[], false) && of(false, &[], true));
        assert!(of(false, &["Complete"], true) && !of(false, &["Failed"], true));
        assert!(of(true, &["Suspended"], false) && !of(false, &["Suspended"], false));
    }
}
