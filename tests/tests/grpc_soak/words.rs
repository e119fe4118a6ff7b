//! The types that the model and the transport share, in A6's terms.

use super::fate::Word;

/// Whether a failure may be retried transparently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    No,
    /// It reached the server, but not its application.
    Once,
    /// It never left the client.
    NeverSent,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// A Trailers-Only OK.
    Ok,
    /// Response-Headers.
    Headers,
    Failed {
        code: i32,
        word: Option<Word>,
        unseen: Unseen,
    },
    /// The request's own body failed: not the server's fault, and every attempt would fail.
    RequestFailed,
    /// Another hedge continues alone (A6, Memory Management): this one was cancelled by the client.
    Abandoned,
}

/// A report to the throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Success,
    Failure,
}

/// The service config of a method.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) path: &'static str,
    pub(crate) recovery: Recovery,
    /// Codes that are retryable, or not fatal.
    pub(crate) codes: &'static [i32],
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Recovery {
    None,
    Retry {
        most: u32,
        first_ms: u64,
        longest_ms: u64,
    },
    Hedge {
        most: u32,
        delay_ms: u64,
    },
}
