//! All tests, built once, in one profile and with one set of features; then their programs, as cargo names them.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{
    logs,
    part::{Part, Tests},
};
use crate::run::{cargo_program, program, root};

/// Where cargo keeps its words about what it built.
fn messages() -> PathBuf {
    logs().join("build.json")
}

/// Builds every test of the workspace: what all depend on is built once, and what mutants change is in all of it.
pub fn tests() -> Part {
    Part::new("build all tests", |log| {
        let mut build = cargo_program();
        build.args(["test", "--locked", "--workspace", "--profile", "simulate", "--no-run"]);
        build.arg("--message-format=json-render-diagnostics");
        log.succeed_into(&build, File::create(messages()).context("cannot keep cargo's words")?)?;
        match log.text().contains("did not match any packages") {
            true => bail!("Cargo.toml has a profile for a package that is not there any more; see the log"),
            false => Ok(Tests::default()),
        }
    })
}

/// Variables that change what tests do.
const BY_HAND: [&str; 6] = ["VIDRA_", "MEMKUBE_", "INSTA_", "PROPTEST_", "RUST_LOG", "RUST_TEST_"];

/// A test program.
#[derive(Clone, Debug)]
struct Binary {
    /// The package that it tests.
    package: String,
    /// The target: the package's library, or a file or folder of `tests/`.
    target: String,
    /// Where cargo would start it.
    directory: PathBuf,
    /// The file.
    program: PathBuf,
}

/// The test programs that were built last.
pub struct Binaries(Vec<Binary>);

impl Binaries {
    /// Reads which there are.
    pub fn read() -> Result<Self> {
        let words = std::fs::read_to_string(messages()).context("cannot read what cargo built")?;
        let artifacts = words.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(Self(artifacts.filter_map(|artifact| binary(&artifact)).collect()))
    }

    /// One of them, to be started as cargo would start it.
    pub fn command(&self, package: &str, target: &str) -> Result<Command> {
        let found = self.0.iter().find(|binary| binary.package == package && binary.target == target);
        let found = found.with_context(|| format!("no test program {target} of {package} was built"))?;
        let mut command = program(&found.program);
        // What somebody has set for runs by hand: other beds, fewer cases, golden files that are written.
        let by_hand =
            |name: &str| BY_HAND.iter().any(|prefix| name.starts_with(prefix)) && name != "VIDRA_CACHE";
        for (name, _) in std::env::vars_os().filter(|(name, _)| by_hand(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command.current_dir(&found.directory).env("CARGO_MANIFEST_DIR", &found.directory);
        Ok(command)
    }

    /// Package and target of each.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|binary| (&*binary.package, &*binary.target))
    }
}

/// A test program, where cargo speaks of one.
fn binary(artifact: &Value) -> Option<Binary> {
    let is_test = artifact["reason"] == "compiler-artifact" && artifact["profile"]["test"] == true;
    let program = artifact["executable"].as_str().filter(|_| is_test)?;
    let directory = Path::new(artifact["manifest_path"].as_str()?).parent()?.to_owned();
    let package = match directory == root() {
        true => "vidra-hub".to_owned(),
        false => directory.file_name()?.to_string_lossy().into_owned(),
    };
    let target = artifact["target"]["name"].as_str()?.to_owned();
    Some(Binary { package, target, directory, program: program.into() })
}
