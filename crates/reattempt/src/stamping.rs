//! Keeps the path of a successful call in registers.

use std::mem::ManuallyDrop;
use std::task::Poll;

use reattempt_core::{Annotated, CallContext};

/// Applies `stamp` to the request's context, and returns the request and the result of `stamp`.
///
/// Only the layers' own code runs meanwhile, and no unwind justifies a clean-up of the request:
/// without one the compiler keeps the context in registers through the whole stack of layers.
#[inline(always)]
pub(crate) fn stamping<Req: Annotated, T>(
    request: Req,
    stamp: impl FnOnce(&mut CallContext) -> T,
) -> (Req, T) {
    let mut request = ManuallyDrop::new(request);
    let given = stamp(request.context_mut());
    (ManuallyDrop::into_inner(request), given)
}

/// Converts the result of a cold path to that of the hot path: of another type, so that the two do
/// not share memory.
#[inline(always)]
pub(crate) fn as_poll<T>(outcome: Option<T>) -> Poll<T> {
    match outcome {
        Some(outcome) => Poll::Ready(outcome),
        None => Poll::Pending,
    }
}
