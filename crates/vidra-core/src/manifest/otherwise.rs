//! Scalars that our parser reads otherwise than kubectl does: they are refused, so that nothing is delivered that
//! kubectl would not have meant. What a scalar says is looked at with its quotes, which the values of a document
//! no longer have; so a document is scanned once more, but only where such words stand in its text.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use super::tree::Fault;

const MIXED_CASE: &str = "a word such as `yEs` is text to kubectl, and a boolean by its letters: put it in quotes, or write it in small letters";
const UNDERSCORES: &str = "a number has underscores where they are not plain separators, as in `1_` or `1_0.5`: leave them out, or put it in quotes";
const QUOTED_MERGE: &str =
    "a quoted `<<` is a plain key to kubectl, and here it would merge: choose another key";

/// Looks through one document of YAML that can be read.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    if !may_hold_some(text) {
        return Ok(());
    }
    for event in Parser::new_from_str(text) {
        // The parser proper has read it: what this one says against it is of no interest.
        let Ok((event, span)) = event else { return Ok(()) };
        let Event::Scalar(value, style, _, tag) = event else { continue };
        let plain = style == ScalarStyle::Plain;
        let reason = match &*value {
            "<<" if !plain => QUOTED_MERGE,
            word if plain && tag.is_none() && is_mixed_case(word) => MIXED_CASE,
            number if plain && tag.is_none() && has_odd_underscores(number) => UNDERSCORES,
            _ => continue,
        };
        return Err(Fault { line: Some(span.start.line()), reason: reason.to_owned() });
    }
    Ok(())
}

/// Whether any word of the text is one of these, wherever it stands.
fn may_hold_some(text: &str) -> bool {
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
    text.contains("\"<<\"")
        || text.contains("'<<'")
        || text.split(|c| !in_word(c)).any(|word| is_mixed_case(word) || has_odd_underscores(word))
}

/// A boolean of YAML 1.1 in none of the three ways in which go-yaml knows it: `yes`, `Yes`, `YES`.
fn is_mixed_case(word: &str) -> bool {
    if !matches!(word.len(), 2..=5) {
        return false;
    }
    let is_word =
        ["yes", "no", "on", "off", "true", "false"].iter().any(|one| one.eq_ignore_ascii_case(word));
    let mut letters = word.bytes();
    let first_is_small = letters.next().is_some_and(|letter| letter.is_ascii_lowercase());
    let rest: Vec<u8> = letters.collect();
    let small = rest.iter().all(u8::is_ascii_lowercase);
    let large = rest.iter().all(u8::is_ascii_uppercase);
    is_word && !(small || (large && !first_is_small))
}

/// go-yaml leaves all underscores out of what may be a number; our parser only single ones between digits.
fn has_odd_underscores(word: &str) -> bool {
    let may_be_number = word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if !may_be_number || !word.contains('_') {
        return false;
    }
    let digits = word.trim_start_matches(['+', '-']);
    let digits = ["0x", "0o", "0b"].iter().find_map(|prefix| digits.strip_prefix(prefix)).unwrap_or(digits);
    let separates = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let clean = digits.split('_').all(separates) && !is_float(&word.replace('_', ""));
    !clean && is_number(&word.replace('_', ""))
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let of_radix = |prefix, radix| {
        digits.strip_prefix(prefix).is_some_and(|digits: &str| {
            !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))
        })
    };
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer || is_float(text) || of_radix("0x", 16) || of_radix("0o", 8) || of_radix("0b", 2)
}

/// A number with a point or an exponent.
fn is_float(text: &str) -> bool {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    is_decimal && text.contains(['.', 'e', 'E']) && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_read_otherwise_is_refused_and_its_line_is_named() {
        for (text, line) in [
            ("a: yEs\n", Some(1)),
            ("# c\na:\n- tRUE\n", Some(3)),
            ("oN: 1\n", Some(1)),
            ("a: 1_\n", Some(1)),
            ("a: 1__0\n", Some(1)),
            ("a: [0, -1_000.5]\n", Some(1)),
            ("a: 1_0e3\n", Some(1)),
            ("a:\n  '<<': b\n", Some(2)),
            ("a: 'yEs'\nb: \"1_\"\nc: !!str 1__0\nd: |\n  yEs 1_ '<<'\n# yEs\ne: is yEs\n", None),
            ("a: yes\nb: Yes\nc: YES\nd: yesterday\ne: nO-one\nf: Off\n", None),
            ("a: 1_000\nb: 0x1_F\nc: _1\nd: 1_a\ne: v1_\nf: 1_0.x\ng: 10.1_2.3\nh: -1_000\n", None),
            ("a: {<<: {b: 1}}\n", None),
        ] {
            assert_eq!(check(text).err().map(|fault| fault.line.unwrap()), line, "{text}");
        }
    }
}
