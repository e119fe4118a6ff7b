//! `send_with`: reqwest's own request builder, sent with retries.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use reattempt::client_error::WithClientError;
use reattempt::{CallContext, ClientError, HasCallContext, Idempotency, Route};
use tower_layer::Layer;
use tower_service::Service;

use super::ReqwestService;
use crate::HttpClientLayer;
use crate::body::ReplayBody;
use crate::client::{HttpClient, NoBreakers, NoRoutes, OriginBreakers, WithBreakers};
use crate::sealed::Sealed;

/// Sends reqwest's requests with retries.
pub trait RequestBuilderExt: Sealed {
    /// Sends the request with the client that made this builder, as often as `retries` allows.
    ///
    /// Build the client with [`same_origin_redirects`](super::same_origin_redirects): with
    /// reqwest's default policy it sends credentials to another origin, which this cannot prevent.
    ///
    /// Instead of `.send()`. All requests with this layer and its clones share its throttles, its
    /// circuit breakers and its memory for bodies. The builder's `timeout` limits each attempt, the
    /// layer's all of them. A body is repeated as far as the layer's limits allow.
    ///
    /// Fails with the client's own error ([`ClientError::transport`]), at the layer's deadline, or
    /// by its admission or circuit breakers.
    fn send_with<R, B>(self, retries: &HttpClientLayer<R, B>) -> SendWith<R, B>
    where
        R: Clone,
        B: Breakers;
}

impl Sealed for reqwest::RequestBuilder {}

impl RequestBuilderExt for reqwest::RequestBuilder {
    fn send_with<R, B>(self, retries: &HttpClientLayer<R, B>) -> SendWith<R, B>
    where
        R: Clone,
        B: Breakers,
    {
        let (client, built) = self.build_split();
        let (request, invalid) = match built.and_then(Request::try_from) {
            Ok(request) => (request, None),
            Err(error) => (Request::default(), Some(error)),
        };
        SendWith {
            service: B::around(retries, ReqwestService::new(client)),
            request,
            invalid,
        }
    }
}

/// A layer's circuit breakers, or none. The module is private: no other type is one.
pub trait Breakers: Sized {
    /// What the client has around reqwest.
    type Innermost: Clone
        + Service<
            Request<ReplayBody<reqwest::Body>>,
            Response = Response<reqwest::Body>,
            Error = ClientError<reqwest::Error>,
        >;

    /// The client.
    fn around<R: Clone>(layer: &HttpClientLayer<R, Self>, sends: ReqwestService)
    -> Client<R, Self>;
}

impl Breakers for NoBreakers {
    type Innermost = WithClientError<ReqwestService>;

    fn around<R: Clone>(layer: &HttpClientLayer<R>, sends: ReqwestService) -> Client<R, Self> {
        layer.layer(sends)
    }
}

impl Breakers for OriginBreakers {
    type Innermost = WithBreakers<ReqwestService>;

    fn around<R: Clone>(
        layer: &HttpClientLayer<R, Self>,
        sends: ReqwestService,
    ) -> Client<R, Self> {
        layer.layer(sends)
    }
}

/// A request that is about to be sent with retries: `.await` sends it. Made by
/// [`send_with`](RequestBuilderExt::send_with).
///
/// It carries the context of its call: options are set and the record is taken before it is sent.
///
/// ```no_run
/// use reattempt::RetryInfo;
/// use reattempt_http::HttpClientLayer;
/// use reattempt_http::reqwest::RequestBuilderExt;
///
/// # async fn order(client: reqwest::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let retries = HttpClientLayer::standard();
/// let mut call = client.get("https://shop.example/cart").send_with(&retries);
/// let handle = RetryInfo::track(&mut call);
/// let answer = call.await?;
/// println!("{} after {} attempts", answer.status(), handle.info().attempts());
/// # Ok(()) }
/// ```
#[must_use = "it is sent by `.await`"]
pub struct SendWith<R = NoRoutes, B: Breakers = NoBreakers> {
    service: Client<R, B>,
    request: Request<reqwest::Body>,
    invalid: Option<reqwest::Error>,
}

impl<R, B: Breakers> SendWith<R, B> {
    /// States that this request may be carried out twice, whatever its method is.
    pub fn idempotent(mut self) -> Self {
        self.context_mut().set_idempotency(Idempotency::Idempotent);
        self
    }
}

#[diagnostic::do_not_recommend]
impl<R, B: Breakers> HasCallContext for SendWith<R, B> {
    fn context(&self) -> Option<&CallContext> {
        self.request.context()
    }

    fn context_mut(&mut self) -> &mut CallContext {
        self.request.context_mut()
    }

    fn natural_idempotency(&self) -> Idempotency {
        self.request.natural_idempotency()
    }
}

impl<R, B: Breakers> fmt::Debug for SendWith<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and path may have credentials.
        f.debug_struct("SendWith")
            .field("method", self.request.method())
            .finish_non_exhaustive()
    }
}

type Client<R, B> = HttpClient<ReqwestService, R, <B as Breakers>::Innermost>;

impl<R: Route<Request<reqwest::Body>> + Clone, B: Breakers> IntoFuture for SendWith<R, B> {
    type Output = Result<reqwest::Response, ClientError<reqwest::Error>>;
    type IntoFuture = SendWithFuture<R, B>;

    fn into_future(self) -> SendWithFuture<R, B> {
        SendWithFuture {
            state: match self.invalid {
                Some(error) => State::Invalid { error: Some(error) },
                None => State::Readying {
                    service: self.service,
                    request: Some(self.request),
                },
            },
        }
    }
}

pin_project! {
    /// The future of [`SendWith`].
    pub struct SendWithFuture<R = NoRoutes, B = NoBreakers>
    where
        R: Route<Request<reqwest::Body>>,
        R: Clone,
        B: Breakers,
    {
        #[pin]
        state: State<R, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<R, B>
    where
        R: Route<Request<reqwest::Body>>,
        R: Clone,
        B: Breakers,
    {
        /// The builder's own error.
        Invalid { error: Option<reqwest::Error> },
        Readying { service: Client<R, B>, request: Option<Request<reqwest::Body>> },
        Sent {
            #[pin]
            future: <Client<R, B> as Service<Request<reqwest::Body>>>::Future,
        },
    }
}

impl<R, B> fmt::Debug for SendWithFuture<R, B>
where
    R: Route<Request<reqwest::Body>> + Clone,
    B: Breakers,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendWithFuture").finish_non_exhaustive()
    }
}

const POLLED_AGAIN: &str = "polled after completion";

impl<R, B> Future for SendWithFuture<R, B>
where
    R: Route<Request<reqwest::Body>> + Clone,
    B: Breakers,
{
    type Output = Result<reqwest::Response, ClientError<reqwest::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let sent = match state.as_mut().project() {
                StateProjection::Invalid { error } => {
                    let error = error.take().expect(POLLED_AGAIN);
                    return Poll::Ready(Err(ClientError::Transport(error)));
                }
                StateProjection::Readying { service, request } => {
                    ready!(service.poll_ready(cx))?;
                    State::Sent {
                        future: service.call(request.take().expect(POLLED_AGAIN)),
                    }
                }
                StateProjection::Sent { future } => {
                    let response = ready!(future.poll(cx))?;
                    return Poll::Ready(Ok(response.map(reqwest::Body::wrap).into()));
                }
            };
            state.set(sent);
        }
    }
}
