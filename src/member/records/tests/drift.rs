//! What is kept of drift, for how long, and what is kept of objects that are not seen any more.

use std::sync::atomic::Ordering;

use vidra_api::ChangeKind;

use super::{super::strays::STRAYS_MOST, *};

fn kept_bytes(records: &Records) -> usize {
    records.views.evidence.room.load(Ordering::Relaxed)
}

fn found(records: &Records) -> Option<(ChangeKind, Vec<String>)> {
    let evidence = records.found(&owner(), &key(), &"u1".into())?;
    Some((evidence.change, evidence.fields.into_iter().map(|field| field.path).collect()))
}

/// An object without the hub's label, as a read shows it.
fn unlabelled(version: u64, mode: &str, owned: bool) -> Live {
    let mut json = live(version, mode, owned).json;
    json["metadata"]["labels"].as_object_mut().unwrap().remove("vidra.dev/hub");
    json.into()
}

#[test]
fn evidence_is_kept_while_the_drift_lasts_and_no_longer() {
    let records = applied();
    assert_eq!((found(&records), kept_bytes(&records)), (None, 0));
    records.fold(&gvk(), live(11, "slow", false), Source::Watch);
    assert_eq!(found(&records), Some((ChangeKind::Modified, vec![".data.mode".into()])));
    assert!(kept_bytes(&records) > 0);
    assert_eq!(
        records.fold(&gvk(), live(12, "slower", false), Source::Watch),
        [target()],
        "it is told again"
    );
    // Put back by hand.
    assert_eq!(records.fold(&gvk(), live(13, "fast", false), Source::Watch), [target()]);
    assert_eq!((found(&records), kept_bytes(&records)), (None, 0));
}

#[test]
fn lost_marks_are_told_also_of_what_is_declared_otherwise_by_now() {
    let records = applied();
    records.declare(owner(), 0, target(), desired_as("slow"), Arc::default());
    assert_eq!(found(&records), None, "other values are about to come");
    let mut lost = live(11, "fast", true).json;
    lost["metadata"]["managedFields"] = json!([]);
    assert_eq!(records.fold(&gvk(), lost.into(), Source::Watch), [target()]);
    assert_eq!(found(&records), Some((ChangeKind::OwnershipLost, vec![])));
}

#[test]
fn an_own_answer_tells_once_what_it_undid() {
    let records = applied();
    records.fold(&gvk(), live(11, "slow", false), Source::Watch);
    records.fold(&gvk(), live(12, "fast", true), Source::Answer(&owner()));
    let correction = records.take_correction(&owner(), &key()).unwrap();
    assert_eq!((correction.change, &*correction.fields[0].path), (ChangeKind::Modified, ".data.mode"));
    assert!(records.take_correction(&owner(), &key()).is_none());
    records.fold(&gvk(), live(13, "fast", true), Source::Answer(&owner()));
    assert!(records.take_correction(&owner(), &key()).is_none(), "nothing was otherwise");
    // Made again under another uid, and correction under its own.
    for (uid, change) in [("u2", ChangeKind::Missing), ("u1", ChangeKind::OwnershipLost)] {
        let records = applied();
        records.fold_gone(&key(), "u1", "20");
        let mut made = live(21, "fast", true).json;
        made["metadata"]["uid"] = uid.into();
        records.fold(&gvk(), made.into(), Source::Answer(&owner()));
        assert_eq!(records.take_correction(&owner(), &key()).unwrap().change, change);
    }
}

#[test]
fn an_object_that_was_found_hidden_and_went_while_a_call_was_under_way_is_asked_for_again() {
    let is_told = |records: &Records| records.vanished(&owner(), &key(), &"u1".into()).told;
    let records = applied();
    records.fold_gone(&key(), "u1", "11");
    // The read is under way while the label comes back and the object goes: the last of both waits for the answer.
    records.begin_call(&key());
    records.fold(&gvk(), live(13, "fast", true), Source::Watch);
    assert_eq!(records.fold_gone(&key(), "u1", "14"), []);
    records.note_hidden(&gvk(), unlabelled(12, "fast", true));
    assert_eq!(records.end_call(&key()), [target()]);
    assert!(!is_told(&records));
    // The event by which it lost its label, late, tells nothing new.
    records.note_hidden(&gvk(), unlabelled(15, "fast", true));
    assert_eq!(records.fold_gone(&key(), "u1", "15"), []);
    assert!(is_told(&records));
}

/// Another VidraResource that applies the object reads it.
#[test]
fn an_object_without_the_hubs_label_is_no_match_whoever_has_read_it() {
    // Applied by this process, and by the one before.
    for records in [applied(), records()] {
        records.fold_gone(&key(), "u1", "11");
        records.note_hidden(&gvk(), unlabelled(11, "fast", true));
        assert_eq!(found(&records).unwrap().0, ChangeKind::OwnershipLost);
        records.fold(&gvk(), unlabelled(11, "fast", true), Source::Read);
        assert_eq!(drift(&records), Drift::Differs);
        assert_eq!(found(&records).unwrap().0, ChangeKind::OwnershipLost);
        records.fold(&gvk(), live(12, "fast", true), Source::Watch);
        assert_eq!((drift(&records), found(&records)), (Drift::None, None));
    }
}

#[test]
fn what_has_the_name_of_an_object_that_is_not_seen_tells_what_became_of_that() {
    let told = |records: &Records| (records.is_untold(&key(), &"u1".into()), found(records).unwrap().0);
    let present = |records: &Records, uid: &str| {
        let mut json = unlabelled(12, "fast", true).json;
        json["metadata"]["uid"] = uid.into();
        records.note_present(&key(), &json.into());
    };
    let records = applied();
    present(&records, "u1");
    assert_eq!((records.is_untold(&key(), &"u1".into()), found(&records)), (false, None), "it is seen");
    records.fold_gone(&key(), "u1", "11");
    assert_eq!(told(&records), (true, ChangeKind::Missing));
    assert!(!records.is_untold(&key(), &"u2".into()));
    present(&records, "u1");
    assert_eq!(told(&records), (false, ChangeKind::OwnershipLost));
    // Seen again, with its end.
    assert_eq!(records.fold_gone(&key(), "u1", "14"), [target()]);
    assert_eq!(told(&records), (true, ChangeKind::Missing));
    present(&records, "u2");
    assert_eq!(told(&records), (false, ChangeKind::Missing));
    // It is about what is known alone: of somebody else's nothing is kept.
    let fresh = self::records();
    present(&fresh, "u2");
    assert_eq!(fresh.inner.lock().tombstones.len(), 0);
}

#[test]
fn what_a_read_told_of_an_object_that_is_not_seen_is_kept_until_something_is_seen() {
    let told = |records: &Records| records.vanished(&owner(), &key(), &"u1".into());
    let hash = Some(desired().objects[&key()].hash);
    let records = applied();
    records.fold_gone(&key(), "u1", "11");
    assert_eq!(told(&records), plan::Vanished { applied: hash, ..plan::Vanished::default() });
    records.note_gone(&key(), "u1");
    assert_eq!(told(&records), plan::Vanished { applied: hash, told: true, hidden: false });
    assert_eq!(found(&records), Some((ChangeKind::Missing, vec![])));
    // A list shows nothing new of it.
    records.end_list(&gvk(), "", &BTreeSet::new(), (records.mark(), 0));
    assert!(told(&records).told);
    records.ask_again();
    assert!(!told(&records).told, "contact was lost");

    // It is there, hidden, and compared with what was known; seen again it is compared too.
    records.note_hidden(&gvk(), unlabelled(12, "fast", true));
    let label = ".metadata.labels.vidra.dev/hub".to_owned();
    assert_eq!(found(&records), Some((ChangeKind::OwnershipLost, vec![label])));
    records.note_hidden(&gvk(), unlabelled(13, "slow", false));
    assert_eq!(found(&records), Some((ChangeKind::Modified, vec![".data.mode".into()])));
    records.fold(&gvk(), live(14, "slow", false), Source::Watch);
    assert_eq!(drift(&records), Drift::Differs, "without a call");
    assert_eq!(told(&records), plan::Vanished::default());
    records.fold(&gvk(), live(15, "fast", false), Source::Watch);
    assert_eq!(drift(&records), Drift::None);

    // After a restart nothing is known, and another uid says nothing of this one.
    let fresh = self::records();
    assert_eq!(told(&fresh), plan::Vanished::default());
    fresh.note_gone(&key(), "u0");
    assert_eq!(told(&fresh), plan::Vanished::default());
    fresh.note_gone(&key(), "u1");
    assert!(told(&fresh).told);
}

#[test]
fn nothing_is_kept_of_objects_that_nobody_wants() {
    let kept = |records: &Records| {
        let inner = records.inner.lock();
        inner.tombstones.len() + inner.strays.len() + inner.corrections.len()
    };
    let records = applied();
    records.fold_gone(&key(), "u1", "11");
    assert_eq!(kept(&records), 1);
    records.declare(owner(), 0, target(), Arc::default(), Arc::default());
    assert_eq!(kept(&records), 0);
    let records = applied();
    records.forget(&owner());
    records.fold_gone(&key(), "u1", "11");
    assert_eq!(kept(&records), 0);
}

#[test]
fn the_end_of_what_others_could_not_join_is_told_to_all_who_declare_it() {
    let (bank, of_bank) =
        (OwnerHash::new(&hub(), NAMESPACE, "bank"), TargetKey::new(NAMESPACE, "bank", "berlin"));
    type Change = fn(&mut Value);
    let changes: [(Change, bool); 4] = [
        (|_| (), false),
        (|json| json["metadata"]["managedFields"] = json!([]), true),
        (|json| json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"), true),
        (|json| json["metadata"]["ownerReferences"] = json!([{"controller": true}]), true),
    ];
    for (change, is_told) in changes {
        let records = applied();
        records.declare(bank.clone(), 0, of_bank.clone(), desired(), Arc::default());
        let mut now = live(11, "fast", true).json;
        change(&mut now);
        records.fold(&gvk(), now.into(), Source::Watch);
        let told: BTreeSet<_> = records.fold_gone(&key(), "u1", "12").into_iter().collect();
        assert!(told.contains(&target()));
        assert_eq!(told.contains(&of_bank), is_told, "{told:?}");
    }
}

#[test]
fn an_object_with_labels_alone_is_a_stray_until_it_goes_or_is_proved_or_a_controller_has_it() {
    let records = records();
    let copy = |version: u64, change: &dyn Fn(&mut Value)| {
        let mut json = live(version, "fast", true).json;
        (json["metadata"]["name"], json["metadata"]["uid"]) = (json!("copy"), json!("u9"));
        json["metadata"]["managedFields"] = json!([]);
        change(&mut json);
        Live::from(json)
    };
    let strays = |records: &Records| records.strays(&owner()).len();
    records.fold(&gvk(), live(10, "fast", true), Source::Answer(&owner()));
    assert_eq!(strays(&records), 0);
    records.fold(&gvk(), copy(11, &|_| ()), Source::Watch);
    assert_eq!(strays(&records), 1);
    let controlled = |json: &mut Value| json["metadata"]["ownerReferences"] = json!([{"controller": true}]);
    records.fold(&gvk(), copy(12, &controlled), Source::Watch);
    assert_eq!(strays(&records), 0);
    records.fold(&gvk(), copy(13, &|_| ()), Source::Watch);
    records.fold_gone(&ObjectKey::new(&gvk(), NAMESPACE, "copy"), "u9", "14");
    assert_eq!(strays(&records), 0);
    records.fold(&gvk(), copy(15, &|_| ()), Source::Watch);
    assert_eq!(records.drop_kind(&gvk(), |_| false), [target()], "it has told of the stray");
    assert_eq!(strays(&records), 0);
}

#[test]
fn labels_of_owners_that_nobody_knows_cost_a_few_each_and_hide_no_owner() {
    let records = records();
    let hostile = |number: usize| {
        let mut json = live(10, "fast", true).json;
        (json["metadata"]["name"], json["metadata"]["uid"]) =
            (json!(format!("x{number}")), json!(format!("x{number}")));
        json["metadata"]["managedFields"] = json!([]);
        for owner in 0..1000 {
            let label = format!("owner.vidra.dev/{:032x}", number * 1000 + owner);
            json["metadata"]["labels"][label] = json!("");
        }
        Live::from(json)
    };
    for number in 0..STRAYS_MOST + 10 {
        records.fold(&gvk(), hostile(number), Source::Watch);
    }
    let inner = records.inner.lock();
    assert!(inner.strays.len() <= 16 * STRAYS_MOST + 1, "{}", inner.strays.len());
    let views = inner.objects.values().map(|record| record.views.len()).max();
    assert!(views <= Some(17), "{views:?}");
    drop(inner);
    assert_eq!(records.strays(&owner()).len(), STRAYS_MOST, "the owner that is known is among them");
    let (stray, declared) =
        (ObjectKey::new(&gvk(), NAMESPACE, "x1"), ObjectKey::new(&gvk(), NAMESPACE, "settings"));
    assert!(records.is_stray_of(&target(), &stray) && !records.is_stray_of(&target(), &declared));
}

#[test]
fn beyond_what_a_member_may_have_only_declared_objects_are_recorded() {
    let mut records = records();
    records.most = 10;
    for number in 0..100 {
        let mut json = live(10, "fast", true).json;
        json["metadata"]["name"] = json!(format!("x{number}"));
        records.fold(&gvk(), Live::from(json), Source::Watch);
    }
    assert_eq!(records.len(), 10);
    let takes = |number: usize| records.takes(&ObjectKey::new(&gvk(), NAMESPACE, &format!("x{number}")));
    assert_eq!((takes(9), takes(10)), (true, false), "a list that shows more than has room misses nothing");
    records.fold(&gvk(), live(10, "fast", true), Source::Watch);
    assert_eq!(records.len(), 11, "a target declares it");
}

#[test]
fn beyond_what_a_member_may_take_drift_is_told_without_its_fields() {
    let records = applied();
    records.views.evidence.room.store(8 << 20, Ordering::Relaxed);
    records.fold(&gvk(), live(11, "slow", false), Source::Watch);
    assert_eq!(found(&records), Some((ChangeKind::Modified, vec![])));
}
