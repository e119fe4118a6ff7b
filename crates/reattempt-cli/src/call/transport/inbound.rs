//! A socket that knows what the peer has said, and bounds it before the head of an answer.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, Join, ReadBuf, ReadHalf, Take, WriteHalf, join, split,
};
use tokio::task::yield_now;

/// The most bytes before the head of an answer has come: those of the head and of informational
/// answers, which have no bound of their own. hyper's for one head is less than half of it.
const MOST_BEFORE_HEAD: usize = 1 << 20;

/// The most bytes that are read of them in one turn of the connection's task. tokio's budget counts
/// reads, and hyper reads and parses until there is nothing left: without this, timers would wait
/// for megabytes of informational answers. They wait for a turn of every connection.
const MOST_AT_ONCE: usize = 4 << 10;

/// Any connection that bytes go through.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A connection, with or without TLS.
pub(super) type Socket = Box<dyn Duplex>;

/// A protocol that is not HTTP/2, by the first bytes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    Http1,
    /// An alert, in answer to plain text.
    Tls,
    /// Any other text, such as SSH's greeting, or the page of an HTTP/1 server that takes the first
    /// line for HTTP/0.9. SETTINGS, which come first in HTTP/2, are never text.
    Text,
}

impl Foreign {
    fn of(first: &[u8]) -> Option<Self> {
        match first {
            [b'H', b'T', ..] => Some(Self::Http1),
            [0x15, 3, ..] => Some(Self::Tls),
            [a, b, c, _, ..] if [a, b, c].iter().all(|byte| byte.is_ascii_graphic()) => {
                Some(Self::Text)
            }
            _ => None,
        }
    }
}

/// What the peer of one connection has said. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbound(Arc<Said>);

#[derive(Debug, Default)]
struct Said {
    /// Since the connection began, or since a head was expected last.
    bytes: AtomicUsize,
    head_is_due: AtomicBool,
    /// Set by the first bytes.
    foreign: OnceLock<Option<Foreign>>,
}

impl Inbound {
    pub(super) fn anything(&self) -> bool {
        self.0.bytes.load(Ordering::Acquire) > 0
    }

    /// The protocol that the server speaks if it is not HTTP/2.
    pub(super) fn foreign(&self) -> Option<Foreign> {
        self.0.foreign.get().copied().flatten()
    }

    /// Whether both are of one connection.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// From now on the bytes are bounded, until [`Inbound::head_came`].
    pub(super) fn expect_head(&self) {
        self.0.bytes.store(0, Ordering::Release);
        self.0.head_is_due.store(true, Ordering::Release);
    }

    pub(super) fn head_came(&self) {
        self.0.head_is_due.store(false, Ordering::Release);
    }

    fn read(&self, read: &[u8]) {
        let bytes = read.len();
        if bytes > 0 {
            self.0.foreign.get_or_init(|| Foreign::of(read));
        }
        let add = |before: usize| Some(before.saturating_add(bytes));
        let said = &self.0.bytes;
        // Never fails: there is always a sum.
        let _ = said.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    pub(super) fn listen(&self, socket: Socket) -> Listening {
        let (read, write) = split(socket);
        let read = Bounded {
            socket: read.take(u64::MAX),
            in_this_turn: 0,
            inbound: self.clone(),
        };
        join(read, write)
    }
}

/// Made by [`Inbound::listen`].
pub(super) type Listening = Join<Bounded, WriteHalf<Socket>>;

/// The side of a socket that is read.
pub(super) struct Bounded {
    /// Its limit is that of the next read.
    socket: Take<ReadHalf<Socket>>,
    /// Bytes read since the task paused last, while a head is due.
    in_this_turn: usize,
    inbound: Inbound,
}

impl Bounded {
    /// Bounds the next read. Pending where this turn has had its bytes.
    fn poll_bound(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let said = &self.inbound.0;
        if !said.head_is_due.load(Ordering::Acquire) {
            self.in_this_turn = 0;
            self.socket.set_limit(u64::MAX);
            return Poll::Ready(Ok(()));
        }
        if said.bytes.load(Ordering::Acquire) >= MOST_BEFORE_HEAD {
            let what = "the server sent more than 1 MiB before the head of its answer";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        if self.in_this_turn >= MOST_AT_ONCE {
            self.in_this_turn = 0;
            // Wakes the task again behind the timers.
            ready!(pin!(yield_now()).poll(cx));
        }
        self.socket.set_limit(MOST_AT_ONCE as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_bound(cx))?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        if read.is_pending() {
            self.in_this_turn = 0;
        }
        ready!(read)?;
        let bytes = buf.filled().len() - before;
        self.in_this_turn += bytes;
        self.inbound.read(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}
