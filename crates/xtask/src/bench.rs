//! `cargo xtask bench NAME`: builds the hub in the profile of images, with its default features (the demo too,
//! which images are built without), and the bench beside it.

use std::path::Path;

use anyhow::Result;

use crate::run::{cargo, cargo_program, succeed};

/// Builds and runs one.
pub fn run(name: &str, json: Option<&Path>, more: &[String]) -> Result<()> {
    // By itself: built together with the bench, it would share the features that the bench needs.
    cargo(&["build", "--profile", "dist", "--package", "vidra-hub", "--bin", "vidra-hub"])?;
    if matches!(name, "scale" | "memory" | "health") {
        cargo(&["build", "--profile", "dist", "--package", "memkube", "--bin", "memkube"])?;
    }
    let mut bench = cargo_program();
    bench.args([
        "run",
        "--profile",
        "dist",
        "--package",
        "testkit",
        "--features",
        "bench",
        "--bin",
        "bench",
        "--",
        name,
    ]);
    if let Some(file) = json {
        // Where the caller is, not where cargo runs.
        bench.arg("--json").arg(std::path::absolute(file)?);
    }
    succeed(bench.args(more))
}
