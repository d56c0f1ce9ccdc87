//! A manifest means here what the same text means to kubectl: each file of `corpus/` is given to our reader and
//! to `kubectl create --dry-run=client -o json`, on a cluster in memory (kubectl wants one for discovery). Where
//! kubectl refuses, so must we; where it accepts, the objects must be equal, but for what only a server writes.
//! Where the two differ, `DIFFERENCES` says why; a row that no longer differs fails too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
};

use futures::{StreamExt, stream};
use memkube::{
    Cluster, Options,
    listen::{Server, Settings, User},
    tokio_clock,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use vidra_core::manifest;

/// Files on which we differ, on purpose or because our parser cannot do better.
const DIFFERENCES: &[(&str, &str)] = &[
    // Refused here, accepted there.
    (
        "beyond-floats.yaml",
        "kubectl takes a number beyond any float for text; our parser cannot tell, and asks for quotes",
    ),
    ("document-end-and-more.yaml", "kubectl silently drops what stands behind `...`"),
    (
        "json-key-twice.json",
        "a key that stands twice is a mistake, and the API server says so too (strict field validation)",
    ),
    (
        "key-twice-as-word-and-text.yaml",
        "a key that stands twice is a mistake, and the API server says so too (strict field validation)",
    ),
    (
        "key-twice-nested.yaml",
        "a key that stands twice is a mistake, and the API server says so too (strict field validation)",
    ),
    (
        "key-twice.yaml",
        "a key that stands twice is a mistake, and the API server says so too (strict field validation)",
    ),
    (
        "merge-twice.yaml",
        "two merge keys in one mapping are read as a key that stands twice; a list of mappings says the same",
    ),
    ("json-lone-surrogate.json", "half of a surrogate pair is no text; kubectl replaces it silently"),
    ("json-then-yaml.yaml", "YAML right behind a JSON object: a line `---` between them is wanted"),
    ("latin-1.yaml", "no UTF-8; kubectl replaces bytes silently"),
    (
        "utf-16.yaml",
        "no UTF-8; the text of a custom resource or ConfigMap cannot hold it, binaryData must not either",
    ),
    ("no-name.yaml", "kubectl leaves it to the server, which refuses it"),
    ("no-version.yaml", "kubectl guesses v1"),
    ("tag-binary-not-utf8.yaml", "kubectl replaces bytes silently"),
    ("tag-local-text.yaml", "a tag that Kubernetes has no use for"),
    ("tag-local.yaml", "a tag that Kubernetes has no use for"),
    ("tag-omap.yaml", "a tag that Kubernetes has no use for"),
    ("tag-set.yaml", "a tag that Kubernetes has no use for"),
    ("tag-timestamp.yaml", "a tag that Kubernetes has no use for"),
    ("merge-quoted.yaml", r#"our parser does not tell `"<<"` from `<<`"#),
    ("odd-underscores.yaml", "our parser takes `1_` and `1_000.5` for text, kubectl for numbers"),
    ("words-in-mixed-case.yaml", "our parser takes `yEs` for yes, kubectl for text"),
    // Accepted here, refused there.
    ("double-quoted-slash.yaml", "`\\/` is an escape in YAML 1.2 and JSON, and means `/`"),
    ("double-quoted-surrogates.yaml", "a surrogate pair is an escape in JSON, and means one character"),
    ("line-separator-literal.yaml", "U+2028 ends a line in YAML 1.1 only"),
    ("line-separator-plain.yaml", "U+2028 ends a line in YAML 1.1 only"),
    ("list-of-lists.yaml", "a list in a list is taken apart as any other"),
    ("literal-with-tabs.yaml", "a tab behind the indentation is text"),
    ("tab-on-blank-line.yaml", "a tab on a blank line is white space"),
    ("tag-null.yaml", "our parser takes any `!!null` for null"),
    // Accepted by both, and read otherwise.
    (
        "items-in-an-object.yaml",
        "kubectl takes any object with `items` for a list, and drops the object itself",
    ),
    (
        "json-stream-after-separator.yaml",
        "kubectl silently drops all but the first JSON object behind a `---`",
    ),
    (
        "list-without-items.yaml",
        "kubectl leaves it to the server, which refuses it; an empty list declares nothing",
    ),
    ("next-line-quoted.yaml", "U+0085 ends a line in YAML 1.1 only"),
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/corpus")
}

fn files() -> Vec<String> {
    let entries = std::fs::read_dir(corpus()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() > 150, "the corpus is there: {} files", names.len());
    names
}

/// The objects in a text, or why it is refused. None at all is a refusal: there is nothing to create.
type Reading = Result<Vec<Value>, String>;

fn ours(name: &str) -> Reading {
    let bytes = std::fs::read(corpus().join(name)).unwrap();
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let objects = manifest::parse(&text).map_err(|error| error.to_string())?;
    if objects.is_empty() {
        return Err("no object".to_owned());
    }
    let mut objects: Vec<_> = objects.into_iter().map(|object| object.value).collect();
    objects.iter_mut().for_each(as_numbers);
    Ok(objects)
}

struct Kubectl {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Kubectl {
    async fn read(&self, name: &str) -> Reading {
        let done = tokio::process::Command::new(&self.program)
            .args(["create", "--dry-run=client", "--validate=false", "-o", "json", "-f"])
            .arg(corpus().join(name))
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .expect("kubectl runs");
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        let objects = serde_json::Deserializer::from_slice(&done.stdout).into_iter::<Value>();
        let mut objects: Vec<_> = objects.map(|object| without_server_made(object.unwrap())).collect();
        objects.iter_mut().for_each(as_numbers);
        Ok(objects)
    }
}

/// What our reader drops; and the namespace that kubectl fills in where none is named.
fn without_server_made(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if metadata.get("namespace").is_some_and(|namespace| namespace == "default") {
            metadata.remove("namespace");
        }
        for field in
            ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "selfLink"]
        {
            metadata.remove(field);
        }
    }
    object
}

/// Numbers as Kubernetes has them: 64-bit integers, and floats beyond; -0 is 0.
fn as_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            let float = number.as_f64().unwrap();
            *value = if float == 0.0 { Value::from(0) } else { Value::from(float) };
        }
        Value::Array(items) => items.iter_mut().for_each(as_numbers),
        Value::Object(fields) => fields.values_mut().for_each(as_numbers),
        _ => {}
    }
}

/// How the readings differ; None: they do not.
fn difference(kubectl: &Reading, ours: &Reading) -> Option<String> {
    match (kubectl, ours) {
        (Err(_), Err(_)) => None,
        (Ok(kubectl), Ok(ours)) if kubectl == ours => None,
        (Ok(kubectl), Ok(ours)) => {
            let shown = |all: &[Value]| Value::from(all).to_string();
            Some(format!("kubectl: {}\n  ours:    {}", shown(kubectl), shown(ours)))
        }
        (Ok(_), Err(error)) => Some(format!("kubectl accepts it, and we refuse: {error}")),
        (Err(error), Ok(_)) => Some(format!("we accept it, and kubectl refuses: {error}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_means_what_it_means_to_kubectl() {
    let clock = tokio_clock("2026-01-01T00:00:00Z".parse().unwrap());
    let cluster = Cluster::new("corpus", Options { clock, uids: 7 });
    let settings = Settings { users: vec![User::named("admin")], ..Settings::default() };
    let server = Server::start(vec![cluster], &settings, &CancellationToken::new()).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config"), server.kubeconfig_of("corpus", "admin").unwrap()).unwrap();
    let program = testkit::testbed::binary().unwrap().with_file_name("kubectl");
    let kubectl = &Kubectl { program, home };
    let readings = stream::iter(files()).map(async |name| {
        let found = difference(&kubectl.read(&name).await, &ours(&name));
        (name, found)
    });
    let readings: BTreeMap<_, _> = readings.buffer_unordered(4).collect().await;
    server.stop().await;
    let expected: BTreeMap<_, _> = DIFFERENCES.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, found) in &readings {
        match (found, expected.get(name.as_str())) {
            (Some(found), None) => wrong.push(format!("{name}\n  {found}")),
            (None, Some(_)) => wrong.push(format!("{name}: no longer differs; take it out of DIFFERENCES")),
            _ => {}
        }
    }
    wrong.extend(
        expected
            .keys()
            .filter(|name| !readings.contains_key(**name))
            .map(|name| format!("{name}: no such file")),
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
