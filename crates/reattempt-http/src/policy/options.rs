//! Options that a program sets for its policies.

use reattempt::OnDeadline;
use reattempt::backoff::Randomness;

/// The program's own settings, which the document cannot change.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The source of randomness for jitter; the thread's generator by default.
    pub randomness: Randomness,
    /// What to do with a delay that would pass the deadline; [`OnDeadline::Cap`] by default.
    pub on_deadline: OnDeadline,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the source of randomness.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Sets what to do with a delay that would pass the deadline.
    #[must_use]
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }
}
