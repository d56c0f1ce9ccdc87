//! A crash at every call of every scenario.

use std::time::Duration;

use testkit::sim::{
    Crash, Effect, Scenario, Trouble,
    crash::{Run, once},
    observer::Seen,
    world::Shape,
};

use crate::{
    harm::{self, Harm},
    parting::{self, Parting},
    scenarios::{self, Act},
    turns::{self, Turn},
    wishes::{self, Wish},
};

pub const SEED: u64 = 1;

/// The undisturbed run.
pub fn undisturbed<S: Scenario>(act: S, shape: Shape) -> Run {
    once(act, shape, &Trouble::default(), None)
        .unwrap_or_else(|wrong| panic!("{}, undisturbed:\n{wrong}", act.name()))
}

/// How to see one run again.
pub fn name_of<S: Scenario>(act: S, shape: Shape, trouble: &Trouble) -> String {
    let seed = if shape.latency { format!(":seed={}", shape.seed) } else { String::new() };
    format!("again by: cargo xtask simulate --replay {}:{trouble}{seed}", act.name())
}

/// Before each call, and after each write. After a read the clusters are as they were before it.
fn crash_points(trace: &[Seen]) -> Vec<Crash> {
    let at = |(call, seen): (usize, &Seen)| {
        let before = Crash { call, effect: Effect::Never };
        [Some(before), seen.is_write().then_some(Crash { call, effect: Effect::Done })]
    };
    trace.iter().enumerate().flat_map(at).flatten().collect()
}

#[allow(clippy::print_stderr, reason = "the figures are for people")]
fn at_every_call<S: Scenario>(act: S) {
    let shape = Shape::of(&act.name(), SEED);
    let wanted = undisturbed(act, shape);
    let points = crash_points(&wanted.trace);
    let (mut failures, mut slowest) = (Vec::new(), Duration::ZERO);
    for crash in &points {
        match once(act, shape, &[*crash][..].into(), Some(&wanted.state)) {
            Ok(run) => slowest = slowest.max(run.took),
            Err(wrong) => failures.push((*crash, wrong)),
        }
    }
    let (calls, runs) = (wanted.trace.len(), points.len());
    eprintln!(
        "{}: {calls} calls, {runs} runs with a crash; undisturbed {:?}, with a crash at most {slowest:?}",
        act.name(),
        wanted.took,
    );
    let Some((crash, wrong)) = failures.first() else { return };
    let all: Vec<_> = failures.iter().map(|(crash, _)| crash.to_string()).collect();
    panic!(
        "{} of {runs} crashes end otherwise: {}\nthe first, {}:\n{wrong}",
        failures.len(),
        all.join(" "),
        name_of(act, shape, &[*crash][..].into()),
    );
}

macro_rules! at_every_call {
    ($($name:ident: $act:expr,)*) => {$(
        #[test]
        fn $name() {
            at_every_call($act);
        }
    )*};
}

at_every_call! {
    a_first_delivery_survives_a_crash_at_every_call: Act::Deliver,
    a_change_survives_a_crash_at_every_call: Act::Change,
    a_dropped_document_survives_a_crash_at_every_call: Act::Drop,
    a_repair_survives_a_crash_at_every_call: Act::Tamper,
    a_lost_label_survives_a_crash_at_every_call: Act::Unlabel,
    a_deleted_object_survives_a_crash_at_every_call: Act::DeleteObject,
    a_replaced_object_survives_a_crash_at_every_call: Act::ReplaceObject,
    a_deselected_cluster_survives_a_crash_at_every_call: Act::DeselectOne,
    an_approved_removal_survives_a_crash_at_every_call: Act::DeselectAll,
    a_deleted_resource_survives_a_crash_at_every_call: Act::DeleteResource,
    orphaning_survives_a_crash_at_every_call: Act::Orphan,
    a_taken_name_survives_a_crash_at_every_call: Act::Taken,
    a_move_to_another_namespace_survives_a_crash_at_every_call: Act::Move,
    leaving_a_shared_object_survives_a_crash_at_every_call: Act::LeaveShared,
    a_deleted_target_survives_a_crash_at_every_call: Act::DeleteTarget,
    a_deleted_inventory_survives_a_crash_at_every_call: Act::DeleteInventory,
    a_leaving_member_survives_a_crash_at_every_call: Act::LeaveFleet,
    a_declared_namespace_survives_a_crash_at_every_call: Act::WithNamespace,
    a_lost_inventory_survives_a_crash_at_every_call: Harm::LoseInventory,
    reset_managed_fields_survive_a_crash_at_every_call: Harm::ResetFields,
    a_member_leaving_empty_survives_a_crash_at_every_call: Harm::LeaveAndDelete,
    a_deleted_namespace_survives_a_crash_at_every_call: Harm::DeleteNamespace,
    a_held_object_survives_a_crash_at_every_call: Harm::HoldObject,
    a_disagreement_survives_a_crash_at_every_call: Harm::Disagree,
    a_cluster_selected_again_survives_a_crash_at_every_call: Harm::Reselect,
    an_usurped_name_survives_a_crash_at_every_call: Harm::Usurp,
    lost_revisions_survive_a_crash_at_every_call: Harm::LoseRevisions,
    a_freed_name_survives_a_crash_at_every_call: Harm::Free,
    new_credentials_survive_a_crash_at_every_call: Harm::Rotate,
    a_lost_registration_survives_a_crash_at_every_call: Harm::LoseRegistration,
    a_garbled_manifest_survives_a_crash_at_every_call: Harm::Garble,
    suspending_survives_a_crash_at_every_call: Harm::Suspend,
    a_crd_with_its_object_survives_a_crash_at_every_call: Harm::WithCrd,
    an_unknown_kind_survives_a_crash_at_every_call: Harm::UnknownKind,
    waves_survive_a_crash_at_every_call: Turn::Waves,
    a_change_of_waves_survives_a_crash_at_every_call: Turn::SwapWaves,
    a_removal_by_waves_survives_a_crash_at_every_call: Turn::EndWaves,
    an_object_applied_once_survives_a_crash_at_every_call: Turn::Once,
    an_object_applied_once_more_survives_a_crash_at_every_call: Turn::OnceMore,
    an_object_made_again_survives_a_crash_at_every_call: Turn::Recreate,
    an_object_made_where_there_is_none_survives_a_crash_at_every_call: Turn::IfAbsent,
    an_approved_loss_of_objects_survives_a_crash_at_every_call: Parting::ApproveObjects,
    an_emptied_manifest_survives_a_crash_at_every_call: Parting::Empty,
    a_kept_object_survives_a_crash_at_every_call: Parting::Keep,
    an_emptied_namespace_survives_a_crash_at_every_call: Parting::EmptyNamespace,
    a_field_that_is_held_survives_a_crash_at_every_call: Parting::Hold,
    adopting_survives_a_crash_at_every_call: Parting::Adopt,
    adopting_what_is_equal_survives_a_crash_at_every_call: Parting::AdoptEqual,
    what_another_hub_delivered_survives_a_crash_at_every_call: Parting::Inherit,
    a_forgotten_member_survives_a_crash_at_every_call: Parting::Forget,
    a_changed_source_survives_a_crash_at_every_call: Harm::ChangeSource,
    a_lost_source_survives_a_crash_at_every_call: Harm::LoseSource,
    a_change_of_labels_survives_a_crash_at_every_call: Wish::Relabel,
    a_change_of_values_survives_a_crash_at_every_call: Wish::Revalue,
    a_changed_secret_source_survives_a_crash_at_every_call: Wish::SecretSource,
    changed_settings_survive_a_crash_at_every_call: Wish::Settings,
    adopting_late_survives_a_crash_at_every_call: Wish::AdoptLater,
    erased_statuses_survive_a_crash_at_every_call: Wish::EraseStatuses,
    all_managed_fields_reset_survive_a_crash_at_every_call: Wish::ResetAll,
    a_kept_live_object_survives_a_crash_at_every_call: Wish::KeepLive,
    dropping_without_pruning_survives_a_crash_at_every_call: Wish::Unpruned,
}

/// With latencies calls side by side end in other orders; the crashes come where the seed says.
fn with_two_crashes<S: Scenario>(acts: &[S]) {
    let seeds = std::env::var("VIDRA_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1);
    let mut failures = Vec::new();
    for act in acts {
        for seed in 100..100 + seeds {
            let shape = Shape { latency: true, ..Shape::of(&act.name(), seed) };
            let wanted = undisturbed(*act, shape);
            let mut chance = fastrand::Rng::with_seed(seed);
            for _ in 0..3 {
                let first = chance.usize(..wanted.trace.len());
                // The second life is cut off while it finds its way, or later.
                let second = first + chance.usize(1..30);
                let crashes = [(first, chance.bool()), (second, chance.bool())];
                let crashes = crashes.map(|(call, done)| Crash {
                    call,
                    effect: if done { Effect::Done } else { Effect::Never },
                });
                if let Err(wrong) = once(*act, shape, &crashes[..].into(), Some(&wanted.state)) {
                    failures.push(format!("{}:\n{wrong}", name_of(*act, shape, &crashes[..].into())));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} fail, the first: {}", failures.len(), failures[0]);
}

#[test]
fn acts_survive_two_crashes_in_interleavings_by_seed() {
    with_two_crashes(&scenarios::ALL);
}

#[test]
fn harms_survive_two_crashes_in_interleavings_by_seed() {
    with_two_crashes(&harm::ALL);
}

#[test]
fn turns_survive_two_crashes_in_interleavings_by_seed() {
    with_two_crashes(&turns::ALL);
}

#[test]
fn wishes_survive_two_crashes_in_interleavings_by_seed() {
    with_two_crashes(&wishes::ALL);
}

#[test]
fn partings_survive_two_crashes_in_interleavings_by_seed() {
    with_two_crashes(&parting::ALL);
}
