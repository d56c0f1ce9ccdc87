//! `kubectl vidra reconcile`.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vidra_api::condition::{READY, STALLED};
use vidra_api::labels::RECONCILE_REQUESTED_AT;
use vidra_api::{VidraResource, find};

use super::diff::MANAGER;
use crate::arguments::ReconcileFlags;
use crate::cluster::{Cluster, Place};
use crate::error::{EDITING, Failure, READING};
use crate::output::{Progress, complain};
use crate::text::{brief, count};
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
        tokio::time::timeout(flags.timeout, wait(&hub, &token, &mut pending, &mut well, &progress)).await;
    if let Ok(done) = waited {
        done?;
        return Ok(if well { DONE } else { OTHERWISE });
    }
    drop(progress);
    for ((namespace, name), state) in &pending {
        complain(&format!(
            "VidraResource {namespace}/{name}: not settled within {:?}: {state}",
            flags.timeout
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
    pending: &mut BTreeMap<Named, String>,
    well: &mut bool,
    progress: &Progress,
) -> Result<(), Failure> {
    loop {
        for (namespace, name) in pending.keys().cloned().collect::<Vec<_>>() {
            let api: Api<VidraResource> = Api::namespaced(hub.client.clone(), &namespace);
            let found = hub.find(&api, &name, READING).await?.ok_or_else(|| missing(&namespace, &name))?;
            let key = (namespace, name);
            match settled(&found, token) {
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
        let more =
            if pending.len() > 1 { format!(" (and {} more)", pending.len() - 1) } else { String::new() };
        progress.wait_for(&format!("{namespace}/{name}{more}: {state}"));
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is known of a look that was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Not yet known; why.
    Waits(String),
    /// It has been, and nothing moves any more.
    Settled { ready: bool, words: String },
}

fn settled(resource: &VidraResource, token: &str) -> Look {
    let status = resource.status.clone().unwrap_or_default();
    if status.last_handled_reconcile_at.as_deref() != Some(token) {
        // Somebody may have asked again since.
        let asked = resource.metadata.annotations.as_ref().and_then(|all| all.get(RECONCILE_REQUESTED_AT));
        let later = asked.is_some_and(|asked| asked != token);
        if !later || status.last_handled_reconcile_at.as_ref() != asked {
            return Look::Waits("the hub has not looked yet".to_owned());
        }
    }
    let Some(ready) = find(&status.conditions, READY) else {
        return Look::Waits("the hub has not said yet how it is".to_owned());
    };
    if status.observed_generation != resource.metadata.generation {
        return Look::Waits("the hub has not seen the latest change".to_owned());
    }
    let targets = status.targets_ready.clone().unwrap_or_default();
    if ready.status == "True" {
        return Look::Settled { ready: true, words: format!("Ready, {targets} targets") };
    }
    let words = brief(&format!("{}, {targets} targets: {}", ready.reason, ready.message), 600);
    let stalled = find(&status.conditions, STALLED).is_some_and(|stalled| stalled.status == "True");
    let moves = matches!(ready.reason.as_str(), "Progressing" | "TargetsWaiting") && !stalled;
    if moves {
        Look::Waits(words)
    } else {
        Look::Settled { ready: false, words: format!("not Ready: {words}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
