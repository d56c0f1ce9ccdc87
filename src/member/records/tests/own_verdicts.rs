//! By how many rules of VidraResources one object is judged, and by whose.

use std::iter;

use super::*;
use crate::config::dynamic_settings::FeedbackBounds;

const UNKNOWN: &str = "Four other health rules of older";

/// The object with the labels of these owners.
fn shared(version: u64, owners: &[OwnerHash]) -> Live {
    let mut live = live(version, "fast", true).json;
    for owner in owners {
        live["metadata"]["labels"][owner.label_key()] = "".into();
    }
    live.into()
}

/// A VidraResource of this age that declares the object.
fn declare(records: &Records, (namespace, name): (&str, &str), since: i64) -> OwnerHash {
    let owner = OwnerHash::new(&hub(), namespace, name);
    records.declare(
        owner.clone(),
        since,
        TargetKey::new(namespace, name, "berlin"),
        desired(),
        Arc::default(),
    );
    owner
}

/// The object with the marks of these owners, and their applies.
fn proved(records: &Records, owners: &[OwnerHash]) -> Value {
    let mut live = shared(10, owners).json;
    let declared = desired().objects[&key()].hash;
    for owner in owners {
        let TargetKey { namespace, resource, .. } = records.target_of(owner).unwrap();
        let mut entry = live["metadata"]["managedFields"][0].clone();
        entry["manager"] = format!("vidra/h1/{namespace}/{resource}").into();
        entry["fieldsV1"]["f:metadata"]["f:labels"] = json!({(format!("f:{}", owner.label_key())): {}});
        live["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
        live["metadata"]["annotations"][owner.label_key()] =
            format!("{namespace}/{resource} 1 {declared}").into();
    }
    live
}

#[test]
fn an_object_is_judged_by_four_different_rules_of_a_namespace_those_of_the_oldest() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let declare = |namespace: &str, name: &str, since, rule: &str| {
        let owner = declare(&records, (namespace, name), since);
        records.set_health_rules(&owner, rules(rule));
        owner
    };
    let differs = |nth: usize| format!("has(metadata.name) && {nth} >= 0");
    // The younger a VidraResource, the smaller its name.
    let own: Vec<_> =
        (0_u8..6).map(|n| declare(NAMESPACE, &format!("r{}", 9 - n), n.into(), &differs(n.into()))).collect();
    let same = declare(NAMESPACE, "r0", 100, &differs(2));
    let other = declare("other", "r0", 200, &differs(5));
    let all: Vec<_> = own.iter().chain([&same, &other]).cloned().collect();
    records.fold(&gvk(), shared(10, &all), Source::List(records.mark()));
    let says = |owner: &OwnerHash| records.health(owner, &key()).unwrap();
    for owner in own[..4].iter().chain([&same, &other]) {
        assert_eq!(says(owner), (HealthStatus::Current, None));
    }
    for owner in &own[4..] {
        let (status, note) = says(owner);
        assert_eq!(
            (status, note.is_some_and(|note| note.starts_with(UNKNOWN))),
            (HealthStatus::Unknown, true)
        );
        assert!(!records.opens(owner, &key()));
        assert!(records.unjudged(owner).is_empty(), "nobody lists for it again");
    }

    // One that is older gives its rule up: the next of them lists once more, and the last does not.
    records.set_health_rules(&own[0], rules(&differs(1)));
    assert_eq!(own[4..].iter().map(|one| records.unjudged(one).len()).collect::<Vec<_>>(), [1, 0]);
    records.fold(&gvk(), shared(10, &all), Source::List(records.mark()));
    assert!(own.iter().all(|one| records.unjudged(one).is_empty()));
    let judged = own[..5].iter().chain(iter::once(&same));
    assert!(judged.map(says).all(|(status, _)| status == HealthStatus::Current));
    assert_eq!(says(&own[5]).0, HealthStatus::Unknown);
}

#[test]
fn a_rule_that_is_not_asked_takes_ready_from_no_target() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let owners: Vec<_> = (0_u8..5)
        .map(|nth| {
            let owner = declare(&records, (NAMESPACE, &format!("r{nth}")), nth.into());
            records.set_health_rules(&owner, rules(&format!("{nth} >= 0")));
            owner
        })
        .collect();
    records.set_previous_health(&owners[4], true, BTreeSet::new());
    records.fold(&gvk(), shared(10, &owners), Source::List(records.mark()));
    assert_eq!(records.health(&owners[4], &key()), Some((HealthStatus::Current, None)));
    // That it is being deleted is seen without a rule.
    let mut ends = shared(11, &owners).json;
    ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    records.fold(&gvk(), ends.into(), Source::Watch);
    assert_eq!(records.health(&owners[4], &key()).unwrap().0, HealthStatus::Terminating);
}

#[test]
fn the_values_that_a_namespace_asks_of_an_object_share_one_bound_and_equal_ones_cost_once() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let declare = |namespace: &str, name: &str, since, expression: &str| {
        let owner = declare(&records, (namespace, name), since);
        let rule = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "values": [{"name": "mode", "expression": expression}]});
        let (read, wrong) = FeedbackRules::read(&[serde_json::from_value(rule).unwrap()]);
        assert_eq!(wrong, Vec::<String>::new());
        records.set_feedback_rules(&owner, Arc::new(read));
        owner
    };
    let dear = |nth: i64| format!("data.text.contains('y') ? 'yes' : 'no{nth}'");
    let own = [0, 1, 2, 3].map(|nth| declare(NAMESPACE, &format!("r{}", 9 - nth), nth, &dear(nth)));
    let same = declare(NAMESPACE, "r0", 100, &dear(0));
    let other = declare("other", "r0", 200, &dear(3));
    let all: Vec<_> = own.iter().chain([&same, &other]).cloned().collect();
    let mut live = proved(&records, &all);
    live["data"]["text"] = "x".repeat(500_000).into();
    records.fold(&gvk(), live.clone().into(), Source::Watch);
    let gives = |owner: &OwnerHash| {
        let given = records.feedback(owner, |_| false, true).unwrap();
        (given.objects.iter().map(|one| one.values.len()).sum::<usize>(), given.left_out)
    };
    assert_eq!(all.iter().map(gives).collect::<Vec<_>>(), [(1, 0), (1, 0), (0, 1), (0, 1), (1, 0), (1, 0)]);
    let unread = || all.iter().map(|one| records.kinds_without_feedback(one).len()).collect::<Vec<_>>();
    assert_eq!(unread(), [0; 6]);

    // The oldest ask for nothing any more: there is room for the others, who list for it once.
    for owner in [&own[0], &own[1], &same] {
        records.set_feedback_rules(owner, Arc::default());
    }
    assert_eq!(unread(), [0, 0, 1, 1, 0, 0]);
    records.fold(&gvk(), live.into(), Source::Beside(records.mark()));
    assert_eq!(all.iter().map(gives).collect::<Vec<_>>(), [(0, 0), (0, 0), (1, 0), (1, 0), (0, 0), (1, 0)]);
    assert_eq!(unread(), [0; 6]);

    // What nobody can see any more gives what it gave: whoever writes it knows since when.
    records.clear();
    assert!(records.feedback(&other, |_| false, false).is_none());
    assert_eq!(gives(&other), (0, 0), "it is gone");
}

#[test]
fn each_owner_of_an_object_has_the_room_for_values_that_it_knows_of() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let values = ["a", "b", "c"].map(|name| json!({"name": name, "expression": "data.text"}));
    let rule = json!({"apiVersion": "v1", "kind": "ConfigMap", "values": values});
    let rules = Arc::new(FeedbackRules::read(&[serde_json::from_value(rule).unwrap()]).0);
    // The oldest has not reconciled since the setting changed.
    let owners = [("older", 2048), ("younger", 16_384), ("youngest", 1024)].map(|(name, target)| {
        let owner =
            declare(&records, (NAMESPACE, name), i64::from(name != "older") + i64::from(name == "youngest"));
        let bounds = FeedbackBounds { target, ..FeedbackBounds::default() };
        let mut inner = records.inner.lock();
        inner
            .owners
            .get_mut(&owner)
            .unwrap()
            .set_feedback_rules(rules.clone(), (bounds, &records.value_bytes));
        owner
    });
    let mut live = proved(&records, &owners);
    live["data"]["text"] = "x".repeat(900).into();
    records.fold(&gvk(), live.into(), Source::Watch);
    let gives = |owner: &OwnerHash| {
        let given = records.feedback(owner, |_| false, true).unwrap();
        (given.objects.iter().map(|one| one.values.len()).sum::<usize>(), given.left_out)
    };
    assert_eq!(owners.each_ref().map(gives), [(2, 1), (3, 0), (1, 2)]);
}

#[test]
fn a_rule_that_has_no_room_for_its_patterns_is_not_the_same_as_one_that_has() {
    let rule = |kind: &str| {
        let current =
            ["s", "e", "t", "i"].map(|letter| format!("metadata.name.matches('{letter}')")).join(" && ");
        json!({"apiVersion": "v1", "kind": kind, "current": current})
    };
    let read = |written: Vec<Value>| {
        let written: Vec<_> = written.into_iter().map(|rule| serde_json::from_value(rule).unwrap()).collect();
        Arc::new(own::read(&written, &Rules::default()).0)
    };
    // There is room for ten.
    let room: Vec<_> = (0..10).map(|nth| rule(&format!("Other{nth}"))).collect();
    let broken = read(room.iter().cloned().chain([rule("ConfigMap")]).collect());
    let well = read([rule("ConfigMap")].into_iter().chain(room).collect());
    assert_ne!(broken.digest(), well.digest());
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let owners = [("older", &broken), ("younger", &well)].map(|(name, rules)| {
        let owner = declare(&records, (NAMESPACE, name), i64::from(name == "younger"));
        records.set_health_rules(&owner, rules.clone());
        owner
    });
    records.fold(&gvk(), shared(10, &owners), Source::List(records.mark()));
    let says = owners.each_ref().map(|owner| records.health(owner, &key()).unwrap().0);
    assert_eq!(says, [HealthStatus::Unknown, HealthStatus::Current]);
    // The same rules in the order in which there is room.
    records.set_health_rules(&owners[0], well);
    assert_eq!(records.unjudged(&owners[0]).len(), 1);
    records.fold(&gvk(), shared(11, &owners), Source::Watch);
    assert_eq!(records.health(&owners[0], &key()).unwrap().0, HealthStatus::Current);
}

#[test]
fn the_steps_that_own_rules_and_feedback_take_are_told_once() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let owners = [0, 1, 2].map(|nth: u8| declare(&records, (NAMESPACE, &format!("r{nth}")), nth.into()));
    let mut version = 10;
    let mut steps = || {
        version += 1;
        records.fold(&gvk(), shared(version, &owners), Source::Watch);
        let taken = records.take_steps();
        assert_eq!(records.take_steps(), 0, "they were told");
        taken
    };
    assert_eq!(steps(), 0, "what holds for all is not theirs");
    let dear = "[1, 2, 3, 4].all(x, x > 0)";
    records.set_health_rules(&owners[0], rules(dear));
    let one = steps();
    assert!(one > 4, "{one}");
    records.set_health_rules(&owners[1], rules(dear));
    assert_eq!(steps(), one, "an equal rule is asked once");
    records.set_health_rules(&owners[2], rules("[1, 2, 3, 4, 5].all(x, x > 0)"));
    assert!(steps() > 2 * one);
}
