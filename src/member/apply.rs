//! Performs a plan's effects against a member: each once, guarded by uid and resourceVersion, within a
//! deadline. What comes back is folded at once; what went wrong is a value.

mod adopt;
mod body;
mod conflict;
mod create;
mod delete;
mod dry_run;
mod namespace_contents;
mod other_hub;
mod present;
mod recreate;

use std::{collections::BTreeSet, time::Duration};

use kube::{
    Api,
    api::{Patch, PatchParams, ValidationDirective},
    core::ApiResource,
};
use parking_lot::Mutex;
use serde_json::Value;
use vidra_api::labels::HUB_LABEL;
use vidra_core::{
    drift::{About, Does},
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey, Scope},
    plan::{Action, Drift, Effect, Why},
    render::{self, Declared},
};

use super::{
    flight::Flight,
    live::Live,
    owner::{Owner, Standing, standing},
    records::Source,
    session::Session,
    token::Token,
};
use crate::{
    base::error::{CallError, Class},
    desired::Desired,
};

use self::{
    delete::Parting,
    dry_run::{LOOKS, Would, changed_meanwhile},
    recreate::Was,
};

/// Longest value of a label.
const LABEL_MAX: usize = 63;

/// How an effect ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The object is as declared.
    Applied {
        /// Its uid.
        uid: String,
        /// Drift was undone.
        corrected: bool,
    },
    /// Fields of it could not be changed: it was deleted and made again.
    Recreated {
        /// Its new uid.
        uid: String,
        /// The fields, in words.
        fields: String,
    },
    /// It was deleted to be made again, and goes when its finalizers have run.
    Leaving,
    /// It is wanted only where there is none, and somebody else has made one; or it stays until another VidraResource
    /// applies it.
    Present,
    /// An object of its name is being deleted: it is made when that one is gone.
    InTheWay,
    /// It was looked at; what was found is in the records.
    Seen,
    /// It was made by others, and is ours and as declared from now on.
    Adopted {
        /// Its uid.
        uid: String,
        /// What those who applied it before keep of it, and what to do, in a sentence. `None`: nothing.
        apart: Option<String>,
    },
    /// The object is, or from now on is taken to be, not in this target any more.
    Gone,
    /// The inventory has it, and nothing on it says that it is ours: it is left alone, and not of this target any more.
    Unproven,
    /// It will be gone when its finalizers have run.
    Removing,
    /// Whether it is gone cannot be told yet.
    Unsettled {
        /// In a sentence.
        why: String,
    },
    /// It was not begun: what the process that led before had sent may take effect for this long.
    TooEarly {
        /// From now on.
        rest: Duration,
    },
    /// A person must decide.
    Refused {
        /// A condition reason.
        reason: &'static str,
        /// What is so, and what to do.
        message: String,
    },
    /// The call failed.
    Failed(CallError),
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        Outcome::Failed(error)
    }
}

type Step = Result<Outcome, CallError>;

/// Whether an inventory has an object with a uid.
type Recorded<'a> = dyn Fn(&ObjectKey, &str) -> bool + Send + Sync + 'a;

/// Performs effects for one owner on one member.
pub struct Executor<'a> {
    /// The member.
    pub session: &'a Session,
    /// For whom.
    pub owner: &'a Owner,
    /// What is declared.
    pub desired: &'a Desired,
    /// Leave to do it.
    pub token: &'a Token<'a>,
    /// Whether the inventory, as it is written now, has an object with this uid.
    recorded: Box<Recorded<'a>>,
    /// Objects that were not as expected, and were applied to all the same, in the effect under way.
    joined: Mutex<BTreeSet<ObjectKey>>,
    /// Objects of which only a read has said that they are gone, or are not ours.
    missed: Mutex<BTreeSet<ObjectKey>>,
}

impl<'a> Executor<'a> {
    /// For one reconcile. `recorded`: whether the inventory, as it is written now, has an object with this uid.
    pub fn new(
        session: &'a Session,
        owner: &'a Owner,
        desired: &'a Desired,
        token: &'a Token<'a>,
        recorded: impl Fn(&ObjectKey, &str) -> bool + Send + Sync + 'a,
    ) -> Self {
        let (joined, missed) = (Mutex::default(), Mutex::default());
        Self { session, owner, desired, token, recorded: Box::new(recorded), joined, missed }
    }

    fn is_recorded(&self, key: &ObjectKey, uid: &str) -> bool {
        (self.recorded)(key, uid)
    }
}

impl Executor<'_> {
    /// Performs one effect.
    pub async fn perform(&self, effect: &Effect) -> Outcome {
        self.joined.lock().remove(&effect.key);
        let step = match &effect.action {
            Action::Delete { uid } => self.remove(effect, &uid.to_string(), Parting::Delete).await,
            Action::DeleteEmpty { uid } => self.remove(effect, &uid.to_string(), Parting::DeleteEmpty).await,
            Action::Release { uid } => self.remove(effect, &uid.to_string(), Parting::Release).await,
            Action::Withdraw { uid } => self.remove(effect, &uid.to_string(), Parting::Withdraw).await,
            Action::Yield { uid, as_is } => {
                self.remove(effect, &uid.to_string(), Parting::Yield { as_is: *as_is }).await
            }
            applying => match self.desired.objects.get(&effect.key) {
                Some(declared) => self.bring(declared, applying).await,
                None => Ok(Outcome::Gone),
            },
        };
        step.unwrap_or_else(Outcome::Failed)
    }

    async fn bring(&self, declared: &Declared, action: &Action) -> Step {
        match action {
            Action::Create => self.create(declared, false).await,
            Action::Apply { uid, why: Why::Missing, force } => {
                self.make_again(declared, &uid.to_string(), *force).await
            }
            Action::Apply { uid, why, force } => self.apply(declared, &uid.to_string(), *why, *force).await,
            Action::Verify { uid, force } => self.verify(declared, &uid.to_string(), *force).await,
            Action::Look { uid } => self.look(declared, &uid.to_string()).await,
            Action::Delete { .. }
            | Action::DeleteEmpty { .. }
            | Action::Release { .. }
            | Action::Withdraw { .. }
            | Action::Yield { .. } => Ok(Outcome::Gone),
        }
    }

    async fn apply(&self, declared: &Declared, uid: &str, why: Why, force: bool) -> Step {
        let (records, own) = (&self.session.records, &self.owner.hash);
        let has_lost_entry = records.has_lost_entry(&declared.key, own);
        if has_lost_entry && let Err(error) = self.reclaim(declared, uid).await {
            return self.or_change_immutable(declared, uid, Err(error), Was::Ours).await;
        }
        // Planned when nobody's entry was seen: another one may have its own back by now, and what it holds.
        let force = force && !(has_lost_entry && records.is_outranked(&declared.key, own, declared));
        if !force
            && why != Why::Missing
            && let Some(outcome) = self.disturbs(declared, uid, why).await?
        {
            return Ok(outcome);
        }
        let sparing = self.sparing();
        let sparing = match mutants::is(Mutant::WriteIgnored) {
            true => std::sync::Arc::default(),
            false => sparing,
        };
        let step = match sparing.objects.get(&declared.key) {
            Some(spared) => self.apply_sparing(declared, spared, uid, why, force).await,
            None => {
                let mut body = self.body(declared);
                body["metadata"]["uid"] = uid.into();
                if mutants::is(Mutant::NoUidPrecondition) {
                    body["metadata"]["uid"].take();
                }
                self.apply_body(declared, &body, uid, why, force).await
            }
        };
        self.or_change_immutable(declared, uid, step, Was::Ours).await
    }

    /// A step that was refused for fields that cannot be changed.
    async fn or_change_immutable(&self, declared: &Declared, uid: &str, step: Step, was: Was) -> Step {
        match step {
            Err(error) => match &error.class {
                Class::InvalidFields(fields) => {
                    let fields = self.some_paths(&declared.key, fields);
                    Box::pin(self.change_immutable(declared, uid, &fields, error, was)).await
                }
                _ => Err(error),
            },
            step => step,
        }
    }

    async fn apply_body(&self, declared: &Declared, body: &Value, uid: &str, why: Why, force: bool) -> Step {
        match self.send(declared, body, force).await {
            Ok(uid) => Ok(Outcome::Applied { uid, corrected: why.is_drift() }),
            Err(error) => self.not_applied(declared, uid, why, force, error).await,
        }
    }

    /// An apply to the object with this uid was refused.
    async fn not_applied(
        &self,
        declared: &Declared,
        uid: &str,
        why: Why,
        force: bool,
        error: CallError,
    ) -> Step {
        match &error.class {
            Class::FieldConflict(fields) if !force => self.contest(declared, uid, why, fields, &error).await,
            // Another object bears the name now.
            Class::Conflict | Class::NotFound(_) | Class::NotServed if why == Why::Missing => {
                self.forget_record(&declared.key, uid);
                self.join(declared, Some((uid, error))).await
            }
            // An object that is there has its namespace: then a webhook says so.
            Class::Namespace { terminating: false } => match self.read(&declared.key, &declared.gvk).await? {
                Some(live) if live.uid() == uid => Err(error),
                _ => {
                    self.forget_record(&declared.key, uid);
                    self.create(declared, why.is_drift()).await
                }
            },
            Class::Conflict | Class::NotFound(_) | Class::NotServed => {
                self.join(declared, Some((uid, error))).await
            }
            // A uid that differs answers 422 for some kinds: see whether the body is at fault.
            _ if error.is_invalid() && why == Why::Missing => {
                match self.read(&declared.key, &declared.gvk).await? {
                    Some(live) if live.uid() == uid => Err(error),
                    Some(_) => self.join(declared, None).await,
                    None => self.create(declared, true).await,
                }
            }
            _ => Err(error),
        }
    }

    /// The name is taken: by whom? Only what is proved ours, or another resource's of this hub that agrees,
    /// is applied to. `refused`: an apply to the object with this uid was, for that; where it is the same object, it
    /// would be again, and the queue's back-off decides when. No uid: a create was.
    async fn join(&self, declared: &Declared, refused: Option<(&str, CallError)>) -> Step {
        let key = &declared.key;
        let recorded = self.session.records.uid(key);
        let Some(live) = self.read(key, &declared.gvk).await? else {
            // No watch tells that one is gone which had lost our label before.
            if let Some(uid) = recorded {
                self.forget_record(key, &uid.to_string());
            }
            return Err(match refused {
                // There is none that it could be in conflict with: a webhook says so.
                Some((_, error)) if matches!(error.class, Class::Conflict | Class::FieldConflict(_)) => error,
                _ => CallError {
                    class: Class::Conflict,
                    message: "the object came and went; trying again".into(),
                },
            });
        };
        let (uid, terminating) = (live.uid().to_owned(), live.is_terminating());
        let standing = standing(&live.json, self.owner);
        // No watch would tell of changes to one without our label.
        if matches!(standing, Standing::Ours | Standing::Shared) {
            match terminating {
                true => self.fold_seen(&declared.gvk, key, live.clone()),
                false => self.fold(&declared.gvk, live.clone(), Source::Read),
            }
        }
        match standing {
            _ if terminating => Ok(Outcome::InTheWay),
            Standing::Ours => match refused {
                Some((tried, error)) if tried == uid && !mutants::is(Mutant::RefusedGoesOn) => Err(error),
                // Somebody makes it again and again.
                _ if !self.joined.lock().insert(key.clone()) => Err(CallError {
                    class: Class::Conflict,
                    message: "the object is replaced again and again; trying again".into(),
                }),
                _ => Box::pin(self.apply(declared, &uid, Why::Changed, false)).await,
            },
            Standing::Shared => Box::pin(self.join_shared(declared, &live)).await,
            Standing::OtherHub(hub) => {
                let step = self.meet_other_hub(declared, live, &hub).await;
                self.or_change_immutable(declared, &uid, step, Was::Unproved).await
            }
            Standing::Controlled => Ok(controlled(key)),
            Standing::Foreign => {
                let step = self.meet(declared, live).await;
                self.or_change_immutable(declared, &uid, step, Was::Unproved).await
            }
        }
    }

    /// It is another resource's, and from then on ours too: exactly what was read, for that one may let it go
    /// meanwhile, and it would be nobody's of ours.
    async fn join_shared(&self, declared: &Declared, live: &Live) -> Step {
        let uid = live.uid();
        if let Some(outcome) = self.disturbs(declared, uid, Why::Joined).await? {
            return Ok(outcome);
        }
        let body = self.body_for(declared, live);
        let step = match self.send(declared, &body, false).await {
            Ok(uid) => Ok(Outcome::Applied { uid, corrected: false }),
            Err(error) => match &error.class {
                Class::FieldConflict(fields) => {
                    self.contest(declared, uid, Why::Joined, fields, &error).await
                }
                _ => Err(error),
            },
        };
        self.or_change_immutable(declared, uid, step, Was::Shared).await
    }

    /// Asks what an apply would change, and applies only when it would change a value, or whose one is.
    async fn verify(&self, declared: &Declared, uid: &str, force: bool) -> Step {
        // Until what is read is compared: a baseline from it must not hide a later change.
        let _flight = Flight::begin(self.session, &declared.key);
        let drifted = Action::Apply { uid: uid.into(), why: Why::Drifted, force };
        for _ in 0..LOOKS {
            let Some(live) = self.read(&declared.key, &declared.gvk).await? else {
                self.forget_record(&declared.key, uid);
                return self.create(declared, true).await;
            };
            let (live_uid, live_json) = (live.uid().to_owned(), live.json.clone());
            self.fold(&declared.gvk, live, Source::Read);
            let view = self.session.records.view(&self.owner.hash, &declared.key, self.desired);
            match view.map(|view| view.drift) {
                Some(Drift::None) => return Ok(Outcome::Applied { uid: live_uid, corrected: false }),
                Some(Drift::Differs) => return self.bring_boxed(declared, &drifted).await,
                _ => {}
            }
            match self.would(declared, uid, &live_json).await {
                Ok(Some(Would::Nothing)) => return Ok(Outcome::Applied { uid: live_uid, corrected: false }),
                Ok(Some(Would::Own)) => {
                    let own = Action::Apply { uid: uid.into(), why: Why::Changed, force };
                    return self.bring_boxed(declared, &own).await;
                }
                Ok(Some(Would::Change)) => return self.bring_boxed(declared, &drifted).await,
                Ok(None) => {}
                Err(error) => {
                    return self.or_change_immutable(declared, uid, Err(error), Was::Ours).await;
                }
            }
        }
        Err(changed_meanwhile())
    }

    async fn bring_boxed(&self, declared: &Declared, action: &Action) -> Step {
        Box::pin(self.bring(declared, action)).await
    }

    fn body(&self, declared: &Declared) -> Value {
        let owner = self.owner;
        let (generation, salt) = (owner.generation, self.session.salt());
        render::compose(declared, &owner.hub, &owner.hash, &owner.name, generation, salt)
    }

    fn params(&self, force: bool) -> PatchParams {
        PatchParams {
            force,
            field_manager: Some(self.owner.manager.clone()),
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::default()
        }
    }

    /// Applies; the answer is folded, and only then what arrived meanwhile. Returns the object's uid.
    async fn send(&self, declared: &Declared, body: &Value, force: bool) -> Result<String, CallError> {
        let _flight = Flight::begin(self.session, &declared.key);
        let api = self.api(&declared.key, self.resource(&declared.gvk)?);
        let (params, patch) = (self.params(force), Patch::Apply(body));
        let live = self
            .session
            .call(
                self.token,
                "apply",
                self.changing(&declared.key),
                api.patch(&declared.key.name, &params, &patch),
            )
            .await
            .map_err(|error| error.making_in(&declared.key.namespace))?;
        let uid = live.uid().to_owned();
        self.fold(&declared.gvk, live, Source::Answer(&self.owner.hash));
        Ok(uid)
    }

    async fn read(&self, key: &ObjectKey, gvk: &Gvk) -> Result<Option<Live>, CallError> {
        self.get(&self.api(key, self.resource(gvk)?), key).await
    }

    async fn get(&self, api: &Api<Live>, key: &ObjectKey) -> Result<Option<Live>, CallError> {
        match self.session.call(self.token, "get", reading(&key.group, &key.kind), api.get(&key.name)).await {
            Ok(live) => Ok(Some(live)),
            Err(error) if self.is_gone(&error, key) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The member says that this very object is not there.
    fn is_gone(&self, error: &CallError, key: &ObjectKey) -> bool {
        let (kinds, any_version) = (self.session.kinds(), Gvk::new(&key.group, "", &key.kind));
        let found = kinds.any_version(&any_version);
        found.is_some_and(|(_, (resource, _))| error.is_gone(&resource.group, &resource.plural, &key.name))
    }

    /// Of a call that changes the object.
    fn changing<'b>(&'b self, key: &'b ObjectKey) -> About<'b> {
        let declared = self.desired.objects.get(key).map(|declared| &*declared.body);
        About { group: &key.group, kind: &key.kind, does: Does::Writes(declared) }
    }

    /// The first few of these paths of the object, as messages may show them.
    fn some_paths(&self, key: &ObjectKey, paths: &[String]) -> String {
        let redact = &self.session.settings().redact;
        let shown: Vec<String> =
            paths.iter().map(|path| redact.shown_path(&key.group, &key.kind, path)).collect();
        conflict::some(&shown, conflict::PATHS)
    }

    fn resource(&self, gvk: &Gvk) -> Result<(ApiResource, Scope), CallError> {
        let unknown =
            || CallError { class: Class::NotServed, message: format!("the member does not serve {gvk}") };
        self.session.kinds().get(gvk).cloned().ok_or_else(unknown)
    }

    /// Where an inventory entry's kind is served now. `None`: discovery was complete and it is not served,
    /// so its objects are gone with it.
    async fn address(&self, gvk: &Gvk) -> Result<Option<(Gvk, (ApiResource, Scope))>, CallError> {
        let find = |kinds: &super::kinds::Kinds| match kinds.get(gvk) {
            Some(found) => Some((gvk.clone(), found.clone())),
            None => kinds.any_version(gvk).map(|(gvk, found)| (gvk, found.clone())),
        };
        if let Some(found) = find(&self.session.kinds()) {
            return Ok(Some(found));
        }
        let kinds = self.session.rediscover().await?;
        match find(&kinds) {
            Some(found) => Ok(Some(found)),
            None if kinds.is_stale(gvk) => Err(CallError {
                class: Class::Server,
                message: format!("the member cannot say now whether it serves {gvk}"),
            }),
            None => Ok(None),
        }
    }

    fn api(&self, key: &ObjectKey, (resource, scope): (ApiResource, Scope)) -> Api<Live> {
        match scope {
            Scope::Cluster => Api::all_with(self.session.client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(self.session.client.clone(), &key.namespace, &resource),
        }
    }

    fn fold(&self, gvk: &Gvk, live: Live, source: Source<'_>) {
        let targets = self.session.records.fold(gvk, live, source);
        // Of its own answer it is told only where that came too late.
        let cause = (!matches!(source, Source::Answer(_))).then_some(&self.owner.hash);
        self.session.wake(targets, cause);
    }

    /// Folds what was read and is not written: without the hub's label no watch tells of its end, and it counts as one that is
    /// not seen.
    fn fold_seen(&self, gvk: &Gvk, key: &ObjectKey, live: Live) {
        match live.json["metadata"]["labels"][HUB_LABEL] == *self.owner.hub.as_ref() {
            true => self.fold(gvk, live, Source::Read),
            false => self.forget_record(key, live.uid()),
        }
    }

    fn forget_record(&self, key: &ObjectKey, uid: &str) {
        let targets = self.session.records.fold_gone(key, uid, "");
        self.session.wake(targets, Some(&self.owner.hash));
    }
}

/// Of a call that reads objects of a kind.
fn reading<'b>(group: &'b str, kind: &'b str) -> About<'b> {
    About { group, kind, does: Does::Reads }
}

fn controlled(key: &ObjectKey) -> Outcome {
    Outcome::Refused {
        reason: "ControlledByOther",
        message: format!("{key} is made by a controller in the member; drop it from the manifest"),
    }
}
