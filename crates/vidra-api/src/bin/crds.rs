//! Writes every CRD as YAML into the directory given: `crds <directory>`. Links no client.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        return Err("give one argument: the directory to write the CRDs into".into());
    };
    write_all(directory)
}

fn write_all(directory: OsString) -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(directory);
    for crd in vidra_api::crds::all() {
        let path = directory.join(format!("{}.yaml", crd.spec.names.plural));
        // By way of a JSON value, whose maps are sorted: the same types give the same file.
        let yaml = serde_saphyr::to_string(&serde_json::to_value(&crd)?)?;
        let text =
            format!("# Generated from crates/vidra-api; to change it, change the types there.\n{yaml}");
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
