//! The words of an expression, each with its place.

use super::{Fault, TEXT_MAX};

/// One word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// A name, and the words that CEL keeps for itself.
    Name(String),
    Int(i64),
    Double(f64),
    Text(String),
    /// Brackets, operators, commas.
    Sign(&'static str),
    End,
}

/// Longer ones first, so that `<=` is not `<`.
const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-", "*", "/",
    "%", "<", ">", "!", "=",
];

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

/// All words of a text, and an end.
pub(super) fn words(text: &str) -> Result<Vec<(usize, Word)>, Fault> {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() > TEXT_MAX {
        let what = format!("the expression is longer than {TEXT_MAX} characters; make it shorter");
        return Err(Fault::new(TEXT_MAX, what));
    }
    let mut lexer = Lexer { chars, at: 0 };
    let mut words = Vec::new();
    loop {
        lexer.skip();
        let at = lexer.at;
        let word = lexer.word()?;
        let ends = word == Word::End;
        words.push((at, word));
        if ends {
            return Ok(words);
        }
    }
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn starts(&self, with: &str) -> bool {
        with.chars().enumerate().all(|(nth, c)| self.peek(nth) == c)
    }

    fn take(&mut self, while_: impl Fn(char) -> bool) -> String {
        let from = self.at;
        while self.at < self.chars.len() && while_(self.peek(0)) {
            self.at += 1;
        }
        self.chars.get(from..self.at).unwrap_or_default().iter().collect()
    }

    /// White space and comments.
    fn skip(&mut self) {
        loop {
            self.take(char::is_whitespace);
            if !self.starts("//") {
                return;
            }
            self.take(|c| c != '\n');
        }
    }

    fn word(&mut self) -> Result<Word, Fault> {
        let at = self.at;
        let c = self.peek(0);
        if at >= self.chars.len() {
            return Ok(Word::End);
        }
        if c == '"' || c == '\'' {
            return self.text(false);
        }
        if matches!(c, 'r' | 'R') && matches!(self.peek(1), '"' | '\'') {
            self.at += 1;
            return self.text(true);
        }
        if matches!(c, 'b' | 'B') && matches!(self.peek(1), '"' | '\'') {
            return Err(Fault::new(at, "bytes have no use here; write a text, without the b"));
        }
        if c.is_ascii_alphabetic() || c == '_' {
            return Ok(Word::Name(self.take(|c| c.is_ascii_alphanumeric() || c == '_')));
        }
        if c == '`' {
            self.at += 1;
            let name = self.take(|c| c != '`');
            self.at += 1;
            return Ok(Word::Name(name));
        }
        if c.is_ascii_digit() || c == '.' && self.peek(1).is_ascii_digit() {
            return self.number();
        }
        let Some(sign) = SIGNS.iter().find(|sign| self.starts(sign)) else {
            return Err(Fault::new(at, format!("{c:?} means nothing here; put texts in quotes")));
        };
        self.at += sign.len();
        match *sign {
            "=" => Err(Fault::new(at, "= assigns nothing here; compare with ==")),
            sign => Ok(Word::Sign(sign)),
        }
    }

    fn number(&mut self) -> Result<Word, Fault> {
        let at = self.at;
        let is_hex = self.starts("0x");
        let mut number = match is_hex {
            true => {
                self.at += 2;
                self.take(|c| c.is_ascii_hexdigit())
            }
            false => self.take(|c| c.is_ascii_digit()),
        };
        let mut is_whole = true;
        if !is_hex && self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
            self.at += 1;
            number = format!("{number}.{}", self.take(|c| c.is_ascii_digit()));
            is_whole = false;
        }
        if !is_hex && matches!(self.peek(0), 'e' | 'E') {
            self.at += 1;
            let sign = self.take(|c| matches!(c, '+' | '-'));
            number = format!("{number}e{sign}{}", self.take(|c| c.is_ascii_digit()));
            is_whole = false;
        }
        // Numbers without a sign are numbers.
        if is_whole && matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
        }
        let unfit = |_| Fault::new(at, "this is no number, or too large a one; write it as 10 or 1.5");
        if self.peek(0).is_ascii_alphanumeric() {
            return Err(unfit(()));
        }
        match is_whole {
            true => i64::from_str_radix(&number, if is_hex { 16 } else { 10 })
                .map(Word::Int)
                .map_err(|_| unfit(())),
            false => number.parse().map(Word::Double).map_err(|_| unfit(())),
        }
    }

    /// A text between one or three quotes.
    fn text(&mut self, is_raw: bool) -> Result<Word, Fault> {
        let at = self.at;
        let quote = self.peek(0);
        let quotes = if self.peek(1) == quote && self.peek(2) == quote { 3 } else { 1 };
        self.at += quotes;
        let mut text = String::new();
        loop {
            if self.at >= self.chars.len() {
                return Err(Fault::new(
                    at,
                    format!("the text that begins here does not end; end it with {quote}"),
                ));
            }
            if (0..quotes).all(|nth| self.peek(nth) == quote) {
                self.at += quotes;
                return Ok(Word::Text(text));
            }
            let c = self.peek(0);
            self.at += 1;
            match c == '\\' && !is_raw {
                true => text.push(self.escape()?),
                false => text.push(c),
            }
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Result<char, Fault> {
        let at = self.at;
        let c = self.peek(0);
        self.at += 1;
        let digits = match c {
            'n' => return Ok('\n'),
            't' => return Ok('\t'),
            'r' => return Ok('\r'),
            'a' => return Ok('\u{7}'),
            'b' => return Ok('\u{8}'),
            'f' => return Ok('\u{c}'),
            'v' => return Ok('\u{b}'),
            '\\' | '\'' | '"' | '`' | '?' => return Ok(c),
            'x' | 'X' => 2,
            'u' => 4,
            'U' => 8,
            '0'..='3' => {
                self.at -= 1;
                3
            }
            _ => 0,
        };
        let number: String = (0..digits).map(|nth| self.peek(nth)).collect();
        self.at += digits;
        let radix = if c.is_ascii_digit() { 8 } else { 16 };
        let code = u32::from_str_radix(&number, radix).ok().and_then(char::from_u32);
        code.ok_or_else(|| {
            Fault::new(at, "no character is written so; write \\\\ for a backslash, or r'...'")
        })
    }
}
