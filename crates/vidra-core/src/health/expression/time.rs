//! Timestamps and durations as texts. There is no now: an expression compares what the object says.

const SECOND: i128 = 1_000_000_000;

/// Nanoseconds since 1970 of a time as RFC 3339 writes it, such as `2026-01-02T03:04:05.6Z`.
pub(super) fn timestamp(text: &str) -> Option<i128> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let mut date = date.splitn(3, '-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let seconds = digits(hours)? * 3600 + digits(minutes)? * 60;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
    };
    let mut clock = clock.splitn(3, ':');
    let (hour, minute) = (digits(clock.next()?)?, digits(clock.next()?)?);
    let (second, fraction) = {
        let seconds = clock.next()?;
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        (digits(whole)?, nanos(fraction)?)
    };
    let fits = (1..=12).contains(&month) && (1..=days(year, month)).contains(&day);
    if !fits || year > 9999 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = i128::from(day_number(year, month, day)) * 86_400;
    let seconds = seconds + i128::from(hour * 3600 + minute * 60 + second - offset);
    Some(seconds * SECOND + fraction)
}

/// Nanoseconds of a duration as Go writes it, such as `1h30m`, `-1.5s`, `100ms`.
pub(super) fn duration(text: &str) -> Option<i128> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0i128;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(unit_at);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let unit = match unit {
            "h" => 3600 * SECOND,
            "m" => 60 * SECOND,
            "s" => SECOND,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        total += i128::from(digits(whole)?) * unit + nanos(fraction)? * unit / SECOND;
        rest = behind;
    }
    (!text.is_empty()).then_some(if is_negative { -total } else { total })
}

/// A number of few digits.
fn digits(text: &str) -> Option<i64> {
    let fits = (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok())?
}

/// What stands behind the point, in billionths.
fn nanos(fraction: &str) -> Option<i128> {
    let fits = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| format!("{fraction:0<9}").parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let years = before * 365 + before / 4 - before / 100 + before / 400;
    // The first of January of 1970 is the day 719,162 after that of the year 1.
    years + (1..month).map(|month| days(year, month)).sum::<i64>() + day - 1 - 719_162
}
