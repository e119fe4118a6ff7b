//! What one attempt came to.

use crate::{RetryReason, Stage};

/// Whether a failure may be mended without counting as a retry (A6, Transparent Retries).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transparent {
    /// The server's application may have seen the request: the policy decides.
    #[default]
    No,
    /// It reached the server but not its application (REFUSED_STREAM, GOAWAY): once per call.
    Once,
    /// It never left the client: until the deadline.
    Unlimited,
}

/// Why and where an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, of the vocabulary that all protocols share.
    pub reason: RetryReason,
    /// How far the attempt came.
    pub stage: Stage,
    /// The protocol's own code (gRPC code, HTTP or KV status, MongoDB code), if there was one.
    pub code: Option<i32>,
    /// Whether it may be mended without counting.
    pub transparent: Transparent,
    /// True when even a request that is not idempotent may be sent again.
    pub safe: bool,
}

impl Failure {
    /// A failure of this reason in this stage: no code, not transparent, as safe as its reason
    /// says ([`RetryReason::allows_non_idempotent_retry`]).
    #[must_use]
    pub const fn new(reason: RetryReason, stage: Stage) -> Self {
        Self {
            reason,
            stage,
            code: None,
            transparent: Transparent::No,
            safe: reason.allows_non_idempotent_retry(),
        }
    }

    /// With the protocol's own code.
    #[must_use]
    pub const fn code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self
    }

    /// May be mended without counting.
    #[must_use]
    pub const fn transparent(mut self, transparent: Transparent) -> Self {
        self.transparent = transparent;
        self
    }

    /// Overrules the reason: the server is (not) known to have left the request alone.
    #[must_use]
    pub const fn safe(mut self, safe: bool) -> Self {
        self.safe = safe;
        self
    }
}

/// What a classifier says of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It worked. Counted as a success; the answer goes to the caller.
    Success,
    /// The head of the answer is here and the rest decides later (a gRPC status in trailers):
    /// no further attempt, and nothing counted yet (A6, When Retries are Valid).
    Committed,
    /// It failed, and another attempt would not help: the failure goes to the caller.
    Fatal(Failure),
    /// It failed, and another attempt may help.
    Retry(Failure),
}

impl Verdict {
    /// The failure, unless it worked.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Success | Self::Committed => None,
            Self::Fatal(failure) | Self::Retry(failure) => Some(failure),
        }
    }
}
