//! What `join` makes in a member: the ServiceAccount that the hub uses there, its rights, its token.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use vidra_core::duration::told;
use vidra_core::manifest::{self, ManifestObject};

use super::diff::MANAGER;
use crate::cluster::Cluster;
use crate::error::{Failure, JOINING, is_missing};

const FULL: &str = include_str!("../../../../clusters/member-full.yaml");
const KINDS: &str = include_str!("../../../../clusters/member-kinds.yaml");
const REPORT: &str = include_str!("../../../../clusters/member-report.yaml");
/// What may be made there: kind, plural.
const MADE: [(&str, &str); 7] = [
    ("Namespace", "namespaces"),
    ("ServiceAccount", "serviceaccounts"),
    ("Secret", "secrets"),
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
];
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const PAUSE: Duration = Duration::from_millis(250);

/// What is made in a member.
#[derive(Clone, Debug)]
pub struct Rights {
    /// In this order.
    pub objects: Vec<ManifestObject>,
    /// Namespace and name of the Secret that gets the token.
    pub token: (String, String),
}

/// `full`, `kinds`, `report`, or a file of their form.
///
/// # Errors
/// The file cannot be read or holds something else.
pub fn rights(which: &str) -> Result<Rights, Failure> {
    let read;
    let text = match which {
        "full" => FULL,
        "kinds" => KINDS,
        "report" => REPORT,
        file => {
            let text = std::fs::read_to_string(file);
            read = text.map_err(|error| {
                Failure::Input(format!(
                    "cannot read the rights {file}: {error}; give full, kinds, report or a file"
                ))
            })?;
            &read
        }
    };
    let bad = |why: String| Failure::Input(format!("the rights {which}: {why}"));
    let objects = manifest::parse(text).map_err(|error| bad(error.to_string()))?;
    if let Some(other) = objects.iter().find(|object| plural(object).is_none()) {
        let (kind, name) = (&other.gvk.kind, &other.name);
        return Err(bad(format!(
            "{kind} {name} is none of a ServiceAccount's rights; apply it with kubectl"
        )));
    }
    let mut tokens = objects.iter().filter(|object| object.value["type"] == TOKEN_TYPE);
    let token = match (tokens.next(), tokens.next()) {
        (Some(token), None) => (token.namespace.clone().unwrap_or_default(), token.name.clone()),
        _ => {
            return Err(bad(format!(
                "it needs exactly one Secret of type {TOKEN_TYPE}, as clusters/member-kinds.yaml has"
            )));
        }
    };
    Ok(Rights { objects, token })
}

fn plural(object: &ManifestObject) -> Option<&'static str> {
    let known =
        matches!(&*object.gvk.group, "" | "rbac.authorization.k8s.io") && &*object.gvk.version == "v1";
    MADE.iter().find(|(kind, _)| known && *kind == &*object.gvk.kind).map(|(_, plural)| *plural)
}

/// `ServiceAccount vidra-member/vidra-hub`.
pub fn name(object: &ManifestObject) -> String {
    match &object.namespace {
        Some(namespace) => format!("{} {namespace}/{}", object.gvk.kind, object.name),
        None => format!("{} {}", object.gvk.kind, object.name),
    }
}

/// Applies one object; says whether it was made, changed, or there already.
///
/// # Errors
/// The member refuses it.
pub async fn apply(member: &Cluster, object: &ManifestObject) -> Result<&'static str, Failure> {
    let gvk = GroupVersionKind::gvk(&object.gvk.group, &object.gvk.version, &object.gvk.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural(object).unwrap_or_default());
    let client = member.client.clone();
    let api: Api<DynamicObject> = match &object.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let action = format!("apply {} in the member", name(object));
    let failed = |error| member.doing(&action, JOINING).failed(error);
    let before = match api.get_metadata(&object.name).await {
        Ok(before) => before.metadata.resource_version,
        Err(error) if is_missing(&error) => None,
        Err(error) => return Err(failed(error)),
    };
    let params = PatchParams::apply(MANAGER).force();
    let applied =
        api.patch_metadata(&object.name, &params, &Patch::Apply(&object.value)).await.map_err(failed)?;
    Ok(match before {
        None => "made",
        Some(version) if applied.metadata.resource_version.as_ref() == Some(&version) => "is there",
        Some(_) => "changed",
    })
}

/// Which cluster it is: the uid of its namespace kube-system.
///
/// # Errors
/// It cannot be read.
pub async fn uid(member: &Cluster) -> Result<String, Failure> {
    let api: Api<Namespace> = Api::all(member.client.clone());
    let found = member.find(&api, "kube-system", JOINING).await?;
    let uid = found.and_then(|namespace| namespace.metadata.uid);
    uid.ok_or_else(|| {
        Failure::Input(format!("{} has no namespace kube-system, by which members are known", member.name))
    })
}

/// The token and the CA that the cluster puts into the Secret; none yet.
///
/// # Errors
/// It cannot be read.
pub async fn token(member: &Cluster, rights: &Rights, within: Duration) -> Result<Token, Failure> {
    let (namespace, name) = &rights.token;
    let api: Api<Secret> = Api::namespaced(member.client.clone(), namespace);
    let wait = async {
        loop {
            let found = member.find(&api, name, JOINING).await?;
            let data = found.and_then(|secret| secret.data).unwrap_or_default();
            let text = |key: &str| {
                data.get(key)
                    .and_then(|ByteString(bytes)| String::from_utf8(bytes.clone()).ok())
                    .unwrap_or_default()
            };
            if !text("token").is_empty() {
                return Ok(Token { token: text("token"), ca: text("ca.crt") });
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let late = || {
        Failure::Input(format!(
            "{} put no token into the Secret {namespace}/{name} within {}; see that its kube-controller-manager runs, and join again",
            member.name,
            told(within)
        ))
    };
    tokio::time::timeout(within, wait).await.unwrap_or_else(|_| Err(late()))
}

/// A ServiceAccount's credentials.
pub struct Token {
    token: String,
    ca: String,
}

impl Token {
    /// Stands for one that is not there yet.
    pub fn unknown() -> Self {
        Self { token: "unknown".to_owned(), ca: String::new() }
    }
}

/// A kubeconfig with which the hub reaches the member: the address and CA of the person's own, this token.
pub fn kubeconfig(member: &Cluster, server: Option<&str>, token: &Token) -> String {
    let authority = if member.ca.is_empty() { token.ca.clone() } else { pem(&member.ca) };
    let mut cluster = json!({
        "server": server.unwrap_or(&member.url),
        "certificate-authority-data": STANDARD.encode(authority),
    });
    if let Some(name) = &member.tls_server_name {
        cluster["tls-server-name"] = json!(name);
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "member",
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": "vidra-hub"}}],
        "clusters": [{"name": "member", "cluster": cluster}],
        "users": [{"name": "vidra-hub", "user": {"token": token.token}}],
    });
    serde_saphyr::to_string(&kubeconfig).unwrap_or_default()
}

fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded: Vec<char> = STANDARD.encode(certificate).chars().collect();
        for line in encoded.chunks(64) {
            text.extend(line);
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_that_come_with_it_name_one_token() {
        let chosen = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clusters/member-namespaces.yaml");
        for which in ["full", "kinds", "report", chosen] {
            let rights = rights(which).unwrap();
            assert_eq!(rights.token, ("vidra-member".to_owned(), "vidra-hub-token".to_owned()), "{which}");
            assert!(rights.objects.len() >= 5, "{which}");
        }
    }

    #[test]
    fn a_file_of_something_else_is_refused_in_words() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, why) in [
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "is none of a ServiceAccount's rights"),
            ("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", "exactly one Secret"),
            ("kind: [", "the rights"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let failure = rights(file.path().to_str().unwrap()).unwrap_err().to_string();
            assert!(failure.contains(why), "{failure}");
        }
        assert!(rights("/nowhere").unwrap_err().to_string().contains("give full, kinds, report or a file"));
    }
}
