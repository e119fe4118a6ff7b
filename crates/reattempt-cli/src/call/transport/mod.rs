//! Plain TCP connections to one server, as a tower service: opened on demand and replaced when
//! lost.
//!
//! It never sends a request twice. It reports the stage of each attempt to the layers above.

mod answer_body;
mod heard;
mod http1;
mod http2;
mod request_body;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use reattempt::{AttemptReporter, Backend, HasCallContext, Stage};
use tokio::net::TcpStream;
use tower_service::Service;

pub(crate) use answer_body::AnswerBody;
use request_body::Length;

/// The error of the transport: hyper's own errors, and those of connecting.
pub(crate) type TransportError = Box<dyn std::error::Error + Send + Sync>;

/// The HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    /// With prior knowledge.
    Http2,
    /// HTTP/2 whose requests are streams of messages.
    Grpc,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {authority}: {source}")]
struct CannotConnect {
    authority: String,
    source: TransportError,
}

/// Where to connect.
#[derive(Debug)]
struct Address {
    authority: String,
    backend: Backend,
}

impl Address {
    async fn dial(&self) -> Result<TcpStream, TransportError> {
        let socket = TcpStream::connect(&self.authority)
            .await
            .map_err(|error| self.unconnected(error))?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    /// Independent of the source's own kind: this error means that nothing was sent.
    fn unconnected(&self, source: impl Into<TransportError>) -> TransportError {
        let error = CannotConnect {
            authority: self.authority.clone(),
            source: source.into(),
        };
        Box::new(io::Error::new(io::ErrorKind::ConnectionRefused, error))
    }
}

enum Connections<B> {
    Http1(http1::Pool<B>),
    Http2(http2::Connection<B>, Length),
}

/// One server. Clones share the connections.
pub(crate) struct Transport<B>(Arc<Shared<B>>);

struct Shared<B> {
    address: Address,
    connections: Connections<B>,
}

impl<B> Clone for Transport<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> fmt::Debug for Transport<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transport").field(&self.0.address).finish()
    }
}

impl<B> Transport<B> {
    /// Creates a transport to `host:port`; it does not connect yet.
    pub(crate) fn new(authority: &str, version: Version) -> Self {
        Self(Arc::new(Shared {
            address: Address {
                authority: authority.to_owned(),
                backend: Backend::new(authority),
            },
            connections: match version {
                Version::Http1 => Connections::Http1(http1::Pool::default()),
                Version::Http2 => Connections::Http2(http2::Connection::default(), Length::Said),
                Version::Grpc => Connections::Http2(http2::Connection::default(), Length::Unsaid),
            },
        }))
    }
}

impl<B> Service<Request<B>> for Transport<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<TransportError>,
{
    type Response = Response<AnswerBody>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        let reporter = request.context().cloned().unwrap_or_default().reporter();
        reporter.backend(shared.address.backend.clone());
        reporter.stage(Stage::Dispatch);
        Box::pin(async move {
            let address = &shared.address;
            let answered = match &shared.connections {
                Connections::Http1(pool) => pool.send(address, request, &reporter).await,
                Connections::Http2(one, length) => {
                    one.send(address, *length, request, &reporter).await
                }
            };
            if answered.is_ok() {
                reporter.stage(Stage::Response);
            }
            answered
        })
    }
}

/// Why a request has no answer, and the request itself if nothing of it was sent.
type Unanswered<B> = (TransportError, Option<Request<B>>);

/// Waits for the answer of a request. If the request was not sent, the reported stage is reset.
async fn sending<B, F>(
    reporter: &AttemptReporter,
    sending: F,
) -> Result<Response<Incoming>, Unanswered<B>>
where
    F: Future<Output = Result<Response<Incoming>, hyper::client::conn::TrySendError<Request<B>>>>,
{
    sending.await.map_err(|mut error| {
        let unsent = error.take_message();
        if unsent.is_some() {
            reporter.stage(Stage::Dispatch);
        }
        (error.into_error().into(), unsent)
    })
}
