//! What one pass of a target does: from what is declared, what the inventory holds and what the member
//! has, to effects. Pure: planning again after a plan was performed gives an empty plan.
//!
//! Rules (ownership, writing, deleting): a live object is ours when its uid is in the inventory or our own
//! Apply entry owns our owner label, and no controller owns it. Everything else is foreign: it is never
//! written and never deleted. What the inventory does not hold is never deleted.

mod drift;
mod policy;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

mod waves;

pub use drift::Vanished;
pub use policy::Policy;
pub use waves::is_settled;

use crate::{
    directives::Directives,
    merge_lookup::MergeLookup,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey, Scope},
    render::{DeclaredHash, Relation, Stage},
    uid::Uid,
};

/// What the target should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The declared objects are there.
    Present,
    /// What the inventory holds is deleted.
    Absent,
    /// What the inventory holds is released: it stays, without our marks.
    Orphaned,
}

/// One declared object, as far as planning needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// What it is.
    pub gvk: Gvk,
    /// Whether its kind lives in namespaces.
    pub scope: Scope,
    /// When its turn is, within its wave.
    pub stage: Stage,
    /// Its wave, and how often it is applied.
    pub directives: Directives,
    /// Hash of what is declared.
    pub hash: DeclaredHash,
    /// How it relates to Namespaces and CRDs beside its own.
    pub relation: Relation,
}

/// What a target's inventory holds, by object key.
pub type Inventory = BTreeMap<ObjectKey, Held>;

/// One inventory entry, as far as planning needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The version it was applied in.
    pub version: Arc<str>,
    /// Its uid; empty when it was intended and no answer was recorded.
    pub uid: Uid,
    /// It existed before and was taken over.
    pub adopted: bool,
    /// The wave in which it was applied.
    pub wave: i32,
    /// The hash of what was declared when nothing more was to be done for it, see [`is_settled`].
    pub settled: Option<Box<str>>,
    /// It was to be deleted, and is on its way out or gone: that is no drift, for it is the hub's own doing.
    pub going: bool,
}

impl Held {
    /// Intended, in this version; no answer is recorded.
    pub fn intended(version: &Arc<str>) -> Self {
        Self { version: version.clone(), ..Self::default() }
    }

    /// What it was applied as, under this key.
    fn gvk(&self, key: &ObjectKey) -> Gvk {
        Gvk::new(&key.group, &self.version, &key.kind)
    }
}

/// How the live values compare with what the server answered when we last applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Equal.
    None,
    /// Equal, but some of them only another VidraResource holds now: they would go with that one.
    HeldByOther,
    /// They differ.
    Differs,
    /// Not known without asking: a declared leaf is no longer ours, or nothing was seen since a start.
    Unsure,
}

/// One live object, as this target sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its uid.
    pub uid: Uid,
    /// Our Apply entry owns our owner label.
    pub proof: bool,
    /// A controller ownerReference names another object.
    pub controlled: bool,
    /// It has a deletionTimestamp.
    pub terminating: bool,
    /// Another VidraResource applies it too.
    pub shared: bool,
    /// The hash that was declared when we last applied it, read off the object.
    pub applied: Option<DeclaredHash>,
    /// Its values against our last apply.
    pub drift: Drift,
    /// It works as its kind promises (for what waits on it).
    pub current: bool,
    /// It is suspended, and opens nothing for that.
    pub suspended: bool,
}

/// Why an object that left the declaration is not removed, or not as one that nobody declares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handover {
    /// It left a moment ago: who else declares it may not be known yet.
    Delayed,
    /// What this other VidraResource declares is not known yet.
    Unknown(Box<str>),
    /// This other VidraResource declares it, and has not applied it yet.
    Awaited(Box<str>),
    /// As this says, and nobody sees the object: a live read decides.
    Unseen(Box<Handover>),
    /// Another one declares and applies it.
    Done,
    /// Others declare it, and leave what it lacks as it is: nobody will apply it.
    Unclaimed,
}

impl Handover {
    /// Why, whether or not the object is seen.
    pub fn why(&self) -> &Self {
        match self {
            Self::Unseen(why) => why,
            why => why,
        }
    }
}

/// All that a plan is made from.
pub struct PlanInput<'a> {
    /// What the target should be.
    pub presence: Presence,
    /// The declared objects; empty unless `presence` is Present.
    pub wants: &'a BTreeMap<ObjectKey, Want>,
    /// The inventory.
    pub inventory: &'a Inventory,
    /// What the member has, for keys of the two above. A key that is absent here was not seen in a
    /// complete list.
    pub live: &'a BTreeMap<ObjectKey, Live>,
    /// What is known of objects that the inventory knows by a uid and that are not in `live`.
    pub vanished: &'a BTreeMap<ObjectKey, Vanished>,
    /// As what the revision that was applied whole last declared objects that are gone, or of which nobody has seen as what
    /// they were applied. `None`: it did not declare this one.
    pub before: &'a BTreeMap<ObjectKey, Option<DeclaredHash>>,
    /// What is not to be removed as such, of what the inventory holds and is not wanted.
    pub handovers: &'a BTreeMap<ObjectKey, Handover>,
    /// An object that left the declaration is deleted.
    pub prune: bool,
    /// Every declared object's kind is known: otherwise what is not wanted cannot be told, nothing is pruned.
    pub complete: bool,
    /// Just what is asked for was applied whole before: what is missing since then is no news, and waits for no wave.
    pub delivered: bool,
    /// It is time to look for what no watch shows: what others have made where it is wanted only if there is none, and
    /// what is hidden.
    pub revisit: bool,
    /// The first wave with an object that cannot be planned, for its kind is not known or cannot be seen.
    pub unplannable: Option<i32>,
    /// Whether an object that is not wanted may be declared all the same: its kind is not known or cannot be seen.
    pub may_be_declared: &'a dyn Fn(&ObjectKey) -> bool,
    /// What else may be done.
    pub policy: Policy,
}

/// Why an object is applied again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is declared otherwise than it was applied.
    Changed,
    /// Another VidraResource has it, and this one joins: found while making it, never planned.
    Joined,
    /// Its live values differ.
    Drifted,
    /// The inventory knows it and the member does not show it: deleted, or hidden by a lost label.
    Missing,
}

impl Why {
    /// The live object is not as it was left: applying it undoes that.
    pub fn is_drift(self) -> bool {
        matches!(self, Self::Drifted | Self::Missing)
    }
}

/// One thing to do to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create-only apply.
    Create,
    /// Apply to the object with this uid, and no other.
    Apply {
        /// The object's uid.
        uid: Uid,
        /// Why.
        why: Why,
        /// Take fields from other managers; never where another VidraResource applies it too.
        force: bool,
    },
    /// A dry run tells whether the live values are what we would write.
    Verify {
        /// The object's uid.
        uid: Uid,
        /// As in `Apply`, should it come to that.
        force: bool,
    },
    /// A read, and where that does not tell a dry run, say whether the object is there and as it was left.
    Look {
        /// The object's uid.
        uid: Uid,
    },
    /// Takes it out of the target, after a live read that proves it ours.
    Remove {
        /// The uid in the inventory; empty when only our Apply entry can prove it.
        uid: Uid,
        /// How.
        mode: RemovalMode,
    },
}

/// How an object leaves a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalMode {
    /// Deleted.
    Delete,
    /// A Namespace or CustomResourceDefinition: deleted if a complete listing shows that nothing is in it, else released.
    DeleteEmpty,
    /// Our marks are removed; it stays.
    Release,
    /// Left to the other VidraResource that applies it; the live read shows both.
    Withdraw,
    /// As `Withdraw` where the live read shows another VidraResource that applies it; else it stays.
    Yield {
        /// It keeps the values that no other one declares.
        as_is: bool,
    },
}

/// Why an object, or a stage, is not acted on now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// The live object is being deleted: it, or what is in it, waits until it is gone.
    Terminating(ObjectKey),
    /// Later stages wait for this object.
    NotCurrent(ObjectKey),
    /// A wave waits for this object of the wave `before`.
    Wave {
        /// The wave that waits.
        wave: i32,
        /// The wave that is waited for.
        before: i32,
        /// Its first object that is not current.
        key: ObjectKey,
    },
    /// It waits for that wave, where all that is not current of the wave `before` is suspended.
    Suspended {
        /// The wave that waits.
        wave: i32,
        /// The wave that is waited for.
        before: i32,
        /// Its first object that is suspended.
        key: ObjectKey,
    },
}

impl Wait {
    /// The object that has to become current before anything that is held back goes on.
    pub fn gate(&self) -> Option<&ObjectKey> {
        match self {
            Wait::Terminating(_) => None,
            Wait::NotCurrent(key) | Wait::Wave { key, .. } | Wait::Suspended { key, .. } => Some(key),
        }
    }
}

/// What can be seen beforehand to need a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// A live object with our labels that we cannot prove to be ours.
    NotOurs(ObjectKey),
    /// A live object that a controller owns.
    Controlled(ObjectKey),
}

/// One effect: what, to which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The object.
    pub key: ObjectKey,
    /// Group, version, kind to address it by.
    pub gvk: Gvk,
    /// What to do.
    pub action: Action,
}

/// The plan of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Inventory keys to be written before any effect; `None`: it holds them already.
    pub intent: Option<BTreeSet<ObjectKey>>,
    /// Effects, by wave and stage. The effects of one stage may run side by side.
    pub stages: Vec<Vec<Effect>>,
    /// Deletes and releases, in reverse of the order of applying; after all applies.
    pub removals: Vec<Vec<Effect>>,
    /// What would be removed, and stays for now, as far as can be told before it is read.
    pub stays: BTreeMap<ObjectKey, Handover>,
    /// What the declaration has dropped and would be deleted in the end, by this plan or a later one: also what waits now,
    /// with why.
    pub drops: BTreeMap<ObjectKey, Option<Handover>>,
    /// What is waited for.
    pub waits: Vec<Wait>,
    /// What is refused.
    pub refusals: Vec<Refusal>,
}

impl Plan {
    /// Nothing to write, in the member or to the inventory.
    pub fn is_empty(&self) -> bool {
        self.intent.is_none() && self.stages.is_empty() && self.removals.is_empty()
    }
}

/// Makes the plan.
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut plan = Plan::default();
    if input.presence == Presence::Present {
        waves::apply_stages(input, &mut plan);
        let names = !mutants::is(Mutant::NoIntent);
        if names && !plan.stages.is_empty() && is_any_missing(input.inventory, input.wants) {
            let keys = input.inventory.keys().chain(input.wants.keys());
            plan.intent = Some(keys.cloned().collect());
        }
    }
    let undeclared = undeclared(input);
    // What is to be replaced stays until what replaces it may come.
    let may_go = plan.waits.is_empty() && plan.refusals.is_empty();
    if may_go || !mutants::is(Mutant::WaitsHideDrops) {
        plan.drops = drops(input, &undeclared);
    }
    if may_go || mutants::is(Mutant::RemovesWhileWaiting) {
        removals(input, &undeclared, &mut plan);
    }
    plan
}

type Entry<'a> = (&'a ObjectKey, &'a Held);

/// What the inventory holds and nobody wants.
fn undeclared<'a>(input: &PlanInput<'a>) -> Vec<Entry<'a>> {
    let PlanInput { wants, inventory, live, .. } = *input;
    if !is_any_missing(wants, inventory) {
        return Vec::new();
    }
    // Objects that resolve to a uid which another declared key has are that very object.
    let uids = wants.keys().flat_map(|key| {
        let held = inventory.get(key).map(|held| &held.uid);
        [held, live.get(key).map(|live| &live.uid)]
    });
    let kept: BTreeSet<&Uid> = uids.flatten().filter(|uid| !uid.is_empty()).collect();
    let is_wanted = |(key, held): &Entry<'a>| wants.contains_key(*key) || kept.contains(&held.uid);
    inventory.iter().filter(|entry| !is_wanted(entry)).collect()
}

/// See [`Plan::drops`].
fn drops(input: &PlanInput<'_>, undeclared: &[Entry<'_>]) -> BTreeMap<ObjectKey, Option<Handover>> {
    if input.presence != Presence::Present || !input.prune {
        return BTreeMap::new();
    }
    let mut drops = BTreeMap::new();
    for (key, held) in undeclared {
        let handover = input.handovers.get(key).map(Handover::why);
        let is_anothers = !matches!(handover, None | Some(Handover::Delayed | Handover::Unknown(_)));
        let is_let_go = holds_others(&held.gvk(key)) && !input.policy.when_empty;
        if !is_anothers && !is_let_go && !(input.may_be_declared)(key) {
            drops.insert((*key).clone(), handover.cloned());
        }
    }
    drops
}

/// Some of these keys are not in a map.
fn is_any_missing<V, W>(map: &BTreeMap<ObjectKey, V>, keys: &BTreeMap<ObjectKey, W>) -> bool {
    let mut map = MergeLookup::new(map);
    keys.keys().any(|key| map.get(key).is_none())
}

/// A declared object, with what the inventory and the member have of it.
struct Row<'a> {
    key: &'a ObjectKey,
    want: &'a Want,
    held: Option<&'a Held>,
    live: Option<&'a Live>,
}

enum Decision {
    Act(Action),
    Wait,
    Refuse(Refusal),
    Nothing,
}

fn decide(row: &Row<'_>, input: &PlanInput<'_>) -> Decision {
    let Row { key, want, held, live } = *row;
    let known = held.filter(|held| !held.uid.is_empty());
    // What the hub itself has deleted is news when it is gone, whatever is done about drift.
    let kept = known.filter(|held| !held.going);
    let Some(live) = live else {
        return match kept {
            Some(held) => drift::missing(key, want, held, input),
            None => Decision::Act(Action::Create),
        };
    };
    let ours = live.proof || known.is_some_and(|held| held.uid == live.uid);
    if live.controlled {
        return Decision::Refuse(Refusal::Controlled(key.clone()));
    }
    if !ours && kept.is_some() && drift::is_left(key, (None, kept), want, input) {
        return Decision::Nothing;
    }
    if !ours {
        // A shared object that another VidraResource applies first, or one that may be taken over: that needs a
        // live read, which the create-only apply's refusal leads to.
        return if (live.shared || input.policy.adopt) && !live.terminating {
            Decision::Act(Action::Create)
        } else if live.terminating {
            Decision::Wait
        } else {
            Decision::Refuse(Refusal::NotOurs(key.clone()))
        };
    }
    let goes = live.terminating && known.is_some_and(|held| held.going && held.uid == live.uid);
    if !goes && drift::is_left(key, (live.applied, known), want, input) {
        return drift::look(live, input);
    }
    if live.terminating {
        return Decision::Wait;
    }
    let uid = live.uid.clone();
    let force = input.policy.force && !live.shared;
    if live.applied != Some(want.hash) && !mutants::is(Mutant::ChangeSkipped) {
        return Decision::Act(Action::Apply { uid, why: Why::Changed, force });
    }
    // Known by its uid alone: our marks are off it, and nobody else would find it ours.
    let drift = if live.proof { live.drift } else { Drift::Differs };
    match drift {
        Drift::None => Decision::Nothing,
        Drift::Differs => Decision::Act(Action::Apply { uid, why: Why::Drifted, force }),
        // The other one may have changed meanwhile; a dry run tells what is to be owned again.
        Drift::HeldByOther | Drift::Unsure => Decision::Act(Action::Verify { uid, force }),
    }
}

fn removals(input: &PlanInput<'_>, undeclared: &[Entry<'_>], plan: &mut Plan) {
    let removes = match input.presence {
        Presence::Present => input.prune && input.complete,
        Presence::Absent | Presence::Orphaned => true,
    };
    if !removes {
        return;
    }
    let mut stages: BTreeMap<(i32, Stage), Vec<Effect>> = BTreeMap::new();
    for (key, held) in undeclared.iter().copied() {
        let handover = input.handovers.get(key);
        let is_unseen = matches!(handover, Some(Handover::Unseen(_)));
        if let Some(stays) = handover.filter(|one| !matches!(one, Handover::Done | Handover::Unclaimed)) {
            plan.stays.insert(key.clone(), stays.clone());
            if !is_unseen {
                continue;
            }
        }
        let gvk = held.gvk(key);
        let mode = match input.presence {
            presence if is_unseen => RemovalMode::Yield { as_is: presence == Presence::Orphaned },
            // To stay as it is: an apply of nothing takes values off.
            Presence::Orphaned => RemovalMode::Release,
            _ if handover == Some(&Handover::Done) => RemovalMode::Withdraw,
            _ if handover == Some(&Handover::Unclaimed) => RemovalMode::Release,
            // Deleting a Namespace or a CRD takes foreign content with it, whatever its uid says.
            Presence::Present | Presence::Absent if holds_others(&gvk) => match input.policy.when_empty {
                true => RemovalMode::DeleteEmpty,
                false => RemovalMode::Release,
            },
            Presence::Present | Presence::Absent => RemovalMode::Delete,
        };
        let action = Action::Remove { uid: held.uid.clone(), mode };
        stages.entry((held.wave, Stage::of(&gvk))).or_default().push(Effect {
            key: key.clone(),
            gvk,
            action,
        });
    }
    plan.removals = stages.into_values().rev().collect();
}

/// Deleting an object of this kind deletes objects that somebody else may have put into it.
fn holds_others(gvk: &Gvk) -> bool {
    !mutants::is(Mutant::DeleteContainers)
        && matches!(
            (&*gvk.group, &*gvk.kind),
            ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition")
        )
}

#[cfg(test)]
mod tests;
