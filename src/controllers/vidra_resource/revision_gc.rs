//! Revisions that no target has any more: what they declared, Secrets too, stays readable only for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::ResourceExt;
use tokio::time::Instant;
use vidra_api::names::revision_in_secret_name;
use vidra_core::mutants::{self, Mutant};

use super::{context::Context, unreadable::is_any_target_unread};
use crate::base::error::CallError;

/// So many of them are kept for that while, the newest.
const MOST: usize = 5;
/// How long one is kept, from when this process saw first that nobody has it: longer than any write of an earlier
/// process takes to land that gives it to a target.
const WHILE: Duration = Duration::from_secs(600);

/// What this process knows of a VidraResource's revisions.
#[derive(Debug, Default)]
pub(in crate::controllers) struct RevisionUse {
    /// In use, when it looked last.
    used: BTreeSet<String>,
    /// Not in use any more, and since when.
    since: BTreeMap<String, Instant>,
    /// All Secrets were listed once: what an earlier process left is known.
    listed: bool,
    /// The Secret of the revision that is declared, or was kept last, was not there.
    pub(super) lost: bool,
}

impl RevisionUse {
    /// These are in use now.
    fn see(&mut self, used: &BTreeSet<String>, now: Instant) {
        for name in self.used.difference(used) {
            self.since.entry(name.clone()).or_insert(now);
        }
        self.since.retain(|name, _| !used.contains(name));
        self.used.clone_from(used);
    }

    /// A list shows more than is known, or something is to go.
    fn is_due(&self, now: Instant) -> bool {
        let is_over = |since: &Instant| now.duration_since(*since) >= WHILE;
        !self.listed || self.since.len() > MOST || self.since.values().any(is_over)
    }

    /// Those that are to go, of all that are there, newest first.
    fn settle(&mut self, all: &[String], now: Instant) -> BTreeSet<String> {
        let mut there = BTreeMap::new();
        let mut going = BTreeSet::new();
        for name in all.iter().filter(|name| !self.used.contains(*name)) {
            if there.contains_key(name) {
                continue;
            }
            let since = self.since.get(name).copied().unwrap_or(now);
            let is_over = there.len() >= MOST || now.duration_since(since) >= WHILE;
            if is_over && !mutants::is(Mutant::RevisionsStay) {
                going.insert(name.clone());
            }
            there.insert(name.clone(), since);
        }
        (self.since, self.listed) = (there, true);
        going
    }

    /// These are deleted.
    fn forget(&mut self, gone: &BTreeSet<String>) {
        self.since.retain(|name, _| !gone.contains(name));
    }

    /// When the next one is to go.
    fn next(&self, now: Instant) -> Option<Duration> {
        self.since.values().min().map(|since| (*since + WHILE).duration_since(now))
    }
}

/// Deletes the Secrets of revisions that nobody has had for a while. It costs a list at the start of the process, and
/// one for each revision that goes out of use. `current` is what is declared now; `None`: that is no revision.
pub(super) async fn collect_revisions(ctx: &Context<'_>, current: Option<&str>) -> Result<(), CallError> {
    let used = used_revisions(ctx, current);
    ctx.hub.revisions.keep(ctx.key, &used);
    if is_any_target_unread(ctx) {
        // Nobody knows which one that has.
        return Ok(());
    }
    let now = Instant::now();
    let is_due = change_use(ctx, |known| {
        known.see(&used, now);
        known.is_due(now)
    });
    if is_due {
        let all = ctx.hub.api.revisions_of(ctx.key, &ctx.owner().to_string()).await?;
        let of = |name: &str| revision_in_secret_name(&ctx.key.name, name).map(str::to_owned);
        let revisions: Vec<String> = all.iter().filter_map(|secret| of(&secret.name_any())).collect();
        let going = change_use(ctx, |known| known.settle(&revisions, now));
        for secret in &all {
            let name = secret.name_any();
            if of(&name).is_some_and(|revision| going.contains(&revision)) {
                ctx.hub.api.delete_revision(&ctx.key.namespace, &name, secret.uid()).await?;
            }
        }
        change_use(ctx, |known| known.forget(&going));
        // Where nothing is declared that may be delivered, what was kept last may be declared still.
        let kept = current.map(str::to_owned).or_else(|| told_revision(ctx));
        if kept.is_some_and(|kept| !revisions.contains(&kept)) {
            change_use(ctx, |known| known.lost = true);
            ctx.hub.queue.add_after(ctx.queue_key(), Duration::ZERO);
        }
    }
    if let Some(delay) = change_use(ctx, |known| known.next(now)) {
        ctx.hub.queue.add_after(ctx.queue_key(), delay);
    }
    Ok(())
}

pub(super) fn change_use<T>(ctx: &Context<'_>, change: impl FnOnce(&mut RevisionUse) -> T) -> T {
    change(&mut ctx.hub.state.lock().resource_mut(ctx.key).revision_use)
}

/// Those that targets are to have or had last, the last that could be read, and what the status names: one of that name is
/// not made again.
fn used_revisions(ctx: &Context<'_>, current: Option<&str>) -> BTreeSet<String> {
    let targets = ctx.targets();
    let of_targets = targets.values().flat_map(|target| {
        let had = target.status.as_ref().and_then(|status| status.revision.clone());
        [Some(target.spec.revision.clone()), had.filter(|_| !mutants::is(Mutant::HadUnused))]
    });
    let last = ctx.hub.last_revision(ctx.key, ctx.resource);
    of_targets.flatten().chain(last).chain(told_revision(ctx)).chain(current.map(str::to_owned)).collect()
}

/// The revision that the VidraResource's status names.
fn told_revision(ctx: &Context<'_>) -> Option<String> {
    let now = ctx.hub.catalog.resource(ctx.key);
    now.and_then(|now| now.status.as_ref()?.revision.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    fn listed(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_revision_goes_a_while_after_nobody_has_it_and_what_is_in_use_stays() {
        let (start, mut known) = (Instant::now(), RevisionUse::default());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        known.see(&names(&["a"]), start);
        assert!(known.is_due(start), "nobody knows what an earlier process left");
        // What an earlier process left goes as if it were used until now.
        assert_eq!(known.settle(&listed(&["a", "old"]), start), names(&[]));
        assert_eq!(known.next(start), Some(WHILE));
        known.see(&names(&["a", "b"]), at(100));
        known.see(&names(&["b"]), at(200));
        assert!(!known.is_due(at(599)));
        assert!(known.is_due(at(600)));
        assert_eq!(known.settle(&listed(&["b", "a", "old", "old"]), at(600)), names(&["old"]));
        assert!(known.is_due(at(600)), "until it is deleted");
        known.forget(&names(&["old"]));
        assert_eq!(known.next(at(600)), Some(Duration::from_secs(200)));
        // It is used once more.
        known.see(&names(&["a", "b"]), at(700));
        known.see(&names(&["a"]), at(1000));
        assert!(!known.is_due(at(1599)) && known.next(at(1000)) == Some(WHILE));
        assert_eq!(known.settle(&listed(&["a", "b"]), at(1600)), names(&["b"]));
        known.forget(&names(&["b"]));
        assert!(!known.is_due(at(9999)) && known.next(at(9999)).is_none());
    }

    #[test]
    fn of_revisions_that_follow_each_other_fast_a_few_are_kept() {
        let (start, mut known) = (Instant::now(), RevisionUse::default());
        known.settle(&[], start);
        let all = ["g", "f", "e", "d", "c", "b", "a"];
        for name in all.iter().rev() {
            known.see(&names(&[name]), start);
        }
        assert!(known.is_due(start), "more than are kept");
        assert_eq!(known.settle(&listed(&all), start), names(&["a"]));
        known.forget(&names(&["a"]));
        assert!(!known.is_due(start));
    }
}
