//! The limit on requests without a response: each needs a permit.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Resolves to a permit.
pub(super) type Acquire =
    Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

/// One caller's position in the permit queue. A clone starts without a permit.
pub(super) struct Limit {
    semaphore: Arc<Semaphore>,
    waiting: Option<Acquire>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Limit {
    pub(super) fn new(permits: usize) -> Self {
        let permits = permits.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            semaphore: Arc::new(Semaphore::new(permits)),
            waiting: None,
            permit: None,
        }
    }

    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.permit.is_some() {
            return Poll::Ready(());
        }
        if self.waiting.is_none() {
            // Taking a free permit does not allocate.
            if let Some(permit) = self.free() {
                self.permit = Some(permit);
                return Poll::Ready(());
            }
        }
        let semaphore = &self.semaphore;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(semaphore.clone().acquire_owned()));
        let acquired = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        self.permit = Some(acquired.expect("the semaphore is never closed"));
        Poll::Ready(())
    }

    /// A free permit, if there is one.
    pub(super) fn free(&self) -> Option<OwnedSemaphorePermit> {
        self.semaphore.clone().try_acquire_owned().ok()
    }

    /// Waits for a permit, after those that wait already. Dropping it leaves the queue.
    pub(super) fn queue(&self) -> Acquire {
        Box::pin(self.semaphore.clone().acquire_owned())
    }

    /// The permit that `poll_ready` acquired.
    pub(super) fn take(&mut self) -> OwnedSemaphorePermit {
        self.permit
            .take()
            .expect("call without a poll_ready that returned Ready")
    }
}

impl Clone for Limit {
    fn clone(&self) -> Self {
        Self {
            semaphore: self.semaphore.clone(),
            waiting: None,
            permit: None,
        }
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit")
            .field("free", &self.semaphore.available_permits())
            .finish()
    }
}
