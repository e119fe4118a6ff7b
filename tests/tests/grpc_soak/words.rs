//! What the model and the transport say to each other, in A6's words.

use super::fate::Word;

/// Whether a failure may be mended without counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    No,
    /// It reached the server, but not its application.
    Once,
    /// It never left the client.
    NeverSent,
}

/// What an attempt came to.
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
    /// The request's own body failed: no server is to blame, and no attempt can do better.
    RequestFailed,
    /// Another hedge goes on alone (A6, Memory Management): this one was cancelled by us.
    Abandoned,
}

/// What the throttle hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Success,
    Failure,
}

/// What the service config says of a method.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) path: &'static str,
    pub(crate) recovery: Recovery,
    /// Retryable, or not fatal.
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
