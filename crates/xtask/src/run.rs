//! Starting programs in the repository's root, and waiting for what becomes true.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// How often a condition is looked at while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap_or_else(|_| ".".into())
}

/// A program that runs in the root and reads nothing.
pub fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that started this, or the one on the path.
pub fn cargo_program() -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // These speak of xtask itself; left in place they would make cargo build again what has not changed.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(name);
        }
    }
    command
}

/// Runs cargo; what it writes is seen.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    succeed(cargo_program().args(arguments))
}

/// Runs a program to its end; what it writes is seen.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Runs a program to its end for its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        bail!("{} failed ({})", line(command), output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Is there such a program on the path?
pub fn is_there(name: &str) -> bool {
    Command::new(name)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// How long something takes.
#[expect(clippy::disallowed_methods, reason = "a chore runs in real time; the hub's Clock is not here")]
pub fn start_watch() -> Instant {
    Instant::now()
}

/// Looks until something is there, or `seconds` have passed.
pub fn until<T>(what: &str, seconds: u64, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = start_watch();
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if began.elapsed() >= Duration::from_secs(seconds) {
            bail!("waited {seconds} s, and it did not come about that {what}");
        }
        sleep(LOOK_EVERY);
    }
}
