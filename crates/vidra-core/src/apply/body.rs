//! What is sent: what is declared, with our marks, but for what is left alone in the live object. That depends on what is
//! live, so it is sent for exactly the resourceVersion that was read.

use std::borrow::Cow;

use serde_json::Value;
use vidra_api::labels::HUB_LABEL;

use super::Facts;
use crate::{
    ignore::FieldExemptions,
    owner::Owner,
    render::{self, Declared, HashKey, Stamp},
    uid::Uid,
};

/// All that an apply is decided from.
#[derive(Clone, Copy)]
pub struct ApplyInput<'a> {
    /// For whom.
    pub owner: &'a Owner,
    /// What is declared.
    pub declared: &'a Declared,
    /// Seals what is written on the object.
    pub salt: &'a HashKey,
    /// What is known without a call.
    pub facts: &'a dyn Facts,
}

pub(super) fn uid_of(live: &Value) -> &str {
    live["metadata"]["uid"].as_str().unwrap_or_default()
}

pub(super) fn is_terminating(live: &Value) -> bool {
    live["metadata"]["deletionTimestamp"].is_string()
}

/// It has the hub's label: watches show it.
pub fn is_visible(live: &Value, owner: &Owner) -> bool {
    live["metadata"]["labels"][HUB_LABEL] == *owner.hub.as_ref()
}

fn with_spared<T>(input: &ApplyInput<'_>, with: impl FnOnce(Option<&FieldExemptions>) -> T) -> T {
    with(input.facts.exemptions().objects.get(&input.declared.key))
}

/// What is declared, with our marks.
pub(super) fn body(input: &ApplyInput<'_>) -> Value {
    mark(input, &input.declared.body, false)
}

/// What is declared, with our marks, for the object with this uid alone.
pub(super) fn body_to(input: &ApplyInput<'_>, uid: &Uid) -> Value {
    let mut body = body(input);
    body["metadata"]["uid"] = uid.to_string().into();
    body
}

/// The body to apply to the object with this uid, which was read as this.
pub(super) fn body_since(input: &ApplyInput<'_>, uid: &Uid, live: &Value) -> Value {
    let mut body = marked_for(input, live);
    body["metadata"]["uid"] = uid.to_string().into();
    body
}

/// The body to apply to exactly this live object.
pub(super) fn body_for(input: &ApplyInput<'_>, live: &Value) -> Value {
    exactly(marked_for(input, live), live)
}

/// The body of a dry run on exactly this live object: without our marks.
pub(super) fn trial_for(input: &ApplyInput<'_>, live: &Value) -> Value {
    exactly(with_spared(input, |exempt| plain(input, exempt, live).into_owned()), live)
}

/// For the very resourceVersion of this live object.
pub(super) fn exactly(mut body: Value, live: &Value) -> Value {
    for field in ["uid", "resourceVersion"] {
        body["metadata"][field] = live["metadata"][field].as_str().unwrap_or_default().into();
    }
    body
}

/// What is declared, leaving alone what is to be in this live object; without our marks.
fn plain<'a>(input: &ApplyInput<'a>, exempt: Option<&FieldExemptions>, live: &Value) -> Cow<'a, Value> {
    let ApplyInput { owner, declared, .. } = *input;
    match exempt {
        Some(exempt) => Cow::Owned(exempt.keeping(&declared.body, live, &owner.manager)),
        None => Cow::Borrowed(&*declared.body),
    }
}

/// What is declared, leaving alone what is to be in this live object; with our marks.
fn marked_for(input: &ApplyInput<'_>, live: &Value) -> Value {
    with_spared(input, |exempt| {
        let plain = plain(input, exempt, live);
        let kept = exempt.is_some_and(|one| one.is_kept(&plain, &input.declared.body));
        mark(input, &plain, kept)
    })
}

/// Puts our marks on what is sent; `kept`: see [`Stamp::kept`].
fn mark(input: &ApplyInput<'_>, sent: &Value, kept: bool) -> Value {
    let ApplyInput { owner, declared, salt, .. } = *input;
    let (name, generation) = (owner.name.clone(), owner.generation);
    let stamp = Stamp { owner: name, generation, hash: declared.hash, kept, seal: None };
    render::compose(sent, &owner.hub, &owner.hash, &stamp.sealed(salt, &declared.key))
}

/// `value` without what is left alone in this live object.
pub fn comparable<'v>(input: &ApplyInput<'_>, value: &'v Value, live: &Value) -> Cow<'v, Value> {
    with_spared(input, |exempt| match exempt {
        Some(exempt) => Cow::Owned(exempt.compared(value, live)),
        None => Cow::Borrowed(value),
    })
}
