//! Packs the schemas of a real API server: reads raw documents from a directory, writes one file.
//!
//! `schemas DIRECTORY FILE`. The directory, which `schemas/fetch.sh` fills, holds `api.json` and `apis.json`
//! (aggregated discovery) and `openapi/PATH.json` with `_` for `/` in PATH (`apis_apps_v1.json`).

use std::collections::BTreeMap;
use std::path::Path;

use memkube::schema;
use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("usage: schemas DIRECTORY FILE".into());
    };
    let directory = Path::new(&directory);
    let read = |path: &Path| -> Result<Value, Box<dyn std::error::Error>> {
        let text = std::fs::read(path).map_err(|error| format!("read {}: {error}", path.display()))?;
        Ok(serde_json::from_slice(&text).map_err(|error| format!("read {}: {error}", path.display()))?)
    };
    let mut documents = BTreeMap::new();
    for entry in std::fs::read_dir(directory.join("openapi"))? {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        documents.insert(name.replace('_', "/"), read(&path)?);
    }
    let discovery = [read(&directory.join("api.json"))?, read(&directory.join("apis.json"))?];
    let packed = schema::pack(&documents, discovery)?;
    std::fs::write(&file, packed)?;
    Ok(())
}
