//! The words for what a person must decide, and for what is tried again. Paths and names are a member's: they are cut,
//! and shown only where they may be.

use vidra_api::{
    labels::{HUB_LABEL, TAKE_OVER_FROM},
    names::HubId,
    target::LABEL_MAX,
};
use vidra_core::{
    apply::{Disagreement, Obstacle, Refusal, Retry},
    fields::OtherVersion,
    first_of::first_of,
    object::ObjectKey,
    status::Reason,
    unseen,
};

use super::{Executor, Outcome};
use crate::base::error::{CallError, Class};

/// So many paths are named.
const PATHS: usize = 5;
/// Longest name of a manager, as the API server has it.
const MANAGER_MAX: usize = 128;
/// Longest text of one that is named.
const NAMED_MAX: usize = 512;
/// So many managers are named.
const MANAGERS: usize = 3;
/// Longest apiVersion of an entry that a message quotes: a group is a DNS subdomain, a version a DNS label.
const API_VERSION_MAX: usize = 253 + 1 + 63;

/// The outcome of an apply that a person must decide about.
pub(super) fn outcome(executor: &Executor<'_>, key: &ObjectKey, refusal: &Refusal<CallError>) -> Outcome {
    let (reason, message) = match refusal {
        Refusal::Controlled => (
            Reason::ControlledByOther,
            format!("{key} is made by a controller in the member; drop it from the manifest"),
        ),
        Refusal::Exists => (
            Reason::AlreadyExists,
            format!(
                "{key} exists and was not made by the hub; delete it in the member, drop it from the manifest, or set conflicts.existing to take it over"
            ),
        ),
        Refusal::Differs(paths) => {
            let paths = some_paths(executor, key, paths);
            let message = format!(
                "{key} exists, was not made by the hub, and differs from what is declared at {paths}; make them equal, or set conflicts.existing to Adopt"
            );
            (Reason::ExistingDiffers, message)
        }
        Refusal::OtherHub { hub } => {
            (Reason::OwnedByOtherHub, of_other_hub(key, hub, executor.owner.take_over_from.as_deref()))
        }
        Refusal::FieldConflict { holders, contested } => {
            (Reason::FieldConflict, contest(executor, key, holders, contested))
        }
        Refusal::Shared { holder, what } => {
            let holder = unseen::shown(holder, MANAGER_MAX);
            let what = match what {
                Disagreement::Fields(error) => error.message.clone(),
                Disagreement::Values(paths) => {
                    format!("it would change {}", some_paths(executor, key, paths))
                }
            };
            let message =
                format!("{key} is declared otherwise by {holder}: {what}; make the two VidraResources agree");
            (Reason::SharedObjectConflict, message)
        }
        Refusal::Immutable { fields, error, obstacle } => {
            let fields = some_paths(executor, key, fields);
            let message = format!(
                "{key} cannot be brought to what is declared: {fields} cannot be changed on a live object ({}); {}",
                error.message,
                stays(*obstacle)
            );
            (Reason::ImmutableField, message)
        }
    };
    Outcome::Refused { reason, message }
}

fn of_other_hub(key: &ObjectKey, other: &str, named: Option<&str>) -> String {
    if HubId::try_from(other).is_err() {
        let other = unseen::shown(other, LABEL_MAX);
        return format!(
            "{key} bears the label {HUB_LABEL} with {other:?}, which is not the id of a hub; remove the label"
        );
    }
    let other = unseen::shown(other, LABEL_MAX);
    let named = named.map_or_else(String::new, |named| {
        format!("; the annotation names {:?}, which is another", unseen::shown(named, LABEL_MAX))
    });
    format!(
        "{key} belongs to the hub {other:?}; release it there first, or let this hub have what both declare in this \
         member by an annotation of the MemberCluster: {TAKE_OVER_FROM}={other}{named}"
    )
}

fn contest(
    executor: &Executor<'_>,
    key: &ObjectKey,
    holders: &[(String, Vec<String>)],
    contested: &[String],
) -> String {
    let holds = |(manager, paths): &(String, Vec<String>)| {
        let manager = unseen::shown(manager, MANAGER_MAX);
        format!("{manager:?} holds {}", some_paths(executor, key, paths))
    };
    let who = match holders.is_empty() {
        true => format!("others hold {}", some_paths(executor, key, contested)),
        false => some(&holders.iter().map(holds).collect::<Vec<_>>(), MANAGERS),
    };
    format!(
        "{key}: {who}, with other values; make them equal, drop the fields from the manifest, or set conflicts.fields to Force"
    )
}

fn stays(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::Unproved => "nothing proves that it is the hub's, so it is not deleted to be made again: delete it in the member, or declare what it has".to_owned(),
        Obstacle::MustStay(why) => format!(
            "it is never deleted to be made again, for {why}: put the old value back, or replace it by hand"
        ),
        Obstacle::NotAsked => "put the old value back, or annotate it in the manifest with vidra.dev/on-immutable: Recreate, which deletes it and makes it again".to_owned(),
        Obstacle::NotAlone => {
            "it is not this VidraResource's alone, so it is not deleted to be made again".to_owned()
        }
    }
}

/// What earlier appliers keep of an object that was adopted, and what to do, in a sentence.
pub(super) fn other_versions(
    executor: &Executor<'_>,
    key: &ObjectKey,
    other_versions: &[OtherVersion],
) -> Option<String> {
    let keeps = |one: &OtherVersion| {
        let manager = unseen::shown(&one.manager, MANAGER_MAX);
        let api_version = unseen::shown(&one.api_version, API_VERSION_MAX);
        let fields = match one.paths.is_empty() {
            true => "what it set".to_owned(),
            false => some_paths(executor, key, &one.paths),
        };
        format!("{manager:?} keeps {fields} in {api_version}")
    };
    let named: Vec<String> = other_versions.iter().map(keeps).collect();
    (!named.is_empty()).then(|| {
        format!(
            "{key} was taken over, but {}, and not in the declared apiVersion: fields of these that you remove from the \
             manifest stay in the member; remove them there by hand",
            some(&named, MANAGERS)
        )
    })
}

/// The error of an apply that is tried again after a pause.
pub(super) fn retry(why: Retry) -> CallError {
    let what = match why {
        Retry::Replaced => "the object was replaced",
        Retry::GoneOrReplaced => "the object is gone or was replaced",
        Retry::ReplacedAgain => "the object is replaced again and again",
        Retry::CameAndWent => "the object came and went",
        Retry::ComesAndGoes => "the object of this name comes and goes",
        Retry::ChangesAgain => "the object changes again and again meanwhile",
        Retry::ChangedMeanwhile => "the object was changed each time that it was looked at",
        Retry::Released => "the other VidraResource has released it meanwhile",
        Retry::LostEntry => "it lost the hub's entry in its managedFields a moment ago",
        Retry::Unanswered => "the answer is not about what was asked",
    };
    CallError { class: Class::Conflict, message: format!("{what}; trying again") }
}

/// The first few of these paths of the object, as messages may show them.
pub(super) fn some_paths(executor: &Executor<'_>, key: &ObjectKey, paths: &[String]) -> String {
    let redact = &executor.session.settings().redact;
    let shown: Vec<String> =
        paths.iter().map(|path| redact.shown_path(&key.group, &key.kind, path)).collect();
    some(&shown, PATHS)
}

/// The first few of a list of members' words, and how many more there are.
fn some(all: &[String], most: usize) -> String {
    first_of(all.iter().map(|one| unseen::shown(one, NAMED_MAX)), most)
}
