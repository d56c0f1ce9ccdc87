//! Writes what in `deploy/` follows from the types, the rights and the policy: `deploy <directory>`. Links no client.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};
use vidra_api::{
    policy,
    rights::{self, Right},
};

const HEAD: &str = "# Generated from crates/vidra-api (cargo xtask crds); to change it, change";
const RIGHTS: &str = "src/rights.rs there.\n";
const POLICY: &str = "src/policy.rs there.\n";
const TYPES: &str = "the types there.\n";
const HELM: &str = "helm/vidra-hub/files";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        return Err("give one argument: the directory to write into, such as deploy".into());
    };
    let directory = Path::new(&directory);
    for (path, text) in files()? {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Paths below the directory, and what is in them.
fn files() -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut files = Vec::new();
    let mut both = String::new();
    for crd in vidra_api::crds::all() {
        let yaml = serde_saphyr::to_string(&serde_json::to_value(&crd)?)?;
        write!(both, "---\n{yaml}")?;
        let path = format!("{HELM}/crds/{}.yaml", crd.spec.names.plural);
        files.push((path, format!("{HEAD} {TYPES}{yaml}")));
    }
    files.push(("kustomize/crds.yaml".to_owned(), format!("{HEAD} {TYPES}{both}")));

    let mut hub = format!("{HEAD} {RIGHTS}");
    for object in rights::hub_objects(rights::NAMESPACE) {
        let of = match object["kind"].as_str() {
            Some("ClusterRole") => rights::EVERYWHERE,
            Some("Role") => rights::OWN_NAMESPACE,
            _ => &[],
        };
        hub += &role(object, of)?;
    }
    files.push(("kustomize/rbac.yaml".to_owned(), hub));
    for (name, of) in [("everywhere", rights::EVERYWHERE), ("own-namespace", rights::OWN_NAMESPACE)] {
        files.push((format!("{HELM}/rights/{name}.yaml"), format!("{HEAD} {RIGHTS}{}", rules(of)?)));
    }

    let mut users = format!("{HEAD} {RIGHTS}");
    for user in rights::USERS {
        let metadata = json!({"name": format!("vidra-{}", user.of)});
        let api_version = "rbac.authorization.k8s.io/v1";
        users += &role(
            json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": metadata}),
            user.rights,
        )?;
        let text = format!("{HEAD} {RIGHTS}{}", rules(user.rights)?);
        files.push((format!("{HELM}/rights/users/{}.yaml", user.of), text));
    }
    files.push(("kustomize/users.yaml".to_owned(), users));

    let mut guard = format!("{HEAD} {POLICY}");
    for object in policy::objects(&policy::hub_user(rights::NAMESPACE)) {
        write!(guard, "---\n{}", serde_saphyr::to_string(&object)?)?;
    }
    files.push(("kustomize/policy.yaml".to_owned(), guard));
    let rules = serde_saphyr::to_string(&policy::rules())?;
    files.push((format!("{HELM}/policy.yaml"), format!("{HEAD} {POLICY}{rules}")));
    Ok(files)
}

/// One document; the rules, if it has any, with their reasons.
fn role(mut object: Value, of: &[Right]) -> Result<String, Box<dyn Error>> {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("rules");
    }
    let mut text = format!("---\n{}", serde_saphyr::to_string(&object)?);
    if !of.is_empty() {
        write!(text, "rules:\n{}", rules(of)?)?;
    }
    Ok(text)
}

/// A list of rules, each under its reason.
fn rules(rights: &[Right]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for right in rights {
        write!(text, "# {}\n- apiGroups: {}\n", right.why, flow(&[right.group]))?;
        for (field, list) in
            [("resources", right.resources), ("resourceNames", right.names), ("verbs", right.verbs)]
        {
            if !list.is_empty() {
                writeln!(text, "  {field}: {}", flow(list))?;
            }
        }
    }
    Ok(text)
}

/// A list in one line.
fn flow(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| json!(word).to_string()).collect();
    format!("[{}]", quoted.join(", "))
}
