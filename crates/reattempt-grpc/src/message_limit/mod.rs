//! `MessageLimitLayer`: `maxRequestMessageBytes` and `maxResponseMessageBytes` of the service
//! config.
//!
//! A request message over the limit ends the call with RESOURCE_EXHAUSTED: no byte of that message
//! is sent, all attempts are cancelled, and no further attempt follows. A response message over the
//! limit ends the stream with RESOURCE_EXHAUSTED in trailers and cancels it; the messages before it
//! are delivered, and no byte of the long one is. The layer reads message prefixes as data passes
//! through and buffers at most part of a prefix.
//!
//! The limits are those of the method's [`MethodPolicy`] and the layer's own; the smaller of two
//! applies. A message is measured as it is sent, so a compressed message by its compressed size.
//! A response whose head does not say that messages follow (another status or content type) is
//! measured too, unless its body cannot begin with one: an error page of a proxy passes. This
//! layer has no default. A generated client of tonic, which is above it, has a limit of its own for
//! responses, 4 MiB by default, and fails with OUT_OF_RANGE beyond it: a longer
//! `maxResponseMessageBytes` needs `Client::new(channel).max_decoding_message_size(..)` too.
//!
//! Place it above the recovery layer and above `ReplayBodyLayer`, below the `DeadlineLayer`: a
//! failure of the client itself is never retried, and does not count in the throttle. It changes
//! both types:
//! `Request<B>` becomes `Request<LimitedRequestBody<B>>`, `Response<B>` becomes
//! `Response<LimitedResponseBody<B>>`.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Empty, Full};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::MaxAttempts;
//! use reattempt_grpc::{GrpcClassifier, LimitedRequestBody, MessageLimitLayer};
//! use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let service = ServiceBuilder::new()
//!     .layer(MessageLimitLayer::new().request(4))
//!     .layer(ReplayBodyLayer::new())
//!     .layer(RetryLayer::new(GrpcClassifier::new(), MaxAttempts::standard()))
//!     .service_fn(|request: Request<ReplayBody<LimitedRequestBody<Full<Bytes>>>>| async {
//!         request.into_body().collect().await?;
//!         Ok::<_, BoxError>(Response::new(Empty::<Bytes>::new()))
//!     });
//! let message = Bytes::from_static(b"\0\0\0\0\x05hello");
//! let answer = service.oneshot(Request::new(Full::new(message))).await?;
//! assert_eq!(answer.headers()["grpc-status"], "8");
//! # Ok(()) }
//! ```

mod future;
mod link;
mod prefixes;
mod request;
mod response;
#[cfg(test)]
mod tests;

use std::fmt;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use reattempt::{HasCallContext, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

#[cfg(feature = "tonic")]
mod of_calls;

pub use future::MessageLimitFuture;
#[cfg(feature = "tonic")]
pub(crate) use of_calls::{CallMessageLimit, CallMessageLimitLayer};
pub use request::LimitedRequestBody;
pub(crate) use request::with_held;
pub use response::LimitedResponseBody;

use crate::MethodPolicy;
use future::Limited;
use link::{CallSide, Link};
use prefixes::Sieve;
use request::Watched;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageSide {
    /// A message that this client sends.
    Request,
    /// A message that the server sends.
    Response,
}

impl fmt::Display for MessageSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Response => "response",
        })
    }
}

/// A message was longer than its method allows. It is an extension of the response that
/// [`MessageLimitLayer`] makes if the server has not responded yet; later only its text appears, in
/// the trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {side} message has {bytes} bytes, and at most {limit} are allowed")]
#[non_exhaustive]
pub struct MessageTooLong {
    /// The direction of the message.
    pub side: MessageSide,
    /// Its length in bytes as sent, without the prefix.
    pub bytes: u64,
    /// The limit that applied, in bytes.
    pub limit: u64,
}

/// Enforces limits on message lengths. Without options, only the limits of the policies apply.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageLimitLayer {
    request: Option<u64>,
    response: Option<u64>,
}

impl MessageLimitLayer {
    /// Applies only the limits of the calls' policies.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            request: None,
            response: None,
        }
    }

    /// Limits request messages to this many bytes. Zero allows only empty messages.
    #[must_use]
    pub const fn request(mut self, bytes: u64) -> Self {
        self.request = Some(bytes);
        self
    }

    /// Limits response messages to this many bytes. Zero allows only empty messages.
    #[must_use]
    pub const fn response(mut self, bytes: u64) -> Self {
        self.response = Some(bytes);
        self
    }

    /// The smaller of the layer's and the policy's limits.
    fn with(self, method: Option<&MethodPolicy>) -> Self {
        let smaller = |own: Option<u64>, other: Option<u64>| own.into_iter().chain(other).min();
        Self {
            request: smaller(
                self.request,
                method.and_then(|m| m.max_request_message_bytes),
            ),
            response: smaller(
                self.response,
                method.and_then(|m| m.max_response_message_bytes),
            ),
        }
    }
}

impl<S> Layer<S> for MessageLimitLayer {
    type Service = MessageLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        MessageLimit {
            inner,
            limits: *self,
            order: StackCheck::default(),
        }
    }
}

/// The service that [`MessageLimitLayer`] creates.
#[derive(Clone, Debug)]
pub struct MessageLimit<S> {
    inner: S,
    limits: MessageLimitLayer,
    order: StackCheck,
}

impl<S, B, R> Service<Request<B>> for MessageLimit<S>
where
    S: Service<Request<LimitedRequestBody<B>>, Response = Response<R>>,
    B: Body,
{
    type Response = Response<LimitedResponseBody<R>>;
    type Error = S::Error;
    type Future = MessageLimitFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (watched, limited) = self.taken(&mut request).unzip();
        let request = request.map(|body| LimitedRequestBody::new(body, watched));
        MessageLimitFuture::new(self.inner.call(request), limited)
    }
}

impl<S> MessageLimit<S> {
    /// What enforces the limits of a call; `None` without any.
    #[inline]
    fn taken(&self, request: &mut impl HasCallContext) -> Option<(Watched, Limited)> {
        let method = request.context().and_then(MethodPolicy::of);
        let MessageLimitLayer {
            request: of_request,
            response: of_response,
        } = self.limits.with(method);
        if of_request.is_none() && of_response.is_none() {
            return None;
        }
        let context = request.context_mut();
        self.order.outside_recovery("MessageLimitLayer", context);
        let link = Link::default();
        let limited = Limited {
            response: of_response,
            call: CallSide::new(link.clone()),
            handle: context.begin(),
        };
        let watched = Watched {
            sieve: of_request.map(|limit| (Sieve::new(limit, false), limit)),
            link,
            tripped: false,
        };
        Some((watched, limited))
    }
}
