//! What the fold lets through and what it drops.

mod drift;
mod facts;
mod own_verdicts;

use std::time::Duration;

use serde_json::{Value, json};
use vidra_core::{
    fields::FieldSet,
    health::own,
    kubeconfig::Allow,
    manifest,
    object::Scope,
    plan::Drift,
    render::{self, HashKey},
};

use super::*;
use crate::{
    config::{Settings, tuning::Tuning},
    member::{kinds::Kinds, live::Live},
};

const NAMESPACE: &str = "team";
const RESOURCE: &str = "shop";

fn hub() -> HubId {
    HubId::try_from("h1").unwrap()
}

pub(super) fn owner() -> OwnerHash {
    OwnerHash::new(&hub(), NAMESPACE, RESOURCE)
}

fn target() -> TargetKey {
    TargetKey::new(NAMESPACE, RESOURCE, "berlin")
}

pub(super) fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

pub(super) fn key() -> ObjectKey {
    ObjectKey::new(&gvk(), NAMESPACE, "settings")
}

/// A target that declares one ConfigMap with `data.mode: fast`.
pub(super) fn desired() -> Arc<Desired> {
    desired_as("fast")
}

fn desired_as(mode: &str) -> Arc<Desired> {
    let text =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{mode: {mode}}}\n");
    let objects = manifest::parse(&text).unwrap();
    let scope = |_: &Gvk| Some(Scope::Namespaced);
    let rendered = render::render(&objects, &scope, NAMESPACE, &HashKey::new([7; 32])).unwrap();
    Arc::new(Desired::new(rendered, &Interned::default()))
}

/// The object as the API server shows it: the values, and what our entry owns.
pub(super) fn live(version: u64, mode: &str, owned: bool) -> Live {
    let label = owner().label_key();
    let declared = desired().objects[&key()].hash;
    let mut fields = json!({"f:metadata": {"f:labels": {(format!("f:{label}")): {}}}});
    if owned {
        fields["f:data"] = json!({"f:mode": {}});
    }
    Live::from(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "settings", "namespace": NAMESPACE, "uid": "u1", "resourceVersion": version.to_string(),
            "labels": {&label: "", "vidra.dev/hub": "h1"},
            "annotations": {&label: format!("{NAMESPACE}/{RESOURCE} 1 {declared}")},
            "managedFields": [{
                "manager": format!("vidra/h1/{NAMESPACE}/{RESOURCE}"), "operation": "Apply", "fieldsV1": fields,
            }],
        },
        "data": {"mode": mode, "other": "x"},
    }))
}

fn records() -> Records {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    records.declare(owner(), 0, target(), desired(), Arc::default());
    records
}

fn secrecy() -> Secrecy {
    let settings = Settings {
        namespace: "vidra-system".to_owned(),
        hub_id: None,
        inherit: Default::default(),
        interval: Duration::from_secs(600),
        on_events: true,
        allow: Allow { loopback: false, http: false, proxy: false },
        memory_limit: None,
    };
    Secrecy { salt: HashKey::new([7; 32]), tuning: Arc::new(Tuning::new(&settings)) }
}

/// Records after our own apply at version 10.
pub(super) fn applied() -> Records {
    let records = records();
    let woken = records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
    assert_eq!(woken, [], "our own answer wakes nobody");
    records
}

/// Only a dry run tells how it is.
fn is_stale(records: &Records) -> bool {
    let is_stale = |baseline: &Baseline| matches!(baseline, Baseline::NeedsDryRun);
    let inner = records.inner.lock();
    inner.record_is(&key(), |record| record.view_of(&owner()).is_some_and(|view| is_stale(&view.baseline)))
}

fn drift(records: &Records) -> Drift {
    records.view(&owner(), &key(), &desired()).unwrap().drift
}

/// Two versions of a kind have an informer each.
#[test]
fn what_a_watch_told_during_a_call_outlasts_a_list_of_before_that_does_not_show_the_object() {
    for (list, known) in [(9, Some(20)), (30, None)] {
        let records = records();
        let mark = records.mark();
        records.begin_call(&key());
        records.fold(&gvk(), live(20, "slow", true), Source::Watch);
        records.end_list(&gvk(), "", &BTreeSet::new(), (mark, list));
        records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
        records.end_call(&key());
        assert_eq!(records.version(&key()), known, "a list of version {list}");
    }
}

#[test]
fn a_list_beside_a_watch_brings_nothing_back_and_replaces_nothing_that_the_watch_told() {
    // Its page is of before the end.
    let records = applied();
    let mark = records.mark();
    records.fold_gone(&key(), "u1", "11");
    assert_eq!(records.fold(&gvk(), live(10, "fast", true), Source::Beside(mark)), []);
    assert!(records.view(&owner(), &key(), &desired()).is_none());

    // Another of its name is there since.
    let mut other = live(13, "slow", true).json;
    other["metadata"]["uid"] = "u2".into();
    records.fold(&gvk(), other.into(), Source::Watch);
    records.fold(&gvk(), live(10, "fast", true), Source::Beside(mark));
    assert_eq!(records.version(&key()), Some(13));

    // What the watch tells during a call waits for its end, and is what counts then.
    for page_first in [false, true] {
        let records = applied();
        let mark = records.mark();
        records.begin_call(&key());
        let page = || records.fold(&gvk(), live(10, "fast", true), Source::Beside(mark));
        if page_first {
            page();
        }
        records.fold(&gvk(), live(12, "slow", true), Source::Watch);
        page();
        records.end_call(&key());
        assert_eq!(records.version(&key()), Some(12), "{page_first}");
    }
}

#[test]
fn a_foreign_field_or_an_equal_value_wakes_nobody() {
    let records = applied();
    let mut foreign = live(11, "fast", true).json;
    foreign["data"]["other"] = "changed".into();
    assert_eq!(records.fold(&gvk(), foreign.into(), Source::Watch), []);
    // Edited there and back again: the ownership is lost, the value is ours.
    assert_eq!(records.fold(&gvk(), live(12, "fast", false), Source::Watch), []);
    assert_eq!(drift(&records), Drift::None);
}

#[test]
fn another_value_is_drift_and_wakes_once() {
    let records = applied();
    assert_eq!(records.fold(&gvk(), live(11, "slow", false), Source::Watch), [target()]);
    assert_eq!(drift(&records), Drift::Differs);
    assert_eq!(records.fold(&gvk(), live(12, "slow", false), Source::Watch), [], "it is known already");
    assert_eq!(records.fold(&gvk(), live(12, "slow", false), Source::Watch), [], "and no news");
    assert_eq!(records.fold(&gvk(), live(13, "fast", true), Source::Answer(&owner())), []);
    assert_eq!(drift(&records), Drift::None);
}

#[test]
fn what_an_answer_has_undone_goes_with_its_owner_and_with_all_records() {
    let records = applied();
    let ways: [fn(&Records); 2] = [|records| records.forget(&owner()), Records::clear];
    for forgets in ways {
        records.declare(owner(), 0, target(), desired(), Arc::default());
        records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
        records.fold(&gvk(), live(11, "slow", false), Source::Watch);
        records.fold(&gvk(), live(12, "fast", true), Source::Answer(&owner()));
        assert_eq!(records.inner.lock().corrections.len(), 1);
        forgets(&records);
        assert_eq!(records.inner.lock().corrections.len(), 0);
        records.clear();
    }
}

#[test]
fn an_event_that_our_own_answer_overtook_is_no_news() {
    let records = applied();
    let known = |version, uid| records.is_known(&key(), uid, version);
    assert!(known("9", "u1") && known("10", "u1"));
    assert!(!known("11", "u1") && !known("9", "u2") && !known("", "u1"));
    assert_eq!(records.fold(&gvk(), live(9, "slow", false), Source::Watch), []);
    assert_eq!(records.fold_gone(&key(), "u1", "9"), [], "a deletion before our write");
    assert_eq!(records.fold_gone(&key(), "another", "99"), [], "of another object");
    assert_eq!(drift(&records), Drift::None);
    assert_eq!(records.fold_gone(&key(), "u1", "11"), [target()]);
    assert!(records.view(&owner(), &key(), &desired()).is_none());
}

#[test]
fn after_a_start_an_object_that_is_owned_whole_is_as_it_was_left() {
    let records = records();
    let mark = records.mark();
    assert_eq!(records.fold(&gvk(), live(10, "fast", true), Source::List(mark)), [target()]);
    assert_eq!(drift(&records), Drift::None);
    let tampered = self::records();
    tampered.fold(&gvk(), live(10, "slow", false), Source::List(tampered.mark()));
    assert_eq!(drift(&tampered), Drift::Unsure, "a dry run has to tell");
}

#[test]
fn a_lost_entry_of_ours_is_drift() {
    let records = applied();
    let mut reset = live(11, "fast", true).json;
    reset["metadata"]["managedFields"] = json!([]);
    assert_eq!(records.fold(&gvk(), reset.into(), Source::Watch), [target()]);
    assert_eq!(drift(&records), Drift::Differs);
    assert!(!records.view(&owner(), &key(), &desired()).unwrap().proof);
}

#[test]
fn a_list_drops_what_it_does_not_show_but_not_what_was_written_since_it_began() {
    let records = applied();
    let before = records.mark();
    assert_eq!(
        records.end_list(&gvk(), "", &BTreeSet::new(), (before - 1, 0)),
        [],
        "written after the list began"
    );
    assert_eq!(records.end_list(&gvk(), "elsewhere", &BTreeSet::new(), (before, 0)), [], "another namespace");
    assert_eq!(records.end_list(&gvk(), "", &BTreeSet::new(), (before, 0)), [target()]);
    assert!(records.is_empty());
}

#[test]
fn an_older_list_item_does_not_undo_a_newer_answer_and_a_newer_list_replaces() {
    let records = records();
    let mark = records.mark();
    records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
    assert_eq!(records.fold(&gvk(), live(9, "slow", false), Source::List(mark)), []);
    assert_eq!(drift(&records), Drift::None);
    // Restored from a backup: the version went back, and the list began after all that is known.
    let mark = records.mark();
    assert_eq!(records.fold(&gvk(), live(5, "slow", false), Source::List(mark)), [target()]);
    assert_eq!(drift(&records), Drift::Differs);
}

#[test]
fn the_same_version_with_other_values_is_a_new_baseline() {
    let records = applied();
    let mark = records.mark();
    assert_eq!(records.fold(&gvk(), live(10, "defaulted", true), Source::List(mark)), []);
    assert_eq!(drift(&records), Drift::None);
}

#[test]
fn what_overtakes_the_answer_of_our_own_apply_is_compared_with_that_answer() {
    let changed = applied();
    changed.begin_call(&key());
    // Our change at 11 and a stranger's status at 12 come before the answer.
    for version in [11, 12] {
        assert_eq!(changed.fold(&gvk(), live(version, "slow", true), Source::Watch), []);
    }
    changed.fold(&gvk(), live(11, "slow", true), Source::Answer(&owner()));
    assert_eq!(changed.end_call(&key()), []);
    assert_eq!(drift(&changed), Drift::None);

    changed.begin_call(&key());
    changed.fold(&gvk(), live(14, "evil", false), Source::Watch);
    changed.fold(&gvk(), live(13, "fast", true), Source::Answer(&owner()));
    assert_eq!(changed.end_call(&key()), [target()]);
    assert_eq!(drift(&changed), Drift::Differs);
}

#[test]
fn an_answer_of_an_object_that_a_later_list_does_not_show_makes_no_ghost() {
    let nothing = BTreeSet::new();
    for (answered, is_there) in [(11, false), (12, false), (13, true)] {
        let records = records();
        records.begin_call(&key());
        // Made at this version, deleted by somebody; the list of version 12 is there before the answer.
        records.end_list(&gvk(), "", &nothing, (records.mark(), 12));
        records.fold(&gvk(), live(answered, "fast", true), Source::Answer(&owner()));
        let woken = records.end_call(&key());
        assert_eq!(records.view(&owner(), &key(), &desired()).is_some(), is_there, "{answered}");
        assert_eq!(woken.is_empty(), is_there, "{answered}");

        // The answer comes while the list is read.
        let records = self::records();
        let mark = records.mark();
        records.begin_call(&key());
        records.fold(&gvk(), live(answered, "fast", true), Source::Answer(&owner()));
        records.end_call(&key());
        let woken = records.end_list(&gvk(), "", &nothing, (mark, 12));
        assert_eq!(
            records.view(&owner(), &key(), &desired()).is_some(),
            is_there,
            "{answered}, while it is read"
        );
        assert_eq!(woken.is_empty(), is_there, "{answered}, while it is read");
    }
}

#[test]
fn an_answer_that_another_owners_answer_overtook_leaves_a_doubt_and_no_drift() {
    let changed = applied();
    let another = OwnerHash::new(&hub(), "team-a", "another");
    // Our change is at 11; who joined the object at 12 had its answer first.
    changed.fold(&gvk(), live(12, "slow", true), Source::Answer(&another));
    assert_eq!(drift(&changed), Drift::Differs, "compared with what was applied before");
    assert_eq!(changed.fold(&gvk(), live(11, "slow", true), Source::Answer(&owner())), [target()]);
    assert_eq!(drift(&changed), Drift::Unsure);
}

#[test]
fn who_cannot_prove_an_object_its_own_is_woken_when_another_owner_can() {
    let records = records();
    let another = OwnerHash::new(&hub(), "team-a", "another");
    let label = another.label_key();
    let lost = |version: u64| {
        let mut json = live(version, "fast", false).json;
        json["metadata"]["labels"][&label] = "".into();
        json["metadata"]["managedFields"] = json!([]);
        json
    };
    records.fold(&gvk(), lost(11).into(), Source::Watch);
    let mut back = lost(12);
    back["metadata"]["managedFields"] = json!([{
        "manager": "vidra/h1/team-a/another", "operation": "Apply",
        "fieldsV1": {"f:metadata": {"f:labels": {(format!("f:{label}")): {}}}},
    }]);
    let mut later = back.clone();
    later["metadata"]["resourceVersion"] = "13".into();
    // Its own label brings it into the views, of whichever owners are known.
    records.declare(
        another.clone(),
        0,
        TargetKey::new("team-a", "another", "berlin"),
        desired(),
        Arc::default(),
    );
    records.fold(&gvk(), lost(11).into(), Source::List(records.mark()));
    assert_eq!(records.fold(&gvk(), back.into(), Source::Answer(&another)), [target()]);
    assert_eq!(records.fold(&gvk(), later.into(), Source::Watch), [], "that is no news");
}

#[test]
fn an_apply_whose_answer_is_lost_is_not_compared_with_what_was_applied_before() {
    let records = applied();
    records.fold(&gvk(), live(11, "evil", false), Source::Watch);
    assert_eq!(drift(&records), Drift::Differs);
    let slow = desired_as("slow");
    records.declare(owner(), 0, target(), slow.clone(), Arc::default());
    let stamped = |version: u64, mode: &str, owned: bool| {
        let mut live = live(version, mode, owned).json;
        let stamp = &mut live["metadata"]["annotations"][owner().label_key()];
        *stamp = format!("{NAMESPACE}/{RESOURCE} 2 {}", slow.objects[&key()].hash).into();
        Live::from(live)
    };
    let drift = || records.view(&owner(), &key(), &slow).unwrap().drift;
    records.fold(&gvk(), stamped(12, "slow", true), Source::Watch);
    assert_eq!(drift(), Drift::None, "all that is declared is ours");
    records.fold(&gvk(), stamped(13, "fast", false), Source::Watch);
    assert_eq!(drift(), Drift::Differs);
}

#[test]
fn what_was_read_before_another_owner_applied_is_no_baseline() {
    let records = records();
    records.fold(&gvk(), live(11, "evil", false), Source::Watch);
    let read = live(11, "evil", false);
    // Read, and asked what an apply would leave; meanwhile somebody else brought it to what is declared.
    records.fold(&gvk(), live(12, "fast", true), Source::Read);
    let told = drift(&records);
    let declared = &desired().objects[&key()];
    let set = || FieldSet::from_fields_v1(&json!({"f:data": {"f:mode": {}}})).unwrap();
    let would = live(11, "fast", true).json;
    assert!(!records.differs(&owner(), &key(), &read.json, &would, set(), declared));
    assert!(!records.rebase(&owner(), &key(), &read.json, (set(), false), &declared.body));
    assert_eq!(drift(&records), told);
}

#[test]
fn what_cannot_be_changed_back_differs_until_the_object_changes() {
    let records = records();
    let tell = |version: u64| records.note_immutable(&owner(), &key(), &live(version, "evil", false).json);
    records.fold(&gvk(), live(11, "evil", false), Source::Watch);
    assert_eq!(drift(&records), Drift::Unsure);
    tell(10);
    assert_eq!(drift(&records), Drift::Unsure, "another version is recorded");
    tell(11);
    assert_eq!(drift(&records), Drift::Differs);
    records.fold(&gvk(), live(11, "evil", false), Source::List(records.mark()));
    assert_eq!(drift(&records), Drift::Differs);
    records.fold(&gvk(), live(12, "evil", false), Source::Watch);
    assert_eq!(drift(&records), Drift::Unsure, "it may have been made again as it was");
}

#[test]
fn what_another_owner_alone_holds_is_known_as_long_as_it_does() {
    let another = OwnerHash::new(&hub(), "team-a", "another");
    // Somebody took the value from both, and the other one alone has put it back.
    let lost = |version: u64| {
        let mut json = live(version, "fast", false).json;
        let theirs = json!({
            "manager": "vidra/h1/team-a/another", "operation": "Apply", "fieldsV1": {"f:data": {"f:mode": {}}},
        });
        json["metadata"]["managedFields"].as_array_mut().unwrap().push(theirs);
        json
    };
    let records = applied();
    records.fold(&gvk(), lost(11).into(), Source::Answer(&another));
    assert_eq!(drift(&records), Drift::Unsure);
    let set = FieldSet::from_fields_v1(&json!({"f:data": {"f:mode": {}}})).unwrap();
    let body = &desired().objects[&key()].body;
    assert!(records.rebase(&owner(), &key(), &lost(11), (set, true), body));
    assert_eq!(drift(&records), Drift::HeldByOther);
    records.fold(&gvk(), lost(11).into(), Source::List(records.mark()));
    assert_eq!(drift(&records), Drift::HeldByOther, "a list shows the same");
    records.fold(&gvk(), live(12, "slow", false), Source::Watch);
    assert_eq!(drift(&records), Drift::Differs, "what went with the other one is missed");
    records.fold(&gvk(), live(13, "fast", true), Source::Answer(&owner()));
    assert_eq!(drift(&records), Drift::None);
}

#[test]
fn an_end_that_overtakes_the_answer_of_the_creation_is_not_forgotten() {
    let records = records();
    records.begin_call(&key());
    records.begin_call(&key());
    records.fold(&gvk(), live(10, "fast", true), Source::Watch);
    assert_eq!(records.fold_gone(&key(), "u1", "11"), []);
    records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
    assert_eq!(records.end_call(&key()), [], "another call is under way");
    assert_eq!(records.end_call(&key()), [target()]);
    assert!(records.view(&owner(), &key(), &desired()).is_none());
    assert_eq!(records.inner.lock().in_flight.len(), 0);
}

/// What is left alone when `data.mode` is ignored.
fn mode_ignored() -> Arc<Exemptions> {
    let spec = serde_json::from_value(
        json!({"ignore": [{"target": {"kind": "ConfigMap"}, "paths": [".data.mode"]}]}),
    );
    desired().exemptions(&spec.unwrap(), &Arc::default()).unwrap()
}

#[test]
fn another_value_of_what_is_ignored_wakes_nobody_also_after_a_start() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    records.declare(owner(), 0, target(), desired(), mode_ignored());
    records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
    assert_eq!(records.fold(&gvk(), live(11, "slow", false), Source::Watch), []);
    assert_eq!(drift(&records), Drift::None);

    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    records.declare(owner(), 0, target(), desired(), mode_ignored());
    records.fold(&gvk(), live(11, "slow", false), Source::List(records.mark()));
    assert_eq!(drift(&records), Drift::None);
}

#[test]
fn what_is_left_alone_otherwise_is_unsure_until_an_apply_or_a_dry_run_tells() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    records.declare(owner(), 0, target(), desired(), mode_ignored());
    records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
    records.declare(owner(), 0, target(), desired(), mode_ignored());
    assert_eq!(drift(&records), Drift::None, "nothing has changed");

    records.declare(owner(), 0, target(), desired(), Arc::default());
    assert_eq!(drift(&records), Drift::Unsure);
    assert!(is_stale(&records));
    // The entry owns all that is declared, but what was sent may have been what was live.
    records.fold(&gvk(), live(11, "fast", true), Source::Watch);
    assert_eq!(drift(&records), Drift::Unsure);
    records.fold(&gvk(), live(12, "fast", true), Source::Answer(&owner()));
    assert_eq!(drift(&records), Drift::None);

    records.declare(owner(), 0, target(), desired(), mode_ignored());
    assert_eq!(drift(&records), Drift::Unsure);
    let set = FieldSet::from_fields_v1(&json!({"f:data": {"f:mode": {}}})).unwrap();
    let body = &desired().objects[&key()].body;
    assert!(records.rebase(&owner(), &key(), &live(12, "slow", false).json, (set, false), body));
    assert_eq!(drift(&records), Drift::None);
    assert_eq!(records.fold(&gvk(), live(13, "slower", false), Source::Watch), []);
}

#[test]
fn what_was_seen_before_anything_was_declared_is_compared_when_it_is() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    records.fold(&gvk(), live(10, "slow", false), Source::List(records.mark()));
    records.declare(owner(), 0, target(), desired(), mode_ignored());
    assert_eq!(drift(&records), Drift::Unsure, "what was hashed held what is ignored");
    assert!(!is_stale(&records), "a read tells, no dry run is needed");
    records.fold(&gvk(), live(10, "slow", false), Source::Read);
    assert_eq!(drift(&records), Drift::None);
}

#[test]
fn who_declares_an_object_of_a_kind_that_is_not_known_now_has_not_dropped_it() {
    let records = records();
    let own = desired();
    let declared = &own.objects[&key()];
    let unresolved = render::Unresolved {
        place: declared.place.clone(),
        gvk: gvk(),
        namespace: NAMESPACE.to_owned(),
        name: "settings".to_owned(),
        wave: 0,
    };
    let second = OwnerHash::new(&hub(), NAMESPACE, "second");
    let target = TargetKey::new(NAMESPACE, "second", "berlin");
    for (unresolved, drops) in [(vec![unresolved], false), (Vec::new(), true)] {
        let rendered = render::Rendered { unresolved, ..render::Rendered::default() };
        let theirs = Arc::new(Desired::new(rendered, &Interned::default()));
        records.declare(second.clone(), 1, target.clone(), theirs, Arc::default());
        let other = records.other(&key(), &format!("vidra/h1/{NAMESPACE}/second"), &owner(), declared);
        assert_eq!(matches!(other, Other::Yields), drops);
    }
}

/// A Certificate that bears the owner's label, of which cert-manager says this.
fn certificate(version: u64, conditions: &Value) -> Live {
    let labels = json!({owner().label_key(): "", "vidra.dev/hub": "h1"});
    Live::from(json!({
        "metadata": {"name": "web", "namespace": NAMESPACE, "uid": "u1", "resourceVersion": version.to_string(),
            "labels": labels},
        "status": {"conditions": conditions},
    }))
}

#[tokio::test(start_paused = true)]
async fn an_object_is_judged_by_the_rule_of_its_kind_and_a_text_alone_is_news_once_a_minute() {
    let (records, gvk) = (records(), Gvk::new("cert-manager.io", "v1", "Certificate"));
    let key = ObjectKey::new(&gvk, NAMESPACE, "web");
    let says = |version, issuing: (&str, &str), message: &str| {
        let ready = json!({"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": message});
        let conditions = json!([{"type": "Issuing", "status": issuing.0, "reason": issuing.1}, ready]);
        let is_news = !records.fold(&gvk, certificate(version, &conditions), Source::Watch).is_empty();
        (records.health(&owner(), &key).unwrap(), is_news)
    };
    let (asks, issuing) =
        (|text: &str| (HealthStatus::InProgress, Some(text.to_owned())), ("True", "DoesNotExist"));
    assert_eq!(says(1, issuing, "asks the issuer").0, asks("asks the issuer"));
    assert_eq!(says(2, issuing, "asks it again"), (asks("asks it again"), false), "it moves by itself");
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(says(3, issuing, "asks it again"), (asks("asks it again"), false));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(says(4, issuing, "asks it again"), (asks("asks it again"), true), "it was not told");
    assert_eq!(says(5, issuing, "asks it again"), (asks("asks it again"), false));
    assert_eq!(says(6, issuing, "waits"), (asks("waits"), false));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(says(7, issuing, "asks no more"), (asks("asks no more"), true));
    assert_eq!(
        says(8, ("False", "Failed"), "the issuer refuses it").0,
        asks("asks no more"),
        "it may recover"
    );
    tokio::time::advance(Duration::from_secs(30)).await;
    let failed = records.health(&owner(), &key).unwrap();
    assert_eq!(failed, (HealthStatus::Failed, Some("the issuer refuses it".to_owned())));
    let ready = json!([{"type": "Ready", "status": "True", "reason": "Ready"}]);
    records.fold(&gvk, certificate(9, &ready), Source::Watch);
    assert_eq!(records.health(&owner(), &key), Some((HealthStatus::Current, None)));
}

/// Rules of a VidraResource's own for ConfigMaps.
fn rules(current: &str) -> Arc<Rules> {
    let written = json!([{"apiVersion": "v1", "kind": "ConfigMap", "current": current}]);
    Arc::new(own::read(&serde_json::from_value::<Vec<_>>(written).unwrap(), &Rules::default()).0)
}

#[test]
fn an_owner_with_rules_of_its_own_sees_an_object_by_them_and_what_is_recorded_is_judged_when_it_is_listed() {
    let records = applied();
    let health = || records.health(&owner(), &key()).unwrap().0;
    let other = OwnerHash::new(&hub(), NAMESPACE, "other");
    let list = |version| records.fold(&gvk(), live(version, "fast", true), Source::List(records.mark()));
    assert_eq!((health(), records.unjudged(&owner()).len()), (HealthStatus::Current, 0));

    // It tells what it declares with each reconcile, and was judged by the rules for all before.
    records.declare(owner(), 0, target(), desired(), Arc::default());
    records.set_health_rules(&owner(), rules("has(metadata.labels.none)"));
    assert_eq!(health(), HealthStatus::Current, "what was known stands until they have judged");
    assert_eq!(records.unjudged(&owner()), BTreeSet::from([gvk()]));
    assert_eq!(list(10), [target()]);
    assert_eq!((health(), records.unjudged(&owner()).len()), (HealthStatus::InProgress, 0));
    assert_eq!(records.health(&other, &key()).unwrap().0, HealthStatus::Current, "another's view");
    let opens = || records.view(&owner(), &key(), &desired()).unwrap().current;
    assert!(opens(), "it was Current by the rules before: that others say otherwise closes nothing");
    assert_eq!(list(10), [], "no news");
    assert!(opens());
    records.set_health_rules(&owner(), rules("status.("));
    list(10);
    assert!(!opens(), "a rule that cannot be used opens nothing");
    records.set_health_rules(&owner(), rules("has(metadata.labels.none)"));
    list(10);
    assert!(!opens(), "what it has closed, a rule that does not say Current does not open");
    list(11);
    assert!(!opens(), "the object has changed since");

    records.set_health_rules(&owner(), Arc::default());
    assert_eq!((health(), records.unjudged(&owner()).len()), (HealthStatus::Current, 0));
}

#[test]
fn an_owner_that_comes_with_rules_is_not_judged_by_others_until_its_objects_are_listed() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    records.fold(&gvk(), live(10, "fast", true), Source::List(records.mark()));
    records.declare(owner(), 0, target(), desired(), Arc::default());
    records.set_health_rules(&owner(), rules("has(metadata.name)"));
    let (status, note) = records.health(&owner(), &key()).unwrap();
    assert_eq!(status, HealthStatus::InProgress);
    assert!(note.unwrap().starts_with("It has not been judged"));
    // For whom it was told to be well, it is, and opens nothing.
    records.set_previous_health(&owner(), true, BTreeSet::new());
    assert_eq!(records.health(&owner(), &key()).unwrap(), (HealthStatus::Current, None));
    assert!(!records.view(&owner(), &key(), &desired()).unwrap().current);
    records.set_previous_health(&owner(), false, BTreeSet::new());
    assert_eq!(records.fold(&gvk(), live(10, "fast", true), Source::List(records.mark())), [target()]);
    assert_eq!(records.health(&owner(), &key()).unwrap().0, HealthStatus::Current);
}

#[test]
fn what_somebody_has_taken_the_marks_off_is_judged_by_its_owners_rules_all_the_same() {
    let bare = || {
        let mut live = live(12, "fast", true);
        live.json["metadata"]["managedFields"] = json!([]);
        live
    };
    // Of a member that has just been listed too: what knew it before is gone.
    for (records, before) in [(applied(), true), (records(), false)] {
        records.set_health_rules(&owner(), rules("has(metadata.labels.none)"));
        if before {
            records.fold(&gvk(), live(11, "fast", true), Source::Watch);
        }
        records.fold(&gvk(), bare(), Source::Watch);
        assert!(!records.is_applied_for(&key(), &owner()), "nothing proves it");
        assert_eq!(records.health(&owner(), &key()).unwrap().0, HealthStatus::InProgress);
        assert!(!records.opens(&owner(), &key()));
    }
}

#[test]
fn an_object_gives_back_its_values_while_something_proves_that_it_is_its_owners() {
    let rule = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "values": [{"name": "mode", "expression": "data.mode"}]});
    let rules = Arc::new(FeedbackRules::read(&[serde_json::from_value(rule).unwrap()]).0);
    let bytes = ValueBytes::default();
    let records = records().counting(bytes.clone());
    records.set_feedback_rules(&owner(), rules);
    for (version, is_proved) in [(10, false), (11, true), (12, false)] {
        let mut live = live(version, "fast", true);
        if !is_proved {
            live.json["metadata"]["managedFields"] = json!([]);
        }
        let woken = records.fold(&gvk(), live, Source::Watch);
        let given = records.feedback(&owner(), |_| false, true).unwrap();
        assert_eq!(given.objects.len(), usize::from(is_proved), "{version}: {given:?}");
        assert!(!is_proved || woken == [target()], "{version}");
        assert_eq!(bytes.all() > 0, is_proved, "{version}");
        assert!(
            records.kinds_without_feedback(&owner()).is_empty(),
            "{version}: nothing of it is to be read"
        );
    }
    // What is gone, in whatever way, takes no room.
    let uid = live(13, "fast", true).meta_text("uid").to_owned();
    let replace = || {
        let mut other = live(14, "fast", true).json;
        other["metadata"]["uid"] = "u2".into();
        other["metadata"]["labels"] = json!({});
        other["metadata"]["managedFields"] = json!([]);
        drop(records.fold(&gvk(), other.into(), Source::Watch));
    };
    let vanish = || drop(records.fold_gone(&key(), &uid, "20"));
    let clear = || records.clear();
    let drop_kind = || drop(records.drop_kind(&gvk(), |_| false));
    let go: [&dyn Fn(); 4] = [&replace, &vanish, &clear, &drop_kind];
    for (version, go) in [13, 15, 30, 40].into_iter().zip(go) {
        records.fold(&gvk(), live(version, "fast", true), Source::Watch);
        assert!(bytes.all() > 0, "{version}");
        go();
        assert_eq!(bytes.all(), 0, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_judged_of_an_object_by_own_rules_says_nothing_of_another_of_its_name() {
    let written = json!([{"apiVersion": "v1", "kind": "ConfigMap", "failed": "data.mode == 'slow'",
        "current": "has(metadata.name)"}]);
    let rules = own::read(&serde_json::from_value::<Vec<_>>(written).unwrap(), &Rules::default()).0;
    let records = records();
    records.set_health_rules(&owner(), Arc::new(rules));
    let health = || records.health(&owner(), &key()).unwrap().0;
    records.fold(&gvk(), live(11, "slow", true), Source::Watch);
    assert_eq!(health(), HealthStatus::InProgress, "it may recover");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(health(), HealthStatus::Failed);
    records.fold(&gvk(), live(12, "slow", true), Source::Watch);
    assert_eq!(health(), HealthStatus::Failed);
    let mut other = live(13, "slow", true).json;
    other["metadata"]["uid"] = "u2".into();
    records.fold(&gvk(), other.into(), Source::Watch);
    assert_eq!(health(), HealthStatus::InProgress, "so may that one");
}

/// A member converts it, and fields have other names then.
#[test]
fn of_an_object_what_is_shown_in_another_version_than_it_is_declared_in_tells_nothing() {
    let (records, other) = (applied(), Gvk::new("", "v2", "ConfigMap"));
    let converted = |version: u64| {
        let mut json = live(version, "fast", true).json;
        (json["apiVersion"], json["data"]) = ("v2".into(), json!({"speed": "fast"}));
        Live::from(json)
    };
    for source in [Source::Watch, Source::Beside(records.mark()), Source::List(records.mark())] {
        assert_eq!(records.fold(&other, converted(11), source), [], "{source:?}");
        assert_eq!((drift(&records), records.version(&key())), (Drift::None, Some(10)), "{source:?}");
    }
    assert_eq!(records.fold(&gvk(), live(11, "slow", false), Source::Watch), [target()]);
    // Of what nobody declares any version tells.
    records.declare(owner(), 0, target(), Arc::default(), Arc::default());
    records.fold(&other, converted(12), Source::Watch);
    assert_eq!(records.version(&key()), Some(12));
}

#[test]
fn an_event_of_an_object_that_was_replaced_changes_nothing_in_its_successor() {
    let successor = || {
        let mut other = live(13, "fast", true).json;
        other["metadata"]["uid"] = "u2".into();
        Live::from(other)
    };
    for during_the_call in [false, true] {
        let records = applied();
        let mark = records.mark();
        records.begin_call(&key());
        if during_the_call {
            records.fold(&gvk(), live(11, "slow", true), Source::Watch);
        }
        records.fold(&gvk(), successor(), Source::Answer(&owner()));
        records.end_call(&key());
        records.fold(&gvk(), live(11, "slow", true), Source::Watch);
        records.fold(&gvk(), live(11, "slow", true), Source::List(mark));
        assert_eq!((records.version(&key()), drift(&records)), (Some(13), Drift::None), "{during_the_call}");
        // The member was put back to what it was: a list that began later says so.
        let mark = records.mark();
        records.fold(&gvk(), live(5, "slow", true), Source::List(mark));
        assert_eq!(records.version(&key()), Some(5));
    }
}

#[test]
fn a_list_brings_nothing_back_that_ended_while_it_was_read() {
    for in_call in [false, true] {
        let records = applied();
        let list = ListGuard::new(&records);
        let mark = records.mark();
        if in_call {
            records.begin_call(&key());
        }
        records.fold_gone(&key(), "u1", "11");
        records.fold(&gvk(), live(10, "fast", true), Source::List(mark));
        if in_call {
            records.end_call(&key());
        }
        assert_eq!(records.version(&key()), None, "{in_call}");
        // Its label was given back to it.
        records.fold(&gvk(), live(12, "fast", true), Source::List(mark));
        assert_eq!(records.version(&key()), Some(12), "{in_call}");
        drop(list);
        let (_list, mark) = (ListGuard::new(&records), records.mark());
        records.clear();
        records.fold(&gvk(), live(10, "fast", true), Source::List(mark));
        assert_eq!(records.version(&key()), Some(10), "the member was put back, {in_call}");
    }
}
