//! Frames of a watch, and pages, made up by chance: nothing that comes ends the reader or makes it hold more than it
//! may, and what is well is read as it is, however it is cut on its way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;

/// One line of a watch, and what is to be read of it if that is known: type, name, resourceVersion.
#[derive(Clone, Debug)]
struct Sent {
    bytes: Vec<u8>,
    is: Option<(&'static str, String, String)>,
}

fn event() -> impl Strategy<Value = Sent> {
    let types = prop::sample::select(vec!["ADDED", "MODIFIED", "DELETED"]);
    (types, "[a-z]{1,8}", 1..u64::MAX, any::<String>(), any::<bool>()).prop_map(
        |(event, name, version, value, swapped)| {
            let object = with(|object| {
                object["metadata"]["name"] = json!(name);
                object["metadata"]["resourceVersion"] = json!(version.to_string());
                object["data"]["key"] = json!(value);
            });
            let text = match swapped {
                true => format!("{{\"object\":{object},\"type\":\"{event}\"}}"),
                false => format!("{{\"type\":\"{event}\",\"object\":{object}}}"),
            };
            Sent { bytes: text.into_bytes(), is: Some((event, name, version.to_string())) }
        },
    )
}

fn junk() -> impl Strategy<Value = Sent> {
    let shapes = [
        "",
        " ",
        "null",
        "7",
        "[]",
        "{}",
        "\"ADDED\"",
        "{\"type\":\"ADDED\"}",
        "{\"object\":{}}",
        "{\"type\":null,\"object\":null}",
        "{\"type\":\"ADDED\",\"object\":7}",
        "{\"type\":\"ERROR\",\"object\":{\"code\":\"x\"}}",
        "{\"type\":\"ERROR\",\"object\":[]}",
        "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":7}}}",
        "{\"type\":\"BOOKMARK\",\"object\":[]}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":[]}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":{}}}}",
        "{\"metadata\":{},\"items\":{}}",
        "{\"metadata\":7}",
        "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[7,null,[]]}",
        "{\"type\":\"ADDED\",\"type\":\"ADDED\",\"object\":{}}",
    ];
    let bytes = prop_oneof![
        vec(any::<u8>(), 0..80),
        prop::sample::select(shapes.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        (event(), any::<Index>()).prop_map(|(sent, at)| sent.bytes[..at.index(sent.bytes.len())].to_vec()),
        (event(), event()).prop_map(|(one, two)| [one.bytes, two.bytes].concat()),
        (0..4000usize, "[\\[{]").prop_map(|(deep, open)| {
            format!("{{\"type\":\"ADDED\",\"object\":{}", open.repeat(deep)).into_bytes()
        }),
    ];
    bytes.prop_map(|mut bytes| {
        bytes.retain(|byte| *byte != b'\n');
        Sent { bytes, is: None }
    })
}

/// Cuts bytes at these places.
fn cut(bytes: &[u8], at: &[Index]) -> Vec<Bytes> {
    let mut places: Vec<_> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|ends| Bytes::copy_from_slice(&bytes[ends[0]..ends[1]])).collect()
}

/// A server that sends these, and how many bytes of them were taken.
fn sending(pieces: Vec<Bytes>, taken: Arc<AtomicUsize>) -> Client {
    let answer = move |_: http::Request<Body>| {
        let (pieces, taken) = (pieces.clone(), taken.clone());
        let pieces = pieces.into_iter().map(move |piece| {
            taken.fetch_add(piece.len(), Ordering::Relaxed);
            Ok::<_, std::io::Error>(Frame::data(piece))
        });
        async move { Ok::<_, http::Error>(http::Response::new(StreamBody::new(futures::stream::iter(pieces)))) }
    };
    Client::new(tower::service_fn(answer), "default")
}

const MINUTE: Duration = Duration::from_secs(60);

/// One for a case: clients belong to the runtime in which they are made.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

proptest! {
    #[test]
    fn lines_are_read_alike_however_they_are_cut_and_whatever_stands_between_them(
        sent in vec(prop_oneof![event(), junk()], 0..8),
        cuts in vec(any::<Index>(), 0..24),
        rest in junk(),
    ) {
        let mut bytes = Vec::new();
        for one in &sent {
            bytes.extend_from_slice(&one.bytes);
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(&rest.bytes);
        let runtime = runtime();
        let _inside = runtime.enter();
        let reader = reader("", sending(cut(&bytes, &cuts), Arc::default()));
        let lines = runtime.block_on(async {
            let mut watch = reader.wire.watch("1", 200, MINUTE).await.unwrap();
            let mut lines = Vec::new();
            while let Some(line) = watch.next().await.unwrap() {
                lines.push(line);
            }
            lines
        });
        // What has no end is no line.
        let expected: Vec<_> = sent.iter().map(|one| String::from_utf8_lossy(&one.bytes).into_owned()).collect();
        prop_assert_eq!(&lines, &expected);
        for (line, one) in lines.iter().zip(&sent) {
            let read = reader.line(line, unknown);
            let Some((event, name, version)) = &one.is else { continue };
            let (deleted, item) = match read {
                Ok(Line::Applied(item)) => (false, item),
                Ok(Line::Deleted(item)) => (true, item),
                _ => return Err(TestCaseError::fail(format!("not read: {line}"))),
            };
            prop_assert_eq!(deleted, *event == "DELETED");
            let Item::Object(key, live) = item else {
                return Err(TestCaseError::fail(format!("not an object: {line}")));
            };
            prop_assert_eq!((&*key.name, live.resource_version()), (name.as_str(), version.as_str()));
        }
    }

    #[test]
    fn a_page_of_whatever_is_read_or_refused_and_each_of_its_objects_too(
        items in vec(prop_oneof![event(), junk()], 0..6),
        cuts in vec(any::<Index>(), 0..12),
        wrapped in any::<bool>(),
    ) {
        let texts: Vec<_> = items.iter().map(|one| String::from_utf8_lossy(&one.bytes).into_owned()).collect();
        let body = match wrapped {
            true => format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"9\"}},\"items\":[{}]}}", texts.join(",")),
            false => texts.join(","),
        };
        let runtime = runtime();
        let _inside = runtime.enter();
        let reader = reader("", sending(cut(body.as_bytes(), &cuts), Arc::default()));
        let text = runtime.block_on(reader.wire.page(500, None, false, MINUTE)).unwrap();
        prop_assert_eq!(&text, &body);
        if let Ok(page) = Page::read(&text) {
            for raw in page.items() {
                // Neither panics; what is said of one that cannot be read bears no value of it.
                let _ = reader.listed(raw, true);
                let _ = reader.item(raw);
            }
        }
        for text in &texts {
            let _ = (reader.line(text, unknown).is_ok(), matches!(reader.item(text), Item::Object(..)));
        }
    }
}

proptest! {
    #[test]
    fn an_object_that_was_meddled_with_is_what_was_asked_for_or_is_said_to_be_broken(
        edits in vec(
            (
                any::<Index>(),
                0..4usize,
                prop::sample::select(vec![
                    "", "{", "}", "[", "]", ",", "\"", "\\", "\\u001b", "/", "null", "7", "1e99", "h2", "\"uid\":\"u2\",",
                    "\"namespace\":\"other\",", "\"labels\":{},", "\"metadata\":{},",
                ]),
            ),
            0..4,
        ),
    ) {
        let mut text = good().to_string();
        for (at, removed, piece) in edits {
            let at = at.index(text.len() + 1);
            let end = text.len().min(at + removed);
            text.replace_range(at..end, piece);
        }
        let runtime = runtime();
        let _inside = runtime.enter();
        let reader = reader("team", sending(Vec::new(), Arc::default()));
        match reader.item(&text) {
            Item::Object(key, live) => {
                // A reader without bounds finds the same in it.
                let whole: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&live.json, &whole);
                let metadata = &whole["metadata"];
                prop_assert!(is_name(&key.name) && metadata["name"] == *key.name);
                prop_assert!(metadata["namespace"] == "team" && &*key.namespace == "team");
                prop_assert!(metadata["labels"]["vidra.dev/hub"] == "h1" && !live.uid().is_empty());
            }
            Item::Broken(broken) => {
                prop_assert!(broken.key.is_none_or(|key| is_name(&key.name) && &*key.namespace == "team"));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn no_more_is_taken_than_may_be_held(piece in (1usize << 16)..(5 << 20), byte in any::<u8>()) {
        let byte = if byte == b'\n' { b'x' } else { byte };
        let pieces = vec![Bytes::from(vec![byte; piece]); 3 * MOST / piece + 1];
        let taken = Arc::new(AtomicUsize::new(0));
        let runtime = runtime();
        let _inside = runtime.enter();
        let reader = reader("", sending(pieces, taken.clone()));
        runtime.block_on(async {
            let page = reader.wire.page(500, None, false, MINUTE).await;
            assert_eq!(page.unwrap_err().class, Class::Oversized);
            assert!(taken.swap(0, Ordering::Relaxed) <= MOST + piece);
            let mut watch = reader.wire.watch("1", 200, MINUTE).await.unwrap();
            assert_eq!(watch.next().await.unwrap_err().class, Class::Oversized);
            assert!(taken.load(Ordering::Relaxed) <= MOST + piece);
            assert!(watch.waiting.len() <= MOST + piece && watch.waiting.capacity() <= 2 * (MOST + piece));
        });
    }
}
