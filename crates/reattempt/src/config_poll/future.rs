use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::AttemptReporter;
use pin_project_lite::pin_project;

use super::StaleConfig;

pin_project! {
    /// The future of [`ConfigPoll`](super::ConfigPoll): the inner future and the note of its
    /// request.
    #[derive(Debug)]
    pub struct ConfigPollFuture<F, P, N, Req> {
        #[pin]
        inner: F,
        poll: P,
        note: Option<N>,
        reporter: AttemptReporter,
        request: PhantomData<fn(Req)>,
    }
}

impl<F, P, N, Req> ConfigPollFuture<F, P, N, Req> {
    pub(super) const fn new(inner: F, poll: P, note: N, reporter: AttemptReporter) -> Self {
        Self {
            inner,
            poll,
            note: Some(note),
            reporter,
            request: PhantomData,
        }
    }
}

/// By value: with its address taken the note of a success would be kept in memory.
#[cold]
#[inline(never)]
fn sent_to<Req, Res, Err, P>(poll: &P, mut note: P::Note, reporter: &AttemptReporter) -> P::Note
where
    P: StaleConfig<Req, Res, Err>,
{
    if let Some(backend) = reporter.reported_backend() {
        poll.sent_to(&mut note, &backend);
    }
    note
}

impl<F, P, N, Req, Res, Err> Future for ConfigPollFuture<F, P, N, Req>
where
    F: Future<Output = Result<Res, Err>>,
    P: StaleConfig<Req, Res, Err, Note = N>,
{
    type Output = Result<Res, Err>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        if let Some(note) = this.note.take() {
            let note = if outcome.is_err() {
                sent_to(this.poll, note, this.reporter)
            } else {
                note
            };
            let waiter = this.poll.check(note, outcome.as_ref());
            if let Some(waiter) = waiter {
                this.reporter.config_coming(waiter);
            }
        }
        Poll::Ready(outcome)
    }
}
