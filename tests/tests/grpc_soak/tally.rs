//! Counts events, to prove that the soak exercised each of them.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) attempts: u64,
    pub(crate) retries: u64,
    pub(crate) hedges: u64,
    pub(crate) transparent: u64,
    pub(crate) successes: u64,
    pub(crate) failures: u64,
    pub(crate) at_zero: u64,
    pub(crate) at_most: u64,
    pub(crate) retries_held_back: u64,
    pub(crate) hedges_held_back: u64,
    pub(crate) stops: u64,
    pub(crate) pushbacks: u64,
    pub(crate) overflows: u64,
    pub(crate) cut_off: u64,
    pub(crate) attempts_timed_out: u64,
    pub(crate) calls_timed_out: u64,
    pub(crate) callers_left: u64,
    pub(crate) request_failures: u64,
}

impl Tally {
    /// Checks that each kind of event happened to at least one call in a thousand.
    pub(crate) fn assert_everything_happened(&self) {
        for (many, what) in [
            (self.retries, "retries"),
            (self.hedges, "hedges"),
            (self.transparent, "transparent retries"),
            (self.successes, "successes"),
            (self.failures, "failures"),
            (self.at_zero, "failures with no token left"),
            (self.at_most, "successes with the bucket full"),
            (self.retries_held_back, "retries held back"),
            (self.hedges_held_back, "hedges held back"),
            (self.stops, "stops"),
            (self.pushbacks, "pushbacks"),
            (self.overflows, "requests that outgrew their buffer"),
            (self.cut_off, "hedges given up for another"),
            (self.attempts_timed_out, "attempts that timed out"),
            (self.calls_timed_out, "calls that timed out"),
            (self.callers_left, "callers who left"),
            (self.request_failures, "requests that failed by themselves"),
        ] {
            assert!(many >= self.calls / 1000, "only {many} {what}");
        }
        assert!(self.attempts > self.calls);
    }
}
