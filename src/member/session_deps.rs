//! What a session and its informers need of the house.

use std::sync::Arc;

use vidra_api::names::HubId;
use vidra_core::{render::HashKey, status::Reason};

use super::{late_creates::LateCreatesByMember, records::ValueBytes};
use crate::{
    base::{
        env::{Clock, Rng},
        interner::Interned,
        limiter::Shared,
    },
    config::{health_rules::HealthRules, tuning::Tuning},
    internal_limits::InternalLimits,
    leader_election::late_writes::LateWrites,
    metrics::Metrics,
    workqueue::Queue,
};

/// Takes a cluster and a field manager of this hub; whether it is that of a target there.
pub type IsOwner = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// Takes a cluster, a reason, and a sentence.
pub type Warn = Arc<dyn Fn(&str, Reason, &str) + Send + Sync>;

/// What a session needs of the rest of the process.
#[derive(Clone)]
pub struct SessionDeps {
    /// This hub.
    pub hub: HubId,
    /// The salt of what stands for secret values.
    pub salt: HashKey,
    /// Where contact lost and found is told.
    pub queue: Arc<Queue>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub rng: Arc<dyn Rng>,
    /// Calls are counted here.
    pub metrics: Metrics,
    /// The calls that all members share.
    pub calls: Shared,
    /// Bounds.
    pub limits: InternalLimits,
    /// What all members have alike.
    pub interned: Arc<Interned>,
    /// What values that come back take, of all members.
    pub value_bytes: ValueBytes,
    /// What can be changed while the hub runs.
    pub tuning: Arc<Tuning>,
    /// How objects are judged.
    pub health: Arc<HealthRules>,
    /// Wakes all targets of a cluster.
    pub wake_targets: Arc<dyn Fn(&str) + Send + Sync>,
    /// Whether a field manager of this hub is somebody's.
    pub is_owner: IsOwner,
    /// Says of a cluster, for a reason, what somebody should look at.
    pub warn: Warn,
    /// What calls may still make in members though nobody waits for their answers.
    pub late_creates: Arc<LateCreatesByMember>,
    /// Writes that may take effect late; `None`: no other process can be there, before or after this one.
    pub late: Option<Arc<LateWrites>>,
}
