//! Health rules: what a custom kind says of itself opens waves, and is told.

use serde_json::{Value, json};
use testkit::world::{Access, At, Mark, World};
use vidra_api::{ObjectHealth, TargetState, VidraTarget, VidraTargetStatus, find};

use crate::{config_map_in, object, says, scenario, settings, told};

/// A kind of which controllers write the status, as alice does here.
pub struct Kind {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
}

const CERTIFICATE: Kind = Kind { group: "cert-manager.io", kind: "Certificate", plural: "certificates" };

impl Kind {
    pub fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"kind": self.kind, "plural": self.plural, "singular": self.kind.to_lowercase()},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema}}],
            },
        })
    }

    pub fn one(&self, name: &str) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": self.kind, "metadata": {"name": name},
            "spec": {"size": 1}})
    }

    pub fn at(&self, world: &World, name: &str) -> At {
        At::new(&format!("{}/v1", self.group), self.kind, &world.ns, name)
    }

    pub async fn set(&self, world: &World, alice: &Access, name: &str, status: Value) {
        alice.merge_status(&self.at(world, name), json!({"status": status})).await;
    }

    /// Definitions stay in members; scenarios leave nothing behind.
    pub async fn clear(&self, alice: &Access) {
        alice.delete(&At::of(&self.crd())).await;
    }
}

/// A kind of which no rule is told.
const WIDGET: Kind = Kind { group: "widgets.example.com", kind: "Widget", plural: "widgets" };

impl Kind {
    /// Its definition, where the status is of these fields and its phase is printed.
    fn crd_with(&self, status: Value) -> Value {
        let mut crd = self.crd();
        let version = &mut crd["spec"]["versions"][0];
        version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] = status;
        version["additionalPrinterColumns"] =
            json!([{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}]);
        crd
    }

    /// One of this size in the first wave, and what comes behind it.
    fn before(&self, size: u32, late: &str) -> String {
        let mut one = self.one("one");
        one["spec"]["size"] = size.into();
        in_wave(one, 1) + &in_wave(config_map_in("", "late", late), 2)
    }
}

pub const GADGET: Kind = Kind { group: "health.example.com", kind: "Gadget", plural: "gadgets" };

/// A VidraResource with health rules of its own for gadgets.
async fn deliver(world: &World, name: &str, manifest: &str, current: &str, message: &str) {
    let rule = json!({"apiVersion": "health.example.com/v1", "kind": "Gadget", "failed": "status.phase == 'Down'",
        "current": current, "message": message});
    let targets = json!([{"clusterNames": ["berlin"]}]);
    world.deliver_with(name, manifest, json!({"targets": targets, "healthCheckExprs": [rule]})).await;
}

pub fn in_wave(mut declared: Value, wave: i32) -> String {
    declared["metadata"]["annotations"]["vidra.dev/wave"] = wave.to_string().into();
    object(&declared)
}

/// Restarts the hub while these wait for what is not well: it writes nothing, neither of them nor there, and opens no
/// wave.
pub async fn over_a_restart(world: &mut World, alice: &Access, names: &[&str]) {
    let late = At::config_map(&world.ns, "late");
    let versions = async |world: &World| {
        let mut all = Vec::new();
        for name in names {
            all.push(world.target(name, "berlin").await.unwrap().metadata.resource_version);
        }
        all
    };
    world.counted(&["berlin"]).await;
    let (before, opened, mark) = (versions(world).await, alice.get(&late).await, world.mark());
    world.restart_hub().await;
    world.when_passes(1).await;
    world.counted(&["berlin"]).await;
    for name in names {
        world.look(name, "after the restart", 1).await;
    }
    assert_eq!(alice.get(&late).await, opened);
    assert_eq!(world.writes("berlin", &mark), []);
    assert_eq!(versions(world).await, before);
}

fn issuing(issuing: (&str, &str), ready: &str, message: &str) -> Value {
    json!({"conditions": [
        {"type": "Issuing", "status": issuing.0, "reason": issuing.1, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Ready", "status": ready, "reason": "X", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]})
}

#[test]
fn a_certificate_holds_the_next_wave_until_it_is_issued_and_one_that_failed_is_told_with_its_message() {
    scenario(async |world| {
        settings::set(&world, json!({"health.failedAfter": "0s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let late = in_wave(config_map_in("", "late", "one"), 2);
        let manifest = object(&CERTIFICATE.crd()) + &in_wave(CERTIFICATE.one("web"), 1) + &late;
        world.deliver("shop", &["berlin"], &manifest).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        assert!(message.contains("Certificate"), "{message}");
        let at = At::config_map(&world.ns, "late");
        assert!(alice.get(&at).await.is_none(), "a new one has no status, and opens nothing");

        CERTIFICATE
            .set(
                &world,
                &alice,
                "web",
                issuing(("False", "Failed"), "False", "the issuer says 403 to 7f9c6d5b4a"),
            )
            .await;
        let failed = world.target_when("shop", "berlin", "failed", |status| {
            status.unready.iter().any(|one| one.health == ObjectHealth::Failed)
        });
        let status = failed.await.status.unwrap_or_default();
        let one = &status.unready[0];
        assert_eq!((&*one.kind, one.note.as_deref()), ("Certificate", Some("the issuer says # to #")));
        let message = status.message.unwrap_or_default();
        assert!(message.contains("the issuer says # to #"), "{message}");
        assert!(alice.get(&at).await.is_none());

        CERTIFICATE.set(&world, &alice, "web", issuing(("False", "Issued"), "True", "up to date")).await;
        world.ready("shop").await;
        alice.when(&at, "the next wave", says("one")).await;
        world.end().await;
        CERTIFICATE.clear(&alice).await;
    });
}

#[test]
fn health_counts_where_drift_is_ignored_too() {
    scenario(async |world| {
        settings::set(&world, json!({"health.failedAfter": "0s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let late = in_wave(config_map_in("", "late", "one"), 2);
        let manifest = object(&CERTIFICATE.crd()) + &in_wave(CERTIFICATE.one("web"), 1) + &late;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Ignore"}});
        world.deliver_with("shop", &manifest, spec).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let at = At::config_map(&world.ns, "late");
        world.look("shop", "once more", 1).await;
        assert!(alice.get(&at).await.is_none());
        CERTIFICATE.set(&world, &alice, "web", issuing(("False", "Issued"), "True", "up to date")).await;
        alice.when(&at, "the next wave", says("one")).await;
        world.ready("shop").await;
        CERTIFICATE.set(&world, &alice, "web", issuing(("False", "Failed"), "False", "refused")).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        world.end().await;
        CERTIFICATE.clear(&alice).await;
    });
}

#[test]
fn rules_of_a_vidra_resource_judge_its_objects_and_an_edit_of_them_alone_applies_nothing() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.failedAfter": "0s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let late = in_wave(config_map_in("", "late", "one"), 2);
        let manifest = object(&GADGET.crd()) + &in_wave(GADGET.one("one"), 1) + &late;
        deliver(&world, "shop", &manifest, "status.phase == 'Up'", "status.text").await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Fine", "text": "warms up"})).await;
        let before = world.target("shop", "berlin").await.unwrap();

        let mark = world.mark();
        deliver(&world, "shop", &manifest, "status.phase in ['Up', 'Fine']", "status.text").await;
        let now = world.ready("shop").await;
        alice.when(&At::config_map(&world.ns, "late"), "the next wave", says("one")).await;
        let writes = world.writes("berlin", &mark);
        assert!(writes.iter().all(|write| write.name == "late"), "{writes:?}");
        let after = world.target("shop", "berlin").await.unwrap();
        assert_eq!(now.status.unwrap().revision.as_ref(), Some(&before.spec.revision));
        assert_eq!(before.spec.revision, after.spec.revision);
        assert_ne!(before.spec.health_rules, after.spec.health_rules);
        let digest =
            |target: &VidraTarget| target.status.as_ref().and_then(|status| status.health_rules.clone());
        assert!(digest(&after).is_some_and(|digest| digest.len() == 12), "{after:?}");
        assert_ne!(digest(&before), digest(&after));

        // What was judged before the process began is judged again by them.
        world.restart_hub().await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Down", "text": "went down"})).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn rules_that_cannot_be_read_are_told_with_their_column_and_those_before_stay_in_force() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.failedAfter": "0s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&GADGET.crd()) + &object(&GADGET.one("one"));
        deliver(&world, "shop", &manifest, "status.phase == 'Up'", "status.text").await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        deliver(&world, "shop", &manifest, "status.phase = 'Up'", "status.text").await;
        let stalled = world.resource_says("shop", "Stalled", "True", "HealthChecksInvalid").await;
        let ready = find(&stalled.status.unwrap().conditions, "Ready").unwrap().message.clone();
        for words in ["spec.healthCheckExprs[0]", "health.example.com/Gadget", "current, column "] {
            assert!(ready.contains(words), "{ready}");
        }
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.target_when("shop", "berlin", "Ready", |status| status.state == Some(TargetState::Ready)).await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Down"})).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;

        // One that never could be used opens nothing.
        let broken = object(&GADGET.one("two")) + &in_wave(config_map_in("", "late", "one"), 1);
        deliver(&world, "broken", &broken, "status.", "status.text").await;
        world.target_is("broken", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let status = world.target("broken", "berlin").await.unwrap().status.unwrap();
        assert_eq!(status.unready[0].health, ObjectHealth::Unknown);
        over_a_restart(&mut world, &alice, &["broken"]).await;
        let rule =
            json!({"apiVersion": "health.example.com/v1", "kind": "Gadget", "current": "has(metadata.name)"});
        let twice = json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": [rule, rule]});
        world.deliver_with("broken", &broken, twice).await;
        world.ready("broken").await;
        told(&world, "HealthRuleDuplicate", &["spec.healthCheckExprs[1] does not count"]).await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn own_rules_that_broke_open_no_wave_after_a_restart_which_knows_what_they_were_no_more() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let late = in_wave(config_map_in("", "late", "one"), 2);
        let manifest = object(&GADGET.crd()) + &in_wave(GADGET.one("one"), 1) + &late;
        deliver(&world, "shop", &manifest, "status.phase == 'Up'", "status.text").await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        deliver(&world, "shop", &manifest, "status.phase = 'Up'", "status.text").await;
        world.resource_says("shop", "Stalled", "True", "HealthChecksInvalid").await;
        over_a_restart(&mut world, &alice, &[]).await;
        let unknown =
            |status: &VidraTargetStatus| status.unready.iter().any(|one| one.health == ObjectHealth::Unknown);
        world.target_when("shop", "berlin", "no rule that could be used", unknown).await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.look("shop", "it is well", 1).await;
        let late = At::config_map(&world.ns, "late");
        assert!(alice.get(&late).await.is_none(), "no rule calls it well");
        deliver(&world, "shop", &manifest, "status.phase == 'Up'", "status.text").await;
        alice.when(&late, "the next wave", says("one")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn own_rules_that_never_could_be_used_open_no_wave_for_what_was_well_before() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "annotations": {"vidra.dev/wait-for": "Address"}},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/alice", "ports": [{"port": 80}]}});
        let late = in_wave(config_map_in("", "late", "one"), 2);
        let manifest = object(&GADGET.crd()) + &object(&GADGET.one("one")) + &in_wave(service, 1) + &late;
        let rules = json!([{"apiVersion": "health.example.com/v1", "kind": "Gadget", "current": "status.phase == 'Up'"}]);
        super::health_fleet::write(&world, "gadgets", &rules.to_string()).await;
        world.deliver("shop", &["berlin"], &manifest).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        let web = At::new("v1", "Service", &world.ns, "web");
        alice.when(&web, "the second wave", |_| true).await;

        deliver(&world, "shop", &manifest, "status.phase = 'Up'", "status.text").await;
        let unknown =
            |status: &VidraTargetStatus| status.unready.iter().any(|one| one.health == ObjectHealth::Unknown);
        world.target_when("shop", "berlin", "no rule that could be used", unknown).await;
        let balancer = json!({"ingress": [{"ip": "192.0.2.7"}]});
        alice.merge_status(&web, json!({"status": {"loadBalancer": balancer}})).await;
        world.look("shop", "the address is there", 1).await;
        let late = At::config_map(&world.ns, "late");
        assert!(alice.get(&late).await.is_none(), "a rule that cannot be used opens nothing");
        deliver(&world, "shop", &manifest, "status.phase == 'Up'", "status.text").await;
        alice.when(&late, "the next wave", says("one")).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn a_shared_object_is_judged_for_each_vidra_resource_by_its_own_rules() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.failedAfter": "0s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&GADGET.crd()) + &object(&GADGET.one("one"));
        world.deliver("plain", &["berlin"], &manifest).await;
        world.ready("plain").await;
        deliver(&world, "own", &manifest, "status.phase == 'Up'", "status.text").await;
        world.target_is("own", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Down", "text": "went down"})).await;
        world.target_is("own", "berlin", TargetState::Failed, "ObjectFailed").await;
        world.ready("plain").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.ready("own").await;

        // For one of them it holds the next wave, across a restart.
        GADGET.set(&world, &alice, "one", json!({"phase": "Fine"})).await;
        world.target_is("own", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let late = in_wave(config_map_in("", "late", "one"), 1);
        deliver(&world, "own", &(manifest + &late), "status.phase == 'Up'", "status.text").await;
        world.target_is("own", "berlin", TargetState::Waiting, "WaitingForWave").await;
        over_a_restart(&mut world, &alice, &["plain", "own"]).await;
        world.ready("plain").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        alice.when(&At::config_map(&world.ns, "late"), "the next wave", says("one")).await;
        world.ready("own").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn an_edit_of_a_kind_that_reports_no_generation_opens_no_wave_by_its_old_status() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let crd = object(&WIDGET.crd());
        world.deliver("shop", &["berlin"], &(crd.clone() + &WIDGET.before(1, "one"))).await;
        world.ready("shop").await;
        let ready = |text: &str| json!({"conditions": [{"type": "Ready", "status": "True", "reason": text}]});
        WIDGET.set(&world, &alice, "one", ready("One")).await;

        let late = At::config_map(&world.ns, "late");
        world.deliver("shop", &["berlin"], &(crd.clone() + &WIDGET.before(2, "two"))).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        assert!(message.contains("Its status may be from before the last change"), "{message}");
        assert!(says("one")(&alice.live(&late).await), "the old status opens nothing");
        WIDGET.set(&world, &alice, "one", ready("Two")).await;
        alice.when(&late, "the next wave", says("two")).await;
        world.ready("shop").await;

        // Nobody may come to write it: the wait ends by itself.
        world.deliver("shop", &["berlin"], &(crd + &WIDGET.before(3, "three"))).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        alice.when(&late, "the next wave", says("three")).await;
        world.ready("shop").await;
        world.end().await;
        WIDGET.clear(&alice).await;
    });
}

#[test]
fn an_old_status_opens_no_wave_after_a_restart_and_where_nothing_is_followed() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.staleStatus": "60s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let crd = object(&WIDGET.crd());
        world.deliver("shop", &["berlin"], &(crd.clone() + &WIDGET.before(1, "one"))).await;
        world.ready("shop").await;
        // Nobody has ever written its status.
        let late = At::config_map(&world.ns, "late");
        world.deliver("shop", &["berlin"], &(crd.clone() + &WIDGET.before(2, "two"))).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        over_a_restart(&mut world, &alice, &["shop"]).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        assert!(message.contains("Its status may be from before the last change"), "{message}");
        assert!(says("one")(&alice.live(&late).await), "a restart opens nothing");
        WIDGET.set(&world, &alice, "one", json!({"text": "two"})).await;
        alice.when(&late, "the next wave", says("two")).await;
        world.ready("shop").await;

        let deaf = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"onEvents": false}});
        world.deliver_with("shop", &(crd + &WIDGET.before(3, "three")), deaf).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        assert!(says("two")(&alice.live(&late).await));
        WIDGET.set(&world, &alice, "one", json!({"text": "three"})).await;
        alice.when(&late, "the next wave", says("three")).await;
        world.end().await;
        WIDGET.clear(&alice).await;
    });
}

#[test]
fn a_first_status_that_is_declared_is_awaited_and_what_its_crd_prints_is_heard() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = WIDGET
            .crd_with(json!({"conditions": {"type": "array", "items": open}, "phase": {"type": "string"}}));
        let manifest = object(&crd) + &WIDGET.before(1, "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        assert!(message.contains("Its kind has a status, and it has none yet"), "{message}");
        let late = At::config_map(&world.ns, "late");
        assert!(alice.get(&late).await.is_none());
        over_a_restart(&mut world, &alice, &["shop"]).await;

        // What its CRD prints is heard.
        WIDGET.set(&world, &alice, "one", json!({"phase": "Pending"})).await;
        world
            .target_when("shop", "berlin", "what it prints", |status| {
                status.message.as_ref().is_some_and(|message| message.contains("It says status."))
            })
            .await;
        WIDGET.set(&world, &alice, "one", json!({"phase": "Running"})).await;
        alice.when(&late, "the next wave", says("one")).await;
        world.ready("shop").await;

        world.end().await;
        WIDGET.clear(&alice).await;
    });
}

#[test]
fn a_crd_is_read_once_a_session_and_never_for_a_kind_that_a_rule_or_a_known_condition_judges() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.noStatus": "1s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let crds = [CERTIFICATE.crd(), WIDGET.crd_with(json!({"observedGeneration": {"type": "integer"}}))];
        world.deliver("kinds", &["berlin"], &crds.each_ref().map(object).concat()).await;
        world.ready("kinds").await;
        let reads = |world: &World, kind: &Kind, since: &Mark| {
            let name = format!("{}.{}", kind.plural, kind.group);
            let all = world.requests("berlin", since).into_iter();
            let crds = all.filter(|one| one.verb == "get" && one.resource == "customresourcedefinitions");
            crds.filter(|one| one.name == name).count()
        };
        let mark = world.mark();
        world.deliver("ruled", &["berlin"], &object(&CERTIFICATE.one("web"))).await;
        world.target_is("ruled", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        CERTIFICATE.set(&world, &alice, "web", issuing(("False", "Issued"), "True", "up to date")).await;
        world.ready("ruled").await;
        for (name, widgets) in [("shop", ["a", "b"]), ("other", ["c", "d"])] {
            let manifest = widgets.map(|name| object(&WIDGET.one(name))).concat();
            world.deliver(name, &["berlin"], &manifest).await;
            world.ready(name).await;
        }
        for name in ["ruled", "shop", "other"] {
            world.look(name, "once more", 1).await;
        }
        assert_eq!((reads(&world, &WIDGET, &mark), reads(&world, &CERTIFICATE, &mark)), (1, 0));

        // Of what says that it is Ready, a CRD has nothing to tell.
        let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "One"}]});
        for name in ["a", "b", "c", "d"] {
            WIDGET.set(&world, &alice, name, ready.clone()).await;
        }
        let mark = world.mark();
        world.restart_hub().await;
        world.when_passes(4).await;
        for name in ["ruled", "shop", "other"] {
            world.look(name, "after the restart", 1).await;
            world.ready(name).await;
        }
        assert_eq!((reads(&world, &WIDGET, &mark), reads(&world, &CERTIFICATE, &mark)), (0, 0));
        world.end().await;
        CERTIFICATE.clear(&alice).await;
        WIDGET.clear(&alice).await;
    });
}

#[test]
fn what_never_has_a_status_is_ready_after_a_while_and_stays_so_over_a_restart() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.noStatus": "3s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let crd = WIDGET.crd_with(json!({"observedGeneration": {"type": "integer"}}));
        world.deliver("shop", &["berlin"], &(object(&crd) + &object(&WIDGET.one("one")))).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        world.ready("shop").await;

        settings::set(&world, json!({"health.noStatus": "10m"})).await;
        let before = world.target("shop", "berlin").await.unwrap();
        world.restart_hub().await;
        world.when_passes(1).await;
        world.ready("shop").await;
        let now = world.target("shop", "berlin").await.unwrap();
        assert_eq!(now.metadata.resource_version, before.metadata.resource_version, "nothing is written");
        world.end().await;
        WIDGET.clear(&alice).await;
    });
}

#[test]
fn what_counts_as_healthy_and_shows_nothing_is_counted_and_three_are_named() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let mut manifest = object(&WIDGET.crd()) + &object(&config_map_in("", "settings", "one"));
        manifest.extend(["a", "b", "c", "d"].map(|name| object(&WIDGET.one(name))));
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        let counts = |objects: i64| {
            move |status: &VidraTargetStatus| {
                let unproven = status.unproven.clone().unwrap_or_default();
                unproven.objects == objects
                    && unproven.first.len() == usize::try_from(objects.min(3)).unwrap()
            }
        };
        let told = world.target_when("shop", "berlin", "four", counts(4)).await.status.unwrap_or_default();
        let names: Vec<_> = told.unproven.unwrap_or_default().first.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let metric =
            |world: &World| world.metric("vidra_unproven_objects{kind=\"Widget.widgets.example.com\"}");
        assert_eq!(metric(&world), 4.0);

        let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "One"}]});
        WIDGET.set(&world, &alice, "a", ready.clone()).await;
        world.target_when("shop", "berlin", "three", counts(3)).await;
        assert_eq!(metric(&world), 3.0);
        world.counted(&["berlin"]).await;
        // What proves it once more is no news.
        let (mark, target) =
            (world.mark(), At::new("vidra.dev/v1alpha1", "VidraTarget", &world.ns, "shop.berlin"));
        WIDGET.set(&world, &alice, "a", json!({"users": 3})).await;
        world.look("shop", "1", 1).await;
        assert_eq!(world.writes_to(&target, "hub", &mark), [], "nothing is told that is known");

        let before = world.target("shop", "berlin").await.unwrap().metadata.resource_version;
        world.restart_hub().await;
        world.when_passes(2).await;
        world.ready("shop").await;
        let now = world.target("shop", "berlin").await.unwrap().metadata.resource_version;
        assert_eq!(now, before, "a restart writes nothing");
        world.end().await;
        WIDGET.clear(&alice).await;
    });
}
