//! Compiles the mutants in (src/mutants.rs) where `VIDRA_MUTANTS` asks for them, as the chores of the simulation
//! do; never into a release. A variable and not `RUSTFLAGS`: what the hub depends on is built once.
#![allow(clippy::print_stdout, reason = "cargo reads it")]

fn main() {
    println!("cargo::rerun-if-env-changed=VIDRA_MUTANTS");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("VIDRA_MUTANTS").is_none() {
        return;
    }
    if std::env::var("PROFILE").as_deref() == Ok("release") {
        println!("cargo::error=VIDRA_MUTANTS is set: a release is built without mutants, unset it");
        return;
    }
    println!("cargo::rustc-cfg=vidra_mutants");
}
