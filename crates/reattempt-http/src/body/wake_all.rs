//! One waker for all copies that wait for the same source.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Wakes every copy that waits for the source. Separate from the buffer, because the source stores
/// its waker, and a waker that owned the source would keep both alive forever.
#[derive(Debug, Default)]
pub(super) struct WakeAll(Mutex<Vec<Waker>>);

impl WakeAll {
    pub(super) fn add(&self, waker: &Waker) {
        let mut wakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    pub(super) fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for WakeAll {
    fn wake(self: Arc<Self>) {
        self.take().into_iter().for_each(Waker::wake);
    }
}
