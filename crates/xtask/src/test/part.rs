//! One part of the check: commands one after the other, with their output in a file.

use std::{
    ffi::OsStr,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::logs;
use crate::run::{line, start_watch, until};

type Work = Box<dyn FnOnce(&Log) -> Result<Tests> + Send>;

/// Longer than any part takes; what hangs ends then.
const LIMIT: u64 = 45 * 60;

/// One part of the check.
pub struct Part {
    name: String,
    work: Work,
    gentle: bool,
}

/// How many tests a part's programs said they ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tests {
    /// Those that held.
    pub passed: u64,
    /// Those that did not.
    pub failed: u64,
}

/// A part that has ended.
#[derive(Clone, Debug)]
pub struct Done {
    /// The part.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What it counted.
    pub tests: Tests,
    /// Where its output is.
    pub log: PathBuf,
}

impl Part {
    /// A part by name; the work writes into the part's log, and says which tests it ran.
    pub fn new(name: &str, work: impl FnOnce(&Log) -> Result<Tests> + Send + 'static) -> Self {
        Self { name: name.to_owned(), work: Box::new(work), gentle: false }
    }

    /// The same, leaving the cores to others that have deadlines.
    pub fn gently(self) -> Self {
        Self { gentle: true, ..self }
    }

    /// A part that is one command.
    pub fn command(name: &str, command: Command) -> Self {
        Self::new(name, move |log| log.succeed(&command).map(|()| log.tests()))
    }

    /// Runs it to its end.
    pub fn perform(self) -> Done {
        let began = start_watch();
        let file: String =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let log = Log { path: logs().join(format!("{file}.log")), gentle: self.gentle };
        println!("begins            {}", self.name);
        let ended = File::create(&log.path).context("cannot write the log").and_then(|_| (self.work)(&log));
        let (tests, error) = match ended {
            Ok(tests) => (tests, None),
            // What fails without a test's name counts for one.
            Err(error) => {
                let counted = log.tests();
                (Tests { failed: counted.failed.max(1), ..counted }, Some(format!("{error:#}")))
            }
        };
        let (took, word) = (began.elapsed(), if error.is_some() { "FAILED" } else { "ok" });
        let count = if tests.passed > 0 { format!(", {} tests", tests.passed) } else { String::new() };
        println!("{word:<6} {:>7.1} s  {}{count}", took.as_secs_f64(), self.name);
        Done { name: self.name, took, error, tests, log: log.path }
    }
}

/// A part's output.
pub struct Log {
    path: PathBuf,
    gentle: bool,
}

impl Log {
    /// The command as it is to be started, with its output in the log.
    fn attached(&self, command: &Command) -> Result<Command> {
        let mut file = File::options().append(true).open(&self.path)?;
        writeln!(file, "$ {}", line(command))?;
        let mut command =
            if self.gentle { gentle(command) } else { same(command, command.get_program(), &[]) };
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(command)
    }

    /// What was written so far.
    pub fn text(&self) -> String {
        text_of(&self.path)
    }

    /// The tests that programs have told of so far.
    pub fn tests(&self) -> Tests {
        counted(&self.text())
    }

    /// Runs a program to its end, which must be a good one.
    pub fn succeed(&self, command: &Command) -> Result<()> {
        self.good_end(self.attached(command)?)
    }

    /// The same; what it says, but for its complaints, goes into a file of its own.
    pub fn succeed_into(&self, command: &Command, file: File) -> Result<()> {
        let mut command = self.attached(command)?;
        command.stdout(file);
        self.good_end(command)
    }

    fn good_end(&self, command: Command) -> Result<()> {
        match end_within(command, LIMIT)? {
            (line, None) => bail!("{line} still ran after {LIMIT} s"),
            (line, Some(status)) if !status.success() => bail!("{line} failed ({status})"),
            _ => Ok(()),
        }
    }

    /// Runs a program, for so many seconds at most; `None`: it was ended then.
    pub fn end_within(&self, command: &Command, seconds: u64) -> Result<Option<ExitStatus>> {
        Ok(end_within(self.attached(command)?, seconds)?.1)
    }
}

/// The command as one would type it, and how it ended.
fn end_within(mut command: Command, seconds: u64) -> Result<(String, Option<ExitStatus>)> {
    let line = line(&command);
    let mut child = command.spawn().with_context(|| format!("cannot start {line}"))?;
    let ended = until("it ends", seconds, || Ok(child.try_wait()?));
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    Ok((line, ended.ok()))
}

/// A log, whatever bytes a program has put into it.
pub fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// What of a log may say why the part failed: not what was built, nor the tests that held.
pub fn telling(log: &str) -> String {
    let steps = ["Compiling ", "Checking ", "Downloaded ", "Downloading "];
    let is_step = |line: &str| steps.iter().any(|step| line.trim_start().starts_with(step));
    let is_good = |line: &str| line.starts_with("test ") && line.ends_with(" ... ok");
    log.lines().filter(|line| !is_step(line) && !is_good(line)).map(|line| format!("{line}\n")).collect()
}

/// The same command at the lowest priority.
fn gentle(command: &Command) -> Command {
    same(command, "nice".as_ref(), &["-n".as_ref(), "19".as_ref(), command.get_program()])
}

/// What a command does, begun by this program with these words before its own.
fn same(command: &Command, program: &OsStr, first: &[&OsStr]) -> Command {
    let mut same = Command::new(program);
    same.args(first).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        same.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => same.env(name, value),
            None => same.env_remove(name),
        };
    }
    same
}

/// What the test programs in a log say at their end.
fn counted(log: &str) -> Tests {
    let number = |line: &str, word: &str| {
        let before = line.split(word).next().and_then(|text| text.split(' ').next_back());
        before.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let results = log.lines().filter(|line| line.starts_with("test result: "));
    results.fold(Tests::default(), |sum, line| Tests {
        passed: sum.passed + number(line, " passed"),
        failed: sum.failed + number(line, " failed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_the_steps_that_went_well_tell_nothing() {
        let log = "$ cargo clippy\n   Compiling syn v3\n    Checking tracing v1\nerror: no space left\n\
            test one ... ok\ntest two ... FAILED\ntest result: FAILED. 1 passed";
        let told =
            "$ cargo clippy\nerror: no space left\ntest two ... FAILED\ntest result: FAILED. 1 passed\n";
        assert_eq!(telling(log), told);
    }

    #[test]
    fn what_test_programs_say_is_added_up() {
        let log = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured\nnoise 3 passed\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured";
        assert_eq!(counted(log), Tests { passed: 14, failed: 1 });
    }
}
