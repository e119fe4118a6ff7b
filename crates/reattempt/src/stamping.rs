//! What keeps the path of a call that works in registers.

use std::mem::ManuallyDrop;
use std::task::Poll;

use reattempt_core::{Annotated, CallContext};

/// The request, stamped, and what `stamp` gave.
///
/// While it is stamped only the layers' own code runs, and nothing that may unwind is worth a
/// clean-up of the request: without one the compiler keeps the context in registers through the
/// whole stack of layers.
#[inline(always)]
pub(crate) fn stamping<Req: Annotated, T>(
    request: Req,
    stamp: impl FnOnce(&mut CallContext) -> T,
) -> (Req, T) {
    let mut request = ManuallyDrop::new(request);
    let given = stamp(request.context_mut());
    (ManuallyDrop::into_inner(request), given)
}

/// What a cold path came to, as what the hot path returns: of another type, so that the two do not
/// share a place in memory.
#[inline(always)]
pub(crate) fn as_poll<T>(outcome: Option<T>) -> Poll<T> {
    match outcome {
        Some(outcome) => Poll::Ready(outcome),
        None => Poll::Pending,
    }
}
