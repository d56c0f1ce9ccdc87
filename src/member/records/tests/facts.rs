//! Verdicts that end by themselves, and what they are made of beside the object.

use http::{HeaderMap, HeaderValue, header::DATE};
use tokio::time::advance;
use vidra_core::health::facts::KindFacts;

use super::*;

fn widget() -> Gvk {
    Gvk::new("example.com", "v1", "Widget")
}

/// A widget at a generation that the hub applied at 10:00:`applied`, and its controller reported at 10:00:00.
fn one(version: u64, generation: u64, applied: &str, phase: &str) -> Live {
    let manager = format!("vidra/h1/{NAMESPACE}/{RESOURCE}");
    let label = owner().label_key();
    let fields = json!({"f:metadata": {"f:labels": {(format!("f:{label}")): {}}}});
    Live::from(json!({
        "metadata": {
            "name": "one", "namespace": NAMESPACE, "uid": "u1", "resourceVersion": version.to_string(),
            "generation": generation, "creationTimestamp": "2026-01-01T10:00:00Z", "labels": {&label: ""},
            "managedFields": [
                {"manager": manager, "operation": "Apply", "time": format!("2026-01-01T10:00:{applied}Z"),
                    "fieldsV1": fields},
                {"manager": "c", "operation": "Update", "subresource": "status", "time": "2026-01-01T10:00:00Z"},
            ],
        },
        "status": {"phase": phase},
    }))
}

fn silent(version: u64) -> Live {
    let mut live = one(version, 1, "00", "");
    live.json["status"] = json!(null);
    live
}

/// What the records say of it.
fn says(records: &Records) -> (HealthStatus, Option<String>) {
    records.health(&owner(), &ObjectKey::new(&widget(), NAMESPACE, "one")).unwrap()
}

fn ends(records: &Records) -> Option<u64> {
    let key = ObjectKey::new(&widget(), NAMESPACE, "one");
    let mut ends = None;
    records.healths(&owner(), [&key].into_iter(), |_, seen| ends = seen.and_then(|seen| seen.ends));
    ends.map(|ends| ends.as_secs())
}

fn hear(records: &Records, time: &str) {
    let date = HeaderValue::try_from(format!("Thu, 01 Jan 2026 {time} GMT")).unwrap();
    records.facts.hear(&HeaderMap::from_iter([(DATE, date)]));
}

/// Records of a member that serves widgets with a status, at 10:00:05.
fn serving(declared: KindFacts) -> Records {
    let records = records();
    records.facts.set_kinds(Arc::new(Kinds::serving(&widget())));
    records.facts.set_declared(widget(), Arc::new(declared));
    hear(&records, "10:00:05");
    records
}

const STALE: &str = "Its status may be from before the last change";

#[tokio::test(start_paused = true)]
async fn a_status_counts_after_a_change_of_ours_when_it_was_written_again_or_ten_seconds_have_passed() {
    let records = serving(KindFacts::default());
    let fold = |version, generation, phase, source| {
        records.fold(&widget(), one(version, generation, "07", phase), source);
        says(&records).0
    };
    let own = owner();
    let answer = Source::Answer(&own);
    assert_eq!(fold(1, 1, "Up", Source::Watch), HealthStatus::Current);
    assert_eq!(fold(2, 1, "Up", answer), HealthStatus::Current, "the generation is as it was");
    assert_eq!(fold(3, 2, "Up", answer), HealthStatus::InProgress);
    assert_eq!((says(&records).1.as_deref(), ends(&records)), (Some(STALE), Some(10)));
    advance(Duration::from_secs(4)).await;
    assert_eq!(fold(4, 2, "Up", Source::Watch), HealthStatus::InProgress, "it is the same status");
    assert_eq!(ends(&records), Some(6));
    assert_eq!(fold(5, 2, "Busy", Source::Watch), HealthStatus::Current);
    assert_eq!(ends(&records), None);

    assert_eq!(fold(6, 3, "Busy", answer), HealthStatus::InProgress);
    advance(Duration::from_secs(10)).await;
    assert_eq!(says(&records), (HealthStatus::Current, None), "though nothing came");
    assert_eq!(fold(7, 4, "Busy", Source::Watch), HealthStatus::Current, "somebody else's change");
}

#[tokio::test(start_paused = true)]
async fn after_a_start_managed_fields_tell_of_a_change_of_ours_but_not_to_a_target_that_was_ready() {
    for (applied, generation, ready, ends_in) in [
        ("03", 2, false, Some(8)),
        ("03", 2, true, None),
        ("03", 1, false, None),
        ("00", 2, false, None),
        ("06", 2, false, Some(10)),
    ] {
        let records = serving(KindFacts::default());
        records.set_previous_health(&owner(), ready, BTreeSet::new());
        records.fold(&widget(), one(1, generation, applied, "Up"), Source::List(records.mark()));
        assert_eq!(ends(&records), ends_in, "{applied} {generation} {ready}");
        advance(Duration::from_secs(10)).await;
        assert_eq!(says(&records), (HealthStatus::Current, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_status_is_awaited_for_a_minute_of_the_members_own_time_and_by_no_target_that_was_ready() {
    let declared = || KindFacts { declares_conditions: true, ..KindFacts::default() };
    let records = serving(declared());
    records.fold(&widget(), silent(1), Source::Watch);
    assert_eq!((says(&records).0, ends(&records)), (HealthStatus::InProgress, Some(55)));
    records.set_previous_health(&owner(), true, BTreeSet::new());
    assert_eq!((says(&records), ends(&records)), ((HealthStatus::Current, None), None));
    records.set_previous_health(&owner(), false, BTreeSet::new());
    advance(Duration::from_secs(55)).await;
    assert_eq!(says(&records), (HealthStatus::Current, None));

    let records = serving(declared());
    hear(&records, "09:00:00");
    records.fold(&widget(), silent(1), Source::Watch);
    assert_eq!(ends(&records), Some(60), "what is made in the future is made now");
}

#[test]
fn what_says_nothing_is_not_current_before_it_is_known_what_its_crd_declares() {
    let records = records();
    records.facts.set_kinds(Arc::new(Kinds::serving(&widget())));
    records.fold(&widget(), silent(1), Source::Watch);
    assert_eq!(records.unread(), BTreeSet::from([widget()]));
    assert_eq!(says(&records).1.as_deref(), Some("It has not been judged by what its CRD declares yet"));
    let unproven = |records: &Records| {
        let (mut unproven, key) = (None, ObjectKey::new(&widget(), NAMESPACE, "one"));
        records.healths(&owner(), [&key].into_iter(), |_, seen| unproven = seen.unwrap().unproven);
        unproven
    };
    assert_eq!(unproven(&records), None);
    records.set_previous_health(&owner(), true, BTreeSet::new());
    assert_eq!(says(&records).0, HealthStatus::Current, "what is not known yet takes nothing back");
    assert_eq!(unproven(&records), None, "nor is it counted");
    records.set_previous_health(&owner(), false, BTreeSet::new());

    let column = vec!["status".to_owned(), "phase".to_owned()];
    let declared = KindFacts { columns: vec![column], ..KindFacts::default() };
    records.facts.set_declared(widget(), Arc::new(declared));
    records.fold(&widget(), one(1, 1, "00", "Pending"), Source::List(records.mark()));
    records.set_read(&widget());
    let opens = |records: &Records| {
        let key = ObjectKey::new(&widget(), NAMESPACE, "one");
        records.view(&owner(), &key, &desired()).unwrap().current
    };
    assert_eq!((says(&records).0, opens(&records)), (HealthStatus::InProgress, false));
    records.fold(&widget(), one(2, 1, "00", "Odd"), Source::Watch);
    assert_eq!((says(&records).0, unproven(&records)), (HealthStatus::Current, Some(true)));
    records.fold(&widget(), one(3, 1, "00", "Running"), Source::Watch);
    assert_eq!(unproven(&records), Some(false));
}

/// Records that judge widgets by a rule of the owner's own.
fn judging() -> Records {
    let rule = json!([{"apiVersion": "example.com/v1", "kind": "Widget", "failed": "status.phase == 'Down'",
        "current": "status.phase == 'Up'", "message": "status.phase"}]);
    let own = Arc::new(own::read(&serde_json::from_value::<Vec<_>>(rule).unwrap(), &Rules::default()).0);
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\n";
    let scope = |_: &Gvk| Some(Scope::Namespaced);
    let objects = manifest::parse(text).unwrap();
    let rendered = render::render(&objects, &scope, NAMESPACE, &HashKey::new([7; 32])).unwrap();
    let desired = Arc::new(Desired::new(rendered, &Interned::default()));
    records.declare(owner(), 0, target(), desired, Arc::default());
    records.set_health_rules(&owner(), own);
    records
}

#[tokio::test(start_paused = true)]
async fn what_is_called_failed_has_half_a_minute_to_recover_and_then_has_failed_for_good() {
    let records = judging();
    let fold = |version, phase| records.fold(&widget(), one(version, 1, "00", phase), Source::Watch).len();
    let told = |records: &Records| (says(records).0, says(records).1, ends(records));
    let text = |text: &str| Some(text.to_owned());
    fold(1, "Odd");
    assert_eq!(told(&records), (HealthStatus::InProgress, text("Odd"), None));
    assert_eq!(fold(2, "Down"), 1, "nothing else tells when it has failed");
    assert_eq!(
        told(&records),
        (HealthStatus::InProgress, text("Odd"), Some(30)),
        "what recovers is not told"
    );
    advance(Duration::from_secs(20)).await;
    assert_eq!(fold(3, "Down"), 0);
    assert_eq!(told(&records), (HealthStatus::InProgress, text("Odd"), Some(10)));
    assert_eq!(fold(4, "Odd"), 0, "it has recovered");
    assert_eq!(fold(5, "Down"), 1);
    assert_eq!(ends(&records), Some(30), "what begins again has its time again");
    advance(Duration::from_secs(30)).await;
    assert_eq!(told(&records), (HealthStatus::Failed, text("Down"), None), "though nothing came");
    assert_eq!(fold(6, "Down"), 0);
    assert_eq!(told(&records), (HealthStatus::Failed, text("Down"), None));
}

#[tokio::test(start_paused = true)]
async fn a_ready_target_hears_of_no_failure_that_passes_and_a_restart_takes_none_back() {
    let records = judging();
    let key = ObjectKey::new(&widget(), NAMESPACE, "one");
    records.fold(&widget(), one(1, 1, "00", "Down"), Source::Watch);
    assert_eq!((says(&records).0, ends(&records)), (HealthStatus::InProgress, Some(30)));
    records.set_previous_health(&owner(), true, BTreeSet::new());
    assert_eq!((says(&records), ends(&records)), ((HealthStatus::Current, None), Some(30)));
    records.set_previous_health(&owner(), false, BTreeSet::from([key.clone()]));
    assert_eq!((says(&records).0, ends(&records)), (HealthStatus::Failed, None), "its status said so before");
    records.set_previous_health(&owner(), true, BTreeSet::from([key]));
    assert_eq!(says(&records).0, HealthStatus::Failed, "though nothing waits for it");
    records.set_previous_health(&owner(), true, BTreeSet::new());
    advance(Duration::from_secs(30)).await;
    assert_eq!((says(&records).0, ends(&records)), (HealthStatus::Failed, None));
}

#[tokio::test(start_paused = true)]
async fn a_status_from_before_a_change_of_ours_is_old_to_own_rules_too_whatever_comes_in_between() {
    let records = judging();
    records.facts.set_kinds(Arc::new(Kinds::serving(&widget())));
    records.facts.set_declared(widget(), Arc::default());
    let fold = |version, generation, source| {
        let mut live = one(version, generation, "07", "Up").json;
        // By the rules that hold for all it is on its way, and they wait for no status.
        live["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        records.fold(&widget(), live.into(), source);
        (says(&records).0, ends(&records))
    };
    let own = owner();
    assert_eq!(fold(1, 1, Source::Watch), (HealthStatus::Current, None));
    assert_eq!(fold(2, 2, Source::Answer(&own)), (HealthStatus::InProgress, Some(10)));
    advance(Duration::from_secs(1)).await;
    assert_eq!(fold(3, 2, Source::Watch), (HealthStatus::InProgress, Some(9)), "it is the same status");
    assert_eq!(fold(3, 2, Source::Beside(records.mark())), (HealthStatus::InProgress, Some(9)));
    advance(Duration::from_secs(9)).await;
    assert_eq!(fold(4, 2, Source::Watch), (HealthStatus::Current, None), "it was waited for");
}
