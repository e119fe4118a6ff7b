//! `ReqwestService`: reqwest's client as a service for `http::Request`s.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use reqwest::ResponseBuilderExt;
use tower_service::Service;

use super::body::in_one_piece;
use super::redirects::watching;
use super::unrepeatable::Unrepeatable;

/// reqwest's client as a `Service<http::Request<B>>`, to put below any stack.
///
/// Its response is an `http::Response<reqwest::Body>`; `reqwest::Response::from` makes reqwest's
/// own of it, with the URL that the response came from. How bodies and redirects are handled is
/// said in the [module](super).
///
/// A layer between this and the recovery layer must keep the request's `extensions`, in which the
/// call's context is: sign in place, or carry `parts.extensions` over. Without the context a
/// redirect that was followed is not known, and a POST that was carried out may be sent again.
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use http_body_util::Full;
/// use reattempt_http::HttpClientLayer;
/// use reattempt_http::reqwest::{ReqwestService, same_origin_redirects};
/// use tower::{Service, ServiceBuilder};
///
/// let client = reqwest::Client::builder()
///     .retry(reqwest::retry::never())
///     .redirect(same_origin_redirects())
///     .build()?;
/// let service = ServiceBuilder::new()
///     .layer(HttpClientLayer::standard())
///     .service(ReqwestService::new(client));
/// # fn is<S: Service<Request<Full<Bytes>>>>(_: S) {}
/// # is(service);
/// # Ok::<(), reqwest::Error>(())
/// ```
#[derive(Clone)]
pub struct ReqwestService {
    client: reqwest::Client,
    streaming: bool,
}

impl ReqwestService {
    /// Sends with this client, and so with its pool, timeouts, proxies and redirects.
    #[must_use]
    pub const fn new(client: reqwest::Client) -> Self {
        Self {
            client,
            streaming: false,
        }
    }

    /// Hands every body to reqwest as a stream, and sends none twice for a redirect: a 307 or 308
    /// to a request with a body is then returned instead of followed. An idempotent request that
    /// was dropped while it waited for an HTTP/2 stream is known as never sent.
    #[must_use]
    pub const fn streaming(mut self) -> Self {
        self.streaming = true;
        self
    }
}

type Pending = <reqwest::Client as Service<reqwest::Request>>::Future;

impl<B> Service<Request<B>> for ReqwestService
where
    B: Body<Data: Into<Bytes>> + Send + Sync + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<reqwest::Body>;
    type Error = reqwest::Error;
    type Future = ReqwestFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ReqwestFuture {
        let mut unrepeatable = Unrepeatable::of(&request);
        let sent = match &mut unrepeatable {
            Some(unrepeatable) => unrepeatable.begin(request, !self.streaming),
            None if self.streaming => request.map(reqwest::Body::wrap).try_into(),
            None => request.map(in_one_piece).try_into(),
        };
        let sending = match sent {
            Ok(request) => {
                let sending = self.client.call(request);
                if let Some(unrepeatable) = &unrepeatable {
                    unrepeatable.handed_over();
                }
                Sending::Sent(sending)
            }
            Err(error) => Sending::Invalid(Some(error)),
        };
        ReqwestFuture {
            sending,
            unrepeatable: unrepeatable.map(|call| Box::new((call, self.client.clone()))),
        }
    }
}

// By hand: reqwest's own show default headers and URLs.
impl fmt::Debug for ReqwestService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestService")
            .field("streaming", &self.streaming)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ReqwestFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestFuture").finish_non_exhaustive()
    }
}

/// The future of [`ReqwestService`].
pub struct ReqwestFuture {
    sending: Sending,
    unrepeatable: Option<Box<(Unrepeatable, reqwest::Client)>>,
}

enum Sending {
    Sent(Pending),
    Invalid(Option<reqwest::Error>),
}

impl Future for ReqwestFuture {
    type Output = Result<Response<reqwest::Body>, reqwest::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let response = loop {
            let outcome = match &mut this.sending {
                Sending::Sent(pending) => {
                    let (polled, followed) = watching(|| Pin::new(pending).poll(cx));
                    if let (true, Some(unrepeatable)) = (followed, &mut this.unrepeatable) {
                        unrepeatable.0.followed();
                    }
                    ready!(polled)
                }
                Sending::Invalid(error) => {
                    return Poll::Ready(Err(error.take().expect("polled after completion")));
                }
            };
            let Some(unrepeatable) = &mut this.unrepeatable else {
                break outcome?;
            };
            let (call, client) = &mut **unrepeatable;
            let response = outcome.inspect_err(|error| call.failed(error))?;
            let Some(again) = call.redirected(&response) else {
                call.answered(&response);
                break response;
            };
            drop(response);
            this.sending = Sending::Sent(client.call(again));
        };
        // The conversion drops the URL; its own extension keeps it.
        let url = response.url().clone();
        let mut response = Response::from(response);
        if let Ok(url) = Response::builder().url(url).body(()) {
            response
                .extensions_mut()
                .extend(url.into_parts().0.extensions);
        }
        Poll::Ready(Ok(response))
    }
}
