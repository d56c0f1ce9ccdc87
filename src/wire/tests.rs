//! What a server sends that means no good, or is in trouble: it is read as it stands there, or refused whole.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "hush-hush";
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    " ",
    "\n",
    "null",
    "0",
    "-",
    "1e999",
    "true",
    "\u{fffd}",
    "\"items\":[],",
    "\"metadata\":{},",
    "\"continue\":7,",
    "\"type\":\"DELETED\",",
    "\"object\":{},",
    "\"it\\u0065ms\":null,",
];

/// A wire that leads nowhere. Clients belong to the runtime in which they are made.
fn with_wire<T>(does: impl FnOnce(&Wire) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let answer = |_: http::Request<Body>| async { Ok::<_, http::Error>(http::Response::new(Body::empty())) };
    let client = Client::new(tower::service_fn(answer), "default");
    does(&Wire::of::<k8s_openapi::api::core::v1::ConfigMap>(client, None, ListParams::default()))
}

/// JSON over which who reads all of it stumbles: too deep, too large, or of two meanings.
fn odd() -> impl Strategy<Value = String> {
    let pairs = select(vec![("[", "]"), ("{\"a\":", "}")]);
    let whole = [
        "{\"a\":1,\"a\":2}",
        "\"\\ud800\"",
        "\"\\u0000\"",
        "null",
        "-0",
        "[ 1 , 2 ]",
        "{\"metadata\":7}",
        "\"]}\"",
        "{\"items\":[]}",
        "[\"ADDED\",{}]",
    ];
    prop_oneof![
        (1..3000usize, pairs).prop_map(|(deep, (open, close))| format!(
            "{}1{}",
            open.repeat(deep),
            close.repeat(deep)
        )),
        (1..400usize).prop_map(|digits| "9".repeat(digits)),
        any::<u32>().prop_map(|power| format!("-1.5E+{power}")),
        select(whole.to_vec()).prop_map(str::to_owned),
    ]
}

/// An object as servers send them, with this among its data.
fn object(name: &str, data: &str) -> String {
    format!(
        "{{\"data\":{data},\"metadata\":{{\"labels\":{data},\"name\":\"{name}\",\"namespace\":\"team\",\"uid\":\"u\",\
         \"resourceVersion\":\"7\"}}}}"
    )
}

fn any_object() -> impl Strategy<Value = String> {
    prop_oneof![("[a-z]{1,8}", odd()).prop_map(|(name, data)| object(&name, &data)), odd()]
}

fn small_object() -> impl Strategy<Value = String> {
    let data = (any::<String>(), -9..9i32)
        .prop_map(|(text, number)| json!({"key": text, "n": [number]}).to_string());
    ("[a-z]{1,8}", data).prop_map(|(name, data)| object(&name, &data))
}

/// A page of these, its fields in one order or the other.
fn page(items: &[String], version: u64, next: Option<&str>, swapped: bool) -> String {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    let items = items.join(" , ");
    match swapped {
        true => format!(
            "{{\"items\":[ {items}],\"metadata\":{metadata},\"kind\":\"List\",\"apiVersion\":\"v1\"}}"
        ),
        false => format!(
            "{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{metadata},\"items\":[{items} ]}}"
        ),
    }
}

fn line(event: &str, object: &str, swapped: bool) -> String {
    match swapped {
        true => format!("{{\"object\":{object},\"type\":\"{event}\"}}"),
        false => format!("{{\"type\":\"{event}\",\"object\": {object} }}"),
    }
}

/// Each beginning of a text but the whole of it.
fn beginnings(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(end, _)| &text[..end])
}

/// Puts these in, each for so many characters.
fn meddled(text: &str, edits: &[(Index, usize, &str)]) -> String {
    edits.iter().fold(text.to_owned(), |text, (at, removed, piece)| {
        let letters: Vec<char> = text.chars().collect();
        let (before, after) = letters.split_at(at.index(letters.len() + 1));
        before.iter().copied().chain(piece.chars()).chain(after.iter().copied().skip(*removed)).collect()
    })
}

fn edits() -> impl Strategy<Value = Vec<(Index, usize, &'static str)>> {
    vec((any::<Index>(), 0..3usize, select(PIECES)), 0..4)
}

proptest! {
    #[test]
    fn a_page_shows_each_object_as_it_was_sent_whatever_stands_beside_it(
        items in vec(any_object(), 0..6),
        version in any::<u64>(),
        next in proptest::option::of("[a-zA-Z0-9]{0,6}"),
        swapped in any::<bool>(),
    ) {
        let text = page(&items, version, next.as_deref(), swapped);
        let page = Page::read(&text).unwrap();
        prop_assert_eq!(page.items().collect::<Vec<_>>(), items);
        prop_assert_eq!(page.version(), version.to_string());
        prop_assert_eq!(page.next(), next.as_deref().filter(|token| !token.is_empty()));
    }

    /// One that cannot be read by itself is told by its name, and loses no other.
    #[test]
    fn an_event_is_handed_on_and_named_however_odd_its_object(data in odd(), name in "[a-z]{1,8}", swapped in any::<bool>()) {
        let sent = object(&name, &data);
        let glance = Glance::read(&sent).unwrap();
        let is = (glance.name, glance.namespace, glance.uid, glance.resource_version);
        prop_assert_eq!(is, (Some(name), Some("team".to_owned()), Some("u".to_owned()), Some("7".to_owned())));
        with_wire(|wire| {
            let of = |event: &str| line(event, &sent, swapped);
            let is_same = |object: &str| object == sent;
            prop_assert!(matches!(wire.line(&of("ADDED")), Ok(Line::Applied(object)) if is_same(object)));
            prop_assert!(matches!(wire.line(&of("DELETED")), Ok(Line::Deleted(object)) if is_same(object)));
            prop_assert!(matches!(wire.line(&of("BOOKMARK")), Ok(Line::Bookmark(version)) if version == "7"));
            Ok(())
        })?;
    }

    /// What is read must be what a reader of all of it finds there, or an object would be taken for gone.
    #[test]
    fn a_page_that_was_meddled_with_is_refused_or_shows_what_stands_there(
        items in vec(small_object(), 0..4), swapped in any::<bool>(), edits in edits(),
    ) {
        let text = meddled(&page(&items, 7, Some(SECRET), swapped), &edits);
        let read = match Page::read(&text) {
            Err(error) => {
                let said = format!("{error} {error:?}");
                prop_assert!(!said.contains(SECRET), "{}", said);
                return Ok(());
            }
            Ok(page) => page,
        };
        for item in read.items() {
            prop_assert!(serde_json::from_str::<&RawValue>(item).is_ok(), "{}", item);
        }
        let Ok(whole @ Value::Object(_)) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
        let items: Vec<Value> = read.items().map(|item| serde_json::from_str(item).unwrap()).collect();
        prop_assert_eq!(items.iter().collect::<Vec<_>>(), whole["items"].as_array().into_iter().flatten().collect::<Vec<_>>());
        let said = |field: &str| whole["metadata"][field].as_str().unwrap_or_default();
        prop_assert_eq!((read.version(), read.next().unwrap_or_default()), (said("resourceVersion"), said("continue")));
    }

    #[test]
    fn a_line_that_was_meddled_with_is_refused_without_a_word_of_it_or_says_what_stands_there(
        event in select(vec!["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", SECRET]),
        swapped in any::<bool>(),
        edits in edits(),
    ) {
        let text = meddled(&line(event, &object("a", &json!(SECRET).to_string()), swapped), &edits);
        let whole = serde_json::from_str::<Value>(&text);
        with_wire(|wire| {
            let (object, events) = match wire.line(&text) {
                Err(error) => {
                    let said = format!("{error} {error:?}");
                    prop_assert!(!said.contains(SECRET), "{}", said);
                    return Ok(());
                }
                Ok(Line::Applied(object)) => (object, ["ADDED", "MODIFIED"]),
                Ok(Line::Deleted(object)) => (object, ["DELETED"; 2]),
                Ok(Line::Bookmark(_) | Line::Error(_)) => return Ok(()),
            };
            let Ok(whole @ Value::Object(_)) = &whole else { return Ok(()) };
            prop_assert!(events.iter().any(|event| whole["type"] == *event));
            prop_assert_eq!(serde_json::from_str::<Value>(object).unwrap(), whole["object"].clone());
            Ok(())
        })?;
    }
}

proptest! {
    // Each is read as often as it has characters.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_cut_short_is_no_page_no_event_and_no_object(items in vec(small_object(), 0..3), swapped in any::<bool>()) {
        let object = object("a", "{\"key\":\"one\"}");
        let (page, line) = (page(&items, 7, Some("x"), swapped), line("ADDED", &object, swapped));
        prop_assert!(beginnings(&page).all(|text| Page::read(text).is_err()));
        prop_assert!(beginnings(&object).all(|text| Glance::read(text).is_none()));
        prop_assert!(with_wire(|wire| beginnings(&line).all(|text| wire.line(text).is_err())));
    }
}

#[test]
fn what_is_said_twice_is_said_by_no_api_server() {
    let pages = [
        r#""items":[{}],"items":[]"#,
        r#""items":[],"metadata":{},"metadata":{"continue":"x"}"#,
        r#""items":[],"metadata":{"continue":"x","continue":""}"#,
        r#""items":[],"metadata":{"resourceVersion":"1","resourceVersion":"2"}"#,
    ];
    let read =
        |says: &str| Page::read(&format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",{says}}}")).is_ok();
    assert!(read(r#""items":[],"metadata":{}"#));
    for text in pages {
        assert!(!read(text), "{text}");
    }
    for object in
        [r#"{"metadata":{"name":"a","name":"b"}}"#, r#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#]
    {
        assert!(Glance::read(object).is_none(), "{object}");
    }
    with_wire(|wire| {
        for text in [
            r#"{"type":"ADDED","object":{},"type":"DELETED"}"#,
            r#"{"type":"ADDED","object":{},"object":{"a":1}}"#,
        ] {
            assert!(wire.line(text).is_err(), "{text}");
        }
    });
}
