//! The parsers of the scripted servers as functions of bytes, for fuzzing and for tests with
//! arbitrary input.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;

use super::{h1, h2};

/// Parses the head of an HTTP/1 request; returns whether it is valid.
#[must_use]
pub fn http1_head(bytes: &[u8]) -> bool {
    matches!(h1::parse_head(bytes), Ok(Some(_)))
}

/// Parses the line that begins a chunk.
#[must_use]
pub fn http1_chunk(line: &[u8]) -> Option<usize> {
    let (_, length) = h1::parse_chunk(line).ok()??;
    Some(length)
}

/// Reads HTTP/2 frames to the end or to the first invalid one; returns their number.
#[must_use]
pub fn http2_frames(bytes: &[u8]) -> usize {
    let mut context = Context::from_waker(Waker::noop());
    // Reading from memory is always ready.
    match pin!(h2::read_frames(bytes, BytesMut::new())).poll(&mut context) {
        Poll::Ready(frames) => frames,
        Poll::Pending => 0,
    }
}

/// Decodes header blocks in order with one dynamic table, as one connection does; returns the
/// number of fields before the first invalid block.
pub fn header_blocks<'a>(blocks: impl IntoIterator<Item = &'a [u8]>) -> usize {
    h2::read_header_blocks(blocks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6),
        ) {
            let _ = (http1_head(&bytes), http1_chunk(&bytes), http2_frames(&bytes));
            header_blocks(blocks.iter().map(Vec::as_slice));
        }

        #[test]
        fn no_head_that_is_almost_one_panics(
            head in "(GET|PUT) /[a-z?%]{0,5} HTTP/1\\.[01](\r\n[a-z-]{1,9}: ?[0-9a-z, ]{0,9}){0,4}\r\n\r\n",
            chunk in "[0-9a-fA-F]{0,20}(;.{0,5})?\r\n",
        ) {
            let _ = (http1_head(head.as_bytes()), http1_chunk(chunk.as_bytes()));
        }
    }
}
