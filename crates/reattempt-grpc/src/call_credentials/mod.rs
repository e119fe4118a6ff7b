//! `CallCredentialsLayer`: metadata that is made for each attempt when the attempt is sent.
//!
//! Place it below the recovery layer. Every attempt, including transparent retries and hedges, asks
//! for fresh metadata, and the metadata of one attempt is not reused by the next. It is appended to
//! the caller's own. The request is not sent until the metadata is ready; the call's deadline keeps
//! running. A call that waits for its metadata holds no place in the channel below.
//!
//! With `waitForReady` each try to connect asks, too: let the source keep a token while it is
//! valid.
//!
//! If the metadata cannot be made, the attempt fails with a [`ControlPlaneFailure`]. Its code is
//! restricted to what A54 allows *before* it is matched against the retryable codes, and no
//! transparent retry follows.
//!
//! ```
//! use http::{HeaderMap, Request, Response};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::MaxAttempts;
//! use reattempt_grpc::{CallCredentialsLayer, Code, ControlPlaneFailure, GrpcClassifier};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! # static ASKED: AtomicU32 = AtomicU32::new(0);
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let token = |call: &http::request::Parts| {
//!     let audience = call.uri.path().to_owned();
//!     async move {
//!         // Call your token service here.
//!         # let first = ASKED.fetch_add(1, Ordering::Relaxed) == 0;
//!         # if first {
//!         #     return Err(ControlPlaneFailure::new(Code::Unavailable, "no token service"));
//!         # }
//!         let mut metadata = HeaderMap::new();
//!         metadata.insert("authorization", format!("Bearer for {audience}").parse().unwrap());
//!         Ok::<_, ControlPlaneFailure>(metadata)
//!     }
//! };
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(GrpcClassifier::new(), MaxAttempts::standard()))
//!     .layer(CallCredentialsLayer::new(token))
//!     .service_fn(|request: Request<()>| async move {
//!         let mut response = Response::new(());
//!         *response.headers_mut() = request.headers().clone();
//!         response.headers_mut().insert("grpc-status", 0.into());
//!         Ok::<_, BoxError>(response)
//!     });
//! let answer = service.oneshot(Request::post("http://h/shop.Cart/Add").body(()).unwrap()).await?;
//! assert_eq!(answer.headers()["authorization"], "Bearer for /shop.Cart/Add");
//! # assert_eq!(ASKED.load(Ordering::Relaxed), 2);
//! # Ok(()) }
//! ```

mod future;

use std::future::Future;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{HeaderMap, Request, Response};
use reattempt::{HasCallContext, StackCheck, Stage};
use tower_layer::Layer;
use tower_service::Service;

pub use future::CallCredentialsFuture;

use crate::ControlPlaneFailure;

/// Makes the metadata of one attempt. Implemented for closures
/// `Fn(&http::request::Parts) -> impl Future`.
///
/// The attempt number, the records of earlier attempts and the backends tried before are in the
/// context (`parts.extensions`, `HasCallContext`).
///
/// # A token that has expired
///
/// The attempt after UNAUTHENTICATED asks for a new one. The failure costs the throttle a token, as
/// any that may be retried: renew a token before it expires.
///
/// ```
/// use std::sync::Arc;
/// use http::{HeaderMap, Request, Response};
/// use reattempt::strategy::{Extended, MaxAttempts, RetryOnce};
/// use reattempt::{HasCallContext, RetryLayer, RouteLayer, RoutePolicy};
/// use reattempt_grpc::reasons::GRPC_UNAUTHENTICATED;
/// use reattempt_grpc::{
///     CallCredentialsLayer, Code, CodeSet, ControlPlaneFailure, GrpcClassifier, MethodPolicy,
/// };
/// use tower::{BoxError, ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// // UNAUTHENTICATED is retried once, at once.
/// let retry = Extended::new(MaxAttempts::standard()).by(GRPC_UNAUTHENTICATED, RetryOnce);
/// let codes = CodeSet::of(&[Code::Unavailable, Code::Unauthenticated]);
/// let policy = RoutePolicy::new("shop").retry(retry).with_data(MethodPolicy::new(codes));
/// let policy = Arc::new(policy);
///
/// let credentials = |call: &http::request::Parts| {
///     let info = call.extensions.context().map(|context| context.info()).unwrap_or_default();
///     let last = info.records().last().and_then(|record| record.failure);
///     let expired = last.is_some_and(|failure| failure.reason == GRPC_UNAUTHENTICATED);
///     async move {
///         // Renew it here, unless another call has done so.
///         let token = if expired { "new" } else { "old" };
///         let mut metadata = HeaderMap::new();
///         metadata.insert("authorization", token.parse().unwrap());
///         Ok::<_, ControlPlaneFailure>(metadata)
///     }
/// };
/// let service = ServiceBuilder::new()
///     .layer(RouteLayer::new(move |_: &Request<()>| Some(Arc::clone(&policy))))
///     .layer(RetryLayer::by_policy(GrpcClassifier::new()))
///     .layer(CallCredentialsLayer::new(credentials))
///     .service_fn(|request: Request<()>| async move {
///         let is_new = request.headers()["authorization"] == "new";
///         let code = if is_new { Code::Ok } else { Code::Unauthenticated };
///         let answer = Response::builder().header("grpc-status", code.number());
///         answer.body(()).map_err(BoxError::from)
///     });
/// let answer = service.oneshot(Request::post("http://h/shop.Cart/Add").body(())?).await?;
/// assert_eq!(answer.headers()["grpc-status"], "0");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` makes no metadata for an attempt",
    note = "use a closure `|call: &http::request::Parts| async {{ Ok::<HeaderMap, ControlPlaneFailure>(…) }}`"
)]
pub trait CallCredentials {
    /// Resolves to the metadata, or to the reason why there is none.
    type Future: Future<Output = Result<HeaderMap, ControlPlaneFailure>>;

    /// Starts to make the metadata.
    fn metadata(&self, call: &Parts) -> Self::Future;
}

#[diagnostic::do_not_recommend]
impl<F, M> CallCredentials for F
where
    F: Fn(&Parts) -> M,
    M: Future<Output = Result<HeaderMap, ControlPlaneFailure>>,
{
    type Future = M;

    fn metadata(&self, call: &Parts) -> M {
        self(call)
    }
}

/// Adds metadata to each attempt.
#[derive(Clone, Copy, Debug)]
pub struct CallCredentialsLayer<C> {
    credentials: C,
}

impl<C> CallCredentialsLayer<C> {
    /// Uses these credentials.
    #[must_use]
    pub const fn new(credentials: C) -> Self {
        Self { credentials }
    }
}

impl<S, C: Clone> Layer<S> for CallCredentialsLayer<C> {
    type Service = WithCallCredentials<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        WithCallCredentials {
            inner,
            credentials: self.credentials.clone(),
            order: StackCheck::default(),
        }
    }
}

/// The service that [`CallCredentialsLayer`] creates.
#[derive(Clone, Debug)]
pub struct WithCallCredentials<S, C> {
    inner: S,
    credentials: C,
    order: StackCheck,
}

impl<S, C, B, R> Service<Request<B>> for WithCallCredentials<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    C: CallCredentials,
    R: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = CallCredentialsFuture<C::Future, S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let context = request.context();
        self.order.inside_recovery("CallCredentialsLayer", context);
        if let Some(context) = context {
            // Nothing is sent until the metadata is ready.
            context.reporter().stage(Stage::Dispatch);
        }
        let (parts, body) = request.into_parts();
        let metadata = self.credentials.metadata(&parts);
        // Call the instance that was ready, and keep the clone for the next call.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        CallCredentialsFuture::new(metadata, ready, Request::from_parts(parts, body))
    }
}
