//! The status that the head of a response alone determines.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::metadata::first_of_two;
use crate::{Code, GRPC_STATUS};

// A reference to a constant makes a value of it each time.
pub(crate) static STATUS: HeaderName = GRPC_STATUS;
static TYPE: HeaderName = CONTENT_TYPE;

impl Code {
    /// The code, if the head alone determines it: `grpc-status` (Trailers-Only); an HTTP status
    /// other than 200 (by gRPC's mapping); a content type that is not gRPC's, which is UNKNOWN.
    /// `None` if the status comes in the trailers.
    #[must_use]
    pub fn from_head(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let (said, content_type) = first_of_two(headers, &STATUS, &TYPE);
        if let Some(said) = said {
            return Some(Self::from_header(said));
        }
        if status == StatusCode::OK && is_grpc(content_type) {
            return None;
        }
        Some(Self::from_http_status(status.as_u16()))
    }
}

/// `application/grpc`, alone or with a format or parameters. A missing content type is accepted.
fn is_grpc(content_type: Option<&HeaderValue>) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let Some(said) = content_type.map(HeaderValue::as_bytes) else {
        return true;
    };
    said.get(..GRPC.len())
        .is_some_and(|start| start == GRPC || start.eq_ignore_ascii_case(GRPC))
        && matches!(said.get(GRPC.len()), None | Some(b'+' | b';' | b' '))
}

/// `application/grpc-web` in any format: its status is at the end of the data.
#[cfg(all(feature = "tokio", feature = "tonic"))]
pub(crate) fn is_grpc_web(headers: &HeaderMap) -> bool {
    const WEB: &[u8] = b"application/grpc-web";
    let said = headers.get(&TYPE).map(HeaderValue::as_bytes);
    let start = said.and_then(|said| said.get(..WEB.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(WEB))
}

/// The same for a response. A layer that sees the body may have found the code of a response that
/// ends with its head, and stored it as an extension.
pub(crate) fn status_in_head<B>(response: &Response<B>) -> Option<Code> {
    let found = || response.extensions().get::<Code>().copied();
    Code::from_head(response.status(), response.headers()).or_else(found)
}

/// Whether messages may follow the head. A server may send some although the head has the status.
#[cfg(feature = "tokio")]
pub(crate) fn is_of_stream<B>(response: &Response<B>) -> bool {
    let content_type = first_of_two(response.headers(), &STATUS, &TYPE).1;
    response.status() == StatusCode::OK && is_grpc(content_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: u16, headers: &[(&'static str, &'static str)]) -> Option<Code> {
        let headers = headers.iter().map(|(name, value)| {
            let name: http::HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_static(value))
        });
        Code::from_head(StatusCode::from_u16(status).unwrap(), &headers.collect())
    }

    #[test]
    fn the_status_said_beats_http_and_http_beats_nothing() {
        let status = ("grpc-status", "5");
        assert_eq!(code(503, &[status]), Some(Code::NotFound));
        let html = ("content-type", "text/html");
        assert_eq!(code(200, &[html, status]), Some(Code::NotFound));
        assert_eq!(code(503, &[]), Some(Code::Unavailable));
        assert_eq!(code(503, &[html]), Some(Code::Unavailable));
        assert_eq!(code(200, &[html]), Some(Code::Unknown));
    }

    #[test]
    fn grpc_in_any_format_leaves_it_to_the_trailers() {
        assert_eq!(code(200, &[]), None);
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;charset=utf-8",
            "Application/GRPC",
        ] {
            assert_eq!(code(200, &[("content-type", content_type)]), None);
        }
        for other in ["application/grpc-web", "application/grp", ""] {
            let found = code(200, &[("content-type", other)]);
            assert_eq!(found, Some(Code::Unknown), "{other}");
        }
    }
}
