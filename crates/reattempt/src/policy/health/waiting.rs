//! Callers that wait for the backend of a circuit until the circuit opens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

/// All callers that wait for one backend.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Callers>);

#[derive(Debug, Default)]
struct Callers {
    wakers: BTreeMap<u64, Waker>,
    /// The number of the next caller.
    next: u64,
}

/// One caller, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waits {
    all: Arc<Waiting>,
    number: u64,
}

impl Waiting {
    fn with<T>(&self, change: impl FnOnce(&mut Callers) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn wait(self: &Arc<Self>) -> Waits {
        let number = self.with(|callers| {
            callers.next += 1;
            callers.next
        });
        Waits {
            all: Arc::clone(self),
            number,
        }
    }

    #[cold]
    pub(super) fn wake_all(&self) {
        let wakers = self.with(|callers| std::mem::take(&mut callers.wakers));
        // Outside of the lock: a waker may run the caller at once.
        wakers.into_values().for_each(Waker::wake);
    }
}

impl Waits {
    /// Wakes this task when the circuit opens. Ask afterwards whether it has opened meanwhile.
    pub(crate) fn until_open(&self, cx: &Context<'_>) {
        let waker = cx.waker().clone();
        let _old = self
            .all
            .with(|callers| callers.wakers.insert(self.number, waker));
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let _old = self.all.with(|callers| callers.wakers.remove(&self.number));
    }
}
