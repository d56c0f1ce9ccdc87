//! Addresses that no member has, and that a hub must not be made to call: its own, those of the link, and
//! those where clouds hand out credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Allow;

/// Why an address is not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// The hub's own machine, unspecified addresses included.
    Loopback,
    /// An address of the link: 169.254.0.0/16, fe80::/10.
    LinkLocal,
    /// A place where a cloud hands out credentials to whoever asks.
    Metadata,
    /// A number that a resolver reads as an IPv4 address in one of the old spellings.
    OddSpelling,
}

impl Forbidden {
    /// What it is and what to do, for messages.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        let reachable = "write the address at which the hub reaches the member";
        match self {
            Self::Loopback => ("a loopback address, which is the hub itself", reachable),
            Self::LinkLocal => ("a link-local address", reachable),
            Self::Metadata => ("a cloud's metadata service", reachable),
            Self::OddSpelling => {
                ("an address that is not written plainly", "write it as four decimal numbers, as 192.0.2.1")
            }
        }
    }
}

/// Metadata services outside the link-local ranges: AWS over IPv6, Alibaba, Oracle, Azure.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];
/// Names that clouds resolve to their metadata services.
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];

/// Judges an address. To be asked again of every address that a member's name resolves to: a name may lead
/// anywhere, and elsewhere each time.
///
/// # Errors
/// Why the address is not called.
pub fn check_address(address: IpAddr, allow: &Allow) -> Result<(), Forbidden> {
    match address {
        _ if METADATA.contains(&address) => Err(Forbidden::Metadata),
        IpAddr::V4(v4) if v4.is_link_local() => Err(Forbidden::LinkLocal),
        // All of 0.0.0.0/8 means this host; Linux connects 0.0.0.0 to itself.
        IpAddr::V4(v4) if v4.is_loopback() || v4.octets()[0] == 0 => loopback(allow),
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(v6) if v6.is_loopback() || v6.is_unspecified() => loopback(allow),
        IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80 => Err(Forbidden::LinkLocal),
        IpAddr::V6(v6) => embedded_v4(v6).map_or(Ok(()), |v4| check_address(IpAddr::V4(v4), allow)),
    }
}

/// Judges the host of a URL, a name or an address, in brackets or not.
pub(super) fn check_host(host: &str, allow: &Allow) -> Result<(), Forbidden> {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    if let Ok(address) = host.parse::<IpAddr>() {
        return check_address(address, allow);
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    // The C library reads 127.1, 2130706433, 0x7f.1 and 0177.0.0.1 as 127.0.0.1; no name ends so (WHATWG URL,
    // "ends in a number").
    let is_hex = last.strip_prefix("0x").is_some_and(|hex| hex.chars().all(|c| c.is_ascii_hexdigit()));
    if is_hex || last.chars().all(|c| c.is_ascii_digit()) {
        return Err(Forbidden::OddSpelling);
    }
    if METADATA_NAMES.contains(&host.as_str()) {
        return Err(Forbidden::Metadata);
    }
    let is_local = matches!(last, "localhost" | "localdomain")
        || host.starts_with("localhost.")
        || matches!(host.as_str(), "ip6-localhost" | "ip6-loopback");
    if is_local { loopback(allow) } else { Ok(()) }
}

fn loopback(allow: &Allow) -> Result<(), Forbidden> {
    if allow.loopback { Ok(()) } else { Err(Forbidden::Loopback) }
}

/// The IPv4 address within an IPv6 one: mapped (::ffff:0:0/96), compatible (::/96), NAT64 (64:ff9b::/96) and
/// 6to4 (2002::/16).
fn embedded_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let last = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match v6.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(last(high, low))
        }
        [0x2002, high, low, ..] => Some(last(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Allow = Allow { loopback: false, http: false, proxy: false };
    const LOOPBACK: Allow = Allow { loopback: true, http: false, proxy: false };

    #[test]
    fn the_hub_itself_is_called_only_when_allowed() {
        for host in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "localhost",
            "LocalHost.",
            "a.localhost",
            "localhost.localdomain",
        ] {
            assert_eq!(check_host(host, &NOTHING), Err(Forbidden::Loopback), "{host}");
            assert_eq!(check_host(host, &LOOPBACK), Ok(()), "{host}");
        }
    }

    #[test]
    fn link_and_metadata_addresses_are_never_called() {
        for (host, why) in [
            ("169.254.169.254", Forbidden::LinkLocal),
            ("169.254.0.1", Forbidden::LinkLocal),
            ("[fe80::1]", Forbidden::LinkLocal),
            ("[febf::1]", Forbidden::LinkLocal),
            ("[::ffff:169.254.169.254]", Forbidden::LinkLocal),
            ("[64:ff9b::a9fe:a9fe]", Forbidden::LinkLocal),
            ("[fd00:ec2::254]", Forbidden::Metadata),
            ("100.100.100.200", Forbidden::Metadata),
            ("[::ffff:100.100.100.200]", Forbidden::Metadata),
            ("metadata.google.internal", Forbidden::Metadata),
            ("Metadata.Google.Internal.", Forbidden::Metadata),
        ] {
            assert_eq!(check_host(host, &LOOPBACK), Err(why), "{host}");
        }
    }

    #[test]
    fn an_address_in_an_old_spelling_is_no_way_around() {
        for host in ["127.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5"] {
            assert_eq!(check_host(host, &LOOPBACK), Err(Forbidden::OddSpelling), "{host}");
        }
    }

    #[test]
    fn what_a_member_may_have_is_called() {
        for host in
            ["10.0.0.1", "192.168.1.1", "172.18.0.2", "[fd00::1]", "[2001:db8::1]", "api.berlin.example"]
        {
            assert_eq!(check_host(host, &NOTHING), Ok(()), "{host}");
        }
        for host in ["localhosts.example", "mylocalhost", "fe80.example", "metadata"] {
            assert_eq!(check_host(host, &NOTHING), Ok(()), "{host}");
        }
    }
}
