//! A hub whose store was put back to what it was knows less than its members show: what was declared since is not declared any
//! more. Where that are more than a few objects it writes nothing before a person says so, or the later declarations are there.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use memkube::{Call, Changed};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::{labels::CONFIRM, names::target_name};

use super::{Judge, clouds::HUB, rest::stamped};
use crate::sim::{
    health::GROUP,
    index::{Key, Target},
    marks,
};

/// So many objects of a member from later declarations hold nothing.
const FEW: usize = 5;
/// A life that began on a store that was put back has looked at all targets within this.
const LOOKS_WITHIN: Duration = Duration::from_secs(15);
/// A process whose API was put back has ended within this: pauses between tries grow to a minute.
pub const ENDS_WITHIN: Duration = Duration::from_secs(75);

/// What a process is called once it has ended by itself: the next one has its name.
pub(super) fn ended(life: &str) -> Arc<str> {
    format!("{life}, ended").into()
}

impl Judge {
    /// The hub's store was put back, with these changes. As what objects were applied it does not know; nor
    /// does the judge ask.
    pub fn restored_hub(&mut self, changes: &[Changed], now: Instant) {
        changes.iter().for_each(|changed| self.index.take(HUB, changed, now));
        self.index.forget_recorded();
        // Generations begin again where they were.
        self.seen.clear();
        self.later = self.later_declared(now);
        self.put_back = Some(now);
        self.forget_deliveries(now);
        self.note_returned(None);
    }

    /// No hub ran when its store was put back: the Lease says who holds it.
    pub fn holds(&mut self, holder: Option<String>) {
        self.holder = holder;
    }

    /// The process of the hub, if there is one, goes on by what it knew before: it has to notice, and to end, where anything of the
    /// hub's is another. Until then it may act by that; who holds the Lease it finds out when it renews it.
    pub fn goes_on(&mut self, changes: bool, since: Instant, now: Instant) {
        self.unaware = changes && self.at_work.is_some();
        self.clouds.add(HUB, (since, now + ENDS_WITHIN), now);
    }

    /// A process of the hub has ended by itself, and is started again under its name: that one is another.
    pub fn ended(&mut self, life: &str) {
        self.rests();
        let gone = ended(life);
        let of_it = |of: &mut Arc<str>| {
            if **of == *life {
                *of = gone.clone();
            }
        };
        self.last.iter_mut().for_each(|(last, _)| of_it(last));
        self.made.values_mut().for_each(|(life, _)| of_it(life));
        // What it has read counts for those of its writes that land later.
        let read = std::mem::take(&mut self.read).into_iter();
        self.read = read
            .map(|((mut of, cluster, path), read)| {
                of_it(&mut of);
                ((of, cluster, path), read)
            })
            .collect();
        self.seen.retain(|(of, _), _| **of != *life);
        self.statuses.retain(|(of, _), _| **of != *life);
    }

    /// Goes the hub by what it knew before its store was put back?
    pub fn is_unaware(&self) -> bool {
        self.unaware
    }

    /// A process of the hub has written an inventory of a target, or taken it away.
    pub(super) fn note_written_behind(&mut self, target: &str, is_gone: bool) {
        if is_gone {
            self.written_behind.remove(target);
        } else if self.unaware && !self.index.targets.contains_key(target) {
            self.written_behind.insert(target.to_owned());
        }
    }

    /// Has a process that did not know yet that its store was put back written an inventory for this target, where neither that
    /// nor its VidraResource is there?
    pub fn is_written_behind(&self, target: &str) -> bool {
        let resource = target.rsplit_once('.').map(|(resource, _)| resource);
        self.written_behind.contains(target)
            && !self.index.targets.contains_key(target)
            && resource.is_some_and(|name| self.index.declared.said(name).is_none())
    }

    /// Does the hub go by statuses that were put back, and that it has not looked at yet?
    pub(super) fn is_just_put_back(&self, now: Instant) -> bool {
        let is_new = |at: Instant| self.at_work.is_none_or(|since| since <= at || since + LOOKS_WITHIN > now);
        self.put_back.is_some_and(is_new)
    }

    /// Is what a target says what it said when a backup of the hub was made, and has a cloud over the hub's cluster not gone for so
    /// long? Nobody can ask the hub to have written another status meanwhile.
    pub(super) fn is_of_a_backup(&self, target: &str, now: Instant, most: Duration) -> bool {
        let at = now.checked_sub(most).unwrap_or(now);
        self.put_back.is_some()
            && self.clouds.since(HUB, at).is_some()
            && !self.seen.keys().any(|(_, told)| told == target)
    }

    /// A person has said of a member that what the hub declares now is meant there.
    pub(super) fn note_confirmed(&mut self, changed: &Changed) {
        let says = |new: &Value| !new["metadata"]["annotations"][CONFIRM].is_null();
        if changed.plural == "memberclusters" && changed.after().is_some_and(|new| says(&new)) {
            self.later.retain(|(key, _), _| key[0] != changed.name);
        }
    }

    /// What targets declare otherwise than it was applied, from a later generation than they know of. Where faults keep the hub
    /// from seeing it nobody can ask it for that.
    fn later_declared(&self, now: Instant) -> BTreeMap<(Key, String), Vec<Value>> {
        let is_clear = |target: &&Target| {
            [HUB, target.cluster.as_str()].into_iter().all(|one| self.clouds.since(one, now).is_none())
        };
        let mut later = BTreeMap::new();
        for target in self.index.targets.values().filter(is_clear) {
            for key in self.asked(target).into_keys() {
                let Some(bodies) = self.applied_as(&key, &target.resource) else { continue };
                let place = (key, target.resource.clone());
                if self.is_later(&place, &bodies) {
                    later.insert(place, bodies);
                }
            }
        }
        later
    }

    /// Is the object, which was applied as this, declared otherwise by a target that knows of no such generation, and that the
    /// hub looks at?
    fn is_later(&self, (key, resource): &(Key, String), bodies: &[Value]) -> bool {
        let declared = &self.index.declared;
        let Some(target) = self.index.targets.get(&target_name(resource, &key[0])) else { return false };
        let member = declared.member_named(&key[0]);
        let works = member.is_some_and(|member| {
            member["spec"]["suspend"] != true && member["metadata"]["deletionTimestamp"].is_null()
        });
        let looks = declared.said(resource).is_some_and(|spec| spec["suspend"] != true)
            && declared.is_alive(resource)
            && !declared.is_revoked(resource, &key[0])
            && target.state != "Suspended";
        // Objects of a kind that comes with a CRD are not seen while that is not served.
        if !target.present || !works || !looks || matches!(&*key[1], "test.io" | GROUP) {
            return false;
        }
        let otherwise =
            self.asked(target).get(key).is_some_and(|doc| doc.is_kept() && !bodies.contains(&doc.body));
        let generation = self.index.live(key).and_then(|live| stamped(&live, resource));
        otherwise && generation.is_some_and(|generation| generation > target.generation.max(target.agreed))
    }

    /// The hub is about to change something in a member: not where it is behind by more than a few objects.
    pub(super) fn judge_behind(&mut self, call: &Call, key: &Key) {
        if self.later.is_empty() || self.unaware || self.lands_late(call) {
            return;
        }
        marks::note("rule:behind");
        // What is not so any more may be so again, and be told late.
        let later = std::mem::take(&mut self.later).into_iter();
        let later = later.filter(|(place, bodies)| self.is_later(place, bodies));
        self.later = later.collect();
        let held: Vec<_> = self.later.keys().filter(|(of, _)| of[0] == key[0]).collect();
        if held.len() > FEW {
            let what =
                format!("{call}: writes where {} objects are from later declarations: {held:?}", held.len());
            self.breaches.push(what);
        }
    }
}
