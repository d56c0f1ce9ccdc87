//! What is declared and what is there, kept up with each change: so that judging a call costs what the call
//! changed, and not what is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use memkube::{Changed, Cluster};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::{TargetSelector, labels::HUB_LABEL};
use vidra_core::{
    directives::{ApplyMode, Directives, OnImmutable},
    manifest, select,
};

use super::kinds::{is_cluster_scoped, kind_of};

/// An object in a member: cluster, group, kind, namespace, name.
pub type Key = [String; 5];

/// One object of a manifest.
#[derive(Clone, Debug)]
pub struct Doc {
    group: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    /// As declared, without what its annotations ask of the hub.
    pub body: Value,
    /// What they ask.
    directives: Directives,
}

impl Doc {
    /// Where it is in a member, when this is the destination namespace.
    pub fn key(&self, member: &str, destination: &str) -> Key {
        let namespace = match is_cluster_scoped(&self.kind) {
            true => "",
            false => self.namespace.as_deref().unwrap_or(destination),
        };
        [member, &self.group, &self.kind, namespace, &self.name].map(str::to_owned)
    }
}

/// What was at a place from this instant on, until the next.
type Version = (Instant, Option<Arc<Value>>);

/// What a VidraTarget says.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its VidraResource.
    pub resource: String,
    /// Its member.
    pub cluster: String,
    /// The destination namespace.
    pub namespace: String,
    /// Its objects are to be there.
    pub present: bool,
    /// The status says that they are: of this revision.
    pub ready: Option<String>,
}

/// See the module.
#[derive(Default)]
pub struct Index {
    /// Manifests by resource and generation.
    manifests: BTreeMap<(String, i64), Arc<[Doc]>>,
    resources: BTreeMap<String, Value>,
    /// What ConfigMaps on the hub hold, by name.
    sources: BTreeMap<String, Value>,
    fleet: BTreeMap<String, Value>,
    /// What a revision's name stands for, by resource.
    revisions: BTreeMap<(String, String), Arc<[Doc]>>,
    /// VidraTargets by name.
    pub targets: BTreeMap<String, Target>,
    /// What is to be in members: for which VidraResources, and since when.
    wanted: BTreeMap<Key, BTreeMap<String, (Instant, Doc)>>,
    /// What was at a place, and from when on.
    past: BTreeMap<Key, Vec<Version>>,
    /// Keys and uids of each inventory, by its name.
    inventories: BTreeMap<String, (Vec<Key>, Vec<String>)>,
    /// Objects with the hub's label.
    labelled: BTreeSet<Key>,
}

impl Index {
    /// Takes a change in.
    pub fn take(&mut self, cluster: &str, changed: &Changed, now: Instant) {
        match (cluster, changed.plural.as_str()) {
            ("hub", "vidraresources") => self.resource(changed, now),
            ("hub", "memberclusters") => {
                put(&mut self.fleet, &changed.name, changed.after());
                self.select(now);
            }
            ("hub", "configmaps") => self.source(changed, now),
            ("hub", "vidratargets") => self.target(changed),
            ("hub", "vidrainventories") => self.inventory(changed),
            ("hub", _) => {}
            _ => self.delivered(cluster, changed, now),
        }
    }

    fn resource(&mut self, changed: &Changed, now: Instant) {
        let new = changed.after();
        if let Some(new) = &new {
            let known = self.resources.get(&changed.name).cloned();
            let of =
                |field: &str| known.as_ref().is_some_and(|known| known["spec"][field] == new["spec"][field]);
            let same = of("manifest") && of("manifestsFrom");
            let before = known.map(|known| known["metadata"]["generation"].as_i64().unwrap_or_default());
            let before =
                before.and_then(|before| self.manifests.get(&(changed.name.clone(), before)).cloned());
            match before {
                Some(before) if same => self.declare(&changed.name, new, Some(before)),
                before => {
                    let docs = self.text(new).and_then(|text| docs(&text));
                    self.declare(&changed.name, new, docs.or(before));
                }
            }
        }
        put(&mut self.resources, &changed.name, new);
        self.select(now);
    }

    /// What was delivered stays where a manifest cannot be read.
    fn declare(&mut self, name: &str, resource: &Value, docs: Option<Arc<[Doc]>>) {
        let generation = resource["metadata"]["generation"].as_i64().unwrap_or_default();
        self.manifests.insert((name.to_owned(), generation), docs.unwrap_or_default());
    }

    /// All that a VidraResource declares; `None`: a source of it is missing.
    fn text(&self, resource: &Value) -> Option<String> {
        let mut text = resource["spec"]["manifest"].as_str().unwrap_or_default().to_owned();
        for source in resource["spec"]["manifestsFrom"].as_array().into_iter().flatten() {
            let name = source["configMapRef"]["name"].as_str()?;
            for value in self.sources.get(name)?["data"].as_object()?.values() {
                text.push_str("\n---\n");
                text.push_str(value.as_str()?);
            }
        }
        Some(text)
    }

    fn source(&mut self, changed: &Changed, now: Instant) {
        put(&mut self.sources, &changed.name, changed.after());
        let reads = |resource: &&Value| {
            let sources = resource["spec"]["manifestsFrom"].as_array();
            sources.into_iter().flatten().any(|one| one["configMapRef"]["name"] == changed.name.as_str())
        };
        let users: Vec<Value> = self.resources.values().filter(reads).cloned().collect();
        for user in users {
            if let Some(docs) = self.text(&user).and_then(|text| docs(&text)) {
                let name = user["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.declare(&name, &user, Some(docs));
            }
        }
        self.select(now);
    }

    fn target(&mut self, changed: &Changed) {
        let Some(new) = changed.after() else {
            self.targets.remove(&changed.name);
            return;
        };
        let (spec, status) = (&new["spec"], &new["status"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = text(&spec["resource"]);
        let generation = spec["generation"].as_i64().unwrap_or_default();
        if let Some(docs) = self.manifests.get(&(resource.clone(), generation)) {
            let revision = (resource.clone(), text(&spec["revision"]));
            self.revisions.entry(revision).or_insert_with(|| docs.clone());
        }
        let target = Target {
            cluster: text(&spec["cluster"]),
            namespace: text(&spec["namespace"]),
            present: spec["desired"] == "Present",
            ready: (status["state"] == "Ready").then(|| text(&status["revision"])),
            resource,
        };
        self.targets.insert(changed.name.clone(), target);
    }

    fn inventory(&mut self, changed: &Changed) {
        let Some(new) = changed.after() else {
            self.inventories.remove(&changed.name);
            return;
        };
        let cluster = new["spec"]["cluster"].as_str().unwrap_or_default();
        let (mut keys, mut uids) = (Vec::new(), Vec::new());
        for entry in new["spec"]["entries"].as_array().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            keys.push(
                [cluster, text("group"), text("kind"), text("namespace"), text("name")].map(str::to_owned),
            );
            uids.push(text("uid").to_owned());
        }
        self.inventories.insert(changed.name.clone(), (keys, uids));
    }

    fn delivered(&mut self, cluster: &str, changed: &Changed, now: Instant) {
        let Some(key) = key_of(cluster, changed) else { return };
        self.note(key, changed.after(), now);
    }

    /// Takes in what a member has that was changed beside all calls.
    pub fn look_again(&mut self, member: &Cluster, now: Instant) {
        let known: Vec<_> = self.past.keys().filter(|key| key[0] == member.name()).cloned().collect();
        for key in known {
            self.note(key, None, now);
        }
        for (group, plural, kind, _) in super::kinds::DELIVERED {
            for object in member.objects(group, plural) {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let key = [member.name(), group, kind, text("namespace"), text("name")].map(str::to_owned);
                self.note(key, Some(object), now);
            }
        }
    }

    fn note(&mut self, key: Key, new: Option<Value>, now: Instant) {
        match new.as_ref().is_some_and(|new| new["metadata"]["labels"][HUB_LABEL] == super::observer::HUB_ID)
        {
            true => self.labelled.insert(key.clone()),
            false => self.labelled.remove(&key),
        };
        self.past.entry(key).or_default().push((now, new.map(Arc::new)));
    }

    /// Who is selected, by the hub's own rules of selection.
    fn select(&mut self, now: Instant) {
        let mut wanted = BTreeMap::new();
        let fleet: Vec<_> = self.fleet.iter().map(|(name, object)| Member::of(name, object)).collect();
        let members: Vec<_> = fleet.iter().map(Member::view).collect();
        for (name, resource) in &self.resources {
            let metadata = &resource["metadata"];
            if !metadata["deletionTimestamp"].is_null() {
                continue;
            }
            let targets: Vec<TargetSelector> =
                serde_json::from_value(resource["spec"]["targets"].clone()).unwrap_or_default();
            let excluded: Vec<String> =
                serde_json::from_value(resource["spec"]["excludeClusters"].clone()).unwrap_or_default();
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            let selection = select::select(namespace, &targets, &excluded, &members);
            let generation = metadata["generation"].as_i64().unwrap_or_default();
            let docs = self.manifests.get(&(name.clone(), generation));
            for (member, destination) in selection.targets {
                for doc in docs.iter().flat_map(|docs| docs.iter()) {
                    let key = doc.key(&member, &destination);
                    let before = self.wanted.get(&key).and_then(|wanted| wanted.get(name));
                    let since = before.map_or(now, |(since, _)| *since);
                    wanted
                        .entry(key)
                        .or_insert_with(BTreeMap::new)
                        .insert(name.clone(), (since, doc.clone()));
                }
            }
        }
        self.wanted = wanted;
    }

    /// For which VidraResources this is to be in its member, and since when.
    pub fn wanted_since(&self, key: &Key) -> impl Iterator<Item = (&String, Instant)> {
        self.wanted.get(key).into_iter().flatten().map(|(resource, (since, _))| (resource, *since))
    }

    /// What is to be in members, and where.
    pub fn wanted(&self) -> impl Iterator<Item = (&Key, &Doc)> {
        self.wanted.iter().flat_map(|(key, wanted)| wanted.values().map(move |(_, doc)| (key, doc)))
    }

    /// What bears the hub's label in members.
    pub fn labelled(&self) -> impl Iterator<Item = &Key> {
        self.labelled.iter()
    }

    /// Is the object there as declared, and healthy?
    pub fn is_as_declared(&self, key: &Key, doc: &Doc) -> bool {
        if doc.directives.apply != ApplyMode::Always {
            return self.was_there(key, doc);
        }
        self.live(key).is_some_and(|live| holds(&doc.body, &live) && is_current(&live))
    }

    /// What a revision stands for.
    pub fn revision(&self, resource: &str, revision: &str) -> Option<Arc<[Doc]>> {
        self.revisions.get(&(resource.to_owned(), revision.to_owned())).cloned()
    }

    /// What a VidraResource declared in this generation.
    pub fn manifest(&self, resource: &str, generation: i64) -> Option<Arc<[Doc]>> {
        self.manifests.get(&(resource.to_owned(), generation)).cloned()
    }

    /// Was the object there as declared, and healthy, at any instant since then?
    pub fn was_as_declared(&self, key: &Key, doc: &Doc, since: Instant) -> bool {
        if doc.directives.apply != ApplyMode::Always {
            return self.was_there(key, doc);
        }
        let Some(past) = self.past.get(key) else { return false };
        let ends = past.iter().skip(1).map(|(from, _)| Some(*from)).chain([None]);
        past.iter().zip(ends).any(|((_, object), end)| {
            end.is_none_or(|end| end >= since)
                && object.as_ref().is_some_and(|live| holds(&doc.body, live) && is_current(live))
        })
    }

    /// Of what is not kept as declared: was it there at any time, and so, where it is applied for each content?
    fn was_there(&self, key: &Key, doc: &Doc) -> bool {
        let once = doc.directives.apply == ApplyMode::Once;
        let versions = self.past.get(key).into_iter().flatten().filter_map(|(_, object)| object.as_ref());
        versions.into_iter().any(|live| !once || holds(&doc.body, live))
    }

    /// May it be deleted to be made anew?
    pub fn may_be_made_anew(&self, key: &Key) -> bool {
        let wanted = self.wanted.get(key).into_iter().flatten();
        wanted.into_iter().any(|(_, (_, doc))| doc.directives.on_immutable == OnImmutable::Recreate)
    }

    /// Does an inventory hold this uid?
    pub fn holds_uid(&self, uid: &str) -> bool {
        self.inventories.values().any(|(_, uids)| uids.iter().any(|held| held == uid))
    }

    /// Objects that bear the hub's label in a member and that no inventory knows.
    pub fn unknown(&self) -> Vec<&Key> {
        let known: BTreeSet<&Key> = self.inventories.values().flat_map(|(keys, _)| keys).collect();
        self.labelled.iter().filter(|key| !known.contains(key)).collect()
    }

    /// What is there now.
    pub fn live(&self, key: &Key) -> Option<Arc<Value>> {
        self.past.get(key)?.last()?.1.clone()
    }
}

/// A MemberCluster as selecting needs it.
struct Member<'a> {
    name: &'a str,
    labels: BTreeMap<String, String>,
    leaving: bool,
}

impl<'a> Member<'a> {
    fn of(name: &'a str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let labels = serde_json::from_value(metadata["labels"].clone()).unwrap_or_default();
        Self { name, labels, leaving: !metadata["deletionTimestamp"].is_null() }
    }

    fn view(&self) -> select::Member<'_> {
        select::Member {
            name: self.name,
            labels: &self.labels,
            allowed_namespaces: None,
            leaving: self.leaving,
        }
    }
}

/// Where a changed object is, if its kind is one that scenarios deliver.
pub fn key_of(cluster: &str, changed: &Changed) -> Option<Key> {
    let kind = kind_of(&changed.group, &changed.plural)?;
    Some([cluster, &changed.group, kind, &changed.namespace, &changed.name].map(str::to_owned))
}

fn put(all: &mut BTreeMap<String, Value>, name: &str, object: Option<Value>) {
    match object {
        Some(object) => all.insert(name.to_owned(), object),
        None => all.remove(name),
    };
}

/// `None`: it cannot be read.
fn docs(text: &str) -> Option<Arc<[Doc]>> {
    let objects = manifest::parse(text).ok()?;
    let docs = objects.into_iter().map(|object| Doc {
        group: object.gvk.group.to_string(),
        kind: object.gvk.kind.to_string(),
        namespace: object.namespace,
        name: object.name,
        directives: Directives::of(&object.value).unwrap_or_default(),
        body: without_directives(object.value),
    });
    Some(docs.collect())
}

fn without_directives(mut object: Value) -> Value {
    Directives::strip(&mut object);
    object
}

/// Has the live object what is declared? Of lists, the first items.
pub fn holds(declared: &Value, live: &Value) -> bool {
    match (declared, live) {
        (Value::Object(declared), Value::Object(live)) => {
            declared.iter().all(|(field, value)| holds(value, live.get(field).unwrap_or(&Value::Null)))
        }
        (Value::Array(declared), Value::Array(live)) => {
            live.len() >= declared.len() && declared.iter().zip(live).all(|(one, live)| holds(one, live))
        }
        _ => declared == live,
    }
}

/// A Deployment is current when its status has caught up with its spec; other kinds of the scenarios are
/// current from the start. What is being deleted is not.
fn is_current(live: &Value) -> bool {
    if !live["metadata"]["deletionTimestamp"].is_null() {
        return false;
    }
    if live["kind"] != "Deployment" {
        return true;
    }
    let (status, wanted) = (&live["status"], live["spec"]["replicas"].as_i64().unwrap_or(1));
    let enough = |field: &str| status[field].as_i64().unwrap_or_default() >= wanted;
    status["observedGeneration"] == live["metadata"]["generation"]
        && enough("updatedReplicas")
        && enough("availableReplicas")
}
