//! Fields that others hold.

use vidra_api::FieldPolicy;

use super::*;

/// What follows an unforced apply to an object of ours that was refused for a field, once `live` is read.
fn contest(world: &World, live: Value, answers: Vec<Answer<&'static str>>) -> Vec<String> {
    let mut all = vec![field_conflict(), there(live)];
    all.extend(answers);
    world.play(&apply(Why::Drifted, false), all).split_off(2)
}

const SHARED: &str = r#"end Refused(Shared { holder: "vidra/h1/team/other", what: Fields("refused") })"#;

#[test]
fn fields_of_people_and_controllers_are_taken_back_unless_they_are_not_to_be() {
    let mut world = world();
    let manager = world.owner.manager.clone();
    let live = world.live("u1", &[(&manager, &[]), ("somebody", &["a"])]);
    let unknown = world.live("u1", &[(&manager, &[])]);
    assert_eq!(contest(&world, live.clone(), vec![]), ["apply to u1 at 5 forced"]);
    world.owner.conflicts.fields = FieldPolicy::Fail;
    let refused = |holders: &str| {
        format!("end Refused(FieldConflict {{ holders: [{holders}], contested: [\".data.a\"] }})")
    };
    assert_eq!(contest(&world, live, vec![]), [refused(r#"("somebody", [".data.a"])"#)]);
    assert_eq!(contest(&world, unknown, vec![]), [refused("")]);
}

#[test]
fn an_object_that_was_replaced_is_looked_at_only_where_nobody_had_seen_it() {
    let world = world();
    let said = contest(&world, world.ours("u2"), vec![]);
    assert_eq!(said, [r#"Forget("u1"); end Retry(Replaced)"#]);
    let answers = [conflict(), field_conflict(), there(world.foreign("u2")), there(world.foreign("u2"))];
    let said = world.play(&apply(Why::Missing, false), answers);
    assert_eq!(said[3..], [r#"Forget("u1"); read"#, "end Refused(Exists)"]);
}

#[test]
fn fields_of_another_vidra_resource_are_its_own_unless_it_yields() {
    let base = world();
    let manager = base.owner.manager.clone();
    let both = base.live("u1", &[(&manager, &[]), (OTHER, &["a"])]);
    let declared = |value: &str| Some(Arc::new(json!({"data": {"a": value}})));
    let differs = |declared, is_near, is_older| Other::Differs { declared, is_near, is_older };
    let mut would = both.clone();
    would["data"]["a"] = "2".into();
    let taken = "apply to u1 at 5 forced";
    // What it declares, whether the hub has a target of that name, what follows.
    let rows = [
        (Other::Unknown, true, SHARED),
        (Other::Unknown, false, taken),
        (Other::Yields, true, taken),
        (differs(declared("3"), true, false), true, taken),
        (differs(declared("3"), true, true), true, SHARED),
        (differs(declared("3"), false, false), true, SHARED),
        (differs(None, true, true), true, SHARED),
    ];
    for (other, is_known, then) in rows {
        let mut world = base.clone();
        world.known.owners.extend(is_known.then(|| OTHER.to_owned()));
        world.known.others.insert(OTHER.to_owned(), other.clone());
        let said = contest(&world, both.clone(), vec![Answer::DryRun(would.clone())]);
        assert_eq!(said, ["dry run to u1 at 5 forced", then], "{other:?} {is_known}");
    }
}

/// Nothing on the object says that it was ever applied: a restore of the member has taken that off.
#[test]
fn fields_of_a_resource_that_is_gone_are_free_for_whoever_applied_the_object_or_has_it_in_the_inventory() {
    let mut world = world();
    let theirs = world.live("u1", &[(OTHER, &["a"])]);
    world.known.others.insert(OTHER.to_owned(), Other::Unknown);
    let mut would = theirs.clone();
    would["data"]["a"] = "2".into();
    for (is_in_inventory, then) in [(true, "apply to u1 at 5 forced"), (false, SHARED)] {
        world.known.is_in_inventory = is_in_inventory;
        let said = contest(&world, theirs.clone(), vec![Answer::DryRun(would.clone())]);
        assert_eq!(said, ["dry run to u1 at 5 forced", then], "{is_in_inventory}");
    }
}

#[test]
fn one_that_was_there_first_counts_whoever_holds_the_fields_now() {
    let base = world();
    let manager = base.owner.manager.clone();
    let edited = base.live("u1", &[(&manager, &[]), (OTHER, &[]), ("somebody", &["a"])]);
    for (value, then) in [("3", SHARED), ("1", "apply to u1 at 5 forced")] {
        let mut world = base.clone();
        let declared = Some(Arc::new(json!({"data": {"a": value}})));
        let other = Other::Differs { declared, is_near: true, is_older: true };
        world.known.others.insert(OTHER.to_owned(), other);
        assert_eq!(contest(&world, edited.clone(), vec![]), [then], "it declares {value}");
    }
}

#[test]
fn one_value_in_two_spellings_is_owned_by_both() {
    let world = world();
    let manager = world.owner.manager.clone();
    let both = world.live("u1", &[(&manager, &[]), (OTHER, &["a"])]);
    let equal = || Answer::DryRun(world.live("u1", &[(&manager, &["a"]), (OTHER, &["a"])]));
    let said = contest(&world, both.clone(), vec![equal(), applied("u1")]);
    let applied = r#"end Applied { uid: "u1", corrected: true }"#;
    assert_eq!(said, ["dry run to u1 at 5 forced", "apply to u1 at 5", applied]);
    let mut strict = world.clone();
    strict.known.owners.push(OTHER.to_owned());
    let said = contest(&strict, both, vec![equal(), field_conflict()]);
    assert_eq!(said, ["dry run to u1 at 5 forced", "apply to u1 at 5", SHARED], "the server says otherwise");
}

#[test]
fn who_joins_an_object_takes_nothing_that_was_released_meanwhile() {
    let world = world();
    let joins = || vec![conflict(), there(world.others("u2")), Answer::Ingested, field_conflict()];
    let mut released = joins();
    released.push(there(world.foreign("u2")));
    let said = world.play(&Action::Create, released);
    assert_eq!(said[3..], ["apply to u2 at 5", "read", "end Retry(Released)"]);
    let mut gone = joins();
    gone.push(absent());
    assert_eq!(world.play(&Action::Create, gone).last().unwrap(), r#"Forget("u2"); end Retry(Replaced)"#);
}

#[test]
fn an_apply_that_would_change_what_another_keeps_is_refused_without_a_conflict() {
    let mut world = world();
    world.known.is_disputed = true;
    let manager = world.owner.manager.clone();
    let both = world.live("u1", &[(&manager, &["a"]), (OTHER, &["a"])]);
    let mut would = both.clone();
    would["data"]["a"] = "2".into();
    let changed = || apply(Why::Changed, false);
    let refused = r#"end Refused(Shared { holder: "vidra/h1/team/other", what: Values([".data.a"]) })"#;
    world.known.owners.push(OTHER.to_owned());
    let said = world.play(&changed(), [there(both.clone()), Answer::DryRun(would.clone())]);
    assert_eq!(said, ["read", "dry run to u1 at 5", refused]);
    let said = world.play(&changed(), [there(both.clone()), Answer::DryRun(both.clone())]);
    assert_eq!(said, ["read", "dry run to u1 at 5", "apply to u1 at -"]);
    let said = world.play(&changed(), [there(both.clone()), field_conflict()]);
    assert_eq!(said, ["read", "dry run to u1 at 5", "read"], "its fields are in conflict");
    let said = world.play(&changed(), [there(world.ours("u2"))]);
    assert_eq!(said, ["read", r#"Forget("u1"); end Retry(Replaced)"#]);
    let joins = [
        conflict(),
        there(world.others("u1")),
        Answer::Ingested,
        there(both.clone()),
        Answer::DryRun(both.clone()),
    ];
    let said = world.play(&Action::Create, joins);
    assert_eq!(said[3..], ["read", "dry run to u1 at 5", "apply to u1 at 5"], "as it was read to be joined");
    world.known.others.insert(OTHER.to_owned(), Other::Yields);
    let said = world.play(&changed(), [there(both), Answer::DryRun(would)]);
    assert_eq!(said, ["read", "dry run to u1 at 5", "apply to u1 at -"], "it agrees by now");
}
