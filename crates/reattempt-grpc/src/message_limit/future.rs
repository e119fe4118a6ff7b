use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;
use reattempt::{CallHandle, StopReason};

use super::MessageTooLong;
use super::link::CallSide;
use super::prefixes::Sieve;
use super::response::{LimitedResponseBody, Watched};
use crate::Code;
use crate::head::is_of_stream;
use crate::made_status::trailers_only;

/// A call with a limit on its messages.
#[derive(Debug)]
pub(super) struct Limited {
    pub(super) response: Option<u64>,
    pub(super) call: CallSide,
    pub(super) handle: CallHandle,
}

pin_project! {
    /// The future of [`MessageLimit`](super::MessageLimit).
    pub struct MessageLimitFuture<F> {
        #[pin]
        inner: Option<F>,
        limited: Option<Limited>,
    }
}

impl<F> MessageLimitFuture<F> {
    pub(super) const fn new(inner: F, limited: Option<Limited>) -> Self {
        Self {
            inner: Some(inner),
            limited,
        }
    }
}

impl<F> fmt::Debug for MessageLimitFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageLimitFuture")
            .field("limited", &self.limited)
            .finish_non_exhaustive()
    }
}

impl<F> MessageLimitFuture<F> {
    /// Ready with the failure if a message of the request is too long.
    #[inline]
    fn poll_too_long<B>(
        self: Pin<&mut Self>,
        cx: &Context<'_>,
    ) -> Option<Response<LimitedResponseBody<B>>> {
        let too_long = self.limited.as_ref()?.call.poll_too_long(cx)?;
        Some(self.end(too_long))
    }

    #[cold]
    #[inline(never)]
    fn end<B>(self: Pin<&mut Self>, too_long: MessageTooLong) -> Response<LimitedResponseBody<B>> {
        let mut this = self.project();
        // First, so that the recovery layer knows why the call is dropped.
        if let Some(limited) = this.limited.as_ref() {
            limited.handle.stop(StopReason::Fatal);
        }
        this.inner.set(None);
        *this.limited = None;
        let mut answer = trailers_only(Code::ResourceExhausted, &too_long.to_string());
        answer.extensions_mut().insert(too_long);
        answer
    }
}

impl<F, B, E> Future for MessageLimitFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<LimitedResponseBody<B>>, E>;

    /// # Panics
    ///
    /// When it is polled after it returned that a message of the request is too long.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(answer) = self.as_mut().poll_too_long(cx) {
            return Poll::Ready(Ok(answer));
        }
        let Some(inner) = self.as_mut().project().inner.as_pin_mut() else {
            panic!("`MessageLimitFuture` polled after completion")
        };
        let polled = inner.poll(cx);
        // The inner future may have read the request's body.
        if let Some(answer) = self.as_mut().poll_too_long(cx) {
            return Poll::Ready(Ok(answer));
        }
        let outcome = ready!(polled);
        let this = self.project();
        let limited = this.limited.take();
        Poll::Ready(outcome.map(|response| {
            let watched = limited.map(|limited| {
                let sieve = |limit| (Sieve::new(limit, !is_of_stream(&response)), limit);
                Watched {
                    sieve: limited.response.map(sieve),
                    call: limited.call,
                    handle: limited.handle,
                }
            });
            response.map(|body| LimitedResponseBody::new(body, watched))
        }))
    }
}
