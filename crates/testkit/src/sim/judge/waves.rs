//! Waves: what is new in a later one comes when what is in those before it is there and works.

use memkube::{Call, Changed};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::names::target_name;

use super::{Judge, SIGHT, deeds::content, rest::Delivered};
use crate::sim::{
    doc::Doc,
    index::{Aim, Key, key_of},
    marks,
};

impl Judge {
    /// What of this apply should have waited: of all that the target was to bring, as far as the hub may know, each has
    /// something in an earlier wave that did not work at any instant of that time. What was applied so before is repaired.
    pub(super) fn too_early(
        &self,
        resource: &str,
        key: &Key,
        (old, new): (Option<&Value>, &Value),
        (aims, bodies): (&[Aim], &[Value]),
        now: Instant,
    ) -> Option<String> {
        if old.is_some_and(|old| content(old) == content(new)) {
            return None;
        }
        let is_repair = match self.applied_last(key, resource) {
            Some(Delivered::These(before)) => bodies.iter().any(|body| before.contains(body)),
            Some(Delivered::Unknown) => true,
            _ => self.was_delivered(resource, key, Some(bodies)),
        };
        if is_repair {
            return None;
        }
        let mut closed = None;
        for aim in aims.iter().filter(|aim| self.of_aim(resource, key, aim).is_some()) {
            closed = Some(self.closed_by(resource, key, aim, now)?);
        }
        let by = closed?;
        Some(format!(
            "was applied before {} works, which is in an earlier wave: {:?}",
            by.join("/"),
            self.index.live(&by)
        ))
    }

    /// Something in an earlier wave of what a target was to bring, which did not work.
    fn closed_by(&self, resource: &str, key: &Key, aim: &Aim, now: Instant) -> Option<Key> {
        let docs = self.index.declared.revision_with(resource, &aim.revision, &key[0], &aim.inputs)?;
        let of = |doc: &Doc| doc.key(&key[0], &aim.namespace);
        let wave = docs.iter().find(|doc| of(doc) == *key)?.wave();
        let then = self.sight_of(&key[0], now, SIGHT);
        let before = docs.iter().filter(|doc| doc.wave() < wave).map(|doc| (of(doc), doc));
        let mut before = before.inspect(|_| marks::note("rule:wave"));
        let is_closed = |(key, doc): &(Key, &Doc)| {
            !self.index.was_open(resource, key, doc, then)
                && !self.is_left(resource, key, doc, then)
                && !self.is_in_contention(resource, key, doc)
        };
        before.find(is_closed).map(|(key, _)| key)
    }

    /// It was applied as this, somebody undoes that each time, and the target tells so: it is left for a while, as what is
    /// only reported is.
    fn is_in_contention(&self, resource: &str, key: &Key, doc: &Doc) -> bool {
        let target = self.index.targets.get(&target_name(resource, &key[0]));
        let is_told = target.is_some_and(|target| {
            target.reason == "Contention" && target.open.iter().any(|(_, changed)| changed == key)
        });
        is_told && self.may_have_been_applied(resource, key, doc)
    }

    /// The hub has changed an object whose status may be from before that.
    pub(super) fn note_raised(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let (Some(old), Some(new)) = (changed.before(), changed.after()) else { return };
        if let Some(key) = key_of(&call.cluster, changed) {
            self.index.note_raised(&key, (&old, &new), now);
        }
    }
}
