//! The status of a VidraResource: the roll-up of its targets.

use super::counts::CountedState;
use super::drifted::{FirstDrift, drifted};
use super::reason::{Reason, StatusReason};
use super::removing::{Going, removing};
use super::target::is_revoked;
use super::unreachable::{excused, refusal};
use vidra_api::{
    ClusterSummary, DriftState, MaxUnreachable, Summary, TargetState, Time, VidraResource,
    VidraResourceStatus, clip,
    condition::{DRIFTED, READY, RECONCILING, REMOVING, STALLED},
    find,
    resource::CLUSTERS_MAX,
    set_condition,
    target::MESSAGE_MAX,
};

/// What keeps a VidraResource itself from moving, whatever its targets do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Why.
    pub reason: Reason,
    /// What is so, and what to do.
    pub message: String,
    /// It will not move without a person.
    pub stalled: bool,
}

/// Why a target will not move without a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The reason of its condition.
    pub reason: StatusReason,
    /// What is so, and what to do.
    pub message: String,
}

/// One target, as far as the roll-up needs it.
#[derive(Clone, Debug)]
pub struct TargetView {
    /// The member's name.
    pub cluster: String,
    /// `None`: it has not been reported for what it is now to be.
    pub state: Option<TargetState>,
    /// Whether it still is as delivered.
    pub drift: Option<DriftState>,
    /// Why.
    pub reason: Option<StatusReason>,
    /// Why, in a sentence.
    pub message: Option<String>,
    /// The revision that it has.
    pub revision: Option<String>,
    /// The revision with which it was Ready last, where it is not Ready.
    pub ready_revision: Option<String>,
    /// Since when its state is so.
    pub since: Option<Time>,
    /// It is being removed from its member.
    pub leaving: bool,
    /// It needs a person.
    pub stalled: Option<Stall>,
    /// What differed there first, and still does.
    pub first_drift: Option<FirstDrift>,
    /// What still goes of it.
    pub going: Option<Going>,
    /// Objects in it.
    pub objects: i64,
}

impl TargetView {
    fn is_revoked(&self) -> bool {
        is_revoked(self.state, self.reason.as_ref().and_then(StatusReason::known))
    }
}

/// What a VidraResource's status is made from.
#[derive(Clone, Debug)]
pub struct ResourceFacts<'a> {
    /// The VidraResource's generation that was acted on.
    pub generation: i64,
    /// The revision that it asks for, when its manifest could be read.
    pub revision: Option<&'a str>,
    /// What keeps it from moving.
    pub problem: Option<Problem>,
    /// It is being deleted.
    pub deleting: bool,
    /// It is suspended.
    pub suspended: bool,
    /// Its targets.
    pub targets: &'a [TargetView],
    /// How many of them may be unreachable.
    pub max_unreachable: Option<&'a MaxUnreachable>,
    /// How many more members match its selectors, and do not allow its namespace.
    pub closed: usize,
    /// The value of the annotation that asked for a reconcile, once that was done.
    pub handled: Option<String>,
    /// Now.
    pub now: Time,
}

/// Makes the status that follows `before`.
pub fn resource_status(before: &VidraResourceStatus, facts: &ResourceFacts<'_>) -> VidraResourceStatus {
    let summary = summary(facts);
    let mut status = before.clone();
    status.observed_generation = Some(facts.generation);
    if let Some(revision) = facts.revision {
        status.revision = Some(revision.to_owned());
    }
    if facts.handled.is_some() {
        status.last_handled_reconcile_at.clone_from(&facts.handled);
    }
    status.targets_ready = Some(format!("{}/{}", summary.ready, summary.targets));
    status.clusters = clusters(facts.targets);
    // Delivered there again: nothing is left behind.
    let is_back = |cluster: &str| {
        let mut targets = facts.targets.iter();
        targets.any(|one| one.cluster == cluster && !one.leaving && one.state == Some(TargetState::Ready))
    };
    status.left_behind.retain(|left| !is_back(&left.cluster));
    let mut set = |type_: &str, value: bool, reason: Reason, message: &str| {
        let (reason, generation, now) = (reason.as_str(), Some(facts.generation), facts.now.clone());
        set_condition(&mut status.conditions, type_, value, reason, message, generation, now);
    };
    let (ready, reason, mut message) = readiness(facts, &summary);
    if facts.closed > 0 && summary.targets > 0 {
        let apart = if message.is_empty() { "" } else { "; " };
        message += &format!("{apart}{} more that match do not allow the namespace", facts.closed);
    }
    set(READY, ready, reason, &message);
    let moving =
        facts.deleting || (!ready && (summary.progressing + summary.waiting + summary.terminating) > 0);
    set(
        RECONCILING,
        moving,
        if moving { reason } else { Reason::Settled },
        if moving { &message } else { "" },
    );
    match stalled(facts) {
        Some((reason, message)) => set(STALLED, true, reason, &message),
        None => set(STALLED, false, Reason::Moving, ""),
    }
    let (drift, why, which) = drifted(facts.targets);
    let (generation, now) = (Some(facts.generation), facts.now.clone());
    set_condition(&mut status.conditions, DRIFTED, drift, why.as_str(), &which, generation, now.clone());
    let going = facts.targets.iter().filter_map(|one| Some((one.cluster.as_str(), one.going.as_ref()?)));
    let (goes, why, what) = removing(going);
    set_condition(&mut status.conditions, REMOVING, goes, &why, &what, generation, now);
    status.summary = Some(summary);
    status
}

fn summary(facts: &ResourceFacts<'_>) -> Summary {
    let mut summary = Summary::default();
    for target in facts.targets {
        summary.objects += target.objects;
        if target.drift == Some(DriftState::Drifted) {
            summary.drifted += 1;
        }
        // An answer for another revision, or for another generation of the target, is no answer yet.
        let current = target.revision.as_deref() == facts.revision;
        let count = match CountedState::new(target.leaving, target.state, current) {
            CountedState::Leaving => {
                summary.terminating += 1;
                continue;
            }
            CountedState::Ready => &mut summary.ready,
            CountedState::Failed => &mut summary.failed,
            CountedState::Unknown => &mut summary.unknown,
            CountedState::Suspended => &mut summary.suspended,
            CountedState::Waiting => &mut summary.waiting,
            CountedState::Progressing => &mut summary.progressing,
        };
        *count += 1;
        summary.targets += 1;
    }
    summary
}

/// Whether nothing new is delivered of a VidraResource as it is declared now: it is suspended, or has a problem of its own
/// that a person is to solve, as its status says. A target that stalls it holds no other.
pub fn is_held(resource: &VidraResource) -> bool {
    let condition = |kind| find(&resource.status.as_ref()?.conditions, kind);
    let has_problem = || {
        let (Some(stalled), Some(ready)) = (condition(STALLED), condition(READY)) else { return false };
        stalled.status == "True"
            && stalled.observed_generation == resource.metadata.generation
            && ready.status == "False"
            && ready.reason == stalled.reason
            && Reason::parse(&stalled.reason) != Some(Reason::TargetsFailed)
    };
    resource.spec.suspend || has_problem()
}

fn readiness(facts: &ResourceFacts<'_>, summary: &Summary) -> (bool, Reason, String) {
    if let Some(problem) = &facts.problem {
        return (false, problem.reason, problem.message.clone());
    }
    if facts.deleting {
        let states = [TargetState::Failed, TargetState::Terminating];
        let told = states.map(|state| first_message(facts, state)).into_iter().find(|told| !told.is_empty());
        return (false, Reason::Terminating, told.unwrap_or_default());
    }
    if facts.suspended {
        return (false, Reason::Suspended, "it is suspended; set spec.suspend to false to go on".into());
    }
    if summary.targets == 0 {
        return (false, Reason::NoTargets, "no member cluster matches spec.targets".into());
    }
    let of = |count: i32, what: &str, state| {
        format!("{count} of {} targets {what}{}", summary.targets, after_colon(first_message(facts, state)))
    };
    if summary.failed > 0 {
        return (false, Reason::TargetsFailed, of(summary.failed, "failed", TargetState::Failed));
    }
    let excused = excused(facts.max_unreachable, unreachable(facts), summary);
    if summary.unknown > 0 && excused.is_none() {
        let told = of(summary.unknown, "cannot be reached", TargetState::Unknown);
        let why = refusal(facts.max_unreachable, unreachable(facts), summary).unwrap_or_default();
        return (false, Reason::MembersUnreachable, told + &why);
    }
    if summary.waiting > 0 {
        return (false, Reason::TargetsWaiting, of(summary.waiting, "wait", TargetState::Waiting));
    }
    let revoked: Vec<_> = revoked(facts).collect();
    let left = i32::try_from(revoked.len()).unwrap_or(i32::MAX).saturating_add(summary.unknown);
    let rest = summary.targets - summary.ready - left;
    if rest > 0 && summary.progressing == 0 {
        let member =
            facts.targets.iter().find(|one| one.state == Some(TargetState::Suspended) && !one.is_revoked());
        let first = member.map_or("", |one| &one.cluster);
        let message = format!(
            "{rest} of {} targets are suspended with their members; to go on, set spec.suspend of the MemberCluster to false: {first}",
            summary.targets
        );
        return (false, Reason::TargetsSuspended, message);
    }
    if rest > 0 {
        return (false, Reason::Progressing, of(rest, "are not ready", TargetState::Progressing));
    }
    let resting = revoked.first().map(|first| {
        format!(
            "{} of {} targets rest, for their members do not allow the namespace any more: {}",
            revoked.len(),
            summary.targets,
            first.cluster
        )
    });
    let told: Vec<_> = excused.into_iter().chain(resting).collect();
    (true, Reason::Ready, told.join("; "))
}

/// The clusters that cannot be reached, and whether each was Ready with what is declared when it was seen last.
fn unreachable<'a>(facts: &'a ResourceFacts<'_>) -> impl Iterator<Item = (&'a str, bool)> + Clone {
    let unknown = facts.targets.iter().filter(|one| !one.leaving && one.state == Some(TargetState::Unknown));
    let had = |one: &TargetView| facts.revision.is_some() && one.ready_revision.as_deref() == facts.revision;
    unknown.map(move |one| (one.cluster.as_str(), had(one)))
}

/// Those that are left as they are until their members allow the namespace again.
fn revoked<'a>(facts: &'a ResourceFacts<'_>) -> impl Iterator<Item = &'a TargetView> {
    facts.targets.iter().filter(|one| !one.leaving && one.is_revoked())
}

fn stalled(facts: &ResourceFacts<'_>) -> Option<(Reason, String)> {
    if let Some(problem) = facts.problem.as_ref().filter(|problem| problem.stalled) {
        return Some((problem.reason, problem.message.clone()));
    }
    let (target, stall) = facts.targets.iter().find_map(|target| Some((target, target.stalled.as_ref()?)))?;
    let reason = match stall.reason.known() {
        Some(reason @ (Reason::RemovalHeld | Reason::Contention)) => reason,
        _ => Reason::TargetsFailed,
    };
    Some((reason, format!("{}: {}", target.cluster, stall.message)))
}

/// The first cluster in that state, by name, with its message.
fn first_message(facts: &ResourceFacts<'_>, state: TargetState) -> String {
    let mut of_state: Vec<_> = facts.targets.iter().filter(|target| target.state == Some(state)).collect();
    of_state.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    match of_state.first() {
        Some(target) => match &target.message {
            Some(message) => format!("{}: {message}", target.cluster),
            None => target.cluster.clone(),
        },
        None => String::new(),
    }
}

fn after_colon(text: String) -> String {
    if text.is_empty() { text } else { format!(": {text}") }
}

/// At most [`CLUSTERS_MAX`], worst first, then by name: a stable order.
fn clusters(targets: &[TargetView]) -> Vec<ClusterSummary> {
    let mut sorted: Vec<_> = targets.iter().collect();
    sorted.sort_by(|a, b| (severity(a), &a.cluster).cmp(&(severity(b), &b.cluster)));
    sorted
        .into_iter()
        .take(CLUSTERS_MAX)
        .map(|target| ClusterSummary {
            name: target.cluster.clone(),
            state: target.state,
            drift: target.drift,
            reason: target.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            message: target.message.as_deref().map(|message| clip(message, MESSAGE_MAX)),
            revision: target.revision.clone(),
            since: target.since.clone(),
        })
        .collect()
}

fn severity(target: &TargetView) -> u8 {
    match target.state {
        Some(TargetState::Failed) => 0,
        Some(TargetState::Unknown) => 1,
        _ if target.drift == Some(DriftState::Drifted) => 2,
        Some(TargetState::Terminating) => 3,
        Some(TargetState::Waiting) => 4,
        None | Some(TargetState::Progressing) => 5,
        Some(TargetState::Suspended) => 6,
        Some(TargetState::Ready) => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use vidra_api::VidraResourceSpec;

    fn target(cluster: &str, state: Option<TargetState>, revision: &str) -> TargetView {
        TargetView {
            cluster: cluster.into(),
            state,
            drift: None,
            reason: None,
            message: Some("why".into()),
            revision: Some(revision.into()),
            ready_revision: None,
            since: None,
            leaving: false,
            stalled: None,
            first_drift: None,
            going: None,
            objects: 1,
        }
    }

    fn facts(targets: &[TargetView], problem: Option<Problem>) -> ResourceFacts<'_> {
        ResourceFacts {
            generation: 2,
            revision: Some("new"),
            problem,
            deleting: false,
            suspended: false,
            targets,
            max_unreachable: None,
            closed: 0,
            handled: None,
            now: Time(Timestamp::from_second(5).unwrap()),
        }
    }

    fn status(targets: &[TargetView], problem: Option<Problem>) -> VidraResourceStatus {
        resource_status(&VidraResourceStatus::default(), &facts(targets, problem))
    }

    fn condition(status: &VidraResourceStatus, type_: &str) -> (String, String) {
        let found = find(&status.conditions, type_).unwrap();
        (found.status.clone(), found.reason.clone())
    }

    #[test]
    fn ready_needs_every_target_ready_on_this_revision() {
        use TargetState::{Failed, Progressing, Ready, Unknown};
        let cases = [
            (vec![target("a", Some(Ready), "new")], "True", "Ready"),
            (vec![target("a", Some(Ready), "old")], "False", "Progressing"),
            (vec![target("a", None, "new")], "False", "Progressing"),
            (
                vec![target("a", Some(Ready), "new"), target("b", Some(Unknown), "new")],
                "False",
                "MembersUnreachable",
            ),
            (
                vec![target("a", Some(Failed), "new"), target("b", Some(Unknown), "new")],
                "False",
                "TargetsFailed",
            ),
            (vec![target("a", Some(Progressing), "new")], "False", "Progressing"),
            (vec![], "False", "NoTargets"),
        ];
        for (targets, value, reason) in cases {
            assert_eq!(condition(&status(&targets, None), READY), (value.into(), reason.into()));
        }
    }

    #[test]
    fn members_that_match_and_are_closed_to_the_namespace_are_counted_and_do_not_touch_ready() {
        let told = |targets: &[TargetView]| {
            let facts = ResourceFacts { closed: 2, ..facts(targets, None) };
            let status = resource_status(&VidraResourceStatus::default(), &facts);
            let ready = find(&status.conditions, READY).unwrap();
            (ready.status.clone(), ready.message.clone())
        };
        let closed = "2 more that match do not allow the namespace";
        assert_eq!(told(&[target("a", Some(TargetState::Ready), "new")]), ("True".into(), closed.into()));
        let (_, failed) = told(&[target("a", Some(TargetState::Failed), "new")]);
        assert_eq!(failed, format!("1 of 1 targets failed: a: why; {closed}"));
        assert!(!told(&[]).1.contains(closed), "who selects nobody is told with its own words");
    }

    #[test]
    fn a_silent_member_is_no_stall_and_a_held_removal_is() {
        let silent = status(&[target("a", Some(TargetState::Unknown), "new")], None);
        assert_eq!(condition(&silent, STALLED).0, "False");
        let held = Problem { reason: Reason::RemovalHeld, message: "approve".into(), stalled: true };
        let held = status(&[target("a", Some(TargetState::Ready), "new")], Some(held));
        assert_eq!(condition(&held, STALLED), ("True".into(), "RemovalHeld".into()));
        assert_eq!(condition(&held, READY).0, "False");
    }

    #[test]
    fn clusters_are_listed_worst_first_and_at_most_fifty() {
        let mut targets: Vec<_> =
            (0..80).map(|n| target(&format!("c{n:02}"), Some(TargetState::Ready), "new")).collect();
        targets[70].state = Some(TargetState::Failed);
        let status = status(&targets, None);
        assert_eq!(status.clusters.len(), 50);
        assert_eq!(status.clusters[0].name, "c70");
        assert_eq!(status.clusters[1].name, "c00");
        assert_eq!(status.targets_ready.as_deref(), Some("79/80"));
    }

    #[test]
    fn a_target_that_leaves_is_not_held_against_ready() {
        let mut gone = target("b", Some(TargetState::Terminating), "old");
        gone.leaving = true;
        gone.going = Some(Going { objects: 7, reason: Reason::Forbidden.into(), message: "no".into() });
        let status = status(&[target("a", Some(TargetState::Ready), "new"), gone], None);
        assert_eq!(condition(&status, READY).0, "True");
        assert_eq!(condition(&status, REMOVING), ("True".into(), "Forbidden".into()));
        let message = &find(&status.conditions, REMOVING).unwrap().message;
        assert_eq!(message, "still to go: 7 objects on 1 target; Forbidden on b: no");
        assert_eq!((status.summary.unwrap().terminating, status.targets_ready.as_deref()), (1, Some("1/1")));
    }

    #[test]
    fn what_is_deleted_says_why_it_does_not_go_a_failure_first() {
        let told = |targets: &[TargetView]| {
            let status = resource_status(
                &VidraResourceStatus::default(),
                &ResourceFacts { deleting: true, ..facts(targets, None) },
            );
            let ready = find(&status.conditions, READY).unwrap();
            assert_eq!(ready.reason, "Terminating");
            ready.message.clone()
        };
        let of = |cluster: &str, state, message: &str| {
            let message = Some(message.to_owned());
            TargetView { leaving: true, message, ..target(cluster, Some(state), "new") }
        };
        let going = of("a", TargetState::Terminating, "finalizers");
        let failed = of("b", TargetState::Failed, "a webhook says no");
        assert_eq!(told(std::slice::from_ref(&going)), "a: finalizers");
        assert_eq!(told(&[going, failed]), "b: a webhook says no");
    }

    #[test]
    fn a_target_whose_member_does_not_allow_the_namespace_any_more_holds_up_nothing() {
        let mut rests = target("b", Some(TargetState::Suspended), "old");
        rests.reason = Some(Reason::NamespaceNotAllowed.into());
        let well = || target("a", Some(TargetState::Ready), "new");
        let status_of = |targets: &[TargetView]| status(targets, None);
        let told = status_of(&[well(), rests.clone()]);
        assert_eq!(condition(&told, READY), ("True".into(), "Ready".into()));
        assert!(find(&told.conditions, READY).unwrap().message.contains("1 of 2 targets rest"));
        assert_eq!(told.targets_ready.as_deref(), Some("1/2"));
        let late = target("c", Some(TargetState::Progressing), "new");
        assert_eq!(condition(&status_of(&[well(), rests.clone(), late]), READY).1, "Progressing");
        rests.reason = Some(Reason::Suspended.into());
        let told = status_of(&[well(), rests]);
        assert_eq!(condition(&told, READY), ("False".into(), "TargetsSuspended".into()));
        let message = &find(&told.conditions, READY).unwrap().message;
        assert_eq!(
            message,
            "1 of 2 targets are suspended with their members; to go on, set spec.suspend of the MemberCluster to false: b"
        );
    }

    #[test]
    fn a_fight_on_a_cluster_stalls_the_resource_and_a_worse_stall_keeps_its_reason() {
        let stalled = |reason: &str| {
            let mut one = target("berlin", Some(TargetState::Ready), "new");
            one.stalled = Some(Stall { reason: reason.to_owned().into(), message: "bob did it".into() });
            status(&[target("austin", Some(TargetState::Ready), "new"), one], None)
        };
        for (reason, told) in
            [("Contention", "Contention"), ("RemovalHeld", "RemovalHeld"), ("Invalid", "TargetsFailed")]
        {
            let status = stalled(reason);
            assert_eq!(condition(&status, STALLED), ("True".into(), told.into()));
            assert_eq!(find(&status.conditions, STALLED).unwrap().message, "berlin: bob did it");
        }
        assert_eq!(condition(&stalled("Contention"), READY).0, "True");
    }

    #[test]
    fn what_is_suspended_or_stalled_as_it_is_declared_now_is_held() {
        let told = |suspend: bool, stalled: Option<(bool, i64)>, reason: &str, ready: &str| {
            let spec = VidraResourceSpec { suspend, ..VidraResourceSpec::default() };
            let mut resource = VidraResource::new("shop", spec);
            resource.metadata.generation = Some(2);
            resource.status = stalled.map(|(is, generation)| {
                let mut status = VidraResourceStatus::default();
                let now = Time(Timestamp::UNIX_EPOCH);
                for (kind, is, reason) in [(STALLED, is, reason), (READY, false, ready)] {
                    let conditions = &mut status.conditions;
                    set_condition(conditions, kind, is, reason, "why", Some(generation), now.clone());
                }
                status
            });
            is_held(&resource)
        };
        let held = |suspend: bool, stalled: Option<(bool, i64)>| {
            told(suspend, stalled, "ManifestInvalid", "ManifestInvalid")
        };
        for (stalled, ready) in [("TargetsFailed", "TargetsFailed"), ("RemovalHeld", "TargetsFailed")] {
            assert!(!told(false, Some((true, 2)), stalled, ready), "a target of it is {stalled}");
        }
        assert!(held(true, None) && held(true, Some((false, 2))) && held(false, Some((true, 2))));
        assert!(!held(false, None) && !held(false, Some((false, 2))));
        assert!(!held(false, Some((true, 1))), "that was said of an earlier declaration");
    }

    /// One that cannot be reached, and was Ready with this.
    fn lost(cluster: &str, had: Option<&str>) -> TargetView {
        let ready_revision = had.map(str::to_owned);
        TargetView { ready_revision, ..target(cluster, Some(TargetState::Unknown), "new") }
    }

    fn says(targets: &[TargetView], most: Option<MaxUnreachable>) -> (bool, String, String) {
        let facts = ResourceFacts { max_unreachable: most.as_ref(), ..facts(targets, None) };
        let status = resource_status(&VidraResourceStatus::default(), &facts);
        let ready = find(&status.conditions, READY).unwrap();
        (ready.status == "True", ready.reason.clone(), ready.message.clone())
    }

    #[test]
    fn so_many_that_were_ready_may_be_unreachable_and_others_may_not() {
        let count = |count| Some(MaxUnreachable::Count(count));
        let percent = |text: &str| Some(MaxUnreachable::Percent(text.to_owned()));
        let well = |cluster| target(cluster, Some(TargetState::Ready), "new");
        let (new, old) = (Some("new"), Some("old"));
        let cases = [
            (vec![well("a"), lost("b", new)], None, false),
            (vec![well("a"), lost("b", new)], count(1), true),
            (vec![well("a"), lost("b", new)], percent("50%"), true),
            (vec![well("a"), lost("b", new)], percent("49%"), false),
            (vec![well("a"), lost("b", new), lost("c", new)], count(1), false),
            (vec![well("a"), lost("b", new), lost("c", new)], count(2), true),
            // It never had this, or that is not known.
            (vec![well("a"), lost("b", old)], count(1), false),
            (vec![well("a"), lost("b", None)], count(1), false),
            // Nothing can be reached.
            (vec![lost("a", new), lost("b", new)], count(2), false),
            // Others are not ready for another reason.
            (vec![well("a"), lost("b", new), target("c", Some(TargetState::Failed), "new")], count(1), false),
            (
                vec![well("a"), lost("b", new), target("c", Some(TargetState::Waiting), "new")],
                count(1),
                false,
            ),
            (vec![well("a"), lost("b", new), target("c", Some(TargetState::Ready), "old")], count(1), false),
            (
                vec![well("a"), lost("b", new), target("c", Some(TargetState::Suspended), "new")],
                count(1),
                false,
            ),
        ];
        for (number, (targets, most, ready)) in cases.into_iter().enumerate() {
            let (is_ready, reason, message) = says(&targets, most);
            assert_eq!(is_ready, ready, "case {number}: {reason}, {message}");
        }
        let why = |targets: &[TargetView], most| says(targets, most).2;
        let told = why(&[well("a"), lost("b", new), lost("c", new)], count(1));
        assert!(told.ends_with("; spec.readiness.maxUnreachable allows 1"), "{told}");
        let told = why(&[well("a"), lost("b", new), lost("c", old)], count(2));
        assert!(told.ends_with("with this revision when last seen, which c was not"), "{told}");
        for others in [vec![], vec![target("c", Some(TargetState::Progressing), "new")]] {
            let targets: Vec<_> = [lost("a", new), lost("b", new)].into_iter().chain(others).collect();
            assert!(
                why(&targets, count(2)).ends_with("when another member is Ready, and none is"),
                "{targets:?}"
            );
        }
        assert!(!why(&[well("a"), lost("b", new)], None).contains("maxUnreachable"));
        let told = says(&[well("a"), lost("c", new), lost("b", new)], count(3));
        let message = "2 of 3 targets cannot be reached, and spec.readiness.maxUnreachable allows 3: b";
        assert_eq!(told, (true, "Ready".to_owned(), message.to_owned()));
    }
}
