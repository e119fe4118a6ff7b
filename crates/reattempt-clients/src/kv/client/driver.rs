//! The task of a connection: only it reads and writes the socket.
//!
//! One task for both directions, so that it is known which requests were sent when the socket
//! fails: a request is in flight from its first byte on.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{Instant, sleep};

use crate::kv::frame::{CLUSTERMAP_CHANGED, FrameError, Magic, ReceivedFrame};

use super::bootstrap::READ_BUFFER;
use super::error::CloseReason;
use super::state::Shared;
use crate::instant::after;

/// Requests are taken from the queue until this many bytes wait to be written.
const WRITE_AHEAD: usize = 64 * 1024;

/// Reads of what a peer had answered before it closed.
const READS_AT_CLOSE: u32 = 64;

/// A read buffer with more room than this grew for a long response; shorter ones are copied out of
/// it, in bytes. A write buffer that had a longer request is not kept.
const SMALL: usize = 64 * 1024;

/// Runs a connection until its end, then fails waiting requests. Also when the task is dropped,
/// before its first poll too: its runtime may end then.
pub(super) fn run(
    shared: Arc<Shared>,
    stream: TcpStream,
    input: BytesMut,
    max_body: usize,
    read_timeout: Duration,
) -> impl Future<Output = ()> + Send {
    struct CloseOnDrop(Arc<Shared>);
    impl Drop for CloseOnDrop {
        fn drop(&mut self) {
            self.0.close(CloseReason::Local);
        }
    }
    let shared = CloseOnDrop(shared);
    async move {
        let reason = drive(&shared.0, stream, input, max_body, read_timeout).await;
        shared.0.close(reason);
    }
}

async fn drive(
    shared: &Shared,
    stream: TcpStream,
    mut input: BytesMut,
    max_body: usize,
    read_timeout: Duration,
) -> CloseReason {
    // The bootstrap's may be the end of one that grew for a configuration.
    input = first_size(&input);
    // What arrived together with its last answer: no read may follow for a long time.
    if let Err(reason) = frames(shared, &mut input, max_body) {
        return reason;
    }
    let (mut read, mut write) = stream.into_split();
    // Armed by a write. A read does not move it, because reads are frequent: it sets `heard`.
    let mut silence = pin!(sleep(Duration::ZERO));
    let (mut armed, mut heard, mut full) = (false, false, false);
    let mut output = Output::default();
    // Requests in `output`, each with the offset of its first byte in the whole output.
    let mut starts: VecDeque<(u32, u64)> = VecDeque::new();
    let (mut taken, mut written) = (0u64, 0u64);
    loop {
        if shared.is_closing() {
            return CloseReason::Local;
        }
        let idle = output.bytes.is_empty();
        output.fill(shared, |opaque, length| {
            starts.push_back((opaque, taken));
            taken += length as u64;
        });
        if idle && !output.bytes.is_empty() {
            // A request that was not sent is safe to send again, so a close is detected before the
            // first byte is written. The runtime learns of the close when this task yields.
            tokio::task::yield_now().await;
            match arrived(shared, &read, &mut input, max_body) {
                Ok(any) => heard |= any,
                Err(reason) => return reason,
            }
        }
        let unsent = !output.bytes.is_empty();
        tokio::select! {
            result = read.read_buf(&mut input) => {
                if let Err(reason) = received(shared, result, &mut input, max_body) {
                    return reason;
                }
                heard = true;
            }
            result = write.write_buf(&mut output.bytes), if unsent => match result {
                Ok(count) => {
                    output.written();
                    written += count as u64;
                    let left = starts.partition_point(|(_, start)| *start < written);
                    shared.mark_sent(starts.drain(..left).map(|(opaque, _)| opaque));
                    // A full socket has room again only if the peer has received something.
                    heard |= full;
                    full = !output.bytes.is_empty();
                    if !armed {
                        (armed, heard) = (true, false);
                        silence.as_mut().reset(after(Instant::now(), read_timeout));
                    }
                }
                Err(error) => {
                    // The peer may have answered before it closed.
                    for _ in 0..READS_AT_CLOSE {
                        if !matches!(arrived(shared, &read, &mut input, max_body), Ok(true)) {
                            break;
                        }
                    }
                    return CloseReason::Io(Arc::new(error));
                }
            },
            () = shared.wake.notified() => {}
            () = silence.as_mut(), if armed => {
                match arrived(shared, &read, &mut input, max_body) {
                    Ok(any) if any || heard => {}
                    Ok(_) => return CloseReason::Silent { limit: read_timeout },
                    Err(reason) => return reason,
                }
                // A caller may have dropped what is half written.
                (armed, heard) = (shared.outstanding() > 0 || unsent, false);
                if armed {
                    silence.as_mut().reset(after(Instant::now(), read_timeout));
                }
            }
        }
    }
}

/// Requests that wait to be written.
#[derive(Default)]
struct Output {
    bytes: BytesMut,
    /// Whether the buffer had a request longer than [`SMALL`]. What was written does not count in
    /// its capacity.
    long: bool,
}

impl Output {
    /// Takes requests from the queue; calls `note` with each length.
    fn fill(&mut self, shared: &Shared, mut note: impl FnMut(u32, usize)) {
        let Self { bytes, long } = self;
        shared.drain(bytes, WRITE_AHEAD, |opaque, length| {
            *long |= length > SMALL;
            note(opaque, length);
        });
    }

    /// Gives back the memory of a long request. An idle connection would keep it.
    fn written(&mut self) {
        if self.long && self.bytes.is_empty() {
            *self = Self::default();
        }
    }
}

/// Reads what has arrived, without waiting; false if nothing has.
fn arrived(
    shared: &Shared,
    read: &OwnedReadHalf,
    input: &mut BytesMut,
    max_body: usize,
) -> Result<bool, CloseReason> {
    match read.try_read_buf(input) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        result => received(shared, result, input, max_body).map(|()| true),
    }
}

/// Handles the result of a read; an error ends the connection.
fn received(
    shared: &Shared,
    result: io::Result<usize>,
    input: &mut BytesMut,
    max_body: usize,
) -> Result<(), CloseReason> {
    match result {
        Ok(0) if input.is_empty() => Err(CloseReason::Closed),
        Ok(0) => Err(CloseReason::MidFrame {
            received: input.len(),
        }),
        Ok(_) => frames(shared, input, max_body),
        Err(error) => Err(CloseReason::Io(Arc::new(error))),
    }
}

/// Delivers the responses that were read; after one that made the connection unusable, no
/// further request is sent.
fn frames(shared: &Shared, input: &mut BytesMut, max_body: usize) -> Result<(), CloseReason> {
    let grown = input.capacity() > SMALL;
    let decode = |input: &mut BytesMut| ReceivedFrame::decode(input, max_body);
    while let Some(mut frame) = decode(input).map_err(CloseReason::Protocol)? {
        if grown && frame.body.len() <= SMALL {
            // Otherwise the caller of a few bytes would keep the whole buffer in memory.
            frame.body.detach();
        }
        match frame.magic {
            Magic::Response | Magic::FlexResponse => shared.answer(frame)?,
            // The only server request that this client uses; it expects no response.
            Magic::ServerRequest => {
                let config = frame.body.value();
                if frame.opcode == CLUSTERMAP_CHANGED && !config.is_empty() {
                    shared.config_arrived(config);
                }
            }
            magic => return Err(CloseReason::Protocol(FrameError::UnexpectedMagic { magic })),
        }
    }
    if grown && input.len() <= SMALL {
        *input = first_size(input);
    }
    if shared.is_closing() {
        return Err(CloseReason::Local);
    }
    Ok(())
}

/// A buffer of the first capacity with these bytes, which share the buffer of earlier responses.
fn first_size(rest: &[u8]) -> BytesMut {
    let mut input = BytesMut::with_capacity(READ_BUFFER);
    input.extend_from_slice(rest);
    input
}
