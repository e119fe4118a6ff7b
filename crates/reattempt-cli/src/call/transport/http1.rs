//! HTTP/1.1: a small pool of connections that are kept alive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Response, Uri, Version};
use http_body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use reattempt::{AttemptReporter, Stage};

use super::heard::Heard;
use super::{Address, AnswerBody, TransportError, sending};

/// Maximum number of kept connections; others are closed after their answer.
const MOST_KEPT: usize = 64;

/// Maximum number of headers of an answer; hyper's limit in bytes applies as well.
const MOST_HEADERS: usize = 1000;

pub(super) struct Pool<B>(Mutex<Vec<Kept<B>>>);

/// A connection and what its server says on it.
struct Open<B> {
    connection: SendRequest<B>,
    heard: Heard,
}

/// A connection that had its last answer, or is about to.
struct Kept<B> {
    open: Open<B>,
    answered: Answered,
}

/// Whether the connection's last answer is no longer read. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered(Arc<AtomicBool>);

impl Answered {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

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
    /// The connection whose last answer ended last.
    fn take_idle(&self) -> Option<Open<B>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| !kept.open.connection.is_closed());
        let at = kept.iter().rposition(|kept| kept.answered.is_set())?;
        Some(kept.swap_remove(at).open)
    }

    /// Like `take_idle`, but waits until the connection is known to be idle: its task updates the
    /// state and may not have run since.
    async fn idle(&self) -> Option<Open<B>> {
        loop {
            let mut open = self.take_idle()?;
            if open.connection.ready().await.is_err() {
                continue;
            }
            // A close that is there already is not known before the runtime has looked, and the
            // connection's own task after it. Found now it costs a new connection; found by the
            // request, one that must not be sent again is lost.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            if open.connection.is_ready() && !open.connection.is_closed() {
                return Some(open);
            }
        }
    }

    fn keep(&self, open: Open<B>) -> Answered {
        let answered = Answered::default();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(Kept {
                open,
                answered: answered.clone(),
            });
        }
        answered
    }

    async fn connect(&self, address: &Address) -> Result<Open<B>, TransportError> {
        let heard = Heard::default();
        let socket = TokioIo::new(heard.listen(address.dial().await?));
        let (connection, driver) = Builder::new()
            .max_headers(MOST_HEADERS)
            .handshake(socket)
            .await?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection ended");
            }
        });
        Ok(Open { connection, heard })
    }

    pub(super) async fn send(
        &self,
        address: &Address,
        mut request: Request<B>,
        reporter: &AttemptReporter,
    ) -> Result<Response<AnswerBody>, TransportError> {
        if !request.headers().contains_key(HOST) {
            let host = HeaderValue::from_str(&address.authority)?;
            request.headers_mut().insert(HOST, host);
        }
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
        *request.version_mut() = Version::HTTP_11;
        loop {
            let (mut open, fresh) = match self.idle().await {
                Some(open) => (open, false),
                None => (self.connect(address).await?, true),
            };
            reporter.stage(Stage::InFlight);
            open.heard.expect_head();
            match sending(reporter, open.connection.try_send_request(request)).await {
                Ok(answer) => {
                    open.heard.head_came();
                    let answered = self.keep(open);
                    return Ok(answer.map(|body| AnswerBody::of_http1(body, answered)));
                }
                // Closed by the server while it was idle: nothing was sent, so this is still the
                // same attempt. Each turn uses up a kept connection.
                Err((_, Some(unsent))) if !fresh => request = unsent,
                Err((error, _)) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use http_body_util::{BodyExt as _, Full};
    use reattempt::{Backend, Call, HasCallContext as _};

    use super::*;

    /// C13: a close that was not read yet costs a new connection, not the request.
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
            // Until the connection's own task waits for what comes next.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            // The runtime stands still meanwhile.
            close.send(()).unwrap();
            until_closed.recv().unwrap();
        }
        server.join().unwrap();
    }

    /// All of them are there before the first is read.
    #[tokio::test]
    async fn other_tasks_run_between_informational_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let (read, until_read) = mpsc::channel();
        let (write, until_told) = mpsc::channel();
        let (written, until_written) = mpsc::channel();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 1024]).unwrap();
            read.send(()).unwrap();
            until_told.recv().unwrap();
            let hints = "HTTP/1.1 103 E\r\na: b\r\n\r\n".repeat(3_000);
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            socket.write_all((hints + answer).as_bytes()).unwrap();
            written.send(()).unwrap();
            socket.read(&mut [0; 1]).unwrap()
        });
        let address = Address {
            backend: Backend::new(authority.as_str()),
            authority,
        };
        let call = tokio::spawn(async move {
            let pool = Pool::default();
            let reporter = Call::new(()).context_mut().reporter();
            let request = Request::get("http://h/").body(Full::new(Bytes::new()));
            pool.send(&address, request.unwrap(), &reporter)
                .await
                .map(|answer| answer.status())
        });
        while until_read.try_recv() == Err(mpsc::TryRecvError::Empty) {
            tokio::task::yield_now().await;
        }
        write.send(()).unwrap();
        // The runtime stands still meanwhile.
        until_written.recv().unwrap();
        let mut turns = 0;
        while !call.is_finished() {
            tokio::task::yield_now().await;
            turns += 1;
        }
        assert_eq!(call.await.unwrap().unwrap(), 200);
        assert!(turns >= 72_000 / (4 << 10), "{turns}");
        server.join().unwrap();
    }
}
