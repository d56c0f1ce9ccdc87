//! What a text means, and what is refused.

mod hostile;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const HEAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

fn one(text: &str) -> Value {
    let mut objects = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(objects.len(), 1, "{text}");
    objects.remove(0).value
}

fn refusal(text: &str) -> String {
    match parse(text) {
        Ok(objects) => panic!("{text} was read as {objects:?}"),
        Err(error) => error.to_string(),
    }
}

/// Each pair was read by kubectl 1.32 (`kubectl annotate --local -o json`).
#[test]
fn a_plain_scalar_means_what_it_means_to_kubectl() {
    for (scalar, value) in [
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("089", json!(89)),
        ("0x1F", json!(31)),
        ("1_000", json!(1000)),
        ("1.0", json!(1)),
        ("1e3", json!(1000)),
        ("-0.0", json!(0)),
        ("0.5", json!(0.5)),
        ("4611686018427387904.0", json!(4_611_686_018_427_388_000_i64)),
        ("9223372036854775807", json!(i64::MAX)),
        ("18446744073709551615", json!(18_446_744_073_709_552_000.0)),
        ("yes", json!(true)),
        ("off", json!(false)),
        ("n", json!(false)),
        ("=", json!("=")),
        ("2001-01-01", json!("2001-01-01")),
        ("1:30", json!("1:30")),
        ("0.1.2", json!("0.1.2")),
        ("100m", json!("100m")),
        ("'1.0'", json!("1.0")),
        ("!!str 1", json!("1")),
        ("!!binary aGk=", json!("hi")),
        ("~", json!(null)),
        ("", json!(null)),
    ] {
        assert_eq!(one(&format!("{HEAD}data: {{v: {scalar}}}"))["data"]["v"], value, "{scalar}");
    }
}

#[test]
fn a_key_means_what_it_means_to_kubectl() {
    for (key, text) in [
        ("yes", "true"),
        ("on", "true"),
        ("n", "false"),
        ("0x10", "16"),
        ("0644", "420"),
        ("1.10", "1.1"),
        ("1e3", "1000"),
        ("1500000.0", "1.5e+06"),
        ("'on'", "on"),
        ("=", "="),
        ("a b", "a b"),
    ] {
        let object = one(&format!("{HEAD}data:\n  {key}: v\n"));
        assert_eq!(object["data"], json!({ text: "v" }), "{key}");
    }
}

#[test]
fn merge_keys_and_aliases_are_followed() {
    let object =
        one(&format!("{HEAD}p: &x {{a: 1, b: 2}}\nq: {{<<: *x, b: 3}}\nr: *x\ns: {{b: 3, <<: *x}}\n"));
    assert_eq!(object["q"], json!({"a": 1, "b": 3}));
    assert_eq!(object["s"], json!({"a": 1, "b": 2}), "what stands before it is overridden");
    assert_eq!(object["r"], json!({"a": 1, "b": 2}));
}

#[test]
fn json_is_read_alone_concatenated_and_between_separators() {
    let object = |name: &str| {
        format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}, "n": 1.0}}"#)
    };
    let text = format!("{}\n{}{}\n---\n{HEAD}", object("one"), object("two"), object("three"));
    let objects = parse(&text).unwrap();
    let found: Vec<_> = objects.iter().map(|o| (o.place.document, o.name.as_str())).collect();
    assert_eq!(found, [(1, "one"), (2, "two"), (3, "three"), (4, "a")]);
    assert_eq!(objects[0].value["n"], json!(1));
    assert_eq!(one("{apiVersion: v1, kind: ConfigMap, metadata: {name: braces}}")["kind"], "ConfigMap");
    assert_eq!(one(&format!("{}\n# a comment\n", object("one")))["n"], json!(1));
    assert_eq!(one(&object("one").replace("1.0", r#"{"<<": {"a": 1}}"#))["n"], json!({"<<": {"a": 1}}));
    assert!(refusal(&format!("{}\n{{\"a\": }}", object("one"))).starts_with("document 2 (line 2)"));
}

#[test]
fn a_float_of_json_is_the_very_one_that_was_written() {
    for number in ["31041116715030E25", "1.7976931348623157e308", "0.30000000000000004"] {
        let text = format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}, "n": {number}}}"#
        );
        assert_eq!(one(&text)["n"], json!(number.parse::<f64>().unwrap()), "{number}");
    }
}

#[test]
fn empty_and_comment_only_documents_are_skipped_and_counted() {
    let text = format!("# licence\n---\n{HEAD}---\n# nothing\n---\n---\nnull\n---\n{HEAD}");
    let documents: Vec<_> = parse(&text).unwrap().iter().map(|o| o.place.document).collect();
    assert_eq!(documents, [1, 5]);
    for text in ["", "\n\n", "# only\n# comments\n", "---\n---\n", "null", "\u{feff}"] {
        assert_eq!(parse(text), Ok(Vec::new()), "{text:?}");
    }
}

#[test]
fn lists_are_flattened_and_typed_items_get_their_kind() {
    let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- apiVersion: v1
  kind: ConfigMapList
  items:
  - {metadata: {name: b, namespace: shop}, data: {k: v}}
  - {metadata: {name: c}}
- {apiVersion: apps/v1, kind: DeploymentList, items: []}
- {apiVersion: v1, kind: List}
";
    let objects = parse(text).unwrap();
    let found: Vec<_> =
        objects.iter().map(|o| (o.gvk.to_string(), &*o.name, o.namespace.as_deref())).collect();
    let config_map = || "v1 ConfigMap".to_owned();
    assert_eq!(
        found,
        [(config_map(), "a", None), (config_map(), "b", Some("shop")), (config_map(), "c", None)]
    );
    assert_eq!(objects[1].value["kind"], "ConfigMap");
    assert_eq!(objects[1].value["apiVersion"], "v1");
    // A kind of its own that merely ends so.
    assert_eq!(one("{apiVersion: x.example/v1, kind: AllowList, metadata: {name: a}}")["kind"], "AllowList");
}

#[test]
fn what_only_a_server_writes_is_dropped() {
    let object = one("
apiVersion: v1
kind: Service
metadata:
  name: a
  namespace: ''
  uid: u
  resourceVersion: '7'
  generation: 3
  selfLink: /x
  creationTimestamp: null
  deletionTimestamp: 2024-01-01T00:00:00Z
  deletionGracePeriodSeconds: 30
  managedFields: [{manager: x}]
  ownerReferences: []
  generateName: ''
  labels: {a: b}
spec: {type: ClusterIP}
status: {loadBalancer: {}}
");
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a", "labels": {"a": "b"}},
        "spec": {"type": "ClusterIP"},
    });
    assert_eq!(object, expected);
}

#[test]
fn a_refusal_names_document_object_field_and_mend() {
    for (text, expected) in [
        (
            "just text",
            "document 1 (line 1): the document is text, where a Kubernetes object, a mapping, is expected",
        ),
        (
            "- a\n- b",
            "document 1 (line 1): the document is a list, where a Kubernetes object, a mapping, is expected",
        ),
        (
            "kind: ConfigMap\nmetadata: {name: a}",
            "document 1 (line 1): ConfigMap a has no apiVersion: add it",
        ),
        (
            "\n# c\napiVersion: v1\nmetadata: {name: a, namespace: b}",
            "document 1 (line 3): object b/a has no kind: add it",
        ),
        ("apiVersion: v1\nkind: ConfigMap", "document 1 (line 1): ConfigMap has no metadata.name: add it"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}",
            "document 1 (line 1): metadata.generateName of Pod would make another object at every apply: give the object a metadata.name instead",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, ownerReferences: [{uid: x}]}",
            "document 1 (line 1): metadata.ownerReferences of Pod a name an object by a uid that no other cluster has: remove them",
        ),
        (
            "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {vidra.dev/wave: first}}",
            "document 1 (line 2): metadata.annotations[\"vidra.dev/wave\"] of Pod a must be a whole number from -1000 to 1000, in quotes",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {vidra.dev/wave: 1}}",
            "document 1 (line 1): metadata.annotations[\"vidra.dev/wave\"] of Pod a is a number, where text is expected: put it in quotes",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {vidra.dev/apply: Never}}",
            "document 1 (line 1): metadata.annotations[\"vidra.dev/apply\"] of Pod a must be Always, IfAbsent or Once",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {vidra.dev/on-immutable: recreate}}",
            "document 1 (line 1): metadata.annotations[\"vidra.dev/on-immutable\"] of Pod a must be Fail or Recreate",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}",
            "document 1 (line 1): metadata.name of Pod is a number, where text is expected: put it in quotes",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {on: yes}}",
            "document 1 (line 1): metadata.labels[\"true\"] of Pod a is a boolean, where text is expected: put it in quotes",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: []}",
            "document 1 (line 1): metadata.annotations of Pod a is a list, where a mapping is expected",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, finalizers: [1]}",
            "document 1 (line 1): metadata.finalizers of Pod a is a list, where a list of text is expected",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: [b]}",
            "document 1 (line 1): metadata.namespace of Pod a is a list, where text is expected",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: [a]",
            "document 1 (line 1): metadata of Pod is a list, where a mapping is expected",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: {a: b}",
            "document 1 (line 1): items of List is a mapping, where a list is expected",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}]",
            "document 1 (line 1): Pod (item 1 of List) has no metadata.name: add it",
        ),
        (
            "apiVersion: v1\nkind: PodList\nitems: [a]",
            "document 1 (line 1): item 1 of PodList is text, where a Kubernetes object, a mapping, is expected",
        ),
    ] {
        assert_eq!(refusal(text), expected);
    }
}

#[test]
fn names_that_would_change_a_url_are_refused() {
    for name in ["../x", "..", "a/b", "a?dryRun=All", "a%2fb", "a#b", "a b"] {
        let text = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}).to_string();
        assert!(refusal(&text).contains("metadata.name of Pod"), "{name}");
        let text = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": name}});
        assert!(refusal(&text.to_string()).contains("metadata.namespace of Pod"), "{name}");
        let text = json!({"apiVersion": format!("{name}/v1"), "kind": "Pod", "metadata": {"name": "a"}});
        assert!(refusal(&text.to_string()).contains("apiVersion of Pod"), "{name}");
    }
    assert_eq!(
        one("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: 'system:a.B_c'}}")["kind"],
        "Role"
    );
}

#[test]
fn a_parse_error_names_the_line_of_the_whole_text() {
    for (text, expected) in [
        (format!("{HEAD}---\n\na: [1\nb: 2\n"), "document 2 (line 7): "),
        (
            format!("{HEAD}---\na: 1\nb:\n  c: 1\n  c: 2\n"),
            "document 2 (line 8): a key stands twice in one mapping",
        ),
        (format!("{HEAD}--- b: 2\n"), "document 1 (line 4): a line that starts with `---`"),
        (format!("{HEAD}---\n{{\"a\": 1,\n \"a\": 2}}"), "document 2 (line 6): a key stands twice"),
        (format!("{HEAD}...\na: 1\n"), "document 1 (line "),
        (
            format!("{HEAD}p: &x {{a: 1}}\nq: {{<<: *x, a: 2, a: 3}}\n"),
            "document 1 (line 5): a key stands twice",
        ),
        (format!("{HEAD}q: {{<<: 3}}\n"), "document 1 (line 4): the value of a merge key `<<` is no mapping"),
        (format!("{HEAD}q: !x 3\n"), "document 1 (line 4): a tag is none that"),
        (format!("{HEAD}---\n# c\n...\n"), "document 2 (line 6): a document ends"),
        (format!("{HEAD}x: *nowhere\n"), "document 1 (line 4): "),
        (format!("{HEAD}x: 12e4567\n"), "document 1 (line 4): a number is larger than any float"),
        (format!("{HEAD}x: .inf\n"), "document 1 (line 4): a number is larger than any float, or none"),
        (format!("{HEAD}on: 1\n'true': 2\n"), "document 1 (line 5): a key stands twice"),
        (format!("{HEAD}x: {{~: 1}}\n"), "document 1 (line 4): a key is null"),
        (format!("{HEAD}x: {{{{{{ a }}}}}}\n"), "document 1 (line 4): a key is a mapping"),
    ] {
        let message = refusal(&text);
        assert!(message.starts_with(expected), "{message}\nexpected {expected}");
    }
}

#[test]
fn no_error_quotes_a_value() {
    let secret = "hunter2hunter2";
    for tail in [
        format!("stringData: {{a: {secret}, a: {secret}}}"),
        format!("stringData:\n  {secret}: 1\n  {secret}: 2"),
        format!("stringData: [{secret}"),
        format!("stringData: *{secret}"),
        format!("stringData: !{secret}!x {secret}"),
        format!("stringData: \"{secret}\\q\""),
        format!("stringData: {{x: !!int {secret}}}"),
        format!("stringData: {{x: !!binary {secret}}}"),
        format!("stringData: &{secret} [*{secret}]"),
        format!("stringData: a: {secret}"),
        format!("stringData:\n  a: |\n  {secret}\n {secret}: x"),
    ] {
        let message = refusal(&format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\n{tail}\n"));
        assert!(!message.contains(secret), "{message}");
    }
}

#[test]
fn an_alias_bomb_is_refused_before_it_explodes() {
    let mut one_bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(",");
        one_bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(refusal(&one_bomb).contains("too large"), "{}", refusal(&one_bomb));

    // Small bombs in many documents share one budget.
    let items = vec!["*a"; 90].join(",");
    let text = "x".repeat(100_000);
    let small = format!("{HEAD}a: &a {text}\nb: [{items}]\n---\n").repeat(30);
    assert!(refusal(&small).contains("too large"), "{}", refusal(&small));
}

#[test]
fn sizes_beyond_the_limits_are_refused() {
    assert_eq!(parse(&" ".repeat(MAX_TEXT + 1)), Err(ManifestError::TooLarge { bytes: MAX_TEXT + 1 }));
    let item = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let list = |count: usize| json!({"apiVersion": "v1", "kind": "List", "items": vec![item.clone(); count]});
    assert_eq!(from_value(1, list(MAX_OBJECTS)).map(|objects| objects.len()), Ok(MAX_OBJECTS));
    assert_eq!(from_value(1, list(MAX_OBJECTS + 1)), Err(ManifestError::TooMany));
    for open in ["[", "{\"a\":"] {
        assert!(parse(&format!("{HEAD}---\n{}", open.repeat(100_000))).is_err(), "{open}");
    }
}

#[test]
fn pruning_is_switched_off_by_one_word_only() {
    let with = |value: &str| {
        let metadata = format!("metadata: {{name: a, annotations: {{vidra.dev/prune: {value}}}}}");
        parse(&format!("apiVersion: v1\nkind: ConfigMap\n{metadata}\n"))
    };
    assert!(with("disabled").is_ok());
    for value in ["'false'", "Disabled", "''", "enabled"] {
        let error = with(value).unwrap_err().to_string();
        assert!(error.contains("vidra.dev/prune") && error.contains("`disabled`"), "{error}");
    }
}

#[test]
fn nesting_as_deep_as_a_schema_is_read() {
    let deep = format!("{}1{}", "[".repeat(80), "]".repeat(80));
    assert!(parse(&format!("{HEAD}x: {deep}\n")).is_ok());
    let blocks: String = (0..80).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(parse(&format!("{HEAD}x:\n{}", blocks.replace("a:", " a:"))).is_ok());
}

#[test]
fn a_manifest_of_a_thousand_documents_is_read() {
    let text: String = (0..1000)
        .map(|n| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{n}\ndata:\n  k: v\n"))
        .collect();
    let objects = parse(&text).unwrap();
    assert_eq!(objects.len(), 1000);
    assert_eq!((objects[999].place.document, objects[999].name.as_str()), (1000, "c999"));
}

#[test]
fn public_manifests_are_read_whole() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/manifests");
    for (file, count) in [
        ("online-boutique.yaml", 35),
        ("kube-prometheus/1-setup.yaml", 11),
        ("kube-prometheus/2-stack.yaml", 120),
    ] {
        // Only where they are: a fresh clone has none.
        if let Ok(text) = std::fs::read_to_string(folder.join(file)) {
            assert_eq!(parse(&text).map(|objects| objects.len()), Ok(count), "{file}");
        }
    }
}

proptest! {
    #[test]
    fn parse_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn parse_never_panics_on_what_looks_like_yaml(text in "([a-c]|[-:{}\\[\\]&*!|>'\"#%@, \n]|---\n|<<: |\\? |  ){0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_json_object_is_read_as_it_is(data in prop::collection::btree_map("[a-z ~=]{1,6}", ".{0,12}", 0..6)) {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        prop_assert_eq!(one(&value.to_string()), value.clone());
        prop_assert_eq!(one(&serde_json::to_string_pretty(&value).unwrap()), value);
    }
}

#[test]
fn live_objects_are_read_as_they_are_and_those_of_lists_one_by_one() {
    let text = "# pods\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {uid: u}, \
                status: {phase: Running}}\n---\napiVersion: v1\nkind: PodList\nitems: [{metadata: {name: b}}]\n";
    let read = documents("pods.yaml", text).unwrap();
    let places: Vec<_> = read.iter().map(|(place, _)| place.to_string()).collect();
    assert_eq!(places, ["pods.yaml, document 1 (line 3)", "pods.yaml, document 2 (line 8)"]);
    let objects: Vec<_> =
        read.into_iter().flat_map(|(place, value)| live_objects(place, value).unwrap()).collect();
    assert_eq!(
        objects,
        [
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u"}, "status": {"phase": "Running"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}),
        ]
    );
    for (text, told) in [
        ("kind: [", "x, document 1 (line 1): "),
        ("a: 1\n---\nb: 1\nb: 2", "x, document 2 (line 4): a key stands twice in one mapping"),
        ("kind: Pod", "x, document 1 (line 1): Pod has no apiVersion: add it"),
        ("[1]", "x, document 1 (line 1): the document is a list, where a Kubernetes object"),
        ("kind: List\nitems: [1]", "item 1 of List is a number"),
    ] {
        let read = documents("x", text).and_then(|all| {
            all.into_iter().map(|(place, value)| live_objects(place, value)).collect::<Result<Vec<_>, _>>()
        });
        let error = read.unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
}
