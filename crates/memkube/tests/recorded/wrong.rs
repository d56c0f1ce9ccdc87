//! Requests that are refused, or done otherwise than asked: one of each sort.

use fastrand::Rng;
use serde_json::{Value, json};

use super::generate::draw;
use super::steps::Step;
use super::subjects::Subject;

/// What is wrong with a request.
pub const SORTS: [&str; 32] = [
    "malformed",
    "unknown-strict",
    "unknown-warn",
    "unknown-ignore",
    "wrong-content-type",
    "stale-version",
    "wrong-uid",
    "wrong-precondition",
    "invalid-name",
    "other-name",
    "bad-label-selector",
    "bad-field-selector",
    "bad-continue",
    "dry-run",
    "bad-dry-run",
    "generate-name",
    "finalizers",
    "bad-finalizers",
    "owner",
    "bad-owner",
    "orphan",
    "foreground",
    "background",
    "bad-policy",
    "no-namespace",
    "other-kind",
    "no-manager",
    "bad-manager",
    "bad-labels",
    "method",
    "wrong-type",
    "bad-version-match",
];

/// The steps of a sort, over objects `{name}` of the subject, the first of which may be there.
pub fn steps(rng: &mut Rng, sort: &str, of: &Subject, name: &str, body: &Value) -> Vec<Step> {
    let all = of.path();
    let one = format!("{all}/{name}");
    let manager = "fieldManager=w";
    let write = ["POST", "PUT", "APPLY", "MERGE"];
    let at = |method: &str, query: &str| match method {
        "POST" => format!("{all}?{manager}{query}"),
        _ => format!("{one}?{manager}{query}"),
    };
    let changed = |path: &str, value: Value| {
        let mut body = body.clone();
        match path.split_once('.') {
            Some((outer, inner)) => body[outer][inner] = value,
            None => body[path] = value,
        }
        body
    };
    let guarded = || changed("metadata.resourceVersion", json!("{my-rv}"));
    let marked = |method: &str, step: Step| Step { sort: sort.to_owned(), ..step.named(method) };
    let step = |method: &str, path: String, body: Value| marked(method, Step::new(method, path, body));
    let any = |rng: &mut Rng, methods: &[&'static str]| *draw(rng, methods);
    match sort {
        "malformed" => {
            let method = any(rng, &["POST", "PUT", "APPLY", "MERGE", "JSON", "STRATEGIC"]);
            let text = *draw(rng, &["{\"metadata\":", "", "[", "nonsense: [", "\"text\"", "null", "{}"]);
            vec![marked(
                method,
                Step { raw: Some(text.to_owned()), ..Step::new(method, at(method, ""), Value::Null) },
            )]
        }
        "unknown-strict" | "unknown-warn" | "unknown-ignore" => {
            let validation = match sort {
                "unknown-strict" => "Strict",
                "unknown-warn" => "Warn",
                _ => "Ignore",
            };
            let method = any(rng, &write);
            let field = *draw(rng, &["nonsense", "metadata.nonsense", "spec.nonsense"]);
            let mut body = changed(field, json!({"x": 1}));
            if of.bodies.iter().all(|body| body["spec"].is_null()) && field.starts_with("spec") {
                body = changed("nonsense", json!(1));
            }
            if method == "PUT" {
                body["metadata"]["resourceVersion"] = json!("{my-rv}");
            }
            vec![step(method, at(method, &format!("&fieldValidation={validation}")), body)]
        }
        "wrong-content-type" => {
            let (method, kind) = *draw(
                rng,
                &[
                    ("POST", "text/plain"),
                    ("PUT", "text/plain"),
                    ("MERGE", "application/json"),
                    ("APPLY", "text/plain"),
                ],
            );
            let step = Step { content: kind.to_owned(), ..Step::new(method, at(method, ""), body.clone()) };
            vec![marked(method, step)]
        }
        "stale-version" => {
            let method = any(rng, &["PUT", "MERGE", "APPLY", "POST"]);
            vec![step(method, at(method, ""), changed("metadata.resourceVersion", json!("1")))]
        }
        "wrong-uid" => {
            let method = any(rng, &["PUT", "MERGE", "APPLY", "POST"]);
            let mut body = if method == "PUT" { guarded() } else { body.clone() };
            body["metadata"]["uid"] = json!("11111111-1111-4111-8111-111111111111");
            vec![step(method, at(method, ""), body)]
        }
        "wrong-precondition" => {
            let field = *draw(rng, &["uid", "resourceVersion"]);
            vec![step("DELETE", one, json!({"preconditions": {field: "1"}}))]
        }
        "invalid-name" => {
            let bad = *draw(rng, &["{ns}Bad_Name", "{ns}-", "{ns}..b", "{ns}%2Fy"]);
            let mut body = body.clone();
            body["metadata"]["name"] = json!(bad);
            let method = any(rng, &["POST", "APPLY"]);
            let path = if method == "POST" { at("POST", "") } else { format!("{all}/{bad}?{manager}") };
            vec![step(method, path, body)]
        }
        "other-name" => {
            let method = any(rng, &["PUT", "APPLY", "MERGE"]);
            vec![step(method, at(method, ""), changed("metadata.name", json!("another")))]
        }
        "bad-label-selector" => {
            let text = *draw(rng, &["a%20in%20b", "a%20b", "a%3D%3D%3Db", "%2B", "a%3D%2F"]);
            let method = any(rng, &["LIST", "DELETECOLLECTION"]);
            vec![step(method, format!("{all}?labelSelector={text}"), Value::Null)]
        }
        "bad-field-selector" => {
            let text = *draw(
                rng,
                &["metadata.name", "spec.nothing%3D1", "metadata.labels.a%3Db", "status.none%3Dx"],
            );
            let method = any(rng, &["LIST", "DELETECOLLECTION"]);
            vec![step(method, format!("{all}?fieldSelector={text}"), Value::Null)]
        }
        "bad-continue" => {
            let query = *draw(rng, &["continue=nonsense", "continue=e30", "limit=x", "limit=-1"]);
            vec![step("LIST", format!("{all}?{query}&labelSelector=run%3D{{ns}}"), Value::Null)]
        }
        "dry-run" => {
            let method = any(rng, &["POST", "PUT", "APPLY", "MERGE", "DELETE"]);
            let body = if method == "PUT" { guarded() } else { body.clone() };
            let body = if method == "DELETE" { Value::Null } else { body };
            let path =
                if method == "DELETE" { format!("{one}?dryRun=All") } else { at(method, "&dryRun=All") };
            vec![step(method, path, body), step("GET", one, Value::Null)]
        }
        "bad-dry-run" => {
            let method = any(rng, &write);
            vec![step(method, at(method, "&dryRun=Some"), body.clone())]
        }
        "generate-name" => {
            let mut body = body.clone();
            body["metadata"]["generateName"] = json!("{ns}-gen-");
            if rng.u8(..4) > 0 {
                super::generate::forget(&mut body["metadata"], "name");
            }
            vec![step("POST", at("POST", ""), body)]
        }
        "finalizers" => {
            let finalizers =
                draw(rng, &[json!(["x.dev/f"]), json!(["x.dev/f", "x.dev/g"]), json!([])]).clone();
            let put = *draw(rng, &["MERGE", "APPLY"]);
            let mut set = body.clone();
            set["metadata"]["finalizers"] = finalizers;
            vec![
                step(put, at(put, if put == "APPLY" { "&force=true" } else { "" }), set),
                step("DELETE", one.clone(), Value::Null),
                step("MERGE", at("MERGE", ""), json!({"metadata": {"labels": {"late": "1"}}})),
                step("MERGE", at("MERGE", ""), json!({"metadata": {"finalizers": ["x.dev/new", "x.dev/f"]}})),
                step("MERGE", at("MERGE", ""), json!({"metadata": {"finalizers": null}})),
                step("GET", one, Value::Null),
            ]
        }
        "bad-finalizers" => {
            let bad = [json!(["plain"]), json!(["a b/c"]), json!(["x/y/z"]), json!(["", "x.dev/f"])];
            let finalizers = draw(rng, &bad);
            let method = any(rng, &["POST", "MERGE"]);
            vec![step(method, at(method, ""), changed("metadata.finalizers", finalizers.clone()))]
        }
        "owner" => {
            let config = "/api/v1/namespaces/{ns}/configmaps";
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
            let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "{uid}",
                "controller": true, "blockOwnerDeletion": rng.bool()}]);
            let mut owned = json!({"metadata": {"ownerReferences": reference}});
            if !of.namespaced {
                owned = json!({"metadata": {"labels": {"x": "y"}}});
            }
            vec![
                step("POST", format!("{config}?{manager}"), owner),
                step("MERGE", at("MERGE", ""), owned),
                step("GET", one, Value::Null),
            ]
        }
        "bad-owner" => {
            let id = "11111111-1111-4111-8111-111111111111";
            let whole =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": id, "controller": true});
            let mut second = whole.clone();
            second["uid"] = json!("11111111-1111-4111-8111-111111111112");
            let mut list = vec![whole, second];
            if rng.bool() {
                let field = *draw(rng, &["apiVersion", "kind", "name", "uid"]);
                list.truncate(1);
                list[0][field] = json!("");
            }
            let method = any(rng, &["POST", "MERGE", "APPLY"]);
            vec![step(method, at(method, ""), changed("metadata.ownerReferences", json!(list)))]
        }
        "orphan" | "foreground" | "background" => {
            let policy = match sort {
                "orphan" => "Orphan",
                "foreground" => "Foreground",
                _ => "Background",
            };
            let (path, body) = match rng.bool() {
                true => (format!("{one}?propagationPolicy={policy}"), Value::Null),
                false => (
                    one.clone(),
                    json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}),
                ),
            };
            vec![step("DELETE", path, body), step("GONE", one, Value::Null)]
        }
        "bad-policy" => match rng.u8(..3) {
            0 => vec![step("DELETE", format!("{one}?propagationPolicy=What"), Value::Null)],
            1 => vec![step("DELETE", one, json!({"orphanDependents": true, "propagationPolicy": "Orphan"}))],
            _ => vec![step("DELETE", one, json!({"dryRun": ["Some"]}))],
        },
        "no-namespace" => {
            if !of.namespaced {
                return vec![step("GET", format!("{all}/none"), Value::Null)];
            }
            let method = any(rng, &["POST", "APPLY", "GET", "LIST"]);
            let path = if matches!(method, "POST" | "APPLY") { at(method, "") } else { all.clone() };
            let path = path.replace("{ns}", if rng.bool() { "nowhere" } else { "{ns}x" });
            let body = if matches!(method, "POST" | "APPLY") { body.clone() } else { Value::Null };
            vec![step(method, path, body)]
        }
        "other-kind" => {
            let (field, value) = *draw(
                rng,
                &[
                    ("kind", "Thing"),
                    ("apiVersion", "example.dev/v9"),
                    ("kind", ""),
                    ("metadata.namespace", "other"),
                ],
            );
            let method = any(rng, &write);
            vec![step(method, at(method, ""), changed(field, json!(value)))]
        }
        "no-manager" => {
            let query = *draw(rng, &["", "?force=true", "?force=x"]);
            vec![step("APPLY", format!("{one}{query}"), body.clone())]
        }
        "bad-manager" => {
            let bad = *draw(rng, &["%01", "x&force=true"]);
            let bad = if rng.bool() { "m".repeat(129) } else { bad.to_owned() };
            let method = any(rng, &["POST", "APPLY", "MERGE"]);
            vec![step(
                method,
                at(method, "").replace("fieldManager=w", &format!("fieldManager={bad}")),
                body.clone(),
            )]
        }
        "bad-labels" => {
            let bad = [
                ("metadata.labels", json!({"a b": "c"})),
                ("metadata.labels", json!({"a": "b c"})),
                ("metadata.labels", json!({"a": 1})),
                ("metadata.annotations", json!({"a b": "c"})),
                ("metadata.labels", json!([])),
                ("metadata.labels", json!({"/x": "y"})),
            ];
            let (field, value) = draw(rng, &bad);
            let method = any(rng, &["POST", "APPLY", "MERGE"]);
            vec![step(method, at(method, ""), changed(field, value.clone()))]
        }
        "method" => vec![match rng.u8(..6) {
            0 => step("POST", one, body.clone()),
            1 => step("PUT", all, body.clone()),
            2 => step("MERGE", all, body.clone()),
            3 => step("DELETE", format!("{one}/status"), Value::Null),
            4 => step("GET", format!("{one}/nothing"), Value::Null),
            _ => step("GET", format!("{all}s"), Value::Null),
        }],
        "wrong-type" => {
            let fields: Vec<&String> =
                of.bodies.iter().filter_map(|body| body.as_object()?.keys().next()).collect();
            let Some(field) = fields.first() else { return Vec::new() };
            let value =
                draw(rng, &[json!(1), json!("x"), json!([1]), json!({"a": [1]}), json!(true)]).clone();
            let method = any(rng, &write);
            let mut body = if method == "PUT" { guarded() } else { body.clone() };
            body[field.as_str()] = value;
            vec![step(method, at(method, ""), body)]
        }
        _ => {
            let query = *draw(
                rng,
                &[
                    "resourceVersionMatch=Exact",
                    "resourceVersion=x",
                    "resourceVersionMatch=What&resourceVersion=1",
                    "resourceVersionMatch=Exact&resourceVersion=0",
                    "resourceVersion=99999999999",
                ],
            );
            vec![step("LIST", format!("{all}?{query}&labelSelector=run%3D{{ns}}"), Value::Null)]
        }
    }
}
