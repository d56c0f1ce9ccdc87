//! The second step: which VidraTargets are to be as what is declared, which are to leave, and which only rest.

use std::sync::Arc;

use kube::ResourceExt;
use vidra_api::{OverrideInputs, VidraTarget, VidraTargetSpec, target::DesiredState};
use vidra_core::{overrides::Cluster, status::Problem};

use super::{
    approval,
    context::Context,
    ignore_rules::rule_error,
    observe::{Declaration, Observation},
    removal_guard::guard_removal,
};
use crate::{
    controllers::own_rules::{own_feedback, own_health},
    hub::revisions::{Parsed, RevisionError},
};

/// What is to be done.
pub(super) struct Plan {
    /// Why nothing new is delivered, where something is declared.
    pub(super) held: Option<Problem>,
    /// The word by which targets are lost, where that needs one.
    pub(super) approval: Option<String>,
    /// One after the other; the tasks of one side by side.
    pub(super) waves: Vec<Vec<Task>>,
}

/// What is to become of one VidraTarget. Many are taken in turn: what holds of them and of their members at their turn
/// counts, and execution reads it again.
pub(super) struct Task {
    pub(super) cluster: String,
    pub(super) goal: Goal,
}

/// Where a VidraTarget is to come to.
pub(super) enum Goal {
    /// It is as this spec says. `target`: there is one.
    Place { target: Option<Arc<VidraTarget>>, spec: Box<VidraTargetSpec> },
    /// It keeps what it has, and goes on leaving. `is_selected`: a member that is targeted has it.
    Rest { target: Arc<VidraTarget>, is_selected: bool },
    /// It leaves, by the word that approved it where it needed one.
    Leave { target: Arc<VidraTarget>, approval: Option<String> },
    /// Its member does not allow the namespace: what that says of it becomes of it.
    Withdraw { target: Arc<VidraTarget> },
}

/// Plans to bring the VidraTargets to what is declared, or, where something holds that, to have them rest.
pub(super) fn plan(ctx: &Context<'_>, observation: &Observation) -> Plan {
    let held = match &observation.declaration {
        Declaration::Rest => None,
        Declaration::Invalid(error) => Some(invalid(error)),
        Declaration::Revision(revision) => {
            let guarded = guard_removal(ctx, observation);
            match guarded.and_then(|approval| rule_error(ctx).map_or(Ok(approval), Err)) {
                Ok(approval) => return plan_delivery(ctx, observation, revision, approval),
                Err(problem) => Some(problem),
            }
        }
    };
    let held = held.map(|problem| with_rest(problem, observation));
    Plan { held, approval: None, waves: vec![plan_rest(observation)] }
}

/// Plans for one that is deleted: all leave.
pub(super) fn plan_teardown(observation: &Observation) -> Plan {
    let leave = |(cluster, target): (&String, &Arc<VidraTarget>)| Task {
        cluster: cluster.clone(),
        goal: Goal::Leave { target: target.clone(), approval: None },
    };
    Plan { held: None, approval: None, waves: vec![observation.targets.iter().map(leave).collect()] }
}

/// Nothing that was delivered is touched for a manifest that cannot be read.
fn invalid(error: &RevisionError) -> Problem {
    Problem { reason: error.invalid(), message: error.to_string(), stalled: true }
}

/// A word more on what holds it, where targets rest though it does not any more.
fn with_rest(mut problem: Problem, observation: &Observation) -> Problem {
    if observation.targets.values().any(|target| target.spec.suspend) {
        problem.message.push_str("; what was suspended stays so until then");
    }
    problem
}

fn plan_rest(observation: &Observation) -> Vec<Task> {
    let rest = |(cluster, target): (&String, &Arc<VidraTarget>)| {
        let is_selected = observation.selection.targets.contains_key(cluster);
        Task { cluster: cluster.clone(), goal: Goal::Rest { target: target.clone(), is_selected } }
    };
    observation.targets.iter().map(rest).collect()
}

/// First those that are selected. Then those that are yet to be told to leave, for an approval is known by those that it
/// lets go; and then those that are leaving.
fn plan_delivery(
    ctx: &Context<'_>,
    observation: &Observation,
    revision: &Parsed,
    approval: Option<String>,
) -> Plan {
    let Observation { selection, targets, .. } = observation;
    let health = own_health(ctx.hub, ctx.key).and_then(|own| own.rules.own_digest());
    let feedback = own_feedback(ctx.hub, ctx.key).and_then(|own| own.rules.digest().cloned());
    let place = |(cluster, namespace): (&String, &String)| {
        let target = targets.get(cluster).cloned();
        let before = target.as_deref().map(|target| &target.spec);
        let approved = approval::approval(ctx, (&revision.name, namespace), targets, before);
        let digests = (health.clone(), feedback.clone());
        let spec = spec(ctx, (cluster, namespace), revision, digests, approved, before);
        Task { cluster: cluster.clone(), goal: Goal::Place { target, spec: Box::new(spec) } }
    };
    let leave = |(cluster, target): (&String, &Arc<VidraTarget>)| {
        let target = target.clone();
        let goal = match selection.is_barred(cluster) {
            true => Goal::Withdraw { target },
            false => Goal::Leave { target, approval: approval.clone() },
        };
        Task { cluster: cluster.clone(), goal }
    };
    let is_present =
        |(_, target): &(&String, &Arc<VidraTarget>)| target.spec.desired == DesiredState::Present;
    let unselected = targets.iter().filter(|(cluster, _)| !selection.targets.contains_key(*cluster));
    let (present, underway): (Vec<_>, Vec<_>) = unselected.partition(is_present);
    let waves = vec![
        selection.targets.iter().map(place).collect(),
        present.into_iter().map(leave).collect(),
        underway.into_iter().map(leave).collect(),
    ];
    Plan { held: None, approval, waves }
}

/// What a VidraTarget asks for, with the digests of the VidraResource's own health rules and of what it asks back;
/// `before`: what it has asked for.
fn spec(
    ctx: &Context<'_>,
    (cluster, namespace): (&str, &str),
    revision: &Parsed,
    (health_rules, status_feedback): (Option<String>, Option<String>),
    (approved_removal, approved_drops): (Option<String>, i32),
    before: Option<&VidraTargetSpec>,
) -> VidraTargetSpec {
    let spec = &ctx.resource.spec;
    VidraTargetSpec {
        resource: ctx.key.name.to_string(),
        cluster: cluster.to_owned(),
        member_uid: ctx.hub.catalog.member(cluster).and_then(|member| member.uid()),
        revision: revision.name.clone(),
        desired: DesiredState::Present,
        namespace: namespace.to_owned(),
        overrides: inputs(ctx, cluster, revision),
        drift: spec.drift.clone(),
        prune: spec.prune,
        namespace_and_crd_deletion: spec.namespace_and_crd_deletion,
        conflicts: spec.conflicts.clone(),
        approved_removal,
        recalls: before.map_or(0, VidraTargetSpec::recalled),
        approved_drops,
        health_rules,
        status_feedback,
        reconcile: spec.reconcile.clone().unwrap_or_default(),
        suspend: false,
        generation: ctx.generation(),
    }
}

/// What the overrides of a revision use of a member.
fn inputs(ctx: &Context<'_>, cluster: &str, revision: &Parsed) -> Option<OverrideInputs> {
    let member = ctx.hub.catalog.member(cluster)?;
    revision.overrides.inputs(&Cluster {
        name: cluster,
        labels: member.labels(),
        values: &member.spec.values,
    })
}
