//! The reading side of an HTTP/1.1 connection: heads and bodies, with bounds.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

/// Maximum bytes of a head, of a chunk's size line or of trailers.
const MAX_HEAD: usize = 64 * 1024;

/// Why a request could not be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputError {
    /// The client closed or broke the connection.
    Closed,
    /// The input is not HTTP/1.1.
    Malformed,
    /// A bound was exceeded.
    TooLarge,
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
}

/// How a request body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// The reading side of a connection.
#[derive(Debug)]
pub(crate) struct Input {
    half: OwnedReadHalf,
    buffer: BytesMut,
}

impl Input {
    /// `buffer` holds bytes that were already read.
    pub(crate) fn new(half: OwnedReadHalf, buffer: BytesMut) -> Self {
        Self { half, buffer }
    }

    async fn more(&mut self) -> Result<(), InputError> {
        match self.half.read_buf(&mut self.buffer).await {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(InputError::Closed),
        }
    }

    /// Takes all bytes up to the first `end`, which is removed and not returned.
    async fn until(&mut self, end: &[u8]) -> Result<Bytes, InputError> {
        let mut looked_at = 0usize;
        loop {
            let from = looked_at.saturating_sub(end.len());
            let found = self.buffer[from..]
                .windows(end.len())
                .position(|window| window == end);
            if let Some(place) = found {
                let text = self.buffer.split_to(from + place).freeze();
                self.buffer.advance(end.len());
                return Ok(text);
            }
            looked_at = self.buffer.len();
            if looked_at > MAX_HEAD {
                return Err(InputError::TooLarge);
            }
            self.more().await?;
        }
    }

    pub(crate) async fn head(&mut self) -> Result<Head, InputError> {
        // Empty lines before a request are ignored (RFC 9112, 2.2).
        while self.buffer.starts_with(b"\r\n") {
            self.buffer.advance(2);
        }
        parse_head(&self.until(b"\r\n\r\n").await?).ok_or(InputError::Malformed)
    }

    /// Reads the body into `body`. On an error, `body` keeps the bytes received so far.
    pub(crate) async fn body(
        &mut self,
        framing: Framing,
        bound: usize,
        body: &mut BytesMut,
    ) -> Result<(), InputError> {
        match framing {
            Framing::Length(length) if length > bound => Err(InputError::TooLarge),
            Framing::Length(length) => self.exactly(length, body).await,
            Framing::Chunked => loop {
                let line = self.until(b"\r\n").await?;
                let length = chunk_length(&line).ok_or(InputError::Malformed)?;
                if length > bound.saturating_sub(body.len()) {
                    return Err(InputError::TooLarge);
                }
                if length == 0 {
                    return self.trailers().await;
                }
                self.exactly(length, body).await?;
                if !self.until(b"\r\n").await?.is_empty() {
                    return Err(InputError::Malformed);
                }
            },
        }
    }

    async fn exactly(&mut self, length: usize, body: &mut BytesMut) -> Result<(), InputError> {
        let mut missing = length;
        while missing > 0 {
            if self.buffer.is_empty() {
                self.more().await?;
            }
            let now = self.buffer.split_to(self.buffer.len().min(missing));
            missing -= now.len();
            body.extend_from_slice(&now);
        }
        Ok(())
    }

    async fn trailers(&mut self) -> Result<(), InputError> {
        let mut total = 0;
        loop {
            let line = self.until(b"\r\n").await?;
            total += line.len();
            if line.is_empty() {
                return Ok(());
            }
            if total > MAX_HEAD {
                return Err(InputError::TooLarge);
            }
        }
    }

    /// Resolves when the client closes the connection. Data received before that is kept, within
    /// bounds.
    pub(crate) async fn closed(&mut self) {
        while self.buffer.len() <= MAX_HEAD {
            if self.more().await.is_err() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Reads and discards until the client closes the connection.
    pub(crate) async fn drain(&mut self) {
        loop {
            self.buffer.clear();
            if self.more().await.is_err() {
                return;
            }
        }
    }
}

/// Whether these bytes are the head of a request.
pub(crate) fn is_head(bytes: &[u8]) -> bool {
    parse_head(bytes).is_some()
}

fn parse_head(head: &[u8]) -> Option<Head> {
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .map(|line| line.trim_ascii_end());
    let mut words = std::str::from_utf8(lines.next()?).ok()?.split(' ');
    let method = words.next()?.parse().ok()?;
    let path = words.next()?.to_owned();
    let version = match words.next()? {
        "HTTP/1.1" => Version::HTTP_11,
        "HTTP/1.0" => Version::HTTP_10,
        _ => return None,
    };
    if words.next().is_some() || path.is_empty() {
        return None;
    }
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        headers.try_append(name, value).ok()?;
    }
    let framing = framing(&headers)?;
    Some(Head {
        method,
        path,
        version,
        headers,
        framing,
    })
}

fn framing(headers: &HeaderMap) -> Option<Framing> {
    let length = headers.get(header::CONTENT_LENGTH);
    if let Some(coding) = headers.get(header::TRANSFER_ENCODING) {
        let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        // A request with both headers could be used for request smuggling.
        return (chunked && length.is_none()).then_some(Framing::Chunked);
    }
    let Some(length) = length else {
        return Some(Framing::Length(0));
    };
    let text = length.to_str().ok()?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits {
        text.parse().ok().map(Framing::Length)
    } else {
        None
    }
}

pub(crate) fn chunk_length(line: &[u8]) -> Option<usize> {
    let size = line.split(|byte| *byte == b';').next()?.trim_ascii();
    let digits = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
    if digits {
        usize::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_head() {
        let head = parse_head(b"PUT /a?b HTTP/1.1\r\nHost: x\r\ncontent-length:  3 ").unwrap();
        assert_eq!((head.method, head.path.as_str()), (Method::PUT, "/a?b"));
        assert_eq!(head.headers["host"], "x");
        assert_eq!(head.framing, Framing::Length(3));
    }

    #[test]
    fn refuses_heads_that_are_not_http_1() {
        for head in [
            &b""[..],
            b"GET /",
            b"GET / HTTP/2.0",
            b"GET / HTTP/1.1 x",
            b"GET  HTTP/1.1",
            b"GET / HTTP/1.1\r\nno colon",
            b"GET / HTTP/1.1\r\nna me: x",
            b"GET / HTTP/1.1\r\ncontent-length: -1",
            b"GET / HTTP/1.1\r\ncontent-length: 99999999999999999999999",
            b"GET / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked",
        ] {
            assert!(parse_head(head).is_none(), "{}", head.escape_ascii());
        }
    }

    #[test]
    fn reads_chunk_sizes() {
        assert_eq!(chunk_length(b"1f;name=x"), Some(31));
        for line in [&b""[..], b"+1", b"g", b"fffffffffffffffff"] {
            assert_eq!(chunk_length(line), None);
        }
    }
}
