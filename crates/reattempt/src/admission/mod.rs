//! `AdmissionLayer`: refuses calls while the server accepts too few of them (Google SRE, Handling
//! Overload, Client-Side Throttling).
//!
//! Throttles stop further attempts; this layer stops first ones. Put it outermost, above the
//! deadline and the recovery layer, one for each server; clones share the counts. It reads what the
//! recovery layers report of each call, so it needs no classifier of its own: without a recovery
//! layer below it refuses nothing.
//!
//! A refused call is never sent: no throttle counts it and no layer of this stack retries it. An
//! [`OnRefused`] makes its outcome: by default an error from [`Refused`]. Its
//! [`RetryInfo`](crate::RetryInfo) has no attempt and ends with [`StopReason::Admission`], which
//! the hop that is being served passes on as "do not retry" (reattempt-http, `GaveUpLayer`). The
//! log has it as a call that failed, and an [`observer`](AdmissionLayer::observer) gets its end.
//!
//! ```
//! use std::sync::Arc;
//! use reattempt::admission::Refused;
//! use reattempt::strategy::NeverRetry;
//! use reattempt::{AdmissionLayer, Call, CallContext, Failure, RetryLayer, Stage, Verdict};
//! use reattempt::{classify_fn, reason};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let busy = Failure::new(reason::KV_TEMPORARY_FAILURE, Stage::Response);
//! let classifier = classify_fn(move |_: Result<&u16, &BoxError>, _: &CallContext| {
//!     Verdict::Retry(busy)
//! });
//! let mut service = ServiceBuilder::new()
//!     .layer(AdmissionLayer::default())
//!     .layer(RetryLayer::new(classifier, NeverRetry))
//!     .service_fn(|_: Call<()>| async { Ok(0x86) }); // always busy
//!
//! let mut refused = 0;
//! for _ in 0..1000 {
//!     match service.ready().await?.call(Call::new(())).await {
//!         Ok(answer) => assert_eq!(answer, 0x86),
//!         Err(error) => refused += u32::from(error.is::<Refused>()),
//!     }
//! }
//! assert!(refused > 900, "{refused}");
//! # Ok(()) }
//! ```

mod future;
mod layer;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::deadline::AsError;
use crate::observe::LogObserver;
use crate::{HasCallContext, Observer, StackCheck, StopReason};
use tower_service::Service;

#[doc(no_inline)]
pub use crate::policy::admission::*;
pub use future::AdmitFuture;
use future::Counted;
pub use layer::AdmissionLayer;

/// Makes the outcome for the caller of a call that was refused.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot turn a refused call into `Result<{Res}, {Err}>`",
    note = "put `ClientErrorLayer` directly above the transport: its error type has room for `Refused`, and for the transport's own error",
    note = "or put `.map_err(BoxError::from)` between the AdmissionLayer and the layers below it; or implement `From<Refused>` for an error type of your own"
)]
pub trait OnRefused<Res, Err> {
    /// The outcome of a call that was never sent.
    fn on_refused(&self, refused: Refused) -> Result<Res, Err>;
}

// A bound on the impl: the compiler then reports the missing conversion with the trait's message.
#[diagnostic::do_not_recommend]
impl<Res, Err: From<Refused>> OnRefused<Res, Err> for AsError {
    fn on_refused(&self, refused: Refused) -> Result<Res, Err> {
        Err(Err::from(refused))
    }
}

/// Finds the admission of a request: that of its server. An `Arc<Admission>` is that of all.
pub trait PickAdmission<Req> {
    /// The admission; `None`, or one that is [off](Admission::is_off), if nothing is refused.
    fn pick(&self, request: &Req) -> Option<Arc<Admission>>;
}

impl<Req> PickAdmission<Req> for Arc<Admission> {
    #[inline]
    fn pick(&self, _: &Req) -> Option<Arc<Admission>> {
        (!self.is_off()).then(|| Self::clone(self))
    }
}

/// Refuses calls while the server accepts too few of them. Made by [`AdmissionLayer`].
#[derive(Clone, Debug)]
pub struct Admit<S, M = AsError, A = Arc<Admission>> {
    inner: S,
    admission: A,
    on_refused: M,
    /// Beside the log.
    observer: Option<Arc<dyn Observer>>,
    order: StackCheck,
}

impl<S, M, A> Admit<S, M, A> {
    /// No recovery layer sees a refused call, which would report its end.
    #[cold]
    #[inline(never)]
    fn report_refused(&self, request: &mut impl HasCallContext) {
        let context = request.context_mut().share();
        context.describe(|| request.subject());
        let observers = [
            Some(&LogObserver as &dyn Observer),
            self.observer.as_deref(),
        ];
        for observer in observers.into_iter().flatten() {
            if observer.sees_end(StopReason::Admission) {
                observer.call_ended(&context, &context.info());
            }
        }
    }
}

impl<S, M, A, Req> Service<Req> for Admit<S, M, A>
where
    S: Service<Req> + Clone,
    M: OnRefused<S::Response, S::Error> + Clone,
    A: PickAdmission<Req>,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = AdmitFuture<S::Future, M>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let admission = self.admission.pick(&request);
        let Some(admission) = admission.filter(|admission| !admission.is_off()) else {
            return AdmitFuture::sent(self.inner.call(request), None);
        };
        let context = request.context_mut();
        self.order.outside_recovery("AdmissionLayer", context);
        // Only first attempts are refused.
        if context.is_claimed() {
            return AdmitFuture::sent(self.inner.call(request), None);
        }
        let criticality = context.criticality();
        let admitted = admission.admit(criticality);
        let handle = context.begin();
        if let Err(refused) = admitted {
            handle.stop(StopReason::Admission);
            self.report_refused(&mut request);
            // The service that got ready may hold a permit or a connection for this call.
            self.inner = self.inner.clone();
            return AdmitFuture::refused(refused, self.on_refused.clone());
        }
        let counted = Counted {
            admission,
            criticality,
            handle,
        };
        AdmitFuture::sent(self.inner.call(request), Some(counted))
    }
}
