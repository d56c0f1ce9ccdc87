//! Many members and many objects: delivered, changed, tampered with, and what it took.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    DemoError,
    fleet::{Fleet, apply, patch},
    shop::{is_ready, members, until_within},
    teller::Teller,
};

const TEAM: &str = "team-a";
const NAMESPACE: &str = "bulk";
/// ConfigMaps in one VidraResource.
const CHUNK: u32 = 250;
/// Nothing that a small machine does in a demo takes longer.
const WITHIN: Duration = Duration::from_secs(1800);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many members are tampered with.
const TAMPERED: usize = 10;

/// Shows it.
pub async fn show(fleet: &Fleet, teller: &Teller, objects: u32) -> Result<(), DemoError> {
    let members = fleet.members.len();
    joined(fleet, teller).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}});
    apply(&fleet.hub, "admin", namespace).await?;
    let resources = objects.div_ceil(CHUNK);
    let total = u64::from(objects) * members as u64;
    teller.tell(
        "you",
        &format!("kubectl apply: {resources} VidraResources, {objects} ConfigMaps, for every member"),
    );
    let began = Instant::now();
    for number in 0..resources {
        apply(&fleet.hub, "admin", resource(number, objects, "one")).await?;
    }
    teller.start_bar("objects delivered", total);
    let delivered =
        || fleet.members.iter().map(|member| member.count("", "configmaps", NAMESPACE) as u64).sum();
    wait(teller, "all objects are delivered", total, delivered).await?;
    until_within("all VidraResources are ready", WITHIN, || ready(fleet) == resources as usize).await?;
    let seconds = began.elapsed().as_secs_f64();
    teller.tell("demo", &format!("{total} objects are there and ready after {seconds:.1} s"));
    changed(fleet, teller, objects).await?;
    tampered(fleet, teller).await?;
    if let Some(bytes) = resident() {
        let mib = bytes / (1 << 20);
        teller.tell("demo", &format!("hub and {members} members hold {mib} MiB together, {total} objects"));
    }
    Ok(())
}

async fn joined(fleet: &Fleet, teller: &Teller) -> Result<(), DemoError> {
    let all = fleet.members.len() as u64;
    teller.start_bar("members ready", all);
    let ready = || members(fleet).iter().filter(|member| is_ready(member)).count() as u64;
    wait(teller, "all members are ready", all, ready).await?;
    teller.tell("hub", &format!("{all} members are ready"));
    Ok(())
}

/// One object changes on all members.
async fn changed(fleet: &Fleet, teller: &Teller, objects: u32) -> Result<(), DemoError> {
    teller.tell("you", "kubectl apply: one of them says something else");
    let began = Instant::now();
    apply(&fleet.hub, "admin", resource(0, objects, "two")).await?;
    let changed = || fleet.members.iter().filter(|member| says(member, 0) == "two").count() as u64;
    let all = fleet.members.len() as u64;
    wait(teller, "the change is on all members", all, changed).await?;
    let took = began.elapsed().as_millis();
    teller.tell("demo", &format!("the change is on all {all} members after {took} ms"));
    Ok(())
}

/// Somebody edits the object that was changed, on some members.
async fn tampered(fleet: &Fleet, teller: &Teller) -> Result<(), DemoError> {
    let some: Vec<_> = fleet.members.iter().take(TAMPERED).collect();
    teller.tell("alice", &format!("edits an object on {} members", some.len()));
    let began = Instant::now();
    for member in &some {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(0), "namespace": NAMESPACE}});
        patch(member, "alice", object, json!({"data": {"word": "mine"}})).await?;
    }
    let undone = || some.iter().all(|member| says(member, 0) == "two");
    until_within("the edits are undone", WITHIN, undone).await?;
    teller.tell("demo", &format!("they are undone {} ms after the first edit", began.elapsed().as_millis()));
    Ok(())
}

async fn wait(teller: &Teller, what: &str, most: u64, count: impl Fn() -> u64) -> Result<(), DemoError> {
    let began = Instant::now();
    loop {
        let now = count();
        teller.advance(now);
        if now >= most {
            teller.end_bar();
            return Ok(());
        }
        if began.elapsed() > WITHIN {
            teller.end_bar();
            return Err(DemoError::Late { what: format!("{what} ({now} of {most})"), within: WITHIN });
        }
        sleep(LOOK_EVERY).await;
    }
}

fn ready(fleet: &Fleet) -> usize {
    fleet.hub.objects(vidra_api::GROUP, "vidraresources").iter().filter(|one| is_ready(one)).count()
}

fn says(member: &memkube::Cluster, number: u32) -> Value {
    let object = member.object("", "configmaps", NAMESPACE, &name(number));
    object.unwrap_or_default()["data"]["word"].take()
}

fn name(number: u32) -> String {
    format!("object-{number:05}")
}

/// The VidraResource with this number; the first of its objects says `word`.
fn resource(number: u32, objects: u32, word: &str) -> Value {
    let first = number * CHUNK;
    let manifest = (first..objects.min(first + CHUNK)).map(|object| {
        let word = if object == first { word } else { "one" };
        let name = name(object);
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{word: {word}}}\n---\n")
    });
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": format!("bulk-{number}"), "namespace": TEAM},
        "spec": {
            "manifest": manifest.collect::<String>(),
            "targets": [{"clusterSelector": {}, "namespace": NAMESPACE}],
        },
    })
}

/// Bytes of memory that this process holds, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
