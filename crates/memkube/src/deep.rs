//! Documents with many levels. A real server takes ten thousand; all that reads, compares or drops one goes down
//! by recursion, and tests run on threads with little stack. So what may meet a deep document runs on a stack of
//! its own, which costs nothing until there is one.

use serde::de::{DeserializeOwned, Error};
use serde_json::Value;

use super::Inner;
use super::failure::Failure;
use super::route::Asked;

/// Levels of the deepest document: those of Go's JSON, YAML and CBOR readers.
const DEEPEST: usize = 10_000;
/// Levels that any stack has room for; serde_json's own limit is 128.
const USUAL: usize = 100;
/// Bytes for the deepest document. A build that is not optimised takes some ten thousand for a level. They are
/// only reserved: the system gives what is touched.
const ROOM: usize = 512 << 20;

/// Runs something where the deepest document has room.
pub(super) fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM / 2, ROOM, work)
}

/// Reads JSON of any depth that a real server takes.
pub(super) fn read<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    match serde_json::from_slice(text) {
        Err(error) if error.is_syntax() && levels(text) > USUAL => {}
        done => return done,
    }
    if levels(text) > DEEPEST {
        return Err(Error::custom("exceeded max depth"));
    }
    roomy(|| {
        let mut reader = serde_json::Deserializer::from_slice(text);
        reader.disable_recursion_limit();
        let value = T::deserialize(&mut reader)?;
        reader.end().map(|()| value)
    })
}

/// Reads YAML of any depth that a real server takes.
pub(super) fn read_yaml(text: &str) -> Result<Value, String> {
    let budget = serde_saphyr::budget! { max_depth: DEEPEST, flow_nesting_limit: DEEPEST };
    // Octal as kubectl writes file modes.
    let options = serde_saphyr::options! {
        budget: budget, legacy_octal_numbers: true, with_snippet: false
    };
    roomy(|| {
        serde_saphyr::from_str_with_options(text, options).map_err(|error| match error.to_string() {
            why if ["depth", "nesting", "recursion"].iter().any(|word| why.contains(word)) => {
                format!("exceeded max depth of {DEEPEST}")
            }
            why => why,
        })
    })
}

/// The levels of a JSON document.
pub(super) fn levels(text: &[u8]) -> usize {
    let (mut now, mut most, mut at) = (0usize, 0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            b'"' => at = end_of_string(text, at + 1),
            _ => {}
        }
        at += 1;
    }
    most
}

/// Where the string that begins here ends: at its closing quote.
fn end_of_string(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text[at] == b'"' {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// Has a value more levels than any stack has room for?
pub(super) fn is_deep(value: &Value) -> bool {
    fn within(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(list) => left > 0 && list.iter().all(|value| within(value, left - 1)),
            Value::Object(map) => left > 0 && map.values().all(|value| within(value, left - 1)),
            _ => true,
        }
    }
    !within(value, USUAL)
}

/// Refuses to store what could not be read again: managedFields go four levels deeper than what they are of.
pub(super) fn stored(object: &Value) -> Result<(), Failure> {
    if is_deep(object) && levels(object.to_string().as_bytes()) > DEEPEST {
        return Err(Failure::new(500, "", "invalid character '{' exceeded max depth"));
    }
    Ok(())
}

impl Asked {
    /// May the body be a deep document? Of YAML that is not told before it is read.
    fn may_be_deep(&self) -> bool {
        let yaml = || {
            let first = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
            self.content_type.contains("yaml") && !matches!(first, Some(b'{' | b'['))
        };
        self.body.len() > USUAL && (yaml() || levels(&self.body) > USUAL)
    }
}

impl Inner {
    /// Does something where there is room for the deepest document, once one is stored.
    pub(super) fn with_room<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.deep() { roomy(work) } else { work() }
    }

    /// The same for a request, which may bring the first one.
    pub(super) fn with_room_for<T>(&self, asked: &Asked, work: impl FnOnce(bool) -> T) -> T {
        match self.deep() || asked.may_be_deep() {
            true => roomy(|| work(true)),
            false => work(false),
        }
    }

    fn deep(&self) -> bool {
        self.store.lock().deep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_of_strings() {
        let table = [
            ("", 0),
            ("1", 0),
            ("{}", 1),
            (r#"{"a": [1, {"b": []}], "c": {}}"#, 4),
            (r#"{"a{[": "\"{[\\", "b": {}}"#, 2),
            (r#"{"a": "{"#, 1),
        ];
        for (text, expected) in table {
            assert_eq!(levels(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_deepest_document_is_read_and_one_beyond_is_not() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (count, fits) in
            [(1, true), (100, true), (101, true), (200, true), (DEEPEST, true), (DEEPEST + 1, false)]
        {
            let text = nested(count);
            roomy(|| {
                let read = read::<Value>(text.as_bytes());
                assert_eq!(read.is_ok(), fits, "{count}");
                assert!(read.is_err() || is_deep(&read.unwrap_or_default()) == (count > USUAL), "{count}");
            });
        }
        assert!(read::<Value>(&nested(200).as_bytes()[..300]).is_err(), "an end is missing");
    }
}
