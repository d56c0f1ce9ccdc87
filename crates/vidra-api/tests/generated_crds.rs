//! The YAML in `crds/` is what the types say, and reads back as it was written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// File name to text, of every file in a directory.
fn files(directory: &Path) -> BTreeMap<String, String> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

fn generated() -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_crds")).arg(directory.path()).status().unwrap();
    assert!(status.success());
    files(directory.path())
}

#[test]
fn the_crds_directory_is_up_to_date() {
    let (expected, kept) = (generated(), files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds")));
    let mend = "run `cargo run -p vidra-api --bin crds crds`, and delete files that no type stands for";
    assert_eq!(
        expected.keys().collect::<Vec<_>>(),
        kept.keys().collect::<Vec<_>>(),
        "crds/ is stale: {mend}"
    );
    for (name, text) in expected {
        assert!(text == kept[&name], "crds/{name} is stale: {mend}");
    }
}

#[test]
fn the_yaml_reads_back_as_the_crds() {
    let files = generated();
    assert_eq!(files.len(), vidra_api::crds::all().len());
    for crd in vidra_api::crds::all() {
        let text = &files[&format!("{}.yaml", crd.spec.names.plural)];
        let read: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(read, serde_json::to_value(&crd).unwrap());
    }
}

#[test]
fn without_a_directory_the_program_fails_and_says_what_to_give() {
    let output = Command::new(env!("CARGO_BIN_EXE_crds")).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("directory"));
}
