//! What a gRPC server does with one call.

use std::time::Duration;

use bytes::Bytes;

use crate::http::ErrorCode;

pub(crate) type Metadata = Vec<(String, Vec<u8>)>;

/// One scripted reaction. Builder methods add to it.
///
/// By default a step runs when the client has half-closed, as a unary method does. Status codes are
/// gRPC's numbers; any type that converts to `i32` is accepted.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) kind: Kind,
    pub(crate) wait: Wait,
    pub(crate) after: Duration,
    pub(crate) initial: Metadata,
    pub(crate) messages: Vec<Bytes>,
    pub(crate) data: Bytes,
    pub(crate) between: Duration,
    pub(crate) before_end: Duration,
    pub(crate) end: End,
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) trailers: Metadata,
    pub(crate) says_goodbye: bool,
    pub(crate) leaves_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Response-Headers, messages, then the end.
    Answer,
    /// Response-Headers, each message as it arrives, then the end.
    Echo,
    TrailersOnly,
    HttpStatus(u16),
    Hang,
    Close,
    Reset(ErrorCode),
    RefuseStream,
    GoAway,
    HalfFrame,
}

/// What a step waits for before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    Messages(usize),
    HalfClose,
}

/// How an answer with Response-Headers ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Trailers,
    /// Trailers without `grpc-status`.
    NoStatus,
    Reset(ErrorCode),
    Close,
    Hang,
}

impl Step {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            wait: Wait::HalfClose,
            after: Duration::ZERO,
            initial: Metadata::new(),
            messages: Vec::new(),
            data: Bytes::new(),
            between: Duration::ZERO,
            before_end: Duration::ZERO,
            end: End::Trailers,
            code: 0,
            message: String::new(),
            trailers: Metadata::new(),
            says_goodbye: false,
            leaves_open: false,
        }
    }

    /// Answers with one message and the status OK.
    #[must_use]
    pub fn ok(message: impl Into<Bytes>) -> Self {
        Self::messages([message.into()])
    }

    /// Answers with these messages and OK, unless [`status`](Self::status) sets another.
    #[must_use]
    pub fn messages<M: Into<Bytes>>(messages: impl IntoIterator<Item = M>) -> Self {
        let messages = messages.into_iter().map(Into::into).collect();
        Self {
            messages,
            ..Self::of(Kind::Answer)
        }
    }

    /// Sends each message back as it arrives, and OK when the client has half-closed. The
    /// Response-Headers are sent at once. Works for every kind of method.
    #[must_use]
    pub fn echo() -> Self {
        Self {
            wait: Wait::Nothing,
            ..Self::of(Kind::Echo)
        }
    }

    /// Fails with a Trailers-Only response: one HEADERS frame, which leaves the call retryable.
    #[must_use]
    pub fn trailers_only(code: impl Into<i32>, message: impl Into<String>) -> Self {
        Self::of(Kind::TrailersOnly).status(code, message)
    }

    /// Fails with Response-Headers and then trailers: the headers commit the call.
    #[must_use]
    pub fn headers_then_status(code: impl Into<i32>) -> Self {
        Self::of(Kind::Answer).status(code, "")
    }

    /// Answers without gRPC, as a proxy does: an HTTP status, no trailers, and no body unless
    /// [`data`](Self::data) sets one. [`initial`](Self::initial) adds headers, also `content-type`.
    #[must_use]
    pub fn http_status(status: u16) -> Self {
        Self::of(Kind::HttpStatus(status))
    }

    /// Never answers; waits until the client cancels.
    #[must_use]
    pub fn hang() -> Self {
        Self::of(Kind::Hang)
    }

    /// Closes the connection in order (FIN), without a response.
    #[must_use]
    pub fn close() -> Self {
        Self::of(Kind::Close)
    }

    /// Sends RST_STREAM with this code, without a response.
    #[must_use]
    pub fn reset(code: impl Into<ErrorCode>) -> Self {
        Self::of(Kind::Reset(code.into()))
    }

    /// Sends RST_STREAM with REFUSED_STREAM: the call was not processed.
    #[must_use]
    pub fn refuse_stream() -> Self {
        Self::of(Kind::RefuseStream)
    }

    /// Sends GOAWAY with NO_ERROR and a last stream below this one: the call was not processed.
    /// Later streams fail with it.
    #[must_use]
    pub fn go_away() -> Self {
        Self::of(Kind::GoAway)
    }

    /// Writes half of the HEADERS frame and closes the connection.
    #[must_use]
    pub fn half_frame() -> Self {
        Self::of(Kind::HalfFrame)
    }

    /// Sets the final status and its message, which is percent-encoded on the wire.
    #[must_use]
    pub fn status(mut self, code: impl Into<i32>, message: impl Into<String>) -> Self {
        self.code = code.into();
        self.message = message.into();
        self
    }

    /// Adds `grpc-retry-pushback-ms` with this value, valid or not, to the trailers (A6,
    /// "Pushback"). A second call adds a second value.
    #[must_use]
    pub fn pushback(self, value: impl AsRef<[u8]>) -> Self {
        self.trailer("grpc-retry-pushback-ms", value)
    }

    /// Adds a trailer. The bytes are sent unchanged.
    #[must_use]
    pub fn trailer(mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.trailers
            .push((name.as_ref().to_ascii_lowercase(), value.as_ref().to_vec()));
        self
    }

    /// Adds initial metadata. The bytes are sent unchanged.
    #[must_use]
    pub fn initial(mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.initial
            .push((name.as_ref().to_ascii_lowercase(), value.as_ref().to_vec()));
        self
    }

    /// Sends these bytes unchanged after the messages, for example half a message or an HTML page.
    #[must_use]
    pub fn data(mut self, bytes: impl Into<Bytes>) -> Self {
        self.data = bytes.into();
        self
    }

    /// Waits before anything is sent.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }

    /// Waits before each message of the answer.
    #[must_use]
    pub fn between(mut self, delay: Duration) -> Self {
        self.between = delay;
        self
    }

    /// Waits before the trailers, or before the action that replaces them.
    #[must_use]
    pub fn end_after(mut self, delay: Duration) -> Self {
        self.before_end = delay;
        self
    }

    /// After headers and messages: sends RST_STREAM with this code instead of the trailers.
    #[must_use]
    pub fn end_reset(mut self, code: impl Into<ErrorCode>) -> Self {
        self.end = End::Reset(code.into());
        self
    }

    /// After headers and messages: closes the connection instead of sending trailers.
    #[must_use]
    pub fn end_close(mut self) -> Self {
        self.end = End::Close;
        self
    }

    /// After headers and messages: never sends the trailers.
    #[must_use]
    pub fn end_hang(mut self) -> Self {
        self.end = End::Hang;
        self
    }

    /// After headers and messages: sends trailers without `grpc-status`.
    #[must_use]
    pub fn end_without_status(mut self) -> Self {
        self.end = End::NoStatus;
        self
    }

    /// Sends GOAWAY with NO_ERROR first. Its last stream is this one: this call is still answered,
    /// later ones are not.
    #[must_use]
    pub fn goodbye(mut self) -> Self {
        self.says_goodbye = true;
        self
    }

    /// Does not reset a stream that was answered before the client half-closed; the client ends it,
    /// and the record shows how.
    #[must_use]
    pub fn leave_open(mut self) -> Self {
        self.leaves_open = true;
        self
    }

    /// Does not wait for any message. Only for steps of the queue and the default step: a handler
    /// is called when the first message or the half-close has arrived.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.wait = Wait::Nothing;
        self
    }

    /// Waits for `count` messages or the half-close, whichever comes first.
    #[must_use]
    pub fn after_messages(mut self, count: usize) -> Self {
        self.wait = Wait::Messages(count);
        self
    }
}

impl Default for Step {
    fn default() -> Self {
        Self::ok(Bytes::new())
    }
}
