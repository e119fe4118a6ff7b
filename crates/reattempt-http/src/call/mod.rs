//! `HttpCall`: an HTTP request that carries its context inline.
//!
//! The presets use it: a context in a request's extensions costs three allocations, and as many for
//! each copy. [`InlineContextLayer`] stands in the place of a `RouteLayer`, and
//! [`ExtendContextLayer`] below the recovery layer: what is below finds the context in the
//! extensions as usual.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{CallContext, HasCallContext, RetryLayer};
//! use reattempt_http::HttpClassifier;
//! use reattempt_http::call::{ExtendContextLayer, InlineContextLayer};
//! use reattempt_http::client::NoRoutes;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(InlineContextLayer::new(NoRoutes))
//!     .layer(RetryLayer::new(HttpClassifier::new(), MaxAttempts::standard()))
//!     .layer(ExtendContextLayer)
//!     .service_fn(|request: Request<()>| async move {
//!         Ok::<_, Infallible>(Response::new(request.context().map(CallContext::attempt)))
//!     });
//! assert_eq!(service.oneshot(Request::new(())).await?.into_body(), Some(1));
//! # Ok(()) }
//! ```

mod head;
mod kept_extensions;
mod kept_headers;
mod layers;
mod pool;
mod replay_body;
mod request;
mod shared;
#[cfg(test)]
mod tests;

use http::{HeaderMap, Method, Request, Uri};
use reattempt::{CallContext, CallSubject, HasCallContext, Idempotency, NextAttempt, Replay};

use head::Head;
pub use layers::{ExtendContext, ExtendContextLayer, InlineContext, InlineContextLayer};
pub use replay_body::{ReplayCallBody, ReplayCallBodyLayer};
pub use request::HttpRequest;

/// An HTTP request that carries its [`CallContext`] inline, instead of in its extensions.
///
/// Copies share its head. The first one that is sent takes the map of headers and leaves a text of
/// them, from which later ones are made.
#[derive(Debug)]
pub struct HttpCall<B> {
    context: CallContext,
    head: Head,
    natural: Idempotency,
    body: B,
}

impl<B> HttpCall<B> {
    /// Takes the context out of the request's extensions.
    #[must_use]
    #[inline]
    pub fn new(mut request: Request<B>) -> Self {
        let extensions = request.extensions_mut();
        let context = if extensions.is_empty() {
            CallContext::default()
        } else {
            extensions.remove().unwrap_or_default()
        };
        let natural = request.natural_idempotency();
        let (parts, body) = request.into_parts();
        Self {
            context,
            natural,
            head: Head::new(parts),
            body,
        }
    }

    /// Puts the context into the request's extensions.
    #[must_use]
    #[inline]
    pub fn into_request(self) -> Request<B> {
        self.head.into_request(self.context, self.body)
    }
}

impl<B> HttpCall<B> {
    /// Changes the body.
    #[must_use]
    #[inline]
    pub fn map_body<N>(self, map: impl FnOnce(B) -> N) -> HttpCall<N> {
        HttpCall {
            context: self.context,
            head: self.head,
            natural: self.natural,
            body: map(self.body),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<B> HasCallContext for HttpCall<B> {
    #[inline]
    fn context(&self) -> Option<&CallContext> {
        Some(&self.context)
    }

    #[inline]
    fn context_mut(&mut self) -> &mut CallContext {
        &mut self.context
    }

    #[inline]
    fn natural_idempotency(&self) -> Idempotency {
        self.natural
    }

    fn subject(&self) -> CallSubject {
        self.head.described().subject()
    }
}

#[diagnostic::do_not_recommend]
impl<B: Replay> Replay for HttpCall<B> {
    fn can_replay(&self, next: &NextAttempt<'_>) -> bool {
        self.body.can_replay(next)
    }

    fn was_cut_off(&self, attempt: u32) -> bool {
        self.body.was_cut_off(attempt)
    }

    fn was_unread(&self, attempt: u32) -> bool {
        self.body.was_unread(attempt)
    }

    fn poll_cut_off(&self, attempt: u32, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.body.poll_cut_off(attempt, cx)
    }

    #[inline]
    fn replay(&self, next: &NextAttempt<'_>) -> Option<Self> {
        let body = self.body.replay(next)?;
        Some(Self {
            context: self.context.clone(),
            head: self.head.share(),
            natural: self.natural,
            body,
        })
    }

    fn attempt_over(&self, number: u32) {
        self.body.attempt_over(number);
    }

    #[inline]
    fn release(&mut self) {
        self.body.release();
    }
}

impl<B> HttpRequest for HttpCall<B> {
    #[inline]
    fn method(&mut self) -> &Method {
        &self.head.parts_mut().method
    }

    #[inline]
    fn target(&mut self) -> (&Uri, &HeaderMap) {
        let parts = self.head.parts_mut();
        (&parts.uri, &parts.headers)
    }

    #[inline]
    fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.head.parts_mut().headers
    }
}
