//! What is open: connections, and calls whose answer is not yet sent to its end, as a watch's.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use crate::ResponseBody;

/// What is open now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Accepted and not closed.
    pub connections: usize,
    /// Taken up and not answered to the end; open watches are among them.
    pub calls: usize,
}

#[derive(Default)]
pub(super) struct Counts {
    connections: AtomicUsize,
    calls: AtomicUsize,
}

impl Counts {
    pub fn now(&self) -> Open {
        Open {
            connections: self.connections.load(Ordering::SeqCst),
            calls: self.calls.load(Ordering::SeqCst),
        }
    }

    /// Counts a connection until the guard is dropped.
    pub fn connection(self: &Arc<Self>) -> Counted {
        Counted::new(self, |counts| &counts.connections)
    }

    /// The same of a call.
    pub fn call(self: &Arc<Self>) -> Counted {
        Counted::new(self, |counts| &counts.calls)
    }
}

/// One that is counted.
pub(super) struct Counted {
    counts: Arc<Counts>,
    which: fn(&Counts) -> &AtomicUsize,
}

impl Counted {
    fn new(counts: &Arc<Counts>, which: fn(&Counts) -> &AtomicUsize) -> Self {
        which(counts).fetch_add(1, Ordering::SeqCst);
        Counted { counts: counts.clone(), which }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.which)(&self.counts).fetch_sub(1, Ordering::SeqCst);
    }
}

/// The body of an answer, counted until it is sent or nobody wants it any more.
pub(super) struct CountedBody {
    body: ResponseBody,
    _counted: Counted,
}

impl CountedBody {
    pub fn new(body: ResponseBody, counted: Counted) -> Self {
        CountedBody { body, _counted: counted }
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
