//! Who may hold the replicas of what can be scaled.

use std::sync::Arc;

use serde_json::Value;

use crate::object::{Gvk, ObjectKey};

/// Field managers that scale by themselves, where nobody says otherwise: HorizontalPodAutoscalers, in distributions of
/// one binary too, and KEDA.
pub const DEFAULT: &str = "kube-controller-manager k3s kubelite keda keda-operator";
/// So many may be named.
pub const AUTOSCALERS_MAX: usize = 50;
/// Longest name of a field manager (metav1's `fieldManager`).
const LONGEST: usize = 128;

/// The field managers that are autoscalers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autoscalers(Vec<String>);

impl Default for Autoscalers {
    fn default() -> Self {
        Self(DEFAULT.split(' ').map(str::to_owned).collect())
    }
}

impl Autoscalers {
    /// Reads names of field managers, apart by commas or white space; none: only objects with a declared
    /// HorizontalPodAutoscaler are scaled by others.
    ///
    /// # Errors
    /// In a sentence: there are too many, or one is too long.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|name| !name.is_empty());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names.dedup();
        let is_name = |name: &String| name.len() <= LONGEST && !name.chars().any(char::is_control);
        match names.len() <= AUTOSCALERS_MAX && names.iter().all(is_name) {
            true => Ok(Self(names)),
            false => Err(format!(
                "write at most {AUTOSCALERS_MAX} names of field managers, apart by commas or spaces"
            )),
        }
    }

    /// It is one of them.
    pub fn has(&self, manager: &str) -> bool {
        self.0.iter().any(|name| name == manager)
    }
}

/// Who may scale one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scalers {
    /// Whoever does: a HorizontalPodAutoscaler for it is declared.
    Anybody,
    /// These.
    Only(Arc<Autoscalers>),
}

impl Scalers {
    pub(super) fn may(&self, manager: &str) -> bool {
        match self {
            Self::Anybody => true,
            Self::Only(autoscalers) => autoscalers.has(manager),
        }
    }
}

/// What a declared HorizontalPodAutoscaler scales: its `spec.scaleTargetRef`, in its own namespace.
#[derive(Debug)]
pub(super) struct Scaled<'a> {
    namespace: &'a str,
    /// `None`: the reference names no version.
    group: Option<&'a str>,
    kind: &'a str,
    name: &'a str,
}

impl<'a> Scaled<'a> {
    pub(super) fn by(gvk: &Gvk, key: &'a ObjectKey, body: &'a Value) -> Option<Self> {
        if (&*gvk.group, &*gvk.kind) != ("autoscaling", "HorizontalPodAutoscaler") {
            return None;
        }
        let target = body.pointer("/spec/scaleTargetRef")?;
        let text = |field: &str| target.get(field).and_then(Value::as_str);
        let version = text("apiVersion").filter(|version| !version.is_empty());
        let group = version.map(|version| version.split_once('/').map_or("", |(group, _)| group));
        Some(Self { namespace: &key.namespace, group, kind: text("kind")?, name: text("name")? })
    }

    pub(super) fn is(&self, key: &ObjectKey) -> bool {
        self.group.is_none_or(|group| *group == *key.group)
            && (self.namespace, self.kind, self.name) == (&*key.namespace, &*key.kind, &*key.name)
    }
}
