//! `ReqwestService`: reqwest's client as a service for `http::Request`s.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use reqwest::ResponseBuilderExt;
use tower_service::Service;

use super::body::{as_stream, in_one_piece};
use super::redirected::Unrepeatable;

/// reqwest's client as a `Service<http::Request<B>>`, to put below any stack.
///
/// Its response is an `http::Response<reqwest::Body>`; `reqwest::Response::from` makes reqwest's
/// own of it, with the URL that the response came from. How bodies and redirects are handled is
/// said in the [module](super).
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
    /// Sends with this client, and so with its pool, time limits, proxies and redirects.
    #[must_use]
    pub const fn new(client: reqwest::Client) -> Self {
        Self {
            client,
            streaming: false,
        }
    }

    /// Hands every body to reqwest as a stream. A 307 or 308 to a request with a body is then
    /// returned instead of followed, and a request that was dropped while it waited for an HTTP/2
    /// stream is known as never sent.
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
        let begun = Arc::default();
        let unrepeatable = Unrepeatable::of(&request, &begun);
        let request = request.map(|body| {
            if self.streaming {
                as_stream(body, &begun)
            } else {
                in_one_piece(body, &begun)
            }
        });
        let sending = match reqwest::Request::try_from(request) {
            Ok(request) => Sending::Sent(self.client.call(request)),
            Err(error) => Sending::Invalid(Some(error)),
        };
        ReqwestFuture {
            sending,
            unrepeatable,
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
    unrepeatable: Option<Unrepeatable>,
}

enum Sending {
    Sent(Pending),
    Invalid(Option<reqwest::Error>),
}

impl Future for ReqwestFuture {
    type Output = Result<Response<reqwest::Body>, reqwest::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match &mut self.sending {
            Sending::Sent(pending) => ready!(Pin::new(pending).poll(cx)),
            Sending::Invalid(error) => {
                return Poll::Ready(Err(error.take().expect("polled after completion")));
            }
        };
        let response = match (response, &self.unrepeatable) {
            (Ok(response), _) => response,
            (Err(error), Some(unrepeatable)) => {
                unrepeatable.failed(&error);
                return Poll::Ready(Err(error));
            }
            (Err(error), None) => return Poll::Ready(Err(error)),
        };
        // The conversion drops the URL; its own extension keeps it.
        let url = response.url().clone();
        let mut response = Response::from(response);
        if let Some(unrepeatable) = &self.unrepeatable {
            unrepeatable.answered(&response, &url);
        }
        if let Ok(url) = Response::builder().url(url).body(()) {
            response
                .extensions_mut()
                .extend(url.into_parts().0.extensions);
        }
        Poll::Ready(Ok(response))
    }
}
