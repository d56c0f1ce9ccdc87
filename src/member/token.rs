//! Leave to call a member. A reconcile takes one when it begins, and it is asked before each call: from the moment that
//! the member is out of contact or another one, that something else is wanted, or that this process may not lead any
//! more, nothing is sent that was decided before.

use std::fmt;

use vidra_core::mutants::{self, Mutant};

use super::session::Session;
use crate::base::error::{CallError, Class};

/// Why a leave counts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// The session is not open, or was not in between.
    Contact,
    /// The session has ended: the member has other credentials, or none. Unlike all others, this may be said of a call that
    /// was sent.
    Ended,
    /// The VidraTarget says something else, or is another.
    Target,
    /// The member is suspended.
    Suspended,
    /// The Lease was not renewed lately: another process may have it.
    Lease,
    /// What the VidraTarget asks for is not what the VidraResource and the MemberCluster ask for.
    Wish,
}

impl fmt::Display for Withdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contact => "contact with the member was lost",
            Self::Ended => "the member's credentials were replaced",
            Self::Target => "something else is wanted now",
            Self::Suspended => "the member is suspended",
            Self::Lease => "the Lease was not renewed lately",
            Self::Wish => "it is not wanted any more",
        })
    }
}

/// The same as of a call that is not made, or whose answer nobody waits for.
impl From<Withdrawn> for CallError {
    fn from(why: Withdrawn) -> Self {
        Self { class: Class::Withdrawn, message: why.to_string() }
    }
}

/// See the module.
pub struct Token<'a> {
    session: &'a Session,
    epoch: Option<(u64, u64)>,
    stands: Box<dyn Fn() -> Result<(), Withdrawn> + Send + Sync + 'a>,
}

impl<'a> Token<'a> {
    /// For as long as the session stays open, and as this says nothing else.
    pub fn new(session: &'a Session, stands: impl Fn() -> Result<(), Withdrawn> + Send + Sync + 'a) -> Self {
        Self { session, epoch: session.epoch(), stands: Box::new(stands) }
    }

    /// Whether it still counts.
    pub fn counts(&self) -> Result<(), Withdrawn> {
        if mutants::is(Mutant::TokenForEver) {
            return Ok(());
        }
        if self.epoch.is_none() || self.session.epoch() != self.epoch {
            return Err(Withdrawn::Contact);
        }
        (self.stands)()
    }

    /// The same as of a call that is not made.
    ///
    /// # Errors
    /// [`Class::Withdrawn`].
    pub fn check(&self) -> Result<(), CallError> {
        self.counts().map_err(CallError::from)
    }
}
