//! Words that an operator never reads: the documents, the help texts, the messages and the CRDs use the field's own words.

use std::path::Path;

use super::{files, is_test, read, relative, without_tests};

/// A word, or words that follow each other, and what to write instead.
const INSTEAD: &[(&str, &str)] = &[
    ("a person's word", "manual approval"),
    ("anew", "again"),
    ("fight", "contention"),
    ("fighting", "in contention"),
    ("fights", "contention"),
    ("fought", "in contention"),
    ("healed", "corrected"),
    ("heed", "honour"),
    ("heeded", "honoured"),
    ("heeds", "honours"),
    ("is borne", "is within your SLO"),
    ("it is so", "what it is: say it"),
    ("let go", "release, orphan, forget"),
    ("let it go", "release it, orphan it"),
    ("lets go", "releases, orphans"),
    ("lets it go", "releases it, orphans it"),
    ("letting go", "releasing, orphaning"),
    ("mend", "fix"),
    ("mended", "fixed, corrected"),
    ("mending", "fixing, correcting"),
    ("mends", "fixes, corrects"),
];

/// The words of a text, each with the number of its line. What keeps words from following each other is an empty one.
fn words(text: &str) -> Vec<(String, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'');
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let end = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let (word, behind) = rest.split_at(end);
            let is_file = behind.starts_with(".rs");
            match first {
                _ if is_word(first) && !is_file => all.push((word.to_lowercase(), number + 1)),
                // Markdown's emphasis.
                _ if first.is_whitespace() || first == '*' => {}
                _ => all.push((String::new(), number + 1)),
            }
            rest = behind;
        }
    }
    all
}

/// What of a text is to be written otherwise: the number of the line, the word, and what to write.
fn found(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let words = words(text);
    let mut all = Vec::new();
    for (word, instead) in INSTEAD {
        let parts: Vec<_> = word.split(' ').collect();
        for place in words.windows(parts.len()) {
            if place.iter().map(|(word, _)| word).eq(&parts) {
                all.push((place[0].1, *word, *instead));
            }
        }
    }
    all
}

/// What keeps its lines and shows nothing else.
fn blank(text: &str) -> String {
    // Words on both sides of it do not follow each other.
    format!("|{}", "\n".repeat(text.matches('\n').count()))
}

/// A page without its code, which may name what has such a name.
fn prose(page: &str) -> String {
    let parts = page.split('`').enumerate();
    parts.map(|(nth, part)| if nth % 2 == 0 { part.to_owned() } else { blank(part) }).collect()
}

/// How long the character is that a source begins with, if it is between quotes; a lifetime has only one.
fn character(source: &str) -> Option<usize> {
    let inner = source.strip_prefix('\'')?;
    match inner.strip_prefix('\\') {
        // The one behind the backslash may be a quote.
        Some(escaped) => Some(3 + escaped.get(1..)?.find('\'')? + 1),
        None => {
            let end = inner.chars().next()?.len_utf8();
            inner[end..].starts_with('\'').then_some(end + 2)
        }
    }
}

/// Where the text of the string begins and ends that a source begins with.
fn string(source: &str) -> Option<(usize, usize)> {
    if let Some(raw) = source.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let start = hashes + 2;
        let inner = raw[hashes..].strip_prefix('"')?;
        return Some((start, start + inner.find(&format!("\"{}", "#".repeat(hashes)))?));
    }
    let inner = source.strip_prefix('"')?;
    let mut is_escaped = false;
    let ends = |c: char| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    };
    Some((1, 1 + inner.find(ends)?))
}

/// The strings of a source, without what is filled in, in their lines.
fn strings(source: &str) -> String {
    let (mut all, mut rest, mut is_inside_word) = (String::new(), without_tests(source), false);
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            character(rest).unwrap_or(first.len_utf8())
        };
        let text = string(rest).filter(|_| first == '"' || !is_inside_word);
        let end = match text {
            Some((start, end)) => {
                all.push_str(&filled(&rest[start..end]));
                // A raw string's hashes are read as code.
                end + 1
            }
            None => skipped,
        };
        if text.is_none() {
            all.push_str(&blank(&rest[..end]));
        }
        is_inside_word = first.is_alphanumeric() || first == '_';
        rest = &rest[end..];
    }
    all
}

/// A format without its arguments, and without the backslashes at the ends of its lines.
fn filled(format: &str) -> String {
    let text = format.replace("\\\n", "\n").replace("\\n", " ");
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| match part.split_once('}') {
        Some((argument, behind)) => all + &blank(argument) + behind,
        None => all + "|" + part,
    })
}

/// The documentation of a source that clap shows as help.
fn help(source: &str) -> String {
    let shown = |line: &str| line.trim_start().strip_prefix("///").map_or("|", str::trim).to_owned();
    source.lines().map(shown).collect::<Vec<_>>().join("\n")
}

/// What of a file an operator reads; all of it, with the lines where they are.
fn shown(path: &Path) -> Vec<String> {
    let place = relative(path);
    let below = |folders: &[&str]| folders.iter().any(|folder| place.starts_with(folder));
    let kind = place.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    let pages = [
        "docs/guides",
        "docs/concepts",
        "docs/reference",
        "docs/testing.md",
        "docs/simulation.md",
        "docs/benches.md",
        "README.md",
        "CONTRIBUTING.md",
    ];
    let messages = ["src", "crates/vidra-api/src", "crates/vidra-core/src", "crates/kubectl-vidra/src"];
    match kind {
        "md" if below(&pages) => vec![prose(&read(path))],
        "yaml" if below(&["crds"]) => vec![read(path)],
        "rs" if below(&messages) && !is_test(path) => {
            let source = read(path);
            let help = source.contains("clap::").then(|| help(&source));
            [strings(&source)].into_iter().chain(help).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn operators_read_the_words_of_the_field() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in ["*.md", "*.yaml", "*.rs"].into_iter().flat_map(files) {
        for text in shown(&path) {
            seen += 1;
            let place = relative(&path).display();
            let says = |(line, word, instead)| format!("{place}:{line}: \"{word}\"; write: {instead}");
            wrong.extend(found(&text).into_iter().map(says));
        }
    }
    assert!(seen > 150, "pages, messages and CRDs were read: {seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_word_is_found_in_prose_and_in_messages_wherever_a_line_ends_and_not_in_names() {
    let rows = [
        (
            prose("Mend it.\nNobody is *let\ngo*, `let go`, lets-go or let: go"),
            vec![(1, "mend"), (2, "let go")],
        ),
        (prose("```\nmend\n```\nIt is so. fights.rs has it; is it? So"), vec![(4, "it is so")]),
        (
            strings("let mend = 'm'; // \"mend\"\nsay(\"a{mend} \\\"\\\n    anew\", '\"', 'a)"),
            vec![(3, "anew")],
        ),
        (strings("for r in r#\"mend \"it\"#\n\"heeded\""), vec![(1, "mend"), (2, "heeded")]),
        (strings("\"\"\n#[cfg(test)]\nmod tests { \"mend\" }"), vec![]),
        (help("let mend = 1;\n    /// Do it anew.\n// mend"), vec![(2, "anew")]),
    ];
    for (text, expected) in rows {
        let mut all: Vec<_> = found(&text).into_iter().map(|(line, word, _)| (line, word)).collect();
        all.sort_unstable();
        assert_eq!(all, expected, "{text:?}");
    }
}
