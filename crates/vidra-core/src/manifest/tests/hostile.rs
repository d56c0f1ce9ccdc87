//! Texts that nobody means well with: each is read or refused, within its bounds and without a word of what it holds; and
//! what is read means one thing only.

use proptest::{
    collection::vec,
    sample::{Index, select},
};

use super::*;
use crate::{
    hostile::{YAML, meddled},
    object::ObjectKey,
    weight,
};

const PIECES: &[&[&str]] = &[YAML, &["kind: List\n", "items: ", "namespace: b\n"]];

const TEXTS: &[&str] = &[
    "# c\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: &a {app: x, \"1\": 'y'}\ndata: &b\n  <<: *a\n  k: |\n    v\n   \
     # no\n  n: 0.5\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: b, namespace: shop}, spec: {replicas: 1}}\n",
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMapList\n  items:\n  - metadata: {name: a, uid: u}\n  - metadata: \
     {name: b}\n    status: {x: 1}\n- {apiVersion: v1, kind: Pod, metadata: {name: c, finalizers: [x]}}\n",
    "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"a\", \"annotations\": {\"vidra.dev/wave\": \"1\"}},\n \
     \"data\": {\"k\": \"djE=\", \"n\": 1.0}}\n{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \
     \"Pod\", \"metadata\": {\"name\": \"b\"}}]}",
];

/// The objects of a text that may be none.
fn declared(text: &str) -> Vec<ManifestObject> {
    parse(text).unwrap_or_default()
}

fn key(object: &ManifestObject) -> ObjectKey {
    ObjectKey::new(&object.gvk, object.namespace.as_deref().unwrap_or_default(), &object.name)
}

/// A manifest in double quotes, its names with any letters, each spelt in one of the ways that there are; in lists of
/// lists, whose names alone say what their items are.
fn spelt() -> impl Strategy<Value = String> {
    let letter = select(vec!['a', 'b', '0', '-', '.', ':', 'é', '一', '\u{20000}', '\u{1d400}', '😀']);
    let word = vec((letter, 0..6usize), 1..5).prop_map(|letters| {
        let mut units = [0; 2];
        let spell = |(letter, way): (char, usize)| match way {
            0 | 1 => letter.to_string(),
            2 => format!("{letter}\\\n   "),
            3 if letter.is_ascii() => format!("\\x{:02x}", u32::from(letter)),
            4 => format!("\\U{:08X}", u32::from(letter)),
            _ => letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        };
        letters.into_iter().map(spell).collect::<String>()
    });
    (word, 0..4usize).prop_map(|(name, lists)| {
        let head = |kind: &str| format!("\"apiVersion\": \"v1\", \"kind\": \"{kind}\"");
        let metadata = format!("\"metadata\": {{\"name\": \"a{name}\"}}");
        match lists {
            0 => format!("{{{}, {metadata}}}\n", head("Pod")),
            _ => {
                let items = (1..lists)
                    .fold(format!("{{{metadata}}}"), |items, _| format!("{{\"items\": [{items}]}}"));
                format!("{{{}, \"items\": [{items}]}}\n", head(&format!("Pod{}", "List".repeat(lists))))
            }
        }
    })
}

/// Does this with room for 96 levels of YAML, each of which takes 24 KB of the stack in a build that is not optimised:
/// more than the thread of a test has.
fn with_stack<T: Send>(does: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(4 << 20).spawn_scoped(scope, does).unwrap().join().unwrap()
    })
}

/// Numbers as JSON may write them.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| if number.is_finite() {
            format!("{number:e}")
        } else {
            "0".to_owned()
        }),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?",
    ]
}

/// Texts as JSON may write them: of any letters, or with escapes of all kinds.
fn quoted() -> impl Strategy<Value = String> {
    let escape = select(vec![
        "\\/",
        "\\b\\f",
        "\\t",
        "\\\\",
        "\\\"",
        "\\u0000",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\u2028",
        " ",
        "#",
        "yes",
    ]);
    prop_oneof![
        any::<String>().prop_map(|text| json!(text.chars().take(12).collect::<String>()).to_string()),
        vec(escape, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat())),
    ]
}

/// JSON with white space of any kind between its parts.
fn json_text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        number(),
        quoted(),
        select(vec!["null", "true", "false", "{}", "[]"]).prop_map(str::to_owned)
    ];
    let space = select(vec!["", " ", "\n", "\n\t", "\r\n  ", "\t"]);
    scalar.prop_recursive(4, 24, 4, move |inner| {
        let joined = |open: &str, parts: Vec<String>, space: &str, close: &str| {
            format!("{open}{space}{}{space}{close}", parts.join(&format!("{space},{space}")))
        };
        let field = (quoted(), inner.clone()).prop_map(|(key, value)| format!("{key}:{value}"));
        prop_oneof![
            (vec(inner, 0..4), space.clone()).prop_map(move |(items, space)| joined("[", items, space, "]")),
            (vec(field, 0..4), space.clone())
                .prop_map(move |(fields, space)| joined("{", fields, space, "}")),
        ]
    })
}

/// Fields of which each is a text, or holds or merges those before it.
fn woven() -> impl Strategy<Value = String> {
    let part =
        (select(vec!["text", "list", "map", "merge"]), 0..60usize, vec(any::<Index>(), 0..5), 0..6usize);
    vec(part, 1..8).prop_map(|parts| {
        let mut text = HEAD.to_owned();
        let (mut all, mut maps) = (Vec::new(), Vec::new());
        for (at, (what, length, named, document)) in parts.into_iter().enumerate() {
            if document == 0 {
                text.push_str(&format!("---\n{HEAD}"));
                (all, maps) = (Vec::new(), Vec::new());
            }
            let of = |from: &[usize]| -> Vec<String> {
                named.iter().filter(|_| !from.is_empty()).map(|one| format!("*p{}", one.get(from))).collect()
            };
            let value = match what {
                "list" => format!("[{}]", of(&all).join(", ")),
                "map" => {
                    let fields: Vec<String> = of(&all)
                        .iter()
                        .enumerate()
                        .map(|(key, value)| format!("k{}: {value}", key + length))
                        .collect();
                    format!("{{{}}}", fields.join(", "))
                }
                "merge" => format!("{{<<: [{}], k{length}: 1}}", of(&maps).join(", ")),
                _ => "x".repeat(length),
            };
            text.push_str(&format!("p{at}: &p{at} {value}\n"));
            all.push(at);
            if matches!(what, "map" | "merge") {
                maps.push(at);
            }
        }
        text
    })
}

proptest! {
    #[test]
    fn what_is_read_can_be_delivered_and_reads_as_itself(
        text in meddled(select(TEXTS).prop_map(str::to_owned), PIECES, 4),
    ) {
        for object in declared(&text) {
            let at = |pointer: &str| object.value.pointer(pointer);
            let said = |pointer: &str| at(pointer).and_then(Value::as_str);
            prop_assert_eq!(said("/apiVersion").map(str::to_owned), Some(object.gvk.api_version()));
            prop_assert_eq!(said("/kind"), Some(&*object.gvk.kind));
            prop_assert_eq!(said("/metadata/name"), Some(object.name.as_str()));
            prop_assert_eq!(at("/metadata/namespace").and_then(Value::as_str), object.namespace.as_deref());
            prop_assert!(!object.name.is_empty() && !object.name.contains(['/', '%', '?', '#', ' ', '\n']));
            for field in ["/status", "/metadata/uid", "/metadata/managedFields", "/metadata/ownerReferences"] {
                prop_assert_eq!(at(field), None, "{}", field);
            }
            prop_assert_eq!(one(&object.value.to_string()), object.value);
        }
    }

    /// A kind or a name that is missed among the words of a broken text is taken for no longer declared, and deleted.
    #[test]
    fn what_a_text_declares_stands_among_its_words(
        text in prop_oneof![
            meddled(spelt(), PIECES, 1),
            meddled(select(TEXTS).prop_map(str::to_owned), PIECES, 3),
        ],
    ) {
        let words = Words::of([text.as_str()]);
        for object in declared(&text) {
            prop_assert!(words.may_declare(&key(&object)), "{:?}", object);
        }
    }

    #[test]
    fn what_is_read_as_json_is_read_alike_as_yaml(text in json_text()) {
        // A merge key of YAML, and a key like any other of JSON.
        prop_assume!(!text.contains("\"<<\""));
        let (budget, other) = (Budget::new(MAX_VALUES), Budget::new(MAX_VALUES));
        let (mut values, fault) = tree::read_json(&text, &budget);
        let yaml = tree::read_yaml(&text, &other);
        match (values.pop(), fault) {
            (Some(value), None) => prop_assert_eq!(yaml, Ok(value)),
            _ => prop_assert!(yaml.is_err(), "{:?}", yaml),
        }
    }

    #[test]
    fn what_is_read_takes_no_more_than_its_budget(room in 0..40_000usize, text in meddled(woven(), PIECES, 1)) {
        let mut reader = Reader { budget: Budget::new(room), ..Reader::default() };
        let _ = reader.read_text(None, &text);
        let objects = reader.finish();
        let taken: usize = objects.iter().map(|object| weight::of(&object.value)).sum();
        // The items of a typed list get a kind and an apiVersion.
        prop_assert!(taken <= room + 2048 * objects.len(), "{} of {}", taken, room);
    }

    #[test]
    fn nesting_is_read_as_far_as_it_may_go_and_refused_beyond(
        depth in prop_oneof![1..86usize, 130..3000usize],
        (open, inner, close) in select(vec![
            ("[", "1", "]"), ("{\"a\":", "1", "}"), ("{a: ", "1", "}"), ("- ", "1", ""), ("- - ", "1", ""), ("[{a: ", "1", "}]"),
            ("- &a ", "1", ""), ("!!str ", "1", ""), ("&a ", "1", ""), ("? ", "1", ""), ("{? ", "1", "}"), ("- a: ", "1", ""),
            ("[[],", "1", "]"), ("'", "1", ""), ("\"", "1", ""), ("*a ", "1", ""), ("-\n", "", ""), ("a:\n ", "", ""),
        ]),
    ) {
        let deep = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
        let read = with_stack(|| parse(&format!("{HEAD}x:\n  {deep}\n")));
        let levels = depth * open.matches(['[', '{', '-']).count();
        if matches!(open, "[" | "{\"a\":" | "{a: " | "- " | "- - " | "[{a: ") {
            prop_assert!(read.is_ok() == (levels < 90) || (90..=96).contains(&levels), "{:?}", read);
        }
        let json = format!("{{\"a\":{deep}}}");
        let (values, fault) = with_stack(|| tree::read_json(&json, &Budget::new(MAX_VALUES)));
        if matches!(open, "[" | "{\"a\":") {
            prop_assert!(fault.is_none() == (depth < 127) && values.len() == usize::from(fault.is_none()));
        }
    }

    #[test]
    fn nothing_that_is_said_of_a_text_is_a_value_of_it(
        (secret, text) in ("[A-Z]{20}", 0..6usize).prop_flat_map(|(secret, which)| {
            let held = match which {
                0 => format!("stringData:\n  k: {secret}\n"),
                1 => format!("stringData: {{k: \"{secret}\", {secret}: [1]}}\n"),
                2 => format!("stringData:\n  k: |\n    {secret}\n    {secret}\n"),
                3 => format!("data: !!binary {secret}\nx: *{secret}\n"),
                4 => format!("metadata:\n  annotations: {{k: [{secret}]}}\n  finalizers: {{{secret}: 1}}\n"),
                _ => format!("status: {secret}\nitems: [{{{secret}: {secret}}}]\n"),
            };
            let head = if which == 4 { "apiVersion: v1\nkind: Secret\n" } else { HEAD };
            (Just(secret), meddled(Just(format!("{head}{held}")), PIECES, 1))
        }),
    ) {
        if let Err(error) = parse(&text) {
            let said = format!("{error} {error:?}");
            prop_assert!(!said.contains(&secret), "{}", said);
        }
        let said = format!("{:?}", declared(&text));
        prop_assert!(!said.contains(&secret), "{}", said);
    }
}
