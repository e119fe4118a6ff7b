use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::{CallContext, FoundPushback, ReadPushback};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`Pushback`](super::Pushback).
    #[derive(Debug)]
    pub struct PushbackFuture<F, R> {
        #[pin]
        inner: F,
        reader: R,
        context: Option<CallContext>,
    }
}

impl<F, R> PushbackFuture<F, R> {
    pub(super) const fn new(inner: F, reader: R, context: Option<CallContext>) -> Self {
        Self {
            inner,
            reader,
            context,
        }
    }
}

impl<F, R, Res, Err> Future for PushbackFuture<F, R>
where
    F: Future<Output = Result<Res, Err>>,
    R: ReadPushback<Res, Err>,
{
    type Output = Result<Res, Err>;

    // 5 % of six layers.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        if let Some(context) = this.context.take() {
            match this.reader.read(outcome.as_ref(), &context) {
                FoundPushback::Absent => {}
                FoundPushback::Unreadable => context.reporter().pushback_unreadable(),
                FoundPushback::Valid(pushback) => context.reporter().pushback(pushback),
            }
        }
        Poll::Ready(outcome)
    }
}
