//! The hub as a process of its own, so that its CPU time and its memory are its own.

use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
};

use super::machine::{field, leading};
use crate::{
    testbed::cpu_seconds,
    world::{LONG, wait_for},
};

/// A running hub; killed when dropped.
pub struct HubProcess {
    child: Child,
    pid: u32,
    address: std::net::SocketAddr,
    log: PathBuf,
}

impl HubProcess {
    /// Starts the binary as the hub of this kubeconfig's cluster, and waits until it is ready.
    pub async fn start(binary: &Path, kubeconfig: &Path, log: &Path) -> Result<Self> {
        Self::start_as("", binary, kubeconfig, log).await
    }

    /// The same, with the Lease under this name; an empty one is none.
    pub async fn start_as(holder: &str, binary: &Path, kubeconfig: &Path, log: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let file = File::create(log).with_context(|| format!("writing {}", log.display()))?;
        let child = Command::new(binary)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--allow-loopback-members", "--listen", &address.to_string()])
            .env("VIDRA_HOLDER", holder)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}; cargo xtask bench builds it", binary.display()))?;
        let pid = child.id().context("the hub ended at once")?;
        let hub = Self { child, pid, address, log: log.to_owned() };
        wait_for("the hub is ready", LONG, async || {
            hub.get("/readyz").await.map(|_| ()).map_err(|error| format!("{error:#}"))
        })
        .await;
        Ok(hub)
    }

    /// It has not ended.
    pub fn is_running(&self) -> bool {
        // The state follows the command's name; Z: it has ended and nobody has asked how.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
    }

    /// CPU seconds that it has used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.pid)
    }

    /// Bytes of memory that it holds now, and the most that it held.
    pub fn resident_bytes(&self) -> Result<(u64, u64)> {
        resident_bytes(self.pid)
    }

    /// A value of its metrics, by name and labels as they are written.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.get("/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0))
    }

    /// The sum of a family of its metrics, by how their names and labels begin.
    pub async fn metrics(&self, prefix: &str) -> Result<f64> {
        let text = self.get("/metrics").await?;
        let values = text.lines().filter(|line| line.starts_with(prefix));
        Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(mut self) -> Result<()> {
        self.end().await
    }

    /// The same, of one that is to be replaced.
    pub async fn end(&mut self) -> Result<()> {
        let status = Command::new("kill").arg(self.pid.to_string()).status().await?;
        if !status.success() {
            bail!("the hub had ended before; its log is {}", self.log.display());
        }
        self.child.wait().await?;
        Ok(())
    }

    /// Kills it, as the loss of its node does, and waits until it is gone.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.with_context(|| format!("killing the hub; its log is {}", self.log.display()))
    }

    async fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
            _ => bail!("{path} answered {:?}", answer.lines().next().unwrap_or_default()),
        }
    }
}

/// Bytes of memory that a process holds now, and the most that it held.
pub fn resident_bytes(pid: u32) -> Result<(u64, u64)> {
    let status = format!("/proc/{pid}/status");
    let kib = |name: &str| field(&status, name).and_then(|text| leading(&text)).context("odd status");
    Ok((kib("VmRSS")? * 1024, kib("VmHWM")? * 1024))
}
