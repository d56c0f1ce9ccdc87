//! What statuses say when faults are over and nobody has touched anything for a while: all that is declared is there,
//! or a status says why not, and what it says is so. What only an edit would wake has nobody to wake it here.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio::time::Instant;
use vidra_api::{
    labels::{HUB_LABEL, PRUNE},
    names::target_name,
};

use super::{Judge, SIGHT, appliers, bears, is_applied, is_near, is_of_another_hub, labelled, uid};
use crate::sim::{
    doc::{Doc, rests as is_resting},
    index::{Key, Target},
    marks,
    observer::OTHER_ID,
    sparing::{are_rules, tells},
    vary::are_readable,
};

/// What needs a person, as far as the hub knows, is tried again within this: five minutes, spread by a tenth.
const RETRIES_WITHIN: Duration = Duration::from_secs(335);

/// Reasons of calls that pass: the first such failure is tried again within half a minute, and by now has gone through.
const PASSES: [&str; 13] = [
    "NoAnswer",
    "ListFailed",
    "ServerError",
    "Throttled",
    "Expired",
    "Conflict",
    "NotFound",
    "NotServed",
    "NamespaceMissing",
    "NamespaceTerminating",
    "CredentialsRefused",
    "CannotWatch",
    "InventoryMissing",
];

impl Judge {
    /// What nobody says, and what is said and is not so, when all has had time to come to rest.
    pub fn untold(&self, now: Instant) -> Vec<String> {
        let mut wrong = self.stale_claims(now, SIGHT);
        for (name, resource) in self.index.declared.resources() {
            let said = self.told_by_resource(name, resource, now);
            wrong.extend(said.into_iter().map(|what| format!("{name} {what}")));
        }
        for target in self.index.targets.values() {
            wrong.extend(self.untold_by(target, now));
        }
        wrong.extend(self.silent_differences(now));
        wrong.extend(self.silent_rivalries(now));
        wrong.extend(self.silent_strays());
        wrong.extend(self.told_by_members());
        wrong.extend(self.untold_values());
        wrong
    }

    /// The same of one member that is well, while another is not: what is wrong there is put right all the same, or told.
    pub fn untold_on(&self, member: &str, now: Instant) -> Vec<String> {
        let targets = || self.index.targets.values().filter(|target| target.cluster == member);
        let mut wrong: Vec<_> = targets().filter_map(|target| self.untold_by(target, now)).collect();
        let declared = &self.index.declared;
        for target in targets().filter(|target| target.state == "Ready") {
            let Target { resource, .. } = target;
            // Where its VidraResource says that nothing new is delivered, it keeps what was.
            let asked = match declared.tells_rest(resource) {
                true if target.present => self.asked(target),
                true => BTreeMap::new(),
                false => {
                    let wanted = declared.wanted().filter(|(key, by, _)| key[0] == member && *by == resource);
                    wanted.map(|(key, _, doc)| (key.clone(), doc.clone())).collect()
                }
            };
            let differ = asked.iter().filter(|(key, doc)| {
                !self.index.is_as_declared(resource, key, doc) && !self.is_left(resource, key, doc, now)
            });
            wrong.extend(differ.map(|(key, _)| {
                format!("{} is not as {resource} declares it, and nobody says so", key.join("/"))
            }));
        }
        wrong
    }

    fn untold_by(&self, target: &Target, now: Instant) -> Option<String> {
        let Target { resource, cluster, state, reason, message, .. } = target;
        let what = self.told_by_target(target, now)?;
        Some(format!("{resource}.{cluster} says {state} {reason} ({message}), {what}"))
    }

    fn targets_of(&self, resource: &str) -> impl Iterator<Item = &Target> {
        self.index.targets.values().filter(move |target| target.resource == resource)
    }

    fn told_by_resource(&self, name: &str, resource: &Value, now: Instant) -> Option<String> {
        let (metadata, spec, status) = (&resource["metadata"], &resource["spec"], &resource["status"]);
        let declared = &self.index.declared;
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let Some(ready) = conditions.into_iter().find(|one| one["type"] == "Ready") else {
            return Some("has no status".to_owned());
        };
        let said = format!("says {} ({})", ready["reason"], ready["message"]);
        if ready["observedGeneration"] != metadata["generation"] {
            return Some(format!("is of generation {}, and {said} of another", metadata["generation"]));
        }
        let targets: Vec<_> = self.targets_of(name).collect();
        let counted = |state: &str| targets.iter().filter(|one| one.present && one.state == state).count();
        for (field, state) in [("failed", "Failed"), ("unknown", "Unknown"), ("suspended", "Suspended")] {
            if status["summary"][field].as_u64().unwrap_or_default() != counted(state) as u64 {
                return Some(format!(
                    "counts {}, of {state} there are {}",
                    status["summary"],
                    counted(state)
                ));
            }
        }
        let is_ready = |target: &&Target| target.present && target.is_current && target.state == "Ready";
        let any = |state: &str| targets.iter().any(|target| target.state == state);
        let readable = declared.is_readable(name);
        // Nobody waits for those whose members do not allow the namespace; they have what they had.
        let awaited: Vec<&Target> =
            targets.iter().copied().filter(|one| !declared.is_revoked(name, &one.cluster)).collect();
        let stale =
            awaited.iter().any(|one| one.present && Some(&*one.revision) != status["revision"].as_str());
        let so = match ready["reason"].as_str().unwrap_or_default() {
            "Ready" => {
                let revision = status["revision"].as_str().unwrap_or_default();
                let generation = metadata["generation"].as_i64().unwrap_or_default();
                let newest = declared.is_of(name, revision, generation, now);
                let rest = awaited.iter().filter(|target| target.present);
                let agree = rest.clone().all(|target| is_ready(target) && target.revision == revision);
                spec["suspend"] != true && readable && newest && agree
            }
            "Suspended" => spec["suspend"] == true,
            "Progressing" => !stale && awaited.iter().any(|target| !is_ready(target)),
            "TargetsWaiting" => !stale && any("Waiting"),
            "TargetsSuspended" => any("Suspended"),
            "TargetsFailed" => !stale && any("Failed"),
            "MembersUnreachable" => !stale && any("Unknown"),
            "NoTargets" => declared.selected(name) == 0,
            "ClusterNotFound" => self.names_a_missing_cluster(spec),
            "SourceNotFound" | "SourceInvalid" | "ManifestInvalid" => !readable,
            "HealthChecksInvalid" => !declared.has_usable_rules(name),
            "OverridesInvalid" => !are_readable(&spec["overrides"]),
            "OverrideMatchesNothing" => !spec["overrides"].is_null(),
            "IgnoreInvalid" => !are_rules(spec),
            "RemovalHeld" => true,
            "Terminating" => !metadata["deletionTimestamp"].is_null() && !targets.is_empty(),
            _ => false,
        };
        (!so).then(|| format!("{said}, and that is not so: {targets:?}"))
    }

    /// Does it name a cluster for which there is no MemberCluster?
    fn names_a_missing_cluster(&self, spec: &Value) -> bool {
        let entries =
            [&spec["targets"], &spec["overrides"]].into_iter().filter_map(Value::as_array).flatten();
        let lists = entries.map(|entry| &entry["clusterNames"]).chain([&spec["excludeClusters"]]);
        let mut names = lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        names.any(|name| self.index.declared.member_named(name).is_none())
    }

    /// What a VidraTarget's spec asks for. While a removal is held, that is neither what is declared nor asked of who is
    /// selected.
    pub(super) fn asked(&self, target: &Target) -> BTreeMap<Key, Doc> {
        let Target { resource, revision, cluster, inputs, namespace, .. } = target;
        let docs = self.index.declared.revision_with(resource, revision, cluster, inputs);
        let docs = docs.iter().flat_map(|docs| docs.iter());
        docs.map(|doc| (doc.key(cluster, namespace), doc.clone())).collect()
    }

    /// Another VidraResource declares something of what goes, and is not ready to take it over; or nobody can tell whether
    /// one does, which is told.
    fn is_handed_over(&self, target: &Target) -> bool {
        let declared = &self.index.declared;
        let is_open =
            |name: &String| is_near(name, &target.resource) && declared.ready_reason(name) != Some("Ready");
        if target.reason == "HandingOver" && declared.resources().any(|(name, _)| is_open(name)) {
            return true;
        }
        let goes = self.asked(target);
        self.index.targets.values().any(|other| {
            other.present
                && other.cluster == target.cluster
                && other.resource != target.resource
                && is_near(&other.resource, &target.resource)
                && other.state != "Ready"
                && self.asked(other).keys().any(|key| goes.contains_key(key))
        })
    }

    /// What is wrong with what a target says.
    fn told_by_target(&self, target: &Target, now: Instant) -> Option<String> {
        let declared = &self.index.declared;
        let member = declared.member_named(&target.cluster);
        let leaves = member.is_none_or(|member| !member["metadata"]["deletionTimestamp"].is_null());
        // Finalizers of others run.
        let ends = |key: &Key| self.index.live(key).is_some_and(|live| is_ending(&live));
        let rests = member.is_some_and(|member| member["spec"]["suspend"] == true) && !leaves;
        let is_locked = declared.lacks_kubeconfig(&target.cluster);
        if !target.is_current {
            return Some("of an earlier generation".to_owned());
        }
        if !target.present {
            let excused = rests
                || leaves
                || is_locked
                || target.state == "Failed"
                || target.state == "Suspended"
                || self.index.held_by(&target_name(&target.resource, &target.cluster)).into_iter().any(ends)
                || self.is_handed_over(target);
            return (!excused).then(|| "and should be gone".to_owned());
        }
        let wanted = self.asked(target);
        let spec = self.index.policies(&target.resource, &target.cluster)?;
        let retries = declared.retries() && spec["reconcile"]["retryInterval"].is_null();
        let is_met = |(key, doc): (&Key, &Doc)| self.index.is_as_declared(&target.resource, key, doc);
        // What is not kept as declared counts by its health all the same, while it is there.
        let is_going = |(key, doc): (&Key, &Doc)| !doc.is_kept() && ends(key);
        let late =
            || wanted.iter().any(|one| !is_met(one) || is_going(one) || self.may_be_late(target, one.0, now));
        let live = |is: &dyn Fn(&Value, &Key) -> bool| {
            wanted.keys().any(|key| self.index.live(key).is_some_and(|live| is(&live, key)))
        };
        let manager = super::manager(&target.resource);
        // Where its removal is held, its targets go by what it said before.
        let is_held = declared.ready_reason(&target.resource) == Some("RemovalHeld");
        // What is there stays as it is until the member allows the namespace.
        let is_revoked = declared.is_revoked(&target.resource, &target.cluster);
        let so = match (target.state.as_str(), target.reason.as_str()) {
            ("Ready", _) if is_revoked => false,
            ("Ready", _) => match tells(spec) && !self.is_forgetful(&target.cluster) {
                true => return self.misreport(target, now).map(|what| format!("and {what}")),
                false => true,
            },
            ("Suspended", "NamespaceNotAllowed") => is_revoked,
            ("Suspended", _) => spec["suspend"] == true || rests || is_held,
            ("Unknown", "NoCredentials") => leaves || is_locked,
            ("Unknown", _) => leaves,
            ("Progressing", _)
            | ("Waiting", "WaitingForObject" | "WaitingForWave")
            | ("Failed", "ObjectFailed" | "HealthCheckTimeout" | "ImmutableField") => late(),
            ("Waiting", "HandingOver") => self.is_handed_over(target),
            ("Waiting", "WaitingForSuspended") => self.waits_for_what_rests(target, &wanted),
            ("Waiting", "ObjectTerminating") => wanted.keys().any(ends),
            ("Failed", "ObjectsMissing") => {
                // What bears its name there now may be another one's.
                let is_lost = wanted
                    .keys()
                    .any(|key| self.index.live(key).is_none_or(|live| !appliers(&live).contains(&manager)));
                (spec["drift"]["policy"] == "Report" || is_held) && (late() || is_lost)
            }
            (_, "NamespaceMissing" | "NamespaceTerminating") if self.lack_place(wanted.keys()) => true,
            ("Failed", "Forbidden" | "NotFound" | "ServerError") if backs_off(target, now) => true,
            (_, reason) if PASSES.contains(&reason) => !retries,
            // Nobody tells of the other hub's leaving either, or of the end of what bears no label.
            _ if self.was_in_the_way(target, &wanted, retries, now) => true,
            (
                _,
                "AlreadyExists" | "ExistingDiffers" | "NotOurs" | "ControlledByOther" | "OwnedByOtherHub",
            ) => live(&|live, _| {
                !labelled(live)
                    || !appliers(live).contains(&manager)
                    || !self.index.holds_uid(uid(live))
                    || !live["metadata"]["labels"][HUB_LABEL].is_null() && !is_applied(live)
            }),
            (_, "SharedObjectConflict") => self.is_disputed(target, &wanted, now),
            (_, "FieldConflict") => spec["conflicts"]["fields"] == "Fail",
            (_, "KindUnknown") => {
                wanted.keys().any(|key| !key[1].is_empty() && self.index.live(key).is_none())
            }
            (_, "OverrideFailed") => !spec["overrides"].is_null(),
            (_, "RemovalHeld" | "Contention" | "HubRestored") => true,
            _ => false,
        };
        (!so).then(|| "and that is not so".to_owned())
    }

    /// Another one declares something of it too, or did when this one was tried last.
    fn is_disputed(&self, target: &Target, wanted: &BTreeMap<Key, Doc>, now: Instant) -> bool {
        // Nobody tells of the other's leaving: it is found at the next try.
        let then = now.checked_sub(RETRIES_WITHIN).unwrap_or(now);
        let lately = |key: &Key| self.index.declared.wanted_lately(key, then);
        let others = |key: &Key| lately(key).iter().any(|by| **by != target.resource);
        let rivals = self.index.targets.values().filter(|other| {
            other.present && other.cluster == target.cluster && other.resource != target.resource
        });
        let rivals: Vec<_> = rivals.map(|other| self.asked(other)).collect();
        wanted.keys().any(|key| {
            others(key)
                || rivals.iter().any(|asked| asked.contains_key(key))
                || self.is_kept_undeclared(target, key, then)
                || self.is_marked_again(target, key, then)
        })
    }

    /// A backup has brought back on it what one had applied that had left it. The target names that one, which is of another
    /// namespace and has a target there: who shares an object is known from its entries. Or the object is nobody's.
    fn is_marked_again(&self, target: &Target, key: &Key, then: Instant) -> bool {
        let mut owners = self.returned.iter().filter(|(of, _)| of == key).map(|(_, owner)| owner);
        owners.any(|owner| {
            let manager = super::manager(owner);
            let counts = match self.index.targets.contains_key(&target_name(owner, &key[0])) {
                true => !is_near(owner, &target.resource),
                false => self.is_back_for_nobody(key),
            };
            target.message.contains(&format!("otherwise by {manager}:"))
                && counts
                && self.index.was_ever(key, then, |live| appliers(live).contains(&manager))
        })
    }

    /// What had been removed is there again, in no inventory: it may be of one that is yet to be applied to the hub again.
    fn is_back_for_nobody(&self, key: &Key) -> bool {
        let live = self.index.live(key);
        live.is_some_and(|live| !self.index.holds_uid(uid(&live)) && self.is_of_nobody(key, &live))
    }

    /// Is the Namespace of one of these missing, or being deleted?
    fn lack_place<'a>(&self, mut keys: impl Iterator<Item = &'a Key>) -> bool {
        keys.any(|key| self.index.live(&namespace_of(key)).is_none_or(|live| is_ending(&live)))
    }

    /// What it names rests, and something of a later wave is not there as declared, or was last applied as something else.
    fn waits_for_what_rests(&self, target: &Target, wanted: &BTreeMap<Key, Doc>) -> bool {
        let Target { resource, message, .. } = target;
        let is_named = |key: &Key| message.split([' ', '/']).any(|word| word == key[4]);
        let rests = |key: &Key| self.index.live(key).is_some_and(|live| is_resting(&live));
        let resting = wanted.iter().filter(|(key, _)| is_named(key) && rests(key));
        let Some(wave) = resting.map(|(_, doc)| doc.wave()).min() else { return false };
        wanted.iter().filter(|(_, doc)| doc.wave() > wave).any(|(key, doc)| {
            !self.index.is_as_declared(resource, key, doc) || !self.may_have_been_applied(resource, key, doc)
        })
    }

    /// Does an object perhaps not work for a target, by what the hub may go by?
    fn may_be_late(&self, target: &Target, key: &Key, now: Instant) -> bool {
        let live = self.index.live(key);
        live.is_some_and(|live| self.index.standing(&target.resource, key, &live, now).late)
    }

    /// Another VidraResource declares it no more, and has it all the same, for nothing goes there now; or had it so since then.
    /// Of its own namespace one takes over what another has dropped, where anybody can tell that it has.
    fn is_kept_undeclared(&self, target: &Target, key: &Key, then: Instant) -> bool {
        let others = self.index.keeping(&key[0], then).filter(|(by, _)| **by != target.resource);
        let mut others = others.filter(|(by, is_unread)| *is_unread || !is_near(by, &target.resource));
        others.any(|(by, _)| {
            let manager = super::manager(by);
            let has = |live: &Value| appliers(live).contains(&manager);
            let is_left = || self.index.live(key).is_none_or(|live| !has(&live));
            // Of an inventory that is lost nobody can tell.
            let is_held = || self.is_held_for(key, by) || self.is_forgetful(&key[0]);
            self.index.was_ever(key, then, has) && (is_left() || is_held())
        }) || self.is_kept_for_missing(target, key)
    }

    /// Another VidraResource has dropped it and keeps it for one of its own namespace that declares it and is missing: what
    /// becomes of that one people say.
    fn is_kept_for_missing(&self, target: &Target, key: &Key) -> bool {
        let is_there = |one: &&Target| one.present && one.cluster == key[0];
        let targets = || self.index.targets.values().filter(is_there);
        let keeps = |by: &Target, missing: &Target| {
            by.resource != target.resource
                && by.resource != missing.resource
                && is_near(&by.resource, &missing.resource)
                && self.is_held_for(key, &by.resource)
        };
        targets()
            .filter(|missing| missing.reason == "ResourceMissing" && self.asked(missing).contains_key(key))
            .any(|missing| targets().any(|by| keeps(by, missing)))
    }

    /// What is declared, is not there, is not left so, and is said to be there.
    fn silent_differences(&self, now: Instant) -> Vec<String> {
        let declared = &self.index.declared;
        let differ = declared.wanted().filter(|(key, resource, doc)| {
            !self.index.is_as_declared(resource, key, doc) && !self.is_left(resource, key, doc, now)
        });
        let silent = differ.filter(|(key, resource, _)| {
            let target = self.targets_of(resource).find(|target| target.cluster == key[0]);
            let told = target.is_some_and(|target| target.state != "Ready");
            !told && declared.ready_reason(resource) == Some("Ready")
        });
        let what = silent.map(|(key, resource, doc)| {
            let live = self.index.live(key);
            format!(
                "{} is not as {resource} declares it, and nobody says so: {}, found {live:?}",
                key.join("/"),
                doc.body
            )
        });
        what.collect()
    }

    /// What it was refused for was in its way, if it is not now, since the last try: where nothing is tried again, that was an
    /// interval ago. What bears another hub's label or none no watch shows.
    fn was_in_the_way(
        &self,
        target: &Target,
        wanted: &BTreeMap<Key, Doc>,
        retries: bool,
        now: Instant,
    ) -> bool {
        let within = if retries { RETRIES_WITHIN } else { RETRIES_WITHIN * 2 };
        let then = now.checked_sub(within).unwrap_or(now);
        let is_named = |key: &Key| target.message.split([' ', '/']).any(|word| word == key[4]);
        let is_gone = |key: &Key| self.index.live(key).is_none() && is_named(key);
        let was_bare = |key: &Key| self.index.was_ever(key, then, |live| !labelled(live));
        match target.reason.as_str() {
            "OwnedByOtherHub" => wanted.keys().any(|key| self.index.was_ever(key, then, is_of_another_hub)),
            "AlreadyExists" | "ExistingDiffers" | "ControlledByOther" => {
                wanted.keys().any(|key| is_gone(key) && was_bare(key))
            }
            _ => false,
        }
    }

    /// What is declared bears the label of the other hub, with just these values or with others, and nobody says so.
    fn silent_rivalries(&self, now: Instant) -> Vec<String> {
        let declared = &self.index.declared;
        let mut silent = Vec::new();
        for (key, resource, doc) in declared.wanted().filter(|(.., doc)| doc.is_kept()) {
            if !self.index.live(key).is_some_and(|live| bears(&live, OTHER_ID)) {
                continue;
            }
            marks::note("rule:name of two hubs");
            let target = self.targets_of(resource).find(|target| target.cluster == key[0]);
            let told = target.is_some_and(|target| target.state != "Ready")
                || declared.ready_reason(resource) != Some("Ready");
            if !told && !self.is_left(resource, key, doc, now) {
                let name = key.join("/");
                silent.push(format!("{name} is the other hub's, {resource} declares it, and nobody says so"));
            }
        }
        silent
    }

    /// What is there, is the hub's, and is wanted by nobody; nobody tells of it.
    fn silent_strays(&self) -> Vec<String> {
        let declared = &self.index.declared;
        let strays = self.index.labelled().filter(|key| declared.wanted_since(key).next().is_none());
        let strays: Vec<_> = strays.map(|key| (key, self.index.holders(key))).collect();
        // It says how many objects are still to go, and not which.
        let counts = |name: &String, target: &Target| {
            let held = strays.iter().filter(|(_, holders)| holders.contains(name)).count();
            target.removing > 0 && target.removing >= held as u64
        };
        let silent = strays.iter().filter(|(key, holders)| {
            let Some(live) = self.index.live(key) else { return false };
            let kept = live["metadata"]["annotations"][PRUNE] == "disabled";
            if kept
                || self.foreign.contains(uid(&live))
                || holders.is_empty() && self.is_of_nobody(key, &live)
                || self.is_forgetful(&key[0]) && !self.index.holds_uid(uid(&live))
            {
                return false;
            }
            let tells = |target: &Target| {
                let spec = self.index.policies(&target.resource, &target.cluster);
                !target.is_current
                    || target.state != "Ready"
                    || target.open.iter().any(|(_, of)| of == *key)
                    || target.changes_cut
                    || spec
                        .is_none_or(|spec| spec["prune"] == false || spec["suspend"] == true || !tells(spec))
                    || declared.ready_reason(&target.resource) != Some("Ready")
            };
            let tells = |name: &String, target: &Target| tells(target) || counts(name, target);
            // One that was lost while its VidraResource is suspended is not made before that goes on.
            let rests = |name: &str| {
                let of = name.rsplit_once('.').map(|(resource, _)| resource);
                of.is_some_and(|resource| declared.ready_reason(resource) == Some("Suspended"))
            };
            let is_told = |name: &String| match self.index.targets.get(name) {
                Some(target) => tells(name, target),
                None => rests(name) || self.is_written_behind(name),
            };
            !holders.iter().any(is_told)
        });
        silent
            .map(|(key, _)| format!("{} is there, is not wanted, and nobody says so", key.join("/")))
            .collect()
    }

    fn told_by_members(&self) -> Vec<String> {
        let (mut wrong, declared) = (Vec::new(), &self.index.declared);
        for (name, member) in self.index.declared.fleet() {
            let (metadata, status) = (&member["metadata"], &member["status"]);
            if !metadata["deletionTimestamp"].is_null() {
                continue;
            }
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let ready = conditions.find(|one| one["type"] == "Ready").unwrap_or(&Value::Null);
            if declared.lacks_kubeconfig(name) {
                let says = |reason: &str| ready["reason"] == reason;
                if !says("KubeconfigInvalid") && !says("KubeconfigMissing") {
                    wrong.push(format!("{name} has no kubeconfig that can be read, and says {ready}"));
                }
                continue;
            }
            if ready["status"] != "True" {
                wrong.push(format!("{name} can be worked with, and says {ready}"));
                continue;
            }
            let on = self.index.targets.values();
            let on = on.filter(|target| target.cluster == *name && target.present);
            let total = on.clone().count();
            // One that has its revision, and that is the one that is asked for.
            let has = |target: &Target| {
                let claims = target.ready.as_ref().is_some_and(|claim| claim.revision == target.revision);
                claims
                    && declared.asked_revision(&target.resource).is_none_or(|asked| asked == target.revision)
            };
            let is = |target: &Target, state: &str| {
                target.is_current && target.state == state && (state != "Ready" || has(target))
            };
            let of = |state: &str| on.clone().filter(|target| is(target, state)).count();
            let counted = &status["targets"];
            let same = |field: &str, count: usize| counted[field].as_u64() == Some(count as u64);
            if !(same("total", total) && same("ready", of("Ready")) && same("failed", of("Failed"))) {
                let (ready, failed) = (of("Ready"), of("Failed"));
                wrong.push(format!(
                    "{name} counts {counted}, and there are {total} targets, {ready} ready, {failed} failed"
                ));
            }
        }
        wrong
    }
}

/// Does it say this after it had failed for another reason? Only the first failure for a new reason is tried again soon: whoever
/// has it tried once more meanwhile finds the back-off of what was told before.
fn backs_off(target: &Target, now: Instant) -> bool {
    target.failed_before.is_some() && target.failed_since.is_some_and(|since| since + RETRIES_WITHIN > now)
}

/// Is it being deleted?
pub(super) fn is_ending(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The Namespace that an object is in.
fn namespace_of(key: &Key) -> Key {
    [&key[0], "", "Namespace", "", &key[3]].map(str::to_owned)
}
