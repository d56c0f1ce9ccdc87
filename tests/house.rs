//! The rules of the house that a machine can check.
#![allow(clippy::expect_used, reason = "a check that cannot read the sources stops")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files that git tracks or would track.
fn sources() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(listed.stdout).expect("paths are text");
    let files: Vec<_> = text.lines().map(|line| root().join(line)).filter(|path| path.exists()).collect();
    assert!(files.len() > 30, "git lists the sources: {} found", files.len());
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a source can be read")
}

#[test]
fn every_file_opens_by_saying_what_it_is_for() {
    let silent: Vec<_> = sources().into_iter().filter(|path| !read(path).starts_with("//! ")).collect();
    assert!(silent.is_empty(), "these do not open with `//! `: {silent:#?}");
}

/// A long file may hold one concept; the warning asks whether it does.
#[test]
#[allow(clippy::print_stderr, reason = "a warning that fails nothing")]
fn a_file_that_cannot_be_read_at_once_is_named() {
    let lengths: Vec<_> = sources().into_iter().map(|path| (read(&path).lines().count(), path)).collect();
    for (lines, path) in lengths.iter().filter(|(lines, _)| *lines > 700) {
        eprintln!("warning: {} has {lines} lines; does it hold one concept?", path.display());
    }
    assert!(lengths.iter().any(|(lines, _)| *lines > 100), "lines were counted");
}

/// The packages that a package is built with, without those of its tests.
fn dependencies(package: &str) -> Vec<String> {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            package,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).expect("names are text");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn decisions_are_built_without_any_way_to_a_cluster_or_a_clock() {
    for package in ["vidra-api", "vidra-core"] {
        let all = dependencies(package);
        assert!(all.iter().any(|name| name == "serde_json"), "{package}: the tree was read");
        for forbidden in ["tokio", "kube-client", "hyper", "rustls", "vidra-hub", "testkit"] {
            assert!(!all.iter().any(|name| name == forbidden), "{package} is built with {forbidden}");
        }
    }
}

#[test]
fn chores_link_no_client_and_releases_link_no_test_bed() {
    assert!(!dependencies("xtask").iter().any(|name| name.starts_with("kube")), "xtask is built with kube");
    assert!(!dependencies("vidra-hub").iter().any(|name| name == "testkit"), "the hub is built with testkit");
}

#[test]
fn the_plug_in_is_built_without_the_hub_and_the_hub_without_the_plug_in() {
    let plugin = dependencies("kubectl-vidra");
    assert!(plugin.iter().any(|name| name == "vidra-core"), "the tree was read");
    for forbidden in ["vidra-hub", "testkit", "memkube"] {
        assert!(!plugin.iter().any(|name| name == forbidden), "kubectl-vidra is built with {forbidden}");
    }
    assert!(
        !dependencies("vidra-hub").iter().any(|name| name == "kubectl-vidra"),
        "the hub is built with it"
    );
}
