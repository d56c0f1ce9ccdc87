//! What a target declares, by object key: rendered once for a revision and shared by every member on which
//! it comes out alike.

use std::collections::BTreeMap;

use vidra_core::{
    object::ObjectKey,
    plan::Want,
    render::{Declared, Rendered, Unresolved},
};

/// See the module.
#[derive(Debug, Default)]
pub struct Desired {
    /// The declared objects.
    pub objects: BTreeMap<ObjectKey, Declared>,
    /// The same, as planning needs them.
    pub wants: BTreeMap<ObjectKey, Want>,
    /// Objects of kinds that the member does not know.
    pub unresolved: Vec<Unresolved>,
}

impl From<Rendered> for Desired {
    fn from(rendered: Rendered) -> Self {
        let wants = rendered
            .objects
            .iter()
            .map(|declared| {
                let want = Want {
                    gvk: declared.gvk.clone(),
                    scope: declared.scope,
                    stage: declared.stage,
                    directives: declared.directives,
                    hash: declared.hash.to_string(),
                };
                (declared.key.clone(), want)
            })
            .collect();
        let objects = rendered.objects.into_iter().map(|declared| (declared.key.clone(), declared)).collect();
        Self { objects, wants, unresolved: rendered.unresolved }
    }
}
