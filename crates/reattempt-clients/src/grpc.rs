//! Length-prefixed messages (gRPC over HTTP/2, "Length-Prefixed-Message").

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// One byte for the compression flag, four for the length.
const PREFIX: usize = 5;

/// Maximum message length: 4 MiB, as in gRPC's own servers.
const LONGEST: usize = 4 << 20;

/// Why the received bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The message is compressed, which this side did not offer.
    #[error("the message is compressed (flag {0}); send it plain")]
    Compressed(u8),
    /// The message is longer than the limit.
    #[error("received message larger than max ({length} vs. {max} bytes)")]
    TooLong {
        /// The length stated in its prefix.
        length: usize,
        /// The maximum length.
        max: usize,
    },
    /// The messages of one stream together exceed the limit.
    #[error("received messages larger together than max ({max} bytes for one stream)")]
    TooLongTogether {
        /// The maximum number of bytes.
        max: usize,
    },
    /// The stream has more messages than the limit.
    #[error("received more messages than max ({max} for one stream)")]
    TooMany {
        /// The maximum number of messages.
        max: usize,
    },
    /// The stream ended inside a message.
    #[error("the stream ended {0} bytes into a message")]
    Truncated(usize),
}

/// Reassembles messages from received data.
#[derive(Debug)]
pub struct Messages {
    buffer: BytesMut,
    longest: usize,
    /// The remaining allowance of the whole stream.
    left: Option<Left>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    max_bytes: usize,
    bytes: usize,
    max_messages: usize,
    messages: usize,
}

impl Default for Messages {
    /// Accepts messages of at most 4 MiB.
    fn default() -> Self {
        Self::at_most(LONGEST)
    }
}

impl Messages {
    /// Accepts messages of at most `bytes` bytes.
    #[must_use]
    pub fn at_most(bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            longest: bytes,
            left: None,
        }
    }

    /// Limits the whole stream to `bytes` bytes and `messages` messages. By default a stream has no
    /// limit.
    ///
    /// One message of the maximum length is accepted even when `bytes` is smaller.
    #[must_use]
    pub fn of_one_stream(mut self, bytes: usize, messages: usize) -> Self {
        let bytes = bytes.max(self.longest);
        self.left = Some(Left {
            max_bytes: bytes,
            bytes,
            max_messages: messages,
            messages,
        });
        self
    }

    /// Appends received bytes.
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next complete message, if there is one.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, MessageError> {
        let Some(mut prefix) = self.buffer.get(..PREFIX) else {
            return Ok(None);
        };
        let (flag, length) = (prefix.get_u8(), prefix.get_u32() as usize);
        if flag != 0 {
            return Err(MessageError::Compressed(flag));
        }
        if length > self.longest {
            let max = self.longest;
            return Err(MessageError::TooLong { length, max });
        }
        if let Some(left) = &self.left {
            left.check(length)?;
        }
        // Not the sum, which may be too large for 32 bits.
        if self.buffer.len() - PREFIX < length {
            return Ok(None);
        }
        if let Some(left) = &mut self.left {
            left.bytes -= length;
            left.messages -= 1;
        }
        self.buffer.advance(PREFIX);
        // A copy: a slice of the buffer would keep everything received with it in memory.
        let message = Bytes::copy_from_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        Ok(Some(message))
    }

    /// Checks that no bytes remain at the end of the stream.
    pub fn finish(&self) -> Result<(), MessageError> {
        match self.buffer.len() {
            0 => Ok(()),
            left => Err(MessageError::Truncated(left)),
        }
    }
}

impl Left {
    const fn check(&self, length: usize) -> Result<(), MessageError> {
        if self.messages == 0 {
            let max = self.max_messages;
            return Err(MessageError::TooMany { max });
        }
        if length > self.bytes {
            let max = self.max_bytes;
            return Err(MessageError::TooLongTogether { max });
        }
        Ok(())
    }
}

/// Encodes a message with its prefix, not compressed.
#[must_use]
pub fn frame_message(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    // The message comes from a script and is far below 4 GiB.
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}

/// Percent-encodes a message for `grpc-message` ("Responses", Status-Message), as servers do.
#[must_use]
pub fn percent_encode(message: &str) -> Vec<u8> {
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
            Err(MessageError::TooLong {
                length: 255 << 24,
                max: 4 << 20
            })
        );
        assert_eq!(read(&[0, 0, 0, 0, 2, 9]), Err(MessageError::Truncated(6)));
    }

    #[test]
    fn the_longest_possible_message_is_waited_for() {
        let mut messages = Messages::at_most(usize::MAX);
        messages.push(&[0, 255, 255, 255, 255, 1]);
        assert_eq!(messages.next_message(), Ok(None));
    }

    /// The copy has the message's length and does not hold other received bytes.
    #[test]
    fn a_message_that_is_kept_keeps_nothing_else() {
        let mut messages = Messages::default();
        messages.push(&[frame_message(&[1]), frame_message(&[2; 60_000])].concat());
        let small = messages.next_message().unwrap().unwrap();
        let large = messages.next_message().unwrap().unwrap();
        let own = |message: Bytes| message.try_into_mut().unwrap().capacity();
        assert_eq!((own(small), own(large)), (1, 60_000));
    }

    #[test]
    fn a_stream_is_bounded_in_bytes_and_in_messages() {
        let read = |mut messages: Messages, wire: &[Bytes]| {
            messages.push(&wire.concat());
            let mut taken = 0;
            loop {
                match messages.next_message() {
                    Ok(Some(_)) => taken += 1,
                    Ok(None) => return (taken, None),
                    Err(error) => return (taken, Some(error.to_string())),
                }
            }
        };
        let wire = vec![frame_message(b"12345"); 4];
        let (taken, error) = read(Messages::at_most(5).of_one_stream(14, 100), &wire);
        assert_eq!(taken, 2);
        assert_eq!(
            error.as_deref(),
            Some("received messages larger together than max (14 bytes for one stream)")
        );
        let (taken, error) = read(Messages::at_most(5).of_one_stream(20, 3), &wire);
        assert_eq!(taken, 3);
        assert_eq!(
            error.as_deref(),
            Some("received more messages than max (3 for one stream)")
        );
        let whole = Messages::at_most(5).of_one_stream(20, 4);
        assert_eq!(read(whole, &wire), (4, None));
        let longest = Messages::at_most(5).of_one_stream(1, 1);
        assert_eq!(read(longest, &wire[..1]), (1, None));
    }

    #[test]
    fn status_messages_are_percent_encoded() {
        assert_eq!(percent_encode("50% grün\n"), b"50%25 gr%C3%BCn%0A");
    }
}
