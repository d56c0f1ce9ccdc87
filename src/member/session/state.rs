//! How a session stands with its member.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;
use vidra_core::status::Reason;

use crate::{
    base::error::{CallError, Class},
    member::{absent::Absent, kinds::Kinds},
};

/// How the session stands with its member. Only in an open one is anything written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The first answer is awaited.
    Connecting,
    /// It answers; whether it is the cluster that is meant is being found out.
    Asking(Answering),
    /// It answers, and is the cluster that is meant.
    Open(Answering),
    /// It answers, and is not to be written to.
    Refused(Answering, String),
    /// It does not answer, or refuses the credentials.
    Down {
        /// Since when.
        since: Timestamp,
        /// The last failure; in other words for the same it is told every two minutes at most.
        error: CallErrorNote,
    },
}

/// What a member says of itself at /readyz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It serves all that it will.
    Ready,
    /// Not yet.
    NotReady,
    /// It does not tell: the hub may not ask there, or nothing answers.
    Untold,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// The uid of its kube-system namespace.
    pub uid: String,
    /// Its version, as it says.
    pub version: String,
}

impl State {
    /// Who answers, if somebody does.
    pub fn answering(&self) -> Option<&Answering> {
        match self {
            Self::Asking(who) | Self::Open(who) | Self::Refused(who, _) => Some(who),
            Self::Connecting | Self::Down { .. } => None,
        }
    }
}

/// A failure as the status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallErrorNote {
    /// A condition reason.
    pub reason: Reason,
    /// A sentence.
    pub message: String,
    /// The member answered, and refused the credentials.
    pub refused: bool,
}

impl From<&CallError> for CallErrorNote {
    fn from(error: &CallError) -> Self {
        let refused = matches!(error.class, Class::Unauthenticated | Class::Forbidden);
        Self { reason: error.reason(), message: error.message.clone(), refused }
    }
}

/// What is known of who answers, and since when.
pub(super) struct Contact {
    pub(super) state: State,
    /// Grows whenever the session ceases to be open: what was begun before ends then.
    pub(super) epoch: u64,
    /// The uid that the cluster loop has accepted: a member that comes back as the same need not be asked about again.
    pub(super) accepted: Option<String>,
    /// The cluster whose objects are recorded.
    pub(super) recorded: Option<String>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) discovered: Option<Instant>,
    pub(super) absent: Absent,
    /// When its silence was told last.
    pub(super) told: Option<Instant>,
}

impl Contact {
    /// What who answers says of itself; its version alone may change while it does.
    pub(super) fn answering(&mut self) -> Option<&mut Answering> {
        match &mut self.state {
            State::Asking(who) | State::Open(who) | State::Refused(who, _) => Some(who),
            State::Connecting | State::Down { .. } => None,
        }
    }

    pub(super) fn go(&mut self, next: State) {
        let ceases = matches!(self.state, State::Open(_)) && self.state != next;
        self.epoch += u64::from(ceases);
        self.state = next;
    }
}
