//! Who asks.

use reattempt::backoff::Randomness;

/// What a client says of itself to the [choices](super).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub(super) language: String,
    pub(super) hostname: Option<String>,
    pub(super) percentile: u32,
}

impl Client {
    /// A client in `rust`, with its place among a hundred: from 0 to 99 (more counts as 99).
    /// Choices of a percentage above it are for this client. Draw it once for a channel.
    #[must_use]
    pub fn new(percentile: u32) -> Self {
        Self {
            language: "rust".to_owned(),
            hostname: None,
            percentile: percentile.min(99),
        }
    }

    /// The same, with a place that is drawn here.
    #[must_use]
    pub fn drawn(randomness: &Randomness) -> Self {
        // A float is cut to the range of the integer.
        Self::new((randomness.roll() * 100.0) as u32)
    }

    /// In another language; compared in any case.
    #[must_use]
    pub fn language(mut self, name: impl Into<String>) -> Self {
        self.language = name.into();
        self
    }

    /// On this host, by the name that the system gives it; compared exactly.
    #[must_use]
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = Some(name.into());
        self
    }
}
