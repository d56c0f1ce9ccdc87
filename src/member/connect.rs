//! The real [`Connect`]: rustls over hyper, from parsed parts only. No file, no environment variable and
//! no plug-in of a kubeconfig is ever used, and redirects are errors.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Either, Limited};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{
    Connection, HttpConnector,
    dns::GaiResolver,
    proxy::{SocksV5, Tunnel},
};
use kube::client::Body;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tower::{BoxError, Service, ServiceExt, service_fn, util::BoxCloneService};
use vidra_core::kubeconfig::{Allow, ClientAuth, MemberConfig};

use super::{
    connection_pool::{ConnectionPool, Counted, is_watch},
    dns::{LastAnswers, MemberResolver},
    reading::{Metered, Room},
};
use crate::{
    base::env::{Connect, ConnectError, Link},
    wire::{MOST, MOST_OF_ERROR},
};

/// A response must have begun within this time; watches begin at once too.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// Bound on an answer that tells of the server itself.
const ABOUT_MOST: usize = 64 << 10;
/// Bound on one object: an API server stores 1.5 MiB of it, and takes 3.
const OBJECT_MOST: usize = 8 << 20;
/// Bound on one document of discovery: a server with 2,000 kinds sends 1 MiB.
const DISCOVERY_MOST: usize = 8 << 20;
/// Its part before the slash is the field manager of calls that name none.
pub const USER_AGENT: &str = concat!("vidra-hub/", env!("CARGO_PKG_VERSION"));
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Connections over TLS.
#[derive(Debug)]
pub struct TlsConnect {
    allow: Allow,
    room: Room,
    last_answers: LastAnswers,
}

impl TlsConnect {
    /// Connects only to addresses that a kubeconfig may name.
    pub fn new(allow: Allow) -> Self {
        Self { allow, room: Room::default(), last_answers: LastAnswers::default() }
    }
}

impl Connect for TlsConnect {
    fn connect(&self, config: &MemberConfig) -> Result<Link, ConnectError> {
        let names = MemberResolver::new(GaiResolver::new(), self.allow, self.last_answers.clone());
        let mut tcp = HttpConnector::new_with_resolver(names);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_WITHIN));
        // The proxy resolves the member's name then; its own address is checked as a member's is.
        let transport = match &config.proxy_url {
            None => transport(config, tcp),
            Some(proxy) if proxy.scheme_str() == Some("socks5") => {
                transport(config, SocksV5::new(proxy.clone(), tcp))
            }
            Some(proxy) => transport(config, Tunnel::new(proxy.clone(), tcp)),
        }?;
        let target = Target::new(config)?;
        let service = guarded(transport, target, self.room.of_member());
        Ok(service.map_response(|answer| answer.map(BodyExt::boxed_unsync)).boxed_clone())
    }
}

/// TLS, and HTTP in it, over connections that `connector` makes.
fn transport<C>(config: &MemberConfig, connector: C) -> Result<Transport, ConnectError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let tls = tls_config(config)?;
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let https = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone())
                .map_err(|error| ConnectError::Server(format!("tls-server-name: {error}")))?;
            builder.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
        }
        None => builder,
    }
    .enable_all_versions()
    .wrap_connector(connector);
    let pool = Arc::new(ConnectionPool::new(https));
    let service = service_fn(move |request: Request<Body>| {
        let pool = pool.clone();
        async move { pool.send(request).await.map_err(BoxError::from) }
    });
    Ok(service.boxed_clone())
}

/// Where requests go and who they say they are.
#[derive(Clone)]
struct Target {
    scheme: http::uri::Scheme,
    authority: http::uri::Authority,
    prefix: Arc<str>,
    bearer: Option<HeaderValue>,
}

impl Target {
    fn new(config: &MemberConfig) -> Result<Self, ConnectError> {
        let parts = config.server.clone().into_parts();
        let missing = |what: &str| ConnectError::Server(format!("it has no {what}"));
        let bearer = match &config.client_auth {
            ClientAuth::Token(token) => {
                let mut value =
                    HeaderValue::try_from(format!("Bearer {}", token.expose())).map_err(|_| {
                        ConnectError::Tls("the token has characters that no header may bear".into())
                    })?;
                value.set_sensitive(true);
                Some(value)
            }
            ClientAuth::Certificate { .. } => None,
        };
        let path = parts.path_and_query.as_ref().map_or("", |path| path.path());
        Ok(Self {
            scheme: parts.scheme.ok_or_else(|| missing("scheme"))?,
            authority: parts.authority.ok_or_else(|| missing("host"))?,
            prefix: path.trim_end_matches('/').into(),
            bearer,
        })
    }

    fn address(&self, request: &mut Request<Body>) -> Result<(), http::Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = http::Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{path}", self.prefix))
            .build()?;
        *request.uri_mut() = uri;
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(header::AUTHORIZATION, bearer.clone());
        }
        Ok(())
    }
}

type Transport = BoxCloneService<Request<Body>, Response<Counted>, BoxError>;
/// An answer with an end, which is bounded, or a watch, whose reader bounds its events.
type Bounded = Either<Metered<Limited<Counted>>, Counted>;

/// Addresses each request, waits for its headers within a limit, bounds its answer, and refuses redirects.
fn guarded(
    transport: Transport,
    target: Target,
    room: Room,
) -> BoxCloneService<Request<Body>, Response<Bounded>, BoxError> {
    service_fn(move |mut request: Request<Body>| {
        let (transport, target, room) = (transport.clone(), target.clone(), room.clone());
        async move {
            let is_watch = is_watch(&request);
            let most = most(request.uri());
            target.address(&mut request)?;
            let response = tokio::time::timeout(HEADERS_WITHIN, transport.oneshot(request))
                .await
                .map_err(|_| BoxError::from(format!("no answer within {} s", HEADERS_WITHIN.as_secs())))??;
            let most = if response.status().is_success() { most } else { most.min(MOST_OF_ERROR) };
            Ok(refuse_redirect(response)?.map(|body| match is_watch {
                true => Either::Right(body),
                false => Either::Left(Metered::new(Limited::new(body, most), room)),
            }))
        }
    })
    .boxed_clone()
}

/// The most that is read of the answer to a request.
fn most(asked: &Uri) -> usize {
    match asked.path() {
        "/version" | "/livez" | "/readyz" => ABOUT_MOST,
        "/api" | "/apis" => DISCOVERY_MOST,
        // Lists are asked for in pages only.
        _ if asked.query().is_some_and(|query| query.split('&').any(|one| one.starts_with("limit="))) => MOST,
        _ => OBJECT_MOST,
    }
}

/// A member that redirects could lead the hub, with its credentials, anywhere (CVE-2022-3172).
fn refuse_redirect<B>(response: Response<B>) -> Result<Response<B>, BoxError> {
    if response.status().is_redirection() && response.status() != StatusCode::NOT_MODIFIED {
        return Err(
            format!("the server answered with a redirect ({}), which is refused", response.status()).into()
        );
    }
    Ok(response)
}

fn tls_config(config: &MemberConfig) -> Result<ClientConfig, ConnectError> {
    let tls = |error: rustls::Error| ConnectError::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in &config.ca {
        roots.add(certificate.clone()).map_err(tls)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_root_certificates(roots);
    match &config.client_auth {
        ClientAuth::Certificate { chain, key } => {
            builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(tls)
        }
        ClientAuth::Token(_) => Ok(builder.with_no_client_auth()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        io,
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Poll},
    };

    use bytes::Bytes;
    use futures::{FutureExt, future::join_all};
    use http_body_util::StreamBody;
    use hyper::{
        body::{Frame, Incoming},
        rt::ReadBufCursor,
        server::conn::http2,
    };
    use hyper_util::{
        client::legacy::connect::Connected,
        rt::{TokioExecutor, TokioIo},
    };
    use tokio::io::{DuplexStream, duplex};
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::base::error::CallError;

    /// A connection in memory on which HTTP/2 is spoken.
    struct Direct(TokioIo<DuplexStream>);

    impl Connection for Direct {
        fn connected(&self) -> Connected {
            Connected::new().negotiated_h2()
        }
    }

    impl Read for Direct {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    impl Write for Direct {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    /// Of each answer.
    const SIZE: usize = 4 << 20;

    async fn answer(
        request: Request<Incoming>,
    ) -> http::Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible> + Send>> {
        let code = if request.uri().path() == "/error" { 500 } else { 200 };
        let frame = || Frame::data(Bytes::from_static(&[b'x'; 16 << 10]));
        let frames = (0..SIZE / (16 << 10)).map(move |_| Ok(frame()));
        Response::builder().status(code).body(StreamBody::new(futures::stream::iter(frames)))
    }

    /// A server on one connection, whose every answer is [`SIZE`] long; one at /error is an error.
    fn member() -> BoxCloneService<Request<Body>, Response<Bounded>, BoxError> {
        let connector = service_fn(move |_: Uri| {
            let (ours, theirs) = duplex(64 << 10);
            let server = http2::Builder::new(TokioExecutor::new());
            let served = server.serve_connection(TokioIo::new(theirs), hyper::service::service_fn(answer));
            TaskTracker::new().spawn(served.map(drop));
            Box::pin(async move { Ok::<_, io::Error>(Direct(TokioIo::new(ours))) })
        });
        let pool = Arc::new(ConnectionPool::new(connector));
        let transport = service_fn(move |request: Request<Body>| {
            let pool = pool.clone();
            async move { pool.send(request).await.map_err(BoxError::from) }
        });
        let (scheme, authority) = (http::uri::Scheme::HTTP, http::uri::Authority::from_static("berlin"));
        let target = Target { scheme, authority, prefix: "".into(), bearer: None };
        guarded(transport.boxed_clone(), target, Room::default())
    }

    async fn asked(path: &str) -> Bounded {
        let request = Request::get(path).body(Body::empty()).unwrap();
        member().oneshot(request).await.unwrap().into_body()
    }

    #[tokio::test]
    async fn large_answers_on_one_connection_wait_for_room_and_not_for_each_other() {
        const CALLS: usize = 32;
        let member = member();
        let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let read = |_| async {
            let request = Request::get("/api/v1/configmaps?limit=500").body(Body::empty()).unwrap();
            let mut body = member.clone().oneshot(request).await.unwrap().into_body();
            let mut all = 0;
            while let Some(frame) = body.frame().await {
                let bytes = frame.unwrap().into_data().map_or(0, |data| data.len());
                all += bytes;
                most.fetch_max(held.fetch_add(bytes, Ordering::Relaxed) + bytes, Ordering::Relaxed);
            }
            held.fetch_sub(all, Ordering::Relaxed);
            all
        };
        let all = join_all((0..CALLS).map(read));
        let read =
            tokio::time::timeout(Duration::from_secs(120), all).await.expect("they wait for each other");
        assert_eq!(read, [SIZE; CALLS]);
        // Each may become as large as a page may be: two are read side by side, and a little of the others.
        let most = most.into_inner();
        assert!(most <= 3 * SIZE, "{most} bytes of {} were held", CALLS * SIZE);
    }

    #[tokio::test]
    async fn of_an_error_less_is_read_than_of_an_object() {
        let mut body = asked("/error").await;
        let mut bytes = 0;
        let ended = loop {
            match body.frame().await {
                Some(Ok(frame)) => bytes += frame.into_data().map_or(0, |data| data.len()),
                ended => break ended,
            }
        };
        assert!(ended.is_some_and(|ended| ended.is_err()), "it is refused");
        assert!(bytes <= MOST_OF_ERROR, "{bytes}");
        assert_eq!(asked("/api/v1/nodes/one").await.collect().await.unwrap().to_bytes().len(), SIZE);
    }

    #[tokio::test]
    async fn an_answer_or_an_error_that_is_too_large_is_told_as_that() {
        let client = kube::Client::new(member(), "default");
        for path in ["/version", "/error"] {
            let asked = client.request_text(Request::get(path).body(Vec::new()).unwrap()).await;
            let error = CallError::from(asked.unwrap_err());
            assert_eq!(error.reason().as_str(), "AnswerTooLarge", "{path}: {error}");
        }
    }

    #[test]
    fn what_is_read_of_an_answer_depends_on_what_was_asked() {
        for (asked, bound) in [
            ("/version", ABOUT_MOST),
            ("/readyz", ABOUT_MOST),
            ("/apis", DISCOVERY_MOST),
            ("/api/v1/namespaces/kube-system", OBJECT_MOST),
            ("/apis/apps/v1/namespaces/team/deployments/web?fieldManager=limit", OBJECT_MOST),
            ("/api/v1/configmaps?labelSelector=a&limit=500", MOST),
        ] {
            assert_eq!(most(&asked.parse().unwrap()), bound, "{asked}");
        }
    }
}
