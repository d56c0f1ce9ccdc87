//! Texts that somebody has meddled with, for the tests of what reads them: a byte too much, a part said twice, the rest
//! cut off.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

/// Words and signs that mean something in YAML.
pub(crate) const YAML: &[&str] = &[
    "\n",
    "\n  ",
    " ",
    "\t",
    "- ",
    ": ",
    ":",
    ",",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "#",
    "|",
    ">-\n",
    "|+2\n",
    "&a ",
    "*a",
    "*b",
    "!!str ",
    "!!binary ",
    "!!int ",
    "!x ",
    "<<: *a\n",
    "<<: [*a, *b]\n",
    "\"<<\": ",
    "? ",
    "---\n",
    "--- #\n",
    "--- x\n",
    "...\n",
    "%YAML 1.2\n",
    "null",
    "~",
    "0x1F",
    "1e400",
    "-0",
    "1_0",
    "yEs",
    ".inf",
    "\\",
    "\\u0041",
    "\\\n",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\r",
    "\0",
    "/",
    "😀",
    "<<: ",
    "...",
    "true",
    "7",
    "é",
];

/// One thing that is done to a text.
#[derive(Clone, Debug)]
enum Edit {
    /// Puts this in.
    Insert(Index, &'static str),
    /// Takes so many characters out.
    Remove(Index, usize),
    /// Says so many characters twice.
    Repeat(Index, usize),
    /// Leaves out all that follows.
    Cut(Index),
}

impl Edit {
    fn of(&self, text: &str) -> String {
        let letters: Vec<char> = text.chars().collect();
        let place = |index: &Index| index.index(letters.len() + 1);
        let end = |from: usize, count: usize| letters.len().min(from + count);
        let span = |from: usize, to: usize| letters[from..to].iter().collect::<String>();
        match self {
            Self::Insert(at, piece) => {
                let at = place(at);
                span(0, at) + piece + &span(at, letters.len())
            }
            Self::Remove(at, count) => {
                let at = place(at);
                span(0, at) + &span(end(at, *count), letters.len())
            }
            Self::Repeat(at, count) => {
                let at = place(at);
                span(0, end(at, *count)) + &span(at, letters.len())
            }
            Self::Cut(at) => span(0, place(at)),
        }
    }
}

/// Such a text after at most `most` edits. What is put in are these pieces: words and signs that mean something to who
/// reads it, for nothing else leads far into a parser.
pub(crate) fn meddled(
    text: impl Strategy<Value = String>,
    pieces: &[&[&'static str]],
    most: usize,
) -> impl Strategy<Value = String> {
    let edit = prop_oneof![
        6 => (any::<Index>(), select(pieces.concat())).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        2 => (any::<Index>(), 1..6usize).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => (any::<Index>(), 1..20usize).prop_map(|(at, count)| Edit::Repeat(at, count)),
        1 => any::<Index>().prop_map(Edit::Cut),
    ];
    (text, vec(edit, 0..=most)).prop_map(|(text, edits)| edits.iter().fold(text, |text, edit| edit.of(&text)))
}
