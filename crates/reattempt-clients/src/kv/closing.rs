//! A cluster client that closes connections that a response made unusable (RFC 0013, Processing
//! Chain).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use reattempt_couchbase::kv::Status;
use tower_service::Service;

use super::client::{ClientError, KvRequest, KvResponse, RoutedClient, RoutedFuture};

/// A [`RoutedClient`] that closes a connection when the status of a response, or the node's error
/// map, requires it.
#[derive(Clone, Debug)]
pub struct ClosingClient {
    client: RoutedClient,
}

impl ClosingClient {
    /// Wraps this client.
    #[must_use]
    pub const fn new(client: RoutedClient) -> Self {
        Self { client }
    }
}

impl Service<KvRequest> for ClosingClient {
    type Response = KvResponse;
    type Error = ClientError;
    type Future = ClosingFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.client.poll_ready(cx)
    }

    fn call(&mut self, request: KvRequest) -> ClosingFuture {
        ClosingFuture {
            inner: self.client.call(request),
            client: self.client.clone(),
        }
    }
}

pin_project! {
    /// The future of [`ClosingClient`].
    #[derive(Debug)]
    #[must_use = "dropping it cancels the request"]
    pub struct ClosingFuture {
        #[pin]
        inner: RoutedFuture,
        client: RoutedClient,
    }
}

impl ClosingFuture {
    /// The node of the request, `host:port`, as soon as it is known.
    pub fn address(&self) -> Option<&Arc<str>> {
        self.inner.address()
    }

    /// Whether the request still waits for a connection, so that no byte of it was sent.
    pub fn is_dialling(&self) -> bool {
        self.inner.is_dialling()
    }
}

impl Future for ClosingFuture {
    type Output = Result<KvResponse, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx))?;
        if Status(answer.status).closes_connection(answer.error_map.as_deref()) {
            this.client.disconnect(&answer.node, answer.connection);
        }
        Poll::Ready(Ok(answer))
    }
}
