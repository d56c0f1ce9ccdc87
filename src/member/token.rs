//! Leave to call a member. A reconcile takes one when it begins, and it is asked before each call: from the moment that
//! the member is out of contact or another one, that something else is wanted, or that this process may not lead any
//! more, nothing is sent that was decided before.

use vidra_core::mutants::{self, Mutant};

use crate::base::{error::CallError, withdrawal::Withdrawn};

/// Leave to call a member, checked before each call.
pub struct Token<'a> {
    /// The session's time of being open, as it is now.
    now: Box<dyn Fn() -> Option<(u64, u64)> + Send + Sync + 'a>,
    epoch: Option<(u64, u64)>,
    stands: Box<dyn Fn() -> Result<(), Withdrawn> + Send + Sync + 'a>,
}

impl<'a> Token<'a> {
    /// For as long as the session stays open, which says so by its epoch, and as `stands` says nothing else.
    pub fn new(
        epoch: impl Fn() -> Option<(u64, u64)> + Send + Sync + 'a,
        stands: impl Fn() -> Result<(), Withdrawn> + Send + Sync + 'a,
    ) -> Self {
        Self { epoch: epoch(), now: Box::new(epoch), stands: Box::new(stands) }
    }

    /// Whether a call may still be sent.
    ///
    /// # Errors
    /// Why not: a [`Withdrawn`].
    pub fn check(&self) -> Result<(), CallError> {
        if mutants::is(Mutant::TokenForEver) {
            return Ok(());
        }
        if self.epoch.is_none() || (self.now)() != self.epoch {
            return Err(Withdrawn::Contact.into());
        }
        Ok((self.stands)()?)
    }
}
