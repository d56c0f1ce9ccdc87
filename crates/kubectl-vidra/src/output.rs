//! Where words go: lines to standard output, progress to standard error when a person looks.

use std::{
    cell::RefCell,
    io::{ErrorKind, Write},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Failure;

/// Writes a text to standard output.
///
/// # Errors
/// [`Failure::Pipe`] when nobody reads any more.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Pipe,
        _ => Failure::Output(error),
    })
}

/// One line on standard error; where that is closed, nobody wants to know.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What a command does and waits for, on standard error: with the time where that is a terminal. Where it is none, one
/// line for what is waited for, and one more whenever that is something else.
pub struct Progress {
    bar: ProgressBar,
    /// What was waited for last.
    last: RefCell<String>,
}

impl Progress {
    /// Shown until it is dropped.
    pub fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, last: RefCell::default() }
    }

    /// What is done now: only for who looks.
    pub fn say(&self, what: &str) {
        self.bar.set_message(crate::text::clean(what));
        self.bar.tick();
    }

    /// What is waited for now, perhaps for minutes.
    pub fn wait_for(&self, what: &str) {
        let line = format!("waiting for {}", crate::text::clean(what));
        self.say(&line);
        let news = self.last.replace(line.clone()) != line;
        if news && self.bar.is_hidden() {
            complain(&line);
        }
    }

    /// A line that stays, on standard output.
    ///
    /// # Errors
    /// As the function above.
    pub fn print(&self, line: &str) -> Result<(), Failure> {
        self.bar.suspend(|| print(&format!("{line}\n")))
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
