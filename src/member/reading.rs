//! How much of large answers is held while they are read. One that shows to be large is read on when there is room for the
//! most that it may become: in its member's share, and in what all members have together. So answers on their way fill no
//! memory, whoever sends them and however slowly; and a member that keeps its share for ever keeps it from nobody else.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vidra_core::mutants::{self, Mutant};

use crate::wire::MOST;

/// So much of an answer is read without asking: nearly all are smaller.
const SMALL: usize = 64 << 10;
/// What one member's large answers may take: two of the largest.
const OWN: usize = 2 * MOST;
/// What those of all members may take.
const ALL: usize = 16 * MOST;
/// What permits count.
const UNIT: usize = 1 << 10;

/// What all members have together, and one member's share of it; clones are the same ones.
#[derive(Clone, Debug)]
pub struct Room {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Self {
        Self { own: Arc::new(Semaphore::new(OWN / UNIT)), all: Arc::new(Semaphore::new(ALL / UNIT)) }
    }
}

/// Room that is taken, until it is dropped.
type Held = [Option<OwnedSemaphorePermit>; 2];

impl Room {
    /// Another member's share of the same.
    pub fn of_member(&self) -> Self {
        Self { all: self.all.clone(), ..Self::default() }
    }

    /// Waits for as much room. The share comes first: who waits for that keeps nothing from others.
    fn take(&self, bytes: usize) -> BoxFuture<'static, Held> {
        let Self { own, all } = self.clone();
        let units = u32::try_from(bytes.min(OWN).div_ceil(UNIT)).unwrap_or(u32::MAX);
        Box::pin(async move {
            // Never fails: nothing here is closed.
            let own = own.acquire_many_owned(units).await.ok();
            [own, all.acquire_many_owned(units).await.ok()]
        })
    }
}

/// An answer's body; what it sends is bounded, or its server says how much that is.
pub struct Metered<B> {
    body: B,
    room: Room,
    read: usize,
    state: State,
}

enum State {
    Small,
    /// With what came last, which is not handed on before.
    Waits(BoxFuture<'static, Held>, Option<Frame<Bytes>>),
    Large(#[expect(dead_code, reason = "held, not read")] Held),
}

impl<B> Metered<B> {
    /// Reads this within the room of its member.
    pub fn new(body: B, room: Room) -> Self {
        Self { body, room, read: 0, state: State::Small }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Metered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        loop {
            if let State::Waits(room, frame) = &mut this.state {
                let held = ready!(room.as_mut().poll(context));
                let frame = frame.take();
                this.state = State::Large(held);
                return Poll::Ready(frame.map(Ok));
            }
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(context)?) else {
                return Poll::Ready(None);
            };
            this.read += frame.data_ref().map_or(0, Bytes::len);
            if this.read <= SMALL || matches!(this.state, State::Large(_)) || mutants::is(Mutant::NoRoomAsked)
            {
                return Poll::Ready(Some(Ok(frame)));
            }
            let more = this.body.size_hint().upper().and_then(|more| usize::try_from(more).ok());
            let whole = this.read.saturating_add(more.unwrap_or(MOST));
            this.state = State::Waits(this.room.take(whole), Some(frame));
        }
    }

    fn is_end_stream(&self) -> bool {
        !matches!(self.state, State::Waits(..)) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.state {
            State::Waits(..) => SizeHint::default(),
            _ => self.body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{FutureExt, StreamExt};
    use http_body_util::{BodyExt, Limited, StreamBody};

    use super::*;

    const FRAME: usize = 16 << 10;

    /// An answer of so many frames, of which more may come up to [`MOST`].
    fn answer(
        frames: usize,
        room: &Room,
    ) -> impl Body<Data = Bytes, Error = tower::BoxError> + Unpin + use<> {
        let frames = (0..frames).map(|_| Ok::<_, Infallible>(Frame::data(vec![b'x'; FRAME].into())));
        Metered::new(Limited::new(StreamBody::new(futures::stream::iter(frames).boxed()), MOST), room.clone())
    }

    /// Reads what can be read now; how many bytes that were, and whether it has ended.
    fn read(body: &mut (impl Body<Data = Bytes, Error = tower::BoxError> + Unpin)) -> (usize, bool) {
        let mut bytes = 0;
        loop {
            match body.frame().now_or_never() {
                None => return (bytes, false),
                Some(None) => return (bytes, true),
                Some(Some(frame)) => bytes += frame.unwrap().into_data().unwrap().len(),
            }
        }
    }

    #[test]
    fn what_is_held_of_large_answers_is_bounded_for_a_member_and_for_all() {
        let all = Room::default();
        // Each of 32 calls of each of 20 members: more in all than may be held, and none ends before it is dropped.
        let members: Vec<Room> = (0..20).map(|_| all.of_member()).collect();
        let mut held = Vec::new();
        for room in &members {
            let mut bodies: Vec<_> = (0..32).map(|_| answer(MOST / FRAME, room)).collect();
            let bytes: usize = bodies.iter_mut().map(|body| read(body).0).sum();
            assert!(bytes <= OWN + 32 * SMALL, "one member: {bytes}");
            held.push((bodies, bytes));
        }
        let bytes: usize = held.iter().map(|(_, bytes)| bytes).sum();
        assert!((ALL..=ALL + 20 * 32 * SMALL).contains(&bytes), "all: {bytes}");
        // One after the other they come to their end, and none is refused.
        let mut left: Vec<_> = held.into_iter().flat_map(|(bodies, _)| bodies).collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain_mut(|body| !read(body).1);
            assert!(left.len() < before, "{before} wait for each other");
        }
        assert_eq!(
            (all.all.available_permits(), members[0].own.available_permits()),
            (ALL / UNIT, OWN / UNIT)
        );
    }

    #[test]
    fn a_member_that_keeps_its_share_for_ever_keeps_it_from_nobody_else() {
        let all = Room::default();
        let (hostile, other) = (all.of_member(), all.of_member());
        let mut kept: Vec<_> = (0..32).map(|_| answer(MOST / FRAME - 1, &hostile)).collect();
        assert!(kept.iter_mut().map(read).all(|(bytes, _)| bytes > 0));
        assert!(read(&mut answer(SMALL / FRAME, &hostile)).1, "what is small needs no room");
        assert!(!read(&mut answer(SMALL / FRAME + 1, &hostile)).1);
        for _ in 0..4 {
            assert_eq!(read(&mut answer(MOST / FRAME, &other)), (MOST, true));
        }
        drop(kept);
        assert!(read(&mut answer(MOST / FRAME, &hostile)).1);
    }
}
