//! The `scale` subresource: `autoscaling/v1` Scale over the replicas of a workload or a custom resource.

use serde_json::{Value, json};

use super::failure::Failure;
use super::managed;
use super::schema::{self, Types};
use super::smd::Typed;
use super::store::Store;
use super::write::{PatchType, Write, set, text};

/// Where the numbers are in the object.
struct Paths {
    spec: Vec<String>,
    status: Vec<String>,
    selector: Vec<String>,
}

impl Paths {
    fn of(write: &Write) -> Self {
        let custom = write.kind.custom().map(|custom| &custom.scale);
        let read = |field: &str, usual: &str| -> Vec<String> {
            let path = custom.map_or(Some(usual), |scale| scale[field].as_str()).unwrap_or_default();
            path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect()
        };
        Paths {
            spec: read("specReplicasPath", ".spec.replicas"),
            status: read("statusReplicasPath", ".status.replicas"),
            selector: read("labelSelectorPath", ".spec.selector"),
        }
    }
}

fn at<'v>(object: &'v Value, path: &[String]) -> &'v Value {
    path.iter().fold(object, |value, step| &value[step.as_str()])
}

fn put(object: &mut Value, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => set(object, last, value),
        [first, rest @ ..] => {
            if !object[first.as_str()].is_object() {
                set(object, first, json!({}));
            }
            put(&mut object[first.as_str()], rest, value);
        }
    }
}

/// The Scale of an object.
fn scale_of(object: &Value, paths: &Paths) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        set(&mut metadata, field, object["metadata"][field].clone());
    }
    let number = |path: &[String]| at(object, path).as_i64().unwrap_or_default();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": number(&paths.status)},
    });
    if number(&paths.spec) != 0 {
        scale["spec"]["replicas"] = json!(number(&paths.spec));
    }
    let selector = match at(object, &paths.selector) {
        Value::String(text) => text.clone(),
        selector => {
            let labels = selector["matchLabels"].as_object().into_iter().flatten();
            let labels: Vec<_> =
                labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
            labels.join(",")
        }
    };
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    scale
}

/// A custom resource without the number has no Scale.
fn missing(write: &Write, live: &Value, paths: &Paths) -> Result<(), Failure> {
    if write.kind.custom().is_none() || !at(live, &paths.spec).is_null() {
        return Ok(());
    }
    let message = format!("the spec replicas field {:?} does not exist", paths.spec.join("."));
    let causes = json!([{"message": message}]);
    let message = format!("Internal error occurred: {message}");
    Err(Failure { details: json!({"causes": causes}), ..Failure::new(500, "InternalError", message) })
}

impl Store {
    /// GET.
    pub fn scale(&self, write: &Write) -> Result<Value, Failure> {
        let live = self.existing(write)?;
        let paths = Paths::of(write);
        missing(write, &live, &paths)?;
        Ok(scale_of(&live, &paths))
    }

    /// PUT.
    pub fn replace_scale(&mut self, write: &Write, body: &Value) -> Result<Value, Failure> {
        let live = self.existing(write)?;
        if body["kind"].as_str().is_some_and(|kind| kind != "Scale") {
            return Err(Failure::bad_request("the body of the request is no Scale"));
        }
        write.check_identity(&live, body)?;
        let paths = Paths::of(write);
        missing(write, &live, &paths)?;
        let replicas = body["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            let why = format!("Invalid value: {replicas}: must be greater than or equal to 0");
            return Err(write.invalid("spec.replicas", &why));
        }
        let mut new = live.clone();
        put(&mut new, &paths.spec, json!(replicas));
        managed::update(&live, false, &mut new, &self.writer(write));
        let new = self.finish(write, Some(&live), new)?;
        Ok(scale_of(&new, &paths))
    }

    /// A merge or JSON patch of the Scale.
    pub fn patch_scale(&mut self, write: &Write, how: PatchType, patch: &[u8]) -> Result<Value, Failure> {
        let mut scale = self.scale(write)?;
        let typed = Typed { types: &schema::builtin().types, of: Types::DEDUCED };
        how.patch(typed, &mut scale, patch)?;
        self.replace_scale(write, &scale)
    }

    /// Server-side apply of a Scale.
    pub fn apply_scale(&mut self, write: &Write, declared: &Value, force: bool) -> Result<Value, Failure> {
        let live = self.existing(write)?;
        let paths = Paths::of(write);
        missing(write, &live, &paths)?;
        if write.kind.custom().is_some() && declared["spec"]["replicas"] == *at(&live, &paths.spec) {
            return Ok(scale_of(&live, &paths));
        }
        if write.kind.custom().is_some() {
            let message = "failed to convert new object to proper version: request to convert CR to an \
                 invalid group/version: autoscaling/v1";
            return Err(Failure::new(500, "", message));
        }
        write.check_identity(&live, declared)?;
        let mut config = json!({"apiVersion": write.kind.api_version(), "kind": write.kind.kind});
        config["metadata"] = json!({"name": text(declared, "name")});
        if !declared["spec"]["replicas"].is_null() {
            put(&mut config, &paths.spec, declared["spec"]["replicas"].clone());
        }
        let new = managed::apply(&live, &write.empty(), &config, &self.writer(write), force)?;
        let new = self.finish(write, Some(&live), new)?;
        Ok(scale_of(&new, &paths))
    }
}
