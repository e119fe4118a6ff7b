//! What a program adds to its policies.

use reattempt::OnDeadline;
use reattempt::backoff::Randomness;

/// The program's own settings, which the document cannot change.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Where the random numbers of jitter come from; the thread's generator by default.
    pub randomness: Randomness,
    /// What to do with a delay that does not fit before the deadline; [`OnDeadline::Cap`] by
    /// default.
    pub on_deadline: OnDeadline,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With random numbers from here.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// With another answer to delays that do not fit.
    #[must_use]
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }
}
