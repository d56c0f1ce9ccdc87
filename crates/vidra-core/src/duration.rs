//! Durations as people write and read them.

use std::time::Duration;

/// In hours, minutes, seconds and milliseconds, as far as there are any: `168h`, `1h30m`, `1m30s`, `500ms`. It is read back
/// as the same wherever a duration is written.
pub fn told(duration: Duration) -> String {
    let all = duration.as_secs();
    let parts = [
        (all / 3600, "h"),
        (all / 60 % 60, "m"),
        (all % 60, "s"),
        (u64::from(duration.subsec_millis()), "ms"),
    ];
    let told: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if told.is_empty() { "0s".to_owned() } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_one_form() {
        for (millis, words) in [
            (0, "0s"),
            (1, "1ms"),
            (1_500, "1s500ms"),
            (90_000, "1m30s"),
            (600_000, "10m"),
            (3_600_000, "1h"),
            (5_400_000, "1h30m"),
            (604_800_000, "168h"),
        ] {
            assert_eq!(told(Duration::from_millis(millis)), words);
        }
    }
}
