//! What in `deploy/` is generated is what the types, the rights and the policy say.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use vidra_api::{policy, rights};

/// Path to text, of every file below a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(directory).unwrap().to_owned(), text);
            }
        }
    }
    found
}

fn generated() -> BTreeMap<PathBuf, String> {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_deploy")).arg(directory.path()).status().unwrap();
    assert!(status.success());
    files(directory.path())
}

#[test]
fn the_generated_part_of_deploy_is_up_to_date() {
    let kept = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy"));
    let expected = generated();
    for (path, text) in &expected {
        assert!(kept.get(path) == Some(text), "deploy/{} is stale: run `cargo xtask crds`", path.display());
    }
    let ours = kept.iter().filter(|(_, text)| text.starts_with("# Generated from crates/vidra-api"));
    let left: Vec<_> = ours.map(|(path, _)| path).filter(|path| !expected.contains_key(*path)).collect();
    assert!(left.is_empty(), "nothing stands for these any more, delete them: {left:?}");
}

#[test]
fn the_manifests_read_back_as_the_hubs_rights() {
    let text = &generated()[Path::new("kustomize/rbac.yaml")];
    let read: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    assert_eq!(read, rights::hub_objects(rights::NAMESPACE));
}

#[test]
fn the_charts_rules_read_back_as_the_hubs_rights() {
    let files = generated();
    for (name, of) in [("everywhere", rights::EVERYWHERE), ("own-namespace", rights::OWN_NAMESPACE)] {
        let text = &files[&PathBuf::from(format!("helm/vidra-hub/files/rights/{name}.yaml"))];
        let read: Vec<Value> = serde_saphyr::from_str(text).unwrap();
        assert_eq!(read, of.iter().map(rights::Right::rule).collect::<Vec<_>>());
    }
}

#[test]
fn the_policy_reads_back_as_it_is() {
    let files = generated();
    let whole: Vec<Value> = serde_saphyr::from_multiple(&files[Path::new("kustomize/policy.yaml")]).unwrap();
    assert_eq!(whole, policy::objects("system:serviceaccount:vidra-system:vidra-hub"));
    let rules: Value = serde_saphyr::from_str(&files[Path::new("helm/vidra-hub/files/policy.yaml")]).unwrap();
    assert_eq!(rules, policy::rules());
}
