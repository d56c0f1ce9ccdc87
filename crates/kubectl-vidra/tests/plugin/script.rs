//! clusters/kubeconfig.sh: whom it lets read the token that it writes, and whose word it takes for a CA.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// Stands in for kubectl: it tells of a member that a kubeconfig reaches with or without verifying it.
const KUBECTL: &str = r#"#!/usr/bin/env bash
case "$*" in
*insecure-skip-tls-verify*) printf '%s' "$INSECURE" ;;
*"config view"*) printf 'https://berlin.example.com:6443 %s' "$AUTHORITY" ;;
*data.token*) printf 'c2VjcmV0' ;;
*) printf 'ZnJvbS10aGUtc2VjcmV0' ;;
esac
"#;

fn run(directory: &Path, insecure: &str, authority: &str, arguments: &[&str]) -> Result<Output> {
    let kubectl = directory.join("kubectl");
    std::fs::write(&kubectl, KUBECTL)?;
    std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755))?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clusters/kubeconfig.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg("berlin").args(arguments);
    command.env("KUBECTL", &kubectl).env("INSECURE", insecure).env("AUTHORITY", authority);
    Ok(command.output()?)
}

#[test]
fn a_kubeconfig_that_is_written_to_a_file_is_read_by_nobody_else() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("berlin.kubeconfig");
    // One that all may read is there already.
    std::fs::write(&file, "old")?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
    let name = file.to_str().context("a path")?;
    let ran = run(directory.path(), "", "Y2E=", &["-o", name])?;
    ensure!(ran.status.success() && ran.stdout.is_empty(), "{ran:?}");
    let told = String::from_utf8(ran.stderr)?;
    ensure!(told.contains("delete it"), "{told}");
    let mode = std::fs::metadata(&file)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{mode:o}");
    let text = std::fs::read_to_string(&file)?;
    ensure!(
        text.contains("token: secret\n") && text.contains("certificate-authority-data: Y2E=\n"),
        "{text}"
    );
    let printed = run(directory.path(), "", "Y2E=", &[])?;
    ensure!(String::from_utf8(printed.stdout)? == text);
    Ok(())
}

#[test]
fn what_a_server_that_nobody_verified_says_of_its_ca_is_not_taken() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let refused = run(directory.path(), "true", "", &[])?;
    ensure!(refused.status.code() == Some(1) && refused.stdout.is_empty(), "{refused:?}");
    let told = String::from_utf8(refused.stderr)?;
    ensure!(
        told.contains("insecure-skip-tls-verify") && told.contains("certificate-authority-data"),
        "{told}"
    );
    // By a CA of the machine's own it was verified.
    let taken = run(directory.path(), "", "", &[])?;
    ensure!(String::from_utf8(taken.stdout)?.contains("certificate-authority-data: ZnJvbS10aGUtc2VjcmV0\n"));
    Ok(())
}
