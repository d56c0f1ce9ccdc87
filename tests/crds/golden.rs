//! A wrong value for each field of the CRDs, and what a real API server says to it, word by word: a field without a
//! sentence, or with another one, is seen.

use std::path::Path;

use serde_json::Value;

use super::{bed, fields, install_crds};

/// Where the sentences stand.
const GOLDEN: &str = "tests/golden/refusals.txt";

/// What a server says to an object, if it does not take it.
async fn refusal(client: &kube::Client, object: &Value) -> Option<String> {
    let collection = match object["kind"].as_str().unwrap() {
        "MemberCluster" => "memberclusters",
        "VidraInventory" => "namespaces/default/vidrainventories",
        "VidraTarget" => "namespaces/default/vidratargets",
        _ => "namespaces/default/vidraresources",
    };
    let uri = format!("/apis/vidra.dev/v1alpha1/{collection}?dryRun=All&fieldValidation=Strict");
    let request = http::Request::post(uri).header("content-type", "application/json");
    match client.request::<Value>(request.body(object.to_string().into_bytes()).unwrap()).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message.clone()),
        Err(error) => panic!("no answer: {error}"),
    }
}

#[test]
fn an_api_server_refuses_each_field_that_is_wrong_in_the_words_of_the_golden_file() {
    install_crds();
    let crds: Vec<Value> =
        vidra_api::crds::all().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
    let rows = fields::wrong(&crds);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut text, mut faults) = (String::new(), Vec::new());
    runtime.block_on(async {
        let client = bed().1.hub.client("admin").await.unwrap();
        for good in fields::good() {
            faults
                .extend(refusal(&client, &good).await.map(|why| format!("a good object is refused: {why}")));
        }
        for row in &rows {
            match refusal(&client, &row.object).await {
                None => faults.push(format!("accepted: {}", row.what)),
                Some(why) if row.says.as_ref().is_some_and(|says| !why.contains(says)) => {
                    faults.push(format!("{}: expected {:?} and not: {why}", row.what, row.says));
                }
                Some(why) => text += &format!("{}\n    {}\n", row.what, fields::shortened(&why)),
            }
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    if std::env::var_os("VIDRA_GOLDEN").is_some_and(|word| word == "write") {
        return std::fs::write(path, text).unwrap();
    }
    let held = std::fs::read_to_string(path).unwrap_or_default();
    let (now, held): (Vec<_>, Vec<_>) = (text.lines().collect(), held.lines().collect());
    let differs = now
        .iter()
        .zip(&held)
        .position(|(now, held)| now != held)
        .or_else(|| (now.len() != held.len()).then_some(now.len().min(held.len())));
    if let Some(line) = differs {
        let (now, held) = (now.get(line), held.get(line));
        panic!(
            "{GOLDEN}, line {}, has {held:?} and the server says {now:?}; VIDRA_GOLDEN=write writes it again",
            line + 1
        );
    }
}
