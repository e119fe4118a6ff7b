//! HTTP/2 with prior knowledge: one connection for all calls.

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioExecutor;
use reattempt::Reporter;
use tokio::sync::Mutex;

use super::{Address, TransportError, sending};

pub(super) struct Connection<B>(Mutex<Option<SendRequest<B>>>);

impl<B> Default for Connection<B> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<B> Connection<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<TransportError>,
{
    /// The connection, dialled if there is none. Calls that come meanwhile wait for the same one.
    async fn ready(
        &self,
        address: &Address,
        waits: bool,
    ) -> Result<SendRequest<B>, TransportError> {
        let mut slot = self.0.lock().await;
        if let Some(connection) = slot.as_mut() {
            // One that the server has said good-bye to is not ready, although its streams go on.
            if !connection.is_closed() && connection.ready().await.is_ok() {
                return Ok(connection.clone());
            }
            *slot = None;
        }
        let socket = if waits {
            // Not under the lock, or a call that does not wait would.
            drop(slot);
            let socket = address.connect(true).await?;
            slot = self.0.lock().await;
            socket
        } else {
            address.connect(false).await?
        };
        let (connection, driver) = handshake(TokioExecutor::new(), socket).await?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection ended");
            }
        });
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// The next call dials anew.
    async fn forget(&self, reporter: &Reporter) {
        let attempt = reporter.attempt();
        tracing::debug!(attempt, "the connection took no request; dialling anew");
        *self.0.lock().await = None;
    }

    pub(super) async fn send(
        &self,
        address: &Address,
        waits: bool,
        mut request: Request<B>,
        reporter: &Reporter,
    ) -> Result<Response<Incoming>, TransportError> {
        let mut connection = self.ready(address, waits).await?;
        *request.version_mut() = Version::HTTP_2;
        let answered = sending(reporter, connection.try_send_request(request)).await;
        if let Err(error) = &answered {
            let refused = error
                .downcast_ref::<hyper::Error>()
                .is_some_and(|error| error.is_canceled() || error.is_closed());
            if refused {
                self.forget(reporter).await;
            }
        }
        answered
    }
}
