//! A status that this client made itself, in the form that a server's has.

use std::fmt::Write;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};

use crate::{Code, GRPC_MESSAGE, GRPC_STATUS};

/// As trailers.
pub(crate) fn trailers(code: Code, message: &str) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(3);
    trailers.insert(GRPC_STATUS, HeaderValue::from(code.number()));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(message)) {
        trailers.insert(GRPC_MESSAGE, message);
    }
    trailers
}

/// As a Trailers-Only response.
pub(crate) fn trailers_only<B: Default>(code: Code, message: &str) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.headers_mut() = trailers(code, message);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// gRPC over HTTP/2, Status-Message: everything but printable ASCII, and `%` itself, as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f..=0xff => {
                // Writing to a `String` cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
            printable => encoded.push(char::from(printable)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encoded("50% of \u{fc}\n"), "50%25 of %C3%BC%0A");
    }
}
