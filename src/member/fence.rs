//! The fence in front of a member: a reconcile takes one when it begins, and it is asked before each call. From the moment
//! that the member is out of contact or another one, that something else is wanted, or that this process may not lead any
//! more, nothing is sent that was decided before.

use vidra_core::mutants::{self, Mutant};

use crate::base::{error::CallError, withdrawal::Withdrawn};

/// A time in which a session is open and nobody doubts who answers: it is another one after each break, and each doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// How often the session was opened.
    pub opened: u64,
    /// How often there was doubt.
    pub doubts: u64,
}

/// Leave to call a member, checked before each call.
pub struct Fence<'a> {
    /// The session's epoch, as it is now.
    now: Box<dyn Fn() -> Option<Epoch> + Send + Sync + 'a>,
    /// The epoch in which the fence was taken.
    taken: Option<Epoch>,
    /// Whether what was decided is still wanted, and this process leads.
    stands: Box<dyn Fn() -> Result<(), Withdrawn> + Send + Sync + 'a>,
}

impl<'a> Fence<'a> {
    /// For as long as the session stays open, which says so by its epoch, and as `stands` says nothing else.
    pub fn new(
        epoch: impl Fn() -> Option<Epoch> + Send + Sync + 'a,
        stands: impl Fn() -> Result<(), Withdrawn> + Send + Sync + 'a,
    ) -> Self {
        Self { taken: epoch(), now: Box::new(epoch), stands: Box::new(stands) }
    }

    /// Whether a call may still be sent.
    ///
    /// # Errors
    /// Why not: a [`Withdrawn`].
    pub fn check(&self) -> Result<(), CallError> {
        if mutants::is(Mutant::FenceForEver) {
            return Ok(());
        }
        if self.taken.is_none() || (self.now)() != self.taken {
            return Err(Withdrawn::Contact.into());
        }
        Ok((self.stands)()?)
    }
}
