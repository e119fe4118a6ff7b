//! A kind of document.

use super::Unreadable;

/// A kind of document: its name and its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Starts the message of [`Faults`](super::Faults), such as "the service config".
    pub subject: &'static str,
    /// The maximum length in bytes; 4 MiB by default, far above any realistic document.
    pub longest: usize,
    /// The maximum nesting depth of arrays and objects; 64 by default.
    pub deepest: usize,
    /// The maximum of faults that are reported one by one, because a hostile document has one in
    /// every second byte; 10,000 by default.
    pub most_faults: usize,
    /// The same for warnings; all of them by default.
    pub most_warnings: usize,
    /// Whether a server wrote it; false by default. Then a duplicate member is a warning, because
    /// real servers send some, and the last one counts; `null` is a value as any other, and paths
    /// have names as they are (`$.a-b`). Otherwise a duplicate is a fault, `null` counts as absent,
    /// as in every proto3 message, and names that are not words are quoted (`$["a-b"]`).
    pub of_server: bool,
    /// The message for a text that is not read at all; by default its own.
    pub refusal: fn(&Unreadable) -> String,
}

impl Form {
    /// A form with the default bounds.
    #[must_use]
    pub const fn new(subject: &'static str) -> Self {
        Self {
            subject,
            longest: 4 * 1024 * 1024,
            deepest: 64,
            most_faults: 10_000,
            most_warnings: usize::MAX,
            of_server: false,
            refusal: Unreadable::to_string,
        }
    }
}
