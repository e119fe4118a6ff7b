//! Counts the sizes of gRPC messages in a stream of frames, whose boundaries need not match those
//! of messages.

use std::io::IoSlice;

use bytes::Buf;

/// Flag and length before each message (gRPC over HTTP/2, Length-Prefixed-Message).
const PREFIX: usize = 5;

/// Counts the bytes of messages without their prefixes (A66: without gRPC and transport framing).
#[derive(Debug, Default)]
pub(super) struct MessageSizes {
    prefix: [u8; PREFIX],
    /// How many bytes of the next prefix have arrived.
    have: usize,
    /// Bytes of the current message that have not arrived yet.
    left: usize,
}

impl MessageSizes {
    /// The bytes of messages in this data. Data that a buffer does not expose without being
    /// consumed is counted as message bytes.
    pub(super) fn read(&mut self, data: &impl Buf) -> u64 {
        let mut slices = [IoSlice::new(&[]); 16];
        let shown = data.chunks_vectored(&mut slices);
        let mut counted = 0;
        let mut seen = 0;
        for slice in slices.iter().take(shown) {
            counted += self.slice(slice);
            seen += slice.len();
        }
        let hidden = data.remaining().saturating_sub(seen);
        self.left = self.left.saturating_sub(hidden);
        (counted + hidden) as u64
    }

    fn slice(&mut self, mut bytes: &[u8]) -> usize {
        let mut counted = 0;
        while !bytes.is_empty() {
            if self.left > 0 {
                let take = self.left.min(bytes.len());
                self.left -= take;
                counted += take;
                bytes = &bytes[take..];
                continue;
            }
            let take = (PREFIX - self.have).min(bytes.len());
            let (prefix, rest) = bytes.split_at(take);
            self.prefix[self.have..self.have + take].copy_from_slice(prefix);
            self.have += take;
            bytes = rest;
            if self.have == PREFIX {
                let [_, a, b, c, d] = self.prefix;
                self.have = 0;
                // A 32-bit length fits on every supported platform.
                self.left = u32::from_be_bytes([a, b, c, d]) as usize;
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn stream(sizes: &[u32]) -> Vec<u8> {
        let mut stream = Vec::new();
        for size in sizes {
            stream.push(1);
            stream.extend(size.to_be_bytes());
            stream.extend(std::iter::repeat_n(7, *size as usize));
        }
        stream
    }

    /// R72
    #[test]
    fn prefixes_do_not_count_wherever_frames_are_cut() {
        let stream = stream(&[10, 0, 300, 1]);
        for cut in 1..=stream.len() {
            let mut sizes = MessageSizes::default();
            let pieces = stream.chunks(cut);
            let counted: u64 = pieces
                .map(|piece| sizes.read(&Bytes::copy_from_slice(piece)))
                .sum();
            assert_eq!(counted, 311, "{cut}");
        }
    }

    #[test]
    fn data_in_several_pieces_is_read_through() {
        let stream = Bytes::from(stream(&[10, 20]));
        for cut in 0..stream.len() {
            let mut sizes = MessageSizes::default();
            let chained = stream.slice(..cut).chain(stream.slice(cut..));
            assert_eq!(sizes.read(&chained), 30, "{cut}");
        }
    }

    /// Exposes only its first byte.
    struct Shy(Bytes);

    impl Buf for Shy {
        fn remaining(&self) -> usize {
            self.0.remaining()
        }

        fn chunk(&self) -> &[u8] {
            &self.0.chunk()[..self.0.remaining().min(1)]
        }

        fn advance(&mut self, count: usize) {
            self.0.advance(count);
        }
    }

    #[test]
    fn what_a_buffer_does_not_show_counts_as_it_is() {
        let stream = Bytes::from(stream(&[10, 0, 20]));
        let mut sizes = MessageSizes::default();
        assert_eq!(sizes.read(&stream.slice(..6)), 1);
        assert_eq!(sizes.read(&Shy(stream.slice(6..15))), 9);
        assert_eq!(sizes.read(&stream.slice(15..)), 20, "still in step");
    }

    #[test]
    fn a_length_that_lies_counts_what_came() {
        let mut sizes = MessageSizes::default();
        assert_eq!(sizes.read(&&[0, 255, 255, 255, 255, 1, 2, 3][..]), 3);
    }
}
