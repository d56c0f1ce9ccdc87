//! Fields that others hold: of people and controllers, as `conflicts.fields` says; of another VidraResource never by
//! force, unless it declares the object just so itself, or not at all any more, or came to it later.

use std::sync::Arc;

use serde_json::Value;
use vidra_api::FieldPolicy;
use vidra_core::{
    fields::{self, Path},
    object::ObjectKey,
    plan::Why,
    render::Declared,
    unseen,
};

use super::{Executor, Outcome, Step};
use crate::{
    base::error::{CallError, Class},
    desired::Desired,
    member::{
        live::Live,
        owner::{Standing, other_owners_of, others_holding, standing},
        records::Other,
    },
};

/// So many paths are named.
pub(super) const PATHS: usize = 5;
/// Longest name of a manager, as the API server has it.
pub(super) const MANAGER_MAX: usize = 128;
/// Longest text of one that is named.
const NAMED_MAX: usize = 512;
/// So many managers are named.
pub(super) const MANAGERS: usize = 3;

/// Another VidraResource that applies the object, beside this one.
enum Rank {
    /// What this one declares counts.
    Later,
    /// What it declares counts.
    First(Arc<Desired>),
    /// What it holds counts: what it declares nobody knows, or it has no say here.
    Apart,
}

impl Executor<'_> {
    /// Fields are held by others. Those of people and controllers are taken back, in exactly the object that
    /// was looked at, unless the VidraResource says otherwise; those of another VidraResource only when it declares
    /// the object just so itself, and what it holds is what both declared before; or when it has dropped the object, or
    /// came to it later.
    pub(super) async fn contest(
        &self,
        declared: &Declared,
        uid: &str,
        why: Why,
        contested: &[String],
        error: &CallError,
    ) -> Step {
        let live = match self.the_same(declared, uid).await {
            // Not seen before: the server looks at fields before the uid, and another object bears the name now.
            Err(error) if why == Why::Missing && error.class == Class::Conflict => {
                self.forget_record(&declared.key, uid);
                return Box::pin(self.join(declared, None)).await;
            }
            live => live?,
        };
        if why == Why::Joined
            && !matches!(standing(&live.json, self.owner), Standing::Ours | Standing::Shared)
        {
            let message = "the other VidraResource has released it meanwhile; trying again".to_owned();
            return Err(CallError { class: Class::Conflict, message });
        }
        let others = others_holding(&live.json, self.owner, contested);
        let shared = others.iter().any(|(_, holds)| *holds);
        // It stands in an inventory that this hub has adopted.
        if shared && let Standing::OtherHub(hub) = standing(&live.json, self.owner) {
            return self.meet_other_hub(declared, live, &hub).await;
        }
        if shared && let Some(outcome) = self.in_live_words(declared, &live, why, contested).await? {
            return Ok(outcome);
        }
        let is_rival = |(manager, holds): &&(&str, bool)| {
            self.is_rival(declared, &live.json, (manager, *holds), contested)
        };
        if let Some((rival, _)) = others.iter().find(is_rival) {
            return Ok(shared_conflict(&declared.key, rival, &error.message));
        }
        if self.owner.conflicts.fields == FieldPolicy::Fail {
            let mut holders = fields::contenders(&live.json, &self.owner.manager, contested);
            let known = !holders.is_empty();
            holders.retain(|(manager, _)| !manager.starts_with(fields::MANAGER_PREFIX));
            if !holders.is_empty() || !known {
                return Ok(self.contested(&declared.key, &holders, contested));
            }
        }
        let body = self.body_for(declared, &live);
        Box::pin(self.apply_body(declared, &body, uid, why, true)).await
    }

    /// Whether another VidraResource that applies the object is to have these fields as it declares them, whoever holds
    /// them now: one that was there first.
    fn is_rival(
        &self,
        declared: &Declared,
        live: &Value,
        (manager, holds): (&str, bool),
        contested: &[String],
    ) -> bool {
        let desired = match self.rank(declared, live, manager) {
            Rank::Later => return false,
            Rank::Apart => return holds,
            Rank::First(desired) => desired,
        };
        let theirs = desired.objects.get(&declared.key);
        let otherwise = |path: &Path| {
            let theirs = theirs.and_then(|theirs| path.find(&theirs.body));
            theirs.is_some_and(|theirs| path.find(&declared.body).is_some_and(|ours| ours != theirs))
        };
        holds || fields::held_paths(live, contested).iter().any(otherwise)
    }

    /// Who comes first: who applies the object already; of two of one namespace who do, the older. Across namespaces age
    /// counts for nothing, or whoever is old could take what others hold.
    fn rank(&self, declared: &Declared, live: &Value, manager: &str) -> Rank {
        let has_applied = || matches!(standing(live, self.owner), Standing::Ours);
        match self.session.records.other(&declared.key, manager, &self.owner.hash, declared) {
            // As a restore of the member brings it back, or anybody writes it: the hub has no target of that name there. One
            // that this one joins may be a VidraResource that is yet to be applied to the hub again.
            Other::Unknown if has_applied() && self.is_nobodys(manager) => Rank::Later,
            Other::Unknown => Rank::Apart,
            Other::Yields => Rank::Later,
            Other::Differs { is_near: true, is_older: false, .. } if has_applied() => Rank::Later,
            Other::Differs { is_near: false, .. } if has_applied() => Rank::Apart,
            Other::Differs { desired, .. } => Rank::First(desired),
        }
    }

    /// It is of this hub, and the hub knows no target of that name there.
    fn is_nobodys(&self, manager: &str) -> bool {
        self.owner.is_of_hub(manager) && !self.session.is_owner(manager)
    }

    /// Another VidraResource holds what is declared here. When both mean the same value, in two spellings, the live
    /// spelling is sent, so that both own it. `None`: they do not.
    async fn in_live_words(
        &self,
        declared: &Declared,
        live: &Live,
        why: Why,
        contested: &[String],
    ) -> Result<Option<Outcome>, CallError> {
        let would = self.rehearse(declared, live, true).await?;
        let Some(set) = fields::own_apply_entry(&would.json, &self.owner.manager)
            .and_then(|entry| fields::FieldSet::from_fields_v1(entry).ok())
        else {
            return Ok(None);
        };
        let differing = fields::differing(&live.json, &would.json, &set, Some(&declared.body));
        if differing.iter().any(|path| contested.contains(&path.to_string())) {
            return Ok(None);
        }
        let body = self.body_for(declared, live);
        let Some(body) = fields::with_live_values(&body, &live.json, &set, contested) else {
            return Ok(None);
        };
        match self.send(declared, &body, false).await {
            Ok(uid) => Ok(Some(Outcome::Applied { uid, corrected: why.is_drift() })),
            Err(error) if matches!(error.class, Class::FieldConflict(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether an unforced apply would change what another VidraResource of this hub keeps, without a field being
    /// in conflict: a list of which both own the same items, in another order, would go to and fro for ever.
    pub(super) async fn disturbs(
        &self,
        declared: &Declared,
        uid: &str,
        why: Why,
    ) -> Result<Option<Outcome>, CallError> {
        if !self.session.records.is_disputed(&declared.key, &self.owner.hash, declared) {
            return Ok(None);
        }
        let live = self.the_same(declared, uid).await?;
        let would = match self.rehearse(declared, &live, false).await {
            Ok(would) => would,
            Err(error) => {
                return match &error.class {
                    Class::FieldConflict(contested) => {
                        Ok(Some(self.contest(declared, uid, why, contested, &error).await?))
                    }
                    _ => Err(error),
                };
            }
        };
        let is_later = |holder: &str| matches!(self.rank(declared, &live.json, holder), Rank::Later);
        for holder in other_owners_of(&live.json, self.owner).into_iter().filter(|one| !is_later(one)) {
            let Some(set) = fields::own_apply_entry(&live.json, holder)
                .and_then(|entry| fields::FieldSet::from_fields_v1(entry).ok())
            else {
                continue;
            };
            let paths = fields::differing(&live.json, &would.json, &set, None);
            if !paths.is_empty() {
                let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
                let what = format!("it would change {}", self.some_paths(&declared.key, &paths));
                return Ok(Some(shared_conflict(&declared.key, holder, &what)));
            }
        }
        Ok(None)
    }

    async fn the_same(&self, declared: &Declared, uid: &str) -> Result<Live, CallError> {
        let live = self.read(&declared.key, &declared.gvk).await?.filter(|live| live.uid() == uid);
        live.ok_or_else(|| CallError {
            class: Class::Conflict,
            message: "the object was replaced; trying again".to_owned(),
        })
    }

    /// A field is not to be taken from who holds it.
    pub(super) fn contested(
        &self,
        key: &ObjectKey,
        holders: &[(String, Vec<String>)],
        contested: &[String],
    ) -> Outcome {
        let named: Vec<String> = holders
            .iter()
            .map(|(manager, paths)| {
                format!("{:?} holds {}", unseen::shown(manager, MANAGER_MAX), self.some_paths(key, paths))
            })
            .collect();
        let who = match named.is_empty() {
            true => format!("others hold {}", self.some_paths(key, contested)),
            false => some(&named, MANAGERS),
        };
        Outcome::Refused {
            reason: "FieldConflict",
            message: format!(
                "{key}: {who}, with other values; make them equal, drop the fields from the manifest, or set conflicts.fields to Force"
            ),
        }
    }
}

/// The first few of a list of members' words, and how many more there are.
pub(super) fn some(all: &[String], most: usize) -> String {
    let named = all.iter().take(most).map(|one| unseen::shown(one, NAMED_MAX)).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn shared_conflict(key: &ObjectKey, holder: &str, what: &str) -> Outcome {
    let holder = unseen::shown(holder, MANAGER_MAX);
    Outcome::Refused {
        reason: "SharedObjectConflict",
        message: format!(
            "{key} is declared otherwise by {holder}: {what}; make the two VidraResources agree"
        ),
    }
}
