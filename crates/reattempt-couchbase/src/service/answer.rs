//! What an answer says of itself, beyond its status.

/// What was read of an answer's body: in the extensions of each response that comes through a
/// [`ServiceErrorLayer`](super::ServiceErrorLayer).
///
/// The verdict goes by it ([`HttpService::verdict`](super::HttpService::verdict)), and a caller
/// finds the service's own error here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAnswer {
    pub(super) error: Option<ServiceError>,
    pub(super) wording: bool,
    pub(super) rows: bool,
    pub(super) end: BodyEnd,
}

/// How much of the body was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// There is more that nobody has looked at.
    #[default]
    Unread,
    /// All of it.
    Whole,
    /// It broke off.
    Broken,
    /// There is more, and whoever reads it looks at it: a success may still turn out to be none.
    Followed,
}

impl ServiceAnswer {
    /// An answer of which only the status is known.
    #[must_use]
    pub fn unread() -> Self {
        Self::default()
    }

    /// The error that decides: the first of a query's or an analytics query's `errors`.
    #[must_use]
    pub const fn error(&self) -> Option<&ServiceError> {
        self.error.as_ref()
    }

    /// True if rows came before the error, or before the reading stopped.
    #[must_use]
    pub const fn has_rows(&self) -> bool {
        self.rows
    }

    /// True if the body broke off while it was read.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.end == BodyEnd::Broken
    }
}

/// An error as a service tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceError {
    pub(super) code: Option<i32>,
    pub(super) message: Option<String>,
    pub(super) retry: bool,
}

impl ServiceError {
    /// An error with this code; `None` for one that has none, or none that is an integer.
    #[must_use]
    pub const fn new(code: Option<i32>) -> Self {
        Self {
            code,
            message: None,
            retry: false,
        }
    }

    /// With this text.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// The service says itself that the request may be sent again (`"retry": true`).
    #[must_use]
    pub const fn with_retry(mut self) -> Self {
        self.retry = true;
        self
    }

    /// The service's own code. Query and analytics have one; the others have but the status.
    #[must_use]
    pub const fn code(&self) -> Option<i32> {
        self.code
    }

    /// The text, as far as it was read.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// True if the service says itself that the request may be sent again.
    #[must_use]
    pub const fn says_retry(&self) -> bool {
        self.retry
    }
}
