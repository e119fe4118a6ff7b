//! `CallSpanLayer`: a span around each call, for all of its attempts.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Span;

use super::convention::{self, Convention, Scope, System};
use super::error_type::ErrorType;
use crate::{AttemptRecord, CallHandle, HasCallContext, StackCheck, StopReason};

/// Opens a span around each call, the parent of its attempts' spans
/// ([`Metrics::attempts`](super::Metrics::attempts)). Put it outermost.
///
/// The span has level INFO, target `reattempt`, and the fields of the attempts' spans, with kind
/// `internal` as OpenTelemetry asks of a span that is not one request on the wire. At its end it
/// gets `reattempt.attempts` and `reattempt.stopped` from the recovery layer, and for a failure
/// `error.type`: the status or code of the last answer, else the reason; `timeout` if the deadline
/// ended the call (not if no delay fitted before it, and the answer was returned), `cancelled` if
/// the caller dropped the call, `_OTHER` for an error where no recovery layer acts. Everything
/// below the layer runs inside it, also the events of the log. It ends with the response head, the
/// error, or the drop of the call. Without a subscriber for it the layer does nothing.
///
/// ```
/// use reattempt::Call;
/// use reattempt::telemetry::{CallSpanLayer, Convention, Operation, System};
/// use std::convert::Infallible;
/// use tower::{ServiceBuilder, ServiceExt};
///
/// #[derive(Clone)]
/// struct OfShop;
///
/// impl<Res> Convention<Call<&'static str>, Res> for OfShop {
///     fn system(&self) -> System {
///         System::Db("shop")
///     }
///
///     fn operation<'a>(&self, _: &'a Call<&'static str>) -> Operation<'a> {
///         Operation::new("get").at(Some("shop"), Some(8080))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Infallible> {
/// let service = ServiceBuilder::new()
///     .layer(CallSpanLayer::new(OfShop))
///     .service_fn(|call: Call<&'static str>| async move {
///         tracing::info!("inside of the span db.call");
///         Ok::<_, Infallible>(call.request.len())
///     });
/// assert_eq!(service.oneshot(Call::new("cart")).await?, 4);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct CallSpanLayer<D> {
    convention: D,
    order: StackCheck,
}

impl<D> CallSpanLayer<D> {
    /// Names the spans by this convention.
    #[must_use]
    pub fn new(convention: D) -> Self {
        Self {
            convention,
            order: StackCheck::default(),
        }
    }
}

impl<S, D: Clone> Layer<S> for CallSpanLayer<D> {
    type Service = CallSpan<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        CallSpan {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service that [`CallSpanLayer`] creates.
#[derive(Clone, Debug)]
pub struct CallSpan<S, D> {
    inner: S,
    layer: CallSpanLayer<D>,
}

impl<S, D, Req> Service<Req> for CallSpan<S, D>
where
    S: Service<Req>,
    D: Convention<Req, S::Response> + Clone,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = CallSpanFuture<S::Future, D, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let layer = &self.layer;
        if request
            .context()
            .is_some_and(|context| context.is_claimed())
        {
            layer.order.warn(
                "CallSpanLayer",
                "is inside the recovery layer, so that each attempt looks like a call: put it above",
            );
        }
        let system = layer.convention.system();
        let operation = layer.convention.operation(&request);
        let span = convention::span(Scope::Call, system, &operation);
        let open = (!span.is_disabled()).then(|| Open {
            call: request.context_mut().begin(),
            system,
            span,
            ended: false,
        });
        let inner = {
            let _inside = open.as_ref().map(|open| open.span.enter());
            self.inner.call(request)
        };
        CallSpanFuture {
            inner: Some(inner),
            open,
            convention: layer.convention.clone(),
            request: std::marker::PhantomData,
        }
    }
}

/// A call that has not ended.
struct Open {
    call: CallHandle,
    system: System,
    span: Span,
    ended: bool,
}

impl Open {
    fn end(&mut self, status: Option<i32>, unknown: Option<ErrorType>) {
        self.ended = true;
        let info = self.call.info();
        // Losers are recorded after it.
        let last = info.records().rev().find(|record| record.failure.is_some());
        let error = match info.stopped() {
            // A layer above the recovery layer may have made an error of it.
            Some(StopReason::Success | StopReason::Committed) => unknown,
            Some(StopReason::Deadline) if unknown.is_some() && !last.is_some_and(gave_up) => {
                Some(ErrorType::Timeout)
            }
            Some(StopReason::Cancelled) => Some(ErrorType::Cancelled),
            Some(_) => {
                let failure = last.and_then(|last| last.failure.as_ref());
                failure.map(ErrorType::of).or(Some(ErrorType::Other))
            }
            None => unknown,
        };
        if let Some(stopped) = info.stopped() {
            let attempts = i64::from(info.attempts());
            self.span.record("reattempt.attempts", attempts);
            self.span.record("reattempt.stopped", stopped.name());
        }
        convention::end(&self.span, self.system, status, error);
    }
}

/// The call ended with this failure before its deadline, because no delay fits.
fn gave_up(last: &AttemptRecord) -> bool {
    last.stopped == Some(StopReason::Deadline) && last.delay.is_none()
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            self.end(None, Some(ErrorType::Cancelled));
        }
    }
}

pin_project! {
    /// The future of [`CallSpan`].
    pub struct CallSpanFuture<F, D, Req> {
        #[pin]
        inner: Option<F>,
        open: Option<Open>,
        convention: D,
        request: std::marker::PhantomData<fn(Req)>,
    }

    impl<F, D, Req> PinnedDrop for CallSpanFuture<F, D, Req> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // The recovery layer logs the end of a dropped call, inside of its span, and says why
            // it ended before the span is closed.
            let _inside = this.open.as_ref().map(|open| open.span.enter());
            this.inner.set(None);
        }
    }
}

impl<F, D, Req> fmt::Debug for CallSpanFuture<F, D, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSpanFuture")
            .field("open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

impl<F, D, Req, Res, Err> Future for CallSpanFuture<F, D, Req>
where
    F: Future<Output = Result<Res, Err>>,
    D: Convention<Req, Res>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = {
            let _inside = this.open.as_ref().map(|open| open.span.enter());
            let inner = this.inner.as_pin_mut().expect("there until it is dropped");
            ready!(inner.poll(cx))
        };
        if let Some(mut open) = this.open.take() {
            let (status, unknown) = match &outcome {
                Ok(response) => (this.convention.status(response), None),
                Err(_) => (None, Some(ErrorType::Other)),
            };
            open.end(status, unknown);
        }
        Poll::Ready(outcome)
    }
}
