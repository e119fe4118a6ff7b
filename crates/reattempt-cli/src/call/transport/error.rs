//! The error of the transport, and errors as text.

use std::error::Error;

/// hyper's own errors, and those of connecting.
pub(crate) type TransportError = Box<dyn Error + Send + Sync>;

/// An error with its sources.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let source = error.to_string();
        // Some errors include their source in their text.
        if !text.ends_with(&source) {
            text = format!("{text}: {source}");
        }
        next = error.source();
    }
    text
}
