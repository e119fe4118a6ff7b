use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use reattempt_core::Reporter;

use super::ReadPushback;

pin_project! {
    /// The future of [`Pushback`](super::Pushback).
    #[derive(Debug)]
    pub struct PushbackFuture<F, R> {
        #[pin]
        inner: F,
        reader: R,
        reporter: Option<Reporter>,
    }
}

impl<F, R> PushbackFuture<F, R> {
    pub(super) const fn new(inner: F, reader: R, reporter: Option<Reporter>) -> Self {
        Self {
            inner,
            reader,
            reporter,
        }
    }
}

impl<F, R, Res, Err> Future for PushbackFuture<F, R>
where
    F: Future<Output = Result<Res, Err>>,
    R: ReadPushback<Res, Err>,
{
    type Output = Result<Res, Err>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        if let Some(reporter) = this.reporter.take() {
            if let Some(pushback) = this.reader.read(outcome.as_ref()) {
                reporter.pushback(pushback);
            }
        }
        Poll::Ready(outcome)
    }
}
