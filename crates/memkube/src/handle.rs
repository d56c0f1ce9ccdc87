//! Serving a request: reading verbs here, writing verbs handed on to the store.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::Inner;
use super::admission::Gate;
use super::aggregated;
use super::discovery;
use super::failure::Failure;
use super::fault::{Call, Verb};
use super::kinds::Kind;
use super::limits;
use super::openapi;
use super::options::{self, Form};
use super::review;
use super::rights::Attributes;
use super::route::{self, Address, Asked, Target};
use super::select::Selector;
use super::starting::Starting;
use super::store::{Object, Place, Resource, Store};
use super::strategy;
use super::table;
use super::watch::{Scope, Start};
use super::write::Write;

/// How long a watch lasts that names no timeout; the real server draws 30 to 60 minutes.
const WATCH_TIMEOUT: Duration = Duration::from_secs(1800);

/// An answer, not yet HTTP.
pub(super) enum Answer {
    Json(u16, Value),
    Object(u16, Object),
    /// JSON that is written already.
    Raw(u16, Bytes),
    Aggregated(Bytes),
    Text(u16, &'static str),
    /// A page that no API server writes.
    Html(u16),
    Watch(Start),
}

impl Answer {
    /// The HTTP status.
    pub fn code(&self) -> u16 {
        match self {
            Answer::Json(code, _)
            | Answer::Object(code, _)
            | Answer::Raw(code, _)
            | Answer::Text(code, _)
            | Answer::Html(code) => *code,
            Answer::Aggregated(_) | Answer::Watch(_) => 200,
        }
    }

    /// The same as text, where it may be too deep to be handed on.
    fn written(self) -> Self {
        match self {
            Answer::Json(code, value) => Answer::Raw(code, value.to_string().into()),
            Answer::Object(code, object) => Answer::Raw(code, object.json()),
            other => other,
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Answer::Json(failure.code, failure.status())
    }
}

impl Inner {
    /// Serves one request: effect and answer in one step, with nothing in between. Warnings come beside.
    pub(super) fn handle(self: &Arc<Self>, asked: &Asked, call: &Call) -> (Answer, Vec<String>) {
        self.with_room_for(asked, |deep| {
            let (answer, warnings) = self.handle_in(asked, call);
            (if deep { answer.written() } else { answer }, warnings)
        })
    }

    fn handle_in(self: &Arc<Self>, asked: &Asked, call: &Call) -> (Answer, Vec<String>) {
        let gate = self.gate(call);
        let starting = self.front.lock().starting();
        let mut store = self.store.lock();
        store.warnings.clear();
        store.age();
        let before = store.revision();
        let answer = self.answer(&mut store, asked, gate, &call.user, starting).unwrap_or_else(Answer::from);
        let changed = store.revision() != before;
        let warnings = std::mem::take(&mut store.warnings);
        store.age();
        self.schedule(&mut store);
        drop(store);
        if changed {
            self.wake.notify_waiters();
        }
        (answer, warnings)
    }

    fn answer(
        &self,
        store: &mut Store,
        asked: &Asked,
        gate: Option<Gate>,
        user: &str,
        starting: Starting,
    ) -> Result<Answer, Failure> {
        if let Some((caller, _)) = gate.as_ref().and_then(|gate| gate.rights.as_ref())
            && starting.rights
            && !caller.free
        {
            return Err(Attributes::of(asked).forbidden(&caller.user, ""));
        }
        let gate = gate.map(|gate| store.authorized(gate, asked).map(Arc::new)).transpose()?;
        let in_one = discovery::wants_aggregated(&asked.accept);
        let missing = options::missing(&store.kinds, &asked.path);
        let document = |found: Option<Value>| match found {
            Some(document) => Answer::Json(200, document),
            None => missing.map_or(Answer::Text(404, "404 page not found\n"), Answer::from),
        };
        let found = match &asked.target {
            Target::Objects(address) => find(store, address),
            _ => None,
        };
        if let Some(answer) = starting.answer(store, asked, found.as_deref()) {
            return Ok(answer);
        }
        let shown = starting.shown(store);
        let any_method =
            matches!(asked.target, Target::Objects(_) | Target::Health | Target::Groups | Target::Unknown);
        if !any_method && asked.verb != Verb::Get {
            return Err(Failure::method_not_allowed());
        }
        Ok(match &asked.target {
            Target::Health => Answer::Text(200, "ok"),
            Target::Version => Answer::Raw(200, format!("{:#}", route::version(store.version)).into()),
            Target::CoreVersions if in_one => Answer::Aggregated(discovery::aggregated(&shown, &[], true)),
            Target::CoreVersions => Answer::Json(200, discovery::core_versions(&shown)),
            Target::Groups if in_one => {
                Answer::Aggregated(discovery::aggregated(&shown, &store.broken(), false))
            }
            Target::Groups if starting.crds => {
                let own: Vec<_> =
                    shown.iter().filter(|kind| kind.group == aggregated::GROUP).cloned().collect();
                Answer::Json(200, discovery::group_list(&own, &[]))
            }
            Target::Groups => Answer::Json(200, discovery::group_list(&shown, &store.broken())),
            Target::Group(group) => document(discovery::group(&shown, &store.broken(), group)),
            Target::Resources(group, version) if unreachable(store, group, version) => {
                Answer::Text(503, "service unavailable\n")
            }
            Target::Resources(group, version) => document(discovery::resources(&shown, group, version)),
            Target::OldDocument if asked.accept.contains("protobuf") => {
                Answer::Text(200, openapi::OLD_DOCUMENT_PROTOBUF)
            }
            Target::OldDocument => Answer::Raw(200, openapi::OLD_DOCUMENT.into()),
            Target::Documents => Answer::Json(200, openapi::index(&store.kinds)),
            Target::Document(path) => openapi::document(&store.kinds, path)
                .map_or_else(|| document(None), |text| Answer::Raw(200, text.into())),
            Target::Unknown => document(None),
            Target::Objects(address) if store.unavailable.contains(&address.group) => {
                Answer::Text(503, "service unavailable\n")
            }
            Target::Objects(address) => match found {
                Some(kind) if review::is_one(&kind) => {
                    let rights = gate.as_ref().and_then(|gate| gate.rights.as_ref());
                    review::answer(store, rights, user, &kind, &options::body(asked)?, asked.verb)?
                }
                Some(kind) if reads_all(asked.verb) && !store.is_ready(&kind) => {
                    return Err(Failure::initializing());
                }
                Some(kind) => {
                    if !store.any_size {
                        limits::request(&asked.body)?;
                    }
                    self.objects(store, asked, address, kind, gate)?
                }
                None if unreachable(store, &address.group, &address.version) => {
                    Answer::Text(503, "service unavailable\n")
                }
                None if store.kinds.iter().any(|kind| is_near(kind, address)) => {
                    let message = "the server could not find the requested resource";
                    return Err(Failure::new(404, "NotFound", message));
                }
                None => document(None),
            },
        })
    }

    fn objects(
        &self,
        store: &mut Store,
        asked: &Asked,
        address: &Address,
        kind: Arc<Kind>,
        gate: Option<Arc<Gate>>,
    ) -> Result<Answer, Failure> {
        let deletion = options::deletion(asked)?;
        options::check(asked, &deletion)?;
        let validation = options::validation(asked);
        let form = options::form(&asked.accept)?;
        if kind.group.is_empty() && kind.kind == "Endpoints" {
            let warning = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
            store.warnings.push(warning.to_owned());
        }
        let shown = |code, object: Object| match form {
            Form::Metadata => Answer::Json(code, options::metadata(&object)),
            Form::Object | Form::Table => Answer::Object(code, kind.view(&object)),
        };
        let write = || Write {
            kind: kind.clone(),
            place: Place::new(&address.namespace, &address.name),
            subresource: address.subresource.clone(),
            manager: asked.manager().to_owned(),
            dry_run: asked.dry_run(),
            validation,
            exact: false,
            now: (self.clock)(),
            gate: gate.clone(),
        };
        let body = || options::body(asked);
        let status = !address.subresource.is_empty();
        if address.subresource == "scale" {
            let write = write();
            let scale = match asked.verb {
                Verb::Get => store.scale(&write)?,
                Verb::Update => store.replace_scale(&write, &body()?)?,
                Verb::Patch => store.patch_scale(&write, options::patch_type(asked, &kind)?, &asked.body)?,
                Verb::Apply => store.apply_scale(&write, &body()?, options::force(asked)?)?,
                _ => return Err(Failure::method_not_allowed()),
            };
            return Ok(Answer::Json(200, scale));
        }
        Ok(match asked.verb {
            Verb::Get if form == Form::Table => {
                let object = store.seen(asked, &write())?;
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let include = asked.param("includeObject");
                Answer::Json(200, table::of(&kind, &[object], metadata, true, include, (self.clock)()))
            }
            Verb::Get => shown(200, store.seen(asked, &write())?),
            Verb::List => list(store, asked, address, &kind, form, (self.clock)())?,
            Verb::Watch => Answer::Watch(watch(asked, address, kind, form)?),
            // What serves custom resources takes the name from the body, and looks for one on others.
            Verb::Create if address.name.is_empty() || (!status && kind.custom().is_some()) => {
                shown(201, store.create(write(), options::object(body()?)?)?)
            }
            Verb::Update if !address.name.is_empty() => {
                let (created, object) = store.replace(&write(), options::object(body()?)?)?;
                shown(if created { 201 } else { 200 }, object)
            }
            Verb::Patch if !address.name.is_empty() => {
                shown(200, store.patch(&write(), options::patch_type(asked, &kind)?, &asked.body)?)
            }
            Verb::Apply if !address.name.is_empty() => {
                let force = options::force(asked)?;
                let (created, object) = store.apply(&write(), body()?, force)?;
                shown(if created { 201 } else { 200 }, object)
            }
            Verb::Update | Verb::Patch | Verb::Apply
                if kind.custom().is_some() && address.name.is_empty() =>
            {
                return Err(Failure::bad_request("the name of the object must be in the URL"));
            }
            Verb::DeleteCollection if takes_collections(&kind, address) => {
                let dry_run = asked.dry_run() || deletion["dryRun"] == json!(["All"]);
                let answer = list(store, asked, address, &kind, form, (self.clock)())?;
                for place in selected(store, asked, address, &kind)? {
                    match store.delete(&Write { place, dry_run, ..write() }, &deletion) {
                        // It went with another of them.
                        Err(gone) if gone.code == 404 => {}
                        done => drop(done?),
                    }
                }
                answer
            }
            Verb::Delete if !status => {
                let mut write = write();
                write.dry_run |= deletion["dryRun"] == json!(["All"]);
                let live = store.existing(&write)?;
                let uid = live["metadata"]["uid"].clone();
                match store.delete(&write, &deletion)? {
                    Some(left) => shown(200, left),
                    None if strategy::is_answered(&kind) => {
                        let mut gone = Value::clone(&live);
                        if !write.dry_run {
                            gone["metadata"]["resourceVersion"] = json!(store.revision().to_string());
                        }
                        shown(200, gone.into())
                    }
                    None => Answer::Json(200, deleted(&kind, &address.name, &uid)),
                }
            }
            _ => return Err(Failure::method_not_allowed()),
        })
    }
}

fn reads_all(verb: Verb) -> bool {
    matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
}

/// Is something of the address known? Of the groups of CRDs only the very kind is.
fn is_near(kind: &Kind, address: &Address) -> bool {
    kind.group == address.group && (!kind.is_custom() || kind.plural == address.plural)
}

/// The kind at an address that fits its scope and subresources.
fn find(store: &Store, address: &Address) -> Option<Arc<Kind>> {
    let kind = store.kind(&address.group, &address.version, &address.plural)?;
    let subresource = matches!(address.subresource.as_str(), "" | "status" | "scale")
        && !kind.verbs(&address.subresource).is_empty();
    let one = !address.name.is_empty();
    let scope = match kind.namespaced {
        true => !(one && address.namespace.is_empty()),
        false => address.namespace.is_empty(),
    };
    (subresource && scope).then(|| kind.clone())
}

fn unreachable(store: &Store, group: &str, version: &str) -> bool {
    store.broken().iter().any(|(of, at)| of == group && at == version)
}

fn deleted(kind: &Kind, name: &str, uid: &Value) -> Value {
    let mut details = json!({"name": name, "kind": kind.plural, "uid": uid});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn selector(asked: &Asked, kind: &Kind) -> Result<Selector, Failure> {
    let selector = Selector::parse(asked.param("labelSelector"), asked.param("fieldSelector"))?;
    if let Some(path) = selector.fields().find(|path| !kind.serves_field(path)) {
        return Err(Failure::bad_request(format!("field label not supported: {path}")));
    }
    Ok(selector)
}

/// A page of a list: as of now, or of the revision that the continue token or an exact request names.
fn list(
    store: &Store,
    asked: &Asked,
    address: &Address,
    kind: &Kind,
    form: Form,
    now: Timestamp,
) -> Result<Answer, Failure> {
    let selector = selector(asked, kind)?;
    let wanted = asked.wanted().unwrap_or_default();
    let newest = asked.limit().unwrap_or(u64::MAX).min(store.revision());
    if wanted > newest {
        return Err(Failure::too_large(wanted, newest));
    }
    let exact = asked.param("resourceVersionMatch") == "Exact";
    let (revision, after) = match asked.param("continue") {
        "" if exact => (wanted, None),
        "" => (newest, None),
        token => read_token(token).map(|(revision, after)| (revision, Some(after)))?,
    };
    let table = store.table_at(&Resource::from(kind), revision).map_err(|_| {
        Failure::expired(
            "The provided continue parameter is too old to display a consistent list result. \
             You can start a new list without the continue parameter.",
        )
    })?;
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = table
        .range::<Place, _>((from.as_ref(), Bound::Unbounded))
        .filter(|(place, _)| address.namespace.is_empty() || place.namespace == address.namespace);
    let limit = asked.param("limit").parse().ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let selected = rest.by_ref().filter_map(|(place, stored)| Some((place, selector.read(store, stored)?)));
    let page: Vec<_> = selected.take(limit).collect();
    let remaining = match selector.is_empty() {
        true => rest.count(),
        // The number is not told: one is enough, and each that is looked at has to be read.
        false => usize::from(rest.any(|(_, stored)| selector.read(store, stored).is_some())),
    };

    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some((last, _)) = page.last().filter(|_| remaining > 0) {
        metadata["continue"] = json!(format!("{revision}/{}/{}", last.namespace, last.name));
        if selector.is_empty() {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    if kind.custom().is_some() && metadata["continue"].is_null() {
        metadata["continue"] = json!("");
    }
    let page: Vec<_> = page.into_iter().map(|(_, object)| object).collect();
    if form == Form::Table {
        let table = table::of(kind, &page, metadata, true, asked.param("includeObject"), now);
        return Ok(Answer::Json(200, table));
    }
    if form == Form::Metadata {
        let items: Vec<_> = page.iter().map(|object| options::metadata(object)).collect();
        let list = json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
        });
        return Ok(Answer::Json(200, list));
    }
    Ok(Answer::Raw(200, listed(kind, &page, &metadata)))
}

/// A list of whole objects, as JSON; most of it is written already.
fn listed(kind: &Kind, page: &[Object], metadata: &Value) -> Bytes {
    let mut text = format!("{{\"apiVersion\":{},\"items\":[", json!(kind.api_version())).into_bytes();
    for (index, object) in page.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        let object = kind.view(object);
        if kind.is_custom() {
            text.extend_from_slice(&object.json());
        } else {
            // A Value's keys are texts: writing it cannot fail.
            let _ = serde_json::to_writer(&mut text, &Item(&object));
        }
    }
    let list = json!(format!("{}List", kind.kind));
    text.extend_from_slice(format!("],\"kind\":{list},\"metadata\":{metadata}}}").as_bytes());
    text.into()
}

/// Namespaces are deleted one by one, and so are objects of all namespaces.
fn takes_collections(kind: &Kind, address: &Address) -> bool {
    kind.verbs("").contains(&"deletecollection") && kind.namespaced != address.namespace.is_empty()
}

/// The places of all that a collection's selectors match.
fn selected(store: &Store, asked: &Asked, address: &Address, kind: &Kind) -> Result<Vec<Place>, Failure> {
    let selector = selector(asked, kind)?;
    let table = store.table(&Resource::from(kind)).into_iter().flatten();
    let here = table.filter(|(place, _)| !kind.namespaced || place.namespace == address.namespace);
    let matching = here.filter(|(_, stored)| selector.read(store, stored).is_some());
    Ok(matching.map(|(place, _)| (**place).clone()).collect())
}

/// Items of built-in kinds do not say their kind; custom resources do.
struct Item<'a>(&'a Value);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.as_object().into_iter().flatten();
        to.collect_map(fields.filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind")))
    }
}

fn read_token(token: &str) -> Result<(u64, Place), Failure> {
    let mut parts = token.splitn(3, '/');
    let mut read = || {
        let revision = parts.next()?.parse().ok()?;
        Some((revision, Place::new(parts.next()?, parts.next()?)))
    };
    read().ok_or_else(|| Failure::bad_request("continue key is not valid"))
}

fn watch(asked: &Asked, address: &Address, kind: Arc<Kind>, form: Form) -> Result<Start, Failure> {
    let seconds = asked.param("timeoutSeconds").parse().ok().filter(|seconds| *seconds > 0);
    Ok(Start {
        scope: Scope::new(kind.clone(), &address.namespace, selector(asked, &kind)?),
        resource_version: asked.param("resourceVersion").to_owned(),
        initial_events: asked.param("sendInitialEvents") == "true",
        bookmarks: asked.param("allowWatchBookmarks") == "true",
        form,
        include: asked.param("includeObject").to_owned(),
        timeout: seconds.map_or(WATCH_TIMEOUT, Duration::from_secs),
        until: asked.limit(),
    })
}
