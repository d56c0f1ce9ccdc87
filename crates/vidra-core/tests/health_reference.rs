//! The page of health rules has what is shipped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use vidra_core::health::library;

#[test]
fn the_page_of_health_rules_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/health.md");
    let kept = std::fs::read_to_string(page).unwrap();
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("health.md");
    // What stands below the mark now does not count.
    let mark = "<!-- Generated from crates/vidra-core/src/health/library";
    let written = kept.split_inclusive('\n').take_while(|line| !line.starts_with(mark));
    let mark = kept.lines().find(|line| line.starts_with(mark)).unwrap();
    std::fs::write(&copy, format!("{}{mark}\nold\n", written.collect::<String>())).unwrap();
    let generate = || Command::new(env!("CARGO_BIN_EXE_reference")).arg(&copy).status().unwrap();
    assert!(generate().success());
    let generated = std::fs::read_to_string(&copy).unwrap();
    assert!(kept == generated, "docs/reference/health.md is stale: run `cargo xtask crds`");
    for (project, _) in library::FILES {
        assert!(generated.contains(&format!("\n### {project}\n\n| kind | Current when |")), "{project}");
    }
    std::fs::write(&copy, "a page without the mark").unwrap();
    assert!(!generate().success());
}
