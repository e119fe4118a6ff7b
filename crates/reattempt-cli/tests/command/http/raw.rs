//! A server on raw sockets: a function handles each connection.

use std::future::Future;
use std::io::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Ends with the test.
pub(super) struct Raw {
    pub(super) target: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    heads: Mutex<Vec<String>>,
}

/// One connection, from the server's side.
pub(super) struct Peer {
    pub(super) socket: TcpStream,
    /// Counted from 0.
    pub(super) number: usize,
    pub(super) read: Vec<u8>,
    shared: Arc<Shared>,
}

impl Raw {
    pub(super) async fn start<F, Fut>(serve: F) -> Self
    where
        F: Fn(Peer) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let of_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let number = of_task.accepted.fetch_add(1, Ordering::SeqCst);
                socket.set_nodelay(true).unwrap();
                tokio::spawn(serve(Peer {
                    socket,
                    number,
                    read: Vec::new(),
                    shared: Arc::clone(&of_task),
                }));
            }
        });
        Self {
            target,
            shared,
            task,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The heads of the requests that were read completely.
    pub(super) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    /// Reads until `found` returns the end within the data read; an error at the end of the
    /// connection.
    pub(super) async fn until(
        &mut self,
        found: impl Fn(&[u8]) -> Option<usize>,
    ) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = found(&self.read) {
                return Ok(self.read.drain(..end).collect());
            }
            if self.socket.read_buf(&mut self.read).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads one complete HTTP/1.1 request and returns its head.
    pub(super) async fn request(&mut self) -> Result<String> {
        let end = |read: &[u8]| Some(read.windows(4).position(|four| four == b"\r\n\r\n")? + 4);
        let head = String::from_utf8(self.until(end).await?).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        self.until(|read| (read.len() >= length).then_some(length))
            .await?;
        self.shared.heads.lock().unwrap().push(head.clone());
        Ok(head)
    }

    pub(super) async fn say(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.socket.write_all(bytes.as_ref()).await
    }

    /// Answers every request with these bytes.
    pub(super) async fn always(&mut self, bytes: &str) -> Result<()> {
        loop {
            self.request().await?;
            self.say(bytes).await?;
        }
    }

    /// Reads until the client has closed the connection.
    pub(super) async fn gone(&mut self) -> Result<()> {
        while self.socket.read(&mut [0; 4096]).await? > 0 {}
        Ok(())
    }

    /// Breaks the connection (RST).
    #[allow(
        deprecated,
        reason = "with a linger time of zero closing does not block"
    )]
    pub(super) fn reset(self) -> Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }
}
