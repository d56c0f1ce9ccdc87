//! Deleting and releasing: only after a live read that proves the object ours.

use kube::{Api, api::Patch};
use serde_json::{Value, json};
use vidra_api::{
    labels::{FORGET, HUB_LABEL, PRUNE},
    target::LABEL_MAX,
};
use vidra_core::{
    apply::{is_visible, note_unwritten},
    fields,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    owner::{Ownership, other_owners_of, ownership},
    plan::{Effect, RemovalMode},
    status::Reason,
    unseen,
};

use super::{
    Executor, Outcome, cache,
    call::{self, Deletion},
    namespace_contents::{Contents, contents},
};
use crate::{
    base::{error::CallError, withdrawal::Withdrawn},
    member::{call_guard::CallGuard, live::Live, records::Source},
};

/// Deletes or releases, after a live read that proves the object ours.
pub(super) async fn remove(
    executor: &Executor<'_>,
    effect: &Effect,
    uid: &str,
    mode: RemovalMode,
) -> Result<Outcome, CallError> {
    let key = &effect.key;
    // What is not there may be made after this look, and what was removed may be made again.
    if let Some(rest) = executor.session.former_writes_left() {
        return Ok(Outcome::TooEarly { rest });
    }
    let Some((gvk, resource)) = call::address(executor, &effect.gvk).await? else {
        return Ok(match executor.session.is_gone_for_good(&effect.gvk) {
            true => Outcome::Gone,
            false => Outcome::Unsettled {
                why: format!(
                    "the member does not serve {} now; if it goes on so for a minute, its objects are taken for gone",
                    effect.gvk
                ),
            },
        });
    };
    let api = call::api(executor, key, resource);
    // What is read here or answered may be folded after the object's end was told: that waits until then.
    let is_guarded = !mutants::is(Mutant::RemovalUnguarded);
    let _guard = is_guarded.then(|| CallGuard::begin(executor.session, key));
    let Some(live) = call::get(executor, &api, key).await? else {
        cache::forget(executor, key, uid);
        return Ok(gone_by_read(executor, key));
    };
    let held = !uid.is_empty() && live.uid() == uid;
    let ours = match ownership(&live.json, executor.owner) {
        Ownership::OtherHub(hub) if held && executor.owner.leaves => {
            return Ok(held_elsewhere(executor, key, &hub));
        }
        Ownership::Controlled | Ownership::OtherHub(_) => false,
        Ownership::Ours => true,
        Ownership::Shared | Ownership::Foreign if held && !is_traced(executor, &live) => {
            return Ok(Outcome::Unproven);
        }
        Ownership::Shared | Ownership::Foreign => held,
    };
    if !ours {
        tracing::info!(object = %key, "the hub leaves an object alone: nothing proves it the hub's own");
        return Ok(gone_by_read(executor, key));
    }
    remove_ours(executor, &api, &gvk, key, live, mode).await
}

/// The inventory has it, and another hub's label is on it: this hub has lost its identity, or was overtaken.
fn held_elsewhere(executor: &Executor<'_>, key: &ObjectKey, hub: &str) -> Outcome {
    let (hub, cluster) = (unseen::shown(hub, LABEL_MAX), &executor.session.cluster);
    Outcome::Refused {
        reason: Reason::OwnedByOtherHub,
        message: format!(
            "{key} belongs to the hub {hub:?} and is not deleted; restore this hub's identity, or annotate the VidraResource to leave what is there: {FORGET}={cluster}"
        ),
    }
}

/// Deletes or releases what was read and is ours.
async fn remove_ours(
    executor: &Executor<'_>,
    api: &Api<Live>,
    gvk: &Gvk,
    key: &ObjectKey,
    live: Live,
    mode: RemovalMode,
) -> Result<Outcome, CallError> {
    let others = has_other_owners(executor, &live);
    let ingest = || cache::note(executor, gvk, key, &live.json, &note_unwritten(&live.json, executor.owner));
    if matches!(mode, RemovalMode::Yield { .. }) && !others {
        return Ok(Outcome::Present);
    }
    if matches!(mode, RemovalMode::Release | RemovalMode::Yield { as_is: true }) {
        return release(executor, api, gvk, key, &live, others).await;
    }
    // Those who keep it keep it from being deleted; what this one alone declared goes, that annotation too.
    if others {
        return withdraw(executor, api, gvk, key, live).await;
    }
    // A person's word, on the live object: it stays, whatever is declared.
    if live.json["metadata"]["annotations"][PRUNE] == "disabled" && !mutants::is(Mutant::PruneKept) {
        tracing::info!(object = %key, "the hub releases an object and does not delete it: it is annotated {PRUNE}: disabled");
        return release(executor, api, gvk, key, &live, false).await;
    }
    if mode == RemovalMode::Withdraw {
        ingest();
        let why = "the VidraResource that took it over has released it; looking again".to_owned();
        return Ok(Outcome::Unsettled { why });
    }
    if live.is_terminating() {
        ingest();
        return Ok(Outcome::Removing);
    }
    if mode == RemovalMode::DeleteEmpty {
        match contents(executor, &live).await? {
            Contents::None => {}
            Contents::Going(what) => {
                tracing::debug!(object = %key, %what, "an object is not empty yet");
                return Ok(Outcome::Removing);
            }
            Contents::Foreign(why) => {
                tracing::info!(object = %key, %why, "the hub releases an object and does not delete it");
                return release(executor, api, gvk, key, &live, false).await;
            }
        }
    }
    delete_unclaimed(executor, api, key, &live).await
}

/// Deletes what nobody else has come to declare: a removal of many takes long, and others are edited meanwhile.
async fn delete_unclaimed(
    executor: &Executor<'_>,
    api: &Api<Live>,
    key: &ObjectKey,
    live: &Live,
) -> Result<Outcome, CallError> {
    if (executor.is_claimed)(key) && !mutants::is(Mutant::ClaimsAtThePlan) {
        return Err(Withdrawn::Claimed.into());
    }
    match call::delete_exactly(executor, api, key, live).await? {
        Deletion::Going => Ok(Outcome::Removing),
        Deletion::Done => {
            cache::forget(executor, key, live.uid());
            Ok(gone_or_landing(executor, key))
        }
        Deletion::WasGone => Ok(gone_by_read(executor, key)),
    }
}

/// It is not there any more, was deleted just now, or is somebody else's. An earlier call that makes it, and was not
/// answered, finds its name free once it is: until that cannot land any more the inventory alone tells that what it makes
/// is to go.
fn gone_or_landing(executor: &Executor<'_>, key: &ObjectKey) -> Outcome {
    match executor.session.may_appear(&executor.owner.hash, key) {
        true => Outcome::Unsettled {
            why: "a call that makes it was not answered, and it may still come".to_owned(),
        },
        false => Outcome::Gone,
    }
}

/// What it comes to that a read alone finds the object gone.
fn gone_by_read(executor: &Executor<'_>, key: &ObjectKey) -> Outcome {
    executor.missed.lock().insert(key.clone());
    gone_or_landing(executor, key)
}

/// What becomes of an object whose change the member refused with this error.
async fn gone_or(
    executor: &Executor<'_>,
    api: &Api<Live>,
    key: &ObjectKey,
    error: CallError,
) -> Result<Outcome, CallError> {
    call::must_be_gone(executor, api, key, error).await.map(|()| gone_by_read(executor, key))
}

/// Withdraws from an object that another VidraResource keeps: an apply of nothing but the identity takes our marks
/// and what we alone declared, and leaves what both declared. Where the others do not hold what the object must
/// have, the server refuses that, and only our marks go.
async fn withdraw(
    executor: &Executor<'_>,
    api: &Api<Live>,
    gvk: &Gvk,
    key: &ObjectKey,
    live: Live,
) -> Result<Outcome, CallError> {
    if fields::own_apply_entry(&live.json, &executor.owner.manager).is_none() {
        return release(executor, api, gvk, key, &live, true).await;
    }
    let mut body = json!({"apiVersion": gvk.api_version(), "kind": &*gvk.kind, "metadata": {
        "name": &*key.name, "uid": live.uid(), "resourceVersion": live.resource_version(),
    }});
    if !key.namespace.is_empty() {
        body["metadata"]["namespace"] = (&*key.namespace).into();
    }
    let params = call::apply_params(executor, false);
    match call::patch(executor, api, key, "release", &params, &Patch::Apply(&body)).await {
        Ok(answer) if is_marked(executor, &answer) => release(executor, api, gvk, key, &answer, true).await,
        Ok(answer) => {
            leave_to_others(executor, gvk, answer);
            Ok(Outcome::Gone)
        }
        Err(error) if error.is_invalid() => release(executor, api, gvk, key, &live, true).await,
        Err(error) => gone_or(executor, api, key, error).await,
    }
}

/// What others keep: without the hub's label no watch shows it to them, and they are told that it is hidden.
fn leave_to_others(executor: &Executor<'_>, gvk: &Gvk, live: Live) {
    let is_seen = is_visible(&live.json, executor.owner);
    if is_seen || mutants::is(Mutant::UnlabelledCounts) {
        return cache::ingest(executor, gvk, live, Source::Read);
    }
    let targets = executor.session.records.note_hidden(gvk, live);
    executor.session.wake(targets, Some(&executor.owner.hash));
}

/// Another VidraResource of this hub applies it too, one that the hub knows.
fn has_other_owners(executor: &Executor<'_>, live: &Live) -> bool {
    other_owners_of(&live.json, executor.owner).into_iter().any(|manager| executor.session.is_owner(manager))
}

/// Something on the object itself says that it is this owner's: an entry of an inventory alone may be anybody's.
fn is_traced(executor: &Executor<'_>, live: &Live) -> bool {
    let entries = live.json["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut managers = entries.map(|entry| &entry["manager"]);
    is_marked(executor, live)
        || managers.any(|manager| *manager == *executor.owner.manager)
        || mutants::is(Mutant::UntracedDeleted)
}

fn is_marked(executor: &Executor<'_>, live: &Live) -> bool {
    let label = executor.owner.hash.label_key();
    ["labels", "annotations"].iter().any(|field| !live.json["metadata"][field][&label].is_null())
}

/// Takes our marks off and leaves everything else; the hub's label stays while another of its resources
/// applies the object.
async fn release(
    executor: &Executor<'_>,
    api: &Api<Live>,
    gvk: &Gvk,
    key: &ObjectKey,
    live: &Live,
    others: bool,
) -> Result<Outcome, CallError> {
    let label = executor.owner.hash.label_key();
    let metadata = &live.json["metadata"];
    let entries = metadata["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rest: Vec<&Value> =
        entries.iter().filter(|entry| entry["manager"] != *executor.owner.manager).collect();
    let mut labels = json!({ &label: null });
    if !others {
        labels[HUB_LABEL] = Value::Null;
    }
    let body = json!({"metadata": {
        "uid": live.uid(),
        "resourceVersion": live.resource_version(),
        "labels": labels,
        "annotations": { &label: null },
        "managedFields": if rest.is_empty() { json!([{}]) } else { json!(rest) },
    }});
    match call::patch(executor, api, key, "release", &call::hub_params(), &Patch::Merge(&body)).await {
        Ok(live) if others => {
            leave_to_others(executor, gvk, live);
            Ok(Outcome::Gone)
        }
        Ok(live) => {
            cache::forget(executor, key, live.uid());
            Ok(Outcome::Gone)
        }
        Err(error) => gone_or(executor, api, key, error).await,
    }
}
