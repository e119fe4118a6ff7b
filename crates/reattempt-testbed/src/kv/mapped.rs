//! A cluster's client whose answers know the error map of the node that gave them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use reattempt::Backend;
use reattempt_couchbase::kv::Status;
use reattempt_couchbase::{ErrorMap, ErrorMaps, KvAnswer};
use tower_service::Service;

use super::client::{ClientError, KvRequest, KvResponse, RoutedClient, RoutedFuture};

/// For [`ClientOptions::on_error_map`](super::ClientOptions::on_error_map): keeps each node's map.
pub fn keep_in(maps: ErrorMaps) -> impl Fn(&[u8], &str) + Send + Sync + 'static {
    move |body, node| match ErrorMap::parse(body) {
        Ok(map) => {
            for fault in map.faults() {
                tracing::debug!(%fault, node, "a part of an error map is left out");
            }
            maps.insert(Backend::new(node), map);
        }
        Err(error) => tracing::debug!(%error, node, "an error map is refused"),
    }
}

/// An answer with the error map of its node (RFC 0013, Control Flow).
#[derive(Clone, Debug)]
pub struct MappedResponse {
    /// The answer.
    pub answer: KvResponse,
    map: Option<Arc<ErrorMap>>,
}

impl KvAnswer for MappedResponse {
    fn status(&self) -> u16 {
        self.answer.status
    }

    fn opcode(&self) -> u8 {
        self.answer.opcode
    }

    fn value(&self) -> &[u8] {
        &self.answer.value
    }

    fn framing_extras(&self) -> &[u8] {
        &self.answer.framing
    }

    fn error_map(&self) -> Option<&ErrorMap> {
        self.map.as_deref()
    }
}

/// A [`RoutedClient`] that adds the error maps, and closes a connection that an answer made useless (RFC 0013,
/// Processing Chain).
#[derive(Clone, Debug)]
pub struct MappedClient {
    client: RoutedClient,
    maps: ErrorMaps,
}

impl MappedClient {
    /// Finds the maps here; the client's options put them in with [`keep_in`].
    #[must_use]
    pub const fn new(client: RoutedClient, maps: ErrorMaps) -> Self {
        Self { client, maps }
    }
}

impl Service<KvRequest> for MappedClient {
    type Response = MappedResponse;
    type Error = ClientError;
    type Future = MappedFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.client.poll_ready(cx)
    }

    fn call(&mut self, request: KvRequest) -> MappedFuture {
        MappedFuture {
            inner: self.client.call(request),
            client: self.clone(),
        }
    }
}

pin_project! {
    /// The future of [`MappedClient`].
    #[derive(Debug)]
    #[must_use = "dropping it cancels the request"]
    pub struct MappedFuture {
        #[pin]
        inner: RoutedFuture,
        client: MappedClient,
    }
}

impl Future for MappedFuture {
    type Output = Result<MappedResponse, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx))?;
        let map = this.client.maps.of(Some(&Backend::new(&*answer.node)));
        if Status(answer.status).closes_connection(map.as_deref()) {
            let (node, connection) = (&answer.node, answer.connection);
            this.client.client.disconnect(node, connection);
        }
        Poll::Ready(Ok(MappedResponse { answer, map }))
    }
}
