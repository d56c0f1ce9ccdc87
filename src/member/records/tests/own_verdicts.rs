//! By how many rules of VidraResources one object is judged, and by whose.

use std::iter;

use super::*;

const UNKNOWN: &str = "Four other health rules of older";

/// The object with the labels of these owners.
fn shared(version: u64, owners: &[OwnerHash]) -> Live {
    let mut live = live(version, "fast", true).json;
    for owner in owners {
        live["metadata"]["labels"][owner.label_key()] = "".into();
    }
    live.into()
}

#[test]
fn an_object_is_judged_by_four_different_rules_of_a_namespace_those_of_the_oldest() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let declare = |namespace: &str, name: &str, since, rule: &str| {
        let owner = OwnerHash::new(&hub(), namespace, name);
        let target = TargetKey::new(namespace, name, "berlin");
        records.declare(owner.clone(), since, target, desired(), Arc::default());
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

    // One that is older gives its rule up.
    records.set_health_rules(&own[0], rules(&differs(1)));
    records.fold(&gvk(), shared(11, &all), Source::Watch);
    let judged = own[..5].iter().chain(iter::once(&same));
    assert!(judged.map(says).all(|(status, _)| status == HealthStatus::Current));
    assert_eq!(says(&own[5]).0, HealthStatus::Unknown);
}

#[test]
fn a_rule_that_is_not_asked_takes_ready_from_no_target() {
    let records = Records::new(hub(), secrecy(), Arc::default(), Arc::default());
    let owners: Vec<_> = (0_u8..5)
        .map(|nth| {
            let (owner, name) = (OwnerHash::new(&hub(), NAMESPACE, &format!("r{nth}")), format!("r{nth}"));
            let target = TargetKey::new(NAMESPACE, &name, "berlin");
            records.declare(owner.clone(), nth.into(), target, desired(), Arc::default());
            records.set_health_rules(&owner, rules(&format!("{nth} >= 0")));
            owner
        })
        .collect();
    records.set_told(&owners[4], true, BTreeSet::new());
    records.fold(&gvk(), shared(10, &owners), Source::List(records.mark()));
    assert_eq!(records.health(&owners[4], &key()), Some((HealthStatus::Current, None)));
}
