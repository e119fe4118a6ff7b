//! What has come of the answer of a gRPC call.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use reattempt_grpc::{Code, GRPC_MESSAGE, GRPC_STATUS, PREVIOUS_ATTEMPTS};
use serde_json::Value;

use crate::call::http::shown;

/// A status as the caller gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

impl Status {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The status in trailers, or in the head of a Trailers-Only answer.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let code = Code::from_header(headers.get(GRPC_STATUS)?);
        let message = headers.get(GRPC_MESSAGE);
        let message = message.map(|message| percent_decoded(message.as_bytes()));
        Some(Self::new(code, message.unwrap_or_default()))
    }
}

/// How much of the answer has come.
#[derive(Debug, Default)]
pub(super) struct Reply {
    http_status: StatusCode,
    head: HeaderMap,
    trailers_only: bool,
    pub(super) messages: Vec<Bytes>,
    trailers: HeaderMap,
}

impl Reply {
    pub(super) fn head(&mut self, status: StatusCode, headers: HeaderMap) {
        self.http_status = status;
        self.trailers_only = headers.contains_key(GRPC_STATUS);
        self.head = headers;
    }

    pub(super) fn trailers(&mut self, trailers: HeaderMap) {
        self.trailers = trailers;
    }

    /// The status that the answer carries; without one the HTTP status stands for it.
    pub(super) fn status(&self) -> Option<Status> {
        let said = if self.trailers_only {
            Status::of(&self.head)
        } else {
            Status::of(&self.trailers)
        };
        said.or_else(|| {
            (self.http_status != StatusCode::OK).then(|| {
                let code = Code::from_http_status(self.http_status.as_u16());
                Status::new(code, format!("HTTP status {}", self.http_status))
            })
        })
    }

    pub(super) fn initial_metadata(&self) -> Value {
        if self.trailers_only {
            // There was no initial metadata but what this client adds to it.
            return shown(&self.head, |name| PREVIOUS_ATTEMPTS != name);
        }
        shown(&self.head, is_transports)
    }

    pub(super) fn trailing_metadata(&self) -> Value {
        let of = if self.trailers_only {
            &self.head
        } else {
            &self.trailers
        };
        shown(of, |name| is_transports(name) || PREVIOUS_ATTEMPTS == name)
    }

    pub(super) fn previous_attempts(&self) -> Option<String> {
        let value = self.head.get(PREVIOUS_ATTEMPTS)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

/// What belongs to the protocol and not to the application.
fn is_transports(name: &str) -> bool {
    let own = [GRPC_STATUS, GRPC_MESSAGE, CONTENT_TYPE, CONTENT_LENGTH];
    own.iter().any(|own| own == name)
        || matches!(name, "grpc-encoding" | "grpc-accept-encoding" | "te")
}

/// gRPC over HTTP/2, Status-Message. What is not encoded as it should be stays as it came.
fn percent_decoded(bytes: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let byte = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match byte {
            Some(byte) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            None => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn messages_are_decoded_and_junk_stays() {
        assert_eq!(percent_decoded(b"50%25 of %C3%BC"), "50% of \u{fc}");
        assert_eq!(percent_decoded(b"%"), "%");
        assert_eq!(percent_decoded(b"%4"), "%4");
        assert_eq!(percent_decoded(b"%+1%zz"), "%+1%zz");
        assert_eq!(percent_decoded(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn an_answer_without_a_status_goes_by_http() {
        let mut reply = Reply::default();
        assert_eq!(reply.status(), None);
        reply.head(StatusCode::BAD_GATEWAY, HeaderMap::new());
        assert_eq!(reply.status().unwrap().code, Code::Unavailable);
    }

    #[test]
    fn the_head_of_a_trailers_only_answer_is_trailing_metadata() {
        let mut headers = HeaderMap::new();
        headers.insert(GRPC_STATUS, HeaderValue::from_static("5"));
        headers.insert("x-a", HeaderValue::from_static("b"));
        headers.insert(PREVIOUS_ATTEMPTS, HeaderValue::from_static("2"));
        let mut reply = Reply::default();
        reply.head(StatusCode::OK, headers);
        assert_eq!(reply.status(), Some(Status::new(Code::NotFound, "")));
        assert_eq!(reply.trailing_metadata(), serde_json::json!({"x-a": ["b"]}));
        assert_eq!(reply.previous_attempts().as_deref(), Some("2"));
    }
}
