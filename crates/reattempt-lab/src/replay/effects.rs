//! The effects of a call that is followed.

use std::cell::{Cell, RefCell};

use reattempt::driver::CallEffects;
use reattempt::{AttemptRecord, CallDeadline, Failure, RetryThrottle, StopReason};

/// What a driver reads of a call, and tells.
pub(super) struct Effects<'a> {
    throttle: Option<&'a dyn RetryThrottle>,
    limit: Option<CallDeadline>,
    attempt: u32,
    paid: RefCell<&'a mut Option<Failure>>,
    pub(super) record: RefCell<Option<AttemptRecord>>,
    pub(super) refused: Cell<Option<StopReason>>,
}

impl CallEffects for Effects<'_> {
    fn throttle(&self) -> Option<&dyn RetryThrottle> {
        self.throttle
    }

    fn limit(&self) -> Option<CallDeadline> {
        self.limit
    }

    fn attempt(&self) -> u32 {
        self.attempt
    }

    fn record(&self, record: AttemptRecord) {
        if record.paid {
            **self.paid.borrow_mut() = record.failure;
        }
        *self.record.borrow_mut() = Some(record);
    }

    fn hedge_refused(&self, stopped: StopReason) {
        self.refused.set(Some(stopped));
    }
}

impl<'a> Effects<'a> {
    pub(super) fn new(
        throttle: Option<&'a dyn RetryThrottle>,
        limit: Option<CallDeadline>,
        attempt: u16,
        paid: &'a mut Option<Failure>,
    ) -> Self {
        Self {
            throttle,
            limit,
            attempt: attempt.into(),
            paid: RefCell::new(paid),
            record: RefCell::new(None),
            refused: Cell::new(None),
        }
    }
}
