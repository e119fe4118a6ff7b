//! The task that opens a connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

use super::{Inner, Pool};
use crate::mongodb::client::{ClientOptions, Connection, MongoError};

/// The task that opens a connection; it ends with this.
#[derive(Debug)]
pub(super) struct Opening(AbortHandle);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Opening {
    /// Opens a connection for the caller with this ticket, or for another one. `None` where the
    /// runtime has ended.
    pub(super) fn begin(inner: &Arc<Inner>, ticket: u64) -> Option<Self> {
        let (address, options) = (inner.address.clone(), Arc::clone(&inner.options));
        let seen = Arc::new(AtomicBool::new(false));
        let ends = Ends {
            // A pool without callers ends its tasks.
            pool: Arc::downgrade(inner),
            ticket,
            opened: None,
            began: false,
            seen: Arc::clone(&seen),
        };
        let opening = inner.runtime.spawn(ends.open(address, options));
        let is_gone = seen.swap(true, Ordering::AcqRel);
        (!is_gone).then(|| Self(opening.abort_handle()))
    }
}

/// The end of the task that opens a connection.
struct Ends {
    pool: Weak<Inner>,
    ticket: u64,
    opened: Option<Result<Connection, MongoError>>,
    began: bool,
    /// Set by the first of the two that learn of a task which never ran: its end, and the call that
    /// started it, which then holds the lock.
    seen: Arc<AtomicBool>,
}

impl Ends {
    async fn open(mut self, address: String, options: Arc<ClientOptions>) {
        self.began = true;
        self.opened = Some(Connection::open(&address, &options, true).await);
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.began && !self.seen.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(inner) = self.pool.upgrade() {
            Pool { inner }.opened(self.ticket, self.opened.take());
        }
    }
}
