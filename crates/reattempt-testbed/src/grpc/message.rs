//! Length-prefixed messages (gRPC over HTTP/2, "Length-Prefixed-Message").

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// One byte for compression, four for the length.
const PREFIX: usize = 5;

/// The longest message taken: 4 MiB, as gRPC's own servers have it.
const LONGEST: usize = 4 << 20;

/// Why what came is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The message is compressed, which this side never offered.
    #[error("the message is compressed (flag {0}); send it plain")]
    Compressed(u8),
    /// The message is longer than is taken.
    #[error("the message has {0} bytes, which is more than is taken")]
    TooLong(usize),
    /// The stream ended inside a message.
    #[error("the stream ended {0} bytes into a message")]
    Truncated(usize),
}

/// Puts messages together again from the pieces that come.
#[derive(Debug)]
pub struct Messages {
    buffer: BytesMut,
    longest: usize,
}

impl Default for Messages {
    /// Takes messages of at most 4 MiB.
    fn default() -> Self {
        Self::at_most(LONGEST)
    }
}

impl Messages {
    /// Takes messages of at most so many bytes.
    #[must_use]
    pub fn at_most(bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            longest: bytes,
        }
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next whole message, if there is one.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, MessageError> {
        let Some(mut prefix) = self.buffer.get(..PREFIX) else {
            return Ok(None);
        };
        let (flag, length) = (prefix.get_u8(), prefix.get_u32() as usize);
        if flag != 0 {
            return Err(MessageError::Compressed(flag));
        }
        if length > self.longest {
            return Err(MessageError::TooLong(length));
        }
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Checks that nothing is left over at the end of the stream.
    pub fn finish(&self) -> Result<(), MessageError> {
        match self.buffer.len() {
            0 => Ok(()),
            left => Err(MessageError::Truncated(left)),
        }
    }
}

/// A message with its prefix, not compressed.
#[must_use]
pub fn frame_message(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    // A script's own message; nothing near the four gigabytes that would not fit.
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}

/// `grpc-message`, percent-encoded ("Responses", Status-Message).
pub(crate) fn percent_encode(message: &str) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(byte);
        } else {
            encoded.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_however_the_bytes_are_cut() {
        let wire = [
            frame_message(b"one"),
            frame_message(b""),
            frame_message(b"three"),
        ]
        .concat();
        let mut messages = Messages::default();
        let mut found = Vec::new();
        for byte in wire {
            messages.push(&[byte]);
            found.extend(messages.next_message().unwrap());
        }
        assert_eq!(found, ["one", "", "three"]);
        assert_eq!(messages.finish(), Ok(()));
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_is_waited_for() {
        let read = |bytes: &[u8]| {
            let mut messages = Messages::default();
            messages.push(bytes);
            messages.next_message().and_then(|_| messages.finish())
        };
        assert_eq!(read(&[1, 0, 0, 0, 0]), Err(MessageError::Compressed(1)));
        assert_eq!(
            read(&[0, 255, 0, 0, 0]),
            Err(MessageError::TooLong(255 << 24))
        );
        assert_eq!(read(&[0, 0, 0, 0, 2, 9]), Err(MessageError::Truncated(6)));
    }

    #[test]
    fn status_messages_are_percent_encoded() {
        assert_eq!(percent_encode("50% grün\n"), b"50%25 gr%C3%BCn%0A");
    }
}
