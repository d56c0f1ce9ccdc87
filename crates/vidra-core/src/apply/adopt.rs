//! Adopting objects that others made, as `conflicts.existing` says, and those of another hub that a person has named on
//! the MemberCluster; and what an earlier applier left in an object's managedFields.
//!
//! The entry that is to be ours is written first, in one patch that is guarded by the resourceVersion, and then the object
//! is applied. Until that apply it has no label of ours, and the label of the other hub stays: a hub that dies in between
//! begins again.

use serde_json::{Map, Value, json};
use vidra_api::{ExistingPolicy, FieldPolicy};

use super::{
    Act, Answer, ApplyInput, ApplyState, End, Failure, FailureKind, Pending, Refusal, Step,
    body::{body_for, exactly, trial_for},
    call, end, pass_on, refuse,
};
use crate::{
    fields::{self, Earlier, OtherVersion},
    mutants::{self, Mutant},
};

/// What client-side `kubectl apply` keeps; it would be of yesterday from now on.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What becomes of the object's metadata before it is applied.
pub(super) struct Takeover {
    /// Its managedFields. `None`: they stay.
    entries: Option<Value>,
    /// Marks of the other hub that go, of labels and of annotations alike.
    marks: Vec<String>,
}

/// A call of an adoption.
pub(super) enum Phase {
    /// Would an apply change a value?
    DryRunEqual,
    /// Does somebody hold what is declared otherwise?
    DryRunUnforced(Takeover),
    /// What the object's managedFields, which were reset, would say of us.
    DryRunToClaim(Takeover),
    Rewrite(Vec<OtherVersion>),
    Sent(Vec<OtherVersion>),
}

fn earlier<'a>(input: &'a ApplyInput<'_>, api_version: &'a str) -> Earlier<'a> {
    Earlier { api_version, named: &input.owner.conflicts.take_from }
}

/// A foreign object bears the name.
pub(super) fn adopt<E>(state: &mut ApplyState<'_, E>) -> Step<E> {
    let (input, live) = (&state.input, &state.live);
    let existing = match mutants::is(Mutant::AdoptUnasked) {
        true => ExistingPolicy::Adopt,
        false => input.owner.conflicts.existing,
    };
    match existing {
        ExistingPolicy::Fail => refuse(state, Refusal::Exists),
        ExistingPolicy::AdoptIfEqual => {
            let act = Act::DryRun { body: trial_for(input, live), force: true };
            call(state, Pending::Adopt(Phase::DryRunEqual), act)
        }
        ExistingPolicy::Adopt => {
            let api_version = input.declared.gvk.api_version();
            let entries = fields::absorbed(live, &input.owner.manager, &earlier(input, &api_version));
            adopt_unless_held(state, Takeover { entries, marks: Vec::new() })
        }
    }
}

/// An object with the label of the hub `other` bears the name.
pub(super) fn adopt_from_hub<E>(state: &mut ApplyState<'_, E>, other: &str) -> Step<E> {
    let (input, live) = (&state.input, &state.live);
    if input.owner.take_over_from.as_deref() != Some(other) {
        return refuse(state, Refusal::OtherHub { hub: other.to_owned() });
    }
    let (manager, api_version) = (&input.owner.manager, input.declared.gvk.api_version());
    let earlier = earlier(input, &api_version);
    let takeover = match fields::inherited(live, other, manager, &earlier) {
        Some((entries, marks)) => Takeover { entries: Some(entries), marks },
        // That hub's label is all that there is of it.
        None => Takeover { entries: fields::absorbed(live, manager, &earlier), marks: Vec::new() },
    };
    adopt_unless_held(state, takeover)
}

fn adopt_unless_held<E>(state: &mut ApplyState<'_, E>, takeover: Takeover) -> Step<E> {
    if state.input.owner.conflicts.fields != FieldPolicy::Fail {
        return claim(state, takeover);
    }
    let act = Act::DryRun { body: trial_for(&state.input, &state.live), force: false };
    call(state, Pending::Adopt(Phase::DryRunUnforced(takeover)), act)
}

/// Where the object has no managedFields the server would make up an entry for the time before.
fn claim<E>(state: &mut ApplyState<'_, E>, takeover: Takeover) -> Step<E> {
    if !fields::has_no_entries(&state.live) {
        return take_over(state, takeover);
    }
    let act = Act::DryRun { body: trial_for(&state.input, &state.live), force: true };
    call(state, Pending::Adopt(Phase::DryRunToClaim(takeover)), act)
}

pub(super) fn next<E>(state: &mut ApplyState<'_, E>, phase: Phase, answer: Answer<E>) -> Step<E> {
    match (phase, answer) {
        (Phase::DryRunEqual, Answer::DryRun(would)) => adopt_equal(state, &would),
        (Phase::DryRunUnforced(takeover), Answer::DryRun(_)) => claim(state, takeover),
        (
            Phase::DryRunUnforced(takeover),
            Answer::Failed(Failure { kind: FailureKind::FieldConflict(contested), .. }),
        ) => {
            // Once the managedFields are as they are to become.
            let entries = takeover.entries.as_ref().unwrap_or(&state.live["metadata"]["managedFields"]);
            let then = json!({"metadata": {"managedFields": entries}});
            let holders = fields::contenders(&then, &state.input.owner.manager, &contested);
            match holders.is_empty() {
                true => claim(state, takeover),
                false => refuse(state, Refusal::FieldConflict { holders, contested }),
            }
        }
        (Phase::DryRunToClaim(takeover), Answer::DryRun(would)) => {
            let entries = claim_entries(state, &would).or(takeover.entries);
            take_over(state, Takeover { entries, ..takeover })
        }
        (Phase::Rewrite(other_versions), Answer::Rewritten(live)) => {
            state.live = live;
            send(state, other_versions)
        }
        (Phase::Sent(other_versions), Answer::Applied(uid)) => {
            end(state, End::Adopted { uid, other_versions })
        }
        (Phase::Sent(_), Answer::Failed(Failure { kind: FailureKind::FieldConflict(contested), .. })) => {
            let holders = fields::contenders(&state.live, &state.input.owner.manager, &contested);
            refuse(state, Refusal::FieldConflict { holders, contested })
        }
        (_, answer) => pass_on(state, answer),
    }
}

fn adopt_equal<E>(state: &mut ApplyState<'_, E>, would: &Value) -> Step<E> {
    let (input, live) = (&state.input, &state.live);
    let (manager, api_version) = (&input.owner.manager, input.declared.gvk.api_version());
    let ours = fields::own_apply_entry(would, manager);
    let set = ours.and_then(|ours| fields::FieldSet::from_fields_v1(ours).ok());
    let differing = set.map(|set| fields::differing(live, would, &set, Some(&input.declared.body)));
    let paths: Vec<String> = differing.iter().flatten().map(ToString::to_string).collect();
    if !paths.is_empty() {
        return refuse(state, Refusal::Differs(paths));
    }
    let entries = ours.and_then(|ours| {
        fields::parted(live, manager, &earlier(input, &api_version), ours)
            .or_else(|| fields::claimed(live, manager, &api_version, ours))
    });
    take_over(state, Takeover { entries, marks: Vec::new() })
}

/// The managedFields of the object, which has none, with what is declared as ours.
pub(super) fn claim_entries<E>(state: &ApplyState<'_, E>, would: &Value) -> Option<Value> {
    let ApplyInput { owner, declared, .. } = state.input;
    let ours = fields::own_apply_entry(would, &owner.manager)?;
    fields::claimed(&state.live, &owner.manager, &declared.gvk.api_version(), ours)
}

/// Makes exactly the object that was read ours.
fn take_over<E>(state: &mut ApplyState<'_, E>, takeover: Takeover) -> Step<E> {
    let (input, live) = (&state.input, &state.live);
    let api_version = input.declared.gvk.api_version();
    let other_versions = earlier(input, &api_version).other_versions(live);
    let mut metadata = json!({});
    if !takeover.marks.is_empty() {
        let nulls: Map<String, Value> = takeover.marks.into_iter().map(|key| (key, Value::Null)).collect();
        metadata = json!({"labels": nulls, "annotations": nulls});
    }
    if let Some(entries) = takeover.entries {
        metadata["managedFields"] = entries;
    }
    if !live["metadata"]["annotations"][LAST_APPLIED].is_null() {
        metadata["annotations"][LAST_APPLIED] = Value::Null;
    }
    if metadata.as_object().is_some_and(Map::is_empty) {
        return send(state, other_versions);
    }
    let act = Act::Rewrite(exactly(json!({"metadata": metadata}), live));
    call(state, Pending::Adopt(Phase::Rewrite(other_versions)), act)
}

fn send<E>(state: &mut ApplyState<'_, E>, other_versions: Vec<OtherVersion>) -> Step<E> {
    let force = state.input.owner.conflicts.fields == FieldPolicy::Force;
    let act = Act::Apply { body: body_for(&state.input, &state.live), force };
    call(state, Pending::Adopt(Phase::Sent(other_versions)), act)
}
