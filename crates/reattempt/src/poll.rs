//! What the layers' futures share.

use std::task::Poll;

/// Turns `None` into pending. A cold function returns an `Option`, so that its caller's outcome
/// stays in registers.
#[inline]
pub(crate) fn as_poll<T>(outcome: Option<T>) -> Poll<T> {
    match outcome {
        Some(outcome) => Poll::Ready(outcome),
        None => Poll::Pending,
    }
}

/// A future was polled after it returned its outcome.
#[cold]
#[inline(never)]
pub(crate) fn polled_after_completion(future: &'static str) -> ! {
    panic!("`{future}` polled after completion")
}
