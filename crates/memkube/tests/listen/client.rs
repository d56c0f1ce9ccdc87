//! A client that is as rude as a test wants: requests and parts of them over TLS.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use memkube::listen::{Server, Settings, User};
use memkube::{Cluster, Options, tokio_clock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

pub type Stream = TlsStream<TcpStream>;

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub struct World {
    pub clusters: Vec<Cluster>,
    pub server: Server,
}

impl World {
    /// Two clusters, `one` and `two`, with the user `tester`.
    pub async fn new() -> Result<Self> {
        let options = Options { clock: tokio_clock(jiff::Timestamp::UNIX_EPOCH), uids: 7 };
        let clusters: Vec<_> =
            ["one", "two"].iter().map(|name| Cluster::new(name, options.clone())).collect();
        let settings = Settings { users: vec![User::named("tester")], seed: 1, first_port: 0 };
        let server = Server::start(clusters.clone(), &settings, &CancellationToken::new()).await?;
        Ok(World { clusters, server })
    }

    pub fn token(&self, cluster: &str) -> &str {
        self.server.endpoint(cluster).and_then(|one| one.token("tester")).unwrap_or_default()
    }

    pub async fn tcp(&self) -> Result<TcpStream> {
        let url = &self.server.endpoints()[0].url;
        Ok(TcpStream::connect(url.trim_start_matches("https://")).await?)
    }

    /// A connection to cluster `one` with this protocol of HTTP.
    pub async fn connect(&self, protocol: &[u8]) -> Result<Stream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.server.ca().as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await?).await?)
    }

    /// The head of an HTTP/1.1 request of the tester's.
    pub fn head(&self, method: &str, path: &str, more: &str) -> String {
        let token = self.token("one");
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
    }

    /// Waits until so much is open: connections and calls.
    pub async fn until_open(&self, connections: usize, calls: usize) -> Result<()> {
        for _ in 0..500 {
            let open = self.server.open();
            if (open.connections, open.calls) == (connections, calls) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("wanted {connections} connections and {calls} calls, found {:?}", self.server.open())
    }
}

/// A request over HTTP/1.1, answered to the end: its code and body.
pub async fn ask(world: &World, head: &str, body: &[u8]) -> Result<(u16, Value)> {
    let mut stream = world.connect(b"http/1.1").await?;
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    stream.write_all(head.as_bytes()).await?;
    // A server that has refused may close while the body is still on its way.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8(answer)?;
    let (head, body) = text.split_once("\r\n\r\n").context("an answer with a head")?;
    let code = head.split(' ').nth(1).context("a status line")?.parse()?;
    let json = serde_json::from_str(body);
    Ok((code, json.unwrap_or_else(|_| json!(body))))
}

/// Reads until this text was there.
pub async fn read_until(stream: &mut Stream, wanted: &str) -> Result<()> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        match stream.read(&mut buffer).await? {
            0 => bail!("the connection ended before {wanted:?}"),
            length => seen.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(())
}

/// A connection of HTTP/2, and what sends on it.
pub async fn http2(world: &World) -> Result<hyper::client::conn::http2::SendRequest<Full<bytes::Bytes>>> {
    let io = hyper_util::rt::TokioIo::new(world.connect(b"h2").await?);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) = hyper::client::conn::http2::handshake(executor, io).await?;
    tokio::spawn(connection);
    Ok(sender)
}

pub fn request(
    world: &World,
    method: &str,
    path: &str,
    body: &str,
) -> Result<http::Request<Full<bytes::Bytes>>> {
    let request = http::Request::builder().method(method).uri(format!("https://localhost{path}"));
    let request = request.header("authorization", format!("Bearer {}", world.token("one")));
    let request = request.header("content-type", "application/json");
    Ok(request.body(Full::from(body.to_owned()))?)
}

pub async fn json(response: http::Response<hyper::body::Incoming>) -> Result<(u16, Value)> {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((code, serde_json::from_slice(&bytes)?))
}
