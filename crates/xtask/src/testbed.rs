//! The testbed (tests/testbed): built, started, and its own report read.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::{output, program, root};

/// Builds the binary unless that was done before (minutes the first time), and returns its path.
pub fn binary() -> Result<PathBuf> {
    output(&mut build(None)).map(PathBuf::from)
}

/// What builds it and prints its path: of the newest release of Kubernetes, or of an older one, 1.35 for example.
pub fn build(release: Option<&str>) -> Command {
    let mut command = program("bash");
    command.arg("tests/testbed/build.sh").args(release);
    command
}

/// The older releases of Kubernetes that it can be built of, the newest of them first.
pub fn older_releases() -> Result<Vec<String>> {
    let directory = root().join("tests/testbed/releases");
    let entries =
        std::fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut releases = Vec::new();
    for entry in entries {
        releases.push(entry?.file_name().to_string_lossy().into_owned());
    }
    releases.sort_by_key(|release| std::cmp::Reverse(minor(release)));
    Ok(releases)
}

/// The second number of a release.
fn minor(release: &str) -> Option<u32> {
    release.split('.').nth(1)?.parse().ok()
}

/// A running testbed; it ends with this value, and with this process.
pub struct Bed {
    /// What it said of itself when it was ready.
    pub report: Value,
    child: Child,
}

impl Bed {
    /// Starts one and waits until it is ready. `None`: the flags only asked for something to be printed.
    pub fn start(flags: &[String]) -> Result<Option<Self>> {
        Self::of(None, flags)
    }

    /// The same, of this release.
    pub fn of(release: Option<&str>, flags: &[String]) -> Result<Option<Self>> {
        let mut command = program(output(&mut build(release))?);
        command
            .arg("up")
            .args(flags)
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the testbed")?;
        let mut stdout = BufReader::new(child.stdout.take().context("the testbed has no output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        if line.is_empty() {
            let status = child.wait()?;
            if !status.success() {
                bail!("the testbed did not come up ({status}); see above");
            }
            return Ok(None);
        }
        let report = serde_json::from_str(&line).context("the testbed's report is no JSON")?;
        Ok(Some(Self { report, child }))
    }

    /// Where its files are; they go when it ends.
    pub fn dir(&self) -> &Path {
        Path::new(self.report["dir"].as_str().unwrap_or_default())
    }

    /// One kubeconfig with a context for each cluster, as administrator.
    pub fn kubeconfig(&self) -> &str {
        self.report["kubeconfig"].as_str().unwrap_or_default()
    }

    /// The members' names.
    pub fn members(&self) -> Vec<String> {
        let members = self.report["members"].as_array().into_iter().flatten();
        members.filter_map(|member| member["name"].as_str()).map(str::to_owned).collect()
    }

    /// The kubeconfig of one identity in one cluster.
    pub fn kubeconfig_of(&self, cluster: &str, identity: &str) -> Result<&str> {
        let members = self.report["members"].as_array().into_iter().flatten();
        let mut all = members.chain([&self.report["hub"]]);
        let found =
            all.find(|one| one["name"] == cluster).with_context(|| format!("no cluster {cluster}"))?;
        found["kubeconfigs"][identity]
            .as_str()
            .with_context(|| format!("no identity {identity} in {cluster}"))
    }

    /// Waits until it ends by itself, by a signal for example.
    pub fn wait(&mut self) -> Result<()> {
        let stdin = self.child.stdin.take();
        let status = self.child.wait()?;
        drop(stdin);
        if status.success() { Ok(()) } else { bail!("the testbed ended with {status}") }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // It stops the clusters and removes its files before it ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Starts one for people, until Ctrl-C.
pub fn up(release: Option<&str>, flags: &[String]) -> Result<()> {
    let Some(mut bed) = Bed::of(release, flags)? else { return Ok(()) };
    println!("\nThe hub and {} members are up. As administrator of all, by context:", bed.members().len());
    println!("  export KUBECONFIG={}", bed.kubeconfig());
    println!("  kubectl --context hub get namespaces\n");
    println!("Each identity (admin and vidra-hub may do everything, alice too, limited nothing):");
    for cluster in ["hub".to_owned()].into_iter().chain(bed.members()) {
        for identity in ["admin", "vidra-hub", "alice", "limited"] {
            println!("  {cluster:<8} {identity:<10} {}", bed.kubeconfig_of(&cluster, identity)?);
        }
    }
    println!("\nCtrl-C ends it.");
    bed.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The release of Kubernetes that a go.mod asks for.
    fn required(module: &str) -> Result<String> {
        let text = std::fs::read_to_string(root().join("tests/testbed").join(module))?;
        let version = text.lines().find_map(|line| line.strip_prefix("\tk8s.io/kubernetes v"));
        let version = version.with_context(|| format!("{module} requires no k8s.io/kubernetes"))?;
        Ok(version.split('.').take(2).collect::<Vec<_>>().join("."))
    }

    #[test]
    fn the_older_releases_are_the_two_before_the_newest() -> Result<()> {
        let newest = required("go.mod")?;
        let newest = minor(&newest).context("a release has two numbers")?;
        let before = [1, 2].map(|back| format!("1.{}", newest - back));
        assert_eq!(older_releases()?, before);
        for release in before {
            assert_eq!(required(&format!("releases/{release}/go.mod"))?, release);
        }
        Ok(())
    }
}
