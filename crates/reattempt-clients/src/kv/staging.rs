//! `StageLayer`: reports the stage of an attempt to the recovery layer while it is in progress.
//!
//! An error has a stage, but a deadline, a hedge or a dropped call ends an attempt without one. An
//! attempt that was still waiting for a connection was not sent, so its timeout is unambiguous (RFC
//! 0049).

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use reattempt::{AttemptReporter, Backend, Call, Stage};
use tower_layer::Layer;
use tower_service::Service;

use super::client::{ClientError, KvRequest, KvResponse, NodeFuture, RoutedFuture};
use super::glue::report;

/// A client future that knows whether its request still waits for a connection.
pub trait Dialling: Future<Output = Result<KvResponse, ClientError>> {
    /// True until a byte of the request may have been sent. Changes only during a poll, and only
    /// once.
    fn is_dialling(&self) -> bool;

    /// The node of the request, `host:port`, as soon as it is known. Another one when the future
    /// goes on to another node: a lookup may precede the request, and so may the dial of a
    /// seed. The last one stays the attempt's, also if no other follows. A request that no longer
    /// waits for a connection stays at its node.
    fn address(&self) -> Option<&Arc<str>>;
}

impl Dialling for NodeFuture {
    fn is_dialling(&self) -> bool {
        Self::is_dialling(self)
    }

    fn address(&self) -> Option<&Arc<str>> {
        Some(Self::address(self))
    }
}

impl Dialling for RoutedFuture {
    fn is_dialling(&self) -> bool {
        Self::is_dialling(self)
    }

    fn address(&self) -> Option<&Arc<str>> {
        Self::address(self)
    }
}

/// Takes each request out of its [`Call`], as `UncallLayer` does. Reports [`Stage::Dispatch`] while
/// it waits for a connection, then [`Stage::InFlight`], and the outcome at the end; also the node,
/// as soon as it is known, and the one that answered or failed. The innermost layer, directly
/// around a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageLayer;

impl StageLayer {
    /// Creates the layer.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for StageLayer {
    type Service = Staging<S>;

    fn layer(&self, inner: S) -> Staging<S> {
        Staging { inner }
    }
}

/// The service that [`StageLayer`] creates.
#[derive(Clone, Debug)]
pub struct Staging<S> {
    inner: S,
}

impl<S> Service<Call<KvRequest>> for Staging<S>
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError>,
    S::Future: Dialling,
{
    type Response = KvResponse;
    type Error = ClientError;
    type Future = StageFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call<KvRequest>) -> StageFuture<S::Future> {
        let (request, context) = call.into_parts();
        let reporter = AttemptReporter::from(context);
        let inner = self.inner.call(request);
        let stage = stage_of(&inner);
        reporter.stage(stage);
        let named = name(&reporter, &inner) && stage == Stage::InFlight;
        StageFuture {
            inner,
            reporter,
            stage,
            named,
        }
    }
}

fn stage_of(future: &impl Dialling) -> Stage {
    if future.is_dialling() {
        Stage::Dispatch
    } else {
        // It may have been sent at any time since: the connection has its own task.
        Stage::InFlight
    }
}

/// Reports the node early, because an attempt that is dropped has no response to name it. False if
/// it is not known.
fn name(reporter: &AttemptReporter, future: &impl Dialling) -> bool {
    let Some(node) = future.address() else {
        return false;
    };
    reporter.backend(Backend::new(Arc::clone(node)));
    true
}

pin_project! {
    /// The future of [`Staging`].
    #[derive(Debug)]
    #[must_use = "dropping it cancels the request"]
    pub struct StageFuture<F> {
        #[pin]
        inner: F,
        reporter: AttemptReporter,
        // The last one that was reported.
        stage: Stage,
        // The request stays at the node that was reported.
        named: bool,
    }
}

impl<F: Dialling> Future for StageFuture<F> {
    type Output = Result<KvResponse, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let outcome = this.inner.as_mut().poll(cx);
        let stage = match &outcome {
            Poll::Pending => stage_of(&*this.inner),
            Poll::Ready(Ok(_)) => Stage::Response,
            Poll::Ready(Err(error)) => reattempt_couchbase::KvTransportError::stage(error),
        };
        if !*this.named {
            match &outcome {
                Poll::Pending => {
                    *this.named = name(this.reporter, &*this.inner) && stage == Stage::InFlight;
                }
                Poll::Ready(outcome) => report(this.reporter, outcome.as_ref()),
            }
        }
        if *this.stage != stage {
            this.reporter.stage(stage);
            *this.stage = stage;
        }
        outcome
    }
}
