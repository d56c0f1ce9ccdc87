//! Ages, as apimachinery's `duration.HumanDuration` writes them.

use jiff::Timestamp;
use serde_json::Value;

/// The time since a moment; none where there is no moment.
pub(super) fn since(moment: &Value, now: Timestamp) -> Option<String> {
    let from = moment.as_str()?.parse::<Timestamp>().ok()?;
    Some(human(now.as_second() - from.as_second()))
}

/// From one moment to another.
pub(super) fn between(from: &Value, to: &Value) -> Option<String> {
    since(from, to.as_str()?.parse().ok()?)
}

fn human(seconds: i64) -> String {
    let two = |first: i64, unit: char, second: i64, small: char| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{small}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_shows_them() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (3600, "60m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600, "9h"),
            (50 * 3600, "2d2h"),
            (30 * 86_400, "30d"),
            (800 * 86_400, "2y70d"),
            (-5, "<invalid>"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }
}
