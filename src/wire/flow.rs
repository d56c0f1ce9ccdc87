//! What all watches of one server may send together: so much at once, so much a second, and so much of lines that have
//! not ended. A server, or a user of it who changes objects without a pause, takes no more of this process than that.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

use super::oversized;
use crate::base::error::{CallError, Class};

/// What an event counts besides its bytes: reading and recording a small one takes as long as so much more text.
const EVENT: usize = 2 << 10;
/// At once: some 40,000 events of a small object.
const BURST: usize = 128 << 20;
/// And in a second: some 1,300 of them, which are a twentieth of a core.
const RATE: usize = 4 << 20;
/// What a step of a tenant's rule counts: in the time of 10,000 of them so much text is read.
const STEP: usize = 4;
/// A watch that has sent no more than this since it was opened is not the one that floods.
const CALM: usize = 2 << 20;
/// All that watches hold of lines that have not ended: the longest line, and as much again.
const UNFINISHED: usize = 2 * super::MOST;
/// A watch may hold so much without a part in that.
const OWN: usize = 64 << 10;

/// How much the watches of a server may send. One for each server.
pub struct Flow {
    room: Mutex<Room>,
    unfinished: AtomicUsize,
}

struct Room {
    left: usize,
    at: Instant,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            room: Mutex::new(Room { left: BURST, at: Instant::now() }),
            unfinished: AtomicUsize::default(),
        }
    }
}

impl Flow {
    /// What was sent has taken so many steps of tenants' rules: that is work of this process too.
    pub fn evaluated(&self, steps: usize) {
        if steps > 0 && !mutants::is(Mutant::RulesAreFree) {
            self.take(steps.saturating_mul(STEP));
        }
    }

    /// Takes room, as far as there is some. False: there is not as much.
    fn take(&self, bytes: usize) -> bool {
        let mut room = self.room.lock();
        let now = Instant::now();
        let more = now.duration_since(room.at).as_secs_f64() * RATE as f64;
        // Less than a byte is not lost: the time of it counts the next time.
        if more >= 1.0 {
            room.left = room.left.saturating_add(more as usize).min(BURST);
            room.at = now;
        }
        let is_enough = bytes <= room.left;
        room.left = room.left.saturating_sub(bytes);
        is_enough || mutants::is(Mutant::FloodGoesOn)
    }
}

/// One watch's part.
pub(super) struct Part {
    flow: Arc<Flow>,
    sent: usize,
    held: usize,
}

impl Part {
    pub(super) fn new(flow: Arc<Flow>) -> Self {
        Self { flow, sent: 0, held: 0 }
    }

    /// So many bytes have come.
    ///
    /// # Errors
    /// [`Class::Flood`]: too much has.
    pub(super) fn came(&mut self, bytes: usize) -> Result<(), CallError> {
        self.sent = self.sent.saturating_add(bytes);
        if self.flow.take(bytes) || self.sent <= CALM {
            return Ok(());
        }
        let message = format!(
            "watches of the server send more than {} MiB a second, an event counted as {} KiB, its text and what rules of VidraResources cost",
            RATE >> 20,
            EVENT >> 10
        );
        Err(CallError { class: Class::Flood, message })
    }

    /// An event has come.
    ///
    /// # Errors
    /// As [`Part::came`].
    pub(super) fn event(&mut self) -> Result<(), CallError> {
        self.came(EVENT)
    }

    /// So many bytes are held and are no whole line.
    ///
    /// # Errors
    /// [`Class::Oversized`]: all watches of the server hold too much.
    pub(super) fn holds(&mut self, bytes: usize) -> Result<(), CallError> {
        let bytes = bytes.saturating_sub(OWN);
        let all = &self.flow.unfinished;
        all.fetch_sub(std::mem::replace(&mut self.held, bytes), Ordering::Relaxed);
        let others = all.fetch_add(bytes, Ordering::Relaxed);
        match bytes > 0 && others + bytes > UNFINISHED {
            true => Err(oversized(UNFINISHED)),
            false => Ok(()),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.flow.unfinished.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{FutureExt, StreamExt};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, api::ListParams};

    use super::*;
    use crate::wire::{
        Lines, Wire,
        follow::{WATCH_OPENS, WATCH_SECONDS},
    };

    /// A server whose watches send these pieces, over and over, and never end.
    fn server(pieces: Vec<Bytes>, flow: Arc<Flow>) -> Wire {
        let answer = move |_: http::Request<kube::client::Body>| {
            let pieces = futures::stream::iter(pieces.clone().into_iter().cycle());
            let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
            async move { Ok::<_, Infallible>(http::Response::new(StreamBody::new(Box::pin(frames)))) }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        Wire::of::<ConfigMap>(client, None, ListParams::default()).with(flow)
    }

    async fn open(wire: &Wire) -> Lines {
        wire.watch("1", WATCH_SECONDS, WATCH_OPENS).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_sends_so_much_at_once_and_so_much_a_second() {
        let line = Bytes::from(format!("{}\n", "x".repeat(64 << 10)));
        let flow = Arc::<Flow>::default();
        let wire = server(vec![line.clone()], flow.clone());
        let each = line.len() + EVENT;
        let until_ended = async || {
            let mut lines = open(&wire).await;
            for read in 0.. {
                assert!(read * each <= BURST, "it goes on for ever");
                if let Err(error) = lines.next().await {
                    assert_eq!(error.class, Class::Flood, "{error}");
                    return read;
                }
            }
            0
        };
        let first = until_ended().await;
        assert!((first + 1) * each >= BURST, "as much as it may: {first}");
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let then = until_ended().await * each;
        assert!((4 * RATE..=5 * RATE + each).contains(&then), "five seconds later: {then}");
        // What says little is not ended for the others.
        let calm = server(vec!["{}\n".into()], flow).watch("1", WATCH_SECONDS, WATCH_OPENS).await;
        assert_eq!(calm.unwrap().next().await.unwrap().as_deref(), Some("{}"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_tenants_rules_take_counts_as_sent() {
        let line = Bytes::from(format!("{}\n", "x".repeat(64 << 10)));
        let flow = Arc::<Flow>::default();
        let mut lines = open(&server(vec![line], flow.clone())).await;
        let (events, steps) = (200, 100_000);
        let mut read = 0;
        while read < 10 * events && lines.next().await.is_ok() {
            flow.evaluated(steps);
            read += 1;
        }
        assert!((events..2 * events).contains(&read), "{read}");
    }

    #[tokio::test(start_paused = true)]
    async fn all_watches_of_a_server_hold_no_more_of_lines_without_an_end_than_is_bounded() {
        let flow = Arc::<Flow>::default();
        let wire = server(vec![vec![b'x'; 1 << 20].into()], flow.clone());
        let mut watches = Vec::new();
        for _ in 0..8 {
            watches.push(open(&wire).await);
        }
        let mut most = 0;
        while let Some(mut watch) = watches.pop() {
            // Each is read a piece at a time, in turn.
            let read = watch.read().now_or_never().expect("the server always has more");
            most = most.max(flow.unfinished.load(Ordering::Relaxed));
            match read {
                Ok(_) => watches.insert(0, watch),
                Err(error) => assert_eq!(error.class, Class::Oversized, "{error}"),
            }
        }
        assert!(most > UNFINISHED / 2 && most <= UNFINISHED + (1 << 20), "{most}");
        assert_eq!(flow.unfinished.load(Ordering::Relaxed), 0, "what was given up is not held");
    }

    #[tokio::test(start_paused = true)]
    async fn long_lines_that_have_ended_are_held_by_no_watch() {
        let flow = Arc::<Flow>::default();
        let wire = server(vec![format!("{}\n", "x".repeat(1 << 20)).into()], flow.clone());
        let mut watches = Vec::new();
        for _ in 0..40 {
            let mut watch = open(&wire).await;
            assert_eq!(watch.next().await.unwrap().unwrap().len(), 1 << 20);
            watches.push(watch);
        }
        assert_eq!(flow.unfinished.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_line_leaves_nothing_behind() {
        let long = format!("{}\n{{}}\n", "x".repeat(8 << 20));
        let wire = server(vec![long.into()], Arc::default());
        let mut lines = open(&wire).await;
        assert_eq!(lines.next().await.unwrap().unwrap().len(), 8 << 20);
        assert_eq!(lines.next().now_or_never().unwrap().unwrap().as_deref(), Some("{}"));
        assert!(lines.waiting.capacity() <= OWN, "{}", lines.waiting.capacity());
    }
}
