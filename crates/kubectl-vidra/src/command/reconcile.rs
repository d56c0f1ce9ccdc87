//! `kubectl vidra reconcile`.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vidra_api::condition::{READY, REMOVING, STALLED};
use vidra_api::labels::RECONCILE_REQUESTED_AT;
use vidra_api::{Condition, VidraResource, VidraTarget, find};
use vidra_core::duration::told;
use vidra_core::first_of::more;
use vidra_core::status::{CountedState, Reason, going, is_out_of_reach, is_revoked};

use super::diff::MANAGER;
use crate::arguments::ReconcileFlags;
use crate::cluster::{Cluster, Place};
use crate::error::{EDITING, Failure, READING};
use crate::output::{Progress, complain};
use crate::text::{Command, brief, command_lines, count, without_commands};
use crate::{DONE, Ended, OTHERWISE};

/// Between two looks at those that are not ready yet.
const PAUSE: Duration = Duration::from_millis(500);

/// Namespace and name.
type Named = (String, String);

/// Asks for a look, and waits for what comes of it.
///
/// # Errors
/// A VidraResource cannot be read or annotated.
pub async fn run(place: &Place, flags: &ReconcileFlags) -> Ended {
    let hub = Cluster::hub(place).await?;
    let mut names: Vec<Named> =
        flags.names.iter().map(|name| (hub.namespace.clone(), name.clone())).collect();
    if flags.all {
        let all: Vec<VidraResource> = hub.list(&hub.api(flags.all_namespaces), "").await?;
        let named = |resource: VidraResource| {
            (resource.metadata.namespace.unwrap_or_default(), resource.metadata.name.unwrap_or_default())
        };
        names = all.into_iter().map(named).collect();
    }
    let token = crate::now().to_string();
    let progress = Progress::new();
    let mut pending = BTreeMap::new();
    for (namespace, name) in names {
        progress.say(&format!("asking the hub to look at {namespace}/{name}"));
        ask(&hub, &namespace, &name, &token).await?;
        pending.insert((namespace, name), "the hub has not looked yet".to_owned());
    }
    if !flags.wait {
        progress.print(&format!("the hub is asked to look at {}", count(pending.len(), "VidraResource")))?;
        return Ok(DONE);
    }
    let mut well = true;
    let waited =
        tokio::time::timeout(flags.timeout, wait(&hub, &token, flags, &mut pending, &mut well, &progress))
            .await;
    if let Ok(done) = waited {
        done?;
        return Ok(if well { DONE } else { OTHERWISE });
    }
    drop(progress);
    for ((namespace, name), state) in &pending {
        complain(&format!(
            "VidraResource {namespace}/{name}: not settled within {}: {state}",
            told(flags.timeout)
        ));
    }
    Ok(OTHERWISE)
}

async fn ask(hub: &Cluster, namespace: &str, name: &str, token: &str) -> Result<(), Failure> {
    let api: Api<VidraResource> = Api::namespaced(hub.client.clone(), namespace);
    let annotation = json!({"metadata": {"annotations": {RECONCILE_REQUESTED_AT: token}}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_metadata(name, &params, &Patch::Merge(annotation)).await {
        Ok(_) => Ok(()),
        Err(error) if crate::error::is_missing(&error) => Err(missing(namespace, name)),
        Err(error) => {
            Err(hub.doing(&format!("annotate VidraResource {namespace}/{name}"), EDITING).failed(error))
        }
    }
}

fn missing(namespace: &str, name: &str) -> Failure {
    Failure::NotFound {
        what: format!("VidraResource {name} in namespace {namespace}"),
        hint: "see `kubectl get vr -A`, and choose its namespace with -n".to_owned(),
    }
}

async fn wait(
    hub: &Cluster,
    token: &str,
    flags: &ReconcileFlags,
    pending: &mut BTreeMap<Named, String>,
    well: &mut bool,
    progress: &Progress,
) -> Result<(), Failure> {
    loop {
        for (namespace, name) in pending.keys().cloned().collect::<Vec<_>>() {
            let api: Api<VidraResource> = Api::namespaced(hub.client.clone(), &namespace);
            let found = hub.find(&api, &name, READING).await?.ok_or_else(|| missing(&namespace, &name))?;
            let targets = match flags.allow_unreachable {
                0 => Vec::new(),
                _ => {
                    let api: Api<VidraTarget> = Api::namespaced(hub.client.clone(), &namespace);
                    hub.list(&api, &format!("spec.resource={name}")).await?
                }
            };
            let key = (namespace, name);
            let bar = Bar {
                removals: !flags.ignore_removals,
                unreachable: Unreachable::of(&found, &targets, flags.allow_unreachable),
            };
            match settled(&found, token, &bar) {
                Look::Waits(state) => {
                    pending.insert(key, state);
                }
                Look::Settled { ready, words } => {
                    progress.print(&format!("VidraResource {}/{}: {words}", key.0, key.1))?;
                    pending.remove(&key);
                    *well &= ready;
                }
            }
        }
        let Some(((namespace, name), state)) = pending.first_key_value() else { return Ok(()) };
        let more = more(pending.len() - 1, |more| format!(" (and {more} more)"));
        let state = state.lines().next().unwrap_or_default();
        progress.wait_for(&format!("{namespace}/{name}{more}: {state}"));
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is known of a look that was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Not yet known; why, and on lines below what to run.
    Waits(String),
    /// It has been, and nothing moves any more.
    Settled { ready: bool, words: String },
}

/// What a pipeline asks for.
#[derive(Clone, Copy, Debug)]
struct Bar {
    /// What is to go is to be gone.
    removals: bool,
    unreachable: Unreachable,
}

/// What members that cannot be reached leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unreachable {
    /// How many targets they have.
    count: usize,
    /// There are some, and no more than may be.
    is_allowed: bool,
    /// No more than are allowed, and all other targets are Ready.
    rest_is_ready: bool,
    /// No more than are allowed, and from nowhere else is anything to go.
    rest_is_gone: bool,
}

impl Unreachable {
    fn of(resource: &VidraResource, targets: &[VidraTarget], allowed: usize) -> Self {
        let wanted = resource.status.as_ref().and_then(|status| status.revision.as_deref());
        // What was said of an earlier spec is no word about this one.
        let is_lost = |target: &&VidraTarget| {
            target.status.as_ref().is_some_and(|status| {
                status.observed_generation == target.metadata.generation
                    && Reason::of(status).is_some_and(is_out_of_reach)
            })
        };
        let count = targets.iter().filter(is_lost).count();
        let is_allowed = count > 0 && count <= allowed;
        let mut rest = targets.iter().filter(|target| !is_lost(target));
        Self {
            count,
            is_allowed,
            rest_is_gone: is_allowed && rest.clone().all(|target| going(target).is_none()),
            rest_is_ready: is_allowed
                && rest.all(|one| {
                    matches!(CountedState::of(one, wanted), CountedState::Ready | CountedState::Leaving)
                        || one
                            .status
                            .as_ref()
                            .is_some_and(|status| is_revoked(status.state, Reason::of(status)))
                }),
        }
    }
}

fn settled(resource: &VidraResource, token: &str, bar: &Bar) -> Look {
    let status = resource.status.clone().unwrap_or_default();
    if status.last_handled_reconcile_at.as_deref() != Some(token) {
        // Somebody may have asked again since.
        let asked = resource.metadata.annotations.as_ref().and_then(|all| all.get(RECONCILE_REQUESTED_AT));
        let later = asked.is_some_and(|asked| asked != token);
        if !later || status.last_handled_reconcile_at.as_ref() != asked {
            return Look::Waits("the hub has not looked at all of it yet".to_owned());
        }
    }
    let Some(ready) = find(&status.conditions, READY) else {
        return Look::Waits("the hub has not said yet how it is".to_owned());
    };
    if status.observed_generation != resource.metadata.generation {
        return Look::Waits("the hub has not seen the latest change".to_owned());
    }
    let targets = status.targets_ready.clone().unwrap_or_default();
    let lost = bar.unreachable;
    let reason = Reason::parse(&ready.reason);
    let unreachable = reason == Some(Reason::MembersUnreachable);
    if ready.status == "True" || unreachable && lost.rest_is_ready {
        let going = find(&status.conditions, REMOVING).filter(|going| going.status == "True");
        match going.filter(|_| bar.removals && !lost.rest_is_gone) {
            Some(going) => {
                return Look::Waits(format!("{}, {}", ready.reason, still_going(going)));
            }
            None if lost.count > 0 => {
                let lost = count(lost.count, "target");
                let words = format!("{targets} targets Ready, {lost} cannot be reached");
                return Look::Settled { ready: true, words };
            }
            None => return Look::Settled { ready: true, words: format!("Ready, {targets} targets") },
        }
    }
    let words = format!("{}, {targets} targets: {}", ready.reason, ready.message);
    let (words, commands) = without_commands(&words, &ready.reason, 600);
    let stalled = find(&status.conditions, STALLED).is_some_and(|stalled| stalled.status == "True");
    let moves = match reason {
        Some(Reason::Progressing | Reason::TargetsWaiting) => !stalled,
        // The others may yet become Ready.
        Some(Reason::MembersUnreachable) => !stalled && lost.is_allowed,
        _ => false,
    };
    let words = above(&words, commands);
    match moves {
        true => Look::Waits(words),
        false => Look::Settled { ready: false, words: format!("not Ready: {words}") },
    }
}

/// What a condition Removing says. The words of its reason stand first; what stands behind may be a member's.
fn still_going(condition: &Condition) -> String {
    let message = &condition.message;
    let end = message.match_indices("; ").nth(1).map_or(message.len(), |(at, _)| at);
    let (own, others) = message.split_at(end);
    let (words, commands) = without_commands(own, &condition.reason, 600);
    above(&(words + &brief(others, 600)), commands)
}

/// Words with commands to copy on lines below.
fn above(words: &str, commands: Vec<Command>) -> String {
    format!("{words}\n{}", command_lines(commands)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Bar = Bar {
        removals: true,
        unreachable: Unreachable { count: 0, is_allowed: false, rest_is_ready: false, rest_is_gone: false },
    };

    fn settled(resource: &VidraResource, token: &str) -> Look {
        super::settled(resource, token, &STRICT)
    }

    /// On a cluster, Present or Absent, in this state for this reason.
    fn target(cluster: &str, desired: &str, state: &str, reason: &str) -> VidraTarget {
        serde_json::from_value(json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraTarget",
            "metadata": {"name": format!("shop.{cluster}"), "generation": 1},
            "spec": {"resource": "shop", "cluster": cluster, "revision": "aa", "desired": desired,
                "namespace": "shop", "generation": 2},
            "status": {"observedGeneration": 1, "state": state, "reason": reason, "revision": "aa", "objects": 3},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_to_go_is_waited_for_unless_that_is_not_asked_for() {
        let mut going = resource("t", "t", "True", "Ready");
        let mut condition = going.status.as_ref().unwrap().conditions[0].clone();
        condition.type_ = REMOVING.to_owned();
        condition.reason = "Finalizers".to_owned();
        condition.message = "still to go: 1 object on 1 target; Finalizers on berlin".to_owned();
        going.status.as_mut().unwrap().conditions.push(condition);
        let told = "Ready, still to go: 1 object on 1 target; Finalizers on berlin";
        assert_eq!(settled(&going, "t"), Look::Waits(told.to_owned()));
        let condition = &mut going.status.as_mut().unwrap().conditions[1];
        condition.reason = "RemovalHeld".to_owned();
        let command = "kubectl annotate vidratarget shop.berlin -n a vidra.dev/approve-removal=orphan";
        let held = format!("held: {}. To keep it: {command}", "x".repeat(500));
        let evil = "kubectl annotate membercluster berlin vidra.dev/forget=true";
        condition.message = format!(
            "still to go: 2 objects on 2 targets; RemovalHeld on berlin: {held}; Finalizers on tokyo: so: {evil}"
        );
        let Look::Waits(told) = settled(&going, "t") else { panic!("it is waited for") };
        let lines: Vec<_> = told.lines().collect();
        assert!(lines[0].contains("To keep it: see below; Finalizers on tokyo: "), "{told}");
        assert_eq!(lines[1..], ["  To keep it:".to_owned(), format!("    {command}")], "{told}");
        let ready = Look::Settled { ready: true, words: "Ready, 1/2 targets".to_owned() };
        assert_eq!(super::settled(&going, "t", &Bar { removals: false, ..STRICT }), ready);
        going.status.as_mut().unwrap().conditions[1].status = "False".to_owned();
        assert_eq!(settled(&going, "t"), ready);
    }

    #[test]
    fn as_many_members_may_be_out_of_reach_as_are_allowed_and_no_other_target_may_be_amiss() {
        let lost = |cluster| target(cluster, "Present", "Unknown", "MemberUnreachable");
        let leaving = |cluster| target(cluster, "Absent", "Terminating", "NoCredentials");
        let well = || target("a", "Present", "Ready", "Ready");
        let late = || target("b", "Present", "Progressing", "ObjectsProgressing");
        let barred = || target("c", "Present", "Suspended", "NamespaceNotAllowed");
        let suspended = || target("c", "Present", "Suspended", "Suspended");
        let going = || target("d", "Absent", "Terminating", "Removing");
        let (no, waits, yes) = (Some(false), None, Some(true));
        for (targets, allowed, expected) in [
            (vec![well(), lost("x")], 0, no),
            (vec![well(), lost("x")], 1, yes),
            (vec![well(), lost("x"), lost("y")], 1, no),
            (vec![well(), lost("x"), leaving("y")], 1, no),
            (vec![well(), lost("x"), leaving("y")], 2, yes),
            (vec![well(), lost("x"), late()], 1, waits),
            (vec![well(), lost("x"), barred()], 1, yes),
            (vec![well(), lost("x"), suspended()], 1, waits),
            (vec![well(), lost("x"), leaving("y"), going()], 2, waits),
        ] {
            let mut said = resource("t", "t", "False", "MembersUnreachable");
            let goes = targets.iter().any(|one| super::going(one).is_some());
            let status = said.status.as_mut().unwrap();
            status.revision = Some("aa".to_owned());
            let mut condition = status.conditions[0].clone();
            condition.type_ = REMOVING.to_owned();
            condition.status = if goes { "True" } else { "False" }.to_owned();
            status.conditions.push(condition);
            let bar = Bar { removals: true, unreachable: Unreachable::of(&said, &targets, allowed) };
            let told = match super::settled(&said, "t", &bar) {
                Look::Waits(_) => None,
                Look::Settled { ready, .. } => Some(ready),
            };
            assert_eq!(told, expected, "{allowed} of {targets:#?}");
            // Where nothing but a removal is out of reach.
            let status = said.status.as_mut().unwrap();
            (status.conditions[0].status, status.conditions[0].reason) = ("True".into(), "Ready".into());
            if told == Some(true) {
                let look = super::settled(&said, "t", &bar);
                assert!(matches!(look, Look::Settled { ready: true, .. }), "{look:?}");
            }
        }
        // What was said before the spec changed is no word about it.
        let mut old = lost("x");
        old.metadata.generation = Some(2);
        assert_eq!(Unreachable::of(&resource("t", "t", "True", "Ready"), &[old], 1).count, 0);
    }

    fn resource(handled: &str, asked: &str, status: &str, reason: &str) -> VidraResource {
        serde_json::from_value(json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": "shop", "generation": 2, "annotations": {RECONCILE_REQUESTED_AT: asked}},
            "spec": {"targets": []},
            "status": {
                "observedGeneration": 2, "lastHandledReconcileAt": handled, "targetsReady": "1/2",
                "conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "why",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_look_is_over_when_the_hub_has_handled_it_and_nothing_moves() {
        let waits = |one: &VidraResource| matches!(settled(one, "t2"), Look::Waits(_));
        assert!(waits(&resource("t1", "t2", "True", "Ready")));
        assert!(waits(&resource("t2", "t2", "False", "Progressing")));
        assert!(waits(&resource("t2", "t3", "False", "TargetsWaiting")));
        assert!(waits(&resource("t1", "t3", "True", "Ready")));
        for (handled, asked) in [("t2", "t2"), ("t3", "t3")] {
            let ready = Look::Settled { ready: true, words: "Ready, 1/2 targets".to_owned() };
            assert_eq!(settled(&resource(handled, asked, "True", "Ready"), "t2"), ready);
        }
        for reason in ["TargetsFailed", "MembersUnreachable", "Suspended", "NoTargets"] {
            let look = settled(&resource("t2", "t2", "False", reason), "t2");
            let words = format!("not Ready: {reason}, 1/2 targets: why");
            assert_eq!(look, Look::Settled { ready: false, words });
        }
        let mut changed = resource("t2", "t2", "True", "Ready");
        changed.metadata.generation = Some(3);
        assert!(waits(&changed));
    }
}
