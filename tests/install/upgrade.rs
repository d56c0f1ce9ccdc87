//! A rolling upgrade of the hub's two processes while somebody goes on changing what is declared.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use serde_json::Value;
use testkit::world::Access;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_api::{VidraResource, VidraTarget};

use crate::machine::{Hub, Machine, config_maps, until};

const MEMBERS: [&str; 2] = ["berlin", "tokyo"];
/// Where the objects are, in each member.
const NAMESPACE: &str = "rolling";
/// Objects that stay as they are: so many that those dropped beside them are no removal that waits for a person.
const STILL: usize = 40;
const PACE: Duration = Duration::from_millis(150);
/// With each so many changes one object is dropped for good, and another one is new.
const TERM: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_are_replaced_under_a_stream_of_changes_and_the_last_one_stands() {
    let machine = Machine::with_members(&MEMBERS.join(","));
    machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    let first = machine.run_hub();
    for member in MEMBERS {
        machine.register_member(member, "clusters/member-full.yaml");
    }
    machine.kubectl("hub", "create namespace team-a", "").unwrap();
    let hub = Access::new(machine.cluster("hub").client("admin").await.unwrap(), "somebody");
    hub.apply(&resource(0), true).await.unwrap();
    machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/rolling", "").unwrap();
    let second = machine.run_hub();
    let seen = Arc::<Mutex<Seen>>::default();
    let _watches = watch(&machine, &seen).await;

    let stop = CancellationToken::new();
    let changes = TaskTracker::new().spawn(change(hub, stop.clone()));
    goes_on(&machine, "the first one delivers");
    ends_and_is_followed(first, &second);
    goes_on(&machine, "the second one delivers");
    let third = machine.run_hub();
    goes_on(&machine, "the second one delivers beside the third");
    ends_and_is_followed(second, &third);
    goes_on(&machine, "the third one delivers");
    stop.cancel();
    let last = changes.await.unwrap();

    for member in MEMBERS {
        until(&format!("{member} has what was declared last, and nothing else"), || {
            let found: BTreeMap<_, _> =
                live(&machine, member).into_iter().map(|(name, (value, _))| (name, value)).collect();
            if found == declared(last) { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }
    machine.kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/rolling", "").unwrap();
    seen_to_the_end(&machine, &seen.lock());
}

/// What nobody may have seen in all this time: a status that goes back, an object made again, a correction.
fn seen_to_the_end(machine: &Machine, seen: &Seen) {
    assert!(seen.went_back.is_empty(), "{:#?}", seen.went_back);
    let statuses: Vec<_> = seen.observed.keys().map(String::as_str).collect();
    assert_eq!(
        statuses,
        ["VidraResource rolling", "VidraTarget rolling.berlin", "VidraTarget rolling.tokyo"]
    );
    let made_again: Vec<_> = seen.uids.iter().filter(|(_, uids)| uids.len() > 1).collect();
    assert!(made_again.is_empty(), "{made_again:#?}");
    for member in MEMBERS {
        for (name, (_, uid)) in live(machine, member) {
            assert_eq!(seen.uids[&format!("{member} {name}")], BTreeSet::from([uid]), "{member} {name}");
        }
        let brief = seen.uids.keys().filter(|key| key.starts_with(&format!("{member} brief-"))).count();
        assert!(brief > 4, "objects came and went in {member}: {:?}", seen.uids.keys());
        let target = format!("vidratarget/rolling.{member} -n team-a");
        assert_eq!(machine.field("hub", &target, "{.status.corrections}"), "", "nobody tampers in {member}");
    }
}

/// What the change of this number declares: values by name.
fn declared(number: usize) -> BTreeMap<String, String> {
    let still = (0..STILL).map(|still| (format!("still-{still:02}"), "the same".to_owned()));
    let counter = ("counter".to_owned(), number.to_string());
    let brief = (format!("brief-{}", number / TERM), "the same".to_owned());
    still.chain([counter, brief]).collect()
}

fn resource(number: usize) -> Value {
    config_maps("rolling", NAMESPACE, declared(number))
}

/// Changes what is declared again and again; the number of the last change.
async fn change(hub: Access, stop: CancellationToken) -> usize {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = 0;
    while stop.run_until_cancelled(pace.tick()).await.is_some() {
        hub.apply(&resource(last + 1), true).await.expect("the VidraResource is taken");
        last += 1;
    }
    last
}

/// Waits until a member has had some changes more, and objects that came and went.
fn goes_on(machine: &Machine, what: &str) {
    let delivered = || {
        let value = machine.field("berlin", &format!("configmap/counter -n {NAMESPACE}"), "{.data.value}");
        value.parse::<usize>().unwrap()
    };
    let enough = delivered() + 2 * TERM;
    until(what, || match delivered() {
        number if number >= enough => Ok(()),
        number => Err(format!("{number} of {enough}")),
    });
}

/// Ends the one that works, in good order, and waits until the other one does.
fn ends_and_is_followed(former: Hub, next: &Hub) {
    assert!(former.leads() && !next.leads(), "{}{}", former.metrics(), next.metrics());
    drop(former);
    until("the next one works", || if next.leads() { Ok(()) } else { Err(next.metrics()) });
}

/// The hub's objects in a member: value and uid by name.
fn live(machine: &Machine, member: &str) -> BTreeMap<String, (String, String)> {
    let all =
        machine.kubectl(member, &format!("get cm -n {NAMESPACE} -l vidra.dev/hub -o json"), "").unwrap();
    let all: Value = serde_json::from_str(&all).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |item: &Value| {
        let metadata = &item["metadata"];
        (text(&metadata["name"]), (text(&item["data"]["value"]), text(&metadata["uid"])))
    };
    all["items"].as_array().unwrap().iter().map(one).collect()
}

/// What watches have told.
#[derive(Default)]
struct Seen {
    /// The newest observedGeneration, by kind and name.
    observed: BTreeMap<String, i64>,
    /// Statuses that told of an older one than they had.
    went_back: Vec<String>,
    /// By member and name.
    uids: BTreeMap<String, BTreeSet<String>>,
}

impl Seen {
    fn status(&mut self, kind: &str, object: &DynamicObject) {
        let Some(now) = object.data["status"]["observedGeneration"].as_i64() else { return };
        let name = format!("{kind} {}", object.name_any());
        let before = self.observed.insert(name.clone(), now);
        if before.is_some_and(|before| before > now) {
            self.went_back.push(format!("{name}: {before:?}, then {now}"));
        }
    }

    fn object(&mut self, member: &str, object: &DynamicObject) {
        let uid = object.uid().unwrap_or_default();
        self.uids.entry(format!("{member} {}", object.name_any())).or_default().insert(uid);
    }
}

/// Watches all statuses on the hub, and all objects in the members, until what it returns is dropped.
async fn watch(machine: &Machine, seen: &Arc<Mutex<Seen>>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    for kind in [ApiResource::erase::<VidraResource>(&()), ApiResource::erase::<VidraTarget>(&())] {
        let (client, seen) = (machine.cluster("hub").client("admin").await.unwrap(), seen.clone());
        let word = kind.kind.clone();
        watches.spawn(follow(client, "team-a", kind, move |object| seen.lock().status(&word, object)));
    }
    for member in MEMBERS {
        let (client, seen) = (machine.cluster(member).client("admin").await.unwrap(), seen.clone());
        let kind = ApiResource::erase::<ConfigMap>(&());
        watches.spawn(follow(client, NAMESPACE, kind, move |object| seen.lock().object(member, object)));
    }
    watches
}

async fn follow(client: Client, namespace: &str, kind: ApiResource, see: impl Fn(&DynamicObject)) {
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &kind);
    let mut told = pin!(watcher(api, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(object) = told.next().await {
        if let Ok(object) = object {
            see(&object);
        }
    }
}
