//! An earlier build of the hub before this one, beside it and after it on the same hub: an upgrade, the way back, and an
//! upgrade again, each with both processes alive.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use testkit::world::{Access, At};
use tokio::time::Instant;

use crate::machine::{Hub, Machine, config_maps, until};

const MEMBERS: [&str; 2] = ["berlin", "tokyo"];
/// Where the objects are, in each member.
const NAMESPACE: &str = "versions";
const OBJECTS: usize = 60;
/// VidraResources of one object each that is not well: its name, and the type, status and message of the condition that
/// says so.
const UNWELL: [(&str, &str, &str, &str); 2] =
    [("unwell", "Ready", "False", "no disk"), ("turns", "Degraded", "True", "lost a replica")];
/// For so long nothing is to be written.
const QUIET: Duration = Duration::from_secs(40);

/// `VIDRA_EARLIER` names a checkout of the earlier commit, in which `target/release/vidra-hub` is built.
fn earlier() -> PathBuf {
    env::var_os("VIDRA_EARLIER").expect("VIDRA_EARLIER is to name the checkout of an earlier commit").into()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the earlier build that one names"]
async fn an_earlier_build_before_beside_and_after_this_one_deletes_nothing_and_comes_to_rest() {
    let (checkout, machine) = (earlier(), Machine::with_members(&MEMBERS.join(",")));
    let program = checkout.join("target/release/vidra-hub");
    let deploy = checkout.join("deploy/kustomize");
    machine.kubectl("hub", &format!("apply -k {}", deploy.display()), "").unwrap();
    let old = machine.run_build(&program, true);
    for member in MEMBERS {
        machine.register_member(member, "clusters/member-full.yaml");
    }
    machine.kubectl("hub", "create namespace team-a", "").unwrap();
    let fleet = Fleet { people: people(&machine).await, machine: &machine };
    fleet.declare("one").await;
    for member in MEMBERS {
        fleet.edit(member).await;
        fleet.make_kind(member);
    }
    fleet.deliver_unwell().await;
    let before = fleet.at_rest("the earlier build has delivered");

    // Its CRDs, its rights and this build come while the earlier one works.
    machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    let new = machine.run_hub();
    fleet.is_same("this build beside the earlier one", &before, 0);
    old.kill();
    let unwell = fleet.unwell();
    let taken = fleet.takes_over("this build after the earlier one", || works(&new), &before);
    fleet.tells_of_unwell();
    assert_eq!(fleet.unwell(), unwell, "a verdict writes nothing");
    let changed = fleet.changes("two", "this build has delivered", &taken).await;

    back(&machine, &deploy);
    let old = machine.run_build(&program, false);
    fleet.is_same("the earlier build beside this one", &changed, 0);
    drop(new);
    let taken = fleet.takes_over("the earlier build after this one", || old.is_ready(), &changed);
    let changed = fleet.changes("three", "the earlier build has delivered again", &taken).await;

    machine.kubectl("hub", "apply -k deploy/kustomize", "").unwrap();
    let new = machine.run_hub();
    fleet.is_same("this build beside the earlier one again", &changed, 0);
    drop(old);
    let taken = fleet.takes_over("this build after the earlier one again", || works(&new), &changed);
    fleet.changes("four", "this build has delivered again", &taken).await;
    machine.kubectl("hub", "delete vr -A --all --timeout=120s", "").unwrap();
    for member in MEMBERS {
        assert_eq!(fleet.live(member), BTreeMap::new(), "{member}");
    }
}

/// The rights and the Deployment of the earlier commit, and not its CRDs, as the manual says of going back.
fn back(machine: &Machine, deploy: &Path) {
    let all = machine.kubectl("hub", &format!("kustomize {}", deploy.display()), "").unwrap();
    let is_kept = |document: &&str| !document.contains("kind: CustomResourceDefinition");
    let kept: Vec<_> = all.split("\n---\n").filter(is_kept).collect();
    machine.kubectl("hub", "apply -f -", &kept.join("\n---\n")).unwrap();
}

/// This build does; an earlier one says so by being ready.
fn works(hub: &Hub) -> Result<(), String> {
    if hub.leads() { Ok(()) } else { Err("it waits".to_owned()) }
}

async fn people(machine: &Machine) -> Access {
    Access::new(machine.cluster("hub").client("admin").await.unwrap(), "somebody")
}

/// An object's uid and version, by its name.
type Live = BTreeMap<String, (String, String)>;

struct Fleet<'a> {
    machine: &'a Machine,
    people: Access,
}

impl Fleet<'_> {
    /// Many objects that are repaired, an object of two owners, and one of which drift is only told. One of the many is
    /// dropped with each value, and one is new.
    async fn declare(&self, value: &str) {
        let many = (0..OBJECTS).map(|number| (format!("many-{number:02}"), value.to_owned()));
        let brief = (format!("brief-{value}"), value.to_owned());
        let both = ("both".to_owned(), "the same".to_owned());
        let mut watched = config_maps("watched", NAMESPACE, [("edited".to_owned(), "declared".to_owned())]);
        watched["spec"]["drift"] = json!({"policy": "Report"});
        for resource in [
            config_maps("many", NAMESPACE, many.chain([brief, both.clone()])),
            config_maps("pair", NAMESPACE, [both]),
            watched,
        ] {
            self.people.apply(&resource, true).await.unwrap();
        }
        self.machine
            .kubectl(
                "hub",
                "wait --for=condition=Ready --timeout=120s -n team-a vr/many vr/pair vr/watched",
                "",
            )
            .unwrap();
    }

    /// Somebody changes what is only watched.
    async fn edit(&self, member: &str) {
        let alice = Access::new(self.machine.cluster(member).client("admin").await.unwrap(), "alice");
        let at = At::new("v1", "ConfigMap", NAMESPACE, "edited");
        alice.merge(&at, json!({"data": {"value": "alice's"}})).await;
    }

    /// A custom kind, for what is unwell.
    fn make_kind(&self, member: &str) {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let kind = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        });
        self.machine.kubectl(member, "apply -f -", &kind.to_string()).unwrap();
        self.machine.kubectl(member, "wait --for=condition=Established crd/gadgets.example.com", "").unwrap();
    }

    /// Objects that say by a condition that they are not well: one which each build understands, and one which the
    /// earlier one does not, so that it is Ready there.
    async fn deliver_unwell(&self) {
        for (name, kind, is, message) in UNWELL {
            let manifest = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
                "metadata": {"name": name, "namespace": NAMESPACE}});
            let mut resource = config_maps(name, NAMESPACE, []);
            resource["spec"]["manifest"] = manifest.to_string().into();
            self.people.apply(&resource, true).await.unwrap();
            for member in MEMBERS {
                let at = At::new("example.com/v1", "Gadget", NAMESPACE, name);
                let alice = Access::new(self.machine.cluster(member).client("admin").await.unwrap(), "alice");
                alice.when(&at, "delivered", |_| true).await;
                let why = json!([{"type": kind, "status": is, "reason": "Broken", "message": message}]);
                alice.merge(&at, json!({"status": {"conditions": why}})).await;
            }
        }
        self.machine
            .kubectl("hub", "wait --for=condition=Ready --timeout=120s -n team-a vr/turns", "")
            .unwrap();
    }

    /// What is unwell, as it is in the members.
    fn unwell(&self) -> Vec<String> {
        let version = "{.metadata.resourceVersion}";
        let of = |member| {
            UNWELL.map(|(name, ..)| {
                self.machine.field(member, &format!("gadget/{name} -n {NAMESPACE}"), version)
            })
        };
        MEMBERS.into_iter().flat_map(of).collect()
    }

    /// What was found to be well by builds that did not know its kind's conditions is told with its cause.
    #[allow(clippy::print_stderr, reason = "what is told is for people")]
    fn tells_of_unwell(&self) {
        for (member, (name, .., message)) in MEMBERS.into_iter().flat_map(|one| UNWELL.map(|of| (one, of))) {
            let status = self.machine.field("hub", &format!("vt/{name}.{member} -n team-a"), "{.status}");
            eprintln!("{name}.{member}: {status}");
            assert!(status.contains(message) && status.contains("Gadget"), "{status}");
            assert!(!status.contains("\"state\":\"Ready\""), "{status}");
        }
    }

    fn live(&self, member: &str) -> Live {
        let all = self.machine.kubectl(member, &format!("get cm -n {NAMESPACE} -o json"), "").unwrap();
        let all: Value = serde_json::from_str(&all).unwrap();
        let items = all["items"].as_array().unwrap().iter();
        let text = |item: &Value, field: &str| item["metadata"][field].as_str().unwrap().to_owned();
        items.map(|item| (text(item, "name"), (text(item, "uid"), text(item, "resourceVersion")))).collect()
    }

    fn all(&self) -> BTreeMap<&'static str, Live> {
        MEMBERS.into_iter().map(|member| (member, self.live(member))).collect()
    }

    /// Waits until nothing was written to any member for a while; what is there then.
    fn at_rest(&self, what: &str) -> BTreeMap<&'static str, Live> {
        let (mut last, mut since) = (self.all(), Instant::now());
        until(&format!("{what}: nothing is written for {QUIET:?}"), || {
            let now = self.all();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() >= QUIET { Ok(()) } else { Err(format!("quiet for {:?}", since.elapsed())) }
        });
        for (member, live) in &last {
            let edited = self.machine.field(member, &format!("cm/edited -n {NAMESPACE}"), "{.data.value}");
            assert_eq!(edited, "alice's", "{what}: what is only watched in {member}");
            assert_eq!(live.len(), OBJECTS + 3, "{what}: {:?}", live.keys());
        }
        last
    }

    /// It comes to rest with all objects there as they were, and so many of each member written at most.
    #[allow(clippy::print_stderr, reason = "the figures are for people")]
    fn is_same(
        &self,
        what: &str,
        before: &BTreeMap<&'static str, Live>,
        most: usize,
    ) -> BTreeMap<&'static str, Live> {
        let now = self.at_rest(what);
        for (member, live) in &now {
            let mut written = 0;
            for (name, (uid, version)) in &before[member] {
                let (uid_now, version_now) =
                    live.get(name).unwrap_or_else(|| panic!("{what}: {member} lost {name}"));
                assert_eq!(uid, uid_now, "{what}: {name} was made again in {member}");
                written += usize::from(version != version_now);
            }
            eprintln!("{what}: {member}: {written} of {} objects written", live.len());
            assert!(written <= most, "{what}: {written} written in {member}");
        }
        now
    }

    /// The process has the Lease, and rests.
    #[allow(clippy::print_stderr, reason = "the figures are for people")]
    fn takes_over(
        &self,
        what: &str,
        works: impl FnMut() -> Result<(), String>,
        before: &BTreeMap<&'static str, Live>,
    ) -> BTreeMap<&'static str, Live> {
        let began = Instant::now();
        until(&format!("{what} works"), works);
        eprintln!("{what}: it leads after {:?}", began.elapsed());
        self.is_same(what, before, OBJECTS + 3)
    }

    /// What is declared changes: it is delivered, the dropped object goes and no other.
    async fn changes(
        &self,
        value: &str,
        what: &str,
        before: &BTreeMap<&'static str, Live>,
    ) -> BTreeMap<&'static str, Live> {
        self.declare(value).await;
        let now = self.at_rest(what);
        for (member, live) in &now {
            for number in 0..OBJECTS {
                let name = format!("many-{number:02}");
                assert_eq!(live[&name].0, before[member][&name].0, "{what}: {member} {name}");
            }
            let delivered =
                self.machine.field(member, &format!("cm/brief-{value} -n {NAMESPACE}"), "{.data.value}");
            assert_eq!(delivered, value);
        }
        now
    }
}
