//! Somebody runs the members' workloads: Deployments, StatefulSets and Jobs get the statuses that their controllers would
//! write, well or not.

use serde_json::{Value, json};
use testkit::sim::{World, doc::holds};

use super::{Walk, rig::run_well, wishes::path_of};

/// What becomes of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does its work; a Job begins, and the next time it is complete.
    Well,
    /// It is seen, and gets no further.
    Stuck,
    /// It is given up, where there is a way to say so; else it gets stuck in another way.
    Failed,
}

/// Group, plural and kind of what runs.
const WORKLOADS: [(&str, &str, &str); 3] = [
    ("apps", "deployments", "Deployment"),
    ("apps", "statefulsets", "StatefulSet"),
    ("batch", "jobs", "Job"),
];

impl Walk {
    /// Somebody runs half of the members' workloads, well or not; or all of them, and surely well.
    pub(super) async fn roll_out(&mut self, surely: bool) {
        if surely {
            self.take_failed_jobs_away().await;
            run_well(&self.world).await;
        }
        let chance = &mut self.chance;
        let draw = || match surely || chance.bool() {
            true if surely => Some(Fate::Well),
            true => Some([Fate::Failed, Fate::Stuck, Fate::Well][chance.usize(..6).min(2)]),
            false => None,
        };
        run_workloads(&self.world, draw).await;
    }

    /// Nothing else makes a Job well that has failed: the hub makes it again where it is declared.
    async fn take_failed_jobs_away(&self) {
        for &member in self.world.members() {
            for job in self.world.cluster(member).objects("batch", "jobs") {
                if is(&job, "Failed") {
                    self.world.try_delete(member, &path_to(member, ("batch", "Job"), &job)).await;
                }
            }
        }
    }
}

/// Gives each workload of the members a status, by what becomes of it; where nothing is said it stays as it was. Who runs
/// a Job well lets it go on first.
pub(super) async fn run_workloads(world: &World, mut draw: impl FnMut() -> Option<Fate>) {
    for &member in world.members() {
        for (group, plural, kind) in WORKLOADS {
            for live in world.cluster(member).objects(group, plural) {
                let Some(fate) = draw() else { continue };
                let path = path_to(member, (group, kind), &live);
                if fate == Fate::Well && live["spec"]["suspend"] == true {
                    world.try_patch(member, &path, json!({"spec": {"suspend": false}})).await;
                }
                let status = match kind {
                    "Deployment" => Some(deployment(&live, fate)),
                    "StatefulSet" => Some(stateful_set(&live, fate)),
                    _ => job(&live, fate),
                };
                if let Some(status) = status.filter(|status| !holds(status, &live["status"])) {
                    let to = format!("{path}/status");
                    world.try_patch(member, &to, json!({"status": status})).await;
                }
            }
        }
    }
}

fn deployment(live: &Value, fate: Fate) -> Value {
    let replicas = live["spec"]["replicas"].as_i64().unwrap_or(1);
    let available = if fate == Fate::Well { replicas } else { 0 };
    let (progressing, reason) = match fate {
        Fate::Well => ("True", "NewReplicaSetAvailable"),
        Fate::Stuck => ("True", "ReplicaSetUpdated"),
        Fate::Failed => ("False", "ProgressDeadlineExceeded"),
    };
    json!({
        "observedGeneration": live["metadata"]["generation"], "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": available, "availableReplicas": available,
        "conditions": [
            condition("Available", if fate == Fate::Well { "True" } else { "False" }, "Told"),
            condition("Progressing", progressing, reason),
        ],
    })
}

/// One that is given up has all its old pods, and no new one.
fn stateful_set(live: &Value, fate: Fate) -> Value {
    let replicas = live["spec"]["replicas"].as_i64().unwrap_or(1);
    let (ready, updated) = match fate {
        Fate::Well => (replicas, replicas),
        Fate::Stuck => (0, replicas),
        Fate::Failed => (replicas, 0),
    };
    let update = json!(live["spec"]["template"]["spec"]["containers"][0]["image"].to_string());
    let current = if fate == Fate::Well { update.clone() } else { live["status"]["currentRevision"].clone() };
    json!({
        "observedGeneration": live["metadata"]["generation"], "replicas": replicas, "readyReplicas": ready,
        "availableReplicas": ready, "updatedReplicas": updated, "currentReplicas": replicas,
        "currentRevision": current, "updateRevision": update,
    })
}

/// `None`: its status stays, as that of one that is at its end does.
fn job(live: &Value, fate: Fate) -> Option<Value> {
    if is(live, "Complete") || is(live, "Failed") {
        return None;
    }
    let told = |kind: &str| condition(kind, "True", "Told");
    // Any time will do.
    let (now, began) = (&live["metadata"]["creationTimestamp"], &live["status"]["startTime"]);
    match fate {
        Fate::Well if began.is_null() => Some(json!({"startTime": now, "active": 1, "conditions": []})),
        Fate::Well => {
            let conditions = [told("Complete")];
            Some(json!({"active": 0, "succeeded": 1, "completionTime": now, "conditions": conditions}))
        }
        _ if live["spec"]["suspend"] == true => {
            Some(json!({"startTime": null, "active": 0, "conditions": [told("Suspended")]}))
        }
        Fate::Stuck => None,
        Fate::Failed => {
            let conditions = [told("FailureTarget"), told("Failed")];
            Some(json!({"startTime": now, "active": 0, "failed": 7, "conditions": conditions}))
        }
    }
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": ""})
}

/// Says its status this?
fn is(live: &Value, condition: &str) -> bool {
    let mut all = live["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == condition && one["status"] == "True")
}

/// Where an object of a group and kind is.
fn path_to(member: &str, (group, kind): (&str, &str), live: &Value) -> String {
    let text = |field: &str| live["metadata"][field].as_str().unwrap_or_default();
    path_of(&[member, group, kind, text("namespace"), text("name")].map(str::to_owned))
}
