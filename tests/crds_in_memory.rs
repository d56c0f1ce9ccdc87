//! memkube holds the hub's objects to the rules of its CRDs as a real API server does: the objects of the golden
//! file are refused at the same fields, nearly all in the same words; and it keeps VidraResources as deep.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "crds/fields.rs"]
mod fields;

use std::collections::BTreeMap;

use futures::TryStreamExt;
use http_body_util::BodyExt;
use jiff::Timestamp;
use memkube::{Cluster, Options, tokio_clock};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Sends a request; gives code and answer.
async fn send(cluster: &Cluster, method: &str, path: &str, kind: &str, body: String) -> (u16, String) {
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let body = kube::client::Body::from(body.into_bytes());
    let response = cluster.client().send(request.body(body).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

/// A cluster with the CRDs.
async fn cluster() -> Cluster {
    let clock = tokio_clock(Timestamp::UNIX_EPOCH);
    let cluster = Cluster::new("hub", Options { clock, uids: 1 });
    for crd in vidra_api::crds::all() {
        let crd = serde_json::to_value(&crd).unwrap().to_string();
        let (code, answer) = send(&cluster, "POST", CRDS, "application/json", crd).await;
        assert_eq!(code, 201, "{answer}");
    }
    cluster
}

fn collection(kind: &str) -> String {
    let place = match kind {
        "MemberCluster" => "memberclusters",
        "VidraInventory" => "namespaces/default/vidrainventories",
        "VidraTarget" => "namespaces/default/vidratargets",
        _ => "namespaces/default/vidraresources",
    };
    format!("/apis/vidra.dev/v1alpha1/{place}")
}

/// What the server says to an object, if it does not take it.
async fn refusal(cluster: &Cluster, object: &Value) -> Option<Value> {
    let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(object["kind"].as_str().unwrap()));
    let (code, answer) = send(cluster, "POST", &path, "application/json", object.to_string()).await;
    (code != 201).then(|| serde_json::from_str(&answer).unwrap())
}

/// What is wrong with an answer, beside what the real server said: a cause that it did not name, or one that is
/// missing.
fn difference(status: &Value, held: &str) -> Option<String> {
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let head = |cause: &Value| {
        let message = cause["message"].as_str().unwrap_or_default();
        format!(
            "{}: {}",
            cause["field"].as_str().unwrap_or_default(),
            message.split(':').next().unwrap_or_default()
        )
    };
    let unknown = causes.iter().map(head).find(|head| !held.contains(head.as_str()));
    let kinds = ["Invalid value: ", "Required value", "Unsupported value: ", "Too long: ", "Too many: "];
    let wanted: usize = kinds.iter().map(|kind| held.matches(kind).count()).sum();
    unknown.or_else(|| (causes.len() != wanted).then(|| format!("{} causes", causes.len())))
}

#[tokio::test(start_paused = true)]
async fn wrong_fields_are_refused_as_the_golden_file_of_the_real_server_has_it() {
    let cluster = cluster().await;
    let crds: Vec<Value> =
        vidra_api::crds::all().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
    for good in fields::good() {
        assert_eq!(refusal(&cluster, &good).await, None, "a good object");
    }
    let golden = include_str!("golden/refusals.txt");
    let mut held: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let lines: Vec<_> = golden.lines().collect();
    for pair in lines.chunks(2) {
        held.entry(pair[0]).or_default().push(pair[1].trim());
    }
    let (mut wrong, mut worded, mut all) = (Vec::new(), Vec::new(), 0);
    for row in fields::wrong(&crds) {
        all += 1;
        let says = row.says.clone().unwrap_or_default();
        let held =
            held.get_mut(row.what.as_str()).filter(|held| !held.is_empty()).expect(&row.what).remove(0);
        let Some(status) = refusal(&cluster, &row.object).await else {
            wrong.push(format!("{}: accepted, and not: {held}", row.what));
            continue;
        };
        let said = fields::shortened(status["message"].as_str().unwrap_or_default());
        match difference(&status, held) {
            Some(why) => wrong.push(format!("{}: {why}\n  {said}\n  {held}", row.what)),
            None if !says.is_empty() && !said.contains(&says) => {
                wrong.push(format!("{}: {says}\n  {said}", row.what))
            }
            None if said != held => worded.push(format!("{}\n  {said}\n  {held}", row.what)),
            None => {}
        }
    }
    assert!(all > 200, "{all} rows");
    assert!(wrong.is_empty(), "{} of {all}\n{}", wrong.len(), wrong.join("\n"));
    assert!(worded.is_empty(), "{} of {all} in other words\n{}", worded.len(), worded.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_deep_vidra_resource_is_stored_listed_and_watched() {
    let cluster = cluster().await;
    for (name, levels) in [("shallow", 50), ("deep", 300), ("deeper", 2000)] {
        let nested = format!("{}{}", "{\"a\":".repeat(levels), "1") + &"}".repeat(levels);
        let body = format!(
            r#"{{"apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource", "metadata": {{"name": "{name}"}}, "spec":
               {{"targets": [], "manifests": [{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}},
               "data": {nested}}}]}}}}"#
        );
        let resources = collection("VidraResource");
        let (code, answer) = send(&cluster, "POST", &resources, "application/json", body).await;
        assert_eq!(code, 201, "{levels}: {answer:.300}");
        let (code, answer) = send(&cluster, "GET", &format!("{resources}/{name}"), "", String::new()).await;
        assert!(code == 200 && answer.contains(&nested), "{levels}: {code}");
        let (code, answer) = send(&cluster, "GET", &resources, "", String::new()).await;
        assert!(code == 200 && answer.contains(&nested), "{levels}: {code}");
        let watched = format!("{resources}?watch=1&timeoutSeconds=1");
        let (code, answer) = send(&cluster, "GET", &watched, "", String::new()).await;
        assert!(code == 200 && answer.contains(&nested), "{levels}: {code}");
    }
    let api = kube::Api::<kube::api::DynamicObject>::namespaced_with(
        cluster.client(),
        "default",
        &kube::api::ApiResource {
            group: "vidra.dev".into(),
            version: "v1alpha1".into(),
            api_version: "vidra.dev/v1alpha1".into(),
            kind: "VidraResource".into(),
            plural: "vidraresources".into(),
        },
    );
    assert!(api.get("shallow").await.is_ok());
    assert!(api.get("deep").await.is_err(), "this client reads 128 levels");
    assert!(
        api.list(&kube::api::ListParams::default()).await.is_err(),
        "and no list with such an object in it"
    );
    let params = kube::api::WatchParams::default().timeout(1);
    let events: Result<Vec<_>, _> = api.watch(&params, "0").await.unwrap().try_collect().await;
    assert!(events.is_err(), "{events:?}");
    let gone = json!({}).to_string();
    let path = format!("{}/deeper", collection("VidraResource"));
    assert_eq!(send(&cluster, "DELETE", &path, "application/json", gone).await.0, 200);
}
