//! What a target declares, by object key: rendered once for a revision and shared by every member on which
//! it comes out alike.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use vidra_api::DriftSpec;
use vidra_core::{
    ignore::{Autoscalers, Exemptions, InvalidIgnore, Rules},
    object::ObjectKey,
    overrides::OverrideError,
    plan::Want,
    render::{Declared, Relation, Rendered, Unresolved},
    weight,
};

use crate::base::interner::Interned;

/// What one target declares.
#[derive(Debug, Default)]
pub struct Desired {
    /// The declared objects.
    pub objects: BTreeMap<ObjectKey, Declared>,
    /// The declared objects, as planning needs them.
    pub wants: BTreeMap<ObjectKey, Want>,
    /// Objects of kinds that the member does not know.
    pub unresolved: Vec<Unresolved>,
    /// What is refused of it where it was not delivered before.
    pub unknown: Option<OverrideError>,
    /// What was asked for last of [`Desired::exemptions`]: the members that share this mostly ask alike.
    exemptions: Mutex<Option<FieldExemptions>>,
}

/// What is left alone, and by which rules.
type FieldExemptions = (DriftSpec, Arc<Autoscalers>, Arc<Exemptions>);

impl Desired {
    /// What was rendered, under the keys that all that is kept of its objects shares.
    pub fn new(mut rendered: Rendered, interned: &Interned) -> Self {
        for declared in &mut rendered.objects {
            declared.key = interned.key(declared.key.clone());
        }
        let wants = rendered
            .objects
            .iter()
            .map(|declared| {
                let want = Want {
                    gvk: declared.gvk.clone(),
                    scope: declared.scope,
                    stage: declared.stage,
                    directives: declared.directives,
                    hash: declared.hash,
                    relation: Relation::of(declared.stage, &declared.body),
                };
                (declared.key.clone(), want)
            })
            .collect();
        let objects = rendered.objects.into_iter().map(|declared| (declared.key.clone(), declared)).collect();
        let (unresolved, unknown) = (rendered.unresolved, rendered.unknown);
        Self { objects, wants, unresolved, unknown, ..Self::default() }
    }

    /// What of the declared objects is left alone, replicas to these.
    ///
    /// # Errors
    /// A path that cannot be read.
    pub fn exemptions(
        &self,
        spec: &DriftSpec,
        autoscalers: &Arc<Autoscalers>,
    ) -> Result<Arc<Exemptions>, InvalidIgnore> {
        let mut held = self.exemptions.lock();
        let asked = |held: &&(DriftSpec, Arc<Autoscalers>, _)| (&held.0, &held.1) == (spec, autoscalers);
        if let Some((_, _, exemptions)) = held.as_ref().filter(asked) {
            return Ok(Arc::clone(exemptions));
        }
        let objects = self.objects.values().map(|one| (&one.gvk, &one.key, &*one.body));
        let exemptions = Arc::new(Rules::compile(spec)?.exemptions(objects, &self.unresolved, autoscalers));
        *held = Some((spec.clone(), Arc::clone(autoscalers), Arc::clone(&exemptions)));
        Ok(exemptions)
    }

    /// Whether it is declared, as far as can be told: an object of a kind that is not known now is.
    pub fn declares(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.unresolved.iter().any(|one| one.may_be(key))
    }

    /// What the objects take in memory that nobody else holds.
    pub fn own_weight(&self) -> usize {
        let bodies = self.objects.values().map(|declared| &declared.body);
        bodies.filter(|body| Arc::strong_count(body) == 1).map(|body| weight::of(body)).sum()
    }

    /// Keeps one copy of what came out as in `plain`.
    pub fn share(&mut self, plain: &Desired) {
        for (key, declared) in &mut self.objects {
            if let Some(same) = plain.objects.get(key).filter(|plain| plain.hash == declared.hash) {
                declared.body = Arc::clone(&same.body);
            }
        }
    }
}
