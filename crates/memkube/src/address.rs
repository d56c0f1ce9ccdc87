//! An address that leads to a cluster, and may lead to another one later.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower::{BoxError, Service};

use super::{Cluster, ConnectionError, ResponseBody};

/// Where clients connect to: a name, a virtual address, a proxy. Clones are the same one. Two addresses may
/// lead to one cluster, and an address to another cluster than before, with the same users: each call goes to
/// the cluster that is behind the address then.
#[derive(Clone)]
pub struct Address {
    inner: Arc<Inner>,
}

struct Inner {
    behind: Mutex<Behind>,
    moved: Notify,
}

struct Behind {
    cluster: Cluster,
    /// How often it moved.
    moves: u64,
}

impl Address {
    /// One that leads to this cluster.
    pub fn new(cluster: Cluster) -> Self {
        let behind = Mutex::new(Behind { cluster, moves: 0 });
        Address { inner: Arc::new(Inner { behind, moved: Notify::new() }) }
    }

    /// The cluster behind it.
    pub fn cluster(&self) -> Cluster {
        self.inner.behind.lock().cluster.clone()
    }

    /// Lets it lead to this cluster from now on. Calls and watches that came this way break, as their
    /// connections do; what a call has done is done. Other ways to the old cluster stay.
    pub fn redirect(&self, cluster: Cluster) {
        let mut behind = self.inner.behind.lock();
        behind.cluster = cluster;
        behind.moves += 1;
        drop(behind);
        self.inner.moved.notify_waiters();
    }

    /// A client for this user of whichever cluster is behind it.
    pub fn client_as(&self, user: &str) -> kube::Client {
        kube::Client::new(self.service_as(user), "default")
    }

    /// The same as a service.
    pub fn service_as(&self, user: &str) -> AddressService {
        AddressService { address: self.inner.clone(), user: user.into() }
    }
}

impl Inner {
    /// Waits until the address leads elsewhere than after so many moves.
    async fn moved_from(&self, moves: u64) {
        loop {
            // Made before looking, so that no wake-up between looking and waiting is lost.
            let moved = self.moved.notified();
            if self.behind.lock().moves != moves {
                return;
            }
            moved.await;
        }
    }
}

/// One user's way through an [`Address`].
#[derive(Clone)]
pub struct AddressService {
    address: Arc<Inner>,
    user: Arc<str>,
}

impl<B> Service<Request<B>> for AddressService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let AddressService { address, user } = self.clone();
        let (cluster, moves) = {
            let behind = address.behind.lock();
            (behind.cluster.clone(), behind.moves)
        };
        let name: Arc<str> = cluster.name().into();
        let call = cluster.service_as(&user).call(request);
        Box::pin(async move {
            let response = tokio::select! {
                biased;
                () = address.moved_from(moves) => return Err(ConnectionError::Call(name).into()),
                response = call => response?,
            };
            Ok(response.map(|body| breaking(body, address, moves, name)))
        })
    }
}

/// The body, until the address moves.
fn breaking(body: ResponseBody, address: Arc<Inner>, moves: u64, name: Arc<str>) -> ResponseBody {
    let frames = futures::stream::unfold(Some(body), move |body| {
        let (address, name) = (address.clone(), name.clone());
        async move {
            let mut body = body?;
            let frame: Result<Frame<Bytes>, BoxError> = tokio::select! {
                biased;
                () = address.moved_from(moves) => return Some((Err(ConnectionError::Watch(name).into()), None)),
                frame = body.frame() => frame?,
            };
            Some((frame, Some(body)))
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}
