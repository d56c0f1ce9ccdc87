//! Paths as people write them: as the API server prints them in conflicts, and with names in brackets and
//! quotes where a name holds what would look like a step.

use std::str::FromStr;

use serde_json::Value;

use super::element::{Element, Path};

/// Why a path cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {why}")]
pub struct PathError {
    /// Where, 1 for the first character.
    pub at: usize,
    /// What is wrong, and how to fix it.
    pub why: &'static str,
}

impl FromStr for Path {
    type Err = PathError;

    /// Reads `.spec.containers[name="app"].image`. Steps: `.name` and `["name"]` are fields, `[key=JSON]` the
    /// item of a list with these keys, `[=JSON]` the item of a set, `[0]` the item at an index. What follows
    /// `.metadata.labels.` and `.metadata.annotations.`, at any depth, is one key, dots and all.
    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut reader = Reader { text, at: 0 };
        let mut elements = Vec::new();
        while let Some(step) = reader.step(&elements)? {
            elements.push(step);
        }
        if elements.is_empty() {
            return Err(PathError { at: 1, why: "the path names no field" });
        }
        Ok(Path::from(elements))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong<T>(&self, why: &'static str) -> Result<T, PathError> {
        let read = self.text.get(..self.at).unwrap_or_default();
        Err(PathError { at: read.chars().count() + 1, why })
    }

    fn step(&mut self, before: &[Element]) -> Result<Option<Element>, PathError> {
        match self.rest().chars().next() {
            None => Ok(None),
            Some('.') => {
                self.at += 1;
                self.field(before).map(Some)
            }
            Some('[') => {
                self.at += 1;
                self.bracket().map(Some)
            }
            Some(_) => self.wrong("a step begins with '.' or '[': begin the path with '.'"),
        }
    }

    fn field(&mut self, before: &[Element]) -> Result<Element, PathError> {
        let rest = self.rest();
        let end = if holds_keys(before) { rest.len() } else { rest.find(['.', '[']).unwrap_or(rest.len()) };
        let name = rest.get(..end).unwrap_or_default();
        if name.is_empty() {
            return self.wrong("a name is missing after '.'");
        }
        if !holds_keys(before) && name.contains(['/', ']', '"']) {
            return self
                .wrong("write a name like this one in brackets and quotes, as in .data[\"app.conf\"]");
        }
        let element = Element::Field(name.into());
        self.at += end;
        Ok(element)
    }

    fn bracket(&mut self) -> Result<Element, PathError> {
        let rest = self.rest();
        if rest.starts_with('"') {
            let Value::String(name) = self.json()? else {
                return self.wrong("a name is missing in brackets");
            };
            self.expect(']', "']' is missing after the name")?;
            return Ok(Element::Field(name.into()));
        }
        if rest.starts_with('=') {
            self.at += 1;
            let value = self.json()?;
            self.expect(']', "']' is missing after the value")?;
            return Ok(Element::Member((&value).into()));
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if digits > 0 && rest.get(digits..).is_some_and(|rest| rest.starts_with(']')) {
            let Some(index) = rest.get(..digits).and_then(|digits| digits.parse().ok()) else {
                return self.wrong("the index is too large");
            };
            self.at += digits + 1;
            return Ok(Element::Index(index));
        }
        self.keys()
    }

    fn keys(&mut self) -> Result<Element, PathError> {
        let mut keys: Vec<(String, Value)> = Vec::new();
        loop {
            let rest = self.rest();
            let Some(end) =
                rest.find(['=', ']', '"']).filter(|end| *end > 0 && rest[*end..].starts_with('='))
            else {
                return self.wrong("in brackets stands key=\"value\", an index, or a name in quotes");
            };
            let name = rest.get(..end).unwrap_or_default().to_owned();
            self.at += end + 1;
            keys.push((name, self.json()?));
            if self.rest().starts_with(',') {
                self.at += 1;
                continue;
            }
            self.expect(']', "']' is missing after the keys")?;
            return Ok(Element::keyed(keys.iter().map(|(key, value)| (key.as_str(), value))));
        }
    }

    /// One JSON value: a text in double quotes, a number, true or false.
    fn json(&mut self) -> Result<Value, PathError> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            _ => self.wrong("here stands a text in double quotes, a number, true or false"),
        }
    }

    fn expect(&mut self, wanted: char, why: &'static str) -> Result<(), PathError> {
        if !self.rest().starts_with(wanted) {
            return self.wrong(why);
        }
        self.at += wanted.len_utf8();
        Ok(())
    }
}

/// Labels and annotations: their keys hold dots and slashes, and their values are texts, with nothing below.
fn holds_keys(before: &[Element]) -> bool {
    let is = |element: &Element, names: &[&str]| matches!(element, Element::Field(name) if names.contains(&&**name));
    match before {
        [.., parent, last] => is(parent, &["metadata"]) && is(last, &["labels", "annotations"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            r#".spec.template.spec.containers[name="app"].image"#,
            r#".spec.ports[port=80,protocol="TCP"].targetPort"#,
            r#".metadata.finalizers[="a/b"]"#,
            ".metadata.annotations.nginx.ingress.kubernetes.io/rewrite-target",
            ".spec.template.metadata.labels.app.kubernetes.io/name",
            ".foo[1].baz",
            r#".foo[a="b]\"",c=1,d=1.5,e=true]"#,
        ] {
            assert_eq!(text.parse::<Path>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_name_in_brackets_may_hold_anything() {
        let path: Path = r#".data["app.conf"]"#.parse().unwrap();
        assert_eq!(path, Path::of_fields(["data", "app.conf"]));
        let path: Path = r#".metadata.labels["example.com/region"]"#.parse().unwrap();
        assert_eq!(path, Path::of_fields(["metadata", "labels", "example.com/region"]));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_place() {
        for (text, at, why) in [
            ("", 1, "names no field"),
            ("spec", 1, "begin the path with '.'"),
            (".", 2, "a name is missing"),
            (".spec..a", 7, "a name is missing"),
            (".data.a/b", 7, "in brackets and quotes"),
            (".a[name=app]", 9, "a text in double quotes"),
            (".a[name=\"app\"", 14, "']' is missing"),
            (".a[]", 4, "in brackets stands"),
            (".a[99999999999]", 4, "too large"),
            (".a[\"b\"", 7, "']' is missing"),
            (".ü[", 4, "in brackets stands"),
        ] {
            let error = text.parse::<Path>().unwrap_err();
            assert!(error.at == at && error.why.contains(why), "{text}: {error}");
        }
    }
}
