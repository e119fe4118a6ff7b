//! The part of a body that was read and not yet returned to the caller.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

/// Smaller pieces are merged: otherwise a body that arrives byte by byte would cost a frame per
/// byte.
const SMALL: usize = 1024;

/// The beginning of a body.
#[derive(Debug)]
pub(super) struct Held<E> {
    pieces: VecDeque<Bytes>,
    /// Small pieces, after `pieces`.
    small: BytesMut,
    trailers: Option<HeaderMap>,
    /// The error that ended the body.
    error: Option<E>,
    /// Bytes read. An empty frame counts as one byte, so that empty frames are bounded too.
    read: usize,
}

impl<E> Held<E> {
    pub(super) fn new() -> Self {
        Self {
            pieces: VecDeque::new(),
            small: BytesMut::new(),
            trailers: None,
            error: None,
            read: 0,
        }
    }

    pub(super) fn push(&mut self, data: Bytes) {
        self.read = self.read.saturating_add(data.len().max(1));
        let follows_small = !self.small.is_empty();
        if data.len() < SMALL && (follows_small || !self.pieces.is_empty()) {
            self.small.extend_from_slice(&data);
            return;
        }
        if follows_small {
            self.pieces.push_back(self.small.split().freeze());
        }
        if !data.is_empty() {
            self.pieces.push_back(data);
        }
    }

    pub(super) fn trailers(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
    }

    pub(super) fn broke(&mut self, error: E) {
        self.error = Some(error);
    }

    pub(super) const fn read(&self) -> usize {
        self.read
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
            && self.small.is_empty()
            && self.trailers.is_none()
            && self.error.is_none()
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    /// The number of data bytes left.
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum::<usize>() + self.small.len()
    }

    /// The next frame; `None` when all were returned.
    pub(super) fn next(&mut self) -> Option<Result<Frame<Bytes>, E>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Some(Ok(Frame::data(piece)));
        }
        if !self.small.is_empty() {
            return Some(Ok(Frame::data(self.small.split().freeze())));
        }
        if let Some(trailers) = self.trailers.take() {
            return Some(Ok(Frame::trailers(trailers)));
        }
        self.error.take().map(Err)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of any size are returned in order, small ones merged.
    fn comes_out(sizes: &[usize]) {
        let mut held = Held::<()>::new();
        let mut whole = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let piece = vec![u8::try_from(at % 251).unwrap(); *size];
            whole.extend_from_slice(&piece);
            held.push(piece.into());
        }
        assert_eq!(held.len(), whole.len());
        let (mut came, mut frames) = (Vec::new(), 0);
        while let Some(frame) = held.next() {
            came.extend_from_slice(&frame.unwrap().into_data().unwrap());
            frames += 1;
        }
        assert!(came == whole && held.is_empty());
        let large = sizes.iter().filter(|size| **size >= SMALL).count();
        assert!(frames <= 2 * large + 2, "{frames}");
    }

    #[test]
    fn small_pieces_stay_between_large_ones() {
        comes_out(&[1, 2, SMALL, 3, 4, SMALL, 5]);
        comes_out(&[SMALL - 1, 1, 0, 2 * SMALL]);
    }

    proptest! {
        #[test]
        fn pieces_come_out_in_their_order(
            sizes in prop::collection::vec(prop_oneof![0..4_usize, 1000..1100_usize], 0..40),
        ) {
            comes_out(&sizes);
        }
    }
}
