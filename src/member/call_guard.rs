//! A call under way for an object, held from before it is sent until its answer is folded (`records/in_flight.rs`).

use vidra_core::object::ObjectKey;

use super::session::Session;

/// Ends, when it is dropped, what [`CallGuard::begin`] began.
pub struct CallGuard<'a> {
    session: &'a Session,
    key: ObjectKey,
}

impl<'a> CallGuard<'a> {
    /// To be begun before the call is sent, and to be dropped when its answer is folded.
    pub fn begin(session: &'a Session, key: &ObjectKey) -> Self {
        session.records.begin_call(key);
        Self { session, key: key.clone() }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let targets = self.session.records.end_call(&self.key);
        self.session.wake(targets, None);
    }
}
