//! What waits for a person's word: a declaration that drops most of a target's objects, and a selection that loses most of a
//! VidraResource's targets. And what is dropped stays until what replaces it is there.
//!
//! Counted so that the hub is never blamed for more than was told it: fewer of what goes, more of what there is.

use std::{collections::BTreeSet, time::Duration};

use memkube::{Call, Changed};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::{labels::APPROVE_REMOVAL, names::target_name};

use super::{
    Judge, SIGHT,
    deeds::{content, is_container},
    labelled,
};
use crate::sim::{
    doc::{Doc, holds},
    index::{Aim, Key, Target},
    marks,
    sparing::spared,
    world::named,
};

/// What somebody else has wanted within this may be handed over to him.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(310);
/// So many objects go unasked, whatever share they are.
const FEW: usize = 3;

impl Judge {
    /// People have written a VidraResource or a MemberCluster, with what they approve of it.
    pub(super) fn note_words(&mut self, changed: &Changed) {
        let of = match changed.plural.as_str() {
            "vidraresources" => named(&changed.namespace, &changed.name),
            "memberclusters" => changed.name.clone(),
            _ => return,
        };
        let new = changed.after().unwrap_or_default();
        let words = new["metadata"]["annotations"][APPROVE_REMOVAL].as_str().unwrap_or_default().split(',');
        let words = words.map(|word| (of.clone(), word.trim().to_owned()));
        self.words.extend(words);
    }

    /// The hub has written what a VidraTarget is to bring. It goes by words that somebody has given, and takes it away only
    /// where that is a person's word, or few are lost.
    pub(super) fn judge_turn(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let Some(after) = changed.after() else { return };
        let before = changed.before().unwrap_or_default();
        let name = named(&changed.namespace, &changed.name);
        let Some(Target { resource, cluster, .. }) = self.index.targets.get(&name).cloned() else { return };
        let (was, is) = (&before["spec"], &after["spec"]);
        if let Some(word) = is["approvedRemoval"].as_str() {
            marks::note("rule:word");
            let is_given = |of: &String| self.words.contains(&(of.clone(), word.to_owned()));
            if !is_given(&resource) && !is_given(&cluster) {
                self.breaches.push(format!("{call}: goes by the word {word}, which nobody has given"));
            }
        }
        let turns =
            was["desired"] == "Present" && matches!(is["desired"].as_str(), Some("Absent" | "Orphaned"));
        let unasked = is["approvedRemoval"].is_null() || is["approvedRemoval"] == was["approvedRemoval"];
        if !turns || !unasked || self.lands_late(call) {
            return;
        }
        marks::note("rule:turn");
        if let Some(what) = self.loses_too_much(&resource, &cluster, now) {
            self.breaches
                .push(format!("{call}: {resource} is taken off {cluster}, and nobody has said so: {what}"));
        }
    }

    /// Has it an effect when what it was decided by may be over?
    pub(super) fn lands_late(&self, call: &Call) -> bool {
        self.landing.contains(&(call.cluster.clone(), call.index))
    }

    /// This target goes with others that are not selected, more than may go unasked. A target that is not there, and has left
    /// an inventory, was lost with them.
    fn loses_too_much(&self, resource: &str, cluster: &str, now: Instant) -> Option<String> {
        let (declared, then) = (&self.index.declared, self.sight(now, SIGHT));
        let leaves = |name: &str| {
            declared.member_named(name).is_none_or(|one| !one["metadata"]["deletionTimestamp"].is_null())
        };
        // A restore under the hub may have taken a deletion back, and the hub not know it yet.
        let goes = !declared.is_alive(resource) || self.unaware && declared.was_leaving(resource, then);
        // What a member does not allow any more goes as its onRevoke says.
        if goes || leaves(cluster) || declared.was_revoked(resource, cluster, then) {
            return None;
        }
        let own = |target: &&Target| target.resource == resource;
        let present = self.index.targets.values().filter(own).filter(|target| target.present);
        let mut all: BTreeSet<String> = present.map(|target| target.cluster.clone()).collect();
        let going: BTreeSet<&String> =
            self.index.targets.values().filter(own).map(|one| &one.cluster).collect();
        all.extend(self.index.held_in(resource).into_iter().filter(|name| !going.contains(name)));
        all.insert(cluster.to_owned());
        let stays = |name: &String| {
            leaves(name) || declared.chosen_since(resource, then).any(|all| all.contains(name))
        };
        let lost: BTreeSet<&String> = all.iter().filter(|name| *name == cluster || !stays(name)).collect();
        let [share, _] = declared.shares(then);
        let too_much = lost.len() == all.len()
            || (share == 0 || lost.len() > 1) && lost.len() as u64 * 100 > all.len() as u64 * share;
        too_much.then(|| format!("{lost:?} of {all:?} are lost"))
    }

    /// What a target drops by this aim is more than may go unasked.
    fn drops_too_much(&self, (resource, member): (&str, &str), aim: &Aim, now: Instant) -> bool {
        let free = aim.spec["prune"] == false || aim.spec["approvedRemoval"].is_string();
        let docs = self.index.declared.revision_with(resource, &aim.revision, member, &aim.inputs);
        // An empty manifest is meant, and says so itself.
        let Some(docs) = docs.filter(|docs| !free && !docs.is_empty()) else { return false };
        let wanted: BTreeSet<Key> = docs.iter().map(|doc| doc.key(member, &aim.namespace)).collect();
        let held: BTreeSet<&Key> = self.index.held_by(&target_name(resource, member)).into_iter().collect();
        let lately = now.checked_sub(HANDED_OVER_WITHIN).unwrap_or(now);
        let is_anothers = |key: &Key| {
            let declared = self.index.declared.wanted_lately(key, lately);
            declared.into_iter().chain(self.kept_for(key)).any(|by| by != resource)
        };
        let undeclared: Vec<&Key> = held.into_iter().filter(|key| !wanted.contains(*key)).collect();
        let dropped = undeclared.iter().filter(|key| !is_container(key) && !is_anothers(key)).count();
        let all = undeclared.len() + wanted.len();
        let [_, share] = self.index.declared.shares(self.sight(now, SIGHT));
        dropped > FEW && dropped as u64 * 100 > all as u64 * share
    }

    /// An apply brings what only a declaration says that is held.
    pub(super) fn held_back(
        &self,
        call: &Call,
        resource: &str,
        key: &Key,
        aims: &[Aim],
        (old, new): (Option<&Value>, &Value),
        now: Instant,
    ) -> Option<String> {
        if self.lands_late(call) || old.is_some_and(|old| content(old) == content(new)) {
            return None;
        }
        let is_meant = |aim: &&Aim| {
            let Some(mut body) = self.of_aim(resource, key, aim) else { return false };
            // What is there keeps the values that are left to others.
            let left = old.map(|old| spared(&aim.spec, key, old)).unwrap_or_default();
            left.iter().for_each(|path| path.take_out(&mut body));
            holds(&body, new)
        };
        let meant: Vec<&Aim> = aims.iter().filter(is_meant).collect();
        let held = |aim: &&Aim| self.drops_too_much((resource, key[0].as_str()), aim, now);
        (!meant.is_empty() && meant.iter().all(held)).then(|| {
            format!("was applied for {resource}, which drops most objects there, and nobody has said so")
        })
    }

    /// Why a target may not delete this yet, as far as it can have been one alone: what is dropped goes when nobody has to be
    /// asked, and all that is declared is there.
    pub(super) fn judge_removal(&self, call: &Call, key: &Key, now: Instant) -> Option<String> {
        let holders: BTreeSet<String> = self.index.holders(key).into_iter().collect();
        let (Some(name), 1, false) = (holders.first(), holders.len(), self.lands_late(call)) else {
            return None;
        };
        let Target { resource, cluster, .. } = self.index.targets.get(name)?;
        let seen = self.seen.get(&(call.user.clone(), name.clone())).copied().unwrap_or_default();
        let mut wrong = None;
        for aim in self.index.aims_since(resource, cluster, (self.sight_of_call(call, now), seen)) {
            if aim.spec["desired"] != "Present" {
                return None;
            }
            let docs = self.index.declared.revision_with(resource, &aim.revision, cluster, &aim.inputs)?;
            let declares = docs.iter().find(|doc| doc.key(cluster, &aim.namespace) == *key);
            match declares.map(Doc::may_be_made_again) {
                Some(true) => return None,
                Some(false) => continue,
                None if aim.spec["prune"] == false => continue,
                None => {}
            }
            marks::note("rule:pruning");
            if self.drops_too_much((resource.as_str(), cluster.as_str()), aim, now) {
                wrong = Some(format!("with most objects of {name}, and nobody has said so"));
                continue;
            }
            let place = (resource.as_str(), cluster.as_str(), aim.namespace.as_str());
            wrong = Some(format!("before {} is there", self.lacking(place, &docs, now)?.join("/")));
        }
        wrong
    }

    /// What is declared there and was not applied yet, or is on its way out.
    fn lacking(
        &self,
        (resource, cluster, namespace): (&str, &str, &str),
        docs: &[Doc],
        now: Instant,
    ) -> Option<Key> {
        let then = self.sight_of(cluster, now, SIGHT);
        let mut kept = docs.iter().filter(|doc| doc.is_kept()).map(|doc| (doc.key(cluster, namespace), doc));
        let lacks = |(key, doc): &(Key, &Doc)| {
            // One that has lost the hub's label no watch shows.
            let ends =
                self.index.was_ending(key, then) && self.index.live(key).is_some_and(|live| labelled(&live));
            let applied = self.index.was_held(resource, key, doc, then)
                || self.may_have_been_applied(resource, key, doc);
            (ends || !applied) && !self.is_left(resource, key, doc, then)
        };
        kept.find(lacks).map(|(key, _)| key)
    }
}
