//! What the process says of a panic: where it was, in a line of its log, and no value that it was about.
#![allow(clippy::unwrap_used, clippy::panic, clippy::string_slice, reason = "panics are what is tested")]

use std::{hint::black_box, process::Command};

use vidra_hub::{
    base::supervise::{self, Stop},
    telemetry,
};

const PLANTED: &str = "canary-panicked-5up3r";
/// Set in the process that panics: whether its log is JSON.
const PANICS: &str = "VIDRA_TEST_PANICS";

#[test]
fn a_panic_is_a_line_of_the_log_that_says_where_and_holds_no_value() {
    if let Ok(json) = std::env::var(PANICS) {
        return panics(json == "true");
    }
    let name = "a_panic_is_a_line_of_the_log_that_says_where_and_holds_no_value";
    for (json, trace) in [("false", "0"), ("true", "0"), ("true", "1")] {
        let ran = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(PANICS, json)
            .env("RUST_BACKTRACE", trace)
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}");
        assert!(!said.contains(PLANTED), "{said}");
        assert!(said.matches("tests/panics.rs:").count() >= 4, "{said}");
        assert!(said.contains("a literal is told") && said.contains("withheld"), "{said}");
        assert_eq!(said.matches("the test panicked").count(), 4, "{said}");
        assert_eq!(said.contains("panics::panics"), trace == "1", "{said}");
    }
}

/// In a process of its own: with the words of an error, with a text that is cut, with an error, and with none.
fn panics(json: bool) {
    telemetry::start(json, "info");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let planted = black_box(PLANTED.to_owned());
    let vital = |task: Box<dyn Fn()>| {
        runtime.block_on(supervise::vital("test", &Stop::default(), async move { task() }));
    };
    let text = planted.clone();
    vital(Box::new(move || panic!("cannot read {text}")));
    let text = format!("\u{fc}{planted}");
    vital(Box::new(move || drop(black_box(text[1..].to_owned()))));
    let failed: Result<(), String> = Err(planted);
    vital(Box::new(move || failed.clone().unwrap()));
    vital(Box::new(|| panic!("a literal is told")));
}
