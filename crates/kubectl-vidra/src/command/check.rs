//! `kubectl vidra check`: which targets other health rules would turn.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::Value;
use vidra_api::labels::HEALTH_RULES;
use vidra_api::{DesiredState, MemberCluster, VidraResource, VidraTarget};
use vidra_core::health::rules::RuleSet;
use vidra_core::manifest;
use vidra_core::object::ObjectKey;

use super::file;
use super::live::Members;
use crate::arguments::CheckFlags;
use crate::cluster::{Cluster, Place};
use crate::error::Failure;
use crate::output::{Progress, complain, print};
use crate::report::check::{Question, Report, Turn};
use crate::report::declared::{Objects, declared};
use crate::report::rules::of_hub;
use crate::text::{brief, clean, count};
use crate::{DONE, Ended, OTHERWISE};

/// Most objects of a target that are read in its member.
pub(super) const OBJECTS_MAX: usize = 200;

/// Compares by the digests that targets were judged under, then by kinds, and with `--members` object by object.
///
/// # Errors
/// What is needed of the hub cannot be read, or a file of rules cannot be used.
pub async fn run(place: &Place, flags: &CheckFlags) -> Ended {
    let changed = flags.rules.as_deref().map(config_maps).transpose()?;
    let mut hub = Cluster::hub(place).await?;
    let (now, then) = rule_sources(&hub, flags, changed).await?;
    let members: Vec<MemberCluster> = hub.list(&Api::all(hub.client.clone()), "").await?;
    let resources = match &flags.name {
        Some(name) => vec![super::status::resource(&hub, name).await?],
        None => hub.list(&hub.api(flags.all_namespaces), "").await?,
    };
    let targets: Vec<VidraTarget> = hub.list(&hub.api(flags.all_namespaces), "").await?;
    let mut live = Members::new(flags.member_kubeconfig.as_deref().or(place.kubeconfig.as_deref()), &members);
    let (mut report, progress) = (Report::default(), Progress::new());
    for resource in &resources {
        let (namespace, name) = (&resource.metadata.namespace, resource.metadata.name.as_deref());
        hub.namespace = namespace.clone().unwrap_or_default();
        let own: Vec<_> = targets
            .iter()
            .filter(|one| one.metadata.namespace == *namespace && Some(&*one.spec.resource) == name)
            .filter(|one| one.spec.desired == DesiredState::Present)
            .filter(|one| flags.cluster.as_ref().is_none_or(|cluster| *cluster == one.spec.cluster))
            .collect();
        let rules = |config_maps: &[ConfigMap]| of_hub(config_maps, &resource.spec.health_check_exprs).set;
        let (now, then) = (rules(&now), rules(&then));
        let mut what = None;
        for target in own {
            let question = Question { target, now: &now, then: &then };
            let name = question.name();
            progress.say(&format!("looking at {name}"));
            if question.is_alike() {
                report.add(&name, []);
                continue;
            }
            let what = match &mut what {
                Some(what) => &*what,
                none => &*none.insert(declares(&hub, resource, &members).await?),
            };
            let turns = match what.of(&target.spec.cluster) {
                Ok(objects) => turns(&question, objects, flags.members.then_some(&mut live)).await,
                Err(why) => vec![Turn::Open(format!("what is declared is not known: {why}"))],
            };
            report.add(&name, turns);
        }
    }
    drop(progress);
    if report.is_empty() {
        hub.check_place(flags.all_namespaces, flags.cluster.as_deref()).await?;
    }
    print(&report.text())?;
    Ok(if report.differs() { OTHERWISE } else { DONE })
}

/// The ConfigMaps of rules that the hub has, and those that it would have. Says on standard error what of the latter
/// cannot be used.
async fn rule_sources(
    hub: &Cluster,
    flags: &CheckFlags,
    changed: Option<Vec<ConfigMap>>,
) -> Result<(Vec<ConfigMap>, Vec<ConfigMap>), Failure> {
    let now = hub.health_rules(&flags.hub_namespace).await?;
    let mut then = now.clone();
    let mut warnings = Vec::new();
    for one in changed.into_iter().flatten() {
        let labels = one.metadata.labels.as_ref();
        if labels.and_then(|labels| labels.get(HEALTH_RULES)).is_none_or(|word| word != "true") {
            let name = one.metadata.name.as_deref().unwrap_or_default();
            warnings.push(format!(
                "ConfigMap {name}: the hub reads its rules only with the label {HEALTH_RULES}: \"true\""
            ));
        }
        then.retain(|known| known.metadata.name != one.metadata.name);
        then.push(one);
    }
    warnings.extend(of_hub(&then, &[]).warnings);
    for warning in warnings {
        complain(&format!("warning: {}", clean(&warning)));
    }
    Ok((now, then))
}

/// The ConfigMaps of a file.
fn config_maps(path: &std::path::Path) -> Result<Vec<ConfigMap>, Failure> {
    let (name, mut all) = (file::name(path), Vec::new());
    let unfit = |error: manifest::ManifestError| Failure::Input(error.to_string());
    for (place, document) in manifest::documents(&name, &file::text(path)?).map_err(unfit)? {
        for object in manifest::live_objects(place, document).map_err(unfit)? {
            if (&object["apiVersion"], &object["kind"]) == (&Value::from("v1"), &Value::from("ConfigMap")) {
                let read = serde_json::from_value(object);
                all.push(read.map_err(|error| Failure::Input(format!("{name}: ConfigMap: {error}")))?);
            }
        }
    }
    if all.is_empty() {
        let what = "holds no ConfigMap; name a file with the ConfigMaps of health rules as they would be";
        return Err(Failure::Input(format!("{name} {what}")));
    }
    Ok(all)
}

/// What a VidraResource declares for each cluster, or why that is not known.
pub(super) struct Declares(Result<BTreeMap<String, Objects>, String>);

impl Declares {
    pub(super) fn of(&self, cluster: &str) -> Result<&BTreeMap<ObjectKey, Value>, &str> {
        let all = self.0.as_ref().map_err(String::as_str)?;
        let objects = all.get(cluster).ok_or("the cluster is not selected")?;
        objects.as_ref().map_err(String::as_str)
    }
}

pub(super) async fn declares(
    hub: &Cluster,
    resource: &VidraResource,
    members: &[MemberCluster],
) -> Result<Declares, Failure> {
    let sources = super::sources::read(hub, &resource.spec).await?;
    if let Some(unread) = sources.unread.first() {
        return Ok(Declares(Err(brief(unread, 300))));
    }
    let read = declared(&hub.namespace, &resource.spec, &sources, members);
    Ok(Declares(read.map(|read| {
        let of = |(cluster, place): (&String, &usize)| {
            Some((cluster.clone(), read.renderings.get(*place)?.clone()))
        };
        read.clusters.iter().filter_map(of).collect()
    })))
}

/// What would become of the verdicts of a target's objects. Without members, what may turn is told by its kind.
async fn turns(
    question: &Question<'_>,
    objects: &BTreeMap<ObjectKey, Value>,
    members: Option<&mut Members<'_>>,
) -> Vec<Turn> {
    let concerned = question.concerned(objects);
    let Some(members) = members else {
        let kinds: BTreeSet<_> = concerned.iter().map(|(key, _)| (&key.group, &key.kind)).collect();
        let open = |(group, kind): (&std::sync::Arc<str>, &std::sync::Arc<str>)| {
            let dot = if group.is_empty() { "" } else { "." };
            Turn::Open(format!(
                "{}: {}",
                clean(&format!("{kind}{dot}{group}")),
                by(question.then, group, kind)
            ))
        };
        return kinds.into_iter().map(open).collect();
    };
    let mut all = Vec::new();
    for (key, declared) in concerned.iter().take(OBJECTS_MAX) {
        all.push(match members.find(&question.target.spec.cluster, key, declared).await {
            Ok(Some((live, facts))) => question.turn(key, declared, &live, &facts),
            // What is not there has no verdict.
            Ok(None) => Turn::Same,
            Err(why) => Turn::Open(why),
        });
    }
    let rest = concerned.len().saturating_sub(OBJECTS_MAX);
    if rest > 0 {
        all.push(Turn::Open(format!("not looked at: {}", count(rest, "more object"))));
    }
    all
}

fn by(rules: &RuleSet, group: &str, kind: &str) -> String {
    match rules.scope(group, kind) {
        Some(scope) => format!("would be judged by health rule {}", clean(&scope.to_string())),
        None => "would be judged by no health rule".to_owned(),
    }
}
