//! Certificates, keys and tokens out of the inline fields of a kubeconfig: base64 of PEM or DER.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(String);

impl SecretString {
    /// Wraps the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: for sending it, not for showing it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretString(redacted)")
    }
}

const NOT_BASE64: &str = "is not base64: put the PEM text there, encoded in base64";
const DAMAGED_PEM: &str = "holds damaged PEM: copy the file again, and encode it in base64";

/// One or more certificates.
pub(super) fn certificates(base64: &str) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let bytes = decode(base64)?;
    let certificates = if is_pem(&bytes) {
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>().map_err(|_| DAMAGED_PEM)?
    } else {
        vec![CertificateDer::from(bytes)]
    };
    if certificates.is_empty() {
        return Err("holds no certificate: put PEM with BEGIN CERTIFICATE there, encoded in base64");
    }
    if !certificates.iter().all(|der| is_one_sequence(der)) {
        return Err("holds something else than certificates: put PEM or DER there, encoded in base64");
    }
    Ok(certificates)
}

/// One private key: PKCS#8, PKCS#1 or SEC1, without a passphrase.
pub(super) fn private_key(base64: &str) -> Result<PrivateKeyDer<'static>, &'static str> {
    let no_key = "holds no private key that can be used: put a PEM key without passphrase there, in base64";
    let bytes = decode(base64)?;
    let key = if is_pem(&bytes) {
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
            rustls_pki_types::pem::Error::NoItemsFound => no_key,
            _ => DAMAGED_PEM,
        })?
    } else {
        PrivateKeyDer::try_from(bytes).map_err(|_| no_key)?
    };
    if is_one_sequence(key.secret_der()) { Ok(key) } else { Err(no_key) }
}

fn decode(base64: &str) -> Result<Vec<u8>, &'static str> {
    let packed: String = base64.split_ascii_whitespace().collect();
    STANDARD.decode(packed).map_err(|_| NOT_BASE64)
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(10).any(|window| window == b"-----BEGIN")
}

/// Whether these bytes are one DER SEQUENCE and nothing behind it, as certificates and keys are.
fn is_one_sequence(der: &[u8]) -> bool {
    let Some((0x30, rest)) = der.split_first().map(|(tag, rest)| (*tag, rest)) else { return false };
    let Some((&first, rest)) = rest.split_first() else { return false };
    if first < 0x80 {
        return rest.len() == usize::from(first);
    }
    let count = usize::from(first & 0x7f);
    let Some((length, body)) = rest.split_at_checked(count) else { return false };
    (1..=4).contains(&count)
        && body.len() == length.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
}
