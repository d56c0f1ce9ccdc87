//! What each target declares on a member, as far as this process has looked: who drops an object asks it before the
//! object is removed, for another VidraResource may have taken it up.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use vidra_api::VidraTargetSpec;
use vidra_core::{
    directives::ApplyMode,
    mutants::{self, Mutant},
    object::ObjectKey,
};

use crate::{desired::Desired, workqueue::TargetKey};

/// What a target declares.
#[derive(Clone, Debug)]
pub enum Claim {
    /// These objects.
    Objects(Arc<Desired>),
    /// Nobody can tell; what its inventory holds may be among it.
    Unknown,
}

/// What a claim was made for: the same revision declares other objects in another namespace.
#[derive(Debug)]
struct Noted {
    revision: Box<str>,
    namespace: Box<str>,
    claim: Claim,
}

impl Noted {
    fn is_of(&self, spec: &VidraTargetSpec) -> bool {
        *self.revision == *spec.revision && *self.namespace == *spec.namespace
    }
}

/// The claims of one member's targets.
#[derive(Debug, Default)]
pub struct Claims(Mutex<BTreeMap<TargetKey, Noted>>);

impl Claims {
    /// A target that is to be there has this revision, in this namespace.
    pub fn note(&self, target: &TargetKey, spec: &VidraTargetSpec, claim: Claim) {
        let (revision, namespace) = (spec.revision.as_str().into(), spec.namespace.as_str().into());
        self.0.lock().insert(target.clone(), Noted { revision, namespace, claim });
    }

    /// How many targets have told what they declare.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// The target declares nothing any more.
    pub fn forget(&self, target: &TargetKey) {
        self.0.lock().remove(target);
    }

    /// What the target declares as it is now is known, or known not to be.
    pub fn is_noted(&self, target: &TargetKey, spec: &VidraTargetSpec) -> bool {
        self.0.lock().get(target).is_some_and(|noted| noted.is_of(spec))
    }

    /// What the target declares as it is now is known.
    pub fn is_known(&self, target: &TargetKey, spec: &VidraTargetSpec) -> bool {
        let all = self.0.lock();
        let noted = all.get(target).filter(|noted| noted.is_of(spec));
        noted.is_some_and(|noted| matches!(noted.claim, Claim::Objects(_)))
    }

    /// The other VidraResources of the same namespace that declare the object for as long as it stands there; `holds` tells
    /// of one of which nothing is known whether its inventory has the object.
    pub fn claimants(
        &self,
        own: &TargetKey,
        object: &ObjectKey,
        holds: impl Fn(&TargetKey) -> bool,
    ) -> Vec<TargetKey> {
        let all = self.0.lock();
        let others = all
            .iter()
            .filter(|(target, _)| target.namespace == own.namespace && target.resource != own.resource);
        let claimants = others.filter(|(target, noted)| match &noted.claim {
            Claim::Objects(desired) => match desired.wants.get(object) {
                Some(want) if mutants::is(Mutant::OnceClaimsNothing) => {
                    want.directives.apply == ApplyMode::Always
                }
                Some(want) => want.directives.apply != ApplyMode::IfAbsent,
                None => desired.declares(object),
            },
            Claim::Unknown => holds(target),
        });
        claimants.map(|(target, _)| target.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vidra_core::{
        manifest::Place,
        object::Gvk,
        render::{Rendered, Unresolved},
    };

    use super::*;
    use crate::base::interner::Interned;

    #[test]
    fn an_object_of_a_kind_that_is_not_known_now_is_declared_all_the_same() {
        let gvk = Gvk::new("example.com", "v1", "Gadget");
        let unresolved = vec![Unresolved {
            place: Place { source: None, document: 1, line: None },
            gvk: gvk.clone(),
            namespace: "shop".to_owned(),
            name: "moved".to_owned(),
            wave: 0,
        }];
        let desired = Desired::new(Rendered { unresolved, ..Rendered::default() }, &Interned::default());
        let (first, second) =
            (TargetKey::new("team", "first", "berlin"), TargetKey::new("team", "second", "berlin"));
        let claims = Claims::default();
        let spec = |namespace: &str| {
            let spec = json!({"resource": "second", "cluster": "berlin", "desired": "Present", "revision": "r",
                "namespace": namespace, "suspend": false, "reconcile": {}, "generation": 1});
            serde_json::from_value::<VidraTargetSpec>(spec).unwrap()
        };
        claims.note(&second, &spec("shop"), Claim::Objects(Arc::new(desired)));
        for (namespace, is_known) in [("shop", true), ("elsewhere", false)] {
            assert_eq!(claims.is_noted(&second, &spec(namespace)), is_known, "{namespace}");
            assert_eq!(claims.is_known(&second, &spec(namespace)), is_known, "{namespace}");
        }
        let other = Gvk::new("example.org", "v1", "Gadget");
        // Whether its kind is in namespaces nobody knows.
        for (gvk, namespace, name, is_claimed) in [
            (&gvk, "shop", "moved", true),
            (&gvk, "", "moved", true),
            (&gvk, "elsewhere", "moved", false),
            (&gvk, "shop", "other", false),
            (&other, "shop", "moved", false),
        ] {
            let key = ObjectKey::new(gvk, namespace, name);
            let claimants = claims.claimants(&first, &key, |_| false);
            assert_eq!(claimants.contains(&second), is_claimed, "{key}");
        }
    }
}
