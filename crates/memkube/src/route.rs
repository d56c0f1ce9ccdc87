//! From an HTTP request to what it asks for.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use serde_json::{Value, json};

use super::fault::Verb;
use super::store::View;

/// A request with its body read.
pub(super) struct Asked {
    pub verb: Verb,
    pub path: String,
    pub target: Target,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    pub accept: String,
    pub user_agent: String,
    pub body: Bytes,
    /// Whom the caller wants to act as; empty for itself.
    pub as_user: String,
    pub as_groups: Vec<String>,
    /// A fault shows it an older state.
    pub view: Option<View>,
}

/// Where a URL's path leads.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    Health,
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources(String, String),
    Objects(Address),
    /// `/openapi/v2`
    OldDocument,
    /// `/openapi/v3`
    Documents,
    /// `/openapi/v3/apis/GROUP/VERSION`
    Document(String),
    Unknown,
}

/// Objects of one kind: all, those of a namespace, or one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Address {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
}

impl Asked {
    pub fn read(parts: &http::request::Parts, body: Bytes) -> Self {
        let query: BTreeMap<String, String> =
            form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let header = |name| {
            let value = parts.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let groups = parts.headers.get_all("impersonate-group").into_iter();
        let as_groups = groups.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
        let as_user = parts.headers.get("impersonate-user").and_then(|value| value.to_str().ok());
        let as_user = as_user.unwrap_or_default().to_owned();
        let (content_type, accept, user_agent) = (header(CONTENT_TYPE), header(ACCEPT), header(USER_AGENT));
        let path = decoded(parts.uri.path());
        let target = Target::of(&path);
        let named = matches!(&target, Target::Objects(address) if !address.name.is_empty());
        let objects = matches!(target, Target::Objects(_));
        // As the real server reads it: any other word is yes, and so is none.
        let watch =
            query.get("watch").is_some_and(|text| !matches!(text.to_lowercase().as_str(), "false" | "0"));
        let verb = match parts.method {
            Method::GET if !objects || named => Verb::Get,
            Method::GET if watch => Verb::Watch,
            Method::GET => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH if content_type.starts_with("application/apply-patch") => Verb::Apply,
            Method::PATCH => Verb::Patch,
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => Verb::Other,
        };
        Asked {
            verb,
            path,
            target,
            query,
            content_type,
            accept,
            user_agent,
            body,
            as_user,
            as_groups,
            view: None,
        }
    }

    pub fn param(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Who writes, for managedFields: without `fieldManager` the program that asks.
    pub fn manager(&self) -> &str {
        let program = self.user_agent.split('/').next().unwrap_or_default();
        [self.param("fieldManager"), program].into_iter().find(|name| !name.is_empty()).unwrap_or("unknown")
    }

    pub fn dry_run(&self) -> bool {
        self.param("dryRun") == "All"
    }

    pub fn address(&self) -> Address {
        match &self.target {
            Target::Objects(address) => address.clone(),
            _ => Address::default(),
        }
    }
}

/// Without percent signs, so that one for a slash divides as a slash does.
fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = path.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code.filter(|_| *byte == b'%') {
            Some(code) => {
                plain.push(code);
                at += 3;
            }
            None => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

impl Target {
    fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            ["livez" | "readyz" | "healthz", ..] => Target::Health,
            ["version"] => Target::Version,
            ["openapi", "v2"] => Target::OldDocument,
            ["openapi", "v3"] => Target::Documents,
            ["openapi", "v3", rest @ ..] => Target::Document(rest.join("/")),
            ["api"] => Target::CoreVersions,
            ["apis"] => Target::Groups,
            ["apis", group] => Target::Group((*group).to_owned()),
            ["api", version] => Target::Resources(String::new(), (*version).to_owned()),
            ["apis", group, version] => Target::Resources((*group).to_owned(), (*version).to_owned()),
            ["api", version, rest @ ..] => Target::objects("", version, rest),
            ["apis", group, version, rest @ ..] => Target::objects(group, version, rest),
            _ => Target::Unknown,
        }
    }

    fn objects(group: &str, version: &str, rest: &[&str]) -> Self {
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return Target::Unknown,
        };
        Target::Objects(Address {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            namespace: namespace.into(),
            name: name.into(),
            subresource: subresource.into(),
        })
    }
}

/// The release that it is.
pub(super) const VERSION: &str = "v1.36.3";

/// The answer of `/version`.
pub(super) fn version(git_version: &str) -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": git_version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_objects() {
        let at = |group: &str, plural: &str, namespace: &str, name: &str, subresource: &str| {
            Target::Objects(Address {
                group: group.into(),
                version: "v1".into(),
                plural: plural.into(),
                namespace: namespace.into(),
                name: name.into(),
                subresource: subresource.into(),
            })
        };
        let table = [
            ("/api/v1/namespaces", at("", "namespaces", "", "", "")),
            ("/api/v1/namespaces/a", at("", "namespaces", "", "a", "")),
            ("/api/v1/namespaces/a/status", at("", "namespaces", "", "a", "status")),
            ("/api/v1/namespaces/a/configmaps", at("", "configmaps", "a", "", "")),
            ("/api/v1/configmaps", at("", "configmaps", "", "", "")),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/status",
                at("apps", "deployments", "a", "b", "status"),
            ),
            ("/api", Target::CoreVersions),
            ("/apis/apps", Target::Group("apps".into())),
            ("/livez/ping", Target::Health),
            ("/openapi/v3", Target::Documents),
            ("/openapi/v3/apis/apps/v1", Target::Document("apis/apps/v1".into())),
            ("/nothing", Target::Unknown),
        ];
        for (path, expected) in table {
            assert_eq!(Target::of(path), expected, "{path}");
        }
    }
}
