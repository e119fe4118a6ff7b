//! gRPC metadata: validation for a call, and the form of an answer's metadata.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::call::document::Fields;
use crate::call::named_values;

/// Headers that gRPC and HTTP/2 set themselves. Other clients do not let a caller set them either.
const OWN: [&str; 18] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "grpc-accept-encoding",
    "grpc-encoding",
    "grpc-message",
    "grpc-message-type",
    "grpc-previous-rpc-attempts",
    "grpc-status",
    "grpc-timeout",
];

/// The metadata of a call (gRPC over HTTP/2, Custom-Metadata). Values of `-bin` keys are already
/// base64 and are sent unchanged.
pub(super) fn read(fields: &mut Fields) -> HeaderMap {
    let said = named_values::read(fields, "metadata");
    let mut metadata = HeaderMap::new();
    for (key, values) in said {
        let place = format!("metadata.{}", named_values::shown(&key));
        let Some(name) = name(&key) else {
            fields.wrong(&place, "a name has letters, digits, '_', '-' and '.' only");
            continue;
        };
        if OWN.contains(&name.as_str()) {
            fields.warn(fields.fault(&place, "is gRPC's own, ignored"));
            continue;
        }
        for text in values.into_vec() {
            match value(&text) {
                Some(value) => drop(metadata.append(name.clone(), value)),
                None => fields.wrong(&place, "a value has printable ASCII only"),
            }
        }
    }
    metadata
}

/// Header-Name, in any case.
fn name(key: &str) -> Option<HeaderName> {
    let name = key.to_ascii_lowercase();
    let known = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.')
    };
    let name = Some(name).filter(|name| name.bytes().all(known))?;
    HeaderName::try_from(name).ok()
}

/// ASCII-Value.
fn value(text: &str) -> Option<HeaderValue> {
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    HeaderValue::from_str(text).ok().filter(|_| printable)
}

/// Whether a header belongs to the protocol and not to the application.
fn is_transports(name: &HeaderName) -> bool {
    // Of gRPC's own headers, the application sees the attempt count and the pushback.
    matches!(
        name.as_str(),
        "content-length"
            | "content-type"
            | "grpc-accept-encoding"
            | "grpc-encoding"
            | "grpc-message"
            | "grpc-status"
            | "te"
    )
}

/// The application's metadata among these headers: each name with a list of its values.
pub(super) fn shown(headers: &HeaderMap) -> Value {
    let mut shown = Map::new();
    for name in headers.keys().filter(|name| !is_transports(name)) {
        let mut list = Vec::new();
        for value in headers.get_all(name) {
            let text = String::from_utf8_lossy(value.as_bytes());
            if name.as_str().ends_with("-bin") {
                // Several binary values may share one field, because base64 contains no comma.
                list.extend(text.split(',').map(|part| Value::from(part.trim())));
            } else {
                list.push(text.into());
            }
        }
        shown.insert(name.to_string(), list.into());
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::document::{Found, MOST_NAMES};
    use serde_json::json;

    fn of(metadata: Value) -> Result<HeaderMap, String> {
        let document = json!({ "metadata": metadata }).to_string();
        let found = Found::default();
        let read = read(&mut Fields::of(document.as_bytes(), "$", found.clone()));
        found.check(Some(read)).map_err(|faults| faults.listed())
    }

    #[test]
    fn what_no_metadata_can_be_is_a_fault_with_its_place() {
        for name in [":path", "", "x y", "x!", "\u{fc}"] {
            let fault = of(json!({ name: "v" })).unwrap_err();
            let place = format!("$.metadata.{name}: a name has");
            assert!(fault.starts_with(&place), "{fault}");
        }
        for value in ["\u{fc}", "a\nb", "\u{7f}", "a\tb"] {
            let fault = of(json!({"x": ["ok", value]})).unwrap_err();
            assert_eq!(fault, "$.metadata.x: a value has printable ASCII only");
        }
        let fault = of(json!({"x": 1})).unwrap_err();
        assert_eq!(fault, "$.metadata: must be a text or a list of texts");
    }

    #[test]
    fn more_names_than_a_map_of_headers_holds_are_a_fault() {
        let names = |count: usize| (0..count).map(|n| (format!("x-{n}"), json!("v"))).collect();
        assert_eq!(of(names(MOST_NAMES)).unwrap().len(), MOST_NAMES);
        let fault = of(names(30_000)).unwrap_err();
        assert!(fault.starts_with("$.metadata: has 30000 names"), "{fault}");
    }
}
