//! One object of a manifest, and whether a live object is as it says.

use serde_json::Value;
use vidra_core::{
    directives::{ApplyMode, Directives, OnImmutable},
    manifest,
};

use super::{index::Key, kinds::is_cluster_scoped, sparing::Path};

/// See the module.
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

/// The objects of a text; `None`: it cannot be read.
pub fn read(text: &str) -> Option<Vec<Doc>> {
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

/// A Deployment is current when its status has caught up with its spec; other kinds of the scenarios are
/// current from the start. What is being deleted is not.
fn is_current(live: &Value) -> bool {
    if !live["metadata"]["deletionTimestamp"].is_null() {
        return false;
    }
    if live["kind"] != "Deployment" {
        return true;
    }
    let (status, wanted) = (&live["status"], live["spec"]["replicas"].as_i64().unwrap_or(1));
    let enough = |field: &str| status[field].as_i64().unwrap_or_default() >= wanted;
    status["observedGeneration"] == live["metadata"]["generation"]
        && enough("updatedReplicas")
        && enough("availableReplicas")
}
