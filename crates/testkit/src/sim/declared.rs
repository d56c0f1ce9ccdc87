//! What is declared on the hub: VidraResources with their sources, the fleet with its labels and values, and what
//! revisions stand for; what follows from it for each member; and what was so a while ago.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::ByteString;
use memkube::Changed;
use serde_json::{Value, json};
use tokio::time::Instant;
use vidra_api::{TargetSelector, labels::REGISTRATION_LABEL, names::revision_secret_name};
use vidra_core::{manifest::unpack::unpack, select};

use super::{
    doc::{self, Doc},
    health::{self, RULES, Rule, are_usable},
    index::Key,
    sparing::are_rules,
    vary::{View, are_readable, vary},
    world::{HUB_NAMESPACE, OTHER_TEAM, TEAM, named, place_of},
};

const UNPACKED_MAX: usize = 64 << 20;

/// What was so from this instant on, until the next.
pub type Past<T> = Vec<(Instant, T)>;

/// What was so at some instant since then.
pub fn since<T>(past: &[(Instant, T)], then: Instant) -> impl Iterator<Item = &T> {
    let ends = past.iter().skip(1).map(|(from, _)| Some(*from)).chain([None]);
    past.iter().zip(ends).filter(move |(_, end)| end.is_none_or(|end| end >= then)).map(|((_, what), _)| what)
}

/// Keys and texts of a source.
type Texts = BTreeMap<String, String>;

/// What a VidraResource or a revision says, sources read.
#[derive(Debug, Default)]
struct Content {
    docs: Arc<[Doc]>,
    overrides: Value,
    manifest: Value,
    /// Name and text of each source.
    sources: Vec<(String, String)>,
}

/// What the hub's API declares, now and before. VidraResources, and what the hub keeps for them, are called as [`named`] has it.
#[derive(Default)]
pub struct Declared {
    resources: BTreeMap<String, Arc<Value>>,
    /// Whether each VidraResource was on its way out.
    leaving: BTreeMap<String, Past<bool>>,
    /// Specs by resource and generation.
    specs: BTreeMap<(String, i64), Value>,
    /// Specs of a resource, one after the other, as far as they hold; null when it was not there.
    said: BTreeMap<String, Past<Value>>,
    /// The same as they are written.
    written: BTreeMap<String, Past<Value>>,
    /// What each source of manifests holds, by namespace and `ConfigMap <name>` or `Secret <name>`.
    sources: BTreeMap<(String, String), Past<Option<Texts>>>,
    fleet: BTreeMap<String, Arc<Value>>,
    /// Registration Secrets without a kubeconfig that can be read, each with the member that it registers.
    unusable: BTreeMap<String, String>,
    views: BTreeMap<String, Past<View>>,
    /// What the Secrets of revisions hold, packed.
    parts: BTreeMap<String, Vec<u8>>,
    /// What a revision's Secret holds, by the Secret's name.
    revisions: BTreeMap<String, Arc<Content>>,
    /// What each said when it could last be read.
    readable: BTreeMap<String, Arc<Content>>,
    /// And what it was for a member when overrides could last be done there.
    varied: BTreeMap<(String, String), Arc<[Doc]>>,
    /// VidraResources that cannot be read, and of which a removal was held when that began: what they said before was held too.
    held: BTreeSet<String>,
    /// Until when each has been held, of those that are not any more.
    let_go: BTreeMap<String, Instant>,
    /// What is to be in members: for which VidraResources, and since when.
    wanted: BTreeMap<Key, BTreeMap<String, (Instant, Doc)>>,
    /// What was so, until when.
    unwanted: BTreeMap<(Key, String), Instant>,
    /// What would be wanted if its member allowed the namespace, and stays as it is until then: for whom, and since when it
    /// was to be there.
    resting: BTreeMap<Key, BTreeMap<String, Instant>>,
    /// By VidraResource and member, the onRevoke of one that is selected and does not allow the namespace; else `None`.
    revoked: BTreeMap<(String, String), Past<Option<String>>>,
    /// How many members each VidraResource selects.
    selected: BTreeMap<String, usize>,
    /// The members that each VidraResource selects, whether or not they allow its namespace.
    chosen: BTreeMap<String, Past<BTreeSet<String>>>,
    /// The hub's settings.
    settings: Past<Value>,
    /// The health rules of each VidraResource, and the fleet's; what cannot be read is as it was.
    own_rules: BTreeMap<String, Past<Vec<Rule>>>,
    fleet_rules: Past<Vec<Rule>>,
}

/// How much may be removed at once without a person's word, in percent: of a VidraResource's targets, and of a target's objects.
const SHARES: [(&str, u64); 2] = [("removalGuard", 20), ("objectRemovalGuard", 50)];

/// Reasons for which nothing new is delivered: targets keep what was delivered last.
const HOLDS: [&str; 6] = [
    "ManifestInvalid",
    "SourceNotFound",
    "SourceInvalid",
    "OverridesInvalid",
    "IgnoreInvalid",
    "RemovalHeld",
];

/// What holds of a spec whose manifest cannot be read, after this one: of each policy what writes less, and all else as
/// it is asked for.
fn restrained(before: &Value, asked: &Value) -> Value {
    let mut next = asked.clone();
    let either =
        |path: &str, value: &Value| [before, asked].iter().any(|one| one.pointer(path) == Some(value));
    let mut set = |field: &str, inner: &str, value: Value| match inner {
        "" => next[field] = value,
        inner => next[field][inner] = value,
    };
    if before["suspend"] == true {
        set("suspend", "", true.into());
    }
    if !matches!(asked["drift"]["policy"].as_str(), Some("Report" | "Ignore")) {
        set("drift", "policy", before["drift"]["policy"].clone());
    }
    let yields = |one: &&Value| one["drift"]["yield"] != "None";
    if [before, asked].iter().any(yields) {
        set("drift", "yield", "Standard".into());
    }
    let rules =
        [before, asked].into_iter().flat_map(|one| one["drift"]["ignore"].as_array().into_iter().flatten());
    set("drift", "ignore", rules.cloned().collect());
    if either("/prune", &false.into()) {
        set("prune", "", false.into());
    }
    for policy in ["Fail", "AdoptIfEqual"] {
        if either("/conflicts/existing", &policy.into()) {
            set("conflicts", "existing", policy.into());
            break;
        }
    }
    if either("/conflicts/fields", &"Fail".into()) {
        set("conflicts", "fields", "Fail".into());
    }
    if either("/namespaceAndCRDDeletion", &"Retain".into()) {
        set("namespaceAndCRDDeletion", "", "Retain".into());
    }
    next
}

impl Declared {
    /// Takes a change on the hub in.
    pub fn take(&mut self, changed: &Changed, now: Instant) {
        match (changed.plural.as_str(), changed.namespace.as_str()) {
            ("vidraresources", _) => self.resource(changed, now),
            ("memberclusters", _) => self.member(changed, now),
            ("configmaps", HUB_NAMESPACE) if changed.name == RULES => {
                let text = changed.after().and_then(|new| new["data"]["rules"].as_str().map(str::to_owned));
                let written = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
                note_rules(&mut self.fleet_rules, &written, now);
            }
            ("configmaps", HUB_NAMESPACE) => {
                let settings = changed.after().map_or(Value::Null, |new| new["data"].clone());
                self.settings.push((now, settings));
            }
            ("secrets", HUB_NAMESPACE) => self.registration(changed),
            ("configmaps", TEAM | OTHER_TEAM) => self.source("ConfigMap", changed, now),
            ("secrets", TEAM | OTHER_TEAM) => match changed.after() {
                Some(secret) if secret["type"] == "vidra.dev/revision" => {
                    self.revision(&named(&changed.namespace, &changed.name), &secret)
                }
                _ => self.source("Secret", changed, now),
            },
            _ => {}
        }
    }

    /// Kubeconfigs of the simulation are JSON.
    fn registration(&mut self, changed: &Changed) {
        let new = changed.after().unwrap_or_default();
        let member = new["metadata"]["labels"][REGISTRATION_LABEL].as_str();
        let kubeconfig = serde_json::from_value::<ByteString>(new["data"]["kubeconfig"].clone()).ok();
        let reads =
            kubeconfig.is_some_and(|ByteString(bytes)| serde_json::from_slice::<Value>(&bytes).is_ok());
        match member.filter(|_| !reads) {
            Some(member) => drop(self.unusable.insert(changed.name.clone(), member.to_owned())),
            None => drop(self.unusable.remove(&changed.name)),
        }
    }

    fn resource(&mut self, changed: &Changed, now: Instant) {
        let name = &named(&changed.namespace, &changed.name);
        let new = changed.after();
        let known = self.resources.get(name);
        let wish = |of: &Arc<Value>| (of["spec"].clone(), of["metadata"]["deletionTimestamp"].clone());
        let same = known.map(wish) == new.as_ref().map(wish);
        match &new {
            Some(new) => {
                let generation = new["metadata"]["generation"].as_i64().unwrap_or_default();
                self.specs.insert((name.clone(), generation), new["spec"].clone());
                let was_held = self.is_held(name);
                self.resources.insert(name.clone(), new.clone());
                if was_held && !self.is_held(name) {
                    self.let_go.insert(name.clone(), now);
                }
            }
            None => drop(self.resources.remove(name)),
        }
        if same {
            return;
        }
        let leaves = new.as_ref().is_some_and(|new| !new["metadata"]["deletionTimestamp"].is_null());
        let past = self.leaving.entry(name.clone()).or_default();
        if past.last().is_none_or(|(_, last)| *last != leaves) {
            past.push((now, leaves));
        }
        if new.is_none() {
            self.readable.remove(name);
        }
        self.say(name, now);
        self.read(name);
        self.select(now);
    }

    fn member(&mut self, changed: &Changed, now: Instant) {
        let new = changed.after();
        // Mostly it is a status that changes: whom it concerns is selected as before.
        let wish = |of: &Arc<Value>| {
            let metadata = &of["metadata"];
            (metadata["labels"].clone(), metadata["deletionTimestamp"].is_null(), of["spec"].clone())
        };
        let known = self.fleet.get(&changed.name);
        let same = known.is_some() && known.map(wish) == new.as_ref().map(wish);
        match new {
            Some(new) => {
                let view = View::of(&changed.name, &new);
                let past = self.views.entry(changed.name.clone()).or_default();
                if past.last().is_none_or(|(_, last)| *last != view) {
                    past.push((now, view));
                }
                self.fleet.insert(changed.name.clone(), new);
            }
            None => drop(self.fleet.remove(&changed.name)),
        }
        if !same {
            self.select(now);
        }
    }

    fn source(&mut self, kind: &str, changed: &Changed, now: Instant) {
        let text = |value: &Value| match kind {
            "ConfigMap" => value.as_str().map(str::to_owned),
            _ => serde_json::from_value(value.clone())
                .ok()
                .and_then(|bytes: ByteString| String::from_utf8(bytes.0).ok()),
        };
        let texts = changed.after().map(|new| {
            let data = new["data"].as_object().into_iter().flatten();
            data.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
        });
        let place = (changed.namespace.clone(), format!("{kind} {}", changed.name));
        self.sources.entry(place).or_default().push((now, texts));
        let names: Vec<String> = self.resources.keys().cloned().collect();
        for name in &names {
            self.say(name, now);
            self.read(name);
        }
        self.select(now);
    }

    /// Notes what holds of a spec: all, or beside a manifest that cannot be read what restrains the hub.
    fn say(&mut self, name: &str, now: Instant) {
        let spec = self.resources.get(name).map_or(Value::Null, |one| one["spec"].clone());
        let reads = self.is_readable(name) || !self.is_alive(name);
        if reads {
            if self.held.remove(name) {
                self.let_go.insert(name.to_owned(), now);
            }
        } else if self.ready_reason(name) == Some("RemovalHeld") {
            self.held.insert(name.to_owned());
        }
        if !spec["healthCheckExprs"].is_null() || self.own_rules.contains_key(name) {
            let past = self.own_rules.entry(name.to_owned()).or_default();
            note_rules(past, &spec["healthCheckExprs"], now);
        }
        let written = self.written.entry(name.to_owned()).or_default();
        if written.last().is_none_or(|(_, last)| *last != spec) {
            written.push((now, spec.clone()));
        }
        let whole = reads || spec["suspend"] == true;
        let past = self.said.entry(name.to_owned()).or_default();
        let before = past.last().map(|(_, before)| before);
        let holds = match before.filter(|before| !whole && !before.is_null()) {
            Some(before) => restrained(before, &spec),
            None => spec,
        };
        if before != Some(&holds) {
            past.push((now, holds));
        }
    }

    fn revision(&mut self, name: &str, secret: &Value) {
        let bytes = |key: &str| serde_json::from_value::<ByteString>(secret["data"][key].clone()).ok();
        let Some(ByteString(mut packed)) = bytes("revision.json.zst") else { return };
        self.parts.insert(name.to_owned(), packed.clone());
        // The first is written last, and says how many there are.
        let parts =
            bytes("parts").and_then(|parts| String::from_utf8(parts.0).ok()?.parse().ok()).unwrap_or(1);
        for part in 1..parts {
            packed.extend(self.parts.get(&format!("{name}.{part}")).into_iter().flatten());
        }
        let json = unpack(&packed, UNPACKED_MAX).ok();
        let Some(says) = json.and_then(|json| serde_json::from_str::<Value>(&json).ok()) else { return };
        let sources = says["sources"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let sources = sources.map(|one| (text(&one["name"]), text(&one["text"]))).collect();
        let content = content(&says["manifest"], &says["overrides"], sources);
        self.revisions.extend(content.map(|content| (name.to_owned(), Arc::new(content))));
    }

    /// What was delivered stays where a manifest, a source, an override or a rule of what to ignore cannot be read.
    fn read(&mut self, name: &str) {
        let Some(spec) = self.resources.get(name).map(|resource| &resource["spec"]) else { return };
        let sources = self.texts(name, spec);
        let content = sources.and_then(|sources| content(&spec["manifest"], &spec["overrides"], sources));
        let empty = spec["allowEmpty"] == true;
        let content = content.filter(|_| are_rules(spec));
        if let Some(content) = content.filter(|content| empty || !content.docs.is_empty()) {
            self.readable.insert(name.to_owned(), Arc::new(content));
        }
    }

    /// What a source has held that a VidraResource reads.
    fn held(&self, resource: &str, source: &str) -> &[(Instant, Option<Texts>)] {
        let place = (place_of(resource).0.to_owned(), source.to_owned());
        self.sources.get(&place).map(Vec::as_slice).unwrap_or_default()
    }

    /// What the sources of a VidraResource hold now; `None`: one is missing.
    fn texts(&self, resource: &str, spec: &Value) -> Option<Vec<(String, String)>> {
        let mut texts = Vec::new();
        for entry in spec["manifestsFrom"].as_array().into_iter().flatten() {
            let source = source_of(entry);
            let (_, held) = self.held(resource, &source).last()?;
            let held = held.as_ref().filter(|held| !held.is_empty())?;
            let all = || held.keys().map(String::as_str).collect();
            for key in keys_of(entry).unwrap_or_else(all) {
                texts.push((format!("{source}, key {key}"), held.get(key)?.clone()));
            }
        }
        Some(texts)
    }

    /// Who is selected, by the hub's own rules of selection; and what it is to have, or has to keep.
    fn select(&mut self, now: Instant) {
        let mut wanted: BTreeMap<Key, BTreeMap<String, (Instant, Doc)>> = BTreeMap::new();
        let mut resting: BTreeMap<Key, BTreeMap<String, Instant>> = BTreeMap::new();
        let mut revoked = BTreeMap::new();
        let views: BTreeMap<_, _> =
            self.fleet.iter().map(|(name, member)| (name, View::of(name, member))).collect();
        let members = self.fleet.iter().map(|(name, member)| select::Member {
            name,
            labels: &views[name].labels,
            // Where what is not allowed would go is asked as well.
            allowed_namespaces: None,
            leaving: !member["metadata"]["deletionTimestamp"].is_null(),
        });
        let members: Vec<_> = members.collect();
        for (name, resource) in &self.resources {
            let (metadata, spec) = (&resource["metadata"], &resource["spec"]);
            let Some(content) = self.readable.get(name).filter(|_| metadata["deletionTimestamp"].is_null())
            else {
                continue;
            };
            let targets: Vec<TargetSelector> =
                serde_json::from_value(spec["targets"].clone()).unwrap_or_default();
            let excluded: Vec<String> =
                serde_json::from_value(spec["excludeClusters"].clone()).unwrap_or_default();
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            let selected = select::select(namespace, &targets, &excluded, &members).targets;
            self.selected.insert(name.clone(), 0);
            let chosen: BTreeSet<String> = selected.keys().cloned().collect();
            let past = self.chosen.entry(name.clone()).or_default();
            if past.last().is_none_or(|(_, last)| *last != chosen) {
                past.push((now, chosen));
            }
            for (member, destination) in selected {
                let slot = (name.clone(), member.clone());
                let on_revoke = self.fleet.get(&member).and_then(|of| stance(of, namespace));
                match &on_revoke {
                    None => *self.selected.entry(name.clone()).or_default() += 1,
                    Some(on_revoke) => drop(revoked.insert(slot.clone(), on_revoke.clone())),
                }
                if let Some(docs) = views.get(&member).and_then(|view| content.for_cluster(view)) {
                    self.varied.insert(slot.clone(), docs);
                }
                for doc in self.varied.get(&slot).into_iter().flat_map(|docs| docs.iter()) {
                    let key = doc.key(&member, &destination);
                    let before = self.wanted.get(&key).and_then(|wanted| wanted.get(name));
                    let rested = self.resting.get(&key).and_then(|resting| resting.get(name));
                    let since = before.map(|(since, _)| since).or(rested).copied().unwrap_or(now);
                    match on_revoke.as_deref() {
                        None => {
                            drop(wanted.entry(key).or_default().insert(name.clone(), (since, doc.clone())))
                        }
                        Some("Delete") => {}
                        Some(_) => {
                            resting.entry(key).or_default().insert(name.clone(), since);
                        }
                    }
                }
            }
        }
        for (key, by) in &self.wanted {
            for name in by.keys().filter(|name| !wanted.get(key).is_some_and(|by| by.contains_key(*name))) {
                self.unwanted.insert((key.clone(), name.clone()), now);
            }
        }
        (self.wanted, self.resting) = (wanted, resting);
        for place in revoked.keys() {
            // Until now it was allowed, or there was none.
            self.revoked.entry(place.clone()).or_insert_with(|| vec![(now, None)]);
        }
        for (place, past) in &mut self.revoked {
            let on_revoke = revoked.get(place);
            if past.last().is_none_or(|(_, last)| last.as_ref() != on_revoke) {
                past.push((now, on_revoke.cloned()));
            }
        }
    }

    /// What a member that a VidraResource selects said of its namespace at the instants since then: its onRevoke where it did
    /// not allow it.
    fn stances(&self, resource: &str, member: &str, then: Instant) -> impl Iterator<Item = Option<&str>> {
        let past = self.revoked.get(&(resource.to_owned(), member.to_owned()));
        past.into_iter().flat_map(move |past| since(past, then)).map(Option::as_deref)
    }

    /// Does a member that a VidraResource selects not allow its namespace?
    pub fn is_revoked(&self, resource: &str, member: &str) -> bool {
        let past = self.revoked.get(&(resource.to_owned(), member.to_owned()));
        past.and_then(|past| past.last()).is_some_and(|(_, stance)| stance.is_some())
    }

    /// Is it so, and was it not at some instant since then?
    pub fn is_just_revoked(&self, resource: &str, member: &str, then: Instant) -> bool {
        self.is_revoked(resource, member)
            && self.stances(resource, member, then).any(|stance| stance.is_none())
    }

    /// Was it so at any instant since then?
    pub fn was_revoked(&self, resource: &str, member: &str, then: Instant) -> bool {
        self.stances(resource, member, then).any(|stance| stance.is_some())
    }

    /// Was it so all the time since then, and everything to stay as it was?
    pub fn has_rested(&self, resource: &str, member: &str, then: Instant) -> bool {
        let mut stances = self.stances(resource, member, then).peekable();
        stances.peek().is_some() && stances.all(|stance| stance == Some("Keep"))
    }

    /// Who has this in its member until the declaration drops it, and since when: those that are to have it, and those that
    /// rest and are to lose nothing.
    pub fn stays_since(&self, key: &Key) -> impl Iterator<Item = (&String, Instant)> {
        let resting = self.resting.get(key).into_iter().flatten().map(|(name, since)| (name, *since));
        self.wanted_since(key).map(|(name, since, _)| (name, since)).chain(resting)
    }

    /// For which VidraResources this is to be in its member, and since when.
    pub fn wanted_since(&self, key: &Key) -> impl Iterator<Item = (&String, Instant, &Doc)> {
        self.wanted.get(key).into_iter().flatten().map(|(resource, (since, doc))| (resource, *since, doc))
    }

    /// What is to be in members, where, and for which VidraResource.
    pub fn wanted(&self) -> impl Iterator<Item = (&Key, &String, &Doc)> {
        let each = |(key, wanted)| {
            let wanted: &BTreeMap<String, (Instant, Doc)> = wanted;
            wanted.iter().map(move |(name, (_, doc))| (key, name, doc))
        };
        self.wanted.iter().flat_map(each)
    }

    /// The VidraResources that have wanted this at some instant since then.
    pub fn wanted_lately(&self, key: &Key, then: Instant) -> Vec<&String> {
        let now = self.wanted_since(key).map(|(name, ..)| name);
        let before = self.unwanted.iter().filter(|((of, _), until)| of == key && **until >= then);
        now.chain(before.map(|((_, name), _)| name)).collect()
    }

    /// What a VidraResource's spec has said at some instant since then; null while there was none.
    pub fn said_since(&self, resource: &str, then: Instant) -> impl Iterator<Item = &Value> {
        self.said.get(resource).into_iter().flat_map(move |past| since(past, then))
    }

    /// The specs that a VidraResource had at some instant since then, whatever of them holds.
    pub fn written_since(&self, resource: &str, then: Instant) -> impl Iterator<Item = &Value> {
        self.written.get(resource).into_iter().flat_map(move |past| since(past, then))
    }

    /// What holds of a VidraResource's spec now.
    pub fn said(&self, resource: &str) -> Option<&Value> {
        self.said.get(resource)?.last().map(|(_, said)| said).filter(|said| !said.is_null())
    }

    /// The health rules that a VidraResource had at some instant since then, and those that the fleet had.
    pub fn rules_since(&self, resource: &str, then: Instant) -> [Vec<&[Rule]>; 2] {
        let own = self.own_rules.get(resource).map(Vec::as_slice).unwrap_or_default();
        [own, &self.fleet_rules].map(|past| {
            let began = past.first().is_some_and(|(from, _)| *from <= then);
            let none: &[Rule] = &[];
            let all = since(past, then).map(Vec::as_slice);
            all.chain((!began).then_some(none)).collect()
        })
    }

    /// Can all health rules of a VidraResource be read?
    pub fn has_usable_rules(&self, resource: &str) -> bool {
        let past = self.own_rules.get(resource).and_then(|past| past.last());
        past.is_none_or(|(_, rules)| are_usable(rules))
    }

    /// The VidraResources that there are.
    pub fn resources(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.resources.iter().map(|(name, resource)| (name, &**resource))
    }

    /// The MemberClusters that there are.
    pub fn fleet(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.fleet.iter().map(|(name, member)| (name, &**member))
    }

    /// A MemberCluster.
    pub fn member_named(&self, name: &str) -> Option<&Value> {
        self.fleet.get(name).map(|member| &**member)
    }

    /// Is what fails tried again sooner than the interval has it?
    pub fn retries(&self) -> bool {
        self.settings.last().is_none_or(|(_, settings)| settings["retry.enabled"] != "false")
    }

    /// How many members a VidraResource selects, as far as it can be read.
    pub fn selected(&self, resource: &str) -> usize {
        self.selected.get(resource).copied().unwrap_or_default()
    }

    /// Which members a VidraResource has selected at some instant since then, whether or not they allow its namespace.
    pub fn chosen_since(&self, resource: &str, then: Instant) -> impl Iterator<Item = &BTreeSet<String>> {
        self.chosen.get(resource).into_iter().flat_map(move |past| since(past, then))
    }

    /// The most of these targets, and of these objects, that any of the settings since then lets go without a word, in
    /// percent; without a setting it may be as ever.
    pub fn shares(&self, then: Instant) -> [u64; 2] {
        SHARES.map(|(key, usual)| {
            let set = since(&self.settings, then).filter_map(|settings| settings[key].as_str());
            // Of one that cannot be read nobody says what holds.
            let set = set.map(|text| text.trim_end_matches([' ', '%']).parse::<u64>().unwrap_or(100));
            set.chain([usual]).max().unwrap_or(usual)
        })
    }

    /// Can its manifest, its sources, its overrides and its rules be read, and do they say something, unless nothing is meant?
    pub fn is_readable(&self, resource: &str) -> bool {
        let Some(spec) = self.resources.get(resource).map(|resource| &resource["spec"]) else { return false };
        let sources = self.texts(resource, spec);
        let content = sources.and_then(|sources| content(&spec["manifest"], &spec["overrides"], sources));
        are_rules(spec)
            && content.is_some_and(|content| spec["allowEmpty"] == true || !content.docs.is_empty())
    }

    /// Is there no kubeconfig with which this member could be asked anything?
    pub fn lacks_kubeconfig(&self, member: &str) -> bool {
        self.unusable.values().any(|of| of == member)
    }

    /// The reason of a VidraResource's condition Ready.
    pub fn ready_reason(&self, resource: &str) -> Option<&str> {
        let conditions = self.resources.get(resource)?["status"]["conditions"].as_array()?;
        conditions.iter().find(|one| one["type"] == "Ready")?["reason"].as_str()
    }

    /// Do the targets of a VidraResource go by what they say themselves? A removal of it is held, or was when what it says could
    /// not be read any more.
    pub fn is_held(&self, resource: &str) -> bool {
        self.held.contains(resource) || self.ready_reason(resource) == Some("RemovalHeld")
    }

    /// Did they so at some instant since then?
    pub fn was_held_since(&self, resource: &str, then: Instant) -> bool {
        self.is_held(resource) || self.let_go.get(resource).is_some_and(|until| *until >= then)
    }

    /// Is nothing new delivered of a VidraResource, and says it so?
    pub fn tells_rest(&self, resource: &str) -> bool {
        self.ready_reason(resource).is_some_and(|reason| HOLDS.contains(&reason))
    }

    /// The revision that a VidraResource's status asks for.
    pub fn asked_revision(&self, resource: &str) -> Option<&str> {
        self.resources.get(resource)?["status"]["revision"].as_str()
    }

    /// Is there the VidraResource, and not on its way out?
    pub fn is_alive(&self, resource: &str) -> bool {
        self.resources.get(resource).is_some_and(|one| one["metadata"]["deletionTimestamp"].is_null())
    }

    /// Was the VidraResource on its way out at some instant since then?
    pub fn was_leaving(&self, resource: &str, then: Instant) -> bool {
        self.leaving.get(resource).is_some_and(|past| since(past, then).any(|leaves| *leaves))
    }

    /// What a revision stands for on a member for which these of its overrides are, with what they use of it.
    /// `None`: nobody knows.
    pub fn revision_with(
        &self,
        resource: &str,
        revision: &str,
        cluster: &str,
        inputs: &Value,
    ) -> Option<Arc<[Doc]>> {
        let content = self.revisions.get(&revision_secret_name(resource, revision))?;
        let map = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
        let view =
            View { name: cluster.to_owned(), labels: map(&inputs["labels"]), values: map(&inputs["values"]) };
        let meant = inputs["apply"].as_array().cloned().unwrap_or_default();
        content.varied(&view, |at, _| meant.contains(&json!(at)))
    }

    /// What a revision stands for on a member as it was at some instant since then.
    pub fn revision_lately(
        &self,
        resource: &str,
        revision: &str,
        cluster: &str,
        then: Instant,
    ) -> Vec<Arc<[Doc]>> {
        let Some(content) = self.revisions.get(&revision_secret_name(resource, revision)) else {
            return Vec::new();
        };
        let views = self.views.get(cluster).into_iter().flat_map(|past| since(past, then));
        views.filter_map(|view| content.for_cluster(view)).collect()
    }

    /// Does the revision hold what the VidraResource declared in this generation, with what its sources held at some
    /// instant since then?
    pub fn is_of(&self, resource: &str, revision: &str, generation: i64, then: Instant) -> bool {
        let content = self.revisions.get(&revision_secret_name(resource, revision));
        let spec = self.specs.get(&(resource.to_owned(), generation));
        let (Some(content), Some(spec)) = (content, spec) else { return false };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let none = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
        let entries = spec["manifestsFrom"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<_> = entries.iter().map(source_of).collect();
        let held = |(read, said): &(String, String)| {
            names.iter().any(|source| {
                let Some(key) = key_of(source, read) else { return false };
                let mut past = since(self.held(resource, source), then).flatten();
                past.any(|texts| texts.get(key) == Some(said))
            })
        };
        let all =
            names.iter().all(|source| content.sources.iter().any(|(read, _)| key_of(source, read).is_some()));
        text(&content.manifest) == text(&spec["manifest"])
            && (content.overrides == spec["overrides"]
                || none(&content.overrides) && none(&spec["overrides"]))
            && content.sources.iter().all(held)
            && all
    }
}

impl Content {
    fn for_cluster(&self, view: &View) -> Option<Arc<[Doc]>> {
        self.varied(view, |_, entry| view.is_meant(entry))
    }

    fn varied(&self, view: &View, applies: impl Fn(usize, &Value) -> bool) -> Option<Arc<[Doc]>> {
        match self.overrides.as_array().is_none_or(Vec::is_empty) {
            true => Some(self.docs.clone()),
            false => vary(&self.docs, &self.overrides, view, applies).map(Into::into),
        }
    }
}

/// Notes rules after those before them.
fn note_rules(past: &mut Past<Vec<Rule>>, written: &Value, now: Instant) {
    let before = past.last().map(|(_, rules)| rules.as_slice()).unwrap_or_default();
    let read = health::rules(written, before);
    if past.is_empty() || read != before {
        past.push((now, read));
    }
}

/// `None`: some of it cannot be read.
fn content(manifest: &Value, overrides: &Value, sources: Vec<(String, String)>) -> Option<Content> {
    if !are_readable(overrides) {
        return None;
    }
    let texts = sources.iter().map(|(_, text)| text.as_str());
    let texts = [manifest.as_str().unwrap_or_default()].into_iter().chain(texts);
    let docs = texts.map(doc::read).collect::<Option<Vec<_>>>()?;
    let docs: Arc<[Doc]> = match docs.as_slice() {
        [one] => one.clone(),
        several => several.iter().flat_map(|docs| docs.iter().cloned()).collect(),
    };
    Some(Content { docs, overrides: overrides.clone(), manifest: manifest.clone(), sources })
}

/// What becomes of what a member has of this namespace, which it does not allow; `None`: it does.
fn stance(member: &Value, namespace: &str) -> Option<String> {
    let allowed = member["spec"]["allowedNamespaces"].as_array()?;
    let is_allowed = allowed.iter().any(|one| one == namespace);
    (!is_allowed).then(|| member["spec"]["onRevoke"].as_str().unwrap_or("Keep").to_owned())
}

/// An entry of manifestsFrom, as messages name it.
fn source_of(entry: &Value) -> String {
    let name = |kind: &str| entry[kind]["name"].as_str();
    match (name("configMapRef"), name("secretRef")) {
        (Some(name), _) => format!("ConfigMap {name}"),
        (_, name) => format!("Secret {}", name.unwrap_or_default()),
    }
}

/// The keys that an entry asks for; `None`: all.
fn keys_of(entry: &Value) -> Option<Vec<&str>> {
    let keys = ["configMapRef", "secretRef"].into_iter().find_map(|kind| entry[kind]["keys"].as_array())?;
    Some(keys.iter().filter_map(Value::as_str).collect())
}

/// The key that a text was read from, if it was read from this source.
fn key_of<'a>(source: &str, read: &'a str) -> Option<&'a str> {
    read.strip_prefix(source)?.strip_prefix(", key ")
}
