//! What an HTTP server does with one request.

use std::time::Duration;

use bytes::Bytes;

use super::h2::ErrorCode;

/// One scripted reaction. Builder methods add to it; delays run one after the other.
///
/// On HTTP/1.1 the steps that only HTTP/2 has (refusing a stream, GOAWAY) close the connection
/// without a response.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) kind: Kind,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Bytes,
    pub(crate) before_head: Duration,
    pub(crate) before_body: Duration,
    pub(crate) pieces: Option<(usize, Duration)>,
    pub(crate) at_once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Answer,
    /// Answers, but breaks off after this many bytes of the body.
    BreakBody(usize, Break),
    Hang,
    CloseBefore,
    Reset(ErrorCode),
    RefuseStream,
    GoAway,
    HalfFrame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    Close,
    Reset,
    Hang,
}

impl Step {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            status: 200,
            headers: Vec::new(),
            body: Bytes::new(),
            before_head: Duration::ZERO,
            before_body: Duration::ZERO,
            pieces: None,
            at_once: false,
        }
    }

    /// Answers with this status and an empty body, unless [`body`](Self::body) sets one.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::of(Kind::Answer)
        }
    }

    /// Never answers; waits until the client cancels.
    #[must_use]
    pub fn hang() -> Self {
        Self::of(Kind::Hang)
    }

    /// Closes the connection in order (FIN), without a response.
    #[must_use]
    pub fn close_before() -> Self {
        Self::of(Kind::CloseBefore)
    }

    /// Answers with a `content-length` greater than `bytes`, sends `bytes` of the body, and closes
    /// the connection in order.
    #[must_use]
    pub fn close_during_body(bytes: usize) -> Self {
        Self::of(Kind::BreakBody(bytes, Break::Close))
    }

    /// Like [`close_during_body`](Self::close_during_body), but resets: the connection (RST) on
    /// HTTP/1.1, the stream (INTERNAL_ERROR) on HTTP/2.
    #[must_use]
    pub fn reset_during_body(bytes: usize) -> Self {
        Self::of(Kind::BreakBody(bytes, Break::Reset))
    }

    /// Like [`close_during_body`](Self::close_during_body), but keeps the connection open and sends
    /// nothing more.
    #[must_use]
    pub fn hang_during_body(bytes: usize) -> Self {
        Self::of(Kind::BreakBody(bytes, Break::Hang))
    }

    /// Resets without a response: the connection (RST) on HTTP/1.1, the stream (RST_STREAM
    /// INTERNAL_ERROR) on HTTP/2.
    #[must_use]
    pub fn reset() -> Self {
        Self::reset_with(ErrorCode::INTERNAL_ERROR)
    }

    /// Like [`reset`](Self::reset), with another code for HTTP/2.
    #[must_use]
    pub fn reset_with(code: impl Into<ErrorCode>) -> Self {
        Self::of(Kind::Reset(code.into()))
    }

    /// Sends RST_STREAM with REFUSED_STREAM: the request was not processed.
    #[must_use]
    pub fn refuse_stream() -> Self {
        Self::of(Kind::RefuseStream)
    }

    /// Sends GOAWAY with NO_ERROR and a last stream below this one: the request was not processed.
    /// Later streams fail with it.
    #[must_use]
    pub fn go_away() -> Self {
        Self::of(Kind::GoAway)
    }

    /// Writes half of the response head (of the HEADERS frame on HTTP/2) and closes the connection.
    #[must_use]
    pub fn half_frame() -> Self {
        Self::of(Kind::HalfFrame)
    }

    /// The status of a response that breaks off; 200 by default.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header to the response. The bytes are sent unchanged, valid or not.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.headers
            .push((name.as_ref().to_ascii_lowercase(), value.as_ref().to_vec()));
        self
    }

    /// Sets the response body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Waits before the response head, or before the action that replaces it.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.before_head = delay;
        self
    }

    /// Waits between the head and the body of the response.
    #[must_use]
    pub fn body_after(mut self, delay: Duration) -> Self {
        self.before_body = delay;
        self
    }

    /// Writes the body in pieces of `bytes` bytes (at least one), `apart` apart. On HTTP/1.1 each
    /// piece is a chunk of a chunked body. A body that is to break off has a `content-length`
    /// instead, as without this option.
    #[must_use]
    pub fn in_pieces(mut self, bytes: usize, apart: Duration) -> Self {
        self.pieces = Some((bytes.max(1), apart));
        self
    }

    /// Does not wait for the request body. Only for steps of the queue and the default step: a
    /// handler is called when the body has arrived.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// The body to send, and the length to announce.
    pub(crate) fn content(&self) -> (Bytes, usize) {
        let Kind::BreakBody(sent, _) = self.kind else {
            return (self.body.clone(), self.body.len());
        };
        if sent < self.body.len() {
            return (self.body.slice(..sent), self.body.len());
        }
        let mut content = self.body.to_vec();
        content.resize(sent, b'.');
        (content.into(), sent + 1)
    }

    /// The pieces in which the body is written.
    pub(crate) fn pieces(&self, content: &Bytes) -> (Vec<Bytes>, Duration) {
        let Some((size, apart)) = self.pieces else {
            return (vec![content.clone()], Duration::ZERO);
        };
        let mut left = content.clone();
        let mut pieces = Vec::with_capacity(left.len().div_ceil(size));
        while !left.is_empty() {
            pieces.push(left.split_to(size.min(left.len())));
        }
        (pieces, apart)
    }

    /// Whether the response is sent as a chunked body on HTTP/1.1.
    pub(crate) fn is_chunked(&self) -> bool {
        self.pieces.is_some() && self.kind == Kind::Answer && !self.frames_itself()
    }

    /// Whether the headers of the response already state the framing of the body.
    pub(crate) fn frames_itself(&self) -> bool {
        self.headers
            .iter()
            .any(|(name, _)| name == "content-length" || name == "transfer-encoding")
    }
}

impl Default for Step {
    fn default() -> Self {
        Self::status(200)
    }
}
