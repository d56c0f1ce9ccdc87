//! What the process goes by: what its flags say, and the settings that can be changed while it runs (`dynamic_settings`,
//! `tuning`).

pub mod dynamic_settings;
pub mod health_rules;
pub mod memory;
pub mod refusal;
pub mod tuning;

use std::time::Duration;

use vidra_core::kubeconfig::Allow;

/// A duration as users write it could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is no duration of at most 720h (30 days); write it like 30s, 10m or 1h30m")]
pub struct DurationError(String);

/// The bounds that the schema of a VidraResource draws.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Reads a duration such as `30s`, `10m`, `1h30m`, as long as an object may say at most.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let read = read(text)?;
    if read > LONGEST { Err(DurationError(text.to_owned())) } else { Ok(read) }
}

/// What an object says: one that is older than the schema may be beyond its bounds. `None`: nothing that can be read.
pub fn clamped_duration(text: Option<&str>) -> Option<Duration> {
    Some(read(text?).ok()?.clamp(SHORTEST, LONGEST))
}

fn read(text: &str) -> Result<Duration, DurationError> {
    let bad = || DurationError(text.to_owned());
    // The sign would be lost.
    if text.starts_with('-') {
        return Err(bad());
    }
    let duration: kube::core::Duration = text.parse().map_err(|_| bad())?;
    let duration = Duration::from(duration);
    if duration.is_zero() { Err(bad()) } else { Ok(duration) }
}

/// What becomes of state that another hub has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// The hub does not start.
    #[default]
    Refuse,
    /// It is this hub's from now on.
    Adopt,
    /// It is this hub's from now on, and where the identity is lost another one is made.
    NewIdentity,
}

/// What the loops go by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hub's own namespace.
    pub namespace: String,
    /// The hub's id at its first start.
    pub hub_id: Option<String>,
    /// What becomes of state that another hub has left.
    pub inherit: Inherit,
    /// Between two comparisons of a target to which nothing happened.
    pub interval: Duration,
    /// Whether events make targets look.
    pub on_events: bool,
    /// What kubeconfigs of members may do.
    pub allow: Allow,
    /// Bytes of memory that the process may take, where that is bounded.
    pub memory_limit: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_users_write_them() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("1h30m", 5400)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0s", "ten", "5", "-1m", "721h"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_object_that_is_older_than_the_schema_is_taken_within_its_bounds() {
        let cases = [("87600h", 720 * 3600), ("1ms", 1), ("90s", 90)];
        for (text, seconds) in cases {
            assert_eq!(clamped_duration(Some(text)), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!((clamped_duration(None), clamped_duration(Some("ten"))), (None, None));
    }
}
