//! A pattern that an expression matches texts with: compiled once, small, and with what it costs.
//!
//! It is over bytes, and knows letters of ASCII only: what Unicode adds makes a class of 50 KiB out of `\w`, and lets a pattern
//! of some hundred characters take seconds to compile. RE2, whose syntax CEL names, has `\w`, `\d` and `\b` of ASCII as well.

use regex_automata::{
    meta::{Config, Regex},
    nfa::thompson::WhichCaptures,
    util::syntax,
};

use super::NESTING_MAX;

/// Most bytes that one takes when it is compiled, forward and backward each, and that a thread keeps that matches it, in KiB.
const SIZE_MAX: usize = 16;
/// How many bytes of a text one step reads, for each KiB of the pattern: each byte may concern all of it, for a tenth of a
/// microsecond a KiB.
const STEP: usize = 4;

#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// In KiB, rounded up to a power of two.
    size: usize,
}

impl Pattern {
    /// Compiles it; `None`: it is none, or too large.
    pub(super) fn compile(text: &str) -> Option<Pattern> {
        if asks_for_unicode(text) {
            return None;
        }
        let nesting = u32::try_from(NESTING_MAX).unwrap_or(0);
        // Other engines are faster, and keep a megabyte for a group, or 256 KiB for a long text.
        let config = Config::new()
            .hybrid_cache_capacity(SIZE_MAX * 1024)
            .onepass(false)
            .backtrack(false)
            .dfa(false)
            .which_captures(WhichCaptures::Implicit);
        let syntax = syntax::Config::new().unicode(false).utf8(false).nest_limit(nesting);
        let compile = |size: usize| {
            let config = config.clone().nfa_size_limit(Some(size * 1024));
            Regex::builder().configure(config).syntax(syntax).build(text).ok()
        };
        let mut sizes =
            std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|size| *size <= SIZE_MAX);
        sizes.find_map(|size| Some(Pattern { regex: compile(size)?, size }))
    }

    /// How many steps a text of this length in bytes takes.
    pub(super) fn steps(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.size) / STEP
    }

    /// In bytes, while it matches nothing.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.regex.memory_usage()
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }
}

/// One of its flags is `u`; or `x`, under which a flag may stand apart from its bracket.
fn asks_for_unicode(text: &str) -> bool {
    text.split("(?").skip(1).any(|rest| {
        let flags = rest.split(|c: char| !c.is_ascii_alphabetic() && c != '-').next().unwrap_or_default();
        rest.get(flags.len()..).is_some_and(|behind| behind.starts_with([':', ')']))
            && flags.contains(['u', 'x'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_a_group_is_as_small_as_one_without() {
        // One that an engine for groups would take a table of a megabyte for: 380 pieces, 95 classes of bytes.
        let class: String = (b' '..=b'~').map(|byte| format!("\\x{byte:02x}")).collect();
        for text in [format!("({class}a{{380}})"), format!("{class}a{{380}}"), "(a|b)+(c)".to_owned()] {
            let pattern = Pattern::compile(&text).expect("it is small enough");
            assert!(pattern.memory() <= 4 * SIZE_MAX * 1024, "{text}: {} bytes", pattern.memory());
        }
    }
}
