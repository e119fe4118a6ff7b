//! Counts of the last seconds, in a ring of parts.

use std::time::Duration;

/// The number of parts of a window.
pub(super) const PARTS: usize = 10;

/// Calls and retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) retries: u64,
}

/// The counts of the newest part and of the nine before it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    parts: [Counts; PARTS],
    /// Of all parts.
    sum: Counts,
    /// The length of a part.
    part: Duration,
    /// The number of the newest part since the start.
    newest: u128,
}

impl Window {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            parts: [Counts::default(); PARTS],
            sum: Counts::default(),
            // At least a tenth of a second: the window is at least one.
            part: window / PARTS as u32,
            newest: 0,
        }
    }

    fn at(&self, number: u128) -> usize {
        (number % PARTS as u128) as usize
    }

    /// Drops the parts that have left the window. A time before the newest part counts as in it:
    /// another thread was faster.
    pub(super) fn advance(&mut self, elapsed: Duration) {
        let now = elapsed.as_nanos() / self.part.as_nanos();
        let passed = now.saturating_sub(self.newest).min(PARTS as u128);
        for later in 1..=passed {
            let at = self.at(self.newest + later);
            let gone = std::mem::take(&mut self.parts[at]);
            self.sum.calls -= gone.calls;
            self.sum.retries -= gone.retries;
        }
        self.newest = self.newest.max(now);
    }

    pub(super) const fn counts(&self) -> Counts {
        self.sum
    }

    fn newest(&mut self) -> &mut Counts {
        let at = self.at(self.newest);
        &mut self.parts[at]
    }

    pub(super) fn add_call(&mut self) {
        self.newest().calls += 1;
        self.sum.calls += 1;
    }

    pub(super) fn add_retry(&mut self) {
        self.newest().retries += 1;
        self.sum.retries += 1;
    }

    /// A window of another length with the same rates, all counted in its newest part.
    pub(super) fn scaled(&self, from: Duration, to: Duration, elapsed: Duration) -> Self {
        let scale = |count: u64| {
            let scaled = u128::from(count) * to.as_nanos() / from.as_nanos();
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let mut window = Self::new(to);
        window.advance(elapsed);
        window.sum = Counts {
            calls: scale(self.sum.calls),
            retries: scale(self.sum.retries),
        };
        *window.newest() = window.sum;
        window
    }
}
