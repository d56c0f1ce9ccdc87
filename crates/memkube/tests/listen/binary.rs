//! The program `memkube`: a thousand clusters in one process, ended by a signal or by its stdin.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

/// Starts it; gives its first line.
async fn start(arguments: &[&str]) -> Result<(Child, Value)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_memkube"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut line = String::new();
    let out = child.stdout.as_mut().context("its stdout")?;
    timeout(LONG, BufReader::new(out).read_line(&mut line)).await??;
    Ok((child, serde_json::from_str(&line)?))
}

#[tokio::test]
async fn a_thousand_clusters_are_served_by_one_process_until_a_signal() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config");
    let path = path.to_str().context("a path in text")?;
    for signal in [Signal::TERM, Signal::INT] {
        let (mut child, line) = start(&["--clusters", "1000", "--seed=3", "--kubeconfig", path]).await?;
        let clusters = line["clusters"].as_array().context("clusters")?;
        ensure!(clusters.len() == 1000 && line["kubeconfig"] == path, "{line}");
        let kubeconfig = Kubeconfig::read_from(path)?;
        ensure!(kubeconfig.contexts.len() == 1000);
        let last = KubeConfigOptions { context: Some("member-1000".to_owned()), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &last).await?;
        ensure!(config.cluster_url.to_string().starts_with(clusters[999]["url"].as_str().context("a url")?));
        let version = kube::Client::try_from(config)?.apiserver_version().await?;
        ensure!(version.minor == "36");
        let pid = line["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        kill_process(pid.context("a pid")?, signal)?;
        ensure!(timeout(LONG, child.wait()).await??.success());
    }
    Ok(())
}

#[tokio::test]
async fn the_end_of_its_stdin_ends_it_where_that_is_asked_for() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config");
    let path = path.to_str().context("a path in text")?;
    // A file that was not asked for goes again.
    for (more, stays) in [(vec!["--kubeconfig", path], true), (vec![], false)] {
        let arguments = [vec!["--names=a,b", "--until-stdin-closes"], more].concat();
        let (mut child, line) = start(&arguments).await?;
        ensure!(line["clusters"][1]["name"] == "b", "{line}");
        let written = Path::new(line["kubeconfig"].as_str().context("a kubeconfig")?);
        ensure!(written.exists());
        drop(child.stdin.take());
        ensure!(timeout(LONG, child.wait()).await??.success());
        ensure!(written.exists() == stays);
    }
    Ok(())
}

#[tokio::test]
async fn wrong_arguments_end_it_with_one_line_and_code_2() -> Result<()> {
    let table: [&[&str]; 7] = [
        &["--clusters", "x"],
        &["--clusters=0"],
        &["--clusters"],
        &["--names", "a,,b"],
        &["--names", "a,a"],
        &["--names=a", "--clusters=1"],
        &["--odd"],
    ];
    for arguments in table {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memkube"))
            .args(arguments)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut text = String::new();
        let done = async {
            child.stderr.take().context("its stderr")?.read_to_string(&mut text).await?;
            anyhow::Ok(child.wait().await?)
        };
        let code = timeout(LONG, done).await??.code();
        ensure!(code == Some(2) && text.lines().count() == 1, "{arguments:?}: {code:?} {text}");
    }
    Ok(())
}
