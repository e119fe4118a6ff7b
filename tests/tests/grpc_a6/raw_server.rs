//! A server that responds to each request with arbitrary bytes, valid HTTP/2 or not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const PREFACE: usize = 24;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// The pieces, possibly without end, that are written when a stream is opened.
pub(crate) type Answer = Box<dyn Iterator<Item = Vec<u8>> + Send>;

/// A frame of any kind.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn number(mut value: usize, block: &mut Vec<u8>) {
    if value < 127 {
        return block.push(value as u8);
    }
    block.push(127);
    value -= 127;
    while value >= 128 {
        block.push((value % 128) as u8 | 128);
        value /= 128;
    }
    block.push(value as u8);
}

/// Fields as literals without indexing (RFC 7541, 6.2.2).
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        number(name.len(), &mut block);
        block.extend(name.as_bytes());
        number(value.len(), &mut block);
        block.extend(value.as_bytes());
    }
    block
}

/// One HEADERS frame.
pub(crate) fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

/// The first fields of every response.
pub(crate) const BEGINNING: [(&str, &str); 2] =
    [(":status", "200"), ("content-type", "application/grpc")];

/// Response-Headers without a status.
pub(crate) fn response_headers(stream: u32) -> Vec<u8> {
    headers(stream, 0, &BEGINNING)
}

/// The server's counters.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) streams: AtomicU64,
    /// Bytes that the client (and the sockets in between) accepted.
    pub(crate) taken: AtomicU64,
}

/// Listens until dropped.
pub(crate) struct RawServer {
    address: SocketAddr,
    pub(crate) counts: Arc<Counts>,
    task: JoinHandle<()>,
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RawServer {
    /// `greets` is written on each new connection, `answers` on each stream.
    pub(crate) async fn start(
        greets: impl Fn() -> Vec<u8> + Send + Sync + 'static,
        answers: impl Fn(u32) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let counts = Arc::new(Counts::default());
        let (counted, answers) = (Arc::clone(&counts), Arc::new(answers));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counted.connections.fetch_add(1, Ordering::Relaxed);
                let serving = serve(socket, greets(), Arc::clone(&answers), Arc::clone(&counted));
                tokio::spawn(serving);
            }
        });
        Self {
            address,
            counts,
            task,
        }
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn serve(
    socket: TcpStream,
    greeting: Vec<u8>,
    answers: Arc<impl Fn(u32) -> Answer>,
    counts: Arc<Counts>,
) {
    let (read, mut write) = socket.into_split();
    let (opened, mut streams) = mpsc::unbounded_channel();
    let reading = tokio::spawn(streams_of(read, opened));
    put(&mut write, &frame(SETTINGS, 0, 0, b""), &counts).await;
    let mut open = put(&mut write, &greeting, &counts).await;
    while open {
        let Some(stream) = streams.recv().await else {
            break;
        };
        counts.streams.fetch_add(1, Ordering::Relaxed);
        for piece in answers(stream) {
            open = put(&mut write, &piece, &counts).await;
            if !open {
                break;
            }
        }
    }
    reading.abort();
}

/// False once the client accepts no more.
async fn put(write: &mut OwnedWriteHalf, piece: &[u8], counts: &Counts) -> bool {
    let taken = piece.len() as u64;
    counts.taken.fetch_add(taken, Ordering::Relaxed);
    // The sockets may accept everything: yield, so that the client can run.
    tokio::task::yield_now().await;
    write.write_all(piece).await.is_ok()
}

/// Sends the id of each opened stream, and ignores all other frames.
async fn streams_of(mut read: OwnedReadHalf, opened: mpsc::UnboundedSender<u32>) {
    let mut preface = [0; PREFACE];
    if read.read_exact(&mut preface).await.is_err() {
        return;
    }
    loop {
        let mut head = [0; 9];
        if read.read_exact(&mut head).await.is_err() {
            return;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        if head[3] == HEADERS && opened.send(stream).is_err() {
            return;
        }
        let mut payload = vec![0; length as usize];
        if read.read_exact(&mut payload).await.is_err() {
            return;
        }
    }
}
