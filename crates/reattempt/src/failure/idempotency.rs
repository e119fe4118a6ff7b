//! Whether a request may take effect twice (RFC 0049, Request Annotation).

/// Whether sending a request twice does the same as sending it once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Idempotency {
    /// Not specified; treated as not idempotent.
    #[default]
    Unknown,
    /// Safe to send again at every stage.
    Idempotent,
    /// Sent again only if the failed attempt is known to have had no effect.
    NotIdempotent,
}

impl Idempotency {
    /// True only for [`Idempotency::Idempotent`].
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        matches!(self, Self::Idempotent)
    }
}
