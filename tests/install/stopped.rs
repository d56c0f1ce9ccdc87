//! A process that stands still, as under a debugger or on a machine that is suspended, until another one has its Lease: when
//! it goes on it begins no call to a member.

use std::env;

use serde_json::{Value, json};
use testkit::{
    testbed::{Point, Request},
    world::{Access, At},
};

use crate::machine::{Machine, config_maps, until};

/// Where the objects are.
const NAMESPACE: &str = "stopped";
const OBJECTS: usize = 20;
/// Threads of the process: each may have had its leave when all stood still, and sends that one call.
const THREADS: usize = 4;
/// As whom the hub calls the member.
const HUB: &str = "system:serviceaccount:vidra-member:vidra-hub";
/// `VIDRA_ROUNDS=10` takes more.
const ROUNDS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stood_still_until_another_had_its_lease_begins_no_call_to_a_member() {
    let machine = Machine::start();
    machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    let mut hub = machine.run_hub();
    machine.register("clusters/member-full.yaml");
    machine.kubectl("hub", "create namespace team-a", "").unwrap();
    let people = Access::new(machine.cluster("hub").client("admin").await.unwrap(), "somebody");
    people.apply(&resource(), true).await.unwrap();
    let alice = Access::new(machine.cluster("berlin").client("admin").await.unwrap(), "alice");

    let rounds = env::var("VIDRA_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    for round in 0..rounds {
        machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/stopped", "").unwrap();
        let berlin = machine.cluster("berlin");
        let begun = berlin.audit_mark().unwrap();
        // Repairs are under way when it stands still, and there is more to repair when it goes on.
        edit_all(&alice, &format!("before {round}")).await;
        hub.signal("STOP");
        until("its Lease counts no more", || is_old(&machine));
        hold_lease(&machine, "another");
        edit_all(&alice, &format!("while {round}")).await;
        // A call of which a part was sent when it stood still arrived before that, and ends now.
        let mark = Point { at: begun.at, ..berlin.audit_mark().unwrap() };
        hub.signal("CONT");
        assert!(!hub.ended().success(), "without its Lease it ends with an error");

        let value = |live: &Value| live["data"]["value"] == format!("while {round}");
        let mut edited = 0;
        for number in 0..OBJECTS {
            edited += usize::from(value(&alice.live(&at(number)).await));
        }
        // A call is recorded when it has ended, which may be after its object was read.
        let mut calls = Vec::new();
        until("each object that was not edited has its call in the record", || {
            calls = berlin.requests_since(mark).unwrap().into_iter().filter(is_work).collect();
            match edited + calls.len() >= OBJECTS {
                true => Ok(()),
                false => Err(format!("{edited} of {OBJECTS}, {calls:#?}")),
            }
        });
        assert!(calls.len() <= THREADS, "{calls:#?}");
        let unguarded: Vec<_> = calls.iter().filter(|call| !is_guarded(call)).collect();
        assert!(unguarded.is_empty(), "{unguarded:#?}");

        hold_lease(&machine, "");
        hub = machine.run_hub();
    }
}

fn at(number: usize) -> At {
    At::config_map(NAMESPACE, &format!("kept-{number:02}"))
}

fn resource() -> Value {
    let objects = (0..OBJECTS).map(|number| (format!("kept-{number:02}"), "declared".to_owned()));
    config_maps("stopped", NAMESPACE, objects)
}

async fn edit_all(alice: &Access, value: &str) {
    for number in 0..OBJECTS {
        alice.merge(&at(number), json!({"data": {"value": value}})).await;
    }
}

#[allow(clippy::disallowed_methods, reason = "a Lease is of real time")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Ten seconds after its renewal a Lease is no leave any more; its holder takes a renewal for as old as its request is.
fn is_old(machine: &Machine) -> Result<(), String> {
    let renewed = machine.field("hub", "lease/vidra-hub -n vidra-system", "{.spec.renewTime}");
    let renewed: jiff::Timestamp = renewed.parse().map_err(|error| format!("{renewed:?}: {error}"))?;
    let age = now().duration_since(renewed);
    if age.as_secs() >= 10 { Ok(()) } else { Err(format!("renewed {age:#} ago")) }
}

/// Gives the Lease to somebody else, or with an empty name back.
fn hold_lease(machine: &Machine, holder: &str) {
    let now = now();
    let spec = json!({"spec": {"holderIdentity": holder, "renewTime": format!("{now:.6}")}});
    let patch = format!("patch lease/vidra-hub -n vidra-system --type merge -p {spec}");
    machine.kubectl("hub", &patch, "").unwrap();
}

/// A call of the hub about objects that is no watch.
fn is_work(request: &Request) -> bool {
    request.user == HUB && request.verb != "watch" && request.is_about_objects()
}

/// A read; or a write that names the object's uid in its body or creates what is not there, which the record does not show: an
/// apply, never a deletion.
fn is_guarded(request: &Request) -> bool {
    matches!(request.verb.as_str(), "get" | "list" | "patch")
}
