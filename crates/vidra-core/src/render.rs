//! From the objects of a manifest to what one target is to have: where each object goes, in which order, the
//! body to apply and the hash it is known by. A function of its arguments.

mod hash;
mod prepare;
mod relation;
mod stage;
mod stamp;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

pub use hash::{DeclaredHash, HashKey, revision_of};
pub use relation::{GroupKind, Relation};
pub use stage::Stage;
pub use stamp::{Stamp, compose};

use crate::annotations::Unknown;
use crate::directives::{BadDirective, Directives};
use crate::manifest::{ManifestObject, Place};
use crate::object::{Gvk, ObjectKey, Scope};
use crate::overrides::{Budget, Effective, OverrideError, Overrides, Subject};

/// What a target is to have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// The objects, by wave, by stage, and then as they were written.
    pub objects: Vec<Declared>,
    /// Objects of kinds that the member does not know, or not yet.
    pub unresolved: Vec<Unresolved>,
    /// The first annotation of the hub's own that it does not know and that changes have made. It is refused where that was
    /// not delivered before.
    pub unknown: Option<OverrideError>,
}

/// One object that a target is to have.
#[derive(Clone, PartialEq)]
pub struct Declared {
    /// Its key in the member.
    pub key: ObjectKey,
    /// Group, version and kind as declared.
    pub gvk: Gvk,
    /// The scope of its kind.
    pub scope: Scope,
    /// Where it is declared.
    pub place: Place,
    /// What it is declared as: over the object with its namespace, before preparation, without our marks.
    pub hash: DeclaredHash,
    /// When its turn comes within its wave.
    pub stage: Stage,
    /// What its annotations ask of the hub.
    pub directives: Directives,
    /// The prepared object, without our marks; [`compose`] adds them.
    pub body: Arc<Value>,
}

/// Without its body, which may be a Secret.
impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Declared");
        told.field("key", &self.key).field("gvk", &self.gvk).field("scope", &self.scope);
        told.field("place", &self.place).field("hash", &self.hash).field("stage", &self.stage);
        told.field("directives", &self.directives).finish_non_exhaustive()
    }
}

/// An object of a kind whose scope nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// Where it is declared.
    pub place: Place,
    /// Its group, version and kind.
    pub gvk: Gvk,
    /// The namespace that it is in, if its kind is in one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its wave.
    pub wave: i32,
}

impl Unresolved {
    /// It may be this object: whether its kind is in namespaces is not known.
    pub fn may_be(&self, key: &ObjectKey) -> bool {
        (&*self.gvk.group, &*self.gvk.kind, &*self.name) == (&*key.group, &*key.kind, &*key.name)
            && (key.namespace.is_empty() || *self.namespace == *key.namespace)
    }
}

/// Why objects cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// Two documents declare the same object, once the namespace is filled in.
    #[error("{first} and {second} both declare {object}: remove one")]
    Twice {
        /// The object, in words.
        object: String,
        /// Where it is declared first.
        first: Place,
        /// Where it is declared again.
        second: Place,
    },
    /// A Secret's stringData holds something else than text.
    #[error("{place}: stringData{path} of {object} is not text: put it in quotes")]
    PrepareSecret {
        /// Where it is declared.
        place: Place,
        /// The object, in words.
        object: String,
        /// The key in brackets; empty when it is stringData itself.
        path: String,
    },
    /// An annotation asks for what the hub cannot do.
    #[error("{place}: {} of {object} {}", .bad.field, .bad.why)]
    Directive {
        /// Where it is declared.
        place: Place,
        /// The object, in words.
        object: String,
        /// The annotation, and what it must be.
        bad: BadDirective,
    },
    /// An override cannot be done on this cluster.
    #[error("{0}")]
    Override(#[from] OverrideError),
}

/// What is changed of the objects for one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// The revision's overrides.
    pub overrides: &'a Overrides,
    /// Those that are for the cluster, and what they use of it.
    pub effective: &'a Effective,
    /// The cluster.
    pub cluster: &'a str,
}

/// Renders the objects for one target. `scope_of` tells the scope of a kind in the member, None for a kind
/// that it does not have; `default_namespace` is for namespaced objects that name none.
///
/// A namespace that a cluster-scoped object names is taken off, as the API server ignores it.
///
/// # Errors
/// When the same object (group, kind, namespace and name, in whatever version) is declared twice, or a
/// Secret's stringData is not text.
pub fn render(
    objects: &[ManifestObject],
    scope_of: &dyn Fn(&Gvk) -> Option<Scope>,
    default_namespace: &str,
    key: &HashKey,
) -> Result<Rendered, RenderError> {
    render_with(objects, scope_of, default_namespace, key, None)
}

/// As [`render`], with changes for one cluster: they are made to objects that have their namespace, and hashes
/// are of what they make.
///
/// # Errors
/// Those of [`render`], and the first change that cannot be made.
pub fn render_with(
    objects: &[ManifestObject],
    scope_of: &dyn Fn(&Gvk) -> Option<Scope>,
    default_namespace: &str,
    key: &HashKey,
    changes: Option<Changes<'_>>,
) -> Result<Rendered, RenderError> {
    let mut rendered = Rendered::default();
    let mut seen: BTreeMap<ObjectKey, &Place> = BTreeMap::new();
    let budget = Budget::default();
    for object in objects {
        let scope = scope_of(&object.gvk);
        let named = object.namespace.as_deref();
        let namespace = match scope {
            Some(Scope::Cluster) => "",
            Some(Scope::Namespaced) => named.unwrap_or(default_namespace),
            None => named.unwrap_or_default(),
        };
        let object_key = ObjectKey::new(&object.gvk, namespace, &object.name);
        if let Some(first) = seen.insert(object_key.clone(), &object.place) {
            return Err(RenderError::Twice {
                object: object_key.to_string(),
                first: first.clone(),
                second: object.place.clone(),
            });
        }
        match scope {
            Some(scope) => {
                let mut body = with_namespace(object, &object_key, scope);
                if let Some(changes) = changes {
                    let unknown = change(changes, &object.gvk, &object_key, &mut body, &budget)?;
                    rendered.unknown = rendered.unknown.or(unknown);
                }
                rendered.objects.push(declare(object, object_key, scope, key, body)?);
            }
            None => rendered.unresolved.push(Unresolved {
                place: object.place.clone(),
                gvk: object.gvk.clone(),
                namespace: named.unwrap_or(default_namespace).to_owned(),
                name: object.name.clone(),
                wave: directives(&object.place, &object.value, &object_key)?.wave,
            }),
        }
    }
    // Stable: within a stage the order of writing stays.
    rendered.objects.sort_by_key(|declared| (declared.directives.wave, declared.stage));
    Ok(rendered)
}

fn directives(place: &Place, object: &Value, key: &ObjectKey) -> Result<Directives, RenderError> {
    Directives::of(object).map_err(|bad| RenderError::Directive {
        place: place.clone(),
        object: key.to_string(),
        bad,
    })
}

fn with_namespace(object: &ManifestObject, key: &ObjectKey, scope: Scope) -> Value {
    let mut body = object.value.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        match scope {
            Scope::Namespaced => {
                metadata.insert("namespace".to_owned(), Value::from(&*key.namespace));
            }
            Scope::Cluster => {
                metadata.remove("namespace");
            }
        }
    }
    body
}

/// Makes the changes of one object. Returns an annotation that the hub does not know and that is there by them alone, unless
/// an entry names such a one: these are refused before they are kept, or were kept before that.
fn change(
    Changes { overrides, effective, cluster }: Changes<'_>,
    gvk: &Gvk,
    key: &ObjectKey,
    body: &mut Value,
    budget: &Budget,
) -> Result<Option<OverrideError>, RenderError> {
    let was = Unknown::at(&[], body);
    if !overrides.apply(effective, cluster, gvk, key, body, budget)? || was.is_some() {
        return Ok(None);
    }
    let unknown = Unknown::at(&[], body).filter(|_| overrides.unknown_annotation().is_none());
    Ok(unknown.map(|unknown| {
        let (place, cluster) = ("spec.overrides".to_owned(), cluster.to_owned());
        let why = format!("metadata.annotations[\"{}\"] {unknown}", unknown.key());
        OverrideError::Undeliverable { of: Box::new(Subject { place, object: key.clone(), cluster }), why }
    }))
}

fn declare(
    object: &ManifestObject,
    object_key: ObjectKey,
    scope: Scope,
    key: &HashKey,
    mut body: Value,
) -> Result<Declared, RenderError> {
    stamp::unmark(&mut body);
    let directives = directives(&object.place, &body, &object_key)?;
    Directives::strip(&mut body);
    let hash = DeclaredHash::of(&body, key);
    prepare::prepare(&object.gvk, &mut body).map_err(|bad| RenderError::PrepareSecret {
        place: object.place.clone(),
        object: object_key.to_string(),
        path: if bad.key.is_empty() { String::new() } else { format!("[\"{}\"]", bad.key) },
    })?;
    Ok(Declared {
        stage: Stage::of(&object.gvk),
        directives,
        gvk: object.gvk.clone(),
        key: object_key,
        scope,
        place: object.place.clone(),
        hash,
        body: Arc::new(body),
    })
}
