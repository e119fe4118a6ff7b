//! A small raw HTTP/2 server. It can produce sequences that a library would not allow.

mod connection;
mod dispatch;
mod error_code;
mod flow;
mod frame;
mod head;
mod hpack;
mod serve;
mod stream;

use bytes::BytesMut;
use tokio::io::AsyncRead;

pub(crate) use connection::Bounds;
pub use error_code::ErrorCode;
pub(crate) use frame::PREFACE;
pub(crate) use serve::serve;
pub(crate) use stream::{Ended, Inbound, Reply, Stream, Then, ended};

/// Reads frames until the input ends or is invalid; returns their number.
pub(crate) async fn read_frames(io: impl AsyncRead + Unpin, buffer: BytesMut) -> usize {
    let mut reader = frame::FrameReader::new(io, buffer);
    let mut frames = 0;
    while let Ok(frame) = reader.next().await {
        // Called for every frame whatever the result, so that the parsers are exercised.
        let _ = (frame.content(), frame.number());
        frames += 1;
    }
    frames
}

/// Decodes header blocks with one dynamic table; returns the number of fields before the first
/// invalid block.
pub(crate) fn read_header_blocks<'a>(blocks: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut decoder = hpack::Decoder::default();
    let mut fields = 0;
    for block in blocks {
        match decoder.decode(block, dispatch::MAX_HEADERS) {
            Ok(read) => fields += read.len(),
            Err(_) => break,
        }
    }
    fields
}
