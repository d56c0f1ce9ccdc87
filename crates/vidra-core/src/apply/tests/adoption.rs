//! Objects that others made, and those of another hub.

use vidra_api::{ExistingPolicy, FieldPolicy};

use super::*;

/// What follows a create that finds `live`.
fn met(world: &World, live: Value, answers: Vec<Answer<&'static str>>) -> Vec<String> {
    let mut all = vec![conflict(), there(live)];
    all.extend(answers);
    world.play(&Action::Create, all).split_off(2)
}

fn adopting(existing: ExistingPolicy, fields: FieldPolicy) -> World {
    let mut world = world();
    (world.owner.conflicts.existing, world.owner.conflicts.fields) = (existing, fields);
    world
}

const ADOPTED: &str = r#"end Adopted { uid: "u2", other_versions: [] }"#;
const HELD: &str =
    r#"end Refused(FieldConflict { holders: [("somebody", [".data.a"])], contested: [".data.a"] })"#;

#[test]
fn a_foreign_object_is_adopted_as_the_policies_say() {
    let foreign = world().foreign("u2");
    let mut would = world().ours("u2");
    would["data"]["a"] = "2".into();
    type Case = (ExistingPolicy, FieldPolicy, Vec<Answer<&'static str>>, &'static [&'static str]);
    use {ExistingPolicy as Existing, FieldPolicy as Fields};
    let cases: Vec<Case> = vec![
        (Existing::Fail, Fields::Force, vec![], &["end Refused(Exists)"]),
        (Existing::Adopt, Fields::Force, vec![applied("u2")], &["apply to u2 at 5 forced", ADOPTED]),
        (Existing::Adopt, Fields::Fail, vec![field_conflict()], &["dry run to u2 at 5", HELD]),
        (
            Existing::Adopt,
            Fields::Fail,
            vec![Answer::DryRun(Value::Null), field_conflict()],
            &["dry run to u2 at 5", "apply to u2 at 5", HELD],
        ),
        (
            Existing::AdoptIfEqual,
            Fields::Force,
            vec![Answer::DryRun(would)],
            &["dry run to u2 at 5 forced", r#"end Refused(Differs([".data.a"]))"#],
        ),
        (
            Existing::AdoptIfEqual,
            Fields::Force,
            vec![Answer::DryRun(world().ours("u2")), applied("u2")],
            &["dry run to u2 at 5 forced", "apply to u2 at 5 forced", ADOPTED],
        ),
    ];
    for (existing, fields, answers, expected) in cases {
        let world = adopting(existing, fields);
        assert_eq!(met(&world, foreign.clone(), answers), expected, "{existing:?} {fields:?}");
    }
}

#[test]
fn what_an_earlier_applier_owns_is_ours_before_the_apply() {
    let world = adopting(ExistingPolicy::Adopt, FieldPolicy::Force);
    let kubectl = hidden(world.live("u2", &[("kubectl", &["a"])]));
    let said = met(&world, kubectl, vec![Answer::Rewritten(world.foreign("u2")), applied("u2")]);
    assert_eq!(said, ["rewrite to u2 at 5", "apply to u2 at 5 forced", ADOPTED]);
    let reset = marked(world.foreign("u2"), |metadata| metadata["managedFields"] = json!([]));
    let said = met(&world, reset, vec![Answer::DryRun(world.ours("u2"))]);
    assert_eq!(said, ["dry run to u2 at 5 forced", "rewrite to u2 at 5"], "no entry: one of ours is claimed");
}

#[test]
fn an_object_of_another_hub_is_adopted_only_from_the_one_that_is_named() {
    let mut world = adopting(ExistingPolicy::Fail, FieldPolicy::Force);
    let theirs = marked(world.live("u2", &[("vidra/h2/team/shop", &["a"])]), |metadata| {
        metadata["labels"]["vidra.dev/hub"] = "h2".into();
    });
    let refused = r#"end Refused(OtherHub { hub: "h2" })"#;
    for (named, expected) in [(None, refused), (Some("h3"), refused), (Some("h2"), "rewrite to u2 at 5")] {
        world.owner.take_over_from = named.map(str::to_owned);
        assert_eq!(met(&world, theirs.clone(), vec![]), [expected], "{named:?}");
    }
    world.owner.conflicts.fields = FieldPolicy::Fail;
    assert_eq!(met(&world, theirs, vec![]), ["dry run to u2 at 5"], "others may hold what is declared");
}
