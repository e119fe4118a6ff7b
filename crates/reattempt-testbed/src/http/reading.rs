//! What the scripted servers read, as functions of bytes: for fuzzing, and for tests that feed them
//! anything.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;

use super::{h1, h2};

/// Reads the head of an HTTP/1 request; true if it is one.
#[must_use]
pub fn http1_head(bytes: &[u8]) -> bool {
    h1::is_head(bytes)
}

/// Reads the size line of a chunk.
#[must_use]
pub fn http1_chunk(line: &[u8]) -> Option<usize> {
    h1::chunk_length(line)
}

/// Reads HTTP/2 frames to the end or to the first that is none; how many there were.
#[must_use]
pub fn http2_frames(bytes: &[u8]) -> usize {
    let mut context = Context::from_waker(Waker::noop());
    // Bytes in memory are always ready.
    match pin!(h2::read_frames(bytes, BytesMut::new())).poll(&mut context) {
        Poll::Ready(frames) => frames,
        Poll::Pending => 0,
    }
}

/// Reads header blocks one after another by one dynamic table, as one connection does; how many
/// fields there were up to the first block that is none.
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
            head in "(GET|PUT) /[a-z?%]{0,5} HTTP/1\\.[01](\r\n[a-z-]{1,9}: ?[0-9a-z, ]{0,9}){0,4}",
            chunk in "[0-9a-fA-F]{0,20}(;.{0,5})?",
        ) {
            let _ = (http1_head(head.as_bytes()), http1_chunk(chunk.as_bytes()));
        }
    }
}
