//! Kubeconfigs of what is served.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine;
use serde_json::{Value, json};

use super::{Endpoint, ListenError};

/// A context, a cluster and a user for each endpoint.
pub(super) fn text(ca: &str, endpoints: &[Endpoint], user: &str) -> Result<String, ListenError> {
    let ca = base64::engine::general_purpose::STANDARD.encode(ca);
    let (mut clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for Endpoint { name, url, tokens } in endpoints {
        let token = tokens
            .get(user)
            .ok_or_else(|| ListenError::Unknown { cluster: name.clone(), user: user.to_owned() })?;
        clusters.push(json!({"name": name, "cluster": {"server": url, "certificate-authority-data": ca}}));
        users.push(json!({"name": name, "user": {"token": token}}));
        contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": endpoints.first().map(|endpoint| endpoint.name.as_str()).unwrap_or_default(),
        "clusters": clusters,
        "users": users,
        "contexts": contexts,
    });
    Ok(yaml(&config))
}

/// JSON is YAML, too.
fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string())
}

/// Writes a file that only its owner may read; one of that name is replaced, whatever its mode.
pub(super) fn write(path: &Path, text: &str) -> Result<(), ListenError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let done = fill(Path::new(&beside), text).and_then(|()| std::fs::rename(&beside, path));
    done.map_err(|cause| {
        // What cannot be removed was not made.
        let _ = std::fs::remove_file(&beside);
        ListenError::Write { path: path.to_owned(), cause }
    })
}

fn fill(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
