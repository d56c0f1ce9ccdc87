//! A server that has just started: it answers before it knows all that it serves, and who may do what.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::handle::Answer;
use super::kinds::Kind;
use super::route::{Asked, Target};
use super::store::Store;
use super::{Cluster, Front};
use crate::failure::Failure;

/// What a server does not know yet, and for how long after its start. A real one of 1.36.3 with forty CRDs, on a
/// busy machine: rights 0.6 s, CRDs 0.3 s, health 6 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// The CRDs: aggregated discovery answers, and lacks their groups; plain `/apis` has one group. Requests
    /// for their kinds and groups, and for all that is nowhere, get 503 with a `retryAfterSeconds` of 5.
    pub crds: Duration,
    /// That 503 is a 404, as of servers before 1.23, or where several servers are behind one address and this
    /// one is behind the others.
    pub not_found: bool,
    /// Roles and bindings: who is under [RBAC](Cluster::authorize_with_rbac) gets 403 whatever is asked.
    pub rights: Duration,
    /// `/livez`, `/readyz` and `/healthz` say 500, at least as long as one of the others lasts.
    pub health: Duration,
}

/// What is not known now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Starting {
    pub crds: bool,
    pub rights: bool,
    health: bool,
    not_found: bool,
}

impl Front {
    pub(super) fn starting(&self) -> Starting {
        let Some((began, startup)) = &self.started else { return Starting::default() };
        let under = |time: Duration| began.elapsed() < time;
        let (crds, rights) = (under(startup.crds), under(startup.rights));
        Starting {
            crds,
            rights,
            health: crds || rights || under(startup.health),
            not_found: startup.not_found,
        }
    }
}

impl Starting {
    /// The kinds that discovery shows.
    pub fn shown(self, store: &Store) -> Cow<'_, [Arc<Kind>]> {
        let kinds = store.shown();
        match self.crds {
            true => kinds.iter().filter(|kind| kind.custom().is_none()).cloned().collect(),
            false => Cow::Borrowed(kinds),
        }
    }

    /// The answer to what the server does not know yet; `found` is the kind of the objects that are asked for.
    pub fn answer(self, store: &Store, asked: &Asked, found: Option<&Kind>) -> Option<Answer> {
        let known =
            |group: &str| store.kinds.iter().any(|kind| kind.group == group && kind.custom().is_none());
        let missing = match &asked.target {
            Target::Health => {
                let whole = matches!(asked.path.trim_end_matches('/'), "/livez" | "/readyz" | "/healthz");
                let text =
                    "[-]poststarthook/crd-informer-synced failed: reason withheld\nhealthz check failed\n";
                return (self.health && whole).then_some(Answer::Text(500, text));
            }
            Target::Group(group) | Target::Resources(group, _) => !known(group),
            Target::Objects(address) => match found {
                Some(kind) => kind.custom().is_some(),
                None => !known(&address.group),
            },
            Target::Unknown => true,
            _ => false,
        };
        (self.crds && missing).then(|| match self.not_found {
            true => Answer::Text(404, "404 page not found\n"),
            false => Failure::starting().into(),
        })
    }
}

impl Cluster {
    /// Starts the API server again, over the same store: connections and watches break, and it is there at
    /// once, but for what it does not know yet. Watches that go on from before this get 410: what they missed
    /// was in the memory of the server. With [`set_down`](Cluster::set_down) before it, it was away in between.
    pub fn restart(&self, startup: Startup) {
        let mut store = self.inner.store.lock();
        store.forget_events();
        drop(store);
        let mut front = self.inner.front.lock();
        front.started = Some((Instant::now(), startup));
        front.down = None;
        front.counts.cuts += 1;
        front.refusals += 1;
        drop(front);
        self.inner.wake.notify_waiters();
    }
}
