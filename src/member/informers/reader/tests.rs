//! What is read of what a member sends, whatever that is.

mod frames;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};

use super::{
    super::tests::{gvk, resource, tuning},
    *,
};
use crate::{
    base::error::Class,
    wire::{MOST, Page},
};

fn reader(namespace: &str, client: Client) -> Reader {
    let (hub, tuning) = (HubId::try_from("h1").unwrap(), tuning());
    Reader::new(client, (gvk(), resource()), namespace.into(), hub, tuning)
}

/// For who knows no object.
fn unknown(_: &ObjectKey, _: &str, _: &str) -> bool {
    false
}

/// A server that sends this, piece by piece, over and over up to so many bytes.
fn server(piece: &'static [u8], most: usize) -> Client {
    let answer = move |_: http::Request<Body>| async move {
        let pieces = (0..most / piece.len())
            .map(move |_| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(piece))));
        Ok::<_, http::Error>(http::Response::new(StreamBody::new(futures::stream::iter(pieces))))
    };
    Client::new(tower::service_fn(answer), "default")
}

fn good() -> Value {
    json!({"metadata": {"name": "a", "namespace": "team", "uid": "u1", "resourceVersion": "7",
        "labels": {"vidra.dev/hub": "h1"}}, "data": {"key": "one"}})
}

fn with(change: impl Fn(&mut Value)) -> String {
    let mut object = good();
    change(&mut object);
    object.to_string()
}

#[tokio::test]
async fn an_object_that_is_not_what_it_should_be_is_named_as_far_as_it_goes() {
    let reader = reader("", server(b"{}", 0));
    assert!(matches!(reader.item(&good().to_string()), Item::Object(key, _) if &*key.name == "a"));
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let deep = good().to_string().replace("\"one\"", &deep);
    let rows: [(String, bool); 11] = [
        (deep, true),
        (with(|object| object["metadata"]["uid"] = json!(7)), false),
        (with(|object| object["metadata"]["uid"] = Value::Null), true),
        (with(|object| object["metadata"]["resourceVersion"] = json!({})), false),
        (with(|object| object["metadata"]["name"] = json!(["a"])), false),
        (with(|object| object["metadata"]["name"] = json!("x".repeat(300))), false),
        (with(|object| object["metadata"]["name"] = json!("a\u{1b}[31m")), false),
        (with(|object| object["metadata"]["labels"] = json!("h1")), true),
        (with(|object| object["metadata"]["labels"] = json!({"vidra.dev/hub": "h2"})), true),
        (with(|object| object["metadata"] = json!([])), false),
        ("7".to_owned(), false),
    ];
    for (text, is_named) in rows {
        let Item::Broken(broken) = reader.item(&text) else { panic!("read: {text:.200}") };
        assert_eq!(broken.key.is_some(), is_named, "{text:.200}");
    }
    // Only what is wanted of it need be well.
    let odd = with(|object| {
        object["metadata"]["managedFields"] = json!("x");
        object["metadata"]["generation"] = json!("many");
        object["metadata"]["ownerReferences"] = json!({"controller": 3});
        object["metadata"]["deletionTimestamp"] = json!(false);
    });
    assert!(matches!(reader.item(&odd), Item::Object(..)));
}

#[tokio::test]
async fn an_informer_of_one_namespace_takes_nothing_of_another() {
    let reader = reader("other", server(b"{}", 0));
    assert!(matches!(reader.item(&good().to_string()), Item::Broken(Broken { key: None, .. })));
    assert_eq!(reader.wire.path(), "/api/v1/namespaces/other/configmaps");
}

#[tokio::test]
async fn a_page_and_an_event_without_an_end_are_given_up() {
    for piece in [&[b'x'; 65536][..], b"y"] {
        let most = if piece.len() > 1 { MOST * 2 } else { 1 << 16 };
        let reader = reader("", server(piece, most));
        let page = reader.wire.page(500, None, false, Duration::from_secs(60)).await;
        let mut lines = reader.wire.watch("1", 200, Duration::from_secs(60)).await.unwrap();
        if most > MOST {
            assert_eq!(page.unwrap_err().class, Class::Oversized);
            assert_eq!(lines.next().await.unwrap_err().class, Class::Oversized);
        } else {
            assert!(Page::read(&page.unwrap()).is_err());
            assert_eq!(lines.next().await.unwrap(), None, "half a line is none");
        }
    }
}

#[tokio::test]
async fn lines_come_whole_however_they_are_cut() {
    let reader = reader("", server(b"{\"a\":1}\n{\"b\"", 24));
    let mut lines = reader.wire.watch("1", 200, Duration::from_secs(60)).await.unwrap();
    let mut all = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        all.push(line);
    }
    assert_eq!(all, ["{\"a\":1}", "{\"b\"{\"a\":1}"]);
}

#[tokio::test]
async fn events_are_read_in_whichever_order_their_fields_come() {
    let reader = reader("", server(b"{}", 0));
    let object = good();
    for text in [
        format!("{{\"type\":\"ADDED\",\"object\":{object}}}"),
        format!("{{\"object\":{object},\"type\":\"MODIFIED\"}}"),
    ] {
        assert!(matches!(reader.line(&text, unknown), Ok(Line::Applied(Item::Object(..)))), "{text}");
    }
    let gone = json!({"type": "ERROR", "object": {"status": "Failure", "code": 410, "message": "too old"}});
    assert!(
        matches!(reader.line(&gone.to_string(), unknown), Ok(Line::Error(error)) if error.class == Class::Expired)
    );
    for text in ["", "{}", "[]", "{\"type\":7,\"object\":{}}", "{\"type\":\"NEWS\",\"object\":{}}"] {
        assert!(reader.line(text, unknown).is_err(), "{text}");
    }
}

#[tokio::test]
async fn of_an_event_that_is_known_no_more_is_read() {
    let reader = reader("", server(b"{}", 0));
    let known = |key: &ObjectKey, uid: &str, version: &str| (&*key.name, uid, version) == ("a", "u1", "7");
    let line = |event: &str, object: &str| {
        reader.line(&format!("{{\"type\":\"{event}\",\"object\":{object}}}"), known).unwrap()
    };
    let is_known = |line: Line| matches!(line, Line::Known(key, version) if key.namespace.as_ref() == "team" && version == "7");
    assert!(is_known(line("MODIFIED", &good().to_string())) && is_known(line("ADDED", &good().to_string())));
    assert!(matches!(line("DELETED", &good().to_string()), Line::Deleted(Item::Object(..))));
    for (field, value) in [("uid", json!("u2")), ("resourceVersion", json!("8")), ("name", json!("b"))] {
        let other = with(|object| object["metadata"][field] = value.clone());
        assert!(matches!(line("MODIFIED", &other), Line::Applied(Item::Object(..))), "{field}");
    }
    let odd = with(|object| object["metadata"]["uid"] = json!(7));
    assert!(matches!(line("MODIFIED", &odd), Line::Applied(Item::Broken(_))));
}
