//! What the check is made of.

use std::process::Command;

use anyhow::{Result, bail};

use super::{
    build::Binaries,
    known,
    lanes::Lane,
    mutants,
    part::{Log, Part, Tests},
};
use crate::{
    run::{cargo_program, is_there, program, root},
    testbed::Bed,
};

/// What `--quick` does not look at.
pub const LEFT_OUT: &str = "documentation, dependencies, everything on real API servers (scenarios, installing, CRDs, \
    manifests, memkube's facts), memkube's own tests, the plug-in, the demo, panics, CRDs in memory, known failures, mutants of guards, go vet and \
    go test, and of the simulation crashes, lost events, older views, random walks and mutants";

/// A cluster of the testbed.
const MEMBER: &str = "berlin";

/// Test programs that use real API servers, the longest first. Last of all: beside the scenarios on real servers, which
/// wait most of their time, all that computes is done first.
const ON_REAL_SERVERS: [(&str, &str); 4] =
    [("vidra-hub", "install"), ("vidra-hub", "crds"), ("vidra-hub", "manifests"), ("kubectl-vidra", "real")];

/// Scenarios on real servers side by side: they wait most of their time, more than cores can be busy with.
const REAL_BEDS: usize = 4;

/// Of cargo-deny, which is installed where the testbed is. Built with it what only advisories need is left out.
const CARGO_DENY: &str = "0.20.2";

/// Fails where something is missing, with the command that installs it.
pub fn require_tools(quick: bool) -> Result<()> {
    let cargo =
        |verb: &str| cargo_program().args([verb, "--version"]).output().is_ok_and(|o| o.status.success());
    let mut missing = Vec::new();
    for (component, verb) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !cargo(verb) {
            missing.push(format!("cargo {verb} is missing: rustup component add {component}"));
        }
    }
    missing.extend(missing_programs(!quick));
    match missing.is_empty() {
        true => Ok(()),
        false => bail!("{}", missing.join("\n")),
    }
}

/// The same of what is needed where nothing but tests is run.
pub fn require_programs() -> Result<()> {
    let missing = missing_programs(true);
    match missing.is_empty() {
        true => Ok(()),
        false => bail!("{}", missing.join("\n")),
    }
}

fn missing_programs(go: bool) -> Vec<String> {
    let all = [
        ("git", "install it, with apt-get install git for example"),
        ("bash", "install it, with apt-get install bash for example"),
        ("go", "install Go 1.26 or newer, from https://go.dev/dl"),
    ];
    // `go --version` is refused, and says by that that it is there.
    let missing = all.into_iter().filter(|(tool, _)| (go || *tool != "go") && !is_there(tool));
    missing.map(|(tool, install)| format!("{tool} is missing: {install}")).collect()
}

/// The form of the sources.
pub fn format() -> Part {
    Part::command("format", cargo(&["fmt", "--all", "--check"]))
}

/// The Go programs that tests start, unless they were built before.
pub fn go_builds() -> Vec<Part> {
    let build = |name: &str| {
        let mut command = program("bash");
        command.arg(format!("tests/{name}/build.sh"));
        Part::command(&format!("build {name}, in Go"), command)
    };
    ["testbed", "oracle", "helm", "kubectl"].map(build).into()
}

/// Everything.
pub fn all(binaries: &Binaries) -> Result<Vec<Lane>> {
    let real = vec![test("scenarios on real servers", scenarios(binaries, "testbed")?)];
    // None of these has a deadline in real time.
    let gentle = [
        test("simulation", binaries.command("testkit", "simulation")?),
        clippy(),
        documentation(),
        test("scenarios in memory", scenarios(binaries, "memory")?),
        known::part(binaries)?,
        mutants::part(binaries)?,
    ];
    let mut rest: Vec<_> = gentle.into_iter().map(Part::gently).collect();
    let apart = [("vidra-hub", "scenarios"), ("testkit", "simulation")];
    let others = binaries.names().filter(|name| !apart.contains(name) && !ON_REAL_SERVERS.contains(name));
    for (package, target) in others {
        rest.push(test(&format!("{package} {target}"), binaries.command(package, target)?));
    }
    let gentle = [
        dependencies(),
        // The package beside them only calls Kubernetes' programs, and takes minutes to look at.
        Part::command("testbed: go vet", go("tests/testbed", "vet", "./internal/...")),
        Part::command("testbed: go test", go("tests/testbed", "test", "./internal/...")),
        Part::command("oracle: go vet", go("tests/oracle", "vet", "./...")),
    ];
    rest.extend(gentle.map(Part::gently));
    rest.push(conformance(binaries, None)?);
    for (package, target) in ON_REAL_SERVERS {
        rest.push(test(&format!("{package} {target}"), binaries.command(package, target)?));
    }
    Ok(vec![Lane::new(real), Lane::shared(rest)])
}

/// What takes seconds.
pub fn quick(binaries: &Binaries) -> Result<Vec<Lane>> {
    let mut simulation = binaries.command("testkit", "simulation")?;
    for left_out in ["crashes::", "sieve::", "mutants::", "walk::many::random_walks"] {
        simulation.args(["--skip", left_out]);
    }
    let mut rest = vec![
        test("scenarios in memory", scenarios(binaries, "memory")?),
        test("simulation, in part", simulation),
    ];
    for (package, target) in [
        ("vidra-hub", "vidra_hub"),
        ("vidra-core", "vidra_core"),
        ("vidra-api", "vidra_api"),
        ("vidra-api", "generated_crds"),
        ("vidra-api", "generated_deploy"),
        ("testkit", "testkit"),
        ("xtask", "xtask"),
        ("vidra-hub", "house"),
    ] {
        rest.push(test(&format!("{package} {target}"), binaries.command(package, target)?));
    }
    Ok(vec![Lane::shared(rest), Lane::new(vec![clippy()])])
}

fn test(name: &str, command: Command) -> Part {
    Part::command(name, command)
}

/// All scenarios that this bed can show.
pub fn scenarios(binaries: &Binaries, bed: &str) -> Result<Command> {
    let others = if bed == "memory" { "on_real_servers::" } else { "in_memory::" };
    let mut command = binaries.command("vidra-hub", "scenarios")?;
    command.env("VIDRA_BED", bed).args(["--skip", others]);
    if bed == "testbed" {
        command.arg(format!("--test-threads={REAL_BEDS}"));
    }
    Ok(command)
}

fn clippy() -> Part {
    Part::command(
        "clippy",
        cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--features",
            "testkit/bench",
            "--",
            "--deny",
            "warnings",
        ]),
    )
}

fn documentation() -> Part {
    let mut command = cargo(&["doc", "--locked", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "--deny warnings");
    Part::command("documentation", command)
}

/// Bans, licenses and sources as deny.toml has them; the list of advisories is not fetched here.
fn dependencies() -> Part {
    Part::new("dependencies", |log| {
        let tools = cache().join(format!("cargo-deny-{CARGO_DENY}"));
        let deny = tools.join("bin/cargo-deny");
        if !deny.exists() {
            let mut install =
                cargo(&["install", "--quiet", "--locked", "--no-default-features", "--debug", "--root"]);
            log.succeed(install.arg(&tools).arg(format!("cargo-deny@{CARGO_DENY}")))?;
        }
        let mut check = program(deny);
        check.args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
        log.succeed(&check)?;
        Ok(Tests::default())
    })
}

/// Where programs that the tests need are kept, as in tests/build-common.sh.
fn cache() -> std::path::PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let below = |name: &str, rest: &str| set(name).map(|home| std::path::Path::new(&home).join(rest));
    set("VIDRA_CACHE")
        .map(Into::into)
        .or_else(|| below("XDG_CACHE_HOME", "vidra-hub"))
        .or_else(|| below("HOME", ".cache/vidra-hub"))
        .unwrap_or_else(|| root().join("target/cache"))
}

/// What memkube's own tests say of it, and the recorded answers, must be so on a real server too. It has the
/// controllers that memkube has. The generated recordings take ten minutes there: they and the sessions with kubectl
/// are left to people. The server is of the newest release, or of an older one.
pub fn conformance(binaries: &Binaries, release: Option<&str>) -> Result<Part> {
    let mut facts = binaries.command("memkube", "facts")?;
    let mut recorded = binaries.command("memkube", "recorded")?;
    recorded.args(["--include-ignored", "--skip", "generated"]);
    let release = release.map(str::to_owned);
    let server =
        release.as_deref().map_or("a real server".to_owned(), |release| format!("Kubernetes {release}"));
    Ok(Part::new(&format!("memkube's facts on {server}"), move |log: &Log| {
        let flags = ["--names", MEMBER, "--controllers", "namespace,garbagecollector"].map(str::to_owned);
        let Some(bed) = Bed::of(release.as_deref(), &flags)? else { bail!("the testbed did not come up") };
        let kubeconfig = bed.kubeconfig_of(MEMBER, "admin")?;
        for tests in [&mut facts, &mut recorded] {
            tests.env("MEMKUBE_REAL_KUBECONFIG", kubeconfig).env("MEMKUBE_REAL_CONTROLLERS", "1");
            log.succeed(tests)?;
        }
        Ok(log.tests())
    }))
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
