//! What a response reports beyond its status.

/// What was read of a response's body: stored in the extensions of each response that passes a
/// [`ServiceErrorLayer`](crate::ServiceErrorLayer).
///
/// The verdict depends on it ([`HttpService::verdict`](crate::HttpService::verdict)), and the
/// caller finds the service's own error in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAnswer {
    pub(crate) error: Option<ServiceError>,
    pub(crate) wording: bool,
    pub(crate) rows: bool,
    pub(crate) end: BodyEnd,
}

/// How much of the body was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// There is more, which was not read.
    #[default]
    Unread,
    /// All of it was read.
    Whole,
    /// It ended with an error.
    Broken,
    /// There is more, which is checked while the caller reads it: it may still contain an error.
    Followed,
}

impl ServiceAnswer {
    /// A response of which only the status is known.
    #[must_use]
    pub fn unread() -> Self {
        Self::default()
    }

    /// The error that decides: the first of the `errors` of a query or an analytics query.
    #[must_use]
    pub const fn error(&self) -> Option<&ServiceError> {
        self.error.as_ref()
    }

    /// True if rows preceded the error or the end of the part that was read.
    #[must_use]
    pub const fn has_rows(&self) -> bool {
        self.rows
    }

    /// True if the body ended with an error while it was read.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.end == BodyEnd::Broken
    }
}

/// An error as reported by a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceError {
    pub(crate) code: Option<i32>,
    pub(crate) message: Option<String>,
    pub(crate) retry: bool,
}

impl ServiceError {
    /// An error with this code; `None` if it has none, or none that is an integer.
    #[must_use]
    pub const fn new(code: Option<i32>) -> Self {
        Self {
            code,
            message: None,
            retry: false,
        }
    }

    /// Adds this text.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// The service's own code. Only query and analytics have codes; the others have only the
    /// status.
    #[must_use]
    pub const fn code(&self) -> Option<i32> {
        self.code
    }

    /// The text, as far as it was read.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// True if the service itself marks the request as retryable.
    #[must_use]
    pub const fn says_retry(&self) -> bool {
        self.retry
    }
}
