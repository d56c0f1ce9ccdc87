//! Expressions of health rules and of status feedback: CEL over one live object, read once and evaluated with counted bounds.
//!
//! A parser and a walk of our own, and not those of the crate `cel`, which overrides use: that parser needs some 190 KB
//! of stack for a bracket, tells no column of what it has read, and its interpreter counts nothing, while `map` in a
//! chain doubles what it makes each time. Here depth is bounded while the text is read, and each step, each item of a
//! loop and each byte that is made is counted, never timed: a verdict is a function of the object.

mod cost;
mod evaluation;
mod functions;
mod lexer;
mod output;
mod parser;
mod pattern;
mod time;
mod tree;
mod value;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value as Json;

use evaluation::Evaluation;
pub(crate) use output::{Output, TOO_LARGE};
pub(crate) use parser::PATTERNS_MAX;
use tree::Node;
use value::Value;
pub(crate) use view::View;

use crate::unseen::shown;

/// Longest text of an expression, in characters.
const TEXT_MAX: usize = 1024;
/// Most characters that say what is wrong with one.
const WHAT_MAX: usize = 512;
/// Most brackets within brackets.
const NESTING_MAX: usize = 10;
/// Deepest tree, and with it the depth of every recursion here.
const DEPTH_MAX: usize = 32;
/// Most items that one loop goes over.
const ITEMS_MAX: usize = 1024;
/// Most steps of one evaluation: nodes of the tree, and 64 bytes of a text or one value of a comparison; and for each KiB of a
/// pattern 4 bytes of what it reads.
const STEPS_MAX: usize = 10_000;
/// Most bytes that one evaluation makes: texts, and items of lists and maps.
const BYTES_MAX: usize = 256 * 1024;
/// All evaluations over one [`View`] may take this many times what one may: an object that changes a hundred times a second,
/// with twenty costly expressions about it, would take a core otherwise.
const FULL_EVALUATIONS: usize = 2;

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The place in the text, in characters; 0 is the first.
    at: usize,
    /// What is wrong, and what to write.
    what: String,
}

impl Fault {
    fn new(at: usize, what: impl Into<String>) -> Fault {
        Fault { at, what: what.into() }
    }

    /// "column 7: ..."; with the line where the text has several.
    pub(crate) fn describe(&self, text: &str) -> String {
        let before: Vec<char> = text.chars().take(self.at).collect();
        let line = before.iter().filter(|c| **c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
        // It may repeat a name of the text.
        let what = shown(&self.what, WHAT_MAX);
        match text.contains('\n') {
            true => format!("line {line}, column {column}: {what}"),
            false => format!("column {column}: {what}"),
        }
    }
}

/// Why an evaluation gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A field is missing, or values do not fit: the expression is not true, and neither is its opposite.
    Undefined(String),
    /// A bound was reached; what it would have given is not known.
    Costly(&'static str),
}

/// The path of a field, from its root: `status`, `phase`.
pub(super) type Path = Vec<String>;

/// One expression, read and checked.
#[derive(Debug)]
pub(crate) struct Expression {
    tree: Node,
    paths: BTreeSet<Path>,
}

impl Expression {
    /// Reads and checks a text.
    pub(crate) fn compile(text: &str) -> Result<Expression, Fault> {
        let tree = parser::parse(text)?;
        let mut paths = BTreeSet::new();
        tree.paths(&mut paths);
        Ok(Expression { tree, paths })
    }

    /// The fields that it names, from their roots; what is below an index or in a loop's items is told by the list.
    pub(super) fn paths(&self) -> &BTreeSet<Path> {
        &self.paths
    }

    /// How many patterns it has.
    pub(crate) fn patterns(&self) -> usize {
        self.tree.patterns()
    }

    /// Whether it is true of an object. What is no bool is [`Stop::Undefined`].
    pub(super) fn truth(&self, view: &View<'_>) -> Result<bool, Stop> {
        match self.value(view)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(Stop::Undefined(format!("it gives {}, not true or false", other.name()))),
        }
    }

    /// The text that it gives.
    pub(super) fn text(&self, view: &View<'_>) -> Result<String, Stop> {
        match self.value(view)? {
            Value::Text(text) => Ok(text.to_string()),
            other => Err(Stop::Undefined(format!("it gives {}, not a text", other.name()))),
        }
    }

    /// What it gives, to be shown: at most that many bytes, with lists and maps at most that deep.
    pub(crate) fn output(&self, view: &View<'_>, bytes: usize, depth: usize) -> Result<Output, Stop> {
        Ok(Output::of(&self.value(view)?, bytes, depth))
    }

    fn value<'a>(&'a self, view: &'a View<'_>) -> Result<Value<'a>, Stop> {
        Evaluation::new(view).run(&self.tree)
    }
}

/// What stands at a path of an object; null counts as nothing.
pub(super) fn field<'a>(live: &'a Json, path: &Path) -> Option<&'a Json> {
    path.iter().try_fold(live, |at, name| at.get(name)).filter(|value| !value.is_null())
}
