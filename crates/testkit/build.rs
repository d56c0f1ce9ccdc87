//! Compiles the tests of the mutants in (tests/simulation/mutants.rs) where `VIDRA_MUTANTS` is set, as the
//! chores of the simulation do; the hub's own build.rs says why so.
#![allow(clippy::print_stdout, reason = "cargo reads it")]

fn main() {
    println!("cargo::rerun-if-env-changed=VIDRA_MUTANTS");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("VIDRA_MUTANTS").is_none() {
        return;
    }
    println!("cargo::rustc-cfg=vidra_mutants");
}
