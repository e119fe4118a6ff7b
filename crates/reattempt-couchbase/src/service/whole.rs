//! Complete responses.

use http::StatusCode;
use reattempt::Verdict;
use serde_json::Value;

use super::reader::Reader;
use super::{HttpService, Kind, ServiceError};
use crate::service_answer::BodyEnd;

/// The maximum length of a body that is used as the message if it has none of its own.
const LONGEST_TEXT: usize = 1024;

impl HttpService {
    /// Classifies a response with this body, for a client that has read all of it:
    /// [`HttpService::verdict`] without a layer.
    ///
    /// ```
    /// use http::StatusCode;
    /// use reattempt::{Verdict, reason};
    /// use reattempt_couchbase::service::HttpService;
    ///
    /// let body = br#"{"errors": [{"code": 23007, "msg": "job queue is full"}]}"#;
    /// let verdict =
    ///     HttpService::analytics().verdict_on(StatusCode::SERVICE_UNAVAILABLE, body);
    /// let Verdict::Retry(failure) = verdict else {
    ///     panic!()
    /// };
    /// assert_eq!(
    ///     (failure.reason, failure.code),
    ///     (reason::ANALYTICS_TEMPORARY_FAILURE, Some(23007))
    /// );
    /// ```
    #[must_use]
    pub fn verdict_on(&self, status: StatusCode, body: &[u8]) -> Verdict {
        let mut reader = Reader::new(*self, status);
        reader.push(body);
        self.verdict(status, &reader.answer(BodyEnd::Whole))
    }

    /// The error in a response, for logs and messages; `None` if there is none.
    ///
    /// For query and analytics the first of the `errors`, with any status. For the other services,
    /// if the response failed, a text without a code: its `error` and `reason`, else the beginning
    /// of the body.
    ///
    /// ```
    /// use http::StatusCode;
    /// use reattempt_couchbase::service::HttpService;
    ///
    /// let body = br#"{"errors": [{"code": 4040, "msg": "no such plan"}], "status": "fatal"}"#;
    /// let error = HttpService::query().read_error(StatusCode::OK, body).unwrap();
    /// assert_eq!(error.code(), Some(4040));
    /// assert_eq!(error.message(), Some("no such plan"));
    ///
    /// let body = br#"{"error": "not_found", "reason": "missing"}"#;
    /// let error = HttpService::views().read_error(StatusCode::NOT_FOUND, body).unwrap();
    /// assert_eq!((error.code(), error.message()), (None, Some("not_found: missing")));
    /// ```
    #[must_use]
    pub fn read_error(&self, status: StatusCode, body: &[u8]) -> Option<ServiceError> {
        if matches!(self.kind, Kind::Query | Kind::Analytics) {
            let mut reader = Reader::new(*self, status);
            reader.push(body);
            return reader.answer(BodyEnd::Whole).error;
        }
        if status.is_success() {
            return None;
        }
        let error = ServiceError::new(None);
        Some(match message(body) {
            Some(message) => error.with_message(message),
            None => error,
        })
    }
}

fn message(body: &[u8]) -> Option<String> {
    let members = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let of = |name| members.get(name).and_then(Value::as_str);
    match (of("error"), of("reason")) {
        (Some(error), Some(reason)) => return Some(format!("{error}: {reason}")),
        (Some(only), None) | (None, Some(only)) => return Some(only.to_owned()),
        (None, None) => {}
    }
    let beginning = &body[..body.len().min(LONGEST_TEXT)];
    let text = String::from_utf8_lossy(beginning);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
