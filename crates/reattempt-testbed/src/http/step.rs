//! What a server does with one call: the step language of HTTP, on which that of gRPC is built.

use std::time::Duration;

use bytes::Bytes;

use super::h2::ErrorCode;

/// Headers or trailers as they are written.
pub(crate) type HeaderList = Vec<(String, Vec<u8>)>;

/// One scripted reaction. Builder methods add to it; delays run one after the other.
///
/// On HTTP/1.1 the steps that only HTTP/2 has (refusing a stream, GOAWAY) close the connection
/// without a response.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) kind: Kind,
    pub(crate) status: u16,
    pub(crate) headers: HeaderList,
    /// Whether `content-length` is added, unless the headers frame the body themselves.
    pub(crate) states_length: bool,
    /// In the pieces in which it is written.
    pub(crate) body: Vec<Bytes>,
    /// Breaks the body off after this many bytes; more are announced.
    pub(crate) cut: Option<usize>,
    /// Cuts the body into pieces of this many bytes.
    pub(crate) split: Option<usize>,
    pub(crate) end: End,
    pub(crate) trailers: HeaderList,
    pub(crate) before_head: Duration,
    pub(crate) before_body: Duration,
    pub(crate) apart: Duration,
    pub(crate) before_end: Duration,
    /// Sends GOAWAY that still accepts this call.
    pub(crate) goodbye: bool,
    pub(crate) at_once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Answer,
    Hang,
    Close,
    Reset(ErrorCode),
    RefuseStream,
    GoAway,
    HalfFrame,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With its body.
    Whole,
    Trailers,
    /// Head and trailers are one HEADERS frame, without a body.
    TrailersOnly,
    Close,
    Reset(ErrorCode),
    Hang,
}

impl Step {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            status: 200,
            headers: HeaderList::new(),
            states_length: true,
            body: Vec::new(),
            cut: None,
            split: None,
            end: End::Whole,
            trailers: HeaderList::new(),
            before_head: Duration::ZERO,
            before_body: Duration::ZERO,
            apart: Duration::ZERO,
            before_end: Duration::ZERO,
            goodbye: false,
            at_once: false,
        }
    }

    fn cut_off(bytes: usize, end: End) -> Self {
        Self {
            cut: Some(bytes),
            end,
            ..Self::of(Kind::Answer)
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
        Self::of(Kind::Close)
    }

    /// Answers with a `content-length` greater than `bytes`, sends `bytes` of the body, and closes
    /// the connection in order.
    #[must_use]
    pub fn close_during_body(bytes: usize) -> Self {
        Self::cut_off(bytes, End::Close)
    }

    /// Like [`close_during_body`](Self::close_during_body), but resets: the connection (RST) on
    /// HTTP/1.1, the stream (INTERNAL_ERROR) on HTTP/2.
    #[must_use]
    pub fn reset_during_body(bytes: usize) -> Self {
        Self::cut_off(bytes, End::Reset(ErrorCode::INTERNAL_ERROR))
    }

    /// Like [`close_during_body`](Self::close_during_body), but keeps the connection open and sends
    /// nothing more.
    #[must_use]
    pub fn hang_during_body(bytes: usize) -> Self {
        Self::cut_off(bytes, End::Hang)
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
        self.headers.push(field(name, value));
        self
    }

    /// Sets the response body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = vec![body.into()];
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
        (self.split, self.apart) = (Some(bytes.max(1)), apart);
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
        let whole = match &self.body[..] {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => many.concat().into(),
        };
        let length = whole.len();
        match self.cut {
            None => (whole, length),
            Some(sent) if sent < length => (whole.slice(..sent), length),
            Some(sent) => {
                let mut content = whole.to_vec();
                content.resize(sent, b'.');
                (content.into(), sent + 1)
            }
        }
    }

    /// The pieces in which the body is written, none of them empty.
    pub(crate) fn pieces(&self) -> Vec<Bytes> {
        let mut pieces = match (self.split, self.cut) {
            (None, None) => self.body.clone(),
            (None, Some(_)) => vec![self.content().0],
            (Some(size), _) => {
                let (content, _) = self.content();
                let starts = (0..content.len()).step_by(size);
                let end = |start| content.len().min(start + size);
                starts.map(|at| content.slice(at..end(at))).collect()
            }
        };
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    /// Whether the response is sent as a chunked body on HTTP/1.1.
    pub(crate) fn is_chunked(&self) -> bool {
        self.split.is_some() && self.end == End::Whole && !self.frames_itself()
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

/// A field of a head or of trailers.
pub(crate) fn field(name: impl AsRef<str>, value: impl AsRef<[u8]>) -> (String, Vec<u8>) {
    (name.as_ref().to_ascii_lowercase(), value.as_ref().to_vec())
}
