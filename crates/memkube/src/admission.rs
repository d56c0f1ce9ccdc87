//! What a request has to pass beside the server's own rules: users' rights, and the admission hooks that
//! stand for webhooks.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::failure::Failure;
use super::fault::{Call, Verb};
use super::rights::{Attributes, Authority, Caller};
use super::route::Asked;
use super::store::Store;
use super::write::{Validation, Write};
use super::{Cluster, Inner};

/// Changes an object that is created or updated, as a mutating webhook does. It is called for whole objects
/// (not for their subresources), in dry runs too, after defaults are filled in and managedFields are
/// written: as on the real server, what it adds is owned by nobody, and what it changes by who wrote the
/// field. It runs while the store is held: it must not use the cluster.
pub type MutateHook = Arc<dyn Fn(&Call, &mut Value) + Send + Sync>;

/// Allows or refuses a write, as a validating webhook does. It is called with the object as it would be
/// stored, also where nothing would change and in dry runs, and for a delete with the object as it is; for
/// status and scale with the whole object. What the server's own controllers do is not asked about. It
/// runs while the store is held: it must not use the cluster.
pub type AdmitHook = Arc<dyn Fn(&Call, &Value) -> Result<(), Denial> + Send + Sync>;

/// A webhook's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The webhook's name.
    pub webhook: String,
    /// HTTP status; webhooks mostly say 403, and one that says none is answered 400.
    pub code: u16,
    /// `reason` of the Status; empty for none.
    pub reason: String,
    /// Why.
    pub message: String,
    /// `details` of the Status, which the server passes on as they are; null for none.
    pub details: Value,
}

impl Denial {
    /// 403 Forbidden, as most webhooks answer.
    pub fn new(webhook: &str, message: &str) -> Self {
        let (webhook, message) = (webhook.to_owned(), message.to_owned());
        Denial { webhook, code: 403, reason: "Forbidden".to_owned(), message, details: Value::Null }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "admission webhook {:?} denied the request", self.webhook)?;
        match (self.message.as_str(), self.reason.as_str()) {
            ("", "") => f.write_str(" without explanation"),
            ("", reason) => write!(f, ": {reason}"),
            (message, _) => write!(f, ": {message}"),
        }
    }
}

impl From<Denial> for Failure {
    fn from(denial: Denial) -> Self {
        let failure = Failure::new(denial.code.max(400), &denial.reason, denial.to_string());
        Failure { details: denial.details, ..failure }
    }
}

/// The hooks of a cluster.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    mutate: Option<MutateHook>,
    admit: Option<AdmitHook>,
}

/// What one request has to pass.
pub(super) struct Gate {
    call: Call,
    hooks: Hooks,
    /// Who calls, where rights are looked at, and what is known of users.
    pub rights: Option<(Caller, Arc<Authority>)>,
}

/// What a write does, and with which object.
pub(super) enum Written<'a> {
    Create(&'a Value),
    Update(&'a Value),
    Delete(&'a Value),
}

impl Inner {
    /// None where every request passes.
    pub(super) fn gate(&self, call: &Call) -> Option<Gate> {
        let front = self.front.lock();
        let hooks = front.hooks.clone();
        let rights = front.authority.clone().map(|authority| (authority.caller(&call.user), authority));
        let none = rights.is_none() && hooks.mutate.is_none() && hooks.admit.is_none();
        (!none).then(|| Gate { call: call.clone(), hooks, rights })
    }
}

impl Store {
    /// Refuses a request that its user has no right to. Who may act as another user is that user from here
    /// on.
    pub(super) fn authorized(&mut self, mut gate: Gate, asked: &Asked) -> Result<Gate, Failure> {
        if let Some((caller, authority)) = &mut gate.rights {
            if let Some(other) = authority.acting(&asked.as_user, &asked.as_groups) {
                for attributes in Attributes::to_act_as(&asked.as_user, &asked.as_groups) {
                    self.rights().demand(caller, &attributes)?;
                }
                *caller = other;
            }
            self.rights().demand(caller, &Attributes::of(asked))?;
        }
        Ok(gate)
    }

    /// Lets the mutating hook change what is to be created or updated; the result is brought into its stored
    /// form again.
    pub(super) fn mutate(&mut self, write: &Write, object: Value) -> Result<Value, Failure> {
        let Some(gate) = write.gate.as_deref().filter(|_| write.subresource.is_empty()) else {
            return Ok(object);
        };
        let Some(hook) = &gate.hooks.mutate else { return Ok(object) };
        let mut new = object.clone();
        hook(&gate.call, &mut new);
        if new == object {
            return Ok(object);
        }
        let write = Write { validation: Validation::Ignore, ..write.clone() };
        let (mut new, emptied) = self.decode(&write, new, 500)?;
        write.settle(&mut new, emptied);
        Ok(new)
    }

    /// Asks whether a write may be: an apply that creates needs the right to create too, and then the hook
    /// is asked.
    pub(super) fn admit(&mut self, write: &Write, written: Written<'_>) -> Result<(), Failure> {
        let Some(gate) = write.gate.as_deref() else { return Ok(()) };
        if let (Written::Create(_), Some((caller, _))) = (&written, &gate.rights) {
            let attributes = Attributes {
                verb: "create".to_owned(),
                group: write.kind.group.clone(),
                resource: write.kind.plural.clone(),
                namespace: write.place.namespace.clone(),
                name: write.place.name.clone(),
                ..Attributes::default()
            };
            // A create was asked about before, and its name is not part of that question.
            if gate.call.verb != Verb::Create {
                self.rights().demand(caller, &attributes)?;
            }
        }
        let (Written::Create(object) | Written::Update(object) | Written::Delete(object)) = written;
        match &gate.hooks.admit {
            Some(hook) => Ok(hook(&gate.call, object)?),
            None => Ok(()),
        }
    }
}

impl Cluster {
    /// Lets this hook change what is created and updated from now on; `None` ends it.
    pub fn set_mutating_admission(&self, hook: Option<MutateHook>) {
        self.inner.front.lock().hooks.mutate = hook;
    }

    /// Lets this hook allow or refuse writes from now on; `None` ends it.
    pub fn set_validating_admission(&self, hook: Option<AdmitHook>) {
        self.inner.front.lock().hooks.admit = hook;
    }

    /// Makes an API group that is served unavailable, as one whose own server does not answer, or with `true`
    /// available again: requests for it get 503, plain discovery of it fails, and aggregated discovery calls
    /// it stale. An APIService of it says so too. Its objects stay.
    pub fn set_group_available(&self, group: &str, available: bool) {
        let mut store = self.inner.store.lock();
        store.set_available(group, available, (self.inner.clock)());
        self.inner.schedule(&mut store);
        drop(store);
        self.inner.wake.notify_waiters();
    }
}
