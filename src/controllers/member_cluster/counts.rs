//! The counts in a MemberCluster's status: of targets, watches and objects.
//!
//! They follow what happens a moment later, and seldom: targets and objects as the VidraTargets say, watches only while
//! the member can be worked with. The rest of the status is written at once, with the counts that stand.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use vidra_api::{MemberClusterStatus, MemberTargets, MemberWatches};

use crate::{
    base::error::CallError,
    controllers::Hub,
    workqueue::{COUNTS_SETTLE, Key},
};

/// Between two writes for the sake of counts; also the most that counts which change all the time are late.
const BETWEEN_COUNTS: Duration = Duration::from_secs(10);

/// What is counted; `None`: never yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    targets: Option<MemberTargets>,
    watches: Option<MemberWatches>,
    objects: Option<i64>,
}

impl Counts {
    fn written(status: &MemberClusterStatus) -> Self {
        Self { targets: status.targets, watches: status.watches, objects: status.objects }
    }

    /// What is known now: of targets and objects what the VidraTargets say, of watches nothing without contact.
    fn now(hub: &Hub, name: &str, written: &Self) -> Self {
        let (targets, objects) = hub.catalog.counts_on(name);
        let session = hub.session(name).filter(|session| session.is_open());
        let watches = session.and_then(|session| session.informers.watches(&hub.catalog.fleet_on(name)));
        Self { targets: Some(targets), watches: watches.or(written.watches), objects: Some(objects) }
    }

    fn write(self, status: &mut MemberClusterStatus) {
        status.targets_ready = self.targets.map(|targets| format!("{}/{}", targets.ready, targets.total));
        status.targets = self.targets;
        status.watches = self.watches;
        status.objects = self.objects;
    }
}

/// How counts come to rest.
#[derive(Default)]
pub(in crate::controllers) struct Settling {
    pending: Option<Pending>,
    /// When they were written last, by this process.
    written: Option<Instant>,
}

/// Counts that are not written yet.
struct Pending {
    counts: Counts,
    /// Since when they are so.
    since: Instant,
    /// Since when what is written is not so.
    first: Instant,
}

/// When counts are to be written.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// What is written is right.
    Never,
    Now,
    In(Duration),
}

impl Settling {
    fn due(&mut self, written: &Counts, counts: Counts, now: Instant) -> Due {
        if *written == counts {
            self.pending = None;
            return Due::Never;
        }
        let first = self.pending.as_ref().map_or(now, |pending| pending.first);
        let since = match &self.pending {
            Some(pending) if pending.counts == counts => pending.since,
            _ => now,
        };
        self.pending = Some(Pending { counts, since, first });
        let settled = (since + COUNTS_SETTLE).min(first + BETWEEN_COUNTS);
        let at = self.written.map_or(settled, |last| settled.max(last + BETWEEN_COUNTS));
        match at.checked_duration_since(now) {
            None | Some(Duration::ZERO) => Due::Now,
            Some(left) => Due::In(left),
        }
    }

    fn done(&mut self, now: Instant) {
        *self = Self { pending: None, written: Some(now) };
    }
}

/// Writes the counts, if they are news and have settled; else the key comes again when they may have.
pub(super) async fn settle(hub: &Hub, name: &str) -> Result<(), CallError> {
    let Some(member) = hub.catalog.member(name) else { return Ok(()) };
    let mut status = member.status.clone().unwrap_or_default();
    let written = Counts::written(&status);
    let counts = Counts::now(hub, name, &written);
    let due = {
        let mut state = hub.state.lock();
        state.member_mut(name).counts.due(&written, counts.clone(), Instant::now())
    };
    match due {
        Due::Never => {}
        Due::In(left) => hub.queue.add_after(Key::Cluster(Arc::from(name)), left),
        Due::Now => {
            counts.write(&mut status);
            hub.api.member_status(&member, status).await?;
            hub.state.lock().member_mut(name).counts.done(Instant::now());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(count: i64) -> Counts {
        Counts { objects: Some(count), ..Counts::default() }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn counts_are_written_once_they_have_stood_for_two_seconds() {
        let (mut settling, start) = (Settling::default(), Instant::now());
        assert_eq!(settling.due(&objects(1), objects(1), start), Due::Never);
        assert_eq!(settling.due(&objects(1), objects(2), start), Due::In(s(2)));
        assert_eq!(settling.due(&objects(1), objects(3), start + s(1)), Due::In(s(2)), "they moved on");
        assert_eq!(settling.due(&objects(1), objects(3), start + s(2)), Due::In(s(1)));
        assert_eq!(settling.due(&objects(1), objects(3), start + s(3)), Due::Now);
    }

    #[test]
    fn counts_that_go_back_to_what_is_written_are_no_news() {
        let (mut settling, start) = (Settling::default(), Instant::now());
        settling.due(&objects(1), objects(2), start);
        assert_eq!(settling.due(&objects(1), objects(1), start + s(1)), Due::Never);
        assert_eq!(
            settling.due(&objects(1), objects(2), start + s(2)),
            Due::In(s(2)),
            "as if for the first time"
        );
    }

    #[test]
    fn counts_that_never_stand_still_are_written_every_ten_seconds() {
        let (mut settling, start) = (Settling::default(), Instant::now());
        let (mut writes, mut written) = (Vec::new(), objects(-1));
        for second in 0..60 {
            let (counts, now) = (objects(second), start + s(second as u64));
            if settling.due(&written, counts.clone(), now) == Due::Now {
                settling.done(now);
                (written, _) = (counts, writes.push(second));
            }
        }
        assert_eq!(writes, [10, 21, 32, 43, 54]);
    }

    #[test]
    fn the_next_write_waits_for_ten_seconds_after_the_last_one_and_one_that_failed_for_nothing() {
        let (mut settling, start) = (Settling::default(), Instant::now());
        settling.due(&objects(1), objects(2), start);
        assert_eq!(settling.due(&objects(1), objects(2), start + s(2)), Due::Now);
        assert_eq!(settling.due(&objects(1), objects(2), start + s(3)), Due::Now, "the write failed");
        settling.done(start + s(3));
        assert_eq!(settling.due(&objects(2), objects(3), start + s(4)), Due::In(s(9)));
    }
}
