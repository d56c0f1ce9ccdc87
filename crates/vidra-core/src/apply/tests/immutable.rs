//! Fields that cannot be changed on a live object.

use super::*;
use crate::directives::OnImmutable;

/// What follows an apply that was refused for such a field, once `live` is read, and the server would create the object.
fn refused(world: &World, live: Value, answers: Vec<Answer<&'static str>>) -> Vec<String> {
    let mut all = vec![immutable_fields(), there(live), Answer::Creatable(true)];
    all.extend(answers);
    world.play(&apply(Why::Changed, true), all).split_off(3)
}

fn recreating() -> World {
    let mut world = world();
    world.declared.directives.on_immutable = OnImmutable::Recreate;
    world
}

fn stays(obstacle: &str) -> String {
    format!("end Refused(Immutable {{ fields: [\"data.a\"], error: \"refused\", obstacle: {obstacle} }})")
}

#[test]
fn an_object_is_recreated_only_where_the_manifest_asks_and_it_is_ours_alone() {
    let asked = recreating();
    let delete = r#"delete for ["data.a"]"#.to_owned();
    let manager = asked.owner.manager.clone();
    let both = asked.live("u1", &[(&manager, &["a"]), (OTHER, &["a"])]);
    let pruned = marked(asked.ours("u1"), |metadata| {
        metadata["annotations"] = json!({"vidra.dev/prune": "disabled"});
    });
    let mut shared = asked.clone();
    shared.known.owners.push(OTHER.to_owned());
    let mut recorded = asked.clone();
    recorded.known.is_in_inventory = true;
    let mut early = asked.clone();
    early.known.late = Some(Duration::from_secs(3));
    let rows = [
        (&world(), asked.ours("u1"), stays("NotAsked")),
        (&asked, asked.ours("u1"), delete.clone()),
        (&asked, pruned, stays(r#"MustStay("it is annotated vidra.dev/prune: disabled")"#)),
        (&asked, both.clone(), delete.clone()),
        (&shared, both, stays("NotAlone")),
        (&asked, asked.others("u1"), stays("NotAlone")),
        (&asked, asked.foreign("u1"), "end Retry(LostEntry)".to_owned()),
        (&recorded, asked.foreign("u1"), delete),
        (&asked, going(asked.ours("u1")), "Ingest; end Leaving".to_owned()),
        (&early, asked.ours("u1"), "end TooEarly(3s)".to_owned()),
    ];
    for (nth, (world, live, expected)) in rows.into_iter().enumerate() {
        assert_eq!(refused(world, live, vec![]), [expected], "row {nth}");
    }
}

#[test]
fn what_is_deleted_is_created_when_it_is_gone() {
    let world = recreating();
    let deleted = |is_terminating| Answer::Deleted { is_terminating };
    let said = refused(&world, world.ours("u1"), vec![deleted(true)]);
    assert_eq!(said[1..], ["end Leaving"]);
    let said = refused(&world, world.ours("u1"), vec![deleted(false), applied("u2")]);
    let recreated = r#"end Recreated { uid: "u2", fields: ["data.a"] }"#;
    assert_eq!(said[1..], [r#"Forget("u1"); create at 1"#, recreated]);
    let said = refused(&world, world.ours("u1"), vec![conflict()]);
    assert_eq!(said[1..], [r#"end Failed("refused")"#], "it was changed meanwhile");
    let taken = vec![deleted(false), conflict(), there(world.foreign("u3"))];
    let said = refused(&world, world.ours("u1"), taken);
    assert_eq!(said[2..], ["read", "end Refused(Exists)"], "somebody was faster");
}

#[test]
fn nothing_is_deleted_that_could_not_be_created_or_is_another_object() {
    let world = recreating();
    let play = |answers: Vec<Answer<&'static str>>| {
        let mut all = vec![immutable_fields()];
        all.extend(answers);
        world.play(&apply(Why::Changed, true), all).split_off(1)
    };
    let read = || there(world.ours("u1"));
    let transient =
        Answer::Failed(Failure { kind: FailureKind::Other, is_transient: true, error: "no answer" });
    let asks = |then: &str| ["read".to_owned(), "dry run of a create".to_owned(), then.to_owned()];
    assert_eq!(play(vec![there(world.ours("u2"))]), ["read", r#"Forget("u1"); end Retry(Replaced)"#]);
    assert_eq!(play(vec![absent()]), ["read", r#"Forget("u1"); end Retry(Replaced)"#]);
    assert_eq!(play(vec![read(), Answer::Creatable(false)]), asks(r#"end Failed("refused")"#));
    assert_eq!(play(vec![read(), fails(FailureKind::Invalid)]), asks(r#"end Failed("refused")"#));
    assert_eq!(play(vec![read(), transient]), asks(r#"end Failed("no answer")"#));
}

#[test]
fn what_was_to_be_adopted_or_joined_is_never_deleted() {
    let mut world = recreating();
    world.owner.conflicts.existing = vidra_api::ExistingPolicy::Adopt;
    world.known.is_in_inventory = true;
    for (live, read, then) in [
        (world.foreign("u2"), vec![], stays("Unproved")),
        (world.others("u2"), vec![Answer::Ingested], stays("NotAlone")),
    ] {
        let mut answers = vec![conflict(), there(live.clone())];
        answers.extend(read);
        answers.extend([immutable_fields(), there(live), Answer::Creatable(true)]);
        assert_eq!(world.play(&Action::Create, answers).last().unwrap(), &then);
    }
}
