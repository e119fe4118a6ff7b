//! A socket that records whether the peer has sent anything yet.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether the peer of one connection has sent anything. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Arc<AtomicBool>);

impl Heard {
    pub(super) fn anything(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn listen(&self, socket: TcpStream) -> Listening {
        Listening {
            socket,
            heard: self.clone(),
        }
    }
}

/// Made by [`Heard::listen`].
#[derive(Debug)]
pub(super) struct Listening {
    socket: TcpStream,
    heard: Heard,
}

impl AsyncRead for Listening {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.heard.0.store(true, Ordering::Release);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Listening {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
