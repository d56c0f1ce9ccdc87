//! The demo as a user runs it: it shows what it promises, and ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on stops")]
#![cfg(feature = "demo")]

use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidra-hub"));
    command.arg("demo").args(arguments).env_remove("RUST_LOG");
    command.output().expect("the demo runs")
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("words")
}

#[test]
fn it_delivers_repairs_and_tells_each_thing_as_it_happens() {
    let output = demo(&["--once"]);
    let said = told(&output);
    let mut rest = said.as_str();
    for what in [
        "export KUBECONFIG=",
        "MemberCluster tokyo: Ready",
        "kubectl apply --server-side -f clusters/examples/shop.yaml",
        "+ Deployment shop is made",
        "the shop is ready on 3 members",
        "ConfigMap shop is changed by kubectl-patch",
        "the edit is undone",
        "- Service shop is deleted",
        "the Service is made again",
        "everything is as declared",
    ] {
        let at = rest.find(what).unwrap_or_else(|| panic!("{what:?} does not come in its place:\n{said}"));
        rest = &rest[at..];
    }
    assert!(!said.contains("Failed"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_larger_fleet_gets_all_of_its_objects() {
    let said = told(&demo(&["--once", "--members", "7", "--objects", "300"]));
    assert!(said.contains("2100 objects are there and ready"), "{said}");
    assert!(said.contains("the change is on all 7 members"), "{said}");
}

#[test]
fn one_object_is_enough() {
    let said = told(&demo(&["--once", "--members", "1", "--objects", "1"]));
    assert!(said.contains("they are undone"), "{said}");
}

#[test]
fn wrong_input_is_refused_in_words() {
    for arguments in [["--members", "0"], ["--members", "many"], ["--objects", "0"], ["--objects", "all"]] {
        let output = demo(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(arguments[0]) && said.contains("error"), "{arguments:?}: {said}");
    }
}
