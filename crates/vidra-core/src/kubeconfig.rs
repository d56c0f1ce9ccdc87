//! The kubeconfig of a member, read into what may be used of it. Anything that would run code, read files,
//! or lead the hub to itself is refused by name: a kubeconfig comes from others, and a general client would
//! run its exec plug-in (CVE-2022-24817).

mod address;
mod error;
mod fields;
mod material;
#[cfg(test)]
mod tests;

use std::fmt;

use http::Uri;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

pub use address::{Forbidden, check_address};
pub use error::KubeconfigError;
pub use material::SecretString;

use crate::manifest::tree::{self, Budget};
use fields::Fields;

/// The longest kubeconfig that is read, in bytes: that of a Secret.
const MAX_TEXT: usize = 1024 * 1024;

/// What the process or its settings open of what is refused by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// Loopback addresses, for development.
    pub loopback: bool,
    /// `http://`, for development.
    pub http: bool,
    /// `proxy-url`.
    pub proxy: bool,
}

/// How to reach a member, and as whom.
#[derive(Clone)]
pub struct MemberConfig {
    /// Scheme `https` (or `http` where allowed), host, perhaps a port and a path.
    pub server: Uri,
    /// The certificates that the server's must be signed by. Empty with `http` only.
    pub ca: Vec<CertificateDer<'static>>,
    /// The hub's credentials in the member.
    pub client_auth: ClientAuth,
    /// The name that the server's certificate must bear, if not the host of `server`.
    pub tls_server_name: Option<String>,
    /// The proxy to go through, where allowed.
    pub proxy_url: Option<Uri>,
    /// Changes when the text does: to notice rotated credentials. Not to be shown.
    pub fingerprint: u64,
}

/// How the hub shows who it is.
pub enum ClientAuth {
    /// With a client certificate. A token beside it is not used: the API server would not look at it.
    Certificate {
        /// The certificate, then those that lead to its CA.
        chain: Vec<CertificateDer<'static>>,
        /// Its key.
        key: PrivateKeyDer<'static>,
    },
    /// With a bearer token.
    Token(SecretString),
}

impl Clone for ClientAuth {
    fn clone(&self) -> Self {
        match self {
            Self::Certificate { chain, key } => {
                Self::Certificate { chain: chain.clone(), key: key.clone_key() }
            }
            Self::Token(token) => Self::Token(token.clone()),
        }
    }
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate { .. } => "Certificate(redacted)",
            Self::Token(_) => "Token(redacted)",
        })
    }
}

impl fmt::Debug for MemberConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberConfig")
            .field("server", &self.server)
            .field("ca_certificates", &self.ca.len())
            .field("client_auth", &self.client_auth)
            .field("tls_server_name", &self.tls_server_name)
            .field("proxy_url", &self.proxy_url)
            .finish_non_exhaustive()
    }
}

/// Reads the current context of a kubeconfig, YAML or JSON. Other contexts and unknown fields are ignored.
///
/// # Errors
/// The first thing that is missing, wrong or refused, by field and with what to do, without credentials.
pub fn parse(text: &[u8], allow: &Allow) -> Result<MemberConfig, KubeconfigError> {
    let value = read(text)?;
    let root = Fields::new(&value, "the kubeconfig".to_owned())?;
    if root.text("kind")?.is_some_and(|kind| kind != "Config") {
        return Err(KubeconfigError::OtherKind);
    }
    let current = root.required("current-context", "name the context to use")?;
    let context = root.named("contexts", "context", current, "current-context")?;
    let cluster_name = context.required("cluster", "name one of the clusters")?;
    let cluster = root.named("clusters", "cluster", cluster_name, "cluster")?;
    let user_name = context.required("user", "name one of the users")?;
    let user = root.named("users", "user", user_name, "user")?;

    refuse(&cluster, REFUSED_IN_CLUSTER)?;
    refuse(&user, REFUSED_IN_USER)?;
    if cluster.flag("insecure-skip-tls-verify")? {
        let fix = "anyone could pose as the member; remove it and give certificate-authority-data";
        return Err(cluster.refused("insecure-skip-tls-verify", fix));
    }
    let server = server(&cluster, allow)?;
    let ca = authority(&cluster, &server)?;
    Ok(MemberConfig {
        ca,
        client_auth: credentials(&user)?,
        tls_server_name: tls_server_name(&cluster)?,
        proxy_url: proxy(&cluster, allow)?,
        fingerprint: xxh3_64(text),
        server,
    })
}

fn read(text: &[u8]) -> Result<Value, KubeconfigError> {
    if text.len() > MAX_TEXT {
        return Err(KubeconfigError::TooLarge { bytes: text.len(), limit: MAX_TEXT });
    }
    let text = std::str::from_utf8(text).map_err(|_| KubeconfigError::NotText)?;
    if text.trim().is_empty() {
        return Err(KubeconfigError::Empty);
    }
    // JSON is YAML, so one reader serves both. Of its fault only the line is told: no word of the text.
    let value = tree::read_yaml(text, &Budget::new(4 * MAX_TEXT))
        .map_err(|fault| KubeconfigError::Unreadable { line: fault.line })?;
    if value.is_null() { Err(KubeconfigError::Empty) } else { Ok(value) }
}

const INLINE: &str =
    "the hub reads no files; put the file's contents, in base64, into the field ending in -data";

/// Fields that are refused when they say anything, and what to do instead.
const REFUSED_IN_CLUSTER: &[(&str, &str)] = &[("certificate-authority", INLINE)];
/// Fields of users that are refused when they say anything, and what to do instead. What impersonates would, if it were
/// ignored, act with more rights than was meant.
const REFUSED_IN_USER: &[(&str, &str)] = &[
    ("exec", "it would run a program in the hub; use a service account's token or a client certificate"),
    ("auth-provider", "it needs a plug-in; use a service account's token or a client certificate"),
    ("client-certificate", INLINE),
    ("client-key", INLINE),
    ("tokenFile", "the hub reads no files; put the token itself into `token`"),
    ("username", "API servers no longer take passwords; use a token or a client certificate"),
    ("password", "API servers no longer take passwords; use a token or a client certificate"),
    ("as", IMPERSONATION),
    ("as-uid", IMPERSONATION),
    ("as-groups", IMPERSONATION),
    ("as-user-extra", IMPERSONATION),
];
const IMPERSONATION: &str = "register the credentials of the user to act as";

fn refuse(fields: &Fields<'_>, refused: &[(&'static str, &'static str)]) -> Result<(), KubeconfigError> {
    match refused.iter().find(|(field, _)| fields.says(field)) {
        Some((field, fix)) => Err(fields.refused(field, fix)),
        None => Ok(()),
    }
}

fn server(cluster: &Fields<'_>, allow: &Allow) -> Result<Uri, KubeconfigError> {
    let text = cluster.required("server", "write the API server's URL, as https://api.example:6443")?;
    let uri = url(cluster, "server", text, allow)?;
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if allow.http => Ok(uri),
        Some("http") => {
            Err(cluster.refused("server", "http:// sends credentials in the clear; use https://"))
        }
        _ => Err(cluster.url("server", "is no URL that can be used: write it as https://api.example:6443")),
    }
}

fn proxy(cluster: &Fields<'_>, allow: &Allow) -> Result<Option<Uri>, KubeconfigError> {
    let Some(text) = cluster.text("proxy-url")? else { return Ok(None) };
    if !allow.proxy {
        let fix =
            "a proxy sees where the hub goes; remove it, or set allowProxy in the ConfigMap of settings";
        return Err(cluster.refused("proxy-url", fix));
    }
    let uri = url(cluster, "proxy-url", text, allow)?;
    match uri.scheme_str() {
        Some("http") => Ok(Some(uri)),
        // No client agrees with another on the port that goes without saying.
        Some("socks5") if uri.port().is_some() => Ok(Some(uri)),
        _ => Err(cluster.url(
            "proxy-url",
            "is no URL of a proxy: write it as http://proxy.example:3128 or socks5://proxy.example:1080",
        )),
    }
}

/// Reads a URL with scheme and host, and judges the host. Messages don't quote it: it may hold a password.
fn url(cluster: &Fields<'_>, field: &'static str, text: &str, allow: &Allow) -> Result<Uri, KubeconfigError> {
    let form = "is no URL that can be used: write it as https://api.example:6443";
    let uri: Uri = text.trim().parse().map_err(|_| cluster.url(field, form))?;
    let (Some(_), Some(authority), Some(host)) = (uri.scheme(), uri.authority(), uri.host()) else {
        return Err(cluster.url(field, form));
    };
    if authority.as_str().contains('@') {
        return Err(cluster.url(field, "holds a user or password: remove it, up to and including the `@`"));
    }
    if uri.query().is_some() || host.is_empty() || host.contains('%') {
        return Err(cluster.url(field, form));
    }
    // A client that cannot read the port goes to that of the scheme.
    let port = authority.as_str().strip_prefix(host).unwrap_or("?");
    let is_port = |port: &str| port.is_empty() || port.parse::<u16>().is_ok();
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err(
            cluster.url(field, "has no port that can be used: write a number up to 65535 behind the host")
        );
    }
    address::check_host(host, allow).map_err(|forbidden| {
        let (what, fix) = forbidden.words();
        KubeconfigError::Address { field, of: cluster.of.clone(), host: host.to_owned(), what, fix }
    })?;
    Ok(uri)
}

fn authority(cluster: &Fields<'_>, server: &Uri) -> Result<Vec<CertificateDer<'static>>, KubeconfigError> {
    let field = "certificate-authority-data";
    match cluster.text(field)? {
        Some(text) => material::certificates(text).map_err(|problem| cluster.material(field, problem)),
        None if server.scheme_str() == Some("http") => Ok(Vec::new()),
        None => Err(cluster.missing(field, "put the CA of the API server there, as base64 of PEM")),
    }
}

fn tls_server_name(cluster: &Fields<'_>) -> Result<Option<String>, KubeconfigError> {
    let Some(name) = cluster.text("tls-server-name")? else { return Ok(None) };
    match ServerName::try_from(name) {
        Ok(_) => Ok(Some(name.to_owned())),
        Err(_) => Err(cluster.wrong_type("tls-server-name", "a DNS name or an IP address")),
    }
}

fn credentials(user: &Fields<'_>) -> Result<ClientAuth, KubeconfigError> {
    let (certificate, key) = ("client-certificate-data", "client-key-data");
    match (user.text(certificate)?, user.text(key)?) {
        (Some(chain), Some(secret)) => Ok(ClientAuth::Certificate {
            chain: material::certificates(chain).map_err(|problem| user.material(certificate, problem))?,
            key: material::private_key(secret).map_err(|problem| user.material(key, problem))?,
        }),
        (Some(_), None) => Err(user.missing(key, "a certificate is of no use without its key")),
        (None, Some(_)) => Err(user.missing(certificate, "a key is of no use without its certificate")),
        (None, None) => token(user),
    }
}

fn token(user: &Fields<'_>) -> Result<ClientAuth, KubeconfigError> {
    match user.text("token")?.map(str::trim) {
        None | Some("") => Err(KubeconfigError::NoCredentials { of: user.of.clone() }),
        Some(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(ClientAuth::Token(SecretString::new(token)))
        }
        Some(_) => {
            let problem = "holds a character that no header may carry: copy the token again, in one line";
            Err(user.material("token", problem))
        }
    }
}
