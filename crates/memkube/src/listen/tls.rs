//! The certificates of a server: a CA, and a certificate for 127.0.0.1 and localhost. Made again at each start;
//! nothing that a test compares depends on them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::ListenError;

/// What a server shows of itself.
pub(super) struct Identity {
    /// The authority, as PEM.
    pub ca: String,
    pub acceptor: TlsAcceptor,
}

impl Identity {
    pub fn new() -> Result<Self, ListenError> {
        make().map_err(ListenError::Certificate)
    }
}

fn make() -> Result<Identity, Box<dyn std::error::Error + Send + Sync>> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "memkube");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let key = KeyPair::generate()?;
    let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
    server.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    server.distinguished_name.push(DnType::CommonName, "memkube");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = server.signed_by(&key, &authority)?;

    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Identity { ca: authority.pem(), acceptor: TlsAcceptor::from(Arc::new(config)) })
}
