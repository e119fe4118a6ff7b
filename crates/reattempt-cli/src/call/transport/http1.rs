//! HTTP/1.1: a small pool of connections that are kept alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, Uri, Version};
use http_body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use reattempt::{AttemptReporter, Stage};

use super::answer_body::AnswerBody;
use super::connection::{Address, Running, sending};
use super::error::TransportError;
use super::inbound::Inbound;

/// Maximum number of kept connections; others are closed after their answer.
const MOST_KEPT: usize = 64;

/// How long connections may take to become idle after their answers: longer is a request that is
/// still being sent, and the connection is closed.
const LONGEST_UPDATE: Duration = Duration::from_millis(100);

/// Maximum number of headers of an answer; hyper's limit in bytes applies as well.
const MOST_HEADERS: usize = 1000;

pub(super) struct Pool<B>(Mutex<Vec<Connection<B>>>);

struct Connection<B> {
    sender: SendRequest<B>,
    running: Running,
    inbound: Inbound,
    /// Held by the body of its last answer.
    reading: Weak<()>,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<B> Pool<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<TransportError>,
{
    fn kept(&self) -> MutexGuard<'_, Vec<Connection<B>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection whose last answer came last of those that are no longer read.
    fn take_idle(&self) -> Option<Connection<B>> {
        let mut kept = self.kept();
        kept.retain(|kept| !kept.sender.is_closed());
        let at = kept
            .iter()
            .rposition(|kept| kept.reading.strong_count() == 0)?;
        Some(kept.swap_remove(at))
    }

    /// Like `take_idle`, but waits until the connection is known to be idle: its task updates the
    /// state and may not have run since.
    async fn idle(&self) -> Option<Connection<B>> {
        // For all of them: after it, those that are idle are taken, and the others closed.
        let mut update = std::pin::pin!(tokio::time::sleep(LONGEST_UPDATE));
        loop {
            let mut connection = self.take_idle()?;
            // A server may have answered before it has read the request, and read no more of it.
            let ready = tokio::select! {
                biased;
                ready = connection.sender.ready() => Some(ready),
                () = &mut update => None,
            };
            if !matches!(ready, Some(Ok(()))) {
                continue;
            }
            // A close that is there already is not known before the runtime has looked, and the
            // connection's own task after it. Found now it costs a new connection; found by the
            // request, one that must not be sent again is lost.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            if connection.sender.is_ready() && !connection.sender.is_closed() {
                return Some(connection);
            }
        }
    }

    /// Keeps the connection, whose answer has begun. It is idle when what is returned was dropped.
    fn keep(&self, mut connection: Connection<B>) -> Arc<()> {
        connection.inbound.head_came();
        let reading = Arc::default();
        connection.reading = Arc::downgrade(&reading);
        let mut kept = self.kept();
        if kept.len() < MOST_KEPT {
            kept.push(connection);
        }
        reading
    }

    async fn connect(&self, address: &Address) -> Result<Connection<B>, TransportError> {
        let (socket, inbound) = address.dial().await?;
        let (sender, connection) = Builder::new()
            .max_headers(MOST_HEADERS)
            .handshake(socket)
            .await?;
        Ok(Connection {
            sender,
            running: Running::start(connection),
            inbound,
            reading: Weak::new(),
        })
    }

    pub(super) async fn send(
        &self,
        address: &Address,
        mut request: Request<B>,
        reporter: &AttemptReporter,
    ) -> Result<Response<AnswerBody>, TransportError> {
        if !request.headers().contains_key(HOST) {
            // Without the port that the scheme implies.
            let named = request.uri().authority().map(|named| named.as_str());
            let host = HeaderValue::from_str(named.unwrap_or(&address.authority))?;
            request.headers_mut().insert(HOST, host);
        }
        if needs_length(&request) {
            let none = HeaderValue::from_static("0");
            request.headers_mut().insert(CONTENT_LENGTH, none);
        }
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
        *request.version_mut() = Version::HTTP_11;
        loop {
            let (mut connection, fresh) = match self.idle().await {
                Some(connection) => (connection, false),
                None => (self.connect(address).await?, true),
            };
            reporter.stage(Stage::InFlight);
            connection.inbound.expect_head();
            let sent = connection.sender.try_send_request(request);
            let running = connection.running.clone();
            let mut open = Some(connection);
            match sending(reporter, sent, running.then(async || open = None)).await {
                Ok(answer) => {
                    let reading = open.map(|open| self.keep(open)).unwrap_or_default();
                    return Ok(answer.map(|body| AnswerBody::of_http1(body, reading)));
                }
                // Closed by the server while it was idle: nothing was sent, so this is still the
                // same attempt. Each turn uses up a kept connection.
                Err((_, Some(unsent))) if !fresh => request = unsent,
                Err((error, _)) => return Err(error),
            }
        }
    }
}

/// Whether a request without a body has to say so (RFC 9110, section 8.6): its method has a meaning
/// for a body, and some servers answer 411 without a length. hyper sends none. HTTP/2 does not need
/// it, where the request's stream ends.
fn needs_length<B: Body>(request: &Request<B>) -> bool {
    let headers = request.headers();
    matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    ) && request.body().is_end_stream()
        && !headers.contains_key(CONTENT_LENGTH)
        && !headers.contains_key(TRANSFER_ENCODING)
}
