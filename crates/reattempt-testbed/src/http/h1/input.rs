//! The reading side of an HTTP/1.1 connection: heads and bodies, with bounds.

use bytes::{Buf, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use httparse::{EMPTY_HEADER, Status};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

/// Maximum bytes of a head, of a chunk's size line or of trailers.
const MAX_HEAD: usize = 64 * 1024;

/// Maximum number of headers, and of trailers.
const MAX_FIELDS: usize = 256;

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

/// What the start of the input is, and its length; `None` when more input is needed.
type Parsed<T> = Result<Option<(usize, T)>, InputError>;

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

    /// Reads until `parse` finds what it parses at the start of the input, and takes that.
    async fn parsed<T>(&mut self, parse: fn(&[u8]) -> Parsed<T>) -> Result<T, InputError> {
        loop {
            if let Some((length, found)) = parse(&self.buffer)? {
                self.buffer.advance(length);
                return Ok(found);
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(InputError::TooLarge);
            }
            self.more().await?;
        }
    }

    pub(crate) async fn head(&mut self) -> Result<Head, InputError> {
        self.parsed(parse_head).await
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
                let length = self.parsed(parse_chunk).await?;
                if length > bound.saturating_sub(body.len()) {
                    return Err(InputError::TooLarge);
                }
                if length == 0 {
                    return self.parsed(parse_trailers).await;
                }
                self.exactly(length, body).await?;
                self.parsed(parse_chunk_end).await?;
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

/// Parses the head of a request.
pub(crate) fn parse_head(bytes: &[u8]) -> Parsed<Head> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let Status::Complete(length) = request.parse(bytes).map_err(refused)? else {
        return Ok(None);
    };
    let head = head(&request).ok_or(InputError::Malformed)?;
    Ok(Some((length, head)))
}

fn head(request: &httparse::Request<'_, '_>) -> Option<Head> {
    let mut headers = HeaderMap::new();
    for field in &*request.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(field.value).ok()?;
        headers.try_append(name, value).ok()?;
    }
    let framing = framing(&headers)?;
    Some(Head {
        method: request.method?.parse().ok()?,
        path: request.path?.to_owned(),
        version: match request.version? {
            0 => Version::HTTP_10,
            _ => Version::HTTP_11,
        },
        headers,
        framing,
    })
}

fn refused(error: httparse::Error) -> InputError {
    match error {
        httparse::Error::TooManyHeaders => InputError::TooLarge,
        _ => InputError::Malformed,
    }
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

/// Parses the line that begins a chunk: its length.
pub(crate) fn parse_chunk(bytes: &[u8]) -> Parsed<usize> {
    // httparse takes a line without a number for the last chunk.
    if bytes.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
        return Err(InputError::Malformed);
    }
    match httparse::parse_chunk_size(bytes).map_err(|_| InputError::Malformed)? {
        // More than this machine can address is above any bound.
        Status::Complete((line, length)) => {
            Ok(Some((line, usize::try_from(length).unwrap_or(usize::MAX))))
        }
        Status::Partial => Ok(None),
    }
}

fn parse_chunk_end(bytes: &[u8]) -> Parsed<()> {
    match bytes {
        [b'\r', b'\n', ..] => Ok(Some((2, ()))),
        [] | [b'\r'] => Ok(None),
        _ => Err(InputError::Malformed),
    }
}

/// The trailers are not used.
fn parse_trailers(bytes: &[u8]) -> Parsed<()> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    match httparse::parse_headers(bytes, &mut fields).map_err(refused)? {
        Status::Complete((length, _)) => Ok(Some((length, ()))),
        Status::Partial => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Head, InputError> {
        let parsed = parse_head(format!("{head}\r\n\r\n").as_bytes())?;
        Ok(parsed.expect("a whole head").1)
    }

    #[test]
    fn reads_a_head() {
        let head = parse("PUT /a?b HTTP/1.1\r\nHost: x\r\ncontent-length:  3 ").unwrap();
        assert_eq!((head.method, head.path.as_str()), (Method::PUT, "/a?b"));
        assert_eq!(head.headers["host"], "x");
        assert_eq!(head.framing, Framing::Length(3));
    }

    #[test]
    fn refuses_heads_that_are_not_http_1() {
        for head in [
            "GET /",
            "GET / HTTP/2.0",
            "GET / HTTP/1.1 x",
            "GET  HTTP/1.1",
            "GET / HTTP/1.1\r\nno colon",
            "GET / HTTP/1.1\r\nna me: x",
            "GET / HTTP/1.1\r\ncontent-length: -1",
            "GET / HTTP/1.1\r\ncontent-length: 99999999999999999999999",
            "GET / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked",
        ] {
            assert_eq!(parse(head).unwrap_err(), InputError::Malformed, "{head}");
        }
        let many = "GET / HTTP/1.1".to_owned() + &"\r\na: b".repeat(MAX_FIELDS + 1);
        assert_eq!(parse(&many).unwrap_err(), InputError::TooLarge);
    }

    #[test]
    fn reads_chunk_sizes() {
        let parse = |line: &str| parse_chunk(format!("{line}\r\n").as_bytes());
        assert_eq!(parse("1f;name=x"), Ok(Some((11, 31))));
        for line in ["", "+1", "g", "fffffffffffffffff"] {
            assert_eq!(parse(line), Err(InputError::Malformed), "{line}");
        }
    }
}
