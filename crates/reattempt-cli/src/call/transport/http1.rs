//! HTTP/1.1: a small pool of connections that are kept alive.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Response, Uri, Version};
use http_body::Body;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use reattempt::{Reporter, Stage};

use super::{Address, AnswerBody, TransportError, sending};

/// So many connections are kept at most; others are closed after their answer.
const MOST_KEPT: usize = 64;

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

    /// An idle connection that its server has not closed yet, as far as anybody can know.
    async fn reuse(&self) -> Option<SendRequest<B>> {
        while let Some(connection) = self.idle() {
            // A close that is there already is not known before the runtime has looked, and the connection's own task after it.
            // Found now it costs a new connection; found by the request, a request that must not be sent again is lost.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            if connection.is_ready() && !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, connection: SendRequest<B>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(connection);
        }
    }

    async fn connect(&self, address: &Address) -> Result<SendRequest<B>, TransportError> {
        let (connection, driver) = handshake(TokioIo::new(address.dial().await?)).await?;
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
        let mut connection = match self.reuse().await {
            Some(connection) => connection,
            None => self.connect(address).await?,
        };
        if !request.headers().contains_key(HOST) {
            let host = HeaderValue::from_str(&address.authority)?;
            request.headers_mut().insert(HOST, host);
        }
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
        *request.version_mut() = Version::HTTP_11;
        reporter.stage(Stage::InFlight);
        let answer = sending(reporter, connection.try_send_request(request))
            .await
            .map_err(|(error, _)| error)?;
        // Idle once the answer's body was read to its end; until then nobody takes it.
        self.keep(connection);
        Ok(answer.map(|body| AnswerBody::new(body, None)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use http_body_util::{BodyExt as _, Full};
    use reattempt::{Annotated as _, Backend, Call};

    use super::*;

    /// C13: a close that nobody has read yet costs a new connection, not the request.
    #[tokio::test]
    async fn a_connection_that_its_server_has_closed_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let (close, until_told) = mpsc::channel();
        let (closed, until_closed) = mpsc::channel();
        let server = std::thread::spawn(move || {
            for _ in 0..20 {
                let (mut socket, _) = listener.accept().unwrap();
                let _ = socket.read(&mut [0; 1024]).unwrap();
                socket
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    .unwrap();
                until_told.recv().unwrap();
                drop(socket);
                closed.send(()).unwrap();
            }
        });
        let address = Address {
            backend: Backend::new(authority.as_str()),
            authority,
        };
        let pool = Pool::default();
        let reporter = Call::new(()).context_mut().reporter();
        for _ in 0..20 {
            let request = Request::post("http://h/")
                .body(Full::new(Bytes::new()))
                .unwrap();
            let answer = pool.send(&address, request, &reporter).await.unwrap();
            answer.into_body().collect().await.unwrap();
            while pool.0.lock().unwrap().iter().any(|kept| !kept.is_ready()) {
                tokio::task::yield_now().await;
            }
            // The runtime stands still meanwhile.
            close.send(()).unwrap();
            until_closed.recv().unwrap();
        }
        server.join().unwrap();
    }
}
