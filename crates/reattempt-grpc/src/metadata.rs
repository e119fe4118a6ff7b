//! Metadata that is joined.

use http::HeaderMap;

/// Adds these values behind what is there under the same names.
pub(crate) fn append(headers: &mut HeaderMap, more: HeaderMap) {
    let mut last = None;
    for (name, value) in more {
        // Only the first value of several comes with its name.
        last = name.or(last);
        if let Some(name) = &last {
            headers.append(name, value);
        }
    }
}
