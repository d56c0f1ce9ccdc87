//! The Lease, kept on a thread of its own: with a thousand members joining, the other threads may have seconds
//! of work before a renewal would have its turn there, and a hub that does not renew must end.

use std::{io, sync::Arc};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::lease::{Claim, Tenure};

/// Why the Lease is not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError<E> {
    /// The thread could not be started.
    #[error("cannot start the thread that keeps the Lease: {0}")]
    Thread(#[from] io::Error),
    /// It ended by itself: something in it panicked.
    #[error("the thread that keeps the Lease ended by itself; see the log")]
    Died,
    /// The claim could not be made.
    #[error(transparent)]
    Claim(E),
}

/// A Lease that was acquired.
pub struct Keeper {
    /// What those ask who write under it.
    pub tenure: Arc<Tenure>,
    held: oneshot::Receiver<bool>,
    over: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Keeper {
    /// Makes the claim on a thread of its own, where its client has to live, and waits until the Lease is ours;
    /// `None`: until `stop`.
    pub async fn acquire<E: Send + 'static>(
        make: impl Future<Output = Result<Claim, E>> + Send + 'static,
        stop: CancellationToken,
    ) -> Result<Option<Self>, KeeperError<E>> {
        let (say_acquired, acquired) = oneshot::channel();
        let (say_held, held) = oneshot::channel();
        let (over, is_over) = oneshot::channel();
        let (say_ended, ended) = oneshot::channel();
        let keep = async move {
            let claim = match make.await {
                Ok(claim) => claim,
                Err(error) => return drop(say_acquired.send(Err(error))),
            };
            let ours = stop.run_until_cancelled(claim.acquire()).await.is_some();
            if say_acquired.send(Ok(ours.then(|| claim.tenure()))).is_err() || !ours {
                return;
            }
            let held = claim.hold(stop).await;
            let _ = say_held.send(held);
            // The hub writes until it has ended; dropped unsaid, it has ended too.
            let _ = is_over.await;
            if held {
                claim.release().await;
            }
            let _ = say_ended.send(());
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("lease".to_owned()).spawn(move || runtime.block_on(keep))?;
        match acquired.await {
            Ok(Ok(Some(tenure))) => Ok(Some(Self { tenure, held, over, ended })),
            Ok(Ok(None)) => Ok(None),
            Err(_) => Err(KeeperError::Died),
            Ok(Err(error)) => Err(KeeperError::Claim(error)),
        }
    }

    /// Waits until it is held no longer: true, `stop` came; false, it was lost.
    pub async fn held(&mut self) -> bool {
        (&mut self.held).await.unwrap_or(false)
    }

    /// The hub has ended: the Lease is given back, if it is held.
    pub async fn end(self) {
        let Self { over, ended, .. } = self;
        let _ = over.send(());
        let _ = ended.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_the_thread_that_keeps_the_lease_is_an_error_and_no_end_that_was_asked_for() {
        let claim = async { panic!("on purpose") };
        let ended = Keeper::acquire::<std::convert::Infallible>(claim, CancellationToken::new()).await;
        assert!(matches!(ended, Err(KeeperError::Died)));
    }
}
