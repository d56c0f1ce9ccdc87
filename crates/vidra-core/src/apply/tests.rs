//! The rules of an apply, as tables: what is sent, and how it ends, for each answer of an API server.

mod adoption;
mod conflict;
mod immutable;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use vidra_api::{Conflicts, DriftSpec, IgnoreRule, names};

use super::*;
use crate::{
    directives::{ApplyMode, Directives},
    ignore::{Exemptions, Rules},
    manifest::Place,
    object::{Gvk, ObjectKey, Scope},
    owner::Owner,
    plan::{Drift, Live},
    render::{Declared, DeclaredHash, HashKey, Stage},
};

/// Another VidraResource of the hub.
const OTHER: &str = "vidra/h1/team/other";

/// All that an apply depends on but for what the API server answers.
#[derive(Clone)]
struct World {
    owner: Owner,
    declared: Declared,
    known: Known,
}

/// What is known without a call.
#[derive(Clone, Default)]
struct Known {
    cached: Option<Uid>,
    view: Option<Live>,
    has_lost_entry: bool,
    is_outranked: bool,
    is_disputed: bool,
    exemptions: Arc<Exemptions>,
    unyielded: Option<String>,
    is_in_inventory: bool,
    others: BTreeMap<String, Other>,
    owners: Vec<String>,
    late: Option<Duration>,
}

impl Facts for Known {
    fn uid(&self) -> Option<Uid> {
        self.cached.clone()
    }
    fn view(&self) -> Option<Live> {
        self.view.clone()
    }
    fn has_lost_entry(&self) -> bool {
        self.has_lost_entry
    }
    fn is_outranked(&self) -> bool {
        self.is_outranked
    }
    fn is_disputed(&self) -> bool {
        self.is_disputed
    }
    fn exemptions(&self) -> Arc<Exemptions> {
        self.exemptions.clone()
    }
    fn unyielded(&self, _: &Uid) -> Option<String> {
        self.unyielded.clone()
    }
    fn is_in_inventory(&self, _: &Uid) -> bool {
        self.is_in_inventory
    }
    fn other(&self, manager: &str) -> Other {
        self.others.get(manager).cloned().unwrap_or(Other::Unknown)
    }
    fn is_owner(&self, manager: &str) -> bool {
        self.owners.iter().any(|owner| owner == manager)
    }
    fn late_writes(&self) -> Option<Duration> {
        self.late
    }
}

fn world() -> World {
    let hub = names::HubId::try_from("h1").unwrap();
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"},
        "data": {"a": "1"}});
    World {
        owner: Owner {
            hash: names::OwnerHash::new(&hub, "team", "shop"),
            manager: names::field_manager(&hub, "team", "shop"),
            hub,
            name: "team/shop".to_owned(),
            generation: 1,
            since: 0,
            leaves: false,
            create_namespaces: false,
            conflicts: Conflicts::default(),
            take_over_from: None,
        },
        declared: Declared {
            key: ObjectKey::new(&gvk, "shop", "a"),
            scope: Scope::Namespaced,
            place: Place { source: None, document: 1, line: None },
            hash: DeclaredHash::of(&body, &HashKey::new([7; 32])),
            stage: Stage::of(&gvk),
            directives: Directives::default(),
            body: Arc::new(body),
            gvk,
        },
        known: Known::default(),
    }
}

impl World {
    /// Plays an apply against these answers; what each step was, in words, notes first.
    fn play(&self, action: &Action, answers: impl IntoIterator<Item = Answer<&'static str>>) -> Vec<String> {
        let World { owner, declared, known } = self;
        let salt = HashKey::new([7; 32]);
        let mut state = ApplyState::new(ApplyInput { owner, declared, salt: &salt, facts: known });
        let mut said = vec![words(begin(&mut state, action))];
        for answer in answers {
            assert!(!said.last().unwrap().contains("end "), "it has ended, and is answered: {said:?}");
            said.push(words(next(&mut state, answer)));
        }
        said
    }

    /// An object with this uid that these have applied, each with the fields of `data` that it owns.
    fn live(&self, uid: &str, appliers: &[(&str, &[&str])]) -> Value {
        let entry = |(manager, fields): &(&str, &[&str])| {
            let data: serde_json::Map<String, Value> =
                fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
            let label = match *manager == self.owner.manager {
                true => json!({format!("f:{}", self.owner.hash.label_key()): {}}),
                false => json!({}),
            };
            json!({"manager": manager, "operation": "Apply", "apiVersion": "v1",
                "fieldsV1": {"f:metadata": {"f:labels": label}, "f:data": data}})
        };
        let entries: Vec<Value> = appliers.iter().map(entry).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "metadata": {
            "name": "a", "namespace": "shop", "uid": uid, "resourceVersion": "5",
            "labels": {"vidra.dev/hub": "h1"}, "managedFields": entries,
        }})
    }

    /// One that is proved to be this owner's.
    fn ours(&self, uid: &str) -> Value {
        self.live(uid, &[(&self.owner.manager, &["a"])])
    }

    /// One that another VidraResource of the hub has applied.
    fn others(&self, uid: &str) -> Value {
        self.live(uid, &[(OTHER, &["a"])])
    }

    /// One that nobody of a hub has applied.
    fn foreign(&self, uid: &str) -> Value {
        let mut live = self.live(uid, &[("somebody", &["a"])]);
        live["metadata"]["labels"].take();
        live
    }
}

/// A step in words.
fn words(step: Step<&'static str>) -> String {
    let notes: String = step.notes.iter().map(|note| format!("{note:?}; ")).collect();
    let sent = |body: &Value, force: bool| {
        let at = |field: &str| body["metadata"][field].as_str().unwrap_or("-").to_owned();
        let forced = if force { " forced" } else { "" };
        format!("to {} at {}{forced}", at("uid"), at("resourceVersion"))
    };
    let act = match step.act {
        Act::Read => "read".to_owned(),
        Act::Create(body) => format!("create at {}", body["metadata"]["resourceVersion"].as_str().unwrap()),
        Act::Apply { body, force } => format!("apply {}", sent(&body, force)),
        Act::DryRun { body, force } => format!("dry run {}", sent(&body, force)),
        Act::Compare(body) => format!("compare {}", sent(&body, true)),
        Act::Ingest => "ingest".to_owned(),
        Act::Rewrite(patch) => format!("rewrite {}", sent(&patch, false)),
        Act::DryRunCreate(_) => "dry run of a create".to_owned(),
        Act::Delete { fields } => format!("delete for {fields:?}"),
        Act::End(end) => format!("end {end:?}"),
    };
    format!("{notes}{act}")
}

fn marked(mut live: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut live["metadata"]);
    live
}

fn going(live: Value) -> Value {
    marked(live, |metadata| metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into())
}

fn hidden(live: Value) -> Value {
    marked(live, |metadata| metadata["labels"] = json!({}))
}

fn there(live: Value) -> Answer<&'static str> {
    Answer::Read(Some(live))
}

fn absent() -> Answer<&'static str> {
    Answer::Read(None)
}

fn applied(uid: &str) -> Answer<&'static str> {
    Answer::Applied(uid.into())
}

fn fails(kind: FailureKind) -> Answer<&'static str> {
    Answer::Failed(Failure { kind, is_transient: false, error: "refused" })
}

fn conflict() -> Answer<&'static str> {
    fails(FailureKind::Conflict)
}

fn fields(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

fn field_conflict() -> Answer<&'static str> {
    fails(FailureKind::FieldConflict(fields(&[".data.a"])))
}

fn immutable_fields() -> Answer<&'static str> {
    fails(FailureKind::InvalidFields(fields(&["data.a"])))
}

fn apply(why: Why, force: bool) -> Action {
    Action::Apply { uid: "u1".into(), why, force }
}

fn view(proof: bool, drift: Drift) -> Option<Live> {
    let (controlled, terminating, shared) = (false, false, false);
    Some(Live {
        uid: "u1".into(),
        proof,
        controlled,
        terminating,
        shared,
        applied: None,
        drift,
        current: true,
        suspended: false,
    })
}

/// What is ignored of the object is left alone in each apply.
fn ignoring(world: &World) -> Arc<Exemptions> {
    let target = serde_json::from_value(json!({"kind": "ConfigMap"})).unwrap();
    let rule = IgnoreRule { target, paths: vec![".data.a".to_owned()] };
    let spec = DriftSpec { ignore: vec![rule], ..DriftSpec::default() };
    let Declared { gvk, key, body, .. } = &world.declared;
    Arc::new(Rules::compile(&spec).unwrap().exemptions([(gvk, key, &**body)], &[], &Arc::default()))
}

type Row = (&'static str, Action, Vec<Answer<&'static str>>, &'static [&'static str]);

fn check(world: &World, rows: Vec<Row>) {
    for (what, action, answers, expected) in rows {
        assert_eq!(world.play(&action, answers), expected, "{what}");
    }
}

#[test]
fn a_create_makes_what_is_not_there_and_reads_what_bears_the_name() {
    let world = world();
    let create = || Action::Create;
    check(
        &world,
        vec![
            (
                "nothing was there",
                create(),
                vec![applied("u1")],
                &["create at 1", r#"end Applied { uid: "u1", corrected: false }"#],
            ),
            (
                "no answer",
                create(),
                vec![fails(FailureKind::Other)],
                &["create at 1", r#"end Failed("refused")"#],
            ),
            (
                "it came and went",
                create(),
                vec![conflict(), absent()],
                &["create at 1", "read", r#"end Failed("refused")"#],
            ),
            (
                "by its fields too",
                create(),
                vec![field_conflict(), absent()],
                &["create at 1", "read", r#"end Failed("refused")"#],
            ),
            (
                "ours is applied to",
                create(),
                vec![conflict(), there(world.ours("u2")), Answer::Ingested, applied("u2")],
                &[
                    "create at 1",
                    "read",
                    "ingest",
                    "apply to u2 at -",
                    r#"end Applied { uid: "u2", corrected: false }"#,
                ],
            ),
            (
                "what is being deleted is waited for",
                create(),
                vec![conflict(), there(going(world.ours("u2")))],
                &["create at 1", "read", "Ingest; end InTheWay"],
            ),
            (
                "and forgotten where no watch shows it",
                create(),
                vec![conflict(), there(hidden(going(world.ours("u2"))))],
                &["create at 1", "read", r#"Forget("u2"); end InTheWay"#],
            ),
            (
                "another VidraResource's is joined, exactly as it was read",
                create(),
                vec![conflict(), there(world.others("u2")), Answer::Ingested, applied("u2")],
                &[
                    "create at 1",
                    "read",
                    "ingest",
                    "apply to u2 at 5",
                    r#"end Applied { uid: "u2", corrected: false }"#,
                ],
            ),
            (
                "a controller's is left",
                create(),
                vec![
                    conflict(),
                    there(marked(world.foreign("u2"), |metadata| {
                        metadata["ownerReferences"] = json!([{"controller": true}]);
                    })),
                ],
                &["create at 1", "read", "end Refused(Controlled)"],
            ),
        ],
    );
}

#[test]
fn what_is_wanted_only_where_there_is_none_is_never_changed() {
    let mut world = world();
    world.declared.directives.apply = ApplyMode::IfAbsent;
    let create = || Action::Create;
    check(
        &world,
        vec![
            (
                "none",
                create(),
                vec![absent(), applied("u1")],
                &["read", "create at 1", r#"end Applied { uid: "u1", corrected: false }"#],
            ),
            (
                "one meanwhile",
                create(),
                vec![absent(), conflict()],
                &["read", "create at 1", "end Retry(ComesAndGoes)"],
            ),
            (
                "ours",
                create(),
                vec![there(world.ours("u2"))],
                &["read", r#"Ingest; end Applied { uid: "u2", corrected: false }"#],
            ),
            (
                "ours that no watch shows",
                create(),
                vec![there(hidden(world.ours("u2")))],
                &["read", "Hidden; end Present"],
            ),
            ("a foreign one", create(), vec![there(world.foreign("u2"))], &["read", "Present; end Present"]),
            ("one that goes", create(), vec![there(going(world.foreign("u2")))], &["read", "end InTheWay"]),
        ],
    );
}

#[test]
fn a_refused_apply_is_followed_by_what_its_answer_says() {
    let mut world = world();
    world.known.cached = Some("u1".into());
    let changed = || apply(Why::Changed, true);
    let missing = || apply(Why::Missing, false);
    check(
        &world,
        vec![
            (
                "applied",
                changed(),
                vec![applied("u1")],
                &["apply to u1 at - forced", r#"end Applied { uid: "u1", corrected: false }"#],
            ),
            (
                "drift",
                apply(Why::Drifted, true),
                vec![applied("u1")],
                &["apply to u1 at - forced", r#"end Applied { uid: "u1", corrected: true }"#],
            ),
            (
                "forbidden",
                changed(),
                vec![fails(FailureKind::Other)],
                &["apply to u1 at - forced", r#"end Failed("refused")"#],
            ),
            (
                "conflict by force",
                changed(),
                vec![field_conflict()],
                &["apply to u1 at - forced", r#"end Failed("refused")"#],
            ),
            (
                "invalid",
                changed(),
                vec![fails(FailureKind::Invalid)],
                &["apply to u1 at - forced", r#"end Failed("refused")"#],
            ),
            (
                "409, and it is the same object: a webhook says so",
                changed(),
                vec![conflict(), there(world.ours("u1")), Answer::Ingested],
                &["apply to u1 at - forced", "read", "ingest", r#"end Failed("refused")"#],
            ),
            (
                "409, and there is none: a webhook says so",
                changed(),
                vec![conflict(), absent()],
                &["apply to u1 at - forced", "read", r#"Forget("u1"); end Failed("refused")"#],
            ),
            (
                "404, and there is none",
                changed(),
                vec![fails(FailureKind::NotFound), absent()],
                &["apply to u1 at - forced", "read", r#"Forget("u1"); end Retry(CameAndWent)"#],
            ),
            (
                "replaced by one of ours, once",
                changed(),
                vec![
                    conflict(),
                    there(world.ours("u2")),
                    Answer::Ingested,
                    conflict(),
                    there(world.ours("u3")),
                    Answer::Ingested,
                ],
                &[
                    "apply to u1 at - forced",
                    "read",
                    "ingest",
                    "apply to u2 at -",
                    "read",
                    "ingest",
                    "end Retry(ReplacedAgain)",
                ],
            ),
            (
                "the namespace is missing, and the object is there: a webhook says so",
                changed(),
                vec![fails(FailureKind::NamespaceMissing), there(world.ours("u1"))],
                &["apply to u1 at - forced", "read", r#"end Failed("refused")"#],
            ),
            (
                "the namespace is missing",
                apply(Why::Drifted, true),
                vec![fails(FailureKind::NamespaceMissing), absent(), applied("u2")],
                &[
                    "apply to u1 at - forced",
                    "read",
                    r#"Forget("u1"); create at 1"#,
                    r#"end Applied { uid: "u2", corrected: true }"#,
                ],
            ),
            (
                "missing",
                missing(),
                vec![applied("u2")],
                &["create at 1", r#"end Applied { uid: "u2", corrected: true }"#],
            ),
            (
                "hidden",
                missing(),
                vec![conflict(), applied("u1")],
                &["create at 1", "apply to u1 at -", r#"end Applied { uid: "u1", corrected: true }"#],
            ),
            (
                "missing, and another one has its name: the cache forgets it before",
                missing(),
                vec![conflict(), conflict(), absent()],
                &["create at 1", "apply to u1 at -", r#"Forget("u1"); read"#, r#"end Failed("refused")"#],
            ),
            (
                "missing, and 422 for a uid that differs",
                missing(),
                vec![
                    conflict(),
                    fails(FailureKind::Invalid),
                    there(world.foreign("u2")),
                    there(world.foreign("u2")),
                ],
                &["create at 1", "apply to u1 at -", "read", "read", "end Refused(Exists)"],
            ),
            (
                "missing, and 422 for what is declared",
                missing(),
                vec![conflict(), fails(FailureKind::Invalid), there(world.ours("u1"))],
                &["create at 1", "apply to u1 at -", "read", r#"end Failed("refused")"#],
            ),
            (
                "missing, and gone since",
                missing(),
                vec![conflict(), fails(FailureKind::Invalid), absent(), applied("u2")],
                &[
                    "create at 1",
                    "apply to u1 at -",
                    "read",
                    "create at 1",
                    r#"end Applied { uid: "u2", corrected: true }"#,
                ],
            ),
        ],
    );
}

#[test]
fn what_is_left_alone_is_applied_to_the_version_that_was_read_a_few_times() {
    let mut world = world();
    world.known.exemptions = ignoring(&world);
    let changed = || apply(Why::Changed, true);
    let tries =
        |count: usize| (0..count).flat_map(|_| [there(world.ours("u1")), conflict()]).collect::<Vec<_>>();
    let said = world.play(&changed(), tries(5));
    assert_eq!(said.iter().filter(|step| *step == "apply to u1 at 5 forced").count(), 5, "{said:?}");
    assert_eq!(said.last().unwrap(), "end Retry(ChangesAgain)");
    assert_eq!(world.play(&changed(), tries(4)).last().unwrap(), "read");
    check(
        &world,
        vec![
            (
                "applied",
                changed(),
                vec![there(world.ours("u1")), applied("u1")],
                &["read", "apply to u1 at 5 forced", r#"end Applied { uid: "u1", corrected: false }"#],
            ),
            (
                "replaced by one of ours",
                changed(),
                vec![there(world.ours("u2")), there(world.ours("u2")), Answer::Ingested],
                &["read", "read", "ingest", "read"],
            ),
            ("gone", changed(), vec![absent(), absent()], &["read", "read", "end Retry(GoneOrReplaced)"]),
        ],
    );
}

#[test]
fn a_verified_object_is_applied_to_only_where_it_differs() {
    let mut world = world();
    world.known.view = view(true, Drift::Unsure);
    let verify = || Action::Verify { uid: "u1".into(), force: true };
    let compared = |comparison| vec![there(world.ours("u1")), Answer::Ingested, Answer::Compared(comparison)];
    let again = || (0..3).flat_map(|_| compared(None)).collect::<Vec<_>>();
    let begins: [&str; 3] = ["read", "ingest", "compare to u1 at - forced"];
    let rows = [
        (Some(Comparison::Equal), r#"end Applied { uid: "u1", corrected: false }"#),
        (Some(Comparison::Own), "apply to u1 at - forced"),
        (Some(Comparison::Differs), "apply to u1 at - forced"),
        (None, "read"),
    ];
    for (comparison, then) in rows {
        let said = world.play(&verify(), compared(comparison));
        assert_eq!((&said[..3], &*said[3]), (&begins.map(str::to_owned)[..], then), "{comparison:?}");
    }
    assert_eq!(world.play(&verify(), again()).last().unwrap(), "end Retry(ChangedMeanwhile)");
    let mut drifted = compared(Some(Comparison::Differs));
    drifted.push(applied("u1"));
    assert_eq!(
        world.play(&verify(), drifted).last().unwrap(),
        r#"end Applied { uid: "u1", corrected: true }"#
    );
    check(
        &world,
        vec![
            (
                "gone",
                verify(),
                vec![absent(), applied("u2")],
                &["read", r#"Forget("u1"); create at 1"#, r#"end Applied { uid: "u2", corrected: true }"#],
            ),
            (
                "what cannot be changed is found by the dry run",
                verify(),
                vec![there(world.ours("u1")), Answer::Ingested, immutable_fields()],
                &["read", "ingest", "compare to u1 at - forced", "read"],
            ),
        ],
    );
    world.known.view = view(true, Drift::None);
    check(
        &world,
        vec![(
            "the cache says that it is as it was left",
            verify(),
            vec![there(world.ours("u1")), Answer::Ingested],
            &["read", "ingest", r#"end Applied { uid: "u1", corrected: false }"#],
        )],
    );
}

#[test]
fn a_look_writes_nothing() {
    let mut world = world();
    world.known.view = view(true, Drift::Unsure);
    let look = || Action::Look { uid: "u1".into() };
    check(
        &world,
        vec![
            ("gone", look(), vec![absent()], &["read", r#"Vanished("u1"); end Seen"#]),
            ("replaced", look(), vec![there(world.ours("u2"))], &["read", r#"Vanished("u1"); end Seen"#]),
            ("hidden", look(), vec![there(hidden(world.ours("u1")))], &["read", "Hidden; end Seen"]),
            (
                "drift",
                look(),
                vec![there(world.ours("u1")), Answer::Ingested, Answer::Compared(Some(Comparison::Differs))],
                &["read", "ingest", "compare to u1 at - forced", "end Seen"],
            ),
            (
                "refused for something else",
                look(),
                vec![there(world.ours("u1")), Answer::Ingested, fails(FailureKind::Invalid)],
                &["read", "ingest", "compare to u1 at - forced", r#"end Failed("refused")"#],
            ),
        ],
    );
    let transient =
        Answer::Failed(Failure { kind: FailureKind::Other, is_transient: true, error: "no answer" });
    for (creatable, then) in [
        (Answer::Creatable(true), "Immutable; end Seen"),
        (Answer::Creatable(false), r#"end Failed("refused")"#),
        (fails(FailureKind::Other), r#"end Failed("refused")"#),
        (transient, r#"end Failed("no answer")"#),
    ] {
        let said =
            world.play(&look(), [there(world.ours("u1")), Answer::Ingested, immutable_fields(), creatable]);
        assert_eq!(said[2..], ["compare to u1 at - forced", "dry run of a create", then]);
    }
    for known in [view(true, Drift::Differs), view(false, Drift::Unsure), None] {
        world.known.view = known;
        let said = world.play(&look(), [there(world.ours("u1")), Answer::Ingested]);
        assert_eq!(said, ["read", "ingest", "end Seen"], "{:?}", world.known.view);
    }
}

#[test]
fn an_object_whose_managed_fields_were_reset_has_our_entry_back_before_it_is_applied_to() {
    let mut world = world();
    (world.known.has_lost_entry, world.known.is_outranked) = (true, true);
    let reset = marked(world.ours("u1"), |metadata| metadata["managedFields"] = json!([{}]));
    let changed = || apply(Why::Drifted, true);
    check(
        &world,
        vec![
            (
                "reset; and somebody who comes first keeps what it holds",
                changed(),
                vec![
                    there(reset.clone()),
                    Answer::DryRun(world.ours("u1")),
                    Answer::Rewritten(world.ours("u1")),
                ],
                &["read", "dry run to u1 at 5 forced", "rewrite to u1 at 5", "apply to u1 at -"],
            ),
            ("not reset", changed(), vec![there(world.ours("u1"))], &["read", "apply to u1 at -"]),
            ("gone", changed(), vec![absent()], &["read", "apply to u1 at -"]),
            (
                "what cannot be changed is found by the dry run",
                changed(),
                vec![there(reset), immutable_fields()],
                &["read", "dry run to u1 at 5 forced", "read"],
            ),
        ],
    );
}
