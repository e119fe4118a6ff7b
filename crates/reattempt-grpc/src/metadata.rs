//! Merging of metadata.

use http::HeaderMap;

/// Appends these values after existing values of the same names.
pub(crate) fn append(headers: &mut HeaderMap, more: HeaderMap) {
    let mut last = None;
    for (name, value) in more {
        // `HeaderMap`'s iterator yields the name only with its first value.
        last = name.or(last);
        if let Some(name) = &last {
            headers.append(name, value);
        }
    }
}
