//! What a gRPC server does with one call: the steps of HTTP, with messages as pieces of the body
//! and the status in the trailers.

use std::time::Duration;

use bytes::Bytes;
use reattempt_clients::grpc::{frame_message, percent_encode};

use crate::http;
use crate::http::ErrorCode;
use crate::http::step::{End, HeaderList, field};

/// One scripted reaction. Builder methods add to it.
///
/// By default a step runs when the client has half-closed, as a unary method does. Status codes are
/// gRPC's numbers; any type that converts to `i32` is accepted.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) answer: http::Step,
    pub(crate) wait: Wait,
    /// Sends each message back between head and body.
    pub(crate) echo: bool,
    pub(crate) leaves_open: bool,
    /// How many of the trailers, the first ones, are the status.
    status: usize,
}

/// What a step waits for before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    Messages(usize),
    HalfClose,
}

impl Step {
    fn of(answer: http::Step) -> Self {
        let answer = http::Step {
            states_length: false,
            end: End::Trailers,
            ..answer.header("content-type", "application/grpc")
        };
        Self {
            answer,
            wait: Wait::HalfClose,
            echo: false,
            leaves_open: false,
            status: 0,
        }
        .status(0, "")
    }

    fn with(mut self, change: impl FnOnce(&mut http::Step)) -> Self {
        change(&mut self.answer);
        self
    }

    fn set_status(&mut self, status: HeaderList) {
        let before = std::mem::replace(&mut self.status, status.len());
        self.answer.trailers.splice(..before, status);
    }

    /// Answers with one message and the status OK.
    #[must_use]
    pub fn ok(message: impl Into<Bytes>) -> Self {
        Self::messages([message.into()])
    }

    /// Answers with these messages and OK, unless [`status`](Self::status) sets another.
    #[must_use]
    pub fn messages<M: Into<Bytes>>(messages: impl IntoIterator<Item = M>) -> Self {
        let messages = messages.into_iter().map(Into::into);
        let framed = messages.map(|message: Bytes| frame_message(&message));
        Self::of(http::Step::default()).with(|answer| answer.body = framed.collect())
    }

    /// Sends each message back as it arrives, and OK when the client has half-closed. The
    /// Response-Headers are sent at once. Works for every kind of method.
    #[must_use]
    pub fn echo() -> Self {
        Self {
            wait: Wait::Nothing,
            echo: true,
            ..Self::of(http::Step::default())
        }
    }

    /// Fails with a Trailers-Only response: one HEADERS frame, which leaves the call retryable.
    #[must_use]
    pub fn trailers_only(code: impl Into<i32>, message: impl Into<String>) -> Self {
        Self::of(http::Step::default())
            .with(|answer| answer.end = End::TrailersOnly)
            .status(code, message)
    }

    /// Fails with Response-Headers and then trailers: the headers commit the call.
    #[must_use]
    pub fn headers_then_status(code: impl Into<i32>) -> Self {
        Self::of(http::Step::default()).status(code, "")
    }

    /// Answers without gRPC, as a proxy does: an HTTP status, no trailers, and no body unless
    /// [`data`](Self::data) sets one. [`initial`](Self::initial) adds headers, also `content-type`.
    #[must_use]
    pub fn http_status(status: u16) -> Self {
        Self::of(http::Step::status(status)).with(|answer| {
            answer.headers.clear();
            answer.end = End::Whole;
        })
    }

    /// Never answers; waits until the client cancels.
    #[must_use]
    pub fn hang() -> Self {
        Self::of(http::Step::hang())
    }

    /// Closes the connection in order (FIN), without a response.
    #[must_use]
    pub fn close() -> Self {
        Self::of(http::Step::close_before())
    }

    /// Sends RST_STREAM with this code, without a response.
    #[must_use]
    pub fn reset(code: impl Into<ErrorCode>) -> Self {
        Self::of(http::Step::reset_with(code))
    }

    /// Sends RST_STREAM with REFUSED_STREAM: the call was not processed.
    #[must_use]
    pub fn refuse_stream() -> Self {
        Self::of(http::Step::refuse_stream())
    }

    /// Sends GOAWAY with NO_ERROR and a last stream below this one: the call was not processed.
    /// Later streams fail with it.
    #[must_use]
    pub fn go_away() -> Self {
        Self::of(http::Step::go_away())
    }

    /// Writes half of the HEADERS frame and closes the connection.
    #[must_use]
    pub fn half_frame() -> Self {
        Self::of(http::Step::half_frame())
    }

    /// Sets the final status and its message, which is percent-encoded on the wire.
    #[must_use]
    pub fn status(mut self, code: impl Into<i32>, message: impl Into<String>) -> Self {
        let mut status = vec![field("grpc-status", code.into().to_string())];
        let message = percent_encode(&message.into());
        if !message.is_empty() {
            status.push(field("grpc-message", message));
        }
        self.set_status(status);
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
    pub fn trailer(self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.with(|answer| answer.trailers.push(field(name, value)))
    }

    /// Adds initial metadata. The bytes are sent unchanged.
    #[must_use]
    pub fn initial(mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.answer = self.answer.header(name, value);
        self
    }

    /// Sends these bytes unchanged after the messages, for example half a message or an HTML page.
    #[must_use]
    pub fn data(self, bytes: impl Into<Bytes>) -> Self {
        self.with(|answer| answer.body.push(bytes.into()))
    }

    /// Waits before anything is sent.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.answer = self.answer.after(delay);
        self
    }

    /// Waits before each message of the answer, and before [`data`](Self::data).
    #[must_use]
    pub fn between(self, delay: Duration) -> Self {
        self.with(|answer| (answer.before_body, answer.apart) = (delay, delay))
    }

    /// Waits before the trailers, or before the action that replaces them.
    #[must_use]
    pub fn end_after(self, delay: Duration) -> Self {
        self.with(|answer| answer.before_end = delay)
    }

    /// After headers and messages: sends RST_STREAM with this code instead of the trailers.
    #[must_use]
    pub fn end_reset(self, code: impl Into<ErrorCode>) -> Self {
        self.with(|answer| answer.end = End::Reset(code.into()))
    }

    /// After headers and messages: closes the connection instead of sending trailers.
    #[must_use]
    pub fn end_close(self) -> Self {
        self.with(|answer| answer.end = End::Close)
    }

    /// After headers and messages: never sends the trailers.
    #[must_use]
    pub fn end_hang(self) -> Self {
        self.with(|answer| answer.end = End::Hang)
    }

    /// After headers and messages: sends trailers without `grpc-status`.
    #[must_use]
    pub fn end_without_status(mut self) -> Self {
        self.set_status(HeaderList::new());
        self
    }

    /// Sends GOAWAY with NO_ERROR first. Its last stream is this one: this call is still answered,
    /// later ones are not.
    #[must_use]
    pub fn goodbye(self) -> Self {
        self.with(|answer| answer.goodbye = true)
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
