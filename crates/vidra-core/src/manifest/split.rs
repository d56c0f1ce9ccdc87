//! Where one document of a manifest ends and the next begins, by kubectl's rule and not by YAML's: a line
//! that starts with `---` separates, wherever it stands (k8s.io/apimachinery, pkg/util/yaml, YAMLReader).

/// One document of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    /// The number of the document, 1 for the first.
    pub(super) document: usize,
    /// The line of the whole text that `text` starts on, 1 for the first.
    pub(super) line: usize,
    /// The document, without its separator. It may be empty or hold comments only.
    pub(super) text: &'a str,
}

/// A line that starts with `---` and goes on: kubectl refuses it, and YAML would read a document there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadSeparator {
    /// The document that the line would begin.
    pub(super) document: usize,
    /// The line of the whole text.
    pub(super) line: usize,
}

/// Cuts a text into its documents. What stands before a first separator counts as a document only if it
/// holds more than comments: people number the documents that they see, and a licence header is none.
pub(super) fn split(text: &str) -> Result<Vec<Chunk<'_>>, BadSeparator> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut chunks = Vec::new();
    let (mut document, mut start, mut start_line) = (1, 0, 1);
    let (mut offset, mut separated) = (0, false);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let next = offset + line.len();
        if let Some(rest) = line.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(BadSeparator { document, line: index + 1 });
            }
            let before = text.get(start..offset).unwrap_or_default();
            if separated || !is_blank(before) {
                chunks.push(Chunk { document, line: start_line, text: before });
                document += 1;
            }
            (start, start_line, separated) = (next, index + 2, true);
        }
        offset = next;
    }
    let last = text.get(start..).unwrap_or_default();
    chunks.push(Chunk { document, line: start_line, text: last });
    Ok(chunks)
}

/// Whether there is nothing but white space and comments in it.
pub(super) fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#')
    })
}

/// The line, from 1, of a `...` with nothing but white space and comments before it: go-yaml refuses that.
pub(super) fn ends_before_it_begins(text: &str) -> Option<usize> {
    let (index, line) = text.lines().enumerate().find(|(_, line)| !is_blank(line))?;
    let rest = line.strip_prefix("...")?;
    rest.chars().next().is_none_or(char::is_whitespace).then_some(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(text: &str) -> Vec<(usize, usize, &str)> {
        split(text).unwrap().into_iter().map(|c| (c.document, c.line, c.text)).collect()
    }

    #[test]
    fn documents_are_numbered_as_a_reader_counts_them() {
        assert_eq!(documents("a: 1\n---\nb: 2\n"), [(1, 1, "a: 1\n"), (2, 3, "b: 2\n")]);
        assert_eq!(documents("---\na: 1\n"), [(1, 2, "a: 1\n")]);
        assert_eq!(documents("# licence\n\n---\na: 1"), [(1, 4, "a: 1")]);
        assert_eq!(documents("---\n---\nb: 2"), [(1, 2, ""), (2, 3, "b: 2")]);
        assert_eq!(documents("a: 1\n---\n# nothing\n---\nc: 3").last(), Some(&(3, 5, "c: 3")));
        assert_eq!(documents("a: 1\r\n---\r\nb: 2\r\n"), [(1, 1, "a: 1\r\n"), (2, 3, "b: 2\r\n")]);
        assert_eq!(documents(""), [(1, 1, "")]);
        assert_eq!(documents("\u{feff}---\na: 1"), [(1, 2, "a: 1")]);
    }

    #[test]
    fn a_separator_may_bear_a_comment_and_nothing_else() {
        assert_eq!(documents("a: 1\n--- # next\nb: 2").len(), 2);
        assert_eq!(documents("a: |\n  ---\n  text\n").len(), 1);
        assert_eq!(split("a: 1\n--- b: 2\n"), Err(BadSeparator { document: 1, line: 2 }));
        assert_eq!(split("a: |\n-----BEGIN CERTIFICATE-----\n"), Err(BadSeparator { document: 1, line: 2 }));
    }
}
