//! What of one declared object is left alone.

use serde_json::Value;

use super::autoscalers::Scalers;
use crate::{
    fields::{self, FieldSet, Literal, MANAGER_PREFIX, Path},
    object::Gvk,
};

/// Managers to whom no path yields, for nobody works under these names: client-side `kubectl apply` leaves the one, the
/// API server makes up the other. These are fewer than those from whom fields are taken when an object is taken over:
/// who edits a bundle today keeps it.
const NOBODY: [&str; 2] = ["kubectl-client-side-apply", "before-first-apply"];

/// The declared paths of one object that are left alone: always, or while somebody who may have them holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldExemptions {
    ignored: Box<[Path]>,
    yielding: Box<[Path]>,
    scalers: Scalers,
}

impl FieldExemptions {
    /// `None` when nothing is.
    pub(super) fn new(ignored: Vec<Path>, yielding: Vec<Path>, scalers: Scalers) -> Option<Self> {
        let yielding: Vec<Path> = yielding.into_iter().filter(|path| !ignored.contains(path)).collect();
        let any = !(ignored.is_empty() && yielding.is_empty());
        any.then(|| Self { ignored: ignored.into(), yielding: yielding.into(), scalers })
    }

    /// Whether some of it is left alone whoever holds it: then only a live read tells what to apply.
    pub fn ignores(&self) -> bool {
        !self.ignored.is_empty()
    }

    /// `value`, live or declared, without what is ignored: what a hash of values is made from.
    pub fn masked(&self, value: &Value) -> Value {
        fields::masked(value, &self.ignored)
    }

    /// What of `declared` our entry has to own for the object to be as we left it. `yields`: see
    /// [`FieldExemptions::yields_now`].
    pub fn expected(&self, declared: &Value, yields: bool) -> Value {
        fields::masked(declared, self.ignored.iter().chain(self.yielding.iter().filter(|_| yields)))
    }

    /// What [`FieldExemptions::masked`] would give if what somebody holds to whom it yields had the declared values.
    pub fn undone(&self, live: &Value, declared: &Value) -> Value {
        let mut undone = self.masked(live);
        for path in self.yielding.iter().filter(|path| self.is_taken(path, live)) {
            if let Some(value) = path.find(declared) {
                fields::put(&mut undone, path, value);
            }
        }
        undone
    }

    /// Somebody who may have it holds a path that yields.
    pub fn yields_now(&self, live: &Value) -> bool {
        self.yielding.iter().any(|path| self.is_taken(path, live))
    }

    /// A path that yields has another value than is declared, `own` (our entry) has lost it, and nobody who may have
    /// it holds it.
    pub fn is_disturbed(&self, live: &Value, declared: &Value, own: &FieldSet) -> bool {
        self.yielding.iter().any(|path| {
            !own.holds(path)
                && path.find(live).map(Literal::from) != path.find(declared).map(Literal::from)
                && !self.is_taken(path, live)
        })
    }

    /// `value` without what is left alone in `live`.
    pub fn compared(&self, value: &Value, live: &Value) -> Value {
        fields::masked(value, self.now(live))
    }

    /// Whether what is sent holds another value than is declared at a path that is left alone.
    pub fn is_kept(&self, sent: &Value, declared: &Value) -> bool {
        let mut paths = self.ignored.iter().chain(&self.yielding);
        paths.any(|path| path.find(sent).is_some_and(|sent| Some(sent) != path.find(declared)))
    }

    /// `declared` as `manager` is to apply it to exactly this live object.
    pub fn keeping(&self, declared: &Value, live: &Value, manager: &str) -> Value {
        fields::keeping(declared, live, manager, self.now(live))
    }

    /// Whether a path is, or lies in, what is left alone in this live object.
    pub fn covers(&self, path: &Path, live: &Value) -> bool {
        self.now(live).any(|exempt| path.is_within(exempt))
    }

    fn now(&self, live: &Value) -> impl Iterator<Item = &Path> {
        self.ignored.iter().chain(self.yielding.iter().filter(move |path| self.is_taken(path, live)))
    }

    /// Whether somebody holds the path to whom it yields.
    fn is_taken(&self, path: &Path, live: &Value) -> bool {
        let scaled = *path == Path::of_fields(["spec", "replicas"]);
        fields::is_held(live, path, |manager, subresource| {
            let may_have = match scaled {
                // Whoever edits the object itself is no autoscaler.
                true => subresource == Some("scale") && self.scalers.may(manager),
                false => !NOBODY.contains(&manager),
            };
            may_have && !manager.starts_with(MANAGER_PREFIX)
        })
    }
}

/// The declared paths that controllers are known to take: replicas of whatever can be scaled, and the bundles that
/// injectors write (Kubernetes' own API types: admissionregistration, apiextensions, apiregistration).
pub(super) fn candidates(gvk: &Gvk, declared: &Value) -> Vec<Path> {
    let bundle = |path: &[&str]| {
        let path = Path::of_fields(path.iter().copied());
        path.find(declared).is_some().then_some(path).into_iter().collect()
    };
    match (&*gvk.group, &*gvk.kind) {
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => {
            let webhooks = declared.get("webhooks").and_then(Value::as_array).into_iter().flatten();
            let names = webhooks
                .filter(|webhook| webhook.pointer("/clientConfig/caBundle").is_some())
                .filter_map(|webhook| webhook.get("name"));
            names.map(|name| Path::of_item("webhooks", name, ["clientConfig", "caBundle"])).collect()
        }
        ("apiregistration.k8s.io", "APIService") => bundle(&["spec", "caBundle"]),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            bundle(&["spec", "conversion", "webhook", "clientConfig", "caBundle"])
        }
        _ => match declared.pointer("/spec/replicas") {
            Some(Value::Number(_)) => vec![Path::of_fields(["spec", "replicas"])],
            _ => Vec::new(),
        },
    }
}
