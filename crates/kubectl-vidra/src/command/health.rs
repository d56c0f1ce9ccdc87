//! `kubectl vidra health`.

use kube::Api;
use serde_json::Value;
use vidra_api::{MemberCluster, VidraTarget};
use vidra_core::health::{facts::Facts, library, rules::RuleSet};
use vidra_core::manifest;

use super::check::{OBJECTS_MAX, declares};
use super::file;
use super::live::Members;
use crate::arguments::{Format, HealthFlags};
use crate::cluster::{Cluster, Place};
use crate::error::Failure;
use crate::output::{complain, print};
use crate::report::health::Report;
use crate::report::{rules, suggest};
use crate::{DONE, Ended, OTHERWISE};

/// Judges the objects of files.
///
/// # Errors
/// A file cannot be read, a rule cannot be used, or the hub does not say which it has.
pub async fn run(place: &Place, flags: &HealthFlags) -> Ended {
    let rules = match flags.hub {
        true => of_the_hub(place, flags).await?,
        false => of_a_file(flags)?,
    };
    let (objects, report) = match (&flags.name, &flags.cluster) {
        (Some(name), Some(cluster)) => {
            let found = in_member(place, flags, name, cluster).await?;
            let report = Report::with_facts(&found, &rules);
            (found.into_iter().map(|(object, _)| object).collect(), report)
        }
        _ => {
            let objects = objects(flags)?;
            let report = Report::of(&objects, &rules, flags.age);
            (objects, report)
        }
    };
    if flags.suggest {
        let text = suggest::text(&objects, &rules);
        print(&text)?;
        return Ok(if text.is_empty() { OTHERWISE } else { DONE });
    }
    print(&match flags.output {
        Format::Table => report.text(false),
        Format::Wide => report.text(true),
        Format::Json => crate::text::json(&report.value()),
        Format::Yaml => crate::text::yaml(&report.value()),
    })?;
    Ok(if report.is_as_required(&flags.require) { DONE } else { OTHERWISE })
}

fn of_a_file(flags: &HealthFlags) -> Result<RuleSet, Failure> {
    let Some(path) = &flags.rules else { return Ok(library::rule_set()) };
    let (set, warnings) = rules::read(&file::name(path), &file::text(path)?).map_err(Failure::Input)?;
    warn(warnings);
    Ok(set)
}

/// Those that the hub has. Standard error has what makes them others than the shipped ones, and whether the hub judges by
/// them.
async fn of_the_hub(place: &Place, flags: &HealthFlags) -> Result<RuleSet, Failure> {
    let hub = Cluster::hub(place).await?;
    let config_maps = hub.health_rules(&flags.hub_namespace).await?;
    let named = flags.resource.as_ref().or(flags.name.as_ref());
    let (own, fields) = match named {
        None => (Vec::new(), String::new()),
        Some(name) => {
            let resource = super::status::resource(&hub, name).await?;
            (resource.spec.health_check_exprs, format!("spec.resource={name}"))
        }
    };
    let targets: Vec<VidraTarget> = hub.list(&hub.api(false), &fields).await?;
    let rules = rules::of_hub(&config_maps, &own);
    warn(rules.warnings);
    if !rules.beside.is_empty() {
        complain(&format!(
            "note: the hub has rules beside the shipped ones: {}",
            crate::text::clean(&rules.beside)
        ));
    }
    // Others' own rules make another digest.
    let alike = |target: &&VidraTarget| named.is_some() || target.spec.health_rules.is_none();
    let targets: Vec<_> = targets.iter().filter(alike).collect();
    complain(&crate::text::clean(&rules::compared(&rules.set.digest(), &targets)));
    Ok(rules.set)
}

/// The objects that a VidraResource declares for a member, as they are there.
async fn in_member(
    place: &Place,
    flags: &HealthFlags,
    name: &str,
    cluster: &str,
) -> Result<Vec<(Value, Facts)>, Failure> {
    let hub = Cluster::hub(place).await?;
    let resource = super::status::resource(&hub, name).await?;
    let members: Vec<MemberCluster> = hub.list(&Api::all(hub.client.clone()), "").await?;
    if !members.iter().any(|member| member.metadata.name.as_deref() == Some(cluster)) {
        hub.check_place(true, Some(cluster)).await?;
    }
    let what = declares(&hub, &resource, &members).await?;
    let objects = what.of(cluster).map_err(|why| {
        Failure::Input(format!("what VidraResource {name} declares for {cluster} is not known: {why}"))
    })?;
    let kubeconfig = flags.member_kubeconfig.as_deref().or(place.kubeconfig.as_deref());
    let (mut live, mut found) = (Members::new(kubeconfig, &members), Vec::new());
    for (key, declared) in objects.iter().take(OBJECTS_MAX) {
        match live.find(cluster, key, declared).await.map_err(Failure::Input)? {
            Some(one) => found.push(one),
            None => complain(&format!("note: {} is not there", crate::text::clean(&key.to_string()))),
        }
    }
    let rest = objects.len().saturating_sub(OBJECTS_MAX);
    if rest > 0 {
        complain(&format!("warning: not looked at: {}", crate::text::count(rest, "more object")));
    }
    Ok(found)
}

fn warn(warnings: Vec<String>) {
    for warning in warnings {
        complain(&format!("warning: {}", crate::text::clean(&warning)));
    }
}

/// All objects of all files, in their order.
fn objects(flags: &HealthFlags) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for path in &flags.files {
        let name = file::name(path);
        let before = all.len();
        let unfit = |error: manifest::ManifestError| Failure::Input(error.to_string());
        for (place, document) in manifest::documents(&name, &file::text(path)?).map_err(unfit)? {
            all.extend(manifest::live_objects(place, document).map_err(unfit)?);
        }
        if all.len() == before {
            let what = "holds no object; name a file with objects as kubectl get -o yaml prints them";
            return Err(Failure::Input(format!("{name} {what}")));
        }
    }
    Ok(all)
}
