//! Options that a program sets for its policies.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use reattempt::OnDeadline;
use reattempt::backoff::Randomness;

/// A clock of the program's own: see [`Options::clock`].
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Instant + Send + Sync>);

impl Clock {
    pub(super) fn now(&self) -> Instant {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// The program's own settings, which the document cannot change.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The source of randomness for jitter, admission and health; the thread's generator by
    /// default.
    pub randomness: Randomness,
    /// The clock of retry budgets and of admission, which count within a window, and of governors;
    /// the layers' by default. For simulators.
    pub clock: Option<Clock>,
    /// What to do with a delay that would pass the deadline, whatever the document says; `None`
    /// (the default) goes by the document.
    pub on_deadline: Option<OnDeadline>,
    /// The same where neither [`Options::on_deadline`] nor the document says it. `None` (the
    /// default) is [`OnDeadline::GiveUp`], except for retries under a classifier whose protocol
    /// caps ([`Classify::on_deadline`](reattempt::Classify::on_deadline)).
    pub default_on_deadline: Option<OnDeadline>,
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

    /// Sets the clock of retry budgets, governors and admission.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Some(Clock(Arc::new(clock)));
        self
    }

    /// Sets what to do with a delay that would pass the deadline; overrides the document's
    /// `onDeadline`.
    #[must_use]
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = Some(on_deadline);
        self
    }

    /// Sets what to do with a delay that would pass the deadline, where the document has no
    /// `onDeadline`.
    #[must_use]
    pub fn default_on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.default_on_deadline = Some(on_deadline);
        self
    }
}
