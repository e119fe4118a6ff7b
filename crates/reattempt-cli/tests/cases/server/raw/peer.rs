//! One connection of a raw server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Shared;
use super::op::Op;

/// One connection, from the server's side.
pub(super) struct Peer {
    pub(super) socket: TcpStream,
    /// The current stream of HTTP/2.
    pub(super) stream: u32,
    pub(super) read: Vec<u8>,
    pub(super) shared: Arc<Shared>,
}

type Performed<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

impl Peer {
    pub(super) fn perform<'a>(&'a mut self, ops: &'a [Op]) -> Performed<'a> {
        Box::pin(async move {
            for op in ops {
                match op {
                    Op::Request => self.request().await?,
                    Op::Stream => self.request_stream().await?,
                    Op::Wait(time) => tokio::time::sleep(*time).await,
                    Op::Until(bytes) => {
                        self.until(|read| (read.len() >= *bytes).then_some(0))
                            .await?;
                    }
                    Op::Gone => while self.socket.read(&mut [0; 4096]).await? > 0 {},
                    Op::Reset => return self.reset(),
                    Op::Loop(ops, times) => {
                        let mut left = times.unwrap_or(usize::MAX);
                        while left > 0 {
                            self.perform(ops).await?;
                            left -= 1;
                        }
                    }
                    Op::Flood(ops) => return self.flood(ops).await,
                    Op::Settings(payload) => {
                        self.socket.write_all(&frame(4, 0, 0, payload)).await?;
                        self.until(|read| (read.len() >= 24).then_some(24)).await?;
                    }
                    written => self.socket.write_all(&self.bytes(written)).await?,
                }
            }
            Ok(())
        })
    }

    /// What an operation writes.
    fn bytes(&self, op: &Op) -> Vec<u8> {
        match op {
            Op::Say(said) => said.clone(),
            Op::Together(ops) => ops.iter().flat_map(|op| self.bytes(op)).collect(),
            Op::Frame(kind, flags, stream, payload) => {
                frame(*kind, *flags, stream.unwrap_or(self.stream), payload)
            }
            Op::GoAway(last, code) => {
                let last = last.unwrap_or(self.stream);
                let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
                frame(7, 0, 0, &payload)
            }
            _ => Vec::new(),
        }
    }

    /// Reads until `found` returns the end within the data read; an error at the end of the
    /// connection.
    async fn until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = found(&self.read) {
                return Ok(self.read.drain(..end).collect());
            }
            if self.socket.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn request(&mut self) -> io::Result<()> {
        let end = |read: &[u8]| Some(read.windows(4).position(|four| four == b"\r\n\r\n")? + 4);
        let head = String::from_utf8_lossy(&self.until(end).await?).into_owned();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        self.until(|read| (read.len() >= length).then_some(length))
            .await?;
        self.shared.heads.lock().unwrap().push(head);
        Ok(())
    }

    async fn request_stream(&mut self) -> io::Result<()> {
        loop {
            let whole = |read: &[u8]| {
                let length = read.first_chunk::<3>()?;
                let end = 9 + usize::from(length[1]) * 256 + usize::from(length[2]);
                (read.len() >= end).then_some(end)
            };
            let read = self.until(whole).await?;
            match (read[3], read[4] & 1) {
                (4, 0) => self.socket.write_all(&frame(4, 1, 0, &[])).await?,
                (0 | 1, 1) => {
                    self.stream = u32::from_be_bytes([read[5], read[6], read[7], read[8]]);
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// A client that cannot send its answers to the frames would read no more of them.
    async fn flood(&mut self, ops: &[Op]) -> io::Result<()> {
        let frames: Vec<u8> = ops.iter().flat_map(|op| self.bytes(op)).collect();
        let frames = frames.repeat(100);
        let (mut read, mut write) = self.socket.split();
        let flood = async {
            loop {
                write.write_all(&frames).await?;
            }
        };
        let mut sink = tokio::io::sink();
        tokio::select! {
            read = tokio::io::copy(&mut read, &mut sink) => read.map(drop),
            broken = flood => broken,
        }
    }

    #[allow(
        deprecated,
        reason = "with a linger time of zero closing does not block"
    )]
    fn reset(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}
