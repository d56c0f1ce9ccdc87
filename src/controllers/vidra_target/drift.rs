//! What is found otherwise than it was delivered, and what is brought back: as the status tells it.
//! Whether an object has drifted is decided in member/records/baseline.rs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::ResourceExt;
use vidra_api::{Change, ChangeKind, DriftPolicy};
use vidra_core::{
    directives::ApplyMode,
    drift::{Cover, Evidence},
    merge_lookup::MergeLookup,
    mutants::{self, Mutant},
    object::{KeyParts, ObjectKey},
    overrides::Cluster,
    owner::Owner,
    plan::{Action, Drift, Effect, Held, Inventory, Live, Vanished, Want, Why},
    render::DeclaredHash,
    uid::Uid,
    unseen,
};

use super::{context::Context, inventory::InventoryChange, render::render_as};
use crate::{
    desired::Desired,
    hub::revisions::Parsed,
    member::{apply::Executor, session::Session},
};

/// Longest name of an object that a status tells.
const NAME_MAX: usize = 253;

/// What was applied whole last.
enum Whole {
    /// Nothing yet, or nothing since it was to go.
    Nothing,
    /// Nobody can tell: the status or the revision is lost.
    Unknown,
    /// This.
    These(Arc<Desired>),
}

/// Objects that may be otherwise, each with the uid under which the target has it.
#[derive(Default)]
pub(super) struct Suspects(BTreeMap<ObjectKey, Uid>);

impl Suspects {
    /// Those of the wants that are not known to be as they were left.
    pub(super) fn of(
        wants: &BTreeMap<ObjectKey, Want>,
        live: &BTreeMap<ObjectKey, Live>,
        inventory: &Inventory,
    ) -> Self {
        let (mut live, mut held) = (MergeLookup::new(live), MergeLookup::new(inventory));
        let suspicious = |want: &Want, held: &Held, live: Option<&Live>| match live {
            _ if want.directives.apply == ApplyMode::Once => false,
            // What the hub itself has deleted is no drift.
            None => !held.going || mutants::is(Mutant::OwnDeletionIsDrift),
            Some(_) if want.directives.apply == ApplyMode::IfAbsent => false,
            Some(live) => !live.proof || live.uid != held.uid || live.drift != Drift::None,
        };
        let known = wants.iter().filter_map(|(key, want)| {
            let held = held.get(key).filter(|held| !held.uid.is_empty())?;
            suspicious(want, held, live.get(key)).then(|| (key.clone(), held.uid.clone()))
        });
        Self(known.collect())
    }

    /// Those of a newer observation beside them.
    pub(super) fn join(&mut self, newer: Self) {
        self.0.extend(newer.0);
    }
}

/// What is known of wanted objects that the inventory knows and the member does not show.
pub(super) fn vanished(
    session: &Session,
    owner: &Owner,
    suspects: &Suspects,
    live: &BTreeMap<ObjectKey, Live>,
) -> BTreeMap<ObjectKey, Vanished> {
    let unseen = suspects.0.iter().filter(|(key, _)| !live.contains_key(key));
    unseen.map(|(key, uid)| (key.clone(), session.records.vanished(&owner.hash, key, uid))).collect()
}

/// How the revision that was last applied whole declared those suspects that are gone or have lost their stamp. Asked
/// only under Report and Ignore, while another revision, namespace or inputs are to be applied; else empty.
pub(super) async fn applied_before(
    ctx: &Context<'_>,
    session: &Session,
    desired: &Desired,
    suspects: &Suspects,
    (live, vanished): (&BTreeMap<ObjectKey, Live>, &BTreeMap<ObjectKey, Vanished>),
    delivered: bool,
) -> BTreeMap<ObjectKey, Option<DeclaredHash>> {
    let applied = |key, uid: &Uid| match live.get(key) {
        Some(live) => live.applied.filter(|_| live.uid == *uid),
        None => vanished.get(key).and_then(|vanished| vanished.applied),
    };
    let unknown = || suspects.0.iter().filter(|(key, uid)| applied(key, uid).is_none());
    let asked =
        || suspects.0.iter().filter(|(key, uid)| !live.contains_key(key) || applied(key, uid).is_none());
    let policy = ctx.target.spec.drift.policy;
    let ask = policy != DriftPolicy::Correct && !delivered && !mutants::is(Mutant::RevisionRepairs);
    if !ask || asked().next().is_none() {
        return BTreeMap::new();
    }
    let before = match whole_before(ctx, session).await {
        Whole::Unknown => {
            // What nobody can tell is left as it is.
            let as_wanted = |key: &ObjectKey| desired.wants.get(key).map(|want| want.hash);
            return unknown().map(|(key, _)| (key.clone(), as_wanted(key))).collect();
        }
        Whole::Nothing => Arc::default(),
        Whole::These(before) => before,
    };
    let declared = |key: &ObjectKey| before.objects.get(key).map(|declared| declared.hash);
    asked().map(|(key, _)| (key.clone(), declared(key))).collect()
}

/// What was applied whole last, rendered for this member.
async fn whole_before(ctx: &Context<'_>, session: &Session) -> Whole {
    let status = ctx.target.status.as_ref().filter(|status| status.observed_generation.is_some());
    let Some(status) = status else { return Whole::Unknown };
    let Some(revision) = &status.revision else { return Whole::Nothing };
    let namespace = status.namespace.as_ref();
    // Since then it was to go.
    if namespace.is_some() && status.recalls != ctx.target.spec.recalls {
        return Whole::Nothing;
    }
    let inputs = |parsed: &Parsed| match namespace {
        Some(_) => status.overrides.clone(),
        // A version wrote the status that did not tell: those that it takes now.
        None => ctx.hub.catalog.member(&ctx.key.cluster).and_then(|member| {
            let (name, labels) = (&*ctx.key.cluster, member.labels());
            parsed.overrides.inputs(&Cluster { name, labels, values: &member.spec.values })
        }),
    };
    let content = (&**revision, &**namespace.unwrap_or(&ctx.target.spec.namespace));
    let rendered = render_as(ctx, session, content, inputs).await;
    rendered.map_or(Whole::Unknown, |(desired, _)| Whole::These(desired))
}

/// Drift that is left when the plan was executed, for the status.
#[derive(Default)]
pub(super) struct DriftReport {
    pub(super) changes: Vec<Change>,
    /// Objects that are not seen and are left so.
    pub(super) left: BTreeSet<ObjectKey>,
    /// Objects that are gone, whoever has their places now, and are left so: that is to be told.
    pub(super) gone: BTreeSet<ObjectKey>,
}

/// Compares what was suspected once more, when everything was done. `unread`: objects of which a read was to tell how they are,
/// and did not.
pub(super) fn find_drift(
    ctx: &Context<'_>,
    executor: &Executor<'_>,
    (suspects, unread): (&Suspects, &BTreeSet<ObjectKey>),
    inventory: &InventoryChange,
) -> DriftReport {
    let Executor { session, owner, desired, .. } = *executor;
    let policy = ctx.target.spec.drift.policy;
    let mut report = DriftReport::default();
    for (key, uid) in &suspects.0 {
        let Some(want) = desired.wants.get(key) else { continue };
        let is_unseen = session.records.uid(key).is_none();
        if is_unseen && unread.contains(key) && !mutants::is(Mutant::UnreadIsGone) {
            // Gone, or out of sight.
            continue;
        }
        let Some(found) = session.records.found(&owner.hash, key, uid) else { continue };
        if policy != DriftPolicy::Correct && is_unseen {
            report.left.insert(key.clone());
        }
        if policy == DriftPolicy::Report && found.change == ChangeKind::Missing {
            report.gone.insert(key.clone());
        }
        report.changes.push(change(ctx, key, &want.gvk.version, found));
    }
    let strays = session.records.strays(&owner.hash);
    if strays.is_empty() {
        return report;
    }
    let chunks = ctx.hub.catalog.inventory(ctx.key);
    let held = inventory.part(&chunks, |key| strays.contains_key(key));
    let copied = |key: &ObjectKey| is_copy(key, desired);
    for (key, version) in &strays {
        if !desired.wants.contains_key(key) && !held.contains_key(key) && !copied(key) {
            let extra = Evidence { change: ChangeKind::Extra, fields: Vec::new() };
            report.changes.push(change(ctx, key, version, extra));
        }
    }
    report
}

/// What a repair undid; `uid` is the object's after it.
pub(super) fn repair(
    ctx: &Context<'_>,
    session: &Session,
    effect: &Effect,
    uid: &str,
    correction: Option<Evidence>,
) -> Change {
    let bare = |change| Evidence { change, fields: Vec::new() };
    let found = correction.unwrap_or_else(|| match &effect.action {
        // It was there all the time, and not seen.
        Action::Apply { uid: before, why: Why::Missing, .. } if *before == *uid => {
            session.records.hidden(None)
        }
        Action::Apply { why: Why::Missing, .. } | Action::Create => bare(ChangeKind::Missing),
        _ => bare(ChangeKind::Modified),
    });
    let mut change = change(ctx, &effect.key, &effect.gvk.version, found);
    change.corrected = Some(change.detected_at.clone());
    change
}

fn change(ctx: &Context<'_>, key: &ObjectKey, version: &str, found: Evidence) -> Change {
    Change {
        group: key.group.to_string(),
        version: version.to_owned(),
        kind: key.kind.to_string(),
        namespace: unseen::shown(&key.namespace, NAME_MAX),
        name: unseen::shown(&key.name, NAME_MAX),
        change: found.change,
        detected_at: ctx.hub.clock.time(),
        corrected: None,
        fields: found.fields,
    }
}

/// Takes out what must not be written now, though it was allowed when it was found.
pub(super) fn redact(ctx: &Context<'_>, changes: &mut [Change]) {
    let settings = ctx.hub.tuning.now();
    let cover = Cover { redactions: &settings.redact, salt: &ctx.hub.identity.key };
    for change in changes {
        let key = key_of(change);
        change.fields.iter_mut().for_each(|field| cover.cover(&key, field));
    }
}

/// The object that a change is about.
pub(super) fn key_of(change: &Change) -> ObjectKey {
    let key = KeyParts {
        group: change.group.as_str().into(),
        kind: change.kind.as_str().into(),
        namespace: change.namespace.as_str().into(),
        name: change.name.as_str().into(),
    };
    key.into()
}

/// Endpoints bear the labels of their Service, and no ownerReference tells whose they are.
fn is_copy(key: &ObjectKey, desired: &Desired) -> bool {
    let is = |kind: &str, other: &ObjectKey| {
        other.group.is_empty()
            && *other.kind == *kind
            && other.namespace == key.namespace
            && other.name == key.name
    };
    is("Endpoints", key) && desired.wants.keys().any(|want| is("Service", want))
}
