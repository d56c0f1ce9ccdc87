//! A server before a member that forwards until it is told to attack: the hub admits what stands behind it, and then
//! meets what a hostile member may send. On loopback.
//!
//! ```text
//! client -> Front (HTTPS) -> Attack::answer -> the attack's bytes, counted
//!                                           -> forwarded to the member, as vidra-hub
//! ```

use std::{
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use http::{Request, Response, Uri, Version, header};
use http_body_util::BodyExt;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use memkube::listen::Front;
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::testbed::Cluster;

type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// The longest answer.
const WHOLE: usize = 16 << 20;
const PIECE: usize = 64 << 10;
/// Where a client drains what an attack sends.
const DRAIN: &str = "/drain";

/// What a hostile member sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Every answer is 16 MiB of JSON whose values take many times its text.
    Nonsense,
    /// Every answer is an error with 16 MiB of causes.
    Causes,
    /// Every page of a list is full and leads to another; watches are refused, so that there are lists.
    EndlessList,
    /// Watches tell of changes of one object without a pause.
    Flood,
    /// Watches send one line that never ends.
    EndlessLine,
}

/// What is asked for, as far as an attack looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    is_watch: bool,
    /// Objects in a page.
    limit: Option<usize>,
    is_discovery: bool,
    /// The hub's id that its lists and watches name.
    hub: String,
}

impl Asked {
    fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let labels = value("labelSelector").unwrap_or_default();
        Self {
            is_watch: value("watch").is_some_and(|watch| watch == "true" || watch == "1"),
            limit: value("limit").and_then(|limit| limit.parse().ok()),
            is_discovery: matches!(uri.path(), "/api" | "/apis"),
            hub: labels.strip_prefix("vidra.dev/hub=").unwrap_or_default().to_owned(),
        }
    }
}

/// What is answered: the status, and texts one after the other.
struct Reply {
    code: u16,
    texts: Box<dyn Iterator<Item = Bytes> + Send>,
}

impl Reply {
    /// These texts, in pieces.
    fn of(code: u16, texts: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>) -> Self {
        let pieces = texts.into_iter().flat_map(|text| {
            let count = text.len().div_ceil(PIECE);
            (0..count).map(move |at| text.slice(at * PIECE..((at + 1) * PIECE).min(text.len())))
        });
        Self { code, texts: Box::new(pieces) }
    }
}

impl Attack {
    /// What it answers; `None`: what the member does. `number` grows from answer to answer.
    fn answer(self, asked: &Asked, number: u64) -> Option<Reply> {
        match self {
            Self::Nonsense => Some(Reply::of(200, nonsense(asked))),
            Self::Causes => Some(Reply::of(422, [CAUSES.clone()])),
            Self::EndlessList if asked.is_watch => {
                let expired = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410});
                Some(Reply::of(410, [expired.to_string().into()]))
            }
            Self::EndlessList => Some(Reply::of(200, [page(asked.limit?, &asked.hub, number).into()])),
            Self::Flood if asked.is_watch => {
                let hub = asked.hub.clone();
                let texts = (1..).map(move |version| Bytes::from(event(&hub, version)));
                Some(Reply { code: 200, texts: Box::new(texts) })
            }
            Self::EndlessLine if asked.is_watch => {
                let begin = Bytes::from("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"");
                let more = std::iter::repeat(Bytes::from(vec![b'x'; PIECE]));
                Some(Reply { code: 200, texts: Box::new(std::iter::once(begin).chain(more)) })
            }
            Self::Flood | Self::EndlessLine => None,
        }
    }

    /// What it mostly sends, without an end.
    fn sample(self) -> Box<dyn Iterator<Item = Bytes> + Send> {
        let is_watch = matches!(self, Self::Flood | Self::EndlessLine);
        let asked = Asked { is_watch, limit: Some(500), is_discovery: false, hub: "sample".to_owned() };
        let texts = (0..).filter_map(move |number| self.answer(&asked, number)).flat_map(|reply| reply.texts);
        Box::new(texts)
    }
}

/// Empty maps, as many as an answer has room for.
static MAPS: LazyLock<Bytes> = LazyLock::new(|| vec!["{}"; (WHOLE - 128) / 3].join(",").into());

/// Empty maps where lists of them may stand.
fn nonsense(asked: &Asked) -> [Bytes; 3] {
    let (begin, end) = match (asked.is_watch, asked.limit, asked.is_discovery) {
        (true, ..) => ("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"managedFields\":[", "]}}}\n"),
        (_, Some(_), _) => ("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[", "]}"),
        (.., true) => {
            ("{\"kind\":\"APIGroupDiscoveryList\",\"items\":[{\"versions\":[{\"resources\":[", "]}]}]}")
        }
        _ => ("{\"metadata\":{\"managedFields\":[", "]}}"),
    };
    [begin.into(), MAPS.clone(), end.into()]
}

/// An error with as many causes as an answer has room for.
static CAUSES: LazyLock<Bytes> = LazyLock::new(|| {
    let head = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Invalid\",\"code\":422,\"details\":{\"causes\":[";
    let cause = |number| format!("{{\"field\":\"a{number:07}\"}}");
    let count = (WHOLE - 256) / (cause(0).len() + 1);
    let causes: Vec<_> = (0..count).map(cause).collect();
    format!("{head}{}]}}}}", causes.join(",")).into()
});

/// A page of objects that were never there before, and that leads to another.
fn page(limit: usize, hub: &str, number: u64) -> String {
    let item = |at: usize| {
        json!({"metadata": {
            "name": format!("made-up-{number}-{at}"), "namespace": "default", "uid": format!("made-up-{number}-{at}"),
            "resourceVersion": "1", "labels": {"vidra.dev/hub": hub},
        }})
    };
    let items: Vec<_> = (0..limit.min(5000)).map(item).collect();
    json!({"metadata": {"resourceVersion": "1", "continue": format!("page-{number}")}, "items": items})
        .to_string()
}

fn event(hub: &str, version: u64) -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "made-up", "namespace": "default", "uid": "made-up", "resourceVersion": version.to_string(),
            "labels": {"vidra.dev/hub": hub},
        },
        "data": {"value": version.to_string(), "filling": "x".repeat(800)},
    });
    format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n")
}

/// What was sent of attacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Bytes of text.
    pub bytes: u64,
    /// Answers, watches among them.
    pub answers: u64,
}

/// A server before a member that forwards until it attacks.
pub struct Hostile {
    front: Front,
    state: Arc<State>,
}

struct State {
    member: Client,
    attack: watch::Sender<Option<Attack>>,
    bytes: AtomicU64,
    answers: AtomicU64,
}

impl Hostile {
    /// Stands before this member and forwards.
    pub async fn start(member: &Cluster) -> Result<Self> {
        let state = Arc::new(State {
            member: member.client("vidra-hub").await?,
            attack: watch::Sender::new(None),
            bytes: AtomicU64::new(0),
            answers: AtomicU64::new(0),
        });
        let answering = state.clone();
        let front = Front::start(&member.name, move |request| {
            let answer = answering.clone().answer(request);
            async move { answer.await.map_err(io::Error::other) }
        })
        .await?;
        Ok(Self { front, state })
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.front.address
    }

    /// A kubeconfig for what stands at this URL before it.
    pub fn kubeconfig(&self, url: &str) -> Result<String> {
        Ok(self.front.kubeconfig(url, "hostile")?)
    }

    /// What it does from now on; answers that are under way end.
    pub fn set(&self, attack: Option<Attack>) {
        self.state.attack.send_replace(attack);
    }

    /// So far.
    pub fn sent(&self) -> Sent {
        let State { bytes, answers, .. } = &*self.state;
        Sent { bytes: bytes.load(Ordering::Relaxed), answers: answers.load(Ordering::Relaxed) }
    }

    /// Reads what an attack sends, over TLS as the hub does, so many bytes a second, until it is dropped.
    pub async fn drain(&self, attack: Attack, bytes_per_second: f64) -> Result<()> {
        let text = self.kubeconfig(&format!("https://{}", self.address()))?;
        let kubeconfig = Kubeconfig::from_yaml(&text)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let request = Request::get(format!("{DRAIN}?attack={attack:?}")).body(Body::empty())?;
        let answer = Client::try_from(config)?.send(request).await?;
        let (mut pieces, began, mut read) = (answer.into_body().into_data_stream(), Instant::now(), 0);
        while let Some(piece) = pieces.next().await {
            read += piece?.len();
            sleep_until(began + Duration::from_secs_f64(read as f64 / bytes_per_second.max(1.0))).await;
        }
        anyhow::bail!("the hostile server has ended what was to be drained")
    }
}

impl State {
    async fn answer(self: Arc<Self>, request: Request<Bytes>) -> Result<Response<Pieces>> {
        if request.uri().path() == DRAIN {
            return Ok(Response::new(drained(request.uri())?));
        }
        let attack = *self.attack.borrow();
        let number = self.answers.load(Ordering::Relaxed);
        let Some(reply) = attack.and_then(|attack| attack.answer(&Asked::of(request.uri()), number)) else {
            return self.forward(request).await;
        };
        self.answers.fetch_add(1, Ordering::Relaxed);
        let counting = self.clone();
        let texts = futures::stream::iter(reply.texts).map(move |text| {
            counting.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
            Ok(text)
        });
        let answer = Response::builder().status(reply.code).header(header::CONTENT_TYPE, "application/json");
        Ok(answer.body(self.while_it_is_so(texts))?)
    }

    async fn forward(&self, request: Request<Bytes>) -> Result<Response<Pieces>> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().context("a request has no path")?;
        parts.uri = path.as_str().parse()?;
        // Each of the two connections has its own.
        parts.version = Version::HTTP_11;
        for name in [header::AUTHORIZATION, header::HOST, header::CONTENT_LENGTH] {
            parts.headers.remove(name);
        }
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        let answer = self.member.send(request).await?;
        let (mut parts, body) = answer.into_parts();
        parts.version = Version::HTTP_11;
        // It is said again, where it is known.
        for name in [header::TRANSFER_ENCODING, header::CONNECTION] {
            parts.headers.remove(name);
        }
        let pieces = body.into_data_stream().map(|piece| piece.map_err(io::Error::other));
        Ok(Response::from_parts(parts, self.while_it_is_so(pieces)))
    }

    /// Until it is to do something else.
    fn while_it_is_so(&self, pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Pieces {
        let mut attack = self.attack.subscribe();
        let changed = async move {
            // Where the sender is gone, all ends.
            let _ = attack.changed().await;
        };
        pieces.take_until(Box::pin(changed)).boxed()
    }
}

fn drained(uri: &Uri) -> Result<Pieces> {
    let all = [Attack::Nonsense, Attack::Causes, Attack::EndlessList, Attack::Flood, Attack::EndlessLine];
    let wanted = uri.query().unwrap_or_default().trim_start_matches("attack=");
    let attack = all.into_iter().find(|attack| format!("{attack:?}") == wanted).context("no such attack")?;
    Ok(futures::stream::iter(attack.sample()).map(Ok).boxed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str) -> Asked {
        Asked::of(&path.parse().unwrap())
    }

    fn text(reply: Reply, pieces: usize) -> String {
        let all: Vec<u8> = reply.texts.take(pieces).flatten().collect();
        String::from_utf8(all).unwrap()
    }

    const WATCH: &str = "/api/v1/configmaps?labelSelector=vidra.dev%2Fhub%3Dh1&watch=true";
    const LIST: &str = "/api/v1/configmaps?labelSelector=vidra.dev%2Fhub%3Dh1&limit=500";

    #[test]
    fn what_is_asked_is_read_off_the_address() {
        let watch = asked(WATCH);
        assert!(watch.is_watch && watch.limit.is_none() && watch.hub == "h1", "{watch:?}");
        assert_eq!((asked(LIST).limit, asked(LIST).is_watch), (Some(500), false));
        assert!(asked("/apis").is_discovery && !asked("/apis/apps/v1").is_discovery);
    }

    #[test]
    fn each_attack_answers_what_it_is_about_and_forwards_the_rest() {
        for (attack, asks, answered) in [
            (Attack::Nonsense, "/version", true),
            (Attack::Causes, WATCH, true),
            (Attack::EndlessList, "/api/v1/namespaces/kube-system", false),
            (Attack::Flood, LIST, false),
            (Attack::Flood, WATCH, true),
            (Attack::EndlessLine, "/version", false),
        ] {
            assert_eq!(attack.answer(&asked(asks), 0).is_some(), answered, "{attack:?} {asks}");
        }
    }

    #[test]
    fn answers_are_as_long_as_they_may_be_and_json() {
        for (attack, asks) in [
            (Attack::Nonsense, "/api/v1/namespaces/kube-system"),
            (Attack::Nonsense, "/apis"),
            (Attack::Nonsense, LIST),
            (Attack::Causes, LIST),
        ] {
            let text = text(attack.answer(&asked(asks), 0).unwrap(), usize::MAX);
            assert!((WHOLE - 256..=WHOLE).contains(&text.len()), "{attack:?}: {}", text.len());
            assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{attack:?} {asks}");
        }
        let page: serde_json::Value =
            serde_json::from_str(&text(Attack::EndlessList.answer(&asked(LIST), 7).unwrap(), usize::MAX))
                .unwrap();
        assert_eq!(page["items"].as_array().map(Vec::len), Some(500));
        assert_eq!(page["metadata"]["continue"], "page-7");
    }

    #[test]
    fn watches_flood_or_never_end_a_line() {
        let flood = text(Attack::Flood.answer(&asked(WATCH), 0).unwrap(), 3);
        let versions = flood.lines().map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["object"]["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
        });
        assert_eq!(versions.collect::<Vec<_>>(), ["1", "2", "3"]);
        assert!(!text(Attack::EndlessLine.answer(&asked(WATCH), 0).unwrap(), 300).contains('\n'));
    }

    #[test]
    fn what_is_drained_does_not_end() {
        for attack in [Attack::Nonsense, Attack::EndlessList, Attack::Flood] {
            assert_eq!(attack.sample().take(600).filter(|text| !text.is_empty()).count(), 600, "{attack:?}");
        }
    }
}
