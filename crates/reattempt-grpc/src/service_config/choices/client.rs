//! The client that a choice is made for.

use reattempt::backoff::Randomness;

/// The properties of a client that [choices](super) are matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub(super) language: String,
    pub(super) hostname: Option<String>,
    pub(super) percentile: u32,
}

impl Client {
    /// A client with language `rust` and this percentile, from 0 to 99 (more counts as 99). Choices
    /// with a higher percentage apply to this client. Draw the percentile once per channel.
    #[must_use]
    pub fn new(percentile: u32) -> Self {
        Self {
            language: "rust".to_owned(),
            hostname: None,
            percentile: percentile.min(99),
        }
    }

    /// The same, with a random percentile.
    #[must_use]
    pub fn drawn(randomness: &Randomness) -> Self {
        // Converting a float saturates at the range of the integer.
        Self::new((randomness.roll() * 100.0) as u32)
    }

    /// Sets the language, compared case-insensitively.
    #[must_use]
    pub fn language(mut self, name: impl Into<String>) -> Self {
        self.language = name.into();
        self
    }

    /// Sets the host name, as the system reports it, compared exactly.
    #[must_use]
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = Some(name.into());
        self
    }
}
