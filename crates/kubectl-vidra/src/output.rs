//! Where words go: lines to standard output, progress to standard error when a person looks.

use std::io::{ErrorKind, Write};

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

/// What a command waits for, with the time, on standard error; nothing where that is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// Shown until it is dropped.
    pub fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// What is waited for now.
    pub fn say(&self, what: &str) {
        self.0.set_message(crate::text::clean(what));
        self.0.tick();
    }

    /// A line that stays, on standard output.
    ///
    /// # Errors
    /// As the function above.
    pub fn print(&self, line: &str) -> Result<(), Failure> {
        self.0.suspend(|| print(&format!("{line}\n")))
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
