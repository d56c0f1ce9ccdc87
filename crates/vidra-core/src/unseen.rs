//! Characters that a person does not see, but a terminal or a page obeys.

/// Characters that move the cursor, colour, reorder or hide what stands beside them.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// What others say, members and their clients among them, as conditions, Events and messages may show it: on one line,
/// with U+FFFD for what is not seen, and at most so many characters; what was cut ends with "…".
///
/// For showing only: names that are compared are compared as they are.
pub fn shown(text: &str, most: usize) -> String {
    let seen = |c: char| match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_unseen(c) => '\u{fffd}',
        c => c,
    };
    let begins: String = text.chars().take(most.saturating_add(1)).map(seen).collect();
    vidra_api::clip(&begins, most)
}

/// A text of JSON that reads back as the same, with each of them escaped, but for the ends of its lines.
pub fn escaped_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match is_unseen(c) && c != '\n' {
            true => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}"))),
            false => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_is_shown_is_one_short_line_and_bears_nothing_that_is_not_seen() {
        for (text, most, told) in [
            ("plain ü", 9, "plain ü"),
            ("two\nlines\tand\u{2028}three", 99, "two lines and three"),
            ("\u{1b}[2J\u{202e}\u{2066}\u{ad}\u{e0041}x", 99, "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}x"),
            ("abcd", 4, "abcd"),
            ("abcde", 4, "abc…"),
            ("", 0, ""),
        ] {
            assert_eq!(shown(text, most), told);
        }
    }

    #[test]
    fn json_reads_back_as_the_same_without_what_is_not_seen() {
        let value = json!("a\n\u{1b}\u{9b}2J\u{202e}\u{e0041}ü");
        let escaped = escaped_json(&value.to_string());
        assert_eq!(escaped, "\"a\\n\\u001b\\u009b2J\\u202e\\udb40\\udc41ü\"");
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
    }
}
