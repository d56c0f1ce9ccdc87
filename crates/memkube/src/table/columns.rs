//! The columns of built-in kinds, as `schemas/columns.txt` names them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::cells;

static TEXT: &str = include_str!("../../schemas/columns.txt");

/// A column: what is above it, and what is in it.
#[derive(Debug)]
pub(super) struct Column {
    pub name: &'static str,
    pub of: &'static str,
    /// With `-o wide` only.
    pub wide: bool,
    function: &'static str,
    arguments: Vec<&'static str>,
}

impl Column {
    fn read(line: &'static str) -> Option<Self> {
        let (head, content) = line.trim().split_once(": ")?;
        let (head, of) = match head.split_once('<') {
            Some((name, of)) => (name, of.trim_end_matches('>')),
            None => (head, "string"),
        };
        let mut words = content.split(' ');
        Some(Column {
            name: head.trim_end_matches('+'),
            of,
            wide: head.ends_with('+'),
            function: words.next()?,
            arguments: words.collect(),
        })
    }

    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        cells::cell(self.function, &self.arguments, object, now).unwrap_or_default()
    }
}

/// The columns of a kind; none where the file says nothing of it.
pub(super) fn of(group: &str, kind: &str) -> &'static [Column] {
    static ALL: LazyLock<BTreeMap<&str, Vec<Column>>> = LazyLock::new(read);
    ALL.get(format!("{group}/{kind}").as_str()).map(Vec::as_slice).unwrap_or_default()
}

fn read() -> BTreeMap<&'static str, Vec<Column>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut kind = "";
    for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(line) => all.entry(kind).or_default().extend(Column::read(line)),
            None => kind = line,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_column_of_the_file_is_readable_and_its_function_known() {
        let lines = TEXT.lines().filter(|line| line.starts_with("  ")).count();
        let all = read();
        assert_eq!(all.values().map(Vec::len).sum::<usize>(), lines);
        for (kind, columns) in &all {
            for column in columns {
                // Of an object that says nothing, which must not matter.
                let cell = cells::cell(column.function, &column.arguments, &json!({}), Timestamp::UNIX_EPOCH);
                assert!(cell.is_some(), "{kind} {}: {} is not known", column.name, column.function);
            }
        }
    }
}
