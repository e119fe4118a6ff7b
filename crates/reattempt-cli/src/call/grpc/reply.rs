//! The received part of a gRPC call's answer.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use reattempt_grpc::{Code, GRPC_MESSAGE, GRPC_STATUS, PREVIOUS_ATTEMPTS};
use serde_json::Value;

use super::metadata::shown;

/// A status as returned to the caller.
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

/// The part of the answer received so far.
#[derive(Debug, Default)]
pub(super) struct Reply {
    http_status: StatusCode,
    head: HeaderMap,
    /// Whether the answer ends with its head.
    head_only: bool,
    pub(super) messages: Vec<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Reply {
    pub(super) fn head(&mut self, status: StatusCode, headers: HeaderMap, at_end: bool) {
        self.http_status = status;
        self.head_only = at_end || headers.contains_key(GRPC_STATUS);
        self.head = headers;
    }

    pub(super) fn trailers(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
    }

    /// The status, if the head decides it. The rest of such an answer is not used, and need not be
    /// gRPC.
    pub(super) fn status_in_head(&self) -> Option<Status> {
        if let Some(said) = Status::of(&self.head) {
            return Some(said);
        }
        match Code::from_head(self.http_status, &self.head) {
            Some(code) => {
                let of_type = self.head.get(CONTENT_TYPE).map(|value| {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    format!(" and content-type {value}")
                });
                let what = format!("not a gRPC answer: HTTP status {}", self.http_status);
                Some(Status::new(code, what + &of_type.unwrap_or_default()))
            }
            None if self.head_only => Some(Status::new(
                Code::Unknown,
                "the answer ended with its head, which has no grpc-status",
            )),
            None => None,
        }
    }

    /// The status of the answer.
    pub(super) fn status(&self) -> Option<Status> {
        self.status_in_head().or_else(|| {
            let trailers = self.trailers.as_ref()?;
            let unknown = || Status::new(Code::Unknown, "the trailers have no grpc-status");
            Some(Status::of(trailers).unwrap_or_else(unknown))
        })
    }

    pub(super) fn initial_metadata(&self) -> Value {
        if self.head_only {
            return shown(&HeaderMap::new());
        }
        shown(&self.head)
    }

    pub(super) fn trailing_metadata(&self) -> Value {
        if self.head_only {
            // Headers that this client added are reported separately.
            let mut trailers = self.head.clone();
            trailers.remove(PREVIOUS_ATTEMPTS);
            return shown(&trailers);
        }
        shown(self.trailers.as_ref().unwrap_or(&HeaderMap::new()))
    }

    pub(super) fn previous_attempts(&self) -> Option<String> {
        let value = self.head.get(PREVIOUS_ATTEMPTS)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

/// gRPC over HTTP/2, Status-Message. Invalid escapes are kept unchanged.
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

    #[test]
    fn messages_are_decoded_and_junk_stays() {
        assert_eq!(percent_decoded(b"50%25 of %C3%BC"), "50% of \u{fc}");
        assert_eq!(percent_decoded(b"%"), "%");
        assert_eq!(percent_decoded(b"%4"), "%4");
        assert_eq!(percent_decoded(b"%+1%zz"), "%+1%zz");
        assert_eq!(percent_decoded(b"\xff"), "\u{fffd}");
    }
}
