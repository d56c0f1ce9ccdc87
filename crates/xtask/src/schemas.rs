//! What memkube knows of built-in kinds, taken from a real API server: `crates/memkube/schemas/builtin.bin`.

use std::fs;

use anyhow::{Context, Result};

use crate::{
    run::{cargo, program, root, succeed},
    testbed::{Bed, binary},
};

const PACKED: &str = "crates/memkube/schemas/builtin.bin";

/// Asks a member of a fresh testbed for its discovery and OpenAPI documents and packs them; says whether the
/// file is another one than before.
pub fn write() -> Result<()> {
    let file = root().join(PACKED);
    let before = fs::read(&file).unwrap_or_default();
    // A member has no CRDs of this project.
    let flags = ["--members", "1"].map(str::to_owned);
    let bed = Bed::start(&flags)?.context("the testbed printed something and did not start")?;
    let member = bed.members().into_iter().next().context("the testbed has no member")?;
    // It goes with the testbed's own files.
    let documents = bed.dir().join("documents");
    let fetch = root().join("crates/memkube/schemas/fetch.sh");
    let kubectl = binary()?.with_file_name("kubectl");
    let kubeconfig = bed.kubeconfig_of(&member, "admin")?;
    succeed(program("bash").arg(fetch).arg(kubectl).arg(kubeconfig).arg(&documents))?;
    let documents = documents.to_string_lossy();
    let pack = ["run", "--quiet", "--package", "memkube", "--bin", "schemas", "--", &documents, PACKED];
    cargo(&pack)?;
    let after = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
    let same = if after == before { "as before" } else { "changed" };
    println!("{PACKED}: {} bytes, {same}", after.len());
    Ok(())
}
