//! The formats that Kubernetes enforces, as kube-openapi's strfmt checks them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;
use serde_json::Value;

/// A format of texts or numbers.
#[derive(Debug)]
pub(super) struct Format {
    name: String,
    check: Check,
}

#[derive(Debug)]
enum Check {
    Text(fn(&str) -> bool),
    Number(fn(&Value) -> bool),
}

impl Format {
    /// The format of a type; `None` where Kubernetes enforces nothing. An error where it does and this does not.
    pub fn read(kind: Option<&str>, name: &str) -> Result<Option<Self>, String> {
        let check = match (kind, name.replace('-', "").as_str()) {
            (Some("integer"), "int32") => Check::Number(|value| {
                value.as_i64().is_none_or(|number| i32::try_from(number).is_ok()) && !value.is_f64()
            }),
            (Some("integer"), "int64") => Check::Number(|value| value.is_i64()),
            (Some("number"), "float") => {
                Check::Number(|value| value.as_f64().is_none_or(|number| number.abs() <= f64::from(f32::MAX)))
            }
            (None | Some("string"), "isbn" | "isbn10" | "isbn13" | "creditcard" | "email") => {
                return Err(format!("memkube does not know the format {name}: leave it out"));
            }
            (None | Some("string"), plain) => match text(plain) {
                Some(check) => Check::Text(check),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(Format { name: name.to_owned(), check }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is the text of this format?
    pub fn fits(&self, text: &str) -> bool {
        match self.check {
            Check::Text(check) => check(text),
            Check::Number(_) => true,
        }
    }

    /// Does the format hold this number?
    pub fn holds(&self, number: &Value) -> bool {
        match self.check {
            Check::Number(check) => check(number),
            Check::Text(_) => true,
        }
    }
}

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
        |text: &str| PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text))
    }};
}

fn text(format: &str) -> Option<fn(&str) -> bool> {
    Some(match format {
        "bsonobjectid" => pattern!("^[0-9a-fA-F]{24}$"),
        "uri" => is_uri,
        "hostname" => |text| {
            let fits = pattern!(
                r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
            );
            fits(text) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
        },
        "ipv4" => |text| sloppy(text).is_some() || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok()),
        "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => |text| {
            text.split_once('/').is_some_and(|(address, bits)| {
                let most = match sloppy(address).map(IpAddr::V4).or_else(|| address.parse().ok()) {
                    Some(IpAddr::V4(_)) => 32,
                    Some(IpAddr::V6(_)) => 128,
                    None => return false,
                };
                bits.chars().all(|c| c.is_ascii_digit()) && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
            })
        },
        "mac" => pattern!(
            "^(?i:([0-9a-f]{2}:){5}[0-9a-f]{2}|([0-9a-f]{2}:){7}[0-9a-f]{2}|([0-9a-f]{2}:){19}[0-9a-f]{2}\
             |([0-9a-f]{2}-){5}[0-9a-f]{2}|([0-9a-f]{2}-){7}[0-9a-f]{2}|([0-9a-f]{2}-){19}[0-9a-f]{2}\
             |([0-9a-f]{4}[.]){2}[0-9a-f]{4}|([0-9a-f]{4}[.]){3}[0-9a-f]{4}|([0-9a-f]{4}[.]){9}[0-9a-f]{4})$"
        ),
        "uuid" => pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        "uuid3" => pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        "uuid4" => pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        "uuid5" => pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        "ssn" => |text| {
            let fits = pattern!("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
            text.len() == 11 && fits(text)
        },
        "hexcolor" => pattern!("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        "rgbcolor" => pattern!(
            r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$"
        ),
        "byte" => {
            pattern!("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
        }
        "password" => |_| true,
        "date" => is_date,
        "duration" => |text| nanoseconds(text).is_some() || is_long_duration(text),
        "datetime" => is_date_time,
        "k8sshortname" => |text| {
            let fits = pattern!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
            text.len() <= 63 && fits(text)
        },
        "k8slongname" => |text| {
            let fits = pattern!(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
            text.len() <= 253 && fits(text)
        },
        _ => return None,
    })
}

/// An IPv4 address; zeros may lead its numbers.
fn sloppy(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u8> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    <[u8; 4]>::try_from(parts).ok().filter(|_| plain).map(Ipv4Addr::from)
}

/// A path, or something with a scheme: Go's `url.ParseRequestURI`, which looks at little more.
fn is_uri(text: &str) -> bool {
    let wild = |c: char| c.is_ascii_control() || c == ' ';
    let escapes = text.match_indices('%').all(|(at, _)| {
        text.get(at + 1..at + 3).is_some_and(|hex| hex.chars().all(|c| c.is_ascii_hexdigit()))
    });
    if text.contains(wild) || !escapes {
        return false;
    }
    let scheme = pattern!("^[a-zA-Z][a-zA-Z0-9+.-]*:");
    text.starts_with('/') || text == "*" || scheme(text)
}

fn is_date(text: &str) -> bool {
    let fits = pattern!("^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
    fits(text) && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let fits = pattern!("^[0-9]{2}:[0-9]{2}:[0-9]{2}(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$");
    let at_most = |at: usize, most: &str| time.get(at..at + 2).is_some_and(|part| part <= most);
    is_date(date) && fits(time) && at_most(0, "23") && at_most(3, "59") && at_most(6, "59")
}

/// As Scala writes durations: `3 days`.
fn is_long_duration(text: &str) -> bool {
    static PARTS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[0-9]+\s*([A-Za-zµ]+)").ok());
    const SHORT: [&str; 13] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "min", "sec"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let Some(parts) = PARTS.as_ref() else { return false };
    parts.captures_iter(text).any(|part| {
        let unit = part[1].to_lowercase();
        SHORT.contains(&unit.as_str()) || LONG.iter().any(|long| unit.starts_with(long))
    })
}

/// Go's durations, such as `1h30m`; as Go reads them, in nanoseconds.
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    static PARTS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("([0-9]*)(?:[.]([0-9]*))?(ns|us|µs|μs|ms|s|m|h)").ok());
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let (mut end, mut total) = (0, 0i128);
    for part in PARTS.as_ref()?.captures_iter(rest) {
        let whole = part.get(0)?;
        let digits = |index: usize| part.get(index).map_or("", |found| found.as_str());
        if whole.start() != end || (digits(1).is_empty() && digits(2).is_empty()) {
            return None;
        }
        end = whole.end();
        let unit: i128 = match &part[3] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            _ => 3_600_000_000_000,
        };
        let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
        let fraction = digits(2).get(..18.min(digits(2).len()))?;
        let scale = 10i128.pow(u32::try_from(fraction.len()).ok()?);
        total = total.checked_add(number(digits(1))?.checked_mul(unit)?)?;
        total += number(fraction)? * unit / scale;
    }
    (end > 0 && end == rest.len()).then(|| i64::try_from(total * sign).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let table = [
            ("1s", Some(1_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            (".5s", Some(500_000_000)),
            ("-2ms", Some(-2_000_000)),
            ("0", Some(0)),
            ("", None),
            ("1", None),
            ("1d", None),
            ("s", None),
            (".s", None),
            ("1s ", None),
        ];
        for (text, expected) in table {
            assert_eq!(nanoseconds(text), expected, "{text:?}");
        }
    }
}
