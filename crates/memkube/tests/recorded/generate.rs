//! Sequences from seeds: a list, an object made, then what may happen to it and to another, wrong requests
//! among it, and at the end often all that a watch since the list shows.

use fastrand::Rng;
use serde_json::{Value, json};

use super::steps::Step;
use super::subjects::{Subject, subjects};
use super::wrong;

/// One of them.
pub fn draw<'t, T>(rng: &mut Rng, of: &'t [T]) -> &'t T {
    &of[rng.usize(..of.len())]
}

/// Takes a field out.
pub fn forget(object: &mut Value, field: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(field);
    }
}

/// The steps of a seed.
pub fn sequence(seed: u64) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let all = subjects();
    // The first kinds of each scope more often: they are compared whole.
    let among = |rng: &mut Rng, fits: fn(&Subject) -> bool| {
        let fitting: Vec<_> = all.iter().filter(|of| fits(of)).collect();
        fitting[rng.usize(..fitting.len())]
    };
    let of = match rng.u8(..20) {
        0..4 => &all[rng.usize(..9)],
        4..6 => among(&mut rng, |of| !of.namespaced),
        6..8 => among(&mut rng, |of| !of.namespaced && !of.statuses.is_empty()),
        8..11 => among(&mut rng, |of| !of.namespaced && of.scale),
        11..15 => among(&mut rng, |of| of.namespaced && !of.statuses.is_empty()),
        15..19 => among(&mut rng, |of| of.namespaced && of.scale),
        _ => draw(&mut rng, &all),
    };
    let mut subresources = vec![""];
    if !of.statuses.is_empty() {
        subresources.extend(["status", "status", "status"]);
    }
    if of.scale {
        subresources.extend(["scale", "scale", "scale"]);
    }
    let subresource = *draw(&mut rng, &subresources);
    let mut maker = Maker { rng, of, subresource };
    let list = format!("{}?labelSelector=run%3D{{ns}}", of.path());
    let mut steps = vec![Step::new("LIST", list.clone(), Value::Null)];
    let first = *draw(&mut maker.rng, &["POST", "POST", "APPLY"]);
    steps.push(maker.write(first, "{ns}-a", ""));
    for _ in 0..maker.rng.usize(6..=9) {
        let name = *draw(&mut maker.rng, &["{ns}-a", "{ns}-a", "{ns}-a", "{ns}-b"]);
        if maker.rng.u8(..100) < 22 {
            let mut sort = *draw(&mut maker.rng, &wrong::SORTS);
            if of.kind == "PersistentVolume"
                && ["orphan", "foreground", "background", "finalizers"].contains(&sort)
            {
                sort = "malformed";
            }
            let body = maker.body(name);
            steps.extend(wrong::steps(&mut maker.rng, sort, of, name, &body));
            continue;
        }
        steps.push(maker.step(name, &list));
    }
    if maker.rng.u8(..100) < 8 {
        let expired = Step::new("EXPIRED", of.path(), Value::Null);
        steps.push(Step { sort: "expired-continue".to_owned(), ..expired });
    } else if maker.rng.u8(..100) < 45 {
        let path = format!("{list}&watch=1&resourceVersion={{start}}&timeoutSeconds=1");
        steps.push(Step::new("WATCH", path, Value::Null));
    } else {
        steps.push(Step::new("LIST", list, Value::Null));
    }
    steps
}

struct Maker<'a> {
    rng: Rng,
    of: &'a Subject,
    /// The subresource that many of the steps go through.
    subresource: &'static str,
}

impl Maker<'_> {
    fn step(&mut self, name: &str, list: &str) -> Step {
        let of = self.of;
        let subresource = if self.rng.u8(..10) < 7 { self.subresource } else { "" };
        let mut method = *draw(
            &mut self.rng,
            &[
                "PUT",
                "PUT",
                "JSON",
                "STRATEGIC",
                "MERGE",
                "MERGE",
                "JSON",
                "JSON",
                "STRATEGIC",
                "STRATEGIC",
                "APPLY",
                "APPLY",
                "APPLY",
                "POST",
                "DELETE",
                "GET",
                "GET",
                "LIST",
                "DELETECOLLECTION",
            ],
        );
        // Nothing protects volumes in memkube.
        if of.kind == "PersistentVolume" && method.starts_with("DELETE") {
            method = "GET";
        }
        let slash = if subresource.is_empty() { "" } else { "/" };
        let one = format!("{}/{name}", of.path());
        match method {
            "POST" => self.write("POST", "{ns}-b", ""),
            "DELETE" => Step::new("DELETE", one, Value::Null),
            "GET" => Step::new("GET", format!("{one}{slash}{subresource}"), Value::Null),
            "LIST" => {
                // Others' objects of the cluster would count into its pages.
                let most = if of.namespaced { 5 } else { 3 };
                let more = [
                    "",
                    "%2Ca%3D1",
                    "&fieldSelector=metadata.name%3D{ns}-a",
                    "&limit=1",
                    "&limit=1&continue={continue}",
                ];
                Step::new("LIST", format!("{list}{}", draw(&mut self.rng, &more[..most])), Value::Null)
            }
            "DELETECOLLECTION" => {
                let more = *draw(
                    &mut self.rng,
                    &["", "%2Ca%3D1", "&fieldSelector=metadata.name%3D{ns}-b", "&dryRun=All"],
                );
                Step::new("DELETECOLLECTION", format!("{list}{more}"), Value::Null)
            }
            method => self.write(method, name, subresource),
        }
    }

    /// A whole object of that name.
    fn body(&mut self, name: &str) -> Value {
        let mut body = draw(&mut self.rng, &self.of.bodies).clone();
        body["apiVersion"] = json!(self.of.api_version);
        body["kind"] = json!(self.of.kind);
        body["metadata"] = json!({"name": name, "labels": {"run": "{ns}"}});
        let metadata = &mut body["metadata"];
        match self.rng.u8(..6) {
            0 => metadata["labels"]["a"] = json!(draw(&mut self.rng, &["1", "2"])),
            1 => metadata["annotations"] = json!({"x": draw(&mut self.rng, &["1", ""])}),
            2 => metadata["annotations"] = json!({}),
            _ => {}
        }
        body
    }

    fn write(&mut self, method: &str, name: &str, subresource: &str) -> Step {
        let of = self.of;
        let manager = *draw(&mut self.rng, &["one", "two", "three"]);
        let force = if method == "APPLY" && self.rng.u8(..3) == 0 { "&force=true" } else { "" };
        let slash = if subresource.is_empty() { "" } else { "/" };
        let path = match method {
            "POST" => format!("{}?fieldManager={manager}", of.path()),
            _ => format!("{}/{name}{slash}{subresource}?fieldManager={manager}{force}", of.path()),
        };
        let mut body = match (method, subresource) {
            ("POST" | "PUT" | "APPLY", "") => self.body(name),
            ("PUT" | "APPLY", "status") => {
                let mut body = self.body(name);
                if method == "APPLY" {
                    let names =
                        json!({"apiVersion": of.api_version, "kind": of.kind, "metadata": {"name": name}});
                    body = if self.rng.u8(..5) > 0 { names } else { body };
                }
                body["status"] = draw(&mut self.rng, &of.statuses).clone();
                body
            }
            (_, "scale") => {
                let replicas = *draw(&mut self.rng, &[0, 1, 2, 3, 5, -1]);
                match method {
                    "PUT" | "APPLY" => {
                        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                            "metadata": {"name": name}, "spec": {"replicas": replicas}});
                        if of.namespaced && method == "PUT" {
                            scale["metadata"]["namespace"] = json!("{ns}");
                        }
                        scale
                    }
                    _ => json!({"spec": {"replicas": replicas}}),
                }
            }
            (_, "status") => {
                let status = draw(&mut self.rng, &of.statuses).clone();
                let mut patch = json!({"status": status});
                match self.rng.u8(..8) {
                    0 => patch["metadata"] = json!({"labels": {"a": "2"}}),
                    1 => patch["metadata"] = json!({"annotations": {"s": "1"}}),
                    2 => patch["spec"] = draw(&mut self.rng, &of.bodies)["spec"].clone(),
                    _ => {}
                }
                patch
            }
            _ => self.patch(),
        };
        if method == "PUT" {
            match self.rng.u8(..10) {
                0 => {}
                1 => body["metadata"]["resourceVersion"] = json!("{rv}"),
                _ => body["metadata"]["resourceVersion"] = json!("{my-rv}"),
            }
            if self.rng.u8(..12) == 0 {
                body["metadata"]["managedFields"] = draw(&mut self.rng, &[json!([]), json!([{}])]).clone();
            }
        }
        if method == "JSON" {
            body = self.operations(&body);
        }
        Step::new(method, path, body)
    }

    fn patch(&mut self) -> Value {
        let mut patch = draw(&mut self.rng, &self.of.patches).clone();
        match self.rng.u8(..8) {
            0 => patch = json!({"metadata": {"labels": {"a": draw(&mut self.rng, &["1", "2"])}}}),
            1 => patch["metadata"] = json!({"annotations": {"x": "3", "y": null}}),
            2 => patch = json!({"metadata": {"annotations": null}}),
            3 => patch["metadata"] = json!({"resourceVersion": "{my-rv}"}),
            _ => {}
        }
        patch
    }

    /// A JSON patch that touches what a merge patch touches.
    fn operations(&mut self, patch: &Value) -> Value {
        let mut leaves = Vec::new();
        collect(patch, String::new(), &mut leaves);
        let mut operations: Vec<_> = leaves
            .into_iter()
            .take(3)
            .map(|(path, value)| match (value.is_null(), self.rng.u8(..6)) {
                (true, _) => json!({"op": "remove", "path": path}),
                (_, 0) => json!({"op": "replace", "path": path, "value": value}),
                (_, 1) => json!({"op": "test", "path": path, "value": value}),
                _ => json!({"op": "add", "path": path, "value": value}),
            })
            .collect();
        match self.rng.u8(..12) {
            0 => operations.push(json!({"op": "nothing", "path": "/metadata"})),
            1 => operations
                .push(json!({"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"})),
            2 => operations.insert(0, json!({"op": "test", "path": "/metadata/name", "value": "other"})),
            3 => operations.push(json!({"op": "remove", "path": "/metadata/labels/none"})),
            _ => {}
        }
        Value::Array(operations)
    }
}

fn collect(value: &Value, path: String, leaves: &mut Vec<(String, Value)>) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            for (key, inner) in map {
                collect(inner, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), leaves);
            }
        }
        None => leaves.push((path, value.clone())),
    }
}
