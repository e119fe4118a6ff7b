//! TCP connections to one server, with or without TLS, as a tower service: opened on demand and
//! replaced when lost.
//!
//! It never sends a request twice. It reports the stage of each attempt to the layers above.

mod answer_body;
mod connection;
mod error;
mod http1;
mod http2;
mod inbound;
mod request_body;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use reattempt::{Backend, CallContext, HasCallContext, Stage};
use tower_service::Service;

pub(crate) use answer_body::AnswerBody;
use connection::Address;
pub(crate) use error::{TransportError, chain};
use request_body::Length;
pub(crate) use tls::Tls;

/// The HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    /// With prior knowledge.
    Http2,
    /// HTTP/2 whose requests are streams of messages.
    Grpc,
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
    pub(crate) fn new(authority: &str, version: Version, tls: Option<Tls>) -> Self {
        Self(Arc::new(Shared {
            address: Address {
                authority: authority.to_owned(),
                tls,
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
        let reporter = request
            .context()
            .map(CallContext::reporter)
            .unwrap_or_default();
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
