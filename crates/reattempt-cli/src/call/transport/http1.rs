//! HTTP/1.1: a small pool of connections that are kept alive.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Response, Uri, Version};
use http_body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use reattempt::{Reporter, Stage};

use super::{Address, AnswerBody, TransportError, sending};

/// So many connections are kept at most; others are closed after their answer.
const MOST_KEPT: usize = 64;

/// So many headers an answer may have; hyper's own limit of bytes holds all the same.
const MOST_HEADERS: usize = 1000;

pub(super) struct Pool<B>(Mutex<Vec<SendRequest<B>>>);

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<B> Pool<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<TransportError>,
{
    /// A connection whose last answer was read to its end.
    fn idle(&self) -> Option<SendRequest<B>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|connection| !connection.is_closed());
        let at = kept.iter().rposition(SendRequest::is_ready)?;
        Some(kept.swap_remove(at))
    }

    fn keep(&self, connection: SendRequest<B>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(connection);
        }
    }

    async fn connect(&self, address: &Address) -> Result<SendRequest<B>, TransportError> {
        let (connection, driver) = Builder::new()
            .max_headers(MOST_HEADERS)
            .handshake(TokioIo::new(address.dial().await?))
            .await?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection ended");
            }
        });
        Ok(connection)
    }

    pub(super) async fn send(
        &self,
        address: &Address,
        mut request: Request<B>,
        reporter: &Reporter,
    ) -> Result<Response<AnswerBody>, TransportError> {
        if !request.headers().contains_key(HOST) {
            let host = HeaderValue::from_str(&address.authority)?;
            request.headers_mut().insert(HOST, host);
        }
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
        *request.version_mut() = Version::HTTP_11;
        loop {
            let (mut connection, fresh) = match self.idle() {
                Some(connection) => (connection, false),
                None => (self.connect(address).await?, true),
            };
            reporter.stage(Stage::InFlight);
            match sending(reporter, connection.try_send_request(request)).await {
                Ok(answer) => {
                    // Idle once the answer's body was read to its end; until then nobody takes it.
                    self.keep(connection);
                    return Ok(answer.map(|body| AnswerBody::new(body, None)));
                }
                // Closed by the server while it was idle: nothing was sent, so this is still the same attempt. Each turn uses up
                // a kept connection.
                Err((_, Some(unsent))) if !fresh => request = unsent,
                Err((error, _)) => return Err(error),
            }
        }
    }
}
