//! Tells what happens: one line for each thing, with the time since the demo's start.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Prints a line for each thing that happens.
pub struct Teller {
    began: Instant,
    bar: Mutex<Option<ProgressBar>>,
}

impl Teller {
    /// From now on.
    pub fn new() -> Self {
        Self { began: Instant::now(), bar: Mutex::default() }
    }

    /// How long the demo has been.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Something happened to someone.
    pub fn tell(&self, who: &str, what: &str) {
        let seconds = self.elapsed().as_secs_f64();
        self.plain(&format!("{seconds:8.3} s  {who:<8} {what}"));
    }

    /// A line as it is.
    pub fn plain(&self, line: &str) {
        match &*self.bar.lock() {
            Some(bar) if !bar.is_hidden() => bar.println(line),
            // Nobody may listen any more, as behind `| head`.
            _ => drop(writeln!(std::io::stdout(), "{line}")),
        }
    }

    /// Shows a bar on a terminal; elsewhere lines are enough.
    pub fn start_bar(&self, what: &str, length: u64) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::new(length);
        let style = ProgressStyle::with_template("{msg:>24} [{wide_bar}] {pos}/{len}  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_message(what.to_owned());
        *self.bar.lock() = Some(bar);
    }

    /// How far it is.
    pub fn advance(&self, to: u64) {
        if let Some(bar) = &*self.bar.lock() {
            bar.set_position(to);
        }
    }

    /// Takes the bar away.
    pub fn end_bar(&self) {
        if let Some(bar) = self.bar.lock().take() {
            bar.finish_and_clear();
        }
    }
}
