//! The hub's process: started, looked after, and ended even when this process is killed.

use std::{
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::run::{cargo_program, output, program, until};

/// Ends the process with this id when its standard input ends, so when this process does.
const WATCHDOG: &str = "trap '' INT TERM HUP; cat >/dev/null; kill \"$1\" 2>/dev/null";
/// Lines of the log that are shown when something went wrong.
const TAIL: usize = 20;

/// A running hub; it ends with this value, and with this process.
pub struct Hub {
    process: Child,
    watchdog: Child,
    /// While it is open the hub runs.
    lifeline: Option<ChildStdin>,
    log: PathBuf,
    address: SocketAddr,
}

/// Builds the hub and returns its binary. The debug profile: the demo waits for API servers, not for the hub,
/// and a release build takes minutes longer.
pub fn build() -> Result<PathBuf> {
    let mut build = cargo_program();
    build.args([
        "build",
        "--package",
        "vidra-hub",
        "--bin",
        "vidra-hub",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let messages = output(&mut build)?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let binary = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    binary.context("cargo built no vidra-hub")
}

impl Hub {
    /// Starts it as `vidra-hub` of a cluster, with its log in a file, and waits until it is ready.
    pub fn start(binary: &Path, kubeconfig: &str, log: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = program(binary);
        command.args([
            "--kubeconfig",
            kubeconfig,
            "--allow-loopback-members",
            "--listen",
            &address.to_string(),
        ]);
        println!("$ {}\n", crate::run::line(&command));
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let process =
            command.stdout(file.try_clone()?).stderr(file).spawn().context("cannot start the hub")?;
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh", &process.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start sh")?;
        let lifeline = watchdog.stdin.take();
        let mut hub = Self { process, watchdog, lifeline, log: log.to_owned(), address };
        until("the hub is ready", 60, || Ok(hub.is_ready()?.then_some(())))?;
        Ok(hub)
    }

    /// Where it serves its metrics.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fails when it has ended.
    pub fn is_running(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            Some(status) => bail!("the hub ended with {status}"),
            None => Ok(()),
        }
    }

    fn is_ready(&mut self) -> Result<bool> {
        self.is_running()?;
        let within = Duration::from_secs(2);
        let Ok(mut stream) = TcpStream::connect_timeout(&self.address, within) else { return Ok(false) };
        stream.set_read_timeout(Some(within))?;
        let mut answer = String::new();
        let asked = write!(stream, "GET /readyz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n");
        Ok(asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200"))
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // The watchdog asks the hub to end.
        drop(self.lifeline.take());
        let _ = self.watchdog.wait();
        let _ = self.process.wait();
    }
}
