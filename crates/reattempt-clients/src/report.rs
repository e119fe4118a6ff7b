//! `ReportLayer`: reports a client's response or error to the recovery layer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use reattempt::{AttemptReporter, HasCallContext};
use tower_layer::Layer;
use tower_service::Service;

/// Calls `F`, a `Fn(&AttemptReporter, Result<&Res, &Err>)`, with every outcome. Place it inside the
/// recovery layer, directly above the client. [`kv::report`](crate::kv::report) and
/// [`mongodb::report`](crate::mongodb::report) have this signature.
#[derive(Clone, Copy, Debug)]
pub struct ReportLayer<F> {
    report: F,
}

impl<F> ReportLayer<F> {
    /// Creates a layer that reports with `report`.
    #[must_use]
    pub const fn new(report: F) -> Self {
        Self { report }
    }
}

impl<S, F: Clone> Layer<S> for ReportLayer<F> {
    type Service = Reporting<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Reporting {
            inner,
            report: self.report.clone(),
        }
    }
}

/// The service that [`ReportLayer`] creates.
#[derive(Clone, Debug)]
pub struct Reporting<S, F> {
    inner: S,
    report: F,
}

impl<S, F, Req> Service<Req> for Reporting<S, F>
where
    S: Service<Req>,
    F: Fn(&AttemptReporter, Result<&S::Response, &S::Error>) + Clone,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ReportFuture<S::Future, F>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let reporter = request.context().map(|context| context.reporter());
        ReportFuture {
            inner: self.inner.call(request),
            report: self.report.clone(),
            reporter,
        }
    }
}

pin_project! {
    /// The future of [`Reporting`].
    #[derive(Debug)]
    pub struct ReportFuture<F, R> {
        #[pin]
        inner: F,
        report: R,
        reporter: Option<AttemptReporter>,
    }
}

impl<F, R, Res, Err> Future for ReportFuture<F, R>
where
    F: Future<Output = Result<Res, Err>>,
    R: Fn(&AttemptReporter, Result<&Res, &Err>),
{
    type Output = Result<Res, Err>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        if let Some(reporter) = this.reporter {
            (this.report)(reporter, outcome.as_ref());
        }
        Poll::Ready(outcome)
    }
}
