//! Whether a request may take effect twice (RFC 0049, Request Annotation).

/// Whether sending a request twice does the same as sending it once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Idempotency {
    /// Not specified; treated as not idempotent.
    #[default]
    Unknown,
    /// Safe to send again at every stage.
    Idempotent,
    /// The same for the attempts of this call, because they share a key that was made for it.
    /// Another call for the same thing gets another key: a timeout of this one is ambiguous.
    WithinCall,
    /// Sent again only if the failed attempt is known to have had no effect.
    NotIdempotent,
}

impl Idempotency {
    /// True if another attempt of the call is safe: [`Idempotency::Idempotent`] and
    /// [`Idempotency::WithinCall`].
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        matches!(self, Self::Idempotent | Self::WithinCall)
    }

    /// True if another call with the same request is safe too: only [`Idempotency::Idempotent`].
    #[must_use]
    pub const fn outlives_call(self) -> bool {
        matches!(self, Self::Idempotent)
    }
}
