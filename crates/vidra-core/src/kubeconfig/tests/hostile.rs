//! Kubeconfigs that somebody has meddled with: whatever is read leads to a server that the hub may call, and nothing that
//! is said of one holds a credential.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::{collection::vec, sample::select};
use serde::Serialize;

use super::*;
use crate::hostile::{YAML, meddled};

const PIECES: &[&[&str]] =
    &[YAML, &["//", "http://", "@", "%61", "?", "127.0.0.1", "localhost", "[::1]", ":70000", "exec: x\n"]];

/// Kubeconfigs that hold this secret, where it belongs or where it does not.
fn holding(secret: &str) -> Vec<Value> {
    let cluster =
        |field: &str, value: String| config(&with(good_cluster(), field, json!(value)), &good_user());
    let user = |user: Value| config(&good_cluster(), &user);
    let (certificate, key) = (base64(CERTIFICATE), base64(KEY));
    vec![
        user(json!({"token": secret})),
        user(json!({"token": format!("{secret}\u{e9}")})),
        user(json!({"token": [secret]})),
        user(json!({"token": {secret: secret}})),
        user(json!({"username": "hub", "password": secret})),
        user(json!({"exec": {"command": "sh", "env": [{"name": "TOKEN", "value": secret}]}})),
        user(json!({"auth-provider": {"name": "oidc", "config": {"id-token": secret}}})),
        user(json!({"token": "t", "as-user-extra": {"reason": [secret]}})),
        user(json!({"client-certificate-data": certificate, "client-key-data": secret})),
        user(json!({"client-certificate-data": secret, "client-key-data": key})),
        user(
            json!({"client-certificate-data": certificate, "client-key-data": base64(pem(secret, KEY)), "x": secret}),
        ),
        user(json!({"client-key-data": secret})),
        cluster("proxy-url", format!("http://hub:{secret}@proxy.example:3128")),
        cluster("server", format!("https://hub:{secret}@api.example")),
        cluster("server", format!("https://hub:{secret}@127.0.0.1")),
        cluster("server", format!("https://api.example/?token={secret}")),
        cluster("certificate-authority-data", secret.to_owned()),
        cluster("tls-server-name", format!("a {secret}")),
    ]
}

/// A kubeconfig as text in one of the ways in which tools write it.
fn text(value: &Value, form: usize) -> String {
    let compact = value.to_string();
    match form {
        0 => compact,
        1 => serde_json::to_string_pretty(value).unwrap(),
        2 => {
            let mut text = Vec::new();
            let tabs = serde_json::ser::PrettyFormatter::with_indent(b"\t");
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, tabs)).unwrap();
            String::from_utf8(text).unwrap().replace('\n', "\r\n")
        }
        3 => {
            let mut units = [0; 2];
            let ascii = |letter: char| match letter {
                ..='~' => letter.to_string(),
                _ => letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            };
            compact.chars().map(ascii).collect()
        }
        _ => serde_saphyr::to_string(value).unwrap(),
    }
}

const JSON_FORMS: usize = 4;
const FORMS: usize = 5;

fn allowed() -> impl Strategy<Value = Allow> {
    any::<[bool; 3]>().prop_map(|[loopback, http, proxy]| Allow { loopback, http, proxy })
}

/// Why the hub may not call this, if it may not. A client that cannot read the port would take another one.
fn wrong(uri: &Uri, schemes: &[&str], allow: &Allow) -> Option<&'static str> {
    let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else { return Some("no host") };
    let behind = authority.as_str().strip_prefix(host);
    let is_port = |port: &str| port.is_empty() || port.parse::<u16>().is_ok();
    let has_port =
        behind.is_some_and(|behind| behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port));
    let faults = [
        (!schemes.contains(&uri.scheme_str().unwrap_or_default()), "another scheme"),
        (host.is_empty() || uri.query().is_some(), "no URL of a server"),
        (address::check_host(host, allow).is_err(), "a forbidden address"),
        (!has_port, "no port"),
    ];
    faults.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why)
}

/// The IPv4 addresses that no member has.
fn forbidden() -> impl Strategy<Value = Ipv4Addr> {
    let known = [[100, 100, 100, 200], [192, 0, 0, 192], [168, 63, 129, 16], [169, 254, 169, 254]];
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[b, c, d]| Ipv4Addr::new(127, b, c, d)),
        any::<[u8; 3]>().prop_map(|[b, c, d]| Ipv4Addr::new(0, b, c, d)),
        any::<[u8; 2]>().prop_map(|[c, d]| Ipv4Addr::new(169, 254, c, d)),
        select(known.map(Ipv4Addr::from).to_vec()),
    ]
}

/// Whatever leads there: written plainly, as resolvers read it, and in addresses of IPv6 that mean it.
fn spellings(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let (high, low, number) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), u32::from(address));
    vec![
        format!("{address}"),
        format!("{address}."),
        format!("{number}"),
        format!("0x{number:x}"),
        format!("0X{number:08X}"),
        format!("0{number:o}"),
        format!("{a}.{}", number & 0xff_ffff),
        format!("{a}.{b}.{low}"),
        format!("0x{a:x}.{b}.0{c:o}.{d}"),
        format!("{a:04}.{b:04}.{c:04}.{d:04}"),
        format!("[::ffff:{address}]"),
        format!("[::FFFF:{high:X}:{low:X}]"),
        format!("[0:0:0:0:0:ffff:{high:x}:{low:x}]"),
        format!("[::{address}]"),
        format!("[64:ff9b::{address}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
    ]
}

/// One of these in letters of any size.
fn in_any_case(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    (select(words), any::<u32>()).prop_map(|(word, large)| {
        let letter = |(at, letter): (usize, char)| match (large >> (at % 32)) & 1 {
            0 => letter,
            _ => letter.to_ascii_uppercase(),
        };
        word.chars().enumerate().map(letter).collect()
    })
}

proptest! {
    #[test]
    fn nothing_that_is_said_of_a_kubeconfig_holds_its_secret(
        (secret, text) in ("[A-Z]{20}", 0..18usize, 0..FORMS).prop_flat_map(|(secret, which, form)| {
            let text = text(&holding(&secret)[which], form);
            (Just(secret), meddled(Just(text), PIECES, 1))
        }),
        allow in allowed(),
    ) {
        let said = match parse(text.as_bytes(), &allow) {
            Ok(config) => format!("{:?}", config.client_auth),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!said.contains(&secret), "{}", said);
    }

    #[test]
    fn whatever_is_read_of_a_kubeconfig_leads_to_a_server_that_the_hub_may_call(
        text in (select(vec!["", "http://proxy.example:3128", "socks5://10.0.0.1:1080"]), 0..FORMS).prop_flat_map(
            |(proxy, form)| {
                let cluster = with(good_cluster(), "proxy-url", json!(proxy));
                meddled(Just(text(&config(&cluster, &good_user()), form)), PIECES, 3)
            },
        ),
        allow in allowed(),
    ) {
        let Ok(config) = parse(text.as_bytes(), &allow) else { return Ok(()) };
        let schemes: &[&str] = if allow.http { &["https", "http"] } else { &["https"] };
        prop_assert_eq!(wrong(&config.server, schemes, &allow), None, "{}", config.server);
        prop_assert!(!config.ca.is_empty() || config.server.scheme_str() == Some("http"));
        if let Some(proxy) = &config.proxy_url {
            prop_assert!(allow.proxy);
            prop_assert_eq!(wrong(proxy, &["http", "socks5"], &allow), None, "{}", proxy);
        }
        let ClientAuth::Token(token) = &config.client_auth else {
            return Err(TestCaseError::fail("it has no certificate"));
        };
        prop_assert!(!token.expose().is_empty() && token.expose().bytes().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn a_server_that_is_read_is_one_that_the_hub_may_call(
        server in meddled(
            select(vec!["https://api.example:6443", "https://[2001:db8::1]:6443/k8s", "HTTPS://10.0.0.1"])
                .prop_map(str::to_owned),
            PIECES,
            4,
        ),
    ) {
        let cluster = with(good_cluster(), "server", json!(server));
        if let Ok(config) = read(&config(&cluster, &good_user()), &NOTHING) {
            prop_assert_eq!(wrong(&config.server, &["https"], &NOTHING), None, "{}", config.server);
        }
    }

    #[test]
    fn no_spelling_leads_to_the_hub_itself_the_link_or_where_clouds_hand_out_credentials(
        address in forbidden(),
        local in in_any_case(&["localhost", "x.localhost", "localhost.localdomain", "localhost.", "ip6-loopback"]),
        metadata in in_any_case(&["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal."]),
        link in any::<[u16; 8]>(),
        before in select(vec!["", " ", "\n"]),
        behind in select(vec!["", ":6443", ":1", "/", "/k8s ", ":", "#x"]),
    ) {
        let [first, b, c, d, e, f, g, h] = link;
        let link = Ipv6Addr::new(0xfe80 | (first & 0x3f), b, c, d, e, f, g, h);
        for host in spellings(address).into_iter().chain([local, metadata, format!("[{link}]")]) {
            let uri = format!("{before}https://{host}{behind}");
            let cluster = with(good_cluster(), "server", json!(uri));
            let cluster = Fields::new(&cluster, "the cluster".to_owned()).unwrap();
            prop_assert!(server(&cluster, &NOTHING).is_err(), "{}", uri);
        }
    }

    #[test]
    fn parse_never_panics_on_what_looks_like_yaml(pieces in vec(select(PIECES.concat()), 0..40)) {
        let _ = parse(pieces.concat().as_bytes(), &NOTHING);
    }

    /// One reader serves both: what JSON says it must not read otherwise, in whichever way a tool spells it.
    #[test]
    fn a_kubeconfig_of_json_is_read_as_it_is_however_it_is_spelt(
        token in "[!-~]{1,40}", name in "x\\PC{0,12}", key in "\\PC{0,12}", form in 0..JSON_FORMS,
    ) {
        let mut value = config(&good_cluster(), &json!({"token": token}));
        value["contexts"][1]["context"]["cluster"] = json!(name);
        value["clusters"][1]["name"] = json!(name);
        value["preferences"][&key] = json!(key);
        let read = parse(text(&value, form).as_bytes(), &NOTHING);
        prop_assert!(read.is_ok(), "{:?} {}", read, text(&value, form));
        prop_assert!(matches!(&read.unwrap().client_auth, ClientAuth::Token(read) if read.expose() == token));
        // Of what goes wrong below it, the name is told as it is.
        value["clusters"][1]["cluster"] = json!({});
        let said = parse(text(&value, form).as_bytes(), &NOTHING).unwrap_err().to_string();
        prop_assert!(said.contains(&format!("{name:?}")), "{}", said);
    }
}
