//! Quantities (`resource.Quantity`) in their canonical form: `1000m` is `1`, `1024Mi` is `1Gi`.

use serde_json::Value;

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Nano units in one.
const NANO: i128 = 1_000_000_000;

/// The canonical text of a quantity given as text or number; `None` where it is none. What is finer than a
/// nano unit is rounded up, as on the real server.
pub(super) fn canonical(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | '.')));
    let (number, suffix) = text.split_at(split.unwrap_or(text.len()));
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        let nano = scaled(number, 1i128 << bits, 0)?;
        return Some(binary(nano));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok());
    let power = match DECIMAL.iter().find(|(name, _)| *name == suffix) {
        Some((_, power)) => *power,
        None => exponent.filter(|power| (-18..=18).contains(power))?,
    };
    let nano = scaled(number, 1, power)?;
    Some(decimal(nano, exponent.is_some() && suffix != "E"))
}

/// A decimal text times `factor` times ten to the power, in nano units.
fn scaled(number: &str, factor: i128, power: i32) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let power = power + 9 - i32::try_from(fraction.len()).ok()?;
    let mantissa = mantissa.checked_mul(factor)?;
    let ten = 10i128.checked_pow(power.unsigned_abs())?;
    let nano = match power >= 0 {
        true => mantissa.checked_mul(ten)?,
        false => mantissa / ten + i128::from(mantissa % ten != 0),
    };
    Some(if negative { -nano } else { nano })
}

/// Whole binary units as large as they go; what is no whole number, or small, is written as a decimal.
fn binary(nano: i128) -> String {
    if nano % NANO != 0 || (nano / NANO).abs() < 1024 {
        return decimal(nano, false);
    }
    let mut amount = nano / NANO;
    let mut suffix = "";
    for (name, _) in BINARY {
        if amount % 1024 != 0 || amount == 0 {
            break;
        }
        amount /= 1024;
        suffix = name;
    }
    format!("{amount}{suffix}")
}

fn decimal(nano: i128, exponent: bool) -> String {
    if nano == 0 {
        return "0".to_owned();
    }
    let mut amount = nano;
    let mut at = 0;
    while amount % 1000 == 0 && at + 1 < DECIMAL.len() {
        amount /= 1000;
        at += 1;
    }
    let (suffix, power) = DECIMAL[at];
    match exponent && power != 0 {
        true => format!("{amount}e{power}"),
        false => format!("{amount}{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each pair was read from a real kube-apiserver 1.36.3.
    #[test]
    fn quantities_are_stored_in_their_canonical_form() {
        let table = [
            (json!("1000m"), "1"),
            (json!("1024Mi"), "1Gi"),
            (json!("0.5"), "500m"),
            (json!("1.5Gi"), "1536Mi"),
            (json!("100m"), "100m"),
            (json!(2), "2"),
            (json!("1e3"), "1e3"),
            (json!("1000"), "1k"),
            (json!("1000Ki"), "1000Ki"),
            (json!("128Mi"), "128Mi"),
            (json!("0"), "0"),
            (json!("0.1Gi"), "107374182400m"),
            (json!("1024"), "1024"),
            (json!("1000000"), "1M"),
            (json!("0.5Mi"), "512Ki"),
            (json!("0.5Ki"), "512"),
            (json!("123456Ki"), "123456Ki"),
            (json!("1.5e3"), "1500"),
            (json!("12e2"), "1200"),
            (json!("1E"), "1E"),
            (json!(0.5), "500m"),
        ];
        for (given, stored) in table {
            assert_eq!(canonical(&given).as_deref(), Some(stored), "{given}");
        }
        for wrong in [json!("x"), json!(""), json!("1Xi"), json!("1.2.3"), json!(true)] {
            assert_eq!(canonical(&wrong), None, "{wrong}");
        }
    }
}
