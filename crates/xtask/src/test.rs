//! `cargo xtask test`: every check, cheapest first, ending at the first that fails.

use std::process::Command;

use anyhow::Result;

use crate::{
    run::{cargo_program, is_there, program, root, start_watch, succeed},
    simulate,
    testbed::{self, Bed},
};

/// A cluster of the testbed.
const MEMBER: &str = "berlin";

/// Runs them all.
pub fn all() -> Result<()> {
    let began = start_watch();
    step("format", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("clippy", || {
        succeed(&mut cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ]))
    })?;
    step("documentation", || {
        succeed(
            cargo(&["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"),
        )
    })?;
    step("dependencies", dependencies)?;
    step("testbed: build", || testbed::binary().map(|path| println!("{}", path.display())))?;
    // The package beside them only calls Kubernetes' programs, and takes minutes to look at.
    step("testbed: go vet", || succeed(&mut go("tests/testbed", "vet", "./internal/...")))?;
    step("testbed: go test", || succeed(&mut go("tests/testbed", "test", "./internal/...")))?;
    step("oracle: go vet", || succeed(&mut go("tests/oracle", "vet", "./...")))?;
    step("memkube and a real server", conformance)?;
    step("test", || succeed(&mut cargo(&["test", "--locked", "--workspace", "--exclude", "testkit"])))?;
    step("simulation", || succeed(&mut simulate::tests()))?;
    println!("\nevery step succeeded, {:.0} s in all", began.elapsed().as_secs_f64());
    Ok(())
}

fn step(name: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n=== {name}");
    let began = start_watch();
    let done = check();
    let word = if done.is_ok() { "succeeded" } else { "FAILED" };
    println!("=== {name}: {word} after {:.1} s", began.elapsed().as_secs_f64());
    done
}

/// Bans, licenses and sources as deny.toml has them; the list of advisories is not fetched here.
fn dependencies() -> Result<()> {
    if is_there("cargo-deny") {
        return succeed(&mut cargo(&[
            "deny",
            "--locked",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ]));
    }
    println!("skipped: cargo-deny is not installed (cargo install cargo-deny --locked)");
    Ok(())
}

/// What memkube's own tests say of it, and the recorded answers, must be so on a real server too.
fn conformance() -> Result<()> {
    let Some(bed) = Bed::start(&["--names".to_owned(), MEMBER.to_owned()])? else { return Ok(()) };
    let kubeconfig = bed.kubeconfig_of(MEMBER, "admin")?;
    let mut tests =
        cargo(&["test", "--locked", "--package", "memkube", "--test", "facts", "--test", "recorded"]);
    succeed(tests.env("MEMKUBE_REAL_KUBECONFIG", kubeconfig).env("MEMKUBE_REAL_CONTROLLERS", "1"))
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = cargo_program();
    command.args(arguments);
    command
}

/// With the flags of tests/testbed/build.sh, so that what it built is not built again.
fn go(module: &str, verb: &str, packages: &str) -> Command {
    let mut command = program("go");
    command.current_dir(root().join(module)).env("CGO_ENABLED", "0");
    command.args([verb, "-trimpath", "-buildvcs=false", packages]);
    command
}
