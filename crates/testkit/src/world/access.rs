//! Objects of a cluster as one identity reads and changes them: plain JSON, any kind, no types.

use std::fmt;

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::wait::{SOON, wait_for};

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl At {
    /// An object by type, namespace (empty: cluster-scoped) and name.
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let text = str::to_owned;
        Self {
            api_version: text(api_version),
            kind: text(kind),
            namespace: text(namespace),
            name: text(name),
        }
    }

    /// A ConfigMap.
    pub fn config_map(namespace: &str, name: &str) -> Self {
        Self::new("v1", "ConfigMap", namespace, name)
    }

    /// Where this object is, or would be.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        Self { api_version: text(&object["apiVersion"]), kind: text(&object["kind"]), namespace, name }
    }

    /// The resource as requests name it: lower case, plural.
    pub fn plural(&self) -> String {
        let kind = self.kind.to_lowercase();
        match kind.as_str() {
            _ if kind.ends_with("endpoints") => kind,
            _ if kind.ends_with('y') => format!("{}ies", kind.trim_end_matches('y')),
            _ if kind.ends_with('s') => format!("{kind}es"),
            _ => format!("{kind}s"),
        }
    }

    /// Its namespace and its name.
    pub fn name_parts(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    fn collection(&self) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        let namespace = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        format!("{root}/{}{namespace}/{}", self.api_version, self.plural())
    }

    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A request that was answered with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status code; 0: no answer.
    pub code: u16,
    /// What the server said.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// One cluster as one identity. What it is not expected to be refused panics when it is.
#[derive(Clone)]
pub struct Access {
    /// For what has no method here.
    pub client: Client,
    manager: String,
}

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl Access {
    /// Through this client, under this field manager.
    pub fn new(client: Client, manager: &str) -> Self {
        Self { client, manager: manager.to_owned() }
    }

    /// Reads an object; `None`: there is none.
    pub async fn get(&self, at: &At) -> Option<Value> {
        match self.send(Method::GET, &at.path(), "", None).await {
            Ok(object) => Some(object),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => panic!("reading {at}: {refused}"),
        }
    }

    /// Reads an object that is there.
    pub async fn live(&self, at: &At) -> Value {
        self.get(at).await.unwrap_or_else(|| panic!("{at} is not there"))
    }

    /// Waits until an object is there and as this says.
    pub async fn when(&self, at: &At, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("{at}: {what}"), SOON, async || match self.get(at).await {
            Some(object) if is(&object) => Ok(object),
            Some(object) => Err(object.to_string()),
            None => Err("not there".into()),
        })
        .await
    }

    /// Waits until an object is not there.
    pub async fn gone(&self, at: &At) {
        wait_for(&format!("{at} is gone"), SOON, async || match self.get(at).await {
            None => Ok(()),
            Some(object) => Err(object["metadata"].to_string()),
        })
        .await;
    }

    /// All objects beside this one (its kind, in its namespace).
    pub async fn list(&self, at: &At) -> Vec<Value> {
        // The storage of a kind whose CRD has just changed is not ready at once.
        wait_for(&format!("a list of {}", at.collection()), SOON, async || match self.try_list(at).await {
            Err(refused) if refused.code == 429 => Err(refused.to_string()),
            listed => Ok(listed.unwrap_or_else(|refused| panic!("listing {}: {refused}", at.collection()))),
        })
        .await
    }

    /// The same, or why not.
    pub async fn try_list(&self, at: &At) -> Result<Vec<Value>, Refused> {
        let mut list = self.send(Method::GET, &at.collection(), "", None).await?;
        Ok(serde_json::from_value(list["items"].take()).expect("a list has items"))
    }

    /// Those of them that bear a label.
    pub async fn labelled(&self, at: &At, label: &str) -> Vec<Value> {
        let path = format!("{}?labelSelector={label}", at.collection());
        let list = self.send(Method::GET, &path, "", None).await;
        let mut list = list.unwrap_or_else(|refused| panic!("listing {path}: {refused}"));
        serde_json::from_value(list["items"].take()).expect("a list has items")
    }

    /// Makes an object.
    pub async fn create(&self, object: Value) -> Value {
        self.try_create(object).await.unwrap_or_else(|refused| panic!("creating: {refused}"))
    }

    /// Makes an object, or says why not.
    pub async fn try_create(&self, object: Value) -> Result<Value, Refused> {
        let path = format!("{}?{}", At::of(&object).collection(), self.query());
        self.send(Method::POST, &path, "application/json", Some(&object)).await
    }

    /// Writes an object whole.
    pub async fn replace(&self, object: Value) -> Value {
        let at = At::of(&object);
        let path = format!("{}?{}", at.path(), self.query());
        let answer = self.send(Method::PUT, &path, "application/json", Some(&object)).await;
        answer.unwrap_or_else(|refused| panic!("replacing {at}: {refused}"))
    }

    /// Changes an object by a merge patch.
    pub async fn merge(&self, at: &At, patch: Value) -> Value {
        self.patch(at, "", MERGE, &patch).await
    }

    /// The same, or says why not.
    pub async fn try_merge(&self, at: &At, patch: Value) -> Result<Value, Refused> {
        let path = format!("{}?{}", at.path(), self.query());
        self.send(Method::PATCH, &path, MERGE, Some(&patch)).await
    }

    /// Changes an object's status by a merge patch, as a controller does.
    pub async fn merge_status(&self, at: &At, patch: Value) -> Value {
        self.patch(at, "/status", MERGE, &patch).await
    }

    /// Changes an object by a JSON patch.
    pub async fn json_patch(&self, at: &At, patch: Value) -> Value {
        self.patch(at, "", JSON_PATCH, &patch).await
    }

    /// Sets replicas through the scale subresource, as an autoscaler does.
    pub async fn scale(&self, at: &At, replicas: u32) -> Value {
        let autoscaler = Self { manager: "kube-controller-manager".to_owned(), client: self.client.clone() };
        autoscaler.scale_by_hand(at, replicas).await
    }

    /// The same as `kubectl scale` does, by this one's own name.
    pub async fn scale_by_hand(&self, at: &At, replicas: u32) -> Value {
        self.patch(at, "/scale", MERGE, &json!({"spec": {"replicas": replicas}})).await
    }

    async fn patch(&self, at: &At, subresource: &str, kind: &str, patch: &Value) -> Value {
        let path = format!("{}{subresource}?{}", at.path(), self.query());
        let answer = self.send(Method::PATCH, &path, kind, Some(patch)).await;
        answer.unwrap_or_else(|refused| panic!("patching {at}: {refused}"))
    }

    /// Server-side apply.
    pub async fn apply(&self, object: &Value, force: bool) -> Result<Value, Refused> {
        let path = format!("{}?{}&force={force}", At::of(object).path(), self.query());
        self.send(Method::PATCH, &path, APPLY, Some(object)).await
    }

    /// Deletes an object; its absence is no fault.
    pub async fn delete(&self, at: &At) {
        self.delete_with(at, json!({})).await;
    }

    /// Deletes an object with these DeleteOptions.
    pub async fn delete_with(&self, at: &At, options: Value) {
        match self.send(Method::DELETE, &at.path(), "application/json", Some(&options)).await {
            Ok(_) => {}
            Err(refused) if refused.code == 404 => {}
            Err(refused) => panic!("deleting {at}: {refused}"),
        }
    }

    fn query(&self) -> String {
        format!("fieldManager={}", self.manager)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let mut request = Request::builder().method(method).uri(path);
        if !kind.is_empty() {
            request = request.header(http::header::CONTENT_TYPE, kind);
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).expect("a well-formed request");
        self.client.request(request).await.map_err(|error| match error {
            kube::Error::Api(status) => Refused { code: status.code, message: status.message.clone() },
            other => Refused { code: 0, message: other.to_string() },
        })
    }
}
