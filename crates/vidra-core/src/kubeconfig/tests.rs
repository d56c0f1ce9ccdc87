//! What is read of a kubeconfig, and that nothing shown holds a credential.

mod hostile;
mod refusals;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOTHING: Allow = Allow { loopback: false, http: false, proxy: false };
/// Stands in for whatever must not be shown.
const SECRET: &str = "c2VjcmV0LXNlY3JldA";

/// The shape of a certificate, without its contents.
const CERTIFICATE: &[u8] = &[0x30, 0x03, 0x02, 0x01, 0x07];
/// The shape of a PKCS#8 key: version 0, an algorithm, a string.
const KEY: &[u8] = &[0x30, 0x0a, 0x02, 0x01, 0x00, 0x30, 0x03, 0x06, 0x01, 0x2a, 0x04, 0x00];

fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64(der))
}

/// A kubeconfig whose cluster and user are these.
fn config(cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "preferences": {},
        "contexts": [
            {"name": "elsewhere", "context": {"cluster": "bad", "user": "bad"}},
            {"name": "here", "context": {"cluster": "berlin", "user": "hub", "namespace": "ignored"}},
        ],
        "clusters": [
            {"name": "bad", "cluster": {"server": "http://localhost", "insecure-skip-tls-verify": true}},
            {"name": "berlin", "cluster": cluster},
        ],
        "users": [{"name": "bad", "user": {"exec": {"command": "sh"}}}, {"name": "hub", "user": user}],
    })
}

fn good_cluster() -> Value {
    let ca = base64(pem("CERTIFICATE", CERTIFICATE));
    json!({"server": "https://api.berlin.example:6443", "certificate-authority-data": ca})
}

fn good_user() -> Value {
    json!({"token": SECRET})
}

/// `base` with this one field set; null takes it away.
fn with(mut base: Value, field: &str, value: Value) -> Value {
    base[field] = value;
    base
}

fn read(value: &Value, allow: &Allow) -> Result<MemberConfig, String> {
    parse(value.to_string().as_bytes(), allow).map_err(|error| error.to_string())
}

fn refusal(value: &Value) -> String {
    match read(value, &NOTHING) {
        Ok(config) => panic!("{value} was read as {config:?}"),
        Err(error) => error,
    }
}

#[test]
fn yaml_and_json_are_read_alike() {
    let value = config(&good_cluster(), &good_user());
    let ca = value["clusters"][1]["cluster"]["certificate-authority-data"].as_str().unwrap();
    let yaml = format!(
        "# made by a tool\napiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n  context:\n    \
         cluster: berlin\n    user: hub\nclusters:\n- cluster:\n    server: https://api.berlin.example:6443\n    \
         certificate-authority-data: {ca}\n  name: berlin\nusers:\n- name: hub\n  user:\n    token: {SECRET}\n"
    );
    for text in [value.to_string(), yaml] {
        let config = parse(text.as_bytes(), &NOTHING).unwrap();
        assert_eq!(config.server, "https://api.berlin.example:6443");
        assert_eq!(config.ca, [CertificateDer::from(CERTIFICATE)]);
        assert!(matches!(&config.client_auth, ClientAuth::Token(token) if token.expose() == SECRET));
        assert_eq!((config.tls_server_name, config.proxy_url), (None, None));
    }
}

#[test]
fn certificates_and_keys_are_read_as_pem_and_as_der() {
    let chain = pem("CERTIFICATE", CERTIFICATE) + &pem("CERTIFICATE", CERTIFICATE);
    for (certificate, key, length) in [
        (base64(&chain), base64(pem("PRIVATE KEY", KEY)), 2),
        (base64(CERTIFICATE), base64(KEY), 1),
        (base64(format!("a comment\n{chain}")), format!("{}\n", base64(pem("PRIVATE KEY", KEY))), 2),
        (base64(&chain), base64(pem("RSA PRIVATE KEY", KEY)), 2),
        (base64(&chain), base64(pem("EC PRIVATE KEY", KEY)), 2),
    ] {
        let user = json!({"client-certificate-data": certificate, "client-key-data": key, "token": SECRET});
        let config = read(&config(&good_cluster(), &user), &NOTHING).unwrap();
        match config.client_auth.clone() {
            ClientAuth::Certificate { chain, key } => {
                assert_eq!((chain.len(), key.secret_der()), (length, KEY));
            }
            ClientAuth::Token(_) => panic!("the certificate comes first"),
        }
    }
}

#[test]
fn what_a_setting_opens_is_read() {
    let allow = Allow { loopback: true, http: true, proxy: true };
    let cluster = json!({
        "server": "http://127.0.0.1:8080/k8s/clusters/c-1",
        "proxy-url": "http://proxy.example:3128",
        "tls-server-name": "kubernetes.default",
    });
    let config = read(&config(&cluster, &good_user()), &allow).unwrap();
    assert_eq!(config.server.path(), "/k8s/clusters/c-1");
    assert_eq!(config.proxy_url.unwrap(), "http://proxy.example:3128");
    assert_eq!(config.tls_server_name.as_deref(), Some("kubernetes.default"));
    assert!(config.ca.is_empty());
}

#[test]
fn each_allowance_opens_its_own_refusal_only() {
    let loopback = with(good_cluster(), "server", json!("https://127.0.0.1:6443"));
    let http = with(good_cluster(), "server", json!("http://api.example"));
    let proxy = with(good_cluster(), "proxy-url", json!("http://proxy.example"));
    let cases = [(loopback, 0), (http, 1), (proxy, 2)];
    for (cluster, opened_by) in cases {
        for number in 0..3 {
            let allow = Allow { loopback: number == 0, http: number == 1, proxy: number == 2 };
            let read = read(&config(&cluster, &good_user()), &allow);
            assert_eq!(read.is_ok(), number == opened_by, "{cluster} {allow:?}");
        }
    }
}

#[test]
fn a_proxy_is_an_address_that_the_hub_may_call_of_a_kind_that_it_speaks() {
    let allow = Allow { loopback: false, http: false, proxy: true };
    let read = |url: &str| {
        let cluster = with(good_cluster(), "proxy-url", json!(url));
        read(&config(&cluster, &good_user()), &allow).map(|config| config.proxy_url.unwrap().to_string())
    };
    for url in ["http://proxy.example:3128/", "http://10.0.0.1/", "socks5://proxy.example:1080/"] {
        assert_eq!(read(url).unwrap(), url);
    }
    for (url, expected) in [
        ("https://proxy.example", "is no URL of a proxy: write it as http://"),
        ("socks5://proxy.example", "or socks5://proxy.example:1080"),
        ("socks4://proxy.example:1080", "is no URL of a proxy"),
        ("proxy.example:3128", "is no URL that can be used"),
        ("http://127.0.0.1:3128", "points at 127.0.0.1, a loopback address"),
        ("socks5://169.254.169.254:80", "points at 169.254.169.254, a link-local"),
        ("http://metadata.google.internal", "a cloud's metadata service"),
        ("http://me:secret@proxy.example", "holds a user or password"),
    ] {
        let refused = read(url).unwrap_err();
        assert!(
            refused.starts_with("proxy-url of cluster \"berlin\"") && refused.contains(expected),
            "{refused}"
        );
        assert!(!refused.contains("secret"));
    }
}

#[test]
fn fields_that_say_nothing_or_are_not_known_are_ignored() {
    let mut cluster = with(good_cluster(), "insecure-skip-tls-verify", json!(false));
    cluster["disable-compression"] = json!(true);
    cluster["certificate-authority"] = json!("");
    cluster["proxy-url"] = json!("");
    let user =
        json!({"token": format!("{SECRET}\n"), "exec": null, "username": "", "as-groups": [], "x": {"y": 1}});
    let read = read(&config(&cluster, &user), &NOTHING).unwrap();
    assert!(matches!(&read.client_auth, ClientAuth::Token(token) if token.expose() == SECRET));
}

#[test]
fn nothing_shown_holds_a_credential() {
    let user = json!({
        "client-certificate-data": base64(CERTIFICATE), "client-key-data": base64(KEY), "token": SECRET,
    });
    for user in [user, good_user()] {
        let config = read(&config(&good_cluster(), &user), &NOTHING).unwrap();
        let shown = format!("{config:?} {:?} {config:#?}", config.client_auth);
        for hidden in [SECRET, &base64(KEY), &format!("{KEY:?}"), &config.fingerprint.to_string()] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
    for broken in [
        format!("users:\n- user:\n    token: {SECRET}\n   token: {SECRET}"),
        format!("token: [{SECRET}"),
        format!("{SECRET}: 1\n{SECRET}: 2"),
        format!("token: *{SECRET}"),
        format!("token: \"{SECRET}\\q\""),
        SECRET.to_owned(),
    ] {
        let error = parse(broken.as_bytes(), &NOTHING).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
    }
}

#[test]
fn the_fingerprint_tells_one_text_from_another() {
    let fingerprint = |user: &Value| {
        read(&config(&good_cluster(), user), &NOTHING).map(|config| config.fingerprint).unwrap()
    };
    assert_eq!(fingerprint(&good_user()), fingerprint(&good_user()));
    assert_ne!(fingerprint(&good_user()), fingerprint(&json!({"token": "rotated"})));
}

proptest! {
    #[test]
    fn parse_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, &NOTHING);
    }

    #[test]
    fn no_server_leads_parse_astray(server in "(https?://)?[a-z0-9.:\\[\\]@%/?#-]{0,40}") {
        let cluster = with(good_cluster(), "server", json!(server));
        if let Ok(config) = read(&config(&cluster, &good_user()), &NOTHING) {
            prop_assert_eq!(config.server.scheme_str(), Some("https"));
            prop_assert!(config.server.authority().is_some_and(|authority| !authority.as_str().contains('@')));
        }
    }

    #[test]
    fn no_material_leads_parse_astray(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let user = json!({"client-certificate-data": base64(&bytes), "client-key-data": base64(&bytes)});
        let _ = read(&config(&good_cluster(), &user), &NOTHING);
    }
}
