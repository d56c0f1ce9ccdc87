//! What the hub is about to do for a VidraResource as it is: targets to come, to go and to move on, what is held,
//! and what differs in members.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vidra_api::condition::{READY, STALLED};
use vidra_api::{DesiredState, DriftPolicy, MemberCluster, TargetState, VidraResource, VidraTarget, find};

use super::diff::Answer;
use super::{declared, drift, status};
use crate::text::{brief, clean, command_lines, count, some_of, without_commands};

/// What is to be done, by cluster; `cluster`: on this one only. `members`: none where they may not be seen.
pub fn pending(
    resource: &VidraResource,
    targets: &[VidraTarget],
    members: Option<&[MemberCluster]>,
    cluster: Option<&str>,
    now: Timestamp,
) -> Answer {
    let namespace = resource.metadata.namespace.as_deref().unwrap_or_default();
    let asked = |name: &str| cluster.is_none_or(|asked| asked == name);
    let selection = members.map(|members| declared::selection(namespace, &resource.spec, members));
    let mut wishes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, destination) in selection.iter().flat_map(|selection| &selection.targets) {
        let is_there = targets.iter().any(|target| target.spec.cluster == *name);
        if asked(name) && !is_there && resource.metadata.deletion_timestamp.is_none() {
            wishes.entry(format!("+ deliver into namespace {destination}")).or_default().push(name.clone());
        }
    }
    let own: Vec<_> = targets.iter().filter(|target| asked(&target.spec.cluster)).cloned().collect();
    for target in &own {
        let selected =
            selection.as_ref().is_none_or(|selection| selection.targets.contains_key(&target.spec.cluster));
        for wish in wish(resource, target, selected) {
            wishes.entry(wish).or_default().push(target.spec.cluster.clone());
        }
    }
    let mut text = String::new();
    for (wish, mut clusters) in wishes {
        clusters.sort();
        text.push_str(&format!("{} on {}\n", clean(&wish), some_of(&clusters, false)));
    }
    text.push_str(&held(resource));
    text.push_str(&command_lines(status::commands(Some(resource), &own.iter().collect::<Vec<_>>())));
    let drift = drift::Report::of(&own, false);
    if drift.has_drift() || !drift.unknown.is_empty() {
        text.push_str(&drift.text(false, false, now));
        match resource.spec.drift.policy {
            DriftPolicy::Report if drift.has_drift() => {
                text.push_str("It is left as it is: spec.drift.policy is Report.\n");
            }
            DriftPolicy::Ignore => text.push_str("Nobody looks for drift: spec.drift.policy is Ignore.\n"),
            _ => {}
        }
    }
    let differs = !text.is_empty();
    if !differs {
        text.push_str("Nothing to do: every target is as declared.\n");
    }
    if selection.is_none() {
        text.push_str("Which clusters match is not told: you may not list MemberClusters.\n");
    }
    if !resource.spec.manifests_from.is_empty() {
        text.push_str(
            "Whether ConfigMaps and Secrets of spec.manifestsFrom have changed since is not told here.\n",
        );
    }
    text.push_str("This is what the hub last wrote of its targets; the members were not asked, for only the hub has their credentials.\n");
    Answer { text, differs }
}

/// What one target waits for.
fn wish(resource: &VidraResource, target: &VidraTarget, selected: bool) -> Vec<String> {
    let status = target.status.clone().unwrap_or_default();
    match target.spec.desired {
        DesiredState::Present => {}
        DesiredState::Absent => return vec![format!("- delete {}", count(status.objects, "object"))],
        DesiredState::Orphaned => return vec![format!("- release {}", count(status.objects, "object"))],
        DesiredState::Forgotten => {
            return vec![format!("- forget {}, left as it is there", count(status.objects, "object"))];
        }
    }
    let mut wishes = Vec::new();
    if !selected && resource.metadata.deletion_timestamp.is_none() {
        wishes.push("- remove: no longer selected".to_owned());
    }
    let wanted = resource.status.as_ref().and_then(|status| status.revision.as_deref());
    if wanted.is_some_and(|wanted| wanted != target.spec.revision) {
        wishes.push(format!("~ give it revision {}", wanted.unwrap_or_default()));
    } else if status.revision.as_deref() != Some(&target.spec.revision) {
        let has = status.revision.as_deref().unwrap_or("nothing");
        wishes.push(format!("~ apply revision {} in place of {has}", target.spec.revision));
    }
    let state = match status.state {
        None => "the hub has not looked at it yet".to_owned(),
        Some(TargetState::Ready | TargetState::Unknown) => return wishes,
        Some(state) => {
            let mut told = format!("{state:?}");
            let own = status.reason.clone().unwrap_or_default();
            if let Some(reason) = status.reason.filter(|reason| *reason != told) {
                told.push_str(&format!(", {reason}"));
            }
            if let Some(message) = status.message {
                told.push_str(&format!(": {}", without_commands(&message, &own, 300).0));
            }
            told
        }
    };
    wishes.push(format!("! {state}"));
    wishes
}

/// What holds the whole of it.
fn held(resource: &VidraResource) -> String {
    let conditions = resource.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut text = String::new();
    if let Some(stalled) = find(conditions, STALLED).filter(|stalled| stalled.status == "True") {
        text.push_str(&format!(
            "! stalled, {}: {}\n",
            brief(&stalled.reason, 80),
            without_commands(&stalled.message, &stalled.reason, 600).0
        ));
    } else if resource.spec.suspend {
        text.push_str("! suspended: nothing is done until spec.suspend is false\n");
    }
    let observed = resource.status.as_ref().and_then(|status| status.observed_generation);
    if find(conditions, READY).is_none() || observed != resource.metadata.generation {
        text.push_str("~ look at its spec, which the hub has not seen yet\n");
    }
    text
}
