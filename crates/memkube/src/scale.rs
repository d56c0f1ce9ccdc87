//! The `scale` subresource: `autoscaling/v1` Scale over the replicas of a workload or a custom resource.

use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, Shape};
use super::managed::{self, Writer};
use super::schema::{self, Types};
use super::smd::Typed;
use super::store::{Object, Store};
use super::validate::Wrong;
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

/// What of a custom resource's number is no number.
pub(super) fn wrong(write: &Write, object: &Value) -> Option<Wrong> {
    let paths = Paths::of(write);
    let steps = paths.spec.len();
    let inside = (1..steps).map(|to| at(object, &paths.spec[..to]));
    let mut inside = inside.filter(|value| !value.is_null() && !value.is_object());
    let number = at(object, &paths.spec);
    let fits = number.is_null() || number.as_i64().is_some_and(|number| number >= 0);
    (steps > 0 && (!fits || inside.next().is_some())).then(|| {
        let field = format!(".{}", paths.spec.join("."));
        (field, "FieldValueInvalid", "Invalid value: should be a non-negative integer".to_owned())
    })
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

/// What stands for a number that a custom resource does not have; no write may leave it so.
const NONE: i64 = i32::MIN as i64;

/// The kind of every Scale.
fn kind() -> Kind {
    let mut kind = Kind::new("autoscaling/v1", "Scale", "scales", true, false);
    if let Some(of) = schema::builtin().kind("autoscaling", "v1", "Scale") {
        kind.shape = Shape::Builtin(of);
    }
    kind
}

/// The Scale as it is written to: with its owners.
fn owned(write: &Write, live: &Value, paths: &Paths) -> Value {
    let mut scale = scale_of(live, paths);
    if write.kind.custom().is_some() && at(live, &paths.spec).is_null() {
        scale["spec"]["replicas"] = json!(NONE);
    }
    managed::show_scale(live, &paths.spec, &mut scale);
    scale
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
        let (paths, kind) = (Paths::of(write), kind());
        let old = owned(write, &live, &paths);
        let mut new = old.clone();
        new["spec"] = match &body["spec"]["replicas"] {
            // Of a Scale zero is the same as nothing.
            Value::Null => json!({}),
            Value::Number(number) if number.as_i64() == Some(0) => json!({}),
            replicas => json!({"replicas": replicas}),
        };
        managed::update(&old, false, &mut new, &Writer { kind: &kind, ..self.writer(write) });
        self.rescale(write, &live, &new, &paths)
    }

    /// A merge or JSON patch of the Scale.
    pub fn patch_scale(&mut self, write: &Write, how: PatchType, patch: &[u8]) -> Result<Value, Failure> {
        let mut scale = owned(write, &*self.existing(write)?, &Paths::of(write));
        set(&mut scale["metadata"], "managedFields", Value::Null);
        let typed = Typed { types: &schema::builtin().types, of: Types::DEDUCED };
        how.patch(typed, &mut scale, patch)?;
        self.replace_scale(write, &scale)
    }

    /// Server-side apply of a Scale. The real server cannot convert that of a custom resource: there it is
    /// refused unless it changes nothing.
    pub fn apply_scale(&mut self, write: &Write, declared: &Value, force: bool) -> Result<Value, Failure> {
        let live = self.existing(write)?;
        write.check_identity(&live, declared)?;
        let (paths, kind) = (Paths::of(write), kind());
        let custom = write.kind.custom().is_some();
        let unconverted = || {
            let message = "failed to convert new object to proper version: request to convert CR to an \
                 invalid group/version: autoscaling/v1";
            Failure::new(500, "", message)
        };
        let old = owned(write, &live, &paths);
        if custom && old["metadata"]["managedFields"].is_null() {
            return Err(unconverted());
        }
        let mut config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}});
        config["metadata"]["name"] = json!(text(declared, "name"));
        if !declared["spec"]["replicas"].is_null() {
            config["spec"]["replicas"] = declared["spec"]["replicas"].clone();
        }
        let empty = json!({"apiVersion": "autoscaling/v1", "kind": "Scale"});
        let writer = Writer { kind: &kind, ..self.writer(write) };
        let new = managed::apply(&old, &empty, &config, &writer, force)?;
        if custom && new["spec"] != old["spec"] {
            return Err(unconverted());
        }
        self.rescale(write, &live, &new, &paths)
    }

    /// Stores what was made of the Scale.
    fn rescale(
        &mut self,
        write: &Write,
        live: &Object,
        scale: &Value,
        paths: &Paths,
    ) -> Result<Value, Failure> {
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas == NONE {
            return Err(Failure::bad_request("the spec replicas field cannot be empty"));
        }
        if replicas < 0 && write.kind.custom().is_none() {
            let why = format!("Invalid value: {replicas}: must be greater than or equal to 0");
            return Err(write.invalid("spec.replicas", &why));
        }
        let mut new = Value::clone(live);
        put(&mut new, &paths.spec, json!(replicas));
        managed::take_scale(&mut new, &paths.spec, scale, &write.kind.api_version());
        if let Some(custom) = write.kind.custom() {
            custom.default(&mut new, true);
        }
        let new = self.finish(write, Some(live), new)?;
        Ok(scale_of(&new, paths))
    }
}
