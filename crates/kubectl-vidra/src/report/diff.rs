//! What a changed VidraResource would change: which clusters, which objects, how. Compared is what is declared
//! with what would be; the members are not asked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use similar::TextDiff;
use vidra_api::{
    DeletionPolicy, DesiredState, MemberCluster, VidraResource, VidraResourceSpec, VidraTarget,
    labels::APPROVE_REMOVAL,
};
use vidra_core::annotations::Unknown;
use vidra_core::feedback;
use vidra_core::guard::{self, Removal};
use vidra_core::health::{own, rules::Rules};
use vidra_core::object::ObjectKey;
use vidra_core::select::{self, Selection};
use vidra_core::status::Reason;

use super::declared::{Declared, Objects, Sources, declared};
use crate::text::{brief, clean, count, some_of};

/// All that a comparison needs.
pub struct Question<'a> {
    /// The VidraResource as it is; none: it is new.
    pub now: Option<&'a VidraResource>,
    /// As it would be.
    pub then: &'a VidraResource,
    /// What its sources hold: of what it is, and of what it would be.
    pub sources: (&'a Sources, &'a Sources),
    /// Its namespace.
    pub namespace: &'a str,
    /// The file, for headers.
    pub file: &'a str,
    /// All members.
    pub members: &'a [MemberCluster],
    /// The targets that it has.
    pub targets: &'a [VidraTarget],
    /// This cluster only.
    pub cluster: Option<&'a str>,
}

/// What is said, and whether something would change.
pub struct Answer {
    /// For people.
    pub text: String,
    /// Something would.
    pub differs: bool,
}

/// Compares.
///
/// # Errors
/// What would be cannot be read, in a sentence.
pub fn diff(question: &Question<'_>) -> Result<Answer, String> {
    let (had, has) = question.sources;
    let then = declared(question.namespace, &question.then.spec, has, question.members)?;
    if let Some(why) = then.unknown {
        return Err(why);
    }
    let (now, unreadable) =
        match question.now.map(|now| declared(question.namespace, &now.spec, had, question.members)) {
            None => (Declared::default(), None),
            Some(Ok(now)) => (now, None),
            Some(Err(why)) => (Declared::default(), Some(why)),
        };
    let mut text = settings(question);
    text.push_str(&requests(question));
    text.push_str(&clusters(question, &then));
    if let Some(why) = &unreadable {
        text.push_str(&format!(
            "What is declared now cannot be read ({}); all objects are shown as new.\n",
            brief(why, 300)
        ));
    }
    text.push_str(&objects(question, &now, &then));
    text.push_str(&unseen(question, &now, &then));
    let differs = !text.is_empty() || unreadable.is_some();
    if !differs {
        text.push_str("No differences.\n");
    }
    let annotations = json!(question.then.metadata.annotations);
    if let Some(unknown) = Unknown::at(&["metadata", "annotations"], &annotations) {
        text.push_str(&format!("! its annotation {} {unknown}\n", clean(unknown.key())));
    }
    text.push_str(&overrides(&then));
    text.push_str(&rules(&question.then.spec));
    text.push_str(&unknown(question));
    Ok(Answer { text, differs })
}

/// Clusters that would come and go.
fn clusters(question: &Question<'_>, then: &Declared) -> String {
    let present: BTreeMap<&str, &VidraTarget> = question
        .targets
        .iter()
        .filter(|target| target.spec.desired == DesiredState::Present)
        .map(|target| (target.spec.cluster.as_str(), target))
        .collect();
    let mut text = String::new();
    for (cluster, namespace) in then.selection.targets.iter().filter(|(name, _)| is_asked(question, name)) {
        match present.get(cluster.as_str()) {
            None => text.push_str(&format!("+ cluster {cluster}, namespace {namespace}\n")),
            Some(target) if target.spec.namespace != *namespace => {
                text.push_str(&format!(
                    "~ cluster {cluster}, namespace {} -> {namespace}\n",
                    target.spec.namespace
                ));
            }
            Some(_) => {}
        }
    }
    let leaving: BTreeSet<String> = present
        .keys()
        .filter(|name| !then.selection.targets.contains_key(**name) && !then.selection.is_barred(name))
        .map(|name| (*name).to_owned())
        .collect();
    let fate = match question.then.spec.deletion_policy {
        DeletionPolicy::Delete => "to be deleted there",
        DeletionPolicy::Orphan => "to stay there, without the hub's marks",
    };
    for cluster in leaving.iter().filter(|name| is_asked(question, name)) {
        let objects = present
            .get(cluster.as_str())
            .and_then(|target| target.status.as_ref())
            .map_or(0, |status| status.objects);
        text.push_str(&format!("- cluster {cluster}: {} {fate}\n", count(objects, "object")));
    }
    text.push_str(&guarded(question, &present, &leaving, &then.selection));
    let spec = &question.then.spec;
    let members: BTreeSet<&str> =
        question.members.iter().filter_map(|member| member.metadata.name.as_deref()).collect();
    let unknown: BTreeSet<&str> = select::unknown(select::named(&spec.targets), &members).collect();
    let excluded: BTreeSet<&str> = select::unknown(spec.exclude_clusters.iter(), &members).collect();
    let unknown = unknown.into_iter().map(|cluster| ("targets", cluster));
    let excluded = excluded.into_iter().map(|cluster| ("excludeClusters", cluster));
    for (place, cluster) in unknown.chain(excluded) {
        let name = brief(cluster, 80);
        text.push_str(&format!("! spec.{place} names the cluster {name}, and there is none of that name\n"));
    }
    for cluster in &then.selection.forbidden {
        text.push_str(&format!(
            "! the cluster {cluster} does not allow the namespace {}\n",
            question.namespace
        ));
    }
    text
}

/// What the removal guard makes of targets that would go. Its share is a setting of the hub, which is not asked.
fn guarded(
    question: &Question<'_>,
    present: &BTreeMap<&str, &VidraTarget>,
    leaving: &BTreeSet<String>,
    selection: &Selection,
) -> String {
    // A member that is being deleted leaves by a person's word, and what one does not allow any more is not given up.
    let leaves = |name: &str| {
        let mut members = question.members.iter();
        members.any(|one| {
            one.metadata.name.as_deref() == Some(name) && one.metadata.deletion_timestamp.is_some()
        })
    };
    let stays = |name: &str| !leaves(name) && !selection.is_barred(name);
    let existing: guard::Targets = (present.iter().filter(|(name, _)| stays(name)))
        .map(|(name, target)| ((*name).to_owned(), target.metadata.uid.clone().unwrap_or_default()))
        .collect();
    let leaving: guard::Targets = existing
        .iter()
        .filter(|(name, _)| leaving.contains(*name))
        .map(|(name, uid)| (name.clone(), uid.clone()))
        .collect();
    let approved = question.then.metadata.annotations.as_ref().and_then(|all| all.get(APPROVE_REMOVAL));
    let resource = question.now.and_then(|now| now.metadata.uid.as_deref()).unwrap_or_default();
    let decided = |share| {
        let underway = guard::Targets::new();
        let approvals = guard::approvals(approved.map(String::as_str));
        guard::targets(resource, &existing, &leaving, &underway, None, share, &approvals)
    };
    match (decided(100), decided(1)) {
        (Removal::Held { why, .. }, _) => {
            format!("! the removal guard holds all of it until it is approved: {why} (RemovalHeld)\n")
        }
        (_, Removal::Held { .. }) => format!(
            "! it would be taken off {} of {} clusters: where the hub's removalGuard is less than that (20 % unless it is set), all of it is held until it is approved (RemovalHeld)\n",
            leaving.len(),
            existing.len(),
        ),
        _ => String::new(),
    }
}

fn is_asked(question: &Question<'_>, cluster: &str) -> bool {
    question.cluster.is_none_or(|asked| asked == cluster)
}

/// The difference of one object.
type Delta = (Option<Value>, Option<Value>);

/// Identical differences once, with the clusters.
fn objects(question: &Question<'_>, now: &Declared, then: &Declared) -> String {
    // Clusters that have their renderings in common are compared once.
    let mut pairs: BTreeMap<(Option<usize>, Option<usize>), Vec<String>> = BTreeMap::new();
    let names: BTreeSet<_> = now.clusters.keys().chain(then.clusters.keys()).collect();
    for name in names.into_iter().filter(|name| is_asked(question, name)) {
        let pair = (now.clusters.get(name).copied(), then.clusters.get(name).copied());
        pairs.entry(pair).or_default().push(name.clone());
    }
    let mut dropped: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    let none: Objects = Ok(BTreeMap::new());
    let mut groups: BTreeMap<(ObjectKey, String), (Delta, Vec<String>)> = BTreeMap::new();
    let mut text = String::new();
    for ((before, after), clusters) in pairs {
        let rendering = |declared: &'_ Declared, place: Option<usize>| {
            place.and_then(|place| declared.renderings.get(place)).cloned().unwrap_or_else(|| none.clone())
        };
        // A cluster that goes is told of above; what it loses is all that it has.
        if after.is_none() {
            continue;
        }
        let after = match rendering(then, after) {
            Ok(after) => after,
            Err(why) => {
                text.push_str(&format!("! not on {}: {}\n", some_of(&clusters, false), brief(&why, 400)));
                continue;
            }
        };
        let before = rendering(now, before).unwrap_or_default();
        let spec = &question.then.spec;
        let gone =
            before.iter().filter(|(key, object)| !after.contains_key(*key) && is_deleted(spec, key, object));
        let gone = gone.count();
        let meant = after.is_empty() && spec.allow_empty;
        // The share is a setting of the hub, which is not asked.
        if !meant && guard::holds_objects(before.len(), gone, 1) {
            dropped.entry((gone, before.len())).or_default().extend(clusters.iter().cloned());
        }
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let delta = (before.get(key).cloned(), after.get(key).cloned());
            if delta.0 != delta.1 {
                let identity = json!([delta.0, delta.1]).to_string();
                let (_, on) = groups.entry((key.clone(), identity)).or_insert_with(|| (delta, Vec::new()));
                on.extend(clusters.iter().cloned());
            }
        }
    }
    for ((key, _), (delta, mut clusters)) in groups {
        clusters.sort();
        text.push_str(&object(question, &key, delta, &clusters));
    }
    for ((gone, all), mut clusters) in dropped {
        clusters.sort();
        text.push_str(&format!(
            "! {gone} of the {all} objects declared now would be deleted on {}: where the hub's objectRemovalGuard is less than that (50 % unless it is set), by what is really there, that is held until it is approved (RemovalHeld)\n",
            some_of(&clusters, false)
        ));
    }
    text
}

fn object(question: &Question<'_>, key: &ObjectKey, delta: Delta, clusters: &[String]) -> String {
    let name = clean(&key.to_string());
    let on = some_of(clusters, false);
    let sign = match &delta {
        (None, _) => format!("+ {name} on {on}"),
        (Some(before), None) => format!("- {name} on {on}: {}", fate(&question.then.spec, key, before)),
        _ => format!("~ {name} on {on}"),
    };
    let (before, after) = mask(key, delta);
    let lines = match (before, after) {
        (before, Some(after)) => unified(before.as_ref(), &after, question.file),
        _ => String::new(),
    };
    format!("{sign}\n{lines}")
}

fn is_deleted(spec: &VidraResourceSpec, key: &ObjectKey, before: &Value) -> bool {
    fate(spec, key, before).starts_with("is deleted")
}

/// What becomes of an object that is declared no more.
fn fate(spec: &VidraResourceSpec, key: &ObjectKey, before: &Value) -> &'static str {
    let container = matches!(&*key.kind, "Namespace" | "CustomResourceDefinition");
    let kept = before["metadata"]["annotations"][vidra_api::labels::PRUNE] == "disabled";
    let retained = container && spec.namespace_and_crd_deletion == vidra_api::ContainerDeletion::Retain;
    match () {
        () if !spec.prune => "stays (prune: false)",
        () if kept => "is released (vidra.dev/prune: disabled)",
        () if retained => "is released (namespaceAndCRDDeletion: Retain)",
        () if container => "is deleted when nothing is in it",
        () => "is deleted",
    }
}

/// Values of Secrets are not shown.
fn mask(key: &ObjectKey, (mut before, mut after): Delta) -> Delta {
    if !(key.group.is_empty() && &*key.kind == "Secret") {
        return (before, after);
    }
    for field in ["data", "stringData"] {
        let value = |side: &Option<Value>, key: &str| side.as_ref().map(|side| side[field][key].clone());
        let keys: BTreeSet<String> = [&before, &after]
            .into_iter()
            .flatten()
            .filter_map(|side| side[field].as_object())
            .flat_map(|fields| fields.keys().cloned())
            .collect();
        for key in keys {
            let same = before.is_none() || value(&before, &key) == value(&after, &key);
            for (side, word) in [(&mut before, "*** (before)"), (&mut after, "*** (after)")] {
                let shown = if same { "***" } else { word };
                if let Some(slot) = side.as_mut().and_then(|side| side[field].get_mut(&key)) {
                    *slot = Value::from(shown);
                }
            }
        }
    }
    (before, after)
}

fn unified(before: Option<&Value>, after: &Value, file: &str) -> String {
    let yaml = |value: &Value| serde_saphyr::to_string(value).unwrap_or_default();
    let (before, after) = (before.map(yaml).unwrap_or_default(), yaml(after));
    let diff = TextDiff::from_lines(&before, &after);
    let text = diff.unified_diff().context_radius(3).header("declared now", file).to_string();
    text.lines().map(|line| format!("    {}\n", clean(line))).collect()
}

/// What else of the spec changes; overrides show in the objects, and could hold what is secret.
fn settings(question: &Question<'_>) -> String {
    let rest = |spec: &VidraResourceSpec| {
        let mut spec = serde_json::to_value(spec).unwrap_or_default();
        if let Some(fields) = spec.as_object_mut() {
            for told in ["manifest", "manifests", "overrides"] {
                fields.remove(told);
            }
        }
        spec
    };
    let Some(now) = question.now else {
        return format!("+ VidraResource {}/{}\n", question.namespace, name(question));
    };
    let (mut now, mut then) = (rest(&now.spec), rest(&question.then.spec));
    if now == then {
        return String::new();
    }
    // Only the fields that differ.
    if let (Some(now), Some(then)) = (now.as_object_mut(), then.as_object_mut()) {
        let same: Vec<_> = then
            .iter()
            .filter(|(key, value)| now.get(*key) == Some(value))
            .map(|(key, _)| key.clone())
            .collect();
        for key in same {
            now.remove(&key);
            then.remove(&key);
        }
    }
    format!("~ its spec\n{}", unified(Some(&now), &then, question.file))
}

/// Annotations of the VidraResource itself that ask something of the hub. One that the file does not have may stay.
fn requests(question: &Question<'_>) -> String {
    let set = |resource: &VidraResource| resource.metadata.annotations.clone().unwrap_or_default();
    let (now, then) = (question.now.map(set).unwrap_or_default(), set(question.then));
    let news = then.iter().filter(|(key, word)| key.starts_with("vidra.dev/") && now.get(*key) != Some(word));
    news.map(|(key, word)| format!("~ its annotation {}: {}\n", brief(key, 80), brief(word, 200))).collect()
}

fn name<'a>(question: &Question<'a>) -> &'a str {
    question.then.metadata.name.as_deref().unwrap_or_default()
}

fn overrides(then: &Declared) -> String {
    let mut text = String::new();
    for (entry, clusters) in &then.overridden {
        text.push_str(&format!("spec.overrides[{entry}] is for {}\n", some_of(clusters, false)));
    }
    for entry in &then.unmatched {
        text.push_str(&format!(
            "! the target of spec.overrides[{entry}] matches no object of the manifest\n"
        ));
    }
    text
}

/// Rules that the hub could not use.
fn rules(spec: &VidraResourceSpec) -> String {
    let (_, problems) = own::read(&spec.health_check_exprs, &Rules::default());
    let health = own::complaint(&problems).into_iter().chain(own::duplicates(&problems));
    let (_, feedback) = feedback::Rules::read(&spec.status_feedback);
    health.chain(feedback).map(|why| format!("! {}\n", brief(&why, 600))).collect()
}

/// Clusters that have what is not compared: what is declared now is nothing, or cannot be read, or a removal is held.
fn unseen(question: &Question<'_>, now: &Declared, then: &Declared) -> String {
    let declared = |cluster: &str| {
        let place = now.clusters.get(cluster).and_then(|place| now.renderings.get(*place));
        place.and_then(|objects| objects.as_ref().ok()).map_or(0, BTreeMap::len)
    };
    let mut has: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for target in question.targets {
        let (cluster, status) = (&target.spec.cluster, target.status.as_ref());
        let objects = status.map_or(0, |status| status.objects);
        let is_held = status.and_then(Reason::of) == Some(Reason::RemovalHeld);
        let stays = then.clusters.contains_key(cluster) && is_asked(question, cluster);
        if stays && objects > 0 && (is_held || declared(cluster) == 0) {
            has.entry(objects).or_default().push(cluster.clone());
        }
    }
    let line = |(objects, clusters): (i64, Vec<String>)| {
        let (on, objects) = (some_of(&clusters, false), count(objects, "object"));
        format!(
            "! it has {objects} on {on}, and not all are declared now: which of them would be deleted is not shown\n"
        )
    };
    has.into_iter().map(line).collect()
}

/// What the comparison does not cover.
fn unknown(question: &Question<'_>) -> String {
    let mut text = String::from(
        "This compares what is declared; the members were not asked, for only the hub has their credentials. \
         See `kubectl vidra drift` for what differs there.\n",
    );
    let (had, has) = question.sources;
    let unread: BTreeSet<&String> = had.unread.iter().chain(&has.unread).collect();
    for line in unread {
        text.push_str(&format!("! {line}\n"));
    }
    text
}
