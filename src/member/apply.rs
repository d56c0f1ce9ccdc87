//! Performs a plan's effects against a member: each once, guarded by uid and resourceVersion, within a
//! deadline. What an apply does next is decided in vidra-core's `apply`; here the calls are sent that its steps name. What
//! comes back is ingested at once; what went wrong is a value.

mod cache;
mod call;
mod create;
mod delete;
mod dry_run;
mod facts;
mod namespace_contents;
mod refusal;

use std::{collections::BTreeSet, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use vidra_core::{
    apply::{self, Act, Answer, ApplyInput, ApplyState, End},
    object::ObjectKey,
    owner::Owner,
    plan::{Action, Effect},
    render::Declared,
    status::Reason,
};

use self::{
    call::{Deletion, answer_of},
    facts::ObjectFacts,
};
use super::{call_guard::CallGuard, fence::Fence, live::Live, records::Source, session::Session};
use crate::{base::error::CallError, desired::Desired};

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
        other_versions: Option<String>,
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
        reason: Reason,
        /// What stands in the way, and what to do.
        message: String,
    },
    /// The call failed.
    Failed(CallError),
}

/// Whether an inventory has an object with a uid.
type Recorded<'a> = dyn Fn(&ObjectKey, &str) -> bool + Send + Sync + 'a;
/// Whether another VidraResource may declare an object.
type Claimed<'a> = dyn Fn(&ObjectKey) -> bool + Send + Sync + 'a;

/// Performs effects for one owner on one member.
pub struct Executor<'a> {
    /// The member.
    pub session: &'a Session,
    /// For whom.
    pub owner: &'a Owner,
    /// What is declared.
    pub desired: &'a Desired,
    /// Leave to do it.
    pub fence: &'a Fence<'a>,
    /// Whether the inventory, as it is written now, has an object with this uid.
    is_recorded: Box<Recorded<'a>>,
    /// Whether another VidraResource may declare an object, as it is known now.
    is_claimed: Box<Claimed<'a>>,
    /// Objects of which only a read has said that they are gone, or are not ours.
    missed: Mutex<BTreeSet<ObjectKey>>,
    /// Objects that were deleted to be made again.
    deleted: Mutex<BTreeSet<ObjectKey>>,
}

impl<'a> Executor<'a> {
    /// For one reconcile. `is_recorded`: whether the inventory, as it is written now, has an object with this uid.
    /// `is_claimed`: whether another VidraResource may declare it, as it is known now.
    pub fn new(
        session: &'a Session,
        owner: &'a Owner,
        desired: &'a Desired,
        fence: &'a Fence<'a>,
        is_recorded: impl Fn(&ObjectKey, &str) -> bool + Send + Sync + 'a,
        is_claimed: impl Fn(&ObjectKey) -> bool + Send + Sync + 'a,
    ) -> Self {
        let (missed, deleted) = (Mutex::default(), Mutex::default());
        let (is_recorded, is_claimed) = (Box::new(is_recorded), Box::new(is_claimed));
        Self { session, owner, desired, fence, is_recorded, is_claimed, missed, deleted }
    }

    /// Whether it was deleted to be made again since this was asked last.
    pub fn take_deleted(&self, key: &ObjectKey) -> bool {
        self.deleted.lock().remove(key)
    }

    /// Performs one effect.
    pub async fn perform(&self, effect: &Effect) -> Outcome {
        if let Action::Remove { uid, mode } = &effect.action {
            return delete::remove(self, effect, &uid.to_string(), *mode)
                .await
                .unwrap_or_else(Outcome::Failed);
        }
        match self.desired.objects.get(&effect.key) {
            Some(declared) => perform_apply(self, declared, &effect.action).await,
            None => Outcome::Gone,
        }
    }

    /// What only reads show to be gone counts as gone if the right cluster still answers after them: where no watch is
    /// open, no connection breaks when the address comes to lead to another cluster.
    pub async fn confirm_gone(&self, done: &mut [(Effect, Outcome)]) {
        let missed = std::mem::take(&mut *self.missed.lock());
        if missed.is_empty() {
            return;
        }
        let Err(error) = self.session.confirm(self.fence).await else { return };
        for (effect, outcome) in done {
            if matches!(outcome, Outcome::Gone) && missed.contains(&effect.key) {
                *outcome = Outcome::Failed(error.clone());
            }
        }
    }
}

/// Sends what each step of an apply names, until it ends.
async fn perform_apply(executor: &Executor<'_>, declared: &Declared, action: &Action) -> Outcome {
    // Until what is read is compared, or told: a baseline from it must not hide a later change, nor what it shows a later end.
    let _guard = CallGuard::begin(executor.session, &declared.key);
    let facts = ObjectFacts { executor, declared };
    let (owner, salt) = (executor.owner, executor.session.salt());
    let input = ApplyInput { owner, declared, salt, facts: &facts };
    let mut state = ApplyState::new(input);
    let mut step = apply::begin(&mut state, action);
    loop {
        for note in &step.notes {
            cache::note(executor, &declared.gvk, &declared.key, state.live(), note);
        }
        match send(executor, &input, state.live(), step.act).await {
            Ok(answer) => step = apply::next(&mut state, answer),
            Err(end) => return outcome(executor, &declared.key, end),
        }
    }
}

/// Sends the call that a step names about an object, which was read as `live`. Error: the apply has ended.
async fn send(
    executor: &Executor<'_>,
    input: &ApplyInput<'_>,
    live: &Value,
    act: Act<CallError>,
) -> Result<Answer<CallError>, End<CallError>> {
    let declared = input.declared;
    Ok(match act {
        Act::End(end) => return Err(end),
        Act::Read => answer_of(call::read(executor, &declared.key, &declared.gvk).await, |live| {
            Answer::Read(live.map(|live| live.json))
        }),
        Act::Create(body) => answer_of(create::create(executor, declared, &body).await, Answer::Applied),
        Act::Apply { body, force } => {
            answer_of(call::apply(executor, declared, &body, force).await, Answer::Applied)
        }
        Act::DryRun { body, force } => {
            answer_of(dry_run::dry_run(executor, declared, &body, force).await, |would| {
                Answer::DryRun(would.json)
            })
        }
        Act::Compare(body) => {
            answer_of(dry_run::compare(executor, input, live, &body).await, Answer::Compared)
        }
        Act::Ingest => {
            cache::ingest(executor, &declared.gvk, Live::from(live.clone()), Source::Read);
            Answer::Ingested
        }
        Act::Rewrite(patch) => {
            answer_of(call::rewrite(executor, declared, &patch).await, |live| Answer::Rewritten(live.json))
        }
        Act::DryRunCreate(body) => {
            answer_of(dry_run::could_be_created(executor, declared, body).await, Answer::Creatable)
        }
        Act::Delete { fields } => {
            let fields = refusal::some_paths(executor, &declared.key, &fields);
            tracing::info!(object = %declared.key, fields, "the hub deletes an object to create it again");
            let deletion = call::delete(executor, declared, &Live::from(live.clone())).await;
            if deletion.is_ok() {
                executor.deleted.lock().insert(declared.key.clone());
            }
            answer_of(deletion, |deletion| Answer::Deleted { is_terminating: deletion == Deletion::Going })
        }
    })
}

fn outcome(executor: &Executor<'_>, key: &ObjectKey, end: End<CallError>) -> Outcome {
    match end {
        End::Applied { uid, corrected } => Outcome::Applied { uid: uid.to_string(), corrected },
        End::Recreated { uid, fields } => {
            let fields = refusal::some_paths(executor, key, &fields);
            Outcome::Recreated { uid: uid.to_string(), fields }
        }
        End::Adopted { uid, other_versions } => {
            tracing::info!(object = %key, "the hub adopted an object");
            Outcome::Adopted {
                uid: uid.to_string(),
                other_versions: refusal::other_versions(executor, key, &other_versions),
            }
        }
        End::Leaving => Outcome::Leaving,
        End::Present => Outcome::Present,
        End::InTheWay => Outcome::InTheWay,
        End::Seen => Outcome::Seen,
        End::Gone => Outcome::Gone,
        End::TooEarly(rest) => Outcome::TooEarly { rest },
        End::Refused(refusal) => refusal::outcome(executor, key, &refusal),
        End::Retry(why) => Outcome::Failed(refusal::retry(why)),
        End::Failed(error) => Outcome::Failed(error),
    }
}
