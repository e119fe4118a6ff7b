//! Finds message boundaries in a byte stream (gRPC over HTTP/2, Length-Prefixed-Message).

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::Frame;

/// One byte of compression flag, four of length.
const PREFIX: usize = 5;

/// Output of a [`Sieve`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Out {
    Data(Bytes),
    Trailers(HeaderMap),
    /// A message of this many bytes starts here and is too long. None of its bytes was passed on,
    /// and no further byte will be.
    TooLong(u64),
}

/// Passes a stream on, message by message, up to the first one that is too long. It buffers at most
/// part of a prefix.
#[derive(Debug)]
pub(super) struct Sieve {
    limit: u64,
    /// The head does not say that messages follow. A client may read them all the same, so only a
    /// body that cannot begin with one passes as it is.
    foreign: bool,
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix have arrived. It is passed on once it is complete.
    have: usize,
    /// Bytes of the message that have not arrived yet.
    left: u64,
    out: VecDeque<Out>,
}

impl Sieve {
    pub(super) const fn new(limit: u64, foreign: bool) -> Self {
        Self {
            limit,
            foreign,
            prefix: [0; PREFIX],
            have: 0,
            left: 0,
            out: VecDeque::new(),
        }
    }

    /// The next output, if any.
    pub(super) fn pop(&mut self) -> Option<Out> {
        self.out.pop_front()
    }

    /// Bytes that have arrived and were not passed on.
    pub(super) fn held(&self) -> u64 {
        let waiting = self.out.iter().map(|out| match out {
            Out::Data(data) => data.len() as u64,
            Out::Trailers(_) | Out::TooLong(_) => 0,
        });
        waiting.sum::<u64>() + self.have as u64
    }

    /// True if there is no output until the next frame.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.have == 0
    }

    pub(super) fn push<D: Buf>(&mut self, frame: Frame<D>) {
        match frame.into_data() {
            Ok(mut data) => {
                let length = data.remaining();
                self.data(data.copy_to_bytes(length));
            }
            Err(frame) => {
                self.end();
                if let Ok(trailers) = frame.into_trailers() {
                    self.out.push_back(Out::Trailers(trailers));
                }
            }
        }
    }

    /// The stream has ended: an incomplete prefix is passed on, and the reader reports it.
    pub(super) fn end(&mut self) {
        let part = &self.prefix[..std::mem::take(&mut self.have)];
        if !part.is_empty() {
            self.out.push_back(Out::Data(Bytes::copy_from_slice(part)));
        }
    }

    fn data(&mut self, mut data: Bytes) {
        // Passes on the buffered part of the prefix together with the rest of it and with the bytes
        // before this position.
        let mut before = self.have;
        let mut good = 0;
        let mut at = 0;
        let too_long = loop {
            let of_message = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(data.len() - at);
            at += of_message;
            self.left -= of_message as u64;
            if self.have == 0 {
                good = at;
            }
            let more = (PREFIX - self.have).min(data.len() - at);
            self.prefix[self.have..self.have + more].copy_from_slice(&data[at..at + more]);
            at += more;
            self.have += more;
            if self.left > 0 || self.have < PREFIX {
                break None;
            }
            let [compressed, length @ ..] = self.prefix;
            let has_none = std::mem::take(&mut self.foreign) && compressed > 1;
            let length = match has_none {
                true => u64::MAX,
                false => u64::from(u32::from_be_bytes(length)),
            };
            if length > self.limit && !has_none {
                break Some(length);
            }
            if before > 0 {
                let part = Bytes::copy_from_slice(&self.prefix[..before]);
                self.out.push_back(Out::Data(part));
                before = 0;
            }
            self.have = 0;
            self.left = length;
            good = at;
        };
        if good > 0 {
            self.out.push_back(Out::Data(data.split_to(good)));
        }
        self.out.extend(too_long.map(Out::TooLong));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend((length as u32).to_be_bytes());
        bytes.extend(std::iter::repeat_n(7, length));
        bytes
    }

    /// All output for a stream split into these pieces, and the length of the message that stopped
    /// it.
    fn sieve(limit: u64, pieces: impl Iterator<Item = Vec<u8>>) -> (Vec<u8>, Option<u64>) {
        let mut sieve = Sieve::new(limit, false);
        let mut all = Vec::new();
        for piece in pieces {
            sieve.push(Frame::data(Bytes::from(piece)));
            assert!(sieve.held() < 5 || !sieve.out.is_empty());
            while let Some(out) = sieve.pop() {
                match out {
                    Out::Data(data) => all.extend(data),
                    Out::TooLong(length) => return (all, Some(length)),
                    Out::Trailers(_) => panic!("none came in"),
                }
            }
        }
        sieve.end();
        while let Some(Out::Data(data)) = sieve.pop() {
            all.extend(data);
        }
        assert!(sieve.is_empty());
        (all, None)
    }

    fn cut(bytes: Vec<u8>, cuts: &[usize]) -> impl Iterator<Item = Vec<u8>> {
        let mut rest = bytes;
        let mut pieces = Vec::new();
        for cut in cuts {
            let tail = rest.split_off((*cut).min(rest.len()));
            pieces.push(std::mem::replace(&mut rest, tail));
        }
        pieces.push(rest);
        pieces.into_iter()
    }

    proptest! {
        #[test]
        fn a_message_that_is_too_long_is_dropped_for_any_split(
            lengths in prop::collection::vec(0_usize..40, 0..12),
            cuts in prop::collection::vec(0_usize..9, 0..80),
            torn in 0_usize..12,
            limit in 0_u64..40,
        ) {
            let mut stream: Vec<u8> = lengths.iter().flat_map(|length| message(*length)).collect();
            let first = lengths.iter().position(|length| *length as u64 > limit);
            match first {
                Some(at) => {
                    let good: Vec<u8> = lengths[..at].iter().flat_map(|length| message(*length)).collect();
                    let found = sieve(limit, cut(stream, &cuts));
                    prop_assert_eq!(found, (good, Some(lengths[at] as u64)));
                }
                None => {
                    stream.truncate(stream.len().saturating_sub(torn));
                    let found = sieve(limit, cut(stream.clone(), &cuts));
                    prop_assert_eq!(found, (stream, None));
                }
            }
        }
    }

    #[test]
    fn trailers_come_out_behind_a_prefix_that_broke_off() {
        let mut sieve = Sieve::new(9, false);
        sieve.push(Frame::data(Bytes::from_static(&[0, 0, 0])));
        assert_eq!(
            (sieve.pop(), sieve.held(), sieve.is_empty()),
            (None, 3, false)
        );
        sieve.push::<Bytes>(Frame::trailers(HeaderMap::new()));
        assert_eq!(sieve.pop(), Some(Out::Data(Bytes::from_static(&[0, 0, 0]))));
        assert_eq!(sieve.pop(), Some(Out::Trailers(HeaderMap::new())));
    }

    #[test]
    fn the_longest_length_there_is_overflows_nothing() {
        let prefix = Bytes::from_static(&[1, 255, 255, 255, 255, 9]);
        let mut sieve = Sieve::new(u64::MAX, false);
        sieve.push(Frame::data(prefix.clone()));
        assert_eq!(sieve.pop(), Some(Out::Data(prefix.clone())));
        let mut sieve = Sieve::new(u64::from(u32::MAX) - 1, false);
        sieve.push(Frame::data(prefix));
        assert_eq!(sieve.pop(), Some(Out::TooLong(u32::MAX.into())));
    }
}
