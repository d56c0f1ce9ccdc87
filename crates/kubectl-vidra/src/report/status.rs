//! VidraResources as trees: their targets, and what of the objects is not well.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use termtree::Tree;
use vidra_api::condition::{DRIFTED, READY, RECONCILING, REMOVING, STALLED};
use vidra_api::{
    Condition, DesiredState, DriftState, ObjectHealth, TargetState, UnreadyObject, VidraResource,
    VidraTarget, VidraTargetStatus, find,
};
use vidra_core::status::{CountedState, Reason, going, removing};

use super::change;
use crate::text::{Command, age, age_or_dash, brief, command_lines, count, names, without_commands};

/// Longest message in a line.
const MESSAGE_MAX: usize = 300;
/// Longest message of a warning.
const WARNING_MAX: usize = 600;
/// What the tree tells of a VidraResource; each other condition of it is a warning.
const TOLD: [&str; 5] = [READY, RECONCILING, STALLED, DRIFTED, REMOVING];

/// Trees of these VidraResources; `all`: also the targets that are well, one by one.
pub fn text(resources: &[VidraResource], targets: &[VidraTarget], all: bool, now: Timestamp) -> String {
    let mut by_resource: BTreeMap<(&str, &str), Vec<&VidraTarget>> = BTreeMap::new();
    for target in targets {
        let namespace = target.metadata.namespace.as_deref().unwrap_or_default();
        by_resource.entry((namespace, &target.spec.resource)).or_default().push(target);
    }
    let mut text = String::new();
    for resource in resources {
        let namespace = resource.metadata.namespace.as_deref().unwrap_or_default();
        let name = resource.metadata.name.as_deref().unwrap_or_default();
        let mut own = by_resource.remove(&(namespace, name)).unwrap_or_default();
        let wanted = wanted(resource);
        own.sort_by_key(|target| (rank(target, wanted), target.spec.cluster.clone()));
        text.push_str(&tree(resource, &own, all, now).to_string());
        text.push_str(&command_lines(commands(Some(resource), &own)));
        text.push_str(&warnings(resource));
    }
    // Their VidraResource went while this was read.
    for ((namespace, name), own) in by_resource {
        text.push_str(&format!(
            "VidraResource {namespace}/{name} is not there, and has {}\n",
            count(own.len(), "target")
        ));
        text.push_str(&command_lines(commands(None, &own)));
    }
    text
}

/// The commands in the messages of a VidraResource and its targets.
pub fn commands(resource: Option<&VidraResource>, targets: &[&VidraTarget]) -> Vec<Command> {
    let conditions = resource.and_then(|resource| resource.status.as_ref()).map(|status| &status.conditions);
    let own = [READY, STALLED].into_iter().filter_map(|kind| find(conditions?, kind));
    let own = own.map(|condition| (condition.message.as_str(), condition.reason.as_str()));
    let theirs = targets.iter().filter_map(|target| target.status.as_ref()).flat_map(|status| {
        let removing = status.removing.as_ref();
        let removing = removing.and_then(|removing| Some((removing.message.as_deref()?, &*removing.reason)));
        status.message.as_deref().zip(status.reason.as_deref()).into_iter().chain(removing)
    });
    own.chain(theirs).flat_map(|(message, reason)| without_commands(message, reason, MESSAGE_MAX).1).collect()
}

/// What somebody should know of what is declared, and what keeps nothing from being Ready.
fn warnings(resource: &VidraResource) -> String {
    let conditions = resource.status.iter().flat_map(|status| &status.conditions);
    let holds = conditions.filter(|one| one.status == "True" && !TOLD.contains(&one.type_.as_str()));
    let line = |one: &Condition| {
        let (kind, reason) = (brief(&one.type_, 80), brief(&one.reason, 80));
        format!("  warning: {kind} ({reason}): {}\n", brief(&one.message, WARNING_MAX))
    };
    holds.map(line).collect()
}

fn tree(resource: &VidraResource, targets: &[&VidraTarget], all: bool, now: Timestamp) -> Tree<String> {
    let wanted = wanted(resource);
    let (well, unwell): (Vec<&VidraTarget>, Vec<_>) =
        targets.iter().copied().partition(|target| rank(target, wanted) == WELL);
    let mut tree = Tree::new(head(resource, targets, now));
    if let Some(goes) = still_going(targets) {
        tree.push(Tree::new(goes));
    }
    for group in alike(&unwell, wanted, now) {
        let clusters: Vec<String> = group.iter().map(|target| target.spec.cluster.clone()).collect();
        let who = match clusters.as_slice() {
            [one] => one.clone(),
            many => format!("{} ({})", count(many.len(), "cluster"), names(many, all)),
        };
        // Where it has been so the longest.
        let since = |target: &&&VidraTarget| target.status.as_ref().and_then(|status| status.since.clone());
        if let Some(longest) = group.iter().min_by_key(since) {
            tree.push(Tree::new(line(&who, longest, wanted, now)).with_leaves(details(longest, wanted, now)));
        }
    }
    if all {
        tree.extend(well.iter().map(|target| Tree::new(line(&target.spec.cluster, target, wanted, now))));
    } else if !well.is_empty() {
        tree.push(Tree::new(format!("{}: Ready", count(well.len(), "cluster"))));
    }
    if targets.is_empty() {
        tree.push(Tree::new("no targets".to_owned()));
    }
    tree
}

/// Targets of which the same is told, times apart, stand together: what goes wrong mostly goes wrong everywhere.
fn alike<'t>(targets: &[&'t VidraTarget], wanted: Option<&str>, now: Timestamp) -> Vec<Vec<&'t VidraTarget>> {
    let told = |target: &VidraTarget| {
        let mut timeless = target.clone();
        if let Some(status) = &mut timeless.status {
            status.since = None;
            status.progress.iter_mut().for_each(|progress| progress.since = None);
            status.changes.iter_mut().for_each(|change| change.detected_at = Time(now));
        }
        (line("", &timeless, wanted, now), details(&timeless, wanted, now))
    };
    let (mut groups, mut places) = (Vec::<Vec<&VidraTarget>>::new(), BTreeMap::new());
    for target in targets {
        let place = *places.entry(told(target)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(target),
            None => groups.push(vec![target]),
        }
    }
    groups
}

/// The revision that its targets are to have.
fn wanted(resource: &VidraResource) -> Option<&str> {
    resource.status.as_ref()?.revision.as_deref()
}

/// What goes of these targets, as the VidraResource's condition has it.
fn still_going(targets: &[&VidraTarget]) -> Option<String> {
    let all: Vec<_> =
        targets.iter().filter_map(|target| Some((target.spec.cluster.as_str(), going(target)?))).collect();
    let (_, _, message) = removing(all.iter().map(|(cluster, going)| (*cluster, going)));
    (!message.is_empty()).then(|| without_commands(&message, Reason::RemovalHeld.as_str(), 2 * MESSAGE_MAX).0)
}

fn head(resource: &VidraResource, targets: &[&VidraTarget], now: Timestamp) -> String {
    let namespace = resource.metadata.namespace.as_deref().unwrap_or_default();
    let name = resource.metadata.name.as_deref().unwrap_or_default();
    let status = resource.status.clone().unwrap_or_default();
    let mut text = format!("VidraResource {namespace}/{name}");
    let Some(ready) = find(&status.conditions, READY) else {
        text.push_str(": the hub has not looked at it yet");
        return text;
    };
    let word =
        if ready.status == "True" { "Ready".to_owned() } else { format!("not Ready ({})", ready.reason) };
    text.push_str(&format!(": {word} for {}", age(&ready.last_transition_time, now)));
    // Counted as the hub does, of the targets that are shown below: the two never contradict each other.
    let standings = targets.iter().map(|target| CountedState::of(target, wanted(resource)));
    let all: Vec<_> = standings.filter(|standing| *standing != CountedState::Leaving).collect();
    let ready_ones = all.iter().filter(|standing| **standing == CountedState::Ready).count();
    text.push_str(&format!(", {ready_ones}/{} targets", all.len()));
    if let Some(revision) = &status.revision {
        text.push_str(&format!(", revision {revision}"));
    }
    if status.observed_generation != resource.metadata.generation {
        text.push_str(", and changed since");
    }
    if find(&status.conditions, STALLED).is_some_and(|stalled| stalled.status == "True") {
        text.push_str(", stalled");
    }
    // One that is Ready says which targets it does without.
    if !ready.message.is_empty() {
        text.push_str(&format!(": {}", without_commands(&ready.message, &ready.reason, MESSAGE_MAX).0));
    }
    crate::text::clean(&text)
}

fn line(who: &str, target: &VidraTarget, wanted: Option<&str>, now: Timestamp) -> String {
    let status = target.status.clone().unwrap_or_default();
    let mut text = who.to_owned();
    let Some(state) = status.state else { return format!("{text}: the hub has not looked at it yet") };
    text.push_str(&format!(": {state:?}"));
    let reason = status.reason.clone().unwrap_or_default();
    if reason != format!("{state:?}") && !reason.is_empty() {
        text.push_str(&format!(" ({reason})"));
    }
    text.push_str(&format!(" for {}", age_or_dash(status.since.as_ref(), now)));
    // Of what is to go nobody waits until it is healthy.
    let objects = match target.spec.desired {
        DesiredState::Present => format!("{}/{}", status.ready, count(status.objects, "object")),
        _ => count(status.objects, "object"),
    };
    text.push_str(&format!(", {objects}{}", of_these(&status)));
    match status.drift {
        Some(DriftState::Drifted) => text.push_str(&format!(", {} drifted", status.drifted)),
        Some(DriftState::InSync) => {}
        Some(DriftState::Unknown) | None => text.push_str(", drift unknown"),
    }
    match target.spec.desired {
        DesiredState::Present => {}
        DesiredState::Absent => text.push_str(", to be removed"),
        DesiredState::Orphaned => text.push_str(", to be released"),
        DesiredState::Forgotten => text.push_str(", forgotten"),
    }
    if rank(target, wanted) != WELL
        && let Some(message) = &status.message
    {
        text.push_str(&format!(": {}", without_commands(message, &reason, MESSAGE_MAX).0));
    }
    crate::text::clean(&text)
}

/// How many of the objects count as healthy though they rest, or though nothing shows it.
fn of_these(status: &VidraTargetStatus) -> String {
    let unproven = status.unproven.as_ref().map_or(0, |unproven| unproven.objects);
    let counts = [(status.suspended, "suspended"), (unproven, "unproven")];
    let told: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).collect();
    let told: Vec<_> = told.iter().map(|(count, word)| format!("{count} {word}")).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

/// What hangs below a target that is not well.
fn details(target: &VidraTarget, wanted: Option<&str>, now: Timestamp) -> Vec<String> {
    let status = target.status.clone().unwrap_or_default();
    let mut lines = Vec::new();
    let wanted = wanted.unwrap_or(&target.spec.revision);
    if status.revision.as_deref() != Some(wanted) && target.spec.desired == DesiredState::Present {
        let has = status.revision.as_deref().unwrap_or("none");
        lines.push(format!("is to have revision {wanted}, has {has}"));
    }
    if status.observed_generation != target.metadata.generation {
        lines.push("the hub has not said yet how it is with its latest spec".to_owned());
    }
    if let Some(progress) = &status.progress {
        let since = age_or_dash(progress.since.as_ref(), now);
        lines.push(format!(
            "waits for what was applied up to wave {} to get healthy, for {since}",
            progress.wave
        ));
    }
    lines.extend(status.unready.iter().map(unready));
    lines.extend(more(status.unready_total, status.unready.len()));
    let open: Vec<_> = status.changes.iter().filter(|change| change.corrected.is_none()).collect();
    for change in &open {
        let mut line = change::what(change, false);
        match change::by(change).as_str() {
            "" => {}
            by => line.push_str(&format!(", by {by}")),
        }
        line.push_str(&format!(", {}", age(&change.detected_at, now)));
        lines.push(line);
    }
    lines.extend(more(status.changes_total, status.changes.len()));
    lines.iter().map(|line| crate::text::clean(line)).collect()
}

/// `Deployment.apps shop/web is InProgress: The condition Available is not True`.
fn unready(one: &UnreadyObject) -> String {
    let object = brief(&change::named(&one.group, &one.kind, &one.namespace, &one.name), 400);
    match (one.health, &one.note) {
        (ObjectHealth::NotFound, None) => format!("{object} is not there yet"),
        (ObjectHealth::NotFound, Some(note)) => {
            format!("{object} is not there: {}", brief(note, MESSAGE_MAX))
        }
        (health, None) => format!("{object} is {health:?}"),
        (health, Some(note)) => format!("{object} is {health:?}: {}", brief(note, MESSAGE_MAX)),
    }
}

/// How many entries a list has no room for.
fn more(all: Option<i64>, listed: usize) -> Option<String> {
    let all = all.and_then(|all| usize::try_from(all).ok()).unwrap_or_default();
    (all > listed).then(|| format!("and {} more", all - listed))
}

const WELL: u8 = 9;

/// The worst first.
fn rank(target: &VidraTarget, wanted: Option<&str>) -> u8 {
    let status = target.status.as_ref();
    match status.and_then(|status| status.state) {
        Some(TargetState::Failed) => 0,
        Some(TargetState::Unknown) => 1,
        Some(TargetState::Waiting) => 2,
        None => 3,
        Some(TargetState::Progressing) => 4,
        Some(TargetState::Terminating) => 5,
        Some(TargetState::Suspended) => 6,
        Some(TargetState::Ready) => {
            let open =
                status.is_some_and(|status| status.changes.iter().any(|change| change.corrected.is_none()));
            let in_sync = status.and_then(|status| status.drift) == Some(DriftState::InSync);
            let ready = CountedState::of(target, wanted) == CountedState::Ready;
            let goes = status.is_some_and(|status| status.removing.is_some());
            // Its health gates nothing (vidra.dev/wait-for: Nothing), and is told all the same.
            let all_well = status.is_some_and(|status| status.unready.is_empty());
            if in_sync && !open && ready && !goes && all_well { WELL } else { 7 }
        }
    }
}
