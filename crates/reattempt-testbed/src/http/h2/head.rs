//! The head of a request on an HTTP/2 stream.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::hpack::Fields;

/// The pseudo-headers (RFC 9113, 8.3.1) and the other headers.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
}

impl Head {
    /// Returns `None` when the request is malformed; its stream is then reset with PROTOCOL_ERROR.
    pub(super) fn of(fields: &Fields) -> Option<Self> {
        let (mut method, mut path, mut headers) = (None, None, HeaderMap::new());
        for (name, value) in fields {
            match &name[..] {
                b":method" => method = Some(Method::from_bytes(value).ok()?),
                b":path" => path = Some(String::from_utf8(value.to_vec()).ok()?),
                [b':', ..] => {}
                name => {
                    let name = HeaderName::from_lowercase(name).ok()?;
                    headers
                        .try_append(name, HeaderValue::from_bytes(value).ok()?)
                        .ok()?;
                }
            }
        }
        Some(Self {
            method: method?,
            path: path?,
            headers,
        })
    }
}
